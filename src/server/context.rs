//! What all servers of one owner share: the guard program, limits, cgroups, HTTP clients and logins.

#![expect(clippy::disallowed_types, reason = "server tasks register guards, and the daemon looks them up")]

use std::path::{Path, PathBuf};

use super::agent_scope::AgentScope;
use super::process::ReaperHandle;
use super::process::cgroup::Cgroups;
use super::process_attributes::ProcessAttributes;
use super::reexec;
use super::sandbox::SandboxHost;
use super::secret_programs::SecretPrograms;
use super::shared_state::SharedState;
use super::start_permit::StartPermits;
use crate::backoff::RestartDelays;
use crate::config::DaemonConfig;
use crate::config::interpolate::Process;
use crate::durations::Durations;
use crate::logging::ServerOutput;
use crate::masking::KnownSecrets;
use crate::net::client::Clients;
use crate::oauth::Logins;
use crate::tap::Tap;

/// The executable that runs as guard: it ends the server's process subtree when mcpd does not, or has died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardProgram {
    /// This program, whose `main` calls [`guard::run_if_guard`](crate::guard::run_if_guard) first.
    ThisProgram,
    /// Another executable that does so, such as `mcpd`.
    Program(PathBuf),
    /// None: servers run in plain process groups. A descendant that leaves its group survives its server. Servers that
    /// ignore end-of-file survive the death of this program.
    None,
}

impl GuardProgram {
    /// [`GuardProgram::ThisProgram`] if its `main` has called [`guard::run_if_guard`](crate::guard::run_if_guard), else [`GuardProgram::None`].
    #[must_use]
    pub fn available() -> Self {
        if reexec::can_reexecute() { Self::ThisProgram } else { Self::None }
    }

    /// The executable, if there is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            // The running executable, even if an upgrade has replaced the file.
            Self::ThisProgram => Some(Path::new("/proc/self/exe")),
            Self::Program(path) => Some(path),
            Self::None => None,
        }
    }
}

/// What all servers of one owner share.
#[derive(Debug, Clone)]
pub struct ServerContext {
    /// The guard of their processes.
    pub guard: GuardProgram,
    /// The parent of the guards.
    pub reaper: ReaperHandle,
    /// What the sandboxes of their processes depend on.
    pub sandbox: SandboxHost,
    /// The guards that run.
    pub guards: GuardRegistry,
    /// The original attributes of this process.
    pub inherited: ProcessAttributes,
    /// Message cap in bytes, each way.
    pub max_message: usize,
    /// The delays before a server that has ended is restarted; `None` if it is not restarted.
    pub restarts: Option<RestartDelays>,
    /// Limits how many start at once.
    pub start_permits: StartPermits,
    /// The cgroups of servers with limits.
    pub cgroups: Cgroups,
    /// The directory of the list cache. Without one, a lazy server is started once to list.
    pub cache: Option<PathBuf>,
    /// Keeps what servers write to stderr.
    pub output: ServerOutput,
    /// The programs of `${cmd:…}`.
    pub secret_programs: SecretPrograms,
    /// The HTTP clients.
    pub clients: Clients,
    /// The logins that `mcpd login` has stored. Without them no server gets a token.
    pub logins: Option<Logins>,
    /// The secrets that they have used.
    pub secrets: KnownSecrets,
    /// Where messages from and to servers are noted.
    pub tap: Tap,
    /// Counts how long requests and sessions take.
    pub durations: Durations,
    /// Whether agents can receive requests of servers. If not, such requests are refused.
    pub serves_agents: bool,
}

impl ServerContext {
    /// One with this guard and the defaults of [`DaemonConfig`], without a list cache.
    #[must_use]
    pub fn new(guard: GuardProgram) -> Self {
        let sandbox = SandboxHost::new(guard.path(), &Process);
        Self {
            guard,
            reaper: ReaperHandle::default(),
            sandbox,
            guards: GuardRegistry::default(),
            inherited: ProcessAttributes::default(),
            max_message: DaemonConfig::default().max_message_bytes,
            restarts: Some(RestartDelays::default()),
            start_permits: StartPermits::default(),
            cgroups: Cgroups::default(),
            cache: None,
            output: ServerOutput::default(),
            secret_programs: SecretPrograms::default(),
            clients: Clients::default(),
            logins: None,
            secrets: KnownSecrets::default(),
            tap: Tap::default(),
            durations: Durations::default(),
            serves_agents: false,
        }
    }

    /// The state of a new server.
    pub(crate) fn state_of(&self, server: Arc<str>) -> SharedState {
        SharedState::new(server, self.output.clone(), self.durations.clone())
    }

    /// The scope of an instance that belongs to no particular agent.
    pub(super) fn scope(&self) -> AgentScope {
        if self.serves_agents { AgentScope::Any } else { AgentScope::Nobody }
    }
}

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::ServerConfig;

type Guards = Arc<Mutex<BTreeMap<u32, Arc<ServerConfig>>>>;

/// Guard processes and the servers below them.
#[derive(Debug, Clone, Default)]
pub struct GuardRegistry(Guards);

/// The entry of a guard. Dropping it removes the entry.
#[derive(Debug)]
pub(super) struct GuardEntry {
    guards: Guards,
    pid: u32,
    config: Arc<ServerConfig>,
}

impl GuardRegistry {
    /// Records a guard before its server is started.
    pub(super) fn record(&self, pid: u32, config: Arc<ServerConfig>) -> GuardEntry {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pid, Arc::clone(&config));
        GuardEntry { guards: Arc::clone(&self.0), pid, config }
    }

    /// The server below the guard `pid`.
    pub(crate) fn server_below(&self, pid: u32) -> Option<Arc<ServerConfig>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&pid).cloned()
    }
}

impl Drop for GuardEntry {
    fn drop(&mut self) {
        let mut guards = self.guards.lock().unwrap_or_else(PoisonError::into_inner);
        // Another guard may have this id by now.
        if guards.get(&self.pid).is_some_and(|config| Arc::ptr_eq(config, &self.config)) {
            guards.remove(&self.pid);
        }
    }
}
