//! What becomes of each HTTP request of a connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, EXPECT, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming as RequestBody};
use serde_json::json;
use tokio::sync::{OnceCell, watch};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::agents::Leases;
use super::body::{EventId, EventStream};
use super::caller::{Access, Caller, Origin, Owner};
use super::checks::{self, LAST_EVENT_ID, Refusal, SESSION_ID, Target};
use super::hub::{Event, Hub, PostError, Reader};
use super::protocol::Protocol;
use super::reply::{Failure, First, Form, Reply};
use super::reply::{
    allow_origin, begun, empty, error_code, events, malformed, preflight, status_of, text, unsupported, whole,
};
use super::sessions::{OpenSession, Sessions};
use super::stream::Message;
use super::transport::HttpTransport;
use crate::account::{ALLOWANCE, Account, OverLimit};
use crate::era::{HEADER_MISMATCH, MODERN};
use crate::jsonrpc::MessageError;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::normalise::Sender;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_REQUEST, PARSE_ERROR};
use crate::list_kind::ListKind;
use crate::manager::{Figures, View, ViewPart};
use crate::message_limit::{MessageLimit, has_memory};
use crate::methods::USE_FACE;
use crate::metrics::{self, Format, Scrape};
use crate::server::User;
use crate::session::{AgentMessage, PeerIdentity, SessionSetup};
use crate::transport::http::{check_headers, one_line};
use crate::transport::{INLINE, Incoming};

/// The oldest version whose clients understand an event without data. Source: MCP 2025-11-25, `basic/transports`.
const PRIMED_SINCE: &str = "2025-11-25";
/// Bytes of a refused body that are read and discarded, because many clients read the response only once they have sent the request.
pub(super) const MAX_DISCARDED: usize = 64 << 20;
/// Bodies up to this size are copied out of the buffer of their connection, in bytes.
const COPIED: usize = 4 << 10;

/// Who sends the requests of a connection.
pub(super) struct Agent {
    origin: OnceCell<Origin>,
    /// The number of the connection.
    number: u64,
    /// The address of a client of a loopback address.
    client: Option<SocketAddr>,
    user: Arc<User>,
    identity: PeerIdentity,
    /// The server that has started the agent, if one has.
    own_server: Option<Arc<str>>,
    /// The view of the profile.
    view: watch::Receiver<Arc<View>>,
    figures: Figures,
    account: Arc<Account>,
    limit: MessageLimit,
    access: Access,
    protocol: Protocol,
}

impl Agent {
    /// The agent whose sessions would be started with `setup`. `client`: its address, if it has one.
    pub(super) fn of(setup: SessionSetup, protocol: Protocol, access: Access, client: Option<SocketAddr>) -> Self {
        let SessionSetup { number, user, identity, own_server, view, figures, account, message_limit: limit, .. } =
            setup;
        let origin = OnceCell::new();
        Self { origin, number, client, user, identity, own_server, view, figures, account, limit, access, protocol }
    }

    /// The process that sends the requests, if it is known.
    async fn origin(&self) -> Origin {
        let found = self.origin.get_or_init(async || {
            // A process outside of this PID namespace has id 0.
            let found = match (self.identity.pid.filter(|pid| *pid > 0), self.client, self.protocol) {
                (Some(pid), ..) => Some(Origin::Process(pid)),
                (None, Some(client), Protocol::Loopback(listener)) => Origin::of_tcp(client, listener).await,
                _ => None,
            };
            found.unwrap_or(Origin::Connection(self.number))
        });
        *found.await
    }
}

/// Answers the requests of one connection.
pub(super) struct Endpoint {
    agent: Agent,
    sessions: Sessions,
    /// Of the modern sessions that the connection uses.
    leases: Leases,
    /// The origins whose pages may send requests.
    origins: watch::Receiver<Arc<[String]>>,
    /// How long a client may pause within a body.
    timeout: Duration,
    /// A request had the token.
    is_authorized: AtomicBool,
}

