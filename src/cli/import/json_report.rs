//! The report of `mcpd import --json`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::json;
use crate::config::import::{ForeignServer, Outcome, SecretFile};

#[derive(Serialize)]
pub(super) struct JsonReport<'a> {
    file: &'a Path,
    /// Whether `file` was written.
    pub(super) written: bool,
    sources: Vec<Source<'a>>,
    secrets: Vec<Secret>,
}

/// A client's file, or a file that was named on the command line.
#[derive(Serialize)]
pub(super) struct Source<'a> {
    pub(super) file: &'a Path,
    pub(super) client: &'a str,
    pub(super) servers: Vec<ServerReport>,
}

#[derive(Serialize)]
pub(super) struct ServerReport {
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize)]
struct Secret {
    of: String,
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
        let servers = self.sources.iter().flat_map(|source| &source.servers).filter(|server| server.outcome == "added");
        servers.filter_map(|server| server.name.as_deref()).collect()
    }
}

impl ServerReport {
    pub(super) fn new(server: &ForeignServer, outcome: Outcome) -> Self {
        let (outcome, name, reason) = match outcome {
            Outcome::Added(name) => ("added", Some(name), None),
            Outcome::Known(name) => ("known", Some(name), None),
            Outcome::Differs { name, .. } => ("differs", Some(name), None),
            Outcome::Impossible(reason) => ("impossible", None, Some(reason)),
        };
        let cwd = server.cwd().map(str::to_owned);
        Self { title: server.title.clone(), project: server.project.clone(), cwd, outcome, name, reason }
    }
}
