//! Lines waiting to be written to one peer.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use crate::tap::{Direction, TapPoint};

/// Most lines handed to the kernel by one write.
const BATCH: usize = 32;

/// A queue of lines that counts its bytes. It has no cap: its owner checks [`Outbox::bytes`] before it adds more, since
/// only the owner knows whether to refuse a call or to disconnect the peer.
#[derive(Debug, Default)]
pub struct Outbox {
    lines: VecDeque<Bytes>,
    bytes: usize,
    /// Bytes that streams have accepted.
    written: u64,
    /// Lines of which at least one byte was written.
    begun: u64,
    /// The first queued line is partly written.
    first_begun: bool,
    tap: TapPoint,
}

impl Outbox {
    /// A queue that notes each line when its first byte is written.
    pub(crate) fn tapped(tap: TapPoint) -> Self {
        Self { tap, ..Self::default() }
    }

    /// Queues `line`, which ends with a newline. Returns its number, for [`Outbox::has_begun`].
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

    /// Removes a line if none of it has been written. Returns whether it did.
    pub fn retract(&mut self, number: u64) -> bool {
        self.take(number).is_some()
    }

    /// Removes a line and returns it, if none of it has been written.
    pub fn take(&mut self, number: u64) -> Option<Bytes> {
        let position = number.checked_sub(self.begun + 1).map(|ahead| ahead + u64::from(self.first_begun));
        let line = position.and_then(|position| self.lines.get_mut(usize::try_from(position).ok()?));
        // An empty line stays in its place, so that later lines keep their numbers.
        let line = std::mem::take(line?);
        self.bytes -= line.len();
        self.skip_retracted();
        Some(line)
    }

    /// Removes the first line, for a caller that writes it as a whole. Returns its number, too.
    pub fn take_first(&mut self) -> Option<(u64, Bytes)> {
        let line = self.lines.pop_front()?;
        self.bytes -= line.len();
        self.begun += u64::from(!std::mem::take(&mut self.first_begun));
        let number = self.begun;
        self.skip_retracted();
        Some((number, line))
    }

    fn skip_retracted(&mut self) {
        while !self.first_begun && self.lines.front().is_some_and(Bytes::is_empty) {
            self.lines.pop_front();
            self.begun += 1;
        }
    }

    /// Bytes queued and not yet written.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that streams have accepted.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Lines queued and not yet written, including removed ones between them.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Whether everything was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Writes as much as the peer accepts now, waiting until it accepts something. Cancel-safe.
    ///
    /// # Errors
    /// Errors of the stream; `WriteZero` if it accepts nothing more.
    pub async fn write_some(&mut self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        poll_fn(|cx| self.poll_write(cx, stream)).await
    }

    /// The polling form of [`Outbox::write_some`].
    ///
    /// # Errors
    /// As for [`Outbox::write_some`].
    pub fn poll_write(&mut self, cx: &mut Context<'_>, stream: &mut (impl AsyncWrite + Unpin)) -> Poll<io::Result<()>> {
        let stream = Pin::new(stream);
        let written = match self.lines.len() {
            0 => return Poll::Ready(Ok(())),
            // The usual case, and a cheaper call.
            1 => ready!(stream.poll_write(cx, &self.lines[0]))?,
            _ => {
                let mut slices = [IoSlice::new(&[]); BATCH];
                let count = self.lines.len().min(BATCH);
                for (slice, line) in slices.iter_mut().zip(&self.lines) {
                    *slice = IoSlice::new(line);
                }
                ready!(stream.poll_write_vectored(cx, &slices[..count]))?
            }
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.advance(written);
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        self.written += written as u64;
        while written > 0 {
            self.begun += u64::from(!self.first_begun);
            let Some(first) = self.lines.front_mut() else { return };
            if !self.first_begun {
                self.tap.note(Direction::To, first);
            }
            let taken = written.min(first.len());
            first.advance(taken);
            written -= taken;
            self.first_begun = !first.is_empty();
            if first.is_empty() {
                self.lines.pop_front();
                self.skip_retracted();
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

    #[test]
    fn lines_that_are_taken_whole_keep_their_numbers() {
        let mut outbox = Outbox::default();
        let [a, b, c] = ["a\n", "b\n", "c\n"].map(|line| outbox.push(Bytes::from_static(line.as_bytes())));
        assert!(outbox.retract(b));
        assert_eq!(outbox.take_first(), Some((a, Bytes::from_static(b"a\n"))));
        assert!(outbox.has_begun(b) && !outbox.has_begun(c));
        assert_eq!(outbox.take_first(), Some((c, Bytes::from_static(b"c\n"))));
        assert!(outbox.take_first().is_none() && outbox.is_empty() && outbox.bytes() == 0);
    }

    proptest! {
        #[test]
        fn a_retracted_line_is_never_written_and_no_other_is_lost(
            operations in prop::collection::vec((0..3u8, 0..12usize), 0..80),
        ) {
            let (mut outbox, mut expected, mut sent) = (Outbox::default(), Vec::new(), Vec::new());
            let mut write = |outbox: &mut Outbox, count: usize| {
                let queued: Vec<u8> = outbox.lines.iter().flatten().copied().collect();
                let count = count.min(queued.len());
                sent.extend_from_slice(&queued[..count]);
                outbox.advance(count);
            };
            for (kind, n) in operations {
                match kind {
                    0 => {
                        let line = vec![expected.len() as u8; n + 1];
                        let number = outbox.push(line.clone().into());
                        expected.push((number, Some(line)));
                    }
                    1 => write(&mut outbox, n),
                    _ => if let Some((number, line)) = expected.get_mut(n) && line.is_some() {
                        let begun = outbox.has_begun(*number);
                        prop_assert_eq!(outbox.retract(*number), !begun);
                        if !begun { *line = None; }
                    },
                }
                prop_assert_eq!(outbox.bytes() == 0, outbox.is_empty());
            }
            write(&mut outbox, usize::MAX);
            let expected: Vec<u8> = expected.into_iter().filter_map(|(_, line)| line).flatten().collect();
            prop_assert_eq!(sent, expected);
        }

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
