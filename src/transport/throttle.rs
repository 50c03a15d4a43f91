//! Pauses in reading from a peer that sends a line in many small fragments. Pure.
//!
//! Each fragment wakes the event loop, however little it brings. So after some fragments of a line there is a pause before
//! each further read. Meanwhile fragments accumulate, and the event loop serves other peers.

use std::time::Duration;

/// Reads of fewer bytes are fragments. A program that buffers its output sends a large message in larger parts.
const FRAGMENT: usize = 1 << 10;
/// Fragments of a line that cause no pause: some programs write a message in several parts.
const FREE: u8 = 4;
/// A shorter line is no message, so what follows is still counted with it.
const MIN_MESSAGE: usize = 16;
/// Pauses begin with one millisecond and are doubled so many times, up to 32 ms. During a pause the kernel still wakes the
/// event loop for each fragment, until the socket buffer is full after some hundred fragments. Long pauses make that rare.
const DOUBLINGS: u8 = 5;

/// The fragments of the current line of one peer.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    fragments: u8,
}

impl Throttle {
    /// Counts a read of this many bytes. Returns the pause before the next read, if there is one.
    pub(super) fn pause_after(&mut self, bytes: usize) -> Option<Duration> {
        if bytes >= FRAGMENT {
            return None;
        }
        self.fragments = self.fragments.saturating_add(1);
        let doublings = self.fragments.checked_sub(FREE + 1)?.min(DOUBLINGS);
        Some(Duration::from_millis(1 << doublings))
    }

    /// A line of this many bytes is complete.
    pub(super) fn end_line(&mut self, bytes: usize) {
        if bytes >= MIN_MESSAGE {
            self.fragments = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses, in milliseconds, of a peer that sends lines in fragments of these sizes.
    fn pauses(fragments: &[usize], lines: usize) -> Vec<u128> {
        let (mut throttle, mut pauses) = (Throttle::default(), Vec::new());
        for _ in 0..lines {
            let found = fragments.iter().filter_map(|bytes| throttle.pause_after(*bytes));
            pauses.extend(found.map(|pause| pause.as_millis()));
            throttle.end_line(fragments.iter().sum());
        }
        pauses
    }

    #[test]
    fn messages_cause_no_pause_whole_or_in_a_few_parts() {
        for fragments in [&[40][..], &[40, 1], &[1, 40, 1], &[1, 1, 40, 1], &[64 << 10], &[FRAGMENT; 100]] {
            assert_eq!(pauses(fragments, 1000), [0; 0], "{fragments:?}");
        }
    }

    #[test]
    fn pauses_grow_with_the_fragments_of_a_line() {
        assert_eq!(pauses(&[1; 12], 1), [1, 2, 4, 8, 16, 32, 32, 32]);
        assert_eq!(pauses(&[300; 1000], 1).len(), 1000 - usize::from(FREE));
    }

    #[test]
    fn message_ends_the_pauses_and_an_empty_line_does_not() {
        assert_eq!(pauses(&[8; 6], 3), [1, 2, 1, 2, 1, 2]);
        assert_eq!(pauses(&[1], 7), [1, 2, 4]);
    }
}
