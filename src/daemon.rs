//! The composition root: configuration → sockets → manager → sessions → ordered stop.
//!
//! The only place that knows the order of shutdown. Must not touch: JSON-RPC, MCP methods, processes.
//!
//! ```text
//! SIGTERM ─► agent sockets gone ─► servers finish their calls and end, in parallel
//!         ─► sessions write their last answers ─► admin socket gone ─► lock released
//! ```

mod notify;
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

use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use self::reload::Reload;
use self::status::Connected;
use crate::admin;
use crate::config::Config;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::manager::{Manager, ManagerError, Setup, Strays, View};
use crate::server::{self, Guard, Host, Stop, StopOrder, Turns};
use crate::session;
use crate::signals;
use crate::sockets::{ADMIN_SOCKET, AGENT_SOCKET, Listener, RuntimeDir, SocketError};

/// Agents connected at once, or half as many as there may be open files if that is less; one more gets −31003 and its
/// connection is closed.
const MAX_SESSIONS: usize = 4096;
/// Operators connected at once, and questions waiting for an answer; one more waits in the socket.
const MAX_OPERATORS: usize = 64;
/// Until `accept` is tried again when it fails, as it does while no file descriptor is free.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// For servers to be ended when their manager is gone, which ends them at once.
const LAST_SERVERS: Duration = Duration::from_secs(5);
/// For sessions to write their last answers, which have a shorter limit of their own.
const LAST_SESSIONS: Duration = Duration::from_secs(1);

/// Why a daemon did not start, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The sockets cannot be served.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The servers cannot be owned.
    #[error(transparent)]
    Servers(#[from] ManagerError),
    /// The system refused something at start.
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
    /// A task of mcpd's own panicked; the message of the panic was printed. What could be stopped was.
    #[error("ended because of a bug in mcpd, which the panic message above tells more about: please report it")]
    Panicked,
}

struct Daemon {
    started: Instant,
    max_message: usize,
    max_sessions: usize,
    manager: Manager,
    view: watch::Receiver<Arc<View>>,
    /// `None` once the daemon is being stopped.
    agents: Option<Listener>,
    agent_socket: String,
    operators: Listener,
    sessions: JoinSet<()>,
    connected: HashMap<Id, Connected>,
    /// How many they are, for whoever watches.
    agent_count: watch::Sender<usize>,
    next_session: u64,
    /// To the sessions, once no server is left.
    closing: (watch::Sender<Stop>, StopOrder),
    questions: JoinSet<()>,
    queries: mpsc::Sender<admin::Query>,
}

/// Serves `config` in `directory` until a signal says otherwise; SIGHUP has it read again from `files`, or from the
/// default file if there are none. Returns when no process and no socket is left.
///
/// # Errors
/// If the directory is unsafe or served by another daemon, or the system refuses; then nothing was started. If a task
/// of mcpd's own panicked; then everything has been ended.
pub async fn run(config: Config, files: &[PathBuf], directory: &RuntimeDir) -> Result<(), DaemonError> {
    let inherited = process::prepare()?;
    let signals = signals::listen()?;
    let lock = directory.lock()?;
    let max_message = config.daemon.max_message_bytes;
    let turns = Turns::new(config.daemon.max_starting);
    let cache = process::cache_directory();
    let host = Host { inherited, max_message, turns, cache, ..Host::new(Guard::available()) };
    let sockets = (lock.listen(AGENT_SOCKET)?, lock.listen(ADMIN_SOCKET)?);
    let setup = Setup { naming: config.daemon.naming.clone(), host, strays: Some(Strays::watch()) };
    let (manager, servers_ended) = Manager::spawn(setup, config.servers)?;
    let reload = Reload { files: files.to_vec(), daemon: config.daemon, manager: manager.clone() };
    let (daemon, asked) = Daemon::new(sockets, manager, max_message);
    tracing::info!(socket = daemon.agent_socket, "serving");
    let (view, agents) = (daemon.view.clone(), daemon.agent_count.subscribe());
    let mut helpers = JoinSet::new();
    helpers.spawn(notify::run(notify::Facts { view, agents, stop: signals.stop.clone() }));
    helpers.spawn(reload.on(signals.reload));
    let ended = daemon.serve(asked, signals.stop, servers_ended).await;
    // Only now may another daemon take the directory over.
    drop(lock);
    ended
}

