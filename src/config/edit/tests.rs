//! What is added and taken out, as tables; that nothing else is touched, as properties.

mod writing;

use proptest::prelude::*;

use super::*;

const X: &str = "[servers.x]\ncommand = \"y\"\n";

fn x() -> [(&'static str, Setting); 1] {
    [("command", "y".into())]
}

#[test]
fn a_server_is_added_at_the_end_in_our_style() {
    let list = |items: &[&str]| Setting::List(items.iter().map(|item| (*item).to_owned()).collect());
    let table = |members: &[(&str, &str)]| {
        Setting::Table(members.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    };
    let long = "x".repeat(60);
    let settings = [
        ("command", "np\"x".into()),
        ("args", list(&["-y", "a\\b\n\u{7f}é", "${HOME}/notes"])),
        ("cwd", Setting::Text(long.clone())),
        ("env", table(&[("A", "1"), ("B", &long)])),
        ("deny", list(&[&long, &long])),
        ("headers", table(&[("X y", "z")])),
        ("prompts", table(&[])),
        ("log_arguments", Setting::Flag(true)),
    ];
    let expected = format!(
        "# mine\n\n[servers.files]\ncommand = \"np\\\"x\"\nargs = [\"-y\", \"a\\\\b\\n\\u007Fé\", \"${{HOME}}/notes\"]\n\
         cwd = \"{long}\"\nenv = {{ A = \"1\", B = \"{long}\" }}\ndeny = [\n    \"{long}\",\n    \"{long}\",\n]\n\
         headers = {{ \"X y\" = \"z\" }}\nprompts = {{}}\nlog_arguments = true\n"
    );
    assert_eq!(add("# mine\n", "files", &settings).as_deref(), Ok(&*expected));
    let wide = [("command", "a".into()), ("env", table(&[("A", &long), ("B", &long)])), ("cwd", "b".into())];
    let expected =
        format!("[servers.x]\ncommand = \"a\"\ncwd = \"b\"\n\n[servers.x.env]\nA = \"{long}\"\nB = \"{long}\"\n");
    assert_eq!(add("", "x", &wide).as_deref(), Ok(&*expected));
    assert_eq!(remove(&expected, "x").as_deref(), Ok(""));
}

#[test]
fn the_ends_of_lines_and_of_the_file_stay_as_they_are() {
    let wide = X.replace('\n', "\r\n");
    for (text, expected) in [
        ("", X.to_owned()),
        ("\u{feff}", format!("\u{feff}{X}")),
        ("\u{feff}\u{feff}", format!("\u{feff}\u{feff}{X}")),
        ("\n", format!("\n\n{X}")),
        ("a = 1", format!("a = 1\n\n{}", X.trim_end())),
        ("a = 1\r\n", format!("a = 1\r\n\r\n{wide}")),
        ("a = 1\r\n# c", format!("a = 1\r\n# c\r\n\r\n{}", wide.trim_end())),
        ("[servers]\nb.command = 'z'\n", format!("[servers]\nb.command = 'z'\n\n{X}")),
    ] {
        assert_eq!(add(text, "x", &x()), Ok(expected.clone()), "{text:?}");
        assert_eq!(remove(&expected, "x").as_deref(), Ok(text));
    }
}

#[test]
fn a_server_goes_with_its_own_comments_and_one_blank_line() {
    for (text, left) in [
        ("[servers.x]\ncommand = 'a'\n\n[servers.b]\ncommand = 'c'\n", "[servers.b]\ncommand = 'c'\n"),
        (
            "# all\n\n# x\n[servers.x] # y\ncommand = 'a'\n# args = []\n\n# b\n[servers.b]\n",
            "# all\n\n# b\n[servers.b]\n",
        ),
        ("[servers.x]\n\n# free\n\n[servers.b]\n", "# free\n\n[servers.b]\n"),
        ("[a]\nb = 1\n[servers.x]\n# of b\n[servers.b]\n", "[a]\nb = 1\n# of b\n[servers.b]\n"),
        ("[servers.x]\n[a]\nb = 1\n\n[servers.x.env]\nA = '1'\n", "[a]\nb = 1\n"),
        ("[servers.x]\nargs = [\n# in it\n'a',\n]\n\n# between\n\n[servers.x.env]\nA = '''\n[servers.b]\n'''\n", ""),
        ("servers.x.command = 'a'\nservers.b.command = 'c'\nservers.x.args = []\n", "servers.b.command = 'c'\n"),
        (
            "[servers]\n# of b\nb = { command = 'c' }\n# of x\nx = { command = 'a' }\n# end\n",
            "[servers]\n# of b\nb = { command = 'c' }\n# end\n",
        ),
        ("[servers]\nx.env.A = 'a'\n\n[daemon]\n", "[servers]\n\n[daemon]\n"),
        ("servers = { x = { command = 'a' }, b = { command = 'c' } }\n", "servers = { b = { command = 'c' } }\n"),
        ("servers = { b = { command = 'c' }, x = { command = 'a' } }\n", "servers = { b = { command = 'c' }}\n"),
        ("servers = { x.command = 'a', x.args = [] }\n", "servers = {}\n"),
        ("a = '''\n# no comment'''\n[servers.\"x\"]\n", "a = '''\n# no comment'''\n"),
        ("a = '''\n\n'''\n[servers.x]\ncommand = '''\n\n'''", "a = '''\n\n'''"),
        ("[servers.x]\r\ncommand = 'a'\r\n\r\n[servers.b]", "[servers.b]"),
    ] {
        assert_eq!(remove(text, "x").as_deref(), Ok(left), "{text}");
    }
}

#[test]
fn impossible_edit_is_an_error() {
    let unknown = |name: &str, nearest: Option<&str>| EditError::Unknown {
        name: name.to_owned(),
        nearest: nearest.map(str::to_owned),
    };
    assert_eq!(add(X, "x", &x()), Err(EditError::Exists("x".to_owned())));
    for text in ["servers = {}", "servers = 1", "servers = []", "[[servers]]\n"] {
        assert_eq!(add(text, "x", &x()), Err(EditError::NoTables), "{text}");
    }
    for text in ["[", "a = 1\na = 2\n", "{\"mcpServers\": {}}"] {
        assert_eq!(add(text, "x", &x()), Err(EditError::Syntax), "{text}");
        assert_eq!(remove(text, "x"), Err(EditError::Syntax), "{text}");
    }
    assert_eq!(remove("[servers.files]\n", "file"), Err(unknown("file", Some("files"))));
    assert_eq!(remove("", "file"), Err(unknown("file", None)));
    assert_eq!(unknown("file", Some("files")).to_string(), "there is no server `file`: did you mean `files`?");
    assert_eq!(remove("servers = { x.a = 1, b.a = 1, x.b = 1 }", "x").as_deref(), Ok("servers = { b.a = 1}"));
    assert_eq!(names("[servers.b]\n[daemon]\n[servers.a]\n"), Ok(vec!["b".to_owned(), "a".to_owned()]));
}

/// Parts of a configuration; each can stand after any other, if it is there once.
const PARTS: &[&str] = &[
    "# a comment\n",
    "\n",
    "  \n",
    "[daemon] # of it\nwatch = true\n",
    "[servers.a]\ncommand = 'a'\n# args = []\n",
    "# of b\n[servers.b]\ncommand = \"b\"\nargs = [\n  'c', # why\n\n]\n",
    "[servers.b.env]\nA = '''\n# no comment\n[servers.x]\n'''\n",
    "[servers.c]\nenv.A = '1'\nenv.B = '2'\n",
    "[servers.d-e.env]\n\"odd key\" = '#'\n",
    "[defaults]\n\t# indented\n",
];

/// What can only stand first.
const HEADS: &[&str] =
    &["", "\u{feff}", "\u{feff}\n", "servers.f.command = 'f'\n", "[servers]\ng = { command = 'g' }\n# h\n"];

fn configuration() -> impl Strategy<Value = String> {
    let order = proptest::sample::subsequence((0..PARTS.len()).collect::<Vec<_>>(), 0..=PARTS.len()).prop_shuffle();
    let comments = proptest::collection::vec(0..3usize, 0..4);
    (0..HEADS.len(), order, comments, any::<bool>(), any::<bool>()).prop_map(|(head, order, more, wide, ended)| {
        let parts = order.iter().chain(&more).map(|part| PARTS[*part]);
        let text: String = [HEADS[head]].into_iter().chain(parts).collect();
        let text = if ended { text } else { text.trim_end_matches('\n').to_owned() };
        if wide { text.replace('\n', "\r\n") } else { text }
    })
}

proptest! {
    #[test]
    fn what_was_added_is_removed_without_a_trace(text in configuration(), value in ".{0,120}", many in 0..4usize) {
        let table = (0..many).map(|n| (format!("K{n}"), value.clone())).collect();
        let settings = [("command", Setting::Text(value.clone())), ("env", Setting::Table(table)), ("args", Setting::List(vec![value; many]))];
        let added = add(&text, "x", &settings);
        prop_assert!(added.as_ref().is_ok_and(|added| added.starts_with(&text)), "{:?}", added);
        prop_assert_eq!(remove(&added.expect("added"), "x"), Ok(text));
    }

    #[test]
    fn of_whatever_is_taken_for_a_configuration_the_same_holds(text in "[a-z.=\\[\\]{}'\"# \t\r\n\u{feff}-]{0,40}") {
        if let Ok(added) = add(&text, "x", &x()) {
            // Mixed line ends become alike.
            let unix = |text: &str| text.replace("\r\n", "\n");
            prop_assert_eq!(remove(&added, "x").map(|left| unix(&left)), Ok(unix(&text)));
        }
    }

    #[test]
    fn removing_a_server_leaves_all_others(text in configuration()) {
        let known = names(&text).expect("a configuration");
        for name in &known {
            let left = remove(&text, name).map(|left| names(&left));
            let mut expected: Vec<_> = known.iter().filter(|other| *other != name).cloned().collect();
            let mut found = left.expect("removed").expect("a configuration");
            expected.sort();
            found.sort();
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn changed_keys_preserve_comments_and_layout() {
    for (before, after) in [
        ("[servers.x]\ncommand = 'y'", "[servers.x]\ncommand = 'y'\nenabled = false"),
        ("[servers.x]\r\ncommand = 'y' # c\r\n", "[servers.x]\r\ncommand = 'y' # c\r\nenabled = false\r\n"),
        ("[servers.x]\ncommand = 'y'\n# c\n[a]\n", "[servers.x]\ncommand = 'y'\nenabled = false\n# c\n[a]\n"),
        ("[servers]\nx = { command = 'y' }\n", "[servers]\nx = { command = 'y' , enabled = false }\n"),
        ("[servers]\nx.command = 'y'\n", "[servers]\nx.command = 'y'\nx.enabled = false\n"),
        ("[servers.x]\nenabled = true # c\n", "[servers.x]\nenabled = false # c\n"),
    ] {
        assert_eq!(set_enabled(before, "x", false).as_deref(), Ok(after));
        assert_eq!(set_enabled(after, "x", false).as_deref(), Ok(after));
        assert_eq!(set_enabled(after, "x", true).as_deref(), Ok(before));
    }
    for (before, after) in [
        ("[servers.x]\n", "[servers.x]\ndeny = [\"t\"]\n"),
        ("[servers.x]\ndeny = ['a'] # c\n", "[servers.x]\ndeny = ['a', \"t\"] # c\n"),
        ("[servers.x]\ndeny = [\n  'a', # c\n  'b',\n]\n", "[servers.x]\ndeny = [\n  'a', # c\n  'b',\n  \"t\",\n]\n"),
        ("[servers.x]\ndeny = [\n  'a'\n]\n", "[servers.x]\ndeny = [\n  'a',\n  \"t\"\n]\n"),
    ] {
        assert_eq!(set_denied(before, "x", "t", true).as_deref(), Ok(after));
        assert_eq!(set_denied(after, "x", "t", true).as_deref(), Ok(after));
        assert_eq!(set_denied(after, "x", "u", false).as_deref(), Ok(after));
        let parsed = |text: &str| text.parse::<DocumentMut>().expect("TOML").to_string();
        assert_eq!(set_denied(after, "x", "t", false).map(|text| parsed(&text)).as_deref(), Ok(before));
    }
    assert_eq!(
        set_denied("[servers.x]\ndeny = ['t', 'u']\n", "x", "t", false).as_deref(),
        Ok("[servers.x]\ndeny = ['u']\n")
    );
    assert_eq!(set_denied("[servers.x]\n", "x", "a[*", true).as_deref(), Ok("[servers.x]\ndeny = [\"a[[][*]\"]\n"));
    assert!(matches!(set_enabled("", "x", true), Err(EditError::Unknown { .. })));
}
