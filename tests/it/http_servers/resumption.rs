//! Broken streams are resumed where the server supports it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{expect_error, expect_well, start};
use crate::support::http::{Behavior, Front, Lock, Response};
use crate::support::{Agent, Daemon, arguments, result, until};

/// A server that wants to be asked again soon.
fn quick() -> Behavior {
    Behavior { retry: Some(20), ..Behavior::default() }
}

fn resumptions(front: &Front) -> usize {
    front.http().count(|request| request.method == "GET" && request.header("last-event-id").is_some())
}

/// A call that tells so often of its progress, 200 ms apart, and the agent that has it; it has heard the first of it.
fn start_progress(daemon: &Daemon, steps: u32) -> (Agent, Value) {
    let mut agent = Agent::ready(daemon);
    let call = agent.start_request(
        "tools/call",
        &json!({"name": "a__progress", "arguments": {"n": steps, "every": 200}, "_meta": {"progressToken": 7}}),
    );
    assert_eq!(agent.expect_notification("notifications/progress")["params"]["progress"], 1);
    (agent, call)
}

/// The answer, whatever the call has told before.
fn end(agent: &mut Agent, call: &Value) -> Value {
    loop {
        let message = agent.next();
        if message["id"] == *call {
            return message;
        }
        assert_eq!(message["method"], "notifications/progress");
    }
}

/// Case I5.
#[test]
fn cut_stream_of_a_call_is_resumed_and_the_call_is_made_once() {
    for how in [Front::cut_streams, Front::end_streams] {
        let (front, daemon) = start(quick());
        let (mut agent, call) = start_progress(&daemon, 8);
        how(&front);
        for step in 2..=8 {
            assert_eq!(agent.next()["params"]["progress"], step);
        }
        arguments(&agent.answer(&call));
        assert!(resumptions(&front) >= 1);
        assert_eq!(front.calls("progress"), 1);
        expect_well(&mut agent);
    }
}

#[test]
fn repeatedly_cut_stream_is_resumed_every_time() {
    let (front, daemon) = start(quick());
    let (mut agent, call) = start_progress(&daemon, 12);
    for step in 2..=12 {
        if step % 3 == 0 {
            front.cut_streams();
        }
        assert_eq!(agent.next()["params"]["progress"], step);
    }
    arguments(&agent.answer(&call));
    assert_eq!(front.calls("progress"), 1);
    expect_well(&mut agent);
}

/// Case I5.
#[test]
fn stream_that_cannot_be_resumed_ends_only_its_call() {
    let (front, daemon) = start(Behavior { has_event_ids: false, ..quick() });
    let (mut agent, call) = start_progress(&daemon, 100);
    front.cut_streams();
    expect_error(&end(&mut agent, &call), -31001, "unknown");
    assert_eq!((front.calls("progress"), resumptions(&front)), (1, 0));
    expect_well(&mut agent);
    assert_eq!(daemon.row("a")["restarts"], 0);
}

#[test]
fn server_that_forgets_its_event_ids_fails_only_that_call() {
    let (front, daemon) = start(quick());
    let (mut agent, call) = start_progress(&daemon, 100);
    front.intercept(|request| request.header("last-event-id").map(|_| Response::status(400)));
    front.cut_streams();
    expect_error(&end(&mut agent, &call), -31001, "unknown");
    front.stop_intercepting();
    expect_well(&mut agent);
}

/// Case I5.
#[test]
fn resumption_ends_after_a_number_of_failed_attempts() {
    let (front, daemon) = start(quick());
    let (mut agent, call) = start_progress(&daemon, 100);
    // What it has forgotten has no events, rather than an error.
    front.intercept(|request| request.header("last-event-id").map(|_| Response::body("text/event-stream", "")));
    front.cut_streams();
    expect_error(&end(&mut agent, &call), -31001, "unknown");
    front.stop_intercepting();
    expect_well(&mut agent);
    assert_eq!(daemon.row("a")["restarts"], 0);
}

/// Case I5.
#[test]
fn standalone_stream_is_reopened_and_misses_no_message() {
    let (front, daemon) = start(Behavior { retry: Some(20), ..Behavior::json() });
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    until("mcpd listens", || (front.stream_listeners() == 1).then_some(()));
    for round in 0..3 {
        front.cut_streams();
        arguments(&agent.call("a__mutate_tools", &json!({"add": [format!("tool_{round}")]})));
        agent.expect_notification("notifications/tools/list_changed");
        assert!(agent.tools().contains(&format!("a__tool_{round}")));
    }
    assert!(resumptions(&front) >= 3);
    agent.expect_quiet();
    assert_eq!(daemon.row("a")["restarts"], 0);
}

#[test]
fn retry_delay_of_a_server_is_respected() {
    let wait = Duration::from_millis(1_500);
    let (front, daemon) = start(Behavior { retry: Some(1_500), ..Behavior::json() });
    until("mcpd listens", || (front.stream_listeners() == 1).then_some(()));
    let get_count = front.http().count(|request| request.method == "GET");
    let cut = Instant::now();
    front.cut_streams();
    until("it is asked again", || (front.http().count(|request| request.method == "GET") > get_count).then_some(()));
    assert!(cut.elapsed() >= wait, "asked again after {:?}", cut.elapsed());
    expect_well(&mut Agent::ready(&daemon));
}

#[test]
fn stream_ended_by_its_server_is_reopened_after_the_retry_delay() {
    let (front, daemon) = start(Behavior { retry: Some(20), ..Behavior::json() });
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    // With pauses that grow, the last of them would be too long to be waited for.
    for round in 1..=6 {
        until("mcpd listens", || (front.stream_listeners() == 1).then_some(()));
        front.end_streams();
        let get_count = |front: &Front| front.http().count(|request| request.method == "GET");
        until("it is asked again", || (get_count(&front) > round).then_some(()));
    }
    arguments(&agent.call("a__mutate_tools", &json!({"add": ["fresh"]})));
    agent.expect_notification("notifications/tools/list_changed");
    expect_well(&mut agent);
}

#[test]
fn call_may_be_answered_on_a_stream_that_is_not_its_own() {
    let (front, daemon) = start(quick());
    let mut agent = Agent::ready(&daemon);
    until("mcpd listens", || (front.stream_listeners() == 1).then_some(()));
    let get_count = Arc::new(Lock::new(None));
    front.answer_tool("echo", {
        let get_count = Arc::clone(&get_count);
        move |id| {
            *get_count.lock() = Some(id.clone());
            // Ended before the answer: it is to be asked for it later.
            Response::body("text/event-stream", "id: 0-0\nretry: 60000\ndata:\n\n")
        }
    });
    let call = agent.start_call("a__echo", &json!({}));
    let id = until("the call comes", || get_count.lock().clone());
    front.notify(&json!({"jsonrpc": "2.0", "id": id, "result": {"n": 1}}).to_string());
    assert_eq!(result(&agent.answer(&call))["n"], 1);
    expect_well(&mut agent);
}
