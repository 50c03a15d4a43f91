//! A server's URL with its headers, HTTP session and token, and how requests are sent to it.
//!
//! Cookies last as long as the connection, and are sent to the origin that has set them: a load balancer finds the machine of a session by
//! them.

use std::borrow::Cow;
use std::fmt;
#[expect(
    clippy::disallowed_types,
    reason = "a cell: each lock lasts for one response or request, without waiting"
)]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cookie_store::{Cookie, CookieStore};
use http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE,
    WWW_AUTHENTICATE,
};
use http::{Method, StatusCode};
use tokio::time::sleep;
use url::Url;

use super::body::Content;
use super::renewal::{ReadAgain, Rotation};
use crate::backoff::Backoff;
use crate::config::{Address, Remote, Secrets};
use crate::era::VERSION_HEADER;
use crate::net::client::{self, Client, NetError, NetErrorKind, Response, SendError};
use crate::net::origin::{Redirects, RefusedRedirect};
use crate::oauth::{Challenge, Login, NoToken, Token};

/// The HTTP session id (MCP 2025-03-26, `basic/transports`, "Session Management").
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The negotiated version, on every request after the handshake (MCP 2025-06-18, `basic/transports`).
const PROTOCOL: HeaderName = HeaderName::from_static(VERSION_HEADER);
/// The event id from which a stream resumes (MCP 2025-03-26, `basic/transports`, "Resumability and Redelivery").
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// The first pause while a program is not listening yet. Pauses double, up to the longest one.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// A server's URL, and what each request to it carries. Each change makes a new value.
#[derive(Clone)]
pub(super) struct Endpoint {
    client: Client,
    url: Url,
    /// Prepared headers for the two frequent methods.
    post: HeaderMap,
    get: HeaderMap,
    login: Option<Login>,
    token: Option<Token>,
    has_http_session: bool,
    cookies: Cookies,
    secrets: Secrets,
    rotation: Rotation,
}

/// What a response changes for later requests.
#[derive(Debug, Default)]
pub(super) struct EndpointUpdate {
    pub(super) token: Option<Token>,
    pub(super) url: Option<Url>,
    /// Configured headers that have changed.
    pub(super) headers: HeaderMap,
}

/// Why a request has no HTTP response that could answer its message.
#[derive(Debug)]
pub(super) enum EndpointError {
    /// The server has received nothing of it.
    NotSent(NetError),
    /// The server has received it, and states that it did not process it.
    Unprocessed(String),
    /// The server may have processed it.
    Interrupted(NetError),
    /// The server requires a login.
    LoginNeeded(String),
    /// The granted scopes do not cover this request.
    InsufficientScope(String),
}

