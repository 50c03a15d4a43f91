//! Requests by connections that are kept for the next one, over HTTP/1.1 or HTTP/2 as the two ends agree.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use url::Url;

use super::answer::{Answer, cause};
use super::connector::Connector;
use super::error::{NetError, NetErrorKind};
use super::proxies::Proxies;

/// How long a connection is kept that nobody uses: less than the 5 s after which the servers of Node and uvicorn close one, perhaps
/// while a request is on its way.
const IDLE: Duration = Duration::from_secs(4);
/// Connections to one host that are kept for later; more are closed when their request is done. As many as a server may have calls
/// in flight: a burst whose connections are closed has the next one open them all again.
const MOST_IDLE: usize = 256;
/// How often a connection over HTTP/2 with unfinished requests is probed, and for how long it may not answer.
const PROBE: (Duration, Duration) = (Duration::from_secs(45), Duration::from_secs(20));
/// What mcpd calls itself.
pub(super) const AGENT: HeaderValue = HeaderValue::from_static(concat!("mcpd/", env!("CARGO_PKG_VERSION")));

/// Sends requests, each once. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    client: Client<Connector, Full<Bytes>>,
    proxies: Arc<Proxies>,
}

/// Why a request has no answer; for a person, on one line, without the URL: its path may be a secret.
#[derive(Debug)]
pub enum Failure {
    /// Nothing of it has reached the server.
    NotSent(NetError),
    /// It has reached the server, which says that it was not processed.
    Unprocessed(String),
    /// It may have been processed.
    Cut(String),
}

impl Sender {
    pub(super) fn new(connector: Connector, proxies: Arc<Proxies>) -> Self {
        let (every, patience) = PROBE;
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MOST_IDLE)
            // Those that were given back by a connection that had not begun with them: of these no byte was written.
            .retry_canceled_requests(true)
            .http2_keep_alive_interval(every)
            .http2_keep_alive_timeout(patience)
            .build(connector);
        Self { client, proxies }
    }

    /// Sends one request. A body of no bytes is none.
    ///
    /// # Errors
    /// Whether it may have reached somebody, and why there is no answer. Whatever is answered is no error.
    pub async fn send(&self, method: Method, url: &Url, headers: HeaderMap, body: Bytes) -> Result<Answer, Failure> {
        let place = Uri::try_from(url.as_str()).map_err(|error| Failure::NotSent(error.to_string().into()))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        // What is configured has precedence.
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        let proxy = self.proxies.of(&place).filter(|proxy| proxy.is_sent(&place));
        if let Some(authorization) = proxy.as_ref().and_then(|proxy| proxy.authorization()) {
            request.headers_mut().entry(PROXY_AUTHORIZATION).or_insert(authorization.clone());
        }
        *request.uri_mut() = place;
        let answer = self.client.request(request).await.map(Answer::new).map_err(|error| Failure::of(&error))?;
        match (proxy, answer.status()) {
            (Some(proxy), status @ StatusCode::PROXY_AUTHENTICATION_REQUIRED) => {
                let text = format!("{proxy} answers with HTTP {status}");
                Err(Failure::NotSent(NetError::new(NetErrorKind::Proxy, text)))
            }
            (Some(proxy), StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT) => {
                Ok(answer.through(proxy))
            }
            _ => Ok(answer),
        }
    }
}

impl Failure {
    fn of(error: &Error) -> Self {
        if error.is_connect() {
            Self::NotSent(NetError::of(error))
        } else if is_unprocessed(error) {
            Self::Unprocessed(cause(error))
        } else {
            Self::Cut(cause(error))
        }
    }
}

/// Whether the other end says over HTTP/2 that it has not processed the request: it refuses the stream (RFC 9113, 8.7), or sends
/// a GOAWAY whose last stream is an earlier one (6.8). A GOAWAY is not the error of streams that the server still processes.
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

    /// How the request on stream 1 fails at a server that sends this frame, and then closes.
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
    async fn a_request_counts_as_unprocessed_only_if_http_2_says_so_of_its_stream() {
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
