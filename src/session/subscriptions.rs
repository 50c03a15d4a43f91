//! The subscriptions of the agent: `resources/subscribe` and `subscriptions/listen`.
//!
//! A `subscriptions/listen` request stays open and includes lists, resources and tasks. Its notifications carry its id. The agent refers
//! to a task by the token, and the server refers to it by the server's id. Each resource is requested from its server like a
//! `resources/subscribe` of a legacy agent, with the same limits and checks. The acknowledgement waits for the answers, and omits
//! unknown tasks and resources, and resources whose subscription the server refuses.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`; extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status
//! Notifications".

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::output::{OutgoingNotification, Output};
use super::resource_subscriptions::{MAX_BYTES, ResourceSubscriptions};
use super::task_directory::{TaskTool, exposed_tool};
use super::task_token::TaskTokens;
use super::transport::{Address, Transport};
use super::unanswered::UnansweredRequests;
use super::view::{ListVersions, SessionView};
use crate::account::{Charge, MAX_SUBSCRIPTIONS, OverLimit};
use crate::catalog::Catalog;
use crate::era::subscription::{ListenFilter, end, for_subscription};
use crate::era::{Era, meta};
use crate::jsonrpc::members::members;
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
    /// Those that are not acknowledged yet.
    beginning: Vec<BeginningListen>,
}

/// A `subscriptions/listen` whose resources the servers have not answered yet. It is acknowledged for those that they accept.
struct BeginningListen {
    /// With every resource that the agent may read.
    request: ListenRequest,
    /// How many of these were requested.
    requested: usize,
    /// How many of these were not answered yet.
    waiting: usize,
    /// The URIs of the accepted resources.
    accepted: HashSet<Bytes>,
}

