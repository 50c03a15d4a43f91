//! Notes about servers that run: what agents do not see and why, last errors, and unanswered messages.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::is_down;
use super::problems::PURPOSE_WIDTH;
use super::tables::MAX_INSTANCES;
use crate::admin::report::{
    ChangesReport, InstanceReport, LimitsReport, LimitsState, OverrideReport, ProfileReport, Report, ServerReport,
};
use crate::cli::style::OutputStyle;
use crate::cli::text::{count, malformed_item, one_line, pin_file_problem, shorten, unapproved, wrap};
use crate::config_lints::shadowed_resources;
use crate::policy::MAX_NAME_LEN;
use crate::server::{Refusal, RefusedPath, SandboxReport, UnansweredCounts};

/// Maximum number of disabled tools that are named on a terminal.
const MAX_TOOLS: usize = 10;
const MAX_NOTES: usize = 20;

/// One line for each note. The table already has the number of denied tools.
pub(super) fn notes(Report { servers, profiles, reapers_lost, .. }: &Report, style: OutputStyle) -> String {
    let mut all: Vec<_> = servers.iter().flat_map(|server| of_server(server, style)).collect();
    all.extend(lost_reapers(*reapers_lost));
    all.extend(unenforced(servers));
    all.extend(profiles.iter().filter_map(cut_lists));
    let mut text = String::new();
    let most = style.limit(MAX_NOTES);
    for note in all.iter().take(most) {
        text += &(wrap(&one_line(note), 0, 4, style.width()) + "\n");
    }
    if let Some(left @ 1..) = all.len().checked_sub(most) {
        let _ = writeln!(text, "… {left} more");
    }
    text
}

/// That all servers were restarted for a reason that is none of theirs.
pub(super) fn lost_reapers(lost: u64) -> Option<String> {
    let times = if lost == 1 { "once".to_owned() } else { format!("{lost} times") };
    (lost > 0).then(|| {
        format!("the process `mcpd-reaper` was killed {times}: mcpd has replaced it and restarted all servers")
    })
}

/// What is missing in the lists of a profile because they would be too large.
pub(super) fn cut_lists(ProfileReport { name, cut, .. }: &ProfileReport) -> Option<String> {
    let more = if cut.count > cut.first.len() { ", …" } else { "" };
    let items = cut.first.join(", ");
    (cut.count > 0).then(|| {
        format!(
            "profile {name}: {} not listed, as the list would be larger than `max_message`: {items}{more}",
            cut.count
        )
    })
}

/// What sandboxes do not restrict on this system, and what limits of the configuration are not enforced: once for all servers that it is
/// true of.
pub(super) fn unenforced(servers: &[ServerReport]) -> Vec<String> {
    let mut all: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for server in servers {
        let limits = server.limits.as_ref().filter(|limits| limits.state == Some(LimitsState::NotEnforced));
        let sandbox = server.sandbox.as_ref().and_then(SandboxReport::unenforced_text);
        for text in sandbox.into_iter().chain(limits.and_then(limits_text)) {
            all.entry(text).or_default().push(&server.name);
        }
    }
    all.into_iter().map(|(unenforced, names)| format!("{}: {unenforced}", names.join(", "))).collect()
}

fn limits_text(limits: &LimitsReport) -> Option<String> {
    Some(format!("{}; `mcpd doctor` shows what to do", limits.unenforced_text()?))
}

