//! Requests about tasks of a legacy server for modern agents: how it is, that it is to be cancelled, and what it wants to know.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28; MCP 2025-11-25, `basic/utilities/tasks`. The state of a modern task has its
//! result, too: so that is asked for as soon as there is one.

use std::time::Instant;

use bytes::Bytes;

use super::calls::Unanswered;
use super::crossing::{Crossing, Way};
use super::stated_tasks::about;
use super::task_calls::is_unknown;
use super::{Effect, Instance, PendingRequest};
use crate::era::error::{self, ErrorToModern};
use crate::era::input;
use crate::era::result::{self, Cached};
use crate::era::task::{Detail, Place, Status, state_to_modern};
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::jsonrpc::splice::{Change, applied};
use crate::server::messages::call::{Call, Failure};
use crate::server::messages::tasks::{TaskState, unknown_task};

/// Largest state of a task that a result is put into, in bytes; a larger one is no answer.
const LARGEST_STATE: usize = 64 << 10;
/// The answer that says no more than that something was done.
const DONE: &[u8] = br#"{"resultType":"complete"}"#;

/// How far a request about a task is.
pub(super) enum Phase {
    /// The server is asked how it is.
    State,
    /// It has ended so: the server is asked with what.
    Result { state: Bytes },
    /// The server is to cancel it.
    Cancel,
}

impl Instance {
    pub(super) fn ask_about_stated(
        &mut self,
        call: Box<Call>,
        mut crossing: Crossing,
    ) -> Option<(Box<Call>, Crossing)> {
        let Way::Down { profile, abilities, .. } = crossing.way else { return Some((call, crossing)) };
        let id = crossing.asked.own_name().unwrap_or_default();
        let Some(task) = self.stated.of(&profile, &id) else {
            call.refuse_with(&unknown_task(&crossing.asked.agents_name().unwrap_or_default()));
            return None;
        };
        task.abilities = abilities.bare();
        let phase = match &crossing.asked.method[..] {
            b"tasks/update" => {
                self.update_stated(*call, &id, &crossing.asked.params);
                return None;
            }
            b"tasks/cancel" if !self.task_support.cancels => {
                let message = format!("server `{}` cancels no tasks", self.config.name);
                call.refuse_with(&ErrorObject::new(METHOD_NOT_FOUND, message));
                return None;
            }
            b"tasks/cancel" => Phase::Cancel,
            _ => Phase::State,
        };
        crossing.way = Way::Stated { id, phase };
        Some((call, crossing))
    }

    /// The agent answers what the server has asked for a task. What it does not wait for, or not any more, is passed over.
    fn update_stated(&mut self, call: Call, id: &Bytes, params: &Bytes) {
        let responses = members(params, ["inputResponses"]).and_then(|[raw]| input::responses(raw.as_ref()));
        let Ok(responses) = responses else {
            return call.refuse_with(&ErrorObject::new(INVALID_PARAMS, "`inputResponses` is malformed"));
        };
        let answered = self.stated.find(id).map(|task| task.take_answered(&responses)).unwrap_or_default();
        call.answer_done(DONE);
        self.say_answers(answered);
    }

    /// The server has answered a request about a task.
    pub(super) fn stated_answered(
        &mut self,
        call: Unanswered,
        crossing: Crossing,
        (id, line): (&Bytes, &Bytes),
        outcome: Result<&Bytes, &Bytes>,
    ) -> Effect {
        let Way::Stated { id: task, phase } = &crossing.way else { return Effect::Nothing };
        match (phase, outcome) {
            (Phase::State, Ok(state)) => return self.stated_seen(call, crossing, id, state),
            (Phase::Result { state }, outcome) => {
                let Some(state) = ended(state, outcome) else { return self.end_failed(call, Failure::AnswerMalformed) };
                return self.end_stated(call, id, &state);
            }
            // It has ended already, or is not known any more: there is nothing left to cancel.
            (Phase::Cancel, outcome) if outcome.is_ok() || is_unknown(outcome) => {
                let has_ended = |state: &Bytes| TaskState::read(state).is_some_and(|state| state.ended);
                if outcome.map_or(true, has_ended) {
                    let unanswered = self.stated.end(task);
                    self.refuse_questions(&unanswered);
                }
                return self.end_stated(call, id, &Bytes::from_static(DONE));
            }
            (Phase::State, Err(_)) if is_unknown(outcome) => {
                let unanswered = self.stated.forget(task);
                self.refuse_questions(&unanswered);
            }
            (Phase::State | Phase::Cancel, _) => {}
        }
        let change = outcome.err().and_then(|raw| changed(&crossing.asked.method, raw));
        self.end_changed(call, (id, line), change.as_slice(), outcome)
    }

