//! An agent behind `mcpd connect` continues with the next daemon after a restart or crash.

mod concurrency;
mod eras;
mod fake_daemons;
mod modern;
mod streams;

use std::fs;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, Place, Server, Setup, Shim, arguments, code, initialize_params, request, result, signal, until,
};

const LIST_CHANGED: &str = "notifications/tools/list_changed";

fn start(place: &Rc<Place>) -> Daemon {
    Setup::with(Server::named("a")).start_in(place)
}

/// Kills it, and nothing of it is left.
fn kill(mut daemon: Daemon) {
    daemon.kill9();
}

fn outcome(answer: &Value) -> (i64, &str) {
    (code(answer), answer["error"]["data"]["outcome"].as_str().expect("an outcome"))
}

/// Case E11.
#[test]
fn call_in_flight_ends_once_as_unknown_and_is_not_made_again() {
    let place = Place::new();
    for stop in [Daemon::kill9, |daemon: &mut Daemon| assert!(daemon.term().success())] {
        let mut daemon = start(&place);
        let mut shim = Shim::ready(&place);
        let before = daemon.journal("a").len();
        let call = shim.start_call("a__sleep", &json!({"ms": 60000}));
        until("the server has the call", || (daemon.journal("a").len() > before).then_some(()));
        stop(&mut daemon);
        assert_eq!(outcome(&shim.answer(&call)), (-31005, "unknown"));
        shim.wait_log("the daemon has gone");
        drop(daemon);
        let daemon = start(&place);
        assert_eq!(*arguments(&shim.call("a__echo", &json!({"n": 1}))), json!({"n": 1}));
        shim.wait_log("there is a daemon again");
        shim.expect_quiet();
        let calls = daemon.journal("a").split_off(before);
        assert_eq!(calls.iter().filter(|line| line.contains("60000")).count(), 1);
        assert_eq!(daemon.status()["agents"][0]["client"], "test-agent 7");
    }
}

/// Case E11.
#[test]
fn calls_made_while_a_daemon_drains_are_made_at_the_next_one() {
    let place = Place::new();
    let setup = || Setup::with(Server::named("a")).server(Server::named("b").flags("--leave-delay 1000"));
    let mut daemon = setup().start_in(&place);
    let [mut shim, mut other] = [(); 2].map(|()| Shim::ready(&place));
    let slow = shim.start_call("a__sleep", &json!({"ms": 600_000}));
    daemon.wait_journal("a", "60000");
    daemon.signal(Signal::TERM);
    until("it takes no more agents", || (!daemon.agent_socket().exists()).then_some(()));
    let calls: Vec<_> = (0..3).map(|n| shim.start_call("a__echo", &json!({ "drained": n }))).collect();
    let others = ["a__echo", "b__echo"].map(|tool| other.start_call(tool, &json!({"drained": "other"})));
    assert_eq!(outcome(&shim.answer(&slow)), (-31005, "unknown"));
    assert!(daemon.wait_exit().success());
    shim.wait_log("the daemon has gone");
    let daemon = setup().start_in(&place);
    for (n, call) in calls.iter().enumerate() {
        assert_eq!(*arguments(&shim.answer(call)), json!({ "drained": n }));
    }
    for call in &others {
        assert_eq!(*arguments(&other.answer(call)), json!({"drained": "other"}));
    }
    for quiet in [&mut shim, &mut other] {
        quiet.expect_quiet();
    }
    let received: Vec<_> = daemon.journal("a").into_iter().filter(|line| line.contains("drained")).collect();
    assert_eq!(received.len(), 4, "{received:?}");
}

/// Case E11.
#[test]
fn requests_during_a_restart_are_queued_and_sent_in_order_to_the_next_daemon() {
    let place = Place::new();
    let daemon = start(&place);
    let mut shim = Shim::ready(&place);
    kill(daemon);
    shim.wait_log("the daemon has gone");
    let calls: Vec<_> = (0..3).map(|n| shim.start_call("a__echo", &json!({ "held": n }))).collect();
    assert_eq!(*result(&shim.request("ping", &json!({}))), json!({}), "which needs no daemon");
    let cancelled = shim.start_call("a__echo", &json!({"held": "never"}));
    shim.cancel(&cancelled);
    let cancelled = shim.start_call("a__echo", &json!({"held": "never"}));
    let cancelled = json!({"requestId": cancelled});
    shim.send(&request("with one", "notifications/cancelled", &cancelled));
    shim.send_raw("no JSON\n");
    let daemon = start(&place);
    assert_eq!(*result(&shim.answer(&json!("with one"))), json!({}));
    for (n, call) in calls.iter().enumerate() {
        assert_eq!(*arguments(&shim.answer(call)), json!({ "held": n }));
    }
    shim.expect_quiet();
    let received: Vec<_> = daemon.journal("a").into_iter().filter(|line| line.contains("held")).collect();
    assert_eq!(received.len(), 3, "{received:?}");
    assert!((0..3).all(|n| received[n].contains(&format!("{{\"held\":{n}}}"))), "{received:?}");
}

