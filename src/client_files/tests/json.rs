//! JSON: places, styles and comments.

use super::*;

const TABLE: &[&str] = &["mcpServers"];

fn small(text: &str) -> String {
    let mut file = parsed(Syntax::Json, text);
    file.insert(TABLE, "m", &Value::Flag(true)).unwrap_or_else(|error| panic!("{error}: {text}"));
    file.text().to_owned()
}

#[test]
fn entry_is_added_in_the_style_of_the_file() {
    let pretty = r#"{
  "mcpServers": {
    "mcpd": {
      "command": "mcpd",
      "args": [
        "connect",
        "a b"
      ],
      "env": {
        "X_Y": "\"1\" ü"
      }
    }
  }
}
"#;
    assert_eq!(inserted(Syntax::Json, "", TABLE), pretty);
    assert_eq!(inserted(Syntax::Json, " \n", TABLE), pretty);
    assert_eq!(inserted(Syntax::Json, "\u{feff}", TABLE), format!("\u{feff}{pretty}"));
    assert_eq!(inserted(Syntax::Json, "{}", TABLE), pretty.trim_end());
    assert_eq!(inserted(Syntax::Json, "// mine\r\n", TABLE), format!("// mine\r\n{}", pretty.replace('\n', "\r\n")));
    let tabs = "{\n\t\"a\": [1],\n\t\"mcpServers\": {\n\t\t\"x\": {}\n\t}\n}";
    let with = "{\n\t\"a\": [1],\n\t\"mcpServers\": {\n\t\t\"x\": {},\n\t\t\"mcpd\": {\n\t\t\t\"command\": \"mcpd\",\n\t\t\t\"args\": [\"connect\", \"a b\"],\n\t\t\t\"env\": {\n\t\t\t\t\"X_Y\": \"\\\"1\\\" ü\"\n\t\t\t}\n\t\t}\n\t}\n}";
    assert_eq!(inserted(Syntax::Json, tabs, TABLE), with);
    let dense = r#"{"mcpServers":{"x":{}}}"#;
    let with = r#"{"mcpServers":{"x":{},"mcpd":{"command":"mcpd","args":["connect","a b"],"env":{"X_Y":"\"1\" ü"}}}}"#;
    assert_eq!(inserted(Syntax::Json, dense, TABLE), with);
    let padded = r#"{ "mcpServers": { "x": {} } }"#;
    let with = r#"{ "mcpServers": { "x": {}, "mcpd": { "command": "mcpd", "args": ["connect", "a b"], "env": { "X_Y": "\"1\" ü" } } } }"#;
    assert_eq!(inserted(Syntax::Json, padded, TABLE), with);
}

/// A text with an entry, and without it.
const PLACES: &[(&str, &str)] = &[
    // An empty object, and one on one line.
    ("{\"mcpServers\":{}}", "{\"mcpServers\":{\"m\":true}}"),
    ("{ \"mcpServers\": { } }", "{ \"mcpServers\": { \"m\": true } }"),
    ("{\n  \"mcpServers\": {}\n}\n", "{\n  \"mcpServers\": {\n    \"m\": true\n  }\n}\n"),
    ("{\n  \"mcpServers\": {\n  }\n}\n", "{\n  \"mcpServers\": {\n    \"m\": true\n  }\n}\n"),
    (
        "{\n  \"mcpServers\": { // mine\n    // none yet\n  }\n}\n",
        "{\n  \"mcpServers\": { // mine\n    \"m\": true\n    // none yet\n  }\n}\n",
    ),
    ("{\n  \"mcpServers\": { /* none */ }\n}\n", "{\n  \"mcpServers\": {\n    \"m\": true /* none */\n  }\n}\n"),
    // No table.
    ("{\n    \"a\": 1 // one\n}", "{\n    \"a\": 1, // one\n    \"mcpServers\": {\n        \"m\": true\n    }\n}"),
    ("{\"a\": 1}", "{\"a\": 1, \"mcpServers\": {\"m\": true}}"),
    // Behind the last entry.
    ("{\"mcpServers\": {\"a\": 1}}", "{\"mcpServers\": {\"a\": 1, \"m\": true}}"),
    ("{\"mcpServers\": {\"a\": 1, }}", "{\"mcpServers\": {\"a\": 1, \"m\": true, }}"),
    ("{\"mcpServers\": {\n  \"a\": 1\n}}", "{\"mcpServers\": {\n  \"a\": 1,\n  \"m\": true\n}}"),
    ("{\"mcpServers\": {\r\n\t\"a\": 1,\r\n}}", "{\"mcpServers\": {\r\n\t\"a\": 1,\r\n\t\"m\": true,\r\n}}"),
    (
        "{\"mcpServers\": {\n  \"a\": 1 // one\n  // more\n}}",
        "{\"mcpServers\": {\n  \"a\": 1, // one\n  \"m\": true\n  // more\n}}",
    ),
    (
        "{mcpServers: {\n  'a': +1, /* one */ // end\n}}",
        "{mcpServers: {\n  'a': +1, /* one */ // end\n  \"m\": true,\n}}",
    ),
    ("{\"mcpServers\": {\n  \"a\": 1 }}", "{\"mcpServers\": {\n  \"a\": 1,\n  \"m\": true }}"),
    ("{ \"mcpServers\": { \"a\": 1 // one\n} }", "{ \"mcpServers\": { \"a\": 1, \"m\": true // one\n} }"),
    // In its place.
    ("{\"mcpServers\": {\"m\": {\"a\": 2}, \"b\": 1}}", "{\"mcpServers\": {\"m\": true, \"b\": 1}}"),
    ("{\"mcpServers\": {\"m\": true}}", "{\"mcpServers\": {\"m\": true}}"),
];

