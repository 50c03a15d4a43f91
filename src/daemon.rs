//! The composition root: configuration → sockets → manager → sessions → ordered stop.
//!
//! [`AgentSockets`] and [`Operators`] accept connections, [`Admission`] decides who may connect, and [`Sessions`] serves agents. Only this
//! module knows the order of shutdown. It uses no MCP methods and no processes, and JSON-RPC only to refuse a connection.
//!
//! ```text
//! restart ─► sessions finish their calls, and refuse others ─► servers and sessions end as below ─► the next program, with all sockets
//! SIGTERM ─► agent sockets removed ─► servers finish their calls and end, in parallel
//!         ─► sessions write their last answers ─► admin socket removed ─► lock released
//! ```

mod admission;
mod agent_sockets;
mod config_state;
mod idle_exit;
mod lifecycle;
mod loopback_sockets;
mod notify;
mod operators;
mod pattern_check;
mod reload;
mod sessions;
mod status;
mod successor;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{OptionFuture, join};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet, yield_now};
use tokio::time::timeout;

use self::admission::Admission;
use self::agent_sockets::{AgentConnection, AgentSockets, PrepareSockets};
use self::config_state::ConfigState;
pub use self::idle_exit::DaemonLifetime;
use self::idle_exit::IdleExit;
use self::lifecycle::Lifecycle;
pub(crate) use self::loopback_sockets::try_addresses;
use self::operators::Operators;
use self::pattern_check::PatternCheck;
use self::reload::Reload;
use self::sessions::Sessions;
use self::successor::ProgramFile;
pub use self::successor::Successor;
pub(crate) use self::successor::without_inherit;
use crate::admin;
use crate::calls::History;
use crate::config::interpolate::{Environment, Process, Sources};
use crate::config::{self, LoadedConfig, Profile};
use crate::duration;
use crate::logging::{self, Limiter, ServerOutput};
use crate::manager::{Manager, ManagerError, ServedProfile, Setup};
use crate::masking::KnownSecrets;
use crate::oauth;
use crate::pin_files::PinDirectory;
use crate::server::{self, Cgroups, GuardProgram, Logins, ProcessAttributes, ReaperHandle, ServerContext, StopLevel};
use crate::session::TaskTokenKey;
use crate::signals::{self, SignalOrders};
use crate::sockets::{
    ADMIN_SOCKET, Handover, Listener, Lock, PassedSockets, RuntimeDir, SocketError, SocketMode, SocketUpkeep, Standing,
};

/// Time for servers to end after their manager has panicked.
const LAST_SERVERS: Duration = Duration::from_secs(5);

struct Daemon {
    started: Instant,
    first_list_wait: Duration,
    manager: Manager,
    profiles: watch::Receiver<Arc<[ServedProfile]>>,
    /// `None` once the daemon ends without a successor.
    agents: Option<AgentSockets>,
    sessions: Sessions,
    operators: Operators,
    admission: Admission,
    lifecycle: Lifecycle,
    log: logging::Control,
    config: ConfigState,
    idle_exit: IdleExit,
}

/// Why a daemon did not start, or ended unexpectedly.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The sockets cannot be served.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The manager of the servers reported an error.
    #[error(transparent)]
    Servers(#[from] ManagerError),
    /// A system call failed at start.
    #[error("mcpd cannot start: cannot {operation}: {source}")]
    Start {
        /// What failed, such as `read the sockets of systemd`.
        operation: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A task of mcpd has panicked, and the message of the panic was printed. mcpd has then stopped all servers and sockets that it still
    /// could stop.
    #[error(
        "mcpd ended because of a bug in mcpd. Its log contains the panic message: please report the bug with that message"
    )]
    Panicked,
    /// The runtime directory was deleted, and another daemon has started there.
    #[error("another daemon holds the lock of the runtime directory, which was deleted: this one has stopped")]
    Superseded,
    /// Processes of servers still run.
    #[error("mcpd has ended its servers, but could not end all their processes: {}", ids(.0))]
    ProcessesLeft(Vec<u32>),
}

impl DaemonError {
    /// Whether another daemon serves in the runtime directory.
    #[must_use]
    pub fn is_other_daemon(&self) -> bool {
        matches!(self, Self::Superseded | Self::Socket(SocketError::AlreadyRunning(_)))
    }
}

/// Maximum number of processes that are named.
const MAX_IDS: usize = 20;

fn ids(processes: &[u32]) -> String {
    let more = if processes.len() > MAX_IDS { ", …" } else { "" };
    processes.iter().take(MAX_IDS).map(u32::to_string).collect::<Vec<_>>().join(", ") + more
}

