//! Streamable HTTP: one path for everything. Source: MCP 2025-11-25, `basic/transports`, "Streamable HTTP".

use std::sync::mpsc::channel;

use serde_json::Value;

use super::session::Session;
use super::{Answers, Sessions};
use crate::support::http::{Request, Response};
use crate::support::wait::WAIT_LIMIT;

const ID: &str = "mcp-session-id";

pub(super) fn answer(sessions: &Sessions, request: &Request) -> Response {
    match request.method.as_str() {
        "POST" => post(sessions, request),
        "GET" if sessions.behavior.has_stream => get(sessions, request),
        "DELETE" => delete(sessions, request),
        "GET" => Response::status(sessions.behavior.no_stream_status),
        _ => Response::status(405),
    }
}

/// The refusal of a message with wrong headers.
pub(super) fn refusal(request: &Request) -> Option<Response> {
    let accept = request.header("accept").unwrap_or_default();
    let accepts_both = accept.contains("application/json") && accept.contains("text/event-stream");
    match request.header("content-type") {
        _ if !accepts_both => Some(Response::status(406)),
        Some("application/json") => None,
        _ => Some(Response::status(415)),
    }
}

fn post(sessions: &Sessions, request: &Request) -> Response {
    if let Some(refusal) = refusal(request) {
        return refusal;
    }
    let message = request.json();
    if request.rpc() == "initialize" {
        let Some((id, session)) = sessions.open() else { return Response::disconnect() };
        let response = forward(sessions, &session, request, &message);
        return if sessions.behavior.has_sessions { response.header("mcp-session-id", &id) } else { response };
    }
    match find(sessions, request) {
        Ok((_, session)) => forward(sessions, &session, request, &message),
        Err(refusal) => refusal,
    }
}

/// Without ids there is one session, the latest.
fn find(sessions: &Sessions, request: &Request) -> Result<(String, std::sync::Arc<Session>), Response> {
    if !sessions.behavior.has_sessions {
        let alive = sessions.all().into_iter().filter(|(_, session)| !session.has_ended());
        return alive.last().ok_or_else(|| Response::status(400));
    }
    let id = request.header(ID).ok_or_else(|| Response::status(400))?;
    sessions.get(id).map(|session| (id.to_owned(), session)).ok_or_else(|| Response::status(404))
}

fn forward(sessions: &Sessions, session: &Session, request: &Request, message: &Value) -> Response {
    if message["method"].is_null() || message["id"].is_null() {
        session.write(&request.body);
        return Response::status(202);
    }
    if sessions.behavior.answers == Answers::Events {
        let (writer, response) = Response::events();
        session.routes().stream(message, writer);
        session.write(&request.body);
        return response;
    }
    // `None` if the server has exited.
    ask(session, request, message).map_or_else(Response::disconnect, |line| Response::body("application/json", line))
}

/// The whole answer to a request.
pub(super) fn ask(session: &Session, request: &Request, message: &Value) -> Option<String> {
    let (sender, answer) = channel();
    session.routes().wait(message, sender);
    session.write(&request.body);
    answer.recv_timeout(WAIT_LIMIT).ok()
}

fn get(sessions: &Sessions, request: &Request) -> Response {
    let session = match find(sessions, request) {
        Ok((_, session)) => session,
        Err(refusal) => return refusal,
    };
    let (writer, response) = Response::events();
    let mut routes = session.routes();
    match request.header("last-event-id").filter(|_| sessions.behavior.has_event_ids) {
        Some(event) if !routes.can_resume(event) => return Response::status(400),
        Some(event) => routes.resume(event, writer),
        None => routes.listen(writer),
    }
    response
}

fn delete(sessions: &Sessions, request: &Request) -> Response {
    match find(sessions, request) {
        Ok((id, _)) => {
            sessions.end(&id);
            Response::status(200)
        }
        Err(refusal) => refusal,
    }
}
