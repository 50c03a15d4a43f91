//! `mcpd connect`: connects an agent on standard streams to the daemon, and reconnects when the daemon restarts. With `--print CLIENT` it prints
//! the configuration entries for a client.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{ArgGroup, Args};
use clap_complete::ArgValueCandidates;
use futures_util::FutureExt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use signal_hook::consts::SIGINT;
use signal_hook::flag::register_conditional_default;
use tokio::net::UnixStream;
use tokio::time::sleep;

use super::agent::ProfileArg;
use super::config_edit::OLD_ENTRIES;
use super::{CommandResult, FAILED, USAGE, block_on, completions, fail, print, start_failure};
use crate::admin;
use crate::autostart::{self, AutostartError};
use crate::config::interpolate::Process;
use crate::config::{self, LoadedConfig};
use crate::http_listener::token;
use crate::known_clients::{Client, Program};
use crate::shim::{self, DaemonSockets, NoDaemon, Outcome, RelayEvent, ShimInfo};
use crate::sockets::{self, ADMIN_SOCKET, AGENT_SOCKET, ExpectedListener, RuntimeDir, SESSION_VARIABLE};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Delay before the next attempt when the socket's backlog is full.
const BACKLOG_RETRY: Duration = Duration::from_millis(5);

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("entry").args(["print", "client"]))]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) profile: ProfileArg,
    /// Connect to this server alone, under its own tool names; the same policy applies
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completions::servers))]
    pub(super) server: Option<String>,
    /// Print the configuration entry for this client instead; `mcpd connect CLIENT` does the same
    #[arg(long, value_name = "CLIENT", value_parser = super::arguments::client())]
    print: Option<&'static Client>,
    #[arg(value_name = "CLIENT", value_parser = super::arguments::client(), hide = true)]
    client: Option<&'static Client>,
    /// With `--print`: one entry per server of the profile, each named like its server
    #[arg(long, requires = "entry", conflicts_with = "server")]
    pub(super) each: bool,
    /// With `--print`: an entry with a URL instead of a command: the loopback address of the profile with its token, or for VS Code the
    /// profile's socket
    #[arg(long, requires = "entry")]
    pub(super) http: bool,
}

impl Arguments {
    /// The client whose entry is printed.
    pub(super) fn print(&self) -> Option<&'static Client> {
        self.print.or(self.client)
    }
}

pub(super) async fn run(directory: &RuntimeDir, arguments: &Arguments) -> CommandResult {
    if io::stdin().is_terminal() {
        print_note!(
            "mcpd connect: waiting for MCP messages; `mcpd connect CLIENT` prints the entry with which a client launches it"
        );
    }
    let profile = &arguments.profile;
    let socket = profile.socket(directory)?;
    let default = directory.socket(AGENT_SOCKET);
    let other_default = (default != socket).then_some(default);
    let sockets = DaemonSockets { default: other_default, socket: socket.clone(), daemon: profile.daemon() };
    let cwd = std::env::current_dir().ok().and_then(|cwd| cwd.into_os_string().into_string().ok());
    // Each attempt to reconnect may fail for the same reason.
    let mut reported = None;
    let print = |news| {
        let is_failure = matches!(news, RelayEvent::NoProfile | RelayEvent::Untrusted(_));
        if !is_failure || reported.as_ref() != Some(&news) {
            print_event(&news);
        }
        if is_failure {
            reported = Some(news);
        }
    };
    let explain = Box::new(|| autostart::failure_of_unit(directory).boxed_local());
    let info = ShimInfo { cwd, version: VERSION, server: arguments.server.clone() };
    let may_interrupt = Arc::new(AtomicBool::new(io::stdin().is_terminal()));
    // Ctrl-C in a script's terminal also reaches the processes that the script has started. While it may still send something, it decides
    // itself when to end.
    register_conditional_default(SIGINT, Arc::clone(&may_interrupt)).map_err(|error| fail(FAILED, error))?;
    Ok(match shim::run(first(directory, profile, socket), sockets, info, may_interrupt, print, explain).await {
        Outcome::AgentLeft => ExitCode::SUCCESS,
        Outcome::NoDaemon(code) => code,
        Outcome::Incompatible(why) => fail(FAILED, why),
        Outcome::Failed(error) => fail(FAILED, error),
    })
}

/// Connects to the daemon, which is started if none runs.
async fn first(
    directory: &RuntimeDir,
    profile: &ProfileArg,
    socket: PathBuf,
) -> Result<UnixStream, NoDaemon<ExitCode>> {
    // Another user's daemon is that user's to start.
    let mut may_start = profile.daemon() == ExpectedListener::OwnDaemon;
    loop {
        if may_start && autostart::may_be_socket_activated(directory) {
            may_start = false;
            autostart::ensure(directory).await.map_err(unserved)?;
        }
        match sockets::connect(&socket, profile.daemon()).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(BACKLOG_RETRY).await,
            Err(error) if may_start && is_missing(&error) => {
                may_start = false;
                autostart::ensure(directory).await.map_err(unserved)?;
            }
            connected => {
                return connected.map_err(|error| NoDaemon {
                    code: profile.connect_failure(directory, socket, &error),
                    reason: None,
                });
            }
        }
    }
}