pub(super) fn of_server(server: &ServerReport, style: OutputStyle) -> Vec<String> {
    let name = &server.name;
    let mut all = Vec::new();
    all.extend(enablement(server));
    let question = server.question();
    all.extend(question.map(|line| format!("{name}: is starting, and its last line on stderr has no end: `{line}`")));
    all.extend(unanswered(server, style));
    all.extend(refused_calls(server));
    let past = server.last_error.as_ref().filter(|_| !server.disabled && !is_down(server));
    all.extend(past.map(|error| format!("{name}: last error: {error}")));
    if !server.tools_disabled.is_empty() {
        let most = style.limit(MAX_TOOLS);
        let tools: Vec<_> = server.tools_disabled.iter().take(most).map(|tool| one_line(tool)).collect();
        let more = if server.tools_disabled.len() > most { ", …" } else { "" };
        all.push(format!("{name}: disabled tools: {}{more}", tools.join(", ")));
    }
    if let unfit @ 1.. = server.names_rejected {
        let what = if unfit == 1 { "1 tool or prompt is" } else { &format!("{unfit} tools and prompts are") };
        all.push(format!(
            "{name}: {what} not listed: the name has control characters or other invisible ones, or more than {MAX_NAME_LEN} characters"
        ));
    }
    all.extend(server.malformed.first().map(|worst| {
        let others = match server.items_malformed {
            0 | 1 => String::new(),
            all => format!("; {} more: `mcpd doctor {name}`", all - 1),
        };
        format!("{name}: {}{others}", malformed_item(worst))
    }));
    if let shadowed @ 1.. = server.resources_shadowed {
        all.push(format!("{name}: {}", shadowed_resources(shadowed)));
    }
    all.extend(server.changes.iter().flat_map(|changes| unapproved_definitions(name, changes)));
    all.extend(server.tool_overrides.iter().map(|one| format!("{name}: {}", override_text(one))));
    all
}

/// Definitions that are not approved, and a file of approved ones that cannot be used.
fn unapproved_definitions(name: &str, changes: &ChangesReport) -> impl Iterator<Item = String> {
    let ChangesReport { rule, file_problem, file_problem_code, .. } = changes;
    let problem = file_problem.as_ref().map(|problem| pin_file_problem(rule, problem, file_problem_code.as_deref()));
    let problem = problem.map(|problem| format!("{name}: {problem}"));
    let counts = unapproved(changes).map(|counts| format!("{name}: {counts}: `mcpd diff {name}`"));
    problem.into_iter().chain(counts)
}

/// What does not work in the override of a tool.
fn override_text(OverrideReport { tool, problem, value }: &OverrideReport) -> String {
    match &**problem {
        "name_taken" => format!("agents do not see the tool `{tool}`: the server itself has a tool `{value}`"),
        "missing_argument" => {
            format!("each call of the tool `{tool}` fails: the server requires the argument `{value}`, which is hidden")
        }
        other => format!("the override of the tool `{tool}` does not work: {other} `{value}`"),
    }
}

/// Calls that failed at files which exist outside its sandbox.
fn refused_calls(server: &ServerReport) -> Option<String> {
    let name = &server.name;
    let refused = server.refused.as_ref()?;
    let exists = |path: &RefusedPath| path.refusal != Refusal::Missing || Path::new(&path.path).exists();
    let note = format!(
        "{name}: {} failed at files that its sandbox may keep from it: `mcpd doctor {name}`",
        count(refused.calls, "call")
    );
    refused.paths.iter().any(exists).then_some(note)
}

/// That the configuration disables a server.
fn enablement(server: &ServerReport) -> Option<String> {
    let name = &server.name;
    let note = match server.disabled {
        true => format!("{name}: disabled by the configuration (`enabled = false`)"),
        false => format!("{name}: enabled until the daemon stops; the configuration has `enabled = false`"),
    };
    server.disabled_in_configuration.then_some(note)
}

/// Messages that a server, or each of its instances, has not answered since its last message.
fn unanswered(server: &ServerReport, style: OutputStyle) -> Vec<String> {
    let name = &server.name;
    let note = |who: String, silence: UnansweredCounts, pending: u64| {
        let calls = if pending == 0 { String::new() } else { format!(" (calls in progress: {pending})") };
        (!silence.is_empty()).then(|| format!("{who}: has not answered {silence} in a row{calls}"))
    };
    if server.instances.is_empty() {
        return note(name.clone(), server.silence(), server.in_flight).into_iter().collect();
    }
    let of_instance = |one: &InstanceReport| {
        let purpose = shorten(&one_line(&one.purpose), style.limit(PURPOSE_WIDTH));
        note(format!("{name} ({purpose})"), one.silence(), one.in_flight)
    };
    server.instances.iter().filter_map(of_instance).take(style.limit(MAX_INSTANCES)).collect()
}
