//! The subscriptions of the agent: `resources/subscribe` and `subscriptions/listen`.
//!
//! A `subscriptions/listen` request stays open and includes lists, resources and tasks. Its notifications carry its id. The agent refers
//! to a task by the token, and the server refers to it by the server's id. The acknowledgement omits unknown tasks and resources.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`; extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status
//! Notifications".

use std::sync::Arc;

use bytes::Bytes;

use super::notification_queue::OutgoingNotification;
use super::output::Output;
use super::resource_subscriptions::{MAX_BYTES, MAX_SUBSCRIPTIONS, ResourceSubscriptions};
use super::task_directory::{TaskTool, exposed_tool};
use super::task_token::TaskTokens;
use super::unanswered::UnansweredRequests;
use super::view::{ListVersions, SessionView};
use crate::era::notification::for_subscription;
use crate::era::subscription::{Filter, end};
use crate::era::{Era, meta};
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply;
use crate::jsonrpc::splice::{Change, splice};
use crate::jsonrpc::{Message, parse};
use crate::list_kind::ListKind;
use crate::manager::View;
use crate::server::messages::call::CallKey;
use crate::server::messages::server_notification::ModernTaskStatus;
use crate::server::{ResourceSubscriptionChange, ServerHandle, SubscriptionChange, TaskSubscriptionChange, is_part};

#[derive(Default)]
pub(super) struct Subscriptions {
    resources: ResourceSubscriptions,
    /// Open `subscriptions/listen` requests, mostly one. They count as unanswered requests.
    requests: Vec<ListenRequest>,
}

struct ListenRequest {
    /// Raw.
    id: Bytes,
    /// Delayed notifications refer to it.
    key: CallKey,
    /// The server whose face the request uses, if it names one.
    face: Option<Arc<str>>,
    /// The acknowledged filter.
    filter: Filter,
    tasks: Vec<ListenedTask>,
    lists: ListVersions,
}

/// A task that the agent has subscribed to.
struct ListenedTask {
    server: ServerHandle,
    /// The exposed name of the tool whose call has created the task.
    tool: Bytes,
    /// The tag of the instance that runs the task.
    instance_tag: u64,
    /// The server's id, as text.
    id: Bytes,
    /// The agent's token, raw.
    raw_token: Bytes,
}

/// The agent has too many subscriptions.
pub(super) struct TooMany;

impl ListenedTask {
    /// The task with this token, if its tool can still be called.
    fn find(tokens: &TaskTokens, token: &Bytes, raw: &Bytes, view: &View) -> Option<Self> {
        let task = tokens.verify(token)?;
        let TaskTool { member, tool, .. } = exposed_tool(&task, view)?;
        let (server, id) = (member.handle.clone(), Bytes::copy_from_slice(task.id.as_bytes()));
        Some(Self { server, tool, instance_tag: task.instance_tag, id, raw_token: raw.clone() })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.id == other.id && self.instance_tag == other.instance_tag && self.server.is_same(&other.server)
    }

    fn change(&self, begins: bool) -> (ServerHandle, SubscriptionChange) {
        let change = TaskSubscriptionChange { id: self.id.clone(), instance_tag: self.instance_tag, begins };
        (self.server.clone(), SubscriptionChange::Task(change))
    }

    /// Whether `update` is about the task, and its tool can still be called.
    fn is_updated_by(&self, update: &ModernTaskStatus, view: &View) -> bool {
        let is_it = self.id == update.id && self.instance_tag == update.instance_tag;
        let route = view.catalog.route(ListKind::Tools, &self.tool);
        is_it && *self.server.name() == update.server && route.is_some_and(|route| route.is_for(Era::Modern))
    }
}

impl Subscriptions {
    /// Subscribed resources.
    pub(super) fn resources(&self) -> &ResourceSubscriptions {
        &self.resources
    }

    pub(super) fn resources_mut(&mut self) -> &mut ResourceSubscriptions {
        &mut self.resources
    }

