//! The port of this machine that a browser goes through for a login: from the start address to the page of the authorization server,
//! and back with the answer. It listens only while a person logs in.
//!
//! A browser is given the start address in its arguments, which every user can read in `/proc`. The address is useless to others:
//! only a program of this user is sent on to the page, with the `state` of the attempt ([`user`]).
//!
//! Source: RFC 8252, 7.3. The only place where mcpd listens on anything but a socket of its user; nothing comes in there but what one
//! attempt to log in waits for, and the state in it proves that.

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

use self::page::{page, sent_on};
use super::attempt::Attempt;
use super::redirect::NoCode;
use super::request::Secret;

const CALLBACK: &str = "/callback";
const START: &str = "/start/";
/// Largest head of a request that is read, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// For a browser to send its request, or to read the answer. Some connect in advance, and send nothing.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(20);
/// For the token to be there. A browser that has waited so long is told that it is not yet known.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Connections at once; more wait.
const MAX_CONNECTIONS: usize = 16;

/// A port that listens.
pub(crate) struct Loopback {
    listener: TcpListener,
    redirect: String,
    start: String,
}

/// What a browser has brought back.
pub(crate) struct Answered {
    /// The code, or why there is none.
    pub(crate) code: Result<String, String>,
    pub(crate) browser: Browser,
}

/// A browser that waits for what comes of the login.
pub(crate) struct Browser(TcpStream);

impl Loopback {
    /// Listens on `port`, or on any that is free.
    ///
    /// # Errors
    /// If it is not free.
    pub(crate) async fn bind(port: Option<u16>) -> Result<Self, String> {
        let wanted = (Ipv4Addr::LOCALHOST, port.unwrap_or_default());
        let failed = |error| format!("the browser cannot be sent back to 127.0.0.1:{}: {error}", wanted.1);
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let origin = format!("http://{}", listener.local_addr().map_err(failed)?);
        let (redirect, start) = (format!("{origin}{CALLBACK}"), format!("{origin}{START}{}", Secret::fresh()?.text()));
        Ok(Self { listener, redirect, start })
    }

    /// What the authorization server sends the browser to.
    pub(crate) fn redirect(&self) -> &str {
        &self.redirect
    }

    /// An address that sends a browser of this user on to the page of the authorization server. Others may read it.
    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    /// Waits for the answer to `attempt`.
    pub(crate) async fn wait(&self, attempt: &Attempt) -> Answered {
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    if let Ok((stream, _)) = accepted {
                        connections.push(self.served(stream, attempt));
                    }
                },
                Some(answered) = connections.next() => if let Some(answered) = answered {
                    return answered;
                },
            }
        }
    }

    /// Serves one request. One that brings the answer is not answered yet.
    async fn served(&self, mut stream: TcpStream, attempt: &Attempt) -> Option<Answered> {
        let head = timeout(BROWSER_TIMEOUT, head(&mut stream)).await.ok()??;
        let target = target(&head).unwrap_or_default();
        let response = match query(target).map(|query| attempt.code(query)) {
            Some(Ok(code)) => return Some(Answered { code: Ok(code), browser: Browser(stream) }),
            Some(Err(NoCode::Refused(reason))) => {
                return Some(Answered { code: Err(reason), browser: Browser(stream) });
            }
            Some(Err(NoCode::Foreign)) => page(
                "400 Bad Request",
                "This response does not belong to the current login. Start again with the address that `mcpd login` printed.",
            ),
            None if !self.start.ends_with(target) || !target.starts_with(START) => {
                page("404 Not Found", "There is nothing here.")
            }
            None if user::is_this_user_or_root(&stream).await => sent_on(attempt.page().as_str()),
            None => page(
                "403 Forbidden",
                "This browser runs as another user than `mcpd login`. Open the address that `mcpd login` printed.",
            ),
        };
        Browser(stream).answer(&response).await;
        None
    }
}

impl Browser {
    /// Tells it what comes of `login`: that it has `succeeded`, or why not.
    ///
    /// # Errors
    /// Those of `login`.
    pub(crate) async fn tell(
        self,
        login: impl Future<Output = Result<(), String>>,
        succeeded: &str,
    ) -> Result<(), String> {
        self.tell_within(TOKEN_TIMEOUT, login, succeeded).await
    }

    async fn tell_within(
        self,
        limit: Duration,
        login: impl Future<Output = Result<(), String>>,
        succeeded: &str,
    ) -> Result<(), String> {
        let mut login = pin!(login);
        let Ok(outcome) = timeout(limit, &mut login).await else {
            let text = "mcpd is still waiting for the authorization server. See the terminal where `mcpd login` runs.";
            self.answer(&page("200 OK", text)).await;
            return login.await;
        };
        let text = match &outcome {
            Ok(()) => format!("{succeeded} You can close this page."),
            Err(reason) => format!("The login has failed: {reason}"),
        };
        self.answer(&page("200 OK", &text)).await;
        outcome
    }

    /// Whether or not the browser still listens: what it has brought counts.
    async fn answer(self, response: &str) {
        let Self(mut stream) = self;
        let _ = timeout(BROWSER_TIMEOUT, async {
            stream.write_all(response.as_bytes()).await?;
            stream.shutdown().await
        })
        .await;
    }
}

/// The head of a request, if it comes whole.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

/// The target of a request that is a GET.
fn target(head: &str) -> Option<&str> {
    Some(head.strip_prefix("GET ")?.split_once(' ')?.0)
}

/// What stands behind the path to which the browser is sent back.
fn query(target: &str) -> Option<&str> {
    let query = target.strip_prefix(CALLBACK)?;
    if query.is_empty() { Some("") } else { query.strip_prefix('?') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_one_path_is_there() {
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

    /// What a browser reads when its login ends so within, or not within, the limit.
    async fn read_of(limit: Duration, login: impl Future<Output = Result<(), String>>) -> (Result<(), String>, String) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let mut theirs = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connected");
        let (ours, _) = listener.accept().await.expect("accepted");
        let outcome = Browser(ours).tell_within(limit, login, "Logged in.").await;
        let mut text = String::new();
        theirs.read_to_string(&mut text).await.expect("an answer");
        (outcome, text)
    }

    #[tokio::test]
    async fn a_browser_reads_what_came_of_the_login_or_that_it_is_not_known_yet() {
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
