//! The sandbox: what the processes of one server may reach.
//!
//! [`plan`] decides what the running kernel can enforce of the configured [`Sandbox`]. The guard starts the server by way of
//! [`stage`], a second process that restricts itself and then becomes the server. So the guard stays outside.
//!
//! - Level `scope` is a Landlock domain of its own. A process inside cannot read the memory, environment or open files of
//!   processes outside. From Linux 6.12 on, it can neither send them signals nor connect to their abstract sockets. It still sees the
//!   list of processes with their arguments, and can change their priority. Files are not restricted.
//! - Level `files` is the same domain with rules for files ([`files`]). Where the system permits it ([`probe`]), the server also gets
//!   [`namespaces`] of its own, in which only what it was granted exists. There, [`init`] is above its processes.
//! - At both, filters refuse [system calls](syscalls) that neither of them sees.
//!
//! Sources: the kernel's `Documentation/userspace-api/landlock.rst`, namespaces(7), seccomp(2).

mod copies;
pub(super) mod domain;
mod files;
pub(super) mod init;
mod mounts;
pub(super) mod namespaces;
mod opened;
pub(super) mod probe;
mod programs;
pub(super) mod stage;
mod syscalls;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

pub use self::domain::LandlockSupport;
use self::namespaces::Namespaces;
pub use self::namespaces::{NamespaceFailure, NamespaceStep};
use crate::config::interpolate::Sources;
use crate::config::known_commands::creates_mounts;
use crate::config::{NamespaceUse, Network, ProtectedDirectories, Sandbox, SandboxLevel, ServerConfig};

/// The variable of the home directory.
const HOME: &str = "HOME";

/// The restrictions that [`stage`] applies to itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Restrictions {
    pub(super) domain: Option<Domain>,
    pub(super) namespaces: Option<Namespaces>,
    /// The rules of level `files`.
    pub(super) files: Option<FileRules>,
    /// Whether Unix sockets may be created.
    pub(super) unix: bool,
    /// The TCP ports of the system's network that may be connected to. Without a list, all may be used.
    pub(super) ports: Option<Vec<u16>>,
}

impl Restrictions {
    /// The private directory of this server, which only level `files` has.
    pub(super) fn private(&self) -> Option<&Path> {
        Some(&self.files.as_ref()?.private)
    }

    /// The variables that lead the files of the server into its private directory, unless its configuration sets them.
    pub(super) fn private_variables(&self) -> Vec<(&'static str, PathBuf)> {
        self.files.as_ref().map(FileRules::variables).unwrap_or_default()
    }
}

/// A Landlock domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Domain {
    /// The version of Landlock for which the domain is made.
    pub(super) abi: u8,
}

/// What a server at level `files` may reach beside the system and its own program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileRules {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    /// The private directory of this server. It is created if it does not exist.
    pub(super) private: PathBuf,
    /// Whether the server has namespaces of its own. Its home directory lies in the private one then.
    pub(super) has_namespaces: bool,
    /// Whether the server has no network, and so must not reach the sockets of what resolves host names either.
    pub(super) is_offline: bool,
    /// mcpd's directory of sockets, with the directories of profiles, if the server may be an agent.
    pub(super) agent_sockets: Option<PathBuf>,
    pub(super) protected: ProtectedDirectories,
    /// Whether what the server writes beside its private directory goes to memory.
    #[serde(default)]
    pub(super) copies: bool,
}

/// A kind of access that a sandbox takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RestrictedAccess {
    /// Memory, environment and open files of other processes.
    Processes,
    /// Signals to other processes.
    Signals,
    /// Abstract Unix sockets of other processes.
    AbstractSockets,
    /// Files that the server does not need.
    Files,
    /// All Unix sockets.
    UnixSockets,
    /// TCP ports that are not listed.
    TcpPorts,
    /// UDP.
    Udp,
    /// Existence, modes, owners and times of files that the server may not change, and notices of changes.
    FileMetadata,
    /// The list of processes, their arguments and priorities, and what `/proc` and `/sys` show of the system.
    ProcessList,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// Keyrings of the kernel.
    Keyrings,
}

