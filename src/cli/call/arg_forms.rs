//! Parses the arguments of a call and converts them to JSON. Errors are found before anything is sent.
//!
//! | form | value |
//! |---|---|
//! | `key=value` | of the type in the tool's schema |
//! | `key:=JSON` | the JSON |
//! | `key=@FILE` | the content of the file |
//! | `{…}` | all arguments as one JSON object |
//! | `-` | the same from standard input |

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::super::tool_schema::{Argument, Kind, OtherArguments, Schema};
use crate::suggest::nearest;

/// Source of texts that are not on the command line.
pub(super) trait TextSource {
    fn stdin(&self) -> Result<String, String>;
    fn file(&self, path: &str) -> Result<String, String>;
}

/// Parsed arguments that are not checked against the schema yet.
pub(super) enum ArgForm<'w> {
    /// One JSON object.
    Object(Box<RawValue>),
    /// One argument in each word.
    Pairs(&'w [String]),
}

impl<'w> ArgForm<'w> {
    /// # Errors
    /// If the words should be a JSON object and are not.
    pub(super) fn parse(words: &'w [String], texts: &dyn TextSource) -> Result<Self, String> {
        let text = match words {
            [word] if word == "-" => texts.stdin()?,
            [word] if word.trim_start().starts_with(['{', '[', '"']) => word.clone(),
            _ => return Ok(Self::Pairs(words)),
        };
        let raw: Box<RawValue> =
            serde_json::from_str(text.trim()).map_err(|error| format!("the arguments are not JSON: {error}"))?;
        if !raw.get().starts_with('{') {
            return Err("the arguments are not a JSON object, such as '{\"path\": \"notes.md\"}'".to_owned());
        }
        Ok(Self::Object(raw))
    }

    /// One JSON object with the order and number spelling of the command line.
    ///
    /// # Errors
    /// If an argument does not match the schema.
    pub(super) fn convert(self, schema: &Schema, texts: &dyn TextSource) -> Result<Box<RawValue>, String> {
        match self {
            Self::Object(raw) => check_object(raw, schema),
            Self::Pairs(words) => convert_pairs(words, schema, texts),
        }
    }
}

fn check_object(raw: Box<RawValue>, schema: &Schema) -> Result<Box<RawValue>, String> {
    let object: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    let is_unknown = |name: &&String| schema.argument(name).is_none();
    if let Some(name) = object.keys().find(is_unknown).filter(|_| schema.other_arguments == OtherArguments::Forbidden) {
        return Err(unknown_argument(name, schema));
    }
    check_required(|name| object.contains_key(name), schema)?;
    Ok(raw)
}

fn convert_pairs(words: &[String], schema: &Schema, texts: &dyn TextSource) -> Result<Box<RawValue>, String> {
    let mut given: Vec<(String, Vec<Box<RawValue>>)> = Vec::new();
    for word in words {
        let (name, value) = convert_pair(word, schema, texts)?;
        match given.iter_mut().find(|(other, _)| *other == name) {
            Some((_, values)) => values.push(value),
            None => given.push((name, vec![value])),
        }
    }
    check_required(|name| given.iter().any(|(other, _)| other == name), schema)?;
    let mut members = Vec::new();
    for (name, values) in given {
        members.push(format!("{}:{}", Value::from(&*name), join_values(&name, &values, schema)?));
    }
    RawValue::from_string(format!("{{{}}}", members.join(","))).map_err(|error| error.to_string())
}

/// Converts `key:=JSON`, `key=@FILE` or `key=value`.
fn convert_pair(word: &str, schema: &Schema, texts: &dyn TextSource) -> Result<(String, Box<RawValue>), String> {
    let Some((key, text)) = word.split_once('=') else {
        return Err(format!(
            "`{}` is not an argument: write `key=value`, `key:=JSON` or one JSON object",
            word.escape_debug()
        ));
    };
    let literal = key.strip_suffix(':');
    let key = literal.unwrap_or(key);
    let argument = schema.argument(key);
    let is_forbidden = match schema.other_arguments {
        OtherArguments::Allowed => false,
        OtherArguments::Unspecified => literal.is_none(),
        OtherArguments::Forbidden => true,
    };
    if argument.is_none() && is_forbidden {
        return Err(unknown_argument(key, schema));
    }
    let value = match (literal, text.strip_prefix('@')) {
        (Some(_), _) => serde_json::from_str(text).map_err(|error| format!("`{key}` is not JSON: {error}"))?,
        (None, Some(doubled)) if doubled.starts_with('@') => convert_text(key, doubled, argument)?,
        (None, Some(path)) => convert_text(key, &texts.file(path)?, argument)?,
        (None, None) => convert_text(key, text, argument)?,
    };
    Ok((key.to_owned(), value))
}

