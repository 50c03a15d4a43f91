//! The first lists come from memory. A name that a server may still list is never unknown.

use std::fs;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, code, until};

/// A server that starts only while the file `gate` is there.
fn gated(name: &str, place: &Place) -> Server {
    Server::named(name).flags("--bare --tool read --tool write --exit-unless").arg(place.path("gate"))
}

fn open(place: &Place) {
    place.write("gate", "");
}

fn close(place: &Place) {
    fs::remove_file(place.path("gate")).expect("it is there");
}

/// A place where these servers have listed once, and cannot start now.
fn warm(servers: impl Fn(&Place) -> Setup) -> Rc<Place> {
    let place = Place::new();
    open(&place);
    let mut daemon = servers(&place).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    agent.disconnect();
    // Written on another thread.
    let cache = place.path("home").join(".cache/mcpd/tools");
    let count = daemon.status()["servers"].as_array().expect("servers").len();
    until("the lists are kept", || (fs::read_dir(&cache).ok()?.count() >= count).then_some(()));
    daemon.term();
    drop(daemon);
    close(&place);
    place
}

fn gated_pair(place: &Place) -> Setup {
    Setup::with(gated("a", place)).server(gated("b", place))
}

/// A daemon whose servers do not have to have settled.
fn spawn(setup: Setup, place: &Rc<Place>) -> Daemon {
    let daemon = setup.head("[daemon]\nfirst_list_wait = \"1h\"").spawn_in(place);
    daemon.wait_status("it answers", |_| true);
    daemon
}

fn expect_unavailable(answer: &Value, server: &str) {
    let error = &answer["error"];
    let parts = (&error["code"], &error["data"]["server"], &error["data"]["outcome"]);
    assert_eq!(parts, (&json!(-31004), &json!(server), &json!("not_sent")), "{answer}");
    assert!(error["data"]["retryAfterMs"].is_u64(), "{answer}");
}

const ALL: [&str; 4] = ["a__read", "a__write", "b__read", "b__write"];

#[test]
fn daemon_serves_remembered_lists_at_once_and_calls_wait_for_the_server() {
    let place = warm(gated_pair);
    let daemon = spawn(gated_pair(&place), &place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ALL);
    let call = agent.start_call("b__read", &json!({}));
    daemon.wait_row("b", "has parked the call", |row| row["calls"] == 1);
    open(&place);
    arguments(&agent.answer(&call));
    agent.expect_quiet();
}

#[test]
fn list_from_memory_is_subject_to_the_policy_of_today() {
    let place = warm(gated_pair);
    let setup = Setup::with(gated("a", &place).line("deny = ['write']")).server(gated("b", &place));
    let daemon = spawn(setup, &place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["a__read", "b__read", "b__write"]);
}

#[test]
fn server_with_another_definition_is_not_listed_from_memory() {
    let place = warm(gated_pair);
    let setup = Setup::with(gated("a", &place).flags("--tool more")).server(gated("b", &place));
    let daemon = spawn(setup, &place);
    let mut agent = Agent::ready(&daemon);
    // The list waits for the first attempt to start it, which fails.
    assert_eq!(agent.tools(), ["b__read", "b__write"]);
    open(&place);
    agent.expect_notification("notifications/tools/list_changed");
    assert_eq!(agent.tools(), ["a__read", "a__write", "a__more", "b__read", "b__write"]);
}

#[test]
fn difference_from_the_list_in_memory_is_announced() {
    let listing = |tools: &[&str]| {
        let tools: Vec<_> = tools.iter().map(|tool| json!({"name": tool, "inputSchema": {}})).collect();
        json!({ "tools": tools }).to_string()
    };
    let setup = |place: &Place| Setup::with(gated("a", place).arg("--tool-list").arg(place.path("listing")));
    let place = warm(|place| {
        place.write("listing", listing(&["one"]));
        setup(place)
    });
    let daemon = spawn(setup(&place), &place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["a__one"]);
    place.write("listing", listing(&["one", "two"]));
    open(&place);
    agent.expect_notification("notifications/tools/list_changed");
    assert_eq!(agent.tools(), ["a__one", "a__two"]);
}

#[test]
fn own_instance_of_an_agent_is_listed_from_memory() {
    let setup = |place: &Place| Setup::with(gated("a", place).line("sharing = 'session'"));
    let place = warm(setup);
    let daemon = spawn(setup(&place), &place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["a__read", "a__write"]);
    let call = agent.start_call("a__read", &json!({}));
    daemon.wait_row("a", "has parked the call", |row| row["calls"] == 1);
    open(&place);
    arguments(&agent.answer(&call));
    agent.disconnect();
}

#[test]
fn name_of_a_server_that_has_not_listed_waits_and_is_then_unavailable() {
    let place = Place::new();
    let setup = Setup::with(gated("a", &place).line("deny = ['write']"));
    let daemon = spawn(setup, &place);
    let mut agent = Agent::ready(&daemon);
    // No server has such names, so nothing is waited for.
    assert_eq!(code(&agent.call("zzz__read", &json!({}))), -32602);
    assert_eq!(code(&agent.call("read", &json!({}))), -32602);
    let calls = ["a__read", "a__write", "a__none"].map(|tool| agent.start_call(tool, &json!({})));
    agent.request("ping", &json!({}));
    for call in calls {
        expect_unavailable(&agent.answer(&call), "a");
    }
    // From here on the delays before its next starts are short again.
    daemon.client(&["restart", "a"]).expect_code(1);
    let calls = ["a__read", "a__write", "a__none"].map(|tool| agent.start_call(tool, &json!({})));
    open(&place);
    let [read, write, none] = calls.map(|call| agent.answer(&call));
    arguments(&read);
    assert_eq!((code(&write), code(&none)), (-32602, -32602));
    agent.disconnect();
}

#[test]
fn with_bare_names_any_name_waits_for_servers_that_have_not_listed() {
    let place = Place::new();
    let setup = Setup::with(gated("a", &place)).server(Server::named("b").flags("--bare --tool find"));
    let daemon = setup.head("[daemon]\nnaming = '{tool}'\nfirst_list_wait = \"100ms\"").spawn_in(&place);
    daemon.wait_row("b", "has listed", |row| row["tools_exposed"] == 1);
    let mut agent = Agent::ready(&daemon);
    let [find, read] = ["find", "read"].map(|tool| agent.start_call(tool, &json!({})));
    arguments(&agent.answer(&find));
    open(&place);
    arguments(&agent.answer(&read));
    assert_eq!(code(&agent.call("none", &json!({}))), -32602);
    agent.disconnect();
}

#[test]
fn name_of_a_server_that_cannot_start_is_unavailable_at_once() {
    let daemon = Setup::with(Server::run_by("a", "/nonexistent/command")).start();
    let mut agent = Agent::ready(&daemon);
    let answer = agent.call("a__read", &json!({}));
    expect_unavailable(&answer, "a");
    let message = answer["error"]["message"].as_str().expect("text");
    assert!(message.contains("/nonexistent/command"), "{message}");
}
