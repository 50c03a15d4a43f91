//! TOML: sections, dotted keys and inline tables.

use super::*;

const TABLE: &[&str] = &["mcp_servers"];

fn small(text: &str) -> String {
    let mut file = parsed(Syntax::Toml, text);
    let entry = Value::Table(vec![("c".to_owned(), Value::Flag(true))]);
    file.insert(TABLE, "m", &entry).unwrap_or_else(|error| panic!("{error}: {text}"));
    file.text().to_owned()
}

#[test]
fn entry_is_a_section() {
    let section = r#"[mcp_servers.mcpd]
command = "mcpd"
args = ["connect", "a b"]
env = { X_Y = "\"1\" ü" }
"#;
    assert_eq!(inserted(Syntax::Toml, "", TABLE), section);
    assert_eq!(inserted(Syntax::Toml, "\u{feff}", TABLE), format!("\u{feff}{section}"));
    assert_eq!(inserted(Syntax::Toml, "# mine\r\n", TABLE), format!("# mine\n\n{section}").replace('\n', "\r\n"));
    assert_eq!(inserted(Syntax::Toml, "a = 1", TABLE), format!("a = 1\n\n{}", section.trim_end()));
    let mut file = parsed(Syntax::Toml, "");
    let text = |text: &str| Value::Text(text.to_owned());
    file.insert(&["a b", "x.y"], "\"", &Value::Table(vec![("ü".to_owned(), text("\u{7f}\n\\"))])).expect("an edit");
    assert_eq!(file.text(), "[\"a b\".\"x.y\".\"\\\"\"]\n\"ü\" = \"\\u007F\\n\\\\\"\n");
}

/// A text without an entry, and with it.
const PLACES: &[(&str, &str)] = &[
    // Behind the last section of its table.
    (
        "[mcp_servers.a]\nc = 2 # two\n\n# of o\n[o]\nx = 1\n",
        "[mcp_servers.a]\nc = 2 # two\n\n[mcp_servers.m]\nc = true\n\n# of o\n[o]\nx = 1\n",
    ),
    (
        "[mcp_servers.a]\nc = 2\n# of o\n[o]\nx = 1\n[mcp_servers.a.env]\nA = \"1\"\n# d = 2\n\n\n[p]\n",
        "[mcp_servers.a]\nc = 2\n# of o\n[o]\nx = 1\n[mcp_servers.a.env]\nA = \"1\"\n# d = 2\n\n[mcp_servers.m]\nc = true\n\n\n[p]\n",
    ),
    (
        "[mcp_servers.a]\nc = 2\n# of o\n[o]\nx = 1",
        "[mcp_servers.a]\nc = 2\n\n[mcp_servers.m]\nc = true\n# of o\n[o]\nx = 1",
    ),
    // Other ways to write the table.
    ("[mcp_servers]\na = { c = 2 }\n", "[mcp_servers]\na = { c = 2 }\n\n[mcp_servers.m]\nc = true\n"),
    ("[mcp_servers]\n# none\n", "[mcp_servers]\n# none\n\n[mcp_servers.m]\nc = true\n"),
    ("mcp_servers.a.c = 2\nx = 1\n[o]\n", "mcp_servers.a.c = 2\nx = 1\n\n[mcp_servers.m]\nc = true\n[o]\n"),
    ("mcp_servers = { a = { c = 2 } }\nx = 1\n", "mcp_servers = { a = { c = 2 }, m = { c = true } }\nx = 1\n"),
    ("mcp_servers = {a = 1, } # all\n", "mcp_servers = {a = 1, m = { c = true }, } # all\n"),
    ("\"mcp_servers\" = {}\n", "\"mcp_servers\" = { m = { c = true } }\n"),
    ("[\"mcp_servers\".'a']\nc = 2\n\n\n", "[\"mcp_servers\".'a']\nc = 2\n\n[mcp_servers.m]\nc = true\n\n\n"),
    // No table.
    ("[[o]]\nx = 1 \t\n", "[[o]]\nx = 1 \t\n\n[mcp_servers.m]\nc = true\n"),
];

