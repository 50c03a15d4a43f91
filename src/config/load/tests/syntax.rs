//! Text that is no TOML or JSON.

use super::*;

#[test]
fn syntax_errors_have_a_place_and_advice() {
    check("[servers.files]\ncommand = ", &["2:11 a value is missing | …"]);
    check("[servers.files", &["1:15 unclosed table… | …"]);
    check("a = \"x", &["1:7 invalid basic string… | close the text…"]);
    check("a = [1,", &["1:5 this list is not closed | close the list with `]`"]);
    check("a = [1\n[b]\n", &["1:5 this list is not closed | close the list with `]`"]);
    check("[t]\na = 1\nb = [1\n[u]\na = 2\n", &["3:5 this list is not closed…"]);
    check("a = { b = 1\n[b]\nb = 2\n", &["1:5 this table is not closed | close the table with `}`"]);
    check("a = '''\nb = 1\n", &["1:5 this text is not closed | close the text with `'''`"]);
    check("command = npx -y", &["1:11 this is no value: text must be in quotes | write `key = \"text\"`"]);
    check("command = python3", &["1:11 this is no value: text must be in quotes | write `key = \"text\"`"]);
    check("command = npx # c", &["1:11 this is no value: text must be in quotes | write `key = \"text\"`"]);
    check("cwd = ~/x", &["1:7 this is no value: text must be in quotes | write `key = \"text\"`"]);
    check("a = nano", &["1:5 this is no value: text must be in quotes | write `key = \"text\"`"]);
    check("a = # none", &["1:5 a value is missing | …"]);
    check("a = 1.2.3", &["1:8 invalid float… | "]);
    check("command: 'x'", &["1:10 key with no value… | write `key = value`"]);
    check("a = \"\\q\"", &["1:7 missing escaped value… | write `\\\\`…"]);
    check("a = 1\nb = ['x' 'y']\nc = = 2", &["2:10 missing comma… | put a `,`…"]);
}

#[test]
fn duplicate_keys_are_errors() {
    let twice = "3:1 `command` is written twice in one table | keep one of the two";
    check("[servers.a]\ncommand = 'x'\ncommand = 'y'\n", &[twice]);
    check("[servers.a]\ncommand = 'x'\ncommand = 'y'\nx = 1", &[twice, "4:1 unknown key `x`…"]);
    check("[servers.a]\ncommand = 'x'\n[servers.a]\ndeny = []", &["3:10 `a` is written twice in one table…"]);
    let json = r#"{"mcpServers": {"a": {"command": "x", "command": "y"}, "a": {"command": "z"}}}"#;
    check_json(json, &["1:39 `command` is written twice…", "1:56 `a` is written twice…"]);
}

#[test]
fn deep_nesting_is_refused() {
    let many = 1 << 20;
    check(&"[".repeat(many), &["1:3 unquoted keys cannot be empty…"]);
    check(&format!("a = {}", "[".repeat(many)), &["1:85 cannot recurse… | …close some brackets"]);
    check(&format!("a = {}", "{a=".repeat(many / 4)), &["1:…cannot recurse…"]);
    check(&format!("a = {}{}", "[".repeat(70), "]".repeat(70)), &["1:1 unknown key `a`…", "1:69 values are nested…"]);
    check(&format!("{}a = 1", "a.".repeat(many / 2)), &["1:1 recursion limit | …shorten the dotted key"]);
    let key = ["a"; 79].join(".");
    let inline = format!("{}b=1{}", format!("{key}={{").repeat(78), "}".repeat(78));
    check(&inline, &["1:1 unknown key `a`…", "1:129 values are nested…"]);
    check_json(&"[".repeat(many), &["1:513 maximum nesting depth exceeded…"]);
    check_json(&"{\"a\":".repeat(many / 8), &["1:…maximum nesting depth exceeded…"]);
    check_json(
        &format!("{}{}", "[".repeat(70), "]".repeat(70)),
        &["1:1 the file must be an object…", "1:66 values are nested…"],
    );
}

/// Pieces that mean something to one of the parsers, and some that mean nothing.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = [
        "[",
        "]",
        "{",
        "}",
        "=",
        ",",
        ":",
        ".",
        "\"",
        "'",
        "\\",
        "$",
        "${",
        "#",
        "//",
        "/*",
        "\n",
        "\r\n",
        "\r",
        "\t",
        " ",
        "é",
        "→",
        "\u{feff}",
        "\0",
        "\u{1b}",
        "0",
        "-1",
        "1e5",
        "true",
        "null",
        "a",
        "_",
        "daemon",
        "defaults",
        "servers",
        "[servers.a]\n",
        "command = 'x'\n",
        "env",
        "naming",
        "\"mcpServers\"",
        "\"command\"",
        "{\"mcpServers\":{\"a\":{",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.as_slice().to_vec()), 0..40)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused_with_places(text in any_text()) {
        for path in ["/c.toml", "/c.json", "/c.yaml"] {
            match load_text(path, &text) {
                Ok(loaded) => loaded.warnings.iter().for_each(|warning| assert!(!warning.to_string().is_empty())),
                Err(error) => assert!(error.to_string().contains(&format!("{path}:")), "{}", error),
            }
        }
    }
}
