//! HTTP requests of a login, limited in time and size.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::challenge::Challenge;
use super::record::Grant;
use super::request::Form;
use crate::net::body::{BodyError, LargeBodySlots, read_whole};
use crate::net::client::{self, Client, ReadError, SendError, Sender, SuppliedUrlError};
pub(super) use crate::net::origin::shown_origin;
use crate::net::origin::{self, Redirects, RefusedRedirect};

/// Time limit for one request and its response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Largest response, in bytes.
const MAX_BODY: usize = 1 << 20;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
/// `Accept` of Streamable HTTP. Source: MCP 2025-11-25, `basic/transports`.
const MESSAGES: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// A request without effect, which opens no session.
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// Sends the requests of a login. Cheap to clone.
#[derive(Clone)]
pub(super) struct OAuthHttp {
    client: Client,
    configured: Url,
    /// The server's configured headers, which no other host receives.
    headers: HeaderMap,
}

/// A response with its body.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

/// Why a request has no usable response. `origin` is the printable origin of the URL.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoResponse {
    #[error(transparent)]
    Forbidden(#[from] SuppliedUrlError),
    #[error("{origin} does not answer: {source}")]
    Failed { origin: String, source: SendError },
    #[error("{origin} does not answer: {source}")]
    Interrupted { origin: String, source: ReadError },
    #[error("{origin} does not answer: it took too long")]
    TooLate { origin: String },
    #[error("{origin} sends more than {MAX_BODY} bytes")]
    TooLarge { origin: String },
    #[error("{origin} {source}")]
    Redirected { origin: String, source: RefusedRedirect },
    #[error("{origin} answers with status {status}")]
    Unavailable { origin: String, status: u16 },
    /// The status of the server shows neither that it needs a login nor that it needs none.
    #[error("the server answers with status {0}")]
    UnclearStatus(u16),
}

impl NoResponse {
    /// Whether the server may have processed the request.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Failed { source, .. } => matches!(source, SendError::Interrupted(_)),
            Self::Interrupted { .. } | Self::TooLate { .. } => true,
            _ => false,
        }
    }
}

/// A request without its URL.
struct Request {
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

/// A response whose body must be read by a deadline.
struct PendingResponse {
    response: client::Response,
    deadline: Instant,
}

impl OAuthHttp {
    pub(super) fn new(client: Client, configured: Url, headers: &BTreeMap<String, String>) -> Self {
        // Invalid headers are reported where the server is used.
        Self { client, configured, headers: client::configured_headers(headers).unwrap_or_default() }
    }

    /// The server's configured URL.
    pub(super) fn configured(&self) -> &Url {
        &self.configured
    }

    /// The server's challenge, or `None` if it needs no login.
    ///
    /// # Errors
    /// If it does not respond, or its status shows neither.
    pub(super) async fn probe(&self) -> Result<Option<Challenge>, NoResponse> {
        let request = || Request::get(MESSAGES).with(self.headers.clone());
        let response = self.follow(self.configured.clone(), &request().posting(JSON, PING)).await?.1.response;
        // An HTTP+SSE server accepts messages at another URL.
        let is_elsewhere = matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
        let response =
            if is_elsewhere { self.follow(self.configured.clone(), &request()).await?.1.response } else { response };
        let (status, challenge) = (response.status(), Challenge::of(response.headers()));
        match status {
            StatusCode::UNAUTHORIZED => Ok(Some(challenge)),
            StatusCode::FORBIDDEN if challenge != Challenge::default() => Ok(Some(challenge)),
            // The request is pointless, but its sender was accepted.
            status if status.is_success() || status == StatusCode::BAD_REQUEST => Ok(None),
            status => Err(NoResponse::UnclearStatus(status.as_u16())),
        }
    }

    /// A JSON document of this shape, if there is one.
    ///
    /// # Errors
    /// If the request fails, the URL is not allowed, or the server has a temporary error.
    pub(super) async fn get_document<T: DeserializeOwned>(&self, url: &Url) -> Result<Option<T>, NoResponse> {
        let headers = if origin::same(url, &self.configured) { self.headers.clone() } else { HeaderMap::new() };
        let (url, pending) = self.follow(url.clone(), &Request::get(JSON).with(headers)).await?;
        match pending.response.status() {
            status if status.is_server_error() => {
                Err(NoResponse::Unavailable { origin: shown_origin(&url), status: status.as_u16() })
            }
            // Some hosts have a page for every path.
            status if status.is_success() => Ok(serde_json::from_slice(&pending.body(&url).await?).ok()),
            _ => Ok(None),
        }
    }

