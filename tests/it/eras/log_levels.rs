//! A legacy server logs at the level of a modern call while that call runs.

use serde_json::{Value, json};

use super::full;
use crate::support::{Agent, Daemon, Era, Place, Setup, until};

fn start() -> Daemon {
    let place = Place::new();
    Setup::with(full(&place, Era::Legacy)).start_in(&place)
}

/// The levels that the server was asked for, in order.
fn levels(daemon: &Daemon) -> Vec<String> {
    let level = |line: String| {
        let line: Value = serde_json::from_str(&line).ok()?;
        Some(line["params"]["level"].as_str()?.to_owned()).filter(|_| line["method"] == "logging/setLevel")
    };
    daemon.journal("old").into_iter().filter_map(level).collect()
}

#[track_caller]
fn expect(daemon: &Daemon, expected: &[&str]) {
    until("the level is as it should be", || (levels(daemon) == expected).then_some(()));
}

#[test]
fn after_the_call_the_server_logs_as_before() {
    let daemon = start();
    let mut other = Agent::ready(&daemon);
    other.request("logging/setLevel", &json!({"level": "error"}));
    expect(&daemon, &["error"]);
    let mut agent = Agent::modern(&daemon, &json!({}));
    agent.log_from("debug");
    let gate = daemon.gate();
    let call = agent.start_call("old__sleep", &gate.arguments());
    expect(&daemon, &["error", "debug"]);
    gate.open();
    agent.answer(&call);
    expect(&daemon, &["error", "debug", "error"]);
    other.expect_quiet();
}

#[test]
fn default_log_level_applies_if_no_agent_sets_one() {
    let daemon = start();
    let mut agent = Agent::modern(&daemon, &json!({}));
    for (level, cancelled) in [("debug", false), ("info", false), ("debug", true)] {
        agent.log_from(level);
        let call = agent.start_call("old__sleep", &json!({"ms": if cancelled { 60_000 } else { 100 }, "level": level}));
        if cancelled {
            daemon.wait_journal("old", "60000");
            agent.cancel(&call);
        } else {
            agent.answer(&call);
        }
    }
    expect(&daemon, &["debug", "info", "debug", "info"]);
}

#[test]
fn most_verbose_of_several_calls_sets_the_level() {
    let daemon = start();
    let [mut most, mut least] = ["debug", "warning"].map(|level| {
        let mut agent = Agent::modern(&daemon, &json!({}));
        agent.log_from(level);
        agent
    });
    let long = least.start_call("old__sleep", &json!({"ms": 600_000}));
    expect(&daemon, &["warning"]);
    let gate = daemon.gate();
    let short = most.start_call("old__sleep", &gate.arguments());
    expect(&daemon, &["warning", "debug"]);
    gate.open();
    most.answer(&short);
    expect(&daemon, &["warning", "debug", "warning"]);
    least.cancel(&long);
    least.expect_quiet();
}
