//! Reads the files in order, each once, and the variables `MCPD_…` above them. The result is a
//! [`LoadedConfig`], or a [`ConfigError`] with every error.
//!
//! Anyone who can write to a configuration file can make mcpd run any program, so [`permission_error`] says which files are trusted. A
//! [`Stamp`] has the digest of a file, to detect later changes.
//!
//! The variables are keys of `[daemon]` and `[defaults]`. The `config` crate reads them as one source: prefix, nesting, types and lists. Its
//! values have no place, so each becomes a layer of its own that names its variable.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::config::{Environment, Source, ValueKind};

use super::super::Config;
use super::merge::Layers;
use crate::client_files::Syntax;
use crate::config::clients::Client;
use crate::config::command_line::syntax_of;
use crate::config::diagnostic::{Diagnostic, Level, Medium, SourceFile};
use crate::config::encoding::NotUtf8;
use crate::config::interpolate::{FileId, FileText, Permissions, Sources};
use crate::config::layer::Layer;
use crate::config::read::{Format, LISTS, Problems, is_codex, read, read_variable};
use crate::config::tree::{MAX_PROBLEMS, Node, ParseTree, Problem, Value};
use crate::config::{json, toml, yaml};
use crate::printable::{lines, one_line};
use crate::sha256;

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
    let is_clients = Client::of_file(path).is_some();
    let (format, parsed) = if is_clients { parse_loosely(path, text) } else { parse(path, text) };
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

/// The text of a configuration file without the values that are or look like secrets. `None` if these cannot be found, because the text
/// does not parse.
pub(crate) fn masked(path: &Path, text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some(text.to_owned());
    }
    // Keys that occur twice are not in the tree.
    let parsed = parse_loosely(path, text).1;
    parsed.root.filter(|_| parsed.problems.is_empty()).map(|root| root.masked(text))
}

/// As [`parse`], for a file of another client: it may have the spelling of JSON5.
pub(in crate::config) fn parse_loosely(path: &Path, text: &str) -> (Format, ParseTree) {
    let (format, parsed) = parse(path, text);
    let loose = (parsed.root.is_none() && format == Format::Foreign(Syntax::Json)).then(|| json::parse_loosely(text));
    (format, loose.filter(|loose| loose.root.is_some()).unwrap_or(parsed))
}

/// Parses a text. Its name and content determine the format.
pub(in crate::config) fn parse(path: &Path, text: &str) -> (Format, ParseTree) {
    let syntax = syntax_of(path, text);
    let parsed = match syntax {
        Syntax::Json => json::parse(text),
        Syntax::Toml => toml::parse(text),
        Syntax::Yaml => yaml::parse(text),
    };
    let is_native = syntax == Syntax::Toml && !parsed.root.as_ref().is_some_and(|root| is_codex(path, root));
    (if is_native { Format::Native } else { Format::Foreign(syntax) }, parsed)
}

/// The default file: `$XDG_CONFIG_HOME/mcpd/config.toml`, or `~/.config/mcpd/config.toml`.
#[must_use]
pub fn default_path(sources: &dyn Sources) -> Option<PathBuf> {
    Some(sources.config_home()?.join("mcpd/config.toml"))
}

/// Maximum size of a configuration file.
pub(in crate::config) const MAX_FILE: u64 = 4 << 20;

/// The digest of a file's text, or of the names in a directory of layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The absolute path.
    pub path: PathBuf,
    /// SHA-256 in hexadecimal. `None` if the file was missing or could not be used.
    pub sha256: Option<String>,
}

impl Stamp {
    pub(super) fn file(path: &Path, text: Option<&str>) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { path, sha256: text.map(sha256::hexadecimal) }
    }

    pub(super) fn directory(path: &Path, names: Option<&[String]>) -> Self {
        Self::file(path, names.map(|names| names.join("\n")).as_deref())
    }
}

/// Whether the file differs from the one with this digest. An unreadable file counts as unchanged.
pub fn changed(path: &Path, sha256: Option<&str>, sources: &dyn Sources) -> bool {
    let now = match sources.file(path, MAX_FILE) {
        // The file still cannot be used.
        Ok(file) if sha256.is_none() && permission_error(file.permissions, sources.user()).is_some() => return false,
        Ok(file) => Some(sha256::hexadecimal(&file.text)),
        Err(error) if is_missing(&error) => None,
        Err(_) => match layers_in(path, sources) {
            Ok(names) => Some(sha256::hexadecimal(names.join("\n"))),
            Err(_) => return false,
        },
    };
    now.as_deref() != sha256
}

