//! The reserved members in `_meta` of a modern request, which make the request independent of earlier messages.
//!
//! Source: MCP 2026-07-28, `basic`, "Per-request protocol fields", and `basic/versioning`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::{MODERN, TASKS, UNSUPPORTED_VERSION, meta};
use crate::jsonrpc::is_id;
use crate::jsonrpc::members::{members, string, text};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS};
use crate::log_level::LogLevel;

/// The name of the server whose face the sender uses, in `_meta` of a modern request or of `initialize`.
pub const SERVER: &str = "mcpd/server";

/// Maximum length in bytes of an unsupported version that is quoted in the error.
const MAX_VERSION_LEN: usize = 64;

/// The members that are read of every modern request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModernMeta {
    /// The lowest level of log messages about the request; `None` for no messages.
    pub level: Option<LogLevel>,
    /// The response may be a task.
    pub supports_tasks: bool,
}

/// The client of a request, as slices of the request.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its capabilities, raw.
    pub capabilities: Option<Bytes>,
    /// Its name and version, raw.
    pub info: Option<Bytes>,
}

impl Client {
    /// Reads the client of a request with these raw params. Malformed params have no client.
    #[must_use]
    pub fn of(params: Option<&Bytes>) -> Self {
        let meta = params.and_then(|params| members(params, ["_meta"]).ok()).and_then(|[meta]| meta);
        let found = meta.and_then(|raw| members(&raw, [meta::CAPABILITIES, meta::CLIENT]).ok());
        found.map_or_else(Self::default, |[capabilities, info]| Self { capabilities, info })
    }
}

/// The `_meta` of a request of either era.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Raw.
    pub progress_token: Option<Bytes>,
    /// `None` for a request of the legacy era.
    pub modern: Option<ModernMeta>,
    /// The server whose face a modern request uses.
    pub face: Option<Arc<str>>,
}

/// Why the `_meta` of a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetaError {
    /// The version is not supported.
    Version(String),
    /// A member is malformed or missing; the text is for a person.
    Malformed(&'static str),
}

impl MetaError {
    /// The error for the client.
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
    /// Reads this raw `_meta`.
    ///
    /// # Errors
    /// If a member is malformed, the version is not supported, or a modern request lacks a required member.
    pub fn read(raw: Option<&Bytes>) -> Result<Self, MetaError> {
        const MALFORMED: MetaError = MetaError::Malformed("`_meta` or its `progressToken` is malformed");
        let Some(raw) = raw.filter(|raw| raw[..] != b"null"[..]) else { return Ok(Self::default()) };
        let names = ["progressToken", meta::PROTOCOL, meta::CAPABILITIES, meta::LEVEL, SERVER];
        let [progress_token, protocol, capabilities, level, server] = members(raw, names).map_err(|_| MALFORMED)?;
        if progress_token.as_ref().is_some_and(|raw| !is_id(raw)) {
            return Err(MALFORMED);
        }
        let modern = match protocol {
            Some(protocol) => Some(modern(&protocol, capabilities.as_ref(), level.as_ref())?),
            None => None,
        };
        let face = server.filter(|_| modern.is_some()).map(|raw| read_face(&raw)).transpose()?;
        Ok(Self { progress_token, modern, face })
    }

    /// Reads the `_meta` of these raw params.
    ///
    /// # Errors
    /// As of [`Meta::read`].
    pub fn of(params: Option<&Bytes>) -> Result<Self, MetaError> {
        let found = params.map(|params| members(params, ["_meta"]));
        match found {
            Some(Ok([meta])) => Self::read(meta.as_ref()),
            Some(Err(_)) => Err(MetaError::Malformed("`params` is no object, or has a duplicate member")),
            None => Ok(Self::default()),
        }
    }
}

/// Reads the raw name of a server.
fn read_face(raw: &Bytes) -> Result<Arc<str>, MetaError> {
    string(raw).map(Into::into).ok_or(MetaError::Malformed("`mcpd/server` in `_meta` is not a string"))
}

fn modern(protocol: &Bytes, capabilities: Option<&Bytes>, level: Option<&Bytes>) -> Result<ModernMeta, MetaError> {
    let version = text(protocol).ok_or(MetaError::Malformed("the protocol version in `_meta` is no string"))?;
    if version[..] != *MODERN.as_bytes() {
        let version = String::from_utf8_lossy(&version[..version.len().min(MAX_VERSION_LEN)]).into_owned();
        return Err(MetaError::Version(version));
    }
    let Some(capabilities) = capabilities.filter(|raw| raw.starts_with(b"{")) else {
        let what = "`io.modelcontextprotocol/clientCapabilities` is missing in `_meta`, or no object";
        return Err(MetaError::Malformed(what));
    };
    let read = |raw| text(raw).and_then(|word| LogLevel::named(&word));
    let no_level = MetaError::Malformed("`io.modelcontextprotocol/logLevel` in `_meta` is no level");
    let level = level.map(|raw| read(raw).ok_or(no_level)).transpose()?;
    Ok(ModernMeta { level, supports_tasks: supports_tasks(capabilities) })
}

/// Whether these raw capabilities have the extension for tasks.
///
/// Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Capability Negotiation".
fn supports_tasks(capabilities: &Bytes) -> bool {
    // Few clients declare extensions, and a search is cheaper than parsing.
    let may = memchr::memmem::find(capabilities, b"extensions").is_some();
    let extensions = may.then(|| members(capabilities, ["extensions"]).ok().and_then(|[raw]| raw)).flatten();
    let found = extensions.and_then(|raw| members(&raw, [TASKS]).ok().and_then(|[raw]| raw));
    found.is_some_and(|raw| raw.starts_with(b"{"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(meta: &'static str) -> Result<Meta, MetaError> {
        Meta::read(Some(&Bytes::from_static(meta.as_bytes())))
    }

    #[test]
    fn request_with_a_version_is_modern() {
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
            assert_eq!((found.progress_token, found.modern.is_some()), (expected, is_modern), "{meta}");
        }
    }

    #[test]
    fn tasks_are_accepted_if_their_extension_is_declared() {
        for (capabilities, expected) in [
            (r#"{"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{}}}"#, true),
            (r#"{"extensions":{"a/b":{}}}"#, false),
            (r#"{"extensions":{"io.modelcontextprotocol/tasks":null}}"#, false),
            (r#"{"extensions":[]}"#, false),
            (r#"{"io.modelcontextprotocol/tasks":{}}"#, false),
            ("{}", false),
        ] {
            assert_eq!(supports_tasks(&Bytes::from_static(capabilities.as_bytes())), expected, "{capabilities}");
        }
    }

    #[test]
    fn error_names_the_missing_or_malformed_member() {
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
