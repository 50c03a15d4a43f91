//! The parts of `config/mcpd.toml` and `config/mcpd.schema.json` that follow from the declared keys.
//!
//! `UPDATE_CONFIG_FILES=1 cargo test --lib config::` writes them.

use serde_json::{Value as Json, json};

use super::super::super::{Quotas, SCHEMA, Settings, size_text};
use super::example::EXAMPLE;
use crate::config::daemon::{DaemonConfig, NAMING_KEYS};
use crate::config::keys::{Key, KeyKind, KeyValue, NO_LIMIT};

/// Columns of a comment in `config/mcpd.toml`.
const WIDTH: usize = 120;

fn description<T>(key: &Key<T>) -> String {
    let doc = key.doc.split_whitespace().collect::<Vec<_>>().join(" ");
    match &key.rule.kind {
        KeyKind::Count(range) => format!("{doc} From {} to {}.", range.start(), range.end()),
        KeyKind::Size(range) => {
            format!("{doc} From {} to {}.", size_text(*range.start()), size_text(*range.end()))
        }
        KeyKind::Duration(least) if !least.is_zero() => format!("{doc} At least {}.", crate::duration::format(*least)),
        _ => doc,
    }
}

fn example<T: Default>(key: &Key<T>) -> String {
    let mut lines = vec!["#".to_owned()];
    for word in description(key).split(' ') {
        let line = lines.last_mut().expect("a line");
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("# {word}"));
        } else {
            line.push_str(&format!(" {word}"));
        }
    }
    let mark = if key.default().is_some() { "" } else { "# " };
    format!("{}\n{mark}{} = {}", lines.join("\n"), key.name, key.sample())
}

/// What `config::address` accepts, as in the `url` of a server.
const URL_PATTERN: &str =
    r"^(https?://[^/?#@]+([/?][^#]*)?$|https?://.*\$\{|unix:(//)?/[^#]*(#(/.*)?)?$|unix:.*\$\{|\$\{)";

fn schema<T: Default>(key: &Key<T>) -> Json {
    let mut schema = match &key.rule.kind {
        KeyKind::Flag => json!({"type": "boolean"}),
        KeyKind::FlagOrText => json!({"type": ["boolean", "string"]}),
        KeyKind::Count(range) => json!({"type": "integer", "minimum": range.start(), "maximum": range.end()}),
        KeyKind::Size(range) => {
            json!({"anyOf": [{"type": "integer", "minimum": range.start(), "maximum": range.end()}, {"$ref": "#/$defs/size"}]})
        }
        KeyKind::Duration(_) => json!({"$ref": "#/$defs/duration"}),
        KeyKind::Choice(names) => json!({"enum": names()}),
        KeyKind::Url => json!({"type": "string", "pattern": URL_PATTERN}),
        KeyKind::Path => json!({"type": "string", "pattern": "^(/|~/|\\$\\{)"}),
        KeyKind::Sandbox => json!({"$ref": "#/$defs/sandbox_value"}),
        KeyKind::ToolTimeouts => json!({"type": "object", "additionalProperties": {"$ref": "#/$defs/duration"}}),
    };
    if key.rule.may_be_none {
        let description = json!({"anyOf": [schema, {"const": NO_LIMIT}]});
        schema = description;
    }
    schema["description"] = description(key).into();
    let default = key.default().map(|value| match value {
        KeyValue::ToolTimeouts(_) => json!({}),
        value => serde_json::from_str(&key.serialize(&value)).expect("TOML that is JSON too"),
    });
    if let Some(default) = default {
        schema["default"] = default;
    }
    schema
}

/// The member of an object for `key`, indented by `indent` spaces.
fn member<T: Default>(key: &Key<T>, indent: usize) -> String {
    let spaces = " ".repeat(indent);
    let text = serde_json::to_string_pretty(&schema(key)).expect("JSON").replace('\n', &format!("\n{spaces}"));
    format!("{spaces}{:?}: {text},", key.name)
}

fn reference(key: &Key<Settings>) -> String {
    format!("        {0:?}: {{ \"$ref\": \"#/$defs/{0}\" }},", key.name)
}

fn lines<T>(keys: &[Key<T>], line: impl Fn(&Key<T>) -> String) -> String {
    keys.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn in_defaults() -> Vec<&'static Key<Settings>> {
    Settings::KEYS.iter().filter(|key| !key.rule.is_server_only).collect()
}

/// `text` with the generated paragraph in the place of each `(number, paragraph)`.
fn with_paragraphs(text: &str, generated: &[(usize, String)]) -> String {
    let mut paragraphs: Vec<_> = text.split("\n\n").map(str::to_owned).collect();
    for (number, paragraph) in generated {
        paragraph.clone_into(&mut paragraphs[*number]);
    }
    paragraphs.join("\n\n")
}

fn check(file: &str, text: &str, expected: &str) {
    if text == expected {
        return;
    }
    if std::env::var_os("UPDATE_CONFIG_FILES").is_some() {
        return std::fs::write(format!("{}/{file}", env!("CARGO_MANIFEST_DIR")), expected)
            .expect("the file is written");
    }
    let missing: Vec<_> = expected.lines().filter(|line| !text.lines().any(|known| known == *line)).collect();
    let missing = missing.join("\n");
    panic!(
        "{file} differs from the keys in src/config. Missing:\n{missing}\nRun `UPDATE_CONFIG_FILES=1 cargo test --lib config::`."
    );
}

#[test]
fn example_contains_every_declared_key() {
    let head = |start: &str| EXAMPLE.lines().find(|line| line.starts_with(start)).expect("the header of a table");
    let daemon = [head("[daemon]").to_owned(), lines(NAMING_KEYS, example), lines(DaemonConfig::KEYS, example)];
    let settings = in_defaults().into_iter().map(example).collect::<Vec<_>>().join("\n");
    let defaults = [head("[defaults]").to_owned(), settings];
    let number =
        |start: &str| EXAMPLE.split("\n\n").position(|paragraph| paragraph.starts_with(start)).expect("a table");
    let generated = [(number("[daemon]"), daemon.join("\n")), (number("[defaults]"), defaults.join("\n"))];
    check("config/mcpd.toml", EXAMPLE, &with_paragraphs(EXAMPLE, &generated));
}

/// In the schema every second paragraph is generated: `[daemon]`, the references of `[defaults]`, the definitions of
/// settings, the references of servers, and the quotas of profiles.
#[test]
fn schema_contains_every_declared_key() {
    let generated = [
        (1, lines(DaemonConfig::KEYS, |key| member(key, 8))),
        (3, in_defaults().into_iter().map(reference).collect::<Vec<_>>().join("\n")),
        (5, lines(Settings::KEYS, |key| member(key, 4))),
        (7, lines(Settings::KEYS, reference)),
        (9, lines(Quotas::KEYS, |key| member(key, 8))),
    ];
    assert_eq!(SCHEMA.split("\n\n").count(), 11, "the paragraphs of the schema");
    check("config/mcpd.schema.json", SCHEMA, &with_paragraphs(SCHEMA, &generated));
}
