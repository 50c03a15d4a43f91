//! Every task of one instance.
//!
//! There are three tables, one per kind of owner:
//!
//! - Tasks of legacy agents belong to a session ([`session_tasks`]).
//! - Tasks that a legacy server has created for modern agents belong to a profile ([`profile_tasks`]).
//! - Tasks of modern agents at a modern server have no owner: an agent with the id may use the task ([`modern_tasks`]).
//!
//! Tasks end with their instance. An id belongs to at most one open task.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`; extension `io.modelcontextprotocol/tasks`, 2026-07-28.

mod legacy_task_only_tools;
mod modern_task_only_tools;
mod modern_tasks;
pub(super) mod polling;
mod profile_tasks;
mod session_tasks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

use self::legacy_task_only_tools::LegacyTaskOnlyTools;
use self::modern_task_only_tools::ModernTaskOnlyTools;
use self::modern_tasks::ModernTasks;
use self::profile_tasks::{ProfileTask, ProfileTasks, Reports, ResultRequest};
use self::session_tasks::{EarlyNotification, OpenSessionTask, SessionTask, SessionTasks};
use super::cancelled_calls::CancelledCalls;
use super::pending_call::PendingCall;
use super::pending_request::{PendingRequest, ServerResponse};
use super::server_requests::unavailable;
use super::subscriptions::Topic;
use super::wire::Wire;
use crate::bridge::{
    self, BridgedRequest, CompletedTask, LegacyServerTask, MAX_RETAINED_MEMORY, ServerRequest, TaskInputId, TaskUse,
    task_params,
};
use crate::calls::CallOutcome;
use crate::catalog::List;
use crate::client_capabilities::{ClientCapabilities, ClientCapability};
use crate::era::input::{Input, inputs};
use crate::era::legacy_client_meta::LegacyClientMeta;
use crate::era::request::with_inputs;
use crate::era::task::{
    Status, TaskReport, creation_to_legacy, input_params_to_legacy, input_params_to_modern, reported_task_id,
};
use crate::era::{self, Era};
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::pending::parse_own_id;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, INVALID_REQUEST};
use crate::jsonrpc::splice::{Edit, applied, splice};
use crate::random;
use crate::server::messages::call::{Call, CallKey, Failure, LoadToken, RequestKind, SessionSender, ToAgent};
use crate::server::messages::server_notification::{LegacyTaskStatus, ServerNotification};
use crate::server::messages::tasks::{CreatedTask, LegacyTaskRequest, TaskEvent};
use crate::server::server_request::undeclared;
use crate::task_state::{TaskOperation, TaskState, TaskSupport};

/// The tasks of one instance.
#[derive(Default)]
pub(super) struct TaskTable {
    of_sessions: SessionTasks,
    of_profiles: ProfileTasks,
    modern: ModernTasks,
    support: TaskSupport,
    legacy_task_only_tools: LegacyTaskOnlyTools,
    modern_task_only_tools: ModernTaskOnlyTools,
}

/// The effect of a response on tasks.
#[derive(Default)]
pub(super) struct TaskChange {
    pub(super) news: Option<Box<TaskEvent>>,
    /// The key of a task that has ended. Requests to its agent have to be withdrawn.
    pub(super) ended_key: Option<u64>,
}

/// The answer to a request of a legacy agent about a task.
pub(super) enum Lookup<'a> {
    /// The agent has no such task.
    Unknown,
    /// mcpd made up this task, because the modern server answered the call directly. The result is cached.
    Completed(&'a CompletedTask),
    /// The server does not support `tasks/cancel`.
    NotCancellable,
    /// The server answers.
    Forward,
}

/// Inputs that a modern server requires for a task.
pub(super) enum InputRequirement {
    /// Requests for these are sent to the agent.
    Request(Vec<(TaskInputId, Input)>),
    /// The inputs are malformed or too many. The text continues the name of the server.
    Refused(String),
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

    /// Reads the task requirements of the tools of a legacy server.
    pub(super) fn note_tools(&mut self, tools: &List) {
        self.legacy_task_only_tools =
            if self.support.of_calls { LegacyTaskOnlyTools::of(tools) } else { LegacyTaskOnlyTools::default() };
    }

    /// Whether this tool of a legacy server can only be called as a task.
    pub(super) fn requires_task(&self, tool: &[u8]) -> bool {
        self.legacy_task_only_tools.include(tool)
    }

