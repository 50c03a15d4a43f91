//! Dispatches messages of the agent, messages of servers, and orders of the daemon: the loop of a session.
//!
//! A [`Session`] is one tokio task. Its components own its state, and it only passes messages between them. It never waits for a
//! server, only for space in a server's command queue.

mod delivery;
mod ending;
mod fan_out_driver;
mod forwarding;
mod requests;

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::FutureExt;
use tokio::sync::{oneshot, watch};

use super::agent::{AgentInfo, SessionStatus};
use super::agent_message::AgentMessage;
use super::call_record::CallRecorder;
use super::drain::{DrainOrder, UnfinishedWork};
use super::events::{Event, Events};
use super::named_uris::NamedUris;
use super::output::Output;
use super::running_calls;
use super::server_requests::ServerRequests;
use super::subscriptions::Subscriptions;
use super::task_directory::TaskDirectory;
use super::task_token::{TaskTokenKey, TaskTokens};
use super::transport::{Address, PeerIdentity, Transport};
use super::unanswered::{UnansweredCall, UnansweredRequests};
use super::view::SessionView;
use crate::account::Account;
use crate::calls::{CallOutcome, Caller, History};
use crate::era::Era;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::logging::Limiter;
use crate::manager::{AgentViewSource, Figures, View};
use crate::message_limit::MessageLimit;
use crate::otlp::Tracer;
use crate::server::messages::call::{Call, CallKey, SessionSender, ToAgent};
use crate::server::server_request::Cancellation;
use crate::server::{ServerHandle, StopReceiver, SubscriptionChange, User};
use crate::tap::TapPoint;

/// Number of agent messages that are handled in a row.
const BURST: usize = 64;

/// What a session is started with.
pub(crate) struct SessionSetup {
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
    pub(crate) figures: Figures,
    pub(crate) tracer: Tracer,
    /// Signals that the daemon begins to stop.
    pub(crate) stopping: StopReceiver,
    /// The order before a restart.
    pub(crate) drain: DrainOrder,
    /// Signals that the daemon has stopped its servers.
    pub(crate) closing: watch::Receiver<bool>,
    pub(crate) status: Arc<SessionStatus>,
    pub(crate) warnings: Arc<Limiter>,
    pub(crate) account: Arc<Account>,
    pub(crate) task_token_key: Arc<TaskTokenKey>,
    /// Where the transport notes messages.
    pub(crate) tap: TapPoint,
}

/// Orders of the daemon to one session.
pub(crate) struct SessionOrders {
    /// The profile is no longer available to the agent. The agent still receives the responses to its unanswered requests.
    pub(crate) profile_removed: oneshot::Receiver<()>,
    /// Several connections together use too much memory. This one receives the error and is closed at once.
    pub(crate) cut_off: oneshot::Receiver<ErrorObject>,
}

