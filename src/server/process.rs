//! One server process: under a guard, or in a process group for embedding programs without a guard.
//!
//! Dropping a [`Process`] kills the server; [`Process::stop`] stops it in order. [`cgroup`] enforces the limits of a server
//! and its guard. Nothing here knows JSON-RPC.

mod activity;
pub(crate) mod cgroup;
pub(super) mod foreground;
mod guarded;
mod reaper_handle;
mod unguarded;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::net::unix::pipe;
use tokio::time::timeout;

pub(super) use self::activity::{Activity, StderrBytes};
use self::cgroup::{Cgroup, Enforcement};
use self::guarded::GuardedProcess;
pub use self::reaper_handle::ReaperHandle;
pub(crate) use self::reaper_handle::Tracer;
use self::unguarded::UnguardedProcess;
use super::context::GuardProgram;
use super::control::{StopLevel, StopReceiver};
use super::error::{self, ServerError};
use super::launch_spec::LaunchSpec;
use super::process_attributes::ProcessAttributes;
use super::sandbox::{self, Restrictions};
use super::start_error::{Exit, ReachedLimit, StartError};
use super::subtree_owner;
use crate::config::{Program, environment};

/// From closing stdin to SIGTERM (MCP, `basic/lifecycle`, "Shutdown"; real servers take up to 2.6 s).
pub(super) const EOF_GRACE: Duration = Duration::from_secs(3);
/// The same for a runner that may still download its server.
pub(super) const EOF_GRACE_OF_DOWNLOAD: Duration = Duration::from_secs(30);
/// The same as the whole daemon stops.
pub(super) const EOF_GRACE_OF_LAST_DOWNLOAD: Duration = Duration::from_secs(7);
/// From SIGTERM to SIGKILL of the subtree.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// Size of a pipe to or from a server, in bytes. With the usual 64 KiB a large message costs four times the wake-ups;
/// much more would use up what a user may have in all pipes together (`fs.pipe-user-pages-soft`, 64 MiB).
const PIPE: usize = 256 << 10;

/// A running server with its supervisor.
#[derive(Debug)]
pub(super) struct Process {
    supervisor: SupervisorHandle,
    /// Set if mcpd has one to give.
    cgroup: Option<Cgroup>,
    /// Its end as the supervisor has reported it.
    seen: Option<ProcessEnd>,
    /// Its end with the findings of the cgroup.
    ended: Option<ProcessEnd>,
}

#[derive(Debug)]
enum SupervisorHandle {
    Guard(GuardedProcess),
    ProcessGroup(UnguardedProcess),
}

/// The end of a server.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ProcessEnd {
    /// The rest of its subtree is being killed.
    Exited(Exit),
    /// Its guard or the reaper died, so its end is unknown. The other one ends its subtree.
    Lost(error::Supervisor),
}

/// Why a server did not start.
#[derive(Debug)]
pub(super) enum SpawnError {
    Error(StartError),
    /// It ended at once.
    Exited(Exit),
    /// Its guard or the reaper died, and it may have been started.
    Lost(error::Supervisor),
}

impl SpawnError {
    /// Why the server is down, with every text masked.
    pub(super) fn masked(self, mask: impl Fn(&str) -> String) -> ServerError {
        match self {
            Self::Error(error) => error.masked(mask).into(),
            Self::Exited(exit) => ServerError::Exited(exit),
            Self::Lost(supervisor) => ServerError::Lost(supervisor),
        }
    }
}

/// mcpd's ends of a server's standard streams.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: pipe::Sender,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
}

/// The supervisor and streams of a server that has not started.
pub(super) struct SpawnedProcess {
    pipes: Pipes,
    process: Process,
}

/// Creates the streams and the supervisor of a server that will have this cgroup. The stdout of one that `serves_url` goes where its
/// stderr goes. Dropping the future ends the guard, if one was started.
pub(super) async fn spawn(
    guard: &GuardProgram,
    reaper: &ReaperHandle,
    spec: &LaunchSpec,
    cgroup: Option<&Cgroup>,
    serves_url: bool,
) -> Result<SpawnedProcess, SpawnError> {
    let refused = |error: io::Error| SpawnError::Error(StartError::System(error.to_string()));
    let (pipes, mut servers) = pipes().map_err(refused)?;
    if serves_url {
        servers[1] = servers[2].try_clone().map_err(refused)?;
    }
    let supervisor = match guard.path() {
        Some(program) => {
            let (outputs, kill_file) = (pipes.outputs().map_err(refused)?, cgroup.and_then(Cgroup::kill_file));
            SupervisorHandle::Guard(guarded::spawn(reaper, program, servers, outputs, kill_file).await?)
        }
        None => SupervisorHandle::ProcessGroup(unguarded::start(spec, servers)?),
    };
    Ok(SpawnedProcess { pipes, process: Process { supervisor, cgroup: None, seen: None, ended: None } })
}

