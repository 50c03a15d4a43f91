//! Where a body ends that is read without hyper, and what of it is data. Pure.
//!
//! Source: RFC 9112, 6.3 "Message Body Length" and 7.1 "Chunked Transfer Coding".

use bytes::Bytes;
use http::header::{HeaderMap, TRANSFER_ENCODING};

/// How much of a body is still to come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// As many bytes.
    Length(u64),
    Chunked(Chunks),
    /// All that comes until the connection is closed.
    UntilClosed,
}

/// What comes next of a body in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunks {
    /// The size of a chunk, so far.
    Size(Option<u64>),
    /// The rest of the line that says it.
    Extension(u64),
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    /// A trailer, or the end.
    Last,
    Trailer,
    TrailerLf,
    LastLf,
    Over,
}

/// What came cannot be in a body in chunks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Framing {
    /// That of a body of which hyper knows this length, if it has one.
    pub(super) fn of(headers: &HeaderMap, length: Option<u64>) -> Self {
        let coding = headers.get_all(TRANSFER_ENCODING).iter().next_back();
        let last = coding.and_then(|coding| coding.as_bytes().rsplit(|byte| *byte == b',').next());
        match length {
            Some(length) => Self::Length(length),
            None if last.is_some_and(|last| last.trim_ascii().eq_ignore_ascii_case(b"chunked")) => {
                Self::Chunked(Chunks::Size(None))
            }
            None => Self::UntilClosed,
        }
    }

    /// Whether nothing more is to come.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunks::Over))
    }

    /// Whether the body is whole if nothing more comes.
    pub(super) fn may_end(&self) -> bool {
        self.is_over() || *self == Self::UntilClosed
    }

    /// Takes the next data out of what has come; `None` when there is none left in it.
    pub(super) fn data(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, Broken> {
        let whole = u64::try_from(input.len()).unwrap_or(u64::MAX);
        let taken = match self {
            Self::UntilClosed => whole,
            Self::Length(left) => {
                let taken = whole.min(*left);
                *left -= taken;
                taken
            }
            Self::Chunked(chunks) => chunks.data(input)?,
        };
        // Not more than the input has.
        let data = input.split_to(usize::try_from(taken).unwrap_or(usize::MAX).min(input.len()));
        Ok(Some(data).filter(|data| !data.is_empty()))
    }
}

impl Chunks {
    /// Takes off what is around the data, and tells how many bytes of it come then.
    fn data(&mut self, input: &mut Bytes) -> Result<u64, Broken> {
        let mut around = 0;
        let taken = loop {
            let rest = &input[around..];
            match (*self, rest.first()) {
                (Self::Over, _) | (_, None) => break 0,
                (Self::Data(left), Some(_)) => {
                    let taken = left.min(u64::try_from(rest.len()).unwrap_or(u64::MAX));
                    *self = if taken == left { Self::DataCr } else { Self::Data(left - taken) };
                    break taken;
                }
                (part, Some(byte)) => *self = part.behind(*byte)?,
            }
            around += 1;
        };
        *input = input.slice(around..);
        Ok(taken)
    }

