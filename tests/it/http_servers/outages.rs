//! Servers that are unreachable, fail, refuse or ask for a delay.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{beside, expect_error, expect_well, silence, start, start_with};
use crate::support::http::{Behavior, Front, HttpServer, Lock, Response};
use crate::support::{Agent, Place, Server, arguments, until};

/// Case I1.
#[test]
fn unreachable_server_is_retried_until_it_answers() {
    let place = Place::new();
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let daemon = beside(Server::at("a", &format!("http://{address}/mcp")), &place);
    let mut agent = Agent::ready(&daemon);
    let row =
        daemon.wait_row("a", "is tried again", |row| row["state"] == "backoff" && row["restarts"].as_u64() >= Some(2));
    assert!(row["reason"].to_string().contains("refused"), "{row}");
    assert!(!agent.tools().contains(&"a__echo".to_owned()));
    arguments(&agent.call("good__echo", &json!({})));
    let front = Front::start_at(address, &place, "a", "", Behavior::default());
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    agent.expect_notification("notifications/tools/list_changed");
    expect_well(&mut agent);
    drop(agent);
    drop(daemon);
    assert_eq!(front.sessions(), 0);
}

/// Case I1.
#[test]
fn server_that_goes_away_and_comes_back_is_served_again() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior { retry: Some(20), ..Behavior::default() });
    let address = front.http().address();
    let daemon = beside(front.server(), &place);
    let mut agent = Agent::ready(&daemon);
    let slow = agent.start_call("a__sleep", &json!({"ms": 600_000}));
    front.http().wait_request("the call", |request| request.rpc() == "tools/call");
    drop(front);
    expect_error(&agent.answer(&slow), -31001, "unknown");
    daemon.wait_row("a", "is missed", |row| row["state"] == "backoff");
    let front = Front::start_at(address, &place, "a", "", Behavior::default());
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    expect_well(&mut agent);
    assert_eq!(front.calls("sleep"), 1, "only what was called now");
    drop(agent);
    drop(daemon);
}

/// Case A21.
#[test]
fn call_starts_no_attempt_within_the_delay_that_a_server_requires() {
    let attempts = Arc::new(Lock::new(0));
    let http = HttpServer::start({
        let attempts = Arc::clone(&attempts);
        move |_| {
            *attempts.lock() += 1;
            Response::status(503).header("retry-after", "300")
        }
    });
    let daemon = beside(Server::at("a", &http.url("/mcp")), &Place::new());
    daemon.wait_row("a", "waits", |row| row["state"] == "backoff");
    let before = *attempts.lock();
    let mut agent = Agent::ready(&daemon);
    let answer = agent.call("a__echo", &json!({}));
    expect_error(&answer, -31004, "not_sent");
    assert!(answer["error"]["data"]["retryAfterMs"].as_u64() > Some(200_000), "{answer}");
    assert_eq!(*attempts.lock(), before);
}

/// How long after the first attempt the second comes, of a server that answers `initialize` so, and what its row says.
fn second_attempt(response: fn() -> Response) -> (Duration, String) {
    let place = Place::new();
    let attempts = Arc::new(Lock::new(Vec::new()));
    let http = HttpServer::start({
        let attempts = Arc::clone(&attempts);
        move |_| {
            attempts.lock().push(Instant::now());
            response()
        }
    });
    let daemon = beside(Server::at("a", &http.url("/mcp")), &place);
    let row = daemon.wait_row("a", "waits", |row| row["state"] == "backoff");
    until("it is tried again", || (attempts.lock().len() > 1).then_some(()));
    let attempts = attempts.lock();
    (attempts[1] - attempts[0], row["reason"].to_string())
}

/// Case I2.
#[test]
fn retry_after_of_a_server_is_respected() {
    for (status, response) in [
        ("503", (|| Response::status(503).header("retry-after", "2")) as fn() -> Response),
        ("429", || Response::status(429).header("retry-after", "2")),
    ] {
        let (waited, reason) = second_attempt(response);
        assert!(waited >= Duration::from_millis(1_900), "{status}: tried again after {waited:?}");
        assert!(reason.contains(status), "{reason}");
    }
}

