//! What the daemon changes of its own process.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};

use crate::config::interpolate::{Process, Sources};
use crate::oauth::{self, Logins};
use crate::server::{self, ProcessAttributes};

/// Prepares this process to own servers, and returns the attributes that servers get back. The daemon's files are for its user only,
/// its memory is for itself only, it inherits descendants whose parents died, and a thousand agents have descriptors.
pub(super) fn prepare() -> io::Result<ProcessAttributes> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let core_size = server::core_size();
    server::protect_memory()?;
    let umask = rustix::process::umask(Mode::from_raw_mode(0o077)).as_raw_mode();
    let limit = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(ProcessAttributes { umask: Some(umask), open_files: limit.current, core_size: Some(core_size) })
}

/// Where the daemon keeps what it can do without: `$XDG_CACHE_HOME/mcpd`, or under `~/.cache`.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    Some(Process.cache_home()?.join("mcpd/tools"))
}

/// Where the lines that servers wrote to stderr are kept, unless the journal has them: `$XDG_STATE_HOME/mcpd/servers.log`, or under
/// `~/.local/state`. All daemons of the user write this file.
pub(crate) fn server_output_path() -> Option<PathBuf> {
    Some(Process.state_home()?.join("mcpd/servers.log"))
}

/// The logins that this process, and `mcpd login` in the same environment, keep.
pub(crate) fn logins() -> Option<Logins> {
    oauth::directory(&Process).map(Logins::new)
}

/// Where the process works, if that can be known; it may be anybody's by then.
pub(super) fn working_directory(pid: Option<i32>) -> Option<Arc<str>> {
    let link = std::fs::read_link(format!("/proc/{}/cwd", pid?)).ok()?;
    link.to_str().filter(|path| path.starts_with('/')).map(Arc::from)
}

/// How many files this process may have open.
pub(super) fn open_files() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
