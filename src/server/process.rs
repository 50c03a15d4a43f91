//! One server process under its guard, seen from mcpd.
//!
//! Knows: the guard's protocol, pipes, tokio. Must not touch: JSON-RPC. Dropping a [`Process`] closes the lifeline, and
//! the guard kills whatever is left; [`Process::stop`] is the polite way.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::guard::{ARGV0, Definition, KILL, Report, TERMINATE};
use super::{Stop, StopOrder};
use crate::config::Launch;

/// From closing stdin to SIGTERM (MCP, `basic/lifecycle`, "Shutdown"; real servers take up to 2.6 s).
const EOF_GRACE: Duration = Duration::from_secs(3);
/// From SIGTERM to SIGKILL of the subtree.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// Room in a pipe to or from a server, in bytes. With the usual 64 KiB a large message costs four times the wake-ups;
/// much more would use up what a user may have in all pipes together (`fs.pipe-user-pages-soft`, 64 MiB).
const PIPE: usize = 256 << 10;
/// For a guard to be gone after it was told to kill, before it is killed itself.
const KILL_GRACE: Duration = Duration::from_secs(1);

/// What mcpd changed of its own process at start and hands to its servers as it was.
#[derive(Debug, Clone)]
pub struct Inherited {
    /// File mode creation mask.
    pub umask: u32,
    /// Soft limit of open files.
    pub open_files: Option<u64>,
}

/// A running server and its guard.
#[derive(Debug)]
pub(super) struct Process {
    guard: Child,
    reports: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
    ended: Option<Ended>,
}

/// How a server ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ended {
    /// Its guard saw it end, and ends what it left; such as `exited with code 1`.
    Exited(String),
    /// Its guard is gone, so nobody saw it.
    GuardLost,
}

/// mcpd's ends of a server's standard streams.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: pipe::Sender,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
}

/// A guard that was just started; its server is not running yet.
pub(super) struct Spawned {
    pub(super) pipes: Pipes,
    guard: Child,
    reports: Lines<BufReader<OwnedReadHalf>>,
    orders: OwnedWriteHalf,
}

/// Starts a guard and hands it the server's streams. Does not wait for anything.
pub(super) fn spawn() -> io::Result<Spawned> {
    let (ours, theirs) = StdUnixStream::pair()?;
    // Its own executable as it was started, even if the file was replaced by an upgrade since.
    let guard = Command::new("/proc/self/exe")
        .arg0(ARGV0)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let (stdin_child, stdin) = large_pipe()?;
    let (stdout, stdout_child) = large_pipe()?;
    let (stderr, stderr_child) = pipe_with(PipeFlags::CLOEXEC)?;
    send_streams(&ours, [&stdin_child, &stdout_child, &stderr_child])?;
    ours.set_nonblocking(true)?;
    let (reports, orders) = UnixStream::from_std(ours)?.into_split();
    let pipes = Pipes {
        stdin: pipe::Sender::from_owned_fd(stdin)?,
        stdout: pipe::Receiver::from_owned_fd(stdout)?,
        stderr: pipe::Receiver::from_owned_fd(stderr)?,
    };
    Ok(Spawned { pipes, guard, reports: BufReader::new(reports).lines(), orders })
}

/// A pipe with room for [`PIPE`] bytes, or for what the system gives: the rest is a matter of speed.
fn large_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let _ = rustix::pipe::fcntl_setpipe_size(&write, PIPE);
    Ok((read, write))
}

