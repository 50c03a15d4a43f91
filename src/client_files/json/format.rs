//! The style of a JSON file, and values in that style.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;

use super::super::Value;
use super::super::layout::{begins_line, indentation, line_end};

/// How a file is written, as far as its text shows.
pub(super) struct Style {
    pub(super) line_end: &'static str,
    /// One step of indentation.
    pub(super) unit: String,
    /// Whether the file is one object on one line.
    pub(super) is_one_line: bool,
    /// What stands inside of the braces of an object on one line.
    pub(super) padding: &'static str,
    /// Whether there are no blanks behind `:` and `,`.
    is_dense: bool,
    /// Whether each item of a list has its own line.
    lists_have_lines: bool,
}

/// Counts lists: those with each item on a line of its own, less those on one line.
fn lists(text: &str, value: &ast::Value<'_>) -> i64 {
    match value {
        ast::Value::Array(array) => {
            let own =
                array.elements.first().map_or(0, |first| match text[array.range.start..first.start()].contains('\n') {
                    true => 1,
                    false => -1,
                });
            own + array.elements.iter().map(|item| lists(text, item)).sum::<i64>()
        }
        ast::Value::Object(object) => object.properties.iter().map(|property| lists(text, &property.value)).sum(),
        _ => 0,
    }
}

impl Style {
    pub(super) fn of(text: &str, root: Option<&ast::Value<'_>>) -> Self {
        let object = root.and_then(ast::Value::as_object);
        let first = object.and_then(|object| object.properties.first());
        let source = root.map_or("", |root| &text[root.start()..root.end()]);
        let unit = first.filter(|first| begins_line(text, first.start())).map(|first| indentation(text, first.start()));
        let is_one_line = first.is_some() && !source.contains('\n');
        Self {
            line_end: line_end(text),
            unit: unit.filter(|unit| !unit.is_empty()).unwrap_or("  ").to_owned(),
            is_one_line,
            padding: if source.starts_with("{ ") { " " } else { "" },
            is_dense: is_one_line
                && first.is_some_and(|first| text[first.name.end()..first.value.start()].trim_start() == ":"),
            lists_have_lines: root.is_none_or(|root| lists(text, root) >= 0),
        }
    }

    /// What stands behind a comma on a line.
    pub(super) fn space(&self) -> &'static str {
        if self.is_dense { "" } else { " " }
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("{}:{}", string(name), self.space())
    }

    /// `value` as text: on several lines that are indented as the line on which it begins, or on one line.
    pub(super) fn value(&self, value: &Value, indentation: &str, has_lines: bool) -> String {
        let (items, [open, close]) = match value {
            Value::Text(text) => return string(text),
            Value::Flag(flag) => return flag.to_string(),
            Value::List(items) => (items.iter().map(|item| string(item)).collect::<Vec<_>>(), ["[", "]"]),
            Value::Table(members) => {
                let inner = format!("{indentation}{}", self.unit);
                let member = |(name, value): &(String, Value)| self.key(name) + &self.value(value, &inner, has_lines);
                (members.iter().map(member).collect(), ["{", "}"])
            }
        };
        let is_list = open == "[";
        if items.is_empty() {
            return format!("{open}{close}");
        }
        if !has_lines || is_list && !self.lists_have_lines {
            let padding = if is_list { "" } else { self.padding };
            return format!("{open}{padding}{}{padding}{close}", items.join(&format!(",{}", self.space())));
        }
        let (line_end, unit) = (self.line_end, &self.unit);
        let line = format!("{line_end}{indentation}{unit}");
        format!("{open}{line}{}{line_end}{indentation}{close}", items.join(&format!(",{line}")))
    }
}

/// A string of JSON.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
