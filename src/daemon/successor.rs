//! The program that takes the place of this one after a restart: the file that this program was started from, which an upgrade may have
//! replaced. The process stays the same, so a supervisor of the daemon does not see it end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::iter;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::unistd::execve;
use rustix::stdio::dup2_stdin;
use signal_hook::consts::SIGPIPE;

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
        let sent = std::mem::take(&mut self.handover).send();
        if let Err(error) = sent.and_then(|stdin| Ok(dup2_stdin(stdin)?)) {
            return error;
        }
        signals::hold(&self.is_stopped);
        // The next program runs with other limits if the system refuses.
        let _ = self.attributes.apply();
        let Err(error) = self.execute(&self.program.path);
        report(&self.program.path, &error);
        let Err(error) = self.execute(Path::new(CURRENT_EXE));
        error
    }

    /// Not by `Command::exec`: its `execvp` runs a file of unknown format (ENOEXEC) with `/bin/sh`.
    fn execute(&self, program: &Path) -> io::Result<Infallible> {
        let mut arguments = std::env::args_os();
        let name = arguments.next().unwrap_or_else(|| "mcpd".into());
        let arguments = iter::once(name).chain(without_inherit(arguments)).chain([INHERIT.into()]);
        let arguments: Vec<_> = arguments.map(|text| CString::new(text.into_vec())).collect::<Result<_, _>>()?;
        let environment = self.environment().into_iter().map(|(mut variable, value)| {
            variable.push("=");
            variable.push(value);
            CString::new(variable.into_vec())
        });
        let environment: Vec<_> = environment.collect::<Result<_, _>>()?;
        // The runtime of Rust ignores this signal. A program that is executed has the default of one that is handled.
        signal_hook::flag::register(SIGPIPE, Arc::default())?;
        Ok(execve(&CString::new(program.as_os_str().as_bytes())?, &arguments, &environment)?)
    }

    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let mut all: BTreeMap<_, _> = std::env::vars_os().collect();
        all.retain(|name, _| !ACTIVATION.iter().any(|known| name == known));
        for (name, value) in &self.environment.0 {
            match value {
                Some(value) => all.insert(name.into(), value.into()),
                None => all.remove(&OsString::from(name)),
            };
        }
        all
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