    /// What mcpd does with the task if a modern server answers this call of a legacy agent with one.
    pub(super) fn use_for(&self, kind: &RequestKind, request: &BridgedRequest) -> TaskUse {
        let is_task_only = || request.tool().is_some_and(|tool| self.modern_task_only_tools.include(&tool));
        match kind {
            RequestKind::NewTask if self.support.declared => TaskUse::Returned,
            RequestKind::Plain if self.support.declared && is_task_only() => TaskUse::Hidden,
            _ => TaskUse::None,
        }
    }

    /// The server runs this tool only as a task.
    pub(super) fn remember_task_only(&mut self, tool: &Bytes) {
        self.modern_task_only_tools.remember(tool);
    }
}

/// Open tasks.
impl TaskTable {
    /// Whether a task with an owner is open.
    pub(super) fn has_open(&self) -> bool {
        self.of_sessions.awaited().next().is_some()
            || self.of_profiles.open().next().is_some()
            || !self.modern.is_empty()
    }

    /// The sessions of open tasks, and the channel to each session if the task has one.
    pub(super) fn open(&self) -> impl Iterator<Item = (u64, Option<&SessionSender>)> {
        let of_sessions = self.of_sessions.all_open().map(|task| (task.key.session, task.to.as_ref()));
        let of_profiles = self.of_profiles.open().map(|task| task.key.session);
        of_sessions.chain(of_profiles.chain(self.modern.sessions()).map(|session| (session, None)))
    }

    /// When the next one expires.
    pub(super) fn next_end(&self) -> Option<Instant> {
        [self.of_sessions.next_end(), self.of_profiles.next_end(), self.modern.next_end()].into_iter().flatten().min()
    }

    /// Ends tasks that have expired. Returns the ids of requests of the server that nobody will answer.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Bytes> {
        self.of_sessions.expire(now);
        self.modern.expire(now);
        self.of_profiles.expire(now)
    }

    /// The server is gone, and its tasks with it.
    pub(super) fn clear(&mut self) {
        self.of_sessions = SessionTasks::default();
        self.of_profiles = ProfileTasks::default();
        self.modern = ModernTasks::default();
    }

    /// Whether a legacy agent may create one more task.
    pub(super) fn have_capacity(&self) -> bool {
        self.of_sessions.have_capacity()
    }

    /// Whether a legacy server may create one more task for a modern agent, while so many calls create one.
    pub(super) fn have_capacity_for_profiles(&self, creating: usize) -> bool {
        self.of_profiles.have_capacity(creating)
    }

    /// When a task with this time to live expires. Schedules the expiry.
    fn expires_at(wire: &mut Wire, ttl: Option<Duration>) -> Option<Instant> {
        let at = Instant::now().checked_add(ttl?)?;
        wire.expire_by(at);
        Some(at)
    }
}

