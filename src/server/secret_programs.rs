//! Runs the programs of `${cmd:…}`.
//!
//! Starts that need the same program at the same time share one run of it. Its output is never logged.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
#[expect(clippy::disallowed_types, reason = "a cell: each lock lasts for one look or change, without waiting")]
use std::sync::Mutex;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, WeakShared};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::guard::GuardReport;
use super::launch_spec::LaunchSpec;
use super::secret_runner;
use super::start_error::StartError;
use crate::config::interpolate::{Process, Sources, UnusableValue, trim_line_break};
use crate::config::{SecretCommand, size_text};
use crate::duration;
use crate::fd_passing;
use crate::printable::one_line;
use crate::test_variable::test_variable;

/// Time for a program, which may prompt a person.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of an output, in bytes.
const MAX_OUTPUT: usize = 64 << 10;

/// See [`secret_runner::start_outside`].
static STARTING: Semaphore = Semaphore::const_new(1);

type Output = Result<Arc<str>, UnusableValue>;
type Running = WeakShared<BoxFuture<'static, Output>>;

/// The programs that run at present, and their environment. Cheap to clone.
#[derive(Clone, Default)]
pub struct SecretPrograms(Arc<RunningPrograms>);

#[derive(Default)]
#[expect(clippy::disallowed_types, reason = "see the import")]
struct RunningPrograms {
    running: Mutex<HashMap<SecretCommand, Running>>,
    /// `None` is the environment of this process.
    environment: Mutex<Option<BTreeMap<String, String>>>,
}

impl std::fmt::Debug for SecretPrograms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretPrograms").finish_non_exhaustive()
    }
}

impl SecretPrograms {
    /// Sets the environment of later runs.
    pub fn set_environment(&self, variables: BTreeMap<String, String>) {
        *lock(&self.0.environment) = Some(variables);
    }

    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        let set = lock(&self.0.environment).clone();
        set.unwrap_or_else(|| Process.variables("").into_iter().collect())
    }

    /// The output of a new run, or of one that has not ended yet. `spec` is how to start it, and `runner` the executable of its runner.
    pub(super) async fn output(&self, command: &SecretCommand, spec: LaunchSpec, runner: Option<&Path>) -> Output {
        let shared = {
            let mut running = lock(&self.0.running);
            running.retain(|_, run| run.upgrade().is_some());
            let present = running.get(command).and_then(WeakShared::upgrade);
            present.unwrap_or_else(|| {
                let new = run(command.clone(), spec, runner.map(Path::to_owned)).boxed().shared();
                new.downgrade().and_then(|weak| running.insert(command.clone(), weak));
                new
            })
        };
        shared.await
    }
}

#[expect(clippy::disallowed_types, reason = "see the import")]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the program once.
async fn run(command: SecretCommand, spec: LaunchSpec, runner: Option<PathBuf>) -> Output {
    let program = one_line(command.program());
    let limit = test_variable("MCPD_TEST_SECRET_TIMEOUT_MS").map_or(RUN_TIMEOUT, Duration::from_millis);
    let output = match timeout(limit, printed(&spec, runner)).await {
        Ok(output) => output.and_then(text),
        Err(_) => Err(format!("did not end within {}", duration::format(limit))),
    };
    output.map(Arc::from).map_err(|what| UnusableValue::Command {
        reference: command.reference(),
        reason: format!("`{program}` {what}"),
    })
}

/// The text without its last line break.
fn text(output: Vec<u8>) -> Result<String, String> {
    let mut text = String::from_utf8(output).map_err(|_| "printed text that is not UTF-8")?;
    if text.contains('\0') {
        return Err("printed a NUL character".to_owned());
    }
    trim_line_break(&mut text);
    if text.is_empty() { Err("printed nothing".to_owned()) } else { Ok(text) }
}

/// What the program prints until it ends. Dropping the future kills it.
async fn printed(spec: &LaunchSpec, runner: Option<PathBuf>) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| format!("cannot be run: {error}");
    let mut spec = serde_json::to_vec(spec).map_err(|error| failed(error.into()))?;
    spec.push(b'\n');
    let (stdout, runners_stdout) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let stdout = pipe::Receiver::from_owned_fd(stdout).map_err(failed)?;
    let (reports, mut commands) = start_runner(runner, runners_stdout).await.map_err(failed)?.into_split();
    commands.write_all(&spec).await.map_err(failed)?;
    let mut reports = BufReader::new(reports).lines();
    let mut output = Vec::new();
    let report = tokio::select! {
        report = reports.next_line() => report.map_err(failed)?,
        reason = read(&stdout, &mut output) => return Err(reason),
    };
    // A process that it leaves behind may keep the pipe open.
    take(&stdout, &mut output)?;
    match report.and_then(|line| serde_json::from_str(&line).ok()) {
        Some(GuardReport::Exited(exit)) if exit.is_success() => Ok(output),
        Some(GuardReport::Exited(exit)) => Err(exit.to_string()),
        Some(GuardReport::NotStarted(StartError::CommandNotFound { path: Some(_), .. })) => {
            Err("is not found on the PATH of mcpd".to_owned())
        }
        Some(GuardReport::NotStarted(StartError::CommandNotFound { .. } | StartError::CommandLine(_))) => {
            Err("does not exist".to_owned())
        }
        Some(GuardReport::NotStarted(StartError::ExecRefused { error, .. } | StartError::ExecFailed { error, .. })) => {
            Err(format!("cannot be run: {error}"))
        }
        Some(GuardReport::NotStarted(error)) => Err(format!("cannot be run: {error}")),
        Some(GuardReport::Started { .. }) | None => Err("was lost with its runner".to_owned()),
    }
}

/// Starts a runner for a program with this standard output. The other streams of the program are empty.
async fn start_runner(runner: Option<PathBuf>, stdout: OwnedFd) -> io::Result<UnixStream> {
    let runner = runner.ok_or_else(|| io::Error::other("a program that embeds mcpd needs a guard for it"))?;
    let (ours, theirs) = StdUnixStream::pair()?;
    let null = || OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from);
    fd_passing::send_streams(&ours, &[null()?, stdout, null()?])?;
    ours.set_nonblocking(true)?;
    let socket = UnixStream::from_std(ours)?;
    let starting = STARTING.acquire().await.map_err(io::Error::other)?;
    // The permit ends with the start, even if nobody waits for that any more.
    let start = move || {
        let _starting = starting;
        secret_runner::start_outside(&runner, theirs.into())
    };
    spawn_blocking(start).await.map_err(io::Error::other)??;
    Ok(socket)
}

/// Reads into `output`. Returns only if that fails.
async fn read(stdout: &pipe::Receiver, output: &mut Vec<u8>) -> String {
    loop {
        let readable = stdout.readable().await.map_err(|error| error.to_string());
        match readable.and_then(|()| take(stdout, output)) {
            Ok(false) => {}
            Ok(true) => return pending().await,
            Err(reason) => return reason,
        }
    }
}

/// Reads what is there. Returns whether the end was reached.
fn take(stdout: &pipe::Receiver, output: &mut Vec<u8>) -> Result<bool, String> {
    let mut buffer = [0; 4096];
    loop {
        match stdout.try_read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(length) => output.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(format!("cannot be read: {error}")),
        }
        if output.len() > MAX_OUTPUT {
            return Err(format!("printed more than {}", size_text(MAX_OUTPUT as u64)));
        }
    }
}
