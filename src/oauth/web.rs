//! Requests of a login: to the server itself, and to what it names. Bounded in time and in bytes.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use bytes::BytesMut;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use url::Url;

use super::challenge::Challenge;
use super::request::Form;
use crate::net::client::Client;
use crate::net::origin;
pub(super) use crate::net::origin::told;

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
    /// If it does not answer, or in a way that tells neither.
    pub(super) async fn probe(&self) -> Result<Option<Challenge>, String> {
        let post = |client: &reqwest::Client, url| client.post(url).header(CONTENT_TYPE, JSON).body(PING);
        let answer = self.asked(post).await?;
        // One of HTTP+SSE has another place for messages.
        let is_elsewhere = matches!(answer.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED);
        let answer = if is_elsewhere { self.asked(reqwest::Client::get).await? } else { answer };
        let (status, challenge) = (answer.status(), Challenge::of(answer.headers()));
        match status {
            StatusCode::UNAUTHORIZED => Ok(Some(challenge)),
            StatusCode::FORBIDDEN if challenge != Challenge::default() => Ok(Some(challenge)),
            // What it is asked for makes no sense, but who asks is good enough.
            status if status.is_success() || status == StatusCode::BAD_REQUEST => Ok(None),
            status => Err(format!("the server answers with status {}", status.as_u16())),
        }
    }

    /// The server's answer to a request with what is configured for it, and nothing else.
    async fn asked(&self, request: impl Fn(&reqwest::Client, Url) -> RequestBuilder) -> Result<Response, String> {
        let with_headers =
            |client: &reqwest::Client, url| request(client, url).headers(self.headers.clone()).header(ACCEPT, MESSAGES);
        self.followed(self.configured.clone(), with_headers).await.map(|(_, answer)| answer)
    }

    /// A document of JSON, if there is one of that shape.
    ///
    /// # Errors
    /// If nobody answers, the place is not to be gone to, or the answer says that there might be one another time.
    pub(super) async fn document<T: DeserializeOwned>(&self, url: &Url) -> Result<Option<T>, String> {
        let own = if origin::same(url, &self.configured) { self.headers.clone() } else { HeaderMap::new() };
        let get = |client: &reqwest::Client, url| client.get(url).headers(own.clone()).header(ACCEPT, JSON);
        let (url, response) = self.followed(url.clone(), get).await?;
        match response.status() {
            status if status.is_server_error() => {
                Err(format!("{} answers with status {}", told(&url), status.as_u16()))
            }
            // Some hosts have a page for every path.
            status if status.is_success() => Ok(serde_json::from_slice(&body(response, &url).await?).ok()),
            _ => Ok(None),
        }
    }

    /// The answer to a request that says the same wherever it is sent on to, and where it came from: always the same host.
    async fn followed(
        &self,
        mut url: Url,
        request: impl Fn(&reqwest::Client, Url) -> RequestBuilder,
    ) -> Result<(Url, Response), String> {
        for _ in 0..=MOST_REDIRECTS {
            let response = send(request(self.client_for(&url).await?, url.clone()), &url).await?;
            let Some(location) = response.headers().get(LOCATION).filter(|_| response.status().is_redirection()) else {
                return Ok((url, response));
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
