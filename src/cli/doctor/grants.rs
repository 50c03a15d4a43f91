//! What to add to the sandbox of a server at level `files`, by the paths that it reports as missing or refused.
//!
//! A program ends at the first file that it lacks, so the directory of a file is proposed, or the installation that it belongs to.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, access};

use crate::config::{ProtectedDirectories, Sandbox};
use crate::server::sandbox::is_system;
use crate::server::{Refusal, RefusedPath};

/// The sandbox of a server, and what it lacks.
pub(super) struct Grants {
    /// The configured sandbox with the proposed paths.
    pub(super) sandbox: Sandbox,
    /// The paths that the server could not use, though this user can.
    pub(super) lacking: Vec<PathBuf>,
    /// Paths that are not proposed, each with the protected directory that it would open.
    pub(super) refused: BTreeMap<PathBuf, PathBuf>,
    /// The home directory of the user, if the server has looked for one of its files in its own home directory.
    pub(super) home: Option<PathBuf>,
    /// What the configuration lets it read.
    configured: Vec<PathBuf>,
    protected: ProtectedDirectories,
    /// The directory of the server for its own files.
    private: PathBuf,
    cwd: Option<PathBuf>,
}

impl Grants {
    /// For the server `name`, which works in `cwd`.
    pub(super) fn of(name: &str, sandbox: &Sandbox, cwd: Option<&Path>, protected: ProtectedDirectories) -> Self {
        let private = protected.servers().unwrap_or_default().join(name);
        let (lacking, refused, home) = (Vec::new(), BTreeMap::new(), None);
        let (configured, cwd) = (sandbox.read.clone(), cwd.map(Path::to_owned));
        Self { sandbox: sandbox.clone(), lacking, refused, home, configured, protected, private, cwd }
    }

    /// Proposes what would open `reported` to the server, if it exists and only the sandbox can be the reason.
    pub(super) fn add(&mut self, reported: &RefusedPath) {
        let path: PathBuf = Path::new(&reported.path).components().collect();
        let own_home = path.strip_prefix(self.private.join("home"));
        let (path, is_of_home) = match own_home.ok().zip(self.protected.home.as_ref()) {
            Some((rest, home)) => (home.join(rest), true),
            None => (path, false),
        };
        let is_plain = path.components().all(|part| part != Component::ParentDir);
        let Some(target) = path.ancestors().find(|path| path.exists()).map(Path::to_owned) else { return };
        let exists = target == path;
        if !is_plain || path.starts_with(&self.private) || is_system(&path) || is_of_home && !exists {
            return;
        }
        // What does not exist is to be created.
        let mut writes = reported.refusal == Refusal::Change || !exists;
        if is_in(&target, self.sandbox.write.iter().chain(&self.cwd)) {
            return;
        }
        if is_in(&target, &self.configured) {
            if reported.refusal == Refusal::Missing {
                return;
            }
            writes = true;
        }
        if !writes && is_in(&target, &self.sandbox.read) {
            return self.lacking.push(path);
        }
        let needed = if writes { Access::WRITE_OK } else { Access::READ_OK };
        if access(&target, needed).is_err() {
            return;
        }
        let proposed =
            self.directories(&target, writes).into_iter().find(|path| self.protected.opened_by(path).is_none());
        let Some(proposed) = proposed else {
            // An optional file that does not exist anywhere is the usual case.
            if exists && let Some(protected) = self.protected.opened_by(&path) {
                self.refused.insert(path.clone(), protected.to_owned());
            }
            return;
        };
        let Sandbox { read, write, .. } = &mut self.sandbox;
        let (list, other) = if writes { (&mut *write, Some(read)) } else { (read, None) };
        for list in [Some(&mut *list), other].into_iter().flatten() {
            list.retain(|path| !path.starts_with(&proposed));
        }
        list.push(proposed);
        if is_of_home {
            self.home.clone_from(&self.protected.home);
        }
        self.lacking.push(path);
    }

