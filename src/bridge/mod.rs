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
mod input_requests;
mod request;
mod step;
mod to_legacy;
mod to_modern;

pub(crate) use self::call::BridgedCall;
pub(crate) use self::request::BridgedRequest;
pub(crate) use self::step::{BridgeError, Step};
pub(crate) use self::to_legacy::{ModernAgent, ServerRequest, read_retry, unopened_urls};
pub(crate) use self::to_modern::{MAX_RETAINED_MEMORY, input_response_of};
