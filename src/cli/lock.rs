//! `mcpd lock`: writes the versions that run into the configuration. `--check` reports what has no exact version.

mod definitions;
pub(super) mod offer;
pub(super) mod state;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde::Serialize;

use self::definitions::DefinitionsReport;
use self::state::{LockState, PackageReport};
use super::client_changes::WriteOptions;
use super::client_entries::runtime_dir_options;
use super::config_edit::EditOptions;
use super::doctor::probe::DaemonProbe;
use super::login::Files;
use super::outcome::{config_failure, try_print_report};
use super::reload::Scope;
use super::style::OutputStyle;
use super::text::{count, one_line};
use super::{CommandResult, FAILED, USAGE, block_on, completions, diff, fail, prompt, try_print};
use crate::config::diagnostic::Edit;
use crate::config::edit::Overlay;
use crate::config::edit::file::ConfigFile;
use crate::config::{self, LoadedConfig, ServerConfig};
use crate::daemon::pin_directory;
use crate::server::{GuardProgram, SandboxHost};
use crate::sockets::RuntimeDir;
use crate::suggest::hint;

#[derive(Debug, Args)]
pub(super) struct Lock {
    /// Only these servers
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    servers: Vec<String>,
    /// Write nothing, and exit with 1 if a version is not exact, or if definitions differ from the approved ones. Needs no daemon
    #[arg(long, conflicts_with_all = ["yes", "dry_run", "no_reload"])]
    check: bool,
    #[command(flatten)]
    options: WriteOptions,
    #[command(flatten)]
    files: Files,
    /// Do not apply the change to the running daemon
    #[arg(long)]
    no_reload: bool,
}

/// Packages of servers, with their versions.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JsonReport<'a> {
    /// Configuration files that were written.
    files: Vec<&'a Path>,
    /// In the order of the configuration. A server without a package has one entry, too.
    packages: &'a [PackageReport],
    /// With `--check`: servers whose definitions differed from the approved ones when they last listed them.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    definitions: &'a [DefinitionsReport],
}

/// The configuration, and what its servers run.
struct Found {
    probe: DaemonProbe,
    packages: Vec<PackageReport>,
    /// With `--check`.
    definitions: Vec<DefinitionsReport>,
}

/// `given`: the value of `--runtime-dir`. `directory`: the resolved runtime directory.
pub(super) fn run(lock: &Lock, given: Option<&Path>, directory: Option<RuntimeDir>) -> CommandResult {
    let Found { probe, mut packages, definitions } = block_on(find(lock, given, directory.clone()))?;
    if lock.check {
        return check(&packages, &definitions, lock.options.json);
    }
    let planned: Vec<_> = packages.iter().filter_map(|package| package.edit.as_ref()).collect();
    let changed = changed_files(&planned)?;
    let overlay =
        changed.iter().fold(Overlay::new(&probe.sources), |overlay, (file, text)| overlay.with(file.path(), text));
    if let Err(error) = config::load(&probe.files, &overlay) {
        return Err(fail(USAGE, format!("nothing is written: the configuration would not be valid\n{error}")));
    }
    packages
        .iter()
        .filter(|package| package.edit.is_none())
        .for_each(|package| print_note!("mcpd: {}", package.line()));
    if !lock.options.json {
        for (file, text) in &changed {
            let colour = OutputStyle::of_stdout().has_colour();
            try_print(diff::masked(file.text(), text, file.path(), colour))?;
        }
    }
    let outcome = match () {
        () if changed.is_empty() => LockState::Planned,
        () if lock.options.dry_run => LockState::Planned,
        () => confirm(lock, &packages)?,
    };
    let servers: Vec<_> = packages.iter().filter(|one| one.edit.is_some()).map(|one| one.server.clone()).collect();
    packages.iter_mut().filter(|one| one.edit.is_some()).for_each(|one| one.state = outcome);
    let mut written = Vec::new();
    if outcome == LockState::Written {
        for (file, text) in changed {
            let path = file.path().to_owned();
            file.write(&text).map_err(|error| fail(FAILED, error))?;
            print_note!("mcpd: written to {}", path.display());
            written.push(path);
        }
        packages.iter().filter(|one| one.edit.is_some()).for_each(|package| print_note!("mcpd: {}", package.line()));
    } else if !servers.is_empty() {
        print_note!("mcpd: nothing is written");
    }
    let paths: Vec<_> = written.iter().map(PathBuf::as_path).collect();
    if lock.options.json {
        try_print_report(&JsonReport { files: paths.clone(), packages: &packages, definitions: &[] })?;
    }
    if paths.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let servers: Vec<_> = servers.iter().map(String::as_str).collect();
    let config = lock.files.config.first().cloned();
    let options = EditOptions { config, no_reload: lock.no_reload, json: lock.options.json };
    options.apply(directory, &paths, Scope::Servers(&servers))
}

