//! The listener of the page, and what becomes of each request.
//!
//! The bare address leads this user's browser to a random path, with a cookie for that path alone. Browsers send cookies to all ports of an
//! address, so a cookie without a path would reach a server that listens on another port. Below the path, everything but the empty page
//! needs the cookie. Only GET is accepted, so no request changes anything. A page of another origin can neither read a response nor frame the page.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue,
    LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};
use url::form_urlencoded;

use super::page_file::ServedPage;
use super::pages::Pages;
use super::peer::Peer;
use super::queries;
use super::sentences::Sentences;
use crate::admin::{self, AdminError};
use crate::config::Profile;
use crate::random::{self, NoRandomNumbers};

/// Concurrent connections of visible programs of this user; more wait.
const PLACES: usize = 16;
/// The same for programs that mcpd cannot see.
const UNSEEN_PLACES: usize = 4;
/// Connections of each kind that wait. More are closed.
const MAX_WAITING: usize = 64;
/// Concurrent lookups of peers. A peer cannot prolong its lookup.
const LOOKUPS: usize = 4;
/// Connections that are refused at once. More are closed without an answer.
const REFUSALS: usize = 16;
/// Maximum size of the headers of a request.
const MAX_HEAD: usize = 16 << 10;
/// How long a browser may take for the headers of a request, or keep a connection without one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The same for a program that mcpd cannot see.
const UNSEEN_HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// For the refusal of a connection.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Delay before the next attempt after `accept` has failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
     frame-ancestors 'none'; form-action 'none'",
);
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const EVENTS: &str = "text/event-stream";

/// The files of the page, below its path.
const FILES: &[(&str, &str, &str)] = &[
    ("page.css", CSS, include_str!("web/page.css")),
    ("page.js", SCRIPT, include_str!("web/page.js")),
    ("model.js", SCRIPT, include_str!("web/model.js")),
    ("dom.js", SCRIPT, include_str!("web/dom.js")),
    ("format.js", SCRIPT, include_str!("web/format.js")),
    ("plot.js", SCRIPT, include_str!("web/plot.js")),
    ("servers.js", SCRIPT, include_str!("web/servers.js")),
    ("server.js", SCRIPT, include_str!("web/server.js")),
    ("agents.js", SCRIPT, include_str!("web/agents.js")),
    ("calls.js", SCRIPT, include_str!("web/calls.js")),
    ("tools.js", SCRIPT, include_str!("web/tools.js")),
    ("changes.js", SCRIPT, include_str!("web/changes.js")),
];
const INDEX: &str = include_str!("web/index.html");
const COOKIE_NAME: &str = "mcpd";

type Body = UnsyncBoxBody<Bytes, Infallible>;
type Reply = Response<Body>;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error("this page belongs to another user of this machine")]
    OtherUser,
    #[error("servers of mcpd may not see this page")]
    Server,
    #[error("mcpd cannot see which program connects, and a server of mcpd hides from it: this may be that server")]
    MaybeServer,
    #[error("header `Host` does not name this address")]
    Host,
    #[error("this request comes from another page")]
    Origin,
    #[error("only GET is answered")]
    Method,
    #[error(
        "mcpd cannot see which program connects, for example through a forwarded port. Open the address that `mcpd dashboard --no-open` prints."
    )]
    NoKey,
    #[error("open the page first: its address has no path")]
    NoCookie,
    #[error("there is nothing here")]
    Path,
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Path => StatusCode::NOT_FOUND,
            _ => StatusCode::FORBIDDEN,
        }
    }
}

pub(super) struct Site {
    page: ServedPage,
    /// The path of the page, which only this user's browser knows.
    root: String,
    hosts: [String; 2],
    socket: PathBuf,
    sentences: Sentences,
    pages: Arc<Pages>,
    places: Places,
    unseen_places: Places,
    refusals: Semaphore,
}

/// Room for connections of one kind.
struct Places {
    free: Semaphore,
    waiting: Semaphore,
}

impl Places {
    fn new(count: usize) -> Self {
        Self { free: Semaphore::new(count), waiting: Semaphore::new(MAX_WAITING) }
    }

