//! What has gone wrong, before anything else: sentences, each with the command that tells more.

use std::fmt::Write;

use super::is_down;
use super::tables::INSTANCES;
use crate::admin::report::{NEEDS_LOGIN, ReloadRefused, Report, ServerReport};
use crate::cli::look::{Look, Tone};
use crate::cli::text::{one_line, shortened, span, wrapped};

/// Servers of which it is told; the table has the others.
const SERVERS: usize = 10;
/// Lines of stderr that are shown; `mcpd logs` has more.
const LAST_WORDS: usize = 5;
/// Places for what an instance is for.
pub(super) const PURPOSE: usize = 40;
/// Blanks before what belongs to a sentence.
const INDENT: usize = 4;

/// A configuration that was refused.
pub(super) fn of_the_configuration(report: &Report, look: Look) -> String {
    let Some(ReloadRefused { time, reason }) = &report.reload_refused else { return String::new() };
    let said = format!("the configuration was read again at {time} and does not hold, so nothing has changed:");
    let mut text = sentence((Tone::Bad, "✗"), &said, look);
    details(reason.lines(), look, &mut text);
    text + &more("mcpd check", look)
}

/// Servers that are down, or not as they are wanted.
pub(super) fn of_servers(servers: &[ServerReport], look: Look) -> String {
    let told: Vec<_> = servers.iter().map(|server| of_server(server, look)).filter(|text| !text.is_empty()).collect();
    let mut text: String = told.iter().take(SERVERS).map(String::as_str).collect();
    if let Some(left @ 1..) = told.len().checked_sub(SERVERS) {
        let _ = writeln!(text, "… {left} more");
    }
    text
}

fn of_server(server: &ServerReport, look: Look) -> String {
    let mut text = String::new();
    if let Some(reason) = &server.change_failed {
        let said = format!("{}: goes on as it was before it was changed, for that failed: {reason}", server.name);
        text += &sentence((Tone::Doubtful, "!"), &said, look);
    }
    if is_down(server) {
        for said in wrongs(server) {
            text += &sentence((Tone::Bad, "✗"), &said, look);
        }
        details(last_words(server), look, &mut text);
    } else if let Some(error) = &server.last_error
        && is_tried_again(server)
    {
        text += &sentence((Tone::Doubtful, "!"), &format!("{}: last error: {error}", server.name), look);
        details(last_words(server), look, &mut text);
    }
    if text.is_empty() { text } else { text + &more(&tells_more(server), look) }
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
    let retry = server.retry_in_ms.map(|ms| format!(" (next try in {})", span(ms))).unwrap_or_default();
    let what = if server.state == NEEDS_LOGIN { "needs a login: " } else { "" };
    let whole = server.reason.as_ref().map(|reason| format!("{name}: {what}{reason}{retry}"));
    let instances = server.instances.iter().filter(|one| one.reason.is_none() || one.reason != server.reason);
    let of_instances = instances.filter_map(|one| {
        let said = one.reason.as_deref().or((one.answers == Some(false)).then_some("does not answer"))?;
        Some(format!("{name} ({}): {said}", shortened(&one_line(&one.purpose), PURPOSE)))
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
fn sentence((tone, sign): (Tone, &str), said: &str, look: Look) -> String {
    let said = wrapped(&one_line(said), 2, INDENT, look.width());
    format!("{} {said}\n", look.paint(tone, sign))
}

fn details<'a>(lines: impl Iterator<Item = &'a str>, look: Look, text: &mut String) {
    for line in lines {
        let line = wrapped(&one_line(&line.replace('\t', "    ")), INDENT, INDENT, look.width());
        text.extend([" ".repeat(INDENT), look.paint(Tone::Faint, &line), "\n".to_owned()]);
    }
}

/// The command that tells more.
fn more(command: &str, look: Look) -> String {
    format!("    {} {command}\n", look.paint(Tone::Faint, "→"))
}
