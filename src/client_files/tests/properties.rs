//! Properties of edits of texts that are put together from random parts.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const NAMES: [&str; 5] = ["a", "b c", "ü", "d.e", "x"];

/// Random choices, which shrink to the first ones.
struct Choices<'c> {
    bytes: &'c [u8],
    at: usize,
}

impl Choices<'_> {
    fn below(&mut self, count: usize) -> usize {
        self.at += 1;
        usize::from(self.bytes.get(self.at - 1).copied().unwrap_or(0)) % count
    }

    fn of<'o>(&mut self, options: &[&'o str]) -> &'o str {
        options[self.below(options.len())]
    }

    /// Some of the names, in any order.
    fn names(&mut self) -> Vec<&'static str> {
        let mut names = NAMES.to_vec();
        let count = self.below(NAMES.len() + 1);
        (0..count).map(|_| names.remove(self.below(names.len()))).collect()
    }
}

/// A valid file with the table `t`, and perhaps others.
fn file(syntax: Syntax, choices: &mut Choices<'_>) -> String {
    let mut text = match syntax {
        Syntax::Json => json(choices),
        Syntax::Toml => toml(choices),
        Syntax::Yaml => yaml(choices),
    };
    match choices.below(4) {
        1 => text = text.replace('\n', "\r\n"),
        2 => {
            let lines: Vec<_> = text.split('\n').map(str::to_owned).collect();
            let ends = lines.iter().map(|line| format!("{line}{}", choices.of(&["\n", "\r\n"])));
            text = ends.collect::<String>().trim_end().to_owned();
        }
        3 => text = text.trim_end().to_owned(),
        _ => {}
    }
    format!("{}{text}", choices.of(&["", "\u{feff}"]))
}

fn json(choices: &mut Choices<'_>) -> String {
    const BLANKS: [&str; 9] = ["", " ", "\n", "\n  ", "\n\t", " // c\n", " /* c */ ", "\n\n  // c\n  ", " /* c\n */"];
    const VALUES: [&str; 6] = ["1", "{}", "{ \"a\": [1, 2] }", "[\n    1\n  ]", "'it\\'s'", "{\n    x: +.5, // c\n  }"];
    let object = |choices: &mut Choices<'_>, names: &[&str], value: &mut dyn FnMut(&mut Choices<'_>) -> String| {
        let mut text = "{".to_owned();
        for (at, name) in names.iter().enumerate() {
            let comma = if at + 1 < names.len() { "," } else { choices.of(&["", ","]) };
            text += &format!("{}\"{name}\":{}", choices.of(&BLANKS), choices.of(&[" ", "", "\n    "]));
            text += &format!("{}{}{comma}", value(choices), choices.of(&["", "", " ", " /* c */", " // c\n"]));
        }
        text + choices.of(&BLANKS) + "}"
    };
    let names = choices.names();
    let table = object(choices, &names, &mut |choices| choices.of(&VALUES).to_owned());
    let around: &[&str] = [&["t"][..], &["o", "t"], &["t", "o"]][choices.below(3)];
    let mut at = 0;
    let root = object(choices, around, &mut |choices| {
        at += 1;
        if around[at - 1] == "t" { table.clone() } else { choices.of(&VALUES).to_owned() }
    });
    format!("{}{root}{}", choices.of(&BLANKS), choices.of(&BLANKS))
}

fn toml(choices: &mut Choices<'_>) -> String {
    const BETWEEN: [&str; 6] = ["", "\n", "# c\n", "\n# c\n", "# c\n\n", "\n\n"];
    let (mut root, mut table, mut sections) = (String::new(), String::new(), Vec::new());
    if choices.below(8) == 0 {
        let names = choices.names();
        let members =
            names.iter().map(|name| format!("\"{name}\" = {}", choices.of(&["1", "{}", "{ x = [1], y = 2 }"])));
        let members = members.collect::<Vec<_>>().join(", ");
        return format!("{}t = {{ {members} }}{}\n[o]\n", choices.of(&BETWEEN), choices.of(&["", " # c"]));
    }
    // A table has either a header or dotted keys.
    let is_dotted = choices.below(3) == 0;
    for name in choices.names() {
        let comment = choices.of(&["", " # c"]);
        match choices.below(6) {
            0 => sections.push(format!("[t.\"{name}\"]{comment}\nx = 1\n")),
            1 => {
                sections.push(format!("[t.\"{name}\"]\nx = [\n  1,\n]{comment}\ny = '''\n# text\n\n[t]'''\n"));
                sections.insert(choices.below(sections.len()), format!("[t.'{name}'.env]{comment}\nA = \"1\"\n"));
            }
            2 if !is_dotted => table += &format!("\"{name}\" = {{ x = 1 }}{comment}\n"),
            3 if !is_dotted => {
                table += &format!("\"{name}\".x = 1{comment}\n");
                table.insert_str(0, &format!("\"{name}\".y.z = 1\n"));
            }
            2..=4 if is_dotted => root += &format!("t.'{name}'.x = 1{comment}\n"),
            _ => {
                sections.push(format!("[[t.\"{name}\".l]]{comment}\nx = 1\n"));
                sections.push(format!("[[t.\"{name}\".l]]\nx = 2\n"));
            }
        }
        table += choices.of(&["", "", "# c\n", "\n"]);
    }
    sections.insert(choices.below(sections.len() + 1), "[o]\nx = 1\n".to_owned());
    if !is_dotted && !table.is_empty() {
        sections.insert(choices.below(sections.len() + 1), format!("[t]\n{table}"));
    }
    let sections: String = sections.iter().map(|section| format!("{}{section}", choices.of(&BETWEEN))).collect();
    format!("{}{root}{}{sections}{}", choices.of(&BETWEEN), choices.of(&["", "y = 1\n"]), choices.of(&BETWEEN))
}