/// Ends a session whose client does not receive its id: initialization has failed, or the client is gone.
struct CloseOnDrop(Option<Arc<Hub>>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(hub) = &self.0 {
            hub.close();
        }
    }
}

/// A message of the agent, and what was read of it besides.
struct Received {
    message: AgentMessage,
    line: Bytes,
}

impl Endpoint {
    pub(super) fn new(
        agent: Agent,
        sessions: Sessions,
        origins: watch::Receiver<Arc<[String]>>,
        timeout: Duration,
    ) -> Self {
        let (leases, is_authorized) = (Leases::default(), AtomicBool::new(false));
        Self { agent, sessions, leases, origins, timeout, is_authorized }
    }

    pub(super) async fn respond(&self, request: Request<RequestBody>) -> Reply {
        let (head, mut body) = request.into_parts();
        let origins = Arc::clone(&self.origins.borrow());
        let mut reply = match self.serve(&head, &mut body, &origins).await {
            Ok(reply) => reply,
            Err(failure) => {
                // A client that waits for `100 Continue` sends no body.
                if !head.headers.contains_key(EXPECT) {
                    // A slow sender is disconnected.
                    let _ = timeout(self.timeout, discard(body)).await;
                }
                failure.into_reply()
            }
        };
        if let Some(origin) = checks::listed_origin(&head.headers, &origins) {
            allow_origin(&mut reply, origin.clone());
        }
        reply
    }

    /// Whether a request had the token, or none needs it.
    pub(super) fn is_authorized(&self) -> bool {
        self.is_authorized.load(Ordering::Relaxed)
    }

