//! Calls whose agent and server speak different eras of MCP. Pure.
//!
//! A [`BridgedCall`] is a state machine. It receives messages of the agent, messages of the server, and the time. It returns a
//! [`Step`], which the instance of the server carries out. Calls within one era never enter the bridge. [`crate::era`] translates
//! messages; the bridge decides when they are sent.
//!
//! | state | agent | server | waits for |
//! | --- | --- | --- | --- |
//! | pending at modern server | legacy | modern | a response |
//! | awaiting input responses | legacy | modern | input responses of the agent; then the call is sent again |
//! | task request at modern server | legacy | modern | the state of a task |
//! | awaiting next poll | legacy | modern | the next poll |
//! | pending at legacy server | modern | legacy | a response, or requests of the server, which it collects |
//! | suspended | modern | legacy | the retry of the agent, which was answered `input_required` |
//! | task request at legacy server | modern | legacy | the state of a task, then its result |
//!
//! Source: MCP 2026-07-28, `basic/versioning`, `basic/patterns/mrtr`; MCP 2025-11-25, `basic/utilities/tasks`; extension
//! `io.modelcontextprotocol/tasks`, 2026-07-28.

mod call;
mod completed_task;
mod input_requests;
mod legacy_server_task;
mod request;
mod step;
mod task_inputs;
mod task_poll;
mod to_legacy;
mod to_modern;

pub(crate) use self::call::{BridgedCall, ResponseContext};
pub(crate) use self::completed_task::{CompletedTask, ttl};
pub(crate) use self::input_requests::{PendingInputRequest, take_answered};
pub(crate) use self::legacy_server_task::{EMPTY_MODERN_RESULT, LegacyServerTask};
pub(crate) use self::request::BridgedRequest;
pub(crate) use self::step::{BridgeError, Step, TaskStateReport, TaskStep};
pub(crate) use self::task_inputs::{TaskInputId, TaskInputs};
pub(crate) use self::task_poll::task_params;
pub(crate) use self::to_legacy::{ModernAgent, ServerRequest, read_retry, unopened_urls};
pub(crate) use self::to_modern::{MAX_RETAINED_MEMORY, TaskUse, input_response_of};
