//! A modern agent behind `mcpd connect`: no handshake, and its subscriptions continue.

use serde_json::{Value, json};

use super::fake_daemons::Fake;
use super::outcome;
use crate::support::{Agent, Place, Shim, result};

const PROTOCOL: &str = "io.modelcontextprotocol/protocolVersion";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// `params` with what a request of the modern era says of itself.
fn with_client_meta(mut params: Value) -> Value {
    params["_meta"] = json!({
        PROTOCOL: "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

/// A shim that has come to where a daemon would be.
fn start(place: &Place) -> (Fake, Shim, Agent) {
    let fake = Fake::at(place);
    let shim = Shim::start(place, &[]);
    let peer = fake.accept();
    (fake, shim, peer)
}

/// Tells something of a subscription.
fn tell(peer: &mut Agent, id: &Value, method: &str, mut params: Value) {
    params["_meta"] = json!({SUBSCRIPTION: id});
    peer.notify(method, &params);
}

/// Takes the request that listens, and acknowledges it.
fn acknowledge(peer: &mut Agent, id: &Value) {
    let request = peer.expect_request("subscriptions/listen");
    assert_eq!((&request["id"], &request["params"]["notifications"]), (id, &json!({"toolsListChanged": true})));
    tell(peer, id, ACKNOWLEDGED, json!({"notifications": {"toolsListChanged": true}}));
}

/// Listens to the tools, which is acknowledged.
fn listen(shim: &mut Shim, peer: &mut Agent) -> Value {
    let id = shim
        .start_request("subscriptions/listen", &with_client_meta(json!({"notifications": {"toolsListChanged": true}})));
    acknowledge(peer, &id);
    shim.expect_notification(ACKNOWLEDGED);
    id
}

/// The next connection, which was asked whether it serves.
fn accept_agent(fake: &Fake) -> Agent {
    let mut peer = fake.accept();
    let request = peer.expect_request("server/discover");
    let meta = &request["params"]["_meta"];
    assert_eq!(
        (&meta[PROTOCOL], &meta["io.modelcontextprotocol/clientInfo"]["name"]),
        (&json!("2026-07-28"), &json!("x"))
    );
    let info = json!({"name": "mcpd", "version": env!("CARGO_PKG_VERSION")});
    peer.respond(&request, &json!({"_meta": {"io.modelcontextprotocol/serverInfo": info}}));
    peer
}

/// The shim ends with its agent.
fn end(mut shim: Shim, mut peer: Agent) {
    shim.shut_down_writing();
    peer.expect_end();
    peer.disconnect();
    shim.expect_end();
}

/// Case E11.
#[test]
fn subscriber_is_notified_of_possibly_missed_changes_and_acknowledged_once() {
    let place = Place::new();
    let (fake, mut shim, mut peer) = start(&place);
    let id = listen(&mut shim, &mut peer);
    // A daemon that is stopped ends what is open, in order.
    for is_orderly in [false, true] {
        if is_orderly {
            peer.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}}));
        }
        peer.disconnect();
        shim.wait_log("the daemon has gone");
        peer = accept_agent(&fake);
        acknowledge(&mut peer, &id);
        assert_eq!(shim.next()["params"], json!({"_meta": {SUBSCRIPTION: id}}));
        tell(&mut peer, &id, TOOLS_CHANGED, json!({"n": 1}));
        assert_eq!(shim.next()["params"]["n"], 1);
    }
    shim.cancel(&id);
    peer.expect_notification("notifications/cancelled");
    peer.disconnect();
    let mut peer = accept_agent(&fake);
    let call = shim.start_request("tools/call", &with_client_meta(json!({"name": "x"})));
    let request = peer.next();
    assert_eq!(
        (&request["id"], &request["params"]),
        (&call, &with_client_meta(json!({"name": "x"}))),
        "it listens no more"
    );
    peer.respond(&request, &json!({"resultType": "complete"}));
    result(&shim.answer(&call));
    end(shim, peer);
}

/// Case E11.
#[test]
fn request_in_flight_ends_once_and_queued_requests_go_to_the_next_daemon() {
    let place = Place::new();
    let (fake, mut shim, mut peer) = start(&place);
    let call = shim.start_request("tools/call", &with_client_meta(json!({"name": "x"})));
    peer.expect_request("tools/call");
    peer.disconnect();
    assert_eq!(outcome(&shim.answer(&call)), (-31005, "unknown"));
    let waits = shim.start_request("tools/list", &with_client_meta(json!({})));
    let mut full = fake.accept();
    full.expect_request("server/discover");
    full.send(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": -31003, "message": "full"}}));
    full.disconnect();
    let mut peer = accept_agent(&fake);
    let request = peer.next();
    assert_eq!((&request["id"], &request["method"]), (&waits, &json!("tools/list")));
    peer.respond(&request, &json!({"tools": []}));
    result(&shim.answer(&waits));
    shim.wait_log("there is a daemon again");
    end(shim, peer);
}

#[test]
fn daemon_without_the_modern_era_answers_each_request_for_itself() {
    let place = Place::new();
    let (fake, mut shim, mut peer) = start(&place);
    let id = listen(&mut shim, &mut peer);
    peer.disconnect();
    let mut peer = fake.accept();
    for _ in 0..2 {
        let request = peer.next();
        let error = json!({"code": -32601, "message": "unknown method"});
        peer.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    }
    assert_eq!(shim.answer(&id)["error"]["code"], -32601, "its subscription has ended");
    end(shim, peer);
}
