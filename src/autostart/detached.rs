//! Starts a detached daemon: in its own session, with the login environment, and reparented to init.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout_at};

use super::log::Log;
use super::{
    AutostartError, CONFIGURATION_EXIT_CODE, OTHER_DAEMON_EXIT_CODE, START_TIMEOUT, StartOptions, StartOutcome,
    listens, until_listens,
};
use crate::detach;
use crate::login_env::{self, Variables};
use crate::sockets::RuntimeDir;

/// Between attempts while another daemon holds the lock but does not listen, because it is starting or stopping.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
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
    while Instant::now() < deadline && !listens(directory).await {
        let before = log.as_ref().map_or(0, Log::length);
        let mut watcher = spawn(directory, options, &environment, log.as_ref())?;
        // The watcher lives until this pipe closes. Closing it does not end the daemon. `wait` would close it.
        let _stdin = watcher.stdin.take();
        let status = tokio::select! {
            listens = timeout_at(deadline, until_listens(directory)) => {
                return listens.map(|()| StartOutcome::Detached(path())).map_err(|_| AutostartError::Timeout { log: path() });
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
    if listens(directory).await {
        Ok(StartOutcome::AlreadyRunning)
    } else {
        Err(AutostartError::Timeout { log: path() })
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
