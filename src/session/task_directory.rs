//! The tasks of the agent: the server of each task, and `tasks/list` of legacy agents.
//!
//! The tasks of a legacy agent belong to its session. The tasks of a modern agent belong to its profile and are not stored here,
//! because their ids name the server ([`super::task_token`]). The agent may use a task as long as it may call the tool that has
//! created the task.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`; extension `io.modelcontextprotocol/tasks`, 2026-07-28.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;

use super::agent::AgentInfo;
use super::output::Output;
use super::task_token::{TaskTokenContents, TaskTokens};
use super::tasks::{
    Lifetime, PageRequest, PollResult, PolledTask, Task, TaskPage, TaskPages, TaskSource, Tasks, cursor,
};
use super::transport::Transport;
use super::unanswered::{OnResponse, UnansweredCall, UnansweredRequests};
use crate::account::{Charge, MAX_TASKS};
use crate::calls::CallOutcome;
use crate::catalog::Route;
use crate::config::CallLimit;
use crate::durations::Operation;
use crate::era::Era;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::message::RequestLine;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS};
use crate::jsonrpc::{Message, parse};
use crate::list_kind::ListKind;
use crate::manager::{Member, View};
use crate::server::ServerHandle;
use crate::server::messages::call::{AccessTarget, Call, CallError, CallKey, Failure, RequestKind, ResponseHandle};
use crate::server::messages::tasks::{CreatedTask, LegacyTaskRequest, TaskEvent, TaskOperation, TaskState};

/// Tasks on one page of a list.
const PAGE: usize = 32;
/// Time limit for polling a task for a list. After it the list has the last known state of the task.
const POLL_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct TaskDirectory {
    tasks: Tasks<ServerHandle>,
    pages: TaskPages,
    tokens: TaskTokens,
}

/// The tool that has created a task which the agent may use.
pub(super) struct TaskTool<'a> {
    pub(super) member: &'a Member,
    pub(super) route: &'a Route,
    /// The exposed name of the tool.
    pub(super) tool: Bytes,
}

impl TaskTool<'_> {
    /// The access that policy has to permit: a task may be used as long as its tool may be called.
    pub(super) fn access(&self) -> AccessTarget {
        AccessTarget::Named { kind: ListKind::Tools, exposed: self.tool.clone(), name: Arc::clone(&self.route.name) }
    }
}

/// The parts of the session that are needed to gather a page.
pub(super) struct PageContext<'a, T> {
    pub(super) agent: &'a AgentInfo,
    pub(super) view: Arc<View>,
    pub(super) unanswered: &'a mut UnansweredRequests,
    pub(super) output: &'a mut Output<T>,
}

impl TaskDirectory {
    pub(super) fn new(tokens: TaskTokens) -> Self {
        Self { tasks: Tasks::default(), pages: TaskPages::default(), tokens }
    }

    pub(super) fn tokens(&self) -> &TaskTokens {
        &self.tokens
    }

