//! Responses and requests over each HTTP transport.

use serde_json::{Value, json};

use super::{beside, expect_error, expect_well, start, start_with};
use crate::support::http::{Behavior, Front, Request, Response};
use crate::support::{Agent, Daemon, Place, arguments, result, until};

const BEHAVIORS: [fn() -> Behavior; 3] = [Behavior::default, Behavior::json, Behavior::old];

/// What both servers answer to a call, but for what must differ.
fn both(agent: &mut Agent, tool: &str, arguments: &Value) -> [Value; 2] {
    ["a", "good"].map(|server| {
        let mut answer = agent.call(&format!("{server}__{tool}"), arguments);
        answer["id"].take();
        if answer["result"]["structuredContent"].is_object() {
            answer["result"]["structuredContent"]["pid"].take();
        }
        answer
    })
}

#[test]
fn server_by_url_lists_and_answers_as_the_same_program_does_over_pipes() {
    for behavior in BEHAVIORS {
        let (_front, daemon) = start(behavior());
        let mut agent = Agent::ready(&daemon);
        let id = agent.start_request("tools/list", &json!({}));
        let listed = agent.next_line().expect("a list");
        let tools = serde_json::from_str::<Value>(&listed).expect("JSON")["result"]["tools"].clone();
        let of = |server: &str| -> Vec<String> {
            let prefix = format!("\"name\":\"{server}__");
            let all = tools.as_array().expect("a list").iter().map(ToString::to_string);
            all.filter(|tool| tool.contains(&prefix)).map(|tool| tool.replace(&prefix, "\"name\":\"")).collect()
        };
        assert_eq!((of("a").len(), of("a")), (25, of("good")), "{id}");
        assert_eq!(listed.matches(r#""zeta":1.10"#).count(), 50, "numbers are spelt as they came");
        let calls = [
            ("echo", json!({"n": 1, "text": "é\n"})),
            ("echo", json!({"text": "x".repeat(1 << 20)})),
            ("fail", json!({"code": -5, "message": "no"})),
            ("refuse", json!({})),
            ("big", json!({"bytes": 300_000})),
            ("dribble", json!({})),
            ("none", json!({})),
        ];
        for (tool, arguments) in calls {
            let [ours, theirs] = both(&mut agent, tool, &arguments);
            let ours: Value = serde_json::from_str(&ours.to_string().replace("a__", "good__")).expect("JSON");
            assert_eq!(ours, theirs, "{tool}");
        }
        expect_well(&mut agent);
    }
}

#[test]
fn progress_comes_in_order_and_before_the_answer_it_belongs_to() {
    for behavior in [Behavior::default(), Behavior::old(), Behavior { has_event_ids: false, ..Behavior::default() }] {
        let (_front, daemon) = start(behavior);
        let mut agent = Agent::ready(&daemon);
        let call = agent.start_request(
            "tools/call",
            &json!({"name": "a__progress", "arguments": {"n": 5, "every": 5}, "_meta": {"progressToken": "mine"}}),
        );
        for step in 1..=5 {
            let notification = agent.next();
            assert_eq!(
                (&notification["params"]["progress"], &notification["params"]["progressToken"]),
                (&json!(step), &json!("mine"))
            );
        }
        arguments(&agent.answer(&call));
        agent.expect_quiet();
    }
}

/// The requests that came behind the handshake's first.
fn later(front: &Front) -> Vec<Request> {
    front.http().requests().into_iter().skip_while(|request| request.rpc() != "initialize").skip(1).collect()
}

#[test]
fn each_request_carries_the_required_and_the_configured_headers() {
    let (front, daemon) =
        start_with(Behavior::default(), "", |server| server.line("headers = { X-Key = \"${KEY:-k}\" }"));
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__echo", &json!({})));
    let listening = front.http().wait_request("the stream is asked for", |request| request.method == "GET");
    assert_eq!(listening.header("accept"), Some("text/event-stream"));
    let first = front.http().wait_request("the handshake", |request| request.rpc() == "initialize");
    assert_eq!(
        (first.rpc(), first.header("mcp-session-id"), first.header("mcp-protocol-version")),
        ("initialize".into(), None, None)
    );
    let later = later(&front);
    let session = later[0].header("mcp-session-id").expect("a session").to_owned();
    assert!(later.len() >= 4);
    for request in &later {
        assert_eq!(request.header("mcp-session-id"), Some(&*session), "{}", request.head());
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"), "{}", request.head());
    }
    for request in front.http().requests() {
        assert_eq!(request.header("x-key"), Some("k"), "{}", request.head());
        assert!(request.header("user-agent").is_some_and(|agent| agent.starts_with("mcpd/")), "{}", request.head());
        assert_eq!((request.header("cookie"), request.header("referer")), (None, None));
    }
    drop(agent);
    drop(daemon);
    let last = front.http().requests().pop().expect("requests");
    assert_eq!((&*last.method, last.header("mcp-session-id")), ("DELETE", Some(&*session)));
    assert_eq!(last.header("x-key"), Some("k"));
}

#[test]
fn negotiated_version_is_sent_with_each_request() {
    for version in ["2025-03-26", "2025-06-18"] {
        let (front, daemon) = start_with(Behavior::json(), &format!("--protocol {version}"), |server| server);
        arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
        let call = front.http().wait_request("the call", |request| request.rpc() == "tools/call");
        assert_eq!(call.header("mcp-protocol-version"), Some(version));
    }
}

#[test]
fn any_status_for_a_notification_is_accepted() {
    let ways: [fn() -> Response; 6] = [
        || Response::status(200),
        || Response::status(204),
        || Response::status(400),
        || Response::status(500),
        || Response::json(&json!({"jsonrpc": "2.0", "result": {}})),
        || Response::body("text/event-stream", ": nothing\n\n"),
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let place = Place::new();
        let front = Front::start(&place, "a", "", Behavior::default());
        front.intercept(move |request| request.rpc().starts_with("notifications/").then(way));
        let daemon = beside(front.server(), &place);
        let mut agent = Agent::ready(&daemon);
        arguments(&agent.call("a__echo", &json!({})));
        assert_eq!(front.http().count(|request| request.rpc() == "notifications/initialized"), 1, "{number}");
        expect_well(&mut agent);
    }
}

#[test]
fn cancelled_call_is_cancelled_under_the_id_that_the_server_received() {
    for behavior in BEHAVIORS {
        let (front, daemon) = start(behavior());
        let mut agent = Agent::ready(&daemon);
        let call = agent.start_call("a__sleep", &json!({"ms": 600_000}));
        let sent = front.http().wait_request("the call", |request| request.rpc() == "tools/call");
        agent.cancel(&call);
        let notification =
            front.http().wait_request("the cancellation", |request| request.rpc() == "notifications/cancelled");
        assert_eq!(notification.json()["params"]["requestId"], sent.json()["id"]);
        expect_well(&mut agent);
    }
}

/// Has many calls at once, answered out of order.
fn crowd(daemon: &Daemon) {
    let mut agent = Agent::ready(daemon);
    let calls: Vec<_> = (0..100).map(|n| (n, agent.start_call("a__sleep", &json!({"ms": n % 7, "n": n})))).collect();
    for (n, call) in calls {
        assert_eq!(arguments(&agent.answer(&call))["n"], n);
    }
    agent.expect_quiet();
}

#[test]
fn task_is_created_awaited_and_its_status_reported() {
    for behavior in BEHAVIORS {
        let (front, daemon) = start_with(behavior(), "--tasks", |server| server);
        let mut agent = Agent::ready(&daemon);
        until("mcpd listens", || (front.stream_listeners() == 1).then_some(()));
        let params = json!({"name": "a__echo", "arguments": {"n": 1}, "task": {"ttl": null}});
        let task = result(&agent.request("tools/call", &params))["task"]["taskId"].clone();
        let awaited = agent.start_request("tasks/result", &json!({ "taskId": task }));
        front.http().wait_request("somebody waits for it", |request| request.rpc() == "tasks/result");
        arguments(&agent.call("a__finish_task", &json!({ "id": task })));
        assert_eq!(arguments(&agent.answer(&awaited)), &json!({"n": 1}));
        assert_eq!(agent.expect_notification("notifications/tasks/status")["params"]["taskId"], task);
        agent.expect_quiet();
    }
}

#[test]
fn hundred_calls_at_once_each_get_their_own_answer_over_connections_that_are_used_again() {
    for behavior in BEHAVIORS {
        let (front, daemon) = start(behavior());
        crowd(&daemon);
        crowd(&daemon);
        assert_eq!(front.calls("sleep"), 200);
        let (mut agent, before) = (Agent::ready(&daemon), front.http().accepted());
        for _ in 0..50 {
            arguments(&agent.call("a__echo", &json!({})));
        }
        let more = front.http().accepted() - before;
        assert!(more < 5, "{more} new connections for calls one after the other");
    }
}

/// Case I4.
#[test]
fn call_is_not_repeated_after_the_server_closed_the_connection() {
    for behavior in [Behavior::default(), Behavior::json()] {
        let (front, daemon) = start(behavior);
        let mut agent = Agent::ready(&daemon);
        front.answer_tool("echo", |_| Response::disconnect());
        expect_error(&agent.call("a__echo", &json!({})), -31001, "unknown");
        assert_eq!(front.calls("echo"), 1);
        expect_well(&mut agent);
        assert_eq!(daemon.row("a")["restarts"], 0);
    }
}

#[test]
fn server_whose_process_dies_ends_its_calls_once_and_returns() {
    for behavior in BEHAVIORS {
        let (front, daemon) = start_with(behavior(), "", |server| server);
        let mut agent = Agent::ready(&daemon);
        let slow = agent.start_call("a__sleep", &json!({"ms": 600_000}));
        front.http().wait_request("the call", |request| request.rpc() == "tools/call");
        expect_error(&agent.call("a__die", &json!({})), -31001, "unknown");
        expect_error(&agent.answer(&slow), -31001, "unknown");
        until("it answers again", || {
            let answer = agent.call("a__echo", &json!({}));
            answer["error"].is_null().then(|| result(&answer).clone())
        });
        assert_eq!((front.calls("sleep"), front.calls("die")), (1, 1));
        expect_well(&mut agent);
    }
}

#[test]
fn server_without_sessions_event_ids_or_stream_is_served() {
    for behavior in [Behavior::default(), Behavior::json()] {
        let bare = Behavior { has_sessions: false, has_event_ids: false, has_stream: false, ..behavior };
        let (front, daemon) = start(bare);
        let mut agent = Agent::ready(&daemon);
        arguments(&agent.call("a__echo", &json!({})));
        expect_well(&mut agent);
        assert_eq!(daemon.row("a")["restarts"], 0);
        drop(agent);
        drop(daemon);
        assert_eq!(
            front.http().count(|request| request.method == "GET"),
            1,
            "a stream that is not there is not asked for again"
        );
        assert_eq!(front.http().count(|request| request.method == "DELETE"), 0);
    }
}
