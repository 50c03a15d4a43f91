//! Steps of a bridged call, which the instance carries out.

use bytes::Bytes;

use crate::client_capabilities::ClientCapability;
use crate::era::input::Input;
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
    /// The server requires inputs that it does not get. The text continues the sentence ``server `NAME` …``.
    Input(String),
}