    /// What comes behind a byte that is no data.
    fn behind(self, byte: u8) -> Result<Self, Broken> {
        let digit = char::from(byte).to_digit(16).map(u64::from);
        match (self, byte) {
            (Self::Size(size), _) if digit.is_some() => {
                let larger = size.unwrap_or(0).checked_mul(16).zip(digit).map(|(size, digit)| size | digit);
                larger.map(|size| Self::Size(Some(size))).ok_or(Broken)
            }
            (Self::Size(Some(size)) | Self::Extension(size), b'\r') => Ok(Self::SizeLf(size)),
            (Self::Size(Some(size)), b';' | b' ' | b'\t') => Ok(Self::Extension(size)),
            (Self::Extension(_), b'\n') | (Self::Size(_), _) => Err(Broken),
            (Self::Extension(size), _) => Ok(Self::Extension(size)),
            (Self::SizeLf(0), b'\n') => Ok(Self::Last),
            (Self::SizeLf(size), b'\n') => Ok(Self::Data(size)),
            (Self::DataCr, b'\r') => Ok(Self::DataLf),
            (Self::DataLf, b'\n') => Ok(Self::Size(None)),
            (Self::Last, b'\r') => Ok(Self::LastLf),
            (Self::LastLf, b'\n') => Ok(Self::Over),
            (Self::Trailer, b'\r') => Ok(Self::TrailerLf),
            (Self::TrailerLf, b'\n') => Ok(Self::Last),
            (Self::Last | Self::Trailer, _) => Ok(Self::Trailer),
            _ => Err(Broken),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// What is data of a body that comes in these parts, and whether that is all of it.
    fn read<'a>(framing: &mut Framing, parts: impl IntoIterator<Item = &'a [u8]>) -> Result<(Vec<u8>, bool), Broken> {
        let mut whole = Vec::new();
        for part in parts {
            let mut part = Bytes::copy_from_slice(part);
            while let Some(data) = framing.data(&mut part)? {
                whole.extend_from_slice(&data);
            }
        }
        Ok((whole, framing.may_end()))
    }

    fn chunked() -> Framing {
        Framing::Chunked(Chunks::Size(None))
    }

    #[test]
    fn a_body_in_chunks_is_its_data() {
        for (body, expected) in [
            ("0\r\n\r\n", Ok(("", true))),
            ("5\r\nhello\r\n0\r\n\r\n", Ok(("hello", true))),
            ("5\r\nhello\r\nA;x=\"y\"\r\n, you two!\r\n00\r\nA: b\r\nC: d\r\n\r\nmore", Ok(("hello, you two!", true))),
            ("5 \r\nhello\r\n", Ok(("hello", false))),
            ("5\r\nhel", Ok(("hel", false))),
            ("ffffffffffffffff\r\nhel", Ok(("hel", false))),
            ("10000000000000000\r\n", Err(Broken)),
            ("\r\n", Err(Broken)),
            ("g\r\n", Err(Broken)),
            ("-1\r\n", Err(Broken)),
            ("5\nhello\r\n", Err(Broken)),
            ("5;a\nhello\r\n", Err(Broken)),
            ("5\r\nhello!\r\n", Err(Broken)),
            ("0\r\n\rx", Err(Broken)),
        ] {
            let expected = expected.map(|(data, is_whole)| (data.as_bytes().to_vec(), is_whole));
            assert_eq!(read(&mut chunked(), [body.as_bytes()]), expected, "{body:?}");
            assert_eq!(read(&mut chunked(), body.as_bytes().chunks(1)), expected, "{body:?} byte by byte");
        }
    }

    #[test]
    fn a_body_ends_as_its_head_says() {
        let headers = |codings: &[&'static str]| {
            let codings = codings.iter().map(|coding| (TRANSFER_ENCODING, HeaderValue::from_static(coding)));
            codings.collect::<HeaderMap>()
        };
        for (codings, length, expected) in [
            (&["chunked"][..], None, chunked()),
            (&["gzip, Chunked "], None, chunked()),
            (&["gzip", "chunked"], None, chunked()),
            (&["chunked", "gzip"], None, Framing::UntilClosed),
            (&[], None, Framing::UntilClosed),
            (&[], Some(7), Framing::Length(7)),
        ] {
            assert_eq!(Framing::of(&headers(codings), length), expected, "{codings:?}, {length:?}");
        }
        assert_eq!(read(&mut Framing::Length(5), [&b"hel"[..], b"lo, you"]), Ok((b"hello".to_vec(), true)));
        assert_eq!(read(&mut Framing::Length(5), [&b"hel"[..]]), Ok((b"hel".to_vec(), false)));
        assert_eq!(read(&mut Framing::UntilClosed, [&b"hel"[..], b"lo"]), Ok((b"hello".to_vec(), true)));
    }

    proptest! {
        #[test]
        fn chunks_are_what_was_put_into_them_however_they_are_cut(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..8),
            cut in 1_usize..50,
        ) {
            let mut body = Vec::new();
            for chunk in &chunks {
                body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                body.extend_from_slice(chunk);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(read(&mut chunked(), body.chunks(cut)), Ok((chunks.concat(), true)));
        }
    }
}
