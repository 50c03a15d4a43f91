//! Calls that make tasks, requests about them, and what the server says of them by itself.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::calls::Unanswered;
use super::stated_tasks::about;
use super::tasks::{Early, Open, Task};
use super::{Instance, PendingRequest};
use crate::calls::Outcome;
use crate::era::task::{Told, made_to_legacy, told_id};
use crate::era::{self, Era};
use crate::jsonrpc::pending::minted;
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS, METHOD_NOT_FOUND};
use crate::jsonrpc::splice::{Edit, applied, splice};
use crate::server::messages::call::{Call, CallKey, Failure, ReplySender, RequestKind, ToAgent};
use crate::server::messages::server_notification::{ServerNotification, TaskStatus};
use crate::server::messages::tasks::{MadeTask, TaskAct, TaskAsk, TaskNews, TaskState};

/// What an answer says of a task, if it does.
pub(super) type News = Option<Box<TaskNews>>;

impl Instance {
    /// Passes a request about a task on, if this instance has made that for the same agent.
    pub(in crate::server) fn ask_about_task(&mut self, call: Box<Call>) {
        let RequestKind::Task(ask) = &call.matter else { return };
        let Some((_, task)) = self.tasks.of(call.reply.key.session, &ask.id) else {
            return call.refuse_unknown_task();
        };
        if let Some(kept) = &task.kept {
            let act = ask.act;
            return kept.answer(*call, act);
        }
        if ask.act == TaskAct::Cancel && !self.task_support.cancels {
            let message = format!("server `{}` cancels no tasks", self.config.name);
            return call.refuse_with(&ErrorObject::new(METHOD_NOT_FOUND, message));
        }
        self.call(call);
    }

    /// What the server's answer to a call says of a task.
    ///
    /// # Errors
    /// If it is not to reach the agent.
    pub(super) fn task_news(
        &mut self,
        call: &Unanswered,
        id: &Bytes,
        response: Result<&Bytes, &Bytes>,
    ) -> Result<News, Failure> {
        match (&call.matter, response) {
            (RequestKind::Nothing | RequestKind::Subscription(_), _) => Ok(None),
            (RequestKind::NewTask, response) => {
                let made = response.map_or(Ok(None), |result| self.task_made(call, id, result));
                self.drop_early_tasks();
                made
            }
            (RequestKind::Task(ask), response) => Ok(self.task_seen(call.reply.key.session, ask, response)),
            (RequestKind::MayBeTask | RequestKind::Stated(_), response) => Ok(self.stated_news(call, response)),
        }
    }

    /// Drops what was said of tasks that are not known, unless a call may still say whose they are.
    pub(super) fn drop_early_tasks(&mut self) {
        if !self.may_make_tasks() {
            self.stats.stray_notifications.add(self.tasks.drop_early());
        }
    }

    /// A call was answered that asks for a task, which may have become one.
    fn task_made(&mut self, call: &Unanswered, id: &Bytes, result: &Bytes) -> Result<News, Failure> {
        let state = TaskState::made(result).filter(|_| self.task_support.declared);
        let Some((request, mut state)) = minted(id).zip(state) else { return Ok(None) };
        let (has_ended, early) = self.tasks.take_early(&state.id);
        state.ended |= has_ended;
        let open = (!state.ended).then(|| Open::new(self.ends_at(state.ttl), call.reply.ticket().cloned()));
        let token = call.progress_token.clone();
        let task = Task::new(&state, call.reply.key, call.reply.to().cloned(), token, open);
        if self.stated.has_open(&state.id) || !self.add_task(request, task) {
            return Err(Failure::TaskIdTaken);
        }
        let instance = call.reply.ticket().map(|ticket| (**ticket).clone());
        Ok(Some(Box::new(TaskNews::Made(MadeTask { state, instance, early, life: self.tasks.life() }))))
    }

