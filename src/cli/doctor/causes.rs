//! Causes that the stderr of a server reveals: denials of its sandbox, a download that was cut off, a question, missing variables. Also what
//! an end may leave behind: a container.
//!
//! For a denial at level `files`, [`Grants`] has what to add to the sandbox. A program ends at the first file that it lacks, so the directory of
//! a file is proposed, or the installation that it belongs to.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::finding::{Finding, Fix};
use super::probe::{Change, DaemonProbe};
use super::remedy::{again, is};
use crate::admin::report::ServerReport;
use crate::cli::text::{self, join_limited, one_line};
use crate::config::interpolate::Sources;
use crate::config::known_commands::{asks_before_install, half_written_cache, pass_env, runner, variables};
use crate::config::serialize::{sandbox_text, toml_string};
use crate::config::{ProtectedDirectories, Sandbox, SandboxLevel};
use crate::config_lints::{ANSWER, ASKS};
use crate::known_clients::shell_word;
use crate::server::sandbox::is_system;
use crate::server::{Cause, Refusal, RefusedPath, refused_paths};

/// Paths that a finding names.
const MAX_PATHS: usize = 8;
/// What programs write that cannot gain privileges: Chromium, and sudo(8).
const PRIVILEGES: [&str; 4] =
    ["SUID sandbox helper", "setuid_sandbox_host", "no new privileges", "effective uid is not 0"];
/// What `npx` asks before it installs a package.
const QUESTION: &str = "Ok to proceed?";
/// What clients of Docker and Podman write if the socket is elsewhere.
const NO_CONTAINERS: [&str; 2] = ["Cannot connect to the Docker daemon", "unable to connect to Podman"];

/// Codes of ends without the time to clean up, or possibly so.
const KILLED: [&str; 6] = ["guard_lost", "signaled", "out_of_memory", "task_limit", "unanswered", "stream_closed"];

/// The causes that the stderr of a server reveals.
pub(super) fn findings(probe: &DaemonProbe, report: &ServerReport) -> Vec<Finding> {
    let causes = [denial, privileges, incomplete_download, question, no_containers, left_container];
    causes.iter().filter_map(|cause| cause(probe, report)).collect()
}

fn has_line(report: &ServerReport, texts: &[&str]) -> bool {
    report.stderr.iter().any(|line| texts.iter().any(|text| line.contains(text)))
}

fn privileges(probe: &DaemonProbe, report: &ServerReport) -> Option<Finding> {
    let level = report.sandbox.as_ref().filter(|sandbox| sandbox.level != SandboxLevel::None)?.level.name();
    let found = format!("a program of it gains privileges, which its sandbox, at level `{level}`, does not permit");
    let definition = probe.definition(&report.name);
    let advice = format!(
        "if you trust it with all that you may do, write `sandbox = \"none\"` in {definition}; then {}",
        probe.after(Change::Configuration, &report.name)
    );
    has_line(report, &PRIVILEGES).then(|| Finding::warning(&*report.name, found, advice))
}

fn incomplete_download(probe: &DaemonProbe, report: &ServerReport) -> Option<Finding> {
    let directory = half_written_cache(report.stderr.iter().map(String::as_str))?;
    let found = format!("its download in {} seems to be incomplete", directory.display());
    let advice = format!("`rm -r {}`, then {}", shell_word(&directory.to_string_lossy()), again(probe, &report.name));
    // A server can write any path.
    let is_own =
        fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw());
    let fix = is_own.then(|| Fix::RemoveDirectory { path: directory, server: report.name.clone() });
    Some(Finding::warning(&*report.name, found, advice).with_fix(fix))
}

fn question(probe: &DaemonProbe, report: &ServerReport) -> Option<Finding> {
    let advice = || {
        format!(
            "{ANSWER} in {}; then {}",
            probe.definition(&report.name),
            probe.after(Change::Configuration, &report.name)
        )
    };
    // A warning about the command itself says it already.
    let is_news = has_line(report, &[QUESTION]) && !is(probe, report, asks_before_install);
    is_news.then(|| Finding::warning(&*report.name, ASKS, advice()))
}

