//! A server of both eras at a URL is used in both at once, each agent in its era.

use serde_json::{Value, json};

use super::{all, expect_logs, expect_native_legacy, expect_native_modern, is_error, version, versions, was_modern};
use crate::support::http::{Behavior, Front, Request, Response};
use crate::support::{Agent, Daemon, Place, Setup, arguments, result, until};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

fn front(place: &std::rc::Rc<Place>) -> Front {
    let library = place.write("s.json", json!({"logging": true}).to_string());
    Front::start(place, "s", &format!("--era dual --library {}", library.display()), Behavior::dual())
}

fn start() -> (Front, Daemon) {
    let place = Place::new();
    let front = front(&place);
    let daemon = Setup::with(front.server()).start_in(&place);
    (front, daemon)
}

/// The server has an instance for each era from here on.
fn start_with_legacy_agent() -> (Front, Daemon, Agent) {
    let (front, daemon) = start();
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    expect_native_legacy(&mut legacy);
    (front, daemon, legacy)
}

fn is_modern(request: &Request) -> bool {
    request.header("mcp-method").is_some()
}

fn count(front: &Front, method: &'static str, modern: bool) -> usize {
    front.http().count(move |request| request.rpc() == method && is_modern(request) == modern)
}

fn versions_of(daemon: &Daemon) -> Vec<(String, String)> {
    let mut all = versions(daemon);
    all.sort();
    all
}

fn pair(legacy: bool, modern: bool) -> Vec<(String, String)> {
    let all = [("legacy", LEGACY, legacy), ("modern", MODERN, modern)];
    all.into_iter().filter(|one| one.2).map(|(purpose, version, _)| (purpose.to_owned(), version.to_owned())).collect()
}

/// Only the legacy era requires a task of the tool.
#[test]
fn tool_that_requires_a_task_of_legacy_agents_is_called_without_one_by_modern_agents() {
    let place = Place::new();
    let front = Front::start(&place, "s", "--era dual --tasks --task-only build", Behavior::dual());
    let daemon = Setup::with(front.server()).start_in(&place);
    let mut legacy = Agent::ready(&daemon);
    let created = legacy.request("tools/call", &json!({"name": "s__build", "arguments": {}, "task": {}}));
    assert!(result(&created)["task"]["taskId"].is_string(), "{created}");
    let mut modern = Agent::modern(&daemon, &json!({}));
    until("it is listed", || modern.tools().contains(&"s__build".to_owned()).then_some(()));
    let answer = modern.call("s__build", &json!({"n": 1.5}));
    assert!(was_modern(&answer) && arguments(&answer)["n"] == 1.5, "{answer}");
    assert!(legacy.tools().contains(&"s__build".to_owned()));
}

/// Case J6.
#[test]
fn agents_of_each_era_are_served_natively_at_once() {
    let (front, daemon) = start();
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    let mut modern = Agent::modern(&daemon, &all());
    let gate = daemon.gate();
    let waiting = legacy.start_call("s__sleep", &gate.arguments());
    expect_native_modern(&mut modern);
    gate.open();
    result(&legacy.answer(&waiting));
    expect_native_legacy(&mut legacy);
    expect_native_modern(&mut modern);
    expect_native_legacy(&mut legacy);
    expect_logs(&mut legacy);
    assert_eq!(versions_of(&daemon), pair(true, true));
    let with_session = front.http().requests().into_iter().filter(is_modern);
    assert!(with_session.into_iter().all(|request| request.header("mcp-session-id").is_none()));
}

#[test]
fn modern_instance_is_started_by_the_first_modern_call() {
    let (front, daemon, _legacy) = start_with_legacy_agent();
    assert_eq!(versions_of(&daemon), pair(true, false));
    let mut modern = Agent::modern(&daemon, &all());
    let tools = modern.tools();
    assert!(tools.contains(&"s__echo".to_owned()), "{tools:?}");
    expect_native_modern(&mut modern);
    assert_eq!(versions_of(&daemon), pair(true, true));
    // The one that found out that there are both has left no session.
    assert_eq!(front.sessions(), 2, "a session, and the child for requests without one");
}

#[test]
fn status_shows_both_eras() {
    let (_front, daemon, _legacy) = start_with_legacy_agent();
    let row = daemon.row("s");
    assert_eq!((&row["protocol"], &row["eras"]), (&json!(LEGACY), &json!(["legacy", "modern"])), "{row}");
    let status = daemon.client(&["status"]).expect_code(0).stdout;
    let line = status.lines().find(|line| line.starts_with("s ")).expect("a row");
    assert!(line.contains(LEGACY) && line.contains(MODERN), "{status}");
}

