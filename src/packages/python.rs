//! Python packages: `uvx` and `pipx run`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pep440_rs::Version;

use super::{InstalledPackage, Launch, UnknownVersion, entries, json};
use crate::config::interpolate::Sources;
use crate::config::known_commands::{PackageWord, Requirement, normalized, permits};

/// `uvx` runs an installed tool that meets the requirement, or else the newest such version, for which its cache has an environment.
/// Source: docs.astral.sh/uv/concepts/tools.
pub(super) fn uv(launch: &Launch<'_>, word: &PackageWord) -> Result<InstalledPackage, UnknownVersion> {
    let sources = &launch.sources;
    let data = || sources.directory_or("XDG_DATA_HOME", ".local/share").map(|data| data.join("uv/tools"));
    let tools = sources.directory("UV_TOOL_DIR").or_else(data);
    let is_newest = matches!(&word.requirement, Requirement::Range(tag) if tag == "latest");
    let tool = tools.filter(|_| !is_newest).map(|tools| tools.join(normalized(&word.name)));
    let fits = |version: &Version| permits(&word.requirement, version).unwrap_or_default();
    if let Some(version) = tool.and_then(|tool| version_in(&tool, word)).filter(fits) {
        return Ok(package(word, &version));
    }
    let cache = launch.option("--cache-dir").map(|path| launch.directory(path));
    let cache = cache.or_else(|| sources.directory("UV_CACHE_DIR"));
    let cache = cache.or_else(|| Some(sources.cache_home()?.join("uv"))).ok_or(UnknownVersion::NotInstalled)?;
    let kinds = entries(&cache, |name| name.starts_with("environments-"));
    let interpreters = kinds.iter().flat_map(|kind| entries(kind, |_| true));
    let environments = interpreters.flat_map(|interpreter| entries(&interpreter, |name| !name.ends_with(".lock")));
    let mut versions: Vec<_> = environments.filter_map(|one| version_in(&one, word)).filter(fits).collect();
    // uv chooses a pre-release only if there is nothing else, or if it is named.
    let is_final = |version: &Version| !version.any_prerelease();
    if versions.iter().any(is_final) && word.version().is_none() {
        versions.retain(is_final);
    }
    versions.into_iter().max().map(|version| package(word, &version)).ok_or(UnknownVersion::NotInstalled)
}

fn package(word: &PackageWord, version: &Version) -> InstalledPackage {
    InstalledPackage { name: word.name.clone(), version: version.to_string(), integrity: None }
}

/// The version of the package in this environment. Source: packaging.python.org, "Recording installed projects".
fn version_in(environment: &Path, word: &PackageWord) -> Option<Version> {
    let name = normalized(&word.name);
    let interpreters = entries(&environment.join("lib"), |name| name.starts_with("python"));
    interpreters
        .iter()
        .flat_map(|python| entries(&python.join("site-packages"), |name| name.ends_with(".dist-info")))
        .find_map(|information| {
            let (package, version) = information.file_stem()?.to_str()?.rsplit_once('-')?;
            (normalized(package) == name).then(|| Version::from_str(version).ok())?
        })
}

/// `pipx run` makes an environment for each command line. Since version 1.18 it leaves that to uv, if uv is installed.
/// Source: pipx.pypa.io/stable/docs.
pub(super) fn pipx(launch: &Launch<'_>, word: &PackageWord) -> Result<InstalledPackage, UnknownVersion> {
    let sources = &launch.sources;
    let home = |directory: &str| sources.home().map(|home| home.join(directory).join(".cache"));
    let own = sources.directory("PIPX_HOME").map(|home| home.join(".cache"));
    let caches =
        [own, sources.cache_home().map(|cache| cache.join("pipx")), home(".local/share/pipx"), home(".local/pipx")];
    let environments = caches.into_iter().flatten().flat_map(|cache| entries(&cache, |name| !name.starts_with('.')));
    let newest =
        environments.filter_map(|environment| environment_of(&environment, word)).max_by_key(|(made, _)| *made);
    newest.map_or_else(|| uv(launch, word), |(_, version)| Ok(package(word, &version)))
}

/// When `pipx` has made this environment for the word, and with which version.
fn environment_of(environment: &Path, word: &PackageWord) -> Option<((i64, i64), Version)> {
    let file: PathBuf = environment.join("pipx_metadata.json");
    let metadata = json(&file)?;
    let main = metadata.get("main_package")?;
    let text = |key: &str| main.get(key)?.as_str();
    if normalized(text("package")?) != normalized(&word.name) || text("package_or_url")? != word.text {
        return None;
    }
    let version = Version::from_str(text("package_version")?).ok()?;
    let metadata = file.metadata().ok()?;
    Some(((metadata.mtime(), metadata.mtime_nsec()), version))
}