/// What prevents the enforcement of a sandbox or of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// The kernel has no Landlock, or it is disabled.
    NoLandlock,
    /// The kernel's Landlock is too old.
    OldLandlock,
    /// The program creates mounts, which this kernel forbids in a sandbox.
    MountingProgram,
    /// Without a guard there is no sandbox.
    NoGuard,
    /// Neither `XDG_STATE_HOME` nor `HOME` is set, so there is no place for the server's own files.
    NoHome,
    /// The system permits no namespaces.
    NoNamespaces,
}

/// What is enforced for a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SandboxReport {
    /// The configured level.
    pub level: SandboxLevel,
    /// What is taken away from the server.
    pub enforced: Vec<RestrictedAccess>,
    /// What the level promises and the running kernel cannot enforce. Absent if everything is enforced.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub not_enforced: Vec<RestrictedAccess>,
    /// Why not. Absent if everything is enforced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Obstacle>,
    /// Why a server at level `files` has no namespaces of its own. Absent if it has, and at other levels.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub namespaces: Option<NamespaceFailure>,
}

impl SandboxReport {
    fn unrestricted(level: SandboxLevel) -> Self {
        Self { level, enforced: Vec::new(), not_enforced: Vec::new(), reason: None, namespaces: None }
    }

    /// What is not enforced, and why: the rest of a sentence about the server.
    #[must_use]
    pub fn unenforced_text(&self) -> Option<String> {
        let reason = self.reason?;
        let missing: Vec<_> = self.not_enforced.iter().map(ToString::to_string).collect();
        let detail = self.namespaces.filter(|_| reason == Obstacle::NoNamespaces);
        let detail = detail.map(|failure| format!(": {failure}")).unwrap_or_default();
        Some(format!("its sandbox does not restrict {}: {reason}{detail}", missing.join(", ")))
    }
}

/// Why a server must not start: its sandbox cannot be enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unenforceable {
    /// Level `files`.
    Files(Obstacle),
    /// Limits for TCP ports.
    Network(Obstacle),
    /// Namespaces, which the configuration requires.
    Namespaces(NamespaceFailure),
}

/// What the sandboxes of all servers of one owner depend on.
#[derive(Debug, Clone)]
pub struct SandboxHost {
    /// The Landlock of the running kernel.
    pub landlock: LandlockSupport,
    /// The parent of the private directories of all servers at level `files`.
    pub servers_dir: Option<PathBuf>,
    /// The directories that no server at level `files` may reach.
    pub protected: ProtectedDirectories,
    /// mcpd's directory of sockets.
    pub sockets: Option<PathBuf>,
    /// Whether what servers with namespaces write beside their private directories goes to memory.
    pub(crate) copies: bool,
    /// The program that becomes a guard, and a stage.
    program: Option<PathBuf>,
    /// Whether a server can have namespaces of its own. Set by the first server at level `files`.
    namespaces: Arc<OnceCell<Result<(), NamespaceFailure>>>,
}

impl SandboxHost {
    /// That of this process, whose guards are run by `program`, if there are any. Source of the directories: XDG Base Directory
    /// Specification.
    #[must_use]
    pub fn new(program: Option<&Path>, sources: &dyn Sources) -> Self {
        let protected = ProtectedDirectories::of(sources);
        let servers_dir = protected.servers();
        let landlock = if program.is_some() { LandlockSupport::running() } else { LandlockSupport::NoGuard };
        let program = program.map(Path::to_owned);
        Self { landlock, servers_dir, protected, sockets: None, copies: false, program, namespaces: Arc::default() }
    }

    /// What is enforced for a server whose configuration does not mention a sandbox.
    #[must_use]
    pub fn report_of_default(&self) -> SandboxReport {
        let plan = plan(&Sandbox::default(), self.support(Err(NamespaceFailure::NO_GUARD)), "", None, &self.protected);
        plan.map(|plan| plan.report).unwrap_or_else(|_| SandboxReport::unrestricted(SandboxLevel::Scope))
    }

