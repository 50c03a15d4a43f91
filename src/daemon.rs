//! The composition root: configuration → sockets → manager → sessions → ordered stop.
//!
//! The only place that knows the order of shutdown. Must not touch: MCP methods, processes, JSON-RPC but for refusing a
//! connection.
//!
//! ```text
//! SIGTERM ─► agent sockets gone ─► servers finish their calls and end, in parallel
//!         ─► sessions write their last answers ─► admin socket gone ─► lock released
//! ```

mod agent_sockets;
mod error;
mod files;
mod limits;
mod notify;
mod operators;
mod pattern_check;
mod process;
mod reload;
mod status;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{OptionFuture, join};
use tokio::net::UnixStream;
use tokio::net::unix::UCred;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinHandle, JoinSet, yield_now};
use tokio::time::timeout;

use self::agent_sockets::{AgentSockets, PrepareSockets, ProfileListener, is_own, may_connect};
pub use self::error::DaemonError;
use self::limits::{ALL_GUESTS_SHARE, GUEST_SHARE, Holder, Refusals, SHARE, surplus};
use self::operators::{MAX_OPERATORS, Operators};
use self::pattern_check::PatternCheck;
pub(crate) use self::process::{cache_directory, logins};
use self::reload::{Refused, Reload};
use self::status::Connected;
use crate::admin;
use crate::admin::report::{AgentReport, ProfileReport, Report};
use crate::calls;
use crate::config::interpolate::Environment;
use crate::config::{DaemonConfig, Loaded, Stamp};
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::list_kind::ListKind;
use crate::logging;
use crate::manager;
use crate::manager::report::millis;
use crate::manager::{Manager, Served, Setup, Strays, View};
use crate::server::{
    self, Cgroups, Guard, Logins, ProcessAttributes, ServerContext, StartPermits, Stop, StopOrder, User, raise,
};
use crate::session::{self, Backlog, Budget, Orders, PeerIdentity, SessionStatus, TaskTokenKey};
use crate::signals;
use crate::sockets::{ADMIN_SOCKET, Activated, Listener, Presence, Reach, RuntimeDir, Standing};

/// Agents connected at once, or half as many as there may be open files if that is less; one more gets −31003 and its
/// connection is closed.
const MAX_SESSIONS: usize = 4096;
/// For servers to be ended when their manager is gone, which ends them at once.
const LAST_SERVERS: Duration = Duration::from_secs(5);
/// For sessions to write their last answers, which have a shorter limit of their own.
const LAST_SESSIONS: Duration = Duration::from_secs(1);
/// For the last calls to be written to their file, which has a shorter limit of its own.
const LAST_CALLS: Duration = Duration::from_secs(1);
/// Operators that wait to be told of a reload; one more waits for a place.
const RELOAD_PLACES: usize = 16;

/// What is written down, beside what is served.
struct Logs {
    calls: calls::Log,
    reader: calls::Reader,
    log: logging::Control,
}

struct Daemon {
    started: Instant,
    limits: DaemonConfig,
    max_sessions: usize,
    manager: Manager,
    view: watch::Receiver<Arc<View>>,
    profiles: watch::Receiver<Arc<[Served]>>,
    /// `None` once the daemon is being stopped.
    agents: Option<AgentSockets>,
    operator_listener: Listener,
    operators: Operators,
    sessions: JoinSet<()>,
    connected: HashMap<Id, Connected>,
    /// How many they are, for whoever watches.
    agent_count: watch::Sender<usize>,
    next_session: u64,
    task_token_key: Arc<TaskTokenKey>,
    /// From signals, and from the daemon itself if it has to end.
    stopping: (watch::Sender<Stop>, StopOrder),
    /// To the sessions, once no server is left.
    closing: (watch::Sender<Stop>, StopOrder),
    /// What agents leave unread and unfinished.
    budget: Arc<Budget>,
    refusals: Refusals,
    operator: admin::Access,
    calls: calls::Log,
    log: logging::Control,
    /// The configuration that was read last, if it is not valid.
    refused: watch::Receiver<Option<Refused>>,
    /// What the files of the configuration held that runs.
    stamps: watch::Receiver<Vec<Stamp>>,
}

/// The configuration that was read last, if it is not valid, and what the files held of the one that runs.
type LastRead = (watch::Receiver<Option<Refused>>, watch::Receiver<Vec<Stamp>>);

