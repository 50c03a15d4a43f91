//! Lazy servers are listed without a process, started by their first call, and stopped when idle.

use std::fs;
use std::rc::Rc;

use serde_json::json;

use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, result, until};

fn lazy() -> Server {
    Server::named("s").line("start = \"lazy\"").line("idle_timeout = \"300ms\"")
}

fn state(daemon: &Daemon) -> String {
    daemon.status()["servers"][0]["state"].as_str().expect("text").to_owned()
}

fn wait_state(daemon: &Daemon, expected: &str) {
    until(expected, || (state(daemon) == expected).then_some(()));
}

/// A place where the server has run once, so that its tools are known.
fn learn_tools() -> Rc<Place> {
    let place = Place::new();
    let mut daemon = Setup::with(lazy()).start_in(&place);
    wait_state(&daemon, "idle");
    assert_eq!(daemon.count_starts("s"), 1);
    daemon.term();
    place
}

#[test]
fn lazy_server_is_listed_as_last_known_and_started_by_its_first_call() {
    let place = learn_tools();
    let daemon = Setup::with(lazy()).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert!(agent.tools().contains(&"s__echo".to_owned()));
    assert_eq!((state(&daemon).as_str(), daemon.count_starts("s")), ("idle", 1));
    daemon.client(&["status"]).expect_code(0);
    arguments(&agent.call("s__echo", &json!({})));
    assert_eq!(daemon.count_starts("s"), 2);
    wait_state(&daemon, "idle");
    arguments(&agent.call("s__echo", &json!({})));
    assert_eq!(daemon.count_starts("s"), 3);
}

/// Case A20.
#[test]
fn server_that_exits_without_an_error_and_with_nothing_to_do_is_started_by_the_next_call() {
    let daemon = Server::named("s").start();
    let mut agent = Agent::ready(&daemon);
    for calls in 1..4 {
        arguments(&agent.call("s__die", &json!({"how": "finish"})));
        wait_state(&daemon, "idle");
        let row = daemon.row("s");
        assert!(row["last_error"].is_null() && row["restarts_last_hour"] == 0, "{row}");
        daemon.client(&["status"]).expect_code(0);
        assert!(agent.tools().contains(&"s__echo".to_owned()));
        arguments(&agent.call("s__echo", &json!({})));
        assert_eq!(daemon.count_starts("s"), calls + 1);
    }
    agent.expect_quiet();
}

/// Case A20.
#[test]
fn server_that_exits_without_an_error_is_restarted_if_something_was_to_do() {
    for is_subscribed in [false, true] {
        let place = Place::new();
        let library = place.write("library.json", r#"{"resources":[{"uri":"x://1","name":"one"}]}"#);
        let daemon = Setup::with(Server::named("s").arg("--library").arg(library)).start_in(&place);
        let mut agent = Agent::ready(&daemon);
        let how = if is_subscribed {
            result(&agent.request("resources/subscribe", &json!({"uri": "x://1"})));
            "finish"
        } else {
            "leave"
        };
        let answer = agent.call("s__die", &json!({"how": how}));
        assert_eq!(answer["error"].is_null(), is_subscribed, "{answer}");
        daemon.wait_row("s", "is restarted", |row| row["state"] == "ready" && row["restarts_last_hour"] == 1);
    }
}

#[test]
fn running_call_keeps_a_lazy_server_up() {
    let daemon = Setup::with(lazy()).start_in(&learn_tools());
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("s__sleep", &json!({"ms": 900})));
    assert_eq!(daemon.count_starts("s"), 2);
}

#[test]
fn damaged_or_outdated_cache_of_a_lazy_server_is_ignored() {
    let place = learn_tools();
    let cache = place.path("home").join(".cache/mcpd/tools");
    let files: Vec<_> =
        fs::read_dir(&cache).expect("it was made").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(files.len(), 1);
    for damage in ["", "{\"version\":1", "\u{0}"] {
        fs::write(&files[0], damage).expect("the test's own");
        let mut daemon = Setup::with(lazy()).start_in(&place);
        until("its tools are known", || Agent::ready(&daemon).tools().contains(&"s__echo".to_owned()).then_some(()));
        wait_state(&daemon, "idle");
        daemon.term();
    }
    let other = Setup::with(lazy().arg("--tool").arg("another")).start_in(&place);
    let mut agent = Agent::ready(&other);
    assert!(agent.tools().contains(&"s__another".to_owned()), "it was started to learn its tools");
    wait_state(&other, "idle");
}

#[test]
fn lazy_server_is_stopped_and_reloaded_like_any_other() {
    let place = learn_tools();
    let mut daemon = Setup::with(lazy()).start_in(&place);
    daemon.signal(rustix::process::Signal::HUP);
    until("it is reloaded", || daemon.log().contains("no server is to be run differently").then_some(()));
    assert!(daemon.term().success());
}

/// Case A18.
#[test]
fn server_that_hangs_during_its_start_releases_its_start_slot() {
    // Four may start at once.
    const HANGING: usize = 5;
    let hanging = (0..HANGING).map(|n| Server::named(&format!("hangs{n}")).flags("--init-never"));
    let daemon = hanging.fold(Setup::new(), Setup::server).server(Server::named("works")).spawn();
    daemon.wait_status("the one that works is ready", |status| status["servers"][HANGING]["state"] == "ready");
}
