//! Every task of one instance. Agents of the other era have none here.
//!
//! - A task of a legacy server belongs to the session whose call has created it ([`session_tasks`]).
//! - A task of a modern server has no owner: an agent with the id may use the task ([`modern_tasks`]).
//!
//! Tasks end with their instance. An id belongs to at most one open task.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`; extension `io.modelcontextprotocol/tasks`, 2026-07-28.

mod modern_tasks;
mod session_tasks;

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

use self::modern_tasks::ModernTasks;
use self::session_tasks::{EarlyNotification, OpenSessionTask, SessionTask, SessionTasks};
use super::abandoned_calls::{AbandonedCall, AbandonedCalls};
use super::pending_request::{PendingCall, PendingRequest, ServerResponse};
use super::wire::Wire;
use crate::calls::CallOutcome;
use crate::era::Era;
use crate::era::response::TaskReport;
use crate::jsonrpc::pending::parse_own_id;
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS};
use crate::jsonrpc::splice::{Edit, splice};
use crate::server::messages::call::{CallKey, Failure, RequestKind, SessionSender, ToAgent};
use crate::server::messages::server_notification::{LegacyTaskStatus, ServerNotification};
use crate::server::messages::tasks::{CreatedTask, LegacyTaskRequest, TaskEvent};
use crate::task_state::{TaskOperation, TaskState, TaskSupport};

/// The tasks of one instance.
#[derive(Default)]
pub(super) struct TaskTable {
    of_sessions: SessionTasks,
    modern: ModernTasks,
    support: TaskSupport,
}

/// The answer to a request of a legacy agent about a task.
pub(super) enum Lookup {
    /// The agent has no such task.
    Unknown,
    /// The server does not support `tasks/cancel`.
    NotCancellable,
    /// The server answers.
    Forward,
}

/// Task support of the server.
impl TaskTable {
    pub(super) fn declare(&mut self, support: TaskSupport) {
        self.support = support;
    }

    pub(super) fn support(&self) -> TaskSupport {
        self.support
    }

    /// The error for a `tasks/cancel` that this server does not support.
    pub(super) fn cancellation_refusal(&self, server: &str) -> ErrorObject {
        ErrorObject::new(INVALID_PARAMS, format!("server `{server}` does not support `tasks/cancel`"))
    }
}

/// Open tasks.
impl TaskTable {
    /// Whether a task with an owner is open.
    pub(super) fn has_open(&self) -> bool {
        self.of_sessions.awaited().next().is_some() || !self.modern.is_empty()
    }

    /// The sessions of open tasks, and the channel to each session if the task has one.
    pub(super) fn open(&self) -> impl Iterator<Item = (u64, Option<&SessionSender>)> {
        let of_sessions = self.of_sessions.all_open().map(|task| (task.key.session, task.to.as_ref()));
        of_sessions.chain(self.modern.sessions().map(|session| (session, None)))
    }

    /// When the next one expires.
    pub(super) fn next_end(&self) -> Option<Instant> {
        [self.of_sessions.next_end(), self.modern.next_end()].into_iter().flatten().min()
    }

    /// Ends tasks that have expired.
    pub(super) fn expire(&mut self, now: Instant) {
        self.of_sessions.expire(now);
        self.modern.expire(now);
    }

    /// The server is gone, and its tasks with it.
    pub(super) fn clear(&mut self) {
        self.of_sessions = SessionTasks::default();
        self.modern = ModernTasks::default();
    }

    /// Whether a legacy agent may create one more task.
    pub(super) fn have_capacity(&self) -> bool {
        self.of_sessions.have_capacity()
    }

    /// When a task with this time to live expires. Schedules the expiry.
    fn expires_at(wire: &mut Wire, ttl: Option<Duration>) -> Option<Instant> {
        let at = Instant::now().checked_add(ttl?)?;
        wire.expire_by(at);
        Some(at)
    }
}

/// Responses of the server.
impl TaskTable {
    /// Notes what the response to `call` reports about a task. `tag` identifies the instance.
    ///
    /// # Errors
    /// If the response must not reach the agent.
    pub(super) fn note_response(
        &mut self,
        wire: &mut Wire,
        abandoned: &mut AbandonedCalls,
        call: &PendingCall,
        ServerResponse { id, result, .. }: ServerResponse<'_>,
        tag: u64,
    ) -> Result<Option<Box<TaskEvent>>, Failure> {
        match (&call.kind, result) {
            (RequestKind::Plain | RequestKind::ResourceSubscription(_), _) | (RequestKind::NewTask, Err(_)) => Ok(None),
            (RequestKind::NewTask, Ok(result)) => self.note_created(wire, abandoned, call, id, result),
            (RequestKind::LegacyTask(task_request), response) => {
                Ok(self.note_answered(wire, call.response_handle.key.session, task_request, response).map(Box::new))
            }
            (RequestKind::MayBeTask | RequestKind::ModernTask(_), response) => {
                Ok(self.read_modern(wire, call, response, tag))
            }
        }
    }
}