fn send_streams(socket: &StdUnixStream, streams: [&OwnedFd; 3]) -> io::Result<()> {
    let fds = streams.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(socket, &[IoSlice::new(b"S")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

impl Spawned {
    /// Process id of the guard.
    pub(super) fn guard_pid(&self) -> Option<u32> {
        self.guard.id()
    }

    /// Has the guard start the server, and tells the server's process id.
    pub(super) async fn start(&mut self, definition: &Definition) -> Result<u32, NotStarted> {
        let mut line = serde_json::to_vec(definition).map_err(|error| NotStarted::Refused(error.to_string()))?;
        line.push(b'\n');
        self.orders.write_all(&line).await.map_err(|_| NotStarted::GuardLost)?;
        match next_report(&mut self.reports).await {
            Some(Report::Started { pid }) => Ok(pid),
            Some(Report::NotStarted { reason }) => Err(NotStarted::Refused(reason)),
            _ => Err(NotStarted::GuardLost),
        }
    }

    /// Ends the guard and whatever it has started. Ends as [`Process::kill`] does.
    pub(super) async fn kill(self) -> bool {
        self.into_process().0.kill().await
    }

    /// The server that was started.
    pub(super) fn into_process(self) -> (Process, Pipes) {
        let Self { pipes, guard, reports, orders } = self;
        (Process { guard, reports, orders, ended: None }, pipes)
    }
}

/// Why there is no server.
#[derive(Debug)]
pub(super) enum NotStarted {
    /// For a person, on one line.
    Refused(String),
    /// Its guard died, whatever it had started by then.
    GuardLost,
}

async fn next_report(reports: &mut Lines<BufReader<OwnedReadHalf>>) -> Option<Report> {
    let line = reports.next_line().await.ok().flatten()?;
    serde_json::from_str(&line).ok()
}

impl Process {
    /// How the server ended, once it has. May be cancelled without loss.
    pub(super) async fn ended(&mut self) -> Ended {
        if let Some(ended) = &self.ended {
            return ended.clone();
        }
        let ended = match next_report(&mut self.reports).await {
            Some(Report::Exited { how }) => Ended::Exited(how),
            _ => Ended::GuardLost,
        };
        self.ended.insert(ended).clone()
    }

    /// Ends the server and everything it started: what has been closed to it, then SIGTERM, then SIGKILL of the
    /// subtree. The caller has closed the server's stdin. Ends as [`Process::kill`] does.
    pub(super) async fn stop(mut self, stop: &mut StopOrder) -> bool {
        for (grace, order) in [(EOF_GRACE, TERMINATE), (TERM_GRACE, KILL)] {
            tokio::select! {
                _ = self.ended() => break,
                () = tokio::time::sleep(grace) => self.order(order),
                () = stop.at_least(Stop::Kill) => break,
            }
        }
        self.kill().await
    }

    /// Ends the server and everything it started, at once. Returns when nothing is left; `false` if the guard was
    /// stopped or stuck and had to be killed itself, so that what it left has come to mcpd.
    pub(super) async fn kill(mut self) -> bool {
        self.order(KILL);
        let emptied = timeout(KILL_GRACE, self.guard.wait()).await.is_ok();
        if !emptied {
            let _ = timeout(KILL_GRACE, self.guard.kill()).await;
        }
        emptied
    }

    /// One byte into an empty socket buffer: it never waits, and a guard that is gone needs no order.
    fn order(&self, order: u8) {
        let _ = self.orders.try_write(&[order]);
    }
}

/// Variables every server gets if mcpd has them; those of the locale, `LC_*`, too.
const PASSED_ENV: [&str; 9] = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// What the guard is told: the configured launch with its whole environment, chosen from `own`, which is mcpd's.
pub(super) fn definition(
    launch: &Launch,
    inherited: &Inherited,
    own: impl Iterator<Item = (String, String)>,
) -> Definition {
    let is_passed = |name: &str| {
        PASSED_ENV.contains(&name) || name.starts_with("LC_") || launch.pass_env.iter().any(|passed| passed == name)
    };
    let mut env: BTreeMap<String, String> = own.filter(|(name, _)| is_passed(name)).collect();
    env.extend(launch.env.clone());
    let home = env.get("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    Definition {
        command: launch.command.clone(),
        args: launch.args.clone(),
        env,
        cwd: launch.cwd.clone().unwrap_or(home),
        umask: inherited.umask,
        open_files: inherited.open_files,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_the_allow_listed_variables_and_its_own_only() {
        let launch = Launch {
            command: "x".to_owned(),
            args: Vec::new(),
            env: BTreeMap::from([("TERM".to_owned(), "dumb".to_owned()), ("TOKEN".to_owned(), "t".to_owned())]),
            pass_env: vec!["HTTPS_PROXY".to_owned(), "UNSET".to_owned()],
            cwd: None,
        };
        let inherited = Inherited { umask: 0o22, open_files: None };
        let own = ["HOME", "LC_TIME", "TERM", "HTTPS_PROXY", "SECRET", "NOTIFY_SOCKET", "XDG_RUNTIME_DIR"];
        let own = own.into_iter().map(|name| (name.to_owned(), format!("/own/{name}")));
        let definition = definition(&launch, &inherited, own);
        assert_eq!(definition.env.keys().collect::<Vec<_>>(), ["HOME", "HTTPS_PROXY", "LC_TIME", "TERM", "TOKEN"]);
        assert_eq!((&*definition.env["TERM"], &*definition.env["HTTPS_PROXY"]), ("dumb", "/own/HTTPS_PROXY"));
        assert_eq!(definition.cwd, PathBuf::from("/own/HOME"));
    }
}
