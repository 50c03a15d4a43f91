//! Headers of a modern request: parts of its body, for intermediaries that route without reading bodies. Pure.
//!
//! A header names the method and the tool of a request, and has the arguments that the tool requires in headers. Text that
//! a header cannot carry is encoded. Source: MCP 2026-07-28, `basic/transports/streamable-http`, "Request Metadata".

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::era::{self, VERSION_HEADER};
use crate::jsonrpc::members::{each, members, text};
use crate::methods;

/// Delimiters around base64.
const OPENS: &[u8] = b"=?base64?";
const CLOSES: &[u8] = b"?=";

/// Returns `text` as it is if that is unambiguous, otherwise in base64.
fn value(text: &Bytes) -> HeaderValue {
    let plain = Some(text).filter(|text| is_plain(text)).cloned();
    let encoded = || Bytes::from([OPENS, STANDARD.encode(text).as_bytes(), CLOSES].concat());
    HeaderValue::from_maybe_shared(plain.unwrap_or_else(encoded)).expect("both are visible ASCII and spaces")
}

/// Whether the text survives as a header value.
fn is_plain(text: &[u8]) -> bool {
    let is_visible = text.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let is_padded = text.first() == Some(&b' ') || text.last() == Some(&b' ');
    let looks_encoded = text.starts_with(OPENS) && text.ends_with(CLOSES);
    is_visible && !is_padded && !looks_encoded
}

/// The schema keyword that names a header.
const KEY: &str = "x-mcp-header";
/// The prefix of header names.
const PREFIX: &[u8] = b"mcp-param-";
/// Maximum per tool: servers accept about a hundred headers per request.
const MAX_HEADERS: usize = 64;
/// Argument types that can be sent in a header.
const TYPES: [&str; 3] = ["string", "integer", "boolean"];
/// The largest integer that every program reads alike. Source: as above, "Schema Extension".
const LARGEST: f64 = 9_007_199_254_740_991.0;

/// Keywords whose values are schemas, or arrays of schemas.
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
/// Keywords whose values are schemas by name, beside `properties`.
const NAMED_SCHEMAS: &[&str] = &["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"];

/// Header params of a server's tools.
#[derive(Debug, Default)]
pub(crate) struct HeaderParams(HashMap<Bytes, Param>);

/// Header params of one value: its own header, and those of its members by name.
#[derive(Debug, Default)]
struct Param {
    header: Option<HeaderName>,
    members: BTreeMap<Bytes, Param>,
}

/// Why a tool must not be offered. For a person, in the middle of a sentence.
pub(crate) type InvalidTool = &'static str;

impl HeaderParams {
    /// Records the header params in a tool's definition.
    ///
    /// # Errors
    /// Why the tool must not be offered.
    pub(crate) fn note(&mut self, tool: &str, definition: &Bytes) -> Result<(), InvalidTool> {
        if let Some(param) = Param::of(definition)? {
            self.0.insert(Bytes::copy_from_slice(tool.as_bytes()), param);
        }
        Ok(())
    }

    /// Adds the headers for a call of `tool` with these arguments.
    fn add(&self, tool: &[u8], arguments: &Bytes, headers: &mut HeaderMap) {
        if let Some(param) = self.0.get(tool) {
            param.add(arguments, headers);
        }
    }
}

impl Param {
    /// The header params in a tool's definition, if it has any.
    fn of(definition: &Bytes) -> Result<Option<Self>, InvalidTool> {
        // Few tools have this key, and none writes it with escapes.
        if memchr::memmem::find(definition, KEY.as_bytes()).is_none() {
            return Ok(None);
        }
        let schema = members(definition, ["inputSchema"]).ok().and_then(|[schema]| schema);
        let schema = schema.and_then(|schema| serde_json::from_slice(&schema).ok());
        let schema: Value = schema.ok_or("its schema is nested too deeply")?;
        let (mut param, mut seen) = (Self::default(), HashSet::new());
        read(&schema, Position::Top(&mut param), &mut seen)?;
        Ok((!seen.is_empty()).then_some(param))
    }

    fn add(&self, given: &Bytes, headers: &mut HeaderMap) {
        if let Some(header) = &self.header
            && let Some(mut shown) = shown(given)
        {
            // It may be a secret. HTTP/2 then does not index it for compression.
            shown.set_sensitive(true);
            headers.insert(header, shown);
        }
        if !self.members.is_empty() {
            // Other values have no members.
            let _ = each(given, |name, value| {
                if let Some(param) = self.members.get(&name) {
                    param.add(&value, headers);
                }
            });
        }
    }

