//! The sandbox: what the processes of one server may reach.
//!
//! [`plan`] decides what the running kernel can enforce of the configured [`Sandbox`]. The guard starts the server by way of
//! [`stage`], a second process that restricts itself and then becomes the server. So the guard stays outside.
//!
//! - Level `scope` is a Landlock domain of its own. A process inside cannot read the memory, environment or open files of
//!   processes outside. From Linux 6.12 on, it can neither send them signals nor connect to their abstract sockets. It still sees the
//!   list of processes with their arguments, and can change their priority. Files are not restricted.
//! - Level `files` is the same domain with rules for files ([`files`]), and by default without Unix sockets.
//!
//! Source: the kernel's `Documentation/userspace-api/landlock.rst`.

pub(super) mod domain;
mod files;
pub(super) mod stage;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::domain::LandlockSupport;
use crate::config::interpolate::Sources;
use crate::config::{Network, ProtectedDirectories, Sandbox, SandboxLevel};

/// Programs that create mounts. The kernel forbids mounts in a domain that handles rights to files. A domain of mcpd does so at level
/// `files`, and before Linux 6.12 at every level.
const MOUNTING: &[&str] = &["bwrap", "firejail", "flatpak", "podman", "unshare"];

/// The restrictions that [`stage`] applies to itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Restrictions {
    pub(super) domain: Option<Domain>,
    /// Whether Unix sockets may be created.
    pub(super) unix: bool,
}

impl Restrictions {
    /// The private directory of this server, which only level `files` has.
    pub(super) fn private(&self) -> Option<&Path> {
        Some(&self.domain.as_ref()?.files.as_ref()?.private)
    }
}

/// A Landlock domain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Domain {
    /// The version of Landlock for which the domain is made.
    pub(super) abi: u8,
    pub(super) files: Option<FileRules>,
    /// The TCP ports that may be used; all of them without a list.
    pub(super) ports: Option<Vec<u16>>,
}

/// What a server at level `files` may reach beside the system and its own program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileRules {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    /// The private directory of this server. It is created if it does not exist.
    pub(super) private: PathBuf,
    pub(super) protected: ProtectedDirectories,
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
}

impl SandboxReport {
    fn unrestricted(level: SandboxLevel) -> Self {
        Self { level, enforced: Vec::new(), not_enforced: Vec::new(), reason: None }
    }

    /// What is not enforced, and why: the rest of a sentence about the server.
    #[must_use]
    pub fn unenforced_text(&self) -> Option<String> {
        let reason = self.reason?;
        let missing: Vec<_> = self.not_enforced.iter().map(ToString::to_string).collect();
        Some(format!("its sandbox does not restrict {}: {reason}", missing.join(", ")))
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
}

impl SandboxHost {
    /// That of this process, with a guard or without. Source of the directories: XDG Base Directory Specification.
    #[must_use]
    pub fn new(has_guard: bool, sources: &dyn Sources) -> Self {
        let protected = ProtectedDirectories::of(sources);
        let servers_dir = protected.state.as_ref().map(|state| state.join("servers"));
        let landlock = if has_guard { LandlockSupport::running() } else { LandlockSupport::NoGuard };
        Self { landlock, servers_dir, protected }
    }

    /// What is enforced for a server whose configuration does not mention a sandbox.
    #[must_use]
    pub fn report_of_default(&self) -> SandboxReport {
        let plan = self.plan("", "", &Sandbox::default());
        plan.map(|plan| plan.report).unwrap_or_else(|_| SandboxReport::unrestricted(SandboxLevel::Scope))
    }

