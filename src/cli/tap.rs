//! `mcpd tap`: messages of agents and servers as they pass.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use futures_util::StreamExt;
use serde::Deserialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook_tokio::Signals;
use unicode_width::UnicodeWidthStr;

use super::calls::format_duration;
use super::outcome::{exact_report_line, server_text};
use super::status;
use super::style::{OutputStyle, Tone};
use super::text::{TimeFormat, count, local_time, one_line, truncate};
use super::{CommandResult, FAILED, NOT_RUNNING, USAGE, admin_failure, completions, fail, try_print};
use crate::admin::{self, TapItem, TapRequest};
use crate::printable;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::tap::report::{PeerReport, TapLine, TapReport};

#[derive(Debug, Args)]
pub(super) struct Tap {
    /// Show only this server, or the agent with this session number or client name
    #[arg(value_name = "SERVER|AGENT", add = ArgValueCandidates::new(completions::servers))]
    peer: Option<String>,
    /// Show only messages of this method, and their responses; `tools/*` means all methods that begin with `tools/`
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Print the messages alone, each on a line
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Print each message as a line of JSON
    #[arg(long)]
    json: bool,
    /// Write to this new file, which only you can read. The form is JSON unless `--raw` is given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The form of the output.
enum Form {
    Table(Table),
    Raw,
    Json,
}

/// Where the output goes.
enum Target {
    Stdout { is_terminal: bool },
    File { file: File, path: PathBuf },
}

pub(super) async fn run(directory: &RuntimeDir, Tap { peer, method, raw, json, output }: Tap) -> CommandResult {
    // From here on Ctrl-C ends the output in order.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| fail(FAILED, error))?;
    let socket = directory.socket(ADMIN_SOCKET);
    let named = peer.clone();
    let mut messages = admin::tap(&socket, TapRequest { peer, method }).await.map_err(|error| admin_failure(&error))?;
    let mut form = match (raw, json || output.is_some()) {
        (true, _) => Form::Raw,
        (false, true) => Form::Json,
        (false, false) => Form::Table(Table::new(OutputStyle::of_stdout())),
    };
    let mut target = Target::open(output)?;
    print_note!("mcpd: watching; Ctrl-C ends it");
    if let (Some(named), Ok(report)) = (named, admin::status(&socket).await)
        && let Some(server) = report.servers.iter().find(|server| server.name == named)
        && (server.disabled || status::has_failed(server))
    {
        print_note!("mcpd: {} is {}, so it gets no messages; `mcpd status {0}` shows why", server.name, server.state);
    }
    let (mut written, mut is_finished) = (0, false);
    loop {
        let next = tokio::select! {
            next = messages.next() => next.map_err(|error| admin_failure(&error))?,
            _ = signals.next() => {
                // The daemon may hang.
                if std::mem::replace(&mut is_finished, true) {
                    break;
                }
                messages.finish().await.map_err(|error| admin_failure(&error))?;
                continue;
            }
        };
        match next {
            Some(TapItem::Message(report)) => {
                target.write(&form.line(&report, &target)?)?;
                written += 1;
            }
            Some(TapItem::Missed(missed)) => {
                if let Form::Json = form {
                    target.write(&exact_report_line(&TapLine { missed: Some(missed), ..TapLine::default() })?)?;
                }
                print_note!("mcpd: {missed} messages are missing here: they came faster than they were read");
            }
            None => break,
        }
    }
    if let Target::File { path, .. } = &target {
        print_note!("mcpd: {} in {}", count(written, "message"), path.display());
    }
    if is_finished { Ok(ExitCode::SUCCESS) } else { Err(fail(NOT_RUNNING, "the daemon has stopped")) }
}

impl Target {
    fn open(output: Option<PathBuf>) -> Result<Self, ExitCode> {
        let Some(path) = output else { return Ok(Self::Stdout { is_terminal: io::stdout().is_terminal() }) };
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = opened.map_err(|error| fail(USAGE, format!("cannot write {}: {error}", path.display())))?;
        Ok(Self::File { file, path })
    }

    fn write(&mut self, line: &str) -> Result<(), ExitCode> {
        match self {
            Self::Stdout { .. } => try_print(line),
            Self::File { file, path } => file
                .write_all(line.as_bytes())
                .map_err(|error| fail(FAILED, format!("cannot write {}: {error}", path.display()))),
        }
    }
}

impl Form {
    fn line(&mut self, report: &TapReport, target: &Target) -> Result<String, ExitCode> {
        // A terminal gets escapes for invisible characters; a file or pipe gets the exact text.
        let is_terminal = matches!(target, Target::Stdout { is_terminal: true });
        match self {
            Self::Table(table) => Ok(table.line(report)),
            Self::Raw if is_terminal => Ok(server_text(&report.text, &io::stdout()).into_owned() + "\n"),
            Self::Raw => Ok(format!("{}\n", report.text)),
            Self::Json => {
                let line = exact_report_line(&TapLine::from(report))?;
                Ok(if is_terminal { printable::json(&line).into_owned() } else { line })
            }
        }
    }
}

/// Minimum and maximum columns of the peer, and of the message's meaning.
const PEER: (usize, usize) = (12, 24);
const MEANING: (usize, usize) = (16, 40);
/// Columns of everything else in a line, with the longest peer.
const OTHERS: usize = 60;

/// One line for each message, in columns that widen as needed.
struct Table {
    style: OutputStyle,
    time: TimeFormat,
    peer: usize,
    meaning: usize,
}

impl Table {
    fn new(style: OutputStyle) -> Self {
        let time = if style.width().is_some() { TimeFormat::PreciseClock } else { TimeFormat::Zoned };
        Self { style, time, peer: PEER.0, meaning: MEANING.0 }
    }

