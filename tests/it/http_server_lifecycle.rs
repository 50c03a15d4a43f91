//! Servers at URLs have the same lifecycle as others: status, laziness, replacement and stop.

use std::fs;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::reload::{replace, text};
use crate::support::http::{Behavior, Front, Response};
use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, until};

fn front(place: &Rc<Place>, flags: &str) -> Front {
    Front::start(place, "s", flags, Behavior::default())
}

/// A daemon with this one server.
fn serve(place: &Rc<Place>, front: &Front) -> Daemon {
    Setup::with(front.server()).start_in(place)
}

fn wait_sessions(front: &Front, count: usize) {
    until(&format!("{count} sessions"), || (front.sessions() == count).then_some(()));
}

#[test]
fn status_shows_the_url_of_a_server_and_checks_its_health() {
    for (behavior, transport) in [(Behavior::json(), "streamable http"), (Behavior::old(), "http+sse")] {
        let place = Place::new();
        let front = Front::start(&place, "s", "", behavior);
        let daemon = serve(&place, &front);
        let origin = format!("http://{}", front.http().address());
        let row = daemon.row("s");
        assert_eq!(row["remote"], json!({"origin": origin, "transport": transport}), "{row}");
        assert!(row["state"] == "ready" && row["pid"].is_null() && row["protocol"].is_string(), "{row}");
        let status = daemon.client(&["status"]).expect_code(0).stdout;
        assert!(
            status.contains(&format!("s       {origin}  {transport}\n")) && !status.contains(&format!("{origin}/")),
            "{status}"
        );
        let checked = daemon.client(&["status", "--check", "--json"]).expect_code(0).json();
        assert_eq!(checked["servers"][0]["answers"], true, "{checked}");
        let logs = daemon.client(&["logs", "s"]).expect_code(0);
        assert!(logs.stderr.contains("is reached at a URL"), "{logs}");
    }
}

#[test]
fn server_with_retry_after_is_retried_then_or_on_request() {
    for status in [429, 503] {
        let place = Place::new();
        let front = front(&place, "");
        front.intercept(move |_| Some(Response::status(status).header("retry-after", "120")));
        let daemon = serve(&place, &front);
        let row = daemon.wait_row("s", "is in backoff", |row| row["state"] == "backoff");
        let retry = row["retry_in_ms"].as_u64().expect("a time");
        assert!((100_000..=120_000).contains(&retry), "{row}");
        assert!(row["reason"].to_string().contains(&status.to_string()), "{row}");
        front.stop_intercepting();
        daemon.client(&["restart", "s"]).expect_code(0);
        arguments(&Agent::ready(&daemon).call("s__echo", &json!({})));
    }
}

/// Case I12.
#[test]
fn changed_url_is_connected_before_the_old_session_ends_and_its_calls_finish() {
    let place = Place::new();
    let [one, two] =
        ["one", "two"].map(|name| Front::start(&place, name, &format!("--tool {name}"), Behavior::default()));
    let at = |url: &str| text(&[Server::at("s", url)], &place);
    let file = place.write("changing.toml", at(&one.url()));
    let daemon = Setup::new().config(file).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let call = agent.start_call("s__sleep", &json!({"ms": 1000}));
    one.http().wait_request("the call", |request| request.rpc() == "tools/call");
    replace(&place, at(&two.url()));
    daemon.client(&["reload"]).expect_code(0);
    arguments(&agent.answer(&call));
    assert!(agent.tools().contains(&"s__two".to_owned()));
    arguments(&agent.call("s__echo", &json!({})));
    wait_sessions(&one, 0);
    assert_eq!(one.http().count(|request| request.method == "DELETE"), 1);
    // Nobody listens at the discard port.
    replace(&place, at("http://127.0.0.1:9/mcp"));
    let refused = daemon.client(&["reload"]).expect_code(1);
    assert!(
        refused.stdout.contains("cannot be reached")
            && refused.stdout.contains("its previous definition keeps running"),
        "{refused}"
    );
    arguments(&agent.call("s__echo", &json!({})));
    assert_eq!(two.sessions(), 1);
}