fn unserved(error: AutostartError) -> NoDaemon<ExitCode> {
    let reason = Some(error.reason());
    NoDaemon { code: start_failure(&error), reason }
}

/// Whether no process listens.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Prints to stderr, unless that would block because nothing reads it.
fn print_event(news: &RelayEvent) {
    let stderr = io::stderr();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(stderr.as_fd(), PollFlags::OUT)];
    let is_writable = retry_on_intr(|| poll(&mut fds, Some(&now))) != Ok(0);
    if !is_writable {
        return;
    }
    match news {
        RelayEvent::DaemonLost => print_note!("mcpd connect: the daemon has gone; waiting for the next one"),
        RelayEvent::DaemonBack => print_note!("mcpd connect: there is a daemon again"),
        RelayEvent::Untrusted(why) => print_note!("mcpd connect: {why}"),
        RelayEvent::NoProfile => print_note!("mcpd connect: the daemon has this profile no more; waiting until it has"),
        RelayEvent::OtherVersion(daemon) => {
            print_note!("mcpd connect {VERSION}: the daemon is {daemon}; restart whichever is older");
        }
    }
}

/// Prints the entries for `client` on stdout, and its file on stderr. `given`: the runtime directory on the command line.
pub(super) fn print_entries(
    client: &Client,
    arguments: &Arguments,
    given: Option<&Path>,
    directory: Option<&RuntimeDir>,
) -> CommandResult {
    if arguments.http {
        return print_http_entries(client, arguments, directory);
    }
    let command = this_program().ok_or_else(|| fail(FAILED, "the path of this executable is not UTF-8"))?;
    let options = [runtime_dir_options(given), arguments.profile.options()].concat();
    let program = |server: Option<&str>| {
        let face = server.map(|server| ["--server".to_owned(), server.to_owned()]);
        let args = ["connect".to_owned()].into_iter().chain(options.clone()).chain(face.into_iter().flatten());
        let name = server.unwrap_or("mcpd").to_owned();
        Program { name, command: command.clone(), args: args.collect(), env: session_variables(directory) }
    };
    let programs: Vec<_> = if arguments.each {
        profile_servers(&arguments.profile, directory)?.iter().map(|server| program(Some(server))).collect()
    } else {
        vec![program(arguments.server.as_deref())]
    };
    note_file(client, programs.len());
    let printed = print(client.entries(&programs));
    let lines: Vec<_> = programs.iter().filter_map(|program| client.command_line(program)).collect();
    match &lines[..] {
        [] => {}
        [line] => print_note!("Or run this command, which adds the entry: {line}"),
        lines => print_note!("Or run these commands, which add the entries:\n{}", lines.join("\n")),
    }
    print_note!("{OLD_ENTRIES}");
    if arguments.profile.daemon() == ExpectedListener::OwnDaemon {
        warn_unknown(arguments.profile.name(), directory);
    }
    Ok(printed)
}

/// Prints the entries with which `client` connects over HTTP, and its file on stderr.
fn print_http_entries(client: &Client, arguments: &Arguments, directory: Option<&RuntimeDir>) -> CommandResult {
    let profile = &arguments.profile;
    let served = directory.ok_or_else(no_directory)?;
    let socket = profile.socket(served)?;
    let of_server = |server: &str| (server.to_owned(), format!("/servers/{server}"));
    let paths: Vec<_> = match &arguments.server {
        Some(server) => vec![of_server(server)],
        None if arguments.each => profile_servers(profile, directory)?.iter().map(|server| of_server(server)).collect(),
        None => vec![("mcpd".to_owned(), "/mcp".to_owned())],
    };
    let at = |base: &str| paths.iter().map(|(name, path)| (name.clone(), format!("{base}{path}"))).collect::<Vec<_>>();
    let entries = if client.opens_unix_sockets() {
        client.url_entries(&at(&format!("unix://{}#", socket.display())), None)
    } else {
        let address = loopback_address(profile, served).ok_or_else(|| {
            let name = profile.name();
            let help = format!("add `http = \"127.0.0.1:7780\"` to `[profiles.{name}]`, then run `mcpd reload`");
            fail(USAGE, format!("the profile `{name}` is not served over HTTP: {help}"))
        })?;
        let token = token::read_or_create(profile.name()).map_err(|error| fail(FAILED, error))?;
        client.url_entries(&at(&format!("http://{address}")), Some(&token.to_string()))
    };
    let entries = entries.ok_or_else(|| {
        let Client { title, word, .. } = client;
        fail(USAGE, format!("{title} launches its servers; use `mcpd connect --print {word}`"))
    })?;
    note_file(client, paths.len());
    let printed = print(entries);
    print_note!("{OLD_ENTRIES}");
    if profile.daemon() == ExpectedListener::OwnDaemon {
        warn_unknown(profile.name(), directory);
    }
    Ok(printed)
}