struct ListenRequest {
    /// Raw.
    id: Bytes,
    /// Delayed notifications refer to it.
    key: CallKey,
    /// The server whose face the request uses, if it names one.
    face: Option<Arc<str>>,
    /// The acknowledged filter.
    filter: ListenFilter,
    tasks: Vec<ListenedTask>,
    lists: ListVersions,
    #[expect(dead_code, reason = "it counts the request until it is dropped")]
    charge: Charge,
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

/// Maximum number of resources of one `subscriptions/listen` that are requested at once.
const MAX_REQUESTED: usize = 100;

impl BeginningListen {
    /// The request with the accepted resources only.
    fn into_accepted(mut self) -> ListenRequest {
        self.request.filter.uris.retain(|(uri, _)| self.accepted.contains(uri));
        self.request
    }
}

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
        self.all().count()
    }

    pub(super) fn contains(&self, id: &Bytes) -> bool {
        self.all().any(|listen| listen.id == id)
    }

    /// The raw id of the `subscriptions/listen` with this key.
    pub(super) fn id_of(&self, key: CallKey) -> Option<&Bytes> {
        self.all().find(|listen| listen.key == key).map(|listen| &listen.id)
    }

    /// Begins a `subscriptions/listen`, whose resources the agent may read. Returns the subscriptions to tasks to begin at servers.
    pub(super) fn listen(
        &mut self,
        (id, face, charge): (&Bytes, Option<Arc<str>>, Charge),
        mut filter: ListenFilter,
        tokens: &TaskTokens,
        view: &View,
        unanswered: &mut UnansweredRequests,
    ) -> Result<Vec<(ServerHandle, SubscriptionChange)>, OverLimit> {
        let known = std::mem::take(&mut filter.tasks).into_iter();
        let known = known.filter_map(|task| Some((ListenedTask::find(tokens, &task.0, &task.1, view)?, task)));
        let tasks: Vec<ListenedTask>;
        (tasks, filter.tasks) = known.unzip();
        let beginning = self.beginning.iter().flat_map(|other| &other.request.filter.uris);
        let uris: Vec<_> = filter.uris.iter().chain(beginning).cloned().collect();
        if !self.resources.has_room_for_all(&uris, unanswered) || !self.has_room_for_tasks(&filter.tasks) {
            return Err(OverLimit::SUBSCRIPTIONS);
        }
        let changes = self.task_changes(&tasks, true);
        let lists = ListVersions::of(&view.catalog, |kind| includes(&filter, kind));
        let key = unanswered.next_key();
        let request = ListenRequest { id: id.clone(), key, face, filter, tasks, lists, charge };
        self.beginning.push(BeginningListen { request, requested: 0, waiting: 0, accepted: HashSet::new() });
        Ok(changes)
    }

    /// The next resources to request for this `subscriptions/listen`, each as text and raw. None while others are requested.
    pub(super) fn next_topics(&mut self, id: &Bytes) -> Vec<(Bytes, Bytes)> {
        let mut idle = self.beginning.iter_mut().filter(|it| it.request.id == id && it.waiting == 0);
        let Some(listen) = idle.next() else { return Vec::new() };
        let rest = &listen.request.filter.uris[listen.requested..];
        let next = rest[..rest.len().min(MAX_REQUESTED)].to_vec();
        listen.waiting = next.len();
        listen.requested += next.len();
        next
    }

    /// The server whose face this `subscriptions/listen` uses, if it names one.
    pub(super) fn face(&self, id: &Bytes) -> Option<Arc<str>> {
        self.all().find(|listen| listen.id == id)?.face.clone()
    }

    /// A server has answered a requested resource of this `subscriptions/listen`. It has accepted it if the resource is given.
    pub(super) fn record_topic(&mut self, id: &Bytes, accepted: Option<(&ResourceSubscriptionChange, &ServerHandle)>) {
        let Some(listen) = self.beginning.iter_mut().find(|listen| listen.request.id == id) else { return };
        listen.waiting -= 1;
        if let Some((topic, server)) = accepted {
            listen.accepted.insert(topic.uri.clone());
            self.resources.listen(&topic.uri, server);
        }
    }

    /// The acknowledgement of this `subscriptions/listen`, once all its resources are answered.
    pub(super) fn acknowledge(&mut self, id: &Bytes) -> Option<Bytes> {
        let is_complete = |it: &mut BeginningListen| {
            it.request.id == id && it.waiting == 0 && it.requested == it.request.filter.uris.len()
        };
        let request = self.beginning.extract_if(.., is_complete).next()?.into_accepted();
        let line = request.filter.acknowledgement(id);
        // Most agents have one, which stays. By default, each of the two vectors would reserve space for four.
        if self.requests.is_empty() {
            self.requests.reserve_exact(1);
        }
        if self.beginning.is_empty() {
            self.beginning = Vec::new();
        }
        self.requests.push(request);
        Some(line)
    }

    /// Every `subscriptions/listen`, acknowledged or not.
    fn all(&self) -> impl Iterator<Item = &ListenRequest> {
        self.requests.iter().chain(self.beginning.iter().map(|listen| &listen.request))
    }

    fn has_room_for_tasks(&self, tasks: &[(Bytes, Bytes)]) -> bool {
        let subscribed = self.all().flat_map(|listen| &listen.tasks).map(|task| &task.raw_token);
        let (count, bytes) = subscribed
            .chain(tasks.iter().map(|(_, raw)| raw))
            .fold((0, 0), |(count, bytes), raw| (count + 1, bytes + raw.len()));
        tasks.is_empty() || (count <= MAX_SUBSCRIPTIONS && bytes <= MAX_BYTES)
    }

    /// The subscriptions to tasks that no other `subscriptions/listen` includes.
    fn task_changes(&self, tasks: &[ListenedTask], begins: bool) -> Vec<(ServerHandle, SubscriptionChange)> {
        let is_alone =
            |one: &&ListenedTask| !self.all().flat_map(|listen| &listen.tasks).any(|other| other.is_same(one));
        tasks.iter().filter(is_alone).map(|one| one.change(begins)).collect()
    }

    /// The agent cancels the `subscriptions/listen` with this id. Returns the subscriptions to end at servers.
    pub(super) fn unlisten(
        &mut self,
        id: &Bytes,
        unanswered: &UnansweredRequests,
    ) -> Vec<(ServerHandle, SubscriptionChange)> {
        let beginning = self.beginning.extract_if(.., |listen| listen.request.id == id).next();
        let open = self.requests.extract_if(.., |listen| listen.id == id).next();
        let ended = open.or_else(|| beginning.map(BeginningListen::into_accepted));
        let Some(ListenRequest { filter, tasks, .. }) = ended else { return Vec::new() };
        let mut ended = self.task_changes(&tasks, false);
        let resources = filter.uris.iter().filter_map(|(uri, raw)| self.resources.unlisten(uri, raw, unanswered));
        ended.extend(resources.map(|(server, subscription)| (server, SubscriptionChange::Resource(subscription))));
        ended
    }

    /// Ends every `subscriptions/listen` with its response.
    pub(super) fn end_listens(&mut self, output: &mut Output<impl Transport>) {
        let beginning = std::mem::take(&mut self.beginning).into_iter().map(|listen| listen.request);
        for ListenRequest { id, .. } in std::mem::take(&mut self.requests).into_iter().chain(beginning) {
            output.respond(&id, end(&id).as_bytes());
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

    /// The agent receives the list of this kind in the view that a request with this face sees.
    pub(super) fn note_list_sent(&mut self, kind: ListKind, face: Option<&Arc<str>>, catalog: &Catalog) {
        let beginning = self.beginning.iter_mut().map(|listen| &mut listen.request);
        let all = self.requests.iter_mut().chain(beginning);
        all.filter(|listen| listen.face.as_ref() == face).for_each(|listen| listen.lists.received(kind, catalog));
    }

    /// Sends one notification per changed list to each `subscriptions/listen`.
    pub(super) fn send_list_changes(&mut self, view: &SessionView, output: &mut Output<impl Transport>) {
        for ListenRequest { id, face, lists, .. } in &mut self.requests {
            for kind in lists.update(&view.modern(face.as_ref()).catalog) {
                output.send(Address::DuringCall(id), list_changed(kind, id));
            }
        }
    }
}

fn includes(filter: &ListenFilter, kind: ListKind) -> bool {
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
