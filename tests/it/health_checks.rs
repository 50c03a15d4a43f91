//! Health checks: hung servers are replaced, and busy servers are not.

use std::thread;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, code, result, run, signal, until};

/// A server that is pinged every 100 ms. Even a busy machine runs it for a moment in the time for an answer.
fn pinged(name: &str) -> Server {
    Server::named(name).line("health_interval = \"100ms\"").line("health_timeout = \"1s\"")
}

fn pid(daemon: &Daemon, name: &str) -> u32 {
    u32::try_from(daemon.row(name)["pid"].as_u64().expect("it runs")).expect("a process id")
}

/// Case A7.
#[test]
fn hung_server_is_replaced_without_affecting_others() {
    let daemon = Setup::with(pinged("s")).server(Server::named("good")).start();
    let mut agent = Agent::ready(&daemon);
    let hung = pid(&daemon, "s");
    signal(hung, Signal::STOP);
    daemon.wait_row("s", "is replaced", |row| row["restarts"] == 1 && row["state"] == "ready");
    let error = daemon.row("s")["last_error"].to_string();
    assert!(error.contains("did not answer 3 pings in a row"), "{error}");
    arguments(&agent.call("s__echo", &json!({})));
    arguments(&agent.call("good__echo", &json!({})));
    assert_eq!(daemon.row("good")["restarts"], 0);
    assert_ne!(pid(&daemon, "s"), hung);
}

/// A client of a container engine removes its container before it ends.
#[test]
fn hung_server_gets_the_end_of_its_input_and_sigterm_before_it_is_killed() {
    let hangs = [
        ("eof", "cat >/dev/null; echo eof >>\"$1\""),
        ("term", "trap 'echo term >>\"$1\"; exit' TERM; while :; do sleep 0.1; done"),
    ];
    for (end, hang) in hangs {
        let place = Place::new();
        let answer = r#"{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}\n"#;
        let id = r#"$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')"#;
        let script = place.write("server.sh", format!("read -r line\nprintf '{answer}' \"{id}\"\n{hang}\n"));
        let server = Server::run_by("s", "/bin/sh").arg(script).arg(place.path("ends")).line("era = \"legacy\"");
        let server = server.line("health_interval = \"100ms\"").line("health_timeout = \"50ms\"");
        let daemon = Setup::with(server).start_in(&place);
        daemon.wait_row("s", "is replaced", |row| row["restarts"].as_u64() >= Some(1));
        let ends = std::fs::read_to_string(place.path("ends")).expect("it has ended by itself");
        assert_eq!(ends.lines().next(), Some(end));
    }
}

/// Case A22.
#[test]
fn server_that_answers_no_pings_is_checked_by_its_list_and_not_replaced() {
    let library = r#"{"prompts":[{"name":"p"}]}"#;
    let place = Place::new();
    let library = place.write("library.json", library);
    let mute = |name| pinged(name).flags("--no-pings");
    // The second one offers no tools.
    let setup = Setup::with(mute("s"))
        .server(mute("prompts").flags("--bare").arg("--no-tools-if").arg(&library).arg("--library").arg(&library));
    let daemon = setup.start_in(&place);
    for (name, list) in [("s", "tools/list"), ("prompts", "prompts/list")] {
        let lists = || daemon.count_journal(name, list);
        until("it has been checked six times", || (lists() > 6).then_some(()));
        let row = daemon.row(name);
        assert_eq!(
            (&row["restarts"], &row["state"], &row["missed_pings"]),
            (&json!(0), &json!("ready"), &json!(0)),
            "{row}"
        );
        assert_eq!(pings(&daemon, name), 1, "{name} is not pinged again");
    }
    assert_eq!(check(&daemon), (vec![json!(true), json!(true)], Some(0)));
    // A server that answers nothing at all is replaced all the same.
    signal(pid(&daemon, "s"), Signal::STOP);
    daemon.wait_row("s", "is replaced", |row| row["restarts"] == 1 && row["state"] == "ready");
}

