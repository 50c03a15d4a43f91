//! The state of servers, from the daemon's report or from a trial start.

use std::time::Duration;

use super::finding::{Finding, Group};
use super::probe::DaemonProbe;
use super::remedy::remedy;
use super::remotes;
use crate::admin::report::{NEEDS_LOGIN, ServerReport};
use crate::cli::text;
use crate::config::{DaemonConfig, ServerConfig};
use crate::config_lints::{DENY_SHADOWED, shadowed_resources};

/// Restarts within an hour from which on a finding reports them.
const MANY_RESTARTS: u64 = 3;
/// Last lines of stderr that are shown.
const STDERR_LINES: usize = 8;

/// The state of one server.
pub(super) struct ServerState {
    pub(super) report: ServerReport,
    /// Set if doctor itself has started the server.
    pub(super) trial: Option<Trial>,
}

/// The course of a trial start.
#[derive(Clone, Copy)]
pub(super) struct Trial {
    /// Until the server was ready, had failed, or the time was up.
    pub(super) took: Duration,
    /// Whether the configuration allows a start.
    pub(super) could_start: bool,
}

/// `configured`: the servers to report; `None` if the configuration is not valid.
pub(super) fn check(probe: &DaemonProbe, states: &[ServerState], configured: Option<&[&ServerConfig]>) -> Group {
    let mut findings: Vec<_> = states.iter().flat_map(|state| check_server(probe, state)).collect();
    let is_reported = |server: &ServerConfig| states.iter().any(|state| *state.report.name == *server.name);
    let unknown = configured.into_iter().flatten().filter(|server| probe.report().is_some() && !is_reported(server));
    findings.extend(unknown.map(|server| {
        let found = "is configured, and the daemon does not know it yet";
        Finding::warning(&*server.name, found, probe.mcpd("reload"))
    }));
    let defined = |finding: Finding| {
        let definition = probe.definitions.get(&finding.about);
        finding.defined(definition)
    };
    Group { title: "servers", findings: findings.into_iter().map(defined).collect() }
}

fn check_server(probe: &DaemonProbe, ServerState { report, trial }: &ServerState) -> Vec<Finding> {
    let name = &*report.name;
    if report.disabled {
        let advice = probe.mcpd(&format!("enable {name}"));
        return vec![Finding::fine(name, format!("is disabled, until {advice}"))];
    }
    match &*report.state {
        NEEDS_LOGIN => return vec![locked(probe, report)],
        "failed" | "backoff" | "unresponsive" => return vec![down(probe, report, *trial)],
        "starting" if trial.is_some() => return vec![late(report, *trial)],
        // A server between two attempts has the same state as a new server.
        "starting" if report.restarts_last_hour > 0 => return vec![down(probe, report, None)],
        _ => {}
    }
    let mut findings = vec![up(report, *trial)];
    findings.extend(stability(probe, report));
    findings.extend(hidden_items(probe, report));
    findings.extend(operator_overrides(probe, report));
    findings
}

fn up(report: &ServerReport, trial: Option<Trial>) -> Finding {
    let mut found = report.state.clone();
    if let Some(Trial { took, .. }) = trial {
        found += &format!(" after {}", shown(took));
    }
    let software = report.software.iter().cloned();
    let protocol = report.protocol.iter().map(|protocol| format!("MCP {protocol}"));
    let transport =
        report.remote.iter().filter_map(|remote| Some(format!("{} at {}", remote.transport.as_ref()?, remote.origin)));
    let counts = [
        (report.tools_exposed, "tool"),
        (report.prompts_exposed, "prompt"),
        (report.resources_exposed, "resource"),
        (usize::try_from(report.skipped_lines).unwrap_or(usize::MAX), "stray stdout line"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| text::count(*count, what));
    for part in software.chain(protocol).chain(transport).chain(counts) {
        found += &format!(", {part}");
    }
    match trial {
        Some(Trial { took, .. }) if took > DaemonConfig::default().first_list_wait => {
            let install =
                if report.remote.is_none() { "install what `npx` or `uvx` fetches at each start, or " } else { "" };
            let advice = format!("agents get its tools late; {install}set `start = \"lazy\"`");
            Finding::warning(&*report.name, found, advice)
        }
        _ => Finding::fine(&*report.name, found),
    }
}

/// A server that was not ready when the trial's time was up.
fn late(report: &ServerReport, trial: Option<Trial>) -> Finding {
    let waited = trial.map(|trial| shown(trial.took)).unwrap_or_default();
    let found = format!("is not ready after {waited}");
    let check = match &report.remote {
        Some(remote) => remotes::check(&remote.origin),
        None => "read its last lines to see what it waits for".to_owned(),
    };
    let advice = format!("{check}; if it needs more time, raise its `handshake_timeout`");
    Finding::problem(&*report.name, found, advice).with_lines(last_stderr_lines(report))
}

fn locked(probe: &DaemonProbe, report: &ServerReport) -> Finding {
    let name = &*report.name;
    let reason = report.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Finding::problem(name, format!("needs a login{reason}"), probe.mcpd_with_files(&format!("login {name}")))
}

fn down(probe: &DaemonProbe, report: &ServerReport, trial: Option<Trial>) -> Finding {
    let name = &report.name;
    // Which PATH was searched is said of its program.
    let why = report.reason.as_deref().or(report.last_error.as_deref()).unwrap_or_default();
    let reason = match why.split("; PATH searched").next().unwrap_or_default() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let retry = report.retry_in_ms.map(|ms| format!(" (next try in {})", shown(Duration::from_millis(ms))));
    let times = match report.restarts_last_hour {
        0 => String::new(),
        1 => ", restarted once in the last hour".to_owned(),
        many => format!(", restarted {many} times in the last hour"),
    };
    let has_ended = trial.is_some_and(|trial| trial.could_start);
    let state = match &*report.state {
        _ if has_ended => "did not start",
        "starting" => "is being started again",
        state => state,
    };
    let found = format!("{state}{reason}{}{times}", retry.unwrap_or_default());
    Finding::problem(&**name, found, remedy(probe, report, has_ended))
        .with_code(report.code.clone())
        .with_lines(last_stderr_lines(report))
}

fn last_stderr_lines(report: &ServerReport) -> impl Iterator<Item = String> + '_ {
    report.stderr.iter().skip(report.stderr.len().saturating_sub(STDERR_LINES)).cloned()
}

