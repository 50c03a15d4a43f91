//! `mcpd connect`: connects an agent on standard streams to the daemon, and reconnects when the daemon restarts. With `--print CLIENT` it prints
//! the configuration entries for a client.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;
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

use super::agent::{AgentProfile, ProfileArg, ProfileError};
use super::client_entries::{Entries, EntryOptions};
use super::config_edit::link_hint;
use super::{CommandResult, FAILED, completions, fail, print, start_failure};
use crate::autostart::{self, AutostartError};
use crate::config::interpolate::Process;
use crate::config::{self, LoadedConfig};
use crate::known_clients::Client;
use crate::shim::{self, DaemonSockets, FirstConnection, NoDaemon, Outcome, RelayEvent, ShimInfo};
use crate::sockets::{self, AGENT_SOCKET, ExpectedListener, RuntimeDir};

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
    Ok(match shim::run(first(directory, &arguments.profile), info, may_interrupt, print, explain).await {
        Outcome::AgentLeft => ExitCode::SUCCESS,
        Outcome::NoDaemon(code) => code,
        Outcome::Incompatible(why) => fail(FAILED, why),
        Outcome::Failed(error) => fail(FAILED, error),
    })
}

/// Connects to the profile that is named, or that the working directory has. A daemon is started if none runs.
async fn first(directory: &RuntimeDir, argument: &ProfileArg) -> Result<FirstConnection, NoDaemon<ExitCode>> {
    let named = argument.named();
    let (stream, profile) = loop {
        let stream = open(directory, &named).await?;
        match argument.choose(directory).await {
            Ok(profile) => break (stream, profile),
            // The next one is found or started.
            Err(ProfileError::DaemonEnded) => {}
            Err(error) => {
                let reason = Some(error.to_string());
                return Err(NoDaemon { code: fail(FAILED, error), reason });
            }
        }
    };
    let stream = if profile.name() == named.name() { stream } else { open(directory, &profile).await? };
    let socket = profile.socket(directory).map_err(without_reason)?;
    let default = Some(directory.socket(AGENT_SOCKET)).filter(|default| *default != socket);
    Ok(FirstConnection {
        stream,
        sockets: DaemonSockets { socket, default, daemon: profile.daemon() },
        profile_directory: profile.directory().and_then(Path::to_str).map(str::to_owned),
    })
}

/// Connects to a profile of the daemon, which is started if none runs.
async fn open(directory: &RuntimeDir, profile: &AgentProfile) -> Result<UnixStream, NoDaemon<ExitCode>> {
    let socket = profile.socket(directory).map_err(without_reason)?;
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
                return connected.map_err(|error| without_reason(profile.connect_failure(directory, socket, &error)));
            }
        }
    }
}

fn without_reason(code: ExitCode) -> NoDaemon<ExitCode> {
    NoDaemon { code, reason: None }
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
    let Arguments { profile, server, each, http, .. } = arguments;
    let (server, each, http) = (server.as_deref(), *each, *http);
    let source = Entries::new(EntryOptions { profile, server, each, http, given, directory })?;
    let file = source.file_for(client).map_err(|error| fail(error.code(), error))?;
    note_file(client, source.count());
    let printed = print(file);
    let lines: Vec<_> = source.programs().iter().filter_map(|program| client.command_line(program)).collect();
    match &lines[..] {
        [] => {}
        [line] => print_note!("Or run this command, which adds the entry: {line}"),
        lines => print_note!("Or run these commands, which add the entries:\n{}", lines.join("\n")),
    }
    print_note!("{}", link_hint(Some(client.word)));
    if profile.daemon() == ExpectedListener::OwnDaemon {
        warn_unknown(profile.named().name(), directory);
    }
    Ok(printed)
}

/// Prints where the user adds `count` entries.
fn note_file(client: &Client, count: usize) {
    let file =
        client.main_file(&Process).map_or_else(|| "its configuration".to_owned(), |file| file.display().to_string());
    let what = if count == 1 { "this entry" } else { "these entries" };
    print_note!("Add {what} to {file} ({}), and keep what the file already has:", client.title);
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