#[test]
fn server_error_that_claims_a_shutdown_delays_no_call() {
    let place = Place::new();
    let daemon = start(&place);
    let mut shim = Shim::ready(&place);
    let data = json!({"outcome": "not_sent", "daemon": "stopping"});
    let answer = shim.call("a__fail", &json!({"code": -31005, "message": "x", "data": data}));
    assert_eq!(outcome(&answer), (-32603, "unknown"));
    arguments(&shim.call("a__echo", &json!({})));
    shim.expect_quiet();
    drop(daemon);
}

#[test]
fn request_without_a_daemon_for_ten_seconds_is_not_sent_and_excess_requests_fail_at_once() {
    let place = Place::new();
    let daemon = start(&place);
    let mut shim = Shim::ready(&place);
    kill(daemon);
    shim.wait_log("the daemon has gone");
    let start = Instant::now();
    let parked: Vec<_> = (0..256).map(|_| shim.start_call("a__echo", &json!({}))).collect();
    for _ in 0..3 {
        assert_eq!(outcome(&shim.call("a__echo", &json!({}))), (-31003, "not_sent"));
    }
    for call in parked {
        assert_eq!(outcome(&shim.answer(&call)), (-31004, "not_sent"));
    }
    assert!(start.elapsed() >= Duration::from_secs(10));
    let large = "x".repeat(17 << 20);
    assert_eq!(outcome(&shim.call("a__echo", &json!({ "large": large }))), (-31003, "not_sent"));
    shim.expect_quiet();
}

#[test]
fn agent_that_was_not_introduced_yet_is_introduced_to_the_next_daemon() {
    let place = Place::new();
    let daemon = start(&place);
    let [mut silent, mut asking] = [(); 2].map(|()| Shim::start(&place, &[]));
    daemon.wait_status("has both", |status| status["agents"].as_array().is_some_and(|agents| agents.len() == 2));
    signal(daemon.pid(), Signal::STOP);
    let params = initialize_params("2025-06-18", &json!({}));
    let hello = asking.start_request("initialize", &params);
    asking.notify("notifications/initialized", &Value::Null);
    let early = asking.start_call("a__echo", &json!({}));
    kill(daemon);
    silent.wait_log("the daemon has gone");
    let late = silent.start_request("initialize", &params);
    let daemon = start(&place);
    assert_eq!(result(&asking.answer(&hello))["protocolVersion"], "2025-06-18");
    assert_eq!(result(&silent.answer(&late))["protocolVersion"], "2025-06-18");
    let answer = asking.answer(&early);
    // If it was written nobody knows; if not it is done now.
    assert!(answer["error"].is_null() || outcome(&answer) == (-31005, "unknown"), "{answer}");
    for shim in [&mut silent, &mut asking] {
        arguments(&shim.call("a__echo", &json!({})));
    }
    drop(daemon);
}

