//! What a test says beside its verdict.

use std::io::Write;
use std::thread;

/// Prints a line that the test runner shows for failed tests only.
#[expect(clippy::print_stderr, reason = "the test runner captures what this macro prints")]
pub(crate) fn print_line(text: &str) {
    eprintln!("{text}");
}

/// Reports that the test is skipped on this machine, past the test runner, which hides the output of passed tests.
pub(crate) fn skipped(why: &str) {
    let test = thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}
