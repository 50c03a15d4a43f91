//! Options of a manager.

use std::path::PathBuf;
use std::time::Duration;

use crate::backoff::RestartDelays;
use crate::config::DaemonConfig;
use crate::naming::Naming;
use crate::pin_files::PinDirectory;
use crate::server::{GuardProgram, ServerContext};

/// Options of a manager, beside its servers.
#[derive(Debug)]
pub struct Setup {
    pub(crate) naming: Naming,
    /// What servers are run with.
    pub(crate) host: ServerContext,
    pub(crate) first_list_wait: Duration,
    /// Where definitions are pinned.
    pub(crate) pins: Option<PinDirectory>,
}

/// With names of the form `server__tool`, messages of at most 10 MiB − 64 KiB, and [`GuardProgram::available`].
impl Default for Setup {
    fn default() -> Self {
        let first_list_wait = DaemonConfig::default().first_list_wait;
        let host = ServerContext::new(GuardProgram::available());
        Self { naming: Naming::default(), host, first_list_wait, pins: None }
    }
}

impl Setup {
    /// How server and tool name are joined to an exposed name. Default: [`Naming::Prefixed`].
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Self {
        // The names of one face cannot be told apart by server.
        self.naming = if naming == Naming::Own { Naming::Bare } else { naming };
        self
    }

    /// The delays before a server that fails is started again.
    #[must_use]
    pub fn restart_delays(mut self, delays: RestartDelays) -> Self {
        self.host.restarts = Some(delays);
        self
    }

    /// Runs servers under this guard.
    #[must_use]
    pub fn guard(mut self, guard: GuardProgram) -> Self {
        self.host.guard = guard;
        self
    }

    /// Caches in this directory what servers offer. A lazy server that was listed before is then not started until it is called.
    #[must_use]
    pub fn cache(mut self, directory: impl Into<PathBuf>) -> Self {
        self.host.cache = Some(directory.into());
        self
    }

    /// Pins in this directory what servers offer, and compares it as [`Settings::changes`](crate::config::Settings::changes) says. Without a
    /// directory, nothing is compared. The file `NAME.json` of a server is written when the server has listed for the first time.
    #[must_use]
    pub fn pins(mut self, directory: impl Into<PathBuf>) -> Self {
        self.pins = Some(PinDirectory::new(directory.into()));
        self
    }

    /// How long the first lists wait for servers that start and of which nothing is known. Default: 5 s.
    #[must_use]
    pub fn first_list_wait(mut self, limit: Duration) -> Self {
        self.first_list_wait = limit;
        self
    }
}
