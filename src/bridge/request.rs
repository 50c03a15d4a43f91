//! The request of a bridged call in its original form.

use bytes::Bytes;

use crate::era::result::Caching;
use crate::extensions;
use crate::jsonrpc::members::{NotAnObject, members, text};
use crate::jsonrpc::request_line::RequestLine;

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

    /// Whether the result needs cache hints.
    pub(super) fn caching(&self) -> Caching {
        let is_cacheable = *self.method == b"resources/read"[..] || extensions::has_cache_hints(&self.method);
        if is_cacheable { Caching::Yes } else { Caching::No }
    }
}
