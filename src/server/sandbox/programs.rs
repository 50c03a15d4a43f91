//! The files of the program that a server runs: where it is installed, what interprets it, and the packages that it loads.
//!
//! Nothing is added that would open a protected directory. Nothing is derived from a directory in which the server can replace files,
//! except which known interpreter runs a program there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::opened::OpenedPath;
use crate::config::ProtectedDirectories;
use crate::config::environment::names_certificates;
use crate::config::interpolate::{Process, Sources};
use crate::server::launch_spec::LaunchSpec;

/// Programs whose first argument that names a file is a script.
const INTERPRETERS: &[&str] =
    &["bash", "bun", "deno", "java", "node", "perl", "php", "python", "ruby", "sh", "ts-node", "tsx"];
/// Those that load packages from `node_modules` of each parent of a script (nodejs.org/api/modules.html).
const JAVASCRIPT: &[&str] = &["bun", "deno", "node", "ts-node", "tsx"];
/// Where npm and others put the programs of packages.
const BIN: &str = "node_modules/.bin";
/// Ends of the names of scripts, which other programs, such as `npx tsx` and `uv run`, also get as arguments.
const SCRIPT_ENDS: &[&str] = &["cjs", "js", "mjs", "mts", "php", "py", "rb", "ts"];
/// Files that mark the directory of a project. A script may load other files below it.
const PROJECT_MARKERS: &[&str] = &["package.json", "node_modules", "pyproject.toml", "deno.json", "Gemfile"];
/// Variables with the directories from which interpreters load packages.
const LIBRARIES: &[&str] = &["NODE_PATH", "PYTHONPATH"];
/// The parts of an installation in a hidden directory of the home directory, such as `~/.cargo`, which also has other files.
const INSTALLED: &[&str] = &["bin", "lib", "lib64", "libexec"];
/// Where `uv` installs Python, in the home directory. Links in the directory of `uv` may lead there.
const UV_PYTHONS: &str = ".local/share/uv/python";
/// The maximum number of links and interpreters that lead from a command to its programs.
const MAX_HOPS: usize = 16;
/// The maximum length of the first line of a script.
const MAX_SHEBANG: u64 = 4096;
/// The maximum length of a file that a virtual environment consists of.
const MAX_SETTINGS: u64 = 64 * 1024;

/// The directories in which the server can replace files, as they are written and without links.
pub(super) struct Writable(Vec<PathBuf>);

impl Writable {
    pub(super) fn new<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> Self {
        Self(paths.flat_map(|path| [Some(path.clone()), fs::canonicalize(path).ok()]).flatten().collect())
    }

    /// Adds directories without links.
    pub(super) fn add(&mut self, directories: impl Iterator<Item = PathBuf>) {
        self.0.extend(directories);
    }

    /// Whether a parent of `path` is one of them or lies in one. Then the server can replace what `path` names.
    pub(super) fn contains(&self, path: &Path) -> bool {
        let parents = path.ancestors().skip(1);
        parents
            .into_iter()
            .any(|parent| self.covers(parent) || fs::canonicalize(parent).is_ok_and(|real| self.covers(&real)))
    }

    /// Whether the server can replace something on the way to `opened`.
    pub(super) fn leads_to(&self, opened: &OpenedPath) -> bool {
        let mut places = opened.links.iter().map(|link| &link.place).chain([&opened.real]);
        places.any(|place| place.parent().is_some_and(|parent| self.covers(parent)))
    }

    fn covers(&self, path: &Path) -> bool {
        self.0.iter().any(|directory| path.starts_with(directory))
    }
}

/// The files and directories of the program that a server runs, and of what its variables name for all programs.
pub(super) fn installed(
    spec: &LaunchSpec,
    program: &Path,
    protected: &ProtectedDirectories,
    writable: &Writable,
) -> BTreeSet<PathBuf> {
    let mut programs = Programs { protected, writable, env: &spec.env, cwd: &spec.cwd, found: BTreeSet::new() };
    programs.add(program);
    if let Some(script) = script(spec, program).filter(|script| !writable.contains(script)) {
        programs.add(&script);
        programs.add_package(&script, is_one_of(program, JAVASCRIPT));
    }
    let paths = spec.env.iter().filter(|(name, _)| names_certificates(name) || LIBRARIES.contains(&name.as_str()));
    for path in paths.flat_map(|(_, value)| std::env::split_paths(value)).filter(|path| path.is_absolute()) {
        if !writable.contains(&path) {
            programs.add_directory(path);
        }
    }
    programs.found
}