/// Tasks of a legacy server.
impl TaskTable {
    /// Looks up the task of a request of this session.
    pub(super) fn look_up(&self, session: u64, task_request: &LegacyTaskRequest) -> Lookup {
        match self.of_sessions.of(session, &task_request.id) {
            None => Lookup::Unknown,
            Some(_) if task_request.operation == TaskOperation::Cancel && !self.support.cancels => {
                Lookup::NotCancellable
            }
            Some(_) => Lookup::Forward,
        }
    }

    /// A call that requests a task was answered, perhaps with one.
    fn note_created(
        &mut self,
        wire: &mut Wire,
        abandoned: &mut AbandonedCalls,
        call: &PendingCall,
        id: &Bytes,
        result: &Bytes,
    ) -> Result<Option<Box<TaskEvent>>, Failure> {
        let state = TaskState::created(result).filter(|_| self.support.declared);
        let Some((task_key, mut state)) = parse_own_id(id).zip(state) else { return Ok(None) };
        let (has_ended, early) = self.of_sessions.take_early(&state.id);
        state.ended |= has_ended;
        let handle = &call.response_handle;
        let open = (!state.ended)
            .then(|| OpenSessionTask::new(Self::expires_at(wire, state.ttl), handle.load_token().cloned()));
        let task = SessionTask::new(&state, handle.key, handle.to().cloned(), call.progress_token.clone(), open);
        if !self.add(abandoned, task_key, task) {
            return Err(Failure::TaskIdTaken);
        }
        let instance = handle.load_token().map(|load| (**load).clone());
        let created = CreatedTask { state, instance, early, instance_alive: self.of_sessions.life() };
        Ok(Some(Box::new(TaskEvent::Created(created))))
    }

    /// `false` if an open task has its id.
    fn add(&mut self, abandoned: &mut AbandonedCalls, task_key: u64, task: SessionTask) -> bool {
        if let Some((id, key)) = self.of_sessions.evict() {
            let call = AbandonedCall { id, key, uid: None, creates_task: false, load: None };
            abandoned.add(call, None, Instant::now());
        }
        self.of_sessions.add(task_key, task)
    }

    /// A request about a task was answered.
    fn note_answered(
        &mut self,
        wire: &mut Wire,
        session: u64,
        task_request: &LegacyTaskRequest,
        response: Result<&Bytes, &Bytes>,
    ) -> Option<TaskEvent> {
        let (task_key, task) = self.of_sessions.of(session, &task_request.id)?;
        let (raw_id, id) = (task.raw_id.clone(), task_request.id.clone());
        match (task_request.operation, response) {
            (TaskOperation::Get, Err(_)) if is_gone(response) => {
                self.of_sessions.forget(task_key);
                return Some(TaskEvent::Gone { id });
            }
            // The task has ended, or the server does not know it.
            (TaskOperation::Cancel, Err(_)) if is_gone(response) => {}
            (TaskOperation::Get | TaskOperation::Cancel, Err(_)) => return None,
            (TaskOperation::Get | TaskOperation::Cancel, Ok(result)) => {
                let state = TaskState::read(result).filter(|state| state.id == id)?;
                self.note(wire, task_key, &state);
                return Some(TaskEvent::Status(state));
            }
            // The response arrives when the task has ended. It may be an error.
            (TaskOperation::Result, _) => {}
        }
        self.of_sessions.end(task_key);
        Some(TaskEvent::Status(TaskState { id, raw_id, ended: true, ttl: None, object: None }))
    }

    /// The server reports the state of a task. While the task runs, this restarts the time limit of pending `tasks/result` requests.
    fn note(&mut self, wire: &mut Wire, task_key: u64, state: &TaskState) {
        if state.ended {
            self.of_sessions.end(task_key);
        } else {
            wire.extend_results(&state.id);
        }
    }

    /// The server reports the state of a task in a notification. Returns the number of dropped notifications. That of an unknown task
    /// is kept if a pending call may create the task (`may_create`).
    pub(super) fn note_status(&mut self, wire: &mut Wire, line: &Bytes, state: TaskState, may_create: bool) -> u64 {
        let Some((task_key, task)) = self.of_sessions.find(&state.id) else {
            if !may_create {
                return 1;
            }
            let early = EarlyNotification { id: state.id, ended: state.ended, line: splice(line, &mut []) };
            return self.of_sessions.add_early(early);
        };
        let to = task.to.clone();
        self.note(wire, task_key, &state);
        if let Some(to) = to {
            let status = LegacyTaskStatus { state, line: splice(line, &mut []) };
            to.send_notification(ToAgent::ServerNotification(ServerNotification::LegacyTaskStatus(Box::new(status))));
        }
        0
    }

    /// Drops notifications about unknown tasks. Returns how many.
    pub(super) fn drop_early(&mut self) -> u64 {
        self.of_sessions.drop_early()
    }

