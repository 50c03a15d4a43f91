//! The values of a JSON text, each with its path, so that two definitions can be compared value by value. Pure.
//!
//! Nothing is lost: duplicate members stay, numbers keep their spelling, and what cannot be decoded is one value as it is spelled.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Nested values below this depth are shown as one.
const MAX_DEPTH: usize = 24;

/// A string, a number or the like, or a list of such values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value<'j> {
    /// Such as `inputSchema.properties.path`; empty for the whole text.
    path: String,
    raw: &'j str,
}

/// A value that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) path: String,
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
}

/// Members of a definition that a person needs first. A server can choose other names, and so their order.
const FIRST: [&str; 4] = ["name", "title", "description", "annotations"];

/// The values of `new` that differ from those of `old`: those of [`FIRST`], then the others, in the order of their paths. Both are canonical
/// JSON. Strings are decoded.
pub(super) fn differences(old: Option<&str>, new: &str) -> Vec<Difference> {
    let olds = old.map(values).unwrap_or_default();
    let mut before: HashMap<&str, Vec<&str>> = HashMap::new();
    for Value { path, raw } in olds.iter().rev() {
        before.entry(path).or_default().push(raw);
    }
    let mut all = Vec::new();
    let news = values(new);
    for Value { path, raw } in &news {
        match before.get_mut(&**path).and_then(Vec::pop) {
            Some(old) if old == *raw => {}
            old => all.push(difference(path, old, Some(raw))),
        }
    }
    let gone = before.into_iter().flat_map(|(path, raws)| raws.into_iter().rev().map(move |raw| (path, raw)));
    all.extend(gone.map(|(path, raw)| difference(path, Some(raw), None)));
    if let (true, Some(old)) = (all.is_empty(), old.filter(|old| *old != new)) {
        // The same values in other objects of the same key.
        all.push(difference("", Some(old), Some(new)));
    }
    all.sort_by(|one, other| (rank(&one.path), &one.path).cmp(&(rank(&other.path), &other.path)));
    all
}

fn rank(path: &str) -> usize {
    let member = path.split(['.', '[']).next().unwrap_or_default();
    FIRST.iter().position(|first| *first == member).unwrap_or(FIRST.len())
}

fn difference(path: &str, old: Option<&str>, new: Option<&str>) -> Difference {
    // `true` and `"true"` differ.
    let is_decoded = [old, new].into_iter().flatten().all(|raw| string(raw).is_some_and(|text| !is_literal(&text)));
    let shown = |raw: &str| string(raw).filter(|_| is_decoded).unwrap_or_else(|| raw.to_owned());
    Difference { path: path.to_owned(), old: old.map(shown), new: new.map(shown) }
}

/// The text of a JSON string.
fn string(raw: &str) -> Option<String> {
    if raw.starts_with('"') { serde_json::from_str(raw).ok() } else { None }
}

/// Whether a text would be taken for another value without its quotes.
fn is_literal(text: &str) -> bool {
    text.trim().is_empty() || serde_json::from_str::<&RawValue>(text).is_ok()
}

/// The values of `json`, in its order.
fn values(json: &str) -> Vec<Value<'_>> {
    let mut all = Vec::new();
    collect(String::new(), json.trim(), 0, &mut all);
    all
}

fn collect<'j>(path: String, raw: &'j str, depth: usize, all: &mut Vec<Value<'j>>) {
    let parts = match raw.as_bytes().first() {
        Some(b'{') if depth < MAX_DEPTH => members(&path, raw),
        Some(b'[') if depth < MAX_DEPTH => elements(&path, raw),
        _ => None,
    };
    match parts {
        Some(parts) => parts.into_iter().for_each(|(path, raw)| collect(path, raw, depth + 1, all)),
        None => all.push(Value { path, raw }),
    }
}

/// The members of an object; `None` if it has none, or a key that cannot be decoded.
fn members<'j>(path: &str, raw: &'j str) -> Option<Vec<(String, &'j str)>> {
    let Parts(members) = serde_json::from_str(raw).ok().filter(|Parts(members)| !members.is_empty())?;
    Some(members.into_iter().map(|(key, value)| (member_path(path, &key), value.get())).collect())
}

/// The elements of a list; `None` if all of them are single values.
fn elements<'j>(path: &str, raw: &'j str) -> Option<Vec<(String, &'j str)>> {
    let elements: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    let is_nested = |value: &&RawValue| value.get().starts_with(['{', '[']);
    let is_split = elements.iter().any(is_nested);
    is_split
        .then(|| elements.iter().enumerate().map(|(index, value)| (format!("{path}[{index}]"), value.get())).collect())
}

