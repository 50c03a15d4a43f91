//! A daemon that a client has started ends after `idle_exit` without agents. `autostart` has the tests with real clients.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::http_agent::HttpAgent;
use crate::support::{
    Agent, Daemon, Era, MCPD, Place, Server, Setup, initialize, meta, result, signal, until, wait_exit,
};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const ENDS: &str = "no agent was connected for 1s: stopping";

fn configured() -> Setup {
    let server = Server::named("s").flags("--era modern --tasks");
    Setup::with(server).head("[daemon]\nidle_exit = '1s'")
}

/// A daemon as `mcpd connect` starts it.
fn idle() -> Setup {
    configured().option("--while-used")
}

/// Waits until another daemon, which starts now and has no agents, has ended: then the time of earlier ones is over, too.
fn wait_for_another_to_end() {
    let mut other = idle().spawn();
    assert!(other.wait_exit().success(), "{}", other.log());
}

#[track_caller]
fn expect_end(mut daemon: Daemon) {
    let status = daemon.wait_exit();
    assert!(status.success() && daemon.log().contains(ENDS), "{status}\n{}", daemon.log());
    assert_eq!(daemon.runtime_files(), ["lock"]);
}

#[track_caller]
fn expect_running(daemon: &Daemon) {
    wait_for_another_to_end();
    assert!(!daemon.log().contains("stopping"), "{}", daemon.log());
    assert_eq!(daemon.status()["pid"], daemon.pid());
}

fn ask(agent: &mut Agent, method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = Value::Object(meta(&json!({"extensions": {EXTENSION: {}}})));
    result(&agent.request(method, &params)).clone()
}

#[test]
fn unused_daemon_ends_in_order() {
    expect_end(idle().spawn());
}

#[test]
fn connected_agents_keep_a_daemon() {
    for era in Era::BOTH {
        let daemon = idle().start();
        let agent = era.agent(&daemon, &json!({}));
        assert_eq!(daemon.status()["idle_exit_ms"], 1000);
        expect_running(&daemon);
        drop(agent);
        expect_end(daemon);
    }
}

#[test]
fn session_over_http_keeps_a_daemon_without_a_connection() {
    let daemon = idle().start();
    let mut agent = HttpAgent::connect(&daemon);
    let headers = agent.initialize("/mcp");
    drop(agent);
    expect_running(&daemon);
    let request = format!("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    let mut agent = HttpAgent::connect(&daemon);
    agent.write(request);
    assert!(agent.reply().status < 300);
    drop(agent);
    expect_end(daemon);
}

#[test]
fn operators_that_stay_keep_a_daemon() {
    let daemon = idle().start();
    let place = daemon.place();
    let mut logs = place.command(MCPD);
    logs.args(["logs", "-f", "--runtime-dir"]).arg(place.runtime_dir()).stdout(Stdio::null()).stdin(Stdio::null());
    let mut logs = logs.spawn().expect("mcpd starts");
    expect_running(&daemon);
    signal(logs.id(), Signal::TERM);
    wait_exit(&mut logs);
    expect_end(daemon);
}

#[test]
fn task_that_runs_keeps_a_daemon() {
    let daemon = idle().start();
    let mut agent = Agent::connect(&daemon);
    let arguments = json!({"as_task": true, "id": "t", "ask": true});
    let id = ask(&mut agent, "tools/call", &json!({"name": "s__echo", "arguments": arguments}))["taskId"].clone();
    drop(agent);
    expect_running(&daemon);
    let mut agent = Agent::connect(&daemon);
    ask(&mut agent, "tasks/cancel", &json!({ "taskId": id }));
    assert_eq!(ask(&mut agent, "tasks/get", &json!({ "taskId": id }))["status"], "cancelled");
    drop(agent);
    expect_end(daemon);
}

#[test]
fn daemon_that_no_client_has_started_runs_on() {
    let daemon = configured().start();
    assert_eq!(daemon.status()["idle_exit_ms"], Value::Null);
    expect_running(&daemon);
}

#[test]
fn reload_changes_the_time() {
    let place = Place::new();
    let server = Server::named("s").toml(&place);
    let file = place.write("changing.toml", &server);
    let daemon = Setup::new().config(file).option("--while-used").start_in(&place);
    assert_eq!(daemon.status()["idle_exit_ms"], Value::Null);
    expect_running(&daemon);
    place.replace("changing.toml", format!("[daemon]\nidle_exit = '1h'\n{server}"));
    let ran = daemon.client(&["reload"]).expect_code(0);
    assert!(!ran.stderr.contains("[daemon]") && !ran.stdout.contains("[daemon]"), "{ran}");
    assert_eq!(daemon.status()["idle_exit_ms"], 3_600_000);
    let shown = daemon.client(&["status"]).expect_code(0).stdout;
    assert!(shown.contains("ends after 1h without agents"), "{shown}");
    place.replace("changing.toml", format!("[daemon]\nidle_exit = '1s'\n{server}"));
    daemon.client(&["reload"]).expect_code(0);
    expect_end(daemon);
}

/// Case D12.
#[test]
fn agent_that_waits_when_the_time_is_over_is_served() {
    let daemon = idle().start();
    signal(daemon.pid(), Signal::STOP);
    let mut agent = Agent::connect(&daemon);
    agent.send_raw(format!("{}\n", initialize("2025-11-25")));
    wait_for_another_to_end();
    signal(daemon.pid(), Signal::CONT);
    let answer = agent.next();
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
    // The next one finds the daemon, too.
    until("the sockets are there", || daemon.agent_socket().exists().then_some(()));
    let mut second = Agent::ready(&daemon);
    assert!(!second.tools().is_empty());
    drop((agent, second));
    expect_end(daemon);
}

#[test]
fn too_short_a_time_is_refused() {
    let place = Place::new();
    let file = place.write("c.toml", "[daemon]\nidle_exit = '10ms'\n");
    let ran = place.mcpd(&["check", "--config", file.to_str().expect("text")]).expect_code(2);
    assert!(ran.stderr.contains("`idle_exit` must be at least 1s"), "{ran}");
}
