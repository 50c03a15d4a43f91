//! The files of a server at level `files`: the system, its own program, its own directories, and what the configuration adds.
//!
//! Runs in the stage: only there the server's own environment says which program runs.
//!
//! A server can replace everything in its writable directories by links, and a guest what lies in its own. So no grant is derived from
//! what lies in writable directories, each path is [opened once](super::opened), and the stage works in these directories only after it
//! has restricted itself.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::FileRules;
use super::namespaces::TEMPORARY;
use super::opened::OpenedPath;
use super::programs::{self, Writable};
use crate::config::ProtectedDirectories;
use crate::server::launch_spec::LaunchSpec;
use crate::server::start_error::StartError;

/// What every program may read: the system, and how host names are resolved.
pub(super) const SYSTEM: &[&str] = &[
    "/bin",
    "/etc",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/opt",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/resolvconf",
    RESOLVED,
    "/sbin",
    "/usr",
    "/var/lib/ca-certificates",
];
/// Where systemd-resolved has its files, and also its sockets.
const RESOLVED: &str = "/run/systemd/resolve";
/// What every program may read of the kernel, unless it has namespaces of its own: there, `/proc` is its own, too.
const KERNEL: &[&str] = &["/proc", "/sys"];
/// The file that names the servers of DNS. It may be a link to any place.
const RESOLVER: &str = "/etc/resolv.conf";
/// The devices that every program may use.
const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];

/// A path that a server may use.
#[derive(Debug)]
pub(super) struct FileGrant {
    pub(super) opened: OpenedPath,
    /// Whether the server may also write there.
    pub(super) writes: bool,
    /// Whether what it writes goes to memory ([`copies`](super::copies)).
    pub(super) is_copied: bool,
}

impl FileGrant {
    pub(super) fn read(opened: OpenedPath) -> Self {
        Self { opened, writes: false, is_copied: false }
    }

    pub(super) fn write(opened: OpenedPath) -> Self {
        Self { opened, writes: true, is_copied: false }
    }
}

/// The directories for temporary files in the private directory of a server.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct TemporaryDirectories {
    /// The one of this instance.
    own: String,
    /// Those of processes that have ended.
    unused: Vec<String>,
}

impl TemporaryDirectories {
    /// The names of directories are ids of processes. `own` lives as long as the instance. If an id was reused, its directory stays until
    /// that process has ended, too. Only looks at names, since the server can replace the directories by links.
    pub(super) fn of(rules: &FileRules, own: u32) -> Self {
        let directory = rules.private.join("tmp");
        let names = fs::read_dir(directory).into_iter().flatten().flatten();
        let ids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let unused = ids.filter(|id| !Path::new("/proc").join(id.to_string()).exists());
        Self { own: own.to_string(), unused: unused.map(|id| id.to_string()).collect() }
    }

    /// The one of this instance, unless `env` names another place.
    pub(super) fn path(&self, rules: &FileRules, env: &BTreeMap<String, String>) -> Option<PathBuf> {
        let directory = rules.private.join("tmp");
        (env.get("TMPDIR").map(Path::new) == Some(&directory)).then(|| directory.join(&self.own))
    }
}

/// Creates the private directory of the server, and the default working directory in it. If the server has replaced the latter by a
/// link, nothing is created where the link leads.
pub(super) fn create_private(rules: &FileRules) -> io::Result<()> {
    create(&super::private_cwd(&rules.private))
}

/// Creates the other directories in the private one. `TMPDIR` becomes a directory of this instance, and unused ones are removed.
/// Must run inside the domain.
pub(super) fn fill_private(
    rules: &FileRules,
    temporary: &TemporaryDirectories,
    env: &mut BTreeMap<String, String>,
) -> io::Result<()> {
    for (name, path) in rules.variables() {
        if env.get(name).map(Path::new) == Some(&path) {
            create(&path)?;
            if name == "TMPDIR" {
                for unused in &temporary.unused {
                    let _ = fs::remove_dir_all(path.join(unused));
                }
                let own = path.join(&temporary.own);
                create(&own)?;
                let own = if rules.has_namespaces { Path::new(TEMPORARY) } else { &own };
                env.insert(name.to_owned(), own.to_string_lossy().into_owned());
            }
        }
    }
    Ok(())
}

