//! One server process, seen from mcpd: under a guard, or for embedding programs without one in a process group.
//!
//! Knows: the two keepers, pipes, tokio. Must not touch: JSON-RPC. Dropping a [`Process`] ends the server at once;
//! [`Process::stop`] is the polite way. A server with limits is put under them, with its guard, in [`cgroup`].

mod activity;
pub(crate) mod cgroup;
mod grouped;
mod guarded;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::net::unix::pipe;

pub(super) use self::activity::{Activity, StderrBytes};
use self::cgroup::{Cgroup, Cgroups, Enforcement};
use self::grouped::Grouped;
use self::guarded::Guarded;
use super::context::{Guard, Inherited};
use super::exit::{Exit, LimitReached};
use super::guard::Definition;
use super::start_error::StartError;
use super::stop_order::{Stop, StopOrder};
use crate::config::{Limits, Program, ServerConfig, environment};

/// From closing stdin to SIGTERM (MCP, `basic/lifecycle`, "Shutdown"; real servers take up to 2.6 s).
const EOF_GRACE: Duration = Duration::from_secs(3);
/// From SIGTERM to SIGKILL of the subtree.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// Room in a pipe to or from a server, in bytes. With the usual 64 KiB a large message costs four times the wake-ups;
/// much more would use up what a user may have in all pipes together (`fs.pipe-user-pages-soft`, 64 MiB).
const PIPE: usize = 256 << 10;

/// A running server and what keeps it.
#[derive(Debug)]
pub(super) struct Process {
    keeper: Keeper,
    /// If it has limits, and they can be enforced.
    cgroup: Option<Cgroup>,
    /// How it ended, as its keeper saw it.
    seen: Option<Ended>,
    /// The same, with what its cgroup tells.
    ended: Option<Ended>,
}

#[derive(Debug)]
enum Keeper {
    Guarded(Guarded),
    Grouped(Grouped),
}

/// How a server ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ended {
    /// What it left is being ended.
    Exited(Exit),
    /// Its guard is gone or was stopped, so nobody saw it.
    GuardLost,
}

/// Why there is no server.
#[derive(Debug)]
pub(super) enum NotStarted {
    Error(StartError),
    /// It ended at once.
    Exited(Exit),
    /// Its guard died, whatever it had started by then.
    GuardLost,
}

/// mcpd's ends of a server's standard streams.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: pipe::Sender,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
}

/// What keeps a server that is about to run, and its streams.
pub(super) struct Spawned {
    pipes: Pipes,
    process: Process,
}

/// Makes the streams and starts what keeps the server, which is checked in each `interval`. Does not wait for anything.
pub(super) fn spawn(guard: &Guard, definition: &Definition, interval: Duration) -> Result<Spawned, NotStarted> {
    let refused = |error: io::Error| NotStarted::Error(StartError::System(error.to_string()));
    let (pipes, servers) = pipes().map_err(refused)?;
    let program = match guard {
        // Its own executable as it was started, even if the file was replaced by an upgrade since.
        Guard::ThisProgram => Some(Path::new("/proc/self/exe")),
        Guard::Program(path) => Some(path.as_path()),
        Guard::None => None,
    };
    let keeper = match program {
        Some(program) => Keeper::Guarded(guarded::spawn(program, servers.each_ref(), interval).map_err(refused)?),
        None => Keeper::Grouped(grouped::start(definition, servers)?),
    };
    Ok(Spawned { pipes, process: Process { keeper, cgroup: None, seen: None, ended: None } })
}

/// Both ends of a server's standard streams: ours, and its own in their order.
fn pipes() -> io::Result<(Pipes, [OwnedFd; 3])> {
    let (stdin_child, stdin) = large_pipe()?;
    let (stdout, stdout_child) = large_pipe()?;
    let (stderr, stderr_child) = pipe_with(PipeFlags::CLOEXEC)?;
    let ours = Pipes {
        stdin: pipe::Sender::from_owned_fd(stdin)?,
        stdout: pipe::Receiver::from_owned_fd(stdout)?,
        stderr: pipe::Receiver::from_owned_fd(stderr)?,
    };
    Ok((ours, [stdin_child, stdout_child, stderr_child]))
}

/// A pipe with room for [`PIPE`] bytes, or for what the system gives: the rest is a matter of speed.
fn large_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let _ = fcntl_setpipe_size(&write, PIPE);
    Ok((read, write))
}

impl Spawned {
    /// Process id of the guard, if there is one.
    pub(super) fn guard_pid(&self) -> Option<u32> {
        match &self.process.keeper {
            Keeper::Guarded(guarded) => guarded.guard_pid(),
            Keeper::Grouped(_) => None,
        }
    }

    /// Puts what will be the server under its limits; `None` if it has none.
    pub(super) async fn limit(&mut self, cgroups: &Cgroups, config: &ServerConfig) -> Option<Enforcement> {
        let limits = config.settings.limits();
        if limits == Limits::default() {
            return None;
        }
        let Some(guard) = self.guard_pid() else {
            return Some(Enforcement::NotEnforced("a server without a guard cannot be limited".into()));
        };
        let (cgroup, enforcement) = cgroups.hold(&config.name, limits, guard).await;
        self.process.cgroup = cgroup;
        Some(enforcement)
    }

    /// Has the server run, and tells its process id.
    pub(super) async fn start(&mut self, definition: &Definition) -> Result<u32, NotStarted> {
        let started = match &mut self.process.keeper {
            Keeper::Guarded(guarded) => guarded.start(definition).await,
            Keeper::Grouped(grouped) => Ok(grouped.pid()),
        };
        if !matches!(started, Err(NotStarted::GuardLost)) {
            return started;
        }
        self.process.seen = Some(Ended::GuardLost);
        match self.process.ended().await {
            Ended::Exited(exit) => Err(NotStarted::Exited(exit)),
            Ended::GuardLost => Err(NotStarted::GuardLost),
        }
    }

