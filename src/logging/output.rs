//! Writes the log to stderr, or to the journal if stderr leads there.
//!
//! A separate thread writes it. If the queue is full, lines are dropped, so a blocked reader does not block the daemon.

use std::ffi::OsStr;
use std::fmt::{self, Debug};
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use tracing::field::Field;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::Layered;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use super::LogFile;
use super::journal::{self, Journal};
use crate::printable;

/// Maximum number of lines in the queue. Further lines are dropped and counted.
const MAX_QUEUED_LINES: usize = 4096;
/// Between the lines of one entry.
const CONTINUATION: &str = "\n    ";

/// The format of lines on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text, coloured on a terminal
    Human,
    /// One JSON object a line
    Json,
}

/// Writes the last lines when it is dropped.
#[derive(Debug)]
pub struct Flush(#[expect(dead_code, reason = "it works by being dropped")] WorkerGuard);

type FilterLayer = Layered<reload::Layer<EnvFilter, Registry>, Registry>;

/// Without a format, the journal if stderr is the journal, otherwise text. `file`: the size-limited file that stderr is redirected to.
pub(super) fn open(
    format: Option<Format>,
    file: Option<LogFile>,
) -> (Box<dyn Layer<FilterLayer> + Send + Sync>, Flush) {
    let journal = if format.is_none() { journal() } else { None };
    let lines = tracing_subscriber::fmt::layer();
    let (lines, flush) = match (journal, format) {
        (Some(journal), _) => {
            let (writer, flush) = own_thread(journal);
            let entries = lines.fmt_fields(journal::Fields).event_format(journal::Entries);
            (entries.with_writer(writer).boxed(), flush)
        }
        (None, Some(Format::Json)) => {
            let (writer, flush) = own_thread(JsonLines(stderr(file)));
            (lines.json().with_span_list(false).with_writer(writer).boxed(), flush)
        }
        (None, None | Some(Format::Human)) => {
            let (writer, flush) = own_thread(stderr(file));
            let lines = lines.fmt_fields(debug_fn(field).delimited(" "));
            (lines.with_ansi(io::stderr().is_terminal()).with_target(false).with_writer(writer).boxed(), flush)
        }
    };
    (lines, Flush(flush))
}

fn journal() -> Option<Journal> {
    is_journal(std::env::var_os("JOURNAL_STREAM").as_deref()).then(|| Journal::open(journal::SOCKET).ok()).flatten()
}

fn stderr(file: Option<LogFile>) -> Box<dyn Write + Send> {
    file.map_or_else(|| Box::new(io::stderr()) as Box<dyn Write + Send>, |file| Box::new(file))
}

/// Writes one field of an event or a span. The value may quote peers, so invisible characters are escaped, and further lines are
/// indented so that they cannot look like another entry.
fn field(to: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let value = printable::lines(&format!("{value:?}")).replace('\n', CONTINUATION);
    match field.name() {
        "message" => write!(to, "{value}"),
        name => write!(to, "{name}={value}"),
    }
}

/// Lines of JSON with invisible characters escaped. The values stay the same, and nothing controls a terminal.
struct JsonLines<W>(W);

impl<W: Write> Write for JsonLines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(printable::json(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn own_thread(output: impl Write + Send + 'static) -> (NonBlocking, WorkerGuard) {
    let dropped = Arc::new(OnceLock::new());
    let output = DropReporter { output, dropped: Arc::clone(&dropped), reported: 0 };
    let builder =
        NonBlockingBuilder::default().thread_name("mcpd-log").buffered_lines_limit(MAX_QUEUED_LINES).lossy(true);
    let (writer, flush) = builder.finish(output);
    let _ = dropped.set(writer.error_counter());
    (writer, flush)
}

/// Logs the number of dropped lines once the queue has space again.
struct DropReporter<W> {
    output: W,
    dropped: Arc<OnceLock<ErrorCounter>>,
    reported: usize,
}

impl<W: Write> Write for DropReporter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = self.output.write(line);
        let dropped = self.dropped.get().map_or(0, ErrorCounter::dropped_lines);
        if dropped > self.reported {
            self.reported = dropped;
            // This line goes through the queue too. If it is dropped, it counts as one more.
            tracing::warn!(lines = dropped, "the log was not read in time, and has lost lines since the start");
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Whether stderr is the journal, by `$JOURNAL_STREAM` (systemd.exec(5)). A child process with another stderr inherits the
/// variable, so both numbers have to match.
fn is_journal(stream: Option<&OsStr>) -> bool {
    let Some(named) = stream.and_then(OsStr::to_str).and_then(device_and_inode) else { return false };
    rustix::fs::fstat(io::stderr()).is_ok_and(|found| named == (found.st_dev, found.st_ino))
}

fn device_and_inode(text: &str) -> Option<(u64, u64)> {
    let (device, inode) = text.split_once(':')?;
    Some((device.parse().ok()?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_is_recognized_by_device_and_inode() {
        for (text, expected) in
            [("8:12345", Some((8, 12345))), ("8", None), (":", None), ("8:x", None), ("8:1:2", None), ("-8:1", None)]
        {
            assert_eq!(device_and_inode(text), expected, "{text}");
        }
        let own = rustix::fs::fstat(std::io::stderr()).expect("it is open");
        let named = format!("{}:{}", own.st_dev, own.st_ino);
        assert!(is_journal(Some(OsStr::new(&named))));
        assert!(!is_journal(Some(OsStr::new(&format!("{named}0")))) && !is_journal(None));
    }
}
