//! The parts of a bug report. Most are the output of another command, which runs as a process of its own: it may fail, or hang, alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use signal_hook::consts::SIGINT;
use signal_hook_tokio::Signals;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::admin::{self, AdminError, TapItem, TapRequest};
use crate::autostart;
use crate::cli::outcome::exact_report_line;
use crate::cli::terminal::with_spinner;
use crate::config::interpolate::Process;
use crate::duration;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::SERVICE;
use crate::tap::report::TapLine;

/// A file of the archive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// What it has, for a person.
    pub(super) content: &'static str,
}

/// A part with its text. An empty one is left out.
pub(super) struct Gathered {
    pub(super) part: Part,
    pub(super) text: String,
}

const fn part(name: &'static str, content: &'static str) -> Part {
    Part { name, content }
}

/// The parts that commands of mcpd print. Those named `.txt` include what goes to stderr.
const COMMANDS: [(Part, &[&str]); 9] = [
    (
        part("configuration.toml", "the effective configuration, without values of variables and headers"),
        &["check", "--show"],
    ),
    (part("check.txt", "errors and warnings of the configuration"), &["check"]),
    (part("doctor.txt", "problems of this system, the daemon and servers"), &["doctor", "--no-start"]),
    (part("status.json", "servers, agents and profiles"), &["status", "--json"]),
    (part("tools.txt", "tools of the default profile, and why others are hidden"), &["tools", "--all"]),
    (part("metrics.txt", "counts, times and memory"), &["metrics"]),
    (part("calls.jsonl", "the last calls, without arguments"), &["calls", "--json", "--last", "200"]),
    (part("servers.jsonl", "the last lines that servers wrote to stderr"), &["logs", "--json", "--last", "500"]),
    (part("logins.json", "logins at servers, without tokens"), &["login", "--json"]),
];
/// Commands that accept `--config`.
const WITH_CONFIG: [&str; 2] = ["check", "doctor"];
const SYSTEM: Part = part("system.txt", "versions of mcpd, kernel and distribution");
const LOG: Part = part("daemon.log", "the end of the daemon's log");
const JOURNAL: Part = part("journal.log", "the end of the journal of mcpd.service");
const TAP: Part = part("tap.jsonl", "messages of agents and servers, see `mcpd tap`");
const NOTES: Part = part("notes.txt", "what could not be gathered, or not without secrets");

/// For each command. `mcpd doctor` has a limit for each check.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// Bytes of the end of a log.
const LOG_BYTES: usize = 256 << 10;
/// Bytes of messages. Watching ends there.
const TAP_BYTES: usize = 32 << 20;

/// Gathers all parts. `options`: those that make another command use the same daemon.
pub(super) async fn gather(
    directory: Option<&RuntimeDir>,
    options: &[String],
    files: &[PathBuf],
    tap: Option<Duration>,
) -> Vec<Gathered> {
    let mut notes = String::new();
    let mut gathered = vec![Gathered { part: SYSTEM, text: system() }];
    let mut masks = Masks::find(directory).await;
    // A daemon that cannot mask may answer with secrets.
    let is_usable = |words: &[&str]| words[0] == "check" || masks.may_ask();
    let commands = COMMANDS.iter().filter(|(_, words)| is_usable(words)).map(|(part, words)| {
        let files = files.iter().filter(|_| WITH_CONFIG.contains(&words[0]));
        let mut command = Command::new("/proc/self/exe");
        command.args(*words).args(options).args(files.flat_map(|file| [Path::new("--config"), file]));
        output(command, part.name.ends_with(".txt")).map(move |output| (*part, words.join(" "), output))
    });
    let commands = with_spinner(|| "gathering".to_owned(), join_all(commands)).await;
    for (part, words, output) in commands {
        let Output { mut text, note } = output;
        if part.name == "calls.jsonl" {
            text = without_arguments(&text);
        }
        if let Some(note) = note {
            let note = masks.apply(&note).await.unwrap_or(note);
            notes += &format!("mcpd {words}: {note}\n");
        }
        // These commands read the configuration themselves. Without a daemon, they know no secrets but those of the configuration.
        if WITH_CONFIG.contains(&words.split(' ').next().unwrap_or_default()) {
            text = masks.apply(&text).await.unwrap_or(text);
        }
        gathered.push(Gathered { part, text });
    }
    let log = masks.apply(&log(directory)).await;
    gathered.push(Gathered { part: LOG, text: log.unwrap_or_default() });
    let journal = masks.apply(end(&output(journal(), false).await.text)).await;
    gathered.push(Gathered { part: JOURNAL, text: journal.unwrap_or_default() });
    notes += &masks.note();
    if let Some(time) = tap {
        let text = match directory {
            Some(directory) => watch(directory, time).await,
            None => Err("no runtime directory".to_owned()),
        };
        gathered.push(Gathered {
            part: TAP,
            text: text.unwrap_or_else(|note| {
                notes += &format!("mcpd tap: {note}\n");
                String::new()
            }),
        });
    }
    gathered.push(Gathered { part: NOTES, text: notes });
    gathered
}

/// Has the daemon remove the secrets that it knows.
struct Masks<'a> {
    directory: Option<&'a RuntimeDir>,
    /// Why it does not.
    refusal: Option<AdminError>,
}