fn yaml(choices: &mut Choices<'_>) -> String {
    const VALUES: [&str; 9] = [
        " 1 # c",
        "",
        " # c\n    x: 1\n    y:\n    - 1\n    -\n",
        " {x: [1,\n    2]} # c",
        " |-\n    # text\n\n    - text",
        " \"a # b\n    c\"",
        " &n\n    x: 'it''s' # c\n    # deep",
        "\n    - x: 1\n      y: 2",
        " plain\n    text",
    ];
    const BETWEEN: [&str; 6] = ["", "", "\n", "  # c\n", "\n  # c\n", "# outer\n"];
    let names = choices.names();
    let mut table = String::new();
    for name in &names {
        let key = choices.of(&["\"", "'"]);
        table += &format!("{}  {key}{name}{key}:{}\n", choices.of(&BETWEEN), choices.of(&VALUES));
    }
    let table = match names.is_empty() {
        true => choices.of(&["t: {}\n", "t:\n", "t: {} # c\n", "t: # c\n  # c\n"]).to_owned(),
        false => format!("t:{}\n{table}", choices.of(&["", " # c", " &t"])),
    };
    let (before, behind) =
        (choices.of(&["", "---\n", "o: 1\n", "# c\n\n"]), choices.of(&["", "z:\n  y: 1\n", "\n# c\n"]));
    format!("{before}{table}{}{behind}", choices.of(&BETWEEN))
}

fn syntax() -> impl Strategy<Value = Syntax> {
    prop_oneof![Just(Syntax::Json), Just(Syntax::Toml), Just(Syntax::Yaml)]
}

/// A file with the table `t`, to edit.
fn client_text() -> impl Strategy<Value = (ClientText, u8)> {
    (syntax(), vec(any::<u8>(), 60), any::<u8>()).prop_map(|(syntax, bytes, pick)| {
        let text = file(syntax, &mut Choices { bytes: &bytes, at: 0 });
        (parsed(syntax, &text), pick)
    })
}

const T: &[&str] = &["t"];

/// The source texts of all entries but one. What stands between two parts of an entry does not count.
fn others(file: &ClientText, but: &str) -> Vec<(String, Option<Vec<String>>)> {
    let names = file.names(T).into_iter().filter(|name| name != but);
    let lines = |text: Cow<'_, str>| {
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
    };
    names.map(|name| (name.clone(), file.entry(T, &name).map(lines))).collect()
}

