//! The state of servers, from the daemon's report or from a trial start: the servers are started as a daemon would, and stopped again.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout_at;

use super::causes;
use super::finding::{Finding, Fix, Group};
use super::probe::{Change, DaemonProbe};
use super::remedy::{check_connection, of_cause, remedy, remote_remedy};
use super::unit::controllers;
use crate::admin::report::{LimitsState, ServerReport, StateName};
use crate::cli::text::{self, malformed_item};
use crate::config::diagnostic::Edit;
use crate::config::interpolate::{Process, Sources};
use crate::config::serialize::toml_string;
use crate::config::{AgentDirectory, CPU_WEIGHT, Launch, Limit, OnUnhealthy, ServerConfig, Sharing, Start};
use crate::config_lints::{ASKS, DENY_SHADOWED, shadowed_resources};
use crate::daemon;
use crate::manager::{Manager, ManagerError, Setup};
use crate::server::{Cause, GuardProgram, MAX_MISSES, ServerContext};
use crate::suggest::only_misspelt;

/// Repeated starts within an hour from which on a finding reports them.
const MANY_RESTARTS: u64 = 3;
/// Last lines of stderr that are shown.
const STDERR_LINES: usize = 8;

/// One server, and how it is.
pub(super) struct ServerCheck {
    pub(super) report: ServerReport,
    /// Set if doctor itself has started the server.
    pub(super) trial: Option<Trial>,
}

/// The course of a trial start.
#[derive(Clone, Copy)]
pub(super) struct Trial {
    /// Until the server was ready, had failed, or the time was up.
    pub(super) took: Duration,
    /// The time that the daemon gives it.
    pub(super) handshake_timeout: Duration,
    /// Whether the configuration allows a start.
    pub(super) could_start: bool,
}

/// `configured`: the servers to report; `None` if the configuration is not valid. A warning of `configuration` that explains why a server
/// is down is merged into the finding about that server.
pub(super) fn check(
    probe: &DaemonProbe,
    configuration: &mut Group,
    states: &[ServerCheck],
    configured: Option<&[&ServerConfig]>,
) -> Group {
    let mut findings: Vec<_> = states.iter().flat_map(|state| check_server(probe, configuration, state)).collect();
    let is_reported = |server: &ServerConfig| states.iter().any(|state| *state.report.name == *server.name);
    let unknown = configured.into_iter().flatten().filter(|server| probe.report().is_some() && !is_reported(server));
    findings.extend(unknown.map(|server| {
        let found = "is configured, and the daemon does not know it yet";
        Finding::warning(&*server.name, found, probe.mcpd("reload"))
    }));
    let defined = |finding: Finding| {
        let definition = probe.place(&finding.about);
        finding.defined(definition)
    };
    Group { title: "servers", findings: findings.into_iter().map(defined).collect() }
}

/// The defaults of limits that are not enforced, once for all servers.
pub(super) fn default_limits(states: &[ServerCheck]) -> Option<Finding> {
    let limits = states.iter().filter_map(|state| state.report.limits.as_ref());
    let missing = limits.filter(|limits| limits.state == Some(LimitsState::DefaultsNotEnforced));
    let found = missing.max_by_key(|limits| limits.not_enforced.len())?.unenforced_text()?;
    Some(Finding::fine("limits", format!("of the default limits of servers, {found}; see `mcpd serve --own-cgroup`")))
}

