//! HTTP sessions: replaced when the server forgets them, ended when mcpd stops.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{beside, expect_well, start};
use crate::support::http::{Behavior, Front, Lock, Request, Response};
use crate::support::{Agent, Place, Server, Setup, arguments, code, result, until};

const LIBRARY: &str = r#"{"resources":[{"uri":"x://1","name":"one"}]}"#;

/// Case I6.
#[test]
fn forgotten_session_is_replaced_with_lists_and_subscriptions() {
    for behavior in [Behavior::default(), Behavior::json()] {
        let place = Place::new();
        let library = place.write("shelf.json", LIBRARY);
        let flags = format!("--library {}", library.to_str().expect("text"));
        let front = Front::start(&place, "a", &flags, Behavior { retry: Some(20), ..behavior });
        let daemon = beside(front.server(), &place);
        let mut agent = Agent::ready(&daemon);
        result(&agent.request("resources/subscribe", &json!({"uri": "x://1"})));
        let before = front.http().requests().pop().expect("requests").header("mcp-session-id").map(str::to_owned);
        front.forget_sessions();
        until("another session is begun", || (front.sessions() == 1).then_some(()));
        until("the subscription is made again", || {
            (front.http().count(|request| request.rpc() == "resources/subscribe") == 2).then_some(())
        });
        daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
        assert_eq!(arguments(&agent.call("a__echo", &json!({"n": 1}))), &json!({"n": 1}));
        let call = front.http().wait_request("the call", |request| request.rpc() == "tools/call");
        assert_ne!(call.header("mcp-session-id"), before.as_deref());
        assert!(agent.tools().contains(&"a__echo".to_owned()));
        expect_well(&mut agent);
    }
}

/// Case I6.
#[test]
fn call_in_a_forgotten_session_is_made_at_most_once_and_later_calls_work() {
    let (front, daemon) = start(Behavior { has_stream: false, ..Behavior::json() });
    let mut agent = Agent::ready(&daemon);
    front.forget_sessions();
    let answer = agent.call("a__echo", &json!({"mark": "first"}));
    let made = daemon.count_journal("a", "\"first\"");
    if answer["error"].is_null() {
        assert_eq!(made, 1);
    } else {
        // The server has refused the session, so nobody has looked at the call.
        assert_eq!((&answer["error"]["data"]["outcome"], made), (&json!("not_sent"), 0), "{answer}");
    }
    until("it answers again", || agent.call("a__sleep", &json!({"ms": 0}))["error"].is_null().then_some(()));
    expect_well(&mut agent);
}

/// How a server answers a request.
type Answer = fn(&Request) -> Response;

