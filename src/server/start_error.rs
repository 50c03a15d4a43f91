//! Why the program of a server did not start, and how its process has ended. Pure; the guard sends both over its socket.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::{fmt, io};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::sandbox::{NamespaceFailure, NamespaceStep, Unenforceable};
use crate::config::size_text;

/// Why the program of a server did not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartError {
    /// A command without `/` is not a program on the server's `PATH`, or a command with `/` is not a file.
    CommandNotFound {
        /// As configured.
        command: String,
        /// The `PATH` that was searched, unless the command is a path itself.
        path: Option<String>,
    },
    /// The configured command has its arguments in it. The text explains that.
    CommandLine(String),
    /// The system cannot execute the file: it is not a program, or not permitted.
    ExecRefused {
        /// The file.
        program: PathBuf,
        /// The system's message.
        error: String,
    },
    /// The system failed to execute the file this time. The next attempt may succeed.
    ExecFailed {
        /// The file.
        program: PathBuf,
        /// The system's message.
        error: String,
    },
    /// The configured working directory does not exist.
    NoWorkingDirectory(PathBuf),
    /// A link leads to the working directory that an agent has stated, and others could have put it there.
    LinkedDirectory {
        /// As stated.
        directory: PathBuf,
        /// The link.
        link: PathBuf,
    },
    /// The running kernel cannot enforce the configured sandbox.
    Unenforceable(Unenforceable),
    /// The sandbox could not be applied. The text is the system's message.
    Sandbox(String),
    /// The namespaces of the sandbox could not be made.
    Namespaces(NamespaceFailure),
    /// A path that the server may use cannot be opened for its namespaces.
    Grant {
        /// The path.
        path: PathBuf,
        /// Why not.
        failure: NamespaceFailure,
    },
    /// A configured path of the sandbox cannot be used.
    SandboxPath {
        /// As configured, or the working directory.
        path: PathBuf,
        /// The protected directory that it would open; `None` if the path does not exist.
        opens: Option<PathBuf>,
    },
    /// Something that every start needs has failed, such as a pipe.
    System(String),
}

impl StartError {
    pub(super) fn system(error: impl fmt::Display) -> Self {
        Self::System(error.to_string())
    }

    /// The system refused to execute a file.
    pub(super) fn of_execution(program: &Path, error: &io::Error) -> Self {
        let permanent = [Errno::NOENT, Errno::NOTDIR, Errno::ISDIR, Errno::ACCESS, Errno::PERM, Errno::NOEXEC];
        let is_permanent = Errno::from_io_error(error).is_some_and(|errno| permanent.contains(&errno));
        let (program, error) = (program.to_owned(), error.to_string());
        if is_permanent { Self::ExecRefused { program, error } } else { Self::ExecFailed { program, error } }
    }

    /// Whether the same error is expected at each attempt, until somebody changes the configuration or the file.
    pub(super) fn needs_config_change(&self) -> bool {
        matches!(
            self,
            Self::CommandNotFound { .. }
                | Self::CommandLine(_)
                | Self::ExecRefused { .. }
                | Self::Unenforceable(_)
                | Self::SandboxPath { .. }
        )
    }

    /// The directory of which the namespaces cannot have a copy.
    pub(super) fn uncopied(&self) -> Option<&Path> {
        match self {
            Self::Grant { path, failure } if failure.step == NamespaceStep::Copy => Some(path),
            _ => None,
        }
    }