/// Whether `npx` asks before it installs the server, as its command line lets it.
pub(super) fn asks(probe: &DaemonProbe, report: &ServerReport) -> bool {
    let is_waiting = report.cause == Some(Cause::Question) || has_line(report, &[QUESTION]);
    is_waiting && is(probe, report, asks_before_install)
}

fn no_containers(probe: &DaemonProbe, report: &ServerReport) -> Option<Finding> {
    let command = probe.program(&report.name).map(|program| &*program.command).unwrap_or_default();
    let needed =
        Some(variables(command, &[])).filter(|needed| !needed.is_empty()).unwrap_or_else(|| variables("docker", &[]));
    let is_set = |name: &&&str| probe.sources.var(name).is_some_and(|value| !value.is_empty());
    let then = match (needed.iter().find(is_set), needed.first()) {
        (None, Some(first)) => probe.set_variable(first, &report.name),
        _ => format!("then {}", probe.after(Change::Configuration, &report.name)),
    };
    let advice = format!(
        "if your containers run elsewhere, write `{}` in {}; {then}",
        pass_env(&needed),
        probe.definition(&report.name)
    );
    has_line(report, &NO_CONTAINERS).then(|| Finding::warning(&*report.name, "reaches no containers", advice))
}

/// A container ends with its client only if the client has time to end it.
pub(super) fn left_container(probe: &DaemonProbe, report: &ServerReport) -> Option<Finding> {
    let program = probe.program(&report.name)?;
    let client = runner(&program.command, &program.args)?.container_client()?;
    let is_recent = report.state.is_down() || report.restarts_last_hour > 0;
    let was_killed = report.code.as_deref().is_some_and(|code| KILLED.contains(&code));
    let found = format!("`{client}` was killed or did not answer, so its container may still run");
    let advice = format!("`{client} ps` lists containers; `{client} rm --force CONTAINER` ends one");
    (is_recent && was_killed).then(|| Finding::warning(&*report.name, found, advice))
}

/// What the sandbox of a server at level `files` keeps from it, as far as its stderr and the errors of its calls tell.
pub(super) fn denial(probe: &DaemonProbe, report: &ServerReport) -> Option<Finding> {
    report.sandbox.as_ref().filter(|sandbox| sandbox.level == SandboxLevel::Files)?;
    let config = &probe.servers.get(&report.name)?.config;
    let cwd = probe.program(&report.name).and_then(|program| program.cwd.as_deref());
    let protected = ProtectedDirectories::of(&probe.sources);
    let mut grants = Grants::of(&report.name, &config.settings.sandbox, cwd, protected);
    let reported = report.refused.iter().flat_map(|refused| refused.paths.clone());
    let reported = report.stderr.iter().flat_map(|line| refused_paths(line)).chain(reported);
    reported.for_each(|path| grants.add(&path));
    let Grants { sandbox, lacking, refused, home, .. } = grants;
    let quoted = |path: &PathBuf| format!("`{}`", one_line(&path.to_string_lossy()));
    let all: Vec<_> = lacking.iter().chain(refused.keys()).map(quoted).collect();
    if all.is_empty() {
        return None;
    }
    let calls = report.refused.as_ref().map(|refused| format!("; {} failed so", text::count(refused.calls, "call")));
    let found = format!(
        "may lack {}, which its sandbox, at level `files`, does not open{}",
        join_limited(&all, MAX_PATHS),
        calls.unwrap_or_default()
    );
    let (definition, reload) = (probe.definition(&report.name), probe.after(Change::Configuration, &report.name));
    let home = home.map(|home| format!(", and `HOME = {}` in its `env`,", toml_string(&home.to_string_lossy())));
    let advice = match lacking.is_empty() {
        true => format!("move these files elsewhere, or choose another `sandbox` in {definition}; then {reload}"),
        false => {
            format!(
                "write `sandbox = {}`{} in {definition}; then {reload}",
                sandbox_text(&sandbox),
                home.unwrap_or_default()
            )
        }
    };
    let never = refused
        .iter()
        .map(|(path, opened)| format!("{} stays closed, since it would open {}", quoted(path), quoted(opened)));
    Some(Finding::warning(&*report.name, found, advice).with_lines(never))
}

/// The sandbox of a server, and what it lacks.
struct Grants {
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
    fn of(name: &str, sandbox: &Sandbox, cwd: Option<&Path>, protected: ProtectedDirectories) -> Self {
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
