//! What a server has touched outside of its own directories, from its trace. Pure.
//!
//! A server on trial has a home directory of its own, so what it looks for in the home directory is missing there. The path of the same
//! file in the person's home directory stands for it here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::observed::{Endpoint, FileUse, Observed, Reach};
use super::secrets::{Secret, secret_at};
use crate::config::interpolate::Sources;
use crate::trial::Places;

/// What belongs to the system. Each server may read it, and no server gets grants for it.
const SYSTEM: &[&str] = &[
    "/bin",
    "/dev",
    "/etc",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/opt",
    "/proc",
    "/run/current-system",
    "/run/systemd",
    "/sbin",
    "/sys",
    "/usr",
    "/var/lib/ca-certificates",
    "/var/run/nscd",
];
/// What a server with namespaces has for itself.
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

/// A path, and the secret that it is.
#[derive(Debug, Clone)]
pub(crate) struct TouchedPath {
    pub(crate) path: PathBuf,
    pub(crate) secret: Option<&'static Secret>,
}

/// What a server has touched outside of its own directories.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Files of the paths that its command line names.
    pub(crate) read: Vec<PathBuf>,
    /// Files of its installation.
    pub(crate) installation: Vec<PathBuf>,
    /// Files that it looked for and did not get, and that exist for the person or are secrets.
    pub(crate) missed: Vec<TouchedPath>,
    /// What it has created, changed or deleted.
    pub(crate) wrote: Vec<PathBuf>,
    /// What it could not create or change.
    pub(crate) refused_writes: Vec<PathBuf>,
    pub(crate) connections: BTreeMap<Endpoint, Reach>,
}

impl Touched {
    pub(crate) fn of(observed: &Observed, places: &Places, has_namespaces: bool, sources: &dyn Sources) -> Self {
        let mut touched = Self::default();
        let home = sources.home();
        let is_system = |path: &Path| {
            let temporary = if has_namespaces { TEMPORARY } else { &[] };
            SYSTEM.iter().chain(temporary).any(|system| path.starts_with(system))
        };
        let named: Vec<_> = places.named.iter().map(|named| named.path.as_path()).collect();
        let mut missed = BTreeMap::new();
        for (seen, uses) in observed.files.iter().filter(|(path, _)| path.is_absolute()) {
            let in_home = (!places.home.as_os_str().is_empty()).then(|| seen.strip_prefix(&places.home).ok()).flatten();
            let is_own = !places.private.as_os_str().is_empty() && seen.starts_with(&places.private);
            let is_named = named.iter().any(|named| seen.starts_with(named));
            let path = match (in_home, &home) {
                (Some(below), Some(home)) => home.join(below),
                _ => seen.clone(),
            };
            let is_outside = !is_own && !is_named && !is_system(seen);
            let is_read = uses.contains(&FileUse::Read) || uses.contains(&FileUse::Looked);
            let failed = uses.contains(&FileUse::Missing) || uses.contains(&FileUse::Refused);
            // Names say little of a part of the installation. Own files may have any name.
            let is_installed = is_outside && uses.contains(&FileUse::Read);
            let is_reported = !is_installed && (failed || is_named || !is_own && uses.contains(&FileUse::Read));
            // Names of other files of the system say nothing. The places of a trial may lie below a directory of the system.
            let counts = |secret: &&'static Secret| {
                is_reported && (secret.is_of_system() || in_home.is_some() || is_named || !is_system(seen))
            };
            let secret = secret_at(&path, home.as_deref()).filter(counts);
            let is_file = || sources.exists(&path) && sources.list(&path).is_err();
            let is_missed = failed && (in_home.is_some() || is_outside) && is_file();
            if secret.is_some() || is_missed {
                missed.insert(path.clone(), secret);
            }
            if is_named && is_read {
                touched.read.push(path);
            } else if is_installed {
                touched.installation.push(path);
            }
            if (is_named || is_outside) && uses.contains(&FileUse::Wrote) {
                touched.wrote.push(seen.clone());
            }
            if is_outside && uses.contains(&FileUse::WriteFailed) && !is_own {
                touched.refused_writes.push(seen.clone());
            }
        }
        touched.missed = missed.into_iter().map(|(path, secret)| TouchedPath { path, secret }).collect();
        // Sockets of services that every resolver tries.
        let is_reported = |to: &Endpoint, reach: &Reach| match to {
            Endpoint::Unix(path) => {
                *reach == Reach::Reached || secret_at(path, home.as_deref()).is_some() || !is_system(path)
            }
            _ => true,
        };
        let connections = observed.connections.iter().filter(|(to, reach)| is_reported(to, reach));
        touched.connections = connections.map(|(to, reach)| (to.clone(), reach.clone())).collect();
        for to in touched.connections.keys() {
            if let Endpoint::Unix(path) = to
                && let Some(secret) = secret_at(path, home.as_deref())
                && !touched.missed.iter().any(|known| known.path == *path)
            {
                touched.missed.push(TouchedPath { path: path.clone(), secret: Some(secret) });
            }
        }
        touched
    }
}

