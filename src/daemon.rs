//! The composition root: configuration → sockets → manager → sessions → ordered stop.
//!
//! Only this module knows the order of shutdown. It uses no MCP methods and no processes, and JSON-RPC only to refuse a connection.
//!
//! ```text
//! SIGTERM ─► agent sockets removed ─► servers finish their calls and end, in parallel
//!         ─► sessions write their last answers ─► admin socket removed ─► lock released
//! ```

mod agent_sockets;
mod config_state;
mod error;
mod files;
mod http_agents;
mod loopback_sockets;
mod new_agent;
mod notify;
mod operators;
mod pattern_check;
mod peer_origin;
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
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{Id, JoinError, JoinHandle, JoinSet, yield_now};
use tokio::time::timeout;

use self::agent_sockets::{AgentSockets, PrepareSockets, ProfileListener, is_own, may_connect, next_loopback};
use self::config_state::ConfigState;
pub use self::error::DaemonError;
use self::new_agent::{NewAgent, send_once, serve_agent};
use self::operators::{MAX_OPERATORS, Operators};
use self::pattern_check::PatternCheck;
use self::peer_origin::Descendants;
pub(crate) use self::process::{cache_directory, logins, server_output_path};
use self::reload::Reload;
use self::status::ConnectedAgent;
use crate::account::{Accounts, Held};
use crate::admin;
use crate::admin::report::{AgentReport, ProfileReport, Report};
use crate::calls::History;
use crate::config::interpolate::Environment;
use crate::config::{DaemonConfig, LoadedConfig};
use crate::http_listener::{self, OpenSession, Sessions};
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::list_kind::ListKind;
use crate::logging::{self, ServerOutput};
use crate::manager;
use crate::manager::report::millis;
use crate::manager::{Manager, ServedProfile, Setup, View};
use crate::message_limit::buffer_unit;
use crate::server::{
    Cgroups, GuardProgram, Logins, ProcessAttributes, ReaperHandle, ServerContext, StopChannel, StopLevel, User,
};
use crate::session::{PeerIdentity, TaskTokenKey};
use crate::signals;
use crate::sockets::{ADMIN_SOCKET, ActivatedSockets, Listener, RuntimeDir, SocketMode, SocketUpkeep, Standing};

/// Agents connected at once, or half as many as there may be open files if that is less; one more gets −31003 and its
/// connection is closed.
const MAX_SESSIONS: usize = 4096;
/// Time for servers to end after their manager has panicked.
const LAST_SERVERS: Duration = Duration::from_secs(5);
/// Time for sessions to write their last answers, which have a shorter limit of their own.
const LAST_SESSIONS: Duration = Duration::from_secs(1);
/// Capacity of the queue of reload requests; further operators wait.
const RELOAD_QUEUE: usize = 16;

/// Capacity of the queue of HTTP sessions to open; further ones wait.
const OPEN_QUEUE: usize = 16;

/// The record of calls, and the log.
struct Logs {
    calls: History,
    log: logging::Control,
}

struct Daemon {
    started: Instant,
    limits: DaemonConfig,
    accounts: Arc<Accounts>,
    manager: Manager,
    view: watch::Receiver<Arc<View>>,
    profiles: watch::Receiver<Arc<[ServedProfile]>>,
    /// `None` once the daemon is being stopped.
    agents: Option<AgentSockets>,
    operator_listener: Listener,
    operators: Operators,
    sessions: JoinSet<()>,
    connected: HashMap<Id, ConnectedAgent>,
    /// The number of `connected`, which the service manager's status line follows.
    agent_count: watch::Sender<usize>,
    next_session: u64,
    task_token_key: Arc<TaskTokenKey>,
    /// The sessions of legacy agents over HTTP.
    http_sessions: Sessions,
    /// Raised by signals, and by the daemon itself if it has lost its lock.
    stopping: StopChannel,
    /// Raised when no server is left: sessions write their last answers and end.
    closing: watch::Sender<bool>,
    descendants: Descendants,
    /// Limits warnings that a peer can cause.
    warnings: Arc<logging::Limiter>,
    operator: admin::Access,
    calls: History,
    log: logging::Control,
    config: ConfigState,
}

