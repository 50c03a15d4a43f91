//! Values, keys and sections in TOML.

use super::super::Value;

/// A string of TOML. JSON has the same escapes, but leaves DEL as it is.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

fn key(name: &str) -> String {
    let is_bare = |char: char| char.is_ascii_alphanumeric() || "-_".contains(char);
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { string(name) }
}

/// A dotted key.
pub(super) fn path<'k>(keys: impl IntoIterator<Item = &'k str>) -> String {
    keys.into_iter().map(key).collect::<Vec<_>>().join(".")
}

/// A value on one line.
pub(super) fn value(of: &Value) -> String {
    match of {
        Value::Text(text) => string(text),
        Value::Flag(flag) => flag.to_string(),
        Value::List(items) => format!("[{}]", items.iter().map(|item| string(item)).collect::<Vec<_>>().join(", ")),
        Value::Table(members) if members.is_empty() => "{}".to_owned(),
        Value::Table(members) => format!("{{ {} }}", pairs(members).join(", ")),
    }
}

fn pairs(members: &[(String, Value)]) -> Vec<String> {
    members.iter().map(|(name, member)| format!("{} = {}", key(name), value(member))).collect()
}

/// A table with its header, without a line end behind it.
pub(super) fn section(header: &str, members: &[(String, Value)], line_end: &str) -> String {
    let lines: Vec<_> = [format!("[{header}]")].into_iter().chain(pairs(members)).collect();
    lines.join(line_end)
}
