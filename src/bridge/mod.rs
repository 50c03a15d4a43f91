//! Calls whose agent and server speak different eras of MCP. Pure.
//!
//! A [`BridgedCall`] is a state machine. It receives messages of the agent, messages of the server, and the time. It returns a
//! [`Step`], which the instance of the server carries out. Calls within one era never enter the bridge. [`crate::era`] translates
//! messages; the bridge decides when they are sent.
//!
//! | state | agent | server | waits for |
//! | --- | --- | --- | --- |
//! | in flight | legacy | modern | a response |
//! | collecting inputs | legacy | modern | inputs of the agent; then the call is sent again |
//! | task request | legacy | modern | the state of a task |
//! | polling a task | legacy | modern | the next poll |
//! | forwarded | modern | legacy | a response, or requests of the server, which it collects |
//! | suspended | modern | legacy | the retry of the agent, which was answered `input_required` |
//! | request about a legacy task | modern | legacy | the state of a task, then its result |
//!
//! Source: MCP 2026-07-28, `basic/versioning`, `basic/patterns/mrtr`; MCP 2025-11-25, `basic/utilities/tasks`; extension
//! `io.modelcontextprotocol/tasks`, 2026-07-28.

mod call;
mod completed_task;
mod inputs;
mod legacy_task;
mod request;
mod step;
mod task_inputs;
mod task_poll;
mod to_legacy;
mod to_modern;

pub(crate) use self::call::{BridgedCall, ResponseContext};
pub(crate) use self::completed_task::{CompletedTask, ttl};
pub(crate) use self::inputs::{PendingInput, take_answered};
pub(crate) use self::legacy_task::EMPTY_MODERN_RESULT;
pub(crate) use self::request::BridgedRequest;
pub(crate) use self::step::{BridgeError, Step, TaskSeen, TaskStep};
pub(crate) use self::task_inputs::{TaskInput, TaskInputs};
pub(crate) use self::task_poll::task_params;
pub(crate) use self::to_legacy::{ModernAgent, ServerRequest, retry, unopened_urls};
pub(crate) use self::to_modern::{MAX_WAITING_MESSAGES, TaskUse, input_of};
