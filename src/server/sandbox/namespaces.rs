//! Namespaces of a server at level `files`: which ones, and the steps that a system may refuse. Pure.

use std::fmt;
use std::io;

use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

/// The name of the process that becomes the server, inside the namespaces.
pub(in crate::server) const SERVER_ARGV0: &str = "mcpd-sandboxed";
/// A link to the temporary directory of the server. By way of it, the names of sockets are short enough (unix(7): 107 bytes).
pub(super) const TEMPORARY: &str = "/var/tmp";
/// What the first process in the namespaces needs until the server starts.
pub(super) const INIT_CAPABILITIES: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::SETPCAP);

/// The namespaces that a server gets beside those that it always gets: user, mount, pid and ipc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::server) struct Namespaces {
    /// A network namespace with nothing but `lo`.
    pub(in crate::server) network: bool,
    /// Whether the server may create user namespaces inside.
    pub(in crate::server) nested: bool,
}

/// A step of the sandbox stage, in the order in which it takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NamespaceStep {
    /// Start the trial.
    Trial,
    /// Create the namespaces.
    Create,
    /// Map the user and the group.
    MapIds,
    /// Limit nested user namespaces.
    LimitNested,
    /// Bring up `lo`.
    Loopback,
    /// Open what is granted.
    OpenGrants,
    /// Build the tree of mounts.
    Mount,
    /// Mount a copy of what is granted.
    Copy,
    /// Give up capabilities.
    Capabilities,
    /// Start the first process.
    StartInit,
    /// Mount `/proc`.
    MountProc,
    /// Change the root directory.
    ChangeRoot,
    /// Start the server's own process.
    StartServer,
}

/// The step that has failed, and the error number of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NamespaceFailure {
    /// The step.
    pub step: NamespaceStep,
    /// The error number, such as 1 for `EPERM`.
    pub errno: i32,
}

impl NamespaceFailure {
    /// There is nothing that could try.
    pub(super) const NO_GUARD: Self = Self { step: NamespaceStep::Trial, errno: libc::ENOSYS };
    /// The process that would become the server has failed.
    pub(super) const NO_SERVER: Self = Self { step: NamespaceStep::StartServer, errno: libc::EIO };
}

/// Adds the step to an error.
pub(super) trait AtStep<T> {
    fn at(self, step: NamespaceStep) -> Result<T, NamespaceFailure>;
}

impl<T, E: Into<io::Error>> AtStep<T> for Result<T, E> {
    fn at(self, step: NamespaceStep) -> Result<T, NamespaceFailure> {
        self.map_err(|error| NamespaceFailure { step, errno: error.into().raw_os_error().unwrap_or(libc::EIO) })
    }
}

impl fmt::Display for NamespaceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trial => "start a trial",
            Self::Create => "create namespaces",
            Self::MapIds => "map the user",
            Self::LimitNested => "limit nested namespaces",
            Self::Loopback => "bring up lo",
            Self::OpenGrants => "open what is granted",
            Self::Mount => "mount",
            Self::Copy => "mount a copy",
            Self::Capabilities => "give up capabilities",
            Self::StartInit => "start the first process",
            Self::MountProc => "mount /proc",
            Self::ChangeRoot => "change the root directory",
            Self::StartServer => "start the server's process",
        })
    }
}

impl fmt::Display for NamespaceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.step, io::Error::from_raw_os_error(self.errno))
    }
}