    /// The directories that could be opened for `path`, the preferred one first.
    fn directories(&self, path: &Path, writes: bool) -> Vec<PathBuf> {
        if path.is_dir() {
            return vec![path.to_owned()];
        }
        let modules = path.ancestors().filter(|path| path.ends_with("node_modules")).last();
        let environment = || path.ancestors().find(|path| path.join("pyvenv.cfg").is_file());
        let installation = modules.or_else(environment).filter(|_| !writes);
        // It may have secrets of other programs.
        let is_hidden = |directory: &&Path| {
            let name = directory.file_name().unwrap_or_default().as_encoded_bytes();
            name.starts_with(b".") && directory.parent() == self.protected.home.as_deref()
        };
        let directory = path.parent().filter(|directory| !is_hidden(directory));
        installation.into_iter().chain(directory).chain([path]).map(Path::to_owned).collect()
    }
}

fn is_in<'p>(path: &Path, directories: impl IntoIterator<Item = &'p PathBuf>) -> bool {
    let real = path.canonicalize();
    let real = real.as_deref().unwrap_or(path);
    directories.into_iter().any(|directory| {
        path.starts_with(directory) || directory.canonicalize().is_ok_and(|directory| real.starts_with(directory))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::SandboxLevel;

    #[test]
    fn directories_are_proposed_once_and_no_protected_one() {
        let place = tempfile::tempdir().expect("a directory");
        let home = place.path().join("home");
        let path = |name: &str| home.join(name);
        let files = [
            "app/node_modules/a/node_modules/b/i.js",
            "venv/pyvenv.cfg",
            "venv/lib/m.py",
            "notes/a.md",
            "notes/b.md",
            ".tool/key",
            "plain",
            "read/x",
            "write/x",
            "out/x",
            ".config/mcpd/config.toml",
        ];
        for file in files {
            fs::create_dir_all(path(file).parent().expect("a directory")).expect("a fresh directory");
            fs::write(path(file), "").expect("a fresh file");
        }
        let state = path(".local/state/mcpd");
        let own = vec![state.clone(), path(".config/mcpd")];
        let protected = ProtectedDirectories { home: Some(home.clone()), state: Some(state), own };
        let (read, write) = (vec![path("read")], vec![path("write")]);
        let sandbox = Sandbox { read, write, ..Sandbox::of_level(SandboxLevel::Files) };
        let mut grants = Grants::of("s", &sandbox, None, protected);
        let (missing, denied, change) = (Refusal::Missing, Refusal::Denied, Refusal::Change);
        let reported = [
            ("app/node_modules/a/node_modules/b/i.js", missing),
            ("venv/lib/m.py", denied),
            ("notes/a.md", missing),
            ("notes/b.md", denied),
            ("notes/none.md", change),
            (".tool/key", missing),
            (".local/state/mcpd/servers/s/home/plain", missing),
            (".local/state/mcpd/servers/s/home/none", missing),
            (".local/state/mcpd/servers/s/work/none", missing),
            ("none", missing),
            ("read/x", change),
            ("read/none", missing),
            ("write/none", missing),
            ("out/new/deep", change),
            (".config/mcpd/config.toml", denied),
            ("../../usr/none", denied),
        ];
        for (name, refusal) in reported {
            grants.add(&RefusedPath { path: path(name).display().to_string(), refusal });
        }
        grants.add(&RefusedPath { path: "/usr/bin/none".to_owned(), refusal: change });
        let paths = |names: &[&str]| names.iter().map(|name| path(name)).collect::<Vec<_>>();
        assert_eq!(grants.sandbox.read, paths(&["app/node_modules", "venv", ".tool/key", "plain"]));
        assert_eq!(grants.sandbox.write, paths(&["write", "notes", "read", "out"]));
        assert_eq!(grants.refused, [(path(".config/mcpd/config.toml"), path(".config/mcpd"))].into());
        assert_eq!((grants.lacking.len(), grants.home), (9, Some(home)));
    }
}
