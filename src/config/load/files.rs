//! Reads the files in order, each once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::diagnostic::{Diagnostic, Level, SourceFile};
use super::super::encoding::NotUtf8;
use super::super::interpolate::{FileId, FileText, Sources};
use super::super::layer::Layer;
use super::super::read::{Format, Problems, is_codex, read};
use super::super::tree::{ParseTree, Problem};
use super::super::{json, toml};
use super::error::ConfigError;
use super::merge::Layers;
use super::stamp::{MAX_FILE, Stamp, is_missing, layers_in, permission_error};
use super::variables::variables;

/// Maximum number of files of one configuration. Each takes memory while the configuration is in use.
const MAX_FILES: usize = 256;

/// The state of a load.
pub(super) struct Loading<'a> {
    sources: &'a dyn Sources,
    pub(super) layers: Layers,
    pub(super) failed: ConfigError,
    pub(super) warnings: Vec<Diagnostic>,
    /// In the order in which they were read.
    pub(super) files: Vec<PathBuf>,
    pub(super) stamps: Vec<Stamp>,
    seen: Vec<FileId>,
}

impl<'a> Loading<'a> {
    pub(super) fn new(sources: &'a dyn Sources) -> Self {
        Self {
            sources,
            layers: Layers::default(),
            failed: ConfigError::default(),
            warnings: Vec::new(),
            files: Vec::new(),
            stamps: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Reads the default files: the machine's, the user's, and `config.d/*.toml` beside the latter.
    pub(super) fn defaults(&mut self) {
        let own = default_path(self.sources);
        for path in [Some(self.sources.system_config()), own.clone()].into_iter().flatten() {
            self.if_there(&path);
        }
        let Some(directory) = own.and_then(|path| Some(path.parent()?.join("config.d"))) else { return };
        match layers_in(&directory, self.sources) {
            Ok(names) => {
                self.stamps.push(Stamp::directory(&directory, Some(&names)));
                names.iter().for_each(|name| self.if_there(&directory.join(name)));
            }
            Err(error) if is_missing(&error) => self.stamps.push(Stamp::directory(&directory, None)),
            Err(error) => {
                self.stamps.push(Stamp::directory(&directory, None));
                self.failed.unreadable.push((directory, error));
            }
        }
    }

    fn if_there(&mut self, path: &Path) {
        match self.sources.file(path, MAX_FILE) {
            Err(error) if is_missing(&error) => self.stamps.push(Stamp::file(path, None)),
            read => self.take(path, read),
        }
    }

    /// Reads a required file.
    pub(super) fn named(&mut self, path: &Path) {
        let read = self.sources.file(path, MAX_FILE);
        self.take(path, read);
    }

    /// Adds a file on top, unless it was read before.
    fn take(&mut self, path: &Path, read: io::Result<FileText>) {
        let file =
            match read.and_then(|file| permission_error(file.permissions, self.sources.user()).map_or(Ok(file), Err)) {
                Ok(file) => file,
                Err(error) => {
                    self.stamps.push(Stamp::file(path, None));
                    return self.refuse(path, error);
                }
            };
        if self.seen.contains(&file.id) {
            return;
        }
        if self.seen.len() == MAX_FILES {
            let complaint = format!("there are more than {MAX_FILES} files of configuration");
            return self.refuse(path, io::Error::other(complaint));
        }
        self.seen.push(file.id);
        self.stamps.push(Stamp::file(path, Some(&file.text)));
        let (file, layer, found) = read_file(path, &file.text, self.sources);
        self.add(&file, layer, found);
        self.files.push(path.to_owned());
    }

    /// Reads the `MCPD_…` variables.
    pub(super) fn variables(&mut self) {
        for (variable, layer, found) in variables(self.sources) {
            self.add(&variable, layer, found);
        }
    }

    /// Adds the layer of `file` on top.
    fn add(&mut self, file: &Arc<SourceFile>, layer: Layer, found: Problems) {
        self.failed.diagnostics.extend(located(Level::Error, file, found.errors));
        self.warnings.extend(located(Level::Warning, file, found.warnings));
        self.failed.diagnostics.extend(self.layers.add(layer));
    }

    fn refuse(&mut self, path: &Path, error: io::Error) {
        self.layers.mark_partial();
        match error.get_ref().and_then(|error| error.downcast_ref::<NotUtf8>()) {
            Some(wrong) => self.failed.diagnostics.push(not_utf8(path, wrong)),
            None => self.failed.unreadable.push((path.to_owned(), error)),
        }
    }
}

fn read_file(path: &Path, text: &str, sources: &dyn Sources) -> (Arc<SourceFile>, Layer, Problems) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (format, parsed) = parse(path, text);
    let file = Arc::new(SourceFile::parsed(path, text, &parsed));
    let ParseTree { root, problems } = parsed;
    let unread = || (Layer { is_partial: true, ..Layer::default() }, Problems::default());
    let (layer, mut found) = root.map_or_else(unread, |root| read(&root, format, &file, sources));
    found.errors.extend(problems);
    (file, layer, found)
}

/// The error for a file in another encoding. It shows lines as for a file that does not parse.
fn not_utf8(path: &Path, wrong: &NotUtf8) -> Diagnostic {
    let (text, at) = wrong.place();
    let file = Arc::new(SourceFile::parsed(path, text, &ParseTree::default()));
    let end = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
    let problem = Problem::new(at..end, wrong.message());
    Diagnostic::new(Level::Error, &file, problem.help(wrong.help(&path.to_string_lossy())))
}

/// The diagnostics in the order of the text.
pub(in crate::config) fn located(
    level: Level,
    file: &Arc<SourceFile>,
    mut problems: Vec<Problem>,
) -> impl Iterator<Item = Diagnostic> {
    problems.sort_by_key(|problem| problem.span.start);
    problems.into_iter().map(move |problem| Diagnostic::new(level, file, problem))
}

/// The text of a valid configuration file without the values that are or look like secrets.
pub(crate) fn masked(path: &Path, text: &str) -> String {
    parse(path, text).1.root.map(|root| root.masked(text)).unwrap_or_default()
}

/// Parses a text. Its name and content determine the format.
pub(in crate::config) fn parse(path: &Path, text: &str) -> (Format, ParseTree) {
    if json::is_json(path, text) {
        return (Format::Clients, json::parse(text));
    }
    let parsed = toml::parse(text);
    let format =
        if parsed.root.as_ref().is_some_and(|root| is_codex(path, root)) { Format::Codex } else { Format::Native };
    (format, parsed)
}

/// The default file: `$XDG_CONFIG_HOME/mcpd/config.toml`, or `~/.config/mcpd/config.toml`.
#[must_use]
pub fn default_path(sources: &dyn Sources) -> Option<PathBuf> {
    Some(sources.config_home()?.join("mcpd/config.toml"))
}