    /// Waits for a place; `None` if too many wait.
    async fn take(&self) -> Option<SemaphorePermit<'_>> {
        let _turn = self.waiting.try_acquire().ok()?;
        self.free.acquire().await.ok()
    }
}

/// Listens on a free port.
///
/// # Errors
/// If there is none.
pub(super) async fn listen() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await
}

/// Serves connections, for ever.
pub(super) async fn accept(listener: TcpListener, site: Arc<Site>) {
    let lookups = Arc::new(Semaphore::new(LOOKUPS));
    while let Ok(lookup) = Arc::clone(&lookups).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let site = Arc::clone(&site);
                tokio::spawn(async move {
                    let peer = Peer::of(&stream).await;
                    drop(lookup);
                    site.serve(stream, peer).await;
                });
            }
            Err(_) => sleep(ACCEPT_AGAIN).await,
        }
    }
}

impl Site {
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn new(
        page: ServedPage,
        socket: PathBuf,
        sentences: Sentences,
        pages: Arc<Pages>,
    ) -> Result<Self, NoRandomNumbers> {
        let hosts = [page.address.to_string(), format!("localhost:{}", page.address.port())];
        let (places, unseen_places) = (Places::new(PLACES), Places::new(UNSEEN_PLACES));
        let (root, refusals) = (format!("/{}/", random::token()?), Semaphore::new(REFUSALS));
        Ok(Self { page, root, hosts, socket, sentences, pages, places, unseen_places, refusals })
    }

