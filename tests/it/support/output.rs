//! What a test says beside its verdict.

use std::io::Write;
use std::thread;

/// Shown by the test runner for tests that failed, and only for them.
#[expect(clippy::print_stderr, reason = "the test runner captures what this macro prints")]
pub(crate) fn print_line(text: &str) {
    eprintln!("{text}");
}

/// Says that the test checks nothing on this machine, past the test runner, which shows nothing of a test that passed.
pub(crate) fn skipped(why: &str) {
    let test = thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}