    /// A stable word for the reason.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::CommandNotFound { .. } => "command_not_found",
            Self::CommandLine(_) => "command_line",
            Self::ExecRefused { .. } => "cannot_execute",
            Self::ExecFailed { .. } => "execution_failed",
            Self::NoWorkingDirectory(_) => "no_working_directory",
            Self::LinkedDirectory { .. } => "linked_directory",
            Self::Unenforceable(_) => "sandbox_unenforceable",
            Self::Sandbox(_) | Self::Namespaces(_) | Self::Grant { .. } => "sandbox_failed",
            Self::SandboxPath { .. } => "sandbox_path",
            Self::System(_) => "system",
        }
    }

    /// The same error with every text masked.
    pub(super) fn masked(self, mask: impl Fn(&str) -> String) -> Self {
        let path = |path: PathBuf| PathBuf::from(mask(&path.to_string_lossy()));
        match self {
            Self::CommandNotFound { command, path } => {
                Self::CommandNotFound { command: mask(&command), path: path.map(|path| mask(&path)) }
            }
            Self::CommandLine(text) => Self::CommandLine(mask(&text)),
            Self::ExecRefused { program, error } => Self::ExecRefused { program: path(program), error: mask(&error) },
            Self::ExecFailed { program, error } => Self::ExecFailed { program: path(program), error: mask(&error) },
            Self::NoWorkingDirectory(directory) => Self::NoWorkingDirectory(path(directory)),
            Self::LinkedDirectory { directory, link } => {
                Self::LinkedDirectory { directory: path(directory), link: path(link) }
            }
            Self::Unenforceable(_) | Self::Namespaces(_) => self,
            Self::Sandbox(error) => Self::Sandbox(mask(&error)),
            Self::Grant { path: at, failure } => Self::Grant { path: path(at), failure },
            Self::SandboxPath { path: at, opens } => Self::SandboxPath { path: path(at), opens: opens.map(path) },
            Self::System(error) => Self::System(mask(&error)),
        }
    }
}

impl From<NamespaceFailure> for StartError {
    fn from(failure: NamespaceFailure) -> Self {
        Self::Namespaces(failure)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandNotFound { command, path: Some(path) } => {
                write!(f, "command `{command}` not found; PATH searched: {path}")
            }
            Self::CommandNotFound { command, path: None } => {
                write!(f, "command `{command}` does not exist or is not a file")
            }
            Self::CommandLine(text) => f.write_str(text),
            Self::ExecRefused { program, error } => write!(f, "cannot run `{}`: {error}", program.display()),
            Self::ExecFailed { program, error } => {
                write!(f, "could not run `{}` this time: {error}", program.display())
            }
            Self::NoWorkingDirectory(path) => write!(f, "working directory `{}` does not exist", path.display()),
            Self::LinkedDirectory { directory, link } => {
                let (directory, link) = (directory.display(), link.display());
                write!(f, "working directory `{directory}` is reached by the link `{link}`: state it without links")
            }
            Self::Unenforceable(unenforceable) => unenforceable.fmt(f),
            Self::Sandbox(error) => write!(f, "cannot be sandboxed: {error}"),
            Self::Namespaces(failure) => write!(f, "cannot be sandboxed: {failure}"),
            Self::Grant { path, failure } => write!(f, "cannot be sandboxed: {failure}: `{}`", path.display()),
            Self::SandboxPath { path, opens: Some(directory) } => {
                write!(
                    f,
                    "`{}` would open `{}` to the server, which is at sandbox level `files`",
                    path.display(),
                    directory.display()
                )
            }
            Self::SandboxPath { path, opens: None } => write!(f, "`{}` of `sandbox` does not exist", path.display()),
            Self::System(error) => write!(f, "cannot be started: {error}"),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_about_the_file_are_permanent() {
        for (errno, expected) in [
            (Errno::NOENT, true),
            (Errno::ACCESS, true),
            (Errno::NOEXEC, true),
            (Errno::AGAIN, false),
            (Errno::NOMEM, false),
            (Errno::TXTBSY, false),
        ] {
            let error = StartError::of_execution(Path::new("x"), &errno.into());
            assert_eq!(error.needs_config_change(), expected, "{errno:?}");
        }
        assert!(!StartError::of_execution(Path::new("x"), &io::Error::other("no errno")).needs_config_change());
    }

    #[test]
    fn every_text_of_an_error_is_masked() {
        let secret = || "a-secret".to_owned();
        let path = || PathBuf::from(secret());
        for error in [
            StartError::CommandNotFound { command: secret(), path: Some(secret()) },
            StartError::CommandLine(secret()),
            StartError::ExecRefused { program: path(), error: secret() },
            StartError::ExecFailed { program: path(), error: secret() },
            StartError::NoWorkingDirectory(path()),
            StartError::LinkedDirectory { directory: path(), link: path() },
            StartError::System(secret()),
        ] {
            let masked = error.masked(|text| text.replace("secret", "…"));
            assert!(!masked.to_string().contains("secret") && !format!("{masked:?}").contains("secret"), "{masked:?}");
        }
    }
}