/// The path of a member. A key that is no plain word is quoted.
fn member_path(path: &str, key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$'));
    match (is_plain, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => format!("{path}[{}]", serde_json::Value::from(key)),
    }
}

/// The members of an object, with duplicates.
struct Parts<'j>(Vec<(String, &'j RawValue)>);

impl<'j> Deserialize<'j> for Parts<'j> {
    fn deserialize<D: Deserializer<'j>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'j> Visitor<'j> for Members {
            type Value = Parts<'j>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(member) = map.next_entry()? {
                    all.push(member);
                }
                Ok(Parts(all))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &[(&str, &str, &str)]) {
        let found = differences(Some(old), new);
        let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".to_owned());
        let found: Vec<_> = found.iter().map(|one| (one.path.clone(), shown(&one.old), shown(&one.new))).collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(path, old, new)| ((*path).to_owned(), (*old).to_owned(), (*new).to_owned()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn differing_values_are_named_by_their_paths() {
        check(r#"{"a":1,"b":{"c":"x"}}"#, r#"{"a":1,"b":{"c":"x"}}"#, &[]);
        check(
            r#"{"a":1,"b":{"c":"x\ny"},"d":[1,2]}"#,
            r#"{"a":1.0,"b":{"c":"x\nz","e":null},"d":[1,2,3]}"#,
            &[("a", "1", "1.0"), ("b.c", "x\ny", "x\nz"), ("b.e", "–", "null"), ("d", "[1,2]", "[1,2,3]")],
        );
        check(r#"{"a":[{"b":1}]}"#, r#"{"a":[{"b":2},{}]}"#, &[("a[0].b", "1", "2"), ("a[1]", "–", "{}")]);
        check(r#"{"a":{}}"#, r#"{"a":{"b":1}}"#, &[("a", "{}", "–"), ("a.b", "–", "1")]);
        check(r#"{"a b":1,"c.d":2}"#, "{}", &[("", "–", "{}"), (r#"["a b"]"#, "1", "–"), (r#"["c.d"]"#, "2", "–")]);
        check(r#""x""#, r#""y""#, &[("", "x", "y")]);
        let (one, two) = (r#"{"a":{"b":1},"a":{"c":2}}"#, r#"{"a":{"b":1,"c":2}}"#);
        check(one, two, &[("", one, two)]);
    }

    #[test]
    fn values_of_equal_appearance_are_distinguished() {
        check(r#"{"a":true}"#, r#"{"a":"true"}"#, &[("a", "true", r#""true""#)]);
        check(r#"{"a":"x"}"#, r#"{"a":"1"}"#, &[("a", r#""x""#, r#""1""#)]);
        check(r#"{"a":""}"#, r#"{"a":" "}"#, &[("a", r#""""#, r#"" ""#)]);
        check(r#"{"a":1,"a":2}"#, r#"{"a":1,"a":3}"#, &[("a", "2", "3")]);
        check(r#"{"a":1}"#, r#"{"a":1,"a":3}"#, &[("a", "–", "3")]);
        check(r#"{"a":"\ud800"}"#, r#"{"a":"\ud801"}"#, &[("a", r#""\ud800""#, r#""\ud801""#)]);
        check(r#"{"\ud800":1}"#, r#"{"\ud800":2}"#, &[("", r#"{"\ud800":1}"#, r#"{"\ud800":2}"#)]);
    }

    #[test]
    fn what_a_person_needs_comes_before_names_that_the_server_chooses() {
        let new = r#"{"$a":1,"annotations":{"x":1},"description":"d","names":1,"name":"n","title":"t"}"#;
        let paths: Vec<_> = differences(None, new).into_iter().map(|one| one.path).collect();
        assert_eq!(paths, ["name", "title", "description", "annotations.x", "$a", "names"]);
    }

    #[test]
    fn deep_values_are_one_and_exhaust_no_stack() {
        let deep = |text: &str| "[".repeat(100_000) + text + &"]".repeat(100_000);
        let found = differences(Some(&deep("1")), &deep("2"));
        assert_eq!(found.len(), 1);
        assert!(found[0].path.ends_with("[0][0]") && found[0].path.len() < 100, "{}", found[0].path);
    }
}
