//! The request of a bridged call in its original form.

use bytes::Bytes;

use crate::era::legacy_client_meta::LegacyClientMeta;
use crate::era::request;
use crate::era::result::Caching;
use crate::extensions;
use crate::jsonrpc::members::{NotAnObject, members, text};
use crate::jsonrpc::request_line::RequestLine;
use crate::jsonrpc::splice::Change;

/// A request that may be sent several times, with different changes.
#[derive(Debug)]
pub(crate) struct BridgedRequest {
    line: RequestLine,
    /// As text.
    method: Bytes,
    params: Bytes,
}

impl BridgedRequest {
    /// # Errors
    /// If it has no method, or its params are no object.
    pub(crate) fn new(line: &RequestLine) -> Result<Self, NotAnObject> {
        let [method, params] = members(&line.line, ["method", "params"])?;
        let method = method.as_ref().and_then(text).ok_or(NotAnObject)?;
        Ok(Self { line: line.clone(), method, params: params.ok_or(NotAnObject)? })
    }

    pub(crate) fn line(&self) -> &RequestLine {
        &self.line
    }

    pub(crate) fn method(&self) -> &[u8] {
        &self.method
    }

    pub(crate) fn params(&self) -> &Bytes {
        &self.params
    }

    /// The size of the line.
    pub(crate) fn bytes(&self) -> usize {
        self.line.line.len()
    }

    /// The server's name of the called tool, as text.
    pub(crate) fn tool(&self) -> Option<Bytes> {
        self.server_name().filter(|_| *self.method == b"tools/call"[..])
    }

    /// The server's name or id of the subject, as text.
    pub(crate) fn server_name(&self) -> Option<Bytes> {
        self.line.rename.as_ref().and_then(|rename| text(&rename.server_name))
    }

    /// The exposed name or id of the subject, as text.
    pub(crate) fn exposed_name(&self) -> Option<Bytes> {
        self.line.rename.as_ref().and_then(|rename| text(&rename.exposed))
    }

    /// Whether the result needs cache hints.
    pub(super) fn caching(&self) -> Caching {
        let is_cacheable = *self.method == b"resources/read"[..] || extensions::has_cache_hints(&self.method);
        if is_cacheable { Caching::Yes } else { Caching::No }
    }

    /// The changes that turn it into the request `method` about the same task, for this agent.
    ///
    /// # Errors
    /// If its params or their `_meta` are no object.
    pub(super) fn task_request_changes(
        &self,
        method: &str,
        client_meta: &LegacyClientMeta,
    ) -> Result<Vec<Change>, NotAnObject> {
        let [part] = members(&self.line.line, ["method"])?;
        let mut changes = request::to_modern(&self.params, client_meta, true)?;
        changes.extend(part.map(|part| Change { part, replacement: format!("\"{method}\"").into() }));
        Ok(changes)
    }
}