fn server_context(
    LoadedConfig { config, stamps, .. }: &LoadedConfig,
    directory: &RuntimeDir,
    inherited: ProcessAttributes,
    cgroups: Cgroups,
) -> ServerContext {
    let secrets = KnownSecrets::default();
    secrets.add(config.secret_values());
    let mut host = ServerContext {
        inherited,
        max_message: config.daemon.max_message_bytes,
        cgroups,
        cache: cache_directory(),
        output: ServerOutput::open(server_output_path()),
        logins: logins().map(|logins| logins.noted_in(&secrets)),
        secrets,
        serves_agents: true,
        reaper: ReaperHandle::of_subreaper(),
        ..ServerContext::new(GuardProgram::available())
    };
    host.sandbox.sockets = Some(directory.path().to_owned());
    // A server that could change one of these would not need to leave its sandbox.
    let own = stamps.iter().map(|stamp| &stamp.path).chain(&config.daemon.call_log).cloned();
    host.sandbox.protected.own.extend(own.chain([directory.path().to_owned()]));
    host
}

/// Serves `loaded` in `directory` until a signal stops the daemon. Servers with limits run in `cgroups`. SIGHUP reads the
/// configuration again: `files` if any were named at start, otherwise the default files. With [`DaemonLifetime::WhileUsed`], the daemon
/// also ends by itself. `is_successor`: it takes the descriptors of the program before. Returns when no process and no socket is left, or
/// no process and the program that comes next.
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
    lifetime: DaemonLifetime,
    is_successor: bool,
) -> Result<Option<Successor>, DaemonError> {
    let failed = |operation| move |source| DaemonError::Start { operation, source };
    let (passed, lock) = PassedSockets::take_over(is_successor).map_err(failed("take over its sockets"))?;
    let program = ProgramFile::of_this_process().map_err(failed("find its program"))?;
    let attributes = prepare().map_err(failed("prepare the process"))?;
    let signals = signals::listen().map_err(failed("handle signals"))?;
    let successor = Successor::new(program.clone(), attributes, Arc::clone(&signals.is_stopped));
    let key = TaskTokenKey::generate().map_err(|error| failed("generate a random key")(io::Error::other(error)))?;
    let lock = lock.map_or_else(|| directory.lock(), |file| directory.continue_lock(file))?;
    let loaded = Arc::new(loaded);
    let config = &loaded.config;
    let (calls, warnings) = (History::new(config.daemon.call_log.clone()), Arc::<Limiter>::default());
    let host = server_context(&loaded, directory, attributes, cgroups);
    let admission = Admission::new(host.guards.clone(), host.reaper.clone(), Arc::clone(&warnings));
    let (agents, listener, lock) = open_sockets(&config.profiles, lock, passed)?;
    let mut upkeep = SocketUpkeep::new(lock).map_err(failed("create a timer"))?;
    let first_list_wait = config.daemon.first_list_wait;
    let ServerContext { secret_programs, secrets, logins, tap, .. } = host.clone();
    let setup = Setup { naming: config.daemon.naming, host, first_list_wait, pins: pin_directory(&files) };
    let (manager, servers_ended) = Manager::spawn(setup, config.servers.clone(), config.profiles.clone())?;
    let (operators, requests) = Operators::new(listener, manager.clone(), calls.clone(), tap.clone(), secrets.clone());
    let state = ConfigState::new(loaded.stamps.clone(), loaded.secret_files.clone());
    let mut helpers = background_tasks(config.daemon.watch, &state, &signals, &warnings);
    let lifecycle = Lifecycle::new(signals.stopping, config.daemon.restart_wait, program);
    let sessions = Sessions::new(config.daemon.clone(), calls.clone(), key, Arc::clone(&warnings), &lifecycle, tap);
    helpers.spawn(notify::run(manager.view(), sessions.watch_count(), &lifecycle));
    let (idle_limit, idle_limit_receiver) = watch::channel(config.daemon.idle_exit);
    let idle_exit = IdleExit::new(lifetime, idle_limit_receiver).map_err(failed("create a timer"))?;
    let (prepare_sockets, sockets_to_prepare) = mpsc::channel(reload::MAX_PENDING + 1);
    let reload = Reload {
        environment: Environment::default(),
        secret_programs,
        secrets,
        files,
        daemon: config.daemon.clone(),
        patterns: PatternCheck::new(loaded, &manager),
        manager: manager.clone(),
        prepare_sockets,
        state: state.clone(),
        idle_limit,
    };
    helpers.spawn(reload.run(signals.reload, requests.reloads));
    let daemon = Daemon {
        started: Instant::now(),
        first_list_wait,
        profiles: manager.profiles(),
        manager,
        agents: Some(agents),
        sessions,
        operators,
        admission,
        lifecycle,
        log,
        config: state.clone(),
        idle_exit,
    };
    let ended = daemon.serve(&mut upkeep, requests.queries, sockets_to_prepare, servers_ended).await;
    finish(&warnings, &calls, logins.as_ref()).await;
    // Without a successor, this releases the lock: from here on another daemon may serve the directory.
    Ok(ended?.map(|handover| successor.with(handover, upkeep.into_lock(), state.environment())))
}