/// An error response to this request, with this id or that of the request.
fn refusal(request: &Request, id: Option<Value>, code: i32, message: &str) -> Response {
    let id = id.unwrap_or_else(|| request.json()["id"].clone());
    Response::json(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

/// Case I23.
#[test]
fn session_that_a_server_has_forgotten_is_replaced_however_the_server_says_so() {
    let spellings: [Answer; 9] = [
        |_| Response::status(404),
        |_| Response::status(410),
        |_| Response::status(401),
        |_| Response::body("text/plain", "Invalid session").with_status(400),
        |request| {
            refusal(request, Some(Value::Null), -32000, "Bad Request: No valid session ID provided").with_status(400)
        },
        |request| refusal(request, Some(json!("")), -32600, "Session not found").with_status(400),
        |request| refusal(request, None, -32000, "Bad Request: Server not initialized").with_status(400),
        |request| refusal(request, None, -32002, "Server not initialized"),
        |request| refusal(request, None, -32001, "session expired").with_status(404),
    ];
    for (number, spelling) in spellings.into_iter().enumerate() {
        let (front, daemon) = start(Behavior { has_stream: false, ..Behavior::json() });
        let mut agent = Agent::ready(&daemon);
        let dead =
            front.http().requests().pop().expect("requests").header("mcp-session-id").expect("a session").to_owned();
        let is_dead =
            move |request: &Request| request.method == "POST" && request.header("mcp-session-id") == Some(&dead);
        front.intercept({
            let is_dead = is_dead.clone();
            move |request| is_dead(request).then(|| spelling(request))
        });
        let answer = agent.call("a__echo", &json!({}));
        assert!(!answer["error"].is_null(), "{number}: {answer}");
        until("it answers again", || agent.call("a__sleep", &json!({"ms": 0}))["error"].is_null().then_some(()));
        let pings = front.http().count(|request| is_dead(request) && request.rpc() == "ping");
        let opened = front.http().count(|request| request.rpc() == "initialize");
        assert_eq!((pings, opened), (1, 2), "{number}");
        assert_eq!(front.calls("echo"), 1, "{number}: it was sent again");
        daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
        expect_well(&mut agent);
    }
}

/// Case I23.
#[test]
fn session_id_in_a_later_response_replaces_the_first_one() {
    let (front, daemon) = start(Behavior { has_stream: false, ..Behavior::json() });
    let mut agent = Agent::ready(&daemon);
    let is_echo = |request: &Request| request.rpc() == "tools/call" && request.json()["params"]["name"] == "echo";
    let ids = ["refused", "", "second", "", "third"];
    let answered = AtomicUsize::new(0);
    front.intercept(move |request| {
        is_echo(request).then(|| {
            let id = ids[answered.fetch_add(1, Ordering::SeqCst)];
            let answer = json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": {"content": []}});
            match id {
                "" => Response::json(&answer),
                "refused" => Response::status(503).header("mcp-session-id", id),
                id => Response::json(&answer).header("mcp-session-id", id),
            }
        })
    });
    ids.iter().for_each(|_| drop(agent.call("a__echo", &json!({}))));
    let sent: Vec<_> = front.http().requests().into_iter().filter(|request| is_echo(request)).collect();
    let sent: Vec<_> = sent.iter().map(|request| request.header("mcp-session-id").expect("a session")).collect();
    assert_eq!((sent[0], &sent[1..]), (sent[1], &[sent[0], sent[0], "second", "second"][..]));
    assert_eq!(front.http().count(|request| request.rpc() == "initialize"), 1);
}

/// Case I23.
#[test]
fn session_that_answers_a_ping_is_kept_whatever_a_call_is_answered() {
    let answers: [(usize, Answer); 7] = [
        (1, |_| Response::status(404)),
        (1, |_| Response::status(410)),
        (1, |_| Response::status(401)),
        (1, |_| Response::status(400)),
        (1, |request| refusal(request, None, -32000, "browser session 7 is closed")),
        (0, |request| refusal(request, None, -32602, "unknown session: 7")),
        (0, |request| refusal(request, None, -32603, "it broke")),
    ];
    for (number, (expected, answer)) in answers.into_iter().enumerate() {
        let (front, daemon) = start(Behavior { has_stream: false, ..Behavior::json() });
        let mut agent = Agent::ready(&daemon);
        front.intercept(move |request| {
            (request.rpc() == "tools/call" && request.json()["params"]["name"] == "echo").then(|| answer(request))
        });
        assert!(!agent.call("a__echo", &json!({}))["error"].is_null());
        until("the session is checked", || {
            (front.http().count(|request| request.rpc() == "ping") >= expected).then_some(())
        });
        expect_well(&mut agent);
        let count = |rpc: &str| front.http().count(|request| request.rpc() == rpc);
        assert_eq!((count("ping"), count("initialize")), (expected, 1), "{number}");
    }
}

/// Many say 404 where a method has no handler.
#[test]
fn server_that_finds_no_stream_has_not_lost_its_session() {
    for no_stream_status in [404, 400] {
        let (front, daemon) = start(Behavior { has_stream: false, no_stream_status, ..Behavior::default() });
        let mut agent = Agent::ready(&daemon);
        for n in 0..3 {
            assert_eq!(arguments(&agent.call("a__echo", &json!({"n": n}))), &json!({"n": n}));
        }
        assert_eq!(front.http().count(|request| request.rpc() == "initialize"), 1);
        expect_well(&mut agent);
    }
}

#[test]
fn session_ends_with_the_daemon_and_with_its_server() {
    let (front, daemon) = start(Behavior::default());
    assert_eq!(front.sessions(), 1);
    daemon.client(&["disable", "a", "--stop"]).expect_code(0);
    until("it is told", || (front.http().count(|request| request.method == "DELETE") == 1).then_some(()));
    daemon.client(&["enable", "a"]).expect_code(0);
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    assert_eq!(front.sessions(), 1);
    drop(daemon);
    assert_eq!((front.sessions(), front.http().count(|request| request.method == "DELETE")), (0, 2));
}

#[test]
fn daemon_that_is_stopped_ends_calls_and_sessions_and_waits_for_no_server() {
    let (front, mut daemon) = start(Behavior::default());
    let mut agent = Agent::ready(&daemon);
    let call = agent.start_call("a__sleep", &json!({"ms": 600_000}));
    front.http().wait_request("the call", |request| request.rpc() == "tools/call");
    // It never answers that the session is over.
    let writers = Response::raw_stream();
    let (writer, response) = (writers.0, Lock::new(Some(writers.1)));
    front.intercept(move |request| if request.method == "DELETE" { response.lock().take() } else { None });
    daemon.signal(Signal::TERM);
    assert_eq!(code(&agent.answer(&call)), -31005);
    assert!(daemon.wait_exit().success());
    assert_eq!(front.http().count(|request| request.method == "DELETE"), 1);
    agent.expect_end();
    drop(writer);
}

#[test]
fn server_with_a_changed_url_is_replaced_and_its_session_ended() {
    let place = Place::new();
    let [before, after] = ["before", "after"]
        .map(|tool| Front::start(&place, "a", &format!("--bare --tool {tool}"), Behavior::default()));
    let mut daemon = Setup::with(before.server()).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["a__before"]);
    Setup::with(Server::at("a", &after.url())).write(&place);
    daemon.signal(Signal::HUP);
    agent.expect_notification("notifications/tools/list_changed");
    assert_eq!(agent.tools(), ["a__after"]);
    arguments(&agent.call("a__after", &json!({})));
    until("the session of the one before ends", || (before.sessions() == 0).then_some(()));
    assert_eq!(after.sessions(), 1);
    agent.expect_quiet();
}
