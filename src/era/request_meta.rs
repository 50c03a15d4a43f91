//! Requests of both eras: the reserved members in `_meta` of a modern request, which make it independent of earlier messages, and the
//! translation of params.
//!
//! Source: MCP 2026-07-28, `basic`, "`_meta`" and "Per-request protocol fields", `basic/patterns/mrtr` and `basic/versioning`.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::{MODERN, TASKS, UNSUPPORTED_VERSION, meta};
use crate::jsonrpc::is_id;
use crate::jsonrpc::json_eq::json_eq_except;
use crate::jsonrpc::members::{NotAnObject, members, members_of_parsed, string, text};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS};
use crate::jsonrpc::splice::{Change, applied, cut, replace_members, with_last, without};
use crate::log_level::LogLevel;
use crate::printable::beginning;

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
        let meta = params.and_then(|params| members_of_parsed(params, ["_meta"]).ok()).and_then(|[meta]| meta);
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
        let found = params.map(|params| members_of_parsed(params, ["_meta"]));
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

/// Members of `_meta` that only modern requests have.
const META_MEMBERS: [&str; 4] = [meta::PROTOCOL, meta::CLIENT, meta::CAPABILITIES, meta::LEVEL];
/// Members that only the retry of a modern request has.
const RETRY_MEMBERS: [&str; 2] = ["inputResponses", "requestState"];

/// Adds the client to the params of a legacy request, and removes members that mean something else in the modern era.
///
/// # Errors
/// If `params` or its `_meta` is no object.
pub fn params_to_modern(params: &Bytes, client_meta: &LegacyClientMeta) -> Result<Vec<Change>, NotAnObject> {
    let members_of_meta = client_meta.meta_members();
    let [meta] = members_of_parsed(params, ["_meta"])?;
    let [responses, state] = RETRY_MEMBERS;
    let Some(meta) = meta else {
        return replace_members(params, &["task", responses, state], &format!(r#""_meta":{{{members_of_meta}}}"#));
    };
    let mut changes = without(params, &["task", responses, state])?;
    if meta[..] == b"null"[..] {
        changes.push(Change { part: meta, replacement: format!("{{{members_of_meta}}}").into() });
    } else {
        changes.extend(replace_members(&meta, &META_MEMBERS, &members_of_meta)?);
    }
    Ok(changes)
}

/// Removes modern members from `params`, and `_meta` if nothing else is in it.
///
/// # Errors
/// If `params` or its `_meta` is no object.
pub fn params_to_legacy(params: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    let [meta] = members_of_parsed(params, ["_meta"])?;
    let [responses, state] = RETRY_MEMBERS;
    match meta.filter(|raw| raw[..] != b"null"[..]).map(|meta| cut(&meta, META_MEMBERS)).transpose()? {
        Some(meta) if !meta.leaves_any => without(params, &["_meta", "task", responses, state]),
        meta => {
            let mut changes = without(params, &["task", responses, state])?;
            changes.extend(meta.into_iter().flat_map(|meta| meta.changes));
            Ok(changes)
        }
    }
}

/// Adds inputs, each a raw key with a raw result, and the raw state to the `params` of a request that is sent again. The params have
/// neither yet: they are of a legacy request that [`params_to_modern`] is applied to, too, or of a modern request that is no retry.
#[must_use]
pub fn with_inputs(params: &Bytes, responses: &[(Bytes, Bytes)], state: Option<&Bytes>) -> Change {
    let text = |raw: &Bytes| String::from_utf8_lossy(raw).into_owned();
    let inputs: Vec<String> = responses.iter().map(|(key, result)| format!("{}:{}", text(key), text(result))).collect();
    let inputs = (!inputs.is_empty()).then(|| format!(r#""inputResponses":{{{}}}"#, inputs.join(",")));
    let state = state.map(|raw| format!(r#""requestState":{}"#, text(raw)));
    with_last(params, &inputs.into_iter().chain(state).collect::<Vec<_>>().join(","))
}

/// Whether a request with the params `retry` is a retry of the request with the params `first`: only `_meta` and the inputs differ.
/// `false` in case of doubt.
#[must_use]
pub fn is_retry(first: &Bytes, retry: &Bytes) -> bool {
    let [responses, state] = RETRY_MEMBERS;
    json_eq_except(first, retry, &["_meta", responses, state])
}

/// A legacy client, which has introduced itself once for its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyClientMeta {
    /// Its capabilities in their legacy form, raw; `{}` for none.
    pub capabilities: Bytes,
    /// Its name and version, raw.
    pub client: Option<Bytes>,
    /// The lowest level of log messages that it has requested; `None` for no messages.
    pub level: Option<LogLevel>,
}

/// A client without capabilities and log messages.
impl Default for LegacyClientMeta {
    fn default() -> Self {
        Self { capabilities: Bytes::from_static(b"{}"), client: None, level: None }
    }
}

impl LegacyClientMeta {
    /// The reserved members of a request's `_meta`.
    #[must_use]
    pub fn meta_members(&self) -> String {
        let mut members = format!(r#""{}":"{MODERN}""#, meta::PROTOCOL);
        let mut add = |key: &str, raw: &str| members.extend([",\"", key, "\":", raw]);
        // A server would refuse every request with any other value.
        if let Some(client) = self.client.as_ref().filter(|raw| raw.first() == Some(&b'{')) {
            add(meta::CLIENT, &String::from_utf8_lossy(client));
        }
        add(meta::CAPABILITIES, &self.modern_capabilities());
        if let Some(level) = self.level {
            add(meta::LEVEL, &format!("\"{}\"", level.word()));
        }
        members
    }

    /// Its capabilities without the extension for tasks; none if they are malformed. A task of a modern server would not reach the client.
    fn modern_capabilities(&self) -> String {
        let extensions = members(&self.capabilities, ["extensions"]);
        let changes = extensions.and_then(|[extensions]| match extensions {
            Some(extensions) if extensions.starts_with(b"{") => without(&extensions, &[TASKS]),
            _ => Ok(Vec::new()),
        });
        let raw = changes.map_or_else(|_| b"{}".to_vec(), |changes| applied(&self.capabilities, &changes));
        String::from_utf8_lossy(&raw).into_owned()
    }
}

/// Reads the raw progress token in the raw `_meta` of a request. `None` if there is none.
///
/// Source: MCP 2025-11-25, `basic/utilities/progress`.
///
/// # Errors
/// If the token is malformed; the text is for a person.
pub(crate) fn read(meta: Option<Bytes>) -> Result<Option<Bytes>, &'static str> {
    let meta = meta.filter(|raw| raw[..] != b"null"[..]).map(|meta| members(&meta, ["progressToken"]));
    match meta {
        None => Ok(None),
        Some(Ok([token])) if token.as_ref().is_none_or(|raw| is_id(raw)) => Ok(token),
        Some(_) => Err("`_meta` or its `progressToken` is malformed"),
    }
}

/// `name version` of a raw `clientInfo` or `serverInfo`, in at most `max_len` characters.
pub(crate) fn name_and_version(info: &Bytes, max_len: usize) -> Option<String> {
    let [name, version] = members(info, ["name", "version"]).ok()?;
    let parts = [name, version].into_iter().flatten().filter_map(|raw| text(&raw));
    let parts: Vec<String> = parts.map(|part| String::from_utf8_lossy(&part).into_owned()).collect();
    Some(beginning(&parts.join(" "), max_len).to_owned())
}
