//! Helpers that change the servers of [`both`](super::both) and count their subscriptions.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, arguments, notification, until};

pub(super) const TOOLS: &str = "notifications/tools/list_changed";
pub(super) const UPDATED: &str = "notifications/resources/updated";

pub(super) fn modern(daemon: &Daemon) -> Agent {
    Agent::modern(daemon, &json!({}))
}

/// Has a server change its tools, which somebody else does.
pub(super) fn change_tools(daemon: &Daemon, server: Era, tool: &str) {
    let mut other = modern(daemon);
    arguments(&other.call(&server.tool("mutate_tools"), &json!({"add": [tool]})));
}

/// Has a server say that resources have changed.
pub(super) fn touch(daemon: &Daemon, server: Era, uris: &[&str]) {
    let updated = |uri: &&str| format!("{}\n", notification(UPDATED, &json!({"uri": uri})));
    let text: String = uris.iter().map(updated).collect();
    let mut other = modern(daemon);
    match server {
        Era::Legacy => drop(other.call("old__raw", &json!({"text": text}))),
        Era::Modern => drop(other.call("new__touch", &json!({"uris": uris}))),
    }
}

/// The subscriptions that a server was asked for, and has not been told to end.
pub(super) fn open(daemon: &Daemon, server: &str) -> Vec<Value> {
    let mut open: Vec<Value> = Vec::new();
    for line in daemon.journal(server) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            open.clear();
            continue;
        };
        match message["method"].as_str() {
            Some("subscriptions/listen") => open.push(message),
            Some("notifications/cancelled") => open.retain(|other| other["id"] != message["params"]["requestId"]),
            _ => {}
        }
    }
    open
}

/// Whether an open subscription at the server has this URI.
fn listens_for(daemon: &Daemon, server: &str, uri: &str) -> bool {
    let has = |message: &Value| {
        let uris = message["params"]["notifications"]["resourceSubscriptions"].as_array();
        uris.is_some_and(|uris| uris.contains(&json!(uri)))
    };
    open(daemon, server).iter().any(has)
}

/// The modern server is asked for its resource.
pub(super) fn wait_subscribed(daemon: &Daemon) {
    until("it is subscribed to", || listens_for(daemon, "new", "new://1").then_some(()));
}

/// It is asked for it no more.
pub(super) fn wait_unsubscribed(daemon: &Daemon) {
    until("nobody is left who wants it", || (!listens_for(daemon, "new", "new://1")).then_some(()));
}

/// Each server says that its resource has changed, and the agent is told of both, and of nothing else.
pub(super) fn expect_updates(daemon: &Daemon, agent: &mut Agent, id: &Value) {
    for server in Era::BOTH {
        touch(daemon, server, &[&server.uri()]);
        assert_eq!(agent.subscription_notification(id, UPDATED)["uri"], server.uri());
    }
    agent.expect_quiet();
}