    pub(super) fn add_task(&mut self, request: u64, task: Task) -> bool {
        if let Some((request, session)) = self.tasks.make_room() {
            self.cancelled.add((request, session), None, None, Instant::now());
        }
        self.tasks.add(request, task)
    }

    /// When a task is over in any case that is kept for so long.
    pub(super) fn ends_at(&mut self, ttl: Option<Duration>) -> Option<Instant> {
        let at = Instant::now().checked_add(ttl?)?;
        self.wire.expire_by(at);
        Some(at)
    }

    /// A request about a task was answered.
    fn task_seen(&mut self, session: u64, ask: &TaskAsk, response: Result<&Bytes, &Bytes>) -> News {
        let (request, task) = self.tasks.of(session, &ask.id)?;
        let raw_id = task.raw_id.clone();
        let is_unknown = || is_unknown(response);
        let id = ask.id.clone();
        match (ask.act, response) {
            (TaskAct::Get, Err(_)) if is_unknown() => {
                self.tasks.forget(request);
                return Some(Box::new(TaskNews::Gone { id }));
            }
            // It has ended already, or is not known to the server.
            (TaskAct::Cancel, Err(_)) if is_unknown() => {}
            (TaskAct::Get | TaskAct::Cancel, Err(_)) => return None,
            (TaskAct::Get | TaskAct::Cancel, Ok(result)) => {
                let state = TaskState::read(result).filter(|state| state.id == id)?;
                self.note_state(request, &state);
                return Some(Box::new(TaskNews::Seen(state)));
            }
            // It is answered when the task has ended, as the call would have been: with an error, perhaps.
            (TaskAct::Result, _) => {}
        }
        self.end_task(request);
        Some(Box::new(TaskNews::Seen(TaskState { id, raw_id, ended: true, ttl: None, object: None })))
    }

    /// The server says how a task is: whoever waits for its result may wait on.
    fn note_state(&mut self, request: u64, state: &TaskState) {
        if state.ended {
            self.end_task(request);
        } else {
            self.put_off_result(&state.id);
        }
    }

    fn end_task(&mut self, request: u64) {
        self.tasks.end(request);
        self.withdraw_task_inputs(request);
    }

    pub(super) fn put_off_result(&mut self, id: &[u8]) {
        let now = Instant::now();
        self.wire.calls_mut().filter(|call| call.awaits(id)).for_each(|call| call.deadline.put_off(now));
    }

    /// Tells the agent whose task it is that it has another status.
    pub(super) fn task_status(&mut self, line: &Bytes, params: Option<&Bytes>) {
        let Some(state) = params.and_then(TaskState::read) else { return self.stats.stray_notifications.add_one() };
        if self.note_stated(&state, None) {
            return;
        }
        let Some((request, task)) = self.tasks.find(&state.id) else {
            let dropped = if self.may_make_tasks() {
                self.tasks.keep_early(Early { id: state.id, ended: state.ended, line: splice(line, &mut []) })
            } else {
                1
            };
            return self.stats.stray_notifications.add(dropped);
        };
        let to = task.to.clone();
        self.note_state(request, &state);
        if let Some(to) = to {
            let status = TaskStatus { state, line: splice(line, &mut []) };
            to.send_unasked(ToAgent::ServerNotification(ServerNotification::Task(Box::new(status))));
        }
    }

    /// Whether a call may be answered with a task that is not known yet.
    fn may_make_tasks(&self) -> bool {
        self.task_support.declared && self.unanswered().any(Unanswered::makes_task)
    }

    /// Passes progress to the agent whose task has this token, which is valid as long as the task is at work.
    pub(super) fn task_progress(&mut self, line: &Bytes, token: &Bytes) {
        let Some(task) = self.tasks.of_token(token) else { return };
        if let (Some(to), Some(own)) = (&task.to, &task.token) {
            let line = splice(line, &mut [Edit { part: token, replacement: own }]);
            to.send_unasked(ToAgent::Progress { key: task.key, line });
        }
        let id = task.id().clone();
        self.put_off_result(&id);
    }