proptest! {
    #[test]
    fn inserted_entry_is_removed_without_trace((file, _) in client_text()) {
        let (mut edited, before) = (file.clone(), others(&file, "mcpd"));
        edited.insert(T, "mcpd", &mcpd()).map_err(|error| TestCaseError::fail(format!("{error}: {:?}", file.text())))?;
        prop_assert!(edited.means(T, "mcpd", &mcpd()));
        prop_assert_eq!(&others(&edited, "mcpd"), &before);
        let with = edited.text().to_owned();
        let removed = edited.remove(T, "mcpd").map_err(|error| TestCaseError::fail(format!("{error}: {with:?}")))?;
        if before.is_empty() {
            prop_assert!(edited.names(T).is_empty());
        } else {
            prop_assert_eq!(edited.text(), file.text(), "{:?}", with);
        }
        edited.restore(&removed.expect("an entry")).map_err(|error| TestCaseError::fail(format!("{error}: {with:?}")))?;
        prop_assert_eq!(edited.text(), with);
    }

    #[test]
    fn removed_entry_comes_back((file, pick) in client_text()) {
        let names = file.names(T);
        if names.is_empty() {
            return Ok(());
        }
        let name = &names[usize::from(pick) % names.len()];
        let mut edited = file.clone();
        let removed = edited.remove(T, name).map_err(|error| TestCaseError::fail(format!("{error}: {:?}", file.text())))?;
        let (removed, without) = (removed.expect("an entry"), edited.text().to_owned());
        prop_assert_eq!(others(&edited, name), others(&file, name), "{:?}", without);
        let mut again = edited.clone();
        again.restore(&removed).map_err(|error| TestCaseError::fail(format!("{error}: {without:?}")))?;
        prop_assert_eq!(again.text(), file.text(), "{:?}", without);

        // The next entry is gone, and there is a new one.
        let next = edited.names(T).first().cloned();
        if let Some(next) = &next {
            edited.remove(T, next).map_err(|error| TestCaseError::fail(format!("{error}: {without:?}")))?;
        }
        edited.insert(T, "mcpd", &mcpd()).map_err(|error| TestCaseError::fail(format!("{error}: {without:?}")))?;
        let changed = edited.text().to_owned();
        edited.restore(&removed).map_err(|error| TestCaseError::fail(format!("{error}: {changed:?}")))?;
        prop_assert!(edited.names(T).contains(name) && edited.means(T, "mcpd", &mcpd()));
    }

    #[test]
    fn replaced_entry_leaves_the_others((file, pick) in client_text()) {
        let names = file.names(T);
        if let Some(name) = names.get(usize::from(pick) % names.len().max(1)) {
            let mut edited = file.clone();
            edited.insert(T, name, &mcpd()).map_err(|error| TestCaseError::fail(format!("{error}: {:?}", file.text())))?;
            prop_assert!(edited.means(T, name, &mcpd()));
            prop_assert_eq!(others(&edited, name), others(&file, name));
        }
    }

    #[test]
    fn all_that_an_entry_replaced_comes_back((file, _) in client_text()) {
        let (mut edited, mut taken) = (file.clone(), Vec::new());
        let failed = |error, text: &str| TestCaseError::fail(format!("{error}: {text:?}"));
        edited.insert(T, "mcpd", &mcpd()).map_err(|error| failed(error, file.text()))?;
        for name in file.names(T) {
            let before = edited.text().to_owned();
            taken.extend(edited.remove(T, &name).map_err(|error| failed(error, &before))?);
        }
        prop_assert_eq!(edited.names(T), ["mcpd"]);
        for removed in taken.iter().rev() {
            let before = edited.text().to_owned();
            edited.restore(removed).map_err(|error| failed(error, &before))?;
        }
        edited.remove(T, "mcpd").map_err(|error| failed(error, file.text()))?;
        if !taken.is_empty() {
            prop_assert_eq!(edited.text(), file.text());
        }
    }

    #[test]
    fn no_text_makes_an_edit_panic(
        syntax in syntax(),
        parts in vec(prop_oneof![
            Just("{"), Just("}"), Just("["), Just("]"), Just("\"t\""), Just("t"), Just("'a'"), Just("a"), Just(":"), Just(": "),
            Just("="), Just("."), Just(","), Just("\n"), Just("\r"), Just("\r\n"), Just("  "), Just("\t"), Just("//"), Just("/*"),
            Just("*/"), Just("#"), Just(" # "), Just("- "), Just("? "), Just("&x "), Just("*x"), Just("|\n"), Just("---\n"),
            Just("[t.a]\n"), Just("t:\n  a:"), Just("{\"t\": {\"a\": "), Just("1"), Just("é"), Just("\u{2028}"), Just("\u{feff}"), Just("\0"),
        ], 0..12),
        text in any::<String>(),
        is_random in any::<bool>(),
    ) {
        let text = if is_random { text } else { parts.concat() };
        if let Ok(file) = ClientText::parse(syntax, &text) {
            for name in ["a", "m"] {
                let mut edited = file.clone();
                if edited.insert(T, name, &mcpd()).is_err() {
                    prop_assert_eq!(edited.text(), &text);
                }
                let mut edited = file.clone();
                let _ = edited.entry(T, name);
                match edited.remove(T, name) {
                    Ok(Some(removed)) => {
                        prop_assert!(edited.restore(&removed).is_ok());
                        prop_assert_eq!(edited.text(), &text);
                    }
                    _ => prop_assert_eq!(edited.text(), &text),
                }
            }
        }
    }
}
