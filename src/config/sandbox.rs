//! The key `sandbox`: the restrictions under which the processes of a server run. Pure.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::interpolate::Sources;
use super::value_types::Choice;

/// The restrictions under which the processes of a server run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// What the server may do with other processes and with files.
    pub level: SandboxLevel,
    /// Files and directories that the server may also read at [`SandboxLevel::Files`].
    pub read: Vec<PathBuf>,
    /// Files and directories that the server may also change at [`SandboxLevel::Files`].
    pub write: Vec<PathBuf>,
    /// Whether it may create Unix sockets. `None` is the default, which depends on the level and on the running system.
    pub unix: Option<bool>,
    /// Whether [`SandboxLevel::Files`] may do without namespaces.
    pub namespaces: NamespaceUse,
    /// Whether it may create user namespaces inside its own, as browsers do.
    pub nested_namespaces: bool,
    /// The TCP ports that it may connect to.
    pub network: Network,
}

/// What a server may do with other processes and with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    /// Whatever the user may.
    None,
    /// No access to other processes. Files are not restricted.
    Scope,
    /// No access to other processes, and only to the files that the server needs.
    Files,
}

impl Choice for SandboxLevel {
    const NAMES: &[(&str, Self)] = &[("none", Self::None), ("scope", Self::Scope), ("files", Self::Files)];
}

impl SandboxLevel {
    /// The level of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::of_word(name)
    }

    /// The word of the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.word().unwrap_or_default()
    }
}

/// The TCP ports that a server may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// All, also to listen at.
    Any,
    /// These. An empty list permits none.
    Ports(Vec<u16>),
}

/// Whether level `files` may do without namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceUse {
    /// Where the system permits none, Landlock alone restricts the server.
    Auto,
    /// Where the system permits none, the server does not start.
    Require,
}

impl Choice for NamespaceUse {
    const NAMES: &[(&str, Self)] = &[("auto", Self::Auto), ("require", Self::Require)];
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::of_level(SandboxLevel::Scope)
    }
}

impl Sandbox {
    /// The restrictions of a level that is written as a single word.
    #[must_use]
    pub fn of_level(level: SandboxLevel) -> Self {
        Self {
            level,
            read: Vec::new(),
            write: Vec::new(),
            unix: None,
            namespaces: NamespaceUse::Auto,
            nested_namespaces: false,
            network: Network::Any,
        }
    }
}

/// The directories that no server at [`SandboxLevel::Files`] may reach as a whole. Landlock has no rule that takes a part of a directory
/// away again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedDirectories {
    /// The user's home directory. Access below it is permitted.
    pub home: Option<PathBuf>,
    /// mcpd's directory for state.
    pub state: Option<PathBuf>,
    /// mcpd's directories: state, configuration, cache and sockets. No access below them is permitted, either.
    pub own: Vec<PathBuf>,
}

impl ProtectedDirectories {
    /// Those that the variables of `sources` name. Source: XDG Base Directory Specification.
    #[must_use]
    pub fn of(sources: &dyn Sources) -> Self {
        let runtime = sources.directory("XDG_RUNTIME_DIR");
        let runtime = runtime.unwrap_or_else(|| format!("/run/user/{}", sources.user()).into());
        let all = [sources.state_home(), sources.config_home(), sources.cache_home(), Some(runtime)];
        let [state, others @ ..] = all.map(|base| Some(base?.join("mcpd")));
        Self { own: state.iter().cloned().chain(others.into_iter().flatten()).collect(), home: sources.home(), state }
    }

    /// The parent of the private directories of all servers.
    pub(crate) fn servers(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("servers"))
    }

    /// The protected directory that a rule for `path` would expose, if there is one. `path` may contain it, or lie in a directory of mcpd.
    #[must_use]
    pub fn opened_by(&self, path: &Path) -> Option<&Path> {
        let home = self.home.as_ref().filter(|home| home.starts_with(path));
        let own = || self.own.iter().find(|own| own.starts_with(path) || path.starts_with(own));
        home.or_else(own).map(PathBuf::as_path)
    }
}
