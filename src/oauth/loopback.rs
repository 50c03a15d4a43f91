//! Where the browser is sent back to: a port of this machine that listens only while a person logs in.
//!
//! Source: RFC 8252, 7.3. The only place where mcpd listens on anything but a socket of its user; nothing comes in there but what one
//! attempt to log in waits for, and the state in it proves that.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::attempt::Attempt;
use super::redirect::NoCode;

const PATH: &str = "/callback";
/// Largest head of a request that is read, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// For a browser to say what it wants. Some connect in advance, and say nothing.
const PATIENCE: Duration = Duration::from_secs(20);
/// Connections at once; more wait.
const MOST: usize = 16;

/// A port that listens.
pub(crate) struct Loopback {
    listener: TcpListener,
    redirect: String,
}

/// What a connection has brought: a code, or why there is none.
type Brought = Result<String, String>;

impl Loopback {
    /// Listens on `port`, or on any that is free.
    ///
    /// # Errors
    /// If it is not free.
    pub(crate) async fn bind(port: Option<u16>) -> Result<Self, String> {
        let wanted = (Ipv4Addr::LOCALHOST, port.unwrap_or_default());
        let failed = |error| format!("the browser cannot be sent back to 127.0.0.1:{}: {error}", wanted.1);
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let redirect = format!("http://{}{PATH}", listener.local_addr().map_err(failed)?);
        Ok(Self { listener, redirect })
    }

    /// What the authorization server sends the browser to.
    pub(crate) fn redirect(&self) -> &str {
        &self.redirect
    }

    /// Waits for the answer to `attempt`, and gives its code.
    ///
    /// # Errors
    /// If the answer has none; for a person, on one line.
    pub(crate) async fn wait(&self, attempt: &Attempt) -> Brought {
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MOST => if let Ok((stream, _)) = accepted {
                    connections.push(served(stream, attempt));
                },
                Some(brought) = connections.next() => if let Some(brought) = brought {
                    return brought;
                },
            }
        }
    }
}

/// Serves one request, and tells what it has brought.
async fn served(mut stream: TcpStream, attempt: &Attempt) -> Option<Brought> {
    let head = timeout(PATIENCE, head(&mut stream)).await.ok()??;
    let (status, page, brought) = match query(&head).map(|query| attempt.code(query)) {
        None => ("404 Not Found", "There is nothing here.".to_owned(), None),
        Some(Err(NoCode::Foreign)) => {
            let page =
                "This is no answer to what mcpd has asked. Begin again with the address that `mcpd login` has shown.";
            ("400 Bad Request", page.to_owned(), None)
        }
        Some(Err(NoCode::Refused(reason))) => ("200 OK", format!("mcpd is not let in: {reason}."), Some(Err(reason))),
        Some(Ok(code)) => ("200 OK", "mcpd has what it needs. This page can be closed.".to_owned(), Some(Ok(code))),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}\n",
        page.len() + 1,
    );
    // Whether or not the browser still listens: what it has brought counts.
    let _ = timeout(PATIENCE, async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
    brought
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

/// What stands behind the path to which the browser is sent back.
fn query(head: &str) -> Option<&str> {
    let target = head.strip_prefix("GET ")?.split_once(' ')?.0;
    let query = target.strip_prefix(PATH)?;
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
            assert_eq!(query(head), expected, "{head}");
        }
    }
}