/// Whether the program is one of `names`, of any version.
fn is_one_of(program: &Path, names: &[&str]) -> bool {
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    names.contains(&name.trim_end_matches(|end: char| end.is_ascii_digit() || end == '.'))
}

/// The script that an interpreter, or a program that runs one, is called with.
fn script(spec: &LaunchSpec, program: &Path) -> Option<PathBuf> {
    let is_interpreter = is_one_of(program, INTERPRETERS);
    let is_script = |path: &PathBuf| {
        let end = path.extension().and_then(|end| end.to_str());
        path.is_file() && (is_interpreter || end.is_some_and(|end| SCRIPT_ENDS.contains(&end)))
    };
    let paths = spec.args.iter().filter(|argument| !argument.starts_with('-')).map(|path| spec.cwd.join(path));
    paths.into_iter().find(is_script)
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
    /// Adds `program`, the targets of its links, its interpreters, and where each of them is installed.
    fn add(&mut self, program: &Path) {
        let mut next = vec![program.to_owned()];
        for _ in 0..MAX_HOPS {
            let Some(path) = next.pop() else { return };
            if self.writable.contains(&path) {
                next.extend(self.interpreter_outside(&path));
                continue;
            }
            let directory = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
            let Some(real) = directory.zip(path.file_name()).map(|(parent, name)| parent.join(name)) else { continue };
            self.add_installation(&real);
            match fs::read_link(&real) {
                Ok(target) => next.push(real.parent().unwrap_or(Path::new("/")).join(target)),
                Err(_) => {
                    let interpreter = self.interpreter(&real);
                    if interpreter.as_deref().is_some_and(|interpreter| is_one_of(interpreter, JAVASCRIPT)) {
                        self.add_package(&real, true);
                    }
                    next.extend(interpreter);
                }
            }
            // As it is spelled, too, so that the links on the way stay.
            self.found.extend([path, real]);
        }
    }

    /// The interpreter of a program that the server can replace, which may be a link to it: a known one, outside of what the server
    /// can replace.
    fn interpreter_outside(&self, program: &Path) -> Option<PathBuf> {
        let mut path = program.to_owned();
        for _ in 0..MAX_HOPS {
            if !self.writable.contains(&path) {
                let real = fs::canonicalize(&path).ok()?;
                let is_installed = real.parent().is_some_and(|parent| parent.ends_with("bin"));
                return (is_installed && is_one_of(&real, INTERPRETERS)).then_some(path);
            }
            path = match fs::read_link(&path) {
                Ok(target) => path.parent()?.join(target),
                Err(_) => self.interpreter(&path)?,
            };
        }
        None
    }

    /// Adds `PREFIX` of `PREFIX/bin/PROGRAM`, or the directory of the program. Version managers have `PREFIX/shims/PROGRAM`, a script
    /// that starts a program in another directory of theirs.
    fn add_installation(&mut self, program: &Path) {
        let Some(directory) = program.parent() else { return };
        let is_named = |names: &[&str]| names.iter().any(|name| directory.ends_with(name));
        let prefix = directory.parent().unwrap_or(directory);
        let home = self.protected.home.as_deref();
        if let Some(home) = home.filter(|_| is_one_of(program, &["uv", "uvx"])) {
            self.add_directory(home.join(UV_PYTHONS));
        }
        if !is_named(&["bin", "sbin"]) {
            let installation = if is_named(&["shims"]) { prefix } else { directory };
            return self.add_directory(installation.to_owned());
        }
        let is_hidden = prefix.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if prefix.join("pyvenv.cfg").is_file() {
            self.add_environment(prefix);
        } else if is_hidden && prefix.parent() == home {
            INSTALLED.iter().for_each(|part| self.add_directory(prefix.join(part)));
        } else {
            self.add_directory(prefix.to_owned());
        }
    }

    /// Adds a virtual environment of Python, the installation that it is based on, and the directories of packages that it has links
    /// to, such as those of an editable installation. Source: docs.python.org/3/library/site.html.
    fn add_environment(&mut self, prefix: &Path) {
        self.add_directory(prefix.to_owned());
        let settings = text(&prefix.join("pyvenv.cfg"), MAX_SETTINGS).unwrap_or_default();
        let values = settings.lines().filter_map(|line| line.split_once('='));
        if let Some((_, home)) = values.into_iter().find(|(key, _)| key.trim() == "home") {
            self.found.insert(PathBuf::from(home.trim()).join("python3"));
            if let Ok(home) = fs::canonicalize(home.trim()) {
                self.add_directory(home.parent().filter(|_| home.ends_with("bin")).unwrap_or(&home).to_owned());
            }
        }
        for packages in entries(&prefix.join("lib")).map(|python| python.join("site-packages")) {
            let links = entries(&packages).filter(|path| path.extension().is_some_and(|end| end == "pth"));
            for line in links.filter_map(|path| text(&path, MAX_SETTINGS)).collect::<Vec<_>>().join("\n").lines() {
                let path = Path::new(line.trim());
                if path.is_absolute() {
                    self.add_directory(path.to_owned());
                }
            }
        }
    }

    /// Adds the project of a script, and the directories from which it loads packages.
    fn add_package(&mut self, script: &Path, is_javascript: bool) {
        let real = fs::canonicalize(script).unwrap_or_else(|_| script.to_owned());
        let is_project = |parent: &&Path| {
            let is_marked = PROJECT_MARKERS.iter().any(|marker| parent.join(marker).exists());
            is_marked && self.protected.opened_by(parent).is_none()
        };
        // A program in `.bin` is no part of the project around it.
        let modules = real.parent().filter(|parent| parent.ends_with(BIN)).and_then(Path::parent);
        let project = modules.or_else(|| real.ancestors().skip(1).find(is_project)).or(real.parent()).unwrap_or(&real);
        let (mut next, mut seen) = (vec![project.to_owned()], BTreeSet::new());
        while let Some(package) = next.pop() {
            let parents = package.ancestors().filter(|parent| is_javascript && !parent.ends_with("node_modules"));
            for modules in parents.map(|parent| parent.join("node_modules")) {
                if seen.insert(modules.clone()) && !self.writable.contains(&modules.join(BIN)) {
                    next.extend(linked_packages(&modules).filter(|package| !package.starts_with(&modules)));
                    self.add_directory(modules);
                }
            }
            self.add_directory(package);
        }
    }

    /// Adds `directory`, unless that would open a protected one.
    fn add_directory(&mut self, directory: PathBuf) {
        if directory.exists() && self.protected.opened_by(&directory).is_none() {
            self.found.insert(directory);
        }
    }

    /// The program that interprets a script: the one that its first line names. `pnpm` and `yarn` have scripts of a shell in `.bin`,
    /// which start Node.
    fn interpreter(&self, script: &Path) -> Option<PathBuf> {
        let find = |name: &str| Process.on_path_from(self.cwd, name, self.env.get("PATH")?);
        let line = text(script, MAX_SHEBANG)?;
        let mut words = line.lines().next()?.strip_prefix("#!")?.split_whitespace();
        let program = PathBuf::from(words.next()?);
        if script.parent().is_some_and(|parent| parent.ends_with(BIN)) {
            return find("node");
        }
        if program.file_name()? != "env" {
            return Some(program);
        }
        find(words.find(|word| !word.starts_with('-') && !word.contains('='))?)
    }
}

/// The beginning of a file.
fn text(path: &Path, limit: u64) -> Option<String> {
    let mut text = Vec::new();
    BufReader::new(File::open(path).ok()?.take(limit)).read_until(0, &mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Where the links in a directory `node_modules` lead. Workspaces have such links.
fn linked_packages(modules: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let is_scope = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"@")) && path.is_dir()
    };
    let (scopes, packages): (Vec<_>, Vec<_>) = entries(modules).partition(is_scope);
    let scoped = scopes.into_iter().flat_map(|scope| entries(&scope));
    packages.into_iter().chain(scoped).filter(|path| path.is_symlink()).filter_map(|path| fs::canonicalize(path).ok())
}
