//! Dispatches messages of the agent, messages of servers, and orders of the daemon.
//!
//! A [`Session`] is one tokio task. Its components own its state, and it only passes messages between them. It never waits for a
//! server, only for space in a server's command queue.

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::FutureExt;
use serde_json::json;
use tokio::net::UnixStream;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::agent::{AgentInfo, SessionStatus};
use super::agent_message::{AgentMessage, Notification, Request};
use super::call_record::CallRecorder;
use super::declaration::Declaration;
use super::events::{Event, Events};
use super::extension_route::{ExtensionRoute, UNKNOWN_CURSOR};
use super::fan_out::{FanOut, MergedList, Next};
use super::forwardable_request::{ExtensionRequest, ForwardableRequest, RouteTarget};
use super::initialize_meta::InitializeMeta;
use super::memory_budget::MemoryUse;
use super::named_uris::NamedUris;
use super::notification_queue::OutgoingNotification;
use super::output::Output;
use super::quota::{AgentQuota, RequestBytes};
use super::results;
use super::server_requests::ServerRequests;
use super::subscriptions::{Subscriptions, TooMany};
use super::task_directory::{PageContext, TaskDirectory, TaskTool};
use super::task_token::{TaskTokenContents, TaskTokenKey, TaskTokens};
use super::transport::{LineTransport, PeerIdentity, Transport};
use super::unanswered::{OnResponse, ParkableRequest, SkillRequest, UnansweredCall, UnansweredRequests};
use super::view::SessionView;
use crate::calls::{CallOutcome, Caller, History};
use crate::catalog::{Route, identity, visible_response};
use crate::client_capabilities::ClientCapability;
use crate::clock::Moment;
use crate::config::CallLimit;
use crate::era::request_meta::MetaError;
use crate::era::subscription::Filter;
use crate::era::task::missing_task_support;
use crate::era::{self, Era};
use crate::extensions::SKILLS;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode, is_refusal_of_stopping_daemon};
use crate::jsonrpc::members::{members, string, text};
use crate::jsonrpc::reply::{
    self, ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
    RESOURCE_NOT_FOUND,
};
use crate::jsonrpc::request_line::{Rename, RequestLine};
use crate::jsonrpc::splice::{Edit, splice};
use crate::jsonrpc::{MessageError, error_in};
use crate::list_kind::ListKind;
use crate::logging::Limiter;
use crate::manager::{AgentViewSource, Member, Unlisted, View};
use crate::message_limit::{MessageLimit, list_bytes};
use crate::methods::{
    AnsweredBy, ELICITATION_COMPLETE, Forwarding, Method, NotificationMeaning, OwnMethod, TASK_STATUS, TargetKind,
    may_be_extension_notification,
};
use crate::server::messages::call::{
    Access, AccessTarget, Call, CallError, CallKey, Failure, MAX_UNANSWERED_PER_SESSION, RequestKind, ResponseHandle,
    SessionSender, ToAgent,
};
use crate::server::messages::cancellation::Cancellation;
use crate::server::messages::server_notification::{
    ExtensionNotification, LegacyTaskStatus, ResourceUpdate, ServerNotification,
};
use crate::server::messages::tasks::{ModernTaskRequest, TaskEvent, TaskOperation, unknown_task};
use crate::server::server_request::ForwardedRequest;
use crate::server::{ResourceSubscriptionChange, START_WAIT, ServerHandle, StopReceiver, SubscriptionChange, User};
use crate::validity::ResultKind;

/// Number of agent messages that are handled in a row.
const BURST: usize = 64;
/// Time to write the last responses when the daemon stops.
const LAST_RESPONSES_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum time that `initialize` or `server/discover` waits for the server's own handshake. Clients commonly wait 30 s.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(25);
/// Time for unanswered calls after the profile of the agent was removed.
const PROFILE_REMOVED_TIMEOUT: Duration = Duration::from_secs(2);

const NOT_INTRODUCED: &str = "send `initialize` first, or add what MCP 2026-07-28 requires to `_meta` of each request: \
    `io.modelcontextprotocol/protocolVersion` and `io.modelcontextprotocol/clientCapabilities`";
const INITIALIZING: &str = "`initialize` is unanswered: its server is starting";
const TOO_MANY: &str = "this connection has too many unanswered requests";
const TOO_MANY_SUBSCRIPTIONS: &str = "this connection has too many subscriptions, or their URIs are too large together";
const TOO_MANY_TASKS: &str = "this connection has too many tasks that have not ended";
const TOO_LARGE: &str = "the unanswered requests of this connection are too large together";

/// What a session is started with.
pub(crate) struct Setup {
    /// The server that has started the agent, if one has.
    pub(crate) own_server: Option<Arc<str>>,
    /// The number of the connection.
    pub(crate) number: u64,
    pub(crate) identity: PeerIdentity,
    /// The directories below which a guest may choose one for a server. `None` for other agents, which may choose any.
    pub(crate) guest_roots: Option<Arc<[PathBuf]>>,
    pub(crate) user: Arc<User>,
    /// The view of the profile.
    pub(crate) view: watch::Receiver<Arc<View>>,
    /// The resources that results on the profile have named.
    pub(crate) named_uris: Arc<NamedUris>,
    pub(crate) agent_views: AgentViewSource,
    /// The limit in each direction.
    pub(crate) message_limit: MessageLimit,
    /// Maximum time that list requests of the agent are parked for instances of this agent whose lists are not cached.
    pub(crate) first_list_wait: Duration,
    pub(crate) history: History,
    /// Signals that the daemon begins to stop.
    pub(crate) stopping: StopReceiver,
    /// Signals that the daemon has stopped its servers.
    pub(crate) closing: watch::Receiver<bool>,
    pub(crate) status: Arc<SessionStatus>,
    pub(crate) warnings: Arc<Limiter>,
    pub(crate) memory_use: Arc<MemoryUse>,
    pub(crate) quota: Arc<AgentQuota>,
    pub(crate) task_token_key: Arc<TaskTokenKey>,
}

/// Orders of the daemon to one session.
pub(crate) struct Orders {
    /// The profile is no longer available to the agent. The agent still receives the responses to its unanswered requests.
    pub(crate) profile_removed: oneshot::Receiver<()>,
    /// Several connections together use too much memory. This one receives the error and is closed at once.
    pub(crate) cut_off: oneshot::Receiver<ErrorObject>,
}

struct Session<T> {
    transport: T,
    output: Output,
    events: Events,
    agent: AgentInfo,
    view: SessionView,
    unanswered: UnansweredRequests,
    server_requests: ServerRequests,
    subscriptions: Subscriptions,
    tasks: TaskDirectory,
    recorder: CallRecorder,
    /// No more messages of the agent are read until this is sent.
    command: Option<ServerCommand>,
    drain: Drain,
}

/// A command for a server, which may have to wait for space in the server's command queue.
enum ServerCommand {
    Call(ServerHandle, Box<Call>),
    Cancel(ServerHandle, CallKey, Cancellation),
    SubscriptionChanges(Vec<(ServerHandle, SubscriptionChange)>),
    /// The whole `notifications/roots/list_changed`.
    RootsChanged(Bytes),
    /// A whole notification of an extension.
    Notify(ServerHandle, Era, Bytes),
    /// The servers that the agent is attached to receive its new log level.
    AgentChanged,
}

/// Whether the session ends as soon as everything is answered.
#[derive(Default)]
struct Drain {
    /// The agent has finished sending.
    is_half_closed: bool,
    /// The response to each further request, once requests are refused.
    refusal: Option<ErrorObject>,
}

/// Why polling has stopped: work that has to `await`, or the end of the session.
enum Wakeup {
    /// There is a [`Session::command`].
    Command,
    Event(Event),
    Done,
}

/// The destination of a request, and the conditions for it.
struct Destination<'a> {
    member: &'a Member,
    /// The member's server, or one of its instances.
    server: &'a ServerHandle,
    /// The tool, if this is a call of one.
    tool: Option<&'a Route>,
    /// The raw name or id, as exposed and as the server knows it.
    rename: Option<(Bytes, Bytes)>,
    /// The target that policy has to permit; `None` if it is not checked again.
    access: Option<AccessTarget>,
    time_limits: CallLimit,
    kind: RequestKind,
}

/// Serves one agent over a Unix socket until the agent disconnects, is disconnected, or the daemon stops.
pub(crate) async fn run(stream: UnixStream, setup: Setup, orders: Orders) {
    let transport = LineTransport::new(stream, setup.message_limit.bytes());
    let (warnings, user) = (Arc::clone(&setup.warnings), Arc::clone(&setup.user));
    let session = setup.number;
    match Session::new(transport, setup, orders).run().await {
        Err(error) if matches!(error.kind(), io::ErrorKind::Other | io::ErrorKind::TimedOut) => {
            if warnings.admits("disconnected", format_args!("user {} at profile {}", user.uid, user.profile)) {
                tracing::warn!(session, "disconnected: {error}");
            }
        }
        ended => tracing::debug!(session, "ended: {ended:?}"),
    }
}

