//! Finds and reads the configuration files of other clients.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::clients::project_of;
use crate::config::import::{Foreign, ForeignServer, foreign};
use crate::config::interpolate::Sources;
use crate::known_clients::{CLIENTS, Client};

/// Largest file that is read. Claude Code keeps its history in the same file as its servers.
const MAX_FILE: u64 = 32 << 20;

/// A file with servers, or a file that cannot be read.
pub(super) struct ClientFile {
    pub(super) path: PathBuf,
    /// The client's title.
    pub(super) title: &'static str,
    read: Result<Foreign, io::Error>,
}

impl ClientFile {
    /// Reads the files that `from` names, by client or by path, or else the files of every client: the user's files first.
    ///
    /// # Errors
    /// If an element of `from` is neither a client nor a file.
    pub(super) fn read_all(from: &[String], sources: &dyn Sources) -> Result<Vec<Self>, String> {
        let all = CLIENTS.iter().flat_map(|client| files_of(client, sources));
        let mut candidates: Vec<Candidate> = if from.is_empty() { all.collect() } else { Vec::new() };
        candidates.sort_by_key(|candidate| project_of(&candidate.path, sources).is_some());
        for from in from {
            match Client::named(from) {
                Some(client) => candidates.extend(files_of(client, sources)),
                None if Path::new(from).exists() => candidates.push(Candidate::named(from, sources)),
                None => return Err(unknown(from)),
            }
        }
        let mut seen = HashSet::new();
        candidates.retain(|candidate| seen.insert(candidate.path.clone()));
        let files: Vec<_> = candidates.into_iter().filter_map(|candidate| candidate.read(sources)).collect();
        if files.is_empty() {
            let titles: Vec<_> = CLIENTS.iter().map(|client| client.title).collect();
            print_note!(
                "mcpd: no MCP servers are in the files of {}: `mcpd import FILE` imports another file, `mcpd add` adds one server",
                titles.join(", ")
            );
        }
        Ok(files)
    }

    /// Whether the file, or a part of it, could not be read.
    pub(super) fn has_errors(&self) -> bool {
        self.read.as_ref().map_or(true, |read| !read.errors.is_empty() || read.left_out > 0)
    }

    /// Errors and warnings about the file, for a person.
    pub(super) fn complaints(&self, colour: bool) -> Vec<String> {
        match &self.read {
            Ok(read) if read.errors.is_empty() && !read.is_about_servers => {
                vec!["  there are no MCP servers in this file, or it is one of mcpd's own".to_owned()]
            }
            Ok(read) => {
                let complaints = read.errors.iter().chain(&read.warnings).map(|complaint| complaint.render(colour));
                let more = (read.left_out > 0).then(|| format!("  {} further servers are left out", read.left_out));
                complaints.chain(more).collect()
            }
            Err(error) => vec![format!("  cannot be read: {error}")],
        }
    }

    pub(super) fn servers(&self) -> &[ForeignServer] {
        self.read.as_ref().map_or(&[], |read| &read.servers)
    }
}

/// A file that may have servers.
struct Candidate {
    path: PathBuf,
    title: &'static str,
    /// Whether the command line names its path. Then it has to exist and to have servers.
    is_named: bool,
}

impl Candidate {
    fn named(path: &str, sources: &dyn Sources) -> Self {
        let path = sources.current_dir().map_or_else(|| PathBuf::from(path), |directory| directory.join(path));
        let known = CLIENTS.iter().flat_map(|client| files_of(client, sources)).find(|file| file.path == path);
        let title = known.map_or("a file", |file| file.title);
        Self { path, title, is_named: true }
    }

    /// Returns `None` for a file that nobody named and that has no servers.
    fn read(self, sources: &dyn Sources) -> Option<ClientFile> {
        let Self { path, title, is_named } = self;
        let read = sources.read(&path, MAX_FILE).map(|text| foreign(&path, &text, sources));
        let is_relevant = match &read {
            Ok(read) => read.is_about_servers || !read.errors.is_empty(),
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        (is_named || is_relevant).then_some(ClientFile { path, title, read })
    }
}

fn files_of(client: &'static Client, sources: &dyn Sources) -> Vec<Candidate> {
    let candidate = |path: PathBuf| Candidate { path, title: client.title, is_named: false };
    client.files(sources).into_iter().map(candidate).collect()
}

fn unknown(from: &str) -> String {
    let words: Vec<_> = CLIENTS.iter().map(|client| client.word).collect();
    format!("`{}` is neither a file nor a client: the clients are {}", from.escape_debug(), words.join(", "))
}
