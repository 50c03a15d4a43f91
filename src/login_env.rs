//! Reads the environment of a fresh login, which differs from the environment that an agent passes to its servers.
//!
//! Version managers and similar tools are set up in the files of the user's shell. So the shell runs as a login shell and as an
//! interactive shell, because each reads files that the other does not. Desktop editors do the same.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use crate::detach;
use crate::duration;

/// Limits the shell, whose files may wait for the network or for input.
const SHELL_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_OUTPUT: usize = 4 << 20;
/// The PATH before a login shell runs. Source: login.defs(5), `ENV_PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// Variables that the login session sets, besides `LC_*`.
const SESSION_VARIABLES: [&str; 17] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "SHELL",
    "SSH_AUTH_SOCK",
    "TZ",
    "USER",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];
/// Variables that the shell sets for its own use.
const SHELL_VARIABLES: [&str; 5] = ["OLDPWD", "PWD", "SHLVL", "TERM", "_"];

pub(crate) type Variables = BTreeMap<OsString, OsString>;

/// The environment of a fresh login.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) variables: Variables,
    /// Why the shell's variables are not known. `variables` then has the session's variables and the `PATH` of this process.
    pub(crate) trouble: Option<LoginTrouble>,
}

/// Why the environment of the login shell is not known.
#[derive(Debug, thiserror::Error)]
#[error("the login shell {} did not print its environment: {why}", shell.display())]
pub(crate) struct LoginTrouble {
    shell: PathBuf,
    why: ShellError,
}

#[derive(Debug, thiserror::Error)]
enum ShellError {
    #[error(transparent)]
    NotStarted(#[from] io::Error),
    #[error("it ended with {0}")]
    Ended(ExitStatus),
    #[error("it closed its output")]
    ClosedOutput,
    #[error("it took longer than {}", duration::format(SHELL_TIMEOUT))]
    TimedOut,
}

/// Reads the environment of the user's login shell. Takes at most 5 s.
///
/// Of `current`, the variables of this process, the shell receives only those of the login session.
pub(crate) async fn environment(current: impl Iterator<Item = (OsString, OsString)>) -> Login {
    let current: Variables = current.collect();
    let mut session = current.clone();
    session.retain(|name, _| is_of_session(name));
    let shell = shell(&mut session).await;
    match print_environment(&shell, &session).await {
        Ok(mut variables) => {
            variables.retain(|name, _| !SHELL_VARIABLES.iter().any(|known| name == known));
            Login { variables, trouble: None }
        }
        Err(why) => {
            let path = current.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| DEFAULT_PATH.into());
            session.insert("PATH".into(), path);
            Login { variables: session, trouble: Some(LoginTrouble { shell, why }) }
        }
    }
}

fn is_of_session(name: &OsStr) -> bool {
    SESSION_VARIABLES.iter().any(|known| name == *known) || name.as_bytes().starts_with(b"LC_")
}

/// The user's shell. Adds the user's name and home directory to `session`.
async fn shell(session: &mut Variables) -> PathBuf {
    // The lookup may go over the network.
    let uid = nix::unistd::geteuid();
    let lookup = tokio::task::spawn_blocking(move || nix::unistd::User::from_uid(uid).ok().flatten());
    let user = timeout(SHELL_TIMEOUT, lookup).await.ok().and_then(Result::ok).flatten();
    let from_session = session.get(OsStr::new("SHELL")).map(PathBuf::from).filter(|shell| shell.is_absolute());
    let Some(user) = user else { return from_session.unwrap_or_else(|| "/bin/sh".into()) };
    for (name, value) in [("USER", &user.name), ("LOGNAME", &user.name)] {
        session.entry(name.into()).or_insert_with(|| value.into());
    }
    session.entry("HOME".into()).or_insert_with(|| user.dir.into());
    let is_for_logins =
        |shell: &Path| shell.is_absolute() && !["nologin", "false"].iter().any(|no| shell.ends_with(no));
    let shell = Some(user.shell).filter(|shell| is_for_logins(shell)).or(from_session);
    let shell = shell.unwrap_or_else(|| "/bin/sh".into());
    session.insert("SHELL".into(), shell.clone().into());
    shell
}