/// Opens the sockets for agents, then that for operators, or continues with those that were `passed` to this process.
fn open_sockets(
    profiles: &[Arc<Profile>],
    mut lock: Lock,
    mut passed: PassedSockets,
) -> Result<(AgentSockets, Listener, Lock), SocketError> {
    let mut passed_admin = passed.split_off_admin();
    let agents = AgentSockets::create(profiles, &mut lock, passed)?;
    let operators = lock.listen_or_take(ADMIN_SOCKET, SocketMode::Owner, &mut passed_admin)?;
    Ok((agents, operators, lock))
}

/// Tasks that run beside the daemon until they are dropped. `watch`: whether changed files are reloaded.
fn background_tasks(watch: bool, state: &ConfigState, signals: &SignalOrders, warnings: &Arc<Limiter>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    if watch {
        tasks.spawn(config_state::watch_files(state.clone(), Arc::clone(&signals.reload)));
    }
    tasks.spawn(Arc::clone(warnings).report());
    tasks
}

/// Reports the end, and waits for what no session and no server can begin any more: records of calls, and renewals of logins.
async fn finish(warnings: &Limiter, calls: &History, logins: Option<&Logins>) {
    warnings.finish();
    tracing::info!("stopped");
    let renewals = OptionFuture::from(logins.map(Logins::settled));
    let (has_recorded_calls, has_settled_logins) = join(calls.finish(), renewals).await;
    if !has_recorded_calls {
        tracing::warn!("the last calls may be missing from the calls file");
    }
    if has_settled_logins == Some(false) {
        tracing::warn!("stopped while a login was being renewed: `mcpd login` may be needed again");
    }
}

/// Prepares this process to own servers, and returns the attributes that servers get back. The daemon's files are for its user only,
/// its memory is for itself only, it inherits descendants whose parents died, and a thousand agents have descriptors.
fn prepare() -> io::Result<ProcessAttributes> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let core_size = server::core_size();
    server::protect_memory()?;
    let umask = rustix::process::umask(Mode::from_raw_mode(0o077)).as_raw_mode();
    let limit = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(ProcessAttributes { umask: Some(umask), open_files: limit.current, core_size: Some(core_size) })
}

/// Where the daemon keeps what it can do without.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    Some(Process.cache_home()?.join("mcpd/tools"))
}

/// Where the lines that servers wrote to stderr are kept, unless the journal has them. All daemons of the user write this file.
pub(crate) fn server_output_path() -> Option<PathBuf> {
    Some(Process.state_home()?.join("mcpd/servers.log"))
}

/// Where definitions are pinned, for a daemon with these configuration files; none are the default ones.
pub(crate) fn pin_directory(files: &[PathBuf]) -> Option<PinDirectory> {
    let own = files.first().map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
    let own = own.filter(|own| files.len() > 1 || config::default_path(&Process).as_ref() != Some(own));
    Some(PinDirectory::of(&Process.state_home()?, own.as_deref()))
}

/// The logins that this process, and `mcpd login` in the same environment, keep.
pub(crate) fn logins() -> Option<Logins> {
    oauth::directory(&Process).map(Logins::new)
}

impl Daemon {
    /// Serves until the manager has ended; then no server is left. Returns the sockets for a successor.
    async fn serve(
        mut self,
        upkeep: &mut SocketUpkeep,
        mut queries: mpsc::Receiver<admin::Query>,
        mut sockets: mpsc::Receiver<PrepareSockets>,
        mut servers_ended: JoinHandle<Vec<u32>>,
    ) -> Result<Option<Handover>, DaemonError> {
        let (mut stop, mut kill) = (self.lifecycle.stopping(), self.lifecycle.stopping());
        let mut killed = pin!(kill.at_least(StopLevel::Kill));
        let (mut hurried, mut is_superseded) = (false, false);
        self.serve_profiles(upkeep);
        let ended = loop {
            tokio::select! {
                Some((listener, agent)) = OptionFuture::from(self.agents.as_ref().map(AgentSockets::accept)), if self.lifecycle.is_serving() => {
                    if let Some(sockets) = &self.agents {
                        self.sessions.serve(agent, sockets.get(listener), &self.admission, &self.manager);
                    }
                    // Serves connected agents between two connections of a flood.
                    yield_now().await;
                }
                operator = self.operators.accept() => {
                    self.operators.serve(operator, &self.admission);
                    self.idle_exit.restart();
                    // Lets the operator's task read its request before another operator could displace it.
                    yield_now().await;
                }
                Some(query) = queries.recv() => self.answer(query),
                Some(request) = sockets.recv() => self.prepare_sockets(request, upkeep),
                Ok(()) = self.profiles.changed() => self.serve_profiles(upkeep),
                () = self.sessions.changed(self.agents.as_ref(), &self.manager) => {}
                () = upkeep.due() => {
                    let agents = self.agents.iter_mut().flat_map(AgentSockets::listeners);
                    if upkeep.check(agents.chain([self.operators.listener()])) == Standing::Superseded {
                        is_superseded = true;
                        self.lifecycle.require_end();
                    }
                }
                () = self.lifecycle.drained() => {
                    self.lifecycle.end_for_successor();
                    self.manager.stop(StopLevel::FinishRunning);
                }
                () = stop.at_least(StopLevel::FinishRunning), if !self.lifecycle.is_ending() => {
                    self.agents = None;
                    self.lifecycle.end();
                    self.manager.stop(StopLevel::FinishRunning);
                }
                () = &mut killed, if self.lifecycle.is_stopping() && !hurried => {
                    hurried = true;
                    self.manager.stop(StopLevel::Kill);
                }
                () = self.idle_exit.check_due(), if self.lifecycle.is_serving() => {
                    if self.idle_exit.is_over() {
                        self.end_if_unused();
                    }
                }
                ended = &mut servers_ended => break ended,
            }
            self.idle_exit.observe(!self.sessions.is_empty());
        };
        self.close(ended, is_superseded).await
    }

