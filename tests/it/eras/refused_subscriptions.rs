//! A subscription that a server refuses affects only the agents that requested it.

use serde_json::json;

use super::changes::{UPDATED, modern, touch};
use super::full;
use crate::support::{Agent, Daemon, Era, FACE, Place, Server, Setup, code, result, until};

fn start(flags: &str) -> Daemon {
    let place = Place::new();
    Setup::with(full(&place, Era::Modern).flags(flags).line("call_timeout = \"500ms\"")).start_in(&place)
}

/// Waits until the server was asked for one without the other.
fn wait_listen(daemon: &Daemon, uri: &str, without: &str) {
    let is_it = |line: &String| line.contains("subscriptions/listen") && line.contains(uri) && !line.contains(without);
    until("the server is asked for the one alone", || daemon.journal("new").iter().any(is_it).then_some(()));
}

/// Case B23.
#[test]
fn resource_refused_by_the_server_does_not_affect_other_subscriptions() {
    let daemon = start("--refuse-uri new://bad");
    let mut careless = modern(&daemon);
    careless.listen(&json!({"resourceSubscriptions": ["new://bad", "new://3", "new://aaa"]}));
    let mut agent = modern(&daemon);
    let (id, _) = agent.listen(&json!({"resourceSubscriptions": ["new://1", "new://zzz"]}));
    for uri in ["new://1", "new://zzz"] {
        wait_listen(&daemon, uri, "new://bad");
        touch(&daemon, Era::Modern, &[uri]);
        assert_eq!(agent.subscription_notification(&id, UPDATED)["uri"], uri);
    }
    let mut legacy = Agent::ready(&daemon);
    let refused = legacy.request("resources/subscribe", &json!({"uri": "new://bad"}));
    assert_eq!((code(&refused), &refused["error"]["message"]), (-32002, &json!("Resource not found")));
    result(&legacy.request("resources/subscribe", &json!({"uri": "new://4"})));
    touch(&daemon, Era::Modern, &["new://4"]);
    assert_eq!(legacy.expect_notification(UPDATED)["params"]["uri"], "new://4");
    agent.expect_quiet();
    assert_eq!(daemon.row("new")["restarts"], 0);
    [careless, agent].into_iter().for_each(Agent::disconnect);
}

/// Case B23.
#[test]
fn refused_resource_does_not_affect_others_at_a_new_instance() {
    let daemon = start("--refuse-uri new://bad");
    let mut careless = modern(&daemon);
    let mut agent = modern(&daemon);
    let (id, _) = agent.listen(&json!({"resourceSubscriptions": ["new://1"]}));
    assert_eq!(code(&modern(&daemon).call("new__die", &json!({"how": "kill"}))), -31001);
    careless.listen(&json!({"resourceSubscriptions": ["new://bad", "new://3"]}));
    daemon.wait_row("new", "is up again", |row| row["state"] == "ready" && row["restarts"] == 1);
    wait_listen(&daemon, "new://3", "new://bad");
    touch(&daemon, Era::Modern, &["new://1"]);
    assert_eq!(agent.subscription_notification(&id, UPDATED)["uri"], "new://1");
    [careless, agent].into_iter().for_each(Agent::disconnect);
}

/// Case B23.
#[test]
fn unacknowledged_subscription_ends_at_the_call_timeout() {
    let daemon = start("--no-acknowledgement");
    let mut agent = Agent::ready(&daemon);
    for uri in ["new://1", "new://2"] {
        let refused = agent.request("resources/subscribe", &json!({ "uri": uri }));
        assert_eq!(code(&refused), -31002, "{refused}");
    }
    assert_eq!(daemon.row("new")["restarts"], 0);
}

/// Case B23.
#[test]
fn subscription_is_acknowledged_for_the_resources_that_the_server_accepts() {
    let refused = json!({"refused": ["s://1"]});
    let unable = json!({"subscribe": false});
    for (flags, library, expected) in [
        ("--era legacy", json!({}), &["s://1", "s://2"][..]),
        ("--era legacy", refused.clone(), &["s://2"]),
        ("--era legacy", unable.clone(), &[]),
        ("--era dual", refused, &["s://2"]),
        ("--era dual", unable.clone(), &[]),
        ("--era modern --refuse-uri s://1", json!({}), &["s://2"]),
        ("--era modern --no-subscriptions", json!({}), &[]),
        ("--era modern", unable, &[]),
    ] {
        let place = Place::new();
        let mut offered = json!({"resources": [{"uri": "s://1", "name": "one"}, {"uri": "s://2", "name": "two"}]});
        offered.as_object_mut().expect("an object").extend(library.as_object().expect("an object").clone());
        let file = place.write("library.json", offered.to_string());
        let daemon = Setup::with(Server::named("s").flags(flags).arg("--library").arg(file)).start_in(&place);
        for server in [None, Some("s")] {
            let mut agent = modern(&daemon);
            agent.meta.extend(server.map(|server| (FACE.to_owned(), json!(server))));
            let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["s://1", "s://2", "s://3"]});
            let (_, granted) = agent.listen(&filter);
            assert_eq!(granted["toolsListChanged"], true, "{flags}");
            let uris = granted["resourceSubscriptions"].as_array().cloned().unwrap_or_default();
            assert_eq!(uris, expected, "{flags} {offered} {server:?}");
            agent.disconnect();
        }
    }
}

#[test]
fn subscription_that_is_cancelled_before_its_acknowledgement_leaves_none_at_the_server() {
    let place = Place::new();
    let daemon = Setup::with(full(&place, Era::Legacy).flags("--one-at-a-time")).start_in(&place);
    let mut other = Agent::ready(&daemon);
    let other_tools = other.tools().len();
    let gate = daemon.gate();
    let busy = other.start_call("old__sleep", &gate.arguments());
    daemon.wait_at_gate("old", &gate);
    let mut agent = modern(&daemon);
    let filter = json!({"notifications": {"resourceSubscriptions": ["old://1"]}});
    let listen = agent.start_request("subscriptions/listen", &filter);
    assert_eq!(agent.tools().len(), other_tools, "it is served meanwhile");
    agent.cancel(&listen);
    agent.expect_quiet();
    gate.open();
    result(&other.answer(&busy));
    daemon.wait_journal("old", "resources/unsubscribe");
    touch(&daemon, Era::Legacy, &["old://1"]);
    agent.expect_quiet();
    agent.disconnect();
}
