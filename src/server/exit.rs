//! How a server's process has ended. Pure; the guard sends it over its socket.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

use crate::config::size_text;

/// The end of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The limit of its cgroup that it had reached.
    #[serde(skip)]
    pub limit: Option<ReachedLimit>,
}

/// The cgroup limit that the process had reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReachedLimit {
    /// The kernel killed it for lack of memory: at its own limit in bytes, or, with `None`, at that of the machine or of mcpd.
    Memory(Option<u64>),
    /// It had reached its limit of processes and threads (`pids.max`).
    Processes(usize),
}

impl Exit {
    /// Whether the process has exited by itself, without an error.
    pub(super) fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// A stable word for the end.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match (self.limit, self.code, self.signal) {
            (Some(ReachedLimit::Memory(_)), ..) => "out_of_memory",
            (Some(ReachedLimit::Processes(_)), ..) => "task_limit",
            (None, Some(_), _) => "exited",
            (None, None, Some(_)) => "signaled",
            (None, None, None) => "ended",
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal(), limit: None }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Some(ReachedLimit::Memory(Some(limit))) => {
                return write!(f, "was killed: over its memory limit of {}", size_text(limit));
            }
            Some(ReachedLimit::Memory(None)) => {
                return f.write_str("was killed: the machine, or mcpd as a whole, was out of memory");
            }
            Some(ReachedLimit::Processes(_)) | None => {}
        }
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with code {code}")?,
            (None, Some(signal)) => write!(f, "was ended by signal {signal}")?,
            (None, None) => f.write_str("ended")?,
        }
        match self.limit {
            Some(ReachedLimit::Processes(limit)) => write!(f, "; it had reached its limit of {limit} tasks"),
            _ => Ok(()),
        }
    }
}
