//! Loads a [`Config`](super::Config) from files: finds them, reads each in its format, and merges them as layers.

mod files;
mod merge;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use self::files::Loading;
pub use self::files::{ConfigError, LoadedConfig, Stamp, changed, default_path};
pub(crate) use self::files::{Definition, masked};
pub(super) use self::files::{MAX_FILE, located, parse_loosely};
pub(super) use self::merge::Layers;
use super::interpolate::Sources;
use super::notes::What;

/// Reads `files` in order. Without `files`, reads the machine's file, [`default_path`], and `config.d/*.toml` beside it, sorted by name.
///
/// - `MCPD_…` variables set keys of `[daemon]`, and `MCPD_DEFAULTS__…` variables keys of `[defaults]`, above all files.
/// - A later layer replaces scalars of `[daemon]` and `[defaults]`. Lists of `[defaults]` and servers add up.
/// - The merged defaults apply to the servers of all layers.
/// - A server table without `command` and `url` narrows the policy of a server in a lower layer, and replaces single settings.
///
/// # Errors
/// If a file cannot be read or trusted, or has an error, or two files configure the same server or profile. Reports all errors at
/// once.
pub fn load(files: &[PathBuf], sources: &dyn Sources) -> Result<LoadedConfig, ConfigError> {
    let mut loading = Loading::new(sources);
    if files.is_empty() {
        loading.defaults();
    }
    files.iter().for_each(|path| loading.named(path));
    loading.variables();
    let Loading { layers, mut failed, warnings, files: read, stamps, .. } = loading;
    failed.diagnostics.extend(layers.check(sources));
    if !failed.is_empty() {
        return Err(ConfigError { stamps, ..failed });
    }
    let hint = read.is_empty().then(|| hint(default_path(sources).as_deref()));
    let config = layers.resolve(sources);
    let mut loaded = LoadedConfig { config, layers, warnings, files: read, stamps, secret_files: Vec::new(), hint };
    loaded.secret_files = secret_files(&loaded, sources);
    Ok(loaded)
}

fn secret_files(loaded: &LoadedConfig, sources: &dyn Sources) -> Vec<Stamp> {
    let files = loaded.notes().into_iter().flat_map(|note| match note.what {
        What::Text(_, template) => template.files(sources),
        _ => Vec::new(),
    });
    let paths: BTreeSet<_> = files.collect();
    paths.iter().map(|path| Stamp::file(path, sources.read(path, MAX_FILE).ok().as_deref())).collect()
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