/// The loopback address of a profile: of the daemon if one runs, else as configured.
fn loopback_address(profile: &ProfileArg, directory: &RuntimeDir) -> Option<String> {
    let report = block_on(async { Ok(admin::status(&directory.socket(ADMIN_SOCKET)).await.ok()) }).ok()?;
    if let Some(report) = report {
        return report.profiles.into_iter().find(|known| known.name == profile.name())?.http;
    }
    let LoadedConfig { config, .. } = config::load(&[], &Process).ok()?;
    let configured = config.profiles.iter().find(|known| *known.name == *profile.name())?;
    configured.http.map(|address| address.to_string())
}

/// Prints where the user adds `count` entries.
fn note_file(client: &Client, count: usize) {
    let file =
        client.main_file(&Process).map_or_else(|| "its configuration".to_owned(), |file| file.display().to_string());
    let what = if count == 1 { "this entry" } else { "these entries" };
    print_note!("Add {what} to {file} ({}), and keep what the file already has:", client.title);
}

fn no_directory() -> ExitCode {
    fail(USAGE, "there is no runtime directory: use `--runtime-dir`")
}

/// Warns if neither the configuration nor the running daemon has the profile.
pub(super) fn warn_unknown(profile: &str, directory: Option<&RuntimeDir>) {
    let Ok(LoadedConfig { config, .. }) = config::load(&[], &Process) else { return };
    let mut known: BTreeSet<String> = directory.map(RuntimeDir::profiles).into_iter().flatten().collect();
    known.extend(config.profiles.iter().map(|known| known.name.to_string()));
    if !known.contains(profile) {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        print_note!("warning: the configuration has no profile `{profile}`; it has: {known}");
    }
}

/// The servers of the profile, from the daemon, which is started if none runs. An error is printed.
fn profile_servers(profile: &ProfileArg, directory: Option<&RuntimeDir>) -> Result<Vec<String>, ExitCode> {
    if profile.daemon() != ExpectedListener::OwnDaemon {
        let message = "`--each` needs the user who runs the daemon; print each entry with `--server NAME` instead";
        return Err(fail(USAGE, message));
    }
    let directory = directory.ok_or_else(no_directory)?;
    let report = block_on(async {
        autostart::ensure(directory).await.map_err(|error| start_failure(&error))?;
        admin::status(&directory.socket(ADMIN_SOCKET)).await.map_err(|error| fail(FAILED, error))
    })?;
    match report.profiles.into_iter().find(|known| known.name == profile.name()) {
        Some(known) if known.servers.is_empty() => Err(fail(FAILED, "the profile has no servers; `mcpd add` adds one")),
        Some(known) => Ok(known.servers),
        None => Err(profile.unknown(directory)),
    }
}

/// The variable that `mcpd connect` needs to find `directory`. Clients do not pass `XDG_RUNTIME_DIR` on.
fn session_variables(directory: Option<&RuntimeDir>) -> BTreeMap<String, String> {
    let without_session = |name: &str| std::env::var_os(name).filter(|_| name != SESSION_VARIABLE);
    let is_found = RuntimeDir::resolve(None, without_session).is_ok_and(|found| Some(&found) == directory);
    let session = directory.and_then(RuntimeDir::session).filter(|_| !is_found).and_then(Path::to_str);
    session.map(|session| (SESSION_VARIABLE.to_owned(), session.to_owned())).into_iter().collect()
}

/// The options with which `mcpd connect` finds the same socket from any directory.
pub(super) fn runtime_dir_options(runtime_dir: Option<&Path>) -> Vec<String> {
    let absolute =
        runtime_dir.and_then(|directory| std::path::absolute(directory).ok()?.into_os_string().into_string().ok());
    absolute.map(|directory| vec!["--runtime-dir".to_owned(), directory]).unwrap_or_default()
}

/// The absolute path of this program: its link on the PATH if there is one, since package managers move the file itself with each
/// version.
pub(super) fn this_program() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_this =
        |candidate: &PathBuf| candidate.is_absolute() && candidate.canonicalize().is_ok_and(|path| path == program);
    let found = std::env::split_paths(&path).map(|directory| directory.join("mcpd")).find(is_this);
    found.unwrap_or(program).into_os_string().into_string().ok()
}
