//! What a command prints and returns, and the runtime that it runs on.
//!
//! `--json` prints objects whose shapes docs/internals/json.md documents. Each begins with the version of its shape.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use super::style::OutputStyle;
use crate::admin::AdminError;
use crate::autostart::AutostartError;
use crate::config::interpolate::Process;
use crate::config::{self, ConfigError};
use crate::known_clients::shell_word;
use crate::printable;
use crate::sockets::RuntimeDir;

/// The exit code of a command. `Err`: the command has printed why it ends before it is done.
pub(super) type CommandResult = Result<ExitCode, ExitCode>;

/// The command failed, or a server is down.
pub(super) const FAILED: u8 = 1;
/// Wrong usage or configuration.
pub(super) const USAGE: u8 = 2;
/// No daemon runs.
pub(super) const NOT_RUNNING: u8 = 3;

/// Added to the number of a signal for the exit code, as in shells.
const SIGNAL_EXIT: i32 = 128;

/// The exit code of a command that `signal` has ended.
pub(super) fn signal_exit(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(SIGNAL_EXIT + signal).unwrap_or(FAILED))
}

/// The commands that restart the daemon.
pub(super) const RESTART: &str = "`mcpd stop`, then `mcpd start`";

/// Prints a line to stderr. Unlike `eprintln!` it does not panic if stderr is closed.
macro_rules! print_note {
    ($($text:tt)*) => { $crate::cli::outcome::print_note(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints plain text to stderr and ignores errors. Text of peers is allowed: invisible characters are escaped.
pub(super) fn print_note(text: fmt::Arguments<'_>) {
    print_styled_note(&printable::lines(&text.to_string()));
}

/// Prints coloured text to stderr and ignores errors. Text of peers must be escaped already.
pub(super) fn print_styled_note(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A server's own text, which a command prints as its product. Only a terminal gets escapes: into a pipe or file the text is exact.
pub(super) fn server_text<'t>(text: &'t str, stream: &impl IsTerminal) -> Cow<'t, str> {
    if stream.is_terminal() { printable::lines(text).into() } else { text.into() }
}

/// Prints JSON of a peer: the same value, with escapes for invisible characters.
pub(super) fn print_json(text: &[u8]) -> ExitCode {
    print(printable::json(&String::from_utf8_lossy(text)).into_owned() + "\n")
}

/// Prints `text`. A closed pipe is a success.
pub(super) fn print(text: impl AsRef<[u8]>) -> ExitCode {
    try_print(text).err().unwrap_or(ExitCode::SUCCESS)
}

/// Prints `text`.
///
/// # Errors
/// The exit code. A closed pipe ends the command with success.
pub(super) fn try_print(text: impl AsRef<[u8]>) -> Result<(), ExitCode> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _ => fail(FAILED, error),
    })
}

/// Prints why a request to the daemon failed.
pub(super) fn admin_failure(error: &AdminError) -> ExitCode {
    match error {
        AdminError::NotRunning(path) => not_running(path),
        _ => fail(FAILED, error),
    }
}

/// Prints that no daemon listens at `path`, and how to start one.
pub(super) fn not_running(path: &Path) -> ExitCode {
    not_running_with(path, "")
}

/// As [`not_running`], with `details` on lines of their own. If the default configuration is invalid, the help is its first error,
/// because no daemon can start with it.
pub(super) fn not_running_with(path: &Path, details: &str) -> ExitCode {
    let help = match config::load(&[], &Process) {
        Ok(_) => format!("  help: `{}` starts it", start_command(path)),
        Err(error) => invalid_configuration(&error),
    };
    fail(NOT_RUNNING, format!("{}\n{details}{help}", AdminError::NotRunning(path.to_owned())))
}

/// The command that starts a daemon with the socket `path`.
fn start_command(path: &Path) -> String {
    let default = RuntimeDir::resolve(None, |name| std::env::var_os(name)).ok();
    match path.parent().filter(|directory| default.is_none_or(|default| default.path() != *directory)) {
        Some(directory) => format!("mcpd start --runtime-dir {}", shell_word(&directory.to_string_lossy())),
        None => "mcpd start".to_owned(),
    }
}

/// Prints why no daemon serves.
pub(super) fn start_failure(error: &AutostartError) -> ExitCode {
    match error {
        AutostartError::Given(socket) => not_running(socket),
        error => fail(NOT_RUNNING, error),
    }
}

/// The first error of the default configuration, and how to see them all.
fn invalid_configuration(error: &ConfigError) -> String {
    let error = error.first();
    format!(
        "  the configuration does not load: {error}\n  help: `mcpd check` shows every error; fix them, then run `mcpd start`"
    )
}

/// Prints every error of a configuration with its place.
pub(super) fn config_failure(error: &ConfigError) -> ExitCode {
    print_styled_note(&(error.render(OutputStyle::of_stderr().has_colour()) + "\n"));
    ExitCode::from(USAGE)
}

/// Prints why connecting to the socket `path` failed.
pub(super) fn connect_failure(path: PathBuf, error: &io::Error) -> ExitCode {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => not_running(&path),
        // The error names the daemon.
        io::ErrorKind::Other => fail(FAILED, error),
        _ => fail(FAILED, format!("{}: {error}", path.display())),
    }
}

pub(super) fn fail(code: u8, error: impl fmt::Display) -> ExitCode {
    print_note!("mcpd: {error}");
    ExitCode::from(code)
}

/// Threads for blocking work. They are kept, because the system may not grant a new thread when one is needed.
const MAX_BLOCKING_THREADS: usize = 4;
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs `future` on the thread that moves all data.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, ExitCode>>) -> Result<T, ExitCode> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().max_blocking_threads(MAX_BLOCKING_THREADS).thread_keep_alive(Duration::MAX);
    let runtime = runtime.build().map_err(|error| fail(FAILED, error))?;
    let outcome = runtime.block_on(future);
    // A blocking thread may hang on a dead disk.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    outcome
}

/// Version of every shape. New members keep it; renaming, removing or redefining a member raises it.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct VersionedBody<'a, T> {
    format: u32,
    #[serde(flatten)]
    body: &'a T,
}

/// Prints `body` on several lines.
pub(super) fn print_report(body: &impl Serialize) -> ExitCode {
    try_print_report(body).err().unwrap_or(ExitCode::SUCCESS)
}

/// Prints `body` on several lines.
///
/// # Errors
/// The exit code, if the output is closed or cannot be written.
pub(super) fn try_print_report(body: &impl Serialize) -> Result<(), ExitCode> {
    print_serialized(serde_json::to_string_pretty(&VersionedBody { format: FORMAT, body }))
}

/// `body` on one line, with the bytes of raw JSON in it as they are.
///
/// # Errors
/// The exit code, if it cannot be written as JSON.
pub(super) fn exact_report_line(body: &impl Serialize) -> Result<String, ExitCode> {
    let text = serde_json::to_string(&VersionedBody { format: FORMAT, body });
    Ok(text.map_err(|error| fail(FAILED, error))? + "\n")
}

/// Prints `body` on one line, for commands that print a stream of objects.
///
/// # Errors
/// The exit code, if the output is closed or cannot be written.
pub(super) fn print_report_line(body: &impl Serialize) -> Result<(), ExitCode> {
    print_serialized(serde_json::to_string(&VersionedBody { format: FORMAT, body }))
}

fn print_serialized(text: serde_json::Result<String>) -> Result<(), ExitCode> {
    let text = text.map_err(|error| fail(FAILED, error))?;
    try_print(printable::json(&text).into_owned() + "\n")
}