    /// The response after redirects within the origin, which all receive the same request.
    async fn follow(&self, mut url: Url, request: &Request) -> Result<(Url, PendingResponse), NoResponse> {
        let mut redirects = Redirects::default();
        loop {
            let pending = self.send(&url, request).await?;
            let response = &pending.response;
            let next = redirects.follow(&request.method, &url, response.status(), response.headers());
            match next.map_err(|source| NoResponse::Redirected { origin: shown_origin(&url), source })? {
                Some(next) => url = next,
                None => return Ok((url, pending)),
            }
        }
    }

    /// Posts a form to an authorization server.
    ///
    /// # Errors
    /// If the request fails, or the URL is not allowed.
    pub(super) async fn post_form(&self, url: &Url, form: Form) -> Result<Response, NoResponse> {
        let headers = HeaderMap::from_iter(form.authorization.map(|value| (AUTHORIZATION, value)));
        self.send_whole(url, Request::get(JSON).with(headers).posting(FORM, form.body)).await
    }

    /// Posts a JSON document to an authorization server.
    ///
    /// # Errors
    /// See [`OAuthHttp::post_form`].
    pub(super) async fn post_json(&self, url: &Url, text: String) -> Result<Response, NoResponse> {
        self.send_whole(url, Request::get(JSON).posting(JSON, text)).await
    }

    async fn send_whole(&self, url: &Url, request: Request) -> Result<Response, NoResponse> {
        let pending = self.send(url, &request).await?;
        Ok(Response { status: pending.response.status().as_u16(), body: pending.body(url).await? })
    }

    async fn send(&self, url: &Url, request: &Request) -> Result<PendingResponse, NoResponse> {
        let (sender, deadline) = (self.sender_for(url).await?, Instant::now() + TIMEOUT);
        let Request { method, headers, body } = request;
        let sending = sender.send(method.clone(), url, headers.clone(), body.clone());
        match timeout_at(deadline, sending).await {
            Ok(Ok(response)) => Ok(PendingResponse { response, deadline }),
            Ok(Err(source)) => Err(NoResponse::Failed { origin: shown_origin(url), source }),
            Err(_) => Err(NoResponse::TooLate { origin: shown_origin(url) }),
        }
    }

    async fn sender_for(&self, url: &Url) -> Result<&Sender, SuppliedUrlError> {
        if !origin::same(url, &self.configured) {
            self.client.check_supplied(url).await?;
        }
        Ok(self.client.login())
    }

    /// Checks a consent page that the authorization server names.
    ///
    /// # Errors
    /// If its address is private while the server's is public.
    pub(super) async fn check_page(&self, page: &Url) -> Result<(), SuppliedUrlError> {
        self.client.check_page(page).await
    }

    /// Whether the server has a public address.
    pub(super) fn was_public(&self) -> bool {
        self.client.was_public()
    }

    /// If the server was public when `grant` was obtained, all further requests go to public addresses only.
    pub(super) fn restrict_to(&self, grant: &Grant) {
        if grant.is_public {
            self.client.set_public();
        }
    }
}

impl Request {
    fn get(accepted: HeaderValue) -> Self {
        Self { method: Method::GET, headers: HeaderMap::from_iter([(ACCEPT, accepted)]), body: Bytes::new() }
    }

    fn posting(mut self, content: HeaderValue, body: impl Into<Bytes>) -> Self {
        self.headers.insert(CONTENT_TYPE, content);
        Self { method: Method::POST, body: body.into(), ..self }
    }

    fn with(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }
}

impl PendingResponse {
    async fn body(mut self, url: &Url) -> Result<Bytes, NoResponse> {
        // Other requests need no limit at this time.
        let alone = LargeBodySlots::new(1);
        match timeout_at(self.deadline, read_whole(&mut self.response, MAX_BODY, &alone)).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(BodyError::TooLarge)) => Err(NoResponse::TooLarge { origin: shown_origin(url) }),
            Ok(Err(BodyError::Interrupted(source))) => {
                Err(NoResponse::Interrupted { origin: shown_origin(url), source })
            }
            Err(_) => Err(NoResponse::TooLate { origin: shown_origin(url) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Remote;
    use crate::net::client::Clients;

    #[tokio::test]
    async fn public_server_cannot_name_private_urls() {
        let remote = Remote { url: "http://1.1.1.1/mcp".to_owned(), ..Remote::default() };
        let client = Clients::default().get(&remote).await.expect("a client");
        let http = OAuthHttp::new(client, Url::parse(&remote.url).expect("a URL"), &remote.headers);
        for place in ["http://127.0.0.1:1/", "http://[::1]:1/", "http://169.254.169.254/latest", "http://localhost:1/"]
        {
            let place = Url::parse(place).expect("a URL");
            let form = Form { body: String::new(), authorization: None };
            let refused = [
                http.get_document::<String>(&place).await.err(),
                http.post_form(&place, form).await.err(),
                http.post_json(&place, String::new()).await.err(),
            ];
            for refused in refused {
                let why = refused.expect("refused").to_string();
                assert!(why.contains("is not on the public internet"), "{place}: {why}");
            }
        }
    }
}