#[test]
fn unhealthy_server_with_on_unhealthy_report_is_reported_and_recovers() {
    let daemon = Setup::with(pinged("s").line("on_unhealthy = \"report\"")).start();
    let hung = pid(&daemon, "s");
    signal(hung, Signal::STOP);
    let row = daemon.wait_row("s", "is unresponsive", |row| row["state"] == "unresponsive");
    assert!(row["reason"].to_string().contains("did not answer") && row["missed_pings"].as_u64() >= Some(3), "{row}");
    daemon.client(&["status"]).expect_code(1);
    signal(hung, Signal::CONT);
    let row = daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
    assert_eq!((&row["pid"], &row["restarts"], &row["missed_pings"]), (&json!(hung), &json!(0), &json!(0)));
    daemon.client(&["status"]).expect_code(0);
}

#[test]
fn sequential_server_counts_as_healthy_during_a_call() {
    let daemon = Setup::with(pinged("s").flags("--one-at-a-time")).start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let call = agent.start_call("s__sleep", &gate.arguments());
    daemon
        .wait_row("s", "has missed more pings than a silent server may", |row| row["missed_pings"].as_u64() > Some(3));
    gate.open();
    arguments(&agent.answer(&call));
    let row = daemon.wait_row("s", "is well again", |row| row["missed_pings"] == 0);
    assert_eq!((&row["restarts"], &row["state"]), (&json!(0), &json!("ready")), "{row}");
}

#[test]
fn server_with_health_checks_disabled_receives_none() {
    let daemon = Setup::with(pinged("s").line("on_unhealthy = \"ignore\"")).server(pinged("t")).start();
    until("the other one was asked", || daemon.journal("t").iter().any(|line| line.contains("ping")).then_some(()));
    assert!(!daemon.journal("s").iter().any(|line| line.contains("ping")));
}

#[test]
fn status_shows_when_each_server_last_passed_a_health_check() {
    let daemon = Setup::with(pinged("s")).start();
    daemon.wait_journal("s", "ping");
    let row = daemon.wait_row("s", "was asked", |row| row["checked_ms"].as_u64().is_some_and(|ms| ms < 5_000));
    assert_eq!(row["missed_pings"], 0);
}

#[test]
fn hanging_server_is_detected_despite_a_waiting_call() {
    let daemon = pinged("s").line("tool_timeouts = { sleep = \"1s\" }").start();
    let mut agent = Agent::ready(&daemon);
    signal(pid(&daemon, "s"), Signal::STOP);
    let call = agent.start_call("s__sleep", &json!({}));
    assert_eq!(code(&agent.answer(&call)), -31002);
    daemon.wait_row("s", "is replaced", |row| row["restarts"] == 1 && row["state"] == "ready");
    result(&agent.call("s__echo", &json!({})));
}

/// Case A7.
#[test]
fn hung_server_that_is_called_without_pause_is_replaced() {
    let daemon = pinged("s").line("tool_timeouts = { sleep = \"1s\" }").start();
    let mut agent = Agent::ready(&daemon);
    let hung = pid(&daemon, "s");
    signal(hung, Signal::STOP);
    // Several calls are unanswered at any moment, so no ping is due while the server is idle.
    let mut calls = Vec::new();
    until("it is replaced", || {
        calls.push(agent.start_call("s__sleep", &json!({})));
        (daemon.row("s")["restarts"] == 1).then_some(())
    });
    let error = daemon.wait_row("s", "is ready", |row| row["state"] == "ready")["last_error"].to_string();
    assert!(error.contains("did not answer") && error.contains("call"), "{error}");
    calls.iter().for_each(|call| drop(agent.answer(call)));
    result(&agent.call("s__echo", &json!({})));
}

/// Case A7.
#[test]
fn status_reports_unanswered_pings_of_a_silent_server() {
    let daemon = Setup::with(pinged("s").line("on_unhealthy = \"report\"")).start();
    signal(pid(&daemon, "s"), Signal::STOP);
    let status = || daemon.client(&["status"]).stdout;
    until("they are reported", || status().contains("s: has not answered ").then_some(()));
}

/// Case A7.
#[test]
fn status_reports_unanswered_pings_of_a_busy_server_which_is_not_replaced() {
    let daemon = Setup::with(pinged("s").flags("--one-at-a-time")).start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let call = agent.start_call("s__sleep", &gate.arguments());
    daemon.wait_row("s", "has missed four pings", |row| row["missed_pings"].as_u64() >= Some(4));
    gate.open();
    arguments(&agent.answer(&call));
    let row = daemon.wait_row("s", "is well again", |row| row["missed_pings"] == 0);
    assert_eq!(row["restarts"], 0, "{row}");
}

