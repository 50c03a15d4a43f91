//! What a command prints, and how it ends.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::admin::AskError;

/// Something failed: a server, or a call.
pub(super) const FAILED: u8 = 1;
/// Wrong usage or configuration.
pub(super) const USAGE: u8 = 2;
/// No daemon answers.
pub(super) const NOT_RUNNING: u8 = 3;

/// Prints a line beside the output, as `eprintln!` does, which panics if nobody reads it: a command ends the same way then.
macro_rules! tell {
    ($($text:tt)*) => { $crate::cli::outcome::aside(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints `text` as it stands beside the output, whether or not anybody reads it.
pub(super) fn aside(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

/// Prints `text`. A reader that has seen enough is no failure.
pub(super) fn say(text: impl AsRef<[u8]>) -> ExitCode {
    put(text).err().unwrap_or(ExitCode::SUCCESS)
}

/// Prints `text`, or tells with which code to end: a reader that has seen enough is no failure.
pub(super) fn put(text: impl AsRef<[u8]>) -> Result<(), ExitCode> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _ => fail(FAILED, error),
    })
}

/// Says why the daemon did not do what it was asked.
pub(super) fn refused(error: &AskError) -> ExitCode {
    fail(if matches!(error, AskError::NotRunning(_)) { NOT_RUNNING } else { FAILED }, error)
}

/// Why the socket `path` cannot be used: nobody serves there, or something else.
pub(super) fn no_connection(path: PathBuf, error: &io::Error) -> ExitCode {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => fail(NOT_RUNNING, AskError::NotRunning(path)),
        _ => fail(FAILED, format!("{}: {error}", path.display())),
    }
}

pub(super) fn fail(code: u8, error: impl fmt::Display) -> ExitCode {
    tell!("mcpd: {error}");
    ExitCode::from(code)
}
