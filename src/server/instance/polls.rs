//! What legacy agents ask of tasks that a modern server has made of their calls.
//!
//! The server tells how a task is, and has its result, the error or what it wants to know in there; so the request for a result is
//! one for the state, made again and again until the task has ended. Between two of them the call stays among the unanswered ones
//! under an id that the server never sees. Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Polling" and
//! "Task Cancellation"; MCP 2025-11-25, `basic/utilities/tasks`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::calls::Unanswered;
use super::crossing::{Crossing, Request, Way};
use super::server_requests::Recipient;
use super::{Effect, Instance};
use crate::calls::Outcome;
use crate::era::error;
use crate::era::result::{self, ToLegacy};
use crate::era::speaker::Speaker;
use crate::era::task::{Status, result_to_legacy, state_to_legacy};
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::reply::{self, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS};
use crate::jsonrpc::splice::{Change, applied};
use crate::server::messages::call::{Failure, RequestKind};
use crate::server::messages::tasks::TaskAct;

const STATE: &str = "tasks/get";
/// Between two looks at a task whose server does not say how often it is to be looked at.
const USUAL: Duration = Duration::from_secs(1);
/// Between two looks at least, whatever its server says, and at most: whoever waits for the result is not to wait long for nothing.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// How far a request about a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The server is to cancel the task.
    Cancel,
    /// It is to say how the task is.
    State,
    /// It is asked again then.
    Wait(Instant),
}

impl Step {
    /// The first of a request for this, with what makes it of that.
    pub(super) fn first(asked: &Request, speaker: &Speaker, act: TaskAct) -> Result<(Self, Vec<Change>), NotAnObject> {
        let (step, method) = match act {
            TaskAct::Cancel => (Self::Cancel, "tasks/cancel"),
            TaskAct::Get | TaskAct::Result => (Self::State, STATE),
        };
        Ok((step, asked.about_task(method, speaker)?))
    }

    /// Whether the server knows nothing of the request just now.
    pub(super) fn is_waiting(self) -> bool {
        matches!(self, Self::Wait(_))
    }
}

impl Instance {
    /// The server has answered what was asked of a task.
    pub(super) fn told_of_task(
        &mut self,
        call: Unanswered,
        crossing: Crossing,
        (id, line): (&Bytes, &Bytes),
        outcome: Result<&Bytes, &Bytes>,
    ) -> Effect {
        let (RequestKind::Task(ask), Way::About { step, .. }) = (&call.matter, &crossing.way) else {
            return self.end_failed(call, Failure::AnswerMalformed);
        };
        let state = match outcome {
            Ok(state) => state,
            Err(raw) => {
                if crossing.follows_task() && Outcome::of(outcome).code() != Some(INVALID_PARAMS.into()) {
                    self.drop_task_of(call.reply.key);
                }
                let change = error::to_legacy(&crossing.asked.method, raw);
                return self.end_changed(call, (id, line), change.as_slice(), outcome);
            }
        };
        match (ask.act, step) {
            (TaskAct::Cancel, Step::Cancel) => {
                self.look_again(call, crossing);
                Effect::Nothing
            }
            (TaskAct::Cancel, _) if has_ended_otherwise(state) => {
                // As legacy servers do where a task has ended (MCP 2025-11-25, "Task Cancellation").
                let error = ErrorObject::new(INVALID_PARAMS, "the task was not cancelled: it has ended");
                self.end_awaited(call, &crossing, id, Err(&raw_error(&error)))
            }
            // A server may go on with it all the same. There legacy ones have to have cancelled it; the state is what is true.
            (TaskAct::Get | TaskAct::Cancel, _) => match state_to_legacy(state) {
                Ok(changes) => {
                    let legacy = Bytes::from(applied(state, &changes));
                    self.end_changed(call, (id, line), &changes, Ok(&legacy))
                }
                Err(NotAnObject) => self.end_failed(call, Failure::AnswerMalformed),
            },
            (TaskAct::Result, _) => self.polled(call, crossing, id, state),
        }
    }

