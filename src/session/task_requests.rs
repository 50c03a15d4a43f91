//! What the agent asks of its tasks, and what it is told of them.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`. A task is the agent's for as long as the tool that made it can be called
//! on this socket: what is denied by then is unknown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;

use super::Session;
use super::asked::{Asked, Lead};
use super::routing::{Destination, TOO_MANY, overloaded};
use super::task_pages::{Item, Page, Told};
use super::tasks::{Life, Place, Task, cursor};
use crate::calls::Outcome;
use crate::config::CallLimit;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS};
use crate::jsonrpc::{Message, parse};
use crate::kind::Kind;
use crate::manager::View;
use crate::server::ServerHandle;
use crate::server::messages::call::{Call, CallError, CallKey, Failure, Reply, RequestKind, Target};
use crate::server::messages::server_notification::TaskStatus;
use crate::server::messages::tasks::{MadeTask, TaskAct, TaskAsk, TaskNews, unknown_task};

/// What an agent is told of its tasks with, if its version has that.
const STATUS: &str = "notifications/tasks/status";
/// Tasks on one page of a list.
const PAGE: usize = 32;
/// How long a server may take to tell how a task is that is to be listed; then it is listed as it was last known.
const PATIENCE: Duration = Duration::from_secs(2);

impl Session {
    /// Leads a request about a task to the very instance that has made it.
    pub(super) fn ask_about_task(&mut self, asked: Asked, act: TaskAct) {
        let view = self.setup.view.borrow().clone();
        let place = self.tasks.find(&asked.key).filter(|task| is_callable(task, &view)).map(|task| task.place.clone());
        let route = place.as_ref().and_then(|place| view.catalog.route(Kind::Tools, &place.tool));
        let member = route.and_then(|route| view.servers.get(route.server));
        let (Some(place), Some(route), Some(member)) = (place, route, member) else {
            return self.end_unrouted(&asked, &unknown_task(&asked.key), Outcome::UnknownTool);
        };
        let account = self.note(&asked, member, Lead::Server(route.server));
        let limit = match act {
            TaskAct::Result => route.limit,
            TaskAct::Get | TaskAct::Cancel => member.config.settings.request_limit(),
        };
        let matter = asked.matter();
        let target = Target::Named { kind: Kind::Tools, exposed: place.tool.clone(), name: Arc::clone(&route.name) };
        let access = Some(self.access(&asked, target, (member, &view)));
        let destination = Destination { server: &place.instance, rename: None, access, limit };
        self.send(asked, account, matter, destination);
    }

    /// Answers with a page of the agent's tasks, each as its server has it now.
    pub(super) fn list_tasks(&mut self, id: &Bytes, params: Option<&Bytes>) {
        let after = match params.map(|params| members(params, ["cursor"])) {
            Some(Err(_)) => return self.refuse(Some(id), INVALID_PARAMS, "`params` is not an object"),
            Some(Ok([Some(cursor)])) if cursor[..] != b"null"[..] => {
                text(&cursor).and_then(|cursor| self.tasks.number_of(&cursor))
            }
            _ => Some(0),
        };
        let Some(after) = after else { return self.refuse(Some(id), INVALID_PARAMS, "unknown cursor") };
        if self.is_full() {
            return self.respond(Some(id), [reply::error(Some(id), &overloaded(TOO_MANY))]);
        }
        self.pages.ask(id, after);
        self.gather_pages();
    }

    /// Asks for what is on the next page, unless one is being gathered.
    fn gather_pages(&mut self) {
        while let Some((id, after)) = self.pages.next() {
            let (asked, next) = self.page_after(after);
            let mut items = Vec::new();
            let mut calls = Vec::new();
            for (number, raw_id, instance) in asked {
                let (key, call) = self.glance(&raw_id, &instance);
                items.push(Item { number, key, told: if call.is_some() { Told::Awaited } else { Told::Nothing } });
                calls.extend(call.map(|call| (instance, call)));
            }
            self.pages.gather(Page { id, items, next });
            for (instance, call) in calls {
                instance.call_soon(call);
            }
            if let Some(page) = self.pages.take_complete() {
                self.tell_page(page);
            }
        }
    }

    /// The tasks on the page that begins after this one, each with where it was made, and where the next one begins.
    fn page_after(&self, after: u64) -> (Vec<(u64, Bytes, ServerHandle)>, Option<u64>) {
        let view = self.setup.view.borrow();
        let mut found = self.tasks.made_after(after).filter(|task| is_callable(task, &view));
        let parts = |task: &Task<ServerHandle>| (task.number, task.raw_id.clone(), task.place.instance.clone());
        let page: Vec<_> = found.by_ref().take(PAGE).map(parts).collect();
        let last = page.last().map(|(number, ..)| *number);
        (page, last.filter(|_| found.next().is_some()))
    }

