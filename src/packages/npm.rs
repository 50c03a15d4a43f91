//! Packages of npm's registry: `npx`, `pnpm dlx` and `bunx`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rustix::process::getuid;
use sha2::{Digest, Sha512};

use super::node::{global, of_project, package, setting};
use super::{InstalledPackage, Launch, UnknownVersion, entries, json};
use crate::config::interpolate::Sources;
use crate::config::known_commands::{PackageWord, Requirement};

/// Digits of the name of a directory in the cache of `npx`.
const NPX_DIGITS: usize = 16;

/// `npx` runs a package of its project or a global one, or else that of the directory in its cache that is named after the packages of the
/// command line. Source: github.com/npm/cli, `workspaces/libnpmexec`.
pub(super) fn npx(launch: &Launch<'_>, word: &PackageWord) -> Result<InstalledPackage, UnknownVersion> {
    let is_meant = |found: &InstalledPackage| match &word.requirement {
        Requirement::Newest => true,
        requirement => *requirement == Requirement::Exact(found.version.clone()),
    };
    let at_hand = || of_project(launch.cwd, &word.name).filter(is_meant);
    let global = || package(&global(launch)?, &word.name).filter(is_meant);
    if let Some(found) = at_hand().or_else(global) {
        return Ok(found);
    }
    let cache = launch.option("--cache").map(|path| launch.directory(path)).or_else(|| setting(launch, "cache"));
    let cache = cache.or_else(|| Some(launch.sources.home()?.join(".npm"))).ok_or(UnknownVersion::NotInstalled)?;
    let cache = cache.join("_npx");
    let directory = match launch.words {
        [one] => Some(cache.join(npx_directory(&one.text))),
        words => entries(&cache, |_| true).into_iter().find(|directory| has_packages(directory, words)),
    };
    directory.and_then(|directory| package(&directory, &word.name)).ok_or(UnknownVersion::NotInstalled)
}

/// The name of the directory for a command line with one package.
fn npx_directory(text: &str) -> String {
    let digest = Sha512::digest(text.as_bytes());
    let mut name = digest.iter().take(NPX_DIGITS / 2).fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    });
    name.truncate(NPX_DIGITS);
    name
}

/// Whether `npx` has made this directory for these packages.
fn has_packages(directory: &Path, words: &[PackageWord]) -> bool {
    let made = json(&directory.join("package.json"));
    let made = made.as_ref().and_then(|made| made.get("_npx")?.get("packages")?.as_array());
    let made: BTreeSet<_> = made.into_iter().flatten().filter_map(|name| name.as_str()).collect();
    made == words.iter().map(|word| &*word.text).collect()
}

/// `pnpm dlx` installs the packages of the command line into a directory of its cache. Without an exact version, it first looks up the
/// version in its copy of the registry's metadata. Source: pnpm.io/cli/dlx.
pub(super) fn pnpm(launch: &Launch<'_>, word: &PackageWord) -> Result<InstalledPackage, UnknownVersion> {
    let cache = setting(launch, "cache-dir").or_else(|| Some(launch.sources.cache_home()?.join("pnpm")));
    let cache = cache.ok_or(UnknownVersion::NotInstalled)?;
    let names: BTreeSet<_> = launch.words.iter().map(|word| &*word.name).collect();
    let directories = entries(&cache.join("dlx"), |_| true).into_iter().map(|directory| directory.join("pkg"));
    let has_names = |directory: &PathBuf| {
        let made = json(&directory.join("package.json"));
        let made = made.as_ref().and_then(|made| made.get("dependencies")?.as_object());
        made.is_some_and(|made| made.keys().map(String::as_str).collect::<BTreeSet<_>>() == names)
    };
    let mut found: Vec<_> =
        directories.filter(has_names).filter_map(|directory| package(&directory, &word.name)).collect();
    let expected = match &word.requirement {
        Requirement::Exact(version) => Some(version.clone()),
        Requirement::Range(tag) => tagged(&cache, &word.name, tag),
        _ => tagged(&cache, &word.name, "latest"),
    };
    if let Some(expected) = &expected {
        found.retain(|found| found.version == *expected);
    }
    found.dedup_by(|one, other| one.version == other.version);
    let several = found.iter().map(|found| &found.version).collect::<BTreeSet<_>>().len() > 1;
    match found.pop() {
        Some(_) if several => Err(UnknownVersion::Ambiguous),
        found => found.ok_or(UnknownVersion::NotInstalled),
    }
}

/// The version with this tag, as pnpm has it from the registry.
fn tagged(cache: &Path, name: &str, tag: &str) -> Option<String> {
    let copies = entries(cache, |name| name.starts_with("metadata"));
    let registries = copies.iter().flat_map(|copy| entries(copy, |_| true));
    registries.into_iter().find_map(|registry| {
        let metadata = json(&registry.join(format!("{name}.json")))?;
        metadata.get("dist-tags")?.get(tag)?.as_str().map(str::to_owned)
    })
}

/// `bunx` runs a package of its project, or else that of a directory that is named after the package: in its cache, or before version 1.3
/// among the temporary files. Source: bun.com/docs/pm/bunx.
pub(super) fn bun(launch: &Launch<'_>, word: &PackageWord) -> Result<InstalledPackage, UnknownVersion> {
    let sources = &launch.sources;
    if word.requirement == Requirement::Newest
        && let Some(found) = of_project(launch.cwd, &word.name)
    {
        return Ok(found);
    }
    let version = match &word.requirement {
        Requirement::Exact(version) | Requirement::Range(version) => version,
        _ => "latest",
    };
    let (user, directory) = (getuid().as_raw(), format!("{}@{version}", word.name));
    let install = sources.directory("BUN_INSTALL").map(|install| install.join("install/cache"));
    let base = sources.directory("XDG_CACHE_HOME").map(|base| base.join(".bun/install/cache"));
    let home = sources.home().map(|home| home.join(".bun/install/cache"));
    let caches = [sources.directory("BUN_INSTALL_CACHE_DIR"), install, base, home].into_iter().flatten();
    let cached = caches.map(|cache| cache.join(format!(".bunx-{user}")).join(&directory));
    // A server at level `files` has temporary files of its own.
    let temporary = sources.directory("BUN_TMPDIR").or_else(|| sources.directory("TMPDIR"));
    let temporary = temporary.unwrap_or_else(|| PathBuf::from("/tmp")).join(format!("bunx-{user}-{directory}"));
    let mut directories = cached.chain([temporary]);
    directories.find_map(|directory| package(&directory, &word.name)).ok_or(UnknownVersion::NotInstalled)
}