/// The URL may contain a secret.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("has_http_session", &self.has_http_session).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The endpoint of a configured server.
    pub(super) fn new(
        remote: &Remote,
        client: Client,
        login: Option<Login>,
        read_again: ReadAgain,
    ) -> Result<Self, NetError> {
        let address = Address::parse(&remote.url).map_err(|complaint| format!("its `url` {complaint}"))?;
        let url = address.url().clone();
        let configured = client::configured_headers(&remote.latest_headers())?;
        let mut get = configured.clone();
        get.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        get.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let mut post = configured;
        post.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        post.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // A configured `Authorization` replaces a login.
        let login = login.filter(|_| !post.contains_key(AUTHORIZATION));
        let (cookies, secrets) = (Cookies::default(), remote.secrets.clone());
        let rotation = Rotation::new(&remote.rotating, read_again);
        Ok(Self { client, url, post, get, login, token: None, has_http_session: false, cookies, secrets, rotation })
    }

    pub(super) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    pub(super) fn has_http_session(&self) -> bool {
        self.has_http_session
    }

    /// A server's text without secrets, which some servers repeat.
    pub(super) fn masked(&self, text: &str) -> String {
        self.secrets.masked(text)
    }

    pub(super) fn set_url(&mut self, url: Url) {
        self.url = url;
    }

    /// Whether the next start reads secrets again.
    pub(super) fn has_renewed_secrets(&self) -> bool {
        !self.rotation.is_empty() || self.secrets.runs_programs()
    }

    /// Replaces configured headers.
    pub(super) fn set_headers(&mut self, headers: &HeaderMap) {
        headers.iter().for_each(|(name, value)| self.set(name, value));
    }

    pub(super) fn set_session(&mut self, session: &HeaderValue) {
        self.has_http_session = true;
        // Copied, since the value is a slice of an 8 KiB read buffer.
        self.set(&SESSION, &HeaderValue::from_bytes(session.as_bytes()).unwrap_or_else(|_| session.clone()));
    }

    pub(super) fn set_protocol(&mut self, protocol: &'static str) {
        self.set(&PROTOCOL, &HeaderValue::from_static(protocol));
    }

    pub(super) fn set_token(&mut self, token: Token) {
        self.set(&AUTHORIZATION, token.bearer());
        self.token = Some(token);
    }

    fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.post.insert(name, value.clone());
        self.get.insert(name, value.clone());
    }

    /// Waits until something listens at the URL.
    ///
    /// # Errors
    /// If another process listens there, or the address cannot be used.
    pub(super) async fn wait_listening(&self) -> Result<(), NetError> {
        let mut backoff = Backoff::new(FIRST_LOOK, MAX_PAUSE);
        loop {
            match self.client.try_connection(&self.url).await {
                Err(error) if error.is_refused_connection() => sleep(backoff.next(fastrand::f64())).await,
                tried => return tried.map_err(|error| error.prefixed("cannot be reached: ")),
            }
        }
    }

    /// Sends a message with additional headers.
    pub(super) async fn post(
        &self,
        line: &Bytes,
        extra: HeaderMap,
    ) -> Result<(Response, EndpointUpdate), EndpointError> {
        let mut headers = Cow::Borrowed(&self.post);
        if !extra.is_empty() {
            headers.to_mut().extend(extra);
        }
        let (response, mut update) = self.send(&Method::POST, Some(line), headers).await?;
        // A redirect to a page, such as "closed for maintenance", does not change the endpoint.
        update.url.take_if(|_| !speaks_mcp(&response));
        Ok((response, update))
    }

    /// Requests a stream, resumed after `last` if set. Its redirect does not change where messages go: some servers
    /// redirect GET to a page for people.
    pub(super) async fn listen(&self, last: Option<&HeaderValue>) -> Result<(Response, EndpointUpdate), EndpointError> {
        let mut headers = Cow::Borrowed(&self.get);
        if let Some(last) = last {
            headers.to_mut().insert(LAST_EVENT, last.clone());
        }
        let (response, update) = self.send(&Method::GET, None, headers).await?;
        Ok((response, EndpointUpdate { url: None, ..update }))
    }

    /// Requests the stream of an HTTP+SSE server. Returns the URL where it was found, the base of its endpoint.
    pub(super) async fn listen_somewhere(&self) -> Result<(Response, EndpointUpdate, Url), EndpointError> {
        let (response, mut update) = self.send(&Method::GET, None, Cow::Borrowed(&self.get)).await?;
        let url = update.url.take().unwrap_or_else(|| self.url.clone());
        Ok((response, update, url))
    }

    /// Ends the HTTP session.
    pub(super) async fn delete(&self) -> Result<(), EndpointError> {
        self.send(&Method::DELETE, None, Cow::Borrowed(&self.get)).await.map(drop)
    }

    /// Follows redirects, renews refused tokens and reads refused secrets again: in all cases the message was not processed
    /// and is sent again.
    async fn send(
        &self,
        method: &Method,
        body: Option<&Bytes>,
        mut headers: Cow<'_, HeaderMap>,
    ) -> Result<(Response, EndpointUpdate), EndpointError> {
        let (mut update, mut redirects, mut was_reread) = (EndpointUpdate::default(), Redirects::default(), false);
        loop {
            let url = update.url.as_ref().unwrap_or(&self.url);
            let body = body.cloned().unwrap_or_default();
            let mut sent = HeaderMap::clone(&headers);
            self.cookies.add_to(url, &mut sent);
            let sending = self.client.configured().send(method.clone(), url, sent, body);
            let response = sending.await.map_err(EndpointError::of)?;
            self.cookies.keep(url, response.headers());
            match response.status() {
                // Boxed: rare, and too large for every exchange.
                StatusCode::UNAUTHORIZED if self.login.is_some() && !self.may_have_forgotten_session(&response) => {
                    let token = Box::pin(self.admitted(&response, update.token.is_some())).await?;
                    headers.to_mut().insert(AUTHORIZATION, token.bearer().clone());
                    update.token = Some(token);
                }
                StatusCode::UNAUTHORIZED if !was_reread && !self.rotation.is_empty() => {
                    was_reread = true;
                    let Some(changed) = Box::pin(self.rotation.changed(&headers)).await else {
                        return Ok((response, update));
                    };
                    headers.to_mut().extend(changed.clone());
                    update.headers = changed;
                }
                StatusCode::FORBIDDEN => {
                    let Some(token) = Box::pin(self.allowed(&response, update.token.is_some())).await? else {
                        return Ok((response, update));
                    };
                    headers.to_mut().insert(AUTHORIZATION, token.bearer().clone());
                    update.token = Some(token);
                }
                status => {
                    let next = redirects.follow(method, url, status, response.headers());
                    let Some(next) = next.map_err(EndpointError::refused_redirect)? else {
                        return Ok((response, update));
                    };
                    update.url = Some(next);
                }
            }
        }
    }

    /// Whether this refusal requires no login: the server has opened the session without a token.
    fn may_have_forgotten_session(&self, response: &Response) -> bool {
        self.has_http_session && self.token.is_none() && !response.headers().contains_key(WWW_AUTHENTICATE)
    }

    /// A new token for a refused one.
    async fn admitted(&self, response: &Response, was_renewed: bool) -> Result<Token, EndpointError> {
        let Some(login) = &self.login else { return Err(EndpointError::LoginNeeded("requires a login".to_owned())) };
        login.challenged(Challenge::of(response.headers())).await;
        if was_renewed {
            return Err(EndpointError::LoginNeeded("refuses a new token".to_owned()));
        }
        login.token(self.token.as_ref()).await.map_err(|none| match none {
            NoToken::LoginNeeded { why } => EndpointError::LoginNeeded(why),
            NoToken::Unavailable { reason } => EndpointError::NotSent(reason.into()),
        })
    }

    /// A token with more scopes, if the refusal was about scopes and there is one by now; `None` if it was about
    /// something else.
    async fn allowed(&self, response: &Response, was_renewed: bool) -> Result<Option<Token>, EndpointError> {
        let Some(login) = &self.login else { return Ok(None) };
        let challenge = Challenge::of(response.headers());
        if challenge.error.as_deref() != Some("insufficient_scope") {
            return Ok(None);
        }
        let scope = challenge.scope.as_ref().map(|scope| format!(" (`{scope}`)")).unwrap_or_default();
        login.challenged(challenge).await;
        let current = self.token.as_ref().map(Token::bearer);
        if !was_renewed
            && let Ok(token) = login.token(None).await
            && current != Some(token.bearer())
        {
            return Ok(Some(token));
        }
        Err(EndpointError::InsufficientScope(format!("requires scopes that its login does not have{scope}")))
    }
}

