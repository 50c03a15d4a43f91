//! What to do about a server that is down.

use super::probe::DaemonProbe;
use super::remotes;
use crate::admin::report::ServerReport;
use crate::config::interpolate::Sources;

/// What a server of another era than the configured one is refused with, or refuses `initialize` with
/// (MCP 2026-07-28, `basic/versioning`).
const ERA: [&str; 3] = ["which `era = \"modern\"` asks for", "did not answer `server/discover`", "\"code\":-32022"];

/// The command that has it tried again, as its files are now.
fn again(probe: &DaemonProbe, report: &ServerReport) -> String {
    match probe.report() {
        Some(_) if probe.has_changed_files() => probe.mcpd("reload"),
        Some(_) => probe.mcpd(&format!("restart {}", report.name)),
        None => probe.mcpd_with_files(&format!("doctor {}", report.name)),
    }
}

/// What to do about a server that is down for this reason; `has_ended` if it was started to be looked at.
pub(super) fn cure(probe: &DaemonProbe, report: &ServerReport, why: &str, has_ended: bool) -> String {
    match &report.remote {
        _ if report.vouched.as_deref() == Some("down") && report.state == "unresponsive" => {
            probe.mcpd(&format!("health {} auto", report.name))
        }
        _ if ERA.iter().any(|part| why.contains(part)) => {
            format!(
                "set `era = \"auto\"` in {}; then {}",
                probe.definition(&report.name),
                reloaded(probe, &again(probe, report))
            )
        }
        Some(remote) => of_remote(probe, report, (why, &remote.origin)),
        None => of_program(probe, report, (why, has_ended)),
    }
}

fn of_program(probe: &DaemonProbe, report: &ServerReport, (why, has_ended): (&str, bool)) -> String {
    let (name, again) = (&report.name, again(probe, report));
    match &*report.state {
        "unresponsive" => format!("{again}; if it is only busy, raise its `health_timeout`"),
        _ if why.contains("not found; PATH searched") => {
            let (install, write) = ("install it", "write its whole path as `command`");
            match reloaded(probe, &again) {
                reload if reload == again => format!("{install}, or {write}; then {again}"),
                reload => format!("{install}, then {again}; or {write}, then {reload}"),
            }
        }
        _ if why.contains("is a command line: ") => {
            format!("move its arguments to `args` in {}; then {}", probe.definition(name), reloaded(probe, &again))
        }
        _ if why.contains("did not answer `initialize`") => {
            format!("raise its `handshake_timeout`, or look at what it waits for; then {again}")
        }
        "failed" if !has_ended => {
            format!("set what is missing, or change {}; then {}", probe.definition(name), reloaded(probe, &again))
        }
        _ if report.stderr.is_empty() => format!("run its command by hand: it says nothing; then {again}"),
        _ => format!("its last lines say why; repair that, then {again}"),
    }
}

fn of_remote(probe: &DaemonProbe, report: &ServerReport, (why, origin): (&str, &str)) -> String {
    let again = again(probe, report);
    if report.state == "unresponsive" {
        return format!("{again}; if it is only slow, raise its `health_timeout`");
    }
    let is_set = |name: &str| probe.sources.var(name).is_some_and(|value| !value.is_empty());
    let proxy = remotes::proxy(origin, is_set);
    let proxy = proxy.map(|name| format!(" ({name} is set: unless NO_PROXY excepts it, by that proxy)"));
    // It is tried again by itself, and what was changed of its table is taken over by a reload.
    let then = reloaded(probe, &again);
    format!("{}{}; then {then}", remotes::cure(why, origin), proxy.unwrap_or_default())
}

/// How a change of the configuration is taken over.
fn reloaded(probe: &DaemonProbe, otherwise: &str) -> String {
    if probe.report().is_some() { probe.mcpd("reload") } else { otherwise.to_owned() }
}