    /// Checks the headers of a call against the argument `given`, if there is one. A header without an argument contradicts the body, too.
    fn check(&self, given: Option<&Bytes>, headers: &HeaderMap) -> Result<(), HeaderMismatch> {
        if let Some(header) = &self.header {
            let required = given.filter(|given| shown(given).is_some());
            if required.is_some() || headers.contains_key(header) {
                check_value(header, headers, |value| required.is_some_and(|given| is_shown_as(given, value)))?;
            }
        }
        let mut members = HashMap::new();
        if let Some(given) = given.filter(|_| !self.members.is_empty()) {
            // Other values have no members.
            let _ = each(given, |name, value| drop(members.insert(name, value)));
        }
        self.members.iter().try_for_each(|(name, param)| param.check(members.get(name), headers))
    }
}

/// The position of a schema.
enum Position<'a> {
    Top(&'a mut Param),
    /// Reached by `properties` only.
    Property(&'a mut Param),
    Elsewhere,
}

/// Reads a schema with its subschemas. [`Value`] limits its depth.
fn read(schema: &Value, mut position: Position<'_>, seen: &mut HashSet<HeaderName>) -> Result<(), InvalidTool> {
    let Value::Object(schema) = schema else { return Ok(()) };
    if let Some(name) = schema.get(KEY) {
        let header = header(name, schema.get("type"))?;
        let Position::Property(param) = &mut position else { return Err("has `x-mcp-header` outside of an argument") };
        if seen.len() == MAX_HEADERS || !seen.insert(header.clone()) {
            return Err("has `x-mcp-header` twice for one header, or too often");
        }
        param.header = Some(header);
    }
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (name, schema) in properties {
                    read_property(name, schema, &mut position, seen)?;
                }
            }
            (named, Value::Object(schemas)) if NAMED_SCHEMAS.contains(&named) => {
                schemas.values().try_for_each(|schema| read(schema, Position::Elsewhere, seen))?;
            }
            (several, Value::Array(schemas)) if SCHEMAS.contains(&several) => {
                schemas.iter().try_for_each(|schema| read(schema, Position::Elsewhere, seen))?;
            }
            (single, schema) if SCHEMAS.contains(&single) => read(schema, Position::Elsewhere, seen)?,
            _ => {}
        }
    }
    Ok(())
}

fn read_property(
    name: &str,
    schema: &Value,
    parent: &mut Position<'_>,
    seen: &mut HashSet<HeaderName>,
) -> Result<(), InvalidTool> {
    let (Position::Top(parent) | Position::Property(parent)) = parent else {
        return read(schema, Position::Elsewhere, seen);
    };
    let mut param = Param::default();
    read(schema, Position::Property(&mut param), seen)?;
    if param.header.is_some() || !param.members.is_empty() {
        parent.members.insert(Bytes::copy_from_slice(name.as_bytes()), param);
    }
    Ok(())
}

/// The header with this name, for an argument of this type.
fn header(name: &Value, of_type: Option<&Value>) -> Result<HeaderName, InvalidTool> {
    let name = name.as_str().filter(|name| !name.is_empty()).ok_or("has an `x-mcp-header` that is not a string")?;
    if !of_type.and_then(Value::as_str).is_some_and(|of_type| TYPES.contains(&of_type)) {
        return Err("has `x-mcp-header` on an argument that is no string, integer or boolean");
    }
    HeaderName::from_bytes(&[PREFIX, name.as_bytes()].concat())
        .map_err(|_| "has an `x-mcp-header` that is not a header name")
}

/// An argument as a header value; `None` for types that no header has.
fn shown(argument: &Bytes) -> Option<HeaderValue> {
    match argument.first()? {
        b'"' => Some(value(&text(argument)?)),
        b't' | b'f' => Some(value(argument)),
        b'-' | b'0'..=b'9' => Some(value(&integer(argument))),
        _ => None,
    }
}

/// Whether the text of a header is this argument. Integers may be written in several ways.
fn is_shown_as(argument: &Bytes, shown: &Bytes) -> bool {
    match argument.first() {
        Some(b'"') => text(argument).is_some_and(|argument| argument == *shown),
        Some(b't' | b'f') => argument == shown,
        _ => integer(argument) == integer(shown),
    }
}

/// Writes an integer in digits. Other numbers stay as they are.
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

const PROTOCOL: HeaderName = HeaderName::from_static(VERSION_HEADER);
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Maximum size of these headers, names and values, in bytes: many servers accept no more for all headers.
const MAX_SIZE: usize = 8 << 10;

/// The required headers exceed what servers accept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeadersTooLarge;

