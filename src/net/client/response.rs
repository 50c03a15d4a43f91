//! The response to a request, read and decoded as it arrives. Servers and proxies may send gzip although requests accept
//! no coding.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, Write};

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, HeaderMap};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use tokio::task::yield_now;

use crate::printable::excerpt;

/// A response whose body has not been read. Dropping it before its end closes its connection.
pub struct Response {
    status: StatusCode,
    headers: HeaderMap,
    body: Body,
    proxy: Option<Box<str>>,
}

impl Response {
    pub(super) fn new(response: http::Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        let body = Body::new(body, &head.headers);
        Self { status: head.status, headers: head.headers, body, proxy: None }
    }

    /// Marks the response as possibly the proxy's own.
    pub(super) fn maybe_from_proxy(mut self, proxy: impl fmt::Display) -> Self {
        self.proxy = Some(proxy.to_string().into());
        self
    }

    /// The proxy that may have sent this response instead of the server, named for a person.
    #[must_use]
    pub fn proxy(&self) -> Option<&str> {
        self.proxy.as_deref()
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The response headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Frees the headers. They are slices of the first read buffer, which they would keep in memory as long as the body
    /// is read.
    pub fn drop_headers(&mut self) {
        self.headers = HeaderMap::new();
    }

    /// The content coding of the body, if it cannot be decoded; for a person.
    #[must_use]
    pub fn unknown_coding(&self) -> Option<&str> {
        self.body.unknown_coding()
    }

    /// The length of the body in bytes, if it is known.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.body.length()
    }

    /// The next part of the decoded body, or `None` at its end. Cancel-safe.
    ///
    /// # Errors
    /// If the connection failed or the body cannot be decoded.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ReadError> {
        self.body.chunk().await
    }
}

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The connection has failed.
    #[error("{}", cause(.0))]
    Connection(hyper::Error),
    /// The data cannot be decoded.
    #[error("its gzip data is damaged: {0}")]
    Damaged(io::Error),
    /// mcpd does not decode this content coding.
    #[error("its content coding `{0}` is not supported")]
    UnknownCoding(Box<str>),
}

/// The body may contain a secret.
impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

/// The root cause of an error.
pub(super) fn cause(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(deeper) = deepest.source() {
        deepest = deeper;
    }
    let kind = deepest.downcast_ref::<io::Error>().map(io::Error::kind);
    // rustls's text for this is a link to its documentation.
    if kind == Some(ErrorKind::UnexpectedEof) {
        "the connection ended too early".to_owned()
    } else {
        deepest.to_string()
    }
}

/// Longest name of a coding in a message, in characters.
const MAX_QUOTE_LEN: usize = 60;

/// A body that is decoded as it arrives.
pub(super) struct Body {
    incoming: Incoming,
    coding: Coding,
}

enum Coding {
    Identity,
    Gzip(Box<Gzip>),
    Unknown(Box<str>),
}

/// Decodes gzip in parts of at most 32 KiB, the buffer of the decoder, so that the limits of the caller hold for the decoded size.
#[derive(Default)]
struct Gzip {
    /// `None` before the first byte: an empty body is no gzip data.
    decoder: Option<MultiGzDecoder<Vec<u8>>>,
    /// What is not decoded yet.
    rest: Bytes,
}

impl Body {
    pub(super) fn new(incoming: Incoming, headers: &HeaderMap) -> Self {
        Self { incoming, coding: Coding::of(headers) }
    }

    /// The coding, if it cannot be decoded.
    pub(super) fn unknown_coding(&self) -> Option<&str> {
        if let Coding::Unknown(name) = &self.coding { Some(name) } else { None }
    }

    /// The length, if it is known before the body is read.
    pub(super) fn length(&self) -> Option<u64> {
        if matches!(self.coding, Coding::Identity) { self.incoming.size_hint().exact() } else { None }
    }

    /// The next part, or `None` at the end. Cancel-safe.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, ReadError> {
        loop {
            if let Coding::Gzip(gzip) = &self.coding
                && !gzip.rest.is_empty()
            {
                // A few bytes can decode to the whole message cap, and other tasks share this thread.
                yield_now().await;
            }
            if let Coding::Gzip(gzip) = &mut self.coding
                && let Some(part) = gzip.next().map_err(ReadError::Damaged)?
            {
                return Ok(Some(part));
            }
            let frame = match self.incoming.frame().await {
                Some(frame) => frame.map_err(ReadError::Connection)?,
                None => {
                    return if let Coding::Gzip(gzip) = &mut self.coding {
                        gzip.end().map_err(ReadError::Damaged)
                    } else {
                        Ok(None)
                    };
                }
            };
            // Other frames are trailers.
            let Ok(data) = frame.into_data() else { continue };
            match &mut self.coding {
                Coding::Identity => return Ok(Some(data)),
                Coding::Gzip(gzip) => gzip.rest = data,
                Coding::Unknown(name) => return Err(ReadError::UnknownCoding(name.clone())),
            }
        }
    }
}

impl Coding {
    fn of(headers: &HeaderMap) -> Self {
        let codings = headers.get_all(CONTENT_ENCODING).iter();
        let names = codings.map(|coding| String::from_utf8_lossy(coding.as_bytes()).trim().to_ascii_lowercase());
        match names.filter(|name| !matches!(&**name, "" | "identity")).collect::<Vec<_>>().join(", ").as_str() {
            "" => Self::Identity,
            // Both names mean the same. Source: RFC 9110, 8.4.1.3.
            "gzip" | "x-gzip" => Self::Gzip(Box::default()),
            other => Self::Unknown(excerpt(other, MAX_QUOTE_LEN).into()),
        }
    }
}

impl Gzip {
    /// The next decoded part of what has arrived.
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.rest.is_empty() {
            let decoder = self.decoder.get_or_insert_with(|| MultiGzDecoder::new(Vec::new()));
            let decoded = decoder.write(&self.rest)?;
            self.rest.advance(decoded);
            if self.rest.is_empty() {
                // An event must not wait for the next one.
                decoder.flush()?;
            }
            if let Some(part) = taken(decoder) {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    /// The last part.
    fn end(&mut self) -> io::Result<Option<Bytes>> {
        let Some(mut decoder) = self.decoder.take() else { return Ok(None) };
        decoder.try_finish()?;
        Ok(taken(&mut decoder))
    }
}

fn taken(decoder: &mut MultiGzDecoder<Vec<u8>>) -> Option<Bytes> {
    let part = std::mem::take(decoder.get_mut());
    if part.is_empty() { None } else { Some(part.into()) }
}