#[test]
fn modern_server_is_not_sent_initialize_before_a_legacy_agent_calls() {
    let (front, daemon) = start();
    let mut modern = Agent::modern(&daemon, &all());
    expect_native_modern(&mut modern);
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    assert!(legacy.tools().contains(&"s__echo".to_owned()));
    assert_eq!(daemon.row("s")["eras"], json!(["modern"]));
    assert_eq!(front.http().count(|request| request.rpc() == "initialize"), 0);
    expect_native_legacy(&mut legacy);
    expect_native_modern(&mut modern);
    assert_eq!(versions_of(&daemon), pair(true, true));
}

#[test]
fn legacy_call_is_bridged_while_modern_calls_keep_the_instance_busy() {
    let (front, daemon) = start();
    let mut modern = Agent::modern(&daemon, &all());
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    let pending = modern.start_call("s__sleep", &json!({"ms": 600_000}));
    until("the call has reached the server", || (count(&front, "tools/call", true) == 1).then_some(()));
    assert!(was_modern(&legacy.call("s__echo", &json!({}))));
    assert_eq!(front.http().count(|request| request.rpc() == "initialize"), 0);
    modern.cancel(&pending);
    until("it is reopened", || (version(&daemon, "legacy").as_deref() == Some(LEGACY)).then_some(()));
    expect_native_legacy(&mut legacy);
}

#[test]
fn server_of_one_era_has_one_instance_and_is_probed_once_for_the_other() {
    let discover = "server/discover";
    for (flags, behavior, expected) in [
        ("", Behavior::default(), vec![discover, "initialize"]),
        // At its start, and for the first legacy call.
        (
            "--era modern",
            Behavior::stateless(crate::support::http::Answers::Json),
            vec![discover, discover, "initialize"],
        ),
    ] {
        let place = Place::new();
        let front = Front::start(&place, "s", flags, behavior);
        let daemon = Setup::with(front.server()).start_in(&place);
        for mut agent in [Agent::with_capabilities(&daemon, &all()), Agent::modern(&daemon, &all())] {
            arguments(&agent.call("s__echo", &json!({})));
        }
        let row = daemon.row("s");
        assert_eq!(row["eras"].as_array().expect("a list").len(), 1, "{row}");
        assert_eq!(row["instances"], Value::Null, "{row}");
        let openings = front.http().requests().into_iter().map(|request| request.rpc());
        let openings: Vec<_> = openings.filter(|rpc| rpc == "server/discover" || rpc == "initialize").collect();
        assert_eq!(openings, expected, "{flags}");
    }
}

#[test]
fn only_the_configured_era_is_used() {
    for (era, version, other) in [("legacy", LEGACY, "server/discover"), ("modern", MODERN, "initialize")] {
        let place = Place::new();
        let front = front(&place);
        let daemon = Setup::with(front.server().line(format!("era = \"{era}\""))).start_in(&place);
        for mut agent in [Agent::with_capabilities(&daemon, &all()), Agent::modern(&daemon, &all())] {
            arguments(&agent.call("s__echo", &json!({})));
        }
        let row = daemon.row("s");
        assert_eq!((&row["protocol"], &row["eras"]), (&json!(version), &json!([era])), "{row}");
        assert_eq!(front.http().count(move |request| request.rpc() == other), 0);
    }
}

/// Case J6.
#[test]
fn failure_in_one_era_does_not_affect_the_other() {
    let (front, daemon) = start();
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    expect_native_legacy(&mut legacy);
    let mut modern = Agent::modern(&daemon, &all());
    expect_native_modern(&mut modern);
    // Everything of the session fails, so that its instance is down.
    front.intercept(|request| (!is_modern(request)).then(|| Response::status(500)));
    front.forget_sessions_but("stateless");
    legacy.call("s__echo", &json!({}));
    daemon.client(&["restart", "s"]);
    until("the legacy one is down", || version(&daemon, "legacy").is_none().then_some(()));
    let attempts = count(&front, "initialize", false);
    until("it was tried twice more", || (count(&front, "initialize", false) > attempts + 1).then_some(()));
    expect_native_modern(&mut modern);
    front.stop_intercepting();
    until("it is back", || (version(&daemon, "legacy").as_deref() == Some(LEGACY)).then_some(()));
    expect_native_legacy(&mut Agent::with_capabilities(&daemon, &all()));

    front.intercept(|request| is_modern(request).then(|| Response::status(500)));
    assert!(is_error(&modern.call("s__echo", &json!({}))));
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    for _ in 0..20 {
        expect_native_legacy(&mut legacy);
    }
    front.stop_intercepting();
    until("the modern one is back", || (!is_error(&modern.call("s__echo", &json!({})))).then_some(()));
    expect_native_modern(&mut modern);
}