impl<'a> Masks<'a> {
    async fn find(directory: Option<&'a RuntimeDir>) -> Self {
        let mut masks = Self { directory, refusal: None };
        masks.apply("").await;
        masks
    }

    /// What is left out, and why.
    fn note(&self) -> String {
        let reason = self.refusal.as_ref().map(ToString::to_string);
        let Some(reason) = reason.or_else(|| self.directory.is_none().then(|| "no runtime directory".to_owned()))
        else {
            return String::new();
        };
        let left_out = if self.may_ask() { "" } else { "the daemon's answers, " };
        format!(
            "Left out: {left_out}the daemon's log and the journal, which only a running daemon can mask ({reason})\n"
        )
    }

    /// Whether commands may request what they show: no daemon runs, or one that masks.
    fn may_ask(&self) -> bool {
        matches!(self.refusal, None | Some(AdminError::NotRunning(_)))
    }

    /// `None` if the text may have secrets.
    async fn apply(&mut self, text: &str) -> Option<String> {
        let directory = self.directory?;
        if self.refusal.is_some() {
            return None;
        }
        let masked = admin::mask(&directory.socket(ADMIN_SOCKET), text.to_owned()).await;
        masked.map_err(|error| self.refusal = Some(error)).ok()
    }
}

/// What a command has printed.
struct Output {
    text: String,
    /// Why there is not all, or what else was printed.
    note: Option<String>,
}

async fn output(mut command: Command, with_stderr: bool) -> Output {
    command.stdin(Stdio::null()).env("NO_COLOR", "1").env(admin::MASKED_VARIABLE, "1").kill_on_drop(true);
    let failed = |note: String| Output { text: String::new(), note: Some(note) };
    let output = match timeout(COMMAND_LIMIT, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return failed(error.to_string()),
        Err(_) => return failed(format!("did not end within {}", duration::format(COMMAND_LIMIT))),
    };
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if with_stderr && !stdout.is_empty() {
        return Output { text: stdout + &stderr, note: None };
    }
    let note = (!output.status.success() || !stderr.is_empty()).then(|| format!("{}\n{stderr}", output.status));
    Output { text: stdout, note: note.map(|note| note.trim_end().to_owned()) }
}

fn system() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let release = read("/etc/os-release");
    let distribution = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    format!(
        "mcpd {}\nkernel {} {}\ndistribution {}\n",
        env!("CARGO_PKG_VERSION"),
        read("/proc/sys/kernel/osrelease").trim_end(),
        std::env::consts::ARCH,
        distribution.unwrap_or("unknown").trim_matches('"'),
    )
}

/// Calls without their arguments, which servers with `log_arguments` have.
fn without_arguments(calls: &str) -> String {
    let stripped = calls.lines().filter_map(|line| {
        let mut call: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
        call.remove("arguments");
        Some(serde_json::to_string(&call).ok()? + "\n")
    });
    stripped.collect()
}

fn journal() -> Command {
    let mut journal = Command::new("journalctl");
    journal.args(["--user", "--no-pager", "--no-hostname", "--quiet", "--lines=1000", "--output=short-iso"]);
    journal.args(["--unit", SERVICE]);
    journal
}

/// The end of the log of a daemon that runs without systemd.
fn log(directory: Option<&RuntimeDir>) -> String {
    let beside = directory.filter(|directory| directory.is_given()).map(|directory| directory.path().join("serve.log"));
    let Some(path) = beside.or_else(|| autostart::log_path(&Process)) else { return String::new() };
    end(&String::from_utf8_lossy(&fs::read(path).unwrap_or_default())).to_owned()
}

/// The last whole lines of a log.
fn end(log: &str) -> &str {
    let Some(from) = log.len().checked_sub(LOG_BYTES) else { return log };
    let line = memchr::memchr(b'\n', &log.as_bytes()[from..]);
    line.and_then(|at| log.get(from + at + 1..)).unwrap_or_default()
}

/// Watches all messages for `time`, or until Ctrl-C.
async fn watch(directory: &RuntimeDir, time: Duration) -> Result<String, String> {
    let mut signals = Signals::new([SIGINT]).map_err(|error| error.to_string())?;
    let opened = admin::tap(&directory.socket(ADMIN_SOCKET), TapRequest::default()).await;
    let mut messages = opened.map_err(|error| error.to_string())?;
    print_note!("mcpd: watching for {}: cause the problem now; Ctrl-C ends it earlier", duration::format(time));
    let (mut text, mut end, mut is_finished) = (String::new(), Box::pin(sleep(time)), false);
    while text.len() < TAP_BYTES {
        let next = tokio::select! {
            next = messages.next() => next.map_err(|error| error.to_string())?,
            () = async { tokio::select! { () = &mut end => {}, _ = signals.next() => {} } } => {
                // The daemon may hang.
                if std::mem::replace(&mut is_finished, true) {
                    break;
                }
                end.as_mut().reset(Instant::now() + admin::TIMEOUT);
                messages.finish().await.map_err(|error| error.to_string())?;
                continue;
            }
        };
        let line = match &next {
            Some(TapItem::Message(report)) => TapLine::from(&**report),
            Some(TapItem::Missed(missed)) => TapLine { missed: Some(*missed), ..TapLine::default() },
            None => break,
        };
        text += &exact_report_line(&line).map_err(|_| "not JSON".to_owned())?;
    }
    Ok(text)
}
