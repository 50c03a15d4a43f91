//! How a server's process has ended, as the guard reports it. Pure.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

/// The end of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    /// For a person, on one line, such as `exited with code 1`.
    pub(crate) reason: String,
    /// Its exit code, unless a signal ended it.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
}

impl Exit {
    /// The same end for another reason.
    pub(super) fn with_reason(self, reason: String) -> Self {
        Self { reason, ..self }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        let (code, signal) = (status.code(), status.signal());
        let reason = match (code, signal) {
            (Some(code), _) => format!("exited with code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        };
        Self { reason, code, signal }
    }
}

/// The end is known, and nothing else of it.
impl From<String> for Exit {
    fn from(reason: String) -> Self {
        Self { reason, code: None, signal: None }
    }
}
