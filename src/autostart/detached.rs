//! Detached: in a session of its own, with the environment of the login, and nobody's child.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout_at};

use super::log::Log;
use super::{LaunchError, START, Started, listens, until_listens};
use crate::detach;
use crate::login_env::{self, Variables};
use crate::sockets::{RuntimeDir, SocketError};

/// Until it is tried again beside a daemon that holds the lock and does not listen: one that is just starting, or stopping.
const AGAIN: Duration = Duration::from_millis(200);

/// The code of a daemon that does not take its configuration.
const REFUSED: i32 = 2;
/// In place of what was said.
const UNHEARD: &str = "its log cannot be written; `mcpd serve` in a terminal shows why";

/// Starts one, and waits until it listens.
pub(super) async fn start(directory: &RuntimeDir) -> Result<Started, LaunchError> {
    let login = login_env::environment(std::env::vars_os()).await;
    let environment = met_in(directory, login.variables);
    let log = Log::open(directory, &environment).ok();
    if let (Some(log), Some(trouble)) = (&log, &login.trouble) {
        log.note(trouble);
    }
    let deadline = Instant::now() + START;
    let path = || log.as_ref().map(|log| log.path.clone());
    while Instant::now() < deadline && !listens(directory).await {
        let before = log.as_ref().map_or(0, Log::length);
        let mut watched = spawn(directory, &environment, log.as_ref())?;
        // While it is open the daemon is watched. To let go of it ends the watch, not the daemon; waiting would close it.
        let _watching = watched.stdin.take();
        let ended = tokio::select! {
            listens = timeout_at(deadline, until_listens(directory)) => {
                return listens.map(|()| Started::Detached(path())).map_err(|_| LaunchError::Late { log: path() });
            }
            ended = watched.wait() => ended?,
        };
        let said = log.as_ref().map(|log| log.since(before));
        let is_there_already = SocketError::AlreadyRunning(directory.path().to_owned()).to_string();
        // Of one without a log only this is known: beside another daemon it ends with another code.
        let is_configuration = ended.code() == Some(REFUSED);
        let said = said.or_else(|| is_configuration.then(|| UNHEARD.to_owned()));
        if let Some(said) = said.filter(|said| !said.contains(&is_there_already)) {
            return Err(LaunchError::Ended { how: how(ended), said, log: path(), is_configuration });
        }
        sleep(AGAIN).await;
    }
    if listens(directory).await { Ok(Started::Already) } else { Err(LaunchError::Late { log: path() }) }
}

/// With a daemon that has this environment agents meet in `directory`, whatever the login says of it.
fn met_in(directory: &RuntimeDir, mut variables: Variables) -> Variables {
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

fn spawn(directory: &RuntimeDir, environment: &Variables, log: Option<&Log>) -> io::Result<Child> {
    let mut arguments: Vec<OsString> = vec!["serve".into()];
    if directory.is_given() {
        arguments.extend(["--runtime-dir".into(), std::path::absolute(directory.path())?.into_os_string()]);
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

/// For a sentence about a daemon.
fn how(ended: ExitStatus) -> String {
    match ended.code() {
        Some(code @ ..=128) => format!("ended at once with code {code}"),
        Some(code) => format!("was ended at once by signal {}", code - 128),
        None => "was ended at once".to_owned(),
    }
}