    /// A connection takes a place only once its peer is known, so that others cannot keep this user's browser out.
    async fn serve(self: Arc<Self>, stream: TcpStream, peer: Peer) {
        let (places, limit) = match peer {
            Peer::OtherUser => return self.refuse(stream, Refusal::OtherUser).await,
            Peer::Server => return self.refuse(stream, Refusal::Server).await,
            Peer::MaybeServer => return self.refuse(stream, Refusal::MaybeServer).await,
            Peer::Own => (&self.places, HEAD_TIMEOUT),
            Peer::Unseen => (&self.unseen_places, UNSEEN_HEAD_TIMEOUT),
        };
        let Some(_place) = places.take().await else { return };
        let service = service_fn(|request| {
            let site = Arc::clone(&self);
            async move { Ok::<_, Infallible>(site.respond(&request, peer).await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(limit).max_buf_size(MAX_HEAD);
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn refuse(&self, stream: TcpStream, refusal: Refusal) {
        if let Ok(_turn) = self.refusals.try_acquire() {
            refuse(stream, refusal).await;
        }
    }

    async fn respond(&self, request: &Request<Incoming>, peer: Peer) -> Reply {
        let mut reply = self.reply(request, peer).await.unwrap_or_else(refused);
        for (name, value) in [
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            (RESOURCE_POLICY, HeaderValue::from_static("same-origin")),
            (OPENER_POLICY, HeaderValue::from_static("same-origin")),
        ] {
            reply.headers_mut().insert(name, value);
        }
        reply
    }

    async fn reply(&self, request: &Request<Incoming>, peer: Peer) -> Result<Reply, Refusal> {
        let (headers, path) = (request.headers(), request.uri().path());
        self.check_sender(headers, path)?;
        if request.method() != Method::GET {
            return Err(Refusal::Method);
        }
        if path == "/" {
            return self.enter(request.uri(), peer);
        }
        let path = path.strip_prefix(&self.root).ok_or(Refusal::Path)?;
        // A browser that follows a link from another page sends no cookie here, only with the requests that this page makes.
        if path.is_empty() {
            return Ok(whole(HTML, Bytes::from_static(INDEX.as_bytes())));
        }
        if !self.has_cookie(headers) {
            return Err(Refusal::NoCookie);
        }
        if let Some((_, kind, text)) = FILES.iter().find(|(name, ..)| *name == path) {
            return Ok(whole(kind, Bytes::from_static(text.as_bytes())));
        }
        let given = |name| parameter(request.uri(), name);
        match path {
            "api/events" => Ok(self.events()),
            "api/status" => Ok(answer(admin::status(&self.socket).await.map(|report| json!(report)))),
            "api/tools" => {
                let profile = given("profile").unwrap_or_else(|| Profile::DEFAULT.to_owned());
                Ok(answer(queries::tools(&self.socket, &profile, self.sentences).await))
            }
            "api/changes" => Ok(answer(queries::changes(&self.socket, self.sentences).await)),
            "api/lines" => Ok(answer(queries::lines(&self.socket, &given("server").ok_or(Refusal::Path)?).await)),
            _ => Err(Refusal::Path),
        }
    }

    /// The address itself may be opened from anywhere, such as a link in a chat.
    fn check_sender(&self, headers: &HeaderMap, path: &str) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let host = host.filter(|host| self.hosts.iter().any(|own| own == host)).ok_or(Refusal::Host)?;
        if hosts.next().is_some() {
            return Err(Refusal::Host);
        }
        let is_own =
            |origin: &HeaderValue| origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://")) == Some(host);
        let is_own_site = |site: &HeaderValue| ["same-origin", "none"].iter().any(|own| site == own);
        // Another page may lead here, but not load anything.
        let is_allowed = if path == "/" || path == self.root {
            headers.get_all(FETCH_DEST).iter().all(|destination| destination == "document")
        } else {
            headers.get_all(FETCH_SITE).iter().all(is_own_site)
        };
        let is_foreign = !is_allowed || !headers.get_all(ORIGIN).iter().all(is_own);
        if is_foreign { Err(Refusal::Origin) } else { Ok(()) }
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = cookies.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        cookies.any(|(name, value)| name == COOKIE_NAME && is_same(value, &self.page.token))
    }

    /// The bare address.
    fn enter(&self, uri: &Uri, peer: Peer) -> Result<Reply, Refusal> {
        let has_key = || parameter(uri, "key").is_some_and(|key| is_same(&key, &self.page.token));
        if peer != Peer::Own && !has_key() {
            return Err(Refusal::NoKey);
        }
        let cookie = format!("{COOKIE_NAME}={}; HttpOnly; SameSite=Strict; Path={}", self.page.token, self.root);
        let mut reply = reply(StatusCode::SEE_OTHER, TEXT, Full::default().boxed_unsync());
        for (name, value) in [(SET_COOKIE, &cookie), (LOCATION, &self.root)] {
            reply.headers_mut().insert(name, HeaderValue::from_str(value).map_err(|_| Refusal::Path)?);
        }
        Ok(reply)
    }

    fn events(&self) -> Reply {
        let frames = self.pages.stream().map(|event| Ok(Frame::data(event)));
        reply(StatusCode::OK, EVENTS, StreamBody::new(frames).boxed_unsync())
    }
}

/// Independent of where they differ.
fn is_same(given: &str, expected: &str) -> bool {
    let differing = given.bytes().zip(expected.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == expected.len() && differing == 0
}

/// The value of this name in the query.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let mut all = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    all.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

fn reply(status: StatusCode, kind: &'static str, body: Body) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

fn whole(kind: &'static str, text: Bytes) -> Reply {
    reply(StatusCode::OK, kind, Full::new(text).boxed_unsync())
}

fn answer(result: Result<Value, AdminError>) -> Reply {
    let (status, body) = match result {
        Ok(value) => (StatusCode::OK, value),
        Err(AdminError::Refused(reason)) => (StatusCode::NOT_FOUND, json!({"error": reason})),
        Err(error) => (StatusCode::BAD_GATEWAY, json!({"error": error.to_string()})),
    };
    reply(status, JSON, Full::new(Bytes::from(body.to_string())).boxed_unsync())
}

fn refused(refusal: Refusal) -> Reply {
    let text = Bytes::from(format!("{refusal}\n"));
    let mut reply = reply(refusal.status(), TEXT, Full::new(text).boxed_unsync());
    if refusal == Refusal::Method {
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    }
    reply
}

/// Refuses a connection, whatever it sends. Reading is for the client: it would lose the response by a reset.
async fn refuse(mut stream: TcpStream, refusal: Refusal) {
    let text = format!("{refusal}\n");
    let response = format!(
        "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nX-Content-Type-Options: nosniff\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = timeout(REFUSAL_TIMEOUT, async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    })
    .await;
}
