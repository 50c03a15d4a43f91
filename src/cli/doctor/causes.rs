//! Causes that the stderr of a server reveals: denials of its sandbox, a download that was cut off, a question, missing variables. Also what
//! an end may leave behind: a container.

use super::finding::Finding;
use super::probe::DaemonProbe;
use super::remedy::again;
use crate::admin::report::ServerReport;
use crate::config::SandboxLevel;
use crate::config::known_commands::{half_written_cache, pass_env, runner, variables};
use crate::config_lints::{ANSWER, ASKS};
use crate::known_clients::shell_word;

/// What programs write if the system refuses access to a file (EACCES).
const REFUSALS: [&str; 3] = ["EACCES", "Permission denied", "permission denied"];

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
        probe.mcpd("reload")
    );
    has_line(report, &PRIVILEGES).then(|| Finding::warning(&*report.name, found, advice))
}

fn incomplete_download(probe: &DaemonProbe, report: &ServerReport) -> Option<Finding> {
    let directory = half_written_cache(report.stderr.iter().map(String::as_str))?;
    let found = format!("its download in {} seems to be incomplete", directory.display());
    let advice = format!("`rm -r {}`, then {}", shell_word(&directory.to_string_lossy()), again(probe, &report.name));
    Some(Finding::warning(&*report.name, found, advice))
}

fn question(probe: &DaemonProbe, report: &ServerReport) -> Option<Finding> {
    let advice = || format!("{ANSWER} in {}; then {}", probe.definition(&report.name), probe.mcpd("reload"));
    has_line(report, &[QUESTION]).then(|| Finding::warning(&*report.name, ASKS, advice()))
}

fn no_containers(probe: &DaemonProbe, report: &ServerReport) -> Option<Finding> {
    let command = probe.program(&report.name).map(|program| &*program.command).unwrap_or_default();
    let needed =
        Some(variables(command, &[])).filter(|needed| !needed.is_empty()).unwrap_or_else(|| variables("docker", &[]));
    let advice = format!(
        "if your containers run elsewhere, write `{}` in {}; then {}",
        pass_env(&needed),
        probe.definition(&report.name),
        probe.mcpd("reload")
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

/// The path that the sandbox of a server has refused most recently, as far as its stderr tells.
fn denial(probe: &DaemonProbe, report: &ServerReport) -> Option<Finding> {
    let sandbox = report.sandbox.as_ref().filter(|sandbox| sandbox.level == SandboxLevel::Files)?;
    let path = report.stderr.iter().rev().find_map(|line| refused_path(line))?;
    let found = format!("its sandbox, at level `{}`, may have refused `{path}`", sandbox.level.name());
    let definition = probe.definition(&report.name);
    let advice =
        format!("add the path to `read` or `write` of `sandbox` in {definition}; then {}", probe.mcpd("reload"));
    Some(Finding::warning(&*report.name, found, advice))
}

/// The absolute path in a line about a refusal.
fn refused_path(line: &str) -> Option<&str> {
    if !REFUSALS.iter().any(|refusal| line.contains(refusal)) {
        return None;
    }
    let is_start = |(at, _): &(usize, &str)| line[..*at].chars().next_back().is_none_or(|c| " '\"`(=:".contains(c));
    let (start, _) = line.match_indices('/').find(is_start)?;
    let path = &line[start..];
    let end = path.find(['\'', '"', '`', ' ', ',', ':', ')']).unwrap_or(path.len());
    Some(&path[..end]).filter(|path| path.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::refused_path;

    #[test]
    fn refused_path_is_found_in_the_messages_of_common_runtimes() {
        for (line, path) in [
            ("Error: EACCES: permission denied, open '/home/u/notes/a.md'", Some("/home/u/notes/a.md")),
            ("PermissionError: [Errno 13] Permission denied: '/srv/data'", Some("/srv/data")),
            ("cat: /home/u/x: Permission denied", Some("/home/u/x")),
            ("bash: line 1: /opt/tool/run: Permission denied", Some("/opt/tool/run")),
            ("Error: ENOENT: no such file or directory, open '/home/u/notes'", None),
            ("permission denied", None),
            ("EACCES and/or something else", None),
        ] {
            assert_eq!(refused_path(line), path, "{line}");
        }
    }
}
