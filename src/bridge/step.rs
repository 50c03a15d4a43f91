//! Steps of a bridged call, which the instance carries out.

use std::time::Instant;

use bytes::Bytes;

use crate::client_capabilities::ClientCapability;
use crate::era::input::Input;
use crate::era::task::Status;
use crate::jsonrpc::splice::Change;
use crate::task_state::TaskState;

/// The next step of the instance.
#[derive(Debug)]
pub(crate) enum Step {
    /// Answer the agent with the server's response and these changes.
    ForwardResponse(Vec<Change>),
    /// Like `ForwardResponse`. The instance finds the task in `result`, the result with the changes applied.
    ForwardTaskResponse { changes: Vec<Change>, result: Bytes },
    /// Answer the agent with this raw result or error.
    RespondWith(Result<Bytes, Bytes>),
    /// Answer the agent with this raw result, which requires URLs to be opened. The server has answered with an error.
    RequireUrls(Bytes),
    /// Answer that the request has to declare this capability, because the server has failed without it.
    MissingCapability(ClientCapability),
    /// Request these inputs of the agent, then send the call again.
    RequestInputs(Vec<Input>),
    /// Send the call again with these changes, because the server runs this tool only as a task.
    ResendAsTask(Vec<Change>),
    /// Carry out a step about a task.
    Task(TaskStep),
    /// Fail the call.
    Fail(BridgeError),
}

/// The next step of the instance about a task.
#[derive(Debug)]
pub(crate) enum TaskStep {
    /// Create a completed task that holds the server's result, and answer with that task.
    AnswerCompletedTask,
    /// Poll the new task, which the agent does not know. `task` is the server's result, translated for the legacy agent.
    PollHiddenTask { task: Bytes, is_working: bool },
    /// Record the new task that the result reports, then respond.
    RecordCreated(Vec<Change>),
    /// Record the state of the task, then call [`BridgedCall::state_recorded`].
    RecordState(Box<TaskStateReport>),
    /// Record that the server has accepted the cancellation of the task, and whether the task has ended.
    RecordCancellation { has_ended: bool },
    /// Forget the task, then respond.
    Forget(Vec<Change>),
    /// Request the state of the task now.
    Poll,
    /// Request the state of the task at this time. The task may require inputs, as raw `inputRequests`.
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
    /// The era of the agent lacks this kind of result.
    UnknownResult(String),
    /// The server requires inputs that it does not get. The text continues the sentence ``server `NAME` …``.
    Input(String),
}

/// The state of a task, which the instance records before the agent gets it.
#[derive(Debug)]
pub(crate) struct TaskStateReport {
    pub(crate) task: TaskState,
    /// The task object of the server, raw.
    pub(super) task_object: Bytes,
    pub(super) status: Status,
}

impl TaskStateReport {
    /// Whether the server waits for inputs.
    pub(crate) fn requires_input(&self) -> bool {
        matches!(self.status, Status::InputRequired(_))
    }
}
