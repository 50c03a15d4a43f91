//! Starts a detached daemon: in its own session, with the login environment, and reparented to init.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout_at};

use super::outcome::{AutostartError, StartOptions, StartOutcome};
use crate::config::interpolate::{Environment, Sources};
use crate::detach;
use crate::disk::open_own;
use crate::login_env::{self, Variables};
use crate::sockets::RuntimeDir;

/// The exit code of a daemon that refuses its arguments or its configuration.
const CONFIGURATION_EXIT_CODE: u8 = 2;
/// The exit code of a daemon beside another one in the same directory. systemd does not restart it (`RestartPreventExitStatus=`).
pub(crate) const OTHER_DAEMON_EXIT_CODE: u8 = 4;

/// Until a started daemon has to listen.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Between attempts while another daemon holds the lock but does not listen, because it is starting or stopping.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Bytes of the daemon's output that an error shows.
const MAX_SHOWN: u64 = 4 << 10;
const NO_LOG: &str = "its log cannot be written; run `mcpd serve` in a terminal to see the reason";

/// Starts a daemon, and waits until it listens.
pub(super) async fn start(directory: &RuntimeDir, options: &StartOptions) -> Result<StartOutcome, AutostartError> {
    let login = login_env::environment(std::env::vars_os()).await;
    let environment = daemon_environment(directory, options, login.variables);
    let log = Log::open(directory, &environment).ok();
    if let (Some(log), Some(trouble)) = (&log, &login.trouble) {
        log.note(&trouble.to_string());
    }
    let deadline = Instant::now() + START_TIMEOUT;
    let path = || log.as_ref().map(|log| log.path.clone());
    while Instant::now() < deadline && !directory.is_served() {
        let before = log.as_ref().map_or(0, Log::length);
        let mut watcher = spawn(directory, options, &environment, log.as_ref())?;
        // The watcher lives until this pipe closes. Closing it does not end the daemon. `wait` would close it.
        let _stdin = watcher.stdin.take();
        let status = tokio::select! {
            served = timeout_at(deadline, until_served(directory)) => {
                return served.map(|()| StartOutcome::Detached(path())).map_err(|_| AutostartError::Timeout { log: path() });
            }
            status = watcher.wait() => status?,
        };
        let output = log.as_ref().map(|log| log.since(before));
        if status.code() != Some(OTHER_DAEMON_EXIT_CODE.into()) {
            let output = output.unwrap_or_else(|| NO_LOG.to_owned());
            let is_configuration = status.code() == Some(CONFIGURATION_EXIT_CODE.into());
            return Err(AutostartError::Exit { how: describe(status), output, log: path(), is_configuration });
        }
        sleep(RETRY_INTERVAL).await;
    }
    if directory.is_served() { Ok(StartOutcome::AlreadyRunning) } else { Err(AutostartError::Timeout { log: path() }) }
}

pub(super) async fn until_served(directory: &RuntimeDir) {
    while !directory.is_served() {
        sleep(POLL_INTERVAL).await;
    }
}

/// The login environment, changed so that the daemon serves in `directory` and searches the directories of `options.path` first.
fn daemon_environment(directory: &RuntimeDir, options: &StartOptions, mut variables: Variables) -> Variables {
    if let Some(terminal) = &options.path {
        let path = joined_paths(terminal, variables.get(OsStr::new("PATH")));
        variables.insert("PATH".into(), path);
    }
    let mut set = |name: &str, value: Option<OsString>| match value {
        Some(value) => drop(variables.insert(name.into(), value)),
        None => drop(variables.remove(OsStr::new(name))),
    };
    if !directory.is_given() {
        set("XDG_RUNTIME_DIR", directory.session().map(|session| session.as_os_str().to_owned()));
    }
    if let Some(home) = std::env::var_os("HOME") {
        set("HOME", Some(home));
    }
    variables
}

/// The absolute directories of both, each once. A relative one would be another directory for the daemon.
fn joined_paths(first: &OsStr, second: Option<&OsString>) -> OsString {
    let mut directories: Vec<_> = std::env::split_paths(first).collect();
    directories.extend(second.into_iter().flat_map(std::env::split_paths));
    let mut seen = HashSet::new();
    directories.retain(|directory| directory.is_absolute() && seen.insert(directory.clone()));
    std::env::join_paths(directories).unwrap_or_else(|_| first.to_owned())
}

fn spawn(
    directory: &RuntimeDir,
    options: &StartOptions,
    environment: &Variables,
    log: Option<&Log>,
) -> io::Result<Child> {
    let mut arguments: Vec<OsString> = vec!["serve".into()];
    if directory.is_given() {
        arguments.extend(["--runtime-dir".into(), std::path::absolute(directory.path())?.into_os_string()]);
    }
    for file in &options.config {
        arguments.extend(["--config".into(), std::path::absolute(file)?.into_os_string()]);
    }
    if options.while_used {
        arguments.push("--while-used".into());
    }
    let mut outputs = [Stdio::null(), Stdio::null()];
    if let Some(log) = log {
        arguments.extend(["--log-file".into(), log.path.clone().into_os_string()]);
        outputs = [log.output()?, log.output()?];
    }
    let [stdout, stderr] = outputs;
    let home = environment.get(OsStr::new("HOME")).map(Path::new).filter(|home| home.is_dir());
    let mut command = detach::watched(&arguments);
    command.env_clear().envs(environment).current_dir(home.unwrap_or(Path::new("/")));
    command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr).spawn()
}

/// How the daemon ended, for a sentence about it.
fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code @ ..=128) => format!("ended at once with code {code}"),
        Some(code) => format!("was ended at once by signal {}", code - 128),
        None => "was ended at once".to_owned(),
    }
}

/// The log file of a detached daemon. [`crate::logging`] limits its size.
struct Log {
    path: PathBuf,
    file: File,
}

/// The path of the log, in an environment with these variables.
pub(crate) fn log_path(sources: &dyn Sources) -> Option<PathBuf> {
    Some(sources.state_home()?.join("mcpd/serve.log"))
}

impl Log {
    /// Opens the log at [`log_path`], or beside the sockets if the runtime directory was given.
    fn open(directory: &RuntimeDir, environment: &Variables) -> io::Result<Self> {
        let path = match directory.is_given() {
            true => std::path::absolute(directory.path().join("serve.log"))?,
            false => log_path(&sources(environment)).ok_or(io::ErrorKind::NotFound)?,
        };
        DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(&path))?;
        let file = open_own(OpenOptions::new().append(true).read(true), &path)?;
        Ok(Self { path, file })
    }

    /// The log as a daemon's standard output.
    fn output(&self) -> io::Result<Stdio> {
        Ok(self.file.try_clone()?.into())
    }

    fn note(&self, text: &str) {
        let _ = writeln!(&self.file, "mcpd connect: {text}");
    }

    fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |found| found.len())
    }

    /// The text from byte `before` on; its last [`MAX_SHOWN`] bytes if it is longer.
    fn since(&self, before: u64) -> String {
        let length = self.length();
        let from = before.max(length.saturating_sub(MAX_SHOWN));
        let mut bytes = vec![0; usize::try_from(length.saturating_sub(from)).unwrap_or(0)];
        let read = self.file.read_at(&mut bytes, from).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }
}

fn sources(variables: &Variables) -> Environment {
    let text =
        variables.iter().filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())));
    Environment::new(Some(text.collect()), None)
}
