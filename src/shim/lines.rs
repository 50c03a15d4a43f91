//! Splits a byte stream into lines. Pure.

use bytes::{Bytes, BytesMut};

use crate::jsonrpc::codec::LineEnds;
use crate::message_limit::has_memory;

/// Lines up to this size are copied out of the buffer, in bytes, so that they do not keep it.
const SMALL: usize = 4 << 10;
/// A larger buffer is freed once its line was taken.
const MAX_RETAINED_BUFFER: usize = 256 << 10;

/// A piece of a stream.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// A line with its newline.
    Line(Bytes),
    /// A part of a line that is too long to be kept, or for which there is no memory.
    Part(Bytes),
    /// The last part of such a line, and what is known of the whole.
    End(Bytes, LineEnds),
}

/// Splits a stream.
#[derive(Debug)]
pub(super) struct LineSplitter {
    /// Longest line that is kept, in bytes.
    max_len: usize,
    buffer: BytesMut,
    /// How far the buffer was searched for a newline.
    searched: usize,
    /// The incomplete line that is returned in parts.
    oversized: Option<LineEnds>,
    /// Such a part, which there was no memory to extend.
    part: Option<Bytes>,
}

impl LineSplitter {
    /// Longer lines are returned in parts, as they arrive.
    pub(super) fn new(max_len: usize) -> Self {
        Self { max_len, buffer: BytesMut::new(), searched: 0, oversized: None, part: None }
    }

    /// Adds data, once all pieces of the former data were taken.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.buffer.is_empty() && self.buffer.capacity() > MAX_RETAINED_BUFFER {
            self.buffer = BytesMut::new();
        }
        if !has_memory(&self.buffer, bytes.len()) {
            self.searched = 0;
            self.part = Some(self.take_part(self.buffer.len()));
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next piece, if it is complete.
    pub(super) fn take_next(&mut self) -> Option<Piece> {
        if let Some(part) = self.part.take() {
            return Some(Piece::Part(part));
        }
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let length = found.map_or(self.buffer.len(), |found| self.searched + found + 1);
        let is_long = self.oversized.is_some() || length > self.max_len;
        if length == 0 || (found.is_none() && !is_long) {
            self.searched = length;
            return None;
        }
        self.searched = 0;
        if !is_long {
            return Some(Piece::Line(self.take(length)));
        }
        let part = self.take_part(length);
        Some(match self.oversized.take_if(|_| found.is_some()) {
            Some(ends) => Piece::End(part, ends),
            None => Piece::Part(part),
        })
    }

    /// Takes a part of a line, which is returned in parts from here on.
    fn take_part(&mut self, length: usize) -> Bytes {
        let part = self.take(length);
        let ends = self.oversized.get_or_insert_with(|| LineEnds::begin(&part));
        ends.keep_end(part.strip_suffix(b"\n").unwrap_or(&part));
        part
    }

    /// Drops the incomplete line.
    pub(super) fn drop_incomplete(&mut self) {
        *self = Self::new(self.max_len);
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

    /// All pieces of these chunks.
    fn pieces(max_len: usize, chunks: &[&[u8]]) -> Vec<Piece> {
        let (mut lines, mut pieces) = (LineSplitter::new(max_len), Vec::new());
        for chunk in chunks {
            lines.push(chunk);
            while let Some(piece) = lines.take_next() {
                pieces.push(piece);
            }
        }
        pieces
    }

    #[test]
    fn complete_lines_are_returned_unchanged() {
        let line = |text: &'static str| Piece::Line(Bytes::from_static(text.as_bytes()));
        let found = pieces(9, &[b"a", b"b\r\n\n \n", b"c"]);
        assert_eq!(found, [line("ab\r\n"), line("\n"), line(" \n")]);
    }

    #[test]
    fn oversized_line_has_its_head_and_tail() {
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
        fn chunk_borders_do_not_change_the_bytes(
            text in "[ab\n]{0,60}", max_len in 1..20usize, cuts in prop::collection::vec(1..9usize, 0..30),
        ) {
            let (mut rest, mut chunks) = (text.as_bytes(), Vec::new());
            for cut in cuts {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            chunks.push(rest);
            let mut rejoined = Vec::new();
            for piece in pieces(max_len, &chunks) {
                match &piece {
                    Piece::Line(line) => prop_assert!(line.len() <= max_len && line.ends_with(b"\n")),
                    Piece::Part(part) => prop_assert!(!part.contains(&b'\n')),
                    Piece::End(part, _) => prop_assert!(part.ends_with(b"\n")),
                }
                let (Piece::Line(bytes) | Piece::Part(bytes) | Piece::End(bytes, _)) = piece;
                rejoined.extend_from_slice(&bytes);
            }
            prop_assert!(text.as_bytes().starts_with(&rejoined));
            let rest = &text.as_bytes()[rejoined.len()..];
            prop_assert!(!rest.contains(&b'\n') && rest.len() <= max_len);
        }
    }
}