    /// The tool that has created a legacy agent's task, and the instance that runs the task.
    pub(super) fn tool_of_task<'a>(&self, id: &[u8], view: &'a View) -> Option<(TaskTool<'a>, ServerHandle)> {
        let task = self.tasks.find(id)?;
        Some((tool_of(task, view)?, task.source.instance.clone()))
    }

    /// The tool that has created the task with this token.
    pub(super) fn tool_of_token<'a, 'b>(
        &self,
        token: &'b [u8],
        view: &'a View,
    ) -> Option<(TaskTool<'a>, TaskTokenContents<'b>)> {
        let task = self.tokens.verify(token)?;
        Some((exposed_tool(&task, view)?, task))
    }

    /// Whether the agent may request one more task, besides those that `calls` request.
    pub(super) fn has_room(&mut self, unanswered: &UnansweredRequests) -> bool {
        self.tasks.count_running(Instant::now()) + unanswered.new_tasks() < MAX_TASKS
    }

    /// Whether the call `key` has created a task that is still running and that the agent may use.
    pub(super) fn has_running_task(&self, key: CallKey, view: &View) -> bool {
        self.tasks.running_of(key).is_some_and(|task| is_callable(task, view))
    }

    /// Updates the state of a task. Returns whether the agent may use the task.
    pub(super) fn update(&mut self, state: TaskState, view: &View) -> bool {
        let is_known = self.tasks.find(&state.id).is_some_and(|task| is_callable(task, view));
        self.tasks.update(state);
        is_known
    }

    /// Updates tasks with the response to `call`. Returns status notifications that arrived before the response.
    ///
    /// # Errors
    /// The error for the agent if another task has the same id.
    pub(super) fn apply_response(
        &mut self,
        call: &UnansweredCall,
        report: TaskEvent,
    ) -> Result<Vec<Bytes>, ErrorObject> {
        let UnansweredCall { key, server, on_response, .. } = call;
        match (report, on_response) {
            (TaskEvent::Status(state), _) => self.tasks.update(state),
            (TaskEvent::Gone { id }, _) => self.tasks.forget(&id),
            (
                TaskEvent::Created(CreatedTask { state, instance, early, instance_alive }),
                OnResponse::NewTask { tool },
            ) => {
                let (id, instance) = (state.id.clone(), instance.unwrap_or_else(|| server.clone()));
                let source = TaskSource { server: server.clone(), instance: instance.clone(), tool: tool.clone() };
                let until = state.ttl.and_then(|ttl| Instant::now().checked_add(ttl));
                let lifetime = Lifetime { instance_alive, until };
                if self.tasks.add(*key, state, source, lifetime, |other| !other.is_same(&instance)) {
                    return Ok(early);
                }
                instance.drop_task(key.session, id);
                let server = server.name().clone();
                return Err(CallError { server, failure: Failure::TaskIdTaken, may_have_arrived: true }.to_object());
            }
            (TaskEvent::Created(_), _) | (TaskEvent::Modern { .. }, _) => {}
        }
        Ok(Vec::new())
    }

    /// Number of unanswered requests for pages.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Whether the request with this raw id is for a page.
    pub(super) fn has_page(&self, id: &Bytes) -> bool {
        self.pages.contains(id)
    }

    /// The number of the task after which the requested page of `tasks/list` begins.
    ///
    /// # Errors
    /// If the params are malformed.
    pub(super) fn read_cursor(&self, params: Option<&Bytes>) -> Result<u64, &'static str> {
        match params.map(|params| members(params, ["cursor"])) {
            Some(Err(_)) => Err("`params` is not an object"),
            Some(Ok([Some(cursor)])) if cursor[..] != b"null"[..] => {
                text(&cursor).and_then(|cursor| self.tasks.number_of(&cursor)).ok_or("unknown cursor")
            }
            _ => Ok(0),
        }
    }

    /// Answers with the page of tasks after number `after`, each in its current state.
    pub(super) fn list(&mut self, id: &Bytes, after: u64, charge: Charge, context: PageContext<'_, impl Transport>) {
        self.pages.push(id, after, charge);
        self.gather(context);
    }

    /// Polls the tasks on the next page, unless a page is being gathered.
    fn gather(&mut self, PageContext { agent, view, unanswered, output }: PageContext<'_, impl Transport>) {
        while let Some(PageRequest { id, after, charge }) = self.pages.next() {
            let mut found = self.tasks.made_after(after).filter(|task| is_callable(task, &view));
            let tasks: Vec<_> = found.by_ref().take(PAGE).collect();
            let last = tasks.last().map(|task| task.number);
            let next = last.filter(|_| found.next().is_some());
            let mut items = Vec::new();
            let mut polls = Vec::new();
            for task in tasks {
                let key = unanswered.next_key();
                let poll = poll(task, key, agent);
                let polled = if poll.is_some() { PollResult::Awaited } else { PollResult::Unchanged };
                items.push(PolledTask { number: task.number, key, polled });
                polls.extend(poll.map(|poll| (task.source.instance.clone(), poll)));
            }
            self.pages.gather(TaskPage { id, items, next, charge });
            for (instance, poll) in polls {
                instance.call_soon(poll);
            }
            if let Some(page) = self.pages.take_complete() {
                self.send_page(page, &view, output);
            }
        }
    }

    /// Reads the response to a call without a waiting agent: a poll for a page of `tasks/list`, or a cancelled call.
    pub(super) fn polled(
        &mut self,
        key: CallKey,
        outcome: CallOutcome,
        report: Option<TaskEvent>,
        context: PageContext<'_, impl Transport>,
    ) {
        let polled = match report {
            Some(TaskEvent::Status(state)) => {
                let polled = state.object.clone().map_or(PollResult::Unchanged, PollResult::Fresh);
                self.tasks.update(state);
                polled
            }
            Some(TaskEvent::Gone { id }) => {
                self.tasks.forget(&id);
                PollResult::Gone
            }
            // The call was cancelled while it was answered. Its server handles the task.
            Some(TaskEvent::Created(_) | TaskEvent::Modern { .. }) => PollResult::Unchanged,
            // The error of mcpd for an unknown task: the instance has ended, and the task with it.
            None if outcome.code() == Some(INVALID_PARAMS.into()) => PollResult::Gone,
            None => PollResult::Unchanged,
        };
        if let Some(page) = self.pages.record_poll(key, polled) {
            self.send_page(page, &context.view, context.output);
            self.gather(context);
        }
    }

    fn send_page(&self, TaskPage { id, items, next, .. }: TaskPage, view: &View, output: &mut Output<impl Transport>) {
        let mut list = BytesMut::from(&b"{\"tasks\":["[..]);
        let tasks = items.into_iter().filter_map(|PolledTask { number, polled, .. }| {
            // Checked again, because the tool may have been denied while the page was gathered.
            let task = self.tasks.numbered(number).filter(|task| is_callable(task, view))?;
            match polled {
                PollResult::Fresh(object) => Some(object),
                PollResult::Awaited | PollResult::Unchanged => task.state.clone(),
                PollResult::Gone => None,
            }
        });
        for (index, object) in tasks.enumerate() {
            if index > 0 {
                list.put_u8(b',');
            }
            list.put_slice(&object);
        }
        list.put_u8(b']');
        if let Some(next) = next {
            list.put_slice(format!(",\"nextCursor\":\"{}\"", cursor(next)).as_bytes());
        }
        list.put_u8(b'}');
        output.respond(&id, &list);
    }

    /// The agent cancels a request for a page, if it is one.
    pub(super) fn cancel_page(&mut self, id: &Bytes, context: PageContext<'_, impl Transport>) {
        for PolledTask { number, key, .. } in self.pages.cancel(id) {
            if let Some(task) = self.tasks.numbered(number) {
                task.source.instance.cancel_soon(key, None);
            }
        }
        self.gather(context);
    }

    /// Refuses every request for a page.
    pub(super) fn refuse_pages(&mut self, error: &ErrorObject, output: &mut Output<impl Transport>) {
        for id in self.pages.clear() {
            output.respond_error(Some(&id), error);
        }
    }
}

