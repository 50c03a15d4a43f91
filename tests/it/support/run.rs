//! A command, run to its end with a deadline.

use std::fmt;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use super::wait::until;

/// Output and exit code of a command.
pub(crate) struct Ran {
    /// The exit code; `None` after a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Its stdout as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {self}"))
    }

    /// Fails unless the command ended with `code`.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {:?}\n--- stdout\n{}\n--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

/// Runs a command that needs no input.
pub(crate) fn run(command: &mut Command) -> Ran {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawn");
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let status = wait_exit(&mut child);
    let text = |reader: JoinHandle<String>| reader.join().expect("a reader does not panic");
    Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// Waits for a child to end.
pub(crate) fn wait_exit(child: &mut Child) -> ExitStatus {
    until("the process ends", || child.try_wait().expect("one's own child"))
}

/// A pipe must be read while its writer runs.
fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    let mut pipe = pipe.expect("a piped stream");
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
