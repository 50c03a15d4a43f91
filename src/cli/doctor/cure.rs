//! What to do about a server that is down.

use super::remotes;
use super::world::World;
use crate::admin::report::ServerReport;
use crate::config::interpolate::Sources;

/// What a server of another era than the configured one is refused with, or refuses `initialize` with
/// (MCP 2026-07-28, `basic/versioning`).
const ERA: [&str; 3] = ["which `era = \"modern\"` asks for", "did not answer `server/discover`", "\"code\":-32022"];

/// The command that has it tried again, as its files are now.
fn again(world: &World, report: &ServerReport) -> String {
    match world.report() {
        Some(_) if world.has_changed_files() => world.mcpd("reload"),
        Some(_) => world.mcpd(&format!("restart {}", report.name)),
        None => world.mcpd_with_files(&format!("doctor {}", report.name)),
    }
}

/// What to do about a server that is down for this reason; `has_ended` if it was started to be looked at.
pub(super) fn cure(world: &World, report: &ServerReport, why: &str, has_ended: bool) -> String {
    match &report.remote {
        _ if report.vouched.as_deref() == Some("down") && report.state == "unresponsive" => {
            world.mcpd(&format!("health {} auto", report.name))
        }
        _ if ERA.iter().any(|part| why.contains(part)) => {
            format!(
                "set `era = \"auto\"` in {}; then {}",
                world.definition(&report.name),
                reloaded(world, &again(world, report))
            )
        }
        Some(remote) => of_remote(world, report, (why, &remote.origin)),
        None => of_program(world, report, (why, has_ended)),
    }
}

fn of_program(world: &World, report: &ServerReport, (why, has_ended): (&str, bool)) -> String {
    let (name, again) = (&report.name, again(world, report));
    match &*report.state {
        "unresponsive" => format!("{again}; if it is only busy, raise its `health_timeout`"),
        _ if why.contains("not found; PATH searched") => {
            let (install, write) = ("install it", "write its whole path as `command`");
            match reloaded(world, &again) {
                reload if reload == again => format!("{install}, or {write}; then {again}"),
                reload => format!("{install}, then {again}; or {write}, then {reload}"),
            }
        }
        _ if why.contains("is a command line: ") => {
            format!("move its arguments to `args` in {}; then {}", world.definition(name), reloaded(world, &again))
        }
        _ if why.contains("did not answer `initialize`") => {
            format!("raise its `handshake_timeout`, or look at what it waits for; then {again}")
        }
        "failed" if !has_ended => {
            format!("set what is missing, or change {}; then {}", world.definition(name), reloaded(world, &again))
        }
        _ if report.stderr.is_empty() => format!("run its command by hand: it says nothing; then {again}"),
        _ => format!("its last lines say why; repair that, then {again}"),
    }
}

fn of_remote(world: &World, report: &ServerReport, (why, origin): (&str, &str)) -> String {
    let again = again(world, report);
    if report.state == "unresponsive" {
        return format!("{again}; if it is only slow, raise its `health_timeout`");
    }
    let is_set = |name: &str| world.sources.var(name).is_some_and(|value| !value.is_empty());
    let proxy = remotes::proxy(origin, is_set);
    let proxy = proxy.map(|name| format!(" ({name} is set: unless NO_PROXY excepts it, by that proxy)"));
    // It is tried again by itself, and what was changed of its table is taken over by a reload.
    let then = reloaded(world, &again);
    format!("{}{}; then {then}", remotes::cure(why, origin), proxy.unwrap_or_default())
}

/// How a change of the configuration is taken over.
fn reloaded(world: &World, otherwise: &str) -> String {
    if world.report().is_some() { world.mcpd("reload") } else { otherwise.to_owned() }
}
