//! Requests of a modern agent about a task of a legacy server.
//!
//! The state of a modern task includes its result. So one `tasks/get` for a task that has ended becomes two requests to the server:
//! `tasks/get`, then `tasks/result`.

use bytes::Bytes;

use super::step::{BridgeError, Step, TaskStateReport, TaskStep};
use crate::era::error::{self, ErrorToModern};
use crate::era::result::{self, Caching};
use crate::era::task::{Detail, Status, state_to_modern};
use crate::jsonrpc::members::NotAnObject;
use crate::jsonrpc::splice::{Change, applied};
use crate::task_state::TaskState;

/// Maximum size in bytes of a task state that a result is added to.
const MAX_STATE_LEN: usize = 64 << 10;
/// The empty success result.
pub(crate) const EMPTY_MODERN_RESULT: &[u8] = br#"{"resultType":"complete"}"#;

/// The pending request to the server.
#[derive(Debug)]
pub(super) enum Phase {
    /// For the state of the task.
    State,
    /// For the result of the task, which has ended in this state.
    Result { task_object: Bytes },
    /// For the cancellation of the task.
    Cancel,
}

impl Phase {
    /// The server has answered the request about the task with this id.
    pub(super) fn on_response(
        &self,
        id: &Bytes,
        method: &[u8],
        outcome: Result<&Bytes, &Bytes>,
        is_unknown: bool,
    ) -> Step {
        match (self, outcome) {
            (Self::State, Ok(state)) => step_for_state(id, state),
            (Self::Result { task_object }, outcome) => match with_result(task_object, outcome) {
                Some(task_object) => Step::RespondWith(Ok(task_object)),
                None => Step::Fail(BridgeError::Malformed),
            },
            // An unknown task needs no cancellation.
            (Self::Cancel, outcome) if outcome.is_ok() || is_unknown => {
                let has_ended = |state: &Bytes| TaskState::read(state).is_some_and(|state| state.ended);
                Step::Task(TaskStep::RecordCancellation { has_ended: outcome.map_or(true, has_ended) })
            }
            (Self::State, Err(raw)) if is_unknown => {
                Step::Task(TaskStep::Forget(error_change(method, raw).into_iter().collect()))
            }
            (Self::State | Self::Cancel, outcome) => {
                Step::ForwardResponse(outcome.err().and_then(|raw| error_change(method, raw)).into_iter().collect())
            }
        }
    }
}

fn step_for_state(id: &Bytes, state: &Bytes) -> Step {
    let task = TaskState::read(state).filter(|task| task.id == *id);
    let Some((task, status)) = task.zip(Status::read(state)) else { return Step::Fail(BridgeError::Malformed) };
    if state.len() > MAX_STATE_LEN {
        return Step::Fail(BridgeError::TooLarge);
    }
    Step::Task(TaskStep::RecordState(Box::new(TaskStateReport {
        task,
        task_object: Bytes::copy_from_slice(state),
        status,
    })))
}

/// What follows the state of a task.
pub(super) enum Answer {
    Step(Step),
    /// The task has ended, so its result has to be requested first.
    RequestResult {
        task_object: Bytes,
    },
}

/// Answers the agent with the reported state of the task and `inputs`, the known raw `inputRequests`.
pub(super) fn answer(report: TaskStateReport, inputs: Option<&Bytes>) -> Answer {
    let detail = match (&report.status, inputs) {
        (Status::Completed(_) | Status::Failed(_), _) => {
            return Answer::RequestResult { task_object: report.task_object };
        }
        (Status::Cancelled, _) | (Status::Working, None) => Detail::None,
        (_, Some(inputs)) => Detail::Inputs(inputs),
        (Status::InputRequired(_), None) => Detail::InputsPending,
    };
    Answer::Step(match state_to_modern(&report.task_object, detail) {
        Ok(changes) => Step::RespondWith(Ok(applied(&report.task_object, &changes).into())),
        Err(NotAnObject) => Step::Fail(BridgeError::Malformed),
    })
}

/// The task object of a task that has ended, with the result or error from `tasks/result`.
fn with_result(task_object: &Bytes, outcome: Result<&Bytes, &Bytes>) -> Option<Bytes> {
    let raw: Bytes = match outcome {
        Ok(result) => applied(result, &result::to_modern(result, Caching::No).ok()?).into(),
        Err(error) => applied(error, error_change(b"tasks/result", error).as_slice()).into(),
    };
    let detail = if outcome.is_ok() { Detail::Result(&raw) } else { Detail::Error(&raw) };
    Some(applied(task_object, &state_to_modern(task_object, detail).ok()?).into())
}

fn error_change(method: &[u8], error: &Bytes) -> Option<Change> {
    match error::to_modern(method, error) {
        ErrorToModern::Changed(change) => Some(change),
        // Requests about tasks cannot require URLs.
        ErrorToModern::Unchanged | ErrorToModern::Required(_) => None,
    }
}
