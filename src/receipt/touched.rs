//! What a server has touched outside of its own directories, from its trace. Pure.
//!
//! A server on trial has a home directory of its own, so what it looks for in the home directory is missing there. The path of the same
//! file in the person's home directory stands for it here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::observed::{Endpoint, FileUse, Observed, Reach};
use super::secrets::{Secret, Secrets};
use crate::config::ProtectedDirectories;
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
        let surroundings = Surroundings::of(places, has_namespaces, sources);
        let mut touched = Self::default();
        let mut missed = BTreeMap::new();
        for (seen, uses) in observed.files.iter().filter(|(path, _)| path.is_absolute()) {
            let is_named = surroundings.is_named(seen);
            let is_outside = surroundings.is_outside(seen);
            let path = surroundings.of_person(seen);
            let is_read = uses.contains(&FileUse::Read) || uses.contains(&FileUse::Looked);
            let is_installed = is_outside && uses.contains(&FileUse::Read);
            let secret = surroundings.secret(seen, &path, uses);
            if secret.is_some() || surroundings.is_missed(seen, &path, uses) {
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
            if is_outside && uses.contains(&FileUse::WriteFailed) {
                touched.refused_writes.push(seen.clone());
            }
        }
        touched.missed = missed.into_iter().map(|(path, secret)| TouchedPath { path, secret }).collect();
        touched.connect(observed, &surroundings);
        touched
    }

    /// Adds the connections, without those to sockets of services that every resolver tries.
    fn connect(&mut self, observed: &Observed, surroundings: &Surroundings<'_>) {
        for (to, reach) in &observed.connections {
            if let Endpoint::Unix(path) = to {
                let secret = surroundings.secrets.at(path);
                if *reach != Reach::Reached && secret.is_none() && surroundings.is_system(path) {
                    continue;
                }
                if secret.is_some() && !self.missed.iter().any(|known| known.path == *path) {
                    self.missed.push(TouchedPath { path: path.clone(), secret });
                }
            }
            self.connections.insert(to.clone(), reach.clone());
        }
    }
}

/// What tells the paths of a trace apart.
struct Surroundings<'a> {
    places: &'a Places,
    sources: &'a dyn Sources,
    secrets: Secrets<'a>,
    home: Option<PathBuf>,
    /// mcpd's directory for state, without links, as the places of a trial are.
    state: Option<PathBuf>,
    system: Vec<&'static str>,
}

impl<'a> Surroundings<'a> {
    fn of(places: &'a Places, has_namespaces: bool, sources: &'a dyn Sources) -> Self {
        let temporary = if has_namespaces { TEMPORARY } else { &[] };
        Self {
            places,
            sources,
            secrets: Secrets::of(sources),
            home: sources.home(),
            state: ProtectedDirectories::of(sources).state.map(|state| sources.real(&state)),
            system: SYSTEM.iter().chain(temporary).copied().collect(),
        }
    }

    /// The directory of the trial, if it had one.
    fn private(&self) -> Option<&Path> {
        Some(self.places.private.as_path()).filter(|private| !private.as_os_str().is_empty())
    }

    /// The part of `seen` below the trial's home directory.
    fn in_home<'p>(&self, seen: &'p Path) -> Option<&'p Path> {
        let home = Some(&self.places.home).filter(|home| !home.as_os_str().is_empty())?;
        seen.strip_prefix(home).ok()
    }

    /// The path of the same file for the person.
    fn of_person(&self, seen: &Path) -> PathBuf {
        match (self.in_home(seen), &self.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => seen.to_owned(),
        }
    }

    fn is_own(&self, seen: &Path) -> bool {
        self.private().is_some_and(|private| seen.starts_with(private))
    }

    fn is_named(&self, seen: &Path) -> bool {
        self.places.named.iter().any(|named| seen.starts_with(&named.path))
    }

    fn is_outside(&self, seen: &Path) -> bool {
        !self.is_own(seen) && !self.is_named(seen) && !self.is_system(seen)
    }

    /// Whether it belongs to the system. A home directory and the place of a trial do not, even if they lie in one of its directories.
    fn is_system(&self, path: &Path) -> bool {
        let holds = |system: &&str| {
            let is_in = |inner: &Path| inner.starts_with(system) && path.starts_with(inner);
            path.starts_with(system) && !self.secrets.homes().chain(self.private()).any(is_in)
        };
        self.system.iter().any(holds)
    }

    /// The secret that the server looked for at `seen`, or has read there. `path` is the person's.
    fn secret(&self, seen: &Path, path: &Path, uses: &BTreeSet<FileUse>) -> Option<&'static Secret> {
        let (in_home, is_named) = (self.in_home(seen).is_some(), self.is_named(seen));
        let is_read = uses.contains(&FileUse::Read);
        // Names say little of a part of the installation. Own files may have any name.
        let is_installed = is_read && self.is_outside(seen);
        let is_own = self.is_own(seen);
        let is_reported = uses.contains(&FileUse::Linked) || failed(uses) || is_named || is_read && !is_own;
        if is_installed || !is_reported || is_own && !in_home {
            return None;
        }
        let secret = self.secrets.at(path)?;
        // Names of other files of the system say nothing.
        let counts = secret.is_of_system() || in_home || is_named || !self.is_system(seen);
        (counts && (in_home || !self.is_on_the_way_up(seen, secret))).then_some(secret)
    }

    /// Whether `seen` is what a program finds that looks for a file in its working directory and in each directory above it.
    fn is_on_the_way_up(&self, seen: &Path, secret: &Secret) -> bool {
        let (Some(private), Some(state)) = (self.private(), &self.state) else { return false };
        if let (Ok(below), true) = (seen.strip_prefix(state), private.starts_with(state)) {
            // What else mcpd keeps there is not on the way.
            return below.components().next().is_none_or(|first| {
                let entry = state.join(first);
                private.starts_with(&entry) || !self.sources.exists(&entry)
            });
        }
        let is_above = seen.parent().is_some_and(|directory| private.starts_with(directory));
        is_above && secret.is_by_name() && !self.sources.exists(seen)
    }

    /// Whether the server did not get a file that the person has.
    fn is_missed(&self, seen: &Path, path: &Path, uses: &BTreeSet<FileUse>) -> bool {
        let counts = failed(uses) && (self.in_home(seen).is_some() || self.is_outside(seen));
        counts && self.sources.exists(path) && self.sources.list(path).is_err()
    }
}

