//! Servers that use HTTP/2.

use serde_json::json;

use super::{beside, expect_error, expect_well};
use crate::support::http::{Behavior, Front, Http2, Request, authority};
use crate::support::{Agent, Daemon, Place, Server, arguments, quoted, until};

/// Calls in flight.
const MANY: usize = 100;
/// One for answers, one for what a server says by itself, and more where the machine stands still for seconds.
const CONNECTIONS: usize = 10;

/// A scripted server behind HTTP/2 as `a`. To be dropped from the last to the first.
fn start(behavior: Behavior, requests: usize) -> (Front, Http2, Daemon) {
    let place = Place::new();
    let front = Front::start(&place, "a", "", behavior);
    let second = Http2::closing_after(requests, front.http().address());
    let trusted = format!("ca_file = {}", quoted(authority("authority")));
    let daemon = beside(Server::at("a", &second.url("/mcp")).line(&trusted), &place);
    (front, second, daemon)
}

/// Waits until the server has been asked for so many calls of `sleep`.
fn wait_calls(front: &Front, calls: usize) {
    let is_one = |request: &Request| request.json()["params"]["name"] == "sleep";
    until("all calls", || (front.http().count(is_one) == calls).then_some(()));
}

#[test]
fn hundred_concurrent_calls_share_one_http2_connection() {
    let (_front, second, daemon) = start(Behavior::default(), usize::MAX);
    let mut agent = Agent::ready(&daemon);
    for _ in 0..3 {
        let calls: Vec<_> = (0..MANY).map(|number| agent.start_call("a__echo", &json!({"number": number}))).collect();
        for (number, call) in calls.iter().enumerate() {
            assert_eq!(arguments(&agent.answer(call))["number"], number);
        }
    }
    expect_well(&mut agent);
    assert!(second.accepted() < CONNECTIONS, "{} connections", second.accepted());
}

#[test]
fn server_that_closes_connections_in_order_loses_no_call() {
    let (_front, second, daemon) = start(Behavior::default(), 7);
    let mut agent = Agent::ready(&daemon);
    for number in 0..MANY {
        let answer = agent.call("a__echo", &json!({"number": number}));
        assert_eq!(arguments(&answer)["number"], number);
    }
    expect_well(&mut agent);
    assert!(second.accepted() >= MANY / 7, "{} connections", second.accepted());
}

#[test]
fn cut_http2_connection_ends_each_of_its_calls_once() {
    let (front, second, daemon) = start(Behavior::json(), usize::MAX);
    let mut agent = Agent::ready(&daemon);
    let calls: Vec<_> = (0..10).map(|_| agent.start_call("a__sleep", &json!({"ms": 600_000}))).collect();
    wait_calls(&front, calls.len());
    second.cut();
    for call in &calls {
        expect_error(&agent.answer(call), -31001, "unknown");
    }
    expect_well(&mut agent);
}

#[test]
fn call_on_a_refused_http2_stream_was_not_sent_and_the_server_continues() {
    let (front, second, daemon) = start(Behavior::json(), usize::MAX);
    let mut agent = Agent::ready(&daemon);
    second.refuse_next();
    expect_error(&agent.call("a__echo", &json!({})), -31004, "not_sent");
    assert!(second.has_refused());
    assert_eq!(front.calls("echo"), 0);
    expect_well(&mut agent);
    assert_eq!(daemon.row("a")["restarts"], 0);
}

#[test]
fn stream_cut_with_its_http2_connection_is_resumed() {
    let (_front, second, daemon) = start(Behavior::default(), usize::MAX);
    let mut agent = Agent::ready(&daemon);
    let calls: Vec<_> = (0..10)
        .map(|number| {
            let arguments = json!({"n": 3, "every": 300});
            let params = json!({"name": "a__progress", "arguments": arguments, "_meta": {"progressToken": number}});
            agent.start_request("tools/call", &params)
        })
        .collect();
    let mut steps_seen = vec![0; calls.len()];
    let mut answered = 0;
    let mut cut = Some(&second);
    while answered < calls.len() {
        let message = agent.next();
        if let Some(number) = message["params"]["progressToken"].as_u64() {
            steps_seen[number as usize] += 1;
            assert_eq!(message["params"]["progress"], steps_seen[number as usize], "call {number}");
        } else {
            arguments(&message);
            answered += 1;
        }
        if !steps_seen.contains(&0) {
            cut.take().inspect(|second| second.cut());
        }
    }
    assert_eq!(steps_seen, vec![3; calls.len()]);
    expect_well(&mut agent);
}