#[test]
fn lazy_http_server_is_connected_by_its_first_call_until_idle() {
    let place = Place::new();
    let front = front(&place, "");
    let setup = || Setup::with(front.server().line("start = \"lazy\"").line("idle_timeout = \"300ms\""));
    let mut daemon = setup().start_in(&place);
    daemon.wait_row("s", "sleeps", |row| row["state"] == "idle");
    wait_sessions(&front, 0);
    daemon.term();
    let before = front.http().requests().len();
    let daemon = setup().start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert!(agent.tools().contains(&"s__echo".to_owned()));
    assert_eq!(front.http().requests().len(), before, "nothing was asked of it to be listed");
    arguments(&agent.call("s__echo", &json!({})));
    daemon.wait_row("s", "sleeps again", |row| row["state"] == "idle");
    wait_sessions(&front, 0);
}

#[test]
fn stopped_server_receives_the_end_of_its_session_and_can_be_enabled() {
    let place = Place::new();
    let front = front(&place, "");
    let mut daemon = serve(&place, &front);
    daemon.client(&["disable", "s", "--stop"]).expect_code(0);
    assert_eq!((front.sessions(), daemon.row("s")["state"].as_str()), (0, Some("disabled")));
    daemon.client(&["enable", "s"]).expect_code(0);
    assert_eq!((front.sessions(), daemon.row("s")["state"].as_str()), (1, Some("ready")));
    daemon.term();
    assert_eq!((front.sessions(), front.http().count(|request| request.method == "DELETE")), (0, 2));
}

/// The values of a header in the calls that came.
fn called_with(front: &Front, header: &str) -> Vec<String> {
    let calls = front.http().requests().into_iter().filter(|request| request.rpc() == "tools/call");
    calls.map(|request| request.header(header).unwrap_or_default().to_owned()).collect()
}

#[test]
fn agents_of_one_workspace_share_a_session_that_names_it() {
    let place = Place::new();
    let front = front(&place, "");
    let server = front.server().line("sharing = \"workspace\"").line("headers = { X-Where = \"${agent:cwd}\" }");
    let daemon = Setup::with(server).start_in(&place);
    let directories = ["here", "there"].map(|name| place.path(name));
    directories.iter().for_each(|directory| fs::create_dir(directory).expect("the test's own"));
    for directory in [&directories[0], &directories[0], &directories[1]] {
        let mut agent = Agent::working_in(&daemon, directory);
        until("its tools are listed", || agent.tools().contains(&"s__echo".to_owned()).then_some(()));
        arguments(&agent.call("s__echo", &json!({})));
    }
    let expected = [&directories[0], &directories[0], &directories[1]].map(|path| path.display().to_string());
    assert_eq!(called_with(&front, "x-where"), expected);
}

#[test]
fn workspace_in_a_url_is_percent_encoded() {
    let place = Place::new();
    let front = front(&place, "");
    let server = Server::at("s", &(front.url() + "?where=${agent:cwd}&x=y")).line("sharing = \"workspace\"");
    let daemon = Setup::with(server).start_in(&place);
    for name in ["plain", "a b&c=d#e?f+%41", "ä"] {
        let directory = place.path(name);
        fs::create_dir(&directory).expect("the test's own");
        let mut agent = Agent::working_in(&daemon, &directory);
        until("its tools are listed", || agent.tools().contains(&"s__echo".to_owned()).then_some(()));
        arguments(&agent.call("s__echo", &json!({})));
        let before = front.http().requests().last().expect("a call").query();
        assert_eq!((&*before["where"], &*before["x"]), (directory.to_str().expect("text"), "y"));
    }
}

#[test]
fn pool_opens_a_session_for_each_call_that_finds_none_idle() {
    let place = Place::new();
    let front = front(&place, "");
    let server = front.server().line("sharing = \"pool\"").line("max_instances = 2").line("idle_timeout = \"300ms\"");
    let daemon = Setup::with(server).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let calls = [1, 2].map(|_| agent.start_call("s__sleep", &json!({"ms": 600})));
    until("both are called", || (called_with(&front, "mcp-session-id").len() == 2).then_some(()));
    let sessions = called_with(&front, "mcp-session-id");
    assert!(sessions[0] != sessions[1] && front.sessions() == 2, "{sessions:?}");
    calls.iter().for_each(|call| drop(arguments(&agent.answer(call)).clone()));
    wait_sessions(&front, 1);
}

#[test]
fn default_process_limits_are_not_reported_for_remote_servers() {
    let place = Place::new();
    let front = front(&place, "");
    let daemon = Setup::with(front.server()).head("[defaults]\nmemory_max = \"64MiB\"").start_in(&place);
    let row = daemon.row("s");
    assert_eq!((&row["limits"], row["state"].as_str()), (&Value::Null, Some("ready")), "{row}");
}
