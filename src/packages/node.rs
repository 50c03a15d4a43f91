//! Packages in directories `node_modules`, and checksums in the lock files beside them.

use std::path::{Path, PathBuf};

use super::{InstalledPackage, Launch, json, text};
use crate::config::interpolate::Sources;

/// The package `name` in `directory/node_modules`, unless what is there has another name.
pub(super) fn package(directory: &Path, name: &str) -> Option<InstalledPackage> {
    let package = json(&directory.join("node_modules").join(name).join("package.json"))?;
    if package.get("name")?.as_str()? != name {
        return None;
    }
    let version = package.get("version")?.as_str()?.to_owned();
    let integrity = integrity(directory, name, &version);
    Some(InstalledPackage { name: name.to_owned(), version, integrity })
}

/// The checksum of a package in the lock file of npm, pnpm or bun.
fn integrity(directory: &Path, name: &str, version: &str) -> Option<String> {
    let locks = ["package-lock.json", "node_modules/.package-lock.json"];
    let of_npm = locks.iter().find_map(|lock| {
        let lock = json(&directory.join(lock))?;
        let package = lock.get("packages")?.get(format!("node_modules/{name}"))?;
        (package.get("version")?.as_str()? == version).then(|| package.get("integrity")?.as_str().map(str::to_owned))?
    });
    let lock_lines = |file: &str| text(&directory.join(file));
    of_npm
        .or_else(|| of_pnpm(&lock_lines("pnpm-lock.yaml")?, name, version))
        .or_else(|| of_bun(&lock_lines("bun.lock")?, name, version))
}

/// The line behind `NAME@VERSION:` has `integrity: CHECKSUM`.
fn of_pnpm(lock: &str, name: &str, version: &str) -> Option<String> {
    let key = format!("{name}@{version}");
    let mut lines = lock.lines();
    lines.find(|line| line.trim().strip_suffix(':').map(|line| line.trim_matches('\'')) == Some(&key))?;
    let (_, checksum) = lines.next()?.split_once("integrity:")?;
    checksum.trim().split(['}', ',']).next().map(str::to_owned)
}

/// A line has the package with its checksum at the end: `"NAME": ["NAME@VERSION", …, "CHECKSUM"],`.
fn of_bun(lock: &str, name: &str, version: &str) -> Option<String> {
    let start = format!("\"{name}\": [\"{name}@{version}\",");
    let line = lock.lines().find(|line| line.trim_start().starts_with(&start))?;
    let checksum = line.trim_end().trim_end_matches(',').strip_suffix("\"]")?.rsplit('"').next()?;
    checksum.contains('-').then(|| checksum.to_owned())
}

/// The package of the project in which a runner is started: the next directory above with a `package.json` or packages.
pub(super) fn of_project(cwd: &Path, name: &str) -> Option<InstalledPackage> {
    let is_project =
        |directory: &&Path| directory.join("node_modules").is_dir() || directory.join("package.json").is_file();
    package(cwd.ancestors().find(is_project)?, name)
}

/// The directory of npm's global packages. Source: docs.npmjs.com/cli/configuring-npm/folders.
pub(super) fn global(launch: &Launch<'_>) -> Option<PathBuf> {
    let path = launch.sources.var("PATH")?;
    let program = |name| launch.sources.on_path_from(launch.cwd, name, &path)?.canonicalize().ok();
    let of_node = || Some(program("node")?.parent()?.parent()?.to_owned());
    // A distribution may have changed the prefix in the file beside its npm.
    let of_npm = || setting_in(&program("npm")?.parent()?.parent()?.join("npmrc"), "prefix", launch);
    let prefix = setting(launch, "prefix").or_else(of_npm).or_else(of_node)?;
    Some(prefix.join("lib"))
}

/// A path in npm's settings. Variables, whose names may be in upper case, come before the user's file. Source:
/// docs.npmjs.com/cli/using-npm/config.
pub(super) fn setting(launch: &Launch<'_>, name: &str) -> Option<PathBuf> {
    let variable = |setting: &str| {
        let variable_name = format!("npm_config_{}", setting.replace('-', "_"));
        let is_it = |(name, value): &(&String, &String)| name.eq_ignore_ascii_case(&variable_name) && !value.is_empty();
        launch.env.iter().find(is_it).map(|(_, value)| launch.directory(value))
    };
    let file = || variable("userconfig").or_else(|| Some(launch.sources.home()?.join(".npmrc")));
    variable(name).or_else(|| setting_in(&file()?, name, launch))
}

fn setting_in(file: &Path, name: &str, launch: &Launch<'_>) -> Option<PathBuf> {
    let text = text(file)?;
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
    };
    let value = text.lines().rev().find_map(value).filter(|value| !value.is_empty())?;
    let home = launch.sources.home();
    let expanded = match value.strip_prefix("~/").or_else(|| value.strip_prefix("${HOME}/")) {
        Some(rest) => home?.join(rest),
        None => PathBuf::from(value),
    };
    Some(launch.cwd.join(expanded))
}
