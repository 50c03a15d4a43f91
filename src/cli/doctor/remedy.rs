//! The remedy for a server that is down, by the code of its error.

use super::probe::DaemonProbe;
use super::remotes;
use crate::admin::report::{ServerReport, StateName};
use crate::config::Program;
use crate::config::command_line::without_secrets;
use crate::config::interpolate::Sources;
use crate::known_clients::shell_word;

/// The command that makes mcpd try a server again, with its files as they are now.
pub(super) fn again(probe: &DaemonProbe, name: &str) -> String {
    match probe.report() {
        Some(_) if probe.has_changed_files() => probe.mcpd("reload"),
        Some(_) => probe.mcpd(&format!("restart {name}")),
        None => probe.mcpd_with_files(&format!("doctor {name}")),
    }
}

/// What to do about a server that is down; `has_ended` if doctor has started it and it has ended.
pub(super) fn remedy(probe: &DaemonProbe, report: &ServerReport, has_ended: bool) -> String {
    let code = report.code.as_deref().unwrap_or_default();
    match (code, &report.remote) {
        // The server has another era than the configured one (MCP 2026-07-28, `basic/versioning`).
        ("no_modern_era" | "modern_only" | "discover_timeout", _) => {
            format!(
                "set `era = \"auto\"` in {}; then {}",
                probe.definition(&report.name),
                reloaded(probe, &again(probe, &report.name))
            )
        }
        ("unusable_value", _) if report.state == StateName::Backoff => {
            format!("run that program in a terminal, and fix what it reports; then {}", again(probe, &report.name))
        }
        _ if report.state == StateName::ListFailed => {
            let (name, again) = (&report.name, again(probe, &report.name));
            format!(
                "fix what it reports: {} may show more; mcpd requests the list again by itself, and {again} restarts it",
                probe.mcpd(&format!("logs {name}"))
            )
        }
        (_, Some(remote)) => of_remote(probe, report, code, &remote.origin),
        (_, None) => of_program(probe, report, code, has_ended),
    }
}

fn of_program(probe: &DaemonProbe, report: &ServerReport, code: &str, has_ended: bool) -> String {
    let (name, again) = (&report.name, again(probe, &report.name));
    let (definition, reload) = (probe.definition(name), reloaded(probe, &again));
    match (code, report.state) {
        (_, StateName::Unresponsive) => format!("{again}; if it is only busy, raise its `health_timeout`"),
        ("command_not_found", _) => missing_command(probe, name, &again),
        ("command_line", _) => format!("move its arguments to `args` in {definition}; then {reload}"),
        ("no_working_directory", _) => {
            either("create that directory", &again, &format!("correct `cwd` in {definition}"), &reload)
        }
        ("sandbox_unenforceable", _) => {
            format!("choose another `sandbox` in {definition}, or a newer kernel; then {reload}")
        }
        ("sandbox_path", _) => format!("correct `sandbox` or `cwd` in {definition}; then {reload}"),
        ("not_a_server", _) => format!("correct `command` and `args` in {definition}; then {reload}"),
        ("initialize_timeout", _) => {
            let raise = format!("if it needs more time, raise `handshake_timeout` in {definition}, then {reload}");
            format!("{}; {raise}", stderr_remedy(probe, report, &again))
        }
        (_, StateName::Failed) if !has_ended => format!("set what is missing, or change {definition}; then {reload}"),
        _ => stderr_remedy(probe, report, &again),
    }
}

/// What to do about a server whose stderr may explain the error.
fn stderr_remedy(probe: &DaemonProbe, report: &ServerReport, again: &str) -> String {
    if !report.stderr.is_empty() {
        return format!("fix what its last lines report; then {again}");
    }
    let command = probe.program(&report.name).map_or_else(|| "its command".to_owned(), command_line);
    format!("it wrote nothing to stderr: run {command} in a terminal, and fix the error that it prints; then {again}")
}

/// What to do about a command that is not found. `again`: the command that makes mcpd try the server again.
pub(super) fn missing_command(probe: &DaemonProbe, name: &str, again: &str) -> String {
    let correct = format!("correct `command` in {}", probe.definition(name));
    either("install it", again, &correct, &reloaded(probe, again))
}

/// The command line of a program for a shell, without likely secrets.
fn command_line(program: &Program) -> String {
    let words = [&program.command].into_iter().chain(&program.args);
    let words: Vec<_> = words.map(|word| shell_word(&program.secrets.masked(word)).to_string()).collect();
    format!("`{}`", without_secrets(&words).join(" "))
}

/// Two ways to solve a problem, each with the command that applies it.
fn either(first: &str, apply_first: &str, second: &str, apply_second: &str) -> String {
    match apply_first == apply_second {
        true => format!("{first}, or {second}; then {apply_first}"),
        false => format!("{first}, then {apply_first}; or {second}, then {apply_second}"),
    }
}

fn of_remote(probe: &DaemonProbe, report: &ServerReport, code: &str, origin: &str) -> String {
    let again = again(probe, &report.name);
    if report.state == StateName::Unresponsive {
        return format!("{again}; if it is only slow, raise its `health_timeout`");
    }
    let is_set = |name: &str| probe.sources.var(name).is_some_and(|value| !value.is_empty());
    let proxy = remotes::proxy(origin, is_set);
    let proxy =
        proxy.map(|name| format!(" ({name} is set: requests use that proxy, unless NO_PROXY excludes the host)"));
    // mcpd tries it again by itself, and a reload applies a changed table.
    let then = reloaded(probe, &again);
    format!("{}{}; then {then}", remotes::remedy(code, origin), proxy.unwrap_or_default())
}

/// The command that applies a change of the configuration.
fn reloaded(probe: &DaemonProbe, otherwise: &str) -> String {
    if probe.report().is_some() { probe.mcpd("reload") } else { otherwise.to_owned() }
}
