//! The program that takes the place of this one after a restart: the file that this program was started from, which an upgrade may have
//! replaced. The process stays the same, so a supervisor of the daemon does not see it end.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::admin::EnvironmentChanges;
use crate::admin::report::ProgramReport;
use crate::detach::CURRENT_EXE;
use crate::server::ProcessAttributes;
use crate::signals;
use crate::sockets::{Handover, Lock};

/// The option of `mcpd serve` with which it takes the descriptors of the program before.
const INHERIT: &str = "--inherit";
/// Variables that describe sockets of the service manager. Source: sd_listen_fds(3).
const ACTIVATION: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"];
/// What the kernel appends to the path of a file that was removed or replaced. Source: proc(5).
const DELETED: &str = " (deleted)";

/// The file of the running program.
#[derive(Debug, Clone)]
pub(super) struct ProgramFile {
    path: PathBuf,
    /// Its device and inode at the start.
    identity: (u64, u64),
}

impl ProgramFile {
    /// Call it at the start, when the file is most likely in its place. A link that the program was started by is kept, since upgrades
    /// change the link.
    pub(super) fn of_this_process() -> io::Result<Self> {
        let identity = identity(Path::new(CURRENT_EXE))?;
        let started_as = std::env::args_os().next().map(PathBuf::from);
        let is_running =
            |path: &PathBuf| path.is_absolute() && self::identity(path).is_ok_and(|found| found == identity);
        let path = match started_as.filter(is_running) {
            Some(path) => path,
            None => without_mark(fs::read_link(CURRENT_EXE)?),
        };
        Ok(Self { path, identity })
    }

    pub(super) fn report(&self) -> ProgramReport {
        let (device, inode) = self.identity;
        ProgramReport { path: self.path.clone(), device, inode, installed: None }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

fn without_mark(path: PathBuf) -> PathBuf {
    let text = path.to_str().and_then(|text| text.strip_suffix(DELETED)).map(PathBuf::from);
    text.unwrap_or(path)
}

/// What the next program receives.
#[derive(Debug)]
pub struct Successor {
    program: ProgramFile,
    handover: Handover,
    /// The attributes with which this process was started.
    attributes: ProcessAttributes,
    /// A signal to stop has arrived, which is for the next program if nothing has handled it.
    is_stopped: Arc<AtomicBool>,
    environment: EnvironmentChanges,
}

impl Successor {
    /// `attributes`: those with which this process was started.
    pub(super) fn new(program: ProgramFile, attributes: ProcessAttributes, is_stopped: Arc<AtomicBool>) -> Self {
        let (handover, environment) = Default::default();
        Self { program, handover, attributes, is_stopped, environment }
    }

    /// With these sockets, this lock, and variables that were changed since the start.
    pub(super) fn with(self, mut handover: Handover, lock: Lock, environment: EnvironmentChanges) -> Self {
        handover.add_lock(lock.hand_over());
        Self { handover, environment, ..self }
    }

    /// Executes the next program. If that fails, calls `report` and executes this program again. Returns only if both fail.
    pub fn start(mut self, report: impl FnOnce(&Path, &io::Error)) -> io::Error {
        let stdin = match std::mem::take(&mut self.handover).send() {
            Ok(stdin) => stdin,
            Err(error) => return error,
        };
        signals::hold(&self.is_stopped);
        // The next program runs with other limits if the system refuses.
        let _ = self.attributes.apply();
        let error = self.execute(&self.program.path, &stdin);
        report(&self.program.path, &error);
        self.execute(Path::new(CURRENT_EXE), &stdin)
    }

    fn execute(&self, program: &Path, stdin: &OwnedFd) -> io::Error {
        let mut arguments = std::env::args_os();
        let mut command = Command::new(program);
        match stdin.try_clone() {
            Ok(stdin) => command.stdin(stdin),
            Err(error) => return error,
        };
        command.arg0(arguments.next().unwrap_or_else(|| "mcpd".into()));
        command.args(without_inherit(arguments)).arg(INHERIT);
        for name in ACTIVATION {
            command.env_remove(name);
        }
        for (name, value) in &self.environment.0 {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.exec()
    }
}

/// The arguments without the option of an earlier restart.
pub(crate) fn without_inherit(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    arguments.filter(|argument| argument != INHERIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_a_replaced_program_is_that_of_the_new_one() {
        for (path, expected) in [("/usr/bin/mcpd", "/usr/bin/mcpd"), ("/a b/mcpd (deleted)", "/a b/mcpd")] {
            assert_eq!(without_mark(path.into()), Path::new(expected));
        }
        let own = ProgramFile::of_this_process().expect("its own file");
        assert!(own.path.is_absolute() && identity(&own.path).expect("a file") == own.identity);
    }
}
