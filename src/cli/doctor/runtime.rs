//! The runtime directory, its lock and its sockets.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures_util::future::join_all;
use rustix::process::geteuid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::finding::{Finding, Fix, Group};
use super::probe::{ANSWER_TIMEOUT, Daemon, DaemonProbe, is_listened_on};
use crate::config::{Config, Profile};
use crate::known_clients::shell_word;
use crate::sockets::{self, ADMIN_SOCKET, ExpectedListener, LOCK, MAX_PATH, RuntimeDir, agent_socket};

/// Maximum size of the response to a ping, in bytes.
const MAX_RESPONSE: u64 = 64 << 10;

pub(super) async fn check(probe: &DaemonProbe, config: Option<&Config>) -> Group {
    let mut findings: Vec<_> = session().into_iter().collect();
    match &probe.directory {
        None => findings.push(Finding::problem(
            "directory",
            "is unknown: neither XDG_RUNTIME_DIR nor HOME is set",
            "`export XDG_RUNTIME_DIR=/run/user/$(id -u)`, or add `--runtime-dir DIR`",
        )),
        Some(directory) => {
            findings.push(directory_state(directory));
            findings.extend(lock(probe, directory));
            findings.extend(sockets(probe, directory, config).await);
        }
    }
    Group { title: "runtime directory", findings }
}

/// Checks the directory of the login session.
fn session() -> Option<Finding> {
    let session = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty())?);
    let shown = session.display();
    let about = "XDG_RUNTIME_DIR";
    if !session.is_absolute() {
        return Some(Finding::warning(about, format!("`{shown}` is not an absolute path, and is ignored"), "unset it"));
    }
    match fs::metadata(&session) {
        Ok(found) if found.uid() != geteuid().as_raw() => Some(Finding::warning(
            about,
            format!("{shown} belongs to user {}", found.uid()),
            "`unset XDG_RUNTIME_DIR`: `su` and `sudo` keep the former user's value",
        )),
        Ok(_) => None,
        Err(_) if session == Path::new(&format!("/run/user/{}", geteuid().as_raw())) => Some(Finding::warning(
            about,
            format!("{shown} does not exist; perhaps there is no login session"),
            "`loginctl enable-linger` creates it permanently; or `unset XDG_RUNTIME_DIR`",
        )),
        Err(_) => Some(Finding::warning(
            about,
            format!("{shown} does not exist"),
            format!("`mkdir -m 700 {}`, or `unset XDG_RUNTIME_DIR`", shell_word(&session.to_string_lossy())),
        )),
    }
}

fn directory_state(directory: &RuntimeDir) -> Finding {
    let (path, about) = (directory.path(), "directory");
    let (shown, word) = (path.display(), shell_word(&path.to_string_lossy()));
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Finding::fine(about, format!("{shown} does not exist; the daemon creates it"));
        }
        Err(error) => return Finding::problem(about, format!("{shown}: {error}"), "run mcpd as the directory's owner"),
    };
    let (user, mode) = (geteuid().as_raw(), found.mode() & 0o7777);
    if !found.is_dir() {
        return Finding::problem(about, format!("{shown} is not a directory"), format!("`mv {word} {word}.old`"));
    }
    if found.uid() != user {
        let found = format!("{shown} belongs to user {}, and this is user {user}", found.uid());
        return Finding::problem(about, found, "run mcpd as that user, or add `--runtime-dir DIR`");
    }
    if mode & 0o077 != 0 {
        let found = format!("{shown} is open to others (mode {mode:04o}), so mcpd does not start there");
        let fix = Fix::Mode { path: path.to_owned(), mode: 0o700 };
        return Finding::problem(about, found, format!("`chmod 700 {word}`")).with_fix(Some(fix));
    }
    Finding::fine(about, format!("{shown}, for this user only"))
}

/// Checks that the process that answers holds the lock.
fn lock(probe: &DaemonProbe, directory: &RuntimeDir) -> Option<Finding> {
    let path = directory.socket(LOCK);
    match (probe.holder, &probe.daemon) {
        (Some(holder), Daemon::Answers { report, .. }) if holder != report.pid => Some(Finding::warning(
            LOCK,
            format!("is held by process {holder}, but process {} answers", report.pid),
            format!("repeat {} until it prints `not running`; then {}", probe.mcpd("stop"), probe.start()),
        )),
        (Some(holder), _) => Some(Finding::fine(LOCK, format!("is held by process {holder}"))),
        (None, Daemon::Absent) if path.exists() => Some(Finding::fine(LOCK, "is held by nobody")),
        // This kernel does not show the holder.
        (None, _) => None,
    }
}

