//! The sessions of connected agents.
//!
//! Each is charged to the account of its user. While connections together hold too much, some are closed. A connection over HTTP is
//! charged like a session, and serves sessions of its agent.

mod refusals;
mod transports;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;

use self::refusals::Refusals;
use super::admission::may_connect;
use super::agent_sockets::{AgentSockets, ProfileListener};
use super::lifecycle::Lifecycle;
use crate::account::{Account, Accounts, Held, LimitUse};
use crate::admin::report::{AgentReport, QuotaReport};
use crate::calls::History;
use crate::config::{DaemonConfig, Profile};
use crate::http_listener::token::Token;
use crate::http_listener::{self, OpenSession, Protocol};
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::reply::ErrorObject;
use crate::logging::Limiter;
use crate::manager::report::millis;
use crate::manager::{Manager, ServedProfile};
use crate::message_limit::{MessageLimit, buffer_unit};
use crate::otlp::Tracer;
use crate::server::{StopReceiver, User};
use crate::session::{DrainOrder, PeerIdentity, SessionOrders, SessionSetup, SessionStatus, TaskTokenKey};
use crate::tap::Tap;

/// Agents connected at once, or half as many as there may be open files if that is less; one more gets −31003 and its
/// connection is closed.
const MAX_SESSIONS: usize = 4096;
/// Time for sessions to write their last answers, which have a shorter limit of their own.
const LAST_SESSIONS: Duration = Duration::from_secs(1);
/// Capacity of the queue of HTTP sessions to open; further ones wait.
const OPEN_QUEUE: usize = 16;

pub(super) struct Sessions {
    limits: DaemonConfig,
    history: History,
    tracer: Tracer,
    task_token_key: Arc<TaskTokenKey>,
    warnings: Arc<Limiter>,
    stopping: StopReceiver,
    drain: DrainOrder,
    /// Raised when no server is left: sessions write their last answers and end.
    closing: watch::Sender<bool>,
    accounts: Arc<Accounts>,
    tasks: JoinSet<()>,
    refusals: Refusals,
    connected: HashMap<Id, ConnectedAgent>,
    /// HTTP sessions, which connections serve.
    http: http_listener::Sessions,
    /// Requests for such sessions.
    openings: mpsc::Receiver<OpenSession>,
    /// The number of agents, which the service manager's status line follows.
    count: watch::Sender<usize>,
    last_number: u64,
    tap: Tap,
}

/// One connected agent, or an HTTP connection.
struct ConnectedAgent {
    number: u64,
    profile: Arc<str>,
    peer: PeerIdentity,
    since: Instant,
    status: Arc<SessionStatus>,
    /// Unset until its first byte.
    protocol: Arc<OnceLock<Protocol>>,
    /// Whether connections serve it.
    is_http_session: bool,
    /// Ends the session after its calls; `None` once used.
    leave: Option<oneshot::Sender<()>>,
    /// Closes the connection at once; `None` once used.
    cut_off: Option<oneshot::Sender<ErrorObject>>,
}

/// An agent that may have a session.
struct Admitted {
    user: Arc<User>,
    peer: PeerIdentity,
    /// The server that has started it, if one has.
    own_server: Option<Arc<str>>,
    account: Arc<Account>,
    /// Unset until its first byte.
    protocol: Arc<OnceLock<Protocol>>,
    /// Whether connections serve its session.
    is_http_session: bool,
}

impl Sessions {
    /// `limits`: the `[daemon]` table.
    pub(super) fn new(
        limits: DaemonConfig,
        history: History,
        task_token_key: TaskTokenKey,
        warnings: Arc<Limiter>,
        lifecycle: &Lifecycle,
        tap: Tap,
    ) -> Self {
        let open_files = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        let max_sessions = open_files.map_or(MAX_SESSIONS, |files| MAX_SESSIONS.min(files / 2));
        let (open, openings) = mpsc::channel(OPEN_QUEUE);
        Self {
            accounts: Accounts::new(max_sessions, buffer_unit(limits.max_message_bytes)),
            tracer: Tracer::start(limits.otlp_endpoint.as_deref()),
            limits,
            history,
            task_token_key: Arc::new(task_token_key),
            warnings,
            stopping: lifecycle.ending(),
            drain: lifecycle.drain(),
            closing: watch::Sender::new(false),
            tasks: JoinSet::new(),
            refusals: Refusals::default(),
            connected: HashMap::new(),
            http: http_listener::Sessions::new(open),
            openings,
            count: watch::Sender::new(0),
            last_number: 0,
            tap,
        }
    }

