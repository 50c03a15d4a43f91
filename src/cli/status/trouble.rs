//! What has gone wrong, before anything else: sentences, each with the command that tells more.

use std::fmt::Write;

use super::is_down;
use super::tables::INSTANCES;
use crate::admin::report::{NEEDS_LOGIN, ReloadRefused, Report, ServerReport};
use crate::cli::local_time::{self, TimeFormat};
use crate::cli::style::{OutputStyle, Tone};
use crate::cli::text::{one_line, searched_paths, short_duration, shorten, split_searched_path, truncate, wrap};
use crate::cli::{changed_files, stop};

/// Servers of which it is told; the table has the others.
const SERVERS: usize = 10;
/// Servers that have a line each where there is little room.
const BRIEF: usize = 15;
/// Lines of stderr that are shown; `mcpd logs` has more.
const LAST_WORDS: usize = 5;
/// Places for what an instance is for.
pub(super) const PURPOSE: usize = 40;
/// Blanks before what belongs to a sentence.
const INDENT: usize = 4;

/// A configuration that was refused, or that has changed on disk.
pub(super) fn of_the_configuration(report: &Report, style: OutputStyle) -> String {
    let Some(ReloadRefused { time, reason, files_changed, .. }) = &report.reload_refused else {
        return changed(report, style);
    };
    let time = local_time::format(time, TimeFormat::Sentence);
    if let Some(changed) = changed_files::sentence(files_changed) {
        let said = format!("the configuration was refused at {time}; {changed} since then");
        return sentence((Tone::Doubtful, "!"), &said, style) + &more("mcpd reload", style);
    }
    let said = format!("the configuration was refused at {time}; mcpd still uses the previous one:");
    let mut text = sentence((Tone::Bad, "✗"), &said, style);
    details(reason.lines(), style, &mut text);
    text + &more("mcpd check", style)
}

/// Files that hold something else than what runs.
fn changed(report: &Report, style: OutputStyle) -> String {
    let Some(changed) = changed_files::sentence(&report.files_changed) else { return String::new() };
    let said = format!("{changed} since mcpd read the configuration");
    sentence((Tone::Doubtful, "!"), &said, style) + &more("mcpd reload", style)
}

/// Other daemons of the same user, which run the same servers once more.
pub(super) fn other_daemons(report: &Report, style: OutputStyle) -> String {
    let one = |directory: &String| {
        let said = format!("another daemon of yours serves in {directory}, with servers of its own");
        sentence((Tone::Doubtful, "!"), &said, style) + &more(&stop::command(directory), style)
    };
    report.other_daemons.iter().map(one).collect()
}

/// One line for each server that is down.
pub(super) fn brief(servers: &[ServerReport], style: OutputStyle) -> String {
    let down: Vec<_> = servers.iter().filter(|server| is_in_trouble(server)).collect();
    let mut text = String::new();
    for server in down.iter().take(BRIEF) {
        let said = match (is_down(server), &server.last_error) {
            (false, Some(error)) => format!("{}: {}; being started again", server.name, split_searched_path(error).0),
            _ => wrongs(server).swap_remove(0),
        };
        let said = one_line(&said);
        let said = style.width().map_or_else(|| said.clone(), |width| truncate(&said, width.saturating_sub(2)));
        text += &format!("{} {said}\n", style.paint(Tone::Bad, "✗"));
    }
    if let Some(left @ 1..) = down.len().checked_sub(BRIEF) {
        let _ = writeln!(text, "… {left} more");
    }
    text += &searched(&down, style);
    if down.is_empty() { text } else { text + &more("mcpd doctor", style) }
}

/// The PATHs on which commands were not found, each in one line for all servers.
fn searched(servers: &[&ServerReport], style: OutputStyle) -> String {
    let reasons = servers.iter().flat_map(|server| server.reason.iter().chain(&server.last_error));
    let line = |path: &String| style.paint(Tone::Faint, &wrap(path, 0, INDENT, style.width())) + "\n";
    searched_paths(reasons.map(String::as_str)).iter().map(line).collect()
}

/// Servers that are down, or not as they are wanted.
pub(super) fn of_servers(servers: &[ServerReport], style: OutputStyle) -> String {
    let told = servers.iter().map(|server| (server, of_server(server, style)));
    let told: Vec<_> = told.filter(|(_, text)| !text.is_empty()).collect();
    let shown = &told[..told.len().min(SERVERS)];
    let mut text: String = shown.iter().map(|(_, text)| text.as_str()).collect();
    text += &searched(&shown.iter().map(|(server, _)| *server).collect::<Vec<_>>(), style);
    if let Some(left @ 1..) = told.len().checked_sub(SERVERS) {
        let _ = writeln!(text, "… {left} more");
    }
    text
}