/// Case I3.
#[test]
fn server_that_fails_at_its_start_is_retried_and_reports_the_status() {
    let (_, reason) =
        second_attempt(|| Response::body("application/json", r#"{"message":"out of order"}"#).with_status(500));
    assert!(reason.contains("500") && reason.contains("out of order"), "{reason}");
    let (_, reason) = second_attempt(|| Response::status(403));
    assert!(reason.contains("403"), "{reason}");
}

/// Case I2.
#[test]
fn rate_limited_call_reports_retry_after_and_is_not_repeated_meanwhile() {
    for status in [429, 503] {
        let (front, daemon) = start(Behavior::default());
        let mut agent = Agent::ready(&daemon);
        front.answer_tool("echo", move |_| Response::status(status).header("retry-after", "7"));
        let answer = agent.call("a__echo", &json!({}));
        expect_error(&answer, -32603, "unknown");
        assert_eq!(answer["error"]["data"]["retryAfterMs"], 7_000, "{answer}");
        assert_eq!(front.calls("echo"), 1);
        arguments(&agent.call("good__echo", &json!({})));
        assert_eq!(daemon.row("a")["restarts"], 0);
    }
}

/// Case I2.
#[test]
fn rate_limited_server_receives_no_calls_until_the_delay_is_over() {
    let (front, daemon) = start(Behavior::default());
    let mut agent = Agent::ready(&daemon);
    front.answer_tool("echo", |_| Response::status(429).header("retry-after", "1"));
    let refused = Instant::now();
    expect_error(&agent.call("a__echo", &json!({})), -32603, "unknown");
    let answer = agent.call("a__sleep", &json!({"ms": 0}));
    expect_error(&answer, -31004, "not_sent");
    assert!(answer["error"]["data"]["retryAfterMs"].as_u64().is_some_and(|ms| ms <= 1_000), "{answer}");
    assert_eq!(front.calls("sleep"), 0);
    arguments(&agent.call("good__echo", &json!({})));
    until("it is called again", || agent.call("a__sleep", &json!({"ms": 0}))["error"].is_null().then_some(()));
    assert!(refused.elapsed() >= Duration::from_secs(1), "called again after {:?}", refused.elapsed());
    assert_eq!(front.calls("sleep"), 1);
    expect_well(&mut agent);
}

/// Case I9.
#[test]
fn server_that_does_not_answer_checks_has_another_session_begun() {
    let (front, daemon) = start_with(Behavior::default(), "--no-pings", |server| {
        server.line("health_interval = \"100ms\"").line("health_timeout = \"1s\"")
    });
    let mut agent = Agent::ready(&daemon);
    let silent = silence();
    let initialized = front.http().count(|request| request.rpc() == "initialize");
    let is_first = Lock::new(true);
    front.intercept(move |request| {
        let mut is_first = is_first.lock();
        *is_first &= request.rpc() != "initialize";
        (*is_first && request.rpc() == "tools/list").then(&silent)
    });
    until("it is replaced", || {
        (front.http().count(|request| request.rpc() == "initialize") > initialized).then_some(())
    });
    let row = daemon.wait_row("a", "is replaced", |row| row["restarts"] == 1 && row["state"] == "ready");
    assert!(row["last_error"].to_string().contains("did not answer 3 pings in a row"), "{row}");
    until("its session is ended", || (front.http().count(|request| request.method == "DELETE") >= 1).then_some(()));
    arguments(&agent.call("a__echo", &json!({})));
}

/// Case I3.
#[test]
fn server_error_status_ends_one_call_as_unknown() {
    for status in [500, 502, 504] {
        let (front, daemon) = start(Behavior::json());
        let mut agent = Agent::ready(&daemon);
        front.answer_tool("echo", move |_| Response::body("text/plain", "it broke").with_status(status));
        let answer = agent.call("a__echo", &json!({}));
        assert_eq!(answer["error"]["data"]["outcome"], "unknown", "{answer}");
        let message = answer["error"]["message"].to_string();
        assert!(message.contains(&status.to_string()) && message.contains("it broke"), "{answer}");
        assert_eq!(front.calls("echo"), 1);
        expect_well(&mut agent);
    }
}

/// Case I2, I3.
#[test]
fn status_counts_as_not_sent_only_if_its_specification_says_so() {
    let (front, daemon) =
        start_with(Behavior { has_sessions: false, ..Behavior::json() }, "", |server| server.line("oauth = false"));
    let mut agent = Agent::ready(&daemon);
    let not_sent = [400, 401, 403, 405, 407, 408, 411, 412, 413, 414, 415, 421, 425, 426, 431];
    let unknown =
        [303, 402, 404, 406, 409, 410, 416, 417, 422, 423, 424, 428, 429, 451, 500, 501, 502, 503, 504, 505, 511];
    let not_sent = not_sent.map(|status| (status, -31004, "not_sent"));
    let unknown = unknown.map(|status| (status, -32603, "unknown"));
    for (calls, (status, code, outcome)) in not_sent.into_iter().chain(unknown).enumerate() {
        front.answer_tool("echo", move |_| Response::status(status));
        let answer = agent.call("a__echo", &json!({}));
        assert!(answer["error"]["message"].to_string().contains(&format!("HTTP {status}")), "{answer}");
        expect_error(&answer, code, outcome);
        assert_eq!(front.calls("echo"), calls + 1, "{status}: it was sent again");
    }
    expect_well(&mut agent);
}

/// Case I6.
#[test]
fn call_that_meets_an_ended_session_was_not_sent() {
    let (front, daemon) = start(Behavior { has_stream: false, ..Behavior::json() });
    let mut agent = Agent::ready(&daemon);
    front.answer_tool("echo", |_| Response::status(404));
    let answer = agent.call("a__echo", &json!({}));
    expect_error(&answer, -31004, "not_sent");
    assert!(answer["error"]["message"].to_string().contains("HTTP 404"), "{answer}");
    assert_eq!(front.calls("echo"), 1);
}

#[test]
fn json_rpc_error_passes_with_any_http_status() {
    let (front, daemon) = start(Behavior::json());
    let mut agent = Agent::ready(&daemon);
    for status in [400, 403, 500] {
        front.answer_tool("echo", move |id| {
            let error = json!({"code": -7, "message": "mine", "data": {"status": status}});
            Response::json(&json!({"jsonrpc": "2.0", "id": id, "error": error})).with_status(status)
        });
        let answer = agent.call("a__echo", &json!({}));
        assert_eq!(answer["error"], json!({"code": -7, "message": "mine", "data": {"status": status}}));
    }
    expect_well(&mut agent);
}

#[test]
fn call_that_is_forbidden_fails_alone() {
    let (front, daemon) = start(Behavior::json());
    let mut agent = Agent::ready(&daemon);
    front.answer_tool("echo", |_| Response::status(403));
    expect_error(&agent.call("a__echo", &json!({})), -31004, "not_sent");
    expect_well(&mut agent);
}

#[test]
fn unauthorized_call_fails_alone_and_a_server_that_refuses_all_is_retried() {
    let (front, daemon) = start_with(Behavior::json(), "", |server| server.line("oauth = false"));
    let mut agent = Agent::ready(&daemon);
    front.answer_tool("echo", |_| Response::status(401));
    for _ in 0..4 {
        expect_error(&agent.call("a__echo", &json!({})), -31004, "not_sent");
        expect_well(&mut agent);
    }
    front.intercept(|_| Some(Response::status(401)));
    expect_error(&agent.call("a__echo", &json!({})), -31004, "not_sent");
    let row = daemon.wait_row("a", "has been refused", |row| row["code"] == "http_unauthorized");
    assert_eq!(row["state"], "backoff", "{row}");
}

/// Case I9.
#[test]
fn silent_server_costs_its_call_the_timeout_and_affects_no_others() {
    let (front, daemon) =
        start_with(Behavior::default(), "", |server| server.line("tool_timeouts = { echo = \"300ms\" }"));
    let mut agent = Agent::ready(&daemon);
    let writers = Arc::new(Lock::new(Vec::new()));
    front.answer_tool("echo", {
        let writers = Arc::clone(&writers);
        move |_| {
            let (writer, response) = Response::raw_stream();
            writer.write("HTTP/1.1 200 OK\r\ncontent-ty");
            writers.lock().push(writer);
            response
        }
    });
    let silent = agent.start_call("a__echo", &json!({}));
    front.http().wait_request("the call", |request| request.rpc() == "tools/call");
    arguments(&agent.call("a__sleep", &json!({"ms": 0})));
    expect_error(&agent.answer(&silent), -31002, "unknown");
    expect_well(&mut agent);
    assert_eq!(front.calls("echo"), 1);
}

/// Case I9.
#[test]
fn server_that_never_completes_the_handshake_blocks_nothing_and_leaves_no_connection() {
    let place = Place::new();
    let writers = Arc::new(Lock::new(Vec::new()));
    let http = HttpServer::start(move |_| {
        let (writer, response) = Response::events();
        writers.lock().push(writer);
        response
    });
    let server = Server::at("a", &http.url("/mcp")).line("handshake_timeout = \"150ms\"");
    let daemon = beside(server, &place);
    arguments(&Agent::ready(&daemon).call("good__echo", &json!({})));
    daemon.wait_row("a", "is tried again", |row| row["restarts"].as_u64() >= Some(2));
    until("connections end", || (http.open() <= 1).then_some(()));
}
