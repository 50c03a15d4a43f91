//! Calls whose agent and server speak different eras of MCP. Pure.
//!
//! A [`BridgedCall`] is a state machine. It receives messages of the agent, messages of the server, and the time. It returns a
//! [`Step`], which the instance of the server carries out. Calls within one era never enter the bridge. [`crate::era`] translates
//! messages; the bridge decides when they are sent. Tasks do not cross eras.
//!
//! | state | agent | server | waits for |
//! | --- | --- | --- | --- |
//! | pending at modern server | legacy | modern | a response |
//! | awaiting input responses | legacy | modern | input responses of the agent; then the call is sent again |
//! | pending at legacy server | modern | legacy | a response, or requests of the server, which it collects |
//! | suspended | modern | legacy | the retry of the agent, which was answered `input_required` |
//!
//! Source: MCP 2026-07-28, `basic/versioning`, `basic/patterns/mrtr`.

mod call;
mod to_legacy;
mod to_modern;

use bytes::Bytes;

pub(crate) use self::call::BridgedCall;
pub(crate) use self::to_legacy::{ModernAgent, ServerRequest, read_retry, unopened_urls};
pub(crate) use self::to_modern::MAX_RETAINED_MEMORY;
use crate::client_capabilities::ClientCapability;
use crate::era::input::Input;
use crate::era::response::Caching;
use crate::extensions;
use crate::jsonrpc::members::{NotAnObject, members_of_parsed, text};
use crate::jsonrpc::message::RequestLine;
use crate::jsonrpc::splice::Change;

/// The next step of the instance.
#[derive(Debug)]
pub(crate) enum Step {
    /// Answer the agent with the server's response and these changes.
    ForwardResponse(Vec<Change>),
    /// Answer the agent with this raw result, which requires URLs to be opened. The server has answered with an error.
    RequireUrls(Bytes),
    /// Answer that the request has to declare this capability, because the server has failed without it.
    MissingCapability(ClientCapability),
    /// Request these inputs of the agent, then send the call again.
    RequestInputs(Vec<Input>),
    /// Fail the call.
    Fail(BridgeError),
}

/// Why a bridged call has no answer.
#[derive(Debug)]
pub(crate) enum BridgeError {
    /// The response is malformed.
    Malformed,
    /// The era of the agent lacks this kind of result.
    UnknownResult(String),
    /// The server has required inputs this often.
    TooManyInputs(usize),
}

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
        let [method, params] = members_of_parsed(&line.line, ["method", "params"])?;
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
    fn caching(&self) -> Caching {
        let is_cacheable = *self.method == b"resources/read"[..] || extensions::has_cache_hints(&self.method);
        if is_cacheable { Caching::Yes } else { Caching::No }
    }
}
