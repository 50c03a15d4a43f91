//! From files to a [`Config`]: which files, in which format, and how one layers over the other.

mod definition;
mod error;
mod files;
mod merge;
mod profiles;
mod stamp;
#[cfg(test)]
mod tests;
mod trust;
mod variables;

use std::path::{Path, PathBuf};

pub(crate) use self::definition::Definition;
pub use self::error::ConfigError;
use self::files::Loading;
pub(super) use self::files::{located, parse};
pub(super) use self::merge::Layers;
pub use self::stamp::{Stamp, changed};
use super::Config;
use super::diagnostic::Diagnostic;
use super::interpolate::Sources;

/// Largest configuration file.
pub(super) const MAX_FILE: u64 = 4 << 20;

/// A configuration that holds, and what there is to say about it.
#[derive(Debug)]
pub struct Loaded {
    /// What the daemon was told.
    pub config: Config,
    /// The same with the location of each value.
    pub(super) layers: Layers,
    /// What was ignored.
    pub warnings: Vec<Diagnostic>,
    /// The files that were read, in order.
    pub files: Vec<PathBuf>,
    /// What each of them held, and those that would have been read if they were there.
    pub stamps: Vec<Stamp>,
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

/// Reads `files` in order, or the default files if there are none: that of the machine, [`default_path`], and
/// `config.d/*.toml` beside it, sorted by name. What a file includes comes just below it. On top of all files are the
/// variables `MCPD_…` for what `[daemon]` has.
///
/// A later layer replaces scalars of `[daemon]` and `[defaults]`; lists of `[defaults]` and servers add up. The defaults of all
/// layers hold for the servers of all layers. A table of a server without `command` and `url` narrows what a lower layer
/// exposes of it, and replaces single settings.
///
/// # Errors
/// If a file cannot be read or trusted, or holds an error, or two files configure the same server or profile. All of it is
/// reported at once.
pub fn load(files: &[PathBuf], sources: &dyn Sources) -> Result<Loaded, ConfigError> {
    let mut loading = Loading::new(sources);
    if files.is_empty() {
        loading.defaults();
    }
    files.iter().for_each(|path| loading.named(path));
    loading.variables();
    let Loading { layers, mut failed, warnings, files: read, stamps, .. } = loading;
    failed.diagnostics.extend(layers.check());
    if !failed.is_empty() {
        return Err(ConfigError { stamps, ..failed });
    }
    let hint = read.is_empty().then(|| hint(default_path(sources).as_deref()));
    Ok(Loaded { config: layers.resolve(sources), layers, warnings, files: read, stamps, hint })
}

fn hint(path: Option<&Path>) -> String {
    let location = match path {
        Some(path) => format!("write {}", path.display()),
        None => "name a file with --config".to_owned(),
    };
    format!(
        "no server is configured: `mcpd import` adds those of other clients; or {location}, for example\n\n\
         [servers.files]\n\
         command = \"npx\"\n\
         args = [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"${{HOME}}/notes\"]\n"
    )
}