/// What operators want.
struct Asked {
    queries: mpsc::Receiver<admin::Query>,
    reloads: mpsc::Receiver<admin::ReloadAsked>,
}

fn server_context(
    config: &DaemonConfig,
    inherited: ProcessAttributes,
    cgroups: Cgroups,
    logins: Option<Logins>,
) -> ServerContext {
    ServerContext {
        inherited,
        max_message: config.max_message_bytes,
        start_permits: StartPermits::new(config.max_starting),
        cgroups,
        cache: cache_directory(),
        logins,
        serves_agents: true,
        ..ServerContext::new(Guard::available())
    }
}

/// Serves `loaded` in `directory`, servers with limits in `cgroups`, until a signal says otherwise. SIGHUP has it read again from
/// `files`, which were named at the start, or from the default files. Returns when no process and no socket is left.
///
/// # Errors
/// If the directory is unsafe or served by another daemon, or the system refuses; then nothing was started. If a task
/// of mcpd's own panicked; then everything has been ended.
pub async fn run(
    loaded: Loaded,
    files: Vec<PathBuf>,
    directory: &RuntimeDir,
    log: logging::Control,
    cgroups: Cgroups,
) -> Result<(), DaemonError> {
    let activated = Activated::take_over()?;
    let inherited = process::prepare()?;
    let (signals, task_token_key) = (signals::listen()?, TaskTokenKey::generate().map_err(io::Error::other)?);
    let mut lock = directory.lock()?;
    let loaded = Arc::new(loaded);
    let config = &loaded.config;
    let (calls, reader, keeper) = calls::start(config.daemon.calls.clone())?;
    let logins = process::logins();
    let host = server_context(&config.daemon, inherited, cgroups, logins.clone());
    let agents = AgentSockets::create(&config.profiles, &mut lock, activated)?;
    let sockets = (agents, lock.listen(ADMIN_SOCKET, Reach::Owner)?.with_reserve());
    let mut presence = Presence::new(lock)?;
    let first_list_wait = config.daemon.first_list_wait;
    let setup = Setup { naming: config.daemon.naming.clone(), host, first_list_wait, strays: Some(Strays::watch()) };
    let (manager, servers_ended) = Manager::spawn(setup, config.servers.clone(), config.profiles.clone())?;
    let refused = watch::Sender::new(None);
    let stamps = watch::Sender::new(loaded.stamps.clone());
    let last_read = (refused.subscribe(), stamps.subscribe());
    let (prepare_sockets, sockets_to_prepare) = mpsc::channel(reload::MOST + 1);
    let read = watch::Sender::new(loaded.files.clone());
    let changes =
        config.daemon.watch.then(|| files::run(read.subscribe(), files.is_empty(), Arc::clone(&signals.reload)));
    let limits = config.daemon.clone();
    let reload = Reload {
        environment: Environment::default(),
        files,
        held: loaded.files.clone(),
        read,
        daemon: config.daemon.clone(),
        patterns: PatternCheck::new(loaded, &manager),
        manager: manager.clone(),
        prepare_sockets,
        refused,
        stamps,
    };
    let logs = Logs { calls, reader, log };
    let stopping = (signals.stopper, signals.stop.clone());
    let (daemon, asked) = Daemon::new(sockets, manager, (limits, task_token_key), logs, (last_read, stopping));
    let (view, agents) = (daemon.view.clone(), daemon.agent_count.subscribe());
    let mut helpers = JoinSet::new();
    helpers.spawn(notify::run(notify::Facts { view, agents, stop: signals.stop }));
    helpers.spawn(reload.on(signals.reload, asked.reloads));
    changes.map(|changes| helpers.spawn(changes));
    let ended = daemon.serve(&mut presence, (asked.queries, sockets_to_prepare), servers_ended).await;
    // No session is left that could end a call, and no server that could begin a renewal.
    let renewals = OptionFuture::from(logins.as_ref().map(Logins::settled));
    let (called, settled) = join(timeout(LAST_CALLS, keeper.finish()), renewals).await;
    if called.is_err() {
        tracing::warn!("the last calls may be missing in their file");
    }
    if settled == Some(false) {
        tracing::warn!("a login was being renewed, and may have to be made again");
    }
    // Only now may another daemon take the directory over.
    drop(presence);
    ended
}

