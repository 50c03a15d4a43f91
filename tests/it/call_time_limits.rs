//! Time limits of calls: per server, per tool, extended by progress, and the hard limit.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Place, Server, Setup, arguments, code, until};

/// The arguments of a call that is never answered.
fn never() -> Value {
    json!({"answer": false})
}

/// Case A7.
#[test]
fn call_with_endless_progress_ends_at_the_hard_limit_and_is_cancelled() {
    let limits = "call_timeout = \"900ms\"\ncall_timeout_max = \"1500ms\"";
    let daemon = Server::named("a").line(limits).start();
    let mut agent = Agent::ready(&daemon);
    let begun = Instant::now();
    let params =
        json!({"name": "a__progress", "arguments": {"n": 1000, "every": 100}, "_meta": {"progressToken": "t"}});
    let id = agent.start_request("tools/call", &params);
    let ended = loop {
        let message = agent.next();
        if message["id"] == id {
            break message;
        }
        assert_eq!(message["params"]["progressToken"], "t");
    };
    assert!(begun.elapsed() >= Duration::from_millis(1500), "after {:?}", begun.elapsed());
    assert_eq!((code(&ended), &ended["error"]["data"]["outcome"]), (-31002, &json!("unknown")));
    assert!(ended["error"]["message"].as_str().is_some_and(|text| text.contains("1s 500ms")), "{ended}");
    daemon.wait_journal("a", "notifications/cancelled");
    agent.expect_quiet();
}

#[test]
fn tool_limit_overrides_the_limit_of_its_server() {
    let own = r#"tool_timeouts = { "sl*" = "10m", "s*" = "10ms" }"#;
    let daemon = Server::named("a").line(own).line("call_timeout = \"300ms\"").start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let slow = agent.start_call("a__sleep", &gate.arguments());
    assert_eq!(code(&agent.call("a__raw", &never())), -31002);
    daemon.wait_journal("a", "notifications/cancelled");
    gate.open();
    arguments(&agent.answer(&slow));
}

#[test]
fn default_timeouts_apply_to_servers_without_their_own() {
    let own = Server::named("own").line("tool_timeouts = { raw = \"1m\" }");
    let head = "[defaults]\ntool_timeouts = { \"r?w\" = \"200ms\" }";
    let daemon = Setup::with(own).server(Server::named("other")).head(head).start();
    let mut agent = Agent::ready(&daemon);
    let longer = agent.start_call("own__raw", &never());
    let shorter = agent.call("other__raw", &never());
    assert_eq!(code(&shorter), -31002);
    agent.expect_quiet();
    agent.cancel(&longer);
}

#[test]
fn changed_limit_applies_to_the_next_call_without_a_restart() {
    let place = Place::new();
    let text = |server: Server| server.toml(&place);
    let file = place.write("limits.toml", text(Server::named("a")));
    let mut daemon = Setup::new().config(file).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let before = daemon.server_pid("a");
    let gate = daemon.gate();
    let long = agent.start_call("a__sleep", &gate.arguments());
    daemon.wait_at_gate("a", &gate);
    let changed = place.write("new.toml", text(Server::named("a").line("tool_timeouts = { \"*\" = \"200ms\" }")));
    fs::rename(changed, place.path("limits.toml")).expect("the test's own");
    daemon.signal(Signal::HUP);
    until("the reload is said", || daemon.log().contains("reloaded: updated a").then_some(()));
    assert_eq!(code(&agent.call("a__sleep", &json!({"ms": 600_000}))), -31002);
    gate.open();
    arguments(&agent.answer(&long));
    assert_eq!(daemon.server_pid("a"), before);
}
