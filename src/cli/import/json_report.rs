//! What `mcpd import --json` prints.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::{json, try_print};
use crate::config::import::{ForeignServer, Outcome, SecretFile};

/// The whole.
#[derive(Serialize)]
pub(super) struct Told<'a> {
    file: &'a Path,
    /// Whether it was.
    pub(super) written: bool,
    sources: Vec<Source<'a>>,
    secrets: Vec<Secret>,
}

/// A file of another client, or one that was named.
#[derive(Serialize)]
pub(super) struct Source<'a> {
    pub(super) file: &'a Path,
    pub(super) client: &'a str,
    pub(super) servers: Vec<Taken>,
}

/// What becomes of one server.
#[derive(Serialize)]
pub(super) struct Taken {
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

impl<'a> Told<'a> {
    /// Nothing is written yet.
    pub(super) fn new(file: &'a Path, sources: Vec<Source<'a>>, secrets: &[SecretFile]) -> Self {
        let secret = |secret: &SecretFile| Secret { of: secret.of.clone(), file: secret.path.clone() };
        Self { file, written: false, sources, secrets: secrets.iter().map(secret).collect() }
    }

    /// Prints it, if that is wanted.
    pub(super) fn print(&self, wanted: bool) -> Result<(), ExitCode> {
        if wanted { json::page(self).and_then(try_print) } else { Ok(()) }
    }
}

impl Told<'_> {
    /// The names here of the servers that are added.
    pub(super) fn added(&self) -> Vec<&str> {
        let servers = self.sources.iter().flat_map(|source| &source.servers).filter(|server| server.is_added());
        servers.filter_map(|server| server.name.as_deref()).collect()
    }
}

impl Source<'_> {
    /// How many of its servers are added.
    pub(super) fn added(&self) -> usize {
        self.servers.iter().filter(|server| server.is_added()).count()
    }
}

impl Taken {
    fn is_added(&self) -> bool {
        self.outcome == "added"
    }

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