#[test]
fn entry_is_added_and_leaves_no_trace_when_it_is_removed() {
    for (text, with) in PLACES {
        for (text, with) in [
            ((*text).to_owned(), (*with).to_owned()),
            (text.replace('\n', "\r\n"), with.replace('\n', "\r\n")),
            (format!("\u{feff}{text}"), format!("\u{feff}{with}")),
        ] {
            assert_eq!(small(&text), with, "{text}");
            if !text.contains("= {}") {
                assert_undone(Syntax::Toml, &text, TABLE);
            }
        }
    }
}

#[test]
fn entry_is_replaced_in_its_place() {
    for (text, with) in [
        (
            "# of m\n[mcp_servers.m]\nc = 2 # two\nd = 3 # three\n\n[o]\nx = 1\n\n[mcp_servers.m.env]\nA = \"\"\n\n[p]\n",
            "# of m\n[mcp_servers.m]\nc = true # three\n\n[o]\nx = 1\n\n[p]\n",
        ),
        ("[mcp_servers]\nm = { c = 2 } # m\na = { c = 2 }\n", "[mcp_servers]\nm = { c = true } # m\na = { c = 2 }\n"),
        ("[mcp_servers]\nm.c = 2\nm.d = 3\na.c = 2\n", "[mcp_servers]\nm = { c = true }\na.c = 2\n"),
        ("mcp_servers = { m = { c = 2, d = 1 }, a = 1 }\n", "mcp_servers = { m = { c = true }, a = 1 }\n"),
        ("mcp_servers.m.c = 2\n", "mcp_servers.m = { c = true }\n"),
        ("[mcp_servers.m]\nc = true # same\n", "[mcp_servers.m]\nc = true # same\n"),
    ] {
        assert_eq!(small(text), with);
        assert_eq!(small(&text.replace('\n', "\r\n")), with.replace('\n', "\r\n"));
    }
}

#[test]
fn entry_is_removed_with_its_comments() {
    for (text, without) in [
        ("[mcp_servers.a]\nc = true\n", ""),
        ("x = 1\n\n# of a\n# more\n[mcp_servers.a]\nc = true\n# d = 2\n\n# of o\n[o]\n", "x = 1\n\n# of o\n[o]\n"),
        ("# head\n\n[mcp_servers.a]\nc = true\n[mcp_servers.b]\nc = 2", "# head\n[mcp_servers.b]\nc = 2"),
        ("[mcp_servers.a]\nc = true\n\n[mcp_servers.b]\nc = 2", "[mcp_servers.b]\nc = 2"),
        (
            "[mcp_servers.a]\nc = true\n\n[o]\nx = 1\n\n[mcp_servers.a.env]\nA = \"\"\n\n[mcp_servers.a.env.deep]\n[p]\n",
            "[o]\nx = 1\n[p]\n",
        ),
        ("[mcp_servers]\n# of a\na = { c = true } # a\nb = { c = 2 }\n", "[mcp_servers]\nb = { c = 2 }\n"),
        ("[mcp_servers]\na.c = true\nb.c = 2\na.d = 3\n", "[mcp_servers]\nb.c = 2\n"),
        ("mcp_servers.a.c = true\nb = 2\n", "b = 2\n"),
        ("mcp_servers.a.c = true\n\n[mcp_servers.a.env]\nA = \"\"\n\n[o]\n", "\n[o]\n"),
        ("mcp_servers = { a = { c = true }, b = 2 }\n", "mcp_servers = { b = 2 }\n"),
        ("mcp_servers = { b = 2, a = { c = true } }\n", "mcp_servers = { b = 2 }\n"),
        ("mcp_servers = { a = { c = true } }\n", "mcp_servers = { }\n"),
        ("mcp_servers = { b = 2, a = [1], c = 3 }\n", "mcp_servers = { b = 2, c = 3 }\n"),
    ] {
        assert_eq!(removed(Syntax::Toml, text, TABLE, "a"), without);
        let (text, without) = (text.replace('\n', "\r\n"), without.replace('\n', "\r\n"));
        assert_eq!(removed(Syntax::Toml, &text, TABLE, "a"), without);
    }
}

