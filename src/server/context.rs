//! What every server of one owner is run with: the guard of its processes, limits, cgroups, HTTP clients, logins.

use std::path::PathBuf;

use super::agent_scope::AgentScope;
use super::guard;
use super::process::cgroup::Cgroups;
use super::start_permit::StartPermits;
use crate::config::DaemonConfig;
use crate::net::client::Clients;
use crate::oauth::Logins;

/// What ends a server's whole subtree when the program that owns it does not, or cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// This program, whose `main` calls [`guard::run_if_guard`] first.
    ThisProgram,
    /// Another executable that does so, such as `mcpd`.
    Program(PathBuf),
    /// None: servers run in plain process groups. A descendant that leaves its group then survives its server, and
    /// servers that do not leave at end-of-file survive the death of this program.
    None,
}

impl Guard {
    /// [`Guard::ThisProgram`] if its `main` has called [`guard::run_if_guard`], else [`Guard::None`].
    #[must_use]
    pub fn available() -> Self {
        if guard::is_hooked() { Self::ThisProgram } else { Self::None }
    }
}

/// What a program changed of its own process and hands to its servers as it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inherited {
    /// File mode creation mask.
    pub umask: Option<u32>,
    /// Soft limit of open files.
    pub open_files: Option<u64>,
}

/// What every server of one owner is run with.
#[derive(Debug, Clone)]
pub struct ServerContext {
    /// What keeps their processes.
    pub guard: Guard,
    /// What is put back for them.
    pub inherited: Inherited,
    /// Message cap in bytes, each way.
    pub max_message: usize,
    /// Whether a server that has ended is started again.
    pub restarts: bool,
    /// How many start at once.
    pub start_permits: StartPermits,
    /// Where those with limits are put under them.
    pub cgroups: Cgroups,
    /// Directory where what servers offer is kept, as they last told it. Without one, a server that is started by its first
    /// call is started once to learn it.
    pub cache: Option<PathBuf>,
    /// Who speaks HTTP for them.
    pub clients: Clients,
    /// Logins, as `mcpd login` leaves them. Without any no server is logged in to.
    pub logins: Option<Logins>,
    /// Whether there are agents that may be asked what servers ask. Without any they are told so.
    pub serves_agents: bool,
}

impl ServerContext {
    /// One with this guard and otherwise what [`DaemonConfig`] has as default, which hands nothing on and keeps nothing.
    #[must_use]
    pub fn new(guard: Guard) -> Self {
        let DaemonConfig { max_message_bytes: max_message, max_starting, .. } = DaemonConfig::default();
        let start_permits = StartPermits::new(max_starting);
        Self {
            guard,
            inherited: Inherited::default(),
            max_message,
            restarts: true,
            start_permits,
            cgroups: Cgroups::default(),
            cache: None,
            clients: Clients::default(),
            logins: None,
            serves_agents: false,
        }
    }

    /// For whom an instance is that is not one agent's own.
    pub(super) fn scope(&self) -> AgentScope {
        if self.serves_agents { AgentScope::Any } else { AgentScope::Nobody }
    }
}
