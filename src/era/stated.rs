//! What a request of the modern era states of itself in `_meta`, so that nothing has to be known from before.
//!
//! Source: MCP 2026-07-28, `basic`, "Per-request protocol fields", and `basic/versioning`.

use bytes::Bytes;
use serde_json::json;

use super::{MODERN, TASKS, UNSUPPORTED_VERSION, meta};
use crate::jsonrpc::is_id;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS};
use crate::level::Level;

/// Longest name of a version that is repeated to who asked for it, in bytes.
const LONGEST_VERSION: usize = 64;

/// What a request states that each is looked at for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stated {
    /// From which level on log messages of it are wanted, if any are.
    pub level: Option<Level>,
    /// It may be answered with a task.
    pub takes_tasks: bool,
}

/// What a request states of its client, as slices of it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Client {
    /// What it can do, raw.
    pub capabilities: Option<Bytes>,
    /// What it is called, raw.
    pub info: Option<Bytes>,
}

impl Client {
    /// That of a request with these raw params; what cannot be read states nothing.
    #[must_use]
    pub fn of(params: Option<&Bytes>) -> Self {
        let meta = params.and_then(|params| members(params, ["_meta"]).ok()).and_then(|[meta]| meta);
        let found = meta.and_then(|raw| members(&raw, [meta::CAPABILITIES, meta::CLIENT]).ok());
        found.map_or_else(Self::default, |[capabilities, info]| Self { capabilities, info })
    }
}

/// What the `_meta` of a request says, of whichever era it is.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Raw.
    pub progress_token: Option<Bytes>,
    /// `None` if it is a request of the legacy era.
    pub stated: Option<Stated>,
}

/// Why a request cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// It is of a version that is not spoken here.
    Version(String),
    /// Something of it is malformed, or missing; for a person.
    Malformed(&'static str),
}

impl Unreadable {
    /// The error that says so.
    #[must_use]
    pub fn to_object(&self) -> ErrorObject {
        match self {
            Self::Version(requested) => ErrorObject {
                data: Some(json!({ "supported": [MODERN], "requested": requested })),
                ..ErrorObject::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
            },
            Self::Malformed(what) => ErrorObject::new(INVALID_PARAMS, *what),
        }
    }
}

impl Meta {
    /// That of a request with this raw `_meta`.
    ///
    /// # Errors
    /// If the request is of the modern era and lacks what that wants of it, or is of a version that is not spoken, or if anything in it
    /// is malformed.
    pub fn read(raw: Option<&Bytes>) -> Result<Self, Unreadable> {
        const MALFORMED: Unreadable = Unreadable::Malformed("`_meta` or its `progressToken` is malformed");
        let Some(raw) = raw.filter(|raw| raw[..] != b"null"[..]) else { return Ok(Self::default()) };
        let wanted = ["progressToken", meta::PROTOCOL, meta::CAPABILITIES, meta::LEVEL];
        let [progress_token, protocol, capabilities, level] = members(raw, wanted).map_err(|_| MALFORMED)?;
        if progress_token.as_ref().is_some_and(|raw| !is_id(raw)) {
            return Err(MALFORMED);
        }
        let stated = match protocol {
            Some(protocol) => Some(stated(&protocol, capabilities.as_ref(), level.as_ref())?),
            None => None,
        };
        Ok(Self { progress_token, stated })
    }

    /// That of a request with these raw params.
    ///
    /// # Errors
    /// As of [`Meta::read`].
    pub fn of(params: Option<&Bytes>) -> Result<Self, Unreadable> {
        let found = params.map(|params| members(params, ["_meta"]));
        match found {
            Some(Ok([meta])) => Self::read(meta.as_ref()),
            Some(Err(_)) => Err(Unreadable::Malformed("`params` is no object, or says a thing twice")),
            None => Ok(Self::default()),
        }
    }
}