    /// How many `subscriptions/listen` requests are open.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn contains(&self, id: &Bytes) -> bool {
        self.requests.iter().any(|listen| listen.id == id)
    }

    pub(super) fn contains_call(&self, key: CallKey) -> bool {
        self.requests.iter().any(|listen| listen.key == key)
    }

    /// Acknowledges the part of a `subscriptions/listen` that the agent may see. Returns the subscriptions to begin at servers.
    pub(super) fn listen(
        &mut self,
        (id, face): (&Bytes, Option<Arc<str>>),
        mut filter: Filter,
        tokens: &TaskTokens,
        view: &View,
        unanswered: &mut UnansweredRequests,
        output: &mut Output,
    ) -> Result<Vec<(ServerHandle, SubscriptionChange)>, TooMany> {
        let servers = keep_readable(&mut filter, view);
        let known = std::mem::take(&mut filter.tasks).into_iter();
        let known = known.filter_map(|task| Some((ListenedTask::find(tokens, &task.0, &task.1, view)?, task)));
        let tasks: Vec<ListenedTask>;
        (tasks, filter.tasks) = known.unzip();
        if !self.resources.has_room_for_all(&filter.uris, unanswered) || !self.has_room_for_tasks(&filter.tasks) {
            return Err(TooMany);
        }
        output.send([filter.acknowledgement(id)]);
        let mut changes = self.task_changes(&tasks, true);
        for ((uri, raw), server) in filter.uris.iter().zip(servers) {
            if self.resources.listen(uri, &server) {
                let subscription = ResourceSubscriptionChange { uri: uri.clone(), raw: raw.clone(), begins: true };
                changes.push((server, SubscriptionChange::Resource(subscription)));
            }
        }
        let lists = ListVersions::of(&view.catalog, |kind| includes(&filter, kind));
        let key = unanswered.next_key();
        self.requests.push(ListenRequest { id: id.clone(), key, face, filter, tasks, lists });
        Ok(changes)
    }

    fn has_room_for_tasks(&self, tasks: &[(Bytes, Bytes)]) -> bool {
        let subscribed = self.requests.iter().flat_map(|listen| &listen.tasks).map(|task| &task.raw_token);
        let (count, bytes) = subscribed
            .chain(tasks.iter().map(|(_, raw)| raw))
            .fold((0, 0), |(count, bytes), raw| (count + 1, bytes + raw.len()));
        tasks.is_empty() || (count <= MAX_SUBSCRIPTIONS && bytes <= MAX_BYTES)
    }

    /// The subscriptions to tasks that no other `subscriptions/listen` includes.
    fn task_changes(&self, tasks: &[ListenedTask], begins: bool) -> Vec<(ServerHandle, SubscriptionChange)> {
        let is_alone = |one: &&ListenedTask| {
            !self.requests.iter().flat_map(|listen| &listen.tasks).any(|other| other.is_same(one))
        };
        tasks.iter().filter(is_alone).map(|one| one.change(begins)).collect()
    }

    /// The agent cancels the `subscriptions/listen` with this id. Returns the subscriptions to end at servers.
    pub(super) fn unlisten(
        &mut self,
        id: &Bytes,
        unanswered: &UnansweredRequests,
    ) -> Vec<(ServerHandle, SubscriptionChange)> {
        let Some(index) = self.requests.iter().position(|listen| listen.id == id) else { return Vec::new() };
        let ListenRequest { filter, tasks, .. } = self.requests.swap_remove(index);
        let mut ended = self.task_changes(&tasks, false);
        let resources = filter.uris.iter().filter_map(|(uri, raw)| self.resources.unlisten(uri, raw, unanswered));
        ended.extend(resources.map(|(server, subscription)| (server, SubscriptionChange::Resource(subscription))));
        ended
    }

    /// Ends every `subscriptions/listen` with its response.
    pub(super) fn end_listens(&mut self, output: &mut Output) {
        for ListenRequest { id, .. } in std::mem::take(&mut self.requests) {
            output.send([reply::result(&id, end(&id).as_bytes())]);
        }
    }

    /// The notifications for a resource that has changed. `line` ends with a newline.
    pub(super) fn resource_updated(&self, uri: &[u8], line: &Bytes) -> Vec<OutgoingNotification> {
        if self.requests.is_empty() {
            return Vec::new();
        }
        let line = line.strip_suffix(b"\n").map_or_else(|| line.clone(), |whole| line.slice_ref(whole));
        let Ok(Message::Notification { params, .. }) = parse(&line) else { return Vec::new() };
        let includes =
            |listen: &&ListenRequest| listen.filter.uris.iter().any(|(subscribed, _)| is_part(uri, subscribed));
        let notification = |listen: &ListenRequest| {
            let change = for_subscription(&line, params.as_ref(), &listen.id)?;
            Some(OutgoingNotification { key: Some(listen.key), line: splice(&line, &mut [change.edit()]) })
        };
        self.requests.iter().filter(includes).filter_map(notification).collect()
    }

    /// The notifications for a task whose status has changed.
    pub(super) fn task_updated(&self, update: &ModernTaskStatus, view: &SessionView) -> Vec<OutgoingNotification> {
        let line = &update.line;
        let Ok(Message::Notification { params: Some(params), .. }) = parse(line) else { return Vec::new() };
        let Ok([Some(id)]) = members(&params, ["taskId"]) else { return Vec::new() };
        let notification = |listen: &ListenRequest, one: &ListenedTask| {
            let subscription = for_subscription(line, Some(&params), &listen.id)?;
            let own_id = Change { part: id.clone(), replacement: one.raw_token.clone() };
            Some(OutgoingNotification {
                key: Some(listen.key),
                line: splice(line, &mut [subscription.edit(), own_id.edit()]),
            })
        };
        let updated = |listen: &ListenRequest| {
            let view = view.modern(listen.face.as_ref());
            let updated = listen.tasks.iter().filter(|one| one.is_updated_by(update, &view));
            updated.filter_map(|one| notification(listen, one)).collect::<Vec<_>>()
        };
        self.requests.iter().flat_map(updated).collect()
    }

    /// Sends one notification per changed list to each `subscriptions/listen`.
    pub(super) fn send_list_changes(&mut self, view: &SessionView, output: &mut Output) {
        for ListenRequest { id, face, lists, .. } in &mut self.requests {
            for kind in lists.update(&view.modern(face.as_ref()).catalog) {
                output.send([list_changed(kind, id)]);
            }
        }
    }
}

/// Removes unknown and denied resources from the filter. Returns the servers of the others.
fn keep_readable(filter: &mut Filter, view: &View) -> Vec<ServerHandle> {
    let server = |uri: &Bytes| {
        let index = view.catalog.server_of(str::from_utf8(uri).ok()?)?;
        Some(view.servers.get(index)?.handle.clone())
    };
    let all = std::mem::take(&mut filter.uris).into_iter();
    let (uris, servers) = all.filter_map(|uri| Some((server(&uri.0)?, uri))).map(|(server, uri)| (uri, server)).unzip();
    filter.uris = uris;
    servers
}

fn includes(filter: &Filter, kind: ListKind) -> bool {
    match kind {
        ListKind::Tools => filter.tools,
        ListKind::Prompts => filter.prompts,
        ListKind::Resources | ListKind::Templates | ListKind::Skills => filter.resources,
    }
}

/// The notification that a list has changed, for the subscription with this raw id.
fn list_changed(kind: ListKind, id: &[u8]) -> Bytes {
    let (method, id) = (kind.change_notification(), String::from_utf8_lossy(id));
    let params = format!(r#"{{"_meta":{{"{}":{id}}}}}"#, meta::SUBSCRIPTION);
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}\n").into()
}