struct Session<T> {
    output: Output<T>,
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

/// What follows when everything is answered.
#[derive(Default)]
struct Drain {
    /// The agent has finished sending, so the session ends.
    is_half_closed: bool,
    /// The profile was removed, so the session ends.
    is_leaving: bool,
    /// The response to each further request, once requests are refused.
    refusal: Option<ErrorObject>,
    /// Dropped once everything is answered before a restart. The session stays until the daemon closes it.
    work: Option<UnfinishedWork>,
}

/// Why polling has stopped: work that has to `await`, or the end of the session.
enum Wakeup {
    /// There is a [`Session::command`].
    Command,
    Event(Event),
    Done,
}

/// Serves one agent until the agent disconnects, is disconnected, or the daemon stops.
pub(crate) async fn run(transport: impl Transport, setup: SessionSetup, orders: SessionOrders) {
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
    fn new(transport: T, setup: SessionSetup, orders: SessionOrders) -> Self {
        let SessionSetup { number, identity, user, view, own_server, status, message_limit, stopping, .. } = setup;
        let profile = Arc::clone(&user.profile);
        let (to_session, from_servers) = SessionSender::channel(Some(user.uid), Arc::clone(&status.dropped), stopping);
        let mut events = Events::new(from_servers);
        events.watch(view.clone());
        events.watch_closing(setup.closing);
        events.watch_questions(setup.history.questions());
        let work = setup.drain.begin_work();
        events.push(setup.drain.given().map(Event::Draining));
        events.watch_order(orders.profile_removed, |()| Event::ProfileRemoved);
        events.watch_order(orders.cut_off, Event::CutOff);
        let PeerIdentity { uid, pid, cwd } = identity;
        let caller = Caller { session: number, profile: Arc::clone(&profile), pid, uid, client: None };
        let tokens = TaskTokens::new(setup.task_token_key, Arc::clone(&profile));
        Self {
            unanswered: UnansweredRequests::new(number, Arc::clone(&setup.account)),
            output: Output::new(transport, message_limit, Arc::clone(&status.dropped), setup.account),
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
            recorder: CallRecorder::new(
                setup.history,
                setup.tracer,
                setup.warnings,
                setup.figures.durations().clone(),
                caller,
            ),
            command: None,
            drain: Drain { work, ..Drain::default() },
        }
    }

    async fn run(mut self) -> io::Result<()> {
        let ended = self.serve().await;
        if let Some(protocol) = self.agent.protocol_in_use() {
            self.recorder.count_session(protocol, ended.is_err());
        }
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
                Wakeup::Event(Event::RunningCalls(questions, sender)) => {
                    self.events.watch_questions(questions);
                    running_calls::report(&self.unanswered, self.recorder.caller(), &sender);
                }
                Wakeup::Event(Event::Withdrawn(id, withdrawal)) => {
                    self.server_requests.withdraw(id, withdrawal, &mut self.output);
                }
                Wakeup::Event(Event::ProfileRemoved) => self.begin_leaving(),
                Wakeup::Event(Event::ProfileRemovedTimeout) => {
                    self.end_calls().await;
                    return self.close().await;
                }
                Wakeup::Event(Event::Draining(wait)) => self.begin_draining(wait),
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
        self.output.publish_memory(self.unanswered.gathered_bytes());
    }

    /// Polls all sources in one function, because a future for each would double the cost of a small call.
    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Wakeup>> {
        loop {
            let written = self.poll_write(cx)?;
            let is_draining = self.drain.is_half_closed || self.drain.refusal.is_some();
            if is_draining && !self.owes_responses() && self.output.is_empty() {
                self.drain.work = None;
                if self.drain.is_half_closed || self.drain.is_leaving {
                    if self.subscriptions.len() > 0 {
                        self.subscriptions.end_listens(&mut self.output);
                        continue;
                    }
                    return Poll::Ready(Ok(Wakeup::Done));
                }
            }
            // Sources that can always be ready come last.
            if let Poll::Ready(event) = self.events.poll(cx) {
                return Poll::Ready(Ok(Wakeup::Event(event)));
            } else if let Poll::Ready(message) = self.events.poll_server(cx) {
                self.deliver_all(message)?;
            } else if !self.drain.is_half_closed
                && self.output.has_room()
                && let Poll::Ready(message) = self.output.transport().poll_message(cx)?
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
        self.output.poll_write(cx).map_ok(|written| {
            if written.caught_up {
                let (output, address) = self.output_and_address();
                output.send_delayed(address);
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
        self.events.push(self.output.transport().closed()?.map(|()| Event::HungUp));
        Ok(())
    }

    /// Handles what was read at once, so that the responses are written at once; a flood is interrupted for other work.
    fn receive_all(&mut self, first: AgentMessage) -> Option<Wakeup> {
        let mut message = first;
        for count in 1.. {
            self.receive(message);
            self.output.pause(self.unanswered.pause_after_message());
            if self.command.is_some() {
                return Some(Wakeup::Command);
            }
            if count == BURST || !self.output.has_room() {
                break;
            }
            message = self.output.transport().next_buffered()?;
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

    /// Whether a request with this id is unanswered.
    fn is_unanswered(&self, id: &Bytes) -> bool {
        self.unanswered.contains(id) || self.tasks.has_page(id) || self.subscriptions.contains(id)
    }

    /// Whether a request is unanswered, besides `subscriptions/listen`, which stays open.
    fn owes_responses(&self) -> bool {
        !self.unanswered.is_empty() || self.tasks.pages() > 0
    }

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
                self.output.send(Address::Session, reply::notification(kind.change_notification()));
            }
        }
    }
}