/// What a [`Daemon`] is made of.
struct Parts {
    agents: AgentSockets,
    operator_listener: Listener,
    manager: Manager,
    limits: DaemonConfig,
    task_token_key: TaskTokenKey,
    logs: Logs,
    config: ConfigState,
    stopping: StopChannel,
    descendants: Descendants,
}

/// Requests of operators and of HTTP connections that their own tasks cannot answer.
struct OperatorRequests {
    queries: mpsc::Receiver<admin::Query>,
    reloads: mpsc::Receiver<admin::ReloadRequest>,
    openings: mpsc::Receiver<OpenSession>,
}

/// Requests that the daemon's task serves.
struct Requests {
    queries: mpsc::Receiver<admin::Query>,
    sockets: mpsc::Receiver<PrepareSockets>,
    openings: mpsc::Receiver<OpenSession>,
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
        cgroups,
        cache: cache_directory(),
        output: ServerOutput::open(server_output_path()),
        logins,
        serves_agents: true,
        reaper: ReaperHandle::of_subreaper(),
        ..ServerContext::new(GuardProgram::available())
    }
}

/// Serves `loaded` in `directory` until a signal stops the daemon. Servers with limits run in `cgroups`. SIGHUP reads the
/// configuration again: `files` if any were named at start, otherwise the default files. Returns when no process and no socket is left.
///
/// # Errors
/// Before anything was started: the directory is unsafe or served by another daemon, or a system call failed. Later:
/// [`DaemonError::Panicked`] and [`DaemonError::Superseded`], after everything was ended, or [`DaemonError::ProcessesLeft`].
pub async fn run(
    loaded: LoadedConfig,
    files: Vec<PathBuf>,
    directory: &RuntimeDir,
    log: logging::Control,
    cgroups: Cgroups,
) -> Result<(), DaemonError> {
    let failed = |operation| move |source| DaemonError::Start { operation, source };
    let activated = ActivatedSockets::take_over().map_err(failed("take over the sockets of systemd"))?;
    let inherited = process::prepare().map_err(failed("prepare the process"))?;
    let signals = signals::listen().map_err(failed("handle signals"))?;
    let key = TaskTokenKey::generate().map_err(io::Error::other);
    let task_token_key = key.map_err(failed("generate a random key"))?;
    let mut lock = directory.lock()?;
    let loaded = Arc::new(loaded);
    let config = &loaded.config;
    let calls = History::new(config.daemon.call_log.clone());
    let logins = process::logins();
    let mut host = server_context(&config.daemon, inherited, cgroups, logins.clone());
    host.sandbox.protected.own.push(directory.path().to_owned());
    // A server that could change one of these would not need to leave its sandbox.
    host.sandbox.protected.own.extend(loaded.stamps.iter().map(|stamp| stamp.path.clone()));
    host.sandbox.protected.own.extend(config.daemon.call_log.clone());
    host.sandbox.sockets = Some(directory.path().to_owned());
    let descendants = Descendants { guards: host.guards.clone(), reaper: host.reaper.clone() };
    let agents = AgentSockets::create(&config.profiles, &mut lock, activated)?;
    let operator_listener = lock.listen(ADMIN_SOCKET, SocketMode::Owner)?.with_reserve();
    let mut upkeep = SocketUpkeep::new(lock).map_err(failed("create a timer"))?;
    let first_list_wait = config.daemon.first_list_wait;
    let secret_programs = host.secret_programs.clone();
    let setup = Setup { naming: config.daemon.naming, host, first_list_wait };
    let (manager, servers_ended) = Manager::spawn(setup, config.servers.clone(), config.profiles.clone())?;
    let state = ConfigState::new(loaded.stamps.clone(), loaded.secret_files.clone());
    let (prepare_sockets, sockets_to_prepare) = mpsc::channel(reload::MAX_PENDING + 1);
    let watcher = config.daemon.watch.then(|| files::run(state.clone(), Arc::clone(&signals.reload)));
    let limits = config.daemon.clone();
    let reload = Reload {
        environment: Environment::default(),
        secret_programs,
        files,
        daemon: config.daemon.clone(),
        patterns: PatternCheck::new(loaded, &manager),
        manager: manager.clone(),
        prepare_sockets,
        state: state.clone(),
    };
    let logs = Logs { calls: calls.clone(), log };
    let stop = signals.stopping.receiver.clone();
    let stopping = signals.stopping;
    let config = state;
    let parts =
        Parts { agents, operator_listener, manager, limits, task_token_key, logs, config, stopping, descendants };
    let (daemon, requests) = Daemon::new(parts);
    let (view, agents) = (daemon.view.clone(), daemon.agent_count.subscribe());
    let mut helpers = JoinSet::new();
    helpers.spawn(notify::run(notify::Sources { view, agents, stop }));
    helpers.spawn(reload.run(signals.reload, requests.reloads));
    helpers.spawn(report_warnings(Arc::clone(&daemon.warnings)));
    watcher.map(|watcher| helpers.spawn(watcher));
    let requests = Requests { queries: requests.queries, sockets: sockets_to_prepare, openings: requests.openings };
    let ended = daemon.serve(&mut upkeep, requests, servers_ended).await;
    // No session is left to end a call, and no server to begin a renewal.
    let renewals = OptionFuture::from(logins.as_ref().map(Logins::settled));
    let (has_recorded_calls, settled) = join(calls.finish(), renewals).await;
    warn_of_unfinished(has_recorded_calls, settled != Some(false));
    // Releases the lock: from here on another daemon may serve the directory.
    drop(upkeep);
    ended
}

