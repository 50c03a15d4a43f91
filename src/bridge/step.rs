//! What the instance does next with a bridged call.

use std::time::Instant;

use bytes::Bytes;

use crate::client_capabilities::ClientCapability;
use crate::era::input::Input;
use crate::era::task::Status;
use crate::jsonrpc::splice::Change;
use crate::task_state::TaskState;

/// What the instance does next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Answer the agent with the server's response, changed so.
    Respond(Vec<Change>),
    /// The same, where the result means this in the era of the agent.
    RespondAs(Vec<Change>, Bytes),
    /// Answer the agent with this raw result or error.
    Answer(Result<Bytes, Bytes>),
    /// Answer an error of the server with this raw result, which has the agent open URLs first.
    RequireUrls(Bytes),
    /// Answer that the request has to declare this capability: the server has failed without it.
    MissingCapability(ClientCapability),
    /// Ask the agent for these inputs; then send the call again.
    CollectInputs(Vec<Input>),
    /// Send the call again, changed so.
    Resend(Vec<Change>),
    /// Do this about a task.
    Task(TaskStep),
    /// End the call without an answer of the server's.
    Fail(BridgeError),
}

/// What the instance does next about a task.
#[derive(Debug)]
pub(crate) enum TaskStep {
    /// Answer with a task that has ended with the result.
    Complete,
    /// Follow the task that this legacy result says was created.
    Follow { task: Bytes, is_working: bool },
    /// Note the task that the result says was created, then respond.
    Created(Vec<Change>),
    /// Note the state of the task, then call [`BridgedCall::task_noted`].
    Seen(Box<TaskSeen>),
    /// The server has taken the cancellation of the task.
    Cancelled { has_ended: bool },
    /// Forget the task, then respond.
    Unknown(Vec<Change>),
    /// Request the state of the task now.
    Poll,
    /// Request the state of the task then. It may require inputs, as raw `inputRequests`.
    PollLater { at: Instant, inputs: Option<Bytes> },
    /// Request the result of the task with this raw id.
    RequestResult(Bytes),
}

/// Why a bridged call has no answer.
#[derive(Debug)]
pub(crate) enum BridgeError {
    /// The response is malformed.
    Malformed,
    /// The response is too large.
    TooLarge,
    /// A result of a kind that the era of the agent lacks.
    UnknownResult(String),
    /// The server requires input that it does not get; the text continues its name.
    Input(String),
}

/// The state of a task, which the instance notes before the agent gets it.
#[derive(Debug)]
pub(crate) struct TaskSeen {
    pub(crate) task: TaskState,
    /// As the server sent it.
    pub(super) state: Bytes,
    pub(super) status: Status,
}

impl TaskSeen {
    /// Whether the server waits for inputs.
    pub(crate) fn requires_input(&self) -> bool {
        matches!(self.status, Status::InputRequired(_))
    }
}