/// Paths of one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) directory: PathBuf,
    /// The number of paths.
    pub(crate) count: usize,
    /// Their names, if there are few.
    pub(crate) names: Vec<String>,
}

/// Groups `paths` by directory: at most `most` groups, which lie in as few directories above as that needs.
pub(crate) fn grouped(paths: &[PathBuf], most: usize, most_names: usize) -> Vec<Group> {
    let mut groups: BTreeMap<PathBuf, BTreeSet<&Path>> = BTreeMap::new();
    for path in paths {
        let directory = path.parent().unwrap_or(Path::new("/"));
        groups.entry(directory.to_owned()).or_default().insert(path);
    }
    while groups.len() > most {
        let depth = |directory: &Path| directory.components().count();
        let Some(deepest) = groups.keys().map(|directory| depth(directory)).max().filter(|depth| *depth > 1) else {
            break;
        };
        let moved: Vec<_> = groups.keys().filter(|directory| depth(directory) == deepest).cloned().collect();
        for directory in moved {
            let (Some(paths), Some(parent)) = (groups.remove(&directory), directory.parent()) else { continue };
            groups.entry(parent.to_owned()).or_default().extend(paths);
        }
    }
    let group = |(directory, paths): (PathBuf, BTreeSet<&Path>)| {
        let names = paths.iter().filter_map(|path| path.strip_prefix(&directory).ok());
        let names = names.take(most_names).map(|name| name.display().to_string()).collect();
        let count = paths.len();
        Group { directory, count, names: if count <= most_names { names } else { Vec::new() } }
    };
    groups.into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::interpolate::tests::table::Table;
    use crate::trial::NamedPath;

    fn observed(files: &[(&str, FileUse)]) -> Observed {
        let files = files.iter().map(|(path, uses)| (PathBuf::from(path), BTreeSet::from([*uses]))).collect();
        Observed { files, ..Observed::default() }
    }

    fn places() -> Places {
        Places {
            private: "/state/trial".into(),
            home: "/state/trial/home".into(),
            named: vec![NamedPath { path: "/srv/notes".into(), is_copied: true }],
        }
    }

    fn shown(paths: &[PathBuf]) -> Vec<String> {
        paths.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn own_files_and_the_system_are_left_out() {
        let sources =
            Table::from([("~", "/home/u"), ("/home/u/.gitconfig", "x"), ("/data/real", "x"), ("/home/u/.npmrc", "x")]);
        let observed = observed(&[
            ("/usr/lib/libc.so", FileUse::Read),
            ("/tmp/x", FileUse::Wrote),
            ("/state/trial/home/.cache/x", FileUse::Wrote),
            ("/state/trial/home/.gitconfig", FileUse::Missing),
            ("/state/trial/home/.absent", FileUse::Missing),
            ("/state/trial/home/.ssh/id_rsa", FileUse::Missing),
            ("/srv", FileUse::Looked),
            ("/srv/notes", FileUse::Looked),
            ("/srv/notes/a", FileUse::Read),
            ("/srv/notes/b", FileUse::Wrote),
            ("/data/real", FileUse::Missing),
            ("/data/absent", FileUse::Missing),
            ("/data/new", FileUse::WriteFailed),
            ("/etc/shadow", FileUse::Refused),
            ("/home/u/.nvm/versions/node/bin/token", FileUse::Read),
            ("relative", FileUse::Read),
        ]);
        let touched = Touched::of(&observed, &places(), true, &sources);
        assert_eq!(shown(&touched.read), ["/srv/notes", "/srv/notes/a"]);
        assert_eq!(shown(&touched.wrote), ["/srv/notes/b"]);
        assert_eq!(shown(&touched.refused_writes), ["/data/new"]);
        assert_eq!(shown(&touched.installation), ["/home/u/.nvm/versions/node/bin/token"]);
        let missed: Vec<_> =
            touched.missed.iter().map(|one| (one.path.display().to_string(), one.secret.is_some())).collect();
        let expected = [
            ("/data/real", false),
            ("/etc/shadow", true),
            ("/home/u/.gitconfig", false),
            ("/home/u/.ssh/id_rsa", true),
        ];
        assert_eq!(missed, expected.map(|(path, is_secret)| (path.to_owned(), is_secret)));
    }

    #[test]
    fn paths_are_grouped_into_few_directories() {
        let paths: Vec<_> = ["/a/b/c/1", "/a/b/c/2", "/a/b/d/3", "/x/4"].map(PathBuf::from).into();
        let groups = |most| {
            let groups = grouped(&paths, most, 2);
            groups
                .into_iter()
                .map(|group| format!("{} {} {:?}", group.directory.display(), group.count, group.names))
                .collect::<Vec<_>>()
        };
        assert_eq!(groups(3), [r#"/a/b/c 2 ["1", "2"]"#, r#"/a/b/d 1 ["3"]"#, r#"/x 1 ["4"]"#]);
        assert_eq!(groups(2), ["/a/b 3 []", r#"/x 1 ["4"]"#]);
        assert_eq!(groups(1), ["/ 4 []"]);
    }
}