    /// Whether the running kernel can restrict the TCP ports of a server.
    #[must_use]
    pub fn restricts_ports(&self) -> bool {
        self.landlock >= LandlockSupport::NETWORK
    }

    /// Whether a server can have namespaces of its own. Waits for a trial.
    ///
    /// # Errors
    /// The step of the trial that has failed.
    pub fn try_namespaces(&self) -> Result<(), NamespaceFailure> {
        self.program.as_deref().map_or(Err(NamespaceFailure::NO_GUARD), probe::try_namespaces)
    }

    /// Decides what of the sandbox of `server` is enforced, which runs `command`.
    pub(super) async fn plan(&self, server: &ServerConfig, command: &str) -> Result<Plan, Unenforceable> {
        let sandbox = &server.settings.sandbox;
        let private = self.servers_dir.as_ref().map(|servers| servers.join(&*server.name));
        let namespaces = match sandbox.level {
            SandboxLevel::Files => *self.namespaces.get_or_init(|| self.try_in_background()).await,
            SandboxLevel::None | SandboxLevel::Scope => Err(NamespaceFailure::NO_GUARD),
        };
        let mut plan = plan(sandbox, self.support(namespaces), command, private.as_deref(), &self.protected)?;
        if let Some(files) = plan.restrictions.as_mut().and_then(|restrictions| restrictions.files.as_mut()) {
            files.copies = self.copies && files.has_namespaces;
            if server.settings.agent {
                files.agent_sockets.clone_from(&self.sockets);
            }
        }
        Ok(plan)
    }

    async fn try_in_background(&self) -> Result<(), NamespaceFailure> {
        let host = self.clone();
        let tried = spawn_blocking(move || host.try_namespaces()).await.unwrap_or(Err(NamespaceFailure::NO_GUARD));
        if let Err(failure) = tried {
            tracing::warn!("servers at sandbox level `files` have no namespaces of their own: {failure}");
        }
        tried
    }

    fn support(&self, namespaces: Result<(), NamespaceFailure>) -> Support {
        Support { landlock: self.landlock, namespaces }
    }
}

/// What the running system can enforce.
#[derive(Debug, Clone, Copy)]
struct Support {
    landlock: LandlockSupport,
    namespaces: Result<(), NamespaceFailure>,
}

/// The sandbox of one server as the running system can enforce it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// `None` starts the server without a stage.
    pub(super) restrictions: Option<Restrictions>,
    pub(super) report: SandboxReport,
}

/// Decides what of `sandbox` is enforced for `command`. `private` and `protected` are as in [`FileRules`].
fn plan(
    sandbox: &Sandbox,
    support: Support,
    command: &str,
    private: Option<&Path>,
    protected: &ProtectedDirectories,
) -> Result<Plan, Unenforceable> {
    if sandbox.level == SandboxLevel::None {
        return Ok(Plan { restrictions: None, report: SandboxReport::unrestricted(sandbox.level) });
    }
    let means = Means::of(sandbox, support, command);
    means.check()?;
    let files = match (means.is_files, private) {
        (false, _) => None,
        (true, None) => return Err(Unenforceable::Files(Obstacle::NoHome)),
        (true, Some(private)) => Some(FileRules {
            read: sandbox.read.clone(),
            write: sandbox.write.clone(),
            private: private.to_owned(),
            has_namespaces: means.has_namespaces,
            is_offline: means.is_offline,
            agent_sockets: None,
            protected: protected.clone(),
            copies: false,
        }),
    };
    let domain = match support.landlock {
        LandlockSupport::Version(abi) if means.has_domain => Some(Domain { abi }),
        _ => None,
    };
    let own = Namespaces { network: means.is_offline, nested: sandbox.nested_namespaces };
    let namespaces = means.has_namespaces.then_some(own);
    let ports = means.ports.filter(|_| !namespaces.is_some_and(|own| own.network)).map(<[u16]>::to_vec);
    let has_filter = means.has_filter && (!means.unix || ports.is_some());
    let is_restricted = domain.is_some() || files.is_some() || has_filter;
    let restrictions = Restrictions { domain, namespaces, files, unix: means.unix || !means.has_filter, ports };
    Ok(Plan { restrictions: is_restricted.then_some(restrictions), report: means.report() })
}

