//! The response to a request, read as it arrives.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use hyper::body::Incoming;

use super::decoder::Body;

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
    /// If the connection failed or the body cannot be decoded; for a person.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        self.body.chunk().await
    }
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
