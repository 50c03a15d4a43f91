//! `mcpd connect` as an agent starts it.

use std::cell::Cell;
use std::fs::{self, File};
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;

use serde_json::{Value, json};

use super::agent::Agent;
use super::messages::result;
use super::place::{MCPD, Place, STRANGER, TAG};
use super::run::wait_exit;
use super::wait::until;

/// An agent with a running `mcpd connect`. Dropping it ends the agent's input, and fails the test unless everything was read and the
/// process exits with 0.
pub(crate) struct Shim {
    /// `None` once it was taken.
    agent: Option<Agent>,
    child: Child,
    log: PathBuf,
    has_ended: Cell<bool>,
}

impl Shim {
    /// With one socket as its stdin and stdout, like some clients.
    pub(crate) fn start(place: &Place, options: &[&str]) -> Self {
        Self::start_in(place, &place.path(""), options)
    }

    /// The same in this directory.
    pub(crate) fn start_in(place: &Place, directory: &Path, options: &[&str]) -> Self {
        let mut command = Self::command(place);
        command.current_dir(directory).args(options);
        Self::spawn(place, command)
    }

    /// An agent that is ready to call, behind another program.
    pub(crate) fn run_by(program: &Path, place: &Place) -> Self {
        let mut command = place.command(program);
        command.arg("connect").arg("--runtime-dir").arg(place.runtime_dir()).env(TAG, STRANGER);
        let mut shim = Self::spawn(place, command);
        result(&shim.initialize("2025-11-25"));
        shim
    }

    fn spawn(place: &Place, mut command: Command) -> Self {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let input = theirs.try_clone().expect("a descriptor");
        command.stdin(OwnedFd::from(input)).stdout(OwnedFd::from(theirs));
        let log = place.path(&format!("connect-{}.log", fastrand::u64(..)));
        command.stderr(File::create(&log).expect("the test's own directory is writable"));
        let child = command.spawn().expect("mcpd starts");
        Self { agent: Some(Agent::from_stream(ours)), child, log, has_ended: Cell::new(false) }
    }

    /// The command, independent of any daemon.
    pub(crate) fn command(place: &Place) -> Command {
        let mut command = place.command(MCPD);
        command.arg("connect").arg("--runtime-dir").arg(place.runtime_dir()).env(TAG, STRANGER);
        command
    }

    /// An agent that is ready to call.
    pub(crate) fn ready(place: &Place) -> Self {
        Self::with_capabilities(place, &json!({}))
    }

    /// The same with these client capabilities.
    pub(crate) fn with_capabilities(place: &Place, capabilities: &Value) -> Self {
        let mut shim = Self::start(place, &[]);
        result(&shim.initialize_as("2025-11-25", capabilities));
        shim
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its stderr.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("text")
    }

    /// Waits until it has written this to stderr.
    #[track_caller]
    pub(crate) fn wait_log(&self, part: &str) {
        until(&format!("{part} on stderr"), || self.log().contains(part).then_some(()));
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait_exit(&mut self) -> ExitStatus {
        self.has_ended.set(true);
        wait_exit(&mut self.child)
    }

    /// Takes the agent out. The process ends with it.
    pub(crate) fn take_agent(&mut self) -> Agent {
        self.agent.take().expect("it was not taken before")
    }
}

impl Deref for Shim {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        self.agent.as_ref().expect("it was not taken")
    }
}

impl DerefMut for Shim {
    fn deref_mut(&mut self) -> &mut Agent {
        self.agent.as_mut().expect("it was not taken")
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.child.kill().and_then(|()| self.child.wait());
            return;
        }
        drop(self.agent.take());
        if !self.has_ended.get() {
            let status = wait_exit(&mut self.child);
            assert!(status.success(), "it ended with {status}: {}", self.log());
        }
    }
}
