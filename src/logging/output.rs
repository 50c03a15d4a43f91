//! Writes the log to stderr. If stderr is the journal, each entry is one line that begins with its priority.
//!
//! A separate thread writes it. If the queue is full, lines are dropped, so a blocked reader does not block the daemon.

use std::ffi::OsStr;
use std::fmt::{self, Debug};
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use tracing::field::Field;
use tracing::{Event, Level, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Format as EventFormat, Full, Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::Layered;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use super::LogFile;
use crate::printable;

/// Maximum number of lines in the queue. Further lines are dropped and counted. Each place takes 32 bytes of memory, full or empty.
const MAX_QUEUED_LINES: usize = 1024;
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

/// Without a format, lines for the journal if stderr is the journal, otherwise text. `file`: the size-limited file that stderr is redirected to.
pub(super) fn open(
    format: Option<Format>,
    file: Option<LogFile>,
) -> (Box<dyn Layer<FilterLayer> + Send + Sync>, Flush) {
    let lines = tracing_subscriber::fmt::layer();
    let (lines, flush) = match format {
        None if is_journal(std::env::var_os("JOURNAL_STREAM").as_deref()) => {
            let (writer, flush) = own_thread(io::stderr());
            let lines = lines.fmt_fields(debug_fn(one_line_field).delimited(" ")).event_format(JournalLine::default());
            (lines.with_writer(writer).boxed(), flush)
        }
        Some(Format::Json) => {
            let (writer, flush) = own_thread(JsonLines(stderr(file)));
            (lines.json().with_span_list(false).with_writer(writer).boxed(), flush)
        }
        None | Some(Format::Human) => {
            let (writer, flush) = own_thread(stderr(file));
            let lines = lines.fmt_fields(debug_fn(field).delimited(" "));
            (lines.with_ansi(io::stderr().is_terminal()).with_target(false).with_writer(writer).boxed(), flush)
        }
    };
    (lines, Flush(flush))
}

fn stderr(file: Option<LogFile>) -> Box<dyn Write + Send> {
    file.map_or_else(|| Box::new(io::stderr()) as Box<dyn Write + Send>, |file| Box::new(file))
}

/// Writes one field of an event or a span. The value may quote peers, so invisible characters are escaped, and further lines are
/// indented so that they cannot look like another entry.
fn field(to: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let value = printable::lines(&format!("{value:?}")).replace('\n', CONTINUATION);
    write_field(to, field, &value)
}

fn one_line_field(to: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    write_field(to, field, &printable::one_line(&format!("{value:?}")))
}

fn write_field(to: &mut Writer<'_>, field: &Field, value: &str) -> fmt::Result {
    match field.name() {
        "message" => write!(to, "{value}"),
        name => write!(to, "{name}={value}"),
    }
}

/// One entry of the journal, which adds the time. It reads the priority from the beginning of the line (sd-daemon(3)).
struct JournalLine(EventFormat<Full, ()>);

impl Default for JournalLine {
    fn default() -> Self {
        Self(EventFormat::default().without_time().with_level(false).with_target(false).with_ansi(false))
    }
}

impl<S, N> FormatEvent<S, N> for JournalLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        write!(to, "<{priority}>")?;
        self.0.format_event(context, to, event)
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
pub(super) fn is_journal(stream: Option<&OsStr>) -> bool {
    let Some(named) = stream.and_then(OsStr::to_str).and_then(device_and_inode) else { return false };
    rustix::fs::fstat(io::stderr()).is_ok_and(|found| named == (found.st_dev, found.st_ino))
}

fn device_and_inode(text: &str) -> Option<(u64, u64)> {
    let (device, inode) = text.split_once(':')?;
    Some((device.parse().ok()?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn entry_of_the_journal_is_one_line_with_its_priority() {
        let file = Arc::new(tempfile::tempfile().expect("a temporary file"));
        let layer =
            tracing_subscriber::fmt::layer().event_format(JournalLine::default()).with_writer(Arc::clone(&file));
        let layer = layer.fmt_fields(debug_fn(one_line_field).delimited(" "));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::debug_span!("mcp.call", outcome = tracing::field::Empty);
            span.record("outcome", "ok");
            span.in_scope(|| tracing::warn!(count = 3, "a\nb\u{202e}"));
        });
        let mut text = String::new();
        (&*file).rewind().and_then(|()| (&*file).read_to_string(&mut text)).expect("text");
        assert_eq!(text, "<4>mcp.call{outcome=\"ok\"}: a\\nb\\u{202e} count=3\n");
    }

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
