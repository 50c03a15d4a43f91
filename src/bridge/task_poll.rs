//! Requests of a legacy agent about a task of a modern server, which are answered by polling its state.
//!
//! The modern state includes the result, the error or the required inputs. So `tasks/result` becomes `tasks/get`, which is repeated
//! until the task has ended. Between two polls the server has no pending request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;

use super::step::{BridgeError, Step};
use crate::era::error;
use crate::era::legacy_client_meta::LegacyClientMeta;
use crate::era::result::{self, ToLegacy};
use crate::era::task::{Status, result_to_legacy, state_to_legacy};
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS};
use crate::jsonrpc::splice::applied;
use crate::task_state::TaskOperation;

pub(super) const GET: &str = "tasks/get";
pub(super) const CANCEL: &str = "tasks/cancel";
/// Delay between two polls if the server names none.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// Bounds of the delay that the server names.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// A request about a task.
#[derive(Debug, Clone)]
pub(super) struct TaskRequest {
    pub(super) client_meta: Arc<LegacyClientMeta>,
    pub(super) act: TaskOperation,
    /// The agent waits for the result of a call and does not know that it is a task.
    pub(super) is_hidden: bool,
}

/// The outcome of a poll.
pub(super) enum PollOutcome {
    Step(Step),
    /// The server has accepted the cancellation. The next poll shows the state.
    Again,
    /// The task is in progress. It may require inputs, as raw `inputRequests`.
    Later {
        at: Instant,
        inputs: Option<Bytes>,
    },
}

impl TaskRequest {
    /// The server has answered with this state. `raw_id` is the id of the task.
    pub(super) fn on_state(
        &self,
        state: &Bytes,
        is_cancel_pending: bool,
        raw_id: Option<&Bytes>,
        now: Instant,
    ) -> PollOutcome {
        match self.act {
            TaskOperation::Cancel if is_cancel_pending => PollOutcome::Again,
            TaskOperation::Cancel if has_ended_uncancelled(state) => {
                // The error of a legacy server for a task that has ended (MCP 2025-11-25, "Task Cancellation").
                let error = ErrorObject::new(INVALID_PARAMS, "the task was not cancelled: it has ended");
                PollOutcome::Step(Step::RespondWith(Err(raw_error(&error))))
            }
            // The server may ignore a cancellation. The state is correct in any case.
            TaskOperation::Get | TaskOperation::Cancel => PollOutcome::Step(match state_to_legacy(state) {
                Ok(changes) => {
                    let legacy = Bytes::from(applied(state, &changes));
                    Step::ForwardTaskResponse { changes, result: legacy }
                }
                Err(_) => Step::Fail(BridgeError::Malformed),
            }),
            TaskOperation::Result => self.result(state, raw_id, now),
        }
    }

    fn result(&self, state: &Bytes, raw_id: Option<&Bytes>, now: Instant) -> PollOutcome {
        let later = |inputs| PollOutcome::Later { at: now + interval(state), inputs };
        let step = match Status::read(state) {
            Some(Status::Working) => return later(None),
            Some(Status::InputRequired(inputs)) => return later(inputs),
            Some(Status::Completed(Some(result))) => self.completed(&result, raw_id),
            Some(Status::Failed(Some(raw))) => {
                let changes: Vec<_> = error::to_legacy(b"tools/call", &raw).into_iter().collect();
                Step::RespondWith(Err(applied(&raw, &changes).into()))
            }
            Some(Status::Cancelled) => {
                Step::RespondWith(Err(raw_error(&ErrorObject::new(INTERNAL_ERROR, "the task was cancelled"))))
            }
            Some(Status::Completed(None) | Status::Failed(None)) | None => Step::Fail(BridgeError::Malformed),
        };
        PollOutcome::Step(step)
    }

    /// Answers `tasks/result`, or the call whose task the agent does not know of.
    fn completed(&self, result: &Bytes, raw_id: Option<&Bytes>) -> Step {
        let changes = if self.is_hidden {
            match result::to_legacy(result) {
                Ok(ToLegacy::Complete(changes)) => Some(changes),
                _ => None,
            }
        } else {
            raw_id.and_then(|raw_id| result_to_legacy(result, raw_id).ok())
        };
        match changes {
            Some(changes) => Step::RespondWith(Ok(applied(result, &changes).into())),
            None => Step::Fail(BridgeError::Malformed),
        }
    }
}

/// The params of a request about the task with this raw id, for this agent.
pub(crate) fn task_params(raw_id: &Bytes, client_meta: &LegacyClientMeta) -> Bytes {
    let (id, meta) = (String::from_utf8_lossy(raw_id), client_meta.meta_members(true));
    format!(r#"{{"taskId":{id},"_meta":{{{meta}}}}}"#).into()
}

fn raw_error(error: &ErrorObject) -> Bytes {
    json!(error).to_string().into()
}

fn has_ended_uncancelled(state: &Bytes) -> bool {
    matches!(Status::read(state), Some(Status::Completed(_) | Status::Failed(_)))
}

/// The delay before the next poll of a task in this state.
pub(super) fn interval(state: &Bytes) -> Duration {
    let interval = members(state, ["pollIntervalMs"]).ok().and_then(|[interval]| interval);
    let ms = interval.and_then(|raw| serde_json::from_slice::<f64>(&raw).ok());
    let interval = ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
    interval.unwrap_or(DEFAULT_INTERVAL).clamp(MIN_INTERVAL, MAX_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_interval_of_the_server_is_used_within_bounds() {
        for (state, expected) in [
            ("{}", DEFAULT_INTERVAL),
            (r#"{"pollIntervalMs":250}"#, Duration::from_millis(250)),
            (r#"{"pollIntervalMs":0}"#, MIN_INTERVAL),
            (r#"{"pollIntervalMs":60000}"#, MAX_INTERVAL),
            (r#"{"pollIntervalMs":-5}"#, DEFAULT_INTERVAL),
            (r#"{"pollIntervalMs":null}"#, DEFAULT_INTERVAL),
            (r#"{"pollIntervalMs":"soon"}"#, DEFAULT_INTERVAL),
            ("[]", DEFAULT_INTERVAL),
        ] {
            assert_eq!(interval(&Bytes::from_static(state.as_bytes())), expected, "{state}");
        }
    }
}