impl Pipes {
    /// Copies of the read ends of stdout and stderr.
    fn outputs(&self) -> io::Result<[OwnedFd; 2]> {
        Ok([self.stdout.as_fd().try_clone_to_owned()?, self.stderr.as_fd().try_clone_to_owned()?])
    }
}

/// Both ends of a server's standard streams: those of mcpd, and those of the server.
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

/// A pipe of [`PIPE`] bytes, or of the size that the system permits.
fn large_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let _ = fcntl_setpipe_size(&write, PIPE);
    Ok((read, write))
}

impl SpawnedProcess {
    /// Process id of the guard, if there is one.
    pub(super) fn guard_pid(&self) -> Option<u32> {
        match &self.process.supervisor {
            SupervisorHandle::Guard(guarded) => Some(guarded.guard_pid()),
            SupervisorHandle::ProcessGroup(_) => None,
        }
    }

    /// Moves the guard into `cgroup`.
    ///
    /// # Errors
    /// The enforcement of its limits, if it was not moved.
    pub(super) async fn enter(&mut self, server: &str, cgroup: Cgroup) -> Result<(), Enforcement> {
        if let Some(guard) = self.guard_pid() {
            cgroup.admit(server, guard).await?;
            self.process.cgroup = Some(cgroup);
        }
        Ok(())
    }

    /// Starts the server, and returns its process id.
    pub(super) async fn start(&mut self, spec: &LaunchSpec) -> Result<u32, SpawnError> {
        let started = match &mut self.process.supervisor {
            SupervisorHandle::Guard(guarded) => guarded.start_server(spec).await,
            SupervisorHandle::ProcessGroup(grouped) => Ok(grouped.pid()),
        };
        let Err(SpawnError::Lost(supervisor)) = started else { return started };
        self.process.seen = Some(ProcessEnd::Lost(supervisor));
        match self.process.wait_ended().await {
            ProcessEnd::Exited(exit) => Err(SpawnError::Exited(exit)),
            ProcessEnd::Lost(supervisor) => Err(SpawnError::Lost(supervisor)),
        }
    }

    /// Kills whatever was started, as [`Process::kill`] does.
    pub(super) async fn kill(self) {
        self.process.kill().await;
    }

    /// The server that was started.
    pub(super) fn into_process(self) -> (Process, Pipes) {
        (self.process, self.pipes)
    }
}

impl ProcessEnd {
    /// The same end, with the cgroup limit that the process had reached.
    fn at_limit(&self, limit: Option<ReachedLimit>) -> Self {
        match (limit, self) {
            (Some(_), Self::Exited(exit)) => Self::Exited(Exit { limit, ..exit.clone() }),
            // The kernel has killed the guard, too.
            (Some(ReachedLimit::Memory(_)), Self::Lost(_)) => Self::Exited(Exit { limit, ..Exit::default() }),
            (Some(ReachedLimit::Processes(_)), Self::Lost(_)) | (None, _) => self.clone(),
        }
    }
}

impl Process {
    /// Waits for the end of the server. Cancel-safe.
    pub(super) async fn wait_ended(&mut self) -> ProcessEnd {
        if let Some(ended) = &self.ended {
            return ended.clone();
        }
        let seen = match (&self.seen, &mut self.supervisor) {
            (Some(seen), _) => seen.clone(),
            (None, SupervisorHandle::Guard(guarded)) => guarded.wait_ended().await,
            (None, SupervisorHandle::ProcessGroup(grouped)) => grouped.wait_ended().await,
        };
        let seen = self.seen.insert(seen);
        let limit = match &self.cgroup {
            Some(cgroup) => cgroup.limit_reached().await,
            None => None,
        };
        self.ended.insert(seen.at_limit(limit)).clone()
    }