    /// Forwards progress to the agent whose open task has this token.
    pub(super) fn forward_progress(&self, wire: &mut Wire, line: &Bytes, token: &Bytes) {
        let Some(task) = self.of_sessions.of_token(token) else { return };
        if let (Some(to), Some(own)) = (&task.to, &task.token) {
            let line = splice(line, &mut [Edit { part: token, replacement: own }]);
            to.send_notification(ToAgent::CallNotification { key: task.key, line });
        }
        wire.extend_results(task.id());
    }

    /// A call that may create a task was cancelled after it may have reached the server.
    pub(super) fn call_cancelled(&mut self, task_key: u64, key: CallKey) {
        self.of_sessions.cancel(task_key, key);
    }

    /// The server has answered a cancelled call. Returns the task that the call has created, which has to be cancelled.
    pub(super) fn note_late_response(
        &mut self,
        wire: &mut Wire,
        abandoned: &mut AbandonedCalls,
        id: &Bytes,
        outcome: Result<&Bytes, &Bytes>,
    ) -> Option<u64> {
        let (task_key, key) = self.of_sessions.take_cancelled(id)?;
        let state = TaskState::created(outcome.ok()?).filter(|_| self.support.declared)?;
        let (has_ended, _) = self.of_sessions.take_early(&state.id);
        if state.ended || has_ended {
            return None;
        }
        let open = Some(OpenSessionTask::new(Self::expires_at(wire, state.ttl), None));
        self.add(abandoned, task_key, SessionTask::new(&state, key, None, None, open)).then_some(task_key)
    }

    /// The task of this session with this id.
    pub(super) fn of_session(&self, session: u64, id: &Bytes) -> Option<u64> {
        self.of_sessions.of(session, id).map(|(task_key, _)| task_key)
    }

    /// All tasks of this session.
    pub(super) fn all_of_session(&self, session: u64) -> Vec<u64> {
        self.of_sessions.of_session(session)
    }

    /// The task that this call has created.
    pub(super) fn created_by(&self, key: CallKey) -> Option<u64> {
        self.of_sessions.created_by(key)
    }

    /// Cancels a task whose agent has disconnected or does not know it.
    pub(super) fn disown(&mut self, wire: &mut Wire, task_key: u64, deadline: Instant) {
        let Some(raw_id) = self.of_sessions.disown(task_key).filter(|_| self.support.cancels) else { return };
        let id: Option<&RawValue> = serde_json::from_slice(&raw_id).ok();
        wire.request("tasks/cancel", &json!({ "taskId": id }), PendingRequest::CancelTask { task_key, deadline });
    }

    /// The server has answered the cancellation. A server that refuses may still work on the task.
    pub(super) fn disowned(&mut self, task_key: u64, response: Result<&Bytes, &Bytes>) {
        if response.is_ok() || is_gone(response) {
            self.of_sessions.forget(task_key);
        }
    }
}

/// Tasks of a modern server.
impl TaskTable {
    /// What a response reports about a modern task. `tag` identifies the instance for later requests about the task.
    fn read_modern(
        &mut self,
        wire: &mut Wire,
        call: &PendingCall,
        response: Result<&Bytes, &Bytes>,
        tag: u64,
    ) -> Option<Box<TaskEvent>> {
        if wire.era() == Era::Legacy {
            return None;
        }
        let may_report = response.is_ok_and(|result| memchr::memmem::find(result, b"\"taskId\"").is_some());
        if may_report || response.is_err() {
            self.note_modern(wire, call, response);
        }
        may_report.then(|| Box::new(TaskEvent::Modern { instance_tag: tag }))
    }

    fn note_modern(&mut self, wire: &mut Wire, call: &PendingCall, response: Result<&Bytes, &Bytes>) {
        let (result, report) = match (&call.kind, response) {
            (RequestKind::ModernTask(task_request), Err(_)) if is_gone(response) => {
                return self.modern.end(&task_request.task_id);
            }
            (RequestKind::ModernTask(_), Ok(result)) => (result, TaskReport::State),
            (RequestKind::MayBeTask, Ok(result)) => (result, TaskReport::Created),
            _ => return,
        };
        let Some(state) = modern_tasks::read(result, report) else { return };
        let until =
            self.modern.note(&state, call.response_handle.key, call.response_handle.load_token(), Instant::now());
        until.into_iter().for_each(|until| wire.expire_by(until));
    }

    /// The server reports the status of a task. Returns the id of the task as text, and whether the task has ended.
    pub(super) fn note_modern_status(&mut self, params: Option<&Bytes>) -> Option<(Bytes, bool)> {
        let TaskState { id, ended, .. } = TaskState::read_modern(params?)?;
        if ended {
            self.modern.end(&id);
        }
        Some((id, ended))
    }

    /// No agent knows the task that this call has created.
    pub(super) fn forget_modern(&mut self, key: CallKey) {
        self.modern.forget_created_by(key);
    }
}

/// Whether the server does not know the task, or it has ended.
fn is_gone(response: Result<&Bytes, &Bytes>) -> bool {
    CallOutcome::of(response).code() == Some(INVALID_PARAMS.into())
}
