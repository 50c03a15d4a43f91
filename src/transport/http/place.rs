//! Where a server is, what every request to it carries, and how one is sent.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use url::Url;

use super::body::Content;
use crate::config::{Remote, Secrets};
use crate::net::client::{Answer, Client, Failure, NetError};
use crate::net::{headers, origin};
use crate::oauth::{Challenge, Login, NoToken, Token};

/// The session that a server has begun (MCP 2025-03-26, `basic/transports`, "Session Management").
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The negotiated version, in every request behind the handshake (MCP 2025-06-18, `basic/transports`).
const PROTOCOL: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Where a stream is to go on (MCP 2025-03-26, `basic/transports`, "Resumability and Redelivery").
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// Redirects that one request may meet.
const MAX_HOPS: usize = 5;

/// Where a server is, and what each request carries. What changes of it makes another one.
#[derive(Clone)]
pub(super) struct Place {
    client: Client,
    url: Url,
    /// Ready for each of the two methods that are sent often.
    post: HeaderMap,
    get: HeaderMap,
    login: Option<Login>,
    token: Option<Token>,
    has_session: bool,
    secrets: Secrets,
}

/// What was learnt on the way to an answer, for later requests.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    pub(super) token: Option<Token>,
    pub(super) url: Option<Url>,
}

/// Why a request has got no HTTP answer that could be one to its message.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Nothing of it has reached the server.
    NotSent(NetError),
    /// It has reached the server, which says that it was not processed.
    Unprocessed(String),
    /// It may have been processed.
    Cut(String),
    /// A person has to let mcpd in first.
    LoginNeeded(String),
    /// What mcpd was allowed is not enough for this one.
    NotAllowed(String),
}

/// Its URL may hold a secret.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("has_session", &self.has_session).finish_non_exhaustive()
    }
}

impl Place {
    /// The one that a configuration names.
    pub(super) fn new(remote: &Remote, client: Client, login: Option<Login>) -> Result<Self, NetError> {
        let url = Url::parse(&remote.url).map_err(|error| format!("its URL cannot be read: {error}"))?;
        let own = headers::configured(&remote.headers)?;
        let mut get = own.clone();
        get.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        get.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let mut post = own;
        post.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        post.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // What is configured is all there is to show.
        let login = login.filter(|_| !post.contains_key(AUTHORIZATION));
        Ok(Self { client, url, post, get, login, token: None, has_session: false, secrets: remote.secrets.clone() })
    }

    pub(super) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    pub(super) fn has_session(&self) -> bool {
        self.has_session
    }

    /// Words of the server as they may be shown: some repeat what they were sent.
    pub(super) fn masked(&self, text: &str) -> String {
        self.secrets.masked(text)
    }

    pub(super) fn set_url(&mut self, url: Url) {
        self.url = url;
    }

