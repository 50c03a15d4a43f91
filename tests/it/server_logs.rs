//! Server log messages reach the agent that owns them, from that agent's level on.

use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, Gate, Place, Server, Setup, arguments, code, connect_as, notification, result, skipped, until,
};

fn start(change: impl FnOnce(Server) -> Server) -> Daemon {
    let place = Place::new();
    let server = Server::named("s").library(r#"{"logging":true}"#);
    Setup::with(change(server)).server(Server::named("mute")).start_in(&place)
}

fn start_logging() -> Daemon {
    start(|server| server)
}

fn message(level: &str, data: &str) -> String {
    let params = json!({"level": level, "data": data});
    format!("{}\n", notification("notifications/message", &params))
}

/// Has the server say this while it is at a call of the agent's.
fn log(agent: &mut Agent, level: &str, data: &str) {
    arguments(&agent.call("s__raw", &json!({"text": message(level, data)})));
}

/// Has the server say this while it has nothing to do.
fn log_when_done(agent: &mut Agent, level: &str, data: &str) {
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}\n";
    let text = format!("{answer}{}", message(level, data));
    result(&agent.call("s__raw", &json!({"text": text, "answer": false})));
}

fn expect_log(agent: &mut Agent, data: &str) {
    assert_eq!(agent.expect_notification("notifications/message")["params"]["data"], data);
}

fn set_level(agent: &mut Agent, level: &str) {
    assert_eq!(*result(&agent.request("logging/setLevel", &json!({"level": level}))), json!({}));
}

/// The levels that a server was asked for, in order.
fn levels(daemon: &Daemon, server: &str) -> Vec<String> {
    let level = |line: &String| -> Option<String> {
        let line: Value = serde_json::from_str(line).ok()?;
        (line["method"] == "logging/setLevel").then(|| line["params"]["level"].as_str().expect("text").to_owned())
    };
    daemon.journal(server).iter().filter_map(level).collect()
}

fn wait_levels(daemon: &Daemon, expected: &[&str]) {
    until(&format!("it is asked for {expected:?}"), || (levels(daemon, "s") == expected).then_some(()));
}

#[test]
fn log_message_reaches_the_agent_whose_call_is_in_flight_unchanged() {
    let daemon = start_logging();
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    let odd = r#"{"method":"notifications/message", "params":{"x":1.10,"data":{"b":1,"a":"\/"},"level":"in\u0066o"},"jsonrpc":"2.0"}"#;
    let call = one.start_call("s__raw", &json!({"text": format!("{odd}\n")}));
    assert_eq!(one.next_line().expect("a line").trim_end(), odd);
    arguments(&one.answer(&call));
    // Calls at other servers are no matter of this one's.
    let gate = daemon.gate();
    let elsewhere = one.start_call("mute__sleep", &gate.arguments());
    log(&mut other, "info", "yours");
    expect_log(&mut other, "yours");
    gate.open();
    arguments(&one.answer(&elsewhere));
    one.expect_quiet();
    other.expect_quiet();
}

#[test]
fn log_message_with_several_possible_owners_is_dropped() {
    let daemon = start_logging();
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    let gate = daemon.gate();
    let busy = other.start_call("s__sleep", &gate.arguments());
    daemon.wait_at_gate("s", &gate);
    log(&mut one, "error", "whose?");
    gate.open();
    arguments(&other.answer(&busy));
    log_when_done(&mut one, "error", "nobody's");
    log(&mut one, "error", "mine");
    expect_log(&mut one, "mine");
    one.expect_quiet();
    other.expect_quiet();
}

/// Has the server work on a call that its agent has cancelled, until the gate is opened.
fn cancel_call(daemon: &Daemon, agent: &mut Agent) -> Gate {
    let gate = daemon.gate();
    let cancelled = agent.start_call("s__sleep", &gate.stubborn_arguments());
    daemon.wait_at_gate("s", &gate);
    let before = daemon.count_journal("s", "notifications/cancelled");
    agent.cancel(&cancelled);
    daemon.wait_journal_count("s", "notifications/cancelled", before + 1);
    gate
}

