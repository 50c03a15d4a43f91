//! From files to a [`Config`]: which files, in which format, and how one layers over the other.

mod error;
mod merge;
mod profiles;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::error::ConfigError;
use self::merge::Layers;
use super::Config;
use super::diagnostic::{Diagnostic, Level, SourceFile};
use super::interpolate::Sources;
use super::notes::Note;
use super::read::{Draft, Format, Problems, is_codex, read};
use super::tree::{Node, Parsed, Problem};
use super::{json, toml};

/// Largest configuration file.
pub(super) const MAX_FILE: u64 = 4 << 20;

/// A configuration that holds, and what there is to say about it.
#[derive(Debug)]
pub struct Loaded {
    /// What the daemon was told.
    pub config: Config,
    /// What was ignored.
    pub warnings: Vec<Diagnostic>,
    /// What advice may be about.
    pub(crate) notes: Vec<Note>,
    /// The files that were read, in order.
    pub files: Vec<PathBuf>,
    /// What to do first, if nothing is configured at all.
    pub hint: Option<String>,
}

/// Where the configuration is if no file is named: `$XDG_CONFIG_HOME/mcpd/config.toml`, or under `~/.config`.
#[must_use]
pub fn default_path(sources: &dyn Sources) -> Option<PathBuf> {
    let given = sources.var("XDG_CONFIG_HOME").map(PathBuf::from).filter(|directory| directory.is_absolute());
    let directory = given.or_else(|| sources.home().map(|home| home.join(".config")))?;
    Some(directory.join("mcpd/config.toml"))
}

/// Reads `files` in order, or the default file if there are none.
///
/// Scalars of `[daemon]` and `[defaults]` of a later file replace earlier ones; servers and `pass_env` add up. The
/// defaults of all files hold for the servers of all files.
///
/// # Errors
/// If a file cannot be read or holds an error, or two files configure the same server or profile. All of it is reported at once.
pub fn load(files: &[PathBuf], sources: &dyn Sources) -> Result<Loaded, ConfigError> {
    let mut layers = Layers::default();
    let mut failed = ConfigError::default();
    let mut loaded =
        Loaded { config: Config::default(), warnings: Vec::new(), notes: Vec::new(), files: Vec::new(), hint: None };
    let default = if files.is_empty() { default_path(sources) } else { None };
    for path in files.iter().chain(&default) {
        match sources.read(path, MAX_FILE) {
            Ok(text) => {
                let (file, mut draft, found) = read_file(path, &text, sources);
                failed.diagnostics.extend(located(Level::Error, &file, found.errors));
                loaded.warnings.extend(located(Level::Warning, &file, found.warnings));
                loaded.notes.extend(std::mem::take(&mut draft.notes).in_file(&file));
                failed.diagnostics.extend(layers.add(&file, draft));
                loaded.files.push(path.clone());
            }
            Err(error) if files.is_empty() && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failed.unreadable.push((path.clone(), error)),
        }
    }
    failed.diagnostics.extend(layers.check());
    if !failed.is_empty() {
        return Err(failed);
    }
    if loaded.files.is_empty() {
        loaded.hint = Some(hint(default.as_deref()));
    }
    loaded.config = layers.into_config(sources);
    Ok(loaded)
}

fn read_file(path: &Path, text: &str, sources: &dyn Sources) -> (Arc<SourceFile>, Draft, Problems) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (format, Parsed { root, problems }) = parse(path, text);
    let hidden = root.as_ref().map(Node::secrets).unwrap_or_default();
    let file = Arc::new(SourceFile { path: path.to_owned(), text: text.to_owned(), hidden });
    let (draft, mut found) = root.map(|root| read(&root, format, path, text, sources)).unwrap_or_default();
    found.errors.extend(problems);
    (file, draft, found)
}

/// The complaints in the order of the text.
pub(super) fn located(
    level: Level,
    file: &Arc<SourceFile>,
    mut problems: Vec<Problem>,
) -> impl Iterator<Item = Diagnostic> {
    problems.sort_by_key(|problem| problem.span.start);
    problems.into_iter().map(move |problem| Diagnostic::new(level, file, problem))
}

/// Takes a text apart in the format that its name or its content tells.
pub(super) fn parse(path: &Path, text: &str) -> (Format, Parsed) {
    let named =
        path.extension().is_some_and(|name| name.eq_ignore_ascii_case("json") || name.eq_ignore_ascii_case("jsonc"));
    if named || text.trim_start().starts_with(['{', '/']) {
        return (Format::Clients, json::parse(text));
    }
    let parsed = toml::parse(text);
    let format =
        if parsed.root.as_ref().is_some_and(|root| is_codex(path, root)) { Format::Codex } else { Format::Ours };
    (format, parsed)
}

fn hint(path: Option<&Path>) -> String {
    let place = match path {
        Some(path) => format!("write {}", path.display()),
        None => "name a file with --config".to_owned(),
    };
    format!(
        "no server is configured: `mcpd import` adds those of other clients; or {place}, for example\n\n\
         [servers.files]\n\
         command = \"npx\"\n\
         args = [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"${{HOME}}/notes\"]\n"
    )
}