/// The error for a file that `user`, who runs mcpd, cannot trust.
pub(super) fn permission_error(file: Permissions, user: u32) -> Option<io::Error> {
    let Permissions { owner, group, mode } = file;
    let complaint = if owner != user && owner != 0 {
        format!("it belongs to user {owner}, who could have mcpd run any program as user {user}: `chown` it")
    } else if mode & 0o002 != 0 {
        format!("everybody may write to it (mode {mode:04o}), and have mcpd run any program: `chmod o-w` it")
    } else if mode & 0o020 != 0 && !file.has_private_group() {
        format!("group {group} may write to it (mode {mode:04o}), and have mcpd run any program: `chmod g-w` it")
    } else {
        return None;
    };
    Some(io::Error::new(io::ErrorKind::PermissionDenied, complaint))
}

/// The names of the layers in a directory, sorted.
pub(super) fn layers_in(directory: &Path, sources: &dyn Sources) -> io::Result<Vec<String>> {
    let mut names = sources.list(directory)?;
    names.retain(|name| !name.starts_with('.') && name.ends_with(".toml"));
    names.sort_unstable();
    Ok(names)
}

pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

const PREFIX: &str = "MCPD";
/// Separates a table from its key, as `.` does in TOML.
const NESTING: &str = "__";

/// Reads each variable as a layer, in the order of their keys. Ignores empty variables.
pub(super) fn variables(sources: &dyn Sources) -> Vec<(Arc<SourceFile>, Layer, Problems)> {
    let mut all = sources.variables(&format!("{PREFIX}_"));
    // The crate compares names without case, and a dot in a name would look like nesting.
    all.retain(|(name, _)| !name.contains('.'));
    all.sort_unstable();
    let mut by_key: BTreeMap<_, _> = all.into_iter().map(|variable| (key(&variable.0), variable)).collect();
    let environment = Environment::with_prefix(PREFIX)
        .prefix_separator("_")
        .separator(NESTING)
        .ignore_empty(true)
        .try_parsing(true)
        .list_separator(",")
        .source(Some(by_key.values().cloned().collect()));
    let environment = LISTS.iter().fold(environment, |environment, list| environment.with_list_parse_key(list));
    let values: BTreeMap<_, _> = environment.collect().unwrap_or_default().into_iter().collect();
    let read = |(key, value): (String, ::config::Value)| {
        let (name, text) = by_key.remove(&key)?;
        let value = node(value.kind, &text);
        let file = Arc::new(SourceFile {
            path: name.into(),
            text,
            medium: Medium::Variable,
            hidden: Vec::new(),
            broken: false,
        });
        let (layer, problems) = read_variable(key, value, &file, sources);
        Some((file, layer, problems))
    };
    values.into_iter().filter_map(read).collect()
}

/// The key that the crate gives to the variable `name`.
fn key(name: &str) -> String {
    name[PREFIX.len() + 1..].to_lowercase().replace(NESTING, ".")
}

/// A value with the type that its text looks like. Its place is the whole variable.
fn node(kind: ValueKind, text: &str) -> Node {
    let span: Range<usize> = 0..text.len();
    let string = |text: &str| Value::String(text.to_owned());
    let value = match kind {
        ValueKind::Boolean(truth) => Value::Bool(truth),
        ValueKind::I64(number) => Value::Integer(number),
        ValueKind::Float(_) => Value::Float,
        ValueKind::Array(items) => {
            let items: Vec<_> = items.into_iter().filter_map(|item| item.into_string().ok()).collect();
            let items = items.iter().map(|item| item.trim()).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Node { span: span.clone(), value: string(item) }).collect())
        }
        _ => string(text),
    };
    Node { span, value }
}

/// Maximum number of printed errors. One more is collected to detect that there are more.
const SHOWN: usize = MAX_PROBLEMS - 1;

/// All errors of a configuration: unreadable files, and errors in their text.
#[derive(Debug, Default)]
pub struct ConfigError {
    pub(super) unreadable: Vec<(PathBuf, io::Error)>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) stamps: Vec<Stamp>,
}