#[test]
fn entry_is_added_to_its_table() {
    for (text, with) in PLACES {
        assert_eq!(small(text), *with, "{text}");
        let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
        assert_eq!(small(&crlf(text)), crlf(with), "{text}");
    }
}

#[test]
fn added_entry_leaves_no_trace_when_it_is_removed() {
    for (text, _) in PLACES.iter().filter(|(text, _)| text.contains("\"a\": 1") && text.contains("Servers")) {
        for text in [(*text).to_owned(), format!("\u{feff}{text}\n"), text.replace('\n', "\r\n")] {
            assert_undone(Syntax::Json, &text, TABLE);
        }
    }
}

#[test]
fn entry_is_removed_with_its_comments() {
    let text = "{\n  \"mcpServers\": {\n    // all\n\n    // of a\n    /* and */\n    \"a\": {}, // a\n    \"b\": {}, \"c\": {}, // c\n    // of d\n    \"d\": {\n    } // d\n    // end\n  }\n}";
    let cases = [
        ("a", "    // all\n\n    \"b\": {}, \"c\": {}, // c\n    // of d\n    \"d\": {\n    } // d\n    // end\n"),
        (
            "b",
            "    // all\n\n    // of a\n    /* and */\n    \"a\": {}, // a\n    \"c\": {}, // c\n    // of d\n    \"d\": {\n    } // d\n    // end\n",
        ),
        (
            "c",
            "    // all\n\n    // of a\n    /* and */\n    \"a\": {}, // a\n    \"b\": {}, // c\n    // of d\n    \"d\": {\n    } // d\n    // end\n",
        ),
        (
            "d",
            "    // all\n\n    // of a\n    /* and */\n    \"a\": {}, // a\n    \"b\": {}, \"c\": {} // c\n    // end\n",
        ),
    ];
    for (name, without) in cases {
        let without = format!("{{\n  \"mcpServers\": {{\n{without}  }}\n}}");
        assert_eq!(removed(Syntax::Json, text, TABLE, name), without, "{name}");
        let (text, without) = (text.replace('\n', "\r\n"), without.replace('\n', "\r\n"));
        assert_eq!(removed(Syntax::Json, &text, TABLE, name), without, "{name}");
    }
    for (text, without) in [
        ("{\"mcpServers\":{\"a\":1}}", "{\"mcpServers\":{}}"),
        ("{ \"mcpServers\": { \"a\": 1, } }", "{ \"mcpServers\": { } }"),
        ("{\"mcpServers\": {\"a\": 1, \"b\": 2}}", "{\"mcpServers\": {\"b\": 2}}"),
        ("{\"mcpServers\": {\"b\": 2, /* a */ \"a\": 1}}", "{\"mcpServers\": {\"b\": 2 /* a */}}"),
        ("{\"mcpServers\": {\n  \"b\": 2\n  , \"a\": 1\n}}", "{\"mcpServers\": {\n  \"b\": 2\n  \n}}"),
    ] {
        assert_eq!(removed(Syntax::Json, text, TABLE, "a"), without);
    }
}

