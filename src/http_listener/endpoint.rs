//! What becomes of each HTTP request of a connection.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ALLOW, CACHE_CONTROL,
    CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming as RequestBody};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::body::{EventId, EventStream, KEEP_ALIVE, ResponseBody};
use super::checks::{self, LAST_EVENT_ID, Refusal, SESSION_ID, Target};
use super::hub::{Event, Hub, Message, PostError, Reader};
use super::protocol::Protocol;
use super::sessions::{Access, OpenSession, Owner, Sessions};
use super::token::is_same;
use super::transport::HttpTransport;
use crate::account::{ALLOWANCE, Account, OverLimit};
use crate::era::request_meta::MetaError;
use crate::era::{HEADER_MISMATCH, MISSING_CAPABILITY, MODERN, UNSUPPORTED_VERSION};
use crate::jsonrpc::MessageError;
use crate::jsonrpc::error_in;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::members::members;
use crate::jsonrpc::normalise::Sender;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR};
use crate::list_kind::ListKind;
use crate::manager::{View, ViewPart};
use crate::message_limit::{MessageLimit, has_memory};
use crate::methods::USE_FACE;
use crate::server::User;
use crate::session::{AgentMessage, PeerIdentity, SessionSetup};
use crate::transport::http::{check_headers, one_line};
use crate::transport::{INLINE, Incoming};

/// The newest version whose clients misread an event without data. Source: MCP 2025-11-25, `basic/transports`.
const PRIMED_SINCE: &str = "2025-11-25";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The headers that a page may send: any, because tools require headers of their own. `*` does not include `Authorization`.
const PAGE_HEADERS: &str = "authorization, *";

/// Bodies up to this size are copied out of the buffer of their connection, in bytes.
const COPIED: usize = 4 << 10;

type Reply = Response<ResponseBody>;

/// Who sends the requests of a connection.
pub(super) struct Agent {
    pub(super) user: Arc<User>,
    pub(super) identity: PeerIdentity,
    /// The server that has started the agent, if one has.
    pub(super) own_server: Option<Arc<str>>,
    /// The view of the profile.
    pub(super) view: watch::Receiver<Arc<View>>,
    pub(super) account: Arc<Account>,
    pub(super) limit: MessageLimit,
    pub(super) access: Access,
}

impl Agent {
    /// The agent of a session that is started with `setup`.
    pub(super) fn of(setup: &SessionSetup, access: Access) -> Self {
        Self {
            user: Arc::clone(&setup.user),
            identity: setup.identity.clone(),
            own_server: setup.own_server.clone(),
            view: setup.view.clone(),
            account: Arc::clone(&setup.account),
            limit: setup.message_limit.clone(),
            access,
        }
    }
}

/// Answers the requests of one connection.
pub(super) struct Endpoint {
    pub(super) agent: Agent,
    pub(super) sessions: Sessions,
    /// The origins whose pages may send requests.
    pub(super) origins: Arc<[String]>,
    /// How long a client may pause within a body.
    pub(super) timeout: Duration,
    /// Of the session of this connection, for modern requests.
    pub(super) hub: Arc<Hub>,
    /// A request had the token.
    pub(super) is_authorized: AtomicBool,
}

