//! The style of a YAML file, and values in that style.

use super::super::Value;
use super::super::layout::{indentation, line_end};
use super::document::{Entry, Kind, Node, is_special};

pub(super) struct Style {
    pub(super) line_end: &'static str,
    /// One step of indentation.
    pub(super) unit: String,
    /// The indentation of the items of a list below its key.
    list: String,
}

/// The entries of all tables in block style, from the outside in.
fn entries<'n>(node: &'n Node, found: &mut Vec<&'n Entry>) {
    if let Kind::Block(entries_of) = &node.kind {
        found.extend(entries_of);
        entries_of.iter().for_each(|entry| entries(&entry.value, found));
    }
}

impl Style {
    pub(super) fn of(text: &str, root: Option<&Node>) -> Self {
        let mut found = Vec::new();
        if let Some(root) = root {
            entries(root, &mut found);
        }
        let step = |entry: &Entry, start: usize| {
            let (outer, inner) = (indentation(text, entry.key.start), indentation(text, start));
            inner.strip_prefix(outer).map(str::to_owned)
        };
        let unit = found.iter().find_map(|entry| match &entry.value.kind {
            Kind::Block(inner) => step(entry, inner.first()?.key.start),
            _ => None,
        });
        let list = found.iter().find_map(|entry| match &entry.value.kind {
            Kind::List => step(entry, entry.value.range.start),
            _ => None,
        });
        let unit = unit.filter(|unit| !unit.is_empty()).unwrap_or_else(|| "  ".to_owned());
        Self { line_end: line_end(text), list: list.unwrap_or_else(|| unit.clone()), unit }
    }

    /// `name: value`, with the lines below it indented by `indentation`. The first line is not.
    pub(super) fn entry(&self, name: &str, value: &Value, indentation: &str) -> String {
        let (name, line_end) = (string(name), self.line_end);
        let word = match value {
            Value::Text(text) => string(text),
            Value::Flag(flag) => flag.to_string(),
            Value::List(items) if items.is_empty() => "[]".to_owned(),
            Value::List(items) => {
                let line = |item: &String| format!("{line_end}{indentation}{}- {}", self.list, string(item));
                return format!("{name}:{}", items.iter().map(line).collect::<String>());
            }
            Value::Table(members) if members.is_empty() => "{}".to_owned(),
            Value::Table(members) => {
                let inner = format!("{indentation}{}", self.unit);
                let line =
                    |(name, value): &(String, Value)| format!("{line_end}{inner}{}", self.entry(name, value, &inner));
                return format!("{name}:{}", members.iter().map(line).collect::<String>());
            }
        };
        format!("{name}: {word}")
    }
}

/// A scalar that reads as text: plain if every reader takes it for text, else in double quotes.
pub(super) fn string(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_/.-+@%".contains(char);
    let begins_plain = text.starts_with(|char: char| char.is_ascii_alphabetic() || "_/".contains(char));
    if begins_plain && text.chars().all(is_plain) && !is_special(text) {
        return text.to_owned();
    }
    let mut quoted = String::new();
    for char in serde_json::Value::from(text).to_string().chars() {
        match char {
            // YAML prints fewer characters than JSON.
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(char)));
            }
            char => quoted.push(char),
        }
    }
    quoted
}