    pub(super) fn set_session(&mut self, session: &HeaderValue) {
        self.has_session = true;
        // A copy: what was read is a slice of 8 KiB, which would be kept for it as long as the session.
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

    /// Sends a message, with these headers beside those that all have.
    pub(super) async fn post(&self, line: &Bytes, head: HeaderMap) -> Result<(Answer, Learnt), Unanswered> {
        let mut headers = Cow::Borrowed(&self.post);
        if !head.is_empty() {
            headers.to_mut().extend(head);
        }
        let (response, mut learnt) = self.send(&Method::POST, Some(line), headers).await?;
        // What has only a page to show, such as that it is closed today, is not where the server has gone.
        learnt.url.take_if(|_| !speaks_mcp(&response));
        Ok((response, learnt))
    }

    /// Asks for a stream, from where another one broke off, if that is known. Where that leads says nothing of where messages go:
    /// some send whoever asks so to a page about the server.
    pub(super) async fn listen(&self, last: Option<&HeaderValue>) -> Result<(Answer, Learnt), Unanswered> {
        let mut headers = Cow::Borrowed(&self.get);
        if let Some(last) = last {
            headers.to_mut().insert(LAST_EVENT, last.clone());
        }
        let (response, learnt) = self.send(&Method::GET, None, headers).await?;
        Ok((response, Learnt { url: None, ..learnt }))
    }

    /// The same for a stream that is to say where messages go, with the URL where it is, which that is relative to.
    pub(super) async fn listen_somewhere(&self) -> Result<(Answer, Learnt, Url), Unanswered> {
        let (response, mut learnt) = self.send(&Method::GET, None, Cow::Borrowed(&self.get)).await?;
        let url = learnt.url.take().unwrap_or_else(|| self.url.clone());
        Ok((response, learnt, url))
    }

    /// Tells the server that the session has ended.
    pub(super) async fn delete(&self) -> Result<(), Unanswered> {
        self.send(&Method::DELETE, None, Cow::Borrowed(&self.get)).await.map(drop)
    }

    /// A redirect and a token that was refused are no answer: what was sent has been looked at by nobody, and is sent again.
    async fn send(
        &self,
        method: &Method,
        body: Option<&Bytes>,
        mut headers: Cow<'_, HeaderMap>,
    ) -> Result<(Answer, Learnt), Unanswered> {
        let (mut learnt, mut hops) = (Learnt::default(), 0);
        loop {
            let url = learnt.url.as_ref().unwrap_or(&self.url);
            let body = body.cloned().unwrap_or_default();
            let sending = self.client.configured().send(method.clone(), url, HeaderMap::clone(&headers), body);
            let response = sending.await.map_err(Unanswered::of)?;
            match response.status() {
                // Seldom, and of a size that is not for every exchange.
                StatusCode::UNAUTHORIZED if self.login.is_some() => {
                    let token = Box::pin(self.admitted(&response, learnt.token.is_some())).await?;
                    headers.to_mut().insert(AUTHORIZATION, token.bearer().clone());
                    learnt.token = Some(token);
                }
                StatusCode::FORBIDDEN => {
                    let Some(token) = Box::pin(self.allowed(&response, learnt.token.is_some())).await? else {
                        return Ok((response, learnt));
                    };
                    headers.to_mut().insert(AUTHORIZATION, token.bearer().clone());
                    learnt.token = Some(token);
                }
                status if is_redirect(status) && hops < MAX_HOPS => {
                    let Some(location) = response.headers().get(LOCATION) else { return Ok((response, learnt)) };
                    learnt.url =
                        Some(origin::redirect(url, location).map_err(|reason| Unanswered::NotSent(reason.into()))?);
                    hops += 1;
                }
                _ => return Ok((response, learnt)),
            }
        }
    }

    /// Another token than the one that was refused.
    async fn admitted(&self, response: &Answer, was_renewed: bool) -> Result<Token, Unanswered> {
        let Some(login) = &self.login else { return Err(Unanswered::LoginNeeded("asks for a login".to_owned())) };
        login.challenged(Challenge::of(response.headers())).await;
        if was_renewed {
            return Err(Unanswered::LoginNeeded("refuses a token that was just made for it".to_owned()));
        }
        login.token(self.token.as_ref()).await.map_err(|none| match none {
            NoToken::LoginNeeded { why } => Unanswered::LoginNeeded(why),
            NoToken::Unavailable { reason } => Unanswered::NotSent(reason.into()),
        })
    }

    /// A token that is allowed more than the one that was refused, if it was refused for that and there is one by now; nothing if it
    /// was refused for something else.
    async fn allowed(&self, response: &Answer, was_renewed: bool) -> Result<Option<Token>, Unanswered> {
        let Some(login) = &self.login else { return Ok(None) };
        let challenge = Challenge::of(response.headers());
        if challenge.error.as_deref() != Some("insufficient_scope") {
            return Ok(None);
        }
        let scope = challenge.scope.as_ref().map(|scope| format!(" (`{scope}`)")).unwrap_or_default();
        login.challenged(challenge).await;
        let own = self.token.as_ref().map(Token::bearer);
        if !was_renewed
            && let Ok(token) = login.token(None).await
            && own != Some(token.bearer())
        {
            return Ok(Some(token));
        }
        Err(Unanswered::NotAllowed(format!("asks for more than it was allowed{scope}")))
    }
}

/// Whether it is what a server of MCP answers to a message that it has taken.
fn speaks_mcp(response: &Answer) -> bool {
    let is_message = || Content::of(response.headers()) != Content::Other;
    response.status() == StatusCode::ACCEPTED || response.status().is_success() && is_message()
}

/// Those after which the same is sent to the new place. `303 See Other` is an answer that is elsewhere, which MCP has not.
fn is_redirect(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    )
}

impl Unanswered {
    fn of(failure: Failure) -> Self {
        match failure {
            Failure::NotSent(error) => Self::NotSent(error.prefixed("cannot be reached: ")),
            Failure::Unprocessed(reason) => Self::Unprocessed(reason),
            Failure::Cut(reason) => Self::Cut(reason),
        }
    }
}