impl Daemon {
    fn new(
        (agents, operator_listener): (AgentSockets, Listener),
        manager: Manager,
        (limits, task_token_key): (DaemonConfig, TaskTokenKey),
        logs: Logs,
        ((refused, stamps), stopping): (LastRead, (watch::Sender<Stop>, StopOrder)),
    ) -> (Self, Asked) {
        let budget = Budget::new(limits.max_message_bytes);
        let (queries, queries_asked) = mpsc::channel(MAX_OPERATORS);
        let (reloads, reloads_asked) = mpsc::channel(RELOAD_PLACES);
        let operator = admin::Access {
            queries,
            calls: logs.reader,
            view: manager.view(),
            manager: manager.clone(),
            reloads,
            lasting: Arc::new(Semaphore::new(admin::MAX_LASTING)),
        };
        let daemon = Self {
            started: Instant::now(),
            limits,
            max_sessions: MAX_SESSIONS.min(process::open_files() / 2),
            view: manager.view(),
            profiles: manager.profiles(),
            manager,
            agents: Some(agents),
            operator_listener,
            operators: Operators::default(),
            sessions: JoinSet::new(),
            connected: HashMap::new(),
            agent_count: watch::Sender::new(0),
            next_session: 0,
            task_token_key: Arc::new(task_token_key),
            stopping,
            closing: StopOrder::channel(),
            budget,
            refusals: Refusals::default(),
            operator,
            calls: logs.calls,
            log: logs.log,
            refused,
            stamps,
        };
        (daemon, Asked { queries: queries_asked, reloads: reloads_asked })
    }

    /// Serves until the manager has ended; then no server is left.
    async fn serve(
        mut self,
        presence: &mut Presence,
        (mut asked, mut sockets_to_prepare): (mpsc::Receiver<admin::Query>, mpsc::Receiver<PrepareSockets>),
        mut servers_ended: JoinHandle<()>,
    ) -> Result<(), DaemonError> {
        let (mut stop, mut kill) = (self.stopping.1.clone(), self.stopping.1.clone());
        let mut killed = pin!(kill.at_least(Stop::Kill));
        let mut hurried = false;
        self.serve_profiles(presence);
        let ended = loop {
            tokio::select! {
                Some((listener, agent)) = OptionFuture::from(self.agents.as_ref().map(AgentSockets::accept)) => {
                    self.accept_agent(listener, agent);
                }
                operator = self.operator_listener.accept(), if self.operators.have_room() => {
                    self.accept_operator(operator);
                    self.operator_listener.refill();
                    // Lets the operator's task read its request before another operator could displace it.
                    yield_now().await;
                }
                Some(query) = asked.recv() => self.answer(query),
                Some(wanted) = sockets_to_prepare.recv() => self.prepare_sockets(wanted, presence),
                Ok(()) = self.profiles.changed() => self.serve_profiles(presence),
                Some(ended) = self.sessions.join_next_with_id() => self.forget(ended),
                // Before any agent gets what the operator has left.
                () = self.operators.changed() => self.operator_listener.refill(),
                () = self.budget.exceeded() => self.relieve(),
                () = presence.due() => {
                    let agents = self.agents.iter_mut().flat_map(AgentSockets::listeners);
                    if presence.look_after(agents.chain([&mut self.operator_listener])) == Standing::Superseded {
                        tracing::error!("another daemon holds the lock of this runtime directory: stopping");
                        raise(&self.stopping.0, Stop::Drain);
                    }
                }
                () = stop.at_least(Stop::Drain), if self.agents.is_some() => {
                    self.agents = None;
                    self.manager.stop(Stop::Drain);
                }
                () = &mut killed, if self.agents.is_none() && !hurried => {
                    hurried = true;
                    self.manager.stop(Stop::Kill);
                }
                ended = &mut servers_ended => break ended,
            }
        };
        if ended.is_err() {
            self.agents = None;
            self.after_manager().await;
        }
        self.closing.0.send_replace(Stop::Drain);
        let all_ended = async { while self.sessions.join_next().await.is_some() {} };
        if timeout(LAST_SESSIONS, all_ended).await.is_err() {
            tracing::warn!("some agents did not take their last answers");
        }
        tracing::info!("stopped");
        ended.map_err(|_| DaemonError::Panicked)
    }

