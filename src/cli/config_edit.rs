//! What the commands that edit the configuration have in common.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::block_on;
use super::reload::{self, Scope};
use crate::config::edit::Overlay;
use crate::config::edit::file::ConfigFile;
use crate::config::import::{Content, SecretFile, reference};
use crate::config::interpolate::{Process, Sources};
use crate::config::{self, Loaded};
use crate::sockets::RuntimeDir;

/// What to do with the servers of a client that mcpd runs now.
pub(super) const OLD_ENTRIES: &str = "In the client's own configuration, remove the servers that mcpd runs now. Otherwise the client starts its own copies.";

/// The file to edit: the one that was named, else the user's.
///
/// # Errors
/// If it is not in the format of our own, or there is none.
pub(super) fn our_file(named: Option<&Path>) -> Result<PathBuf, String> {
    let path = named.map(Path::to_owned).or_else(|| config::default_path(&Process));
    let path = path.ok_or("no home directory: name a file with `--file FILE`")?;
    match path.extension().is_some_and(|name| name == "json" || name == "jsonc") {
        true => Err(format!(
            "{}: only files in the format of mcpd itself are edited, not those of other clients",
            path.display()
        )),
        false => Ok(path),
    }
}

/// The directory of secrets that are moved out of the configuration at `path`: beside it as it is named, wherever a symbolic
/// link leads, since what that leads to may be published.
///
/// # Errors
/// If no text of a configuration can refer to it.
pub(super) fn secrets_of(path: &Path) -> Result<PathBuf, String> {
    let directory = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).with_file_name("secrets");
    match reference(&directory, Process.home().as_deref()) {
        Some(_) => Ok(directory),
        None => Err(format!("no text of a configuration can refer to files in {}", directory.display())),
    }
}

/// Loads what `file` would hold, with the files it would refer to: alone if it was `named`, else where it is read by default.
///
/// # Errors
/// What is wrong with it, as it is printed.
pub(super) fn check(
    named: Option<&Path>,
    file: &ConfigFile,
    text: &str,
    secrets: &[SecretFile],
) -> Result<Loaded, String> {
    let overlay = Overlay::new(&Process).with(file.path(), text);
    let overlay = secrets.iter().fold(overlay, |overlay, secret| match &secret.content {
        Content::Known(content) => overlay.with(&secret.path, content),
        Content::Asked(_) => overlay,
    });
    let files: Vec<_> = named.map(Path::to_owned).into_iter().collect();
    config::load(&files, &overlay).map_err(|error| format!("not added: the configuration would not be valid\n{error}"))
}

/// Has a running daemon reload the configuration, if that is wanted; else says how. The exit code is about the servers with these
/// `names`.
pub(super) fn next_step(directory: Option<RuntimeDir>, wanted: bool, as_json: bool, names: &[&str]) -> ExitCode {
    let running = directory.filter(RuntimeDir::is_served);
    match running {
        Some(directory) if wanted => block_on(reload::run(&directory, false, as_json, Scope::Servers(names))),
        Some(_) => {
            print_note!("mcpd: the running daemon takes it over with `mcpd reload`");
            ExitCode::SUCCESS
        }
        None => ExitCode::SUCCESS,
    }
}
