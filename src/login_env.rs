//! The environment that a program has which the user starts from a fresh login, rather than the one that an agent gives its servers.
//!
//! Only the user's shell knows it, as version managers and the like are set up in its files; so it is asked, as editors do that are
//! started from a desktop: as a login shell and an interactive one, since either reads files that the other does not.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use crate::detach;
use crate::duration;

/// For the shell to answer: its files may ask the network, or a person.
const PATIENCE: Duration = Duration::from_secs(5);
/// Taken of what it prints at most, in bytes.
const MOST: usize = 4 << 20;
/// What a login begins with (login.defs(5), `ENV_PATH`).
const FIRST_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// What the login session sets, not a shell: where things of the user's are. Beside these `LC_*`.
const OF_SESSION: [&str; 17] = [
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
/// What the shell sets for itself.
const OF_SHELL: [&str; 5] = ["OLDPWD", "PWD", "SHLVL", "TERM", "_"];

/// Variables by name.
pub(crate) type Variables = BTreeMap<OsString, OsString>;

/// The environment of a fresh login.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) variables: Variables,
    /// Why they are not the shell's: then they are what the login session sets, and the `PATH` of this process.
    pub(crate) trouble: Option<String>,
}

/// Asks the user's login shell for its environment; takes at most 5 s.
///
/// `own` are the variables of this process, of which only those reach the shell that are the login session's.
pub(crate) async fn environment(own: impl Iterator<Item = (OsString, OsString)>) -> Login {
    let own: Variables = own.collect();
    let mut session = own.clone();
    session.retain(|name, _| is_of_session(name));
    let shell = shell(&mut session).await;
    match ask(&shell, &session).await {
        Ok(mut variables) => {
            variables.retain(|name, _| !OF_SHELL.iter().any(|ours| name == ours));
            Login { variables, trouble: None }
        }
        Err(why) => {
            let path = own.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| FIRST_PATH.into());
            session.insert("PATH".into(), path);
            let trouble = format!("the login shell {} did not tell its environment: {why}", shell.display());
            Login { variables: session, trouble: Some(trouble) }
        }
    }
}

fn is_of_session(name: &OsStr) -> bool {
    OF_SESSION.iter().any(|known| name == *known) || name.as_bytes().starts_with(b"LC_")
}

/// The user's shell, and with it in `session` what is known of the user.
async fn shell(session: &mut Variables) -> PathBuf {
    // The user may be known to another machine only, and asking there takes time.
    let uid = nix::unistd::geteuid();
    let asked = tokio::task::spawn_blocking(move || nix::unistd::User::from_uid(uid).ok().flatten());
    let user = timeout(PATIENCE, asked).await.ok().and_then(Result::ok).flatten();
    let said = session.get(OsStr::new("SHELL")).map(PathBuf::from).filter(|shell| shell.is_absolute());
    let Some(user) = user else { return said.unwrap_or_else(|| "/bin/sh".into()) };
    for (name, value) in [("USER", &user.name), ("LOGNAME", &user.name)] {
        session.entry(name.into()).or_insert_with(|| value.into());
    }
    session.entry("HOME".into()).or_insert_with(|| user.dir.into());
    let is_for_logins =
        |shell: &Path| shell.is_absolute() && !["nologin", "false"].iter().any(|no| shell.ends_with(no));
    let shell = Some(user.shell).filter(|shell| is_for_logins(shell)).or(said).unwrap_or_else(|| "/bin/sh".into());
    session.insert("SHELL".into(), shell.clone().into());
    shell
}

async fn ask(shell: &Path, session: &Variables) -> Result<Variables, String> {
    let mark = format!("mcpd-{:016x}", fastrand::u64(..));
    let mut child = start(shell, session, &mark).map_err(|error| error.to_string())?;
    let stdout = child.stdout.take().ok_or("it has no output")?;
    let answer = timeout(PATIENCE, read(stdout, &mark)).await;
    match answer {
        Ok(Some(variables)) => Ok(variables),
        Ok(None) => Err(match timeout(PATIENCE, child.wait()).await {
            Ok(Ok(ended)) => format!("it ended with {ended}"),
            _ => "it closed its output".to_owned(),
        }),
        Err(_) => {
            // It leads a group of its own. What its files have started apart from it stays.
            if let Some(leader) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
                let _ = kill_process_group(leader, Signal::KILL);
            }
            Err(format!("it took longer than {}", duration::format(PATIENCE)))
        }
    }
}

/// The shell runs `env`, between two marks, since its files may print something, too.
fn start(shell: &Path, session: &Variables, mark: &str) -> std::io::Result<Child> {
    let name = shell.file_name().unwrap_or(shell.as_os_str());
    // Quoted as every shell understands it; what `env` is to an interactive one, an alias may have changed.
    let print = format!("/bin/sh -c 'echo {mark}; env -0; echo {mark}'");
    let (known_as, options): (OsString, &[&str]) = match name.as_bytes() {
        // Theirs has to stand alone.
        b"csh" | b"tcsh" => ([OsStr::new("-"), name].into_iter().collect(), &["-i", "-c"]),
        _ => (name.to_owned(), &["-l", "-i", "-c"]),
    };
    let arguments: Vec<OsString> = options.iter().map(OsString::from).chain([print.into()]).collect();
    let home = session.get(OsStr::new("HOME")).map(Path::new).filter(|home| home.is_dir());
    detach::become_program(shell.into(), known_as, &arguments)
        .env_clear()
        .env("PATH", FIRST_PATH)
        .env("TERM", "dumb")
        .envs(session)
        .current_dir(home.unwrap_or(Path::new("/")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// What was printed between the marks. What the shell's files have started may hold the output open for ever.
async fn read(mut stdout: ChildStdout, mark: &str) -> Option<Variables> {
    let mut said = Vec::new();
    while said.len() < MOST && stdout.read_buf(&mut said).await.ok()? > 0 {
        if let Some(variables) = between(&said, mark) {
            return Some(parsed(variables));
        }
    }
    None
}

/// The bytes between two lines that are this mark.
fn between<'a>(said: &'a [u8], mark: &str) -> Option<&'a [u8]> {
    let find = |bytes: &[u8]| memchr::memmem::find(bytes, format!("{mark}\n").as_bytes());
    let inside = &said[find(said)? + mark.len() + 1..];
    Some(&inside[..find(inside)?])
}

/// Such as `env -0` prints them. What is no variable is passed over.
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
    fn what_stands_between_the_marks_is_the_environment_whatever_the_shell_prints_beside() {
        let read = |said: &[u8]| between(said, "mark").map(parsed);
        let said = b"Welcome!\nA=no\nmark\nA=1\0EMPTY=\0TWO=a\nb=c\0=odd\0odd\0mark\nbye";
        let expected = [("A", "1"), ("EMPTY", ""), ("TWO", "a\nb=c")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(read(said), Some(expected.into()));
        assert_eq!(read(b"mark\nmark\n"), Some(Variables::new()));
        for unfinished in [&b""[..], b"mark\n", b"mark\nA=1\0", b"mark\nA=1\0mark"] {
            assert_eq!(read(unfinished), None);
        }
    }

    #[test]
    fn of_an_agents_environment_only_what_is_the_login_sessions_is_used() {
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
