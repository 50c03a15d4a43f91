//! YAML: block style, and what is refused.

use super::*;

const TABLE: &[&str] = &["extensions"];

fn small(text: &str) -> String {
    let mut file = parsed(Syntax::Yaml, text);
    let entry = Value::Table(vec![("c".to_owned(), Value::Flag(true))]);
    file.insert(TABLE, "m", &entry).unwrap_or_else(|error| panic!("{error}: {text}"));
    file.text().to_owned()
}

#[test]
fn entry_is_added_in_the_style_of_the_file() {
    let block = "extensions:\n  mcpd:\n    command: mcpd\n    args:\n      - connect\n      - \"a b\"\n    env:\n      X_Y: \"\\\"1\\\" ü\"\n";
    assert_eq!(inserted(Syntax::Yaml, "", TABLE), block);
    assert_eq!(inserted(Syntax::Yaml, "\u{feff}\n", TABLE), format!("\u{feff}{block}"));
    assert_eq!(inserted(Syntax::Yaml, "# mine\r\n", TABLE), format!("# mine\n{block}").replace('\n', "\r\n"));
    assert_eq!(inserted(Syntax::Yaml, "{}\n", TABLE), block);
    assert_eq!(inserted(Syntax::Yaml, "---\n", TABLE), format!("---\n{block}"));
    let four = "extensions:\n    a:\n        args:\n        - x\n    mcpd:\n        command: mcpd\n        args:\n        - connect\n        - \"a b\"\n        env:\n            X_Y: \"\\\"1\\\" ü\"";
    assert_eq!(inserted(Syntax::Yaml, "extensions:\n    a:\n        args:\n        - x", TABLE), four);
}

#[test]
fn words_that_mean_something_else_are_quoted() {
    for text in [
        "",
        "~",
        "no",
        "True",
        "1",
        "1e3",
        "-",
        "- a",
        "a: b",
        "a #b",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "`",
        "'",
        "\"",
        "a\nb",
        "\t",
        "\u{85}",
        "\u{feff}",
        "\u{2028}",
        "\u{1f600}",
        "=",
        "<<",
        "{",
        "[",
        ",",
        "?",
        "null",
        ".inf",
        "0x1",
        "2020-01-01",
        "y",
        "a:",
        " a",
        "a ",
    ] {
        let mut file = parsed(Syntax::Yaml, "");
        let entry = Value::Table(vec![(text.to_owned(), Value::Text(text.to_owned()))]);
        file.insert(&[], "m", &entry).unwrap_or_else(|error| panic!("{error}: {text:?}"));
        assert!(parsed(Syntax::Yaml, file.text()).means(&[], "m", &entry), "{}", file.text());
    }
}

/// A text without an entry, and with it.
const PLACES: &[(&str, &str)] = &[
    // Behind the last entry.
    ("extensions:\n  a:\n    c: 2 # two\n", "extensions:\n  a:\n    c: 2 # two\n  m:\n    c: true\n"),
    (
        "extensions:\n  a:\n    c: 2\n    # d: 3\n  # end\n\n# of x\nx: 1",
        "extensions:\n  a:\n    c: 2\n    # d: 3\n  m:\n    c: true\n  # end\n\n# of x\nx: 1",
    ),
    (
        "---\nextensions: &e\n  a: |+\n    # text\n\n    b\n\n\nx: *e\n...\n",
        "---\nextensions: &e\n  a: |+\n    # text\n\n    b\n  m:\n    c: true\n\n\nx: *e\n...\n",
    ),
    ("extensions:\n  ü: {c: [1, 2]}\nx:\n", "extensions:\n  ü: {c: [1, 2]}\n  m:\n    c: true\nx:\n"),
    ("extensions:\n  a:\n  b:\n  - x\n", "extensions:\n  a:\n  b:\n  - x\n  m:\n    c: true\n"),
    ("extensions:\n  a: \"b\n    c\"", "extensions:\n  a: \"b\n    c\"\n  m:\n    c: true"),
    // Into an empty table.
    ("extensions: {} # none\nx: 1\n", "extensions: # none\n  m:\n    c: true\nx: 1\n"),
    ("extensions: &x {} # none\n", "extensions: &x # none\n  m:\n    c: true\n"),
    ("extensions:   {  }\n", "extensions:\n  m:\n    c: true\n"),
    ("x: 1\nextensions:\n  # none\n", "x: 1\nextensions:\n  m:\n    c: true\n  # none\n"),
    // No table.
    ("x:\n   y: 1\n# end\n", "x:\n   y: 1\nextensions:\n   m:\n      c: true\n# end\n"),
];

