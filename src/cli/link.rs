//! `mcpd link`: writes mcpd's entry into the clients' own files. With `--take-over` it also removes the servers from them that mcpd runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::agent::ProfileArg;
use super::client_changes::{Action, ClientChange, FileReport, WriteOptions, carry_out, distinct, finish};
use super::client_entries::{Entries, EntryOptions, runtime_dir_options};
use super::config_edit::secrets_directory;
use super::connect::warn_unknown;
use super::doctor::probe::DaemonProbe;
use super::outcome::config_failure;
use super::{CommandResult, FAILED, USAGE, block_on, completions, fail};
use crate::client_files::Value;
use crate::config::clients::project_of;
use crate::config::import::{ForeignServer, known};
use crate::config::interpolate::Process;
use crate::config::{self, Config, ServerConfig};
use crate::known_clients::{CLIENTS, Client};
use crate::links::{ChangeError, FileChange, LinkError, Links, NewLink, Scope, Served};
use crate::sockets::{ExpectedListener, RuntimeDir};

#[derive(Debug, Args)]
pub(super) struct Link {
    /// Clients to link [default: every client that is in use here, with one question each]
    #[arg(value_name = "CLIENT", value_parser = super::arguments::client(), add = ArgValueCandidates::new(completions::clients))]
    clients: Vec<&'static Client>,
    #[command(flatten)]
    profile: ProfileArg,
    /// One entry per server of the profile, each named like its server
    #[arg(long)]
    each: bool,
    /// An entry with a URL instead of a command, as `mcpd connect --print CLIENT --http` prints it
    #[arg(long)]
    http: bool,
    /// Also remove the client's servers that are equal to servers of mcpd; `mcpd unlink` gives them back
    #[arg(long, conflicts_with = "daemon_uid")]
    take_over: bool,
    /// Link the file of the project in this directory instead of the user's file
    #[arg(long, requires = "clients")]
    project: bool,
    #[command(flatten)]
    write: WriteOptions,
}

/// What is linked.
pub(super) struct Request<'a> {
    /// No client for all that are in use.
    pub(super) clients: &'a [&'static Client],
    pub(super) entries: Entries,
    pub(super) served: Served,
    pub(super) scope: Scope,
    pub(super) take_over: Option<TakeOver>,
}

/// The servers that mcpd runs in a client's stead.
pub(super) struct TakeOver {
    servers: Vec<ServerConfig>,
    /// The directory of mcpd's secrets.
    secrets: PathBuf,
}

pub(super) fn run(link: &Link, given: Option<&Path>, directory: Option<&RuntimeDir>) -> CommandResult {
    let Link { clients, profile, each, http, take_over, project, write } = link;
    let options = EntryOptions { profile, server: None, each: *each, http: *http, given, directory };
    let entries = Entries::new(options)?;
    let take_over = match take_over {
        true => Some(TakeOver::of_daemon(profile.named().name(), given, directory)?),
        false => None,
    };
    if profile.daemon() == ExpectedListener::OwnDaemon {
        warn_unknown(profile.named().name(), directory);
    }
    let scope = if *project { Scope::Project } else { Scope::User };
    let request = Request { clients, entries, served: served(profile, directory), scope, take_over };
    let links = links()?;
    let changes = plan(&request, &links)?;
    let reports = carry_out(changes, Action::Link, *write, &links, None)?;
    note_restart(&reports);
    finish(&reports, *write)
}

/// The records of links. An error is printed.
pub(super) fn links() -> Result<Links, ExitCode> {
    Links::of(&Process).map_err(|error| fail(USAGE, error))
}

/// The daemon to which entries lead.
pub(super) fn served(profile: &ProfileArg, directory: Option<&RuntimeDir>) -> Served {
    let profile = profile.named();
    Served {
        profile: profile.name().to_owned(),
        runtime_directory: directory.map(|directory| directory.path().to_owned()),
        socket: directory.and_then(|directory| profile.socket(directory).ok()),
    }
}

/// What has to happen before a linked client uses mcpd.
pub(super) fn note_restart(reports: &[FileReport]) {
    if reports.iter().any(FileReport::is_written) {
        print_note!("mcpd: restart running clients so that they use their new configuration");
    }
}