/// What the chosen servers run. The versions are looked up only to write them.
async fn find(lock: &Lock, given: Option<&Path>, directory: Option<RuntimeDir>) -> Result<Found, ExitCode> {
    let probe = DaemonProbe::run(directory, runtime_dir_options(given), &lock.files.config).await;
    let loaded = config::load(&probe.files, &probe.sources).map_err(|error| config_failure(&error))?;
    let (mut packages, mut definitions) = (Vec::new(), Vec::new());
    let guard = GuardProgram::available();
    let host = SandboxHost::new(guard.path(), &probe.sources);
    let pins = pin_directory(&probe.files).filter(|_| lock.check);
    for server in chosen(&loaded, &lock.servers)? {
        definitions.extend(pins.as_ref().and_then(|pins| DefinitionsReport::of(server, pins)));
        let found = match lock.check {
            true => state::packages(&loaded, server),
            false => state::packages_with_versions(&loaded, server, &host, &probe.sources).await,
        };
        packages.extend(found);
    }
    Ok(Found { probe, packages, definitions })
}

/// The servers with these names, or all, in the order of the configuration.
fn chosen<'l>(loaded: &'l LoadedConfig, names: &[String]) -> Result<Vec<&'l ServerConfig>, ExitCode> {
    let servers = &loaded.config.servers;
    let is_unknown = |name: &&String| !servers.iter().any(|server| *server.name == ***name);
    if let Some(name) = names.iter().find(is_unknown) {
        let near = hint(name, servers.iter().map(|server| &*server.name));
        return Err(fail(USAGE, format!("there is no server `{}`{near}", one_line(name))));
    }
    let is_chosen = |server: &&ServerConfig| names.is_empty() || names.iter().any(|name| *server.name == **name);
    Ok(servers.iter().filter(is_chosen).collect())
}

/// Prints whether each package is locked, and which definitions differ from their pins.
fn check(packages: &[PackageReport], definitions: &[DefinitionsReport], json: bool) -> CommandResult {
    let lines = packages.iter().map(PackageReport::line).chain(definitions.iter().map(DefinitionsReport::line));
    match json {
        true => try_print_report(&JsonReport { files: Vec::new(), packages, definitions })?,
        false => try_print(lines.map(|line| line + "\n").collect::<String>())?,
    }
    let mut unlocked: Vec<_> = packages.iter().filter(|one| one.state == LockState::Unlocked).collect();
    unlocked.dedup_by_key(|package| &package.server);
    if !unlocked.is_empty() {
        let names: Vec<_> = unlocked.iter().map(|package| &*package.server).collect();
        let are = if names.len() == 1 { "is" } else { "are" };
        print_note!(
            "mcpd: {} {are} not locked: `mcpd lock {}` writes the versions that run",
            count(names.len(), "server"),
            names.join(" ")
        );
    }
    Ok(if unlocked.is_empty() && definitions.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Asks whether to write the planned versions.
fn confirm(lock: &Lock, packages: &[PackageReport]) -> Result<LockState, ExitCode> {
    if lock.options.yes {
        return Ok(LockState::Written);
    }
    if !prompt::is_possible() {
        return Err(fail(USAGE, "nothing is written: add `--yes`, or run the command on a terminal to confirm"));
    }
    let planned = packages.iter().filter(|package| package.edit.is_some()).count();
    let question = format!("Write {}?", count(planned, "version"));
    let is_confirmed = prompt::confirm_default(&question).map_err(|error| fail(FAILED, error))?;
    Ok(if is_confirmed { LockState::Written } else { LockState::Declined })
}

/// The files with all edits, and their new texts.
fn changed_files(edits: &[&Edit]) -> Result<Vec<(ConfigFile, String)>, ExitCode> {
    let mut by_file: BTreeMap<&Path, Vec<&Edit>> = BTreeMap::new();
    edits.iter().for_each(|edit| by_file.entry(&edit.file.path).or_default().push(edit));
    let changed = |(path, mut edits): (&Path, Vec<&Edit>)| {
        let unusable = |error: String| fail(USAGE, format!("nothing is written: {}: {error}", path.display()));
        let file = ConfigFile::open(path).map_err(|error| unusable(error.to_string()))?;
        // A byte order mark is no part of the text that was read.
        let (mark, text) = file.text().split_at(file.text().len() - file.text().trim_start_matches('\u{feff}').len());
        if edits.iter().any(|edit| edit.file.text != text) {
            return Err(unusable("it was changed by another program: run the command again".to_owned()));
        }
        // From the end on, so that spans stay valid.
        edits.sort_by_key(|edit| std::cmp::Reverse(edit.span.start));
        let new = edits.iter().fold(text.to_owned(), |text, edit| edit.apply(&text));
        let new = format!("{mark}{new}");
        Ok((file, new))
    };
    by_file.into_iter().map(changed).collect()
}