/// Restarts, missed health checks, and other signs of a server that may not stay up.
fn stability(probe: &DaemonProbe, report: &ServerReport) -> Vec<Finding> {
    let name = &*report.name;
    let mut findings = Vec::new();
    // A server at a URL has no stderr here.
    let (check, shows) = match &report.remote {
        Some(remote) => (remotes::check(&remote.origin), ""),
        // The log of a server that wrote nothing is empty.
        None if report.stderr.is_empty() => (probe.mcpd("logs"), " shows why it was restarted"),
        None => (probe.mcpd(&format!("logs {name}")), " shows its output before it ended"),
    };
    if report.restarts_last_hour >= MANY_RESTARTS {
        let last = report.last_error.as_ref().map(|error| format!("; last: {error}")).unwrap_or_default();
        let found = format!("was restarted {} times in the last hour{last}", report.restarts_last_hour);
        findings.push(Finding::warning(name, found, format!("{check}{shows}")));
    }
    if !report.silence().is_empty() {
        let found = format!("has not answered {} in a row", report.silence());
        let then = "mcpd restarts it after three misses; pings during a call count only after a call has timed out";
        findings.push(Finding::warning(name, found, format!("{check}; {then}")));
    }
    if report.silent_starts > 0 {
        let found = "does not answer `server/discover`, which costs its first start 2s";
        findings.push(Finding::warning(name, found, format!("set `era = \"legacy\"` in {}", probe.definition(name))));
    }
    if let Some(reason) = &report.update_error {
        let found = format!("still runs with its former configuration, because the changed one failed: {reason}");
        findings.push(Finding::warning(name, found, format!("correct it, then {}", probe.mcpd("reload"))));
    }
    if let Some(limits) = &report.limits
        && let (Some(state), Some(reason)) = (&limits.state, &limits.reason)
    {
        let advice = "run mcpd as a systemd unit (`mcpd service install`), which has `Delegate=` and `--own-cgroup`";
        findings.push(Finding::warning(name, format!("its limits are {state}: {reason}"), advice));
    }
    findings
}

/// Items of the server that agents do not see.
fn hidden_items(probe: &DaemonProbe, report: &ServerReport) -> Vec<Finding> {
    let name = &*report.name;
    let mut findings = Vec::new();
    let offers = report.tools_exposed + report.prompts_exposed + report.resources_exposed;
    let denied = report.tools_denied + report.prompts_denied + report.resources_denied;
    if offers == 0 && denied > 0 {
        let found = format!("policy hides everything it offers: {}", text::count(denied, "item"));
        findings.push(Finding::warning(
            name,
            found,
            format!("loosen `allow`, `deny` or `expose` of {}", probe.definition(name)),
        ));
    } else if offers == 0 && report.state == "ready" {
        let advice = "read its documentation: it may need an argument, a login or a licence";
        findings.push(Finding::warning(name, "offers neither tools nor prompts nor resources", advice));
    } else if report.tools_exposed == 0 && report.tools_denied > 0 {
        let found = format!("policy hides all its {} tools", report.tools_denied);
        findings.push(Finding::warning(name, found, format!("loosen `allow` or `deny` of {}", probe.definition(name))));
    }
    if report.names_rejected > 0 {
        let found = format!("{} of its names are not valid, and are not listed", report.names_rejected);
        findings.push(Finding::warning(
            name,
            found,
            "report it to the server's author: these names have invisible characters, or more than 128 characters",
        ));
    }
    if report.tools_truncated {
        let taken = report.tools_exposed + report.tools_denied;
        let found = format!("lists more tools than mcpd accepts; the first {taken} are used");
        findings.push(Finding::warning(name, found, "report it to the server's author: the list does not end"));
    }
    if report.resources_shadowed > 0 {
        findings.push(Finding::warning(name, shadowed_resources(report.resources_shadowed), DENY_SHADOWED));
    }
    findings
}

/// Overrides by an operator that may have been forgotten.
fn operator_overrides(probe: &DaemonProbe, report: &ServerReport) -> Vec<Finding> {
    let name = &*report.name;
    let mut findings = Vec::new();
    if let Some(word) = &report.health_override {
        let found = format!("is marked {word}, regardless of its health checks");
        findings.push(Finding::warning(name, found, probe.mcpd(&format!("health {name} auto"))));
    }
    if !report.tools_disabled.is_empty() {
        let first = &report.tools_disabled[0];
        let found =
            format!("{} of its tools are switched off, until the daemon is restarted", report.tools_disabled.len());
        findings.push(Finding::fine(name, format!("{found}; {}", probe.mcpd(&format!("enable {name}/{first}")))));
    }
    findings
}

/// Rounded to milliseconds below one second, else to tenths of a second.
fn shown(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let rounded = if ms < 1000 { ms } else { ms / 100 * 100 };
    crate::duration::format(Duration::from_millis(rounded))
}