    /// Decides what of `sandbox` is enforced for the server `name`, which runs `command`.
    pub(super) fn plan(&self, name: &str, command: &str, sandbox: &Sandbox) -> Result<Plan, Unenforceable> {
        let private = self.servers_dir.as_ref().map(|servers| servers.join(name));
        plan(sandbox, self.landlock, command, private.as_deref(), &self.protected)
    }
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
    landlock: LandlockSupport,
    command: &str,
    private: Option<&Path>,
    protected: &ProtectedDirectories,
) -> Result<Plan, Unenforceable> {
    let level = sandbox.level;
    if level == SandboxLevel::None {
        return Ok(Plan { restrictions: None, report: SandboxReport::unrestricted(level) });
    }
    let is_files = level == SandboxLevel::Files;
    let mounts = Path::new(command).file_name().is_some_and(|name| MOUNTING.iter().any(|known| name == *known));
    let has_domain =
        landlock >= LandlockSupport::DOMAINS && !(mounts && (is_files || landlock < LandlockSupport::SCOPES));
    let reason = |needs: LandlockSupport| match landlock {
        LandlockSupport::NoGuard => Obstacle::NoGuard,
        LandlockSupport::NoLandlock => Obstacle::NoLandlock,
        _ if landlock >= needs => Obstacle::MountingProgram,
        _ => Obstacle::OldLandlock,
    };
    let files = match (is_files, private) {
        (false, _) => None,
        (true, _) if !has_domain || landlock < LandlockSupport::FILES => {
            return Err(Unenforceable::Files(reason(LandlockSupport::FILES)));
        }
        (true, None) => return Err(Unenforceable::Files(Obstacle::NoHome)),
        (true, Some(private)) => Some(FileRules {
            read: sandbox.read.clone(),
            write: sandbox.write.clone(),
            private: private.to_owned(),
            protected: protected.clone(),
        }),
    };
    let ports = match &sandbox.network {
        Network::Any => None,
        Network::Ports(ports) => Some(ports.clone()),
    };
    if ports.is_some() && !(has_domain && landlock >= LandlockSupport::NETWORK) {
        return Err(Unenforceable::Network(reason(LandlockSupport::NETWORK)));
    }
    let promised = [
        (RestrictedAccess::Processes, true, has_domain),
        (RestrictedAccess::Signals, true, has_domain && landlock >= LandlockSupport::SCOPES),
        (RestrictedAccess::AbstractSockets, true, has_domain && landlock >= LandlockSupport::SCOPES),
        (RestrictedAccess::Files, is_files, true),
        (RestrictedAccess::UnixSockets, !sandbox.unix, landlock > LandlockSupport::NoGuard),
        (RestrictedAccess::TcpPorts, ports.is_some(), true),
    ];
    let these = |is_enforced| {
        let chosen = promised.iter().filter(move |(_, requested, enforced)| *requested && *enforced == is_enforced);
        chosen.map(|(access, ..)| *access).collect::<Vec<_>>()
    };
    let (enforced, not_enforced) = (these(true), these(false));
    let needs = if has_domain { LandlockSupport::SCOPES } else { LandlockSupport::DOMAINS };
    let reason = (!not_enforced.is_empty()).then(|| reason(needs));
    let domain = match landlock {
        LandlockSupport::Version(abi) if has_domain => Some(Domain { abi, files, ports }),
        _ => None,
    };
    let restrictions = Restrictions { domain, unix: sandbox.unix || landlock == LandlockSupport::NoGuard };
    let is_restricted = restrictions.domain.is_some() || !restrictions.unix;
    let report = SandboxReport { level, enforced, not_enforced, reason };
    Ok(Plan { restrictions: is_restricted.then_some(restrictions), report })
}

/// The variables that lead the files of a server at level `files` into its own directory, unless its configuration sets them.
pub(super) fn private_variables(private: &Path) -> [(&'static str, PathBuf); 8] {
    let cache = private.join("cache");
    [
        ("TMPDIR", private.join("tmp")),
        ("npm_config_cache", cache.join("npm")),
        ("BUN_INSTALL_CACHE_DIR", cache.join("bun")),
        ("UV_CACHE_DIR", cache.join("uv")),
        ("XDG_CACHE_HOME", cache),
        ("XDG_CONFIG_HOME", private.join("config")),
        ("XDG_DATA_HOME", private.join("data")),
        ("XDG_STATE_HOME", private.join("state")),
    ]
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
        })
    }
}

impl fmt::Display for Unenforceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(reason) => write!(f, "sandbox level `files` cannot be enforced: {reason}"),
            Self::Network(reason) => write!(f, "`network` of `sandbox` cannot be enforced: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests;
