//! Requests of a login: to the server itself, and to what it names. Bounded in time and in bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::challenge::Challenge;
use super::record::Grant;
use super::request::Form;
use crate::net::body::{Turn, Unusable, whole};
use crate::net::client::{self, Client, Failure, Sender};
pub(super) use crate::net::origin::told;
use crate::net::{headers, origin};

/// For one request, from its first byte to the last of its answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest answer that is read, in bytes.
const MAX_BODY: usize = 1 << 20;
/// Redirects that are followed one after another.
const MOST_REDIRECTS: usize = 3;
/// What is said of one that took longer.
const TOO_LATE: &str = "it takes too long";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
/// What a Streamable HTTP server wants a client to take. Source: MCP 2025-11-25, `basic/transports`.
const MESSAGES: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
/// Asks for nothing, and opens no session.
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// What requests are sent with. Cheap to clone.
#[derive(Clone)]
pub(super) struct Web {
    client: Client,
    configured: Url,
    /// What a person has configured for the server; nobody else ever gets to see it.
    headers: HeaderMap,
}

/// What came of a request.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

/// What is asked, wherever that is.
struct Request {
    method: Method,
    headers: HeaderMap,
    body: Bytes,
}

/// An answer whose body is to be read until then.
struct Opened {
    answer: client::Answer,
    deadline: Instant,
}

impl Web {
    pub(super) fn new(client: Client, configured: Url, headers: &BTreeMap<String, String>) -> Self {
        // A server whose headers cannot be sent says so wherever it is used.
        Self { client, configured, headers: headers::configured(headers).unwrap_or_default() }
    }

    /// The URL of the server.
    pub(super) fn configured(&self) -> &Url {
        &self.configured
    }

