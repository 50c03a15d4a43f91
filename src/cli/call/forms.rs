//! The forms in which the arguments of a call are written, and the JSON that is made of them.
//!
//! `key=value` is of the type that the tool's schema has for the key, `key:=JSON` is what it says, `key=@FILE` is what the file has,
//! one word that begins with `{` is all of them, and so is what `-` reads. What does not fit is told before anything is sent.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::cli::schema::{Argument, Kind, Others, Schema};
use crate::suggest::nearest;

/// Where texts come from that do not stand on the command line.
pub(super) trait Texts {
    /// All of standard input.
    fn input(&self) -> Result<String, String>;
    /// All of a file.
    fn file(&self, path: &str) -> Result<String, String>;
}

/// Arguments as they are written, of which it is not known yet whether the tool takes them.
pub(super) enum Form<'w> {
    /// All of them, one JSON object.
    Whole(Box<RawValue>),
    /// One in each word.
    Pairs(&'w [String]),
}

impl<'w> Form<'w> {
    /// Takes words for what they are.
    ///
    /// # Errors
    /// If they are to be JSON, and are no JSON object.
    pub(super) fn of(words: &'w [String], texts: &dyn Texts) -> Result<Self, String> {
        let text = match words {
            [word] if word == "-" => texts.input()?,
            [word] if word.trim_start().starts_with(['{', '[', '"']) => word.clone(),
            _ => return Ok(Self::Pairs(words)),
        };
        let raw: Box<RawValue> =
            serde_json::from_str(text.trim()).map_err(|error| format!("the arguments are not JSON: {error}"))?;
        if !raw.get().starts_with('{') {
            return Err("the arguments are not a JSON object, such as '{\"path\": \"notes.md\"}'".to_owned());
        }
        Ok(Self::Whole(raw))
    }

    /// One JSON object as it goes out: number spelling and order are as they were typed.
    ///
    /// # Errors
    /// What does not fit to the tool, and what does.
    pub(super) fn fitted(self, schema: &Schema, texts: &dyn Texts) -> Result<Box<RawValue>, String> {
        match self {
            Self::Whole(raw) => whole(raw, schema),
            Self::Pairs(words) => pairs(words, schema, texts),
        }
    }
}

fn whole(raw: Box<RawValue>, schema: &Schema) -> Result<Box<RawValue>, String> {
    let object: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    let is_unknown = |name: &&String| schema.argument(name).is_none();
    if let Some(name) = object.keys().find(is_unknown).filter(|_| schema.others == Others::Refused) {
        return Err(unknown(name, schema));
    }
    complete(|name| object.contains_key(name), schema)?;
    Ok(raw)
}

fn pairs(words: &[String], schema: &Schema, texts: &dyn Texts) -> Result<Box<RawValue>, String> {
    let mut given: Vec<(String, Vec<Box<RawValue>>)> = Vec::new();
    for word in words {
        let (name, value) = pair(word, schema, texts)?;
        match given.iter_mut().find(|(other, _)| *other == name) {
            Some((_, values)) => values.push(value),
            None => given.push((name, vec![value])),
        }
    }
    complete(|name| given.iter().any(|(other, _)| other == name), schema)?;
    let mut members = Vec::new();
    for (name, values) in given {
        members.push(format!("{}:{}", Value::from(&*name), joined(&name, &values, schema)?));
    }
    RawValue::from_string(format!("{{{}}}", members.join(","))).map_err(|error| error.to_string())
}

/// One of `key:=JSON`, `key=@FILE`, `key=value`.
fn pair(word: &str, schema: &Schema, texts: &dyn Texts) -> Result<(String, Box<RawValue>), String> {
    let Some((key, text)) = word.split_once('=') else {
        return Err(format!(
            "`{}` is no argument: write `key=value`, `key:=JSON` or one JSON object",
            word.escape_debug()
        ));
    };
    let literal = key.strip_suffix(':');
    let key = literal.unwrap_or(key);
    let argument = schema.argument(key);
    let is_refused = match schema.others {
        Others::Welcome => false,
        Others::Unmentioned => literal.is_none(),
        Others::Refused => true,
    };
    if argument.is_none() && is_refused {
        return Err(unknown(key, schema));
    }
    let value = match (literal, text.strip_prefix('@')) {
        (Some(_), _) => serde_json::from_str(text).map_err(|error| format!("`{key}` is not JSON: {error}"))?,
        (None, Some(doubled)) if doubled.starts_with('@') => typed(key, doubled, argument)?,
        (None, Some(path)) => typed(key, &texts.file(path)?, argument)?,
        (None, None) => typed(key, text, argument)?,
    };
    Ok((key.to_owned(), value))
}

/// `text` as the first type that the argument may have and that fits.
fn typed(key: &str, text: &str, argument: Option<&Argument>) -> Result<Box<RawValue>, String> {
    let Some(argument) = argument else { return Ok(quoted(text)) };
    if !argument.choices.is_empty() {
        let words: Vec<_> = argument.choices.iter().map(word).collect();
        let choice = words.iter().position(|word| word == text).map(|index| &argument.choices[index]);
        let refused = || format!("`{key}` is one of {}, not `{}`", words.join(", "), text.escape_debug());
        return to_raw_value(choice.ok_or_else(refused)?).map_err(|error| error.to_string());
    }
    let fits = |kind: &Kind| fitting(*kind, text, &argument.items);
    if let Some(value) = argument.kinds.iter().find_map(fits) {
        return Ok(value);
    }
    match argument.kinds.contains(&Kind::Text) || argument.kinds.is_empty() {
        true => Ok(quoted(text)),
        false => Err(format!("`{key}` is of type {}, not `{}`", argument.type_words(), text.escape_debug())),
    }
}

/// Text fits only if nothing else does: it takes whatever there is.
fn fitting(kind: Kind, text: &str, items: &[Kind]) -> Option<Box<RawValue>> {
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
            // One of its items: as often as it is given, so many.
            let item = items.iter().find_map(|item| fitting(*item, text, &[]));
            let item = item.or_else(|| (items.is_empty() || items.contains(&Kind::Text)).then(|| quoted(text)))?;
            RawValue::from_string(format!("[{}]", item.get())).ok()
        }),
    }
}

/// What is given once as it is, and arrays that are given several times as one.
fn joined(name: &str, values: &[Box<RawValue>], schema: &Schema) -> Result<String, String> {
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
        _ => Err(format!("`{name}` is given {} times", values.len())),
    }
}

/// Fails unless all is there that is needed.
fn complete(has: impl Fn(&str) -> bool, schema: &Schema) -> Result<(), String> {
    let missing = schema.arguments.iter().filter(|one| one.is_required && !has(&one.name));
    let missing: Vec<_> = missing.map(|one| format!("`{}` ({})", one.name, one.type_words())).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("it needs {}", missing.join(" and "))) }
}

fn unknown(name: &str, schema: &Schema) -> String {
    let names = || schema.arguments.iter().map(|one| &*one.name);
    let hint = match nearest(name, names()) {
        Some(nearest) => format!(": did you mean `{nearest}`?"),
        None if schema.arguments.is_empty() => ": it takes none".to_owned(),
        None => format!(": there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    format!("it takes no argument `{}`{hint}", name.escape_debug())
}

/// A value as it is typed: a text without its quotes.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn quoted(text: &str) -> Box<RawValue> {
    to_raw_value(text).unwrap_or_default()
}

#[cfg(test)]
mod tests;