/// Runs the shell, and reads the environment that it prints.
async fn print_environment(shell: &Path, session: &Variables) -> Result<Variables, ShellError> {
    let mark = format!("mcpd-{:016x}", fastrand::u64(..));
    let mut child = start(shell, session, &mark)?;
    let stdout = child.stdout.take().ok_or(ShellError::ClosedOutput)?;
    match timeout(SHELL_TIMEOUT, read(stdout, &mark)).await {
        Ok(Some(variables)) => Ok(variables),
        Ok(None) => Err(match timeout(SHELL_TIMEOUT, child.wait()).await {
            Ok(Ok(ended)) => ShellError::Ended(ended),
            _ => ShellError::ClosedOutput,
        }),
        Err(_) => {
            // The shell leads its own process group. Processes that left the group keep running.
            if let Some(leader) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
                let _ = kill_process_group(leader, Signal::KILL);
            }
            Err(ShellError::TimedOut)
        }
    }
}

/// Starts the shell, which prints `env -0` between two marks, because its files may print text of their own.
fn start(shell: &Path, session: &Variables, mark: &str) -> io::Result<Child> {
    let name = shell.file_name().unwrap_or(shell.as_os_str());
    // Every shell understands this quoting. `/bin/sh` bypasses aliases of `env`.
    let print = format!("/bin/sh -c 'echo {mark}; env -0; echo {mark}'");
    let (known_as, options): (OsString, &[&str]) = match name.as_bytes() {
        // csh accepts `-l` only as the sole option.
        b"csh" | b"tcsh" => ([OsStr::new("-"), name].into_iter().collect(), &["-i", "-c"]),
        _ => (name.to_owned(), &["-l", "-i", "-c"]),
    };
    let arguments: Vec<OsString> = options.iter().map(OsString::from).chain([print.into()]).collect();
    let home = session.get(OsStr::new("HOME")).map(Path::new).filter(|home| home.is_dir());
    detach::become_program(shell.into(), known_as, &arguments)
        .env_clear()
        .env("PATH", DEFAULT_PATH)
        .env("TERM", "dumb")
        .envs(session)
        .current_dir(home.unwrap_or(Path::new("/")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// Reads the variables between the marks. It does not wait for the end of the output, which a background process may keep open.
async fn read(mut stdout: ChildStdout, mark: &str) -> Option<Variables> {
    let mut output = Vec::new();
    while output.len() < MAX_OUTPUT && stdout.read_buf(&mut output).await.ok()? > 0 {
        if let Some(variables) = between(&output, mark) {
            return Some(parsed(variables));
        }
    }
    None
}

/// The bytes between two lines that consist of the mark.
fn between<'a>(output: &'a [u8], mark: &str) -> Option<&'a [u8]> {
    let find = |bytes: &[u8]| memchr::memmem::find(bytes, format!("{mark}\n").as_bytes());
    let inside = &output[find(output)? + mark.len() + 1..];
    Some(&inside[..find(inside)?])
}

/// Parses the output of `env -0`, and skips entries that are not variables.
fn parsed(variables: &[u8]) -> Variables {
    let pair = |entry: &[u8]| {
        let equals = entry.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        let [name, value] = [&entry[..equals], &entry[equals + 1..]].map(|part| OsString::from_vec(part.to_vec()));
        Some((name, value))
    };
    variables.split(|byte| *byte == 0).filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_is_read_between_the_marks_whatever_else_the_shell_prints() {
        let read = |output: &[u8]| between(output, "mark").map(parsed);
        let output = b"Welcome!\nA=no\nmark\nA=1\0EMPTY=\0TWO=a\nb=c\0=odd\0odd\0mark\nbye";
        let expected = [("A", "1"), ("EMPTY", ""), ("TWO", "a\nb=c")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(read(output), Some(expected.into()));
        assert_eq!(read(b"mark\nmark\n"), Some(Variables::new()));
        for unfinished in [&b""[..], b"mark\n", b"mark\nA=1\0", b"mark\nA=1\0mark"] {
            assert_eq!(read(unfinished), None);
        }
    }

    #[test]
    fn only_session_variables_of_an_agents_environment_are_used() {
        for (name, expected) in [
            ("HOME", true),
            ("LC_ALL", true),
            ("XDG_RUNTIME_DIR", true),
            ("PATH", false),
            ("NODE_OPTIONS", false),
            ("GITHUB_TOKEN", false),
            ("LD_PRELOAD", false),
            ("MCPD_NAMING", false),
        ] {
            assert_eq!(is_of_session(OsStr::new(name)), expected, "{name}");
        }
    }
}
