//! A stream of bytes as lines, each as it came. Pure.

use bytes::{Bytes, BytesMut};

use crate::jsonrpc::codec::Oversized;

/// Lines up to this size are copied out of the buffer, in bytes, so that they do not keep it.
const SMALL: usize = 4 << 10;
/// A larger buffer is given back when its line was taken, so that one large message does not cost its size for ever.
const KEPT_BUFFER: usize = 256 << 10;

/// What a stream holds.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// A line with its newline.
    Line(Bytes),
    /// More of a line that is too long to be kept.
    Part(Bytes),
    /// The last of such a line, and what is known of all of it.
    End(Bytes, Oversized),
}

/// Takes a stream apart.
#[derive(Debug)]
pub(super) struct Lines {
    /// Longest line that is kept, in bytes.
    longest: usize,
    buffer: BytesMut,
    /// How far the buffer has been searched for a newline.
    searched: usize,
    /// Of a line that is too long and has not ended.
    long: Option<Oversized>,
}

impl Lines {
    /// Lines longer than `longest` are given in parts, as they come.
    pub(super) fn up_to(longest: usize) -> Self {
        Self { longest, buffer: BytesMut::new(), searched: 0, long: None }
    }

    /// The stream goes on with this.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BUFFER {
            self.buffer = BytesMut::new();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// What comes next, if it is there.
    pub(super) fn take_next(&mut self) -> Option<Piece> {
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let length = found.map_or(self.buffer.len(), |found| self.searched + found + 1);
        let is_long = self.long.is_some() || length > self.longest;
        if length == 0 || (found.is_none() && !is_long) {
            self.searched = length;
            return None;
        }
        self.searched = 0;
        let piece = self.take(length);
        if !is_long {
            return Some(Piece::Line(piece));
        }
        let mut ends = self.long.take().unwrap_or_else(|| Oversized::begin(&piece));
        ends.keep_end(piece.strip_suffix(b"\n").unwrap_or(&piece));
        if found.is_some() {
            return Some(Piece::End(piece, ends));
        }
        self.long = Some(ends);
        Some(Piece::Part(piece))
    }

    /// Drops the line that has not ended.
    pub(super) fn drop_begun(&mut self) {
        *self = Self::up_to(self.longest);
    }

    fn take(&mut self, length: usize) -> Bytes {
        if length > SMALL {
            return self.buffer.split_to(length).freeze();
        }
        let piece = Bytes::copy_from_slice(&self.buffer[..length]);
        bytes::Buf::advance(&mut self.buffer, length);
        piece
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All that comes of these chunks.
    fn pieces(longest: usize, chunks: &[&[u8]]) -> Vec<Piece> {
        let (mut lines, mut pieces) = (Lines::up_to(longest), Vec::new());
        for chunk in chunks {
            lines.push(chunk);
            while let Some(piece) = lines.take_next() {
                pieces.push(piece);
            }
        }
        pieces
    }

    #[test]
    fn a_line_is_given_when_it_has_ended_and_as_it_came() {
        let line = |text: &'static str| Piece::Line(Bytes::from_static(text.as_bytes()));
        let found = pieces(9, &[b"a", b"b\r\n\n \n", b"c"]);
        assert_eq!(found, [line("ab\r\n"), line("\n"), line(" \n")]);
    }

    #[test]
    fn of_a_line_that_is_too_long_both_ends_are_known() {
        let found = pieces(4, &[b"{\"id\"", b":7}", b"\nab\n"]);
        let [Piece::Part(first), Piece::Part(second), Piece::End(last, ends), Piece::Line(next)] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!([&first[..], second, last, next], [&b"{\"id\""[..], b":7}", b"\n", b"ab\n"]);
        assert_eq!((&ends.head[..], &ends.tail[..]), (&b"{\"id\""[..], &b"{\"id\":7}"[..]));
        assert!(matches!(&pieces(4, &[b"12345\n"])[..], [Piece::End(..)]), "in one piece, too");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_altered_however_it_is_cut(
            text in "[ab\n]{0,60}", longest in 1..20usize, cuts in prop::collection::vec(1..9usize, 0..30),
        ) {
            let (mut rest, mut chunks) = (text.as_bytes(), Vec::new());
            for cut in cuts {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            chunks.push(rest);
            let mut said = Vec::new();
            for piece in pieces(longest, &chunks) {
                match &piece {
                    Piece::Line(line) => prop_assert!(line.len() <= longest && line.ends_with(b"\n")),
                    Piece::Part(part) => prop_assert!(!part.contains(&b'\n')),
                    Piece::End(part, _) => prop_assert!(part.ends_with(b"\n")),
                }
                let (Piece::Line(bytes) | Piece::Part(bytes) | Piece::End(bytes, _)) = piece;
                said.extend_from_slice(&bytes);
            }
            prop_assert!(text.as_bytes().starts_with(&said));
            let unsaid = &text.as_bytes()[said.len()..];
            prop_assert!(!unsaid.contains(&b'\n') && unsaid.len() <= longest);
        }
    }
}