    fn line(&mut self, report: &TapReport) -> String {
        let (peer, meaning) = (one_line(&peer(&report.peer)), one_line(&meaning(report)));
        self.peer = self.peer.max(peer.width().min(PEER.1));
        let room = self.style.width().map_or(MEANING.1, |width| width.saturating_sub(OTHERS).max(MEANING.0));
        self.meaning = self.meaning.max(meaning.width().min(MEANING.1.min(room)));
        let took = report.took_ms.map(format_duration).unwrap_or_default();
        let arrow = if report.is_towards_servers() { "→" } else { "←" };
        let head = format!(
            "{} {arrow} {}  {}  {:>8} {took:>7}",
            local_time(&report.time, self.time),
            padded(&peer, self.peer),
            padded(&meaning, self.meaning),
            format!("{} B", report.bytes),
        );
        let text = one_line(&report.text);
        let text = match self.style.width() {
            Some(width) => match width.saturating_sub(head.width() + 2) {
                0 => String::new(),
                room => truncate(&text, room),
            },
            None => text,
        };
        let head = match self.style.width() {
            Some(width) => truncate(&head, width),
            None => head,
        };
        let tone = if report.is_error { Tone::Bad } else { Tone::Plain };
        let line = format!("{}  {}", self.style.paint(tone, &head), self.style.paint(Tone::Faint, &text));
        line.trim_end().to_owned() + "\n"
    }
}

/// The name of the peer, with the number of its session or process.
fn peer(PeerReport { agent, client, server, pid, .. }: &PeerReport) -> String {
    match (agent, server) {
        (Some(session), _) => {
            let name = client.as_deref().map(|client| client.rsplit_once(' ').map_or(client, |(name, _)| name));
            format!("{}#{session}", name.unwrap_or("agent"))
        }
        (None, server) => {
            let pid = pid.map(|pid| format!("[{pid}]")).unwrap_or_default();
            format!("{}{pid}", server.as_deref().unwrap_or_default())
        }
    }
}

/// What the message is, in words.
fn meaning(report: &TapReport) -> String {
    let id = report.id.as_deref().map(|id| format!(" {id}")).unwrap_or_default();
    let response = if report.is_error { "error" } else { "answer" };
    match (&report.method, &report.answers) {
        (Some(method), _) => match target(report) {
            // The first columns have the tool, since a narrow terminal cuts the rest.
            Some(target) => format!("{target}{id} {method}"),
            None => format!("{method}{id}"),
        },
        (None, Some(request)) => format!("{response} to {request}{id}"),
        (None, None) if report.id.is_some() => format!("{response}{id}"),
        (None, None) if report.message().is_some() => "JSON, but no message".to_owned(),
        (None, None) => "no JSON".to_owned(),
    }
}

/// The tool or prompt that a request names.
fn target(report: &TapReport) -> Option<String> {
    #[derive(Deserialize)]
    struct Message {
        params: Params,
    }
    #[derive(Deserialize)]
    struct Params {
        name: String,
    }
    let method = report.method.as_deref()?;
    let message = ["tools/call", "prompts/get"].contains(&method).then(|| report.message())??;
    serde_json::from_str(message.get()).ok().map(|Message { params }| params.name)
}

fn padded(text: &str, width: usize) -> String {
    let text = truncate(text, width);
    let space = width.saturating_sub(text.width());
    text + &" ".repeat(space)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(change: impl FnOnce(&mut TapReport)) -> TapReport {
        let peer = PeerReport { agent: Some(3), client: Some("claude-code 2.1".to_owned()), ..PeerReport::default() };
        let mut report = TapReport {
            time: "2026-01-01T10:20:30.456789Z".to_owned(),
            peer,
            direction: "from".to_owned(),
            bytes: 52,
            id: Some("7".to_owned()),
            method: Some("tools/call".to_owned()),
            text: r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#.to_owned(),
            ..TapReport::default()
        };
        change(&mut report);
        report
    }

    fn answer(report: &mut TapReport) {
        let server = PeerReport { server: Some("files".to_owned()), pid: Some(42), ..PeerReport::default() };
        (report.peer, report.method, report.answers) = (server, None, Some("tools/call".to_owned()));
        (report.took_ms, report.is_error) = (Some(12.3), true);
    }

    #[test]
    fn lines_have_the_way_the_peer_and_the_meaning() {
        let mut table = Table::new(OutputStyle::PLAIN);
        let time = local_time("2026-01-01T10:20:30.456789Z", TimeFormat::Zoned);
        let text = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#;
        for (report, expected) in [
            (report(|_| {}), format!("{time} → claude-code#3  tools/call 7          52 B          {text}\n")),
            (report(answer), format!("{time} ← files[42]      error to tools/call 7      52 B    12ms  {text}\n")),
            (
                report(|report| {
                    (report.id, report.method) = (None, None);
                    report.text = "panic\u{1b}[2J".to_owned();
                }),
                format!("{time} → claude-code#3  no JSON                    52 B          panic\\u{{1b}}[2J\n"),
            ),
        ] {
            assert_eq!(table.line(&report), expected);
        }
    }

    #[test]
    fn a_line_fits_the_terminal() {
        for width in [40, 80, 120] {
            let mut table = Table::new(OutputStyle::of_width(width));
            for report in [report(|_| {}), report(answer), report(|report| report.text = "ü".repeat(500))] {
                let line = table.line(&report);
                assert!(line.trim_end().width() <= width, "{width}: {line}");
            }
        }
    }
}