    /// What the server says when somebody asks it who is not let in, or `None` if it lets anybody in.
    ///
    /// # Errors
    /// If it does not answer, or in a way that tells neither.
    pub(super) async fn probe(&self) -> Result<Option<Challenge>, String> {
        let own = || Request::get(MESSAGES).with(self.headers.clone());
        let answer = self.followed(self.configured.clone(), &own().posting(JSON, PING)).await?.1.answer;
        // One of HTTP+SSE has another place for messages.
        let is_elsewhere = matches!(answer.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
        let answer = if is_elsewhere { self.followed(self.configured.clone(), &own()).await?.1.answer } else { answer };
        let (status, challenge) = (answer.status(), Challenge::of(answer.headers()));
        match status {
            StatusCode::UNAUTHORIZED => Ok(Some(challenge)),
            StatusCode::FORBIDDEN if challenge != Challenge::default() => Ok(Some(challenge)),
            // What it is asked for makes no sense, but who asks is good enough.
            status if status.is_success() || status == StatusCode::BAD_REQUEST => Ok(None),
            status => Err(format!("the server answers with status {}", status.as_u16())),
        }
    }

    /// A document of JSON, if there is one of that shape.
    ///
    /// # Errors
    /// If nobody answers, the place is not to be gone to, or the answer says that there might be one another time.
    pub(super) async fn document<T: DeserializeOwned>(&self, url: &Url) -> Result<Option<T>, String> {
        let own = if origin::same(url, &self.configured) { self.headers.clone() } else { HeaderMap::new() };
        let (url, opened) = self.followed(url.clone(), &Request::get(JSON).with(own)).await?;
        match opened.answer.status() {
            status if status.is_server_error() => {
                Err(format!("{} answers with status {}", told(&url), status.as_u16()))
            }
            // Some hosts have a page for every path.
            status if status.is_success() => Ok(serde_json::from_slice(&opened.body(&url).await?).ok()),
            _ => Ok(None),
        }
    }

    /// The answer to a request that says the same wherever it is sent on to, and where it came from: always the same host.
    async fn followed(&self, mut url: Url, request: &Request) -> Result<(Url, Opened), String> {
        for _ in 0..=MOST_REDIRECTS {
            let opened = self.send(&url, request).await?;
            let answer = &opened.answer;
            let Some(location) = answer.headers().get(LOCATION).filter(|_| answer.status().is_redirection()) else {
                return Ok((url, opened));
            };
            url = origin::redirect(&url, location).map_err(|reason| format!("{} {reason}", told(&url)))?;
        }
        Err(format!("{} redirects again and again", told(&url)))
    }

    /// Posts a form to an authorization server.
    ///
    /// # Errors
    /// If nobody answers, or the place is not to be gone to.
    pub(super) async fn form(&self, url: &Url, form: Form) -> Result<Answer, String> {
        let own = HeaderMap::from_iter(form.authorization.map(|value| (AUTHORIZATION, value)));
        self.answer(url, Request::get(JSON).with(own).posting(FORM, form.body)).await
    }

    /// Posts a document of JSON to an authorization server.
    ///
    /// # Errors
    /// As [`Web::form`].
    pub(super) async fn json(&self, url: &Url, text: String) -> Result<Answer, String> {
        self.answer(url, Request::get(JSON).posting(JSON, text)).await
    }

    async fn answer(&self, url: &Url, request: Request) -> Result<Answer, String> {
        let opened = self.send(url, &request).await?;
        Ok(Answer { status: opened.answer.status().as_u16(), body: opened.body(url).await? })
    }

    async fn send(&self, url: &Url, request: &Request) -> Result<Opened, String> {
        let (sender, deadline) = (self.sender_for(url).await?, Instant::now() + TIMEOUT);
        let Request { method, headers, body } = request;
        let sending = sender.send(method.clone(), url, headers.clone(), body.clone());
        match timeout_at(deadline, sending).await {
            Ok(Ok(answer)) => Ok(Opened { answer, deadline }),
            Ok(Err(Failure::NotSent(error))) => Err(failed(url, &error.to_string())),
            Ok(Err(Failure::Unprocessed(reason) | Failure::Cut(reason))) => Err(failed(url, &reason)),
            Err(_) => Err(failed(url, TOO_LATE)),
        }
    }

    async fn sender_for(&self, url: &Url) -> Result<&Sender, String> {
        if !origin::same(url, &self.configured) {
            self.client.check_supplied(url).await?;
        }
        Ok(self.client.login())
    }

    /// Whether a browser may be sent to this page, which the authorization server names.
    ///
    /// # Errors
    /// If it leads to an address that is not public, and that of the server is.
    pub(super) async fn check_page(&self, page: &Url) -> Result<(), String> {
        self.client.check_page(page).await
    }

    /// Whether the server has been reached at a public address.
    pub(super) fn was_public(&self) -> bool {
        self.client.was_public()
    }

    /// If the server was public when `grant` was obtained, all further requests go to public addresses only.
    pub(super) fn hold_to(&self, grant: &Grant) {
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

impl Opened {
    async fn body(mut self, url: &Url) -> Result<Bytes, String> {
        // Nobody else reads anything at this time.
        let alone = Turn::new(1);
        match timeout_at(self.deadline, whole(&mut self.answer, MAX_BODY, &alone)).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(Unusable::TooLarge)) => Err(format!("{} answers with more than {MAX_BODY} bytes", told(url))),
            Ok(Err(Unusable::Cut(reason))) => Err(failed(url, &reason)),
            Err(_) => Err(failed(url, TOO_LATE)),
        }
    }
}

fn failed(url: &Url, reason: &str) -> String {
    format!("{} does not answer: {reason}", told(url))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Remote;
    use crate::net::client::Clients;

    #[tokio::test]
    async fn a_server_of_the_internet_leads_nobody_to_this_machine() {
        let remote = Remote { url: "http://1.1.1.1/mcp".to_owned(), ..Remote::default() };
        let client = Clients::default().get(&remote).await.expect("a client");
        let web = Web::new(client, Url::parse(&remote.url).expect("a URL"), &remote.headers);
        for place in ["http://127.0.0.1:1/", "http://[::1]:1/", "http://169.254.169.254/latest", "http://localhost:1/"]
        {
            let place = Url::parse(place).expect("a URL");
            let form = Form { body: String::new(), authorization: None };
            let refused = [
                web.document::<String>(&place).await.err(),
                web.form(&place, form).await.err(),
                web.json(&place, String::new()).await.err(),
            ];
            for refused in refused {
                let why = refused.expect("refused");
                assert!(why.contains("is not on the public internet"), "{place}: {why}");
            }
        }
    }
}