/// The means by which a sandbox can be enforced for one server.
#[expect(clippy::struct_excessive_bools, reason = "each is a means that a system has or not, in any combination")]
struct Means<'s> {
    sandbox: &'s Sandbox,
    landlock: LandlockSupport,
    is_files: bool,
    has_domain: bool,
    /// A domain with scopes for signals and abstract sockets.
    has_scopes: bool,
    /// A domain with rules for TCP ports.
    has_ports: bool,
    /// A filter of system calls.
    has_filter: bool,
    has_namespaces: bool,
    /// Why there are none, at level `files`.
    failure: Option<NamespaceFailure>,
    /// The TCP ports that may be connected to. Without a list, all may be used.
    ports: Option<&'s [u16]>,
    is_offline: bool,
    /// Unix sockets are permitted.
    unix: bool,
}

impl<'s> Means<'s> {
    fn of(sandbox: &'s Sandbox, Support { landlock, namespaces }: Support, command: &str) -> Self {
        let is_files = sandbox.level == SandboxLevel::Files;
        let mounts = creates_mounts(command);
        let has_domain =
            landlock >= LandlockSupport::DOMAINS && !(mounts && (is_files || landlock < LandlockSupport::SCOPES));
        let has_scopes = has_domain && landlock >= LandlockSupport::SCOPES;
        let has_filter = landlock > LandlockSupport::NoGuard;
        let has_namespaces = is_files && namespaces.is_ok() && !mounts && has_filter;
        let ports = match &sandbox.network {
            Network::Any => None,
            Network::Ports(ports) => Some(&**ports),
        };
        let is_offline = ports.is_some_and(<[u16]>::is_empty);
        Self {
            sandbox,
            landlock,
            is_files,
            has_domain,
            has_scopes,
            has_ports: has_domain && landlock >= LandlockSupport::NETWORK,
            has_filter,
            has_namespaces,
            failure: namespaces.err().filter(|_| is_files),
            ports,
            is_offline,
            // By a socket, a process outside can pass the server descriptors of what it was not granted.
            unix: sandbox.unix.unwrap_or(!is_files),
        }
    }

    /// Why something that needs this version of Landlock is not enforced.
    fn reason(&self, needs: LandlockSupport) -> Obstacle {
        match self.landlock {
            LandlockSupport::NoGuard => Obstacle::NoGuard,
            LandlockSupport::NoLandlock => Obstacle::NoLandlock,
            landlock if landlock >= needs => Obstacle::MountingProgram,
            LandlockSupport::Version(_) => Obstacle::OldLandlock,
        }
    }

    /// Refuses a sandbox of which a necessary part cannot be enforced.
    fn check(&self) -> Result<(), Unenforceable> {
        if let Some(failure) = self.failure.filter(|_| self.sandbox.namespaces == NamespaceUse::Require) {
            return Err(Unenforceable::Namespaces(failure));
        }
        if self.is_files && !self.has_namespaces && (!self.has_domain || self.landlock < LandlockSupport::FILES) {
            return Err(Unenforceable::Files(self.reason(LandlockSupport::FILES)));
        }
        // A filter is enough to refuse all ports.
        if self.ports.is_some() && !(self.has_ports || self.is_offline && self.has_filter) {
            return Err(Unenforceable::Network(self.reason(LandlockSupport::NETWORK)));
        }
        Ok(())
    }

