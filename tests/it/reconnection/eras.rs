//! Modern agents, and agents of both eras, behind `mcpd connect` across daemons.

use std::fs;
use std::rc::Rc;

use serde_json::{Value, json};

use super::outcome;
use crate::support::{Agent, Daemon, Era, Place, Setup, Shim, arguments, result, until};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const UPDATED: &str = "notifications/resources/updated";

/// How a daemon may end.
const ENDS: [fn(&mut Daemon); 2] = [Daemon::kill9, |daemon| assert!(daemon.term().success())];

/// A server of each era, `old` and `new`, with a resource.
fn start(place: &Rc<Place>) -> Daemon {
    let server = |era: Era, name: &str| {
        let shelf = json!({"resources": [{"uri": format!("{name}://1"), "name": "one"}]});
        era.server(name).library(shelf)
    };
    Setup::with(server(Era::Legacy, "old")).server(server(Era::Modern, "new")).start_in(place)
}

/// A shim whose agent is never introduced.
fn modern(place: &Place) -> Shim {
    let mut shim = Shim::start(place, &[]);
    shim.speak_modern(&json!({}));
    shim
}

/// Listens for this; gives the subscription, and what of it was granted.
fn listen(shim: &mut Shim, filter: &Value) -> (Value, Value) {
    let id = shim.start_request("subscriptions/listen", &json!({"notifications": filter}));
    let granted =
        expect_on_subscription(shim, &id, "notifications/subscriptions/acknowledged")["notifications"].clone();
    (id, granted)
}

/// Waits for this notification of the subscription; its params.
fn expect_on_subscription(shim: &mut Shim, id: &Value, method: &str) -> Value {
    let expect_on_subscription = shim.expect_notification(method);
    assert_eq!(
        expect_on_subscription["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], *id,
        "{expect_on_subscription}"
    );
    expect_on_subscription["params"].clone()
}

/// The next daemon, for who has lost one in this way.
fn restart(place: &Rc<Place>, mut daemon: Daemon, end: fn(&mut Daemon), shim: &Shim) -> Daemon {
    let expect_on_subscription = |log: &str| log.matches("the daemon has gone").count();
    let before = expect_on_subscription(&shim.log());
    end(&mut daemon);
    until("the shim has noticed", || (expect_on_subscription(&shim.log()) > before).then_some(()));
    drop(daemon);
    // Without the lists of the one before it has nothing to correct once its servers have listed.
    let _ = fs::remove_dir_all(place.path("home/.cache/mcpd"));
    start(place)
}

/// Case E11.
#[test]
fn subscription_of_a_modern_agent_continues_with_the_next_daemon() {
    let place = Place::new();
    let mut daemon = start(&place);
    let mut shim = modern(&place);
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["old://1", "new://1"]});
    let (id, granted) = listen(&mut shim, &filter);
    assert_eq!(granted, filter);
    for (round, end) in ENDS.into_iter().enumerate() {
        daemon = restart(&place, daemon, end, &shim);
        // It may have missed anything.
        expect_on_subscription(&mut shim, &id, TOOLS_CHANGED);
        for uri in ["old://1", "new://1"] {
            assert_eq!(expect_on_subscription(&mut shim, &id, UPDATED)["uri"], uri);
        }
        for server in ["old", "new"] {
            let tool = format!("fresh{round}");
            let mut other = Agent::ready(&daemon);
            arguments(&other.call(&format!("{server}__mutate_tools"), &json!({"add": [tool]})));
            other.disconnect();
            until("it is told", || shim.tools().contains(&format!("{server}__{tool}")).then_some(()));
            expect_on_subscription(&mut shim, &id, TOOLS_CHANGED);
        }
        let mut other = Agent::ready(&daemon);
        arguments(&other.call("new__touch", &json!({"uris": ["new://1"]})));
        assert_eq!(expect_on_subscription(&mut shim, &id, UPDATED)["uri"], "new://1");
        shim.expect_quiet();
    }
    assert_eq!(daemon.status()["agents"][0]["client"], "test-agent 7");
    shim.cancel(&id);
    let daemon = restart(&place, daemon, Daemon::kill9, &shim);
    shim.expect_quiet();
    drop(daemon);
}

/// Case E11.
#[test]
fn modern_call_in_flight_ends_once_as_unknown_and_is_not_made_again() {
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
fn agent_of_both_eras_reconnects_in_both() {
    let place = Place::new();
    let mut daemon = start(&place);
    let mut shim = modern(&place);
    assert!(
        result(&shim.request("server/discover", &json!({})))["supportedVersions"].to_string().contains("2026-07-28")
    );
    shim.speak_legacy();
    result(&shim.initialize("2025-06-18"));
    shim.tools();
    shim.speak_modern(&json!({}));
    let (id, _) = listen(&mut shim, &json!({"toolsListChanged": true}));
    for end in ENDS {
        daemon = restart(&place, daemon, end, &shim);
        let mut expect_on_subscription: Vec<Value> = [(); 2].map(|()| shim.next()).into();
        expect_on_subscription.sort_by_key(|expect_on_subscription| expect_on_subscription["params"].is_null());
        assert!(
            expect_on_subscription
                .iter()
                .all(|expect_on_subscription| expect_on_subscription["method"] == TOOLS_CHANGED),
            "{expect_on_subscription:?}"
        );
        assert_eq!(
            (
                &expect_on_subscription[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
                &expect_on_subscription[1]["params"]
            ),
            (&id, &Value::Null)
        );
        for server in ["old", "new"] {
            let answer = shim.call(&format!("{server}__echo"), &json!({}));
            assert_eq!(result(&answer)["resultType"], "complete");
            shim.speak_legacy();
            let answer = shim.call(&format!("{server}__echo"), &json!({}));
            assert!(result(&answer)["resultType"].is_null(), "{answer}");
            shim.speak_modern(&json!({}));
        }
        let agents = daemon.status()["agents"].clone();
        assert_eq!((&agents[0]["client"], &agents[0]["protocol"]), (&json!("test-agent 7"), &json!("2025-06-18")));
    }
}

#[test]
fn workspace_instance_follows_the_directory_of_the_agent() {
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