fn check_server(
    probe: &DaemonProbe,
    configuration: &mut Group,
    ServerCheck { report, trial }: &ServerCheck,
) -> Vec<Finding> {
    let name = &*report.name;
    if report.disabled {
        let enable = probe.mcpd(&format!("enable {name}"));
        let found = match report.disabled_in_configuration {
            true => format!("is disabled by the configuration (`enabled = false`); {enable} starts it"),
            false => format!("is disabled until {enable} or a restart of the daemon"),
        };
        return vec![Finding::fine(name, found)];
    }
    let failed = match report.state {
        StateName::NeedsLogin => return vec![locked(probe, report)],
        state if state.is_down() => Some(down(probe, report, *trial)),
        StateName::Starting if let Some(trial) = trial => Some(late(probe, report, *trial)),
        StateName::Starting if report.question().is_some() => Some(waiting(probe, report)),
        // A server between two attempts has the same state as a new server.
        StateName::Starting if report.restarts_last_hour > 0 => Some(down(probe, report, None)),
        _ => None,
    };
    if let Some(failed) = failed {
        let failed = merge_warning(probe, configuration, report, failed);
        let instances = failed_instances(probe, report).chain(causes::findings(probe, report));
        return [failed].into_iter().chain(instances).collect();
    }
    let mut findings = vec![up(probe, report, *trial)];
    findings.extend(failed_instances(probe, report));
    findings.extend(stability(probe, report));
    findings.extend(causes::left_container(probe, report));
    findings.extend(causes::denial(probe, report));
    findings.extend(unapproved_definitions(probe, report));
    findings.extend(hidden_items(probe, report));
    findings.extend(operator_overrides(probe, report));
    findings
}

/// Merges the warning of the configuration that explains why a server is down into the finding about the server.
fn merge_warning(probe: &DaemonProbe, configuration: &mut Group, report: &ServerReport, failed: Finding) -> Finding {
    let Some(server) = probe.servers.get(&report.name) else { return failed };
    let code = report.code.as_deref();
    let asks = code != Some("no_working_directory") && causes::asks(probe, report);
    let mistake = match code {
        _ if asks => server.command.as_ref(),
        // A server that is being tried again has no code.
        Some("no_working_directory") | None => server.cwd.as_ref(),
        Some(_) => None,
    };
    let is_it = |finding: &Finding, place: &str| finding.about == place && (!asks || finding.found == ASKS);
    let index = mistake.and_then(|value| configuration.findings.iter().position(|one| is_it(one, &value.place)));
    let Some(index) = index else { return failed };
    let warning = configuration.findings.remove(index);
    let failed = if asks { failed.with_advice(of_cause(probe, report, Cause::Question)) } else { failed };
    let fix = failed.fix.clone().or(warning.fix);
    failed.with_fix(fix)
}

fn up(probe: &DaemonProbe, report: &ServerReport, trial: Option<Trial>) -> Finding {
    let mut found = report.state.to_string();
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
        (usize::try_from(report.results_mended).unwrap_or(usize::MAX), "mended result"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| text::count(*count, what));
    for part in software.chain(protocol).chain(transport).chain(counts) {
        found += &format!(", {part}");
    }
    match trial {
        Some(Trial { took, .. }) if took > probe.first_list_wait => Finding::warning(
            &*report.name,
            format!("{found}; agents wait only {} for its tools (`first_list_wait`)", shown(probe.first_list_wait)),
            slow_start_advice(probe, &report.name),
        ),
        _ => Finding::fine(&*report.name, found),
    }
}

fn slow_start_advice(probe: &DaemonProbe, name: &str) -> String {
    let command = probe.program(name).map(|program| program.command.rsplit('/').next().unwrap_or_default());
    let launcher = ["npx", "uvx"].into_iter().find(|launcher| command == Some(launcher));
    let install = launcher.map(|name| format!("if `{name}` downloads it at each start, install it permanently; or "));
    let install = install.unwrap_or_default();
    format!(
        "{install}set `start = \"lazy\"` in {}: agents then see the tools of its last start at once; then {}",
        probe.definition(name),
        probe.after(Change::Configuration, name)
    )
}

