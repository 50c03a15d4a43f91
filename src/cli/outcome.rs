//! What a command prints, and how it ends.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::admin::AskError;
use crate::printable;

/// Something failed: a server, or a call.
pub(super) const FAILED: u8 = 1;
/// Wrong usage or configuration.
pub(super) const USAGE: u8 = 2;
/// No daemon answers.
pub(super) const NOT_RUNNING: u8 = 3;

/// How a person replaces the daemon that runs.
pub(super) const RESTART: &str = "`mcpd stop`, then `mcpd start`";

/// Prints a line beside the output, as `eprintln!` does, which panics if nobody reads it: a command ends the same way then.
macro_rules! print_note {
    ($($text:tt)*) => { $crate::cli::outcome::print_note(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints plain `text` to stderr, whether or not anybody reads it. It may quote peers, so what is not visible is escaped.
pub(super) fn print_note(text: fmt::Arguments<'_>) {
    print_styled_note(&printable::lines(&text.to_string()));
}

/// Prints text to stderr that has its colours already, and in which everything that peers wrote is escaped.
pub(super) fn print_styled_note(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints JSON that a peer wrote: the same value, with escapes for what is not visible.
pub(super) fn print_json(text: &[u8]) -> ExitCode {
    print(printable::json(&String::from_utf8_lossy(text)).into_owned() + "\n")
}

/// Prints `text`. A reader that has seen enough is no failure.
pub(super) fn print(text: impl AsRef<[u8]>) -> ExitCode {
    try_print(text).err().unwrap_or(ExitCode::SUCCESS)
}

/// Prints `text`, or tells with which code to end: a reader that has seen enough is no failure.
pub(super) fn try_print(text: impl AsRef<[u8]>) -> Result<(), ExitCode> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _ => fail(FAILED, error),
    })
}

/// Says why the daemon did not do what it was asked.
pub(super) fn admin_failure(error: &AskError) -> ExitCode {
    fail(if matches!(error, AskError::NotRunning(_)) { NOT_RUNNING } else { FAILED }, error)
}

/// Why the socket `path` cannot be used: nobody serves there, or something else.
pub(super) fn connect_failure(path: PathBuf, error: &io::Error) -> ExitCode {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => fail(NOT_RUNNING, AskError::NotRunning(path)),
        _ => fail(FAILED, format!("{}: {error}", path.display())),
    }
}

pub(super) fn fail(code: u8, error: impl fmt::Display) -> ExitCode {
    print_note!("mcpd: {error}");
    ExitCode::from(code)
}
