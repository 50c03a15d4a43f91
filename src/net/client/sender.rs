//! Sends requests over pooled connections, by HTTP/1.1 or HTTP/2 as negotiated.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use url::Url;

use super::connector::Connector;
use super::error::{NetError, NetErrorKind};
use super::proxies::Proxies;
use super::response::{Response, cause};

/// Idle connections are closed after this time. It is shorter than the 5 s after which servers on Node and uvicorn
/// close one, perhaps while a request is on its way.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Idle connections that are kept per host. It equals the calls that one server may have in flight, so a second burst
/// of calls reuses the connections of the first.
const MAX_IDLE: usize = 256;
/// Interval of HTTP/2 pings while requests are unfinished, and the time limit for a reply.
const PROBE: (Duration, Duration) = (Duration::from_secs(45), Duration::from_secs(20));
/// The `User-Agent`.
pub(super) const USER_AGENT_VALUE: HeaderValue = HeaderValue::from_static(concat!("mcpd/", env!("CARGO_PKG_VERSION")));
/// Without it, a server may choose any coding. Source: RFC 9110, 12.5.3.
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// Sends requests, each once. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    client: Client<Connector, Full<Bytes>>,
    proxies: Arc<Proxies>,
}

/// Why a request has no response. Texts are for a person, on one line, without the URL: its path may be a secret.
#[derive(Debug)]
pub enum SendError {
    /// The server has received nothing of it.
    NotSent(NetError),
    /// The server has received it, and says that it did not process it.
    Unprocessed(String),
    /// The server may have processed it.
    Interrupted(NetError),
}

impl Sender {
    pub(super) fn new(connector: Connector, proxies: Arc<Proxies>) -> Self {
        let (interval, timeout) = PROBE;
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE)
            // Only requests that a closed connection had not begun to write.
            .retry_canceled_requests(true)
            .http2_keep_alive_interval(interval)
            .http2_keep_alive_timeout(timeout)
            .build(connector);
        Self { client, proxies }
    }

    /// Sends one request. An empty body is sent as none.
    ///
    /// # Errors
    /// Whether the server may have received it, and why there is no response. An error status is no error here.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response, SendError> {
        let uri = Uri::try_from(url.as_str()).map_err(|error| SendError::NotSent(error.to_string().into()))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        // Configured headers have precedence.
        request.headers_mut().entry(USER_AGENT).or_insert(USER_AGENT_VALUE);
        request.headers_mut().entry(ACCEPT_ENCODING).or_insert(IDENTITY);
        let proxy = self.proxies.of(&uri).filter(|proxy| proxy.is_sent(&uri));
        if let Some(authorization) = proxy.as_ref().and_then(|proxy| proxy.authorization()) {
            request.headers_mut().entry(PROXY_AUTHORIZATION).or_insert(authorization.clone());
        }
        let is_plain = url.scheme() == "http" && proxy.is_none();
        *request.uri_mut() = uri;
        let response = self.client.request(request).await.map_err(|error| SendError::of(&error, is_plain))?;
        let response = Response::new(response);
        match (proxy, response.status()) {
            (Some(proxy), status @ StatusCode::PROXY_AUTHENTICATION_REQUIRED) => {
                let text = format!("{proxy} answers with HTTP {status}");
                Err(SendError::NotSent(NetError::new(NetErrorKind::Proxy, text)))
            }
            (Some(proxy), StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => {
                Ok(response.maybe_from_proxy(proxy))
            }
            _ => Ok(response),
        }
    }
}

impl SendError {
    /// `is_plain`: the request went to the server without TLS.
    fn of(error: &Error, is_plain: bool) -> Self {
        if error.is_connect() {
            Self::NotSent(NetError::of(error))
        } else if is_unprocessed(error) {
            Self::Unprocessed(cause(error))
        } else {
            let kind = if is_plain && has_no_response(error) { NetErrorKind::NotPlain } else { NetErrorKind::Other };
            Self::Interrupted(NetError::new(kind, cause(error)))
        }
    }
}

/// Whether the server closed the connection, or sent something else than HTTP, as servers do that expect TLS.
fn has_no_response(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_parse())
        {
            return true;
        }
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionReset) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Whether the server states over HTTP/2 that it has not processed the request: it refuses the stream (RFC 9113, 8.7),
/// or sends a GOAWAY whose last stream is an earlier one (6.8). Streams that the server still processes get no error
/// from a GOAWAY.
fn is_unprocessed(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (is_refused || error.is_go_away());
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// An empty SETTINGS frame.
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

    /// The error of a request on stream 1 at a server that sends this frame and then closes.
    async fn failure(frame: &[u8]) -> h2::Error {
        let (ours, mut theirs) = duplex(4096);
        let (mut client, connection) = h2::client::handshake(ours).await.expect("nothing is awaited");
        let connection = tokio::spawn(connection);
        let request = Request::get("https://localhost/").body(()).expect("a request");
        let (response, _) = client.send_request(request, true).expect("the first stream");
        theirs.write_all(&SETTINGS).await.expect("written");
        let mut read = [0; 4096];
        let mut seen = 0;
        // The preface has 24 bytes and is followed by SETTINGS; HEADERS are of type 1.
        while !has_headers(&read[..seen]) {
            seen += theirs.read(&mut read[seen..]).await.expect("more");
        }
        theirs.write_all(frame).await.expect("written");
        drop(theirs);
        let failure = response.await.expect_err("no response");
        let _ = connection.await;
        failure
    }

    fn has_headers(bytes: &[u8]) -> bool {
        let mut frames = bytes.get(24..).unwrap_or_default();
        while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if *kind == 1 {
                return rest.len() >= length;
            }
            frames = rest.get(length..).unwrap_or_default();
        }
        false
    }

    #[tokio::test]
    async fn request_is_unprocessed_only_if_http_2_states_it_for_its_stream() {
        let reset = |code: u8| [&[0, 0, 4, 3, 0, 0, 0, 0, 1][..], &[0, 0, 0, code]].concat();
        let goes_away =
            |last: u8, code: u8| [&[0, 0, 8, 7, 0, 0, 0, 0, 0][..], &[0, 0, 0, last, 0, 0, 0, code]].concat();
        for (what, frame, expected) in [
            ("REFUSED_STREAM", reset(7), true),
            ("CANCEL", reset(8), false),
            ("INTERNAL_ERROR", reset(2), false),
            ("GOAWAY before the stream", goes_away(0, 0), true),
            ("GOAWAY with an error before the stream", goes_away(0, 11), true),
            ("GOAWAY behind the stream", goes_away(1, 0), false),
            ("GOAWAY with an error behind the stream", goes_away(1, 11), false),
            ("nothing", Vec::new(), false),
        ] {
            let failure = failure(&frame).await;
            assert_eq!(is_unprocessed(&failure), expected, "{what}: {failure:?}");
        }
    }
}
