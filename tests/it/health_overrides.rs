//! `mcpd health` marks override health checks.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, Setup, arguments, code, signal, until};

/// A server that is asked every 100 ms.
fn checked_server(name: &str) -> Server {
    Server::named(name).line("health_interval = \"100ms\"").line("health_timeout = \"50ms\"")
}

/// A server that leaves pings unanswered, which is only reported.
fn silent() -> Server {
    checked_server("s").flags("--no-pings").line("on_unhealthy = \"report\"")
}

/// Has a person say how `s` is; what the command said.
fn mark(daemon: &Daemon, health: &str) -> String {
    let ran = daemon.client(&["health", "s", health]).expect_code(0);
    assert_eq!(ran.stderr, "");
    ran.stdout
}

fn pings(daemon: &Daemon) -> usize {
    daemon.journal("s").iter().filter(|line| line.contains("\"ping\"")).count()
}

fn starts(daemon: &Daemon) -> usize {
    daemon.journal("s").iter().filter(|line| line.starts_with("# start")).count()
}

/// Whether a call was refused, at once and unsent, because its server is marked down.
fn is_refused(answer: &Value) -> bool {
    code(answer) == -31004
        && answer["error"]["data"]["outcome"] == "not_sent"
        && answer["error"]["message"].to_string().contains("was marked down")
}

#[test]
fn server_marked_down_receives_no_call_until_the_mark_is_removed() {
    let daemon = Setup::with(checked_server("s")).server(Server::named("good")).start();
    let pid = daemon.server_pid("s");
    let mut agent = Agent::ready(&daemon);
    let pending = agent.start_call("s__sleep", &json!({"ms": 600}));
    daemon.wait_journal("s", "600");
    assert_eq!(mark(&daemon, "down"), "s: marked down\n");
    assert!(is_refused(&agent.call("s__echo", &json!({"text": "never sent"}))));
    arguments(&agent.answer(&pending));
    assert!(agent.tools().contains(&"s__echo".to_owned()), "its tools stay listed");
    arguments(&agent.call("good__echo", &json!({})));
    let pings_before = pings(&daemon);
    until("its answers change nothing", || (pings(&daemon) > pings_before + 1).then_some(()));
    let table = daemon.client(&["status"]).expect_code(1);
    assert!(table.stdout.contains("marked down"), "{table}");
    let row = daemon.row("s");
    assert_eq!(
        (&row["health_override"], &row["reason"]),
        (&json!("down"), &json!("was marked down: `mcpd health SERVER auto` ends that"))
    );
    assert!(is_refused(&agent.call("s__echo", &json!({}))));
    assert_eq!(mark(&daemon, "auto"), "s: ready\n");
    arguments(&agent.call("s__echo", &json!({})));
    let row = daemon.row("s");
    assert!(row["health_override"].is_null() && row["last_error"].is_null(), "{row}");
    assert_eq!((&row["pid"], &row["restarts"], &row["calls"]), (&json!(pid), &json!(0), &json!(4)));
    assert!(!daemon.journal("s").iter().any(|line| line.contains("never sent")));
    daemon.client(&["status"]).expect_code(0);
}

#[test]
fn server_marked_up_serves_although_its_pings_fail() {
    let daemon = Setup::with(silent()).start();
    daemon.wait_row("s", "is unresponsive", |row| row["state"] == "unresponsive");
    assert_eq!(mark(&daemon, "up"), "s: ready, marked up\n");
    let pings_before = pings(&daemon);
    until("it is asked in vain", || (pings(&daemon) > pings_before + 4).then_some(()));
    let table = daemon.client(&["status"]).expect_code(0);
    assert!(table.stdout.contains("ready, marked up"), "{table}");
    assert_eq!(daemon.row("s")["health_override"], "up");
    arguments(&Agent::ready(&daemon).call("s__echo", &json!({})));
    mark(&daemon, "auto");
    daemon.wait_row("s", "is unresponsive again", |row| row["state"] == "unresponsive");
}

#[test]
fn hanging_server_is_not_replaced_while_marked_up() {
    let daemon = Setup::with(checked_server("s")).server(checked_server("other")).start();
    let pid = daemon.server_pid("s");
    mark(&daemon, "up");
    signal(pid, Signal::STOP);
    signal(daemon.server_pid("other"), Signal::STOP);
    daemon.wait_row("other", "is replaced", |row| row["restarts"] == 1 && row["state"] == "ready");
    assert_eq!(daemon.server_pid("s"), pid);
    signal(pid, Signal::CONT);
    arguments(&Agent::ready(&daemon).call("s__echo", &json!({})));
    signal(pid, Signal::STOP);
    mark(&daemon, "auto");
    daemon.wait_row("s", "is replaced", |row| row["restarts"] == 1 && row["state"] == "ready");
}

#[test]
fn idle_server_is_not_started_by_a_call_while_marked_down() {
    let daemon = Setup::with(Server::named("s").line("start = \"lazy\"").line("idle_timeout = \"300ms\"")).start();
    daemon.wait_row("s", "sleeps", |row| row["state"] == "idle");
    assert_eq!(mark(&daemon, "down"), "s: idle, marked down\n");
    let mut agent = Agent::ready(&daemon);
    assert!(is_refused(&agent.call("s__echo", &json!({}))));
    assert_eq!(starts(&daemon), 1);
    daemon.client(&["status"]).expect_code(1);
    assert_eq!(mark(&daemon, "auto"), "s: idle\n");
    arguments(&agent.call("s__echo", &json!({})));
}

#[test]
fn mark_applies_to_every_instance_and_survives_restart_and_reload() {
    let daemon = Setup::with(checked_server("s").line("sharing = \"session\"")).start();
    let mut agents = [Agent::ready(&daemon), Agent::ready(&daemon)];
    for agent in &mut agents {
        arguments(&agent.call("s__echo", &json!({})));
    }
    assert_eq!(mark(&daemon, "down"), "s: marked down\n");
    daemon.client(&["restart", "s"]);
    daemon.client(&["reload"]).expect_code(0);
    let mut newcomer = Agent::ready(&daemon);
    for agent in agents.iter_mut().chain([&mut newcomer]) {
        assert!(is_refused(&agent.call("s__echo", &json!({}))));
    }
    assert_eq!(mark(&daemon, "auto"), "s: ready\n");
    for agent in agents.iter_mut().chain([&mut newcomer]) {
        arguments(&agent.call("s__echo", &json!({})));
    }
}

#[test]
fn disabled_server_may_be_marked_and_is_not_reported_as_down() {
    let daemon = Setup::with(Server::named("s")).start();
    daemon.client(&["disable", "--stop", "s"]).expect_code(0);
    assert_eq!(mark(&daemon, "down"), "s: disabled, marked down\n");
    daemon.client(&["status"]).expect_code(0);
    mark(&daemon, "auto");
    assert_eq!(daemon.client(&["enable", "s"]).expect_code(0).stdout, "s: ready\n");
}

#[test]
fn unknown_health_word_is_a_usage_error_and_an_unknown_server_is_reported() {
    let daemon = Setup::with(Server::named("s")).start();
    let ran = daemon.client(&["health", "s", "dwn"]).expect_code(2);
    assert!(ran.stderr.contains("up, down, auto"), "{ran}");
    let ran = daemon.client(&["health", "t", "down"]).expect_code(1);
    assert!(ran.stderr.contains("there is no server `t`; servers: s") && ran.stdout.is_empty(), "{ran}");
    daemon.place().mcpd(&["health", "s", "up", "--runtime-dir", "nowhere"]).expect_code(3);
}