fn stated(protocol: &Bytes, capabilities: Option<&Bytes>, level: Option<&Bytes>) -> Result<Stated, Unreadable> {
    let version = text(protocol).ok_or(Unreadable::Malformed("the protocol version in `_meta` is no string"))?;
    if version[..] != *MODERN.as_bytes() {
        let version = String::from_utf8_lossy(&version[..version.len().min(LONGEST_VERSION)]).into_owned();
        return Err(Unreadable::Version(version));
    }
    let Some(capabilities) = capabilities.filter(|raw| raw.starts_with(b"{")) else {
        let what = "`io.modelcontextprotocol/clientCapabilities` is missing in `_meta`, or no object";
        return Err(Unreadable::Malformed(what));
    };
    let read = |raw| text(raw).and_then(|word| Level::named(&word));
    let no_level = Unreadable::Malformed("`io.modelcontextprotocol/logLevel` in `_meta` is no level");
    let level = level.map(|raw| read(raw).ok_or(no_level)).transpose()?;
    Ok(Stated { level, takes_tasks: takes_tasks(capabilities) })
}

/// Whether these raw capabilities have the extension for tasks.
///
/// Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Capability Negotiation".
fn takes_tasks(capabilities: &Bytes) -> bool {
    // Few have any extension: looking costs less than reading.
    let may = memchr::memmem::find(capabilities, b"extensions").is_some();
    let extensions = may.then(|| members(capabilities, ["extensions"]).ok().and_then(|[raw]| raw)).flatten();
    let found = extensions.and_then(|raw| members(&raw, [TASKS]).ok().and_then(|[raw]| raw));
    found.is_some_and(|raw| raw.starts_with(b"{"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(meta: &'static str) -> Result<Meta, Unreadable> {
        Meta::read(Some(&Bytes::from_static(meta.as_bytes())))
    }

    #[test]
    fn a_request_is_modern_if_it_says_its_version() {
        for (meta, token, is_modern) in [
            ("{}", None, false),
            ("null", None, false),
            (r#"{"progressToken":7}"#, Some("7"), false),
            (r#"{"io.modelcontextprotocol/clientCapabilities":{}}"#, None, false),
            (
                r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"t"}"#,
                Some("\"t\""),
                true,
            ),
            (
                r#"{"io.modelcontextprotocol\/protocolVersion":"2026-07-2\u0038","io.modelcontextprotocol/clientCapabilities":{}}"#,
                None,
                true,
            ),
        ] {
            let found = read(meta).expect("well-formed");
            let expected = token.map(|token| Bytes::from_static(token.as_bytes()));
            assert_eq!((found.progress_token, found.stated.is_some()), (expected, is_modern), "{meta}");
        }
    }

    #[test]
    fn tasks_are_taken_where_their_extension_is_declared() {
        for (capabilities, expected) in [
            (r#"{"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{}}}"#, true),
            (r#"{"extensions":{"a/b":{}}}"#, false),
            (r#"{"extensions":{"io.modelcontextprotocol/tasks":null}}"#, false),
            (r#"{"extensions":[]}"#, false),
            (r#"{"io.modelcontextprotocol/tasks":{}}"#, false),
            ("{}", false),
        ] {
            assert_eq!(takes_tasks(&Bytes::from_static(capabilities.as_bytes())), expected, "{capabilities}");
        }
    }

    #[test]
    fn what_a_modern_request_lacks_is_said() {
        for (meta, expected) in [
            (r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#, Err("clientCapabilities")),
            (
                r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}"#,
                Err("clientCapabilities"),
            ),
            (
                r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"loud"}"#,
                Err("logLevel"),
            ),
            (r#"{"io.modelcontextprotocol/protocolVersion":7}"#, Err("no string")),
            (r#"{"io.modelcontextprotocol/protocolVersion":"1900-01-01"}"#, Ok("1900-01-01")),
            (r#"{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}"#, Ok("2025-11-25")),
            (r#"{"progressToken":{}}"#, Err("progressToken")),
            ("[]", Err("malformed")),
        ] {
            let error = read(meta).expect_err(meta).to_object();
            match expected {
                Ok(version) => {
                    let data = json!({ "supported": ["2026-07-28"], "requested": version });
                    assert_eq!((error.code, error.data), (-32022, Some(data)), "{meta}");
                }
                Err(part) => assert!(error.code == -32602 && error.message.contains(part), "{meta}: {error:?}"),
            }
        }
    }
}