    /// Answers whoever waits for the result, or has him wait on.
    fn polled(&mut self, call: Unanswered, crossing: Crossing, id: &Bytes, state: &Bytes) -> Effect {
        match Status::read(state) {
            Some(Status::Working | Status::InputRequired(None)) => {
                self.wait_on(call, crossing, state);
                Effect::Nothing
            }
            Some(Status::InputRequired(Some(wanted))) => {
                self.ask_on_the_way(call, crossing, state, &wanted);
                Effect::Nothing
            }
            Some(Status::Completed(Some(result))) => {
                let Some(changes) = self.result_changes(&call, &crossing, &result) else {
                    return self.end_malformed(call, crossing);
                };
                let legacy = Bytes::from(applied(&result, &changes));
                self.end_awaited(call, &crossing, id, Ok(&legacy))
            }
            Some(Status::Failed(Some(raw))) => {
                let changes: Vec<_> = error::to_legacy(b"tools/call", &raw).into_iter().collect();
                let legacy = Bytes::from(applied(&raw, &changes));
                self.end_awaited(call, &crossing, id, Err(&legacy))
            }
            Some(Status::Cancelled) => {
                let error = ErrorObject::new(INTERNAL_ERROR, "the task was cancelled");
                self.end_awaited(call, &crossing, id, Err(&raw_error(&error)))
            }
            Some(Status::Completed(None) | Status::Failed(None)) | None => self.end_malformed(call, crossing),
        }
    }

    /// What makes of the result in a state the answer to a request for it, or to the call itself.
    fn result_changes(&self, call: &Unanswered, crossing: &Crossing, result: &Bytes) -> Option<Vec<Change>> {
        if crossing.follows_task() {
            return match result::to_legacy(result) {
                Ok(ToLegacy::Complete(changes)) => Some(changes),
                _ => None,
            };
        }
        let RequestKind::Task(ask) = &call.matter else { return None };
        let (_, task) = self.tasks.find(&ask.id)?;
        result_to_legacy(result, &task.raw_id).ok()
    }

    fn end_awaited(
        &mut self,
        call: Unanswered,
        crossing: &Crossing,
        id: &Bytes,
        response: Result<&Bytes, &Bytes>,
    ) -> Effect {
        // Nobody will ask for one of which no agent knows.
        let hidden = if crossing.follows_task() { self.tasks.made_by(call.reply.key) } else { None };
        let answer = match response {
            Ok(result) => reply::result(call.reply.id(), result),
            Err(error) => reply::raw_error(call.reply.id(), error),
        };
        let effect = self.end_call(call, id, answer, response);
        hidden.into_iter().for_each(|request| self.tasks.forget(request));
        effect
    }

    fn end_malformed(&mut self, mut call: Unanswered, crossing: Crossing) -> Effect {
        call.crossing = Some(Box::new(crossing));
        self.end_failed(call, Failure::AnswerMalformed)
    }

    /// Has the agent asked what the server wants to know for the task, and wait on.
    fn ask_on_the_way(&mut self, call: Unanswered, crossing: Crossing, state: &Bytes, wanted: &Bytes) {
        let RequestKind::Task(ask) = &call.matter else { return };
        let task = self.tasks.find(&ask.id).map(|(request, _)| request);
        let (session, to, speaker) = (call.reply.key.session, call.reply.to().cloned(), crossing.speaker());
        let is_known = !crossing.follows_task();
        self.wait_on(call, crossing, state);
        if let (Some(task), Some(to), Some(speaker)) = (task, to, speaker) {
            self.ask_for_task((task, &Recipient { session, to }, speaker), wanted, is_known);
        }
    }

