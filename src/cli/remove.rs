//! `mcpd remove`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;

use super::completions;
use super::config_edit::{next_step, our_file, secrets_of};
use super::{FAILED, USAGE, fail, json, try_print};
use crate::config::edit::file::ConfigFile;
use crate::config::edit::{self, EditError, Overlay};
use crate::config::interpolate::Process;
use crate::config::{self, Loaded};
use crate::known_clients::shell_word;
use crate::sockets::RuntimeDir;
use crate::suggest::nearest;

/// What is to be removed.
#[derive(Debug, Args)]
pub(super) struct Remove {
    /// Their names
    #[arg(required = true, value_name = "NAME", add = ArgValueCandidates::new(completions::servers))]
    names: Vec<String>,
    /// The configuration to take them out of [default: the one they stand in: ~/.config/mcpd/config.toml, or one of config.d]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Have the running daemon take the configuration over
    #[arg(long)]
    reload: bool,
    /// Print an object for each server as JSON; with `--reload`, what came of that as another object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints of one server.
#[derive(Serialize)]
struct Shape<'a> {
    name: &'a str,
    file: &'a Path,
    secrets: &'a [PathBuf],
}

/// A file of the configuration, as it will be.
struct Edited {
    path: PathBuf,
    file: ConfigFile,
    text: String,
}

pub(super) fn run(remove: &Remove, directory: Option<RuntimeDir>) -> ExitCode {
    let removed = match removed(remove) {
        Ok(removed) => removed,
        Err((code, error)) => return fail(code, error),
    };
    for (name, path) in &removed {
        let left = left_of(path, name);
        let said = match remove.json {
            true => json::page(&Shape { name, file: path, secrets: &left }).and_then(try_print),
            false => try_print(format!("removed {name} from {}\n", path.display())),
        };
        if let Err(code) = said {
            return code;
        }
        for left in left {
            let path = left.display().to_string();
            print_note!("mcpd: a secret of {name} is left in {path}; to delete it: rm {}", shell_word(&path));
        }
    }
    let names: Vec<_> = removed.iter().map(|(name, _)| *name).collect();
    next_step(directory, remove.reload, remove.json, &names)
}

/// Each server with the file that it stood in, if all could be removed; else why none was, and with which code to end.
fn removed(Remove { names, file, .. }: &Remove) -> Result<Vec<(&str, PathBuf)>, (u8, String)> {
    let named = our_file(file.as_deref()).map_err(|error| (USAGE, error))?;
    let paths = if file.is_some() { vec![named] } else { ours(named) };
    let mut files = Vec::new();
    for path in paths {
        let file = ConfigFile::open(&path).map_err(|error| (USAGE, format!("{}: {error}", path.display())))?;
        files.push(Edited { text: file.text().to_owned(), path, file });
    }
    let mut removed: Vec<(&str, PathBuf)> = Vec::new();
    for name in names {
        if !removed.iter().any(|(known, _)| known == name) {
            removed.push((name, take_out(name, &mut files).map_err(|error| (USAGE, error))?));
        }
    }
    files.retain(|edited| edited.text != edited.file.text());
    check(file.as_deref(), &files).map_err(|error| (USAGE, error))?;
    for Edited { file, text, .. } in files {
        file.write(&text).map_err(|error| (FAILED, error.to_string()))?;
    }
    Ok(removed)
}

/// Takes the server `name` out of the first file that has it, and returns the path of that.
fn take_out(name: &str, files: &mut [Edited]) -> Result<PathBuf, String> {
    for Edited { path, text, .. } in files.iter_mut() {
        match edit::remove(text, name) {
            Ok(without) => {
                *text = without;
                return Ok(path.clone());
            }
            Err(EditError::Unknown { .. }) => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    let known: Vec<_> = files.iter().flat_map(|edited| edit::names(&edited.text).unwrap_or_default()).collect();
    Err(unknown(name, &known))
}

/// The user's file, and those of the directory beside it, in their order.
fn ours(path: PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path.with_file_name("config.d")).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        !is_hidden && path.extension().is_some_and(|extension| extension == "toml")
    };
    let mut more: Vec<_> = entries.map(|entry| entry.path()).filter(is_one).collect();
    more.sort();
    std::iter::once(path).chain(more).collect()
}

/// The files that secrets of a server were moved to.
fn left_of(config: &Path, server: &str) -> Vec<PathBuf> {
    let entries =
        secrets_of(config).ok().and_then(|directory| std::fs::read_dir(directory).ok()).into_iter().flatten().flatten();
    let of_server = |name: &str| name.strip_prefix(server).is_some_and(|rest| rest.starts_with('.'));
    let mut left: Vec<_> =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(of_server)).map(|entry| entry.path()).collect();
    left.sort();
    left
}

/// It stands in no file of ours: perhaps in another that the configuration is made of, or under another name.
fn unknown(name: &str, known: &[String]) -> String {
    let elsewhere = config::load(&[], &Process).ok().and_then(|Loaded { files, .. }| {
        let has_it = |path: &PathBuf| ConfigFile::open(path).is_ok_and(|file| edit::configures(file.text(), name));
        files.into_iter().find(has_it)
    });
    match (elsewhere, nearest(name, known.iter().map(String::as_str))) {
        (Some(path), _) => format!("server `{name}` stands in {}: take it out there", path.display()),
        (None, Some(nearest)) => format!("there is no server `{name}`: did you mean `{nearest}`?"),
        (None, None) => format!("there is no server `{name}`"),
    }
}

/// Refuses an edit after which a valid configuration would be invalid. `named` is the only file of the configuration, if there is
/// one.
fn check(named: Option<&Path>, files: &[Edited]) -> Result<(), String> {
    let overlay =
        files.iter().fold(Overlay::new(&Process), |overlay, Edited { file, text, .. }| overlay.with(file.path(), text));
    let files: Vec<_> = named.map(Path::to_owned).into_iter().collect();
    match config::load(&files, &overlay) {
        Err(error) if config::load(&files, &Process).is_ok() => {
            Err(format!("not removed: the configuration would not be valid\n{error}"))
        }
        _ => Ok(()),
    }
}
