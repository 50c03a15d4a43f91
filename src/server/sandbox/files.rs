//! The files of a server at level `files`: the system, its own program, its own directories, and what the configuration adds.
//!
//! Runs in the stage: only there the server's own environment says which program runs.
//!
//! A server can replace everything in its writable directories by links, and a guest what lies in its own. So no grant is derived from
//! what lies in writable directories, each path is [opened once](super::opened), and the stage works in these directories only after it
//! has restricted itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::FileRules;
use super::opened::OpenedPath;
use crate::config::ProtectedDirectories;
use crate::server::launch_spec::{LaunchSpec, find_in_path};
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
    "/run/systemd/resolve",
    "/sbin",
    "/usr",
    "/var/lib/ca-certificates",
];
/// What every program may read of the kernel, unless it has namespaces of its own: there, `/proc` is its own, too.
const KERNEL: &[&str] = &["/proc", "/sys"];
/// The file that names the servers of DNS. It may be a link to any place.
const RESOLVER: &str = "/etc/resolv.conf";
/// The devices that every program may use.
const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];
/// Programs whose first argument that names a file is a script.
const INTERPRETERS: &[&str] =
    &["bash", "bun", "deno", "java", "node", "perl", "php", "python", "ruby", "sh", "ts-node", "tsx"];
/// Files that mark the directory of a project. A script may load other files below it.
const PROJECT_MARKERS: &[&str] = &["package.json", "node_modules", "pyproject.toml", "deno.json", "Gemfile"];
/// The parts of an installation in a hidden directory of the home directory, such as `~/.cargo`, which also has other files.
const INSTALLED: &[&str] = &["bin", "lib", "lib64", "libexec"];
/// The maximum number of links and interpreters that lead from a command to its programs.
const MAX_HOPS: usize = 16;
/// The maximum length of the first line of a script.
const MAX_SHEBANG: u64 = 4096;

/// A path that a server may use.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) opened: OpenedPath,
    /// Whether the server may also write there.
    pub(super) writes: bool,
}

impl Grant {
    pub(super) fn read(opened: OpenedPath) -> Self {
        Self { opened, writes: false }
    }

    pub(super) fn write(opened: OpenedPath) -> Self {
        Self { opened, writes: true }
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
pub(super) fn system() -> Vec<Grant> {
    let open = |path: &&str| OpenedPath::open(Path::new(path)).ok();
    let read = SYSTEM.iter().chain([&RESOLVER]).filter_map(open).map(Grant::read);
    read.chain(DEVICES.iter().filter_map(open).map(Grant::write)).collect()
}

/// The paths of the server that `program` runs.
pub(super) fn grants(rules: &FileRules, spec: &LaunchSpec, program: &Path) -> Result<Vec<Grant>, StartError> {
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
    for path in overridden.iter().filter(|path| !path.exists() && !writable.contains(path)) {
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
                grants.push((path, Grant::write(opened)));
            }
            Err(_) if overridden.contains(path) => {}
            Err(_) if Some(path) == cwd => return Err(StartError::NoWorkingDirectory(path.clone())),
            Err(_) => return Err(missing(path)),
        }
    }
    writable.0.extend(grants.iter().map(|(_, grant)| grant.opened.real.clone()));
    for path in &rules.read {
        grants.push((path, Grant::read(OpenedPath::open(path).map_err(|_| missing(path))?)));
    }
    // The server can replace the others, and what is really there is granted already.
    grants.retain(|(path, grant)| !writable.contains(path) && !writable.leads_to(&grant.opened));
    for (path, grant) in &grants {
        check(path, &grant.opened.real, protected)?;
    }

    let mut programs =
        Programs { protected, writable: &writable, env: &spec.env, cwd: &spec.cwd, found: BTreeSet::new() };
    programs.add(program);
    if let Some(script) = script(spec, program).filter(|script| !writable.contains(script)) {
        programs.add(&script);
        programs.add_directory(project(&script));
    }
    let system = if rules.has_namespaces { &[RESOLVER][..] } else { KERNEL };
    let system = SYSTEM.iter().chain(system).map(PathBuf::from).chain(rules.agent_sockets.clone());
    let open = |path: PathBuf| OpenedPath::open(&path).ok().filter(|opened| !writable.leads_to(opened));
    let programs = programs.found.into_iter().filter_map(open);
    let programs = programs.filter(|opened| protected.opened_by(&opened.real).is_none());
    let private = [&rules.private].into_iter().cloned().chain(DEVICES.iter().map(PathBuf::from));
    let private = private.filter_map(open).map(Grant::write);
    let configured = grants.into_iter().map(|(_, grant)| grant);
    Ok(system.filter_map(open).chain(programs).map(Grant::read).chain(configured).chain(private).collect())
}

