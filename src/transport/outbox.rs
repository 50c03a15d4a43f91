//! Lines waiting to be written to one peer.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Most lines handed to the kernel by one write.
const BATCH: usize = 32;

/// A queue of lines that counts its bytes. It has no cap of its own: its owner asks [`Outbox::bytes`] before it takes
/// on more, since only the owner knows whether to refuse a call or to cut the peer off.
#[derive(Debug, Default)]
pub struct Outbox {
    lines: VecDeque<Bytes>,
    bytes: usize,
    /// Lines of which at least one byte was handed to the kernel.
    begun: u64,
    /// The first queued line is one of them.
    first_begun: bool,
}

impl Outbox {
    /// Queues `line`, which ends with its newline, and tells its number: see [`Outbox::has_begun`].
    pub fn push(&mut self, line: Bytes) -> u64 {
        self.bytes += line.len();
        self.lines.push_back(line);
        self.begun + self.lines.len() as u64 - u64::from(self.first_begun)
    }

    /// Whether any byte of line number `number` may have reached the peer.
    #[must_use]
    pub fn has_begun(&self, number: u64) -> bool {
        number <= self.begun
    }

    /// Bytes queued and not yet written.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether everything was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Writes what the peer takes now, waiting until it takes anything. May be cancelled without loss.
    ///
    /// # Errors
    /// Those of the stream; `WriteZero` if it takes nothing any more.
    pub async fn write_some(&mut self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut slices = [IoSlice::new(&[]); BATCH];
        let count = self.lines.len().min(BATCH);
        for (slice, line) in slices.iter_mut().zip(&self.lines) {
            *slice = IoSlice::new(line);
        }
        let written = stream.write_vectored(&slices[..count]).await?;
        if written == 0 && count > 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.advance(written);
        Ok(())
    }

    fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        while written > 0 {
            self.begun += u64::from(!self.first_begun);
            let Some(first) = self.lines.front_mut() else { return };
            let taken = written.min(first.len());
            first.advance(taken);
            written -= taken;
            self.first_begun = !first.is_empty();
            if first.is_empty() {
                self.lines.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_has_begun_with_its_first_byte() {
        let mut outbox = Outbox::default();
        let (a, b) = (outbox.push(Bytes::from_static(b"aaa\n")), outbox.push(Bytes::from_static(b"bb\n")));
        assert!(!outbox.has_begun(a));
        outbox.advance(1);
        assert!(outbox.has_begun(a) && !outbox.has_begun(b));
        let c = outbox.push(Bytes::from_static(b"c\n"));
        outbox.advance(3);
        assert!(!outbox.has_begun(b));
        outbox.advance(1);
        assert!(outbox.has_begun(b) && !outbox.has_begun(c));
        outbox.advance(4);
        assert!(outbox.has_begun(c) && outbox.is_empty() && outbox.bytes() == 0);
    }

    proptest! {
        #[test]
        fn lines_begin_in_the_order_they_were_queued(lengths in prop::collection::vec(1..9usize, 1..20), steps in prop::collection::vec(1..12usize, 0..60)) {
            let mut outbox = Outbox::default();
            let numbers: Vec<u64> = lengths.iter().map(|length| outbox.push(vec![b'x'; *length].into())).collect();
            let mut sent = 0;
            for step in steps {
                let step = step.min(outbox.bytes());
                outbox.advance(step);
                sent += step;
                let mut start = 0;
                for (number, length) in numbers.iter().zip(&lengths) {
                    prop_assert_eq!(outbox.has_begun(*number), start < sent);
                    start += length;
                }
            }
        }
    }
}