/// Reports what the stop has interrupted.
fn warn_of_unfinished(has_recorded_calls: bool, has_settled_logins: bool) {
    if !has_recorded_calls {
        tracing::warn!("the last calls may be missing from the calls file");
    }
    if !has_settled_logins {
        tracing::warn!("stopped while a login was being renewed: `mcpd login` may be needed again");
    }
}

async fn report_warnings(warnings: Arc<logging::Limiter>) {
    warnings.report().await;
}

/// Sends the reason why a new connection is closed. The socket buffer is empty, so the line fits.
fn refuse(stream: &UnixStream, error: &ErrorObject) {
    send_once(stream, &reply::error(None, error));
}

impl Daemon {
    fn new(parts: Parts) -> (Self, OperatorRequests) {
        let Parts { agents, operator_listener, manager, limits, task_token_key, logs, config, stopping, descendants } =
            parts;
        let buffer_unit = buffer_unit(limits.max_message_bytes);
        let (queries, received_queries) = mpsc::channel(MAX_OPERATORS);
        let (reloads, received_reloads) = mpsc::channel(RELOAD_QUEUE);
        let (open_sessions, openings) = mpsc::channel(OPEN_QUEUE);
        let operator = admin::Access {
            queries,
            calls: logs.calls.clone(),
            view: manager.view(),
            manager: manager.clone(),
            reloads,
            long_requests: Arc::new(Semaphore::new(admin::MAX_LONG_REQUESTS)),
        };
        let daemon = Self {
            started: Instant::now(),
            accounts: Accounts::new(MAX_SESSIONS.min(process::open_files() / 2), buffer_unit),
            limits,
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
            http_sessions: Sessions::new(open_sessions),
            stopping,
            closing: watch::Sender::new(false),
            descendants,
            warnings: Arc::default(),
            operator,
            calls: logs.calls,
            log: logs.log,
            config,
        };
        (daemon, OperatorRequests { queries: received_queries, reloads: received_reloads, openings })
    }