impl Daemon {
    fn new(
        (agents, operators): (Listener, Listener),
        manager: Manager,
        max_message: usize,
    ) -> (Self, mpsc::Receiver<admin::Query>) {
        let (queries, asked) = mpsc::channel(MAX_OPERATORS);
        let daemon = Self {
            started: Instant::now(),
            max_message,
            max_sessions: MAX_SESSIONS.min(process::open_files() / 2),
            view: manager.view(),
            manager,
            agent_socket: agents.path().display().to_string(),
            agents: Some(agents),
            operators,
            sessions: JoinSet::new(),
            connected: HashMap::new(),
            agent_count: watch::Sender::new(0),
            next_session: 0,
            closing: StopOrder::channel(),
            questions: JoinSet::new(),
            queries,
        };
        (daemon, asked)
    }

    /// Serves until the manager has ended; then no server is left.
    async fn serve(
        mut self,
        mut asked: mpsc::Receiver<admin::Query>,
        mut stop: StopOrder,
        mut servers_ended: JoinHandle<()>,
    ) -> Result<(), DaemonError> {
        let mut kill = stop.clone();
        let mut killed = pin!(kill.at_least(Stop::Kill));
        let mut hurried = false;
        let ended = loop {
            tokio::select! {
                agent = accept(self.agents.as_ref()) => self.greet_agent(agent),
                operator = accept(Some(&self.operators)), if self.questions.len() < MAX_OPERATORS => {
                    self.greet_operator(operator);
                }
                Some(query) = asked.recv() => drop(query.send(self.report())),
                Some(ended) = self.sessions.join_next_with_id() => self.forget(ended),
                Some(_) = self.questions.join_next() => {}
                () = stop.at_least(Stop::Stop), if self.agents.is_some() => {
                    self.agents = None;
                    self.manager.stop(Stop::Stop);
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
        self.closing.0.send_replace(Stop::Stop);
        let all_ended = async { while self.sessions.join_next().await.is_some() {} };
        if timeout(LAST_SESSIONS, all_ended).await.is_err() {
            tracing::warn!("some agents did not take their last answers");
        }
        tracing::info!("stopped");
        ended.map_err(|_| DaemonError::Panicked)
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

    fn greet_agent(&mut self, stream: UnixStream) {
        let Some(peer) = own_peer(&stream) else { return };
        if self.sessions.len() >= self.max_sessions {
            tracing::warn!(pid = peer.pid(), "refused an agent: {} are connected", self.max_sessions);
            let message = format!("mcpd serves {} agents already", self.max_sessions);
            let data = Some(serde_json::json!({ "outcome": "not_sent" }));
            let error = ErrorObject { data, ..ErrorObject::new(-31003, message) };
            // Into an empty socket buffer: it does not wait.
            let _ = stream.try_write(&reply::error(None, &error));
            return;
        }
        self.next_session += 1;
        let facts = Arc::new(session::Facts::default());
        let setup = session::Setup {
            number: self.next_session,
            view: self.view.clone(),
            max_message: self.max_message,
            closing: self.closing.1.clone(),
            facts: Arc::clone(&facts),
            cwd: process::working_directory(peer.pid()),
        };
        let task = self.sessions.spawn(session::run(stream, setup));
        let connected = Connected { number: self.next_session, peer, since: Instant::now(), facts };
        self.connected.insert(task.id(), connected);
        self.agent_count.send_replace(self.connected.len());
    }

    fn greet_operator(&mut self, stream: UnixStream) {
        let Some(peer) = own_peer(&stream) else { return };
        let view = self.view.borrow();
        let guards: Vec<u32> = view.servers.iter().flat_map(|member| member.handle.guards()).collect();
        if !peer.pid().is_some_and(|pid| server::is_unrelated(pid, &guards)) {
            tracing::warn!(pid = peer.pid(), "refused an operator that may be a server");
            return;
        }
        self.questions.spawn(admin::serve(stream, self.queries.clone()));
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.connected.remove(&id);
        self.agent_count.send_replace(self.connected.len());
    }
}

/// The next connection; never, if there is no listener any more.
async fn accept(listener: Option<&Listener>) -> UnixStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.socket.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Who connected, if it is this daemon's own user; nobody else gets a byte read.
fn own_peer(stream: &UnixStream) -> Option<tokio::net::unix::UCred> {
    let peer = stream.peer_cred().ok()?;
    let own = peer.uid() == rustix::process::geteuid().as_raw();
    if !own {
        tracing::warn!(uid = peer.uid(), pid = peer.pid(), "refused another user");
    }
    own.then_some(peer)
}
