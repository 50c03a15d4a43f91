//! `mcpd remove`: takes servers out of the configuration files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;

use super::config_edit::{EditOptions, secrets_directory};
use super::outcome::try_print_report;
use super::reload::Scope;
use super::{CommandResult, FAILED, USAGE, completions, fail, try_print};
use crate::config::edit::file::ConfigFile;
use crate::config::edit::{self, EditError, Overlay};
use crate::config::interpolate::Process;
use crate::config::{self, LoadedConfig};
use crate::known_clients::shell_word;
use crate::sockets::RuntimeDir;
use crate::suggest::nearest;

#[derive(Debug, Args)]
pub(super) struct Remove {
    /// Names of the servers to remove; they are also searched in config.d beside the file
    #[arg(required = true, value_name = "NAME", add = ArgValueCandidates::new(completions::servers))]
    names: Vec<String>,
    #[command(flatten)]
    options: EditOptions,
}

/// One removed server.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JsonReport<'a> {
    /// Name of the server.
    name: &'a str,
    /// The configuration that was written.
    file: &'a Path,
    /// Secret files of the server, which remain.
    secrets: &'a [PathBuf],
}

/// A configuration file and its new text.
struct Edit {
    path: PathBuf,
    file: ConfigFile,
    text: String,
}

pub(super) fn run(Remove { names, options }: &Remove, directory: Option<RuntimeDir>) -> CommandResult {
    let removed = remove_from_files(names, options)?;
    for (name, path) in &removed {
        let secrets = secrets_of(path, name);
        match options.json {
            true => try_print_report(&JsonReport { name, file: path, secrets: &secrets }),
            false => try_print(format!("removed {name} from {}\n", path.display())),
        }?;
        for secret in secrets {
            let path = secret.display().to_string();
            print_note!("mcpd: a secret of {name} is left in {path}; to delete it: rm {}", shell_word(&path));
        }
    }
    let names: Vec<_> = removed.iter().map(|(name, _)| *name).collect();
    let paths: Vec<_> = removed.iter().map(|(_, path)| path.as_path()).collect();
    options.apply(directory, &paths, Scope::Servers(&names))
}

/// Removes all servers or none. Returns each server with the file that had it.
fn remove_from_files<'n>(names: &'n [String], options: &EditOptions) -> Result<Vec<(&'n str, PathBuf)>, ExitCode> {
    let path = options.path()?;
    let paths = if options.config.is_some() { vec![path] } else { default_files(path) };
    let mut files = Vec::new();
    for path in paths {
        let file =
            ConfigFile::open(&path).map_err(|error| fail(USAGE, format!("cannot read {}: {error}", path.display())))?;
        files.push(Edit { text: file.text().to_owned(), path, file });
    }
    let mut removed: Vec<(&str, PathBuf)> = Vec::new();
    let unknown = |error: String| match names.len() {
        1 => fail(USAGE, error),
        _ => fail(USAGE, format!("{error}\nnothing is removed")),
    };
    for name in names {
        if !removed.iter().any(|(known, _)| known == name) {
            removed.push((name, remove_from_first(name, &mut files, options).map_err(unknown)?));
        }
    }
    files.retain(|edit| edit.text != edit.file.text());
    check(options, &files, names).map_err(|error| fail(USAGE, error))?;
    for Edit { file, text, .. } in files {
        file.write(&text).map_err(|error| fail(FAILED, error))?;
    }
    Ok(removed)
}

/// Removes the server `name` from the first file that has it, and returns the file's path.
fn remove_from_first(name: &str, files: &mut [Edit], options: &EditOptions) -> Result<PathBuf, String> {
    for Edit { path, text, .. } in files.iter_mut() {
        match edit::remove(text, name) {
            Ok(without) => {
                *text = without;
                return Ok(path.clone());
            }
            Err(EditError::Unknown { .. }) => {}
            Err(error) => return Err(options.edit_failure(path, &error)),
        }
    }
    let known: Vec<_> = files.iter().flat_map(|file| edit::names(&file.text).unwrap_or_default()).collect();
    Err(unknown(name, &known))
}

/// The user's file, then the files of `config.d` beside it, in order.
fn default_files(path: PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path.with_file_name("config.d")).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        !is_hidden && path.extension().is_some_and(|extension| extension == "toml")
    };
    let mut more: Vec<_> = entries.map(|entry| entry.path()).filter(is_one).collect();
    more.sort();
    std::iter::once(path).chain(more).collect()
}

/// The files that `add` or `import` wrote for the secrets of a server.
fn secrets_of(config: &Path, server: &str) -> Vec<PathBuf> {
    let directory = secrets_directory(config).ok();
    let entries = directory.and_then(|directory| std::fs::read_dir(directory).ok()).into_iter().flatten().flatten();
    let is_of_server = |name: &str| name.strip_prefix(server).is_some_and(|rest| rest.starts_with('.'));
    let files = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_of_server));
    let mut paths: Vec<_> = files.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The error for a server that no edited file has. Names another file that has it, or a similar name.
fn unknown(name: &str, known: &[String]) -> String {
    let elsewhere = config::load(&[], &Process).ok().and_then(|LoadedConfig { files, .. }| {
        let has_it = |path: &PathBuf| ConfigFile::open(path).is_ok_and(|file| edit::configures(file.text(), name));
        files.into_iter().find(has_it)
    });
    match (elsewhere, nearest(name, known.iter().map(String::as_str))) {
        (Some(path), _) => format!("server `{name}` is configured in {}: remove it there", path.display()),
        (None, Some(nearest)) => format!("there is no server `{name}`: did you mean `{nearest}`?"),
        (None, None) => format!("there is no server `{name}`"),
    }
}

/// Refuses an edit that would make a valid configuration invalid.
fn check(options: &EditOptions, edits: &[Edit], names: &[String]) -> Result<(), String> {
    let overlay =
        edits.iter().fold(Overlay::new(&Process), |overlay, Edit { file, text, .. }| overlay.with(file.path(), text));
    match config::load(&options.files(), &overlay) {
        Err(error) => match config::load(&options.files(), &Process) {
            Ok(before) => {
                let reason =
                    use_by_profile(&before, names).unwrap_or_else(|| "the configuration would not be valid".to_owned());
                Err(format!("not removed: {reason}\n{error}"))
            }
            Err(_) => Ok(()),
        },
        Ok(_) => Ok(()),
    }
}

/// The first profile that lists one of the servers `names`.
fn use_by_profile(loaded: &LoadedConfig, names: &[String]) -> Option<String> {
    loaded.config.profiles.iter().find_map(|profile| {
        let servers = profile.servers.as_ref()?;
        let name = names.iter().find(|name| servers.contains(&***name))?;
        Some(format!("profile `{}` uses `{name}`: take it out there first (`mcpd edit`)", profile.name))
    })
}