fn create(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// The paths that every server with namespaces may use.
pub(super) fn system() -> Vec<FileGrant> {
    let open = |path: &&str| OpenedPath::open(Path::new(path)).ok();
    let read = SYSTEM.iter().chain([&RESOLVER]).filter_map(open).map(FileGrant::read);
    read.chain(DEVICES.iter().filter_map(open).map(FileGrant::write)).collect()
}

/// The paths of the server that `program` runs.
pub(super) fn grants(rules: &FileRules, spec: &LaunchSpec, program: &Path) -> Result<Vec<FileGrant>, StartError> {
    let protected = &with_canonical(&rules.protected);
    let missing = |path: &PathBuf| StartError::SandboxPath { path: path.clone(), opens: None };
    let overridden: Vec<_> = rules
        .variables()
        .into_iter()
        .filter(|(name, _)| *name != super::HOME)
        .filter_map(|(name, _)| spec.env.get(name).map(PathBuf::from))
        .filter(|path| path.is_absolute() && !path.starts_with(&rules.private))
        .collect();
    let own_cwd = spec.cwd.starts_with(&rules.private);
    let cwd = (!own_cwd).then_some(&spec.cwd);
    let write = || rules.write.iter().chain(&overridden).chain(cwd);
    let mut writable = Writable::new(write().chain([&rules.private]));
    let missing_directories = overridden.iter().filter(|path| !path.exists() && !writable.contains(path));
    for path in missing_directories.filter(|_| !rules.copies) {
        check(path, &real_path(path), protected)?;
        let _ = fs::create_dir_all(path);
    }
    let mut grants = Vec::new();
    for path in write() {
        match OpenedPath::open(path) {
            Ok(opened) => {
                let mut links = opened.links.iter().filter(|_| Some(path) == cwd && spec.cwd_is_stated);
                if let Some(link) = links.find(|link| !link.is_of_system) {
                    return Err(StartError::LinkedDirectory { directory: path.clone(), link: link.place.clone() });
                }
                grants.push((path, FileGrant { is_copied: rules.copies, ..FileGrant::write(opened) }));
            }
            Err(_) if overridden.contains(path) => {}
            Err(_) if Some(path) == cwd => return Err(StartError::NoWorkingDirectory(path.clone())),
            Err(_) => return Err(missing(path)),
        }
    }
    writable.add(grants.iter().map(|(_, grant)| grant.opened.real.clone()));
    for path in &rules.read {
        grants.push((path, FileGrant::read(OpenedPath::open(path).map_err(|_| missing(path))?)));
    }
    // The server can replace the others, and what is really there is granted already.
    grants.retain(|(path, grant)| !writable.contains(path) && !writable.leads_to(&grant.opened));
    for (path, grant) in &grants {
        check(path, &grant.opened.real, protected)?;
    }

    let installed = programs::installed(spec, program, protected, &writable);
    let system = if rules.has_namespaces { &[RESOLVER][..] } else { KERNEL };
    let resolves = |path: &&&str| !rules.is_offline || **path != RESOLVED;
    let system = SYSTEM.iter().filter(resolves).chain(system).map(PathBuf::from).chain(rules.agent_sockets.clone());
    let open = |path: PathBuf| OpenedPath::open(&path).ok().filter(|opened| !writable.leads_to(opened));
    let installed = installed.into_iter().filter_map(open);
    let installed = installed.filter(|opened| protected.opened_by(&opened.real).is_none());
    let private = [&rules.private].into_iter().cloned().chain(DEVICES.iter().map(PathBuf::from));
    let private = private.filter_map(open).map(FileGrant::write);
    let configured = grants.into_iter().map(|(_, grant)| grant);
    Ok(system.filter_map(open).chain(installed).map(FileGrant::read).chain(configured).chain(private).collect())
}

/// `path` with its links resolved, as far as it exists.
fn real_path(path: &Path) -> PathBuf {
    let mut existing = path.ancestors().filter_map(|part| Some((fs::canonicalize(part).ok()?, part)));
    let Some((real, part)) = existing.next() else { return path.to_owned() };
    path.strip_prefix(part).map_or(real.clone(), |rest| real.join(rest))
}

/// Refuses a path that would open a protected directory, itself or by where it leads.
fn check(path: &Path, real: &Path, protected: &ProtectedDirectories) -> Result<(), StartError> {
    let opens = protected.opened_by(path).or_else(|| protected.opened_by(real));
    opens.map_or(Ok(()), |directory| {
        Err(StartError::SandboxPath { path: path.to_owned(), opens: Some(directory.to_owned()) })
    })
}

/// `protected` and where its directories lead, if they are links.
fn with_canonical(protected: &ProtectedDirectories) -> ProtectedDirectories {
    let mut all = protected.clone();
    all.own.extend(protected.own.iter().filter_map(|path| fs::canonicalize(path).ok()));
    let home = protected.home.as_ref().and_then(|home| fs::canonicalize(home).ok());
    all.home = home.or(all.home);
    all
}
