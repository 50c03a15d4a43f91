//! The maximum size of a message on one connection.

use std::fmt::Display;
use std::hint::black_box;
use std::sync::Arc;

use bytes::BytesMut;

/// The default: the largest message that every SDK reads. The SDKs for TypeScript close a connection when a line and the rest of what they
/// have read with its end exceed 10 MiB, and they read at most 64 KiB at a time.
pub const DEFAULT: usize = (10 << 20) - READ;
const READ: usize = 64 << 10;

/// What a response needs beside a list: an id, and the members that mcpd adds.
const ENVELOPE: usize = 16 << 10;

/// Buffers up to this size grow unchecked, in bytes.
const UNCHECKED: usize = 256 << 10;
/// Address space that a growing buffer leaves for everything else, in bytes.
const HEADROOM: usize = 16 << 20;

/// A limit, with the table of the configuration that sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageLimit {
    bytes: usize,
    table: Arc<str>,
}

impl MessageLimit {
    /// The limit of a connection: that of its own table, or else that of `[daemon]`.
    #[must_use]
    pub fn new(table: impl Display, own: Option<usize>, daemon: usize) -> Self {
        match own {
            Some(bytes) => Self { bytes, table: table.to_string().into() },
            None => Self { bytes: daemon, table: "daemon".into() },
        }
    }

    /// In bytes, without the end of the line.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a line with its end may be sent.
    #[must_use]
    pub fn permits(&self, line: &[u8]) -> bool {
        line.len() <= self.bytes.saturating_add(1)
    }

    /// Why a message of this size is refused; without a size, one that was not read to its end. The text continues the name of the message.
    #[must_use]
    pub fn excess(&self, size: Option<usize>) -> String {
        let Self { bytes, table } = self;
        match size {
            Some(size) if size <= *bytes => format!("has {size} bytes, more than mcpd could reserve memory for"),
            Some(size) => format!("has {size} bytes, more than the {bytes} of `max_message` in `[{table}]`"),
            None => format!("has more than the {bytes} bytes of `max_message` in `[{table}]`"),
        }
    }

    /// See [`buffer_unit`].
    #[must_use]
    pub fn buffer_unit(&self) -> usize {
        buffer_unit(self.bytes)
    }
}

/// Whether `buffer` can grow by `additional` bytes. An allocation that fails would abort mcpd, so whatever grows by what a peer sends
/// calls this first, and refuses the message as too large.
///
/// The process must have twice the space that the buffer is about to take, since the message is copied once, and [`HEADROOM`] for
/// everything else.
#[must_use]
pub fn has_memory(buffer: &BytesMut, additional: usize) -> bool {
    let needed = buffer.len() + additional;
    if needed <= buffer.capacity().max(UNCHECKED) {
        return true;
    }
    // Never touched, so it costs address space only. Without `black_box` the compiler would leave the allocation out.
    black_box(Vec::<u8>::new()).try_reserve_exact(2 * needed.next_power_of_two() + HEADROOM).is_ok()
}

/// The unit of all limits of buffers, in bytes: 16 MiB by default. It has room for the largest message.
#[must_use]
pub fn buffer_unit(max_message: usize) -> usize {
    max_message.next_power_of_two()
}

/// The bytes that a list may have in a message.
#[must_use]
pub fn list_bytes(max_message: usize) -> usize {
    max_message.saturating_sub(ENVELOPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_keep_their_size_whatever_the_default_is() {
        for (max_message, unit) in [(DEFAULT, 16 << 20), (64 << 10, 64 << 10), (16 << 20, 16 << 20), (1 << 30, 1 << 30)]
        {
            assert_eq!(buffer_unit(max_message), unit);
        }
    }
}
