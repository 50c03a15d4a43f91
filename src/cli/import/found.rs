//! The files of other clients, read.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::import::{Foreign, ForeignServer, foreign};
use crate::config::interpolate::Sources;
use crate::known_clients::{CLIENTS, Client};

/// Largest file that is read; one client keeps its history beside its servers.
const MAX_FILE: u64 = 32 << 20;

/// What there is to import from.
pub(super) struct Found {
    /// In the order of the clients, the user's files first.
    pub(super) files: Vec<FoundFile>,
}

/// A file with servers, or one that cannot be read.
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    /// Whose it is.
    pub(super) title: &'static str,
    /// The directory of the project that it is for, if it is not for all.
    pub(super) project: Option<PathBuf>,
    read: Result<Foreign, io::Error>,
}

impl Found {
    /// Looks where `from` says, clients by their words or files by their paths; nowhere in particular: at every client.
    ///
    /// # Errors
    /// If one is neither a client nor a file.
    pub(super) fn look(from: &[String], sources: &dyn Sources) -> Result<Self, String> {
        let all = CLIENTS.iter().flat_map(|client| files_of(client, sources));
        let mut wanted: Vec<Wanted> = if from.is_empty() { all.collect() } else { Vec::new() };
        for from in from {
            match Client::named(from) {
                Some(client) => wanted.extend(files_of(client, sources)),
                None if Path::new(from).exists() => wanted.push(Wanted::named(from, sources)),
                None => return Err(unknown(from)),
            }
        }
        let mut seen = HashSet::new();
        wanted.retain(|wanted| seen.insert(wanted.path.clone()));
        let files: Vec<_> = wanted.into_iter().filter_map(|wanted| wanted.read(sources)).collect();
        if files.is_empty() {
            print_note!("mcpd: no configuration with MCP servers is found");
        }
        Ok(Self { files })
    }

    /// Whether something could not be read.
    pub(super) fn has_errors(&self) -> bool {
        self.files
            .iter()
            .any(|file| file.read.as_ref().map_or(true, |read| !read.errors.is_empty() || read.left_out > 0))
    }
}

impl FoundFile {
    /// What there is to say of it, as it is printed.
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

/// A file that is to be read.
struct Wanted {
    path: PathBuf,
    title: &'static str,
    project: Option<PathBuf>,
    /// Whether it was asked for by its path: then it has to be there, with servers in it.
    is_named: bool,
}

impl Wanted {
    fn named(path: &str, sources: &dyn Sources) -> Self {
        let path = sources.current_dir().map_or_else(|| PathBuf::from(path), |directory| directory.join(path));
        let known = CLIENTS.iter().flat_map(|client| files_of(client, sources)).find(|file| file.path == path);
        let (title, project) = known.map_or(("a file", None), |file| (file.title, file.project));
        Self { path, title, project, is_named: true }
    }

    /// Nothing, if it was only looked for, and has no servers.
    fn read(self, sources: &dyn Sources) -> Option<FoundFile> {
        let Self { path, title, project, is_named } = self;
        let read = sources.read(&path, MAX_FILE).map(|text| foreign(&path, &text, sources));
        let is_wanted = match &read {
            Ok(read) => read.is_about_servers || !read.errors.is_empty(),
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        };
        (is_named || is_wanted).then_some(FoundFile { path, title, project, read })
    }
}

fn files_of(client: &'static Client, sources: &dyn Sources) -> Vec<Wanted> {
    let of_project = client.project_files(sources);
    let wanted = |path: PathBuf| {
        let project = sources.current_dir().filter(|_| of_project.contains(&path));
        Wanted { path, title: client.title, project, is_named: false }
    };
    client.files(sources).into_iter().map(wanted).collect()
}

fn unknown(from: &str) -> String {
    let words: Vec<_> = CLIENTS.iter().map(|client| client.word).collect();
    format!("`{}` is neither a file nor a client: the clients are {}", from.escape_debug(), words.join(", "))
}
