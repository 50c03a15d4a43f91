//! The scripted server behind HTTP. Each session has a child process.
//!
//! `streamable` (2025-03-26 to 2025-11-25) · `stateless` (2026-07-28) · `old` (HTTP+SSE of 2024-11-05) → `session` (a child and its
//! streams) → `routes` (the stream for each line) → `streams` (events, retained for resumption).

mod old;
mod routes;
mod session;
mod stateless;
mod streamable;
mod streams;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use self::session::{Launch, Session};
use super::locked::Lock;
use super::message::{Request, Response};
use super::server::HttpServer;
use crate::support::config::{Server, journal};
use crate::support::place::{Place, SCRIPTED, STRANGER, TAG};

/// How requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// By one JSON object each.
    Json,
    /// By a stream of events each.
    Events,
    /// On the one stream of HTTP+SSE.
    Old,
}

/// Behaviour of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behavior {
    pub(crate) answers: Answers,
    /// Stateless, with one child for all requests.
    pub(crate) is_stateless: bool,
    /// Stateless for modern requests, with sessions for all others.
    pub(crate) is_dual: bool,
    /// Issues and requires session ids.
    pub(crate) has_sessions: bool,
    /// Sends event ids and supports resumption.
    pub(crate) has_event_ids: bool,
    /// Supports the GET stream for messages outside a request.
    pub(crate) has_stream: bool,
    /// The status of a GET without stream support.
    pub(crate) no_stream_status: u16,
    /// `retry` of event streams in milliseconds.
    pub(crate) retry: Option<u64>,
}

impl Default for Behavior {
    fn default() -> Self {
        Self {
            answers: Answers::Events,
            is_stateless: false,
            is_dual: false,
            has_sessions: true,
            has_event_ids: true,
            has_stream: true,
            no_stream_status: 405,
            retry: None,
        }
    }
}

impl Behavior {
    pub(crate) fn json() -> Self {
        Self { answers: Answers::Json, ..Self::default() }
    }

    /// Modern. The scripted server's flags must agree.
    pub(crate) fn stateless(answers: Answers) -> Self {
        Self { answers, is_stateless: true, has_sessions: false, has_event_ids: false, ..Self::default() }
    }

    /// Both eras. The scripted server's flags must agree.
    pub(crate) fn dual() -> Self {
        Self { is_dual: true, ..Self::default() }
    }

    pub(crate) fn old() -> Self {
        Self { answers: Answers::Old, ..Self::default() }
    }
}

/// The server. Dropping it ends every child.
pub(crate) struct Front {
    name: String,
    http: HttpServer,
    sessions: Arc<Sessions>,
}

/// Answers a request instead of the server, or returns `None`.
type Interceptor = dyn Fn(&Request) -> Option<Response> + Send + Sync;

struct Sessions {
    launch: Launch,
    behavior: Behavior,
    /// `None` after the front is dropped, when no child may start.
    all: Lock<Option<HashMap<String, Arc<Session>>>>,
    intercept: Lock<Option<Arc<Interceptor>>>,
}

impl Front {
    /// Serves a scripted server with these flags, split at white space. It keeps its journal as `name`.
    pub(crate) fn start(place: &Rc<Place>, name: &str, flags: &str, behavior: Behavior) -> Self {
        Self::start_at("127.0.0.1:0".parse().expect("an address"), place, name, flags, behavior)
    }

    /// Serves at the address of an earlier server.
    pub(crate) fn start_at(
        address: SocketAddr,
        place: &Rc<Place>,
        name: &str,
        flags: &str,
        behavior: Behavior,
    ) -> Self {
        let environment = place.command(SCRIPTED);
        let variables = environment.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let variables = variables.filter(|(name, _)| name != TAG).chain([(TAG.into(), STRANGER.into())]).collect();
        let mut args: Vec<_> = flags.split_whitespace().map(Into::into).collect();
        args.extend(["--journal".into(), journal(place, name).into_os_string()]);
        let launch = Launch { variables, args, directory: place.path("") };
        let all = Lock::new(Some(HashMap::new()));
        let sessions = Arc::new(Sessions { launch, behavior, all, intercept: Lock::default() });
        let http = HttpServer::start_at(address, {
            let sessions = Arc::clone(&sessions);
            move |request| sessions.answer(request)
        });
        Self { name: name.into(), http, sessions }
    }

    /// The table of the configuration.
    pub(crate) fn server(&self) -> Server {
        Server::at(&self.name, &self.url())
    }

    pub(crate) fn url(&self) -> String {
        self.http.url(if self.sessions.behavior.answers == Answers::Old { "/sse" } else { "/mcp" })
    }

