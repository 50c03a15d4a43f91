//! Newline framing: one message per line. Source: the MCP stdio transport, and MCP 2026-07-28 for Unix sockets.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::Decoder;

/// Splits a byte stream into lines of at most `max` bytes. Its buffer is limited accordingly.
#[derive(Debug)]
pub struct NdJson {
    max: usize,
    /// The number of buffered bytes without a newline.
    searched: usize,
    discarding: Option<LineEnds>,
}

/// One line of the stream.
#[derive(Debug, PartialEq)]
pub enum Line {
    /// A line without its line end. Never empty.
    Whole(Bytes),
    /// A line over the cap. The stream continues after it.
    Oversized(LineEnds),
}

/// The first and last bytes of a line over the cap.
#[derive(Debug, Default, PartialEq)]
pub struct LineEnds {
    /// Its first bytes.
    pub head: Bytes,
    /// Its last bytes.
    pub tail: Bytes,
    /// The number of its bytes.
    pub size: usize,
}

/// Maximum bytes of each end. They fit the envelope's members before or after the large one.
const MAX_END_LEN: usize = 1024;

/// Lines up to this size are copied out of the read buffer, in bytes.
const SMALL: usize = 4 << 10;

impl NdJson {
    /// A decoder for lines of at most `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, searched: 0, discarding: None }
    }

    /// Whether the end of a line over the cap is still to come.
    #[must_use]
    pub fn is_discarding(&self) -> bool {
        self.discarding.is_some()
    }

    /// Takes `end` bytes out of `buffer`: a line over the cap, or the rest of one.
    #[cold]
    fn take_oversized(&mut self, buffer: &mut BytesMut, end: usize) -> Line {
        let mut oversized = self.discarding.take().unwrap_or_else(|| LineEnds::begin(&buffer[..end]));
        oversized.keep_end(&buffer[..end]);
        buffer.advance(end + 1);
        Line::Oversized(oversized)
    }

    /// Refuses the buffered beginning of a line: the line is over the cap, whatever its size.
    pub fn discard(&mut self, buffer: &mut BytesMut) {
        self.discarding.get_or_insert_with(|| LineEnds::begin(buffer)).keep_end(buffer);
        buffer.clear();
        self.searched = 0;
    }
}

impl LineEnds {
    /// Starts with the first received bytes of a line.
    pub(crate) fn begin(line: &[u8]) -> Self {
        Self { head: Bytes::copy_from_slice(&line[..line.len().min(MAX_END_LEN)]), tail: Bytes::new(), size: 0 }
    }

    /// Appends `more` and retains only the last bytes.
    pub(crate) fn keep_end(&mut self, more: &[u8]) {
        self.size += more.len();
        let joined = [&self.tail[..], &more[more.len().saturating_sub(MAX_END_LEN)..]].concat();
        self.tail = Bytes::copy_from_slice(&joined[joined.len().saturating_sub(MAX_END_LEN)..]);
    }
}

/// Takes the line of `end` bytes out of `buffer`, and its newline.
fn take(buffer: &mut BytesMut, end: usize) -> Bytes {
    if end > SMALL {
        return take_large(buffer, end);
    }
    // Copy small lines: a slice would keep the buffer in memory, and the reader would need a new one.
    let line = Bytes::copy_from_slice(without_marks(&buffer[..end]));
    buffer.advance(end + 1);
    line
}

#[inline(never)]
fn take_large(buffer: &mut BytesMut, end: usize) -> Bytes {
    let line = buffer.split_to(end).freeze();
    buffer.advance(1);
    line.slice_ref(without_marks(&line))
}

/// Removes a byte order mark and a final carriage return.
pub(crate) fn without_marks(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl Decoder for NdJson {
    type Item = Line;
    type Error = io::Error;

    fn decode(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Line>> {
        while let Some(found) = memchr::memchr(b'\n', &buffer[self.searched..]) {
            let end = self.searched + found;
            self.searched = 0;
            if end > self.max || self.is_discarding() {
                return Ok(Some(self.take_oversized(buffer, end)));
            }
            let line = take(buffer, end);
            // Nearly all lines begin with a brace.
            if line.first() == Some(&b'{') || !line.trim_ascii().is_empty() {
                return Ok(Some(Line::Whole(line)));
            }
        }
        self.searched = buffer.len();
        if self.discarding.is_some() || buffer.len() > self.max {
            self.discard(buffer);
        }
        Ok(None)
    }

    /// Drops an incomplete line at the end of the stream.
    fn decode_eof(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Line>> {
        let line = self.decode(buffer)?;
        if line.is_none() {
            buffer.clear();
        }
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: usize = 3000;

    fn lines(chunks: &[&[u8]]) -> Vec<Line> {
        let (mut codec, mut buffer, mut lines) = (NdJson::new(MAX), BytesMut::new(), Vec::new());
        for chunk in chunks {
            buffer.extend_from_slice(chunk);
            while let Some(line) = codec.decode(&mut buffer).expect("decoding has no errors") {
                lines.push(line);
            }
            assert!(buffer.len() <= MAX, "held {} bytes", buffer.len());
        }
        lines
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn line_ends_and_blank_lines_are_no_part_of_a_message() {
        assert_eq!(lines(&[b"\n\r\n{}\r\n  \n\xef\xbb\xbf[]\nhalf"]), [whole("{}"), whole("[]")]);
    }

    #[test]
    fn an_oversized_line_leaves_its_ends_and_the_next_line_whole() {
        let long = [b"{\"id\":1,".as_slice(), &[b'x'; 5000], b"}"].concat();
        let found = lines(&[&long[..1000], &long[1000..4000], &long[4000..], b"\n{}\n"]);
        let [Line::Oversized(oversized), next] = &found[..] else { panic!("{found:?}") };
        assert!(oversized.head.starts_with(b"{\"id\":1,") && oversized.tail.ends_with(b"xx}"));
        assert!(oversized.tail.len() <= MAX_END_LEN && oversized.head.len() <= MAX_END_LEN);
        assert_eq!(*next, whole("{}"));
    }

    #[test]
    fn the_cap_is_exact() {
        let fits = [&[b'x'; MAX][..], b"\n"].concat();
        let over = [&[b'x'; MAX + 1][..], b"\n"].concat();
        assert!(matches!(&lines(&[&fits])[..], [Line::Whole(_)]));
        assert!(matches!(&lines(&[&over])[..], [Line::Oversized(_)]));
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_lines(
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            long in 0..5000usize,
            cuts in prop::collection::vec(0..6000usize, 0..12),
        ) {
            let mut stream = texts.join(&b'\n');
            stream.extend([vec![b'\n'], vec![b'y'; long], vec![b'\n']].concat());
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &stream[w[0]..w[1]]).collect();
            let whole_stream: Vec<&[u8]> = stream.split_inclusive(|b| *b == b'\n').collect();
            let (split, whole) = (lines_unbounded(&chunks), lines_unbounded(&whole_stream));
            prop_assert_eq!(split, whole);
        }
    }

    fn lines_unbounded(chunks: &[&[u8]]) -> Vec<Line> {
        let (mut codec, mut buffer, mut lines) = (NdJson::new(MAX), BytesMut::new(), Vec::new());
        for chunk in chunks {
            buffer.extend_from_slice(chunk);
            while let Some(line) = codec.decode(&mut buffer).expect("decoding has no errors") {
                lines.push(line);
            }
        }
        lines
    }
}