    /// Serves until the manager has ended; then no server is left.
    async fn serve(
        mut self,
        upkeep: &mut SocketUpkeep,
        mut requests: Requests,
        mut servers_ended: JoinHandle<Vec<u32>>,
    ) -> Result<(), DaemonError> {
        let (mut stop, mut kill) = (self.stopping.receiver.clone(), self.stopping.receiver.clone());
        let mut killed = pin!(kill.at_least(StopLevel::Kill));
        let (mut hurried, mut is_superseded) = (false, false);
        self.serve_profiles(upkeep);
        let ended = loop {
            tokio::select! {
                Some((listener, agent)) = OptionFuture::from(self.agents.as_ref().map(AgentSockets::accept)) => {
                    self.accept_or_refuse(listener, agent);
                    // Serves connected agents between two connections of a flood.
                    yield_now().await;
                }
                (profile, agent) = next_loopback(self.agents.as_ref()) => self.accept_loopback(&profile, agent),
                operator = self.operator_listener.accept(), if self.operators.have_room() => {
                    self.accept_operator(operator);
                    self.operator_listener.refill();
                    // Lets the operator's task read its request before another operator could displace it.
                    yield_now().await;
                }
                Some(query) = requests.queries.recv() => self.answer(query),
                Some(request) = requests.sockets.recv() => self.prepare_sockets(request, upkeep),
                Some(request) = requests.openings.recv() => self.open_session(request),
                Ok(()) = self.profiles.changed() => self.serve_profiles(upkeep),
                Some(ended) = self.sessions.join_next_with_id() => self.forget(ended),
                // Refilled before an agent can take the descriptors that an operator has freed.
                () = self.operators.changed() => self.operator_listener.refill(),
                () = self.accounts.exceeded() => self.relieve(),
                () = upkeep.due() => {
                    let agents = self.agents.iter_mut().flat_map(AgentSockets::listeners);
                    if upkeep.check(agents.chain([&mut self.operator_listener])) == Standing::Superseded {
                        is_superseded = true;
                        self.stopping.raise(StopLevel::FinishRunning);
                    }
                }
                () = stop.at_least(StopLevel::FinishRunning), if self.agents.is_some() => {
                    self.agents = None;
                    self.manager.stop(StopLevel::FinishRunning);
                }
                () = &mut killed, if self.agents.is_none() && !hurried => {
                    hurried = true;
                    self.manager.stop(StopLevel::Kill);
                }
                ended = &mut servers_ended => break ended,
            }
        };
        if ended.is_err() {
            self.agents = None;
            self.after_manager().await;
        }
        self.closing.send_replace(true);
        let all_ended = async { while self.sessions.join_next().await.is_some() {} };
        if timeout(LAST_SESSIONS, all_ended).await.is_err() {
            tracing::warn!("some agents did not read their last answers in time");
        }
        self.warnings.finish();
        tracing::info!("stopped");
        let left = ended.map_err(|_| DaemonError::Panicked)?;
        match left.is_empty() {
            true if is_superseded => Err(DaemonError::Superseded),
            true => Ok(()),
            false => Err(DaemonError::ProcessesLeft(left)),
        }
    }

    fn prepare_sockets(&mut self, PrepareSockets { profiles, answer }: PrepareSockets, upkeep: &mut SocketUpkeep) {
        if self.profiles.has_changed().unwrap_or(false) {
            self.serve_profiles(upkeep);
        }
        let created = self.agents.as_mut().map_or(Ok(()), |sockets| sockets.prepare(&profiles, upkeep.lock()));
        // The receiver may be gone.
        drop(answer.send(created));
    }