/// A server that was not ready when the trial's time was up.
fn late(probe: &DaemonProbe, report: &ServerReport, trial: Trial) -> Finding {
    let found = format!(
        "is not ready after {}, the limit of doctor; its `handshake_timeout` is {}",
        shown(trial.took),
        shown(trial.handshake_timeout)
    );
    let check = match report.elsewhere() {
        Some(remote) => check_connection(&remote.origin),
        None if report.skipped_lines > 0 => {
            format!(
                "it wrote lines to stdout that are no messages ({}), as if it were no MCP server",
                report.skipped_lines
            )
        }
        None if report.stderr.is_empty() => "it wrote nothing to stderr".to_owned(),
        None => "read its last lines above to see what it waits for".to_owned(),
    };
    let advice = format!("{check}; to give it the whole time, run {}, then {}", probe.start(), probe.mcpd("status"));
    Finding::problem(&*report.name, found, advice).with_lines(last_stderr_lines(report))
}

/// A server that starts, and seems to ask a question.
fn waiting(probe: &DaemonProbe, report: &ServerReport) -> Finding {
    let question = report.question().unwrap_or_default();
    let found = format!("is starting, and its last line on stderr has no end: `{question}`");
    Finding::warning(&*report.name, found, of_cause(probe, report, Cause::Question))
        .with_lines(last_stderr_lines(report))
}

fn locked(probe: &DaemonProbe, report: &ServerReport) -> Finding {
    let name = &*report.name;
    let reason = report.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Finding::problem(name, format!("needs a login{reason}"), probe.mcpd_with_files(&format!("login {name}")))
}

fn down(probe: &DaemonProbe, report: &ServerReport, trial: Option<Trial>) -> Finding {
    let name = &report.name;
    // The finding about its program has the searched PATH.
    let why = report.reason.as_deref().or(report.last_error.as_deref()).unwrap_or_default();
    let reason = match why.split("; PATH searched").next().unwrap_or_default() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    let retry = report.retry_in_ms.map(|ms| format!(" (next try in {})", shown(Duration::from_millis(ms))));
    let times = match report.restarts_last_hour {
        0 => String::new(),
        1 => ", 1 more attempt to start it in the last hour".to_owned(),
        many => format!(", {many} more attempts to start it in the last hour"),
    };
    let has_ended = trial.is_some_and(|trial| trial.could_start);
    let state = match report.state {
        _ if has_ended => "did not start",
        StateName::Starting => "is being started again",
        state => state.word(),
    };
    let found = format!("{state}{reason}{}{times}", retry.unwrap_or_default());
    let fix = report.code.as_deref().filter(|code| *code == "no_working_directory").and_then(|_| cwd(probe, name));
    Finding::problem(&**name, found, remedy(probe, report, has_ended))
        .with_fix(fix)
        .with_code(report.code.clone())
        .with_lines(last_stderr_lines(report))
}

/// The fix of a missing `cwd`. It is not removed: relative paths of the server would then lead elsewhere. Only the last directory is
/// created, as the disk of a longer path may not be mounted.
fn cwd(probe: &DaemonProbe, name: &str) -> Option<Fix> {
    let cwd = probe.program(name)?.cwd.as_deref().filter(|cwd| cwd.is_absolute() && !cwd.exists())?;
    let existing = cwd.ancestors().find(|path| path.is_dir())?;
    let mut rest = cwd.strip_prefix(existing).ok()?.components();
    let missing = rest.next()?.as_os_str().to_str()?;
    let others = Process.list(existing).unwrap_or_default();
    let leads_on = |other: &&String| existing.join(other).join(rest.as_path()).is_dir();
    let others: Vec<_> = others.iter().filter(leads_on).map(String::as_str).collect();
    if let Some(meant) = only_misspelt(missing, others) {
        let edit = probe.servers.get(name)?.cwd.as_ref()?.edit.clone()?;
        let (start, end) = edit.text.rsplit_once(&format!("/{missing}"))?;
        let text = toml_string(&format!("{start}/{meant}{end}"));
        return Some(Fix::Edit(Edit { text, ..edit }));
    }
    let server = name.to_owned();
    (cwd.parent() == Some(existing)).then(|| Fix::CreateDirectory { path: cwd.to_owned(), server })
}