/// The changes of all files. Notes if there is no client.
///
/// # Errors
/// If a requested client has no file of the requested scope.
pub(super) fn plan(request: &Request<'_>, links: &Links) -> Result<Vec<ClientChange>, ExitCode> {
    let present: Vec<_>;
    let clients = match request.clients {
        [] => {
            present = CLIENTS.iter().filter(|client| client.is_present(&Process)).collect();
            &present[..]
        }
        clients => clients,
    };
    if clients.is_empty() {
        let titles: Vec<_> = CLIENTS.iter().map(|client| client.title).collect();
        print_note!(
            "mcpd: none of these clients seems to be in use here: {}; `mcpd link CLIENT` links one anyway",
            titles.join(", ")
        );
    }
    clients.iter().map(|client| request.of_client(client, links)).collect()
}

impl Request<'_> {
    fn of_client(&self, client: &'static Client, links: &Links) -> Result<ClientChange, ExitCode> {
        let Some(path) = self.file_of(client) else {
            let what = if self.scope == Scope::Project { "file for a project" } else { "file without HOME" };
            return Err(fail(USAGE, format!("{} has no {what}", client.title)));
        };
        let entries = match self.entries.of(client) {
            Ok(entries) => entries,
            Err(error) => {
                return Ok(ClientChange { client, planned: Err((path, error.to_string())), by_hand: None });
            }
        };
        let planned = self.changes(client, &path, &entries, links);
        let by_hand = self.entries.file_for(client).ok().filter(|_| planned.is_ok());
        Ok(ClientChange { client, planned, by_hand })
    }

    fn file_of(&self, client: &Client) -> Option<PathBuf> {
        match self.scope {
            Scope::User => client.user_file(&Process),
            Scope::Project => client.project_file(&Process),
        }
    }

    /// The change of the file with the entries, and of the client's other files that have servers to take over.
    fn changes(
        &self,
        client: &'static Client,
        path: &Path,
        entries: &[(String, Value)],
        links: &Links,
    ) -> Result<Vec<FileChange>, (PathBuf, String)> {
        let takes_over = |server: &ForeignServer| self.take_over.as_ref().is_some_and(|take| take.includes(server));
        let change = |path: &Path, entries| {
            let link = NewLink { client, entries, takes_over: &takes_over };
            let change = FileChange::link(links, link, (self.scope, path), &self.served, &Process);
            change.map_err(|error| (path.to_owned(), explained(&error)))
        };
        let mut changes = vec![change(path, entries)?];
        if self.take_over.is_some() && self.scope == Scope::User {
            let of_user = client.files(&Process).into_iter().filter(|file| project_of(file, &Process).is_none());
            let all = distinct([path.to_owned()].into_iter().chain(of_user.filter(|file| file.exists())));
            for other in &all[1..] {
                // A file of settings without servers may have any content.
                changes.extend(change(other, &[]).ok().filter(|change| !change.taken_over.is_empty()));
            }
        }
        Ok(changes)
    }
}

fn explained(error: &ChangeError) -> String {
    match error {
        ChangeError::Link { source: LinkError::NameTaken(name), .. } => format!(
            "{error}; `--take-over` replaces it if mcpd has an equal server: `mcpd import` adds it, or rename `{name}` there"
        ),
        _ => error.to_string(),
    }
}

impl TakeOver {
    /// From the configuration of the daemon that runs, else of the user. An error is printed.
    fn of_daemon(profile: &str, given: Option<&Path>, directory: Option<&RuntimeDir>) -> Result<Self, ExitCode> {
        let options = runtime_dir_options(given);
        let probe = block_on(async { Ok(DaemonProbe::run(directory.cloned(), options, &[]).await) })?;
        let loaded = config::load(&probe.files, &probe.sources).map_err(|error| {
            config_failure(&error);
            fail(USAGE, "no servers are taken over under a configuration with errors: correct the errors above first")
        })?;
        Self::of(&loaded.config, profile)
    }

    /// The servers of `config` that agents of the profile can use.
    pub(super) fn of(config: &Config, profile: &str) -> Result<Self, ExitCode> {
        let profile = config.profiles.iter().find(|known| *known.name == *profile);
        let is_usable = |server: &&ServerConfig| {
            server.launch.is_ok()
                && server.settings.enabled
                && profile.is_some_and(|profile| profile.policy(server).is_some())
        };
        let servers = config.servers.iter().filter(is_usable).cloned().collect();
        let path = config::default_path(&Process).ok_or_else(|| fail(USAGE, "HOME is not set"))?;
        let secrets = secrets_directory(&path).map_err(|error| fail(FAILED, error))?;
        Ok(Self { servers, secrets })
    }

    fn includes(&self, server: &ForeignServer) -> bool {
        known(server, &self.servers, &self.secrets, &Process).is_some()
    }
}
