//! Servers that are reached by URL, over all HTTP transports.
//!
//! `responses` (each transport) · `policy` · `server_messages` (server notifications and requests) · `resumption` (broken streams) ·
//! `sessions` · `legacy_sse` (HTTP+SSE) · `outages` · `bodies` (framing and malformed responses) · `concurrency` · `redirects` ·
//! `cut_connections` · `http2` · `codings` (compressed bodies) · `cookies` ·
//! `rotation` (secrets that change) · `localhost` · `era_detection` · `modern` (2026-07-28) · `modern_streams` (its subscriptions).

mod bodies;
mod codings;
mod concurrency;
mod cookies;
mod cut_connections;
mod era_detection;
mod http2;
mod legacy_sse;
mod localhost;
mod modern;
mod modern_streams;
mod outages;
mod policy;
mod redirects;
mod responses;
mod resumption;
mod rotation;
mod server_messages;
mod sessions;

use std::rc::Rc;

use serde_json::{Value, json};

use crate::support::http::{Behavior, Front, Lock, Response};
use crate::support::{Agent, Daemon, Place, Server, Setup, arguments};

/// A scripted server behind HTTP as `a`, and a daemon that has it and `good`, which is run by a command. The daemon is to be
/// dropped first, so that it can take leave.
fn start(behavior: Behavior) -> (Front, Daemon) {
    start_with(behavior, "", |server| server)
}

/// The same with flags, and with more in the server's table.
fn start_with(behavior: Behavior, flags: &str, change: impl FnOnce(Server) -> Server) -> (Front, Daemon) {
    let place = Place::new();
    let front = Front::start(&place, "a", flags, behavior);
    let daemon = beside(change(front.server()), &place);
    (front, daemon)
}

/// A daemon with a server and `good`.
fn beside(server: Server, place: &Rc<Place>) -> Daemon {
    Setup::with(server).server(Server::named("good")).start_in(place)
}

/// Answers that do not come, for as long as this is there.
fn silence() -> impl Fn() -> Response + Send + Sync {
    let writers = Lock::new(Vec::new());
    move || {
        let (writer, response) = Response::raw_stream();
        writers.lock().push(writer);
        response
    }
}

/// Fails unless both servers do what they are called for, and nothing was said that the test has not read. What tests have
/// answered otherwise is `echo`.
#[track_caller]
fn expect_well(agent: &mut Agent) {
    for server in ["a", "good"] {
        arguments(&agent.call(&format!("{server}__sleep"), &json!({"ms": 0})));
    }
    agent.expect_quiet();
}

/// Fails unless this is an error with this code, which says this of what was done.
#[track_caller]
fn expect_error(answer: &Value, code: i64, outcome: &str) {
    let error = &answer["error"];
    assert_eq!((&error["code"], &error["data"]["outcome"]), (&json!(code), &json!(outcome)), "{answer}");
}
