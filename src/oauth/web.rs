//! Requests of a login: to the server itself, and to what it names. Bounded in time and in bytes.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use bytes::BytesMut;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{RequestBuilder, Response};
use serde::de::DeserializeOwned;
use url::Url;

use super::challenge::Challenge;
use super::request::Form;
use crate::transport::http::client::Client;
use crate::transport::http::origin;

/// For one request, from its first byte to the last of its answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longest answer that is read, in bytes.
const MAX_BODY: usize = 1 << 20;
/// Redirects that are followed one after another.
const MOST_REDIRECTS: usize = 3;
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
    pub(super) body: BytesMut,
}

impl Web {
    pub(super) fn new(client: Client, configured: Url, headers: &BTreeMap<String, String>) -> Self {
        let header = |(name, value): (&String, &String)| {
            let mut value = HeaderValue::try_from(value).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::try_from(name).ok()?, value))
        };
        Self { client, configured, headers: headers.iter().filter_map(header).collect() }
    }

    /// The URL of the server.
    pub(super) fn configured(&self) -> &Url {
        &self.configured
    }

    /// What the server says when somebody asks it who is not let in, or `None` if it lets anybody in.
    ///
    /// # Errors
    /// If it does not answer.
    pub(super) async fn probe(&self) -> Result<Option<Challenge>, String> {
        let request = self.client.configured().post(self.configured.clone()).headers(self.headers.clone());
        let request = request.header(ACCEPT, MESSAGES).header(CONTENT_TYPE, JSON).body(PING);
        let answer = send(request, &self.configured).await?;
        Ok((answer.status() == 401).then(|| Challenge::of(answer.headers())))
    }

    /// A document of JSON, if there is one of that shape.
    ///
    /// # Errors
    /// If nobody answers, the place is not to be gone to, or the answer says that there might be one another time.
    pub(super) async fn document<T: DeserializeOwned>(&self, url: &Url) -> Result<Option<T>, String> {
        let mut url = url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let mut request = self.client_for(&url).await?.get(url.clone()).header(ACCEPT, JSON);
            if origin::same(&url, &self.configured) {
                request = request.headers(self.headers.clone());
            }
            let response = send(request, &url).await?;
            let status = response.status();
            if status.is_redirection() {
                let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
                url = origin::redirect(&url, location).map_err(|reason| format!("{}: {reason}", told(&url)))?;
                continue;
            }
            if status.is_server_error() {
                return Err(format!("{} answers with status {}", told(&url), status.as_u16()));
            }
            if !status.is_success() {
                return Ok(None);
            }
            // Some hosts have a page for every path.
            return Ok(serde_json::from_slice(&body(response, &url).await?).ok());
        }
        Err(format!("{} redirects again and again", told(&url)))
    }

    /// Posts a form to an authorization server.
    ///
    /// # Errors
    /// If nobody answers, or the place is not to be gone to.
    pub(super) async fn form(&self, url: &Url, form: Form) -> Result<Answer, String> {
        let mut request = self.client_for(url).await?.post(url.clone()).header(CONTENT_TYPE, FORM);
        if let Some(authorization) = form.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        answer(request.header(ACCEPT, JSON).body(form.body), url).await
    }

    /// Posts a document of JSON to an authorization server.
    ///
    /// # Errors
    /// As [`Web::form`].
    pub(super) async fn json(&self, url: &Url, text: String) -> Result<Answer, String> {
        let request = self.client_for(url).await?.post(url.clone());
        answer(request.header(CONTENT_TYPE, JSON).header(ACCEPT, JSON).body(text), url).await
    }

    async fn client_for(&self, url: &Url) -> Result<&reqwest::Client, String> {
        if origin::same(url, &self.configured) {
            return Ok(self.client.configured());
        }
        self.client.check_supplied(url).await?;
        Ok(self.client.supplied())
    }
}

async fn answer(request: RequestBuilder, url: &Url) -> Result<Answer, String> {
    let response = send(request, url).await?;
    Ok(Answer { status: response.status().as_u16(), body: body(response, url).await? })
}

async fn send(request: RequestBuilder, url: &Url) -> Result<Response, String> {
    request.timeout(TIMEOUT).send().await.map_err(|error| failed(url, error))
}

async fn body(mut response: Response, url: &Url) -> Result<BytesMut, String> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(url, error))? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(format!("{} answers with more than {MAX_BODY} bytes", told(url)));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// A path or a query may hold a secret.
pub(super) fn told(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn failed(url: &Url, error: reqwest::Error) -> String {
    let error = error.without_url();
    let (mut text, mut source) = (format!("{} does not answer: {error}", told(url)), error.source());
    while let Some(cause) = source {
        // A text takes whatever is written to it.
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