/// Instances that are down for a reason of their own, or in a directory.
fn failed_instances<'r>(probe: &'r DaemonProbe, report: &'r ServerReport) -> impl Iterator<Item = Finding> + 'r {
    let failed = report.instances.iter().filter(|one| one.is_down());
    let failed = failed.filter(|one| one.is_of_directory() || one.reason != report.reason);
    failed.map(|one| {
        let reason = one.reason.as_deref().unwrap_or("does not answer");
        let found = format!("is down for `{}`: {reason}", one.purpose.escape_debug());
        let advice = format!(
            "{} may show more; it is started again while an agent needs it",
            probe.mcpd(&format!("logs {}", report.name))
        );
        Finding::problem(&*report.name, found, advice).with_code(one.code.clone())
    })
}

fn last_stderr_lines(report: &ServerReport) -> impl Iterator<Item = String> + '_ {
    report.stderr.iter().skip(report.stderr.len().saturating_sub(STDERR_LINES)).cloned()
}

/// Restarts, missed health checks, and other signs of a server that may not stay up.
fn stability(probe: &DaemonProbe, report: &ServerReport) -> Vec<Finding> {
    let name = &*report.name;
    let mut findings = Vec::new();
    let reload = probe.after(Change::Configuration, name);
    // A server at a URL has no stderr here.
    let (check, shows) = match report.elsewhere() {
        Some(remote) => (remote_remedy(report.code.as_deref().unwrap_or_default(), &remote.origin), ""),
        // The log of a server that wrote nothing is empty.
        None if report.stderr.is_empty() => (probe.mcpd("logs"), " shows what servers wrote to stderr"),
        None => (probe.mcpd(&format!("logs {name}")), " shows its output before it ended"),
    };
    if report.restarts_last_hour >= MANY_RESTARTS {
        let last = report.last_error.as_ref().map(|error| format!("; last: {error}")).unwrap_or_default();
        let found = format!("was started again {} times in the last hour{last}", report.restarts_last_hour);
        findings.push(Finding::warning(name, found, format!("{check}{shows}")));
    }
    if !report.silence().is_empty() {
        let found = format!("has not answered {} in a row", report.silence());
        findings.push(Finding::warning(name, found, silence_advice(probe, name)));
    }
    if report.silent_starts > 0 {
        let found = "does not answer `server/discover`; mcpd waits 2s for it at the first start";
        findings.push(Finding::warning(
            name,
            found,
            format!("set `era = \"legacy\"` in {}; then {reload}", probe.definition(name)),
        ));
    }
    if let Some(reason) = &report.update_error {
        let found = format!("still runs with its former configuration, because the changed one failed: {reason}");
        findings.push(Finding::warning(name, found, format!("correct it, then {reload}")));
    }
    if let Some(limits) = report.limits.as_ref().filter(|limits| limits.state == Some(LimitsState::NotEnforced)) {
        let lacking = controllers(probe).and_then(|lack| lack.verdict.advice().map(str::to_owned));
        let advice = lacking.unwrap_or_else(|| {
            "run mcpd as a systemd unit (`mcpd service install`), which has `Delegate=` and `--own-cgroup`, on a system with cgroup v2"
                .to_owned()
        });
        findings.extend(limits.unenforced_text().map(|found| Finding::warning(name, found, advice)));
    }
    findings
}