    /// The HTTP server with its recorded requests.
    pub(crate) fn http(&self) -> &HttpServer {
        &self.http
    }

    /// From now on this handler answers first.
    pub(crate) fn intercept(&self, intercept: impl Fn(&Request) -> Option<Response> + Send + Sync + 'static) {
        *self.sessions.intercept.lock() = Some(Arc::new(intercept));
    }

    /// From now on this handler answers calls of this tool, by request id.
    pub(crate) fn answer_tool(&self, tool: &'static str, answer: impl Fn(&Value) -> Response + Send + Sync + 'static) {
        self.intercept(move |request| is_call(request, tool).then(|| answer(&request.json()["id"])));
    }

    /// The number of calls of this tool.
    pub(crate) fn calls(&self, tool: &str) -> usize {
        self.http.count(|request| is_call(request, tool))
    }

    /// From now on the server answers everything itself.
    pub(crate) fn stop_intercepting(&self) {
        *self.sessions.intercept.lock() = None;
    }

    /// The number of sessions.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.all().len()
    }

    /// Ends all sessions, like a restart of the server. Their ids become invalid.
    pub(crate) fn forget_sessions(&self) {
        self.forget_sessions_but("");
    }

    /// Ends all sessions except one.
    pub(crate) fn forget_sessions_but(&self, except: &str) {
        let all = self.sessions.all();
        all.iter().filter(|(id, _)| id != except).for_each(|(id, _)| self.sessions.end(id));
    }

    /// Cuts every open event stream. Its events are retained.
    pub(crate) fn cut_streams(&self) {
        self.sessions.all().iter().for_each(|(_, session)| session.routes().cut());
    }

    /// Ends every open event stream in order.
    pub(crate) fn end_streams(&self) {
        self.sessions.all().iter().for_each(|(_, session)| session.routes().end_streams());
    }

    /// Sends this message on the stream for messages outside a request.
    pub(crate) fn notify(&self, message: &str) {
        self.sessions.all().iter().for_each(|(_, session)| session.routes().take(message));
    }

    /// The number of open streams for messages outside a request.
    pub(crate) fn stream_listeners(&self) -> usize {
        self.sessions.all().iter().filter(|(_, session)| session.routes().has_listener()).count()
    }
}

fn is_call(request: &Request, tool: &str) -> bool {
    request.rpc() == "tools/call" && request.json()["params"]["name"] == tool
}

impl Drop for Front {
    fn drop(&mut self) {
        let all = self.sessions.all.lock().take().unwrap_or_default();
        all.into_values().for_each(|session| session.end());
    }
}

impl Sessions {
    fn answer(&self, request: &Request) -> Response {
        let intercept = self.intercept.lock().clone();
        match intercept.and_then(|intercept| intercept(request)) {
            Some(response) => response,
            None if self.behavior.answers == Answers::Old => old::answer(self, request),
            None if self.behavior.is_stateless || (self.behavior.is_dual && stateless::claims(request)) => {
                stateless::answer(self, request)
            }
            None => streamable::answer(self, request),
        }
    }

    fn all(&self) -> Vec<(String, Arc<Session>)> {
        let own = |(id, session): (&String, &Arc<Session>)| (id.clone(), Arc::clone(session));
        let all: Vec<_> = self.all.lock().iter().flatten().map(own).collect();
        // An HTTP+SSE session ends with its stream.
        let is_old = self.behavior.answers == Answers::Old;
        let (left, there): (Vec<_>, _) =
            all.into_iter().partition(|(_, session)| is_old && session.routes().is_closed());
        left.iter().for_each(|(id, _)| self.end(id));
        there
    }

    fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.all.lock().as_ref()?.get(id).filter(|session| !session.has_ended()).cloned()
    }

    /// A session with a new child; `None` at the end of the test.
    fn open(&self) -> Option<(String, Arc<Session>)> {
        self.open_as(format!("{:016x}", fastrand::u64(..)), self.behavior)
    }

    fn open_as(&self, id: String, behavior: Behavior) -> Option<(String, Arc<Session>)> {
        let session = Session::start(&self.launch, behavior);
        match &mut *self.all.lock() {
            Some(all) => all.insert(id.clone(), Arc::clone(&session)),
            None => {
                session.end();
                return None;
            }
        };
        Some((id, session))
    }

    fn end(&self, id: &str) {
        let ended = self.all.lock().as_mut().and_then(|all| all.remove(id));
        ended.into_iter().for_each(|session| session.end());
    }
}