/// Why a request gets an error.
enum Failure {
    Refused(Refusal),
    /// With the id of the request, if it was read.
    Error(StatusCode, Option<Bytes>, ErrorObject),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Failure {
    fn stopping() -> Self {
        let error = ErrorObject::of_mcpd(ErrorCode::ShuttingDown, "mcpd is being stopped", Delivery::NotSent);
        Self::Error(StatusCode::SERVICE_UNAVAILABLE, None, error.by_stopping_daemon())
    }

    fn into_reply(self) -> Reply {
        let (status, id, error) = match self {
            Self::Refused(refusal) => (refusal.status(), None, ErrorObject::new(INVALID_REQUEST, refusal.to_string())),
            Self::Error(status, id, error) => (status, id, error),
        };
        let mut reply = whole(status, [reply::error(id.as_deref(), &error)]);
        let headers = reply.headers_mut();
        match status {
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        reply
    }
}

/// What a stream begins with.
enum First {
    Message(Event),
    /// It has ended without a message.
    End,
    /// There was none for [`KEEP_ALIVE`].
    Silence,
}

/// A message of the agent, and what was read of it besides.
struct Received {
    message: AgentMessage,
    line: Bytes,
}

impl Endpoint {
    pub(super) async fn respond(&self, request: Request<RequestBody>) -> Reply {
        let origin = checks::listed_origin(request.headers(), &self.origins).cloned();
        let mut reply = self.serve(request).await.unwrap_or_else(Failure::into_reply);
        if let Some(origin) = origin {
            let headers = reply.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("mcp-session-id"));
            headers.insert(VARY, HeaderValue::from_static("origin"));
        }
        reply
    }

    /// Whether a request had the token, or none needs it.
    pub(super) fn is_authorized(&self) -> bool {
        self.is_authorized.load(Ordering::Relaxed)
    }

    fn authorize(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if let Access::Loopback(token) = &self.agent.access
            && !checks::token(headers).is_some_and(|given| is_same(given, token))
        {
            return Err(Refusal::Unauthorized);
        }
        self.is_authorized.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn serve(&self, request: Request<RequestBody>) -> Result<Reply, Failure> {
        checks::check_sender(request.headers(), request.uri(), &self.origins)?;
        // A browser asks without the token whether a page may send it.
        let is_preflight = request.method() == Method::OPTIONS
            && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
            && checks::listed_origin(request.headers(), &self.origins).is_some();
        if is_preflight {
            return Ok(preflight());
        }
        self.authorize(request.headers())?;
        let target = Target::of(request.uri()).filter(|target| self.has(target)).ok_or(Refusal::UnknownPath)?;
        match (target, request.method()) {
            (Target::Health, &Method::GET | &Method::HEAD) => {
                Ok(whole(StatusCode::OK, [Bytes::from_static(b"{\"status\":\"ok\"}\n")]))
            }
            (Target::Health, _) => Err(Refusal::Method.into()),
            (target, &Method::POST) => self.receive(&target, request).await,
            (target, &Method::GET) => self.listen(&target, request.headers()),
            (target, &Method::DELETE) => self.end_session(&target, request.headers()),
            _ => Err(Refusal::Method.into()),
        }
    }

    /// Whether the agent can see what a path names.
    fn has(&self, target: &Target) -> bool {
        let Some(face) = target.face() else { return true };
        let is_own = self.agent.own_server.as_ref() == Some(face);
        !is_own && self.agent.view.borrow().servers.iter().any(|member| member.config.name == *face)
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

    /// GET: a stream for messages that belong to no request, or the rest of a stream.
    fn listen(&self, target: &Target, headers: &HeaderMap) -> Result<Reply, Failure> {
        let version = checks::version(headers)?;
        let id = checks::session_id(headers)?.filter(|_| version != Some(MODERN)).ok_or(Refusal::Method)?;
        checks::check_get(headers)?;
        let hub = self.session(target, id)?;
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
        let is_primed = !headers.contains_key(LAST_EVENT_ID) && version >= Some(PRIMED_SINCE);
        Ok(events(EventStream::new(reader, None, is_primed)))
    }

    /// DELETE
    fn end_session(&self, target: &Target, headers: &HeaderMap) -> Result<Reply, Failure> {
        let version = checks::version(headers)?;
        let id = checks::session_id(headers)?.filter(|_| version != Some(MODERN)).ok_or(Refusal::Method)?;
        self.session(target, id)?.close();
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// POST: a message of the agent.
    async fn receive(&self, target: &Target, request: Request<RequestBody>) -> Result<Reply, Failure> {
        checks::check_post(request.headers())?;
        let (head, body) = request.into_parts();
        let body = self.read(body).await;
        self.agent.account.hold(self.hub.receiving(0));
        let received = parse(body?).await?;
        let version = checks::version(&head.headers);
        if received.message.is_modern() == Ok(false) && received.message.is_initialize() {
            // Boxed, because it is rare.
            return Box::pin(self.initialize(target, received)).await;
        }
        let declares_modern = received.message.is_modern() != Ok(false);
        if declares_modern || version == Ok(Some(MODERN)) {
            return self.receive_modern(target, &head.headers, received).await;
        }
        let id = received.message.answered_id().cloned();
        let version = version.map_err(|_| unsupported(id, &head.headers))?;
        let session = checks::session_id(&head.headers)?.ok_or(Refusal::NoSession)?;
        let reader = post(&self.session(target, session)?, received)?;
        let first = first(&reader).await;
        let form =
            Form { prefers_events: checks::prefers_events(&head.headers), is_primed: version >= Some(PRIMED_SINCE) };
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
        let reader = post(&self.hub, Received { message, line })?;
        let first = first(&reader).await;
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
        let (id, registration) = self.sessions.register(self.owner(target), &hub).map_err(|_| Failure::stopping())?;
        let transport = HttpTransport::of_session(Arc::clone(&hub), registration);
        let Agent { user, identity, own_server, .. } = &self.agent;
        let (user, identity, own_server) = (Arc::clone(user), identity.clone(), own_server.clone());
        let protocol = match self.agent.access {
            Access::Socket => Protocol::Http,
            Access::Loopback(_) => Protocol::Loopback,
        };
        let open = |answer| OpenSession { user, identity, own_server, protocol, transport, answer };
        let opened = self.sessions.open(open).await;
        opened.ok_or_else(Failure::stopping)?.map_err(|error| {
            Failure::Error(StatusCode::SERVICE_UNAVAILABLE, received.message.answered_id().cloned(), error)
        })?;
        if let Some(server) = target.face() {
            let line = reply::notification_with(USE_FACE, &json!({ "server": server }));
            let line = line.slice(..line.len() - 1);
            let message = AgentMessage::from(Incoming::of(line.clone()));
            drop(post(&hub, Received { message, line })?);
        }
        let reader = post(&hub, received)?;
        let first = first(&reader).await;
        let is_refused = match &first {
            First::Message(Event { message, .. }) => message.is_response && error_code(&message.parts).is_some(),
            First::End | First::Silence => false,
        };
        if is_refused {
            hub.close();
        }
        let mut reply = begun(reader, first, Form::default());
        if let Some(id) = HeaderValue::from_str(&id).ok().filter(|_| !is_refused) {
            reply.headers_mut().insert(SESSION_ID, id);
        }
        Ok(reply)
    }

    /// Reads a body, within the limit of a message.
    async fn read(&self, mut body: RequestBody) -> Result<Bytes, Failure> {
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
            account.hold(self.hub.receiving(text.len()));
            if text.len() > ALLOWANCE {
                let pause = account.pause_in_line(data.len(), Instant::now());
                if !pause.is_zero() {
                    sleep(pause).await;
                }
            }
        }
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
    let parsed = tokio::task::spawn_blocking(move || parse(body)).await;
    parsed.unwrap_or_else(|_| Err(malformed(MessageError::NotJson)))
}

fn malformed(error: MessageError) -> Failure {
    let (code, why, id) = match error {
        MessageError::NotJson => (PARSE_ERROR, "not JSON", None),
        MessageError::Batch => (INVALID_REQUEST, "batches are not supported", None),
        MessageError::NotAMessage { id } => (INVALID_REQUEST, "not a JSON-RPC 2.0 message", id),
        MessageError::BadResponse { .. } | MessageError::StrayResponse { .. } => {
            (INVALID_REQUEST, "no valid response", None)
        }
    };
    Failure::Error(StatusCode::BAD_REQUEST, id, ErrorObject::new(code, why))
}

fn unsupported(id: Option<Bytes>, headers: &HeaderMap) -> Failure {
    let requested = headers.get(checks::VERSION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let requested = requested.map(|version| crate::printable::excerpt(&version, 64)).unwrap_or_default();
    Failure::Error(StatusCode::BAD_REQUEST, id, MetaError::Version(requested).to_object())
}

fn post(hub: &Arc<Hub>, Received { message, line }: Received) -> Result<Reader, Failure> {
    let id = message.answered_id().cloned();
    hub.post(message, line.len()).map_err(|error| match error {
        PostError::Ended => Refusal::UnknownSession.into(),
        PostError::IdInUse => {
            let error = ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered");
            Failure::Error(StatusCode::BAD_REQUEST, id, error)
        }
    })
}

async fn first(reader: &Reader) -> First {
    match timeout(KEEP_ALIVE, poll_fn(|cx| reader.poll_next(cx))).await {
        Ok(Some(event)) => First::Message(event),
        Ok(None) => First::End,
        Err(_) => First::Silence,
    }
}

/// The form of a response that a client can read.
#[derive(Clone, Copy, Default)]
struct Form {
    /// As an event stream, even if nothing precedes the response.
    prefers_events: bool,
    /// An event without data may come first.
    is_primed: bool,
}

/// The response to a message: one message of JSON, or an event stream if something precedes the response.
fn begun(reader: Reader, first: First, Form { prefers_events, is_primed }: Form) -> Reply {
    match first {
        First::Message(Event { message: Message { parts, is_response: true }, .. }) if !prefers_events => {
            whole(StatusCode::OK, parts)
        }
        First::Message(event) => events(EventStream::new(reader, Some(event), is_primed)),
        First::Silence => events(EventStream::new(reader, None, is_primed)),
        First::End if reader.has_lost_session() => Failure::stopping().into_reply(),
        First::End if reader.is_of_request() => events(EventStream::new(reader, None, false)),
        First::End => empty(StatusCode::ACCEPTED),
    }
}

/// The code of an error response.
fn error_code(parts: &[Bytes]) -> Option<i32> {
    let [line] = parts else { return None };
    memchr::memmem::find(line, b"\"error\"")?;
    let [code] = members(&error_in(line)?, ["code"]).ok()?;
    str::from_utf8(&code?).ok()?.parse().ok()
}

/// The status of an error of the modern era. Source: MCP 2026-07-28, `basic/transports/streamable-http`.
fn status_of(code: i32, is_complete: bool) -> StatusCode {
    match code {
        HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION | INVALID_REQUEST | PARSE_ERROR => {
            StatusCode::BAD_REQUEST
        }
        INVALID_PARAMS if !is_complete => StatusCode::BAD_REQUEST,
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// What pages of listed origins may send.
fn preflight() -> Reply {
    let mut reply = empty(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(PAGE_HEADERS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    reply
}

fn with_body(status: StatusCode, body: ResponseBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply
}

fn empty(status: StatusCode) -> Reply {
    with_body(status, ResponseBody::empty())
}

fn whole(status: StatusCode, parts: impl IntoIterator<Item = Bytes>) -> Reply {
    let mut reply = with_body(status, ResponseBody::whole(parts));
    reply.headers_mut().insert(CONTENT_TYPE, JSON);
    reply
}

fn events(stream: Box<EventStream>) -> Reply {
    let mut reply = with_body(StatusCode::OK, ResponseBody::Events(stream));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, EVENTS);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    reply
}