async fn sockets(probe: &DaemonProbe, directory: &RuntimeDir, config: Option<&Config>) -> Vec<Finding> {
    let of_profiles = directory.profiles().into_iter().map(|profile| agent_socket(&profile));
    let names: Vec<_> = [agent_socket(Profile::DEFAULT)].into_iter().chain(of_profiles).collect();
    let checks = names.iter().map(async |name| {
        let path = directory.socket(name);
        let is_shared = config.is_some_and(|config| is_shared(config, name));
        match socket_file(name, &path, is_shared, probe) {
            Some(finding) => Some(finding),
            None => answer(name, &path, probe).await,
        }
    });
    let agents = join_all(checks).await.into_iter().flatten();
    socket_file(ADMIN_SOCKET, &directory.socket(ADMIN_SOCKET), false, probe).into_iter().chain(agents).collect()
}

/// Whether other users may connect.
fn is_shared(config: &Config, socket: &str) -> bool {
    config.profiles.iter().any(|profile| !profile.allow_uids.is_empty() && agent_socket(&profile.name) == socket)
}

/// The finding about a socket file that is missing or wrong.
fn socket_file(name: &str, path: &Path, is_shared: bool, probe: &DaemonProbe) -> Option<Finding> {
    let word = shell_word(&path.to_string_lossy());
    let length = path.as_os_str().len();
    if length > MAX_PATH {
        let found = format!("its path has {length} bytes, but at most {MAX_PATH} are possible");
        return Some(Finding::problem(name, found, "`mcpd serve --runtime-dir DIR` with a shorter path"));
    }
    let Ok(found) = fs::symlink_metadata(path) else {
        let restart =
            format!("the daemon creates it again within 2s; if it is still missing then: {}", probe.restart());
        let serves = matches!(probe.daemon, Daemon::Answers { .. });
        return serves.then(|| Finding::problem(name, "does not exist, although a daemon runs", restart));
    };
    let mode = found.mode() & 0o777;
    if !found.file_type().is_socket() {
        return Some(Finding::problem(name, "is a file, but not a socket", format!("`mv {word} {word}.old`")));
    }
    if found.uid() != geteuid().as_raw() {
        let found = format!("belongs to user {}", found.uid());
        return Some(Finding::problem(name, found, format!("`rm {word}`, then {}", probe.restart())));
    }
    if mode & 0o077 != 0 && !is_shared {
        let fix = Fix::Mode { path: path.to_owned(), mode: 0o600 };
        let found = format!("is open to others (mode {mode:04o})");
        return Some(Finding::warning(name, found, format!("`chmod 600 {word}`")).with_fix(Some(fix)));
    }
    None
}

/// Whether a daemon answers on the socket.
async fn answer(name: &str, path: &Path, probe: &DaemonProbe) -> Option<Finding> {
    match &probe.daemon {
        // A connection would start a daemon that the service manager has ready.
        Daemon::Absent if !path.exists() => None,
        Daemon::Absent if is_listened_on(path) => {
            Some(Finding::fine(name, "the first agent that connects starts the daemon"))
        }
        Daemon::Absent => Some(Finding::warning(
            name,
            "was left by a daemon that was killed",
            format!("start a new daemon, which replaces it: {}", probe.start()),
        )),
        // The findings about the daemon cover this.
        Daemon::Silent { .. } => None,
        Daemon::Answers { .. } => Some(match timeout(ANSWER_TIMEOUT, ping(path)).await {
            Ok(Ok(took)) => Finding::fine(name, format!("answers within {took}ms")),
            Ok(Err(error)) => Finding::problem(name, format!("cannot be used: {error}"), probe.restart()),
            Err(_) => Finding::problem(name, "accepts connections, but does not answer", probe.restart()),
        }),
    }
}

/// The response time of a ping, in milliseconds. A ping needs no handshake. Source: MCP 2025-11-25, `basic/utilities/ping`.
async fn ping(path: &Path) -> std::io::Result<u128> {
    let start = Instant::now();
    let (read, mut write) = sockets::connect(path, ExpectedListener::OwnDaemon).await?.into_split();
    write.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await?;
    let mut response = String::new();
    BufReader::new(tokio::io::AsyncReadExt::take(read, MAX_RESPONSE)).read_line(&mut response).await?;
    if response.contains("\"result\"") {
        return Ok(start.elapsed().as_millis());
    }
    Err(std::io::Error::other("the connection was closed without a response"))
}
