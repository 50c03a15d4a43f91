//! Problems in `mcpd status`, each with the command that fixes or explains it.

use std::fmt::Write;

use super::tables::MAX_INSTANCES;
use super::{has_failed, is_retrying};
use crate::admin::report::{InstanceReport, RejectedConfigReport, Report, ServerReport, StateName};
use crate::cli::daemon_report::{changed_sentence, replacement};
use crate::cli::stop;
use crate::cli::style::{OutputStyle, Tone};
use crate::cli::text::{
    TimeFormat, local_time, one_line, searched_paths, short_duration, shorten, split_searched_path, truncate, wrap,
};

const MAX_SERVERS: usize = 10;
/// In the brief report, which has a few lines for each server.
const MAX_BRIEF_SERVERS: usize = 15;
/// Lines of the reason why a configuration was rejected; `mcpd check` prints them all.
const MAX_REASON_LINES: usize = 6;
/// Lines of stderr; `mcpd logs` prints more.
const MAX_STDERR_LINES: usize = 5;
/// Columns for the purpose of an instance.
pub(super) const PURPOSE_WIDTH: usize = 40;
/// Spaces before the details of a problem.
const INDENT: usize = 4;

/// A configuration that was rejected, or that has changed on disk.
pub(super) fn of_configuration(report: &Report, style: OutputStyle) -> String {
    let Some(RejectedConfigReport { time, reason, files_changed, .. }) = &report.reload_refused else {
        return changed_files(report, style);
    };
    let time = local_time(time, TimeFormat::Sentence);
    if let Some(changed) = changed_sentence(files_changed) {
        return warning(&format!("the configuration was rejected at {time}; {changed} since then"), style)
            + &next_command("mcpd reload", style);
    }
    let mut text =
        error(&format!("the configuration was rejected at {time}; mcpd still uses the previous one:"), style);
    let most = style.limit(MAX_REASON_LINES);
    details(reason.lines().take(most), style, &mut text);
    if reason.lines().count() > most {
        details(["…"].into_iter(), style, &mut text);
    }
    text + &next_command("mcpd check", style)
}

fn changed_files(report: &Report, style: OutputStyle) -> String {
    let Some(changed) = changed_sentence(&report.files_changed) else { return String::new() };
    warning(&format!("{changed} since mcpd read the configuration"), style) + &next_command("mcpd reload", style)
}

/// A program that was replaced since the daemon was started.
pub(super) fn of_program(report: &Report, style: OutputStyle) -> String {
    let Some(replacement) = replacement(report) else { return String::new() };
    warning(&replacement, style) + &next_command("mcpd restart", style)
}

/// Other daemons of the same user. They run their own copies of the servers.
pub(super) fn other_daemons(report: &Report, style: OutputStyle) -> String {
    let one = |directory: &String| {
        let text = format!("another daemon of yours serves in {directory}, with its own copies of servers");
        warning(&text, style) + &next_command(&stop::command(directory), style)
    };
    report.other_daemons.iter().map(one).collect()
}

/// Each server that is down, with its last line on stderr.
pub(super) fn brief(servers: &[ServerReport], style: OutputStyle) -> String {
    let down: Vec<_> = servers.iter().filter(|server| has_failed(server)).collect();
    let mut text = String::new();
    let most = style.limit(MAX_BRIEF_SERVERS);
    for server in down.iter().take(most) {
        text += &error(&failures(server, style).swap_remove(0), style);
        let line = server.stderr.last().map(|line| one_line(&line.replace('\t', "    ")));
        let room = style.width().map_or(usize::MAX, |width| width.saturating_sub(INDENT));
        details(line.map(|line| truncate(&line, room)).as_deref().into_iter(), style, &mut text);
    }
    if let Some(left @ 1..) = down.len().checked_sub(most) {
        let _ = writeln!(text, "… {left} more");
    }
    text += &searched_path_lines(&down, style);
    if down.is_empty() { text } else { text + &next_command("mcpd doctor", style) }
}

/// Each PATH that was searched for a missing command, once for all servers.
fn searched_path_lines(servers: &[&ServerReport], style: OutputStyle) -> String {
    let reasons = servers.iter().flat_map(|server| server.reason.iter().chain(&server.last_error));
    let line = |path: &String| style.paint(Tone::Faint, &wrap(path, 0, INDENT, style.width())) + "\n";
    searched_paths(reasons.map(String::as_str), "the daemon").iter().map(line).collect()
}

