//! The log file of a detached daemon. [`crate::logging`] limits its size.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::PathBuf;
use std::process::Stdio;

use crate::disk::open_own;
use crate::login_env::Variables;
use crate::sockets::RuntimeDir;

/// Bytes of the daemon's output that an error shows.
const MAX_SHOWN: u64 = 4 << 10;

pub(super) struct Log {
    pub(super) path: PathBuf,
    file: File,
}

/// `$XDG_STATE_HOME/mcpd/serve.log`, else `~/.local/state/mcpd/serve.log`, in an environment with these variables.
pub(crate) fn log_path(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("mcpd/serve.log"))
}

impl Log {
    /// Opens the log at [`log_path`], or beside the sockets if the runtime directory was given.
    pub(super) fn open(directory: &RuntimeDir, environment: &Variables) -> io::Result<Self> {
        let path = match directory.is_given() {
            true => std::path::absolute(directory.path().join("serve.log"))?,
            false => log_path(|name| environment.get(OsStr::new(name)).cloned()).ok_or(io::ErrorKind::NotFound)?,
        };
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(&path))?;
        let file = open_own(OpenOptions::new().append(true).read(true), &path)?;
        Ok(Self { path, file })
    }

    /// The log as a daemon's standard output.
    pub(super) fn output(&self) -> io::Result<Stdio> {
        Ok(self.file.try_clone()?.into())
    }

    pub(super) fn note(&self, text: &str) {
        let _ = writeln!(&self.file, "mcpd connect: {text}");
    }

    pub(super) fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |found| found.len())
    }

    /// The text from byte `before` on; its last [`MAX_SHOWN`] bytes if it is longer.
    pub(super) fn since(&self, before: u64) -> String {
        let length = self.length();
        let from = before.max(length.saturating_sub(MAX_SHOWN));
        let mut bytes = vec![0; usize::try_from(length.saturating_sub(from)).unwrap_or(0)];
        let read = self.file.read_at(&mut bytes, from).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }
}