    /// Each access with whether it is to be taken away, and whether it is.
    fn promised(&self) -> [(RestrictedAccess, bool, bool); 11] {
        let (is_files, has_namespaces) = (self.is_files, self.has_namespaces);
        let refuses_unix = !self.unix && self.has_filter;
        // Abstract sockets belong to the network namespace.
        let hides_abstract = self.has_scopes || has_namespaces && self.is_offline;
        [
            (RestrictedAccess::Processes, true, self.has_domain || has_namespaces),
            (RestrictedAccess::Signals, true, self.has_scopes || has_namespaces),
            (RestrictedAccess::AbstractSockets, true, hides_abstract || refuses_unix),
            (RestrictedAccess::Files, is_files, true),
            (RestrictedAccess::FileMetadata, is_files, has_namespaces),
            (RestrictedAccess::ProcessList, is_files, has_namespaces),
            (RestrictedAccess::Ipc, is_files, true),
            (RestrictedAccess::Keyrings, is_files, true),
            (RestrictedAccess::UnixSockets, !self.unix, self.has_filter),
            (RestrictedAccess::TcpPorts, self.ports.is_some(), true),
            (RestrictedAccess::Udp, is_files && self.is_offline, true),
        ]
    }

    fn report(&self) -> SandboxReport {
        let promised = self.promised();
        let these = |is_enforced| {
            let chosen = promised.iter().filter(move |(_, requested, enforced)| *requested && *enforced == is_enforced);
            chosen.map(|(access, ..)| *access).collect::<Vec<_>>()
        };
        let (enforced, not_enforced) = (these(true), these(false));
        let needs = if self.has_domain { LandlockSupport::SCOPES } else { LandlockSupport::DOMAINS };
        let reason = (!not_enforced.is_empty())
            .then(|| self.failure.map_or_else(|| self.reason(needs), |_| Obstacle::NoNamespaces));
        SandboxReport { level: self.sandbox.level, enforced, not_enforced, reason, namespaces: self.failure }
    }
}

impl FileRules {
    /// The variables that lead the files of the server into its private directory.
    pub(super) fn variables(&self) -> Vec<(&'static str, PathBuf)> {
        let private = &self.private;
        let cache = private.join("cache");
        let mut variables = vec![
            ("TMPDIR", private.join("tmp")),
            ("npm_config_cache", cache.join("npm")),
            ("BUN_INSTALL_CACHE_DIR", cache.join("bun")),
            ("UV_CACHE_DIR", cache.join("uv")),
            ("XDG_CACHE_HOME", cache),
            ("XDG_CONFIG_HOME", private.join("config")),
            ("XDG_DATA_HOME", private.join("data")),
            ("XDG_STATE_HOME", private.join("state")),
        ];
        variables.extend(self.has_namespaces.then(|| (HOME, private.join("home"))));
        variables
    }
}

/// Whether every server at level `files` may read this path.
pub(crate) fn is_system(path: &Path) -> bool {
    files::SYSTEM.iter().any(|directory| path.starts_with(directory))
}

/// The working directory of a server at level `files` that configures none.
pub(super) fn private_cwd(private: &Path) -> PathBuf {
    private.join("work")
}

impl fmt::Display for RestrictedAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Processes => "other processes",
            Self::Signals => "signals",
            Self::AbstractSockets => "abstract sockets",
            Self::Files => "files",
            Self::UnixSockets => "Unix sockets",
            Self::TcpPorts => "TCP ports",
            Self::Udp => "UDP",
            Self::FileMetadata => "existence, modes, owners and times of files, notices of changes",
            Self::ProcessList => "the process list, priorities, the state of the system",
            Self::Ipc => "System V IPC and message queues",
            Self::Keyrings => "keyrings",
        })
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLandlock => "this kernel has no Landlock, or it is disabled",
            Self::OldLandlock => "the Landlock of this kernel is too old",
            Self::MountingProgram => "the command creates mounts, which this kernel forbids in a sandbox",
            Self::NoGuard => "a server without a guard has no sandbox",
            Self::NoHome => "neither XDG_STATE_HOME nor HOME is set",
            Self::NoNamespaces => "this system permits no namespaces",
        })
    }
}

impl fmt::Display for Unenforceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(reason) => write!(f, "sandbox level `files` cannot be enforced: {reason}"),
            Self::Network(reason) => write!(f, "`network` of `sandbox` cannot be enforced: {reason}"),
            Self::Namespaces(failure) => {
                write!(
                    f,
                    "sandbox level `files` with namespaces cannot be enforced: {}: {failure}",
                    Obstacle::NoNamespaces
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
