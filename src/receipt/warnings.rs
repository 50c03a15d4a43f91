//! What a person should know of a server before keeping it. Pure.

use serde::Serialize;
use serde_json::Value;

use crate::catalog::Lists;
use crate::list_kind::ListKind;
use crate::manager::report::{MalformedItem, malformed};
use crate::printable;

/// The most items that are named for one kind of warning.
const MAX_ITEMS: usize = 50;
/// First words of the names of tools that change something, and whether that destroys what was there.
const CHANGING: &[(&str, bool)] = &[
    ("add", false),
    ("append", false),
    ("apply", false),
    ("clear", true),
    ("commit", false),
    ("copy", false),
    ("create", false),
    ("delete", true),
    ("destroy", true),
    ("drop", true),
    ("edit", false),
    ("erase", true),
    ("exec", true),
    ("execute", true),
    ("insert", false),
    ("install", false),
    ("kill", true),
    ("merge", false),
    ("move", false),
    ("overwrite", true),
    ("post", false),
    ("publish", false),
    ("purge", true),
    ("push", false),
    ("put", false),
    ("remove", true),
    ("rename", false),
    ("replace", true),
    ("reset", true),
    ("run", true),
    ("save", false),
    ("send", false),
    ("set", false),
    ("store", false),
    ("truncate", true),
    ("uninstall", true),
    ("update", false),
    ("upload", false),
    ("wipe", true),
    ("write", false),
];
/// First words of the names of tools that change nothing. What follows them is what they read.
const READING: &[&str] = &[
    "check", "count", "describe", "diff", "explain", "fetch", "find", "get", "is", "list", "load", "lookup", "open",
    "peek", "query", "read", "resolve", "retrieve", "search", "show", "status", "view",
];

/// A claim of a tool that its name contradicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Claim {
    /// `readOnlyHint` is `true`.
    ReadOnly,
    /// `destructiveHint` is `false`.
    NotDestructive,
}

/// What is wrong with the definitions of a server.
#[derive(Debug, Default)]
pub(crate) struct DefinitionWarnings {
    /// Items with invisible characters: the kind and the name.
    pub(crate) invisible: Vec<(&'static str, String)>,
    pub(crate) claims: Vec<(String, Claim)>,
    pub(crate) malformed: Vec<MalformedItem>,
}

impl DefinitionWarnings {
    pub(crate) fn of(lists: &Lists, instructions: Option<&str>) -> Self {
        let mut found = Self::default();
        if instructions.is_some_and(hides) {
            found.invisible.push(("instructions", String::new()));
        }
        for (kind, list) in lists.iter() {
            for item in &list.items {
                let Ok(definition) = serde_json::from_slice::<Value>(&item.json) else { continue };
                if found.invisible.len() < MAX_ITEMS && any_text(&definition, &mut hides) {
                    found.invisible.push((kind.member(), item.key.to_string()));
                }
                if kind == ListKind::Tools
                    && found.claims.len() < MAX_ITEMS
                    && let Some(claim) = contradicted(&item.key, &definition["annotations"])
                {
                    found.claims.push((item.key.to_string(), claim));
                }
            }
        }
        found.malformed = malformed(lists).0;
        found
    }
}

fn hides(text: &str) -> bool {
    printable::hidden(text).next().is_some()
}

/// Whether `test` is true for a text or a key in `value`.
fn any_text(value: &Value, test: &mut impl FnMut(&str) -> bool) -> bool {
    match value {
        Value::String(text) => test(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, test)),
        Value::Object(members) => members.iter().any(|(key, value)| test(key) || any_text(value, test)),
        _ => false,
    }
}

fn contradicted(name: &str, annotations: &Value) -> Option<Claim> {
    let destroys = destroys(name)?;
    if annotations["readOnlyHint"] == true {
        return Some(Claim::ReadOnly);
    }
    (destroys && annotations["destructiveHint"] == false).then_some(Claim::NotDestructive)
}

/// Whether a tool that changes something, by its name, destroys what was there. `None` if it changes nothing, or nobody can know.
fn destroys(name: &str) -> Option<bool> {
    let known = |word: &String| {
        let reads = READING.contains(&word.as_str()).then_some(None);
        reads.or_else(|| CHANGING.iter().find(|(known, _)| known == word).map(|(_, destroys)| Some(*destroys)))
    };
    words(name).iter().find_map(known)?
}

/// The words of a name, in lower case: `gitCommit_now` has three.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in name.chars() {
        let begins = !before.is_alphanumeric() || c.is_uppercase() && before.is_lowercase();
        if c.is_alphanumeric() {
            if begins {
                words.push(String::new());
            }
            words.iter_mut().last().into_iter().for_each(|word| word.extend(c.to_lowercase()));
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_that_a_name_contradicts_are_found() {
        let read_only = json!({ "readOnlyHint": true });
        let harmless = json!({ "destructiveHint": false });
        for (name, annotations, expected) in [
            ("delete_file", &read_only, Some(Claim::ReadOnly)),
            ("writeFile", &read_only, Some(Claim::ReadOnly)),
            ("git_commit", &read_only, Some(Claim::ReadOnly)),
            ("get_commit", &read_only, None),
            ("list_deleted", &read_only, None),
            ("read_file", &read_only, None),
            ("delete_file", &harmless, Some(Claim::NotDestructive)),
            ("browser-kill", &harmless, Some(Claim::NotDestructive)),
            ("write_file", &harmless, None),
            ("delete_file", &Value::Null, None),
            ("prune", &read_only, None),
        ] {
            assert_eq!(contradicted(name, annotations), expected, "{name} {annotations}");
        }
    }

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(words("gitCommit_now-2"), ["git", "commit", "now", "2"]);
        assert_eq!(words("deleteURL"), ["delete", "url"]);
        assert!(words("__").is_empty());
    }

    #[test]
    fn texts_and_keys_with_invisible_characters_are_found() {
        for (definition, expected) in [
            (json!({ "description": "a\u{202e}b" }), true),
            (json!({ "inputSchema": { "properties": { "a\u{200b}": {} } } }), true),
            (json!({ "description": "line\n\ttwo ✔\u{fe0f}", "x": [1, null] }), false),
        ] {
            assert_eq!(any_text(&definition, &mut hides), expected, "{definition}");
        }
    }
}