    /// The task is at work still, so that whoever waits for its result may wait on.
    pub(super) fn wait_on(&mut self, mut call: Unanswered, mut crossing: Crossing, state: &Bytes) {
        let RequestKind::Task(ask) = &call.matter else { return };
        let (task, at) = (ask.id.clone(), Instant::now() + interval(state));
        if let Way::About { step, .. } = &mut crossing.way {
            *step = Step::Wait(at);
        }
        // It is to have its full time from when the server is asked again.
        call.deadline.put_off(at);
        call.crossing = Some(Box::new(crossing));
        self.wire.expire_by(at);
        self.wire.park(call);
        self.put_off_result(&task);
    }

    /// Asks again how those tasks are whose results are waited for, as far as it is time `now`.
    pub(super) fn poll_tasks(&mut self, now: Instant) {
        let is_due = |call: &Unanswered| call.polls_at().is_some_and(|at| at <= now);
        if !self.unanswered().any(is_due) {
            return;
        }
        for (_, mut call) in self.wire.remove_calls_where(|call, _| is_due(call)) {
            if let Some(crossing) = call.crossing.take() {
                self.look_again(call, *crossing);
            }
        }
    }

    /// Asks how the task is.
    pub(super) fn look_again(&mut self, mut call: Unanswered, mut crossing: Crossing) {
        let (RequestKind::Task(ask), Way::About { speaker, step }) = (&call.matter, &mut crossing.way) else { return };
        *step = Step::State;
        let raw_id = Bytes::from(serde_json::json!(String::from_utf8_lossy(&ask.id)).to_string());
        let params = about(&raw_id, speaker);
        call.crossing = Some(Box::new(crossing));
        let params: Option<&RawValue> = serde_json::from_slice(&params).ok();
        self.wire.send_call(call, |_, id| reply::request(id, STATE, &params));
    }
}

/// The params of a request about the task with this raw id, and for whom it is.
pub(super) fn about(raw_id: &Bytes, speaker: &Speaker) -> Bytes {
    let (id, meta) = (String::from_utf8_lossy(raw_id), speaker.meta_members(true));
    format!(r#"{{"taskId":{id},"_meta":{{{meta}}}}}"#).into()
}

fn raw_error(error: &ErrorObject) -> Bytes {
    serde_json::json!(error).to_string().into()
}

impl Unanswered {
    /// When its task is looked at again.
    pub(super) fn polls_at(&self) -> Option<Instant> {
        match self.crossing.as_deref()?.way {
            Way::About { step: Step::Wait(at), .. } => Some(at),
            Way::About { .. } | Way::Up { .. } | Way::Down { .. } | Way::Stated { .. } => None,
        }
    }

    /// Whether it waits for the result of this task.
    pub(super) fn awaits(&self, task: &[u8]) -> bool {
        matches!(&self.matter, RequestKind::Task(ask) if ask.act == TaskAct::Result && ask.id == task)
    }
}

/// Whether the modern `state` is that of a task that has ended, and was not cancelled.
fn has_ended_otherwise(state: &Bytes) -> bool {
    matches!(Status::read(state), Some(Status::Completed(_) | Status::Failed(_)))
}

/// How long to wait before the next look at a task in this state.
fn interval(state: &Bytes) -> Duration {
    let said = members(state, ["pollIntervalMs"]).ok().and_then(|[said]| said);
    let ms = said.and_then(|raw| serde_json::from_slice::<f64>(&raw).ok());
    let wanted = ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
    wanted.unwrap_or(USUAL).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_looked_at_as_often_as_its_server_wants_within_bounds() {
        for (state, expected) in [
            ("{}", USUAL),
            (r#"{"pollIntervalMs":250}"#, Duration::from_millis(250)),
            (r#"{"pollIntervalMs":0}"#, SHORTEST),
            (r#"{"pollIntervalMs":60000}"#, LONGEST),
            (r#"{"pollIntervalMs":-5}"#, USUAL),
            (r#"{"pollIntervalMs":null}"#, USUAL),
            (r#"{"pollIntervalMs":"soon"}"#, USUAL),
            ("[]", USUAL),
        ] {
            assert_eq!(interval(&Bytes::from_static(state.as_bytes())), expected, "{state}");
        }
    }
}