/// Servers with a problem.
pub(super) fn of_servers(servers: &[ServerReport], style: OutputStyle) -> String {
    let texts = servers.iter().map(|server| (server, of_server(server, true, style)));
    let texts: Vec<_> = texts.filter(|(_, text)| !text.is_empty()).collect();
    let most = style.limit(MAX_SERVERS);
    let shown = &texts[..texts.len().min(most)];
    let mut text: String = shown.iter().map(|(_, text)| text.as_str()).collect();
    text += &searched_path_lines(&shown.iter().map(|(server, _)| *server).collect::<Vec<_>>(), style);
    if let Some(left @ 1..) = texts.len().checked_sub(most) {
        let _ = writeln!(text, "… {left} more");
    }
    text
}

/// The problems of one server, without its last lines on stderr.
pub(super) fn of_one(server: &ServerReport, style: OutputStyle) -> String {
    let text = of_server(server, false, style);
    if text.is_empty() { text } else { text + &searched_path_lines(&[server], style) }
}

fn of_server(server: &ServerReport, with_stderr: bool, style: OutputStyle) -> String {
    let mut text = String::new();
    if let Some(reason) = &server.update_error {
        let message = format!("{}: still runs its previous definition; the changed one failed: {reason}", server.name);
        text += &warning(&message, style);
    }
    if has_failed(server) {
        failures(server, style).iter().for_each(|failure| text += &error(failure, style));
        details(last_stderr_lines(server).filter(|_| with_stderr), style, &mut text);
    }
    if !text.is_empty() {
        text += &next_command(&command_for(server), style);
    }
    text
}

/// The command that fixes or explains a problem. `doctor` has a remedy for a known cause, and the log helps only if the server has
/// written to stderr.
pub(super) fn command_for(server: &ServerReport) -> String {
    let name = &server.name;
    match server.state {
        StateName::NeedsLogin => format!("mcpd login {name}"),
        _ if server.cause.is_some() || server.stderr.is_empty() => format!("mcpd doctor {name}"),
        _ => format!("mcpd logs {name}"),
    }
}

fn last_stderr_lines(server: &ServerReport) -> impl Iterator<Item = &str> {
    let all = &server.stderr;
    all[all.len().saturating_sub(MAX_STDERR_LINES)..].iter().map(String::as_str)
}

/// Why a server is down, and why its instances are. Never empty.
pub(super) fn failures(server: &ServerReport, style: OutputStyle) -> Vec<String> {
    let name = &server.name;
    let retry = server.retry_in_ms.map(|ms| format!(" (next try in {})", short_duration(ms))).unwrap_or_default();
    let prefix = if server.state == StateName::NeedsLogin { "needs a login: " } else { "" };
    let reason = server.reason.as_deref().map(|reason| split_searched_path(reason).0);
    // That of a directory says where it fails.
    let is_shown_by = |one: &InstanceReport| one.is_of_directory() && one.reason == server.reason;
    let reason = reason.filter(|_| !server.instances.iter().any(is_shown_by));
    let of_server = reason.map(|reason| format!("{name}: {prefix}{reason}{retry}"));
    let is_other = |one: &&InstanceReport| one.reason.is_none() || one.reason != server.reason || one.is_of_directory();
    let instances = server.instances.iter().filter(is_other);
    let of_instances = instances.filter_map(|one| {
        let reason = one.reason.as_deref().or((one.answers == Some(false)).then_some("does not answer"))?;
        let reason = split_searched_path(reason).0;
        Some(format!("{name} ({}): {reason}", shorten(&one_line(&one.purpose), style.limit(PURPOSE_WIDTH))))
    });
    let mut failures: Vec<_> = of_server.into_iter().chain(of_instances.take(style.limit(MAX_INSTANCES))).collect();
    if let (true, Some(error)) = (is_retrying(server), &server.last_error) {
        failures.push(format!("{name}: {} (is being started again)", split_searched_path(error).0));
    }
    if failures.is_empty() {
        let why = if server.answers == Some(false) { "does not answer" } else { server.state.word() };
        failures.push(format!("{name}: {why}"));
    }
    failures
}

fn error(message: &str, style: OutputStyle) -> String {
    let message = wrap(&one_line(message), 2, INDENT, style.width());
    format!("{} {message}\n", style.paint(Tone::Bad, "✗"))
}

fn warning(message: &str, style: OutputStyle) -> String {
    let message = wrap(&one_line(message), 2, INDENT, style.width());
    format!("{} {message}\n", style.paint(Tone::Doubtful, "!"))
}

fn details<'a>(lines: impl Iterator<Item = &'a str>, style: OutputStyle, text: &mut String) {
    for line in lines {
        let line = wrap(&one_line(&line.replace('\t', "    ")), INDENT, INDENT, style.width());
        text.extend([" ".repeat(INDENT), style.paint(Tone::Faint, &line), "\n".to_owned()]);
    }
}

fn next_command(command: &str, style: OutputStyle) -> String {
    format!("    {} {command}\n", style.paint(Tone::Faint, "→"))
}