/// The tool that has created this task, if it is exposed.
pub(super) fn exposed_tool<'a>(task: &TaskTokenContents<'_>, view: &'a View) -> Option<TaskTool<'a>> {
    let index = view.servers.iter().position(|member| *member.config.name == *task.server)?;
    tool_at(index, task.tool, view).filter(|tool| tool.route.is_for(Era::Modern))
}

/// The tool of the server at this index with this own name, if it is exposed.
fn tool_at<'a>(server: usize, own: &str, view: &'a View) -> Option<TaskTool<'a>> {
    let is_it = |route: &Route| route.server == server && *route.name == *own;
    let (exposed, route) = view.catalog.routes(ListKind::Tools).find(|(_, route)| is_it(route))?;
    Some(TaskTool { member: view.servers.get(server)?, route, tool: Bytes::copy_from_slice(exposed.as_bytes()) })
}

/// The tool that has created a legacy task, if it is exposed. It may have got another name since.
fn tool_of<'a>(task: &Task<ServerHandle>, view: &'a View) -> Option<TaskTool<'a>> {
    let server = view.servers.iter().position(|member| member.handle.is_same(&task.source.server))?;
    tool_at(server, &task.source.tool, view)
}

/// Whether the tool that has created the task can still be called.
fn is_callable(task: &Task<ServerHandle>, view: &View) -> bool {
    tool_of(task, view).is_some()
}

/// A `tasks/get` that mcpd itself sends.
fn poll(task: &Task<ServerHandle>, key: CallKey, agent: &AgentInfo) -> Option<Box<Call>> {
    let raw_id: Option<&serde_json::value::RawValue> = serde_json::from_slice(&task.raw_id).ok();
    let line = reply::request(key.serial, "tasks/get", &json!({ "taskId": raw_id }));
    let line = line.slice(..line.len() - 1);
    let (Ok(Message::Request { id, .. }), Some(task_id)) = (parse(&line), text(&task.raw_id)) else { return None };
    let response_handle = ResponseHandle::new(key, &id, task.source.instance.name(), agent.to_session());
    let kind = RequestKind::LegacyTask(Box::new(LegacyTaskRequest { id: task_id, operation: TaskOperation::Get }));
    let limit = CallLimit { progress_timeout: POLL_TIMEOUT, total: POLL_TIMEOUT };
    let origin = agent.origin(None);
    let request = RequestLine { line, id, rename: None, progress_token: None };
    // Not checked at the server: `gather` polls only tasks whose tool is callable, and `send_page` checks that again.
    let operation = Operation::new("tasks/get", None);
    let call = Call { request, operation, kind, result_kind: None, limit, origin, access: None, response_handle };
    Some(Box::new(call))
}
