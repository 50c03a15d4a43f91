//! What a server has touched, as the trace of its system calls says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What a server has touched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// The programs that were executed, the first one included.
    pub(crate) programs: BTreeSet<PathBuf>,
    /// Absolute paths, and what was done with them.
    pub(crate) files: BTreeMap<PathBuf, BTreeSet<FileUse>>,
    /// Host names that were looked up by DNS.
    pub(crate) hosts: BTreeSet<String>,
    /// What was connected to. The servers of DNS are among them.
    pub(crate) connections: BTreeMap<Endpoint, Reach>,
    /// Where was listened.
    pub(crate) listeners: BTreeSet<Endpoint>,
    /// What no ordinary server does.
    pub(crate) attempts: BTreeSet<Attempt>,
    /// Some limit was reached, so that something is missing.
    pub(crate) is_cut: bool,
}

impl Observed {
    /// Adds the files and the attempts of another run of the same server.
    pub(crate) fn absorb_files(&mut self, other: Self) {
        for (path, uses) in other.files {
            self.files.entry(path).or_default().extend(uses);
        }
        self.attempts.extend(other.attempts);
        self.is_cut |= other.is_cut;
    }
}

/// What was done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileUse {
    /// Its existence, or what the directory says of it.
    Looked,
    /// A link to it was created.
    Linked,
    /// Opened for reading, or executed.
    Read,
    /// Created, opened for writing, renamed, deleted, or its mode changed.
    Wrote,
    /// It did not exist.
    Missing,
    /// Reading was refused.
    Refused,
    /// Creating or changing it has failed.
    WriteFailed,
}

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Endpoint {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    /// A Unix socket at a path.
    Unix(PathBuf),
    /// A Unix socket with an abstract name.
    Abstract(String),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp {address}"),
            Self::Udp(address) => write!(f, "udp {address}"),
            Self::Unix(path) => write!(f, "unix {}", path.display()),
            Self::Abstract(name) => write!(f, "abstract {name}"),
        }
    }
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    Reached,
    /// It was begun, and its result is not known.
    Begun,
    /// The name of the error.
    Failed(String),
}

/// What no ordinary server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attempt {
    /// Tracing or reading another process.
    Trace,
    /// A namespace of its own, as browsers create.
    Namespace,
    Mount,
    /// A signal that was refused.
    Signal,
    /// System calls that bypass the trace.
    IoUring,
    /// Programs in the kernel, keyrings or counters of the kernel.
    Kernel,
}