/// Tasks of legacy agents.
impl TaskTable {
    /// Looks up the task of a request of this session.
    pub(super) fn look_up(&self, session: u64, task_request: &LegacyTaskRequest) -> Lookup<'_> {
        let Some((_, task)) = self.of_sessions.of(session, &task_request.id) else { return Lookup::Unknown };
        match &task.completed {
            Some(completed) => Lookup::Completed(completed),
            None if task_request.operation == TaskOperation::Cancel && !self.support.cancels => Lookup::NotCancellable,
            None => Lookup::Forward,
        }
    }

    /// The raw id of the task with this id.
    pub(super) fn raw_id(&self, id: &[u8]) -> Option<Bytes> {
        self.of_sessions.find(id).map(|(_, task)| task.raw_id.clone())
    }

    /// The key of the task with this id.
    pub(super) fn key_of(&self, id: &[u8]) -> Option<u64> {
        self.of_sessions.find(id).map(|(task_key, _)| task_key)
    }

    /// Notes what the response to `call` reports about a task. `tag` identifies the instance.
    ///
    /// # Errors
    /// If the response must not reach the agent.
    pub(super) fn response(
        &mut self,
        wire: &mut Wire,
        cancelled: &mut CancelledCalls,
        call: &PendingCall,
        ServerResponse { id, result, .. }: ServerResponse<'_>,
        tag: u64,
    ) -> Result<TaskChange, Failure> {
        match (&call.kind, result) {
            (RequestKind::Plain | RequestKind::ResourceSubscription(_), _) => Ok(TaskChange::default()),
            (RequestKind::NewTask, Ok(result)) => {
                self.created(wire, cancelled, call, id, result).map(|news| TaskChange { news, ended_key: None })
            }
            (RequestKind::NewTask, Err(_)) => Ok(TaskChange::default()),
            (RequestKind::LegacyTask(task_request), response) => {
                Ok(self.seen(wire, call.response_handle.key.session, task_request, response))
            }
            (RequestKind::MayBeTask | RequestKind::ModernTask(_), response) => {
                Ok(TaskChange { news: self.modern_news(wire, call, response, tag), ended_key: None })
            }
        }
    }

    /// A call that requests a task was answered, perhaps with one.
    fn created(
        &mut self,
        wire: &mut Wire,
        cancelled: &mut CancelledCalls,
        call: &PendingCall,
        id: &Bytes,
        result: &Bytes,
    ) -> Result<Option<Box<TaskEvent>>, Failure> {
        let state = TaskState::created(result).filter(|_| self.support.declared);
        let Some((task_key, mut state)) = parse_own_id(id).zip(state) else { return Ok(None) };
        let (has_ended, early) = self.of_sessions.take_early(&state.id);
        state.ended |= has_ended;
        let open = (!state.ended).then(|| {
            OpenSessionTask::new(Self::expires_at(wire, state.ttl), call.response_handle.load_token().cloned())
        });
        let mut task = SessionTask::new(
            &state,
            call.response_handle.key,
            call.response_handle.to().cloned(),
            call.progress_token.clone(),
            open,
        );
        task.is_subscribed = wire.era() == Era::Modern;
        if self.of_profiles.has_open(&state.id)
            || self.modern.contains(&state.id)
            || !self.add(cancelled, task_key, task)
        {
            return Err(Failure::TaskIdTaken);
        }
        Ok(Some(self.made(call, state, early)))
    }

    fn made(&self, call: &PendingCall, state: TaskState, early: Vec<Bytes>) -> Box<TaskEvent> {
        let instance = call.response_handle.load_token().map(|load| (**load).clone());
        Box::new(TaskEvent::Created(CreatedTask { state, instance, early, instance_alive: self.of_sessions.life() }))
    }

    /// `false` if an open task has its id.
    fn add(&mut self, cancelled: &mut CancelledCalls, task_key: u64, task: SessionTask) -> bool {
        if let Some((task_key, session)) = self.of_sessions.evict() {
            cancelled.add(task_key, session, None, None, Instant::now());
        }
        self.of_sessions.add(task_key, task)
    }

    /// The server has made a task of a call whose agent waits for the result: this legacy result says which.
    pub(super) fn await_task(
        &mut self,
        wire: &mut Wire,
        cancelled: &mut CancelledCalls,
        call: &PendingCall,
        id: &Bytes,
        result: &Bytes,
    ) -> Result<Bytes, Failure> {
        let Some((state, task_key)) = TaskState::created(result).zip(parse_own_id(id)) else {
            return Err(Failure::MalformedResponse);
        };
        let open = OpenSessionTask::new(Self::expires_at(wire, state.ttl), None);
        let (to, token) = (call.response_handle.to().cloned(), call.progress_token.clone());
        let task = SessionTask::new(&state, call.response_handle.key, to, token, Some(open));
        if self.add(cancelled, task_key, task) { Ok(state.id) } else { Err(Failure::TaskIdTaken) }
    }

    /// Caches the `result` of a call that requests a task. Returns the result that reports a completed task, and the news of it.
    pub(super) fn complete(
        &mut self,
        wire: &mut Wire,
        cancelled: &mut CancelledCalls,
        call: &PendingCall,
        id: &Bytes,
        params: &Bytes,
        result: &Bytes,
    ) -> Result<(Vec<u8>, Option<Box<TaskEvent>>), Failure> {
        let ttl = bridge::ttl(params);
        let completed = random::token().ok().and_then(|name| CompletedTask::ended_now(&name, result, ttl).ok());
        let completed = completed.and_then(|task| Some((TaskState::read(&task.task_object)?, task, parse_own_id(id)?)));
        let Some((state, completed, task_key)) = completed else { return Err(Failure::MalformedResponse) };
        self.of_sessions.evict_cached(call.response_handle.key.session, completed.bytes(), wire.max_message());
        wire.expire_by(completed.until);
        let answer = [&br#"{"task":"#[..], &completed.task_object[..], b"}"].concat();
        let mut task =
            SessionTask::new(&state, call.response_handle.key, call.response_handle.to().cloned(), None, None);
        task.completed = Some(Box::new(completed));
        if !self.add(cancelled, task_key, task) {
            return Err(Failure::TaskIdTaken);
        }
        Ok((answer, Some(self.made(call, state, Vec::new()))))
    }

    /// A request about a task was answered.
    fn seen(
        &mut self,
        wire: &mut Wire,
        session: u64,
        task_request: &LegacyTaskRequest,
        response: Result<&Bytes, &Bytes>,
    ) -> TaskChange {
        let Some((task_key, task)) = self.of_sessions.of(session, &task_request.id) else {
            return TaskChange::default();
        };
        let (raw_id, id) = (task.raw_id.clone(), task_request.id.clone());
        match (task_request.operation, response) {
            (TaskOperation::Get, Err(_)) if is_gone(response) => {
                self.of_sessions.forget(task_key);
                return TaskChange { news: Some(Box::new(TaskEvent::Gone { id })), ended_key: None };
            }
            // The task has ended, or the server does not know it.
            (TaskOperation::Cancel, Err(_)) if is_gone(response) => {}
            (TaskOperation::Get | TaskOperation::Cancel, Err(_)) => return TaskChange::default(),
            (TaskOperation::Get | TaskOperation::Cancel, Ok(result)) => {
                let Some(state) = TaskState::read(result).filter(|state| state.id == id) else {
                    return TaskChange::default();
                };
                let ended_key = self.note(wire, task_key, &state);
                return TaskChange { news: Some(Box::new(TaskEvent::Status(state))), ended_key };
            }
            // The response arrives when the task has ended. It may be an error.
            (TaskOperation::Result, _) => {}
        }
        self.of_sessions.end(task_key);
        let state = TaskState { id, raw_id, ended: true, ttl: None, object: None };
        TaskChange { news: Some(Box::new(TaskEvent::Status(state))), ended_key: Some(task_key) }
    }

    /// The server reports the state of a task. Returns the task if it has ended; otherwise restarts the time limit of pending
    /// `tasks/result` requests.
    fn note(&mut self, wire: &mut Wire, task_key: u64, state: &TaskState) -> Option<u64> {
        if state.ended {
            self.of_sessions.end(task_key);
            return Some(task_key);
        }
        wire.extend_results(&state.id);
        None
    }

    /// A legacy server reports the state of a task in a notification. `Ok` has the task if it has ended. `Err` means that the task
    /// is unknown, and has the number of dropped notifications: 0 if this one is stored, because with `may_create` a pending call
    /// may create the task.
    pub(super) fn status(
        &mut self,
        wire: &mut Wire,
        line: &Bytes,
        state: TaskState,
        may_create: bool,
    ) -> Result<Option<u64>, u64> {
        let Some((task_key, task)) = self.of_sessions.find(&state.id) else {
            if !may_create {
                return Err(1);
            }
            let early = EarlyNotification { id: state.id, ended: state.ended, line: splice(line, &mut []) };
            return Err(self.of_sessions.add_early(early));
        };
        let to = task.to.clone();
        let ended = self.note(wire, task_key, &state);
        if let Some(to) = to {
            let status = LegacyTaskStatus { state, line: splice(line, &mut []) };
            to.send_notification(ToAgent::ServerNotification(ServerNotification::LegacyTaskStatus(Box::new(status))));
        }
        Ok(ended)
    }

    /// The tasks of legacy agents whose status a modern server has to report, each with its raw id; `None` if they have not changed
    /// since the last time.
    pub(super) fn take_subscribed(&mut self) -> Option<BTreeMap<Topic, Bytes>> {
        self.of_sessions
            .take_subscribed()
            .map(|tasks| tasks.map(|task| (Topic::Task(task.id().clone()), task.raw_id.clone())).collect())
    }

    /// Stops subscribing to this task, because the server refused.
    pub(super) fn subscription_refused(&mut self, id: &[u8]) {
        self.of_sessions.subscription_refused(id);
    }

    /// Whether this is the id of an open task of a legacy agent.
    pub(super) fn is_open_of_session(&self, id: &[u8]) -> bool {
        self.of_sessions.find(id).is_some_and(|(_, task)| task.open.is_some())
    }

    /// Drops notifications about unknown tasks. Returns how many.
    pub(super) fn drop_early(&mut self) -> u64 {
        self.of_sessions.drop_early()
    }

    /// Forwards progress to the agent whose open task has this token.
    pub(super) fn progress(&self, wire: &mut Wire, line: &Bytes, token: &Bytes) {
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
    pub(super) fn late_response(
        &mut self,
        wire: &mut Wire,
        cancelled: &mut CancelledCalls,
        id: &Bytes,
        outcome: Result<&Bytes, &Bytes>,
    ) -> Option<u64> {
        let (task_key, key) = self.of_sessions.take_cancelled(id)?;
        let state = late_task(wire.era(), outcome.ok()?).filter(|_| self.support.declared)?;
        let (has_ended, _) = self.of_sessions.take_early(&state.id);
        if state.ended || has_ended {
            return None;
        }
        let open = Some(OpenSessionTask::new(Self::expires_at(wire, state.ttl), None));
        self.add(cancelled, task_key, SessionTask::new(&state, key, None, None, open)).then_some(task_key)
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

    /// No agent knows the modern task that this call has created.
    pub(super) fn forget_modern(&mut self, key: CallKey) {
        self.modern.forget_created_by(key);
    }

    /// Cancels a task whose agent has disconnected or does not know it.
    pub(super) fn disown(&mut self, wire: &mut Wire, task_key: u64, deadline: Instant) {
        let Some(raw_id) = self.of_sessions.disown(task_key).filter(|_| self.support.cancels) else { return };
        let mut params = about(&raw_id);
        if wire.era() == Era::Modern {
            params["_meta"] = era::own_task_params()["_meta"].take();
        }
        wire.request("tasks/cancel", &params, PendingRequest::CancelTask { task_key, deadline });
    }

    /// The server has answered the cancellation. A server that refuses may still work on the task.
    pub(super) fn disowned(&mut self, task_key: u64, response: Result<&Bytes, &Bytes>) {
        if response.is_ok() || is_gone(response) {
            self.of_sessions.forget(task_key);
        }
    }

    /// Removes a task that no agent will request.
    pub(super) fn forget(&mut self, task_key: u64) {
        self.of_sessions.forget(task_key);
    }
}

/// Inputs that a modern server requires for tasks of legacy agents.
impl TaskTable {
    /// The server requires these raw `inputRequests` for a task. If the agent knows the task (`is_known`), the requests to it carry
    /// the task's id.
    pub(super) fn require(
        &mut self,
        task_key: u64,
        client_meta: Arc<LegacyClientMeta>,
        requests: &Bytes,
        is_known: bool,
    ) -> Option<InputRequirement> {
        let task = self.of_sessions.get_mut(task_key)?;
        task.client_meta = Some(client_meta);
        let raw_id = is_known.then(|| task.raw_id.clone());
        let required = inputs(requests).map_err(|why| format!("requested input for the task, but {why}"));
        Some(match required.and_then(|inputs| task.inputs.begin_requests(task_key, inputs)) {
            Ok(inputs) => {
                let named = |(id, input)| (id, named_for(input, raw_id.as_ref()));
                InputRequirement::Request(inputs.into_iter().map(named).collect())
            }
            Err(why) => InputRequirement::Refused(why),
        })
    }

    /// The agent has answered one input, or cannot. `Err` has the reason why requests for the result of the task fail.
    pub(super) fn set_input_response(
        &mut self,
        wire: &Wire,
        input: TaskInputId,
        result: Result<Bytes, String>,
    ) -> Result<(), String> {
        let too_large = "requested input for the task, and the answers are too large";
        let result = result.and_then(|result| {
            let is_too_large = self.of_sessions.answer_bytes() + result.len() > wire.max_message();
            if is_too_large { Err(too_large.to_owned()) } else { Ok(result) }
        });
        let Some(task) = self.of_sessions.get_mut(input.creating_call) else { return result.map(drop) };
        match result {
            Ok(result) => {
                task.inputs.answered(input, result);
                Ok(())
            }
            Err(why) => {
                task.inputs.not_answered(input);
                Err(why)
            }
        }
    }

    /// Sends the server the answers of the agent, once all have arrived.
    pub(super) fn send_inputs(&mut self, wire: &mut Wire, task_key: u64, deadline: Instant) {
        let Some(task) = self.of_sessions.get_mut(task_key) else { return };
        let (answers, Some(client_meta)) = (task.inputs.take_answers(), task.client_meta.clone()) else { return };
        if answers.is_empty() {
            return;
        }
        let params = task_params(&task.raw_id, &client_meta);
        let params = applied(&params, &[with_inputs(&params, &answers, None)]);
        let params: Option<&RawValue> = serde_json::from_slice(&params).ok();
        wire.request("tasks/update", &params, PendingRequest::UpdateTask { task_key, deadline });
    }

    /// The server has refused the answers. Returns the id of the task, as text.
    pub(super) fn inputs_refused(&mut self, task_key: u64) -> Option<Bytes> {
        let task = self.of_sessions.get_mut(task_key)?;
        task.inputs.refused();
        Some(task.id().clone())
    }

    /// The id of the task, as text.
    pub(super) fn id_of(&mut self, task_key: u64) -> Option<Bytes> {
        self.of_sessions.get_mut(task_key).map(|task| task.id().clone())
    }
}

/// Tasks that a legacy server has created for modern agents.
impl TaskTable {
    /// An agent of this profile sends a request about a task and declares these capabilities. `false` if the profile has no such
    /// task.
    pub(super) fn declare_for(&mut self, profile: &str, id: &[u8], capabilities: ClientCapabilities) -> bool {
        let Some(task) = self.of_profiles.of(profile, id) else { return false };
        task.capabilities = capabilities;
        true
    }

    /// The server has answered a call with this legacy result, which is a task. `agent` has requested it.
    pub(super) fn created_for_profile(
        &mut self,
        wire: &mut Wire,
        call: &PendingCall,
        id: &Bytes,
        result: &Bytes,
        agent: &bridge::ModernAgent,
    ) -> Result<(), Failure> {
        let created = parse_own_id(id).zip(TaskState::created(result));
        let (creating_call, mut state) = created.ok_or(Failure::MalformedResponse)?;
        let (has_ended, _) = self.of_sessions.take_early(&state.id);
        state.ended |= has_ended;
        let key = call.response_handle.key;
        let (profile, capabilities) = (Arc::clone(&agent.profile), agent.capabilities.clone().bare());
        let mut task = ProfileTask::new(
            &state,
            creating_call,
            key,
            profile,
            capabilities,
            call.response_handle.load_token().cloned(),
        );
        task.note(&state, Instant::now(), None).into_iter().for_each(|until| wire.expire_by(until));
        let is_taken = self.of_sessions.find(&state.id).is_some_and(|(_, task)| task.open.is_some());
        if is_taken || !self.of_profiles.add(state.id, task) { Err(Failure::TaskIdTaken) } else { Ok(()) }
    }

    /// Notes the state of a task of a profile. Returns the ids of requests of the server that nobody will answer; `None` if no profile
    /// has the task.
    pub(super) fn note_of_profile(
        &mut self,
        wire: &mut Wire,
        state: &TaskState,
        load: Option<LoadToken>,
    ) -> Option<Vec<Bytes>> {
        let task = self.of_profiles.find(&state.id)?;
        match task.note(state, Instant::now(), load) {
            Some(until) => {
                wire.expire_by(until);
                Some(Vec::new())
            }
            None => Some(self.of_profiles.end(&state.id)),
        }
    }

    /// The inputs that a task requires, as raw `inputRequests`.
    pub(super) fn inputs_of(&mut self, id: &[u8]) -> Option<Bytes> {
        self.of_profiles.find(id).and_then(|task| task.inputs())
    }

    /// Requests the result of a task, because the server sends its requests for inputs only while such a request is unanswered.
    pub(super) fn request_inputs(&mut self, wire: &mut Wire, id: &Bytes) {
        if let Some(task) = self.of_profiles.find(id).filter(|task| task.result != ResultRequest::Pending) {
            task.result = ResultRequest::Pending;
            wire.request("tasks/result", &about(&task.raw_id), PendingRequest::TaskResult { task_id: id.clone() });
        }
    }

    /// The request for the result was answered. Returns the ids of requests of the server that nobody will answer.
    pub(super) fn result_arrived(&mut self, id: &[u8], has_ended: bool) -> Vec<Bytes> {
        self.of_profiles.find(id).into_iter().for_each(|task| task.result = ResultRequest::Answered);
        if has_ended { self.of_profiles.end(id) } else { Vec::new() }
    }

    /// Allows the result to be requested again.
    pub(super) fn result_lost(&mut self, id: &[u8]) {
        self.of_profiles.find(id).into_iter().for_each(|task| task.result = ResultRequest::NotSent);
    }

    /// An agent of this profile subscribes to a task. Returns whether the profile has the task.
    pub(super) fn subscribe(&mut self, profile: &str, id: &Bytes) -> bool {
        let Some(task) = self.of_profiles.of(profile, id) else { return false };
        if task.reports == Reports::Off {
            task.reports = Reports::Sent;
        }
        true
    }

    /// No agent is subscribed to the task any more.
    pub(super) fn unsubscribe(&mut self, id: &[u8]) {
        self.of_profiles.find(id).into_iter().for_each(|task| task.reports = Reports::Off);
    }

    /// A task may have changed. Requests its state if agents are subscribed to it.
    pub(super) fn request_report(&mut self, wire: &mut Wire, id: &Bytes, deadline: Instant) {
        let Some(task) = self.of_profiles.find(id) else { return };
        task.reports = match task.reports {
            Reports::Off => Reports::Off,
            Reports::Pending | Reports::Stale => Reports::Stale,
            Reports::Sent => {
                let report = Box::new(LegacyServerTask::get(id.clone()));
                wire.request("tasks/get", &about(&task.raw_id), PendingRequest::ReportTask { report, deadline });
                Reports::Pending
            }
        };
    }

    /// The request for a report has ended. Returns whether the task has changed since it was sent.
    pub(super) fn report_ended(&mut self, id: &[u8]) -> bool {
        let Some(task) = self.of_profiles.find(id) else { return false };
        let is_stale = task.reports == Reports::Stale;
        if matches!(task.reports, Reports::Pending | Reports::Stale) {
            task.reports = Reports::Sent;
        }
        is_stale
    }

    /// The profile of a task that has subscribers.
    pub(super) fn subscribed_profile(&mut self, id: &[u8]) -> Option<Arc<str>> {
        let task = self.of_profiles.find(id).filter(|task| task.reports != Reports::Off)?;
        Some(Arc::clone(&task.profile))
    }

    /// Requests the result of a task that has subscribers, once. The response shows when the task ends, even if the server does not
    /// report its status.
    pub(super) fn await_end(&mut self, wire: &mut Wire, id: &Bytes) {
        let is_subscribed = |task: &&mut ProfileTask| task.is_open() && task.reports != Reports::Off;
        if self.of_profiles.find(id).filter(is_subscribed).is_some_and(|task| task.result == ResultRequest::NotSent) {
            self.request_inputs(wire, id);
        }
    }

    /// A task has ended. Returns the ids of requests of the server that nobody will answer.
    pub(super) fn end_of_profile(&mut self, id: &[u8]) -> Vec<Bytes> {
        self.of_profiles.end(id)
    }

    /// The server does not know a task. Returns the ids of requests of the server that nobody will answer.
    pub(super) fn forget_of_profile(&mut self, id: &[u8]) -> Vec<Bytes> {
        self.of_profiles.forget(id)
    }

    /// The agent answers requests of the server for a task. Returns their ids with the response lines for the server.
    pub(super) fn update(&mut self, id: &[u8], responses: &[(Bytes, Bytes)]) -> Vec<(Bytes, Bytes)> {
        self.of_profiles.find(id).map(|task| task.take_answered(responses)).unwrap_or_default()
    }

    /// The agent cancelled a call just when the server answered it with a task, so no agent knows the task. Returns the ids of
    /// requests of the server that nobody will answer.
    pub(super) fn drop_created_by(&mut self, wire: &mut Wire, key: CallKey, deadline: Instant) -> Vec<Bytes> {
        let Some(id) = self.of_profiles.created_by(key) else { return Vec::new() };
        let raw_id = self.of_profiles.find(&id).filter(|task| task.is_open()).map(|task| task.raw_id.clone());
        let unanswered = self.of_profiles.forget(&id);
        if let Some(raw_id) = raw_id.filter(|_| self.support.cancels) {
            wire.request("tasks/cancel", &about(&raw_id), PendingRequest::Ignored { deadline });
        }
        unanswered
    }

    /// The task of a profile that a request of the server with these params is about.
    pub(super) fn related(&mut self, params: Option<&Bytes>) -> Option<Bytes> {
        let id = era::task::related_id(params?)?;
        self.of_profiles.find(&id).map(|_| id)
    }

    /// Keeps a request of the server for a task until an agent reads the state of the task.
    pub(super) fn server_request(
        &mut self,
        task: &[u8],
        request: &ServerRequest<'_>,
        max_message: usize,
    ) -> Result<(), RequestRefusal> {
        if self.of_profiles.has_request(request.id) {
            return Err(RequestRefusal::IdInUse);
        }
        let (all, bytes) = (self.of_profiles.bytes(), request.params.map_or(0, Bytes::len));
        let Some(task) = self.of_profiles.find(task).filter(|task| task.is_open()) else {
            return Err(RequestRefusal::Ended);
        };
        if !task.capabilities.include(request.capability) {
            return Err(RequestRefusal::Undeclared);
        }
        let max_of_all = MAX_RETAINED_MEMORY * max_message;
        if task.bytes() + bytes > max_message || all + bytes > max_of_all || !task.has_capacity() {
            return Err(RequestRefusal::TooMany);
        }
        let params = request.params.map(|raw| applied(raw, &input_params_to_modern(raw).unwrap_or_default()));
        task.add_input(request.id, request.method, params.as_deref());
        Ok(())
    }

    /// The server has cancelled its request with this id.
    pub(super) fn withdraw(&mut self, id: &Bytes) {
        self.of_profiles.withdraw(id);
    }
}

/// Why a request of the server for a task is refused.
pub(super) enum RequestRefusal {
    IdInUse,
    Ended,
    Undeclared,
    TooMany,
}

impl RequestRefusal {
    /// The error for the server, whose request needs this capability of the agent.
    pub(super) fn to_error(&self, capability: ClientCapability, server: &Arc<str>) -> ErrorObject {
        match self {
            Self::IdInUse => ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered"),
            Self::Ended => unavailable("the task that this is for has ended", server),
            Self::Undeclared => undeclared(capability),
            Self::TooMany => unavailable("too many requests for agents are unanswered", server),
        }
    }
}

/// Tasks of modern agents at a modern server.
impl TaskTable {
    /// What a response reports about a modern task. `tag` identifies the instance for later requests about the task.
    fn modern_news(
        &mut self,
        wire: &mut Wire,
        call: &PendingCall,
        response: Result<&Bytes, &Bytes>,
        tag: u64,
    ) -> Option<Box<TaskEvent>> {
        let may_report = response.is_ok_and(|result| memchr::memmem::find(result, b"\"taskId\"").is_some());
        if wire.era() == Era::Modern && (may_report || response.is_err()) {
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

    /// A modern server reports the status of a task. Returns the id of the task as text, and whether the task has ended.
    pub(super) fn modern_status(&mut self, params: Option<&Bytes>) -> Option<(Bytes, bool)> {
        let [id] = members(params?, ["taskId"]).ok()?;
        let id = text(&id?)?;
        let ended = has_ended(params?);
        if ended {
            self.modern.end(&id);
        }
        Some((id, ended))
    }
}

/// Adds the task to an input, if the agent knows the task.
fn named_for(mut input: Input, raw_id: Option<&Bytes>) -> Input {
    if let Some(raw_id) = raw_id {
        let params = input.params.take().unwrap_or(Bytes::from_static(b"{}"));
        // Malformed params are refused when the request is read.
        let changes = input_params_to_legacy(&params, raw_id).unwrap_or_default();
        input.params = Some(applied(&params, &changes).into());
    }
    input
}

/// The task that the response to a cancelled call says was created.
fn late_task(era: Era, result: &Bytes) -> Option<TaskState> {
    if era == Era::Legacy {
        return TaskState::created(result);
    }
    reported_task_id(result, TaskReport::Created)?;
    let changes = creation_to_legacy(result).ok()?;
    TaskState::created(&applied(result, &changes).into())
}

/// Whether a modern task has ended in this state.
pub(super) fn has_ended(state: &Bytes) -> bool {
    matches!(Status::read(state), Some(Status::Completed(_) | Status::Failed(_) | Status::Cancelled))
}

/// The params of a legacy request about the task with this raw id.
pub(super) fn about(raw_id: &Bytes) -> serde_json::Value {
    let id: Option<&RawValue> = serde_json::from_slice(raw_id).ok();
    json!({ "taskId": id })
}

/// Answers a request about a task that mcpd made up for a result that it caches.
pub(super) fn answer_completed(task: &CompletedTask, call: Call, act: TaskOperation) {
    let id = call.response_handle.id().clone();
    match act {
        TaskOperation::Get => {
            let news = TaskState::read(&task.task_object).map(|state| Box::new(TaskEvent::Status(state)));
            call.response_handle.answer_with(reply::result(&id, &task.task_object), CallOutcome::Ok, news);
        }
        TaskOperation::Result => {
            call.response_handle.answer(reply::result(&id, &task.result), CallOutcome::of(Ok(&task.result)))
        }
        TaskOperation::Cancel => {
            call.refuse_with(&ErrorObject::new(INVALID_PARAMS, "the task was not cancelled: it has ended"));
        }
    }
}

/// Whether the server does not know the task, or it has ended.
pub(super) fn is_gone(response: Result<&Bytes, &Bytes>) -> bool {
    CallOutcome::of(response).code() == Some(INVALID_PARAMS.into())
}