    /// Accepts connections for the current profiles. Disconnects agents whose profile was removed or no longer allows them.
    fn serve_profiles(&mut self, upkeep: &mut SocketUpkeep) {
        let profiles = Arc::clone(&self.profiles.borrow_and_update());
        let Some(sockets) = &mut self.agents else { return };
        sockets.serve(&profiles, upkeep.lock());
        self.http_sessions.keep_tokens(&sockets.loopback().tokens());
        self.accounts.ledger().apply(profiles.iter().map(|served| &served.profile), may_connect);
        sockets.set_backlogs(|profile| self.accounts.ledger().burst(profile));
        for agent in self.connected.values_mut() {
            let profile = profiles.iter().map(|served| &served.profile).find(|profile| profile.name == agent.profile);
            if !profile.is_some_and(|profile| may_connect(profile, agent.peer.uid))
                && let Some(leave) = agent.leave.take()
            {
                // The session may have ended already.
                let _ = leave.send(());
            }
        }
    }

    /// Serves or refuses a new agent. After a burst, the listener accepts more slowly.
    fn accept_or_refuse(&mut self, index: usize, stream: UnixStream) {
        let is_admitted = self.accept_agent(index, stream);
        let Some(ProfileListener { served, listener, .. }) = self.agents.as_ref().map(|sockets| sockets.get(index))
        else {
            return;
        };
        let mut ledger = self.accounts.ledger();
        listener.pause(ledger.pause_after_connection(&served.profile, is_admitted, Instant::now()));
    }