fn of_server(server: &ServerReport, style: OutputStyle) -> String {
    let mut text = String::new();
    if let Some(reason) = &server.change_failed {
        let said = format!("{}: goes on as it was before it was changed, for that failed: {reason}", server.name);
        text += &sentence((Tone::Doubtful, "!"), &said, style);
    }
    if is_down(server) {
        for said in wrongs(server) {
            text += &sentence((Tone::Bad, "✗"), &said, style);
        }
        details(last_words(server), style, &mut text);
    } else if let Some(error) = &server.last_error
        && is_tried_again(server)
    {
        let error = split_searched_path(error).0;
        text += &sentence((Tone::Doubtful, "!"), &format!("{}: last error: {error}", server.name), style);
        details(last_words(server), style, &mut text);
    }
    if text.is_empty() { text } else { text + &more(&tells_more(server), style) }
}

/// What to run next: of a server that has said nothing, its log has nothing.
fn tells_more(server: &ServerReport) -> String {
    let name = &server.name;
    match server.vouched.as_deref() {
        _ if server.state == NEEDS_LOGIN => format!("mcpd login {name}"),
        Some("down") => format!("mcpd health {name} auto"),
        _ if server.stderr.is_empty() => format!("mcpd doctor {name}"),
        _ => format!("mcpd logs {name}"),
    }
}

/// Whether a brief report has a line for it: it is down, or was, and is being started again.
pub(super) fn is_in_trouble(server: &ServerReport) -> bool {
    is_down(server) || is_tried_again(server)
}

/// Whether it has failed, and may not do so this time.
pub(super) fn is_tried_again(server: &ServerReport) -> bool {
    !server.disabled && server.state == "starting" && server.last_error.is_some()
}

fn last_words(server: &ServerReport) -> impl Iterator<Item = &str> {
    let all = &server.stderr;
    all[all.len().saturating_sub(LAST_WORDS)..].iter().map(String::as_str)
}

/// What is wrong with a server that is down, or with instances of it.
fn wrongs(server: &ServerReport) -> Vec<String> {
    let name = &server.name;
    let retry = server.retry_in_ms.map(|ms| format!(" (next try in {})", short_duration(ms))).unwrap_or_default();
    let what = if server.state == NEEDS_LOGIN { "needs a login: " } else { "" };
    let reason = server.reason.as_deref().map(|reason| split_searched_path(reason).0);
    let whole = reason.map(|reason| format!("{name}: {what}{reason}{retry}"));
    let instances = server.instances.iter().filter(|one| one.reason.is_none() || one.reason != server.reason);
    let of_instances = instances.filter_map(|one| {
        let said = one.reason.as_deref().or((one.answers == Some(false)).then_some("does not answer"))?;
        let said = split_searched_path(said).0;
        Some(format!("{name} ({}): {said}", shorten(&one_line(&one.purpose), PURPOSE)))
    });
    let mut said: Vec<_> = whole.into_iter().chain(of_instances.take(INSTANCES)).collect();
    if said.is_empty() {
        let why = match server.vouched.as_deref() {
            Some("down") => "is marked down, so no call is sent to it",
            _ if server.answers == Some(false) => "does not answer",
            _ => &server.state,
        };
        said.push(format!("{name}: {why}"));
    }
    said
}

/// One sentence behind its sign.
fn sentence((tone, sign): (Tone, &str), said: &str, style: OutputStyle) -> String {
    let said = wrap(&one_line(said), 2, INDENT, style.width());
    format!("{} {said}\n", style.paint(tone, sign))
}

fn details<'a>(lines: impl Iterator<Item = &'a str>, style: OutputStyle, text: &mut String) {
    for line in lines {
        let line = wrap(&one_line(&line.replace('\t', "    ")), INDENT, INDENT, style.width());
        text.extend([" ".repeat(INDENT), style.paint(Tone::Faint, &line), "\n".to_owned()]);
    }
}

/// The command that tells more.
fn more(command: &str, style: OutputStyle) -> String {
    format!("    {} {command}\n", style.paint(Tone::Faint, "→"))
}
