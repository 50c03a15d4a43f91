//! Requests by connections that are kept for the next one, over HTTP/1.1 or HTTP/2 as the two ends agree.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use url::Url;

use super::answer::{Answer, cause};
use super::connector::Connector;
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

/// What its connections are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// One request after another.
    Requests,
    /// One answer, which may last.
    OneAnswer,
}

/// Sends requests, each once. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    client: Client<Connector, Full<Bytes>>,
    proxies: Arc<Proxies>,
}

/// Why a request has no answer; for a person, on one line, without the URL: its path may be a secret.
#[derive(Debug)]
pub enum Failure {
    /// Nothing of it has reached anybody.
    NotSent(String),
    /// Something of it may have.
    Cut(String),
}

impl Sender {
    pub(super) fn new(connector: Connector, proxies: Arc<Proxies>, purpose: Purpose) -> Self {
        let (every, patience) = PROBE;
        let most_idle = if purpose == Purpose::Requests { MOST_IDLE } else { 0 };
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(most_idle)
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
        let place = Uri::try_from(url.as_str()).map_err(|error| Failure::NotSent(error.to_string()))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        // What is configured has precedence.
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        if let Some(authorization) = self.proxies.authorization(&place) {
            request.headers_mut().entry(PROXY_AUTHORIZATION).or_insert(authorization);
        }
        *request.uri_mut() = place;
        self.client.request(request).await.map(Answer::new).map_err(|error| Failure::of(&error))
    }
}

impl Failure {
    fn of(error: &Error) -> Self {
        let reason = cause(error);
        if error.is_connect() { Self::NotSent(reason) } else { Self::Cut(reason) }
    }
}