    /// The server has answered a call that nobody waits for any more: a task that it has made is cancelled.
    pub(super) fn late_answer(&mut self, id: &Bytes, outcome: Result<&Bytes, &Bytes>) {
        let Some((request, key)) = self.tasks.take_given_up(id) else { return };
        let Ok(result) = outcome else { return };
        let Some(state) = self.late_task(result).filter(|_| self.task_support.declared) else { return };
        let (has_ended, _) = self.tasks.take_early(&state.id);
        if state.ended || has_ended {
            return;
        }
        let open = Some(Open::new(self.ends_at(state.ttl), None));
        if self.add_task(request, Task::new(&state, key, None, None, open)) {
            self.disown_task(request);
        }
    }

    /// The task that such an answer, as the server has sent it, says that it has made.
    fn late_task(&self, result: &Bytes) -> Option<TaskState> {
        if self.wire.era() == Era::Legacy {
            return TaskState::made(result);
        }
        told_id(result, Told::Made)?;
        let changes = made_to_legacy(result).ok()?;
        TaskState::made(&applied(result, &changes).into())
    }

    /// An agent did not hear of a task that was made for it.
    pub(in crate::server) fn drop_task(&mut self, session: u64, id: &Bytes) {
        if let Some((request, _)) = self.tasks.of(session, id) {
            self.disown_task(request);
        }
    }

    /// An agent knows of no task that its call has made, and waits for none.
    pub(super) fn drop_task_of(&mut self, key: CallKey) {
        if let Some(request) = self.tasks.made_by(key) {
            self.disown_task(request);
        }
        self.stated.at_work.forget_made_by(key);
    }

    /// An agent has gone: nobody can ask for its tasks.
    pub(in crate::server) fn drop_tasks(&mut self, session: u64) {
        for request in self.tasks.of_session(session) {
            self.disown_task(request);
        }
    }

    /// Cancels a task that is nobody's any more.
    fn disown_task(&mut self, request: u64) {
        self.withdraw_task_inputs(request);
        let Some(raw_id) = self.tasks.disown(request).filter(|_| self.task_support.cancels) else { return };
        let mut params = about(&raw_id);
        if self.wire.era() == Era::Modern {
            params["_meta"] = era::own_task_params()["_meta"].take();
        }
        let deadline = self.request_deadline();
        self.wire.request("tasks/cancel", &params, PendingRequest::CancelTask { task: request, deadline });
    }

    /// The server has answered that it is to cancel a task of nobody's. One that refuses may be at it as before.
    pub(super) fn disowned_answered(&mut self, request: u64, response: Result<&Bytes, &Bytes>) {
        if response.is_ok() || is_unknown(response) {
            self.tasks.forget(request);
        }
    }

    /// Whether an agent waits for the end of one.
    pub(in crate::server) fn has_open_tasks(&self) -> bool {
        let is_stated = || self.stated.open().next().is_some() || !self.stated.at_work.is_empty();
        self.tasks.awaited().next().is_some() || is_stated()
    }

    /// The sessions that the server may be at something for, and the way to each.
    pub(super) fn busy_for(&self) -> impl Iterator<Item = (u64, Option<&ReplySender>)> {
        let calls = self.unanswered().filter(|call| !call.is_answered());
        let calls = calls.map(|call| (call.reply.key.session, call.reply.to()));
        let tasks = self.tasks.all_open().map(|task| (task.key.session, task.to.as_ref()));
        let stated = self.stated.open().map(|task| task.key.session).chain(self.stated.at_work.sessions());
        calls.chain(tasks).chain(stated.map(|session| (session, None)))
    }
}

/// Whether a server answers so that it does not know a task, or, asked to cancel it, that it has ended.
pub(super) fn is_unknown(response: Result<&Bytes, &Bytes>) -> bool {
    Outcome::of(response).code() == Some(INVALID_PARAMS.into())
}
