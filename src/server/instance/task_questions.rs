//! What a modern server wants to know for a task of a legacy agent, which is asked while it waits for the task's result; the server
//! is told what it has answered.
//!
//! The questions are the task's rather than the request's: who gives up waiting may answer all the same, and is asked again only
//! what is open when he waits again. Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Update Requests"; MCP
//! 2025-11-25, `basic/utilities/tasks`, "Input Required Status".

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::polls::about;
use super::server_requests::{Purpose, Recipient};
use super::task_inputs::TaskInput;
use super::{Instance, PendingRequest};
use crate::era::input::{Input, inputs};
use crate::era::request::again;
use crate::era::speaker::Speaker;
use crate::era::task::question_to_legacy;
use crate::jsonrpc::splice::applied;
use crate::server::messages::call::Failure;

const TOO_MUCH: &str = "wants to know more for the task, and what it was answered is too large";

impl Instance {
    /// Asks the agent what the server wants to know for a task, `requests` being raw `inputRequests`, unless it was asked before. The
    /// agent hears which task it is for if that is known to it.
    pub(super) fn ask_for_task(
        &mut self,
        (request, recipient, speaker): (u64, &Recipient, Arc<Speaker>),
        requests: &Bytes,
        is_known: bool,
    ) {
        let Some(task) = self.tasks.get_mut(request) else { return };
        task.speaker = Some(speaker);
        let raw_id = is_known.then(|| task.raw_id.clone());
        let to_ask = inputs(requests).map_err(|why| format!("wants to know more for the task, but {why}"));
        match to_ask.and_then(|inputs| task.inputs.begin_asking(request, inputs)) {
            Ok(to_ask) => {
                for (place, input) in to_ask {
                    if let Err(why) = self.ask_one(recipient, place, input, raw_id.as_ref()) {
                        self.task_input_given(place, Err(why));
                    }
                }
                self.tell_answers(request);
            }
            Err(why) => self.fail_awaiting(request, &why),
        }
    }

    fn ask_one(
        &mut self,
        recipient: &Recipient,
        place: TaskInput,
        mut input: Input,
        raw_id: Option<&Bytes>,
    ) -> Result<(), String> {
        if let Some(raw_id) = raw_id {
            let params = input.params.unwrap_or(Bytes::from_static(b"{}"));
            let changes = question_to_legacy(&params, raw_id).map_err(|_| "wants to know what is malformed")?;
            input.params = Some(applied(&params, &changes).into());
        }
        self.ask_for_input(recipient, Purpose::Task(place), &input)
    }

    /// The agent has answered one of the questions: with this raw result, or so that nobody can go on.
    pub(super) fn task_input_given(&mut self, place: TaskInput, given: Result<Bytes, String>) {
        let given = given.and_then(|result| {
            let is_too_much = self.tasks.answer_bytes() + result.len() > self.wire.max_message();
            if is_too_much { Err(TOO_MUCH.to_owned()) } else { Ok(result) }
        });
        match given {
            Ok(result) => self.keep_task_input(place, result),
            Err(why) => {
                if let Some(task) = self.tasks.get_mut(place.task) {
                    task.inputs.not_answered(place);
                }
                self.fail_awaiting(place.task, &why);
            }
        }
        self.tell_answers(place.task);
    }

    /// What is known without the agent.
    pub(super) fn keep_task_input(&mut self, place: TaskInput, result: Bytes) {
        if let Some(task) = self.tasks.get_mut(place.task) {
            task.inputs.answered(place, result);
        }
    }

    /// Tells the server what the agent has answered, if that is everything it was asked.
    fn tell_answers(&mut self, request: u64) {
        let Some(task) = self.tasks.get_mut(request) else { return };
        let (answers, Some(speaker)) = (task.inputs.take_answers(), task.speaker.clone()) else { return };
        if answers.is_empty() {
            return;
        }
        let params = update(&task.raw_id, &answers, &speaker);
        let deadline = self.request_deadline();
        let params: Option<&RawValue> = serde_json::from_slice(&params).ok();
        self.wire.request("tasks/update", &params, PendingRequest::UpdateTask { task: request, deadline });
    }

    /// The server did not take what it wanted to know.
    pub(super) fn update_failed(&mut self, request: u64) {
        if let Some(task) = self.tasks.get_mut(request) {
            task.inputs.not_taken();
        }
        self.fail_awaiting(request, "wanted to know more for the task, and did not take the answer");
    }

    /// Nobody can wait for the result of the task any more; `why` says of the server what it wanted.
    fn fail_awaiting(&mut self, request: u64, why: &str) {
        let Some(id) = self.tasks.get_mut(request).map(|task| task.id().clone()) else { return };
        for (request, owner) in self.wire.remove_where(|owner| owner.awaits(&id)) {
            if let PendingRequest::Call(call) = owner {
                let (key, failure) = (call.reply.key, Failure::NotAnswered { why: why.to_owned() });
                if call.is_parked() {
                    self.fail_sent(call, failure, true);
                } else if self.fail_call(call, failure) {
                    self.give_up(request, key, false, None);
                }
            }
        }
    }

    /// The task has ended: what was asked for it is wanted no more.
    pub(super) fn withdraw_task_inputs(&mut self, request: u64) {
        let is_of_task = |purpose| matches!(purpose, Purpose::Task(place) if place.task == request);
        self.server_requests.withdraw(is_of_task, "the task that this was for has ended");
    }
}

/// The params that tell the server these answers for the task with this raw id.
fn update(raw_id: &Bytes, answers: &[(Bytes, Bytes)], speaker: &Speaker) -> Bytes {
    let params = about(raw_id, speaker);
    let told = again(&params, answers, None);
    applied(&params, &[told]).into()
}