/// The headers of the request `line`. They are read from the line itself, so both always agree. A missing or repeated
/// member is left out, for the server to refuse.
///
/// # Errors
/// If they exceed [`MAX_SIZE`].
pub(super) fn request_headers(line: &Bytes, header_params: &HeaderParams) -> Result<HeaderMap, HeadersTooLarge> {
    let headers = headers(line, header_params);
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > MAX_SIZE { Err(HeadersTooLarge) } else { Ok(headers) }
}

fn headers(line: &Bytes, header_params: &HeaderParams) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(PROTOCOL, HeaderValue::from_static(era::MODERN));
    let [method, params] = members(line, ["method", "params"]).unwrap_or_default();
    let Some(method) = method.and_then(|raw| text(&raw)) else { return headers };
    headers.insert(METHOD, value(&method));
    if let (Some(params), Some(naming_param)) = (params, methods::naming_param(&method)) {
        let [name, arguments] = members(&params, [naming_param, "arguments"]).unwrap_or_default();
        let Some(name) = name.and_then(|raw| text(&raw)) else { return headers };
        headers.insert(NAME, value(&name));
        if let Some(arguments) = arguments.filter(|_| method[..] == *b"tools/call") {
            header_params.add(&name, &arguments, &mut headers);
        }
    }
    headers
}

/// Why the headers of a request contradict its body: the header, and what is wrong. For a person.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeaderMismatch {
    header: HeaderName,
    why: &'static str,
}

impl fmt::Display for HeaderMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "header `{}` {}", self.header, self.why)
    }
}

/// Checks the headers of the modern request `line` against it: its method, what it names, its version, if it has one, and the arguments
/// that its tool requires in headers. `definition` finds the definition of a tool.
///
/// # Errors
/// If a required header is missing or repeated, or differs from the body.
pub(crate) fn check_headers(
    line: &Bytes,
    headers: &HeaderMap,
    definition: impl FnOnce(&[u8]) -> Option<Bytes>,
) -> Result<(), HeaderMismatch> {
    let [method, params] = members(line, ["method", "params"]).unwrap_or_default();
    let method = method.and_then(|raw| text(&raw));
    check_header(&METHOD, method.as_ref(), headers)?;
    let version = params.as_ref().and_then(declared_version);
    if version.is_some() {
        check_header(&PROTOCOL, version.as_ref(), headers)?;
    }
    let Some((method, params)) = method.zip(params) else { return Ok(()) };
    let Some(naming_param) = methods::naming_param(&method) else { return Ok(()) };
    let [name, arguments] = members(&params, [naming_param, "arguments"]).unwrap_or_default();
    let Some(name) = name.and_then(|raw| text(&raw)) else { return Ok(()) };
    // Task methods belong to an extension (SEP-2663), whose clients may leave the header out.
    if naming_param != "taskId" || headers.contains_key(NAME) {
        check_header(&NAME, Some(&name), headers)?;
    }
    if method[..] != *b"tools/call" {
        return Ok(());
    }
    // Clients know no header params of a tool whose definition has invalid ones.
    let param = definition(&name).and_then(|definition| Param::of(&definition).ok()?);
    param.map_or(Ok(()), |param| param.check(arguments.as_ref(), headers))
}

fn declared_version(params: &Bytes) -> Option<Bytes> {
    let [meta] = members(params, ["_meta"]).ok()?;
    let [version] = members(&meta?, [era::meta::PROTOCOL]).ok()?;
    text(&version?)
}

fn check_header(name: &HeaderName, expected: Option<&Bytes>, headers: &HeaderMap) -> Result<(), HeaderMismatch> {
    check_value(name, headers, |value| expected == Some(value))
}

/// Checks the only value of a header.
fn check_value(
    name: &HeaderName,
    headers: &HeaderMap,
    matches: impl FnOnce(&Bytes) -> bool,
) -> Result<(), HeaderMismatch> {
    let wrong = |why| Err(HeaderMismatch { header: name.clone(), why });
    let mut values = headers.get_all(name).into_iter();
    let (Some(value), None) = (values.next(), values.next()) else { return wrong("is missing or repeated") };
    match decoded(value.as_bytes()) {
        None => wrong("is no valid base64"),
        Some(value) if matches(&value) => Ok(()),
        Some(_) => wrong("does not match the body"),
    }
}

/// The text of a header value, which may be in base64.
fn decoded(value: &[u8]) -> Option<Bytes> {
    match value.strip_prefix(OPENS).and_then(|value| value.strip_suffix(CLOSES)) {
        Some(encoded) => STANDARD.decode(encoded).ok().map(Bytes::from),
        None => Some(Bytes::copy_from_slice(value)),
    }
}
