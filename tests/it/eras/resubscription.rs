//! Subscriptions continue when servers, policies or other agents change.

use serde_json::{Value, json};

use super::changes::{UPDATED, expect_updates, modern, touch, wait_subscribed};
use super::{both, full};
use crate::reload::text;
use crate::server_replacement::reload;
use crate::support::{Agent, Daemon, Era, Place, Setup, arguments, code, result, until};

/// A daemon with a server of each era, whose configuration can be another with [`reload`].
fn changing() -> Daemon {
    let place = Place::new();
    let servers = Era::BOTH.map(|era| full(&place, era));
    let file = place.write("changing.toml", text(&servers, &place));
    Setup::new().config(file).start_in(&place)
}

/// Case J13.
#[test]
fn subscription_continues_at_a_replacement() {
    let daemon = changing();
    let mut agent = modern(&daemon);
    let (id, _) = agent.listen(&json!({"resourceSubscriptions": ["new://1", "old://1"]}));
    wait_subscribed(&daemon);
    let is_requested = |count: usize| (daemon.count_journal("old", "resources/subscribe") == count).then_some(());
    until("there, too", || is_requested(1));
    reload(&daemon, &Era::BOTH.map(|era| full(daemon.place(), era).env("CHANGED", "1"))).expect_code(0);
    until("the next one is asked", || is_requested(2));
    until("the other next one is", || (daemon.count_journal("new", "\"new://1\"") >= 2).then_some(()));
    expect_updates(&daemon, &mut agent, &id);
    agent.disconnect();
}

/// Case J14.
#[test]
fn resource_denied_during_a_subscription_is_no_longer_reported() {
    let daemon = changing();
    let mut agent = modern(&daemon);
    let (updates, _) = agent.listen(&json!({"resourceSubscriptions": ["new://1", "new://2"]}));
    let (lists, _) = agent.listen(&json!({"resourcesListChanged": true}));
    wait_subscribed(&daemon);
    let denying = full(daemon.place(), Era::Modern).line("resources = { deny = [\"new://1\"] }");
    reload(&daemon, &[full(daemon.place(), Era::Legacy), denying]).expect_code(0);
    agent.subscription_notification(&lists, "notifications/resources/list_changed");
    touch(&daemon, Era::Modern, &["new://1", "new://2"]);
    assert_eq!(agent.subscription_notification(&updates, UPDATED)["uri"], "new://2");
    agent.expect_quiet();
    agent.disconnect();
}

/// Case J13.
#[test]
fn legacy_agent_cannot_subscribe_at_a_server_without_subscriptions() {
    let place = Place::new();
    let daemon = Setup::with(full(&place, Era::Modern).flags("--no-subscriptions")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    for _ in 0..2 {
        let refused = agent.request("resources/subscribe", &json!({"uri": "new://1"}));
        assert!(refused["error"].is_object(), "{refused}");
    }
    arguments(&agent.call("new__echo", &json!({})));
}

#[test]
fn agents_of_both_eras_share_one_subscription_at_a_server() {
    let daemon = both();
    let mut listener = modern(&daemon);
    let mut subscriber = Agent::ready(&daemon);
    for server in Era::BOTH {
        let uri = server.uri();
        let (id, _) = listener.listen(&json!({"resourceSubscriptions": [uri]}));
        result(&subscriber.request("resources/subscribe", &json!({"uri": uri})));
        match server {
            Era::Legacy => drop(daemon.wait_journal("old", "resources/subscribe")),
            Era::Modern => wait_subscribed(&daemon),
        }
        touch(&daemon, server, &[&uri]);
        assert_eq!(listener.subscription_notification(&id, UPDATED)["uri"], uri);
        assert_eq!(subscriber.expect_notification(UPDATED)["params"]["_meta"], Value::Null);
        listener.cancel(&id);
        listener.expect_quiet();
        touch(&daemon, server, &[&uri]);
        subscriber.expect_notification(UPDATED);
        subscriber.expect_quiet();
        listener.expect_quiet();
    }
    assert_eq!(
        ["resources/subscribe", "resources/unsubscribe"].map(|method| daemon.count_journal("old", method)),
        [1, 0]
    );
}

/// Case J14.
#[test]
fn number_of_subscribed_resources_per_agent_is_limited() {
    let daemon = both();
    let mut agent = modern(&daemon);
    let uris = |from: usize| (from..from + 600).map(|n| format!("new://{n}")).collect::<Vec<_>>();
    let (id, granted) = agent.listen(&json!({"resourceSubscriptions": uris(0)}));
    assert_eq!(granted["resourceSubscriptions"].as_array().map(Vec::len), Some(600));
    let refused =
        agent.request("subscriptions/listen", &json!({"notifications": {"resourceSubscriptions": uris(600)}}));
    assert_eq!((code(&refused), &refused["error"]["data"]["outcome"]), (-31003, &json!("not_sent")));
    agent.cancel(&id);
    let (_, granted) = agent.listen(&json!({"resourceSubscriptions": uris(600)}));
    assert_eq!(granted["resourceSubscriptions"].as_array().map(Vec::len), Some(600));
    agent.disconnect();
}