    fn prepare_sockets(&mut self, PrepareSockets { profiles, answer }: PrepareSockets, presence: &mut Presence) {
        if self.profiles.has_changed().unwrap_or(false) {
            self.serve_profiles(presence);
        }
        let created = self.agents.as_mut().map_or(Ok(()), |sockets| sockets.prepare(&profiles, presence.lock()));
        // The receiver may be gone.
        drop(answer.send(created));
    }

    /// Accepts connections for the current profiles. Agents have to leave whose profile is not available to them any more.
    fn serve_profiles(&mut self, presence: &mut Presence) {
        let profiles = Arc::clone(&self.profiles.borrow_and_update());
        let Some(sockets) = &mut self.agents else { return };
        sockets.serve(&profiles, presence.lock());
        for agent in self.connected.values_mut() {
            let profile = profiles.iter().map(|served| &served.profile).find(|profile| profile.name == agent.profile);
            if !profile.is_some_and(|profile| may_connect(profile, agent.peer.uid))
                && let Some(leave) = agent.leave.take()
            {
                // It may be leaving already.
                let _ = leave.send(());
            }
        }
    }

    fn accept_agent(&mut self, listener: usize, stream: UnixStream) {
        let Some(Served { profile, view }) = self.agents.as_ref().map(|sockets| sockets.get(listener).served.clone())
        else {
            return;
        };
        let Some(peer) = self.peer(&stream, |uid| may_connect(&profile, uid)) else { return };
        let (pid, uid) = (peer.pid(), peer.uid());
        let user = Arc::new(User { profile: Arc::clone(&profile.name), uid, is_guest: !is_own(uid) });
        if let Some(message) = self.is_full_for(&user) {
            if let Some(unlogged) = self.refusals.count() {
                tracing::warn!(pid, uid, profile = &*profile.name, unlogged, "refused an agent: {message}");
            }
            let error = ErrorObject::of_mcpd(ErrorCode::Overloaded, message, Delivery::NotSent);
            // Into an empty socket buffer: it does not wait.
            let _ = stream.try_write(&reply::error(None, &error));
            return;
        }
        self.next_session += 1;
        let status = Arc::new(SessionStatus::default());
        let backlog = Backlog::new(&self.budget);
        let identity = PeerIdentity { uid, pid, cwd: process::working_directory(pid) };
        let setup = session::Setup {
            number: self.next_session,
            identity: identity.clone(),
            user: Arc::clone(&user),
            calls: self.calls.clone(),
            view,
            own_views: self.manager.own_views(&profile.name),
            max_message: self.limits.max_message_bytes,
            line_timeout: self.limits.line_timeout,
            first_list_wait: self.limits.first_list_wait,
            stopping: self.stopping.1.clone(),
            closing: self.closing.1.clone(),
            status: Arc::clone(&status),
            backlog: Arc::clone(&backlog),
            task_token_key: Arc::clone(&self.task_token_key),
        };
        let ((leave, left), (cut_off, closed)) = (oneshot::channel(), oneshot::channel());
        let task = self.sessions.spawn(session::run(stream, setup, Orders { leave: left, cut_off: closed }));
        let (number, profile) = (self.next_session, Arc::clone(&profile.name));
        let (leave, cut_off, since) = (Some(leave), Some(cut_off), Instant::now());
        let connected = Connected { number, profile, peer: identity, since, status, user, backlog, leave, cut_off };
        self.connected.insert(task.id(), connected);
        self.agent_count.send_replace(self.connected.len());
    }

    fn accept_operator(&mut self, stream: UnixStream) {
        let Some(peer) = self.peer(&stream, is_own) else { return };
        // All that this process starts are servers, whether they serve, come or go.
        let own = std::process::id();
        let is_itself = |pid: i32| pid.cast_unsigned() == own;
        if !peer.pid().is_some_and(|pid| is_itself(pid) || server::is_unrelated(pid, &[own])) {
            if let Some(unlogged) = self.refusals.count() {
                tracing::warn!(pid = peer.pid(), unlogged, "refused an operator that may be a server");
            }
            return;
        }
        self.operators.admit(stream, self.operator.clone());
    }

    /// The peer, if it may connect. Nothing is read from anybody else.
    fn peer(&mut self, stream: &UnixStream, may: impl Fn(u32) -> bool) -> Option<UCred> {
        let peer = stream.peer_cred().ok()?;
        let may = may(peer.uid());
        if let Some(unlogged) = (!may).then(|| self.refusals.count()).flatten() {
            tracing::warn!(uid = peer.uid(), pid = peer.pid(), unlogged, "refused another user");
        }
        may.then_some(peer)
    }

