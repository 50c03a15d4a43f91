//! Streams of events: what was said on each is kept, to be said again to whoever missed it.

use crate::support::http::stream::Writer;

/// One stream of a session.
#[derive(Default)]
pub(super) struct Stream {
    /// The data of each event.
    events: Vec<String>,
    /// The number of events given to a writer.
    sent: usize,
    writer: Option<Writer>,
    /// No event will follow.
    is_done: bool,
    /// A client has opened the stream.
    was_open: bool,
}

/// The fields of events.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub(super) number: usize,
    pub(super) has_ids: bool,
    pub(super) retry: Option<u64>,
}

impl Style {
    fn id(self, event: usize) -> String {
        if self.has_ids { format!("{}-{event}", self.number) } else { String::new() }
    }
}

impl Stream {
    /// Sends an event to the client, or stores it until one listens.
    pub(super) fn send(&mut self, data: &str, style: Style) {
        self.events.push(data.to_owned());
        self.tell(style);
    }

    /// Attaches a new writer, from the event after this number or the first undelivered one.
    pub(super) fn listen(&mut self, writer: Writer, after: Option<usize>, style: Style) {
        if style.has_ids {
            // Source: MCP 2025-11-25, `basic/transports`, "Sending Messages to the Server": an id without data, so that a client
            // that is disconnected before the first message can resume.
            let retry = style.retry.map(|ms| format!("retry: {ms}\n")).unwrap_or_default();
            writer.write(format!("{retry}id: {}\ndata:\n\n", style.id(after.unwrap_or(self.sent))));
        } else if let Some(ms) = style.retry {
            writer.write(format!("retry: {ms}\n\n"));
        }
        self.sent = after.unwrap_or(self.sent).min(self.events.len());
        self.writer = Some(writer);
        self.was_open = true;
        self.tell(style);
        if self.is_done {
            self.writer = None;
        }
    }

    /// No event follows.
    pub(super) fn finish(&mut self) {
        self.is_done = true;
        self.writer = None;
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(super) fn is_open(&self) -> bool {
        self.writer.as_ref().is_some_and(Writer::is_read)
    }

    /// Whether the client has closed the stream.
    pub(super) fn is_closed(&self) -> bool {
        self.was_open && !self.is_open()
    }

    pub(super) fn cut(&mut self) {
        self.writer.take().into_iter().for_each(Writer::cut);
    }

    pub(super) fn end_connection(&mut self) {
        self.writer = None;
    }

    fn tell(&mut self, style: Style) {
        let Some(writer) = &self.writer else { return };
        while let Some(event) = self.events.get(self.sent) {
            if !writer.event(&style.id(self.sent + 1), event) {
                self.writer = None;
                return;
            }
            self.sent += 1;
        }
    }
}