/// Definitions that are not approved, and a file of approved ones that cannot be used.
fn unapproved_definitions(probe: &DaemonProbe, report: &ServerReport) -> Vec<Finding> {
    let name = &*report.name;
    let Some(changes) = &report.changes else { return Vec::new() };
    let mut findings = Vec::new();
    let approve = probe.mcpd(&format!("approve {name} --all"));
    if let Some(problem) = &changes.file_problem {
        let code = changes.file_problem_code.as_deref();
        let found = text::pin_file_problem(&changes.rule, problem, code);
        let reload = probe.mcpd("reload");
        findings.push(match (code, &*changes.rule) {
            (Some("unwritable"), _) => {
                let advice =
                    "make that directory writable, or make space on its disk: mcpd tries again at the next change";
                Finding::warning(name, found, advice)
            }
            (_, "hold") => {
                let advice =
                    format!("correct or remove that file, then {reload}; then {approve} approves what it offers");
                Finding::problem(name, found, advice)
            }
            _ => {
                let advice =
                    format!("correct that file, then {reload}; if you remove it instead, mcpd approves what the server offers then");
                Finding::warning(name, found, advice)
            }
        });
    }
    if let Some(found) = text::unapproved(changes) {
        let (diff, reject) = (probe.mcpd(&format!("diff {name}")), probe.mcpd(&format!("reject {name} TOOL")));
        let advice = format!("{diff} shows them; {approve} approves them, and {reject} hides a tool for good");
        findings.push(Finding::warning(name, found, advice));
    }
    findings
}

/// Items of the server that agents do not see.
fn hidden_items(probe: &DaemonProbe, report: &ServerReport) -> Vec<Finding> {
    let name = &*report.name;
    let mut findings = Vec::new();
    let reload = probe.after(Change::Configuration, name);
    let offers = report.tools_exposed + report.prompts_exposed + report.resources_exposed;
    let denied = report.tools_denied + report.prompts_denied + report.resources_denied;
    if offers == 0 && denied > 0 {
        let found = format!("policy hides everything it offers: {}", text::count(denied, "item"));
        findings.push(Finding::warning(
            name,
            found,
            format!("loosen `allow`, `deny` or `expose` of {}; then {reload}", probe.definition(name)),
        ));
    } else if offers == 0 && report.state == StateName::Ready {
        let advice = "read its documentation: it may need an argument, a login or a licence";
        findings.push(Finding::warning(name, "offers neither tools nor prompts nor resources", advice));
    } else if report.tools_exposed == 0 && report.tools_denied > 0 {
        let found = format!("policy hides all its {} tools", report.tools_denied);
        findings.push(Finding::warning(
            name,
            found,
            format!("loosen `allow` or `deny` of {}; then {reload}", probe.definition(name)),
        ));
    }
    if report.names_rejected > 0 {
        let found = format!("{} of its names are not valid, and are not listed", report.names_rejected);
        findings.push(Finding::warning(
            name,
            found,
            "report it to the server's author: these names have invisible characters, or more than 128 characters",
        ));
    }
    if report.items_malformed > 0 {
        let found = format!("{} malformed, which strict clients reject", are(report.items_malformed));
        let advice =
            "report it to the server's author; mcpd mends them or leaves them out, unless `malformed = \"pass\"`";
        let lines = report.malformed.iter().map(malformed_item);
        findings.push(Finding::warning(name, found, advice).with_lines(lines));
    }
    if report.tools_truncated {
        let taken = report.tools_exposed + report.tools_denied;
        let found = format!("lists more tools than mcpd accepts; the first {taken} are used");
        let advice = "report it to the server's author: perhaps the pages of its list repeat, or it has more tools than mcpd's limit";
        findings.push(Finding::warning(name, found, advice));
    }
    if report.resources_shadowed > 0 {
        findings.push(Finding::warning(name, shadowed_resources(report.resources_shadowed), DENY_SHADOWED));
    }
    findings
}

fn are(definitions: usize) -> String {
    format!("{} {}", text::count(definitions, "definition"), if definitions == 1 { "is" } else { "are" })
}