#[test]
fn entry_comes_back_into_a_changed_file() {
    let sections = "x = 1\n\n# of b\n[mcp_servers.b]\nc = true\n\n[o]\n\n[mcp_servers.b.env]\nA = \"\"\n\n[p]\n";
    let dotted = "[mcp_servers]\na.c = true\nb.c = 2 # two\n";
    let inline = "mcp_servers = { b = { c = 2 } }\n";
    for (text, changed, with) in [
        (
            sections,
            "y = 1\n\n[mcp_servers.z]\n",
            "y = 1\n\n[mcp_servers.z]\n\n# of b\n[mcp_servers.b]\nc = true\n\n[mcp_servers.b.env]\nA = \"\"\n",
        ),
        (
            sections,
            "x = 1\ny = 2\n\n[p]\n",
            "x = 1\ny = 2\n\n# of b\n[mcp_servers.b]\nc = true\n\n[mcp_servers.b.env]\nA = \"\"\n\n[p]\n",
        ),
        (sections, "", "# of b\n[mcp_servers.b]\nc = true\n\n[mcp_servers.b.env]\nA = \"\"\n"),
        (dotted, "[mcp_servers]\n\n[o]\n", "[mcp_servers]\nb.c = 2 # two\n\n[o]\n"),
        (dotted, "[o]\n", "[o]\n\n[mcp_servers]\nb.c = 2 # two\n"),
        (inline, "mcp_servers = {a = 1}\n", "mcp_servers = {a = 1, b = { c = 2 }}\n"),
        (inline, "o = 1\n", "o = 1\n\n[mcp_servers]\nb = { c = 2 }\n"),
        (inline, "[mcp_servers.a]\n", "[mcp_servers.a]\n\n[mcp_servers]\nb = { c = 2 }\n"),
    ] {
        let mut file = parsed(Syntax::Toml, text);
        let removed = file.remove(TABLE, "b").expect("an edit").expect("an entry");
        let mut file = parsed(Syntax::Toml, changed);
        file.restore(&removed).unwrap_or_else(|error| panic!("{error}: {changed}"));
        assert_eq!(file.text(), with);
    }
}

#[test]
fn entries_are_found_by_their_path() {
    let text = "[mcp_servers.\"a b\"]\nc = true\n\n[o]\n[mcp_servers.x]\n[mcp_servers.'a b'.env]\nA = ''\n[[l]]\n";
    let mut file = parsed(Syntax::Toml, text);
    assert_eq!(file.names(TABLE), ["a b", "x"]);
    let entry = "[mcp_servers.\"a b\"]\nc = true\n\n[mcp_servers.'a b'.env]\nA = ''";
    assert_eq!(file.entry(TABLE, "a b").as_deref(), Some(entry));
    assert_eq!(parsed(Syntax::Toml, "a = { b = [ 1 ] }").entry(&["a"], "b").as_deref(), Some("[ 1 ]"));
    let error = file.insert(&["l"], "m", &mcpd());
    assert_eq!(error, Err(EditError::NotATable(vec!["l".to_owned()])));
    assert_eq!(file.remove(&["l"], "m").map(|_| ()), Err(EditError::NotATable(vec!["l".to_owned()])));
    assert_eq!(file.text(), text);
}

#[test]
fn unusual_inline_tables_are_refused() {
    for text in ["t = { # c\n a = 1 }", "t = { a.x = 1, a.y = 2 }"] {
        let mut file = parsed(Syntax::Toml, text);
        assert!(matches!(file.remove(&["t"], "a"), Err(EditError::Unsupported(_))), "{text}");
        assert_eq!(file.text(), text);
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let dotted = vec!["a"; 70].join(".");
    for text in ["a = ".to_owned() + &"[".repeat(100_000), format!("{dotted} = {{ {dotted} = 1 }}")] {
        assert!(ClientText::parse(Syntax::Toml, &text).is_err());
    }
}

#[test]
fn error_names_its_place() {
    let error = ClientText::parse(Syntax::Toml, "a = 1\r\nü = x\n").expect_err("no key");
    assert_eq!(error.line, 2, "{error}");
}
