//! Why the program of a server did not start. Pure.

use std::io;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Why the program of a server did not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartFailure {
    /// For a person, on one line.
    pub(crate) reason: String,
    /// The command cannot be executed: it is not found, not permitted or no program. Waiting does not help.
    #[serde(default)]
    pub(crate) not_executable: bool,
}

impl StartFailure {
    /// The command cannot be executed.
    pub(crate) fn not_executable(reason: String) -> Self {
        Self { reason, not_executable: true }
    }

    /// The system refused to execute a command.
    pub(crate) fn of_execution(reason: String, error: &io::Error) -> Self {
        let errno = Errno::from_io_error(error);
        let lasting = [Errno::NOENT, Errno::NOTDIR, Errno::ISDIR, Errno::ACCESS, Errno::PERM, Errno::NOEXEC];
        Self { reason, not_executable: errno.is_some_and(|errno| lasting.contains(&errno)) }
    }
}

/// Another attempt may succeed.
impl From<String> for StartFailure {
    fn from(reason: String) -> Self {
        Self { reason, not_executable: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_about_the_file_make_a_command_not_executable() {
        for (errno, expected) in [
            (Errno::NOENT, true),
            (Errno::ACCESS, true),
            (Errno::NOEXEC, true),
            (Errno::AGAIN, false),
            (Errno::NOMEM, false),
            (Errno::TXTBSY, false),
        ] {
            let failure = StartFailure::of_execution(String::new(), &errno.into());
            assert_eq!(failure.not_executable, expected, "{errno:?}");
        }
        assert!(!StartFailure::of_execution(String::new(), &io::Error::other("no errno")).not_executable);
    }
}
