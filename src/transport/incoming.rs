//! Parses a peer's lines and bodies.

use bytes::Bytes;

use crate::jsonrpc::normalise::{Normalised, Sender, is_suspicious, normalise};
use crate::jsonrpc::{Message, MessageError, parse};

/// Larger lines are parsed on another thread, so that one peer's large messages do not delay other peers.
///
/// To parse a line of this size takes 3 to 60 µs, depending on the number of its values. The way to another thread and
/// back takes about as long.
pub(crate) const INLINE: usize = 32 << 10;

/// What a peer sent.
#[derive(Debug)]
pub enum Incoming {
    /// A message with its line.
    Message {
        /// Without its newline; the message's parts are slices of it.
        line: Bytes,
        /// The parsed envelope.
        message: Message,
    },
    /// A line that is not a message.
    Malformed(MessageError),
    /// A line of a server that is not a message. Its connection decides whether it is used.
    Unclear(Box<UnclearLine>),
    /// A line over the cap, skipped.
    TooLarge {
        /// Its id, if it could be read.
        id: Option<Bytes>,
        /// It is a response to the request with that id.
        is_response: bool,
        /// In bytes.
        size: usize,
    },
}

/// A line that is not a message.
#[derive(Debug)]
pub struct UnclearLine {
    /// As received.
    pub line: Bytes,
    /// Why it is not a message.
    pub error: MessageError,
    /// The response that it is on a connection that tolerates missing versions, with its line.
    pub unversioned: Option<(Bytes, Message)>,
}

impl Incoming {
    /// Parses the body `line(text)` of a server. A text so large that others would have to wait is handled on another thread.
    pub async fn of_any_size(text: Bytes, line: impl FnOnce(Bytes) -> Bytes + Send + 'static) -> Self {
        // A body is one message.
        let parse = |text| Self::read(line(text), Sender::Server).0;
        if text.len() <= INLINE {
            return parse(text);
        }
        let parsing = tokio::task::spawn_blocking(|| parse(text));
        parsing.await.unwrap_or(Self::Malformed(MessageError::NotAMessage { id: None }))
    }

    /// Parses a line without its newline. Returns what it contains, and what follows that if a server has written several messages on one
    /// line.
    #[must_use]
    pub fn read(line: Bytes, sender: Sender) -> (Self, Vec<Self>) {
        match parse(&line) {
            Ok(message) if sender != Sender::Server || !is_suspicious(&message) => {
                (Self::Message { line, message }, Vec::new())
            }
            parsed => Self::read_unclear(line, parsed, sender),
        }
    }

    #[cold]
    fn read_unclear(line: Bytes, parsed: Result<Message, MessageError>, sender: Sender) -> (Self, Vec<Self>) {
        let mut unversioned = None;
        match normalise(&line, sender) {
            Some(Normalised::Messages(lines)) => {
                let mut messages = lines.into_iter().map(Self::of);
                if let Some(first) = messages.next() {
                    return (first, messages.collect());
                }
            }
            Some(Normalised::Unversioned(line)) => unversioned = parse(&line).ok().map(|message| (line, message)),
            None => {}
        }
        let incoming = match parsed {
            Ok(message) => Self::Message { line, message },
            Err(error) if sender != Sender::Server => Self::Malformed(error),
            Err(error) => Self::Unclear(Box::new(UnclearLine { line, error, unversioned })),
        };
        (incoming, Vec::new())
    }

    /// The response, if it is one or may be one, with its id.
    pub(crate) fn as_response(&self) -> Option<(&Bytes, &Result<Bytes, Bytes>)> {
        let message = match self {
            Self::Message { message, .. } => message,
            Self::Unclear(unclear) => &unclear.unversioned.as_ref()?.1,
            Self::Malformed(_) | Self::TooLarge { .. } => return None,
        };
        match message {
            Message::Response { id, response } => Some((id, response)),
            Message::Request { .. } | Message::Notification { .. } => None,
        }
    }

    /// Parses a line without its newline, strictly.
    #[must_use]
    pub fn of(line: Bytes) -> Self {
        match parse(&line) {
            Ok(message) => Self::Message { line, message },
            Err(malformed) => Self::Malformed(malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn large_texts_are_parsed_on_another_thread() {
        let here = thread::current().id();
        for (size, is_elsewhere) in [(10, false), (INLINE + 1, true)] {
            let made = move |text| {
                assert_eq!(thread::current().id() != here, is_elsewhere, "{size} bytes");
                text
            };
            let incoming = Incoming::of_any_size(vec![b' '; size].into(), made).await;
            assert!(matches!(incoming, Incoming::Unclear(_)));
        }
    }
}
