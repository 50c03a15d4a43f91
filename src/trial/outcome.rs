//! What a trial has found, and why there was none.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::catalog::Lists;
use crate::client::{ClientError, ToolResult};
use crate::config::interpolate::UnusableValue;
use crate::config::known_commands::FilesObstacle;
use crate::era::Era;
use crate::packages::InstalledPackage;
use crate::server::{NamespaceFailure, ServerError};

/// What a trial has found.
#[derive(Debug)]
pub(crate) struct Trial {
    /// From the start of the measured run until the server was ready. `None` if it was not.
    pub(crate) started: Option<Duration>,
    /// The run that installed the server, if its launcher is one that downloads.
    pub(crate) installed: Option<Duration>,
    /// What the launcher has installed.
    pub(crate) package: Option<InstalledPackage>,
    /// What the server offers. `None` if it did not get that far.
    pub(crate) offer: Option<Offer>,
    /// Why it did not get that far, or why it ended before the trial did.
    pub(crate) failure: Option<TrialFailure>,
    pub(crate) call: Option<Result<ToolResult, ClientError>>,
    /// The last lines on stderr.
    pub(crate) stderr: Vec<String>,
    /// The most memory that its processes had together, in bytes.
    pub(crate) peak_memory: Option<u64>,
    /// The most processes that it had at once.
    pub(crate) processes: usize,
    /// Whether all system calls were reported, also those of the installation.
    pub(crate) traced: Result<(), NotTraced>,
    pub(crate) places: Places,
    /// Whether it had namespaces of its own.
    pub(crate) has_namespaces: bool,
}

/// What a server offers.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) era: Era,
    /// The version of the protocol.
    pub(crate) protocol: &'static str,
    /// The name and version that it states.
    pub(crate) software: Option<String>,
    /// The raw capabilities, an object, as it sent them.
    pub(crate) capabilities: Bytes,
    pub(crate) instructions: Option<Arc<str>>,
    pub(crate) lists: Lists,
}

/// Where a server on trial had files, to tell its own from others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Everything in it is the server's own. It does not exist any more.
    pub(crate) private: PathBuf,
    /// Its home directory, in the private one.
    pub(crate) home: PathBuf,
    /// The paths that the command line names, as they were seen.
    pub(crate) named: Vec<NamedPath>,
}

/// A path that the command line of a server names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPath {
    pub(crate) path: PathBuf,
    /// Whether the server saw a copy, in which it could write. Otherwise it could only read.
    pub(crate) is_copied: bool,
}

/// Why a server did not get ready or did not stay so.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum TrialFailure {
    #[error("{0}")]
    Server(ServerError),
    #[error("it did not finish within {}", crate::duration::format(*.0))]
    Timeout(Duration),
    #[error("it has filled its {} of disk", crate::config::size_text(*.0))]
    Disk(u64),
}

/// Why the system calls of a server were not reported, or not all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotTraced {
    #[error("`strace` is not installed")]
    NoStrace,
    #[error("`strace` could not trace it: {0}")]
    Refused(String),
    #[error("`strace` ended before the server did")]
    EndedEarly,
    /// A server at a URL.
    #[error("it is a server at a URL")]
    NoProcess,
}

/// Why there was no trial.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrialError {
    /// By this signal.
    #[error("interrupted")]
    Interrupted(i32),
    #[error("neither XDG_STATE_HOME nor HOME is set")]
    NoHome,
    #[error("cannot prepare the trial: {0}")]
    System(#[source] io::Error),
    /// A value of the command line cannot be used.
    #[error("{0}")]
    Value(UnusableValue),
    /// It cannot run at level `files`.
    #[error("{0}")]
    Unfit(FilesObstacle),
    /// The way out is `weak`.
    #[error("this system permits no namespaces: {0}")]
    NoNamespaces(NamespaceFailure),
    /// The run that installs the server has failed.
    #[error("{failure}")]
    Install { failure: TrialFailure, stderr: Vec<String> },
    #[error("these processes of the trial do not end: {0:?}")]
    Processes(Vec<u32>),
    #[error("the directory {} of the trial cannot be removed: {error}", path.display())]
    Directory {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
}