#[test]
fn entry_comes_back_between_changed_neighbours() {
    let text = "{\"mcpServers\": {\n  \"a\": 1,\n  // of b\n  \"b\": 2, // two\n  \"c\": 3\n}}";
    let cases = [
        // A neighbour is gone, or both, or the table.
        ("{\"mcpServers\": {\n  \"c\": 3\n}}", "{\"mcpServers\": {\n  // of b\n  \"b\": 2, // two\n  \"c\": 3\n}}"),
        ("{\"mcpServers\": {\n  \"a\": 1\n}}", "{\"mcpServers\": {\n  \"a\": 1,\n  // of b\n  \"b\": 2 // two\n}}"),
        ("{\"mcpServers\": {\n  \"x\": 1\n}}", "{\"mcpServers\": {\n  \"x\": 1,\n  // of b\n  \"b\": 2 // two\n}}"),
        ("{\"mcpServers\": {\n}}", "{\"mcpServers\": {\n  // of b\n  \"b\": 2 // two\n}}"),
        // Something stands between them.
        (
            "{\"mcpServers\": {\n\t\"a\": 1,\n\t\"x\": 0,\n\t\"c\": 3\n}}",
            "{\"mcpServers\": {\n\t\"a\": 1,\n\t// of b\n  \"b\": 2, // two\n\t\"x\": 0,\n\t\"c\": 3\n}}",
        ),
    ];
    for (changed, with) in cases {
        let mut file = parsed(Syntax::Json, text);
        let removed = file.remove(TABLE, "b").expect("an edit").expect("an entry");
        let mut file = parsed(Syntax::Json, changed);
        file.restore(&removed).unwrap_or_else(|error| panic!("{error}: {changed}"));
        assert_eq!(file.text(), with);
        assert_eq!(file.restore(&removed), Err(EditError::Taken("b".to_owned())));
    }
    for changed in ["", "{}", "// mine\n", "{\"x\": {}}", "{\"mcpServers\": {}}", "{\"mcpServers\":{\"x\":1,\"c\":1}}"]
    {
        let mut file = parsed(Syntax::Json, text);
        let removed = file.remove(TABLE, "b").expect("an edit").expect("an entry");
        let mut file = parsed(Syntax::Json, changed);
        file.restore(&removed).unwrap_or_else(|error| panic!("{error}: {changed}"));
        assert!(file.text().contains("// of b"), "{}", file.text());
    }
}

#[test]
fn entries_are_found_by_their_path() {
    let text = r#"{"projects": {"/p": {"mcpServers": {"ü": { "a": 1 }, "b": []}}}, "n": null, "l": []}"#;
    let mut file = parsed(Syntax::Json, text);
    let table = ["projects", "/p", "mcpServers"];
    assert_eq!(file.names(&table), ["ü", "b"]);
    assert_eq!(file.entry(&table, "ü").as_deref(), Some("{ \"a\": 1 }"));
    assert_eq!(file.names(&["n"]), Vec::<String>::new());
    assert!(file.remove(&["x", "y"], "b").expect("no error").is_none());
    for key in ["n", "l"] {
        let error = file.insert(&[key], "m", &Value::Flag(true));
        assert_eq!(error, Err(EditError::NotATable(vec![key.to_owned()])));
    }
    assert_eq!(file.text(), text);
}

#[test]
fn duplicate_names_are_refused() {
    for (text, table) in [
        (r#"{"mcpServers": {"m": true, "m": 2}}"#, "m"),
        (r#"{"mcpServers": {"m": true}, "mcpServers": {}}"#, "mcpServers"),
    ] {
        let mut file = parsed(Syntax::Json, text);
        let error = Err(EditError::Twice(table.to_owned()));
        assert_eq!(file.insert(TABLE, "m", &Value::Flag(true)), error);
        assert_eq!(file.remove(TABLE, "m").map(|_| ()), error);
        assert_eq!(file.text(), text);
    }
}

#[test]
fn error_names_its_place() {
    let error = ClientText::parse(Syntax::Json, "{\r\n  \"ü\": x\n}").expect_err("no value");
    assert_eq!((error.line, error.column), (2, 8), "{error}");
}

#[test]
fn deep_nesting_is_an_error() {
    for part in ["[", "{\"a\":"] {
        assert!(ClientText::parse(Syntax::Json, &part.repeat(100_000)).is_err(), "{part}");
    }
    let deep = format!("{{\"mcpServers\": {}{}}}", "[".repeat(500), "]".repeat(500));
    let mut file = parsed(Syntax::Json, &deep);
    file.insert(&["a"], "m", &mcpd()).expect("an edit");
}
