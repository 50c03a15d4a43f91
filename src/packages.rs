//! The versions of packages that runners such as `npx` have downloaded.
//!
//! The version of a command line is the one that its runner would start without a network: it is read from the cache of the runner, in the
//! server's environment. Nothing is downloaded, and only the clients of containers are executed. A server can write its own caches, so
//! each file is read up to a limit, and a version is checked before it is used.

mod images;
mod node;
mod npm;
mod python;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::interpolate::{Environment, Process, Sources};
use crate::config::known_commands::{Launcher, Requirement, RunnerCall, package_words};
pub(crate) use crate::config::known_commands::{PackageWord, package_of, pinned_args};

/// The largest file that is read of a cache. The metadata of npm packages has several MB.
const MAX_FILE: u64 = 32 << 20;

/// What would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstalledPackage {
    /// As the command line has it.
    pub(crate) name: String,
    /// Of an image, its digest.
    pub(crate) version: String,
    /// The checksum of the package, if the cache has it.
    pub(crate) integrity: Option<String>,
}

/// Why the version is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnknownVersion {
    /// Nothing fits in the cache.
    #[error("its runner has not downloaded it yet")]
    NotInstalled,
    /// What the cache has as the version is none.
    #[error("its version is not known, because the cache of its runner has no exact one")]
    NotExact,
    /// The cache has several that may be meant.
    #[error("the cache of its runner has several versions that fit")]
    Ambiguous,
    /// The runner keeps nothing between runs.
    #[error("its runner does not keep which version it has started")]
    NotKept,
    /// The word has only the name of an alias.
    #[error("it is an alias: name the package itself")]
    Alias,
    /// Options or variables before the runner change what it reads.
    #[error("its command changes what its runner reads")]
    Changed,
    /// A path, a URL or a repository.
    #[error("it is not a package of a registry")]
    Elsewhere,
    /// The client of containers is missing, or has failed: what it said.
    #[error("the digest of the image is not known: {0}")]
    NoImage(String),
    /// The image has no digest of a registry.
    #[error("the image was not pulled from a registry, so it has no digest there")]
    LocalImage,
}

/// The first package that a command line names, as it would run. `env` and `cwd` are the whole environment and the working directory of
/// the server. Blocks.
pub(crate) fn installed(
    command: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
    cwd: &Path,
) -> Option<InstalledPackage> {
    installed_packages(command, args, env, cwd).into_iter().next()?.1.ok()
}

/// All packages that a command line names, as they would run. Blocks.
pub(crate) fn installed_packages(
    command: &str,
    args: &[String],
    env: &BTreeMap<String, String>,
    cwd: &Path,
) -> Vec<(PackageWord, Result<InstalledPackage, UnknownVersion>)> {
    let words = package_words(command, args);
    let Some((call, first)) = RunnerCall::of(command, args).zip(words.first()) else { return Vec::new() };
    let launch = Launch {
        command: call.program,
        args: &args[call.start.min(first.index)..first.index],
        is_changed: call.is_changed(),
        words: &words,
        sources: Environment::new(Some(env.clone()), Some(cwd.to_owned())),
        env,
        cwd,
    };
    words.iter().map(|word| (word.clone(), launch.version_of(word))).collect()
}

/// A command line with what its runner reads.
struct Launch<'a> {
    /// The runner, as it is written.
    command: &'a str,
    /// Its arguments before the package.
    args: &'a [String],
    /// Whether it may read something else than it would in the server's environment.
    is_changed: bool,
    words: &'a [PackageWord],
    /// The environment of the server.
    sources: Environment,
    env: &'a BTreeMap<String, String>,
    cwd: &'a Path,
}

impl Launch<'_> {
    fn version_of(&self, word: &PackageWord) -> Result<InstalledPackage, UnknownVersion> {
        match word.requirement {
            Requirement::Alias => return Err(UnknownVersion::Alias),
            Requirement::Elsewhere => return Err(UnknownVersion::Elsewhere),
            _ if self.is_changed => return Err(UnknownVersion::Changed),
            _ => {}
        }
        let found = match word.launcher {
            Launcher::Npm => npm::npx(self, word),
            Launcher::Pnpm => npm::pnpm(self, word),
            Launcher::Bun => npm::bun(self, word),
            Launcher::Yarn => Err(UnknownVersion::NotKept),
            Launcher::Uv => python::uv(self, word),
            Launcher::Pipx => python::pipx(self, word),
            Launcher::Docker | Launcher::Podman => images::digest(self, word),
        }?;
        let integrity = found.integrity.filter(|integrity| is_word(integrity));
        // A server may have written it.
        let is_fit = word.launcher.is_version(&found.version);
        if is_fit { Ok(InstalledPackage { integrity, ..found }) } else { Err(UnknownVersion::NotExact) }
    }

    /// The value of one of these options of the runner.
    fn option(&self, option: &str) -> Option<&str> {
        self.args.iter().enumerate().find_map(|(index, word)| match word.strip_prefix(option)? {
            "" => self.args.get(index + 1).map(String::as_str),
            rest => rest.strip_prefix('='),
        })
    }

    /// A directory as the runner sees it.
    fn directory(&self, path: &str) -> PathBuf {
        self.cwd.join(path)
    }
}

/// Whether it is a checksum: one short word without anything that a configuration or a terminal could take for more.
fn is_word(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".-+_/=:".contains(c);
    (1..200).contains(&text.len()) && text.chars().all(is_part)
}

/// The text of a regular file. A server may have put anything else there.
fn text(path: &Path) -> Option<String> {
    Process.read(path, MAX_FILE).ok()
}

fn json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_str(&text(path)?).ok()
}

/// The names in a directory that satisfy `is_chosen`.
fn entries(directory: &Path, is_chosen: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let names = Process.list(directory).unwrap_or_default();
    let mut names: Vec<_> = names.into_iter().filter(|name| is_chosen(name)).collect();
    names.sort_unstable();
    names.into_iter().map(|name| directory.join(name)).collect()
}

#[cfg(test)]
mod tests;
