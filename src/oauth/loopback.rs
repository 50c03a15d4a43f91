//! The loopback port for a browser during a login: it redirects from the start address to the consent page, and
//! receives the callback. It listens only while a person logs in.
//!
//! Every user can read the start address in the browser's arguments in `/proc`. It is useless to others: only a program
//! of this user is redirected to the page with the `state` ([`user`]).
//!
//! Source: RFC 8252, 7.3. This is the only TCP listener for a login, and it accepts only a callback with the right
//! `state`.

mod page;
mod user;

use std::net::Ipv4Addr;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use self::page::{page, redirect};
use super::authorization::Authorization;
use super::callback::CallbackError;
use super::request::Secret;

const CALLBACK: &str = "/callback";
const START: &str = "/start/";
/// Largest request head, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// Time limit for a browser's request, and for reading the response. Some browsers connect early and send nothing.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the browser waits for the token request before its page says that the login is still in progress.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Concurrent connections; more wait.
const MAX_CONNECTIONS: usize = 16;

/// An open loopback port.
pub(crate) struct Loopback {
    listener: TcpListener,
    redirect: String,
    start: String,
}

/// A browser's callback.
pub(crate) struct Callback {
    /// The code, or why there is none.
    pub(crate) code: Result<String, String>,
    pub(crate) browser: Browser,
}

/// A browser that waits for the outcome of the login.
pub(crate) struct Browser(TcpStream);

impl Loopback {
    /// Listens on `port`, or on any free port.
    ///
    /// # Errors
    /// If the port is in use.
    pub(crate) async fn bind(port: Option<u16>) -> Result<Self, String> {
        let address = (Ipv4Addr::LOCALHOST, port.unwrap_or_default());
        let failed = |error| format!("cannot listen on 127.0.0.1:{} for the browser: {error}", address.1);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let origin = format!("http://{}", listener.local_addr().map_err(failed)?);
        let (redirect, start) = (format!("{origin}{CALLBACK}"), format!("{origin}{START}{}", Secret::fresh()?.text()));
        Ok(Self { listener, redirect, start })
    }

    /// The redirect URI for the authorization server.
    pub(crate) fn redirect(&self) -> &str {
        &self.redirect
    }

    /// The start address, which redirects a browser of this user to the consent page. Others may read it.
    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    /// Waits for the callback of `authorization`.
    pub(crate) async fn wait(&self, authorization: &Authorization) -> Callback {
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    if let Ok((stream, _)) = accepted {
                        connections.push(self.serve(stream, authorization));
                    }
                },
                Some(callback) = connections.next() => if let Some(callback) = callback {
                    return callback;
                },
            }
        }
    }

    /// Serves one request. A callback is returned without a response.
    async fn serve(&self, mut stream: TcpStream, authorization: &Authorization) -> Option<Callback> {
        let head = timeout(BROWSER_TIMEOUT, head(&mut stream)).await.ok()??;
        let target = target(&head).unwrap_or_default();
        let response = match query(target).map(|query| authorization.code(query)) {
            Some(Ok(code)) => return Some(Callback { code: Ok(code), browser: Browser(stream) }),
            Some(Err(CallbackError::Refused(reason))) => {
                return Some(Callback { code: Err(reason), browser: Browser(stream) });
            }
            Some(Err(CallbackError::OtherLogin)) => page(
                "400 Bad Request",
                "This response does not belong to the current login. Start again with the address that `mcpd login` printed.",
            ),
            None if !self.start.ends_with(target) || !target.starts_with(START) => {
                page("404 Not Found", "There is nothing here.")
            }
            None if user::is_this_user_or_root(&stream).await => redirect(authorization.page().as_str()),
            None => page(
                "403 Forbidden",
                "This browser runs as another user than `mcpd login`. Open the address that `mcpd login` printed.",
            ),
        };
        Browser(stream).respond(&response).await;
        None
    }
}

impl Browser {
    /// Waits for `login`, and shows its outcome in the browser.
    ///
    /// # Errors
    /// The errors of `login`.
    pub(crate) async fn show_outcome(
        self,
        login: impl Future<Output = Result<(), String>>,
        succeeded: &str,
    ) -> Result<(), String> {
        self.show_outcome_within(TOKEN_TIMEOUT, login, succeeded).await
    }

    async fn show_outcome_within(
        self,
        limit: Duration,
        login: impl Future<Output = Result<(), String>>,
        succeeded: &str,
    ) -> Result<(), String> {
        let mut login = pin!(login);
        let Ok(outcome) = timeout(limit, &mut login).await else {
            let text = "mcpd is still waiting for the authorization server. See the terminal where `mcpd login` runs.";
            self.respond(&page("200 OK", text)).await;
            return login.await;
        };
        let text = match &outcome {
            Ok(()) => format!("{succeeded} You can close this page."),
            Err(reason) => format!("The login has failed: {reason}"),
        };
        self.respond(&page("200 OK", &text)).await;
        outcome
    }

    /// Errors are ignored, since the browser has done its part.
    async fn respond(self, response: &str) {
        let Self(mut stream) = self;
        let _ = timeout(BROWSER_TIMEOUT, async {
            stream.write_all(response.as_bytes()).await?;
            stream.shutdown().await
        })
        .await;
    }
}

/// The request head, if it is complete.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

/// The target of a GET request.
fn target(head: &str) -> Option<&str> {
    Some(head.strip_prefix("GET ")?.split_once(' ')?.0)
}

/// The query of a callback.
fn query(target: &str) -> Option<&str> {
    let query = target.strip_prefix(CALLBACK)?;
    if query.is_empty() { Some("") } else { query.strip_prefix('?') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_callback_path_is_served() {
        for (head, expected) in [
            ("GET /callback?code=a&state=b HTTP/1.1\r\n\r\n", Some("code=a&state=b")),
            ("GET /callback HTTP/1.1\r\n\r\n", Some("")),
            ("GET /callbacks?code=a HTTP/1.1\r\n\r\n", None),
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", None),
            ("POST /callback?code=a HTTP/1.1\r\n\r\n", None),
            ("GET /callback\r\n\r\n", None),
            ("", None),
        ] {
            assert_eq!(target(head).and_then(query), expected, "{head}");
        }
    }

    /// The page that a browser reads after this outcome within this limit.
    async fn read_of(limit: Duration, login: impl Future<Output = Result<(), String>>) -> (Result<(), String>, String) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let mut theirs = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connected");
        let (ours, _) = listener.accept().await.expect("accepted");
        let outcome = Browser(ours).show_outcome_within(limit, login, "Logged in.").await;
        let mut text = String::new();
        theirs.read_to_string(&mut text).await.expect("an answer");
        (outcome, text)
    }

    #[tokio::test]
    async fn browser_shows_the_outcome_or_that_the_login_is_in_progress() {
        let hour = Duration::from_secs(3600);
        let (outcome, text) = read_of(hour, async { Ok(()) }).await;
        assert!(outcome.is_ok() && text.contains("<p>Logged in. You can close"), "{text}");
        let (outcome, text) = read_of(hour, async { Err("<b>no".to_owned()) }).await;
        assert!(outcome.is_err() && text.contains("<p>The login has failed: &lt;b&gt;no</p>"), "{text}");
        let late = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err("late".to_owned())
        };
        let (outcome, text) = read_of(Duration::ZERO, late).await;
        assert!(outcome == Err("late".to_owned()) && text.contains("<p>mcpd is still waiting"), "{text}");
    }
}
