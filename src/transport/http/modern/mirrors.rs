//! The arguments of calls that servers want to see in headers: which, and what they are then.
//!
//! Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Custom Headers from Tool Parameters".

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::value::value;
use crate::jsonrpc::members::{each, members, text};

/// The key of a schema that names a header.
const KEY: &str = "x-mcp-header";
/// What stands before that name.
const PREFIX: &[u8] = b"mcp-param-";
/// Most of one tool: servers take about a hundred headers with a request.
const MOST: usize = 64;
/// The types of arguments that can be wanted.
const TYPES: [&str; 3] = ["string", "integer", "boolean"];
/// The integers that every program reads alike end here. Source: as above, "Schema Extension".
const LARGEST: f64 = 9_007_199_254_740_991.0;

/// Keywords whose values are schemas, or arrays of them.
const SCHEMAS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose values have schemas by name, beside `properties`.
const NAMED_SCHEMAS: &[&str] = &["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"];

/// What the tools of a server want.
#[derive(Debug, Default)]
pub(crate) struct Mirrors(HashMap<Bytes, Wanted>);

/// Of one value: the header that it is wanted in, and what is wanted of what is in it, by name.
#[derive(Debug, Default)]
struct Wanted {
    header: Option<HeaderName>,
    within: BTreeMap<Bytes, Wanted>,
}

/// Why a tool is none that may be offered. For a person, in the middle of a sentence.
pub(crate) type Unfit = &'static str;

impl Mirrors {
    /// Takes note of what the tool of this name wants that is defined so.
    ///
    /// # Errors
    /// Says why nobody may be offered it.
    pub(crate) fn note(&mut self, tool: &str, definition: &Bytes) -> Result<(), Unfit> {
        // Few have it, and nobody spells it with escapes.
        if memchr::memmem::find(definition, KEY.as_bytes()).is_none() {
            return Ok(());
        }
        let schema = members(definition, ["inputSchema"]).ok().and_then(|[schema]| schema);
        let schema = schema.and_then(|schema| serde_json::from_slice(&schema).ok());
        let schema: Value = schema.ok_or("its schema is too deep to be read")?;
        let (mut wanted, mut seen) = (Wanted::default(), HashSet::new());
        read(&schema, Place::Top(&mut wanted), &mut seen)?;
        if !seen.is_empty() {
            self.0.insert(Bytes::copy_from_slice(tool.as_bytes()), wanted);
        }
        Ok(())
    }

    /// Adds the headers that a call of `tool` with these arguments has.
    pub(super) fn add(&self, tool: &[u8], arguments: &Bytes, headers: &mut HeaderMap) {
        if let Some(wanted) = self.0.get(tool) {
            wanted.add(arguments, headers);
        }
    }
}

impl Wanted {
    fn add(&self, given: &Bytes, headers: &mut HeaderMap) {
        if let Some(header) = &self.header
            && let Some(mut shown) = shown(given)
        {
            // It may be a secret: what goes by on the way keeps no copy.
            shown.set_sensitive(true);
            headers.insert(header, shown);
        }
        if !self.within.is_empty() {
            // What is no object has nothing within.
            let _ = each(given, |name, value| {
                if let Some(wanted) = self.within.get(&name) {
                    wanted.add(&value, headers);
                }
            });
        }
    }
}

/// Where a schema stands.
enum Place<'a> {
    Top(&'a mut Wanted),
    /// What leads here are names of properties and nothing else.
    Property(&'a mut Wanted),
    Elsewhere,
}

/// Reads a schema with all that are in it. It is as deep at most as what is read into a [`Value`] can be.
fn read(schema: &Value, mut place: Place<'_>, seen: &mut HashSet<HeaderName>) -> Result<(), Unfit> {
    let Value::Object(schema) = schema else { return Ok(()) };
    if let Some(name) = schema.get(KEY) {
        let header = header(name, schema.get("type"))?;
        let Place::Property(wanted) = &mut place else { return Err("names a header where no argument is") };
        if seen.len() == MOST || !seen.insert(header.clone()) {
            return Err("names a header twice, or too many");
        }
        wanted.header = Some(header);
    }
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (name, schema) in properties {
                    read_property(name, schema, &mut place, seen)?;
                }
            }
            (named, Value::Object(schemas)) if NAMED_SCHEMAS.contains(&named) => {
                schemas.values().try_for_each(|schema| read(schema, Place::Elsewhere, seen))?;
            }
            (several, Value::Array(schemas)) if SCHEMAS.contains(&several) => {
                schemas.iter().try_for_each(|schema| read(schema, Place::Elsewhere, seen))?;
            }
            (single, schema) if SCHEMAS.contains(&single) => read(schema, Place::Elsewhere, seen)?,
            _ => {}
        }
    }
    Ok(())
}

fn read_property(
    name: &str,
    schema: &Value,
    parent: &mut Place<'_>,
    seen: &mut HashSet<HeaderName>,
) -> Result<(), Unfit> {
    let (Place::Top(parent) | Place::Property(parent)) = parent else { return read(schema, Place::Elsewhere, seen) };
    let mut wanted = Wanted::default();
    read(schema, Place::Property(&mut wanted), seen)?;
    if wanted.header.is_some() || !wanted.within.is_empty() {
        parent.within.insert(Bytes::copy_from_slice(name.as_bytes()), wanted);
    }
    Ok(())
}

/// The header of this name, for an argument of this type.
fn header(name: &Value, of_type: Option<&Value>) -> Result<HeaderName, Unfit> {
    let name = name.as_str().filter(|name| !name.is_empty()).ok_or("names a header by no text")?;
    if !of_type.and_then(Value::as_str).is_some_and(|of_type| TYPES.contains(&of_type)) {
        return Err("names a header for what is no string, integer or boolean");
    }
    HeaderName::from_bytes(&[PREFIX, name.as_bytes()].concat()).map_err(|_| "names a header as none can be called")
}

/// An argument as a header has it; nothing for what no header has.
fn shown(argument: &Bytes) -> Option<HeaderValue> {
    match argument.first()? {
        b'"' => Some(value(&text(argument)?)),
        b't' | b'f' => Some(value(argument)),
        b'-' | b'0'..=b'9' => Some(value(&integer(argument))),
        _ => None,
    }
}

/// A number in digits, if it is an integer that has a shorter way to be written.
fn integer(number: &Bytes) -> Bytes {
    if number.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9')) {
        return number.clone();
    }
    let read = std::str::from_utf8(number).ok().and_then(|number| number.parse::<f64>().ok());
    match read.filter(|number| number.fract() == 0.0 && number.abs() <= LARGEST) {
        Some(integer) => format!("{integer:.0}").into(),
        None => number.clone(),
    }
}

#[cfg(test)]
mod tests;
