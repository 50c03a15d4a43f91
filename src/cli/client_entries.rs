//! The entries that connect a client to mcpd: `mcpd connect --print` prints them, `mcpd link` writes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::agent::{AgentProfile, ProfileArg};
use super::{FAILED, USAGE, block_on, fail, start_failure};
use crate::client_files::Value;
use crate::config::interpolate::Process;
use crate::config::{self, LoadedConfig};
use crate::http_listener::token::{self, TokenError};
use crate::known_clients::{Client, Program, Remote};
use crate::sockets::{ADMIN_SOCKET, ExpectedListener, RuntimeDir, SESSION_VARIABLE};
use crate::{admin, autostart};

/// Which entries are wanted.
#[derive(Clone, Copy)]
pub(super) struct EntryOptions<'a> {
    pub(super) profile: &'a ProfileArg,
    /// This server alone.
    pub(super) server: Option<&'a str>,
    /// One entry for each server of the profile.
    pub(super) each: bool,
    /// URLs instead of commands.
    pub(super) http: bool,
    /// The value of `--runtime-dir`.
    pub(super) given: Option<&'a Path>,
    /// The resolved runtime directory.
    pub(super) directory: Option<&'a RuntimeDir>,
}

/// The entries for any client.
pub(super) enum Entries {
    Programs(Vec<Program>),
    Urls(Urls),
}

/// What a client with URLs connects to.
pub(super) struct Urls {
    profile: String,
    /// The name and the path of each.
    paths: Vec<(String, String)>,
    socket: PathBuf,
    /// `HOST:PORT`, if the profile is served there.
    loopback: Option<String>,
}

/// Why a client gets no entry.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryError {
    #[error(
        "the profile `{0}` is not served over HTTP: add `http = \"127.0.0.1:7780\"` to `[profiles.{0}]`, then run `mcpd reload`"
    )]
    NotServed(String),
    #[error("{title} launches its servers; use `mcpd connect --print {word}`")]
    Launches { title: &'static str, word: &'static str },
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl EntryError {
    pub(super) fn code(&self) -> u8 {
        if let Self::Token(_) = self { FAILED } else { USAGE }
    }
}

impl Entries {
    /// An error is printed.
    pub(super) fn new(options: EntryOptions<'_>) -> Result<Self, ExitCode> {
        if options.http { Urls::new(options).map(Self::Urls) } else { programs(options).map(Self::Programs) }
    }

    /// The entries for `client`, each with its name.
    ///
    /// # Errors
    /// If the client cannot have them.
    pub(super) fn of(&self, client: &Client) -> Result<Vec<(String, Value)>, EntryError> {
        match self {
            Self::Programs(programs) => {
                Ok(programs.iter().map(|program| (program.name.clone(), client.entry(program))).collect())
            }
            Self::Urls(urls) => {
                let entry = |remote: &Remote| Some((remote.name.clone(), client.url_entry(remote)?));
                urls.of(client)?.iter().map(entry).collect::<Option<_>>().ok_or_else(|| launches(client))
            }
        }
    }

    /// A whole file in the format of `client` with the entries alone.
    ///
    /// # Errors
    /// If the client cannot have them.
    pub(super) fn file_for(&self, client: &Client) -> Result<String, EntryError> {
        match self {
            Self::Programs(programs) => Ok(client.entries(programs)),
            Self::Urls(urls) => client.url_entries(&urls.of(client)?).ok_or_else(|| launches(client)),
        }
    }

    /// How many entries there are.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Programs(programs) => programs.len(),
            Self::Urls(urls) => urls.paths.len(),
        }
    }

    /// The programs that the entries run.
    pub(super) fn programs(&self) -> &[Program] {
        if let Self::Programs(programs) = self { programs } else { &[] }
    }
}

fn programs(options: EntryOptions<'_>) -> Result<Vec<Program>, ExitCode> {
    let EntryOptions { profile, given, directory, .. } = options;
    let command = this_program().ok_or_else(|| fail(FAILED, "the path of this executable is not UTF-8"))?;
    let shared = [runtime_dir_options(given), profile.options()].concat();
    let program = |server: Option<&str>| {
        let face = server.map(|server| ["--server".to_owned(), server.to_owned()]);
        let args = ["connect".to_owned()].into_iter().chain(shared.clone()).chain(face.into_iter().flatten());
        let name = server.unwrap_or("mcpd").to_owned();
        Program { name, command: command.clone(), args: args.collect(), env: session_variables(directory) }
    };
    match options.each {
        true => Ok(profile_servers(&profile.named(), directory)?.iter().map(|server| program(Some(server))).collect()),
        false => Ok(vec![program(options.server)]),
    }
}

impl Urls {
    fn new(options: EntryOptions<'_>) -> Result<Self, ExitCode> {
        let EntryOptions { profile, server, each, directory, .. } = options;
        let served = directory.ok_or_else(no_directory)?;
        let profile = profile.named();
        let socket = profile.socket(served)?;
        let of_server = |server: &str| (server.to_owned(), format!("/servers/{server}"));
        let paths = match server {
            Some(server) => vec![of_server(server)],
            None if each => profile_servers(&profile, directory)?.iter().map(|server| of_server(server)).collect(),
            None => vec![("mcpd".to_owned(), "/mcp".to_owned())],
        };
        let loopback = loopback_address(&profile, served);
        Ok(Self { profile: profile.name().to_owned(), paths, socket, loopback })
    }

    /// The servers at URLs that `client` gets.
    fn of(&self, client: &Client) -> Result<Vec<Remote>, EntryError> {
        let (base, token) = if client.opens_unix_sockets {
            (format!("unix://{}#", self.socket.display()), None)
        } else {
            let address = self.loopback.as_ref().ok_or_else(|| EntryError::NotServed(self.profile.clone()))?;
            (format!("http://{address}"), Some(token::read_or_create(&self.profile)?.to_string()))
        };
        let remote = |(name, path): &(String, String)| Remote {
            name: name.clone(),
            url: format!("{base}{path}"),
            token: token.clone(),
        };
        Ok(self.paths.iter().map(remote).collect())
    }
}

fn launches(client: &Client) -> EntryError {
    EntryError::Launches { title: client.title, word: client.word }
}

fn no_directory() -> ExitCode {
    fail(USAGE, "there is no runtime directory: use `--runtime-dir`")
}

/// The loopback address of a profile: of the daemon if one runs, else as configured.
fn loopback_address(profile: &AgentProfile, directory: &RuntimeDir) -> Option<String> {
    let report = block_on(async { Ok(admin::status(&directory.socket(ADMIN_SOCKET)).await.ok()) }).ok()?;
    if let Some(report) = report {
        return report.profiles.into_iter().find(|known| known.name == profile.name())?.http;
    }
    let LoadedConfig { config, .. } = config::load(&[], &Process).ok()?;
    let configured = config.profiles.iter().find(|known| *known.name == *profile.name())?;
    configured.http.map(|address| address.to_string())
}

/// The servers of the profile, from the daemon, which is started if none runs. An error is printed.
fn profile_servers(profile: &AgentProfile, directory: Option<&RuntimeDir>) -> Result<Vec<String>, ExitCode> {
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