#[test]
fn restart_and_reload_serve_both_eras_again() {
    let place = Place::new();
    let front = front(&place);
    let daemon = Setup::with(front.server()).start_in(&place);
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    let mut modern = Agent::modern(&daemon, &all());
    let mut expect_both = || {
        expect_native_legacy(&mut legacy);
        expect_native_modern(&mut modern);
    };
    expect_both();
    let calls = daemon.row("s")["calls"].as_u64().expect("a number");
    daemon.client(&["restart", "s"]).expect_code(0);
    expect_both();
    assert_eq!(daemon.row("s")["calls"], calls * 2, "calls of both are counted over restarts");
    Setup::with(front.server().line("call_timeout = \"100s\"").line("headers = { x-a = \"b\" }")).write(&place);
    daemon.client(&["reload"]).expect_code(0);
    expect_both();
    daemon.client(&["disable", "--stop", "s"]).expect_code(0);
    daemon.wait_row("s", "is disabled", |row| row["state"] == "disabled");
    daemon.client(&["enable", "s"]).expect_code(0);
    daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
    expect_both();
}

#[test]
fn missing_login_affects_both_eras() {
    let place = Place::new();
    let front = front(&place);
    front.intercept(|_| Some(Response::status(401).header("www-authenticate", "Bearer")));
    let daemon = Setup::with(front.server()).spawn_in(&place);
    daemon.wait_row("s", "needs a login", |row| row["state"] == "needs_login");
    front.stop_intercepting();
    daemon.client(&["restart", "s"]).expect_code(0);
    expect_native_legacy(&mut Agent::with_capabilities(&daemon, &all()));
    expect_native_modern(&mut Agent::modern(&daemon, &all()));
}

#[test]
fn idle_modern_instance_is_ended_and_started_again() {
    let place = Place::new();
    let front = front(&place);
    let daemon = Setup::with(front.server().line("idle_timeout = \"3s\"")).start_in(&place);
    arguments(&Agent::with_capabilities(&daemon, &all()).call("s__echo", &json!({})));
    let mut modern = Agent::modern(&daemon, &all());
    for _ in 0..2 {
        expect_native_modern(&mut modern);
        until("it has gone", || (versions_of(&daemon) == pair(true, false)).then_some(()));
    }
    assert_eq!(daemon.row("s")["calls"], 7);
}

#[test]
fn change_announced_only_to_modern_clients_refreshes_the_shown_list() {
    let (front, daemon, _legacy) = start_with_legacy_agent();
    let (listed, listening) = (count(&front, "tools/list", true), count(&front, "subscriptions/listen", true));
    let mut modern = Agent::modern(&daemon, &all());
    expect_native_modern(&mut modern);
    until("its instance has listed", || (count(&front, "tools/list", true) > listed).then_some(()));
    until("and listens", || (count(&front, "subscriptions/listen", true) > listening).then_some(()));
    let listed = count(&front, "tools/list", false);
    result(&modern.call("s__mutate_tools", &json!({"add": ["fresh"]})));
    until("the list is read anew", || (count(&front, "tools/list", false) > listed).then_some(()));
}

#[test]
fn session_instances_at_a_url_use_the_era_of_their_agent() {
    let place = Place::new();
    let front = front(&place);
    let daemon = Setup::with(front.server().line("sharing = \"session\"")).start_in(&place);
    expect_native_legacy(&mut Agent::with_capabilities(&daemon, &all()));
    expect_native_modern(&mut Agent::modern(&daemon, &all()));
}

#[test]
fn subscribers_of_both_eras_receive_updates() {
    let place = Place::new();
    let library = json!({"resources": [{"uri": "s://1", "name": "one"}]});
    let library = place.write("s.json", library.to_string());
    let front = Front::start(&place, "s", &format!("--era dual --library {}", library.display()), Behavior::dual());
    let daemon = Setup::with(front.server()).start_in(&place);
    let mut legacy = Agent::with_capabilities(&daemon, &all());
    let mut modern = Agent::modern(&daemon, &all());
    result(&legacy.request("resources/subscribe", &json!({"uri": "s://1"})));
    let (subscription, _) = modern.listen(&json!({"resourceSubscriptions": ["s://1"]}));
    result(&legacy.call(
        "s__raw",
        &json!({"text": format!("{}\n", json!({"jsonrpc": "2.0",
        "method": "notifications/resources/updated", "params": {"uri": "s://1"}}))}),
    ));
    legacy.expect_notification("notifications/resources/updated");
    modern.subscription_notification(&subscription, "notifications/resources/updated");
    let cancelled = json!({"requestId": subscription});
    modern.notify("notifications/cancelled", &cancelled);
}