/// Overrides by an operator that may have been forgotten.
fn operator_overrides(probe: &DaemonProbe, report: &ServerReport) -> Vec<Finding> {
    let name = &*report.name;
    let mut findings = Vec::new();
    if let Some(first) = report.tools_disabled.first() {
        let (count, are) = match report.tools_disabled.len() {
            1 => ("1 tool".to_owned(), "is"),
            many => (format!("{many} tools"), "are"),
        };
        let enable = probe.mcpd(&format!("enable {name}/{first}"));
        findings.push(Finding::fine(
            name,
            format!("{count} {are} disabled until a restart of the daemon; {enable} enables `{first}` now"),
        ));
    }
    findings
}

/// What mcpd does about unanswered pings, and how to restart the server at once.
fn silence_advice(probe: &DaemonProbe, name: &str) -> String {
    let restart = probe.mcpd(&format!("restart {name}"));
    let then = match probe.servers.get(name).map(|server| server.config.settings.on_unhealthy) {
        Some(OnUnhealthy::Report) => {
            "mcpd reports it as unresponsive, and does not restart it, because of `on_unhealthy = \"report\"`"
        }
        _ => "mcpd restarts it",
    };
    format!(
        "after {MAX_MISSES} missed pings in a row, {then}; during a call, a ping counts as missed only if a call has timed out. \
         {restart} restarts it now"
    )
}

/// Rounded to milliseconds below one second, else to tenths of a second.
fn shown(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let rounded = if ms < 1000 { ms } else { ms / 100 * 100 };
    crate::duration::format(Duration::from_millis(rounded))
}

/// Until all servers have to be ready. Longer than the default `handshake_timeout`, after which a server has a reason.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(35);

/// Starts `servers` for an agent that works in `directory` and stops them again.
///
/// # Errors
/// If a name is not valid, which cannot happen with a valid configuration.
pub(super) async fn start_for_trial(
    servers: &[&ServerConfig],
    directory: Option<&Path>,
) -> Result<Vec<ServerCheck>, ManagerError> {
    let directory = directory.and_then(Path::to_str).map(|path| AgentDirectory::Own(path.into())).unwrap_or_default();
    let configs = servers.iter().map(|server| trial_config(server, &directory));
    let logins = daemon::logins();
    let host =
        ServerContext { restarts: None, logins: logins.clone(), ..ServerContext::new(GuardProgram::available()) };
    let manager = Manager::start_with(Setup { host, ..Setup::default() }, configs)?;
    let begin = Instant::now();
    let handles: Vec<_> = manager.view().borrow().servers.iter().map(|member| member.handle.clone()).collect();
    let waits = handles.iter().zip(servers).map(async |(handle, server)| {
        let has_ended = handle.wait_for(|published| published.first_start_ended || !server.settings.enabled);
        let _ = timeout_at((begin + TRIAL_TIMEOUT).into(), has_ended).await;
        begin.elapsed()
    });
    let took = join_all(waits).await;
    // The manager counts exposed items in its own task.
    manager.refresh().await?;
    let states = manager.servers().into_iter().zip(servers.iter().zip(took));
    let states = states.map(|(report, (server, took))| ServerCheck {
        report,
        trial: Some(Trial {
            took,
            handshake_timeout: server.settings.handshake_timeout,
            could_start: server.launch.is_ok(),
        }),
    });
    let states = states.collect();
    manager.close().await;
    if let Some(logins) = logins {
        logins.settled().await;
    }
    Ok(states)
}

/// The server for one agent, started at once. Without limits, since those need mcpd's own cgroup.
fn trial_config(server: &ServerConfig, directory: &AgentDirectory) -> ServerConfig {
    let wants_cwd = server.launch.as_ref().is_ok_and(Launch::needs_agent_cwd);
    let mut server = if wants_cwd { server.at(directory) } else { server.clone() };
    server.settings.sharing = Sharing::Shared;
    server.settings.start = Start::Eager;
    (server.settings.memory_max, server.settings.tasks_max) = (Limit::NONE, Limit::NONE);
    server.settings.cpu_weight = CPU_WEIGHT;
    server
}
