//! Streamable HTTP of the modern era: each request by itself. Source: MCP 2026-07-28, `basic/transports/streamable-http`.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::session::Session;
use super::{Answers, Behavior, Sessions, streamable};
use crate::support::http::{Request, Response};

/// Interval of checks whether the client still waits.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The name of the child that serves all stateless requests.
const SHARED: &str = "stateless";

/// Whether a request is modern.
pub(super) fn claims(request: &Request) -> bool {
    request.header("mcp-method").is_some()
}

pub(super) fn answer(sessions: &Sessions, request: &Request) -> Response {
    if request.method != "POST" {
        return Response::status(405);
    }
    if let Some(refusal) = streamable::refusal(request) {
        return refusal;
    }
    let message = request.json();
    let is_legacy = request.header("mcp-session-id").is_some() || request.rpc() == "initialize";
    if !is_legacy && (message["method"].is_null() || message["id"].is_null()) {
        return Response::unexpected();
    }
    if let Some(what) = mismatch(request, &message) {
        let error = json!({"code": -32020, "message": format!("Header mismatch: {what}")});
        return Response::json(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).with_status(400);
    }
    let Some(session) = only(sessions) else { return Response::disconnect() };
    match sessions.behavior.answers {
        Answers::Events => stream(&session, request, &message),
        // Always a stream.
        _ if request.rpc() == "subscriptions/listen" => stream(&session, request, &message),
        _ => whole(&session, request, &message),
    }
}

/// The one child, or a new one if it has exited.
fn only(sessions: &Sessions) -> Option<Arc<Session>> {
    if sessions.behavior.is_dual {
        let behavior = Behavior { is_stateless: true, ..sessions.behavior };
        let other = || sessions.open_as(SHARED.to_owned(), behavior).map(|(_, session)| session);
        return sessions.get(SHARED).or_else(other);
    }
    let alive = sessions.all().into_iter().find(|(_, session)| !session.has_ended());
    alive.or_else(|| sessions.open()).map(|(_, session)| session)
}

fn stream(session: &Arc<Session>, request: &Request, message: &Value) -> Response {
    let (writer, response) = Response::events();
    session.routes().stream(message, writer);
    session.write(&request.body);
    let (session, id) = (Arc::clone(session), message["id"].clone());
    // Closing the stream cancels the request.
    thread::spawn(move || {
        while session.routes().is_awaited(&id) {
            if session.routes().is_stream_closed(&id) {
                let params = json!({"requestId": id, "reason": "the stream was closed"});
                let line = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
                return session.write(line.to_string().as_bytes());
            }
            thread::park_timeout(LOOK_AGAIN);
        }
    });
    response
}

fn whole(session: &Session, request: &Request, message: &Value) -> Response {
    let Some(line) = streamable::ask(session, request, message) else { return Response::disconnect() };
    let answer: Value = serde_json::from_str(&line).unwrap_or_default();
    let status = match answer["error"]["code"].as_i64() {
        Some(-32601) => 404,
        Some(-32602 | -32022..=-32020) => 400,
        _ => 200,
    };
    Response::body("application/json", line).with_status(status)
}

/// The header that contradicts the message.
fn mismatch(request: &Request, message: &Value) -> Option<&'static str> {
    let params = &message["params"];
    let name = match request.rpc().as_str() {
        "tools/call" | "prompts/get" => &params["name"],
        "resources/read" => &params["uri"],
        "tasks/get" | "tasks/update" | "tasks/cancel" => &params["taskId"],
        _ => &Value::Null,
    };
    [
        ("mcp-protocol-version", &params["_meta"]["io.modelcontextprotocol/protocolVersion"]),
        ("mcp-method", &message["method"]),
        ("mcp-name", name),
    ]
    .into_iter()
    .find(|(header, expected)| decoded(request.header(header)).as_deref() != expected.as_str())
    .map(|(header, _)| header)
}

/// The decoded value of a header.
fn decoded(value: Option<&str>) -> Option<String> {
    match value?.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => value.map(str::to_owned),
    }
}