impl<T: Transport> Session<T> {
    fn new(transport: T, setup: Setup, orders: Orders) -> Self {
        let Setup { number, identity, user, view, own_server, status, message_limit, stopping, closing, .. } = setup;
        let profile = Arc::clone(&user.profile);
        let (to_session, from_servers) = SessionSender::channel(Some(user.uid), Arc::clone(&status.dropped), stopping);
        let mut events = Events::new(from_servers);
        events.watch(view.clone());
        events.watch_closing(closing);
        events.watch_order(orders.profile_removed, |()| Event::ProfileRemoved);
        events.watch_order(orders.cut_off, Event::CutOff);
        let PeerIdentity { uid, pid, cwd } = identity;
        let caller = Caller { session: number, profile: Arc::clone(&profile), pid, uid, client: None };
        let tokens = TaskTokens::new(setup.task_token_key, Arc::clone(&profile));
        Self {
            transport,
            unanswered: UnansweredRequests::new(number, message_limit.buffer_unit(), setup.quota),
            output: Output::new(message_limit, Arc::clone(&status.dropped), setup.memory_use),
            events,
            server_requests: ServerRequests::new(Arc::clone(&status)),
            agent: AgentInfo::new(number, user, to_session, status),
            view: SessionView::new(
                view,
                setup.named_uris,
                setup.agent_views,
                setup.first_list_wait,
                (cwd, setup.guest_roots),
                own_server,
            ),
            subscriptions: Subscriptions::default(),
            tasks: TaskDirectory::new(tokens),
            recorder: CallRecorder::new(setup.history, setup.warnings, caller),
            command: None,
            drain: Drain::default(),
        }
    }

    async fn run(mut self) -> io::Result<()> {
        let ended = self.serve().await;
        self.output.clear();
        for (parked, _) in self.unanswered.take_parked() {
            self.record_cancelled(&parked);
        }
        for (_, UnansweredCall { key, server, record, .. }) in self.unanswered.take_calls() {
            self.recorder.end(record, Some(&server), CallOutcome::Cancelled, 0);
            server.cancel(key, None).await;
        }
        ended
    }