fn failed(uses: &BTreeSet<FileUse>) -> bool {
    uses.contains(&FileUse::Missing) || uses.contains(&FileUse::Refused)
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

    /// What is missed, with whether it is a secret.
    fn missed(home: &str, has_namespaces: bool, files: &[(&str, FileUse)]) -> Vec<(String, bool)> {
        let private = format!("{home}/.local/state/mcpd/trials/t/trial");
        let places = Places { home: format!("{private}/home").into(), private: private.into(), named: Vec::new() };
        let exists = ["/.local/state/mcpd/pins", "/.local/.env"].map(|path| format!("{home}{path}"));
        let sources = Table::from([("~", home), (&*exists[0], ""), (&*exists[1], "x")]);
        let files: Vec<_> = files.iter().map(|(path, uses)| (path.replacen('~', home, 1), *uses)).collect();
        let files: Vec<_> = files.iter().map(|(path, uses)| (path.as_str(), *uses)).collect();
        let touched = Touched::of(&observed(&files), &places, has_namespaces, &sources);
        let missed = touched.missed.iter();
        missed.map(|one| (one.path.display().to_string().replacen(home, "~", 1), one.secret.is_some())).collect()
    }

    #[test]
    fn way_up_from_the_working_directory_leads_to_no_secret() {
        let trials = "~/.local/state/mcpd/trials";
        for (path, uses, expected) in [
            (&*format!("{trials}/t/trial/work/.git"), FileUse::Missing, None),
            (&format!("{trials}/t/trial/work/.env"), FileUse::Missing, None),
            (&format!("{trials}/t/trial/cache/npm/token"), FileUse::Refused, None),
            (&format!("{trials}/t/pyvenv.cfg"), FileUse::Missing, None),
            (&format!("{trials}/node_modules/x/package.json"), FileUse::Missing, None),
            ("~/.local/state/mcpd/.git", FileUse::Missing, None),
            ("~/.local/state/.env", FileUse::Missing, None),
            ("~/.env", FileUse::Missing, None),
            ("~/.local/.env", FileUse::Missing, Some("~/.local/.env")),
            ("~/.local/state/mcpd/pins/x", FileUse::Missing, Some("~/.local/state/mcpd/pins/x")),
            ("~/other/.env", FileUse::Missing, Some("~/other/.env")),
            ("~/.ssh", FileUse::Linked, Some("~/.ssh")),
            ("~/notes", FileUse::Linked, None),
            (
                &format!("{trials}/t/trial/home/.local/state/mcpd/pins"),
                FileUse::Missing,
                Some("~/.local/state/mcpd/pins"),
            ),
            (&format!("{trials}/t/trial/home/.ssh/id"), FileUse::Missing, Some("~/.ssh/id")),
        ] {
            // A home directory may lie in a directory of the system.
            for home in ["/home/u", "/tmp/u", "/opt/u", "/var/tmp/a/b"] {
                let expected: Vec<_> = expected.iter().map(|path| ((*path).to_owned(), true)).collect();
                assert_eq!(missed(home, true, &[(path, uses)]), expected, "{home}: {path}");
            }
        }
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
