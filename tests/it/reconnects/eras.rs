//! Agents that speak as of MCP 2026-07-28, or in both eras, behind `mcpd connect`: with one daemon after another.

use std::rc::Rc;

use serde_json::json;

use super::outcome;
use crate::support::{Daemon, Era, Place, Setup, Shim, arguments, result, until};

/// How a daemon may end.
const ENDS: [fn(&mut Daemon); 2] = [Daemon::kill9, |daemon| assert!(daemon.term().success())];

/// A server of each era, `old` and `new`.
fn start(place: &Rc<Place>) -> Daemon {
    Setup::with(Era::Legacy.server("old")).server(Era::Modern.server("new")).start_in(place)
}

/// A shim whose agent is never introduced.
fn modern(place: &Place) -> Shim {
    let mut shim = Shim::start(place, &[]);
    shim.speak_modern(&json!({}));
    shim
}

/// The next daemon, for who has lost one in this way.
fn restart(place: &Rc<Place>, mut daemon: Daemon, end: fn(&mut Daemon), shim: &Shim) -> Daemon {
    let told = |log: &str| log.matches("the daemon has gone").count();
    let before = told(&shim.log());
    end(&mut daemon);
    until("the shim has noticed", || (told(&shim.log()) > before).then_some(()));
    drop(daemon);
    start(place)
}

/// Case E11.
#[test]
fn a_modern_call_in_flight_ends_once_as_unknown_and_is_not_made_again() {
    let place = Place::new();
    let mut daemon = start(&place);
    let mut shim = modern(&place);
    for (end, server) in ENDS.into_iter().zip(["old", "new"]) {
        let before = daemon.journal(server).len();
        let call = shim.start_call(&format!("{server}__sleep"), &json!({"ms": 60000}));
        until("the server has the call", || {
            daemon.journal(server)[before..].iter().any(|line| line.contains("60000")).then_some(())
        });
        daemon = restart(&place, daemon, end, &shim);
        assert_eq!(outcome(&shim.answer(&call)), (-31005, "unknown"));
        assert_eq!(*arguments(&shim.call(&format!("{server}__echo"), &json!({"n": 1}))), json!({"n": 1}));
        shim.expect_quiet();
        let calls = daemon.journal(server).split_off(before);
        assert_eq!(calls.iter().filter(|line| line.contains("60000")).count(), 1);
    }
    shim.wait_log("there is a daemon again");
}

#[test]
fn an_agent_of_both_eras_goes_on_in_both() {
    let place = Place::new();
    let mut daemon = start(&place);
    let mut shim = modern(&place);
    let found = shim.request("server/discover", &json!({}));
    assert!(result(&found)["supportedVersions"].to_string().contains("2026-07-28"), "{found}");
    shim.speak_legacy();
    result(&shim.initialize("2025-06-18"));
    shim.tools();
    for end in ENDS {
        daemon = restart(&place, daemon, end, &shim);
        shim.expect_notification("notifications/tools/list_changed");
        for server in ["old", "new"] {
            let answer = shim.call(&format!("{server}__echo"), &json!({}));
            assert!(result(&answer)["resultType"].is_null(), "{answer}");
            shim.speak_modern(&json!({}));
            let answer = shim.call(&format!("{server}__echo"), &json!({}));
            assert_eq!(result(&answer)["resultType"], "complete");
            shim.speak_legacy();
        }
        let agents = daemon.status()["agents"].clone();
        assert_eq!((&agents[0]["client"], &agents[0]["protocol"]), (&json!("test-agent 7"), &json!("2025-06-18")));
    }
}

#[test]
fn a_server_for_each_directory_is_that_of_the_agents_own() {
    let place = Place::new();
    let server = |era: Era, name: &str| era.server(name).line("sharing = \"workspace\"").line("cwd = \"${agent:cwd}\"");
    let setup = Setup::with(server(Era::Legacy, "old")).server(server(Era::Modern, "new"));
    let daemon = setup.start_in(&place);
    let here = place.path("").canonicalize().expect("a directory");
    let mut shim = modern(&place);
    for server in ["old", "new"] {
        let answer = shim.call(&format!("{server}__cwd"), &json!({}));
        assert!(result(&answer).to_string().contains(here.to_str().expect("text")), "{answer}");
    }
    drop(shim);
    drop(daemon);
}
