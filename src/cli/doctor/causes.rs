//! Causes that the stderr of a server reveals: denials of its sandbox, a download that was cut off, a question, missing variables. Also what
//! an end may leave behind: a container.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::process::geteuid;

use super::finding::Finding;
use super::fix::Fix;
use super::grants::Grants;
use super::probe::{Change, DaemonProbe};
use super::remedy::{again, is};
use crate::admin::report::ServerReport;
use crate::cli::text::{self, join_limited, one_line};
use crate::config::interpolate::Sources;
use crate::config::known_commands::{asks_before_install, half_written_cache, pass_env, runner, variables};
use crate::config::serialize::{sandbox_text, toml_string};
use crate::config::{ProtectedDirectories, SandboxLevel};
use crate::config_lints::{ANSWER, ASKS};
use crate::known_clients::shell_word;
use crate::server::{Cause, refused_paths};

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
