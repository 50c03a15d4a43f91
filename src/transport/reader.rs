//! Messages from one peer.

use std::io;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::io::AsyncRead;
use tokio::task::JoinHandle;
use tokio_util::codec::FramedRead;

use crate::jsonrpc::codec::{Line, NdJson};
use crate::jsonrpc::{Malformed, Message, oversize, parse};

/// Larger lines are parsed on another thread, so that one peer's large message does not hold up everybody's small ones.
const INLINE: usize = 256 << 10;

/// Reads messages from `R`, one at a time and in order.
#[derive(Debug)]
pub struct MessageReader<R> {
    lines: FramedRead<R, NdJson>,
    parsing: Option<JoinHandle<Incoming>>,
}

/// What a peer sent.
#[derive(Debug)]
pub enum Incoming {
    /// A message, and the line it is made of.
    Message {
        /// Without its newline; the message's parts are slices of it.
        line: Bytes,
        /// The parsed envelope.
        message: Message,
    },
    /// A line that is no message.
    Malformed(Malformed),
    /// A line over the cap, skipped; its id if that could be read.
    TooLarge(Option<Bytes>),
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    /// A reader of messages of at most `max` bytes.
    pub fn new(stream: R, max: usize) -> Self {
        Self { lines: FramedRead::new(stream, NdJson::new(max)), parsing: None }
    }

    /// The next message, or `None` at the end of the stream. May be cancelled without loss.
    ///
    /// # Errors
    /// Those of the stream.
    pub async fn next(&mut self) -> io::Result<Option<Incoming>> {
        if self.parsing.is_none() {
            match self.lines.next().await.transpose()? {
                None => return Ok(None),
                Some(Line::Oversized(kept)) => {
                    return Ok(Some(Incoming::TooLarge(oversize::id(&kept.head, &kept.tail))));
                }
                Some(Line::Whole(line)) if line.len() <= INLINE => return Ok(Some(classify(line))),
                Some(Line::Whole(line)) => self.parsing = Some(tokio::task::spawn_blocking(|| classify(line))),
            }
        }
        let Some(parsing) = &mut self.parsing else { return Ok(None) };
        let parsed = parsing.await;
        self.parsing = None;
        parsed.map(Some).map_err(io::Error::other)
    }

    /// The stream itself.
    pub fn get_ref(&self) -> &R {
        self.lines.get_ref()
    }

    /// The stream itself, without what was read from it and not yet taken.
    pub fn into_inner(self) -> R {
        self.lines.into_inner()
    }
}

fn classify(line: Bytes) -> Incoming {
    match parse(&line) {
        Ok(message) => Incoming::Message { line, message },
        Err(malformed) => Incoming::Malformed(malformed),
    }
}