    /// A request of mcpd's own for how a task is.
    fn glance(&mut self, raw_id: &Bytes, instance: &ServerHandle) -> (CallKey, Option<Box<Call>>) {
        self.serial += 1;
        let key = CallKey { session: self.setup.number, serial: self.serial };
        let task: Option<&serde_json::value::RawValue> = serde_json::from_slice(raw_id).ok();
        let line = reply::request(self.serial, "tasks/get", &json!({ "taskId": task }));
        let line = line.slice(..line.len() - 1);
        let (Ok(Message::Request { id, .. }), Some(task_id)) = (parse(&line), text(raw_id)) else { return (key, None) };
        let reply = Reply::new(key, &id, instance.name(), &self.reply);
        let matter = RequestKind::Task(Box::new(TaskAsk { id: task_id, act: TaskAct::Get }));
        let limit = CallLimit { silence: PATIENCE, total: PATIENCE };
        let origin = self.origin(None);
        // Asked for a list of tasks whose tools are callable, and answered to the agent only as far as they still are.
        let call = Call { line, id, rename: None, progress_token: None, matter, limit, origin, access: None, reply };
        (key, Some(Box::new(call)))
    }

    /// Takes in an answer that the agent does not wait for: perhaps one for a task that is to be listed.
    pub(super) fn glanced(&mut self, key: CallKey, outcome: Outcome, news: Option<Box<TaskNews>>) {
        let mut told = Told::Nothing;
        match news.map(|news| *news) {
            Some(TaskNews::Seen(state)) => {
                told = state.object.clone().map_or(Told::Nothing, Told::Fresh);
                self.tasks.note(state);
            }
            Some(TaskNews::Gone { id }) => {
                told = Told::Gone;
                self.tasks.forget(&id);
            }
            // Of a call that was cancelled while it was answered: its server does the same.
            Some(TaskNews::Made(_) | TaskNews::Stated { .. }) => {}
            // The task has gone with its instance.
            None if outcome.code() == Some(INVALID_PARAMS.into()) => told = Told::Gone,
            None => {}
        }
        if let Some(page) = self.pages.take(key, told) {
            self.tell_page(page);
            self.gather_pages();
        }
    }

    fn tell_page(&mut self, Page { id, items, next }: Page) {
        let mut list = BytesMut::from(&b"{\"tasks\":["[..]);
        let tasks = items.into_iter().filter_map(|Item { number, told, .. }| match told {
            Told::Fresh(object) => Some(object),
            Told::Awaited | Told::Nothing => self.tasks.numbered(number)?.state.clone(),
            Told::Gone => None,
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
        self.respond(Some(&id), [reply::result(&id, &list)]);
    }

    /// The agent does not wait for a page any more.
    pub(super) fn cancel_page(&mut self, id: &Bytes) {
        for Item { number, key, .. } in self.pages.cancel(id) {
            if let Some(task) = self.tasks.numbered(number) {
                task.place.instance.cancel_soon(key, None);
            }
        }
        self.gather_pages();
    }

    /// Takes in what the answer to the call `key` at `server` says of a task; of `tool`, if it was to make one.
    ///
    /// # Errors
    /// What the agent gets in the place of that answer: two tasks with one id could not be told apart.
    pub(super) fn take_news(
        &mut self,
        (key, tool): (CallKey, Option<Bytes>),
        news: TaskNews,
        server: &ServerHandle,
    ) -> Result<(), ErrorObject> {
        match (news, tool) {
            (TaskNews::Seen(state), _) => self.tasks.note(state),
            (TaskNews::Gone { id }, _) => self.tasks.forget(&id),
            (TaskNews::Made(MadeTask { state, instance, early, life }), Some(tool)) => {
                let (id, instance) = (state.id.clone(), instance.unwrap_or_else(|| server.clone()));
                let place = Place { server: server.clone(), instance: instance.clone(), tool };
                let until = state.ttl.and_then(|ttl| Instant::now().checked_add(ttl));
                let life = Life { instance: life, until };
                if !self.tasks.add(key, state, (place, life), |other| !other.is_same(&instance)) {
                    instance.drop_task(self.setup.number, id);
                    let server = server.name().clone();
                    return Err(CallError { server, failure: Failure::TaskIdTaken, sent: true }.to_object());
                }
                if self.has(STATUS) {
                    early.into_iter().for_each(|line| self.tell_or_keep(None, line));
                }
            }
            (TaskNews::Made(_), None) | (TaskNews::Stated { .. }, _) => {}
        }
        Ok(())
    }

    /// Tells the agent that a task of its own has another status.
    pub(super) fn tell_status(&mut self, TaskStatus { state, line }: TaskStatus) {
        let may_know = self.tasks.find(&state.id).is_some_and(|task| is_callable(task, &self.setup.view.borrow()));
        self.tasks.note(state);
        if may_know && self.has(STATUS) {
            self.tell_or_keep(None, line);
        }
    }

    /// Whether the call `key` has made a task that is at work still, and that the agent may know of.
    pub(super) fn has_open_task(&self, key: CallKey) -> bool {
        self.tasks.open_of(key).is_some_and(|task| is_callable(task, &self.setup.view.borrow()))
    }
}

/// Whether the tool that has made it can be called still.
fn is_callable(task: &Task<ServerHandle>, view: &View) -> bool {
    let route = view.catalog.route(Kind::Tools, &task.place.tool);
    let member = route.and_then(|route| view.servers.get(route.server));
    member.is_some_and(|member| member.handle.is_same(&task.place.server))
}
