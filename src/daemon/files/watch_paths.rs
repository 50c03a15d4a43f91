//! The directories and names to watch: every name on the way to a configuration file, including links.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::config::default_path;
use crate::config::interpolate::{FileId, Process, Sources};

/// Maximum number of links followed from one name, as in the kernel (path_resolution(7)).
const MAX_LINKS: usize = 40;
/// Name of the directory whose files are all part of the configuration.
const DIRECTORY: &str = "config.d";

/// The names to watch, by directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WatchPaths {
    names: BTreeMap<PathBuf, BTreeSet<OsString>>,
    /// The directory whose files are all part of the configuration.
    many: Option<PathBuf>,
    /// The identity of each directory, in the order of `names`, to notice that one was replaced. `None` if it does not exist.
    found: Vec<Option<FileId>>,
}

impl WatchPaths {
    /// The paths of `files`, and with `defaults` those of the default files. The files need not exist.
    pub(super) fn of(files: &[PathBuf], defaults: bool) -> Self {
        let own = default_path(&Process).filter(|_| defaults);
        let machine = defaults.then(|| Process.system_config());
        let many = own.as_ref().map(|own| own.with_file_name(DIRECTORY));
        let mut names = names(files.iter().chain(&own).chain(&machine).chain(&many));
        if let Some(many) = &many {
            // `have_among_many` covers these names.
            names.entry(many.clone()).or_default().retain(|name| !is_read(name));
        }
        let id = |directory: &PathBuf| directory.metadata().map(|found| (found.dev(), found.ino())).ok();
        let found = names.keys().map(id).collect();
        Self { names, many, found }
    }

    pub(super) fn directories(&self) -> impl Iterator<Item = &PathBuf> {
        self.names.keys()
    }

    /// Whether `name` in `directory` is watched.
    pub(super) fn have(&self, directory: &Path, name: &OsStr) -> bool {
        self.names.get(directory).is_some_and(|names| names.contains(name))
    }

    /// Whether `name` is a configuration file in the directory whose files are all read.
    pub(super) fn have_among_many(&self, directory: &Path, name: &OsStr) -> bool {
        self.many.as_deref() == Some(directory) && is_read(name)
    }
}

fn is_read(name: &OsStr) -> bool {
    !name.as_bytes().starts_with(b".") && name.as_bytes().ends_with(b".toml")
}

/// The names on the way to each of `files`, by directory, through every link.
fn names<'a>(files: impl Iterator<Item = &'a PathBuf>) -> BTreeMap<PathBuf, BTreeSet<OsString>> {
    let mut all = BTreeMap::new();
    files.for_each(|file| follow(file, &mut all, MAX_LINKS));
    all
}

fn follow(path: &Path, all: &mut BTreeMap<PathBuf, BTreeSet<OsString>>, links: usize) {
    let Ok(path) = std::path::absolute(path) else { return };
    let mut at = PathBuf::new();
    let mut components = path.components();
    while let Some(component) = components.next() {
        let directory = at.clone();
        at.push(component);
        let Component::Normal(name) = component else { continue };
        let target = std::fs::read_link(&at);
        let is_last = components.as_path().as_os_str().is_empty();
        if is_last || target.is_ok() || !at.exists() {
            all.entry(directory.clone()).or_default().insert(name.to_owned());
        }
        match target {
            Ok(target) if links > 0 => {
                return follow(&directory.join(target).join(components.as_path()), all, links - 1);
            }
            _ if !at.exists() => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_found_where_every_link_on_the_way_to_it_is() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path().canonicalize().expect("it is there");
        let at = |name: &str| root.join(name);
        fs::create_dir_all(at("real/deep")).expect("its own");
        fs::write(at("real/deep/file"), "").expect("its own");
        symlink("real", at("now")).expect("its own");
        symlink("../now/deep/file", at("real/link")).expect("its own");
        let found = |path: &str| -> Vec<(String, Vec<String>)> {
            let text = |path: &Path| path.strip_prefix(&root).unwrap_or(path).display().to_string();
            let texts = |names: &BTreeSet<OsString>| names.iter().map(|name| name.display().to_string()).collect();
            names([at(path)].iter()).iter().map(|(directory, all)| (text(directory), texts(all))).collect()
        };
        let expect = |path: &str, expected: &[(&str, &[&str])]| {
            let expected: Vec<_> = expected
                .iter()
                .map(|(directory, names)| {
                    ((*directory).to_owned(), names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
                })
                .collect();
            assert_eq!(found(path), expected, "{path}");
        };
        expect("real/deep/file", &[("real/deep", &["file"])]);
        expect("now/deep/file", &[("", &["now"]), ("real/deep", &["file"])]);
        expect("real/link", &[("real", &["link"]), ("real/..", &["now"]), ("real/../real/deep", &["file"])]);
        expect("no/such/file", &[("", &["no"])]);
        symlink("loop", at("loop")).expect("its own");
        expect("loop", &[("", &["loop"])]);
    }
}