/// What each server has answered to a check, and the exit code of that.
fn check(daemon: &Daemon) -> (Vec<Value>, Option<i32>) {
    let ran = daemon.client(&["status", "--check", "--json"]);
    let servers = ran.json()["servers"].as_array().cloned().expect("an array of servers");
    (servers.iter().map(|server| server["answers"].clone()).collect(), ran.code)
}

fn pings(daemon: &Daemon, name: &str) -> usize {
    daemon.count_journal(name, "\"ping\"")
}

#[test]
fn status_check_checks_running_instances_and_starts_none() {
    let lazy = Server::named("lazy").line("start = \"lazy\"").line("idle_timeout = \"200ms\"");
    let many = Server::named("many").line("sharing = \"session\"");
    let daemon = Setup::with(Server::named("s")).server(many).server(lazy).start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("many__echo", &json!({})));
    daemon.wait_row("lazy", "sleeps", |row| row["state"] == "idle");
    assert_eq!(check(&daemon), (vec![json!(true), json!(true), Value::Null], Some(0)));
    assert_eq!([pings(&daemon, "s"), pings(&daemon, "many"), pings(&daemon, "lazy")], [1, 2, 0]);
    assert!(daemon.row("s")["checked_ms"].as_u64() < Some(5_000) && daemon.row("s")["answers"].is_null());
    assert_eq!(daemon.row("lazy")["state"], "idle");
}

#[test]
fn status_check_reports_a_hanging_server_without_replacing_it() {
    let patient = Server::named("good").line("health_timeout = \"10m\"");
    let daemon = Setup::with(Server::named("s").line("health_timeout = \"300ms\"")).server(patient).start();
    let hung = pid(&daemon, "s");
    signal(hung, Signal::STOP);
    for _ in 0..4 {
        assert_eq!(check(&daemon), (vec![json!(false), json!(true)], Some(1)));
    }
    let table = daemon.client(&["status", "--check"]).expect_code(1);
    assert!(table.stdout.contains("✗ s: does not answer\n"), "{table}");
    daemon.client(&["status"]).expect_code(0);
    signal(hung, Signal::CONT);
    until("it answers", || (check(&daemon) == (vec![json!(true), json!(true)], Some(0))).then_some(()));
    let ping_count = pings(&daemon, "s");
    assert!(ping_count <= 2, "it was asked {ping_count} times before it had answered");
    let row = daemon.row("s");
    let unchanged = (&row["pid"], &row["restarts"], &row["missed_pings"], &row["stray_responses"]);
    assert_eq!(unchanged, (&json!(hung), &json!(0), &json!(0), &json!(0)));
}

#[test]
fn waiting_status_check_blocks_nothing_else() {
    let daemon = Setup::with(Server::named("s").line("health_timeout = \"10m\"")).server(Server::named("good")).start();
    let mut agent = Agent::ready(&daemon);
    let hung = pid(&daemon, "s");
    signal(hung, Signal::STOP);
    let mut command = daemon.place().command(crate::support::MCPD);
    command.args(["status", "--check", "--runtime-dir"]).arg(daemon.place().runtime_dir());
    let checking = thread::spawn(move || (run(&mut command).code, Instant::now()));
    until("the other one was asked", || (pings(&daemon, "good") > 0).then_some(()));
    daemon.client(&["status"]).expect_code(0);
    daemon.client(&["restart", "good"]).expect_code(0);
    arguments(&agent.call("good__echo", &json!({})));
    let done = Instant::now();
    signal(hung, Signal::CONT);
    let (code, checked) = checking.join().expect("it does not panic");
    assert!(code == Some(0) && checked > done, "{code:?}");
}

#[test]
fn status_check_accepts_a_busy_server_and_reports_a_silent_one() {
    let quick = |name| Server::named(name).line("health_timeout = \"300ms\"");
    let daemon = Setup::with(quick("s").flags("--one-at-a-time")).server(quick("mute")).start();
    let mut agent = Agent::ready(&daemon);
    signal(pid(&daemon, "mute"), Signal::STOP);
    let gate = daemon.gate();
    let call = agent.start_call("s__sleep", &gate.arguments());
    daemon.wait_at_gate("s", &gate);
    assert_eq!(check(&daemon), (vec![Value::Null, json!(false)], Some(1)));
    gate.open();
    arguments(&agent.answer(&call));
}
