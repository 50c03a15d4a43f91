//! The remedy for a server that is down, by the code of its error.

use super::probe::DaemonProbe;
use super::remotes;
use crate::admin::report::ServerReport;
use crate::config::interpolate::Sources;

/// The command that makes mcpd try a server again, with its files as they are now.
fn again(probe: &DaemonProbe, report: &ServerReport) -> String {
    match probe.report() {
        Some(_) if probe.has_changed_files() => probe.mcpd("reload"),
        Some(_) => probe.mcpd(&format!("restart {}", report.name)),
        None => probe.mcpd_with_files(&format!("doctor {}", report.name)),
    }
}

/// What to do about a server that is down; `has_ended` if doctor has started it and it has ended.
pub(super) fn remedy(probe: &DaemonProbe, report: &ServerReport, has_ended: bool) -> String {
    let code = report.code.as_deref().unwrap_or_default();
    match (code, &report.remote) {
        _ if report.health_override.as_deref() == Some("down") && report.state == "unresponsive" => {
            probe.mcpd(&format!("health {} auto", report.name))
        }
        // The server has another era than the configured one (MCP 2026-07-28, `basic/versioning`).
        ("no_modern_era" | "modern_only" | "discover_timeout", _) => {
            format!(
                "set `era = \"auto\"` in {}; then {}",
                probe.definition(&report.name),
                reloaded(probe, &again(probe, report))
            )
        }
        (_, Some(remote)) => of_remote(probe, report, code, &remote.origin),
        (_, None) => of_program(probe, report, code, has_ended),
    }
}

fn of_program(probe: &DaemonProbe, report: &ServerReport, code: &str, has_ended: bool) -> String {
    let (name, again) = (&report.name, again(probe, report));
    match (code, &*report.state) {
        (_, "unresponsive") => format!("{again}; if it is only busy, raise its `health_timeout`"),
        ("command_not_found", _) => {
            let (install, write) = ("install it", "write its full path as `command`");
            match reloaded(probe, &again) {
                reload if reload == again => format!("{install}, or {write}; then {again}"),
                reload => format!("{install}, then {again}; or {write}, then {reload}"),
            }
        }
        ("command_line", _) => {
            format!("move its arguments to `args` in {}; then {}", probe.definition(name), reloaded(probe, &again))
        }
        ("sandbox_unenforceable", _) => {
            let definition = probe.definition(name);
            format!("choose another `sandbox` in {definition}, or a newer kernel; then {}", reloaded(probe, &again))
        }
        ("sandbox_path", _) => {
            format!("correct `sandbox` or `cwd` in {}; then {}", probe.definition(name), reloaded(probe, &again))
        }
        ("initialize_timeout", _) => {
            format!("raise its `handshake_timeout`, or find out what it waits for; then {again}")
        }
        (_, "failed") if !has_ended => {
            format!("set what is missing, or change {}; then {}", probe.definition(name), reloaded(probe, &again))
        }
        _ if report.stderr.is_empty() => format!("run its command by hand, as its stderr is empty; then {again}"),
        _ => format!("fix what its last lines report; then {again}"),
    }
}

fn of_remote(probe: &DaemonProbe, report: &ServerReport, code: &str, origin: &str) -> String {
    let again = again(probe, report);
    if report.state == "unresponsive" {
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
