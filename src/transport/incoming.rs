//! Parses a peer's lines and bodies.

use bytes::Bytes;

use crate::jsonrpc::{Message, MessageError, parse};

/// Larger lines are parsed on another thread, so that one peer's large messages do not delay other peers.
///
/// To parse a line of this size takes 3 to 60 µs, depending on the number of its values. The way to another thread and
/// back takes about as long.
pub(super) const INLINE: usize = 32 << 10;

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
    /// A line over the cap, skipped.
    TooLarge {
        /// Its id, if it could be read.
        id: Option<Bytes>,
        /// It is a response to the request with that id.
        is_response: bool,
    },
}

impl Incoming {
    /// Parses `line(text)`. A text so large that others would have to wait is handled on another thread.
    pub async fn of_any_size(text: Bytes, line: impl FnOnce(Bytes) -> Bytes + Send + 'static) -> Self {
        if text.len() <= INLINE {
            return Self::of(line(text));
        }
        let parsing = tokio::task::spawn_blocking(|| Self::of(line(text)));
        parsing.await.unwrap_or(Self::Malformed(MessageError::NotAMessage { id: None }))
    }

    /// Parses a line without its newline.
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
            assert!(matches!(incoming, Incoming::Malformed(_)));
        }
    }
}
