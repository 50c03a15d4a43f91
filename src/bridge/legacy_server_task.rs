//! Requests of a modern agent about a task of a legacy server, and reports to its subscribers.
//!
//! The state of a modern task includes its result. So one `tasks/get` for a task that has ended becomes two requests to the server:
//! `tasks/get`, then `tasks/result`. Reports to subscribers use the same requests.

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

/// A request about a task, or a report of its state.
#[derive(Debug)]
pub(crate) struct LegacyServerTask {
    /// The server's id of the task, as text.
    id: Bytes,
    phase: Phase,
}

/// The pending request to the server.
#[derive(Debug)]
enum Phase {
    /// For the state of the task.
    State,
    /// For the result of the task, which has ended in this state.
    Result { task_object: Bytes },
    /// For the cancellation of the task.
    Cancel,
}

impl LegacyServerTask {
    /// A `tasks/get`, or a report.
    pub(crate) fn get(id: Bytes) -> Self {
        Self { id, phase: Phase::State }
    }

    /// A `tasks/cancel`.
    pub(super) fn cancel(id: Bytes) -> Self {
        Self { id, phase: Phase::Cancel }
    }

    /// The server's id of the task, as text.
    pub(crate) fn id(&self) -> &Bytes {
        &self.id
    }

    /// The server has answered. `is_gone`: the server does not know the task, or it has ended.
    pub(crate) fn on_response(&self, outcome: Result<&Bytes, &Bytes>, is_gone: bool) -> Step {
        match (&self.phase, outcome) {
            (Phase::State, Ok(state)) => step_for_state(&self.id, state),
            (Phase::Result { task_object }, outcome) => match with_result(task_object, outcome) {
                Some(task_object) => Step::RespondWith(Ok(task_object)),
                None => Step::Fail(BridgeError::Malformed),
            },
            // An unknown task needs no cancellation.
            (Phase::Cancel, outcome) if outcome.is_ok() || is_gone => {
                let has_ended = |state: &Bytes| TaskState::read(state).is_some_and(|state| state.ended);
                Step::Task(TaskStep::RecordCancellation { has_ended: outcome.map_or(true, has_ended) })
            }
            (Phase::State, Err(raw)) if is_gone => {
                Step::Task(TaskStep::Forget(error_change(raw).into_iter().collect()))
            }
            (Phase::State | Phase::Cancel, outcome) => {
                let change = outcome.err().and_then(error_change);
                Step::ForwardResponse(change.into_iter().collect())
            }
        }
    }

    /// The instance has recorded the state of the task. `inputs` has the raw `inputRequests` that the task requires, if any.
    pub(crate) fn state_recorded(&mut self, report: TaskStateReport, inputs: Option<&Bytes>) -> Step {
        let detail = match (&report.status, inputs) {
            // The result has to be requested first.
            (Status::Completed(_) | Status::Failed(_), _) => {
                self.phase = Phase::Result { task_object: report.task_object };
                return Step::Task(TaskStep::RequestResult(report.task.raw_id));
            }
            (Status::Cancelled, _) | (Status::Working, None) => Detail::None,
            (_, Some(inputs)) => Detail::Inputs(inputs),
            (Status::InputRequired(_), None) => Detail::InputsPending,
        };
        match state_to_modern(&report.task_object, detail) {
            Ok(changes) => Step::RespondWith(Ok(applied(&report.task_object, &changes).into())),
            Err(NotAnObject) => Step::Fail(BridgeError::Malformed),
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

/// The task object of a task that has ended, with the result or error from `tasks/result`.
fn with_result(task_object: &Bytes, outcome: Result<&Bytes, &Bytes>) -> Option<Bytes> {
    let raw: Bytes = match outcome {
        Ok(result) => applied(result, &result::to_modern(result, Caching::No).ok()?).into(),
        Err(error) => applied(error, error_change(error).as_slice()).into(),
    };
    let detail = if outcome.is_ok() { Detail::Result(&raw) } else { Detail::Error(&raw) };
    Some(applied(task_object, &state_to_modern(task_object, detail).ok()?).into())
}

fn error_change(error: &Bytes) -> Option<Change> {
    match error::to_modern(b"tasks/get", error) {
        ErrorToModern::Changed(change) => Some(change),
        // Requests about tasks cannot require URLs.
        ErrorToModern::Unchanged | ErrorToModern::Required(_) => None,
    }
}