    /// A manager that panicked has let go of its servers, which end at once.
    async fn after_manager(&self) {
        let servers = self.view.borrow().servers.clone();
        let all_ended = async {
            for server in &servers {
                server.handle.ended().await;
            }
        };
        if timeout(LAST_SERVERS, all_ended).await.is_err() {
            tracing::warn!("some servers did not end");
        }
    }

    fn answer(&mut self, query: admin::Query) {
        match query {
            // Whoever asked may have gone.
            admin::Query::Status(answer) => drop(answer.send(self.report())),
            admin::Query::LogLevel { filter, answer } => {
                let changed = filter.map_or(Ok(()), |filter| self.log.set(&filter));
                drop(answer.send(changed.map(|()| self.log.filter().to_owned())));
            }
        }
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.connected.remove(&id);
        self.agent_count.send_replace(self.connected.len());
    }

    /// The reason to refuse one more agent of `user`, if a limit is reached.
    pub(super) fn is_full_for(&self, user: &User) -> Option<String> {
        let max = self.max_sessions;
        if self.sessions.len() >= max {
            return Some(format!("mcpd serves {max} agents already"));
        }
        let own = max / if user.is_guest { GUEST_SHARE } else { SHARE };
        if self.connected.values().filter(|agent| *agent.user == *user).count() >= own.max(1) {
            return Some(format!("mcpd serves {own} agents of this user at this profile already"));
        }
        let guests = self.connected.values().filter(|agent| agent.user.is_guest).count();
        let is_full = user.is_guest && guests >= max / ALL_GUESTS_SHARE;
        is_full.then(|| format!("mcpd serves {guests} agents of other users already"))
    }

    /// Closes connections until the others are within the budget.
    pub(super) fn relieve(&mut self) {
        let holders = self.connected.iter().filter(|(_, agent)| agent.cut_off.is_some() && agent.backlog.bytes() > 0);
        let holders = holders.map(|(id, agent)| {
            let user = Arc::clone(&agent.user);
            Holder { id: *id, user, bytes: agent.backlog.bytes(), age: agent.backlog.age() }
        });
        for Holder { id, bytes, .. } in surplus(holders.collect(), self.budget.limit()) {
            let Some(agent) = self.connected.get_mut(&id) else { continue };
            let (session, pid, uid) = (agent.number, agent.peer.pid, agent.peer.uid);
            tracing::warn!(session, pid, uid, bytes, "cut off an agent: unread and half-sent data exceeds the budget");
            // It may have ended already.
            let _ = agent.cut_off.take().map(|order| order.send(()));
        }
    }

    pub(super) fn report(&self) -> Report {
        let view = self.view.borrow();
        let mut agents: Vec<AgentReport> = self.connected.values().map(status::agent).collect();
        agents.sort_unstable_by_key(|agent| agent.session);
        Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: millis(self.started.elapsed()),
            settled: self.has_settled(&view),
            reload_refused: self.refused.borrow().as_ref().map(status::refused),
            files: self.stamps.borrow().iter().map(status::file).collect(),
            files_changed: Vec::new(),
            other_daemons: Vec::new(),
            servers: manager::report::servers(&view),
            agents,
            profiles: self.agents.iter().flat_map(AgentSockets::all).map(|one| self.profile(one)).collect(),
        }
    }

    /// Whether every server's first start attempt has ended, or has had its time.
    fn has_settled(&self, view: &View) -> bool {
        let attempted = || view.servers.iter().all(|member| member.handle.published().attempted);
        view.settled && (self.started.elapsed() >= self.limits.first_list_wait || attempted())
    }

    fn profile(&self, ProfileListener { served, listener }: &ProfileListener) -> ProfileReport {
        let (profile, view) = (&served.profile, served.view.borrow());
        ProfileReport {
            name: profile.name.to_string(),
            socket: listener.path().display().to_string(),
            servers: view.servers.iter().map(|member| member.handle.name().to_string()).collect(),
            tools: view.catalog.count(ListKind::Tools),
            agents: self.connected.values().filter(|agent| agent.profile == profile.name).count(),
        }
    }
}
