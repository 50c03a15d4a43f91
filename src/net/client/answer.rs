//! What is answered to a request, read as it comes.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};

/// An answer whose body has not been read yet. Its connection is closed if that is dropped before its end.
pub struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    proxy: Option<Box<str>>,
}

impl Answer {
    pub(super) fn new(response: Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        Self { status: head.status, headers: head.headers, body, proxy: None }
    }

    /// The proxy that may have said this for the server, named for a person.
    pub(super) fn through(mut self, proxy: impl fmt::Display) -> Self {
        self.proxy = Some(proxy.to_string().into());
        self
    }

    /// The proxy that may have said this for the server, named for a person.
    #[must_use]
    pub fn proxy(&self) -> Option<&str> {
        self.proxy.as_deref()
    }

    /// How it went.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What is said about it.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Frees what its headers take: they are slices of the buffer that the body is read into, which would be kept for them beside
    /// another one.
    pub fn forget_headers(&mut self) {
        self.headers = HeaderMap::new();
    }

    /// How long its body is, in bytes, if that is known before.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next part of its body; `None` behind the last. May be cancelled without loss.
    ///
    /// # Errors
    /// Why it broke off, for a person.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        while let Some(frame) = self.body.frame().await {
            // What else there may be are trailers.
            if let Ok(data) = frame.map_err(|error| cause(&error))?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

/// What it holds may be a secret.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// What went wrong at the bottom of it.
pub(super) fn cause(error: &(dyn Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(deeper) = deepest.source() {
        deepest = deeper;
    }
    let kind = deepest.downcast_ref::<io::Error>().map(io::Error::kind);
    // What rustls says of it is a page on the web.
    if kind == Some(ErrorKind::UnexpectedEof) { "it ended too early".to_owned() } else { deepest.to_string() }
}
