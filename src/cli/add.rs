//! `mcpd add`.

use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;

use clap::Args;

use super::edited::{next_step, our_file};
use super::{FAILED, USAGE, fail, say};
use crate::config::edit::file::ConfigFile;
use crate::config::edit::{self, Moved, Proposed, Setting};
use crate::config::interpolate::{Process, Sources};
use crate::config::secret::is_secret;
use crate::config::{self, fitted_name};
use crate::naming::is_server_name;
use crate::sockets::RuntimeDir;

/// What is to be added.
#[derive(Debug, Args)]
pub(super) struct Add {
    /// Name of the server: letters, digits and `-`, with single `_` between them
    name: String,
    /// A variable of its environment; repeatable. A secret is moved to a file of its own
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Its working directory [default: your home directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Start it by its first call
    #[arg(long)]
    lazy: bool,
    /// The configuration to add it to [default: ~/.config/mcpd/config.toml]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Have the running daemon take the configuration over
    #[arg(long)]
    reload: bool,
    /// How it is started; no shell reads it
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(super) fn run(add: &Add, directory: Option<RuntimeDir>) -> ExitCode {
    match added(add) {
        Ok(path) => {
            let said = say(format!("added {} to {}\n", add.name, path.display()));
            if said == ExitCode::SUCCESS { next_step(directory, add.reload) } else { said }
        }
        Err((code, error)) => fail(code, error),
    }
}

/// The file that has it now; else why there is none, and with which code to end.
fn added(add: &Add) -> Result<PathBuf, (u8, String)> {
    let Add { name, file, .. } = add;
    if !is_server_name(name) {
        let fitted = fitted_name(name, "server");
        return Err((USAGE, format!("`{}` cannot name a server: write `{fitted}`", name.escape_debug())));
    }
    let path = our_file(file.as_deref()).map_err(|error| (USAGE, error))?;
    let unreadable = |error| (USAGE, format!("cannot read {}: {error}", path.display()));
    let found = ConfigFile::open(&path).map_err(unreadable)?;
    let mut moved = Vec::new();
    let settings = settings(add, &path, &mut moved).map_err(|error| (USAGE, error))?;
    let text = edit::add(found.text(), name, &settings).map_err(|error| refused(&path, &error))?;
    check(&path, file.is_some(), (&found, &text), &moved).map_err(|error| (USAGE, error))?;
    for one in moved {
        let at = one.path().to_owned();
        one.write().map_err(|error| (FAILED, error.to_string()))?;
        eprintln!("mcpd: a secret was moved to {}", at.display());
    }
    found.write(&text).map_err(|error| (FAILED, error.to_string()))?;
    Ok(path)
}

fn settings<'k>(add: &Add, path: &Path, moved: &mut Vec<Moved>) -> Result<Vec<(&'k str, Setting)>, String> {
    let Some((command, args)) = add.command.split_first() else { return Err("a command is missing".to_owned()) };
    let mut settings =
        vec![("command", Setting::Text(if command.contains('/') { whole(command) } else { command.clone() }))];
    if !args.is_empty() {
        settings.push(("args", Setting::List(args.to_vec())));
    }
    let mut env = Vec::new();
    for pair in &add.env {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(format!("`--env {}` is not of the form NAME=VALUE", pair.escape_debug()));
        };
        if env.iter().any(|(known, _)| known == key) {
            return Err(format!("`--env {key}` is given twice"));
        }
        env.push((key.to_owned(), own_file(path, &add.name, (key, value), moved)?));
    }
    if !env.is_empty() {
        settings.push(("env", Setting::Table(env)));
    }
    if let Some(cwd) = &add.cwd {
        settings.push(("cwd", Setting::Text(whole(cwd))));
    }
    if add.lazy {
        settings.push(("start", Setting::from("lazy")));
    }
    Ok(settings)
}

/// A value as it is to stand in the configuration: a secret is moved out of it.
fn own_file(path: &Path, server: &str, (key, value): (&str, &str), moved: &mut Vec<Moved>) -> Result<String, String> {
    if value.contains("${") || !is_secret(key, value) || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Ok(value.to_owned());
    }
    let one = Moved::out_of(path, Process.home().as_deref(), server, (key, value));
    let Some(one) = one.map_err(|error| format!("{key}: {error}"))? else { return Ok(value.to_owned()) };
    let reference = one.reference.clone();
    moved.push(one);
    Ok(reference)
}

/// A path from here on is one for a daemon that is started elsewhere.
fn whole(path: &str) -> String {
    let is_template = path.starts_with('~') || path.starts_with("${");
    let whole = absolute(path).ok().filter(|_| !is_template);
    whole.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| path.to_owned())
}

/// What is not written does not load.
fn check(path: &Path, alone: bool, (found, text): (&ConfigFile, &str), moved: &[Moved]) -> Result<(), String> {
    let proposed = Proposed::new(&Process).with(found.path(), text);
    let proposed = moved.iter().fold(proposed, |proposed, one| proposed.with(one.path(), one.text()));
    let files: &[PathBuf] = if alone { &[path.to_owned()] } else { &[] };
    match config::load(files, &proposed) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("not added: the configuration would not hold\n{error}")),
    }
}

fn refused(path: &Path, error: &edit::EditError) -> (u8, String) {
    let hint = if *error == edit::EditError::Syntax { ": `mcpd serve` says what is wrong in it" } else { "" };
    (USAGE, format!("{}: {error}{hint}", path.display()))
}