#[test]
fn version_log_level_subscriptions_and_lists_are_restored() {
    let place = Place::new();
    let shelf = r#"{"logging":true,"resources":[{"uri":"x://1","name":"one"},{"uri":"x://2","name":"two"}]}"#;
    let start = || {
        let server = Server::named("a").library(shelf);
        Setup::with(server).start_in(&place)
    };
    let daemon = start();
    let mut shim = Shim::start(&place, &[]);
    assert_eq!(result(&shim.initialize("2025-03-26"))["protocolVersion"], "2025-03-26");
    shim.tools();
    result(&shim.request("resources/templates/list", &json!({})));
    result(&shim.request("logging/setLevel", &json!({"level": "warning"})));
    for uri in ["x://1", "x://2"] {
        result(&shim.request("resources/subscribe", &json!({ "uri": uri })));
    }
    result(&shim.request("resources/unsubscribe", &json!({"uri": "x://2"})));
    let before = daemon.journal("a").len();
    kill(daemon);
    shim.wait_log("the daemon has gone");
    let daemon = start();
    let mut changed = [(); 2].map(|()| shim.next()["method"].clone());
    changed.sort_by_key(Value::to_string);
    assert_eq!(changed, [json!("notifications/resources/list_changed"), json!(LIST_CHANGED)]);
    assert_eq!(daemon.status()["agents"][0]["protocol"], "2025-03-26");
    daemon.wait_journal("a", "\"resources/subscribe\"");
    until("the level is asked for", || {
        daemon.journal("a").split_off(before).iter().any(|line| line.contains("\"warning\"")).then_some(())
    });
    let updated =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"x://1\"}}\n";
    arguments(&Agent::ready(&daemon).call("a__raw", &json!({"text": updated})));
    assert_eq!(shim.expect_notification("notifications/resources/updated")["params"], json!({"uri": "x://1"}));
    shim.expect_quiet();
    let journal = daemon.journal("a").split_off(before);
    assert_eq!(journal.iter().filter(|line| line.contains("resources/subscribe")).count(), 1, "{journal:?}");
}

#[test]
fn request_of_a_dead_daemon_is_cancelled_and_its_id_is_not_reused() {
    const SAMPLE: &str = "sampling/createMessage";
    let place = Place::new();
    let daemon = start(&place);
    let mut shim = Shim::with_capabilities(&place, &json!({"sampling": {}}));
    let ask =
        |shim: &mut Shim| shim.start_call("a__send_request", &json!({"method": SAMPLE, "params": {"messages": []}}));
    let call = ask(&mut shim);
    let question = shim.expect_request(SAMPLE);
    kill(daemon);
    assert_eq!(outcome(&shim.answer(&call)), (-31005, "unknown"));
    let cancelled = shim.expect_notification("notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    let daemon = start(&place);
    let call = ask(&mut shim);
    let next = shim.expect_request(SAMPLE);
    assert_ne!(next["id"], question["id"]);
    shim.respond(&question, &json!({"late": true}));
    shim.respond(&next, &json!({"model": "m"}));
    assert_eq!(result(&shim.answer(&call))["structuredContent"]["result"], json!({"model": "m"}));
    assert_eq!(daemon.status()["agents"][0]["stray_responses"], 0);
    shim.expect_quiet();
}

#[test]
fn batch_is_passed_on_and_refused_once() {
    let place = Place::new();
    let daemon = start(&place);
    let mut shim = Shim::start(&place, &[]);
    result(&shim.initialize("2025-03-26"));
    shim.send(
        &json!([{"jsonrpc": "2.0", "id": 101, "method": "ping"}, {"jsonrpc": "2.0", "id": 102, "method": "ping"}]),
    );
    let answer = shim.next();
    assert_eq!((code(&answer), &answer["id"]), (-32600, &Value::Null), "{answer}");
    shim.expect_quiet();
    drop(daemon);
}

#[test]
fn removed_profile_is_waited_for_and_reported_once() {
    let place = Place::new();
    let head = |profiles: &str| Setup::with(Server::named("a")).head(profiles).write(&place);
    let file = head("[profiles.p]");
    let daemon = Setup::new().config(file).start_in(&place);
    let mut shim = Shim::start(&place, &["--profile", "p"]);
    result(&shim.initialize("2025-11-25"));
    head("");
    daemon.client(&["reload"]).expect_code(0);
    shim.wait_log("this profile no more");
    let call = shim.start_call("a__echo", &json!({}));
    head("[profiles.p]");
    daemon.client(&["reload"]).expect_code(0);
    arguments(&shim.answer(&call));
    assert_eq!(shim.log().matches("this profile no more").count(), 1);
    fs::metadata(place.runtime_dir().join("p.sock")).expect("it is there again");
}

#[test]
fn agent_that_has_finished_writing_does_not_wait_for_a_daemon() {
    let place = Place::new();
    let daemon = start(&place);
    let [mut idle, mut asking] = [(); 2].map(|()| Shim::ready(&place));
    kill(daemon);
    for shim in [&mut idle, &mut asking] {
        shim.wait_log("the daemon has gone");
    }
    idle.shut_down_writing();
    assert!(idle.wait_exit().success());
    idle.expect_end();
    let call = asking.start_call("a__echo", &json!({}));
    asking.shut_down_writing();
    let daemon = start(&place);
    arguments(&asking.answer(&call));
    asking.expect_end();
    assert!(asking.wait_exit().success());
    drop(daemon);
}
