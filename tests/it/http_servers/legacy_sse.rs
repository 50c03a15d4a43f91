//! HTTP+SSE of 2024-11-05, detected as later versions require.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::{beside, expect_error, expect_well, start};
use crate::support::http::{Behavior, Front, HttpServer, Response};
use crate::support::{Agent, Place, arguments, until};

#[test]
fn server_that_refuses_post_is_tried_with_the_sse_transport() {
    for status in [400, 404, 405] {
        let place = Place::new();
        let front = Front::start(&place, "a", "--protocol 2024-11-05", Behavior::old());
        front.intercept(move |request| {
            (request.method == "POST" && request.path == "/sse").then(|| Response::status(status))
        });
        let daemon = beside(front.server(), &place);
        let mut agent = Agent::ready(&daemon);
        assert_eq!(arguments(&agent.call("a__echo", &json!({"n": 1}))), &json!({"n": 1}));
        expect_well(&mut agent);
        let tried = front.http().count(|request| request.method == "POST" && request.path == "/sse");
        // As a server of the modern era, and as one of those in between.
        assert_eq!((tried, front.http().count(|request| request.rpc() == "initialize")), (2, 2), "{status}");
    }
}

#[test]
fn end_of_the_stream_ends_its_calls_once_and_it_is_reopened() {
    let (front, daemon) = start(Behavior::old());
    let mut agent = Agent::ready(&daemon);
    let slow = agent.start_call("a__sleep", &json!({"ms": 600_000}));
    front.http().wait_request("the call", |request| request.rpc() == "tools/call");
    front.cut_streams();
    expect_error(&agent.answer(&slow), -31001, "unknown");
    daemon.wait_row("a", "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
    assert_eq!(front.calls("sleep"), 1);
    expect_well(&mut agent);
}

#[test]
fn lost_handshake_is_repeated_at_once() {
    for way in [Response::disconnect as fn() -> Response, || Response::status(500)] {
        let place = Place::new();
        let front = Front::start(&place, "a", "", Behavior::old());
        let is_first = AtomicBool::new(true);
        front.intercept(move |request| {
            let is_it = request.path == "/messages" && request.rpc() == "initialize";
            (is_it && is_first.swap(false, Ordering::SeqCst)).then(way)
        });
        // Until an attempt to introduce it is given up takes longer than a test waits.
        let daemon = beside(front.server(), &place);
        daemon.wait_row("a", "has listed", |row| row["tools_exposed"].as_u64() > Some(0));
        expect_well(&mut Agent::ready(&daemon));
    }
}

/// A stream that names this as where to post to, and an answer to nothing else.
fn naming(endpoint: String) -> HttpServer {
    HttpServer::start(move |request| match request.method.as_str() {
        "GET" => Response::body("text/event-stream", format!("event: endpoint\ndata: {endpoint}\n\n")),
        _ => Response::status(405),
    })
}

/// Case I10.
#[test]
fn endpoint_of_another_origin_is_not_posted_to_and_sees_no_secret() {
    let place = Place::new();
    let elsewhere = HttpServer::start(|_| Response::unexpected());
    let front = naming(elsewhere.url("/messages"));
    let server =
        crate::support::Server::at("a", &front.url("/sse")).line("headers = { Authorization = \"Bearer s3cret\" }");
    let daemon = beside(server, &place);
    let row = daemon.wait_row("a", "says why", |row| row["reason"].is_string());
    assert!(row["reason"].to_string().contains("another origin"), "{row}");
    assert_eq!(elsewhere.accepted(), 0);
    arguments(&Agent::ready(&daemon).call("good__echo", &json!({})));
}

#[test]
fn endpoint_with_a_user_name_is_not_posted_to() {
    let place = Place::new();
    let front = HttpServer::start(|request| match (request.method.as_str(), request.header("host")) {
        ("GET", Some(host)) => {
            Response::body("text/event-stream", format!("event: endpoint\ndata: http://user:pw@{host}/messages\n\n"))
        }
        _ => Response::status(405),
    });
    let daemon = beside(crate::support::Server::at("a", &front.url("/sse")), &place);
    let row = daemon.wait_row("a", "says why", |row| row["reason"].is_string());
    assert!(row["reason"].to_string().contains("a user name"), "{row}");
    assert_eq!(front.count(|request| request.path == "/messages"), 0);
}

#[test]
fn url_that_speaks_neither_transport_is_reported() {
    let place = Place::new();
    let http = HttpServer::start(|_| Response::body("text/html", "<html>").with_status(404));
    let daemon = beside(crate::support::Server::at("a", &http.url("/")), &place);
    let row = daemon.wait_row("a", "says why", |row| row["reason"].is_string());
    assert!(row["reason"].to_string().contains("404"), "{row}");
    until("it is tried again", || (http.count(|request| request.rpc() == "initialize") > 1).then_some(()));
}
