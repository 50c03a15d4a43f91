//! The loopback port for a browser during a login: it redirects from the start address to the consent page, and
//! receives the callback. It listens only while a person logs in.
//!
//! Every user can read the start address in the browser's arguments in `/proc`. It is useless to others: only a program
//! of this user is redirected to the page with the `state`. The user is read in `/proc/net/tcp` and `/proc/net/tcp6`
//! (proc(5)).
//!
//! Source: RFC 8252, 7.3. This is the only TCP listener for a login, and it accepts only a callback with the right
//! `state`.

use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::authorization::{Authorization, CallbackError};
use super::error::LoginError;
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
    pub(crate) code: Result<String, CallbackError>,
    pub(crate) browser: Browser,
}

/// A browser that waits for the outcome of the login.
pub(crate) struct Browser(TcpStream);

impl Loopback {
    /// Listens on `port`, or on any free port.
    ///
    /// # Errors
    /// If the port is in use.
    pub(crate) async fn bind(port: Option<u16>) -> Result<Self, LoginError> {
        let address = (Ipv4Addr::LOCALHOST, port.unwrap_or_default());
        let failed = |source| LoginError::Listen { port: address.1, source };
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
            Some(Err(CallbackError::OtherLogin)) => page(
                "400 Bad Request",
                "This response does not belong to the current login. Start again with the address that `mcpd login` printed.",
            ),
            Some(code) => return Some(Callback { code, browser: Browser(stream) }),
            None if !self.start.ends_with(target) || !target.starts_with(START) => {
                page("404 Not Found", "There is nothing here.")
            }
            None if is_this_user_or_root(&stream).await => redirect(authorization.page().as_str()),
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
        login: impl Future<Output = Result<(), LoginError>>,
        succeeded: &str,
    ) -> Result<(), LoginError> {
        self.show_outcome_within(TOKEN_TIMEOUT, login, succeeded).await
    }

    async fn show_outcome_within(
        self,
        limit: Duration,
        login: impl Future<Output = Result<(), LoginError>>,
        succeeded: &str,
    ) -> Result<(), LoginError> {
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

/// An HTTP response with a page of this text, HTML-escaped.
fn page(status: &str, text: &str) -> String {
    let body = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>mcpd login</title>\n<p>{}</p></html>\n",
        escaped(text)
    );
    let length = body.len();
    response_head(status, &format!("Content-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n")) + &body
}

/// An HTTP redirect to this address.
fn redirect(address: &str) -> String {
    response_head("302 Found", &format!("Location: {address}\r\nContent-Length: 0\r\n"))
}

fn response_head(status: &str, lines: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{lines}Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// Fields of a connection's line: local address, remote address, user.
const LOCAL: usize = 1;
const REMOTE: usize = 2;
const USER: usize = 7;

/// Whether the other end belongs to this user or to root. Root can read this process anyway, and relays connections for
/// WSL.
async fn is_this_user_or_root(stream: &TcpStream) -> bool {
    let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return false };
    let find = move || TABLES.iter().find_map(|table| owner(&fs::read_to_string(table).ok()?, peer, local));
    let user = spawn_blocking(find).await.ok().flatten();
    user.is_some_and(|user| user == 0 || user == rustix::process::getuid().as_raw())
}

/// The user of the socket at `local` that is connected to `remote`, in a table of the kernel.
fn owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let ends = |address: SocketAddr| [field(address, false), field(address, true)];
    let (locals, remotes) = (ends(local), ends(remote));
    table.lines().find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let is_it = locals.iter().any(|end| fields.get(LOCAL) == Some(&&**end))
            && remotes.iter().any(|end| fields.get(REMOTE) == Some(&&**end));
        if is_it { fields.get(USER)?.parse().ok() } else { None }
    })
}

/// An address in the table's format: words in native byte order. An IPv4 address may be in an IPv6 socket.
fn field(address: SocketAddr, is_mapped: bool) -> String {
    let mut text = String::new();
    let octets = match address.ip() {
        IpAddr::V4(address) if is_mapped => address.to_ipv6_mapped().octets().to_vec(),
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    for word in octets.chunks_exact(4) {
        let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        write!(text, "{word:08X}").expect("memory");
    }
    write!(text, ":{:04X}", address.port()).expect("memory");
    text
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
    async fn read_of(
        limit: Duration,
        login: impl Future<Output = Result<(), LoginError>>,
    ) -> (Result<(), LoginError>, String) {
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
        let (outcome, text) =
            read_of(hour, async { Err(LoginError::NoIssuerMetadata { issuer: "<b>no".to_owned() }) }).await;
        assert!(
            outcome.is_err()
                && text.contains("<p>The login has failed: its authorization server &lt;b&gt;no has no metadata</p>"),
            "{text}"
        );
        let late = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(LoginError::NoClientId)
        };
        let (outcome, text) = read_of(Duration::ZERO, late).await;
        assert!(matches!(outcome, Err(LoginError::NoClientId)) && text.contains("<p>mcpd is still waiting"), "{text}");
    }

    #[test]
    fn text_is_escaped() {
        let page = page("200 OK", "\"><script>alert('1')</script>&amp;");
        assert!(
            page.ends_with("<p>&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;amp;</p></html>\n"),
            "{page}"
        );
        let (head, body) = page.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(head.contains("Content-Security-Policy: default-src 'none'"), "{head}");
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn user_of_a_connection_is_found_by_both_addresses() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n   \
            1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0\n   \
            2: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1001        0 3 1 0\n";
        let mapped = "   0: 0000000000000000FFFF00000100007F:C002 0000000000000000FFFF00000100007F:1F90 01 0:0 0:0 0  1002 0 4\n";
        let end = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(owner(table, end(0xc001), end(8080)), Some(1000));
        assert_eq!(owner(table, end(8080), end(0xc001)), Some(1001));
        assert_eq!(owner(mapped, end(0xc002), end(8080)), Some(1002));
        for (table, local, remote) in [(table, 0xc002, 8080), (table, 0xc001, 8081), (mapped, 0xc001, 8080), ("", 1, 2)]
        {
            assert_eq!(owner(table, end(local), end(remote)), None);
        }
    }
}