    /// Ends sessions after the servers.
    async fn close(
        mut self,
        ended: Result<Vec<u32>, JoinError>,
        is_superseded: bool,
    ) -> Result<Option<Handover>, DaemonError> {
        if ended.is_err() {
            self.agents = None;
            self.after_manager().await;
        }
        let has_successor = self.lifecycle.servers_ended();
        self.sessions.close().await;
        let left = ended.map_err(|_| DaemonError::Panicked)?;
        match left.is_empty() {
            true if is_superseded => Err(DaemonError::Superseded),
            true if has_successor => Ok(self.hand_over()),
            true => Ok(None),
            false if has_successor => {
                tracing::error!("{}", DaemonError::ProcessesLeft(left));
                Ok(self.hand_over())
            }
            false => Err(DaemonError::ProcessesLeft(left)),
        }
    }

    /// The sockets for the next program.
    fn hand_over(self) -> Option<Handover> {
        let mut handover = Handover::default();
        self.agents?.hand_over(&mut handover);
        self.operators.hand_over(&mut handover);
        Some(handover)
    }

    /// Ends the daemon, unless a server works, an operator is connected, or an agent has just come.
    fn end_if_unused(&mut self) {
        let is_working = || self.manager.view().borrow().servers.iter().any(|server| server.handle.totals().busy > 0);
        if self.operators.are_connected() || is_working() {
            return self.idle_exit.restart();
        }
        let Some(sockets) = &mut self.agents else { return };
        let waiting = sockets.close_unless_waiting();
        if waiting.is_empty() {
            let limit = self.idle_exit.limit().unwrap_or_default();
            tracing::info!("no agent was connected for {}: stopping", duration::format(limit));
            return self.lifecycle.require_end();
        }
        for (listener, stream) in waiting {
            let agent = AgentConnection::Socket(stream);
            self.sessions.serve(agent, sockets.get(listener), &self.admission, &self.manager);
        }
        sockets.set_backlogs(|profile| self.sessions.burst(profile));
    }

    fn prepare_sockets(&mut self, PrepareSockets { profiles, answer }: PrepareSockets, upkeep: &mut SocketUpkeep) {
        if self.profiles.has_changed().unwrap_or(false) {
            self.serve_profiles(upkeep);
        }
        let created = self.agents.as_mut().map_or(Ok(()), |sockets| sockets.prepare(&profiles, upkeep.lock()));
        // The receiver may be gone.
        drop(answer.send(created));
    }

    /// Accepts connections for the current profiles.
    fn serve_profiles(&mut self, upkeep: &mut SocketUpkeep) {
        let profiles = Arc::clone(&self.profiles.borrow_and_update());
        let Some(sockets) = &mut self.agents else { return };
        sockets.serve(&profiles, upkeep.lock());
        self.sessions.apply(&profiles);
        self.sessions.keep_tokens(&sockets.loopback().tokens());
        sockets.set_backlogs(|profile| self.sessions.burst(profile));
    }

    /// Waits for the servers of a manager that panicked: they end at once, as their owner was dropped.
    async fn after_manager(&self) {
        let servers = self.manager.view().borrow().servers.clone();
        let all_ended = async {
            for server in &servers {
                server.handle.wait_ended().await;
            }
        };
        if timeout(LAST_SERVERS, all_ended).await.is_err() {
            tracing::warn!("some servers did not end");
        }
    }
}
