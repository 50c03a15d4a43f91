//! What a person should know of servers that run: what of them agents do not see, and why, and what they went through.

use std::fmt::Write;

use super::is_down;
use super::tables::INSTANCES;
use super::trouble::{PURPOSE, is_tried_again};
use crate::admin::report::{InstanceReport, ServerReport};
use crate::cli::style::OutputStyle;
use crate::cli::text::{one_line, shorten, wrap};
use crate::config_lints::shadowed_resources;
use crate::policy::LONGEST_NAME;
use crate::server::Silence;

/// Tools that are named; `--json` has them all.
const TOOLS: usize = 10;
/// Notes that are shown; `--json` has all that they are made of.
const NOTES: usize = 20;

/// A sentence for each thing. What policy hides is in the table.
pub(super) fn notes(servers: &[ServerReport], style: OutputStyle) -> String {
    let all: Vec<_> = servers.iter().flat_map(of_server).collect();
    let mut text = String::new();
    for note in all.iter().take(NOTES) {
        text += &(wrap(&one_line(note), 0, 4, style.width()) + "\n");
    }
    if let Some(left @ 1..) = all.len().checked_sub(NOTES) {
        let _ = writeln!(text, "… {left} more");
    }
    text
}

fn of_server(server: &ServerReport) -> Vec<String> {
    let name = &server.name;
    let mut all = Vec::new();
    all.extend(silences(server));
    let past = server.last_error.as_ref().filter(|_| !server.disabled && !is_down(server) && !is_tried_again(server));
    all.extend(past.map(|error| format!("{name}: last error: {error}")));
    let limits = server.limits.as_ref();
    let unlimited = limits.and_then(|limits| limits.state.as_ref().zip(limits.reason.as_ref()));
    all.extend(unlimited.map(|(state, reason)| format!("{name}: limits {state}: {reason}")));
    if !server.tools_off.is_empty() {
        let tools: Vec<_> = server.tools_off.iter().take(TOOLS).map(|tool| one_line(tool)).collect();
        let more = if server.tools_off.len() > TOOLS { ", …" } else { "" };
        all.push(format!("{name}: switched off: {}{more}", tools.join(", ")));
    }
    if let unfit @ 1.. = server.names_unfit {
        let what = if unfit == 1 { "1 tool or prompt is" } else { &format!("{unfit} tools and prompts are") };
        all.push(format!(
            "{name}: {what} not listed: the name has control characters or other invisible ones, or more than {LONGEST_NAME} characters"
        ));
    }
    if let shadowed @ 1.. = server.resources_shadowed {
        all.push(format!("{name}: {}", shadowed_resources(shadowed)));
    }
    all
}

/// What a server, or each of its instances, has left unanswered since its last message.
fn silences(server: &ServerReport) -> Vec<String> {
    let name = &server.name;
    let sentence = |who: String, silence: Silence, pending: u64| {
        let calls = if pending == 0 { String::new() } else { format!(" (calls in progress: {pending})") };
        (!silence.is_empty()).then(|| format!("{who}: has not answered {silence} in a row{calls}"))
    };
    if server.instances.is_empty() {
        return sentence(name.clone(), server.silence(), server.in_flight).into_iter().collect();
    }
    let of_instance = |one: &InstanceReport| {
        let purpose = shorten(&one_line(&one.purpose), PURPOSE);
        sentence(format!("{name} ({purpose})"), one.silence(), one.in_flight)
    };
    server.instances.iter().filter_map(of_instance).take(INSTANCES).collect()
}