/// The directories in which the server can replace files, as they are written and without links.
struct Writable(Vec<PathBuf>);

impl Writable {
    fn new<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Self {
        Self(paths.flat_map(|path| [Some(path.clone()), fs::canonicalize(path).ok()]).flatten().collect())
    }

    /// Whether a parent of `path` is one of them or lies in one. Then the server can replace what `path` names.
    fn contains(&self, path: &Path) -> bool {
        let parents = path.ancestors().skip(1);
        parents
            .into_iter()
            .any(|parent| self.covers(parent) || fs::canonicalize(parent).is_ok_and(|real| self.covers(&real)))
    }

    /// Whether the server can replace something on the way to `opened`.
    fn leads_to(&self, opened: &OpenedPath) -> bool {
        let mut places = opened.links.iter().map(|link| &link.place).chain([&opened.real]);
        places.any(|place| place.parent().is_some_and(|parent| self.covers(parent)))
    }

    fn covers(&self, path: &Path) -> bool {
        self.0.iter().any(|directory| path.starts_with(directory))
    }
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

/// The script that an interpreter is called with.
fn script(spec: &LaunchSpec, program: &Path) -> Option<PathBuf> {
    let name = program.file_name()?.to_str()?.trim_end_matches(|end: char| end.is_ascii_digit() || end == '.');
    if !INTERPRETERS.contains(&name) {
        return None;
    }
    let paths = spec.args.iter().filter(|argument| !argument.starts_with('-')).map(|path| spec.cwd.join(path));
    paths.into_iter().find(|path| path.is_file())
}

/// The directory of the project that a script belongs to, else the directory of the script.
fn project(script: &Path) -> PathBuf {
    let script = fs::canonicalize(script).unwrap_or_else(|_| script.to_owned());
    let parents = script.ancestors().skip(1);
    let marked = parents.into_iter().find(|parent| PROJECT_MARKERS.iter().any(|marker| parent.join(marker).exists()));
    marked.or(script.parent()).unwrap_or(Path::new("/")).to_owned()
}

/// Collects the files and directories of the programs that a command runs.
struct Programs<'d> {
    protected: &'d ProtectedDirectories,
    writable: &'d Writable,
    env: &'d BTreeMap<String, String>,
    cwd: &'d Path,
    found: BTreeSet<PathBuf>,
}

impl Programs<'_> {
    /// Adds `program`, the targets of its links, its interpreters, and where each of them is installed. Stops at a file that the server
    /// can replace.
    fn add(&mut self, program: &Path) {
        let mut next = vec![program.to_owned()];
        for _ in 0..MAX_HOPS {
            let Some(path) = next.pop().filter(|path| !self.writable.contains(path)) else { return };
            let directory = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
            let Some(path) = directory.zip(path.file_name()).map(|(parent, name)| parent.join(name)) else { continue };
            self.add_installation(&path);
            match fs::read_link(&path) {
                Ok(target) => next.push(path.parent().unwrap_or(Path::new("/")).join(target)),
                Err(_) => next.extend(self.interpreter(&path)),
            }
            self.found.insert(path);
        }
    }

    /// Adds `PREFIX` of `PREFIX/bin/PROGRAM`, or the directory of the program. Version managers have `PREFIX/shims/PROGRAM`, a script
    /// that starts a program in another directory of theirs.
    fn add_installation(&mut self, program: &Path) {
        let Some(directory) = program.parent() else { return };
        let is_named =
            |names: &[&str]| directory.file_name().is_some_and(|name| names.iter().any(|known| name == *known));
        let prefix = directory.parent().unwrap_or(directory);
        if !is_named(&["bin", "sbin"]) {
            let installation = if is_named(&["shims"]) { prefix } else { directory };
            return self.add_directory(installation.to_owned());
        }
        let is_hidden = prefix.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden && prefix.parent() == self.protected.home.as_deref() {
            INSTALLED.iter().for_each(|part| self.add_directory(prefix.join(part)));
        } else {
            self.add_directory(prefix.to_owned());
        }
    }

    /// Adds `directory`, unless that would open a protected one.
    fn add_directory(&mut self, directory: PathBuf) {
        if self.protected.opened_by(&directory).is_none() {
            self.found.insert(directory);
        }
    }

    /// The program that the first line of a script names.
    fn interpreter(&self, script: &Path) -> Option<PathBuf> {
        let mut line = String::new();
        BufReader::new(File::open(script).ok()?.take(MAX_SHEBANG)).read_line(&mut line).ok()?;
        let mut words = line.strip_prefix("#!")?.split_whitespace();
        let program = PathBuf::from(words.next()?);
        if program.file_name()? != "env" {
            return Some(program);
        }
        let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
        find_in_path(name, self.env.get("PATH")?, self.cwd)
    }
}