    /// Serves a new agent. Returns whether it was admitted.
    fn accept_agent(&mut self, listener: usize, stream: UnixStream) -> bool {
        let Some(listener) = self.agents.as_ref().map(|sockets| sockets.get(listener)) else { return false };
        let (ServedProfile { profile, view }, named_uris) = (listener.served.clone(), Arc::clone(&listener.named_uris));
        let Some(peer) = self.peer(&stream, |uid| may_connect(&profile, uid)) else { return false };
        let (pid, uid) = (peer.pid(), peer.uid());
        let user = Arc::new(User { profile: Arc::clone(&profile.name), uid, is_guest: !is_own(uid) });
        let number = self.next_session + 1;
        // Limits come first: their check costs least.
        let admitted = self.accounts.connect(number, &user, Instant::now());
        let admitted = admitted.map_err(|over| over.to_object(Delivery::NotSent)).and_then(|account| {
            let admitted = self.descendants.admit_agent(&stream, pid, &user);
            admitted.map(|own_server| (account, own_server)).map_err(ErrorObject::connection_refused)
        });
        let (account, own_server) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => {
                self.refuse_agent(&stream, pid, &user, &error);
                return false;
            }
        };
        self.next_session = number;
        let identity = PeerIdentity { uid, pid, cwd: process::working_directory(pid) };
        let agent = NewAgent { number, user, identity, own_server, account };
        let (protocol, origins) = (Arc::default(), Arc::clone(&profile.http_origins));
        let (setup, orders, connected) = self.prepare_session(agent, profile, view, named_uris, Arc::clone(&protocol));
        let http_sessions = self.http_sessions.clone();
        let task = serve_agent(stream, setup, orders, protocol, http_sessions, origins);
        let task = self.sessions.spawn(task);
        self.add_connected(task.id(), connected);
        true
    }

    fn refuse_agent(&self, stream: &UnixStream, pid: Option<i32>, user: &User, error: &ErrorObject) {
        let User { profile, uid, .. } = user;
        if self.warnings.admits("refused an agent", format_args!("user {uid} at profile {profile}")) {
            tracing::warn!(pid, uid, profile = &**profile, "refused an agent: {}", error.message);
        }
        send_once(stream, &http_listener::refusal(stream, error));
    }

    fn accept_operator(&mut self, stream: UnixStream) {
        let Some(peer) = self.peer(&stream, is_own) else { return };
        if let Some(message) = self.descendants.refused_operator(&stream, peer.pid()) {
            if self.warnings.admits("refused an operator", &message) {
                tracing::warn!(pid = peer.pid(), "refused an operator: {message}");
            }
            refuse(&stream, &ErrorObject::connection_refused(message));
            return;
        }
        self.operators.admit(stream, self.operator.clone());
    }

    /// The peer, if it may connect. Nothing is read from a peer that may not.
    fn peer(&self, stream: &UnixStream, may: impl Fn(u32) -> bool) -> Option<UCred> {
        let peer = stream.peer_cred().ok()?;
        let may = may(peer.uid());
        if !may && self.warnings.admits("refused another user", format_args!("user {}", peer.uid())) {
            tracing::warn!(uid = peer.uid(), pid = peer.pid(), "refused another user");
        }
        may.then_some(peer)
    }

    /// Waits for the servers of a manager that panicked: they end at once, as their owner was dropped.
    async fn after_manager(&self) {
        let servers = self.view.borrow().servers.clone();
        let all_ended = async {
            for server in &servers {
                server.handle.wait_ended().await;
            }
        };
        if timeout(LAST_SERVERS, all_ended).await.is_err() {
            tracing::warn!("some servers did not end");
        }
    }

    fn answer(&mut self, query: admin::Query) {
        match query {
            // The operator may have disconnected.
            admin::Query::Status(answer) => drop(answer.send(self.report())),
            admin::Query::Tokens(answer) => {
                if let Some(sockets) = &self.agents {
                    sockets.loopback().read_tokens();
                    self.http_sessions.keep_tokens(&sockets.loopback().tokens());
                }
                // The operator may have disconnected.
                let _ = answer.send(());
            }
            admin::Query::LogLevel { filter, answer } => {
                let changed = filter.map_or(Ok(()), |filter| self.log.set(&filter));
                drop(answer.send(changed.map(|()| self.log.filter().to_owned())));
            }
        }
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.connected.remove(&id);
        self.count_agents();
    }

    /// Closes connections until the others are within the limits of what they hold.
    pub(super) fn relieve(&mut self) {
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

    pub(super) fn report(&self) -> Report {
        let view = self.view.borrow();
        let agents = self.connected.values().filter(|agent| agent.is_shown());
        let mut agents: Vec<AgentReport> = agents.map(status::agent).collect();
        agents.sort_unstable_by_key(|agent| agent.session);
        Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: millis(self.started.elapsed()),
            settled: self.has_settled(&view),
            reload_refused: self.config.rejected().as_ref().map(status::rejected),
            files: self.config.stamps().iter().map(status::file).collect(),
            files_changed: Vec::new(),
            other_daemons: Vec::new(),
            reapers_lost: self.descendants.reaper.lost(),
            servers: manager::report::servers(&view),
            agents,
            profiles: self.agents.iter().flat_map(AgentSockets::all).map(|one| self.profile(one)).collect(),
        }
    }

    /// Whether every server's first start attempt has ended, or `first_list_wait` is over.
    fn has_settled(&self, view: &View) -> bool {
        let attempted = || view.servers.iter().all(|member| member.handle.published().first_start_ended);
        view.settled && (self.started.elapsed() >= self.limits.first_list_wait || attempted())
    }

    fn profile(&self, ProfileListener { served, listener, .. }: &ProfileListener) -> ProfileReport {
        let (profile, view) = (&served.profile, served.view.borrow());
        ProfileReport {
            name: profile.name.to_string(),
            socket: listener.path().display().to_string(),
            http: self.agents.as_ref().and_then(|all| all.loopback().address(&profile.name)).map(|at| at.to_string()),
            servers: view.servers.iter().map(|member| member.handle.name().to_string()).collect(),
            tools: view.catalog.count(ListKind::Tools),
            cut: manager::report::cut(&view),
            agents: self.connected.values().filter(|agent| agent.profile == profile.name && agent.is_shown()).count(),
            quotas: self.accounts.ledger().report(&profile.name).into_iter().map(status::quota).collect(),
        }
    }
}
