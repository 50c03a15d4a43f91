//! Detection of the era of a server at a URL.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::{beside, expect_well, silence};
use crate::support::http::{Answers, Behavior, Front, HttpServer, Request, Response};
use crate::support::{Agent, Place, Server, arguments, until};

fn probes(front: &Front) -> usize {
    front.http().count(|request| request.rpc() == "server/discover")
}

/// Case I15.
#[test]
fn legacy_server_is_served_whatever_it_answers_to_the_probe() {
    let ways: [fn() -> Response; 9] = [
        || Response::status(400),
        || Response::status(404),
        || Response::status(405),
        || Response::status(422),
        || Response::status(500),
        || Response::status(202),
        Response::disconnect,
        || Response::body("text/html", "<html>"),
        || {
            Response::json(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "no session"}}))
                .with_status(400)
        },
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let place = Place::new();
        let front = Front::start(&place, "a", "", Behavior::default());
        front.intercept(move |request| (request.rpc() == "server/discover").then(way));
        let daemon = beside(front.server(), &place);
        let mut agent = Agent::ready(&daemon);
        arguments(&agent.call("a__echo", &json!({})));
        expect_well(&mut agent);
        let row = daemon.row("a");
        assert_eq!((&row["protocol"], &row["restarts"]), (&json!("2025-11-25"), &json!(0)), "{number}");
        assert_eq!((probes(&front), front.sessions()), (1, 1), "{number}");
    }
}

/// Case I15.
#[test]
fn server_that_does_not_answer_the_probe_is_served() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::default());
    let silence = silence();
    front.intercept(move |request| (request.rpc() == "server/discover").then(&silence));
    let daemon = beside(front.server(), &place);
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__echo", &json!({})));
    expect_well(&mut agent);
    assert_eq!(daemon.row("a")["protocol"], "2025-11-25");
}

/// Case I15.
#[test]
fn slow_modern_server_is_served_without_a_handshake() {
    let place = Place::new();
    let front = Front::start(&place, "a", "--era modern --discover-delay 4000", Behavior::stateless(Answers::Json));
    let daemon = beside(front.server(), &place);
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    let mut agent = Agent::ready(&daemon);
    expect_well(&mut agent);
    let row = daemon.row("a");
    assert_eq!((&row["protocol"], &row["restarts"]), (&json!("2026-07-28"), &json!(0)));
}

/// Case I15.
#[test]
fn server_that_rejects_a_supported_version_is_probed_once_more() {
    let place = Place::new();
    let front = Front::start(&place, "a", "--era modern", Behavior::stateless(Answers::Json));
    let probe_count = AtomicUsize::new(0);
    front.intercept(move |request| {
        let is_first = probe_count.fetch_add(1, Ordering::SeqCst) == 0;
        let error = json!({"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"], "requested": "?"}});
        let refusal = json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error});
        is_first.then(|| Response::json(&refusal).with_status(400))
    });
    let daemon = beside(front.server(), &place);
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    assert_eq!((&daemon.row("a")["protocol"], probes(&front)), (&json!("2026-07-28"), 2));
    expect_well(&mut Agent::ready(&daemon));
}

/// How a server answers a request.
type Answer = Box<dyn Fn(&Request) -> Response + Send + Sync>;

/// Case I15.
#[test]
fn server_that_lists_its_tools_in_the_legacy_era_only_is_served_to_agents_of_both() {
    let silence = Arc::new(silence());
    let silent = move |_: &Request| silence();
    let failing = |request: &Request| {
        let error = json!({"code": -32603, "message": "no session"});
        Response::json(&json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error}))
    };
    let answers: [Answer; 2] = [Box::new(silent), Box::new(failing)];
    for answer in answers {
        let place = Place::new();
        let front = Front::start(&place, "a", "--era both", Behavior::json());
        front.intercept(move |request| {
            let is_modern = request.header("mcp-protocol-version") == Some("2026-07-28");
            (is_modern && request.rpc() == "tools/list").then(|| answer(request))
        });
        let daemon = beside(front.server().line("handshake_timeout = '2s'"), &place);
        for mut agent in [Agent::ready(&daemon), Agent::modern(&daemon, &json!({}))] {
            until("its tools are listed", || agent.tools().contains(&"a__echo".to_owned()).then_some(()));
            until("its tools answer", || agent.call("a__echo", &json!({}))["error"].is_null().then_some(()));
        }
    }
}

#[test]
fn era_can_be_configured() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::default());
    let daemon = beside(front.server().line("era = \"legacy\""), &place);
    expect_well(&mut Agent::ready(&daemon));
    assert_eq!(probes(&front), 0);
    drop(daemon);

    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::default());
    let daemon = beside(front.server().line("era = \"modern\""), &place);
    let row = daemon.wait_row("a", "says why", |row| row["reason"].is_string());
    assert!(row["reason"].to_string().contains("400"), "{row}");
    assert_eq!(front.http().count(|request| request.rpc() == "initialize"), 0);
}

/// Case I15.
#[test]
fn detected_era_is_detected_again_once_it_is_wrong() {
    let place = Place::new();
    let legacy = Front::start(&place, "a", "", Behavior::default());
    let address = legacy.http().address();
    let daemon = beside(legacy.server(), &place);
    expect_well(&mut Agent::ready(&daemon));
    drop(legacy);
    let modern = Front::start_at(address, &place, "a", "--era modern", Behavior::stateless(Answers::Json));
    // What still belongs to the session is lost with it.
    Agent::ready(&daemon).call("a__echo", &json!({}));
    daemon.wait_row("a", "speaks otherwise", |row| row["state"] == "ready" && row["protocol"] == "2026-07-28");
    expect_well(&mut Agent::ready(&daemon));
    drop(modern);
}

#[test]
fn undetected_era_is_probed_again_at_the_next_start() {
    type ProbeResponse = fn() -> Response;
    let ways: [(ProbeResponse, _); 3] = [
        (Response::disconnect, [1, 2, 2]),
        (|| Response::status(500), [1, 2, 2]),
        (|| Response::status(400), [1, 1, 1]),
    ];
    for (way, expected) in ways {
        let place = Place::new();
        let front = Front::start(&place, "a", "", Behavior::default());
        front.intercept(move |request| (request.rpc() == "server/discover").then(way));
        let daemon = beside(front.server(), &place);
        let found = expected.each_ref().map(|_| {
            daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
            let begun = || front.http().count(|request| request.rpc() == "initialize");
            let (probe_count, before) = (probes(&front), begun());
            daemon.client(&["restart", "a"]).expect_code(0);
            until("another session is begun", || (begun() > before).then_some(()));
            probe_count
        });
        assert_eq!(found, expected);
        daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    }
}

#[test]
fn unreachable_server_is_not_probed_twice_at_once() {
    let place = Place::new();
    let http = HttpServer::start(|_| Response::status(503).header("retry-after", "100"));
    let daemon = beside(Server::at("a", &http.url("/mcp")), &place);
    let row = daemon.wait_row("a", "says why", |row| row["reason"].is_string());
    assert!(row["reason"].to_string().contains("503"), "{row}");
    arguments(&Agent::ready(&daemon).call("good__echo", &json!({})));
    assert_eq!(http.requests().len(), 1);
}
