//! `mcpd service uninstall`: stops mcpd and removes the files that `mcpd service install` wrote.

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use super::install::line;
use super::manager::{Manager, ServiceError, shown};
use super::units::{Author, author, named, own_files};
use crate::cli::service_env;
use crate::sockets::RuntimeDir;
use crate::systemctl::{SERVICE, SOCKET};

pub(super) async fn run(directory: &RuntimeDir, dry_run: bool) -> Result<ExitCode, ServiceError> {
    let manager = Manager::find(directory).await?;
    let step = |done, would_do, what: &str| line(if dry_run { would_do } else { done }, what);
    let place = manager.directory();
    let (files, edited): (Vec<_>, Vec<_>) =
        own_files(&place).into_iter().partition(|(_, author)| *author == Author::Ours);
    let mut units = vec![SOCKET.to_owned(), SERVICE.to_owned()];
    units.extend(profile_sockets(&place));
    let mut known = Vec::new();
    let is_foreign =
        |unit: &str| fs::read_to_string(place.join(unit)).is_ok_and(|text| author(&text) == Author::Another);
    for unit in &units {
        if is_foreign(unit) {
            step("left", "would leave", &format!("{}, which somebody else has written", shown(&place.join(unit))));
            continue;
        }
        let state = manager.show(unit, "LoadState").await;
        if state.get("LoadState").is_some_and(|state| state != "not-found") {
            known.push(unit.as_str());
        }
    }
    if !known.is_empty() {
        let disable = [&["disable", "--now"], &known[..]].concat();
        if !dry_run {
            manager.run(&disable).await?;
        }
        step("ran", "would run", &format!("systemctl --user {}", disable.join(" ")));
    }
    for (path, _) in &files {
        if !dry_run {
            remove(path)?;
        }
        step("removed", "would remove", &shown(path));
    }
    if let Some(variables) = service_env::file().filter(|file| file.exists()) {
        if !dry_run {
            remove(&variables)?;
        }
        step("removed", "would remove", &shown(&variables));
    }
    for (path, _) in &edited {
        step("left", "would leave", &format!("{}, which somebody has changed", shown(path)));
    }
    step("ran", "would run", "systemctl --user daemon-reload");
    if !dry_run {
        // This succeeds only for an empty directory.
        let _ = fs::remove_dir(place.join("mcpd.service.d"));
        manager.run(&["daemon-reload"]).await?;
        // systemd remembers a failed unit until it is reset.
        let _ = manager.run(&["reset-failed", SERVICE]).await;
    }
    line("", "the configuration stays; from now on `mcpd connect` starts a daemon when an agent needs one");
    Ok(ExitCode::SUCCESS)
}

/// Removes the file. The error names it.
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path).map_err(|error| named(path, &error))
}

/// The enabled sockets of profiles.
fn profile_sockets(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place.join("sockets.target.wants")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("mcpd@") && name.ends_with(".socket")).collect()
}
