//! The journal's protocol: one datagram for each entry, with a line `FIELD=value` for each field. Source: systemd, "Native Journal
//! Protocol".
//!
//! Entries are formatted as text, like every other log format, so that the log thread can write them and wait for the journal.
//! Each field occurs twice: as `MCPD_…` for programs, and in the message for people.

use std::fmt::{self, Debug};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, span};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::printable::one_line;

pub(super) const SOCKET: &str = "/run/systemd/journal/socket";
const PREFIX: &str = "MCPD_";

pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// # Errors
    /// If no journal listens at `path`.
    pub(super) fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let (socket, path) = (UnixDatagram::unbound()?, path.as_ref().to_owned());
        // The journal ignores an empty entry.
        socket.send_to(&[], &path)?;
        Ok(Self { socket, path })
    }
}

impl io::Write for Journal {
    /// Each write is one entry. It is sent to the path, since a connection would break when the journal restarts.
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.socket.send_to(entry, &self.path)?;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Formats the fields of an event or a span, one line each.
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut lines = Lines { writer, result: Ok(()) };
        fields.record(&mut lines);
        lines.result
    }

    fn add_fields(&self, current: &'w mut FormattedFields<Self>, fields: &span::Record<'_>) -> fmt::Result {
        self.format_fields(current.as_writer(), fields)
    }
}

struct Lines<'w> {
    writer: Writer<'w>,
    result: fmt::Result,
}

impl Visit for Lines<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if self.result.is_ok() {
            self.result = line(&mut self.writer, field.name(), value);
        }
    }
}

fn line(writer: &mut Writer<'_>, name: &str, value: &dyn Debug) -> fmt::Result {
    if name == "message" {
        writer.write_str("MESSAGE=")?;
    } else {
        writer.write_str(PREFIX)?;
        for c in name.chars() {
            writer.write_char(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })?;
        }
        writer.write_char('=')?;
    }
    // A line break in a value would begin a new field.
    writeln!(writer, "{}", one_line(&format!("{value:?}")))
}

/// Formats entries.
pub(super) struct Entries;

impl<S: Subscriber + for<'a> LookupSpan<'a>> FormatEvent<S, Fields> for Entries {
    fn format_event(&self, context: &FmtContext<'_, S, Fields>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut text = String::new();
        Fields.format_fields(Writer::new(&mut text), event)?;
        let (message, fields): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("MESSAGE="));
        let mut fields = fields.join("\n");
        for span in context.event_scope().into_iter().flatten() {
            if let Some(of_span) = span.extensions().get::<FormattedFields<Fields>>() {
                fields = fields + "\n" + of_span.fields.trim_end();
            }
        }
        let metadata = event.metadata();
        let priority = match *metadata.level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        writeln!(to, "PRIORITY={priority}\nSYSLOG_IDENTIFIER=mcpd\n{PREFIX}TARGET={}", metadata.target())?;
        to.write_str(message.first().unwrap_or(&"MESSAGE="))?;
        for field in fields.lines() {
            if let Some((name, value)) = field.strip_prefix(PREFIX).and_then(|field| field.split_once('=')) {
                write!(to, " {}={value}", name.to_ascii_lowercase())?;
            }
        }
        writeln!(to, "\n{}", fields.trim())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracing_appender::non_blocking::NonBlockingBuilder;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn an_entry_has_its_fields_for_programs_and_for_people() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("socket");
        assert!(Journal::open(&path).is_err(), "nobody listens");
        let server = UnixDatagram::bind(&path).expect("a socket");
        server.set_read_timeout(Some(Duration::from_secs(10))).expect("not zero");
        let journal = Journal::open(&path).expect("somebody listens");
        let (writer, _flush) = NonBlockingBuilder::default().lossy(true).finish(journal);
        let layer = tracing_subscriber::fmt::layer().fmt_fields(Fields).event_format(Entries).with_writer(writer);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::debug_span!("mcp.call", otel.name = "mcp.a.b", outcome = tracing::field::Empty);
            span.record("outcome", "ok");
            span.in_scope(|| tracing::warn!(count = 3, "a\nb\u{202e}"));
        });
        let mut entry = [0; 1000];
        assert_eq!(server.recv(&mut entry).expect("the first entry"), 0);
        let length = server.recv(&mut entry).expect("an entry");
        let text = String::from_utf8_lossy(&entry[..length]);
        let lines: Vec<_> = text.lines().collect();
        let expected = [
            "PRIORITY=4",
            "SYSLOG_IDENTIFIER=mcpd",
            "MCPD_TARGET=mcpd::logging::journal::tests",
            "MESSAGE=a\\nb\\u{202e} count=3 otel_name=mcp.a.b outcome=ok",
            "MCPD_COUNT=3",
            "MCPD_OTEL_NAME=mcp.a.b",
            "MCPD_OUTCOME=ok",
        ];
        assert_eq!(lines, expected);
    }
}
