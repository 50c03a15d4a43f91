//! `mcpd remove`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;

use super::completions;
use super::edited::{next_step, our_file, secrets_of};
use super::{FAILED, USAGE, fail, json, put};
use crate::config::edit::file::ConfigFile;
use crate::config::edit::{self, EditError, Proposed};
use crate::config::interpolate::Process;
use crate::config::{self, Loaded};
use crate::likeness::nearest;
use crate::sockets::RuntimeDir;

/// What is to be removed.
#[derive(Debug, Args)]
pub(super) struct Remove {
    /// Its name
    #[arg(add = ArgValueCandidates::new(completions::servers))]
    name: String,
    /// The configuration to take it out of [default: the one it stands in: ~/.config/mcpd/config.toml, or one of config.d]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Have the running daemon take the configuration over
    #[arg(long)]
    reload: bool,
    /// Print what was done as JSON; with `--reload`, what came of that as another object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Shape<'a> {
    name: &'a str,
    file: &'a Path,
    secrets: &'a [PathBuf],
}

pub(super) fn run(remove: &Remove, directory: Option<RuntimeDir>) -> ExitCode {
    match removed(remove) {
        Ok(path) => {
            let left = left_of(&path, &remove.name);
            let said = match remove.json {
                true => json::page(&Shape { name: &remove.name, file: &path, secrets: &left }).and_then(put),
                false => put(format!("removed {} from {}\n", remove.name, path.display())),
            };
            left.iter().for_each(|left| tell!("mcpd: a secret of it is left in {}", left.display()));
            said.map_or_else(|code| code, |()| next_step(directory, remove.reload, remove.json))
        }
        Err((code, error)) => fail(code, error),
    }
}

/// The file that it stood in; else why it still does, and with which code to end.
fn removed(Remove { name, file, .. }: &Remove) -> Result<PathBuf, (u8, String)> {
    let named = our_file(file.as_deref()).map_err(|error| (USAGE, error))?;
    let files = if file.is_some() { vec![named] } else { ours(named) };
    let mut known = Vec::new();
    for path in files {
        let refused = |error: &dyn std::fmt::Display| (USAGE, format!("{}: {error}", path.display()));
        let found = ConfigFile::open(&path).map_err(|error| refused(&error))?;
        match edit::remove(found.text(), name) {
            Ok(text) => {
                check(&path, file.is_some(), &found, &text).map_err(|error| (USAGE, error))?;
                found.write(&text).map_err(|error| (FAILED, error.to_string()))?;
                return Ok(path);
            }
            Err(EditError::Unknown { .. }) => known.extend(edit::names(found.text()).unwrap_or_default()),
            Err(error) => return Err(refused(&error)),
        }
    }
    Err((USAGE, unknown(name, &known)))
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

/// What holds now is not made to hold no more.
fn check(path: &Path, alone: bool, found: &ConfigFile, text: &str) -> Result<(), String> {
    let files: &[PathBuf] = if alone { &[path.to_owned()] } else { &[] };
    let proposed = Proposed::new(&Process).with(found.path(), text);
    match config::load(files, &proposed) {
        Err(error) if config::load(files, &Process).is_ok() => {
            Err(format!("not removed: the configuration would not hold\n{error}"))
        }
        _ => Ok(()),
    }
}
