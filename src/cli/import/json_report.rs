//! The report of `mcpd import --json`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use serde_with::skip_serializing_none;

use crate::cli::json;
use crate::config::import::{ForeignServer, Outcome, SecretFile};

/// Servers of other clients' files, and what happened to each.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport<'a> {
    /// mcpd's configuration.
    file: &'a Path,
    /// Whether `file` was written.
    pub(super) written: bool,
    /// Files that were read.
    sources: Vec<Source<'a>>,
    /// Files to which secrets were moved.
    secrets: Vec<Secret>,
}

/// A client's file, or a file that was named on the command line.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Source<'a> {
    /// Path of the file.
    pub(super) file: &'a Path,
    /// The client that uses the file.
    pub(super) client: &'a str,
    /// Servers in the file.
    pub(super) servers: Vec<ServerReport>,
}

/// One server of a client's file.
#[skip_serializing_none]
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ServerReport {
    /// Its name in the client's file.
    title: String,
    /// The directory of the project that the server belongs to; absent for all projects.
    project: Option<String>,
    /// The working directory that is written.
    cwd: Option<String>,
    /// `added` (with `--dry-run`: would be added), `known` (it exists already), `differs` (another server has its name), `private` (`--projects`
    /// adds it) or `impossible`.
    outcome: &'static str,
    /// Its name in mcpd.
    name: Option<String>,
    /// Why it is `impossible`.
    reason: Option<String>,
    /// Why its sandbox is not level `files`; absent if it is, and for a server at a URL.
    sandbox_reason: Option<String>,
}

/// The file of one secret.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Secret {
    /// Server and variable.
    of: String,
    /// Path of the file.
    file: PathBuf,
}

impl<'a> JsonReport<'a> {
    pub(super) fn new(file: &'a Path, sources: Vec<Source<'a>>, secrets: &[SecretFile]) -> Self {
        let secret = |secret: &SecretFile| Secret { of: secret.of.clone(), file: secret.path.clone() };
        Self { file, written: false, sources, secrets: secrets.iter().map(secret).collect() }
    }

    pub(super) fn print(&self) -> Result<(), ExitCode> {
        json::try_print_page(self)
    }

    /// The names of the added servers in mcpd's configuration.
    pub(super) fn added(&self) -> Vec<&str> {
        self.added_servers().filter_map(|server| server.name.as_deref()).collect()
    }

    /// The names of the added servers that belong to a project.
    pub(super) fn added_of_projects(&self) -> Vec<&str> {
        let of_projects = self.added_servers().filter(|server| server.project.is_some());
        of_projects.filter_map(|server| server.name.as_deref()).collect()
    }

    fn added_servers(&self) -> impl Iterator<Item = &ServerReport> {
        self.sources.iter().flat_map(|source| &source.servers).filter(|server| server.outcome == "added")
    }
}

impl ServerReport {
    pub(super) fn new(server: &ForeignServer, outcome: Outcome) -> Self {
        let mut sandbox_reason = None;
        let (outcome, name, reason) = match outcome {
            Outcome::Added { name, obstacle } => {
                sandbox_reason = obstacle.map(|obstacle| obstacle.to_string());
                ("added", Some(name), None)
            }
            Outcome::Known(name) => ("known", Some(name), None),
            Outcome::Differs { name, .. } => ("differs", Some(name), None),
            Outcome::Private => ("private", None, None),
            Outcome::Impossible(reason) => ("impossible", None, Some(reason)),
        };
        let cwd = server.cwd().map(str::to_owned);
        Self {
            title: server.title.clone(),
            project: server.project.clone(),
            cwd,
            outcome,
            name,
            reason,
            sandbox_reason,
        }
    }
}