impl ConfigError {
    /// The errors with a location, in the order of files and lines.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The files that could not be read.
    pub fn unreadable(&self) -> impl Iterator<Item = (&Path, &io::Error)> {
        self.unreadable.iter().map(|(path, error)| (path.as_path(), error))
    }

    /// The digests of the files. An unreadable file has no digest.
    #[must_use]
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// The first error on one line, with its location.
    #[must_use]
    pub fn first(&self) -> String {
        if let Some((path, error)) = self.unreadable.first() {
            return one_line(&format!("cannot read {}: {error}", path.display()));
        }
        self.diagnostics.first().map_or_else(String::new, |diagnostic| {
            let address = diagnostic.file.address(diagnostic.span.start);
            one_line(&format!("{address}: {}", diagnostic.message))
        })
    }

    /// All errors as they are printed, separated by blank lines, without a final newline.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let files = self
            .unreadable
            .iter()
            .map(|(path, error)| lines(&format!("error: cannot read {}: {error}", path.display())));
        let places = self.diagnostics.iter().take(SHOWN).map(|diagnostic| diagnostic.render(colour));
        let more = (self.diagnostics.len() > SHOWN).then(|| format!("error: only the first {SHOWN} errors are shown"));
        files.chain(places).chain(more).collect::<Vec<_>>().join("\n\n")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unreadable.is_empty() && self.diagnostics.is_empty()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for ConfigError {}

/// A valid configuration, with its warnings and files.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The merged layers, which have the location of each value.
    pub(in crate::config) layers: Layers,
    /// Warnings, for example about ignored keys.
    pub warnings: Vec<Diagnostic>,
    /// The files that were read, in order.
    pub files: Vec<PathBuf>,
    /// Digests of the files, including optional files that do not exist.
    pub stamps: Vec<Stamp>,
    /// Digests of the files of `${file:…}`.
    pub secret_files: Vec<Stamp>,
    /// The first steps, if no file exists.
    pub hint: Option<String>,
}

/// The location in a file that defines a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definition {
    /// The server's name in the file. mcpd changes names of other clients that are not valid.
    pub(crate) title: String,
    /// The file.
    pub(crate) file: PathBuf,
    /// `FILE:LINE`.
    pub(crate) location: String,
    /// Whether the file has mcpd's own format, with tables such as `[servers.files]`.
    pub(crate) is_native: bool,
}

impl LoadedConfig {
    /// `FILE:LINE` of the `enabled` in force for `server`, if a file has one.
    pub(crate) fn enabled_at(&self, server: &str) -> Option<String> {
        let layer = self.layers.servers.iter().find(|layer| *layer.name.value == *server)?;
        Some(layer.rules.settings.get("enabled")?.location.line())
    }

    /// The definition of `server`; `None` if there is no such server.
    pub(crate) fn definition(&self, server: &str) -> Option<Definition> {
        let layer = self.layers.servers.iter().find(|layer| *layer.name.value == *server)?;
        let location = &layer.name.location;
        let written = location.file.text.get(location.span.clone()).unwrap_or_default();
        let title = match serde_json::from_str(written) {
            Ok(title) => title,
            Err(_) => written.trim_matches(['"', '\'']).to_owned(),
        };
        let is_native = parse(&location.file.path, &location.file.text).0 == Format::Native;
        Some(Definition { title, file: location.file.path.clone(), location: location.line(), is_native })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_nobody_else_can_write_are_trusted() {
        let check = |(owner, group, mode), expected: Option<&str>| {
            let found = permission_error(Permissions { mode, owner, group }, 1000).map(|error| error.to_string());
            let found = found.as_deref();
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{found:?}");
        };
        for fine in [(1000, 1000, 0o644), (1000, 1000, 0o664), (1000, 100, 0o644), (0, 0, 0o664), (0, 50, 0o640)] {
            check(fine, None);
        }
        check((1001, 1000, 0o600), Some("belongs to user 1001"));
        check((1000, 1000, 0o666), Some("everybody may write to it (mode 0666)"));
        check((1000, 1000, 0o602), Some("everybody"));
        check((1000, 100, 0o664), Some("group 100 may write to it (mode 0664)"));
        check((0, 1000, 0o664), Some("group 1000"));
    }
}