    async fn serve(&mut self) -> io::Result<()> {
        loop {
            match poll_fn(|cx| self.poll_wakeup(cx)).await? {
                Wakeup::Command => self.send_command().await,
                Wakeup::Event(Event::ViewChanged(view)) => {
                    if self.view.rewatch_if_shown(view, &mut self.events) {
                        self.view_changed().await;
                    }
                }
                Wakeup::Event(Event::PerAgentView(view)) => self.show(view).await,
                Wakeup::Event(Event::Listed { view, had_cached_lists }) => {
                    self.view.instance_listed(had_cached_lists);
                    if let Some(view) = view {
                        self.show(view).await;
                    }
                    self.retry_parked().await;
                }
                Wakeup::Event(Event::RetryParked) => {
                    self.view.stop_awaiting_lists();
                    self.retry_parked().await;
                }
                Wakeup::Event(Event::HandshakeEnded(server, era)) => {
                    self.view.stop_awaiting_handshake(&server, era);
                    self.retry_parked().await;
                }
                Wakeup::Event(Event::Withdrawn(id, withdrawal)) => {
                    self.server_requests.withdrawn(id, withdrawal, &mut self.output);
                }
                Wakeup::Event(Event::ProfileRemoved) => self.begin_leaving(),
                Wakeup::Event(Event::ProfileRemovedTimeout) => {
                    self.end_calls().await;
                    return self.close().await;
                }
                Wakeup::Event(Event::Closing) => return self.close().await,
                Wakeup::Event(Event::CutOff(error)) => {
                    self.write_last(&error).await;
                    // The daemon has logged the reason.
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Wakeup::Event(Event::HungUp) | Wakeup::Done => return Ok(()),
            }
        }
    }

    /// Writes, delivers and receives as long as possible without waiting, then publishes the memory in use.
    fn poll_wakeup(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Wakeup>> {
        let step = self.poll_all(cx);
        self.publish_memory();
        step
    }

    fn publish_memory(&mut self) {
        let pause = self.output.publish_memory(self.transport.unreturned_bytes(), self.unanswered.gathered_bytes());
        if !pause.is_zero() {
            self.transport.pause(pause);
        }
    }

    /// Polls all sources in one function, because a future for each would double the cost of a small call.
    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Wakeup>> {
        loop {
            let written = self.poll_write(cx)?;
            let is_draining = self.drain.is_half_closed || self.drain.refusal.is_some();
            if is_draining && !self.owes_responses() && self.output.is_empty() {
                if self.subscriptions.len() > 0 {
                    self.subscriptions.end_listens(&mut self.output);
                    continue;
                }
                return Poll::Ready(Ok(Wakeup::Done));
            }
            // Sources that can always be ready come last.
            if let Poll::Ready(event) = self.events.poll(cx) {
                return Poll::Ready(Ok(Wakeup::Event(event)));
            } else if let Poll::Ready(message) = self.events.poll_server(cx) {
                self.deliver_all(message)?;
            } else if !self.drain.is_half_closed
                && self.output.has_room()
                && let Poll::Ready(message) = self.transport.poll_message(cx)?
            {
                let Some(message) = message else {
                    self.half_close()?;
                    continue;
                };
                // The message itself is counted as a request from now on.
                self.publish_memory();
                if let Some(step) = self.receive_all(message) {
                    return Poll::Ready(Ok(step));
                }
            } else if written.is_pending() || self.output.is_empty() {
                return Poll::Pending;
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.poll_write(cx, &mut self.transport).map_ok(|written| {
            if written.caught_up {
                let (output, is_current) = self.output_and_filter();
                output.send_delayed(is_current);
            }
            if written.made_room {
                self.announce_list_changes();
            }
        })
    }

    /// The agent has finished sending, so every unanswered request of a server fails.
    fn half_close(&mut self) -> io::Result<()> {
        self.server_requests.close();
        self.drain.is_half_closed = true;
        self.events.push(self.transport.closed()?.map(|()| Event::HungUp));
        Ok(())
    }

    /// Handles what was read at once, so that the responses are written at once; a flood is interrupted for other work.
    fn receive_all(&mut self, first: AgentMessage) -> Option<Wakeup> {
        let mut message = first;
        for count in 1.. {
            self.receive(message);
            if self.command.is_some() {
                return Some(Wakeup::Command);
            }
            if count == BURST || !self.output.has_room() {
                break;
            }
            message = self.transport.next_buffered()?;
        }
        None
    }

    fn deliver_all(&mut self, first: ToAgent) -> io::Result<()> {
        self.deliver(first);
        self.deliver_arrived();
        if self.output.is_stuck() {
            return Err(io::Error::other("the agent does not read its answers"));
        }
        Ok(())
    }

    fn deliver_arrived(&mut self) {
        while let Some(message) = self.events.next_from_server() {
            self.deliver(message);
        }
    }

    /// Waits for room in the server's command queue, rather than refusing a burst of requests.
    async fn send_command(&mut self) {
        match self.command.take() {
            None => {}
            Some(ServerCommand::Call(server, call)) => server.call(call).await,
            Some(ServerCommand::Cancel(server, key, cancellation)) => server.cancel(key, Some(cancellation)).await,
            Some(ServerCommand::SubscriptionChanges(changes)) => {
                for (server, change) in changes {
                    server.subscribe(self.agent.for_servers(), Box::new(change)).await;
                }
            }
            Some(ServerCommand::RootsChanged(line)) => self.view.roots_changed(&line).await,
            Some(ServerCommand::Notify(server, era, line)) => {
                server.notify(self.agent.for_servers().session, era, line).await;
            }
            Some(ServerCommand::AgentChanged) => {
                self.view.update_agent(&self.agent.for_servers()).await;
                self.attach();
            }
        }
    }

    // The end.

    /// Accepts no more requests; the agent receives the responses that it waits for.
    fn begin_leaving(&mut self) {
        let refusal = profile_removed_error(Delivery::NotSent);
        self.refuse_parked(&refusal);
        self.drain.refusal = Some(refusal);
        self.subscriptions.end_listens(&mut self.output);
        self.events.push(sleep(PROFILE_REMOVED_TIMEOUT).map(|()| Event::ProfileRemovedTimeout));
    }

    /// Answers calls that have taken too long, and cancels them.
    async fn end_calls(&mut self) {
        self.deliver_arrived();
        for (id, UnansweredCall { key, server, record, on_response, .. }) in self.unanswered.take_calls() {
            let line = reply::error(Some(&id), &profile_removed_error(Delivery::Unknown).about_server(server.name()));
            self.recorder.end(record, Some(&server), CallOutcome::ShuttingDown, line.len());
            // A request that several servers answer is answered once. A `subscriptions/listen` has ended before.
            let is_last = match on_response {
                OnResponse::Subrequest => self.unanswered.fan_outs_mut().remove(&id).is_some(),
                OnResponse::Topic(_) => false,
                _ => true,
            };
            if is_last {
                self.output.send([line]);
            }
            server.cancel(key, None).await;
        }
    }

    /// Refuses what is parked or unread, and writes the last responses within a short limit.
    async fn close(&mut self) -> io::Result<()> {
        self.deliver_arrived();
        self.refuse_parked(&stopping());
        let last = async {
            self.refuse_unread().await?;
            self.subscriptions.end_listens(&mut self.output);
            while !self.output.is_empty() {
                poll_fn(|cx| self.output.poll_write(cx, &mut self.transport)).await?;
            }
            Ok(())
        };
        timeout(LAST_RESPONSES_TIMEOUT, last).await.unwrap_or(Ok(()))
    }

    /// Refuses what the agent has sent and nobody has read, so that the agent knows that no server has received it.
    async fn refuse_unread(&mut self) -> io::Result<()> {
        self.drain.refusal.get_or_insert_with(stopping);
        self.transport.stop_receiving()?;
        while let Some(message) = poll_fn(|cx| self.transport.poll_message(cx)).await? {
            self.receive(message);
            self.command = None;
        }
        Ok(())
    }

    /// Writes an error to an agent that has read everything else, without waiting.
    async fn write_last(&mut self, error: &ErrorObject) {
        if self.output.is_empty() {
            self.output.respond_error(None, error);
            poll_fn(|cx| Poll::Ready(self.output.poll_write(cx, &mut self.transport).is_ready())).await;
        }
    }

    fn refuse_parked(&mut self, error: &ErrorObject) {
        for (parked, _) in self.unanswered.take_parked() {
            self.end_parked(&parked, error, CallOutcome::ShuttingDown);
        }
        self.tasks.refuse_pages(error, &mut self.output);
    }

    // Messages of the agent.

    fn receive(&mut self, message: AgentMessage) {
        let (output, server_requests) = (&mut self.output, &mut self.server_requests);
        match message {
            AgentMessage::Request(request) => self.request(request),
            AgentMessage::Notification(notification) => self.notification(notification),
            AgentMessage::Response { line, id } => server_requests.answered(&line, &id),
            AgentMessage::Malformed(MessageError::BadResponse { id }) => {
                server_requests.answered_badly(&id, INTERNAL_ERROR, "the answer of the agent is no valid response");
            }
            AgentMessage::TooLarge { id: Some(id), is_response: true, size } => {
                let code = ErrorCode::TooLarge.number();
                let why = format!("the answer of the agent {}", output.limit().excess(Some(size)));
                server_requests.answered_badly(&id, code, &why);
            }
            AgentMessage::Malformed(MessageError::NotJson) => output.refuse(None, PARSE_ERROR, "not JSON"),
            AgentMessage::Malformed(MessageError::Batch) => {
                output.refuse(None, INVALID_REQUEST, "batches are not supported");
            }
            // A peer with the same rule would answer the answer, and so on.
            AgentMessage::Malformed(MessageError::StrayResponse { .. })
            | AgentMessage::TooLarge { id: None, is_response: true, .. } => server_requests.count_stray_response(),
            AgentMessage::Malformed(MessageError::NotAMessage { id }) => {
                output.refuse(id.as_ref(), INVALID_REQUEST, "not a JSON-RPC 2.0 message");
            }
            AgentMessage::TooLarge { id, size, .. } => {
                let message = format!("the message {}", output.limit().excess(Some(size)));
                let error = ErrorObject::of_mcpd(ErrorCode::TooLarge, message, Delivery::NotSent);
                output.respond_error(id.as_ref(), &error);
            }
        }
    }

    fn notification(&mut self, notification: Notification) {
        if let Some(id) = notification.id.clone() {
            if self.is_unanswered(&id) {
                let error = ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered");
                return self.output.respond_error(Some(&id), &error);
            }
            self.output.respond(&id, b"{}");
        }
        let Notification { line, method, meaning, about, .. } = notification;
        match (meaning, about) {
            (Some(NotificationMeaning::Initialized), _) => {
                self.agent.set_ready();
                if self.agent.is_ready() {
                    self.server_requests.send_early(&mut self.output, &mut self.events);
                }
                self.announce_list_changes();
            }
            (Some(NotificationMeaning::Cancelled), Some(id)) => self.cancelled(line, &id),
            (Some(NotificationMeaning::Progress), Some(token)) => self.server_requests.progress(&line, &token),
            (Some(NotificationMeaning::UseFace), Some(server)) if !self.agent.is_introduced() => {
                if let Some(server) = string(&server) {
                    self.view.set_face(server.into());
                }
            }
            (Some(NotificationMeaning::RootsChanged), _) => self.command = Some(ServerCommand::RootsChanged(line)),
            (None, _) if may_be_extension_notification(&method) => self.extension_notification(&line, &method),
            _ => {}
        }
    }

    /// Forwards a notification of an extension to the only possible server. It counts for the rate of requests; beyond the quotas of
    /// the agent it is dropped.
    fn extension_notification(&mut self, line: &Bytes, method: &Bytes) {
        if !self.agent.is_introduced() {
            return;
        }
        let Ok(_permit) = self.unanswered.permit(line.len(), Instant::now()) else { return };
        let era = if self.agent.protocol_version().is_some() { Era::Legacy } else { Era::Modern };
        let (view, params) = (self.view.of(era, None), members(line, ["params"]).ok().and_then(|[params]| params));
        let Some(notification) = ExtensionRequest::read(method, params.as_ref()) else { return };
        let route = ExtensionRoute::of_extension(&notification, &view, era);
        let ExtensionRoute::One { server, rename, .. } = route else { return };
        let Some(Member { handle, .. }) = view.servers.get(server) else { return };
        let rename = rename.iter().map(|(part, name)| Edit { part, replacement: name });
        let line = splice(line, &mut rename.collect::<Vec<_>>());
        self.command = Some(ServerCommand::Notify(handle.clone(), era, line.slice(..line.len() - 1)));
    }

    fn cancelled(&mut self, line: Bytes, id: &Bytes) {
        if let Some(parked) = self.unanswered.cancel_parked(id) {
            self.record_cancelled(&parked);
        }
        if self.tasks.has_page(id) {
            let (tasks, context) = self.task_pages();
            tasks.cancel_page(id, context);
        }
        let is_listen = self.subscriptions.contains(id);
        let changes = self.subscriptions.unlisten(id, &self.unanswered);
        self.change_subscriptions(changes);
        if self.unanswered.fan_outs_mut().remove(id).is_some() || is_listen {
            self.cancel_subrequests(id, &line);
        } else if let Some(UnansweredCall { key, server, record, .. }) = self.unanswered.remove(id) {
            self.recorder.end(record, Some(&server), CallOutcome::Cancelled, 0);
            let cancellation = Cancellation { line, request: id.clone() };
            self.command = Some(ServerCommand::Cancel(server, key, cancellation));
        }
    }

    fn record_cancelled(&self, parked: &ParkableRequest) {
        if let ParkableRequest::Forward { request, .. } = parked {
            self.recorder.record_unforwarded(request, CallOutcome::Cancelled, 0);
        }
    }

    // Requests of the agent.

    fn request(&mut self, request: Request) {
        let id = request.id.clone();
        if let Err(error) = self.handle(request) {
            self.output.respond_error(Some(&id), &error);
        }
    }

    fn handle(&mut self, request: Request) -> Result<(), ErrorObject> {
        let Request { id, method, method_name, params, call, modern, face } = request;
        if self.is_unanswered(&id) {
            self.recorder.warn_of_reused_id();
            return Err(ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered"));
        }
        if let Some(refusal) = &self.drain.refusal {
            return Err(refusal.clone());
        }
        let (modern, params) = (modern.map_err(|error| error.to_object())?, params.as_ref());
        let protocol = if modern.is_some() {
            let face = self.view.check_face(face.as_ref()).map_err(|unknown| invalid(unknown.to_string()))?;
            let is_discover =
                method.is_some_and(|method| method.answered_by == AnsweredBy::Daemon(OwnMethod::Discover));
            self.record_client(params, is_discover, face);
            Some(era::MODERN)
        } else {
            self.agent.protocol_version()
        };
        let method = method.filter(|method| {
            protocol.is_none_or(|protocol| {
                method.versions.include(protocol) && !self.is_undeclared(method, call.as_ref(), protocol, face.as_ref())
            })
        });
        match (method.map(|method| method.answered_by), call) {
            (Some(AnsweredBy::Daemon(OwnMethod::Initialize)), _) if protocol.is_none() => {
                self.initialize(&id, params)?
            }
            (Some(AnsweredBy::Daemon(OwnMethod::Initialize)), _) if self.unanswered.has_initialize() => {
                return Err(ErrorObject::new(INVALID_REQUEST, INITIALIZING));
            }
            (Some(AnsweredBy::Daemon(OwnMethod::Initialize)), _) => {
                return Err(ErrorObject::new(INVALID_REQUEST, "already initialized"));
            }
            (Some(AnsweredBy::Daemon(OwnMethod::Ping)), _) => self.output.respond(&id, b"{}"),
            _ if protocol.is_none() => return Err(invalid(NOT_INTRODUCED)),
            (Some(AnsweredBy::Daemon(OwnMethod::Discover)), _) => self.answer_handshake(&id, era::MODERN, face, None),
            (Some(AnsweredBy::Daemon(OwnMethod::SetLevel)), _) => {
                self.agent.set_level(params).map_err(invalid)?;
                self.command = Some(ServerCommand::AgentChanged);
                self.output.respond(&id, b"{}");
            }
            (Some(AnsweredBy::Daemon(OwnMethod::ListTasks)), _) => self.list_tasks(&id, params)?,
            (Some(AnsweredBy::Daemon(OwnMethod::Listen)), _) => {
                let supports_tasks = modern.is_some_and(|modern| modern.supports_tasks);
                self.route(read_listen(&id, params, supports_tasks, face)?);
            }
            (Some(AnsweredBy::List(kind)), _) => {
                let era = if modern.is_some() { Era::Modern } else { Era::Legacy };
                self.route(read_list(kind, id, params, (era, face))?);
            }
            (Some(AnsweredBy::Server(forwarding)), Some(Ok(request))) => match (request.target_kind, forwarding) {
                (TargetKind::Task, _) if modern.is_some() => self.send_modern_task(request),
                (_, Forwarding::Task(operation)) => self.send_task(request, operation),
                _ => self.route(ParkableRequest::Forward { request, until: None }),
            },
            (Some(AnsweredBy::Server(_)), Some(Err(error))) => return Err(error.to_object()),
            (Some(AnsweredBy::Server(_)) | None, _) => {
                return Err(TargetKind::Method.unknown(&method_name, Era::Legacy));
            }
        }
        Ok(())
    }

    /// Whether the agent uses the face of a server that has not declared the capability that this request needs, and does not expose what
    /// it names.
    fn is_undeclared(
        &self,
        method: &Method,
        call: Option<&Result<ForwardableRequest, MetaError>>,
        protocol: &'static str,
        face: Option<&Arc<str>>,
    ) -> bool {
        let era = era::of(protocol);
        let Some(capability) = method.capability(era).filter(|_| self.view.is_face(face)) else { return false };
        if self.view.has_declared(capability) {
            return false;
        }
        let view = self.view.of(era, face);
        let is_exposed = match (method.answered_by, call) {
            (AnsweredBy::List(kind), _) => view.catalog.count(kind) > 0,
            (_, Some(Ok(request))) => request.names_item() && self.target(request, &view).is_some(),
            _ => false,
        };
        if is_exposed {
            return false;
        }
        let identity = self.view.identity(&view, self.agent.session(), era);
        Declaration { protocol, view: &view, identity: identity.as_deref() }.lacks(capability)
    }

    fn initialize(&mut self, id: &Bytes, params: Option<&Bytes>) -> Result<(), ErrorObject> {
        let mut meta = params.map(InitializeMeta::of).unwrap_or_default();
        let face = self.view.check_face(meta.face.as_ref()).map_err(|unknown| invalid(unknown.to_string()))?;
        // Requested first, so that an agent whose `initialize` is refused can send another one.
        let permit = face.is_some().then(|| self.permit_parking(id.len())).transpose()?;
        let introduction = self.agent.initialize(params, &meta, face).map_err(invalid)?;
        if let Some(face) = meta.face.take() {
            self.view.set_face(face);
        }
        self.recorder.set_client(introduction.client);
        if let Some(cwd) = meta.cwd {
            self.view.set_cwd(cwd);
        }
        self.server_requests.begin_at(meta.ids_from);
        self.attach();
        self.answer_handshake(id, introduction.protocol_version, None, permit);
        Ok(())
    }

    /// Answers `initialize` or `server/discover`, perhaps when the server of a face has completed its handshake.
    fn answer_handshake(
        &mut self,
        id: &Bytes,
        protocol: &'static str,
        face: Option<Arc<str>>,
        permit: Option<RequestBytes>,
    ) {
        let until = Instant::now() + HANDSHAKE_WAIT;
        // The id outlives the line.
        self.route_with(ParkableRequest::Handshake { id: Bytes::copy_from_slice(id), protocol, face, until }, permit);
    }

    fn record_client(&mut self, params: Option<&Bytes>, is_discover: bool, face: Option<Arc<str>>) {
        if let Some(introduction) = self.agent.record_client(params, is_discover, face) {
            self.recorder.set_client(introduction.client);
            self.attach();
        }
    }

    fn list_tasks(&mut self, id: &Bytes, params: Option<&Bytes>) -> Result<(), ErrorObject> {
        let after = self.tasks.read_cursor(params).map_err(invalid)?;
        if self.is_full() {
            return Err(overloaded(TOO_MANY));
        }
        let (tasks, context) = self.task_pages();
        tasks.list(id, after, context);
        Ok(())
    }

    /// The task directory, and what it needs to list tasks.
    fn task_pages(&mut self) -> (&mut TaskDirectory, PageContext<'_>) {
        let Self { tasks, agent, view, unanswered, output, .. } = self;
        (tasks, PageContext { agent, view: view.legacy(), unanswered, output })
    }

    fn begin_listen(&mut self, id: &Bytes, mut filter: Filter, face: Option<Arc<str>>) {
        if self.is_full() {
            return self.output.respond_error(Some(id), &overloaded(TOO_MANY));
        }
        let view = &self.view.modern(face.as_ref());
        filter.uris.retain(|(uri, _)| self.view.server_of_resource(uri, view).is_some());
        match self.subscriptions.listen((id, face), filter, self.tasks.tokens(), view, &mut self.unanswered) {
            Ok(changes) => {
                for (server, _) in &changes {
                    self.view.attach_for_disconnect(server, self.agent.for_servers());
                }
                self.change_subscriptions(changes);
                self.continue_listen(id);
            }
            Err(TooMany) => self.output.respond_error(Some(id), &overloaded(TOO_MANY_SUBSCRIPTIONS)),
        }
    }

    /// Requests the next resources of a `subscriptions/listen` from their servers. Acknowledges it once they have answered all.
    fn continue_listen(&mut self, id: &Bytes) {
        loop {
            let topics = self.subscriptions.next_topics(id);
            if topics.is_empty() {
                break;
            }
            for (uri, raw) in topics {
                if self.request_topic(id, uri, raw).is_none() {
                    self.subscriptions.topic_answered(id, None);
                }
            }
        }
        if let Some(line) = self.subscriptions.acknowledge(id) {
            self.output.send([line]);
            self.announce_list_changes();
        }
    }

    /// Requests a resource of a `subscriptions/listen`. `None` if it cannot be requested.
    fn request_topic(&mut self, id: &Bytes, uri: Bytes, raw: Bytes) -> Option<CallKey> {
        let face = self.subscriptions.face(id);
        let request = ForwardableRequest::of_topic(id, &raw, face, Moment::now()).ok()?;
        let view = self.view.modern(request.face.as_ref());
        let target = self.target(&request, &view)?;
        let member = view.servers.get(target.server())?;
        // A slow server delays the acknowledgement a little only.
        let total = member.config.settings.handshake_timeout;
        let (access, kind) = (request.access_target(target), request.kind());
        let time_limits = CallLimit { progress_timeout: total, total };
        let to = Destination { member, server: &member.handle, tool: None, rename: None, access, time_limits, kind };
        let topic = ResourceSubscriptionChange { uri, raw, begins: true };
        self.send_call(request, to, &view, Some(OnResponse::Topic(Box::new(topic)))).ok()
    }

    fn change_subscriptions(&mut self, changes: Vec<(ServerHandle, SubscriptionChange)>) {
        if !changes.is_empty() {
            self.command = Some(ServerCommand::SubscriptionChanges(changes));
        }
    }

    // Requests that lead to a server.

    /// Answers or forwards a request, or parks it while the first lists may still bring what it needs.
    fn route(&mut self, request: ParkableRequest) {
        self.route_with(request, None);
    }

    /// [`Session::route`] with the permit to park the request, if it has one.
    fn route_with(&mut self, request: ParkableRequest, permit: Option<RequestBytes>) {
        let view = self.view.of(request.era(), request.face());
        let is_settled = self.view.is_settled(&view);
        let session = self.agent.session();
        match request {
            ParkableRequest::Handshake { id, protocol, until, .. }
                if self.view.can_answer_handshake(&view, session, era::of(protocol), until, self.is_stopping()) =>
            {
                let identity = self.view.identity(&view, session, era::of(protocol));
                let declaration = Declaration { protocol, view: &view, identity: identity.as_deref() };
                self.view.note_declared(view.face_member().map(|_| declaration.read_capabilities()));
                let result = match era::of(protocol) {
                    Era::Legacy => results::initialize(&declaration),
                    Era::Modern => results::discover(&declaration),
                };
                self.output.send([reply::result(&id, result.as_bytes())]);
            }
            ParkableRequest::List { id, kind, era: Era::Modern, face } if is_settled => {
                self.subscriptions.list_sent(kind, face.as_ref(), &view.catalog);
                let identity = self.view.identity(&view, session, Era::Modern);
                let declaration = Declaration { protocol: era::MODERN, view: &view, identity: identity.as_deref() };
                self.output.send(results::modern_list(&id, kind, &declaration));
            }
            ParkableRequest::List { id, kind, era: Era::Legacy, .. } if is_settled => {
                self.view.list_sent(kind, &view.catalog);
                self.output.send(results::list(&id, kind, &view.catalog));
            }
            ParkableRequest::Listen { id, filter, face } if is_settled => self.begin_listen(&id, filter, face),
            ParkableRequest::Forward { request, .. } if request.extension.is_some() && is_settled => {
                self.forward_extension(request, &view);
            }
            ParkableRequest::Forward { request, until: Some(until) } => self.forward(request, until, &view, permit),
            ParkableRequest::Forward { request, until: None }
                if request.extension.is_none()
                    && (self.view.all_instances_listed() || self.target(&request, &view).is_some()) =>
            {
                self.forward(request, Instant::now() + START_WAIT, &view, permit);
            }
            waiting => match permit.map_or_else(|| self.permit_parking(waiting.bytes()), Ok) {
                Ok(permit) => {
                    if let ParkableRequest::Handshake { until, .. } = waiting
                        && !self.is_stopping()
                    {
                        self.view.await_handshake(&view, session, waiting.era(), until, &mut self.events);
                    }
                    self.unanswered.park(waiting, permit);
                }
                Err(error) => self.end_parked(&waiting, &error, CallOutcome::Overloaded),
            },
        }
    }

    /// Forwards a request, or parks it for a server that may still list its name, at most until `until`. A URI that no server lists may be of
    /// an unlisted skill.
    fn forward(&mut self, request: ForwardableRequest, until: Instant, view: &View, permit: Option<RequestBytes>) {
        if let Some(target) = self.target(&request, view) {
            return self.send_to(request, target, view);
        }
        let name =
            matches!(request.target_kind, TargetKind::Tool | TargetKind::Prompt).then_some(&request.exposed_name[..]);
        let unlisted = Unlisted::of(view.may_still_list(name).collect(), until);
        if !matches!(unlisted, Unlisted::Waits(_))
            && let Some(route) = ExtensionRoute::of_unlisted_skill(&request, view)
        {
            return self.follow(request, route, view);
        }
        let waits = match unlisted {
            Unlisted::Unknown => {
                return self.end_unforwarded(&request, &unknown_in(&request, view), CallOutcome::UnknownTool);
            }
            Unlisted::Down(error) => Err(error.to_object()),
            Unlisted::Waits(candidates) => Ok(candidates),
        };
        let parked = ParkableRequest::Forward { request, until: Some(until) };
        let permit = waits
            .and_then(|candidates| Ok((candidates, permit.map_or_else(|| self.permit_parking(parked.bytes()), Ok)?)));
        let error = match permit {
            Ok((candidates, permit)) => {
                candidates.iter().for_each(|member| member.handle.note_waiting_call());
                self.view.await_lists(view, until, &mut self.events);
                return self.unanswered.park(parked, permit);
            }
            Err(error) => error,
        };
        let outcome = CallOutcome::Error { code: Some(error.code.into()) };
        self.end_parked(&parked, &error, outcome);
    }

    /// Forwards a request of an extension, or answers it if it is for the list of skills.
    fn forward_extension(&mut self, request: ForwardableRequest, view: &View) {
        let is_list = |extension: &ExtensionRequest| *extension.method == *ListKind::Skills.method();
        let list = request.extension.as_ref().filter(|extension| is_list(extension));
        match list.filter(|_| !view.owners(SKILLS, request.era()).is_empty()) {
            Some(list) if list.has_cursor => self.output.respond_error(Some(&request.id), &invalid(UNKNOWN_CURSOR)),
            Some(_) => {
                let era = request.era();
                self.route(ParkableRequest::List { id: request.id, kind: ListKind::Skills, era, face: request.face });
            }
            None => match ExtensionRoute::of(&request, view) {
                Some(route) => self.follow(request, route, view),
                None => self.unknown(&request),
            },
        }
    }

    fn follow(&mut self, mut request: ForwardableRequest, route: ExtensionRoute, view: &View) {
        match route {
            ExtensionRoute::One { server, rename, access } => {
                let Some(member) = view.servers.get(server) else { return self.unknown(&request) };
                // The other era requires params.
                if !member.serves(request.era()) && !request.has_params() {
                    request = request.subrequest(None).unwrap_or(request);
                }
                let (server, time_limits) = (&member.handle, member.config.settings.request_limit());
                let (kind, access) = (RequestKind::Plain, Some(access));
                let to = Destination { member, server, tool: None, rename, access, time_limits, kind };
                self.send(request, to, view);
            }
            ExtensionRoute::Merge { servers, extension } => self.fan_out(request, extension, &servers, view),
            ExtensionRoute::Unknown(kind, key) => {
                (request.target_kind, request.exposed_name) = (kind, key);
                self.unknown(&request);
            }
            ExtensionRoute::Ambiguous(servers) => {
                let names = servers.iter().filter_map(|server| view.servers.get(*server));
                let names: Vec<_> = names.map(|member| &*member.config.name).collect();
                let message = format!(
                    "several servers have this method: {}. Connect to one of them with `mcpd connect --server NAME`",
                    names.join(", ")
                );
                self.end_unforwarded(&request, &invalid(message), CallOutcome::UnknownTool);
            }
            ExtensionRoute::Invalid(why) => self.output.respond_error(Some(&request.id), &invalid(why)),
        }
    }

    /// Sends a request for a list of an extension to several servers. It counts as one call.
    fn fan_out(&mut self, request: ForwardableRequest, extension: Arc<str>, servers: &[usize], view: &View) {
        let began = Instant::now();
        let permit = match self.unanswered.permit(request.line.len(), began) {
            Ok(permit) => permit,
            Err(reached) => {
                return self.output.respond_error(Some(&request.id), &reached.to_object(Delivery::NotSent));
            }
        };
        self.agent.count_call();
        let mut sent = Vec::new();
        for member in servers.iter().filter_map(|server| view.servers.get(*server)) {
            // The others do not wait for a server that is down.
            let subrequest = match member.failure() {
                Some(failure) if servers.len() > 1 => Err(failed_part(&request, member, failure)),
                _ => self.send_subrequest(&request, &extension, began, None, member, view),
            };
            sent.push((Arc::clone(&member.config.name), subrequest));
        }
        let (id, max_message) = (request.id.clone(), list_bytes(self.output.limit().bytes()));
        let fan_out = FanOut::new(request, extension, began, sent, max_message, permit);
        self.unanswered.fan_outs_mut().add(fan_out);
        let next = self.unanswered.fan_outs_mut().take_if_complete(&id);
        self.advance_fan_out(next);
    }

    /// Sends one server its part of a request whose first parts were sent at `began`. The error is a response line.
    fn send_subrequest(
        &mut self,
        request: &ForwardableRequest,
        extension: &Arc<str>,
        began: Instant,
        cursor: Option<&Bytes>,
        member: &Member,
        view: &View,
    ) -> Result<CallKey, Bytes> {
        let subrequest =
            request.subrequest(cursor).map_err(|error| reply::error(Some(&request.id), &error.to_object()))?;
        // Like lists that mcpd itself requests, so that a slow server delays the others a little only. All pages together have this time.
        let after = member.config.settings.handshake_timeout;
        let total = after.saturating_sub(began.elapsed());
        if total.is_zero() {
            return Err(failed_part(request, member, Failure::TimedOut { after }));
        }
        let time_limits = CallLimit { progress_timeout: total, total };
        let access = Some(AccessTarget::Extension { id: Some(Arc::clone(extension)), items: Vec::new() });
        let server = &member.handle;
        let to =
            Destination { member, server, tool: None, rename: None, access, time_limits, kind: RequestKind::Plain };
        self.send_call(subrequest, to, view, Some(OnResponse::Subrequest))
    }

    /// A server has answered the subrequest of the request with this raw id.
    fn subrequest_answered(&mut self, id: &Bytes, key: CallKey, line: &Bytes) {
        let next = self.unanswered.fan_outs_mut().answered(id, key, line);
        self.advance_fan_out(next);
    }

    fn advance_fan_out(&mut self, mut next: Next) {
        loop {
            match next {
                Next::Wait => return,
                Next::Complete(fan_out) => return self.answer_fan_out(fan_out),
                Next::Page { request, extension, server, cursor, began } => {
                    let view = self.view.of(request.era(), request.face.as_ref());
                    let member = view.servers.iter().find(|member| member.config.name == server);
                    let sent = match member.filter(|member| is_owner(&request, &extension, member)) {
                        Some(member) => self.send_subrequest(&request, &extension, began, Some(&cursor), member, &view),
                        None => Err(reply::error(Some(&request.id), &request.unknown())),
                    };
                    next = self.unanswered.fan_outs_mut().page_sent(&request.id, &server, sent);
                }
            }
        }
    }

    /// Answers a request for a list that every server has answered.
    fn answer_fan_out(&mut self, fan_out: FanOut) {
        fan_out.failed().for_each(|server| self.recorder.warn_of_incomplete_list(server));
        let (request, extension) = (fan_out.request.clone(), Arc::clone(&fan_out.extension));
        let line = match fan_out.merge() {
            Ok(MergedList { member, items, ttl }) => {
                let view = self.view.of(request.era(), request.face.as_ref());
                // Policy may have changed since the servers were sent the request.
                let is_current = |server: &Arc<str>| {
                    let member = view.servers.iter().find(|member| member.config.name == *server);
                    member.is_some_and(|member| is_owner(&request, &extension, member))
                };
                let current = items.into_iter().filter(|(server, _)| is_current(server));
                let items: Vec<Bytes> = current.flat_map(|(_, items)| items).collect();
                results::merged_list(&request.id, request.era(), &member, &items, ttl)
            }
            Err(line) => line.unwrap_or_else(|| reply::error(Some(&request.id), &request.unknown())),
        };
        self.output.send([line]);
    }

    /// Cancels the calls for a request that several servers answer. `line` is the agent's cancellation.
    fn cancel_subrequests(&mut self, id: &Bytes, line: &Bytes) {
        while let Some(UnansweredCall { key, server, record, on_response, .. }) = self.unanswered.remove(id) {
            self.recorder.end(record, Some(&server), CallOutcome::Cancelled, 0);
            server.cancel_soon(key, Some(Cancellation { line: line.clone(), request: id.clone() }));
            // The server may have accepted it already.
            if let OnResponse::Topic(topic) = on_response
                && !self.subscriptions.resources().contains(&topic.uri)
            {
                server.subscribe_soon(self.agent.for_servers(), ResourceSubscriptionChange { begins: false, ..*topic });
            }
        }
    }

    /// The server of a request. The agent may unsubscribe from a resource where it has subscribed, even if nobody lists it any more, and may
    /// use a resource that a result has named.
    fn target<'a>(&self, request: &ForwardableRequest, view: &'a View) -> Option<RouteTarget<'a>> {
        let resources = self.subscriptions.resources();
        let subscribed = (request.forwarding == Forwarding::Unsubscribe)
            .then(|| resources.server_of(&request.exposed_name, &self.unanswered));
        let subscribed = subscribed
            .flatten()
            .and_then(|server| view.servers.iter().position(|member| member.handle.is_same(server)));
        let uses_named = matches!(request.forwarding, Forwarding::ReadResource | Forwarding::Subscribe);
        let named = || {
            let server = if uses_named { self.view.server_of_named(&request.exposed_name, view) } else { None };
            server.map(RouteTarget::Unlisted)
        };
        subscribed.map(RouteTarget::Server).or_else(|| request.target(&view.catalog)).or_else(named)
    }

    fn send_to(&mut self, mut request: ForwardableRequest, target: RouteTarget<'_>, view: &View) {
        let Some(member) = view.servers.get(target.server()) else { return self.unknown(&request) };
        if let RouteTarget::OfInterface(exposed, _) = target {
            request.exposed_name = Bytes::copy_from_slice(exposed.as_bytes());
        }
        let (tool, rename, time_limits) = match target {
            RouteTarget::Route(route) | RouteTarget::OfInterface(_, route) => {
                let tool = (request.target_kind == TargetKind::Tool).then_some(route);
                let is_own = request.exposed_name == route.name.as_bytes();
                let rename = (!is_own).then(|| (request.raw_exposed_name.clone(), route.raw_name.clone()));
                (tool, rename, route.limit)
            }
            RouteTarget::Server(_) | RouteTarget::Unlisted(_) => (None, None, member.config.settings.request_limit()),
        };
        let (access, kind) = (request.access_target(target), request.kind());
        let server = &member.handle;
        self.send(request, Destination { member, server, tool, rename, access, time_limits, kind }, view);
    }

    /// Sends a request about a task to the instance that runs the task.
    fn send_task(&mut self, request: ForwardableRequest, act: TaskOperation) {
        let view = self.view.legacy();
        let Some((task_tool, instance)) = self.tasks.tool_of_task(&request.exposed_name, &view) else {
            return self.end_unforwarded(&request, &unknown_task(&request.exposed_name), CallOutcome::UnknownTool);
        };
        let TaskTool { member, route, .. } = task_tool;
        let time_limits = match act {
            TaskOperation::Result => route.limit,
            TaskOperation::Get | TaskOperation::Cancel => member.config.settings.request_limit(),
        };
        let (access, kind) = (Some(task_tool.access()), request.kind());
        let server = &instance;
        self.send(request, Destination { member, server, tool: None, rename: None, access, time_limits, kind }, &view);
    }

    /// Sends a modern request about a task to the server whose tool made the task.
    fn send_modern_task(&mut self, request: ForwardableRequest) {
        if !request.supports_tasks() {
            let error = missing_task_support();
            return self.end_unforwarded(&request, &error, CallOutcome::Error { code: Some(error.code.into()) });
        }
        let view = self.view.modern(request.face.as_ref());
        let Some((task_tool, TaskTokenContents { instance_tag, id, .. })) =
            self.tasks.tool_of_token(&request.exposed_name, &view)
        else {
            return self.unknown(&request);
        };
        let rename = Some((request.raw_exposed_name.clone(), Bytes::from(json!(id).to_string())));
        let [token, task_id] = [&request.exposed_name, id.as_bytes()].map(Bytes::copy_from_slice);
        let kind = RequestKind::ModernTask(Box::new(ModernTaskRequest { id: token, task_id, instance_tag }));
        let (access, member) = (Some(task_tool.access()), task_tool.member);
        let (server, time_limits) = (&member.handle, member.config.settings.request_limit());
        self.send(request, Destination { member, server, tool: None, rename, access, time_limits, kind }, &view);
    }

    /// Sends a request to a server, unless the agent has too much unanswered.
    fn send(&mut self, request: ForwardableRequest, to: Destination<'_>, view: &View) {
        if let Err(line) = self.send_call(request, to, view, None) {
            self.output.send([line]);
        }
    }

    /// Sends a call and returns its key. `Err` has the response line if the agent has too much unanswered.
    fn send_call(
        &mut self,
        request: ForwardableRequest,
        to: Destination<'_>,
        view: &View,
        on_response: Option<OnResponse>,
    ) -> Result<CallKey, Bytes> {
        let Destination { member, server, tool, rename, access, time_limits, kind } = to;
        // Not recorded: such calls would displace others in the history. They are counted.
        let is_subrequest = on_response.is_some();
        let permit = (!is_subrequest).then(|| self.unanswered.permit(request.line.len(), Instant::now()));
        let permit = permit
            .transpose()
            .map_err(|reached| reply::error(Some(&request.id), &reached.to_object(Delivery::NotSent)))?;
        let named = tool.map(|tool| &tool.name);
        let record = self.recorder.begin(&request, server.name(), named, member.config.settings.log_arguments);
        if let Some(limit) = self.exceeded_limit(&request, &kind) {
            let line = reply::error(Some(&request.id), &overloaded(limit));
            self.recorder.end(record, Some(server), CallOutcome::Overloaded, line.len());
            return Err(line);
        }
        let own_name = access.as_ref().and_then(AccessTarget::own_name).cloned();
        let is_of_skills = access.as_ref().is_some_and(|access| access.is_of(SKILLS));
        let access = access.map(|target| self.access(&request, target, member, view));
        let key = self.unanswered.next_key();
        if !is_subrequest {
            self.agent.count_call();
        }
        let response_handle = ResponseHandle::new(key, &request.id, server.name(), self.agent.to_session());
        let id = response_handle.id().clone();
        let on_response = on_response.unwrap_or_else(|| match &kind {
            RequestKind::ResourceSubscription(subscription) => OnResponse::Subscription(subscription.clone()),
            // Copied, so that a small name does not keep a large line in memory.
            RequestKind::NewTask => OnResponse::NewTask { tool: Bytes::copy_from_slice(&request.exposed_name) },
            _ if request.forwarding == Forwarding::Complete => OnResponse::Completion(request.era()),
            _ if is_of_skills => {
                let unknown = reply::error(Some(&request.id), &request.unknown_skill());
                let (era, face) = (request.era(), request.face.clone());
                OnResponse::Skill(Box::new(SkillRequest { era, face, unknown }))
            }
            _ => {
                let replacement = self.tasks.tokens().id_replacement(&request, server.name(), own_name);
                replacement.map_or(OnResponse::Nothing, OnResponse::ReplaceTaskId)
            }
        });
        if matches!(on_response, OnResponse::Subscription(_) | OnResponse::Topic(_) | OnResponse::NewTask { .. }) {
            // The server ends the subscription or the task when the agent disconnects.
            self.view.attach_for_disconnect(server, self.agent.for_servers());
        }
        let origin = self.agent.origin(request.modern.as_ref());
        let ForwardableRequest { line, id: request_id, progress_token, method, .. } = request;
        let rename = rename.map(|(exposed, server_name)| Rename { exposed, server_name });
        let request = RequestLine { line, id: request_id, rename, progress_token };
        let result_kind = match method.result {
            Some(ResultKind::Call) if tool.is_some_and(|tool| tool.has_output_schema) => {
                Some(ResultKind::StructuredCall)
            }
            result => result,
        };
        let call = Box::new(Call { request, kind, result_kind, limit: time_limits, origin, access, response_handle });
        if is_subrequest {
            server.call_soon(call);
        } else {
            let unsent = record.in_scope(|| server.try_call(call));
            self.command = unsent.map(|call| ServerCommand::Call(server.clone(), call));
        }
        self.unanswered.insert(id, UnansweredCall { key, server: server.clone(), record, on_response, permit });
        Ok(key)
    }

    /// The permission of a request that `view` leads to `member`.
    fn access(&self, request: &ForwardableRequest, target: AccessTarget, member: &Member, view: &View) -> Box<Access> {
        let (error_kind, era) = (request.target_kind, request.era());
        // Copied, so that a small name does not keep a large line in memory.
        let requested_name = Bytes::copy_from_slice(&request.exposed_name);
        let (current, lists) = (self.view.exposure(era, request.face.as_ref()), identity(&member.lists));
        Box::new(Access { view: current, target, error_kind, requested_name, era, version: view.version(), lists })
    }

    /// The limit that this request would exceed, as the text of the error.
    fn exceeded_limit(&mut self, request: &ForwardableRequest, kind: &RequestKind) -> Option<&'static str> {
        if !self.unanswered.has_room_for(request.line.len()) {
            return Some(TOO_LARGE);
        }
        if self.is_full() {
            return Some(TOO_MANY);
        }
        match kind {
            RequestKind::ResourceSubscription(subscription)
                if !self.subscriptions.resources().has_room_for(subscription, &self.unanswered) =>
            {
                Some(TOO_MANY_SUBSCRIPTIONS)
            }
            RequestKind::NewTask if !self.tasks.has_room(&self.unanswered) => Some(TOO_MANY_TASKS),
            _ => None,
        }
    }

    /// Whether the daemon is stopping. Parked requests are refused then.
    fn is_stopping(&self) -> bool {
        self.agent.to_session().daemon_is_stopping()
    }

    fn permit_parking(&self, bytes: usize) -> Result<RequestBytes, ErrorObject> {
        if self.is_full() {
            return Err(overloaded(TOO_MANY));
        }
        if !self.unanswered.has_room_to_park() {
            return Err(overloaded(TOO_LARGE));
        }
        self.unanswered.permit_parking(bytes).map_err(|reached| reached.to_object(Delivery::NotSent))
    }

    async fn retry_parked(&mut self) {
        for (request, permit) in self.unanswered.take_parked() {
            self.route_with(request, Some(permit));
            self.send_command().await;
        }
    }

    /// Unknown and denied names get the same bytes.
    fn unknown(&mut self, request: &ForwardableRequest) {
        self.end_unforwarded(request, &request.unknown(), CallOutcome::UnknownTool);
    }

    /// Answers a request that reaches no server with an error.
    fn end_unforwarded(&mut self, request: &ForwardableRequest, error: &ErrorObject, outcome: CallOutcome) {
        let line = reply::error(Some(&request.id), error);
        self.recorder.record_unforwarded(request, outcome, line.len());
        self.output.send([line]);
    }

    /// Answers a request that is parked, or would have to be, with an error.
    fn end_parked(&mut self, parked: &ParkableRequest, error: &ErrorObject, outcome: CallOutcome) {
        match parked {
            ParkableRequest::Forward { request, .. } => self.end_unforwarded(request, error, outcome),
            ParkableRequest::List { id, .. }
            | ParkableRequest::Handshake { id, .. }
            | ParkableRequest::Listen { id, .. } => self.output.respond_error(Some(id), error),
        }
    }

    /// Whether a request with this id is unanswered.
    fn is_unanswered(&self, id: &Bytes) -> bool {
        self.unanswered.contains(id) || self.tasks.has_page(id) || self.subscriptions.contains(id)
    }

    /// Whether a request is unanswered, besides `subscriptions/listen`, which stays open.
    fn owes_responses(&self) -> bool {
        !self.unanswered.is_empty() || self.tasks.pages() > 0
    }

    fn is_full(&self) -> bool {
        self.unanswered.len() + self.tasks.pages() + self.subscriptions.len() >= MAX_UNANSWERED_PER_SESSION
    }

    // Messages of servers.

    fn deliver(&mut self, message: ToAgent) {
        match message {
            ToAgent::Response { key, line, outcome, task, .. } => self.response(key, line, outcome, task),
            ToAgent::CallNotification { key, line } => self.notify(OutgoingNotification { key: Some(key), line }),
            ToAgent::ServerNotification(notification) => self.server_notification(notification),
            ToAgent::Request(request) if !self.permits_request(&request) => {
                request.response_handle.unable(request.capability);
            }
            ToAgent::Request(request) => {
                self.server_requests.receive(*request, &self.agent, &mut self.output, &mut self.events);
            }
        }
    }

    /// Whether policy permits the request. Only extensions can be hidden.
    fn permits_request(&self, request: &ForwardedRequest) -> bool {
        let method = || members(&request.line, ["method"]).ok().and_then(|[method]| text(&method?));
        request.capability != ClientCapability::Extension
            || method().is_some_and(|method| {
                let (server, method) = (request.response_handle.server(), String::from_utf8_lossy(&method));
                self.view.legacy().permits_message(server, &method, Era::Legacy)
            })
    }

    /// Answers the agent with the response of a server. A cancelled call gets nothing. Its id may be in use again, so the call is found
    /// by its key.
    fn response(&mut self, key: CallKey, line: Bytes, outcome: CallOutcome, task: Option<Box<TaskEvent>>) {
        let (output, is_current) = self.output_and_filter();
        output.flush_or_drop_delayed(key, is_current);
        let Some((id, call)) = self.unanswered.remove_call(key) else {
            let (tasks, context) = self.task_pages();
            return tasks.polled(key, outcome, task.map(|task| *task), context);
        };
        let is_unknown = outcome == CallOutcome::Error { code: Some(METHOD_NOT_FOUND.into()) };
        let lacks = |path: &[&str]| is_unknown && !call.server.published().declares(path);
        let (line, outcome) = match &call.on_response {
            OnResponse::ReplaceTaskId(replacement) => {
                (self.tasks.tokens().replace_id(replacement, task.as_deref(), line), outcome)
            }
            // The agent sees these capabilities because another server has them, or because its server was not known yet, so −32601 is
            // replaced.
            OnResponse::Completion(era) if lacks(&["completions"]) => {
                (results::empty_completion(&id, *era), CallOutcome::Ok)
            }
            OnResponse::Subscription(_) if lacks(&["resources", "subscribe"]) => {
                let refusal = no_subscriptions(call.server.name());
                (reply::error(Some(&id), &refusal), CallOutcome::Error { code: Some(refusal.code.into()) })
            }
            OnResponse::Skill(sent) => (self.visible_skill(sent, call.server.name(), line), outcome),
            _ => (line, outcome),
        };
        let early = task.map_or_else(|| Ok(Vec::new()), |task| self.tasks.apply_response(&call, *task));
        let (line, outcome) = match early {
            Ok(early) => {
                if self.agent.version_has(TASK_STATUS) {
                    early.into_iter().for_each(|line| self.notify_line(line));
                }
                (line, outcome)
            }
            Err(error) => (reply::error(Some(&id), &error), CallOutcome::Malformed),
        };
        let UnansweredCall { server, record, on_response, .. } = call;
        let is_subrequest = matches!(on_response, OnResponse::Subrequest);
        let is_success = matches!(outcome, CallOutcome::Ok | CallOutcome::ToolError);
        if let OnResponse::Topic(topic) = on_response {
            self.recorder.end(record, Some(&server), outcome, line.len());
            self.subscriptions.topic_answered(&id, is_success.then_some((&*topic, &server)));
            // The server may have been replaced meanwhile.
            self.update_subscriptions();
            return self.continue_listen(&id);
        }
        if let OnResponse::Subscription(subscription) = on_response
            && is_success
            && self.subscriptions.resources_mut().accepted(*subscription, &server)
        {
            // The server may have been replaced meanwhile, or may have ended the subscription for others, too.
            self.update_subscriptions();
        }
        let (line, outcome) = match self.refused_response(&line, outcome, server.name(), is_subrequest) {
            Some((error, outcome)) => (reply::error(Some(&id), &error), outcome),
            None => (line, outcome),
        };
        self.recorder.end(record, Some(&server), outcome, line.len());
        if is_subrequest {
            return self.subrequest_answered(&id, key, &line);
        }
        if matches!(outcome, CallOutcome::Ok | CallOutcome::ToolError) {
            self.view.note_result(server.name(), &line);
        }
        self.output.send([line]);
    }

    /// The error in place of a response that the agent may not receive: it claims to be of mcpd, or is too large.
    fn refused_response(
        &self,
        line: &Bytes,
        outcome: CallOutcome,
        server: &Arc<str>,
        is_subrequest: bool,
    ) -> Option<(ErrorObject, CallOutcome)> {
        if matches!(outcome, CallOutcome::Error { .. }) && speaks_for_daemon(line) {
            return Some((reserved(server), CallOutcome::Malformed));
        }
        let limit = Some(self.output.limit()).filter(|limit| !is_subrequest && !limit.permits(line))?;
        let failure = Failure::ResponseTooLarge { size: Some(line.len() - 1), limit: limit.clone() };
        let error = CallError { server: Arc::clone(server), failure, may_have_arrived: true };
        Some((error.to_object(), CallOutcome::TooLarge))
    }

    /// The response of a server with rules on skills, without what policy hides. An unknown skill gets the same bytes as a denied one.
    fn visible_skill(&self, sent: &SkillRequest, server: &str, line: Bytes) -> Bytes {
        let view = self.view.of(sent.era, sent.face.as_ref());
        let member = view.servers.iter().find(|member| *member.config.name == *server);
        match (member, error_in(&line)) {
            (Some(Member { config, .. }), None) => {
                visible_response(&line, &config.policy).unwrap_or(sent.unknown.clone())
            }
            (Some(Member { config, .. }), Some(error)) if config.policy.narrows_skills() && means_unknown(&error) => {
                sent.unknown.clone()
            }
            (Some(_), Some(_)) => line,
            (None, _) => sent.unknown.clone(),
        }
    }

    fn server_notification(&mut self, notification: ServerNotification) {
        match notification {
            ServerNotification::Updated(updated) => self.resource_updated(*updated),
            // A message of an unknown level is always sent.
            ServerNotification::Logged { level: Some(level), .. }
                if self.agent.level().is_some_and(|least| level < least) => {}
            ServerNotification::Logged { line, .. } => self.notify_line(line),
            ServerNotification::ElicitationCompleted(line) => {
                if self.agent.version_has(ELICITATION_COMPLETE) {
                    self.notify_line(line);
                }
            }
            ServerNotification::LegacyTaskStatus(status) => {
                let LegacyTaskStatus { state, line } = *status;
                if self.tasks.update(state, &self.view.legacy()) && self.agent.version_has(TASK_STATUS) {
                    self.notify_line(line);
                }
            }
            ServerNotification::ModernTaskStatus(update) => {
                self.view.note_result(&update.server, &update.line);
                let notifications = self.subscriptions.task_updated(&update, &self.view);
                notifications.into_iter().for_each(|notification| self.notify(notification));
            }
            ServerNotification::Extension(notification) => {
                let ExtensionNotification { server, era, method, line } = *notification;
                let is_listening = era == Era::Modern || self.agent.is_ready();
                if is_listening && self.view.of(era, None).permits_message(&server, &method, era) {
                    self.notify_line(line);
                }
            }
        }
    }

    fn resource_updated(&mut self, ResourceUpdate { server, uri, line }: ResourceUpdate) {
        if !self.view.permits_resource(&server, &uri) {
            return;
        }
        let notifications = self.subscriptions.resource_updated(&uri, &line);
        notifications.into_iter().for_each(|notification| self.notify(notification));
        if self.subscriptions.resources().include(&uri, &self.unanswered) {
            self.notify_line(line);
        }
    }

    /// Sends a notification. An agent that is behind loses the oldest.
    fn notify(&mut self, notification: OutgoingNotification) {
        let (output, is_current) = self.output_and_filter();
        output.notify(notification, is_current);
    }

    /// Sends a notification of no call.
    fn notify_line(&mut self, line: Bytes) {
        self.notify(OutgoingNotification { key: None, line });
    }

    /// The output, and a predicate: whether the call or subscription with this key may still be sent notifications.
    fn output_and_filter(&mut self) -> (&mut Output, impl Fn(CallKey) -> bool) {
        let Self { output, unanswered, tasks, subscriptions, view, .. } = self;
        let is_current = |key| {
            unanswered.contains_call(key)
                || tasks.has_running_task(key, &view.legacy())
                || subscriptions.contains_call(key)
        };
        (output, is_current)
    }

    // What the agent sees.

    async fn show(&mut self, view: watch::Receiver<Arc<View>>) {
        if self.view.show(view, &mut self.events) {
            self.view_changed().await;
        }
    }

    async fn view_changed(&mut self) {
        self.attach();
        self.retry_parked().await;
        self.announce_list_changes();
    }

    /// Attaches the agent to the servers that need it.
    fn attach(&mut self) {
        if self.agent.is_introduced() {
            self.view.attach_where_needed(&self.agent.for_servers(), &mut self.events);
            self.update_subscriptions();
        }
    }

    /// Begins and ends subscriptions at servers that were replaced, or where policy has changed.
    fn update_subscriptions(&mut self) {
        let agent = self.agent.for_servers();
        for (server, subscription) in self.subscriptions.resources_mut().changes_for(&self.view.legacy()) {
            self.view.attach_for_disconnect(&server, agent.clone());
            server.subscribe_soon(agent.clone(), subscription);
        }
    }

    /// Notifies the agent of lists that have changed: once, however often they did, and only if there is room.
    fn announce_list_changes(&mut self) {
        if !self.output.has_room() {
            return;
        }
        self.subscriptions.send_list_changes(&self.view, &mut self.output);
        if self.agent.is_ready() {
            for kind in self.view.changed_lists() {
                self.output.send([reply::notification(kind.change_notification())]);
            }
        }
    }
}

fn read_list(
    kind: ListKind,
    id: Bytes,
    params: Option<&Bytes>,
    (era, face): (Era, Option<Arc<str>>),
) -> Result<ParkableRequest, ErrorObject> {
    match params.map(|params| members(params, ["cursor"])) {
        Some(Err(_)) => Err(invalid("`params` is not an object")),
        Some(Ok([Some(cursor)])) if cursor[..] != b"null"[..] => Err(invalid(UNKNOWN_CURSOR)),
        _ => Ok(ParkableRequest::List { id, kind, era, face }),
    }
}

/// A `subscriptions/listen` waits for the first lists, because its acknowledgement would omit resources that are not listed yet.
fn read_listen(
    id: &Bytes,
    params: Option<&Bytes>,
    supports_tasks: bool,
    face: Option<Arc<str>>,
) -> Result<ParkableRequest, ErrorObject> {
    let params = params.ok_or_else(|| invalid("the params are missing"))?;
    let filter = Filter::read(params).map_err(invalid)?;
    if !filter.tasks.is_empty() && !supports_tasks {
        return Err(missing_task_support());
    }
    // The id outlives the line.
    Ok(ParkableRequest::Listen { id: Bytes::copy_from_slice(id), filter, face })
}

/// The error for an unknown name. It explains a call of an exposed tool by its unprefixed name.
fn unknown_in(request: &ForwardableRequest, view: &View) -> ErrorObject {
    let mut error = request.unknown();
    let mut routes = view.catalog.routes(ListKind::Tools).filter(|_| request.target_kind == TargetKind::Tool);
    if let Some((exposed, route)) = routes.find(|(_, route)| request.is_own_name(route) && route.is_for(request.era()))
        && let Some(Member { config, .. }) = view.servers.get(route.server)
    {
        let hint = format!(
            "; the tool is `{exposed}` here. To use unprefixed names, connect with `mcpd connect --server {}`",
            config.name
        );
        error.message.push_str(&hint);
    }
    error
}

/// Whether the server exposes this extension with the method of a request that several servers answer.
fn is_owner(request: &ForwardableRequest, extension: &str, member: &Member) -> bool {
    let method = request.extension.as_ref().map(|extension| &*extension.method);
    method.is_some_and(|method| member.owner(method, request.era()).is_some_and(|owner| *owner == *extension))
}

/// The response line of a server that has not received its part of a request.
fn failed_part(request: &ForwardableRequest, member: &Member, failure: Failure) -> Bytes {
    let server = Arc::clone(&member.config.name);
    let error = CallError { server, failure, may_have_arrived: false }.to_object();
    reply::error(Some(&request.id), &error)
}

/// Whether a raw error means that the server does not have the requested item.
fn means_unknown(error: &Bytes) -> bool {
    let error = serde_json::from_slice::<ErrorObject>(error);
    error.is_ok_and(|error| matches!(error.code, INVALID_PARAMS | RESOURCE_NOT_FOUND))
}

fn invalid(why: impl Into<String>) -> ErrorObject {
    ErrorObject::new(INVALID_PARAMS, why)
}

/// Whether an error of a server claims that the daemon is stopping: `mcpd connect` would resend requests because of it.
fn speaks_for_daemon(line: &Bytes) -> bool {
    error_in(line).is_some_and(|error| is_refusal_of_stopping_daemon(&error))
}

fn reserved(server: &str) -> ErrorObject {
    let message = format!("server `{server}` answered with an error that is reserved for mcpd");
    ErrorObject::new(INTERNAL_ERROR, message).about_server(server).with_delivery(Delivery::Unknown)
}

fn no_subscriptions(server: &str) -> ErrorObject {
    invalid(format!("server `{server}` does not support resource subscriptions")).about_server(server)
}

fn overloaded(what: &str) -> ErrorObject {
    ErrorObject::of_mcpd(ErrorCode::Overloaded, what, Delivery::NotSent)
}

fn stopping() -> ErrorObject {
    ErrorObject::of_mcpd(ErrorCode::ShuttingDown, "mcpd is being stopped", Delivery::NotSent).by_stopping_daemon()
}

fn profile_removed_error(delivery: Delivery) -> ErrorObject {
    ErrorObject::of_mcpd(ErrorCode::ShuttingDown, "the profile of this connection was removed", delivery)
}