    /// Stops the server with its subtree: waits for `grace` after the caller has closed its stdin, then SIGTERM, then
    /// [`Process::kill`]. If its guard was lost, the reaper does this in less time.
    pub(super) async fn stop(mut self, grace: Duration, stop: &mut StopReceiver) {
        tokio::select! {
            () = self.end_in_order(grace) => {}
            () = stop.at_least(StopLevel::Kill) => {}
        }
        self.kill().await;
    }

    /// Returns when the server has ended, or had its time.
    async fn end_in_order(&mut self, grace: Duration) {
        if timeout(grace, self.wait_gone()).await.is_ok() {
            return;
        }
        match &self.supervisor {
            SupervisorHandle::Guard(guarded) => guarded.terminate(),
            SupervisorHandle::ProcessGroup(grouped) => grouped.terminate(),
        }
        let _ = timeout(TERM_GRACE, self.wait_gone()).await;
    }

    /// Waits for the end of the server, also if its guard was lost. Cancel-safe.
    async fn wait_gone(&mut self) {
        let ended = self.wait_ended().await;
        if let (ProcessEnd::Lost(_), SupervisorHandle::Guard(guarded)) = (ended, &mut self.supervisor) {
            guarded.wait_closed().await;
        }
    }

    /// Whether its guard or the reaper was lost.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.seen, Some(ProcessEnd::Lost(_)))
    }

    /// Kills the server with its subtree at once, and waits until nothing is left. If its guard was lost or stuck, the reaper kills the
    /// rest of the subtree.
    pub(super) async fn kill(mut self) {
        match &mut self.supervisor {
            SupervisorHandle::Guard(guarded) => guarded.kill().await,
            SupervisorHandle::ProcessGroup(grouped) => grouped.kill().await,
        }
        if let Some(cgroup) = self.cgroup.take() {
            cgroup.remove().await;
        }
    }
}

/// The launch spec for the guard. The environment is selected from `own`, that of this process, unless the configuration
/// has selected it already.
pub(super) fn launch_spec(
    program: &Program,
    inherited: ProcessAttributes,
    restrictions: Option<Restrictions>,
    own: impl Iterator<Item = (String, String)>,
) -> LaunchSpec {
    let mut env = program.passed.clone().unwrap_or_else(|| environment::passed(own, &program.pass_env));
    let private = restrictions.as_ref().and_then(Restrictions::private);
    let variables = restrictions.iter().flat_map(Restrictions::private_variables);
    env.extend(variables.map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned())));
    env.extend(program.env.clone());
    let home = || env.get("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let default_cwd = private.map_or_else(home, sandbox::private_cwd);
    LaunchSpec {
        command: program.command.clone(),
        args: program.args.clone(),
        cwd: program.cwd.clone().unwrap_or(default_cwd),
        cwd_is_stated: program.cwd_is_stated,
        env,
        umask: inherited.umask,
        open_files: inherited.open_files,
        // The guard sets its own limit to 0 in any case.
        core_size: inherited.core_size.or_else(|| Some(subtree_owner::core_size())),
        tasks_max: None,
        sandbox: restrictions,
        instead: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn lost_guard_is_explained_by_the_memory_limit_only() {
        let killed = |exit: Exit| ProcessEnd::Exited(Exit { limit: Some(ReachedLimit::Memory(None)), ..exit });
        let lost = || ProcessEnd::Lost(error::Supervisor::Guard);
        let exited = Exit { code: Some(1), ..Exit::default() };
        for (end, limit, expected) in [
            (lost(), None, lost()),
            (lost(), Some(ReachedLimit::Processes(64)), lost()),
            (lost(), Some(ReachedLimit::Memory(None)), killed(Exit::default())),
            (ProcessEnd::Exited(exited.clone()), Some(ReachedLimit::Memory(None)), killed(exited.clone())),
            (ProcessEnd::Exited(exited.clone()), None, ProcessEnd::Exited(exited)),
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
            let spec = launch_spec(program, ProcessAttributes::default(), None, own);
            assert_eq!(spec.cwd, PathBuf::from(&spec.env["HOME"]));
            spec.env
        };
        assert_eq!(env(&program), variables(&[("HOME", "/own"), ("TERM", "dumb"), ("TOKEN", "t")]));
        program.passed = Some(variables(&[("HOME", "/other"), ("TERM", "vt100")]));
        assert_eq!(env(&program), variables(&[("HOME", "/other"), ("TERM", "dumb"), ("TOKEN", "t")]));
    }
}
