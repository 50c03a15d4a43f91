//! Method by method: everything an agent can ask, on one page.
//!
//! Source: MCP 2025-11-25, `basic/lifecycle`, `basic/utilities`, `server/tools`.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::asked::Asked;
use super::in_flight::InFlight;
use super::{Introduction, Session, UNANSWERED_MESSAGES};
use crate::calls::{Caller, Moment, Outcome};
use crate::catalog::Route;
use crate::era;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR};
use crate::jsonrpc::{Malformed, Message};
use crate::peer;
use crate::server::call::{Call, CallKey, Cancellation, MAX_PER_SESSION, Reply};
use crate::transport::Incoming;

/// Most characters of what an agent calls itself.
const LONGEST_CLIENT: usize = 100;

/// A request that waits for the first lists.
pub(super) enum Deferred {
    List { id: Bytes },
    Call(Asked),
}

impl Deferred {
    fn id(&self) -> &Bytes {
        match self {
            Self::List { id } | Self::Call(Asked { id, .. }) => id,
        }
    }
}

impl Session {
    pub(super) async fn take(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Message { line, message: Message::Request { id, method, params } } => {
                self.request(line, id, &method, params.as_ref());
                self.send_delayed().await;
            }
            Incoming::Message { line, message: Message::Notification { method, params } } => match &method[..] {
                b"notifications/initialized" => {
                    self.initialized = self.setup.facts.introduction.get().is_some();
                    self.tell_of_changes();
                }
                b"notifications/cancelled" => self.cancelled(line, params).await,
                _ => {}
            },
            // Nothing is asked of agents yet, so no response can be one of ours.
            Incoming::Message { message: Message::Response { .. }, .. }
            | Incoming::Malformed(Malformed::BadResponse { .. }) => {}
            Incoming::Malformed(Malformed::NotJson) => self.refuse(None, PARSE_ERROR, "not JSON"),
            Incoming::Malformed(Malformed::Batch) => self.refuse(None, INVALID_REQUEST, "batches are not supported"),
            Incoming::Malformed(Malformed::NotAMessage { id }) => {
                self.refuse(id.as_ref(), INVALID_REQUEST, "not a JSON-RPC 2.0 message");
            }
            Incoming::TooLarge { id, .. } => {
                let message = format!("the message is over the cap of {} bytes", self.setup.max_message);
                self.fail(id.as_ref(), ErrorObject { data: not_sent(), ..ErrorObject::new(-31006, message) });
            }
        }
    }

    fn request(&mut self, line: Bytes, id: Bytes, method: &Bytes, params: Option<&Bytes>) {
        if self.calls.contains_key(&id) || self.deferred.iter().any(|waiting| *waiting.id() == id) {
            return self.refuse(Some(&id), INVALID_REQUEST, "a request with this id is unanswered");
        }
        let introduced = self.setup.facts.introduction.get().is_some();
        match &method[..] {
            b"initialize" if introduced => self.refuse(Some(&id), INVALID_REQUEST, "already initialized"),
            b"initialize" => self.initialize(&id, params),
            b"ping" => self.answer(&id, b"{}"),
            b"tools/list" | b"tools/call" if !introduced => {
                self.refuse(Some(&id), INVALID_REQUEST, "not initialized: send `initialize` first");
            }
            b"tools/list" => self.list(id, params),
            b"tools/call" => self.call(line, id, params),
            // `server/discover` among them: an instant refusal is what lets a client of both eras go on at once.
            _ => {
                let message = format!("unknown method: {}", String::from_utf8_lossy(method));
                self.refuse(Some(&id), METHOD_NOT_FOUND, message);
            }
        }
    }

    fn initialize(&mut self, id: &Bytes, params: Option<&Bytes>) {
        let asked = params.and_then(|params| members(params, ["protocolVersion", "clientInfo", "_meta"]).ok());
        let Some([Some(version), client, meta]) = asked else {
            return self.refuse(Some(id), INVALID_PARAMS, "`protocolVersion` is missing");
        };
        let Some(version) = text(&version) else {
            return self.refuse(Some(id), INVALID_PARAMS, "`protocolVersion` is not a string");
        };
        let protocol = era::negotiate(&String::from_utf8_lossy(&version));
        let client = client.and_then(|info| peer::software(&info, LONGEST_CLIENT));
        self.caller = Arc::new(Caller { client: client.clone(), ..Caller::clone(&self.caller) });
        let introduction = Introduction { client, protocol };
        // The only task that sets it, and only once.
        let _ = self.setup.facts.introduction.set(introduction);
        if let Some(cwd) = meta.as_ref().and_then(said_cwd) {
            self.setup.cwd = Some(cwd);
        }
        self.attach();
        let result = json!({
            "protocolVersion": protocol,
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "mcpd", "version": env!("CARGO_PKG_VERSION") },
        });
        self.answer(id, result.to_string().as_bytes());
    }

    fn list(&mut self, id: Bytes, params: Option<&Bytes>) {
        let cursor = params.map(|params| members(params, ["cursor"]));
        match cursor {
            Some(Err(_)) => self.refuse(Some(&id), INVALID_PARAMS, "`params` is not an object"),
            Some(Ok([Some(cursor)])) if cursor[..] != b"null"[..] => {
                self.refuse(Some(&id), INVALID_PARAMS, "unknown cursor: the list has one page");
            }
            _ => self.route(Deferred::List { id }),
        }
    }

    fn call(&mut self, line: Bytes, id: Bytes, params: Option<&Bytes>) {
        match Asked::read(line, &id, params, Moment::now()) {
            Ok(asked) => self.route(Deferred::Call(asked)),
            Err(wrong) => self.refuse(Some(&id), INVALID_PARAMS, wrong),
        }
    }

    /// Answers or forwards a request, or has it wait while first lists may still bring what it asks for.
    fn route(&mut self, request: Deferred) {
        let view = self.setup.view.borrow().clone();
        let settled = view.settled && self.attachments.have_listed();
        match request {
            Deferred::List { id } if settled => {
                self.told = Some(view.version);
                // In three parts, so that a long list is shared by all who wait for it rather than copied for each.
                for part in reply::result_in_parts(&id, view.catalog.list()) {
                    self.outbox.push(part);
                }
            }
            Deferred::Call(asked) if view.catalog.route(&asked.name).is_some() || settled => {
                match view.catalog.route(&asked.name) {
                    Some(route) => self.forward(asked, route, &view),
                    None => self.unknown_tool(&asked),
                }
            }
            _ if self.is_full() => self.end_deferred(&request, &overloaded(TOO_MANY), Outcome::Overloaded),
            _ if self.deferred_bytes() > self.setup.max_message => {
                self.end_deferred(&request, &overloaded(TOO_LARGE), Outcome::Overloaded);
            }
            waiting => self.deferred.push(waiting),
        }
    }

    fn forward(&mut self, asked: Asked, route: &Route, view: &crate::manager::View) {
        let Some(member) = view.servers.get(route.server) else { return self.unknown_tool(&asked) };
        let server = &member.handle;
        let account = self.note(&asked, member, route);
        let is_large = self.calls.bytes() + asked.line.len() > UNANSWERED_MESSAGES * self.setup.max_message;
        if self.is_full() || is_large {
            let line = reply::error(Some(&asked.id), &overloaded(if is_large { TOO_LARGE } else { TOO_MANY }));
            self.tell(account, server, Outcome::Overloaded, line.len());
            self.outbox.push(line);
            return;
        }
        self.serial += 1;
        self.setup.facts.calls.add_one();
        let key = CallKey { session: self.setup.number, serial: self.serial };
        let reply = Reply::new(key, &asked.id, server.name(), &self.reply);
        let id = reply.id().clone();
        let call = Box::new(Call {
            line: asked.line,
            id: asked.id,
            rename: Some((asked.raw_name, route.raw_name.clone())),
            progress_token: asked.progress_token,
            limit: route.limit,
            reply,
        });
        self.delayed = account.within(|| server.try_call(call)).map(|call| (server.clone(), call));
        self.calls.insert(id, InFlight { key, server: server.clone(), account });
    }

    /// The same bytes for a name that is denied as for one that never was.
    fn unknown_tool(&mut self, asked: &Asked) {
        let message = format!("Unknown tool: {}", String::from_utf8_lossy(&asked.name));
        let error = ErrorObject::new(INVALID_PARAMS, message);
        self.end_unrouted(asked, &error, Outcome::UnknownTool);
    }

    pub(super) async fn retry_deferred(&mut self) {
        for request in std::mem::take(&mut self.deferred) {
            self.route(request);
            self.send_delayed().await;
        }
    }

    /// Has the agent wait for a server's task rather than refusing what it asks in a burst.
    async fn send_delayed(&mut self) {
        if let Some((server, call)) = self.delayed.take() {
            server.call(call).await;
        }
    }

    pub(super) fn refuse_deferred(&mut self) {
        for request in std::mem::take(&mut self.deferred) {
            let error = ErrorObject { data: not_sent(), ..ErrorObject::new(-31005, "mcpd is being stopped") };
            self.end_deferred(&request, &error, Outcome::ShuttingDown);
        }
    }

    async fn cancelled(&mut self, line: Bytes, params: Option<Bytes>) {
        let Some(Ok([Some(id)])) = params.map(|params| members(&params, ["requestId"])) else { return };
        self.drop_deferred(|waiting| *waiting.id() == id);
        if let Some(InFlight { key, server, account }) = self.calls.remove(&id) {
            self.tell(account, &server, Outcome::Cancelled, 0);
            server.cancel(key, Some(Cancellation { line, request: id })).await;
        }
    }

    fn is_full(&self) -> bool {
        self.calls.len() + self.deferred.len() >= MAX_PER_SESSION
    }

    fn deferred_bytes(&self) -> usize {
        let bytes = |waiting: &Deferred| match waiting {
            Deferred::List { id } => id.len(),
            Deferred::Call(asked) => asked.line.len(),
        };
        self.deferred.iter().map(bytes).sum()
    }

    fn answer(&mut self, id: &Bytes, result: &[u8]) {
        self.outbox.push(reply::result(id, result));
    }

    fn refuse(&mut self, id: Option<&Bytes>, code: i32, message: impl Into<String>) {
        self.fail(id, ErrorObject::new(code, message));
    }

    fn fail(&mut self, id: Option<&Bytes>, error: ErrorObject) {
        self.outbox.push(reply::error(id.map(|id| &id[..]), &error));
    }
}

/// The working directory that an agent says it has, when the kernel cannot know: one in a container, say.
fn said_cwd(meta: &Bytes) -> Option<Arc<str>> {
    let [cwd] = members(meta, ["mcpd/cwd"]).ok()?;
    let cwd = text(&cwd?)?;
    let cwd = std::str::from_utf8(&cwd).ok()?;
    (Path::new(cwd).is_absolute() && !cwd.contains('\0')).then(|| cwd.into())
}

const TOO_MANY: &str = "this connection has too many unanswered requests";
const TOO_LARGE: &str = "the unanswered requests of this connection are too large together";

fn overloaded(what: &str) -> ErrorObject {
    ErrorObject { data: not_sent(), ..ErrorObject::new(-31003, what) }
}

fn not_sent() -> Option<serde_json::Value> {
    Some(json!({ "outcome": "not_sent" }))
}