    /// Ends whatever was started. Ends as [`Process::kill`] does.
    pub(super) async fn kill(self) -> bool {
        self.process.kill().await
    }

    /// The server that was started.
    pub(super) fn into_process(self) -> (Process, Pipes) {
        (self.process, self.pipes)
    }
}

impl Ended {
    /// The same end, with the limit that had to do with it.
    fn at_limit(&self, limit: Option<LimitReached>) -> Self {
        match (limit, self) {
            (Some(_), Self::Exited(exit)) => Self::Exited(Exit { limit, ..exit.clone() }),
            // The kernel has killed the guard, too.
            (Some(LimitReached::Memory(_)), Self::GuardLost) => Self::Exited(Exit { limit, ..Exit::default() }),
            (Some(LimitReached::Tasks(_)), Self::GuardLost) | (None, _) => self.clone(),
        }
    }
}

impl Process {
    /// How the server ended, once it has. May be cancelled without loss.
    pub(super) async fn ended(&mut self) -> Ended {
        if let Some(ended) = &self.ended {
            return ended.clone();
        }
        let seen = match (&self.seen, &mut self.keeper) {
            (Some(seen), _) => seen.clone(),
            (None, Keeper::Guarded(guarded)) => guarded.ended().await,
            (None, Keeper::Grouped(grouped)) => grouped.ended().await,
        };
        let seen = self.seen.insert(seen);
        let limit = match &self.cgroup {
            Some(cgroup) => cgroup.limit_reached().await,
            None => None,
        };
        self.ended.insert(seen.at_limit(limit)).clone()
    }

    /// Ends the server and everything it started: what has been closed to it, then SIGTERM, then SIGKILL. The caller has
    /// closed the server's stdin. Ends as [`Process::kill`] does.
    pub(super) async fn stop(mut self, stop: &mut StopOrder) -> bool {
        tokio::select! {
            _ = self.ended() => return self.kill().await,
            () = tokio::time::sleep(EOF_GRACE) => {}
            () = stop.at_least(Stop::Kill) => return self.kill().await,
        }
        match &self.keeper {
            Keeper::Guarded(guarded) => guarded.terminate(),
            Keeper::Grouped(grouped) => grouped.terminate(),
        }
        tokio::select! {
            _ = self.ended() => {}
            () = tokio::time::sleep(TERM_GRACE) => {}
            () = stop.at_least(Stop::Kill) => {}
        }
        self.kill().await
    }

    /// Ends the server and everything it started, at once. Returns when nothing is left; `false` if its guard was lost, or
    /// was stopped or stuck and had to be killed itself, so that what it left has come to mcpd.
    pub(super) async fn kill(mut self) -> bool {
        let emptied = match &mut self.keeper {
            Keeper::Guarded(guarded) => guarded.kill().await,
            Keeper::Grouped(grouped) => grouped.kill().await,
        };
        if let Some(cgroup) = self.cgroup.take() {
            cgroup.remove().await;
        }
        emptied && self.seen != Some(Ended::GuardLost)
    }
}

/// What the server is started with: the configured program with its whole environment, chosen from `own`, which is this
/// process's, unless the configuration has chosen already.
pub(super) fn definition(
    program: &Program,
    inherited: Inherited,
    own: impl Iterator<Item = (String, String)>,
) -> Definition {
    let mut env = program.passed.clone().unwrap_or_else(|| environment::passed(own, &program.pass_env));
    env.extend(program.env.clone());
    let home = env.get("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    Definition {
        command: program.command.clone(),
        args: program.args.clone(),
        env,
        cwd: program.cwd.clone().unwrap_or(home),
        umask: inherited.umask,
        open_files: inherited.open_files,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn lost_guard_is_explained_by_the_memory_limit_only() {
        let killed = |exit: Exit| Ended::Exited(Exit { limit: Some(LimitReached::Memory(None)), ..exit });
        let exited = Exit { code: Some(1), ..Exit::default() };
        for (end, limit, expected) in [
            (Ended::GuardLost, None, Ended::GuardLost),
            (Ended::GuardLost, Some(LimitReached::Tasks(64)), Ended::GuardLost),
            (Ended::GuardLost, Some(LimitReached::Memory(None)), killed(Exit::default())),
            (Ended::Exited(exited.clone()), Some(LimitReached::Memory(None)), killed(exited.clone())),
            (Ended::Exited(exited.clone()), None, Ended::Exited(exited)),
        ] {
            assert_eq!(end.at_limit(limit), expected, "{end:?} {limit:?}");
        }
    }

    #[test]
    fn what_the_configuration_chose_of_the_environment_replaces_that_of_this_process() {
        let variables = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
            all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mut program = Program { env: variables(&[("TERM", "dumb"), ("TOKEN", "t")]), ..Program::default() };
        let own = [("HOME", "/own"), ("TERM", "xterm"), ("SECRET", "s")];
        let env = |program: &Program| {
            let own = variables(&own).into_iter();
            let definition = definition(program, Inherited::default(), own);
            assert_eq!(definition.cwd, PathBuf::from(&definition.env["HOME"]));
            definition.env
        };
        assert_eq!(env(&program), variables(&[("HOME", "/own"), ("TERM", "dumb"), ("TOKEN", "t")]));
        program.passed = Some(variables(&[("HOME", "/other"), ("TERM", "vt100")]));
        assert_eq!(env(&program), variables(&[("HOME", "/other"), ("TERM", "dumb"), ("TOKEN", "t")]));
    }
}