#[test]
fn message_during_an_unanswered_cancellation_reaches_the_one_agent_with_an_open_call() {
    let daemon = start_logging();
    let [mut one, mut other, mut third] = [(); 3].map(|()| Agent::ready(&daemon));
    cancel_call(&daemon, &mut other);
    log(&mut one, "error", "mine");
    expect_log(&mut one, "mine");
    let gate = daemon.gate();
    let busy = third.start_call("s__sleep", &gate.arguments());
    daemon.wait_at_gate("s", &gate);
    log(&mut one, "error", "whose?");
    gate.open();
    result(&third.answer(&busy));
    for agent in [&mut one, &mut other, &mut third] {
        agent.expect_quiet();
    }
}

#[test]
fn call_that_a_guest_has_cancelled_counts_until_the_server_has_answered_it() {
    if !rustix::process::geteuid().is_root() {
        return skipped("connecting as another user");
    }
    const GUEST: u32 = 54321;
    let place = Place::new();
    let server = Server::named("s").library(r#"{"logging":true}"#);
    let daemon = Setup::with(server).head(&format!("[profiles.open]\nallow_uids = [{GUEST}]")).start_in(&place);
    let mut guest =
        Agent::from_stream(connect_as(GUEST, &place.runtime_dir().join("open.sock")).expect("it may connect"));
    result(&guest.initialize("2025-11-25"));
    let mut owner = Agent::ready(&daemon);
    for (canceller, other) in [(0, 1), (1, 0)] {
        let before = daemon.row("s")["stray_responses"].clone();
        let agents = [&mut guest, &mut owner];
        let gate = cancel_call(&daemon, agents[canceller]);
        log(agents[other], "error", "whose?");
        gate.open();
        daemon.wait_row("s", "has answered after all", |row| row["stray_responses"] != before);
        log(agents[other], "error", "mine");
        expect_log(agents[other], "mine");
    }
    [guest, owner].iter_mut().for_each(Agent::expect_quiet);
}

#[test]
fn each_agent_receives_log_messages_from_its_own_level_on() {
    let daemon = start(|server| server.line("sharing = \"session\""));
    let levels = ["debug", "notice", "warning", "alert", "emergency", "loud"];
    for (least, are_last) in [
        (None, &levels[..]),
        (Some("warning"), &["warning", "alert", "emergency", "loud"]),
        (Some("emergency"), &["emergency", "loud"]),
    ] {
        let mut agent = Agent::ready(&daemon);
        least.into_iter().for_each(|least| set_level(&mut agent, least));
        levels.iter().for_each(|level| log(&mut agent, level, level));
        are_last.iter().for_each(|level| expect_log(&mut agent, level));
        agent.expect_quiet();
        set_level(&mut agent, "debug");
        log(&mut agent, "info", "more");
        expect_log(&mut agent, "more");
    }
}

#[test]
fn set_level_requires_a_known_level_and_a_handshake() {
    let daemon = start_logging();
    let mut early = Agent::connect(&daemon);
    assert_eq!(code(&early.request("logging/setLevel", &json!({"level": "info"}))), -32602);
    assert_eq!(result(&early.initialize("2024-11-05"))["capabilities"]["logging"], json!({}));
    for params in [json!({"level": "warn"}), json!({"level": "Info"}), json!({"level": 3}), json!({}), Value::Null] {
        assert_eq!(code(&early.request("logging/setLevel", &params)), -32602, "{params}");
    }
    set_level(&mut early, "info");
    wait_levels(&daemon, &["info"]);
    assert_eq!(levels(&daemon, "mute"), [""; 0], "it has not declared that it logs");
}

#[test]
fn server_is_set_to_the_most_verbose_level_of_its_agents_only_when_it_changes() {
    let daemon = start_logging();
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    set_level(&mut one, "error");
    wait_levels(&daemon, &["error"]);
    set_level(&mut other, "info");
    wait_levels(&daemon, &["error", "info"]);
    set_level(&mut one, "warning");
    set_level(&mut other, "info");
    assert_eq!(code(&one.call("s__die", &json!({"how": "kill"}))), -31001);
    wait_levels(&daemon, &["error", "info", "info"]);
    other.disconnect();
    wait_levels(&daemon, &["error", "info", "info", "warning"]);
    drop(one);
    arguments(&Agent::ready(&daemon).call("s__echo", &json!({})));
    assert_eq!(levels(&daemon, "s").len(), 4, "nobody wants anything else");
}

#[test]
fn agent_that_changes_its_mind_without_end_fills_no_servers_input() {
    let daemon = start_logging();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let deaf = agent.start_call("s__stop_reading", &gate.arguments());
    daemon.wait_at_gate("s", &gate);
    for n in 0..200 {
        set_level(&mut agent, if n % 2 == 0 { "debug" } else { "alert" });
    }
    agent.expect_quiet();
    gate.open();
    arguments(&agent.answer(&deaf));
    until("it has the last", || (levels(&daemon, "s").last().map(String::as_str) == Some("alert")).then_some(()));
    let times = levels(&daemon, "s").len();
    assert!(times < 10, "it was asked {times} times");
}

#[test]
fn agent_receives_all_log_messages_of_its_own_instance() {
    let daemon = start(|server| server.line("sharing = \"session\""));
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    log_when_done(&mut one, "info", "one's");
    log_when_done(&mut other, "info", "other's");
    set_level(&mut one, "error");
    wait_levels(&daemon, &["error"]);
    log_when_done(&mut one, "info", "too little");
    log_when_done(&mut one, "error", "enough");
    expect_log(&mut one, "one's");
    expect_log(&mut one, "enough");
    expect_log(&mut other, "other's");
    one.expect_quiet();
    other.expect_quiet();
}

#[test]
fn every_pool_instance_logs_at_the_level_that_agents_set() {
    let daemon = start(|server| server.line("sharing = \"pool\""));
    let mut agent = Agent::ready(&daemon);
    set_level(&mut agent, "notice");
    let gate = daemon.gate();
    let busy = agent.start_call("s__sleep", &gate.arguments());
    // A second instance is started for it.
    log(&mut agent, "notice", "mine");
    expect_log(&mut agent, "mine");
    gate.open();
    arguments(&agent.answer(&busy));
    wait_levels(&daemon, &["notice", "notice"]);
}

/// Case B15.
#[test]
fn agent_that_does_not_read_its_logs_blocks_no_others() {
    let daemon = start(|server| server.line("sharing = \"session\""));
    let [mut deaf, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    let flood = message("info", "$FILL");
    for _ in 0..5 {
        deaf.start_call("s__raw", &json!({"text": flood, "fill": 1000, "times": 1000}));
    }
    deaf.start_call("s__raw", &json!({"text": message("error", "last")}));
    daemon.wait_journal("s", "last");
    daemon.wait_row("s", "has answered all", |row| row["in_flight"] == 0);
    log(&mut other, "error", "mine");
    expect_log(&mut other, "mine");
    let id = deaf.start_call("s__echo", &json!({}));
    let mut are_last = Vec::new();
    loop {
        let message = deaf.next();
        if message["id"] == id {
            arguments(&message);
            break;
        }
        if message["method"] == "notifications/message" {
            are_last.push(message["params"]["data"] == "last");
        }
    }
    let dropped = daemon.status()["agents"][0]["dropped_notifications"].as_u64().expect("a number");
    assert_eq!(are_last.len() as u64 + dropped, 5001);
    assert_eq!(are_last.last(), Some(&true), "the newest are kept");
    other.expect_quiet();
}