/// Whether it is an MCP server's response to an accepted message.
fn speaks_mcp(response: &Response) -> bool {
    let is_message = || Content::of(response.headers()) != Content::Other;
    response.status() == StatusCode::ACCEPTED || response.status().is_success() && is_message()
}

impl EndpointError {
    fn refused_redirect(refused: RefusedRedirect) -> Self {
        Self::NotSent(NetError::new(NetErrorKind::Redirect, refused.to_string()))
    }

    fn of(failure: SendError) -> Self {
        match failure {
            SendError::NotSent(error) => Self::NotSent(error.prefixed("cannot be reached: ")),
            SendError::Unprocessed(reason) => Self::Unprocessed(reason),
            SendError::Interrupted(reason) => Self::Interrupted(reason),
        }
    }
}

/// Cookies that are kept; further ones are ignored. Source: RFC 6265, 6.1, for both limits.
const MAX_COOKIES: usize = 50;
/// Largest cookie with its attributes, in bytes.
const MAX_COOKIE: usize = 4096;

/// The cookies of one connection. Clones share them.
#[derive(Clone, Default)]
#[expect(clippy::disallowed_types, reason = "see the import")]
pub(super) struct Cookies(Arc<Mutex<CookieStore>>);

impl Cookies {
    /// Keeps the cookies of a response from `url`.
    pub(super) fn keep(&self, url: &Url, headers: &HeaderMap) {
        for cookie in headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok()) {
            if cookie.len() > MAX_COOKIE {
                continue;
            }
            let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if store.iter_any().count() >= MAX_COOKIES {
                let valid = store.iter_unexpired().cloned().map(Ok::<_, std::convert::Infallible>).collect::<Vec<_>>();
                *store = CookieStore::from_cookies(valid, false).unwrap_or_default();
            }
            // An invalid cookie, or one of another domain, is ignored, as browsers do.
            let Ok(cookie) = Cookie::parse(cookie, url).map(Cookie::into_owned) else { continue };
            let is_same = |known: &Cookie<'_>| {
                (known.name(), &known.path, &known.domain) == (cookie.name(), &cookie.path, &cookie.domain)
            };
            if store.iter_any().any(is_same) || store.iter_any().count() < MAX_COOKIES {
                let _ = store.insert(cookie, url);
            }
        }
    }

    /// Adds the cookies for `url` to those of the configuration.
    pub(super) fn add_to(&self, url: &Url, headers: &mut HeaderMap) {
        let store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own: Vec<_> = store.get_request_values(url).map(|(name, value)| format!("{name}={value}")).collect();
        if own.is_empty() {
            return;
        }
        let configured = headers.get(COOKIE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let all: Vec<_> = configured.into_iter().chain(own).collect();
        if let Ok(mut value) = HeaderValue::try_from(all.join("; ")) {
            value.set_sensitive(true);
            headers.insert(COOKIE, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(cookies: &Cookies, url: &str, configured: Option<&'static str>) -> String {
        let mut headers = HeaderMap::from_iter(configured.map(|value| (COOKIE, HeaderValue::from_static(value))));
        cookies.add_to(&Url::parse(url).expect("a URL"), &mut headers);
        assert!(headers.get_all(COOKIE).iter().count() <= 1);
        headers.get(COOKIE).map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default()
    }

    fn keep(cookies: &Cookies, url: &str, set: &str) {
        let headers = HeaderMap::from_iter([(SET_COOKIE, HeaderValue::try_from(set).expect("a header"))]);
        cookies.keep(&Url::parse(url).expect("a URL"), &headers);
    }

    #[test]
    fn cookies_are_sent_where_their_attributes_permit_it() {
        const URL: &str = "http://a.example.org/mcp";
        for (set, url, expected) in [
            ("a=1", URL, "a=1"),
            ("a=1; Path=/; HttpOnly; SameSite=Lax", URL, "a=1"),
            ("a=\"1 2\"; Path=/mcp", URL, "a=\"1 2\""),
            ("a=1; Path=/other", URL, ""),
            ("a=1; Domain=example.org", URL, "a=1"),
            ("a=1; Domain=other.org", URL, ""),
            ("a=1; Secure", URL, ""),
            ("a=1; Secure", "http://127.0.0.1/mcp", "a=1"),
            ("a=1; Secure", "https://a.example.org/mcp", "a=1"),
            ("a=1; Max-Age=0", URL, ""),
            ("a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT", URL, ""),
            ("a=", URL, "a="),
            ("nothing", URL, ""),
        ] {
            let cookies = Cookies::default();
            keep(&cookies, url, set);
            assert_eq!(sent(&cookies, url, None), expected, "{set} from {url}");
        }
    }

    #[test]
    fn cookies_are_replaced_removed_and_added_to_configured_ones() {
        const URL: &str = "https://example.org/mcp";
        let cookies = Cookies::default();
        assert_eq!(sent(&cookies, URL, Some("c=0")), "c=0");
        keep(&cookies, URL, "a=1");
        keep(&cookies, URL, "a=2");
        assert_eq!(sent(&cookies, URL, Some("c=0")), "c=0; a=2");
        keep(&cookies, URL, "a=3; Max-Age=0");
        assert_eq!(sent(&cookies, URL, None), "");
    }

    #[test]
    fn number_and_size_of_cookies_are_limited() {
        const URL: &str = "https://example.org/mcp";
        let cookies = Cookies::default();
        keep(&cookies, URL, &format!("large={}", "x".repeat(MAX_COOKIE)));
        // Those that have expired make room for others.
        (0..MAX_COOKIES).for_each(|n| keep(&cookies, URL, &format!("old{n}=1")));
        (0..MAX_COOKIES).for_each(|n| keep(&cookies, URL, &format!("old{n}=1; Max-Age=0")));
        (0..2 * MAX_COOKIES).for_each(|n| keep(&cookies, URL, &format!("new{n}=1")));
        let sent = sent(&cookies, URL, None);
        assert!(
            sent.split("; ").count() == MAX_COOKIES && sent.contains("new0=1") && !sent.contains("large"),
            "{sent}"
        );
    }
}