/// Converts `text` to the first matching type of the argument.
fn convert_text(key: &str, text: &str, argument: Option<&Argument>) -> Result<Box<RawValue>, String> {
    let Some(argument) = argument else { return Ok(quoted(text)) };
    if !argument.choices.is_empty() {
        let words: Vec<_> = argument.choices.iter().map(word).collect();
        let choice = words.iter().position(|word| word == text).map(|index| &argument.choices[index]);
        let invalid = || format!("`{key}` must be one of {}, not `{}`", words.join(", "), text.escape_debug());
        return to_raw_value(choice.ok_or_else(invalid)?).map_err(|error| error.to_string());
    }
    let parse = |kind: &Kind| parse_as(*kind, text, &argument.items);
    if let Some(value) = argument.kinds.iter().find_map(parse) {
        return Ok(value);
    }
    match argument.kinds.contains(&Kind::Text) || argument.kinds.is_empty() {
        true => Ok(quoted(text)),
        false => Err(format!("`{key}` must be of type {}, not `{}`", argument.type_words(), text.escape_debug())),
    }
}

/// `None` if `text` is not of this type. `Kind::Text` is left to the caller, because any text is a text.
fn parse_as(kind: Kind, text: &str, items: &[Kind]) -> Option<Box<RawValue>> {
    let json = || serde_json::from_str::<Box<RawValue>>(text).ok().filter(|raw| raw.get() == text.trim());
    let number = || json().filter(|raw| raw.get().starts_with(|c: char| c == '-' || c.is_ascii_digit()));
    match kind {
        Kind::Text => None,
        Kind::Number => number(),
        Kind::Integer => number().filter(|raw| !raw.get().contains(['.', 'e', 'E'])),
        Kind::Boolean => json().filter(|raw| matches!(raw.get(), "true" | "false")),
        Kind::Null => json().filter(|raw| raw.get() == "null"),
        Kind::Object => json().filter(|raw| raw.get().starts_with('{')),
        Kind::Array => json().filter(|raw| raw.get().starts_with('[')).or_else(|| {
            // A single item: the argument is repeated for more.
            let item = items.iter().find_map(|item| parse_as(*item, text, &[]));
            let item = item.or_else(|| (items.is_empty() || items.contains(&Kind::Text)).then(|| quoted(text)))?;
            RawValue::from_string(format!("[{}]", item.get())).ok()
        }),
    }
}

/// A single value as it is; the values of a repeated array argument as one array.
fn join_values(name: &str, values: &[Box<RawValue>], schema: &Schema) -> Result<String, String> {
    if let [value] = values {
        return Ok(value.get().to_owned());
    }
    let is_list = schema.argument(name).is_some_and(|argument| argument.kinds.contains(&Kind::Array));
    let lists: Option<Vec<Vec<&RawValue>>> =
        values.iter().map(|value| serde_json::from_str(value.get()).ok()).collect();
    match lists {
        Some(lists) if is_list => {
            Ok(format!("[{}]", lists.concat().iter().map(|item| item.get()).collect::<Vec<_>>().join(",")))
        }
        _ => Err(format!("`{name}` is given {} times, and only an array can be repeated", values.len())),
    }
}

/// Fails if a required argument is missing.
fn check_required(has: impl Fn(&str) -> bool, schema: &Schema) -> Result<(), String> {
    let missing = schema.arguments.iter().filter(|one| one.is_required && !has(&one.name));
    let missing: Vec<_> = missing.map(|one| format!("`{}` ({})", one.name, one.type_words())).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("missing {}", missing.join(" and "))) }
}

fn unknown_argument(name: &str, schema: &Schema) -> String {
    let names = || schema.arguments.iter().map(|one| &*one.name);
    let hint = match nearest(name, names()) {
        Some(nearest) => format!(": did you mean `{nearest}`?"),
        None if schema.arguments.is_empty() => ": the tool takes no arguments".to_owned(),
        None => format!("; its arguments are {}", names().collect::<Vec<_>>().join(", ")),
    };
    format!("unknown argument `{}`{hint}", name.escape_debug())
}

/// A value as typed: text without quotes.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn quoted(text: &str) -> Box<RawValue> {
    to_raw_value(text).unwrap_or_default()
}

#[cfg(test)]
mod tests;