    /// The server says how a task is, and may have to be asked more before its agent can be told.
    fn stated_seen(&mut self, call: Unanswered, mut crossing: Crossing, id: &Bytes, state: &Bytes) -> Effect {
        let Way::Stated { id: task, phase } = &mut crossing.way else { return Effect::Nothing };
        let seen = TaskState::read(state).filter(|seen| seen.id == *task);
        let Some((seen, status)) = seen.zip(Status::read(state)) else {
            return self.end_failed(call, Failure::AnswerMalformed);
        };
        if state.len() > LARGEST_STATE {
            return self.end_failed(call, Failure::AnswerTooLarge);
        }
        self.note_stated(&seen, call.reply.ticket().cloned());
        let inputs = self.stated.find(task).and_then(|task| task.inputs());
        let detail = match (&status, &inputs) {
            (Status::Completed(_) | Status::Failed(_), _) => {
                *phase = Phase::Result { state: Bytes::copy_from_slice(state) };
                self.ask_for_result(call, crossing, &seen.raw_id);
                return Effect::Nothing;
            }
            (Status::Cancelled, _) => Detail::None,
            (_, Some(inputs)) => Detail::Inputs(inputs),
            (Status::InputRequired(_), None) => {
                self.have_asked(&seen);
                Detail::Unasked
            }
            (Status::Working, None) => Detail::None,
        };
        match state_to_modern(state, Place::Result, detail) {
            Ok(changes) => self.end_stated(call, id, &applied(state, &changes).into()),
            Err(NotAnObject) => self.end_failed(call, Failure::AnswerMalformed),
        }
    }

    /// Asks with what a task has ended, for the same request.
    fn ask_for_result(&mut self, mut call: Unanswered, crossing: Crossing, raw_id: &Bytes) {
        call.deadline.put_off(Instant::now());
        call.crossing = Some(Box::new(crossing));
        let params = about(raw_id);
        self.wire.send_call(call, |_, id| reply::request(id, "tasks/result", &params));
    }

    /// Has the server ask what it wants to know for a task, which it does while somebody waits for the result.
    fn have_asked(&mut self, seen: &TaskState) {
        if let Some(task) = self.stated.find(&seen.id).filter(|task| !task.asks) {
            task.asks = true;
            self.wire.request(
                "tasks/result",
                &about(&seen.raw_id),
                PendingRequest::TaskResult { task: seen.id.clone() },
            );
        }
    }

    /// The server has answered that: it has ended the task, or has to be asked again.
    pub(super) fn task_end_answered(&mut self, task: &[u8], is_ended: bool) {
        self.stated.find(task).into_iter().for_each(|task| task.asks = false);
        if is_ended {
            let unanswered = self.stated.end(task);
            self.refuse_questions(&unanswered);
        }
    }

    fn end_stated(&mut self, call: Unanswered, id: &Bytes, state: &Bytes) -> Effect {
        let answer = reply::result(call.reply.id(), state);
        self.end_call(call, id, answer, Ok(state))
    }
}

/// The state of a task that has ended, with what its server answers to `tasks/result`.
fn ended(state: &Bytes, outcome: Result<&Bytes, &Bytes>) -> Option<Bytes> {
    let raw: Bytes = match outcome {
        Ok(result) => applied(result, &result::to_modern(result, Cached::No).ok()?).into(),
        Err(error) => applied(error, changed(b"tasks/result", error).as_slice()).into(),
    };
    let detail = if outcome.is_ok() { Detail::Result(&raw) } else { Detail::Error(&raw) };
    Some(applied(state, &state_to_modern(state, Place::Result, detail).ok()?).into())
}

fn changed(method: &[u8], error: &Bytes) -> Option<Change> {
    match error::to_modern(method, error) {
        ErrorToModern::Changed(change) => Some(change),
        // No request about a task may be answered so.
        ErrorToModern::Unchanged | ErrorToModern::Required(_) => None,
    }
}