    /// Watches the number of connected agents.
    pub(super) fn watch_count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// How many agents of a profile may connect at once.
    pub(super) fn burst(&self, profile: &Profile) -> usize {
        self.accounts.ledger().burst(profile)
    }

    /// Opens the session of an admitted agent. `serve` makes the task that it runs in.
    fn open<T: Future<Output = ()> + Send + 'static>(
        &mut self,
        at: &ProfileListener,
        admitted: Admitted,
        manager: &Manager,
        serve: impl FnOnce(SessionSetup, SessionOrders) -> T,
    ) {
        let Admitted { user, peer, own_server, account, protocol, is_http_session } = admitted;
        let ServedProfile { profile, view } = at.served.clone();
        self.last_number += 1;
        let (number, status) = (self.last_number, Arc::new(SessionStatus::default()));
        let message_limit = MessageLimit::new(
            format_args!("profiles.{}", profile.name),
            profile.quotas.max_message,
            self.limits.max_message_bytes,
        );
        let setup = SessionSetup {
            number,
            identity: peer.clone(),
            guest_roots: user.is_guest.then(|| Arc::clone(&profile.workspace_roots)),
            user,
            history: self.history.clone(),
            figures: manager.figures().clone(),
            tracer: self.tracer.clone(),
            view,
            named_uris: Arc::clone(&at.named_uris),
            own_server,
            agent_views: manager.agent_views(&profile.name),
            message_limit,
            first_list_wait: self.limits.first_list_wait,
            stopping: self.stopping.clone(),
            drain: self.drain.clone(),
            closing: self.closing.subscribe(),
            status: Arc::clone(&status),
            warnings: Arc::clone(&self.warnings),
            account,
            task_token_key: Arc::clone(&self.task_token_key),
            tap: self.tap.of_agent(number, peer.pid, {
                let status = Arc::clone(&status);
                move || status.introduction()?.client.clone()
            }),
        };
        let ((leave, left), (cut_off, closed)) = (oneshot::channel(), oneshot::channel());
        let task = self.tasks.spawn(serve(setup, SessionOrders { profile_removed: left, cut_off: closed }));
        let agent = ConnectedAgent {
            number,
            profile: Arc::clone(&profile.name),
            peer,
            since: Instant::now(),
            status,
            protocol,
            is_http_session,
            leave: Some(leave),
            cut_off: Some(cut_off),
        };
        self.connected.insert(task.id(), agent);
        self.count.send_replace(self.agents().count());
    }

    /// Applies these profiles to the agents. Disconnects those whose profile was removed, has left their loopback address, or no longer
    /// allows them.
    pub(super) fn apply(&mut self, profiles: &[ServedProfile]) {
        let profiles = profiles.iter().map(|served| &served.profile);
        self.accounts.ledger().apply(profiles.clone(), may_connect);
        for agent in self.connected.values_mut() {
            let profile = profiles.clone().find(|profile| profile.name == agent.profile);
            let is_served = |profile: &&Arc<Profile>| agent.protocol().is_served(profile.http);
            if !profile.filter(is_served).is_some_and(|profile| may_connect(profile, agent.peer.uid)) {
                // The session may have ended already.
                let _ = agent.leave.take().map(|leave| leave.send(()));
            }
        }
    }

    /// Ends the HTTP sessions that use another token of a profile than its current one.
    pub(super) fn keep_tokens(&self, current: &[(Arc<str>, Token)]) {
        self.http.keep_tokens(current);
    }

    /// Handles the end of a session, an HTTP session to open, or an exceeded limit of what connections hold. Cancel safe.
    pub(super) async fn changed(&mut self, sockets: Option<&AgentSockets>, manager: &Manager) {
        tokio::select! {
            Some(ended) = self.tasks.join_next_with_id() => {
                self.connected.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
                self.count.send_replace(self.agents().count());
            }
            Some(request) = self.openings.recv() => self.open_http(request, sockets, manager),
            () = self.accounts.exceeded() => self.relieve(),
        }
    }

    /// Closes connections until the others are within the limits of what they hold.
    fn relieve(&mut self) {
        let surplus = self.accounts.ledger().take_surplus(Instant::now());
        for (Held { number, bytes, .. }, reason) in surplus {
            let Some(agent) = self.connected.values_mut().find(|agent| agent.number == number) else { continue };
            let (pid, uid, error) = (agent.peer.pid, agent.peer.uid, reason.to_object(Delivery::Unknown));
            if self.warnings.admits("cut off an agent", format_args!("user {uid} at profile {}", agent.profile)) {
                tracing::warn!(session = number, pid, uid, bytes, "cut off an agent: {}", error.message);
            }
            // It may have ended already.
            let _ = agent.cut_off.take().map(|order| order.send(error));
        }
    }

    /// Lets all sessions write their last answers and end, and the collector receive their spans.
    pub(super) async fn close(&mut self) {
        self.closing.send_replace(true);
        // Dropped requests are refused.
        self.openings.close();
        while self.openings.try_recv().is_ok() {}
        let all_ended = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(LAST_SESSIONS, all_ended).await.is_err() {
            tracing::warn!("some agents did not read their last answers in time");
        }
        if !self.tracer.finish().await {
            tracing::warn!("the last spans may be missing at the collector of `otlp_endpoint`");
        }
    }

    fn agents(&self) -> impl Iterator<Item = &ConnectedAgent> {
        self.connected.values().filter(|connected| connected.is_agent())
    }

    /// In the order in which they connected.
    pub(super) fn report(&self) -> Vec<AgentReport> {
        let mut agents: Vec<_> = self.agents().map(ConnectedAgent::report).collect();
        agents.sort_unstable_by_key(|agent| agent.session);
        agents
    }

    /// Whether an agent or a connection over HTTP is connected.
    pub(super) fn is_empty(&self) -> bool {
        self.connected.is_empty()
    }

    /// The number of agents at a profile.
    pub(super) fn count_at(&self, profile: &str) -> usize {
        self.agents().filter(|agent| *agent.profile == *profile).count()
    }

    /// The limits of all agents of a profile, and of those of each guest there.
    pub(super) fn quotas_at(&self, profile: &str) -> Vec<QuotaReport> {
        let quota = |(uid, LimitUse { name, limit, used, refused })| QuotaReport {
            key: name.to_owned(),
            uid,
            limit,
            used,
            refused,
        };
        self.accounts.ledger().report(profile).into_iter().map(quota).collect()
    }
}

impl ConnectedAgent {
    /// Whether it is an agent, not an HTTP connection.
    fn is_agent(&self) -> bool {
        self.protocol() == Protocol::Lines || self.is_http_session
    }

    /// Lines until its first byte.
    fn protocol(&self) -> Protocol {
        self.protocol.get().copied().unwrap_or(Protocol::Lines)
    }

    fn report(&self) -> AgentReport {
        let introduction = self.status.introduction();
        AgentReport {
            session: self.number,
            profile: self.profile.to_string(),
            profile_directory: self.status.profile_directory.get().cloned(),
            pid: self.peer.pid,
            uid: self.peer.uid,
            listener: self.protocol().word().to_owned(),
            client: introduction.and_then(|introduction| introduction.client.clone()),
            server: introduction.and_then(|introduction| introduction.face.as_deref()).map(str::to_owned),
            protocol: introduction.map(|introduction| introduction.protocol_version.to_owned()),
            connected_ms: millis(self.since.elapsed()),
            calls: self.status.calls.get(),
            dropped_notifications: self.status.dropped.get(),
            stray_responses: self.status.stray_responses.get(),
        }
    }
}
