//! Subscribers receive each change of a resource once, and nobody else receives it.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, code, result, until};

const LIBRARY: &str = r#"{"resources":[{"uri":"x://1","name":"one"}],"resourceTemplates":[{"uriTemplate":"x://{+id}","name":"any"}],"refused":["x://no"]}"#;

fn server() -> Server {
    Server::named("s").library(LIBRARY)
}

fn subscribe(agent: &mut Agent, uri: &str) -> Value {
    agent.request("resources/subscribe", &json!({ "uri": uri }))
}

fn unsubscribe(agent: &mut Agent, uri: &str) {
    result(&agent.request("resources/unsubscribe", &json!({ "uri": uri })));
}

fn updated(uri: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{{\"uri\":\"{uri}\"}}}}\n")
}

/// Has the server say that resources have changed.
fn change(agent: &mut Agent, uris: &[&str]) {
    let text: String = uris.iter().map(|uri| updated(uri)).collect();
    arguments(&agent.call("s__raw", &json!({"text": text})));
}

fn expect_updated(agent: &mut Agent, uri: &str) {
    let notification = agent.expect_notification("notifications/resources/updated");
    assert_eq!(notification["params"], json!({ "uri": uri }));
}

/// How often the server was asked this of a URI.
fn request_count(daemon: &Daemon, method: &str, uri: &str) -> usize {
    let (method, uri) = (format!("\"resources/{method}\""), format!("\"uri\":\"{uri}\""));
    daemon.journal("s").iter().filter(|line| line.contains(&method) && line.contains(&uri)).count()
}

fn wait_requested(daemon: &Daemon, method: &str, uri: &str, times: usize) {
    until(&format!("{method} of {uri}"), || (request_count(daemon, method, uri) == times).then_some(()));
}

#[test]
fn two_agents_with_one_uri_are_one_subscription_at_the_server() {
    let daemon = server().start();
    let [mut one, mut other, mut third] = [(); 3].map(|()| Agent::ready(&daemon));
    assert_eq!(result(&subscribe(&mut one, "x://1"))["zeta"], 1.1, "the first answer is the server's own");
    assert_eq!(*result(&subscribe(&mut other, "x://1")), json!({}));
    assert_eq!(*result(&subscribe(&mut other, "x://1")), json!({}), "twice is once");
    change(&mut third, &["x://1"]);
    expect_updated(&mut one, "x://1");
    expect_updated(&mut other, "x://1");
    unsubscribe(&mut one, "x://1");
    change(&mut third, &["x://1"]);
    expect_updated(&mut other, "x://1");
    assert_eq!((request_count(&daemon, "subscribe", "x://1"), request_count(&daemon, "unsubscribe", "x://1")), (1, 0));
    unsubscribe(&mut other, "x://1");
    assert_eq!(request_count(&daemon, "unsubscribe", "x://1"), 1);
    change(&mut third, &["x://1"]);
    for agent in [&mut one, &mut other, &mut third] {
        agent.expect_quiet();
    }
}

#[test]
fn agents_that_subscribe_at_the_same_moment_wait_for_one_answer_of_the_server() {
    let daemon = server().flags("--one-at-a-time").start();
    let [mut one, mut other, mut leaver] = [(); 3].map(|()| Agent::ready(&daemon));
    let gate = daemon.gate();
    let busy = one.start_call("s__sleep", &gate.arguments());
    daemon.wait_at_gate("s", &gate);
    let params = |uri: &str| json!({ "uri": uri });
    let asks = [&mut one, &mut other, &mut leaver]
        .map(|agent| ["x://1", "x://no"].map(|uri| agent.start_request("resources/subscribe", &params(uri))));
    [&mut one, &mut other, &mut leaver].into_iter().for_each(Agent::expect_quiet);
    leaver.disconnect();
    daemon.wait_status("has two agents", |status| status["agents"].as_array().is_some_and(|agents| agents.len() == 2));
    gate.open();
    arguments(&one.answer(&busy));
    for (agent, [accepted, refused]) in [&mut one, &mut other].into_iter().zip(&asks) {
        result(&agent.answer(accepted));
        let refusal = agent.answer(refused);
        assert_eq!((code(&refusal), &refusal["error"]["message"]), (-32601, &json!("Method not found")));
    }
    assert_eq!((request_count(&daemon, "subscribe", "x://1"), request_count(&daemon, "subscribe", "x://no")), (1, 1));
    change(&mut one, &["x://1"]);
    expect_updated(&mut one, "x://1");
    expect_updated(&mut other, "x://1");
}

#[test]
fn update_reaches_subscribers_unchanged() {
    let daemon = server().start();
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    for uri in ["x://a", "x://c/d"] {
        result(&subscribe(&mut one, uri));
    }
    result(&subscribe(&mut other, "x://b"));
    let odd = r#"{"method":"notifications/resources/updated", "params":{"x":1.10,"uri":"x:\/\/\u0061","title":"é"},"jsonrpc":"2.0"}"#;
    arguments(&other.call("s__raw", &json!({"text": format!("{odd}\n")})));
    assert_eq!(one.next_line().expect("a line").trim_end(), odd);
    change(&mut one, &["x://b", "x://c", "x://e", "x://c/dd", "x://c/d/f"]);
    expect_updated(&mut other, "x://b");
    // A part of what it has subscribed to.
    expect_updated(&mut one, "x://c/d/f");
    arguments(
        &one.call("s__raw", &json!({"text": "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\"}\n"})),
    );
    one.expect_quiet();
    other.expect_quiet();
}

#[test]
fn subscriptions_outlive_the_instance_of_the_server() {
    let daemon = server().start();
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    result(&subscribe(&mut one, "x://1"));
    result(&subscribe(&mut other, "x://1"));
    result(&subscribe(&mut other, "x://2"));
    for died in 1..=2 {
        assert_eq!(code(&one.call("s__die", &json!({"how": "kill"}))), -31001);
        for uri in ["x://1", "x://2"] {
            wait_requested(&daemon, "subscribe", uri, 1 + died);
        }
    }
    change(&mut one, &["x://1", "x://2"]);
    expect_updated(&mut one, "x://1");
    expect_updated(&mut other, "x://1");
    expect_updated(&mut other, "x://2");
    daemon.client(&["restart", "s"]).expect_code(0);
    wait_requested(&daemon, "subscribe", "x://2", 4);
    unsubscribe(&mut other, "x://2");
    assert_eq!(request_count(&daemon, "unsubscribe", "x://2"), 1);
}

#[test]
fn subscriptions_of_a_disconnected_agent_end_unless_others_share_them() {
    let daemon = server().start();
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    for uri in ["x://1", "x://2"] {
        result(&subscribe(&mut one, uri));
    }
    result(&subscribe(&mut other, "x://1"));
    one.disconnect();
    wait_requested(&daemon, "unsubscribe", "x://2", 1);
    change(&mut other, &["x://1", "x://2"]);
    expect_updated(&mut other, "x://1");
    assert_eq!(request_count(&daemon, "unsubscribe", "x://1"), 0);
    drop(other);
    wait_requested(&daemon, "unsubscribe", "x://1", 1);
}

#[test]
fn subscription_that_is_refused_is_an_error_for_that_agent_and_forgotten() {
    let daemon = server().start();
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    for (agent, times) in [(&mut one, 1), (&mut other, 2)] {
        let refusal = subscribe(agent, "x://no");
        assert_eq!((code(&refusal), &refusal["error"]["message"]), (-32601, &json!("Method not found")));
        assert_eq!(request_count(&daemon, "subscribe", "x://no"), times);
    }
    change(&mut one, &["x://no"]);
    result(&subscribe(&mut one, "x://1"));
    assert_eq!(code(&one.call("s__die", &json!({"how": "kill"}))), -31001);
    wait_requested(&daemon, "subscribe", "x://1", 2);
    assert_eq!(request_count(&daemon, "subscribe", "x://no"), 2);
    let unknown = subscribe(&mut one, "z://1");
    assert_eq!((code(&unknown), &unknown["error"]["data"]["uri"]), (-32002, &json!("z://1")));
    one.expect_quiet();
    other.expect_quiet();
}

#[test]
fn unsubscribe_before_the_response_leaves_no_subscription() {
    let daemon = server().flags("--one-at-a-time").start();
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    let gate = daemon.gate();
    let busy = other.start_call("s__sleep", &gate.arguments());
    daemon.wait_at_gate("s", &gate);
    let cancelled = one.start_request("resources/subscribe", &json!({"uri": "x://1"}));
    daemon.wait_row("s", "was sent both", |row| row["in_flight"] == 2);
    one.cancel(&cancelled);
    let pending = one.start_request("resources/subscribe", &json!({"uri": "x://2"}));
    let unsubscribe = one.start_request("resources/unsubscribe", &json!({"uri": "x://2"}));
    one.expect_quiet();
    gate.open();
    arguments(&other.answer(&busy));
    result(&one.answer(&pending));
    result(&one.answer(&unsubscribe));
    change(&mut other, &["x://1", "x://2"]);
    one.expect_quiet();
    // The server may have heeded the subscription and not its cancellation.
    assert_eq!((request_count(&daemon, "subscribe", "x://1"), request_count(&daemon, "unsubscribe", "x://1")), (1, 1));
    result(&subscribe(&mut one, "x://1"));
    change(&mut other, &["x://1"]);
    expect_updated(&mut one, "x://1");
}

#[test]
fn subscription_that_the_server_does_not_confirm_in_time_fails() {
    let limits = "call_timeout = \"200ms\"\ntool_timeouts = { raw = \"10m\" }";
    let daemon = server().flags("--one-at-a-time").line(limits).start();
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    let gate = daemon.gate();
    let busy = one.start_call("s__sleep", &gate.arguments());
    daemon.wait_at_gate("s", &gate);
    let asks = [&mut one, &mut other].map(|agent| agent.start_request("resources/subscribe", &json!({"uri": "x://1"})));
    assert_eq!(code(&one.answer(&busy)), -31002);
    for (agent, id) in [&mut one, &mut other].into_iter().zip(&asks) {
        assert_eq!(code(&agent.answer(id)), -31002);
    }
    gate.open();
    wait_requested(&daemon, "unsubscribe", "x://1", 1);
    change(&mut one, &["x://1"]);
    one.expect_quiet();
    other.expect_quiet();
}

#[test]
fn agent_has_a_bounded_number_and_size_of_subscriptions() {
    let daemon = server().start();
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    for n in 0..1000 {
        result(&subscribe(&mut one, &format!("x://{n}")));
    }
    let refusal = subscribe(&mut one, "x://one/more");
    assert_eq!((code(&refusal), &refusal["error"]["data"]), (-31003, &json!({"outcome": "not_sent"})), "{refusal}");
    result(&subscribe(&mut one, "x://7"));
    unsubscribe(&mut one, "x://7");
    result(&subscribe(&mut one, "x://one/more"));
    result(&subscribe(&mut other, "x://7"));
    let long = |n: usize| format!("x://{n}/{}", "x".repeat(7 << 10));
    for n in 0..36 {
        result(&subscribe(&mut other, &long(n)));
    }
    assert_eq!(code(&subscribe(&mut other, &long(36))), -31003);
}

#[test]
fn lazy_server_wakes_for_a_subscription_and_stays_up_for_it() {
    let lazy = server().line("start = \"lazy\"").line("idle_timeout = \"200ms\"");
    let clock = Server::named("clock").line("start = \"lazy\"").line("idle_timeout = \"400ms\"");
    let daemon = Setup::with(lazy).server(clock).start();
    let wait = |server: &str, expected: &str| drop(daemon.wait_row(server, expected, |row| row["state"] == expected));
    wait("s", "idle");
    let mut agent = Agent::ready(&daemon);
    result(&subscribe(&mut agent, "x://1"));
    // The other one is kept longer than this one would be.
    arguments(&agent.call("clock__echo", &json!({})));
    wait("clock", "idle");
    assert_eq!(daemon.row("s")["state"], "ready");
    assert_eq!(code(&agent.call("s__die", &json!({"how": "kill"}))), -31001);
    wait_requested(&daemon, "subscribe", "x://1", 2);
    change(&mut agent, &["x://1"]);
    expect_updated(&mut agent, "x://1");
    unsubscribe(&mut agent, "x://1");
    wait("s", "idle");
}

#[test]
fn each_way_of_sharing_knows_its_subscribers() {
    for (sharing, instances) in [("session", 2), ("workspace", 1), ("pool", 1)] {
        let daemon = server().line(format!("sharing = \"{sharing}\"")).start();
        let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
        // A pool that is busy has others answer calls, but subscriptions stay where they are.
        let gate = daemon.gate();
        let busy = [(); 2].map(|()| other.start_call("s__sleep", &gate.arguments()));
        result(&subscribe(&mut one, "x://1"));
        result(&subscribe(&mut other, "x://1"));
        assert_eq!(request_count(&daemon, "subscribe", "x://1"), instances, "{sharing}");
        gate.open();
        busy.iter().for_each(|id| drop(arguments(&other.answer(id)).clone()));
        result(&subscribe(&mut other, "x://2"));
        assert_eq!(request_count(&daemon, "subscribe", "x://2"), 1, "{sharing}");
        other.disconnect();
        if sharing != "session" {
            wait_requested(&daemon, "unsubscribe", "x://2", 1);
        }
        change(&mut one, &["x://1", "x://2"]);
        expect_updated(&mut one, "x://1");
        one.expect_quiet();
    }
}

/// Case B15.
#[test]
fn agent_that_does_not_read_loses_the_oldest_updates_and_no_answer() {
    let daemon = server().start();
    let [mut deaf, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    result(&subscribe(&mut deaf, "x://1"));
    let flood = updated("x://1").replace("\"uri\"", "\"pad\":\"$FILL\",\"uri\"");
    arguments(&other.call("s__raw", &json!({"text": flood, "fill": 1000, "times": 3000})));
    let last = updated("x://1").replace("\"uri\"", "\"last\":true,\"uri\"");
    arguments(&other.call("s__raw", &json!({"text": last})));
    let dropped = daemon.status()["agents"][0]["dropped_notifications"].as_u64().expect("a number");
    let id = deaf.start_call("s__echo", &json!({}));
    let (mut received, mut ended) = (0, false);
    loop {
        let message = deaf.next();
        if message["id"] == id {
            arguments(&message);
            break;
        }
        received += 1;
        ended = message["params"]["last"] == true;
    }
    assert!(ended, "the newest is the last");
    assert_eq!(received + dropped, 3001);
    assert!(dropped > 1000, "{dropped}");
    other.expect_quiet();
}

/// The server may have accepted a renewed subscription that it does not answer, so mcpd ends that at the server.
#[test]
fn renewed_subscription_ends_alike_if_the_server_refuses_or_does_not_answer_it() {
    for (key, is_ended) in [("refused", false), ("unanswered", true)] {
        let place = Place::new();
        let daemon = Setup::with(server().line("handshake_timeout = \"5s\"")).start_in(&place);
        let mut agent = Agent::ready(&daemon);
        result(&subscribe(&mut agent, "x://1"));
        place.replace("s.library", LIBRARY.replace("x://no", "x://1").replace("refused", key));
        daemon.client(&["restart", "s"]).expect_code(0);
        until(key, || daemon.log().contains("does not tell of changes of x://1").then_some(()));
        place.replace("s.library", LIBRARY);
        let before = request_count(&daemon, "subscribe", "x://1");
        result(&subscribe(&mut agent, "x://1"));
        assert_eq!(request_count(&daemon, "subscribe", "x://1"), before + 1, "{key}: the server decides again");
        assert_eq!(request_count(&daemon, "unsubscribe", "x://1") > 0, is_ended, "{key}");
    }
}
