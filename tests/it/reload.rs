//! Changed configurations are applied while agents are connected. Invalid ones change nothing.

use std::fs;
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, until};

pub(crate) fn start(servers: &[Server]) -> Daemon {
    let place = Place::new();
    let file = place.write("changing.toml", text(servers, &place));
    Setup::new().config(file).start_in(&place)
}

/// The same with its place, where the test changes the configuration.
pub(crate) fn changing(servers: &[Server]) -> (Daemon, Rc<Place>) {
    let daemon = start(servers);
    let place = Rc::clone(daemon.place());
    (daemon, place)
}

pub(crate) fn text(servers: &[Server], place: &Place) -> String {
    servers.iter().map(|server| server.toml(place)).collect()
}

/// A file that is read while it is written would be another one.
pub(crate) fn replace(place: &Place, text: impl AsRef<[u8]>) {
    let new = place.write("new.toml", text);
    fs::rename(new, place.path("changing.toml")).expect("the test's own");
}

pub(crate) fn change(daemon: &mut Daemon, text: impl AsRef<[u8]>, log_line: &str) {
    replace(daemon.place(), text);
    let before = daemon.log().matches(log_line).count();
    daemon.signal(Signal::HUP);
    until("the reload is said", || (daemon.log().matches(log_line).count() > before).then_some(()));
}

pub(crate) fn pids(daemon: &Daemon) -> Vec<(String, u64)> {
    let status = daemon.status();
    let servers = status["servers"].as_array().expect("servers").iter();
    servers.map(|server| (server["name"].to_string(), server["pid"].as_u64().unwrap_or_default())).collect()
}

#[test]
fn reload_restarts_only_changed_servers_and_notifies_agents() {
    let many: Vec<_> = (0..6).map(|number| Server::named(&format!("s{number}"))).collect();
    let mut daemon = start(&many);
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let gate = daemon.gate();
    let call = agent.start_call("s0__sleep", &gate.arguments());
    daemon.wait_at_gate("s0", &gate);
    let before = pids(&daemon);

    let mut servers: Vec<_> = (0..5).map(|number| Server::named(&format!("s{number}"))).collect();
    servers[4] = Server::named("s4").env("CHANGED", "1");
    servers.push(Server::named("new"));
    let text = text(&servers, daemon.place());
    change(&mut daemon, text, "reloaded: added new; changed s4; removed s5");

    gate.open();
    arguments(&agent.answer(&call));
    agent.expect_notification("notifications/tools/list_changed");
    let tools = agent.tools();
    let has = |name: &str| tools.iter().any(|tool| tool == name);
    assert!(has("new__echo") && has("s4__echo") && !has("s5__echo"), "{tools:?}");
    let after = until("all are up", || {
        let pids = pids(&daemon);
        pids.iter().all(|(_, pid)| *pid > 0).then_some(pids)
    });
    assert_eq!(before[..4], after[..4]);
    assert_ne!(before[4], after[4]);
    assert_eq!(after[5].0, "\"new\"");
}

/// Case G2.
#[test]
fn invalid_configuration_changes_nothing_and_is_reported_with_its_place() {
    let mut daemon = start(&[Server::named("s")]);
    let before = pids(&daemon);
    change(&mut daemon, "[servers.t]\ncomand = \"x\"\n", "not reloaded, nothing has changed");
    assert!(daemon.log().contains("changing.toml:2:1"), "{}", daemon.log());
    fs::remove_file(daemon.place().path("changing.toml")).expect("it is there");
    let before_log = daemon.log().matches("not reloaded").count();
    daemon.signal(Signal::HUP);
    until("it is said", || (daemon.log().matches("not reloaded").count() > before_log).then_some(()));
    arguments(&Agent::ready(&daemon).call("s__echo", &json!({})));
    assert_eq!(pids(&daemon), before);
}

#[test]
fn changed_policy_applies_at_once_without_a_restart() {
    let mut daemon = start(&[Server::named("s")]);
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let before = pids(&daemon);
    let denying = text(&[Server::named("s").line("deny = [\"echo\"]")], daemon.place());
    change(&mut daemon, denying, "reloaded: updated s");
    agent.expect_notification("notifications/tools/list_changed");
    assert!(!agent.tools().contains(&"s__echo".to_owned()));
    let refused = agent.call("s__echo", &json!({}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_eq!(pids(&daemon), before);
}

/// Case G4.
#[test]
fn hundred_reloads_in_a_row_start_nothing_twice() {
    let mut daemon = start(&[Server::named("s")]);
    let place = std::rc::Rc::clone(daemon.place());
    for number in 0..100 {
        let servers = [Server::named("s"), Server::named("t").env("NUMBER", &number.to_string())];
        replace(&place, text(&servers, &place));
        daemon.signal(Signal::HUP);
    }
    let mut agent = Agent::ready(&daemon);
    until("the last one holds", || {
        let answer = agent.call("t__env", &json!({"name": "NUMBER"}));
        // An error may have the digits in it.
        answer["result"].to_string().contains("99").then_some(())
    });
    // The last one holds from the moment on at which the one before begins to end.
    let servers = || place.processes(None).into_iter().filter(|one| one.command.contains("scripted-server"));
    until("one process of each server is left", || (servers().count() == 2).then_some(()));
}

#[test]
fn recording_of_arguments_changes_without_a_restart() {
    let mut daemon = start(&[Server::named("s")]);
    let mut agent = Agent::ready(&daemon);
    let before = pids(&daemon);
    agent.call("s__echo", &json!({"n": 1}));
    let text = text(&[Server::named("s").line("log_arguments = true")], daemon.place());
    change(&mut daemon, text, "reloaded: updated s");
    agent.call("s__echo", &json!({"n": 2}));
    assert_eq!(pids(&daemon), before);
    let calls = daemon.client(&["calls", "--json"]).expect_code(0).stdout;
    let with_arguments: Vec<bool> = calls.lines().map(|call| call.contains("arguments")).collect();
    assert_eq!(with_arguments, [false, true], "{calls}");
}