#[test]
fn entry_is_added_and_leaves_no_trace_when_it_is_removed() {
    for (text, with) in PLACES {
        for (text, with) in [
            ((*text).to_owned(), (*with).to_owned()),
            (text.replace('\n', "\r\n"), with.replace('\n', "\r\n")),
            (format!("\u{feff}{text}"), format!("\u{feff}{with}")),
        ] {
            if text.contains("|+") {
                // The blank lines behind a text that keeps them are a part of it.
                let mut file = parsed(Syntax::Yaml, &text);
                assert_eq!(file.insert(TABLE, "m", &mcpd()), Err(EditError::Unsafe));
                assert_eq!(file.text(), text);
                continue;
            }
            assert_eq!(small(&text), with, "{text}");
            if text.contains("  a:") || text.contains('ü') {
                assert_undone(Syntax::Yaml, &text, TABLE);
            }
        }
    }
}

#[test]
fn entry_is_replaced_in_its_place() {
    for (text, with) in [
        (
            "extensions:\n  # of m\n  m: # m\n    c: 2\n    # d: 3\n  a: 1\n",
            "extensions:\n  # of m\n  m:\n    c: true\n  a: 1\n",
        ),
        ("extensions:\n  \"m\": {c: 2}\n", "extensions:\n  m:\n    c: true\n"),
        ("extensions:\n  m: {c: true}\n", "extensions:\n  m: {c: true}\n"),
    ] {
        assert_eq!(small(text), with);
        assert_eq!(small(&text.replace('\n', "\r\n")), with.replace('\n', "\r\n"));
    }
}

#[test]
fn entry_is_removed_with_its_comments() {
    for (text, without) in [
        ("extensions:\n  a:\n    c: true\n", "extensions: {}\n"),
        ("extensions: # all\n  # of a\n  a: 1\nx: 1\n", "extensions: {} # all\nx: 1\n"),
        ("extensions:\n  # all\n\n  # of a\n  a: 1\n\n  b: 2\n", "extensions:\n  # all\n\n\n  b: 2\n"),
        (
            "extensions:\n  b: 2 # b\n  # of a\n  a: # a\n    c: true\n    # d\n  # end\n",
            "extensions:\n  b: 2 # b\n  # end\n",
        ),
        (
            "extensions:\n  b:\n    - 1\n    # deep\n  a: |\n    # text\n\n    text\n\nx: 1",
            "extensions:\n  b:\n    - 1\n    # deep\n\nx: 1",
        ),
        ("extensions:\n  'a':\n  b: 1", "extensions:\n  b: 1"),
        ("extensions:\n  b: 1\n  a: &x\n    c: [\n      1 ]", "extensions:\n  b: 1"),
    ] {
        assert_eq!(removed(Syntax::Yaml, text, TABLE, "a"), without);
        let (text, without) = (text.replace('\n', "\r\n"), without.replace('\n', "\r\n"));
        assert_eq!(removed(Syntax::Yaml, &text, TABLE, "a"), without);
    }
    assert_eq!(removed(Syntax::Yaml, "a: 1\nb: 2\n", &[], "a"), "b: 2\n");
    assert_eq!(removed(Syntax::Yaml, "# c\n\na: 1", &[], "a"), "# c\n");
}