    fn authorize(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if let Access::Loopback(token) = &self.agent.access
            && !checks::token(headers).is_some_and(|given| token.is(given))
        {
            return Err(Refusal::Unauthorized);
        }
        self.is_authorized.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn serve(&self, head: &Parts, body: &mut RequestBody, origins: &[String]) -> Result<Reply, Failure> {
        let Parts { method, uri, headers, .. } = head;
        checks::check_sender(headers, uri, origins)?;
        // A browser asks without the token whether a page may send it.
        let is_preflight = *method == Method::OPTIONS
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
            && checks::listed_origin(headers, origins).is_some();
        if is_preflight {
            return Ok(preflight());
        }
        self.authorize(headers)?;
        let target = Target::of(uri).filter(|target| self.has(target)).ok_or(Refusal::UnknownPath)?;
        match (&target, method) {
            (Target::Health, &Method::GET | &Method::HEAD) => {
                Ok(whole(StatusCode::OK, [Bytes::from_static(b"{\"status\":\"ok\"}\n")]))
            }
            (Target::Metrics, &Method::GET | &Method::HEAD) => Ok(self.metrics(headers).await),
            (Target::Health | Target::Metrics, _) => Err(Refusal::Method { allowed: "GET, HEAD" }.into()),
            (_, &Method::POST) => self.receive(&target, headers, body).await,
            (_, &Method::GET) => self.listen(&target, headers),
            (_, &Method::DELETE) => {
                self.session_of(&target, headers)?.close();
                Ok(empty(StatusCode::NO_CONTENT))
            }
            _ => Err(Refusal::Method { allowed: "GET, POST, DELETE" }.into()),
        }
    }

    /// Whether the agent can see what a path names.
    fn has(&self, target: &Target) -> bool {
        if *target == Target::Metrics {
            return matches!(self.agent.access, Access::Loopback(_));
        }
        let Some(face) = target.face() else { return true };
        let is_own = self.agent.own_server.as_ref() == Some(face);
        !is_own && self.agent.view.borrow().servers.iter().any(|member| member.config.name == *face)
    }

    /// The metrics of the servers of the profile.
    async fn metrics(&self, headers: &HeaderMap) -> Reply {
        let Agent { view, figures, user, .. } = &self.agent;
        let (view, figures, profile) = (Arc::clone(&view.borrow()), figures.clone(), Arc::clone(&user.profile));
        figures.measure(&view).await;
        let format = Format::accepted(checks::accepted(headers));
        let written = spawn_blocking(move || metrics::encode(Scrape::of_profile(&profile, &view, &figures), format));
        text(format.content_type(), written.await.unwrap_or_default())
    }

    /// The definition of a tool that the agent can see.
    fn definition(&self, target: &Target, tool: &[u8]) -> Option<Bytes> {
        let part = ViewPart { face: target.face().cloned(), without: self.agent.own_server.clone() };
        let view = self.agent.view.borrow().part(&part);
        let route = view.catalog.route(ListKind::Tools, tool)?;
        let tools = &view.servers.get(route.server)?.lists[ListKind::Tools].items;
        tools.iter().find(|tool| tool.key == route.name).map(|tool| tool.json.clone())
    }

    fn owner(&self, target: &Target) -> Owner {
        let User { uid, profile, .. } = &*self.agent.user;
        let (profile, access) = (Arc::clone(profile), self.agent.access.clone());
        Owner { uid: *uid, profile, face: target.face().cloned(), access }
    }

    /// The legacy session of a request.
    fn session(&self, target: &Target, id: &str) -> Result<Arc<Hub>, Refusal> {
        let found = self.sessions.find(id, &self.owner(target));
        found.filter(|hub| !hub.is_over()).ok_or(Refusal::UnknownSession)
    }

    /// The legacy session of a GET or DELETE. Modern clients send only POST.
    fn session_of(&self, target: &Target, headers: &HeaderMap) -> Result<Arc<Hub>, Refusal> {
        let version = checks::version(headers)?;
        match checks::session_id(headers)? {
            Some(id) if version != Some(MODERN) => self.session(target, id),
            None if version.is_some_and(|version| version != MODERN) => Err(Refusal::NoSession),
            _ => Err(Refusal::Method { allowed: "POST" }),
        }
    }

    /// GET: a stream for messages that belong to no request, or the rest of a stream.
    fn listen(&self, target: &Target, headers: &HeaderMap) -> Result<Reply, Failure> {
        let hub = self.session_of(target, headers)?;
        checks::check_get(headers)?;
        let reader = match headers.get(LAST_EVENT_ID) {
            Some(last) => {
                let last = last.to_str().ok().and_then(EventId::parse);
                last.and_then(|EventId { stream, next }| hub.resume(stream, next)).ok_or(Refusal::UnknownEvent)?
            }
            None => hub.listen().ok_or_else(|| {
                let error = OverLimit::STREAMS.to_object(Delivery::NotSent);
                Failure::Error(StatusCode::TOO_MANY_REQUESTS, None, error)
            })?,
        };
        let is_primed = !headers.contains_key(LAST_EVENT_ID) && checks::version(headers)? >= Some(PRIMED_SINCE);
        Ok(events(EventStream::new(reader, None, is_primed)))
    }

    /// POST: a message of the agent.
    async fn receive(&self, target: &Target, headers: &HeaderMap, body: &mut RequestBody) -> Result<Reply, Failure> {
        checks::check_post(headers)?;
        let body = self.read(body).await;
        self.agent.account.hold(0);
        let received = parse(body?).await?;
        let version = checks::version(headers);
        if received.message.is_modern() == Ok(false) && received.message.is_initialize() {
            // Boxed, because it is rare.
            return Box::pin(self.initialize(target, received)).await;
        }
        let declares_modern = received.message.is_modern() != Ok(false);
        if declares_modern || version == Ok(Some(MODERN)) {
            return self.receive_modern(target, headers, received).await;
        }
        let id = received.message.answered_id().cloned();
        let version = version.map_err(|_| unsupported(id, headers))?;
        let session = checks::session_id(headers)?.ok_or(Refusal::NoSession)?;
        let reader = post(&self.session(target, session)?, received)?;
        let first = First::of(&reader).await;
        let form = Form { prefers_events: checks::prefers_events(headers), is_primed: version >= Some(PRIMED_SINCE) };
        Ok(begun(reader, first, form))
    }

    async fn receive_modern(&self, target: &Target, headers: &HeaderMap, received: Received) -> Result<Reply, Failure> {
        let Received { message, line } = received;
        let id = message.answered_id().cloned();
        if id.is_some() {
            check_headers(&line, headers, |tool| self.definition(target, tool)).map_err(|mismatch| {
                let error = ErrorObject::new(HEADER_MISMATCH, format!("Header mismatch: {mismatch}"));
                Failure::Error(StatusCode::BAD_REQUEST, id.clone(), error)
            })?;
        } else if let AgentMessage::Response { .. } = message {
            let error = ErrorObject::new(INVALID_REQUEST, "agents of this version send no responses");
            return Err(Failure::Error(StatusCode::BAD_REQUEST, None, error));
        }
        if checks::version(headers).is_err() {
            return Err(unsupported(id, headers));
        }
        let is_complete = message.is_modern() == Ok(true);
        let message = match target.face() {
            Some(server) => message.at_face(server),
            None => message,
        };
        let caller = Caller {
            origin: self.agent.origin().await,
            owner: Owner { face: None, ..self.owner(target) },
            directory: message.stated_directory(),
        };
        let posted = self.sessions.agents.post(&caller, &self.leases, message, line);
        let ended = |_| Failure::session_ended(id.clone(), Delivery::NotSent, false);
        let Some((reader, new)) = posted.map_err(ended)? else { return Ok(empty(StatusCode::ACCEPTED)) };
        if let Some(hub) = new {
            let transport = HttpTransport::of_agent(Arc::clone(&hub));
            self.open(transport, id.clone()).await.inspect_err(|_| hub.close())?;
        }
        let first = First::of(&reader).await;
        if let First::Message(Event { message: Message { parts, is_response: true }, .. }) = &first
            && let Some(code) = error_code(parts)
        {
            return Ok(whole(status_of(code, is_complete), parts.clone()));
        }
        let form = Form { prefers_events: checks::prefers_events(headers), is_primed: false };
        Ok(begun(reader, first, form))
    }

    /// Opens a legacy session.
    async fn initialize(&self, target: &Target, received: Received) -> Result<Reply, Failure> {
        let hub = Hub::new(true);
        let mut unknown = CloseOnDrop(Some(Arc::clone(&hub)));
        let (id, registration) = self.sessions.register(self.owner(target), &hub).map_err(|error| {
            let error = ErrorObject::of_mcpd(ErrorCode::Unavailable, error.to_string(), Delivery::NotSent);
            Failure::Error(StatusCode::SERVICE_UNAVAILABLE, None, error)
        })?;
        let transport = HttpTransport::of_session(Arc::clone(&hub), registration);
        self.open(transport, received.message.answered_id().cloned()).await?;
        if let Some(server) = target.face() {
            let line = reply::notification_with(USE_FACE, &json!({ "server": server }));
            let line = line.slice(..line.len() - 1);
            let message = AgentMessage::from(Incoming::of(line));
            drop(post(&hub, Received { message, line: Bytes::new() })?);
        }
        let reader = post(&hub, received)?;
        let first = First::of(&reader).await;
        let is_open = match &first {
            First::Message(Event { message, .. }) => !message.is_response || error_code(&message.parts).is_none(),
            First::Silence => true,
            First::End => false,
        };
        let mut reply = begun(reader, first, Form::default());
        if let Some(id) = HeaderValue::from_str(&id).ok().filter(|_| is_open) {
            reply.headers_mut().insert(SESSION_ID, id);
            unknown.0 = None;
        }
        Ok(reply)
    }

    /// Has the daemon run a session, for a request with this id.
    async fn open(&self, transport: HttpTransport, id: Option<Bytes>) -> Result<(), Failure> {
        let Agent { user, identity, own_server, protocol, .. } = &self.agent;
        let (user, identity, own_server, protocol) =
            (Arc::clone(user), identity.clone(), own_server.clone(), *protocol);
        let open = |answer| OpenSession { user, identity, own_server, protocol, transport, answer };
        let opened = self.sessions.open(open).await.ok_or_else(Failure::stopping)?;
        opened.map_err(|error| Failure::Error(StatusCode::SERVICE_UNAVAILABLE, id, error))
    }

    /// Reads a body, within the limit of a message.
    async fn read(&self, body: &mut RequestBody) -> Result<Bytes, Failure> {
        let Agent { limit, account, .. } = &self.agent;
        let too_large = |size: Option<usize>| {
            let error = ErrorObject::of_mcpd(
                ErrorCode::TooLarge,
                format!("the message {}", limit.excess(size)),
                Delivery::NotSent,
            );
            Failure::Error(StatusCode::PAYLOAD_TOO_LARGE, None, error)
        };
        let announced = body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if announced.is_some_and(|size| size > limit.bytes()) {
            return Err(too_large(announced));
        }
        let mut text = BytesMut::new();
        loop {
            let frame = timeout(self.timeout, body.frame()).await.map_err(|_| Refusal::Slow)?;
            let Some(frame) = frame else { return Ok(text.freeze()) };
            // The client is gone, or hyper refuses the coding of the body.
            let frame = frame.map_err(|error| {
                Failure::Error(StatusCode::BAD_REQUEST, None, ErrorObject::new(PARSE_ERROR, error.to_string()))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if text.len() + data.len() > limit.bytes() {
                return Err(too_large(None));
            }
            if text.is_empty() && announced == Some(data.len()) {
                // A part of a small one that is kept would keep the buffer of its connection.
                return Ok(if data.len() <= COPIED { Bytes::copy_from_slice(&data) } else { data });
            }
            if !has_memory(&text, data.len()) {
                return Err(too_large(announced));
            }
            text.extend_from_slice(&data);
            account.hold(text.len());
            if text.len() > ALLOWANCE {
                let pause = account.pause_in_line(data.len(), Instant::now());
                if !pause.is_zero() {
                    sleep(pause).await;
                }
            }
        }
    }
}

/// Reads the rest of a body, within [`MAX_DISCARDED`].
async fn discard(mut body: RequestBody) {
    let mut left = MAX_DISCARDED;
    while let Some(Ok(frame)) = body.frame().await {
        let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return };
        left = rest;
    }
}

/// Parses a body, a large one on another thread.
async fn parse(body: Bytes) -> Result<Received, Failure> {
    let parse = |body: Bytes| {
        let line = one_line(body);
        let (incoming, _) = Incoming::read(line.clone(), Sender::Agent);
        let message = match incoming {
            Incoming::Malformed(
                error @ (MessageError::NotJson | MessageError::Batch | MessageError::NotAMessage { .. }),
            ) => {
                return Err(malformed(error));
            }
            incoming => AgentMessage::from(incoming),
        };
        Ok(Received { message, line })
    };
    if body.len() <= INLINE {
        return parse(body);
    }
    let parsed = spawn_blocking(move || parse(body)).await;
    parsed.unwrap_or_else(|_| Err(malformed(MessageError::NotJson)))
}

fn post(hub: &Arc<Hub>, Received { message, line }: Received) -> Result<Reader, Failure> {
    let id = message.answered_id().cloned();
    hub.post(message, line).map_err(|error| match error {
        PostError::Ended => Refusal::UnknownSession.into(),
        PostError::IdInUse => {
            let error = ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered");
            Failure::Error(StatusCode::BAD_REQUEST, id, error)
        }
    })
}
