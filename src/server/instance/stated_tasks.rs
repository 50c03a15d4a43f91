//! Tasks of a legacy server for modern agents: calls that become one.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28; MCP 2025-11-25, `basic/utilities/tasks`. A legacy server makes a task
//! where a call asks for one. Here that is done for the tools that cannot be called otherwise; what may be either is answered at once.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

use super::calls::Unanswered;
use super::crossing::{Crossing, Way};
use super::stated::StatedTask;
use super::{Effect, Instance, PendingRequest};
use crate::era::request;
use crate::era::result::{self, Cached};
use crate::era::stated::Meta;
use crate::era::task::{made_to_modern, not_declared};
use crate::jsonrpc::members::NotAnObject;
use crate::jsonrpc::pending::minted;
use crate::jsonrpc::splice::Change;
use crate::server::messages::call::{Call, CallKey, Failure, LoadGuard};
use crate::server::messages::tasks::TaskState;

impl Instance {
    /// Has a modern agent's call become a task where it has to, or answers a request about one, unless the server has to hear of it.
    pub(super) fn with_task(
        &mut self,
        call: Box<Call>,
        crossing: Crossing,
        changes: &mut Vec<Change>,
    ) -> Option<(Box<Call>, Crossing)> {
        match (&crossing.way, &crossing.asked.method[..]) {
            (Way::Down { .. }, b"tools/call") => self.make_stated(call, crossing, changes),
            (Way::Down { .. }, b"tasks/get" | b"tasks/update" | b"tasks/cancel") => {
                self.ask_about_stated(call, crossing)
            }
            _ => Some((call, crossing)),
        }
    }

    fn make_stated(
        &mut self,
        call: Box<Call>,
        mut crossing: Crossing,
        changes: &mut Vec<Change>,
    ) -> Option<(Box<Call>, Crossing)> {
        let is_required = crossing.asked.own_name().is_some_and(|name| self.task_tools.have(&name));
        let Way::Down { makes_task, .. } = &mut crossing.way else { return Some((call, crossing)) };
        if !is_required {
            return Some((call, crossing));
        }
        let meta = Meta::of(Some(&crossing.asked.params));
        if !meta.is_ok_and(|meta| meta.stated.is_some_and(|stated| stated.takes_tasks)) {
            call.refuse_with(&not_declared());
            return None;
        }
        let making = self.unanswered().filter(|call| call.makes_task()).count();
        if !self.stated.have_room(making) {
            self.refuse(*call, "it has too many tasks that have not ended");
            return None;
        }
        if let Ok(asking) = request::to_legacy(&crossing.asked.params, true) {
            (*makes_task, *changes) = (true, asking);
        }
        Some((call, crossing))
    }

    /// The server has answered a call that asks for a task with this result, which may be one.
    pub(super) fn stated_made(
        &mut self,
        call: Unanswered,
        crossing: Crossing,
        (id, line): (&Bytes, &Bytes),
        result: &Bytes,
    ) -> Effect {
        let Way::Down { profile, abilities, .. } = crossing.way else { return Effect::Nothing };
        let Ok(changes) = made_to_modern(result) else {
            return match result::to_modern(result, Cached::No) {
                Ok(changes) => self.end_changed(call, (id, line), &changes, Ok(result)),
                Err(NotAnObject) => self.end_failed(call, Failure::AnswerMalformed),
            };
        };
        let Some((request, mut state)) = minted(id).zip(TaskState::made(result)) else {
            return self.end_failed(call, Failure::AnswerMalformed);
        };
        let (has_ended, _) = self.tasks.take_early(&state.id);
        self.drop_early_tasks();
        state.ended |= has_ended;
        let of = (request, call.reply.key);
        let mut task = StatedTask::new(&state, of, profile, abilities.bare(), call.reply.ticket().cloned());
        task.hear(&state, Instant::now(), None).into_iter().for_each(|until| self.wire.expire_by(until));
        let is_others = self.tasks.find(&state.id).is_some_and(|(_, task)| task.open.is_some());
        if is_others || !self.stated.add(state.id, task) {
            return self.end_failed(call, Failure::TaskIdTaken);
        }
        self.end_changed(call, (id, line), &changes, Ok(result))
    }

    /// Takes in how a task is, if it is a modern agent's. Whether it is.
    pub(super) fn note_stated(&mut self, seen: &TaskState, ticket: Option<LoadGuard>) -> bool {
        let Some(task) = self.stated.find(&seen.id) else { return false };
        match task.hear(seen, Instant::now(), ticket) {
            Some(until) => self.wire.expire_by(until),
            None => {
                let unanswered = self.stated.end(&seen.id);
                self.refuse_questions(&unanswered);
            }
        }
        true
    }

    /// An agent has cancelled a call while that was answered: nobody knows of the task.
    pub(super) fn drop_stated_of(&mut self, key: CallKey) {
        let Some(id) = self.stated.made_by(key) else { return };
        let raw_id = self.stated.find(&id).filter(|task| task.is_open()).map(|task| task.raw_id.clone());
        let unanswered = self.stated.forget(&id);
        self.refuse_questions(&unanswered);
        if let Some(raw_id) = raw_id.filter(|_| self.task_support.cancels) {
            let deadline = self.request_deadline();
            self.wire.request("tasks/cancel", &about(&raw_id), PendingRequest::Ignored { deadline });
        }
    }
}

/// The params of a request about the task with this raw id.
pub(super) fn about(raw_id: &Bytes) -> serde_json::Value {
    let id: Option<&RawValue> = serde_json::from_slice(raw_id).ok();
    json!({ "taskId": id })
}