#[test]
fn entry_comes_back_into_a_changed_file() {
    let text = "extensions:\n  a: 1\n  # of b\n  b:\n    - x\n\n    - y\n  c: 3\n";
    for (changed, with) in [
        ("extensions:\n  a: 1\n", "extensions:\n  a: 1\n  # of b\n  b:\n    - x\n\n    - y\n"),
        ("extensions:\n  c: true\n", "extensions:\n  # of b\n  b:\n    - x\n\n    - y\n  c: true\n"),
        (
            "extensions:\n  a: 1\n  # new\n  x: 1",
            "extensions:\n  a: 1\n  # of b\n  b:\n    - x\n\n    - y\n  # new\n  x: 1",
        ),
        ("extensions:\n    x: 1", "extensions:\n    x: 1\n    # of b\n    b:\n      - x\n\n      - y"),
        ("extensions: {}", "extensions:\n  # of b\n  b:\n    - x\n\n    - y"),
        ("x: 1\n", "x: 1\nextensions:\n  # of b\n  b:\n    - x\n\n    - y\n"),
        ("", "extensions:\n  # of b\n  b:\n    - x\n\n    - y\n"),
    ] {
        let mut file = parsed(Syntax::Yaml, text);
        let removed = file.remove(TABLE, "b").expect("an edit").expect("an entry");
        let mut file = parsed(Syntax::Yaml, changed);
        file.restore(&removed).unwrap_or_else(|error| panic!("{error}: {changed}"));
        assert_eq!(file.text(), with);
        assert!(matches!(file.restore(&removed), Err(EditError::Taken(_))));
    }
}

#[test]
fn unusual_files_are_refused() {
    for text in [
        "extensions: {a: 1}\n",
        "{extensions: {a: 1}}\n",
        "extensions:\n  ? a\n  : 1\n",
        "extensions: *x\n",
        "extensions: null\n",
        "extensions: ~\n",
        "extensions:\n- a\n",
        "extensions: !!map\n  a: 1\n",
        "extensions:\n  a: &x 1\ny: *x\n",
        "extensions:\n  a: 1\n---\nx: 1\n",
        "extensions:\n  a: 1\n  a: 2\n",
        "- 1\n",
        "text",
    ] {
        let Ok(mut file) = ClientText::parse(Syntax::Yaml, text) else {
            assert!(text.contains('*'), "{text}");
            continue;
        };
        let inserted = file.insert(TABLE, "a", &mcpd()).is_ok();
        assert!(!inserted || text.contains("&x 1"), "{text}");
        let mut file = parsed(Syntax::Yaml, text);
        assert!(file.remove(TABLE, "a").is_ok_and(|removed| removed.is_none()) || file.remove(TABLE, "a").is_err());
        assert_eq!(file.text(), text);
    }
}

#[test]
fn entries_are_found_by_their_path() {
    let text = "a:\n  'b c':\n    ü:\n      x: 1 # one\n    \"z\": [ 1 ]\n    e:\n";
    let file = parsed(Syntax::Yaml, text);
    let table = ["a", "b c"];
    assert_eq!(file.names(&table), ["ü", "z", "e"]);
    assert_eq!(file.entry(&table, "ü").as_deref(), Some("x: 1"));
    assert_eq!(file.entry(&table, "z").as_deref(), Some("[ 1 ]"));
    assert_eq!(file.entry(&table, "e").as_deref(), Some(""));
    assert_eq!(file.entry(&table, "y").as_deref(), None);
    for (value, behind) in
        [("'it''s'", " # it's"), ("\"a\\\"\\\\\"", "  # \""), ("[ 1 ]", " # ]"), ("{a: 1}", " "), ("a b", " # c")]
    {
        let text = format!("t:\n  x: {value}{behind}\n");
        assert_eq!(parsed(Syntax::Yaml, &text).entry(&["t"], "x").as_deref(), Some(value));
    }
}

#[test]
fn deep_nesting_is_an_error() {
    for part in ["[", "- ", "{a: ", "? "] {
        assert!(ClientText::parse(Syntax::Yaml, &part.repeat(100_000)).is_err(), "{part}");
    }
}

#[test]
fn error_names_its_place() {
    let error = ClientText::parse(Syntax::Yaml, "a: 1\r\nü: x: y\n").expect_err("no YAML");
    assert_eq!(error.line, 2, "{error}");
}
