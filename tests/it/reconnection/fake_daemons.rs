//! Messages of `mcpd connect` to a fake daemon, and to a daemon of another version.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{outcome, start};
use crate::support::{Agent, Daemon, Place, Shim, arguments, initialize_params, request, result, until};

const OWN: &str = env!("CARGO_PKG_VERSION");

/// Something that serves in place of a daemon, with the lock that clients expect it to hold, and the directories of its profiles.
pub(super) struct Fake {
    listener: UnixListener,
    _lock: File,
}

impl Fake {
    pub(super) fn at(place: &Place) -> Self {
        let directory = place.runtime_dir();
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).expect("the test's own directory is writable");
        let socket = directory.join("mcp.sock");
        let _ = fs::remove_file(&socket);
        let lock = File::create(directory.join("lock")).expect("the test's own directory is writable");
        lock.lock().expect("the daemon before has ended");
        let directories = json!({"daemon": std::process::id(), "profiles": []});
        fs::write(directory.join("directories.json"), directories.to_string()).expect("it is the test's own");
        Self { listener: UnixListener::bind(socket).expect("a fresh socket"), _lock: lock }
    }

    /// The next connection, from the daemon's end.
    pub(super) fn accept(&self) -> Agent {
        Agent::from_stream(self.listener.accept().expect("a connection").0)
    }

    /// An agent that is introduced, and its connection.
    fn introduced(&self, shim: &mut Shim) -> Agent {
        let mut peer = self.accept();
        let id = hello(shim);
        welcome(&mut peer, OWN, "2025-11-25");
        result(&shim.answer(&id));
        peer
    }

    /// The next connection of an agent that was.
    fn introduced_again(&self) -> Agent {
        let mut peer = self.accept();
        welcome(&mut peer, OWN, "2025-11-25");
        peer
    }
}

/// The introduction of an agent, answered as by mcpd of this version.
fn welcome(peer: &mut Agent, daemon: &str, protocol: &str) -> Value {
    let request = peer.expect_request("initialize");
    let info = json!({"name": "mcpd", "version": daemon});
    peer.respond(&request, &json!({"protocolVersion": protocol, "capabilities": {}, "serverInfo": info}));
    request
}

/// A request that the peer of an agent sends.
fn roots_request() -> Value {
    request(41, "roots/list", &Value::Null)
}

fn hello(shim: &mut Shim) -> Value {
    shim.start_request("initialize", &initialize_params("2099-01-01", &json!({"roots": {}})))
}

#[test]
fn daemon_of_another_version_is_reported_once_and_used() {
    let place = Place::new();
    let fake = Fake::at(&place);
    let mut shim = Shim::start(&place, &[]);
    let mut peer = fake.accept();
    let id = hello(&mut shim);
    let request = welcome(&mut peer, "9.9.9", "2025-11-25");
    assert_eq!((&request["id"], &request["params"]["protocolVersion"]), (&id, &json!("2099-01-01")));
    let cwd = fs::canonicalize(place.path(".")).expect("a directory");
    assert_eq!(request["params"]["_meta"], json!({"mcpd/cwd": cwd, "mcpd/connect": OWN}));
    result(&shim.answer(&id));
    shim.notify("notifications/initialized", &Value::Null);
    peer.expect_notification("notifications/initialized");
    shim.wait_log(&format!("mcpd connect {OWN}: the daemon is 9.9.9"));
    peer.send(&roots_request());
    shim.expect_request("roots/list");
    peer.disconnect();
    shim.expect_notification("notifications/cancelled");

    let mut peer = fake.accept();
    let again = welcome(&mut peer, "9.9.9", "2025-11-25");
    assert_eq!(again["params"]["protocolVersion"], "2025-11-25", "what was agreed on");
    assert_eq!(again["params"]["_meta"], json!({"mcpd/cwd": cwd, "mcpd/connect": OWN, "mcpd/ids_from": 42}));
    assert_eq!(again["params"]["capabilities"], json!({"roots": {}}));
    assert_ne!(again["id"], id);
    peer.expect_notification("notifications/initialized");
    let call = shim.start_call("x", &json!({}));
    let request = peer.expect_request("tools/call");
    peer.respond(&request, &json!({"content": []}));
    result(&shim.answer(&call));
    // One that knows nothing of `ids_from`.
    peer.send(&roots_request());
    let request = shim.expect_request("roots/list");
    shim.respond(&request, &json!({"roots": []}));
    assert_eq!(peer.answer(&json!(41))["result"], json!({"roots": []}));
    peer.disconnect();

    let mut peer = fake.introduced_again();
    peer.expect_notification("notifications/initialized");
    assert_eq!(shim.log().matches("9.9.9").count(), 1, "{}", shim.log());
    shim.shut_down_writing();
    peer.expect_end();
    peer.disconnect();
    shim.expect_end();
}

#[test]
fn agent_that_the_next_daemon_cannot_serve_receives_the_reason() {
    let place = Place::new();
    let fake = Fake::at(&place);
    for refused in [false, true] {
        let mut shim = Shim::start(&place, &[]);
        fake.introduced(&mut shim).disconnect();
        let mut peer = fake.accept();
        let call = shim.start_call("x", &json!({}));
        shim.start_request("ping", &json!({}));
        // The call has come before it.
        shim.next();
        if refused {
            let request = peer.expect_request("initialize");
            peer.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32602, "message": "no"}}));
        } else {
            welcome(&mut peer, OWN, "2024-11-05");
        }
        assert_eq!(outcome(&shim.answer(&call)), (-31004, "not_sent"));
        shim.expect_end();
        assert_eq!(shim.wait_exit().code(), Some(1));
        let why = if refused {
            "refuses `initialize`: {\"code\":-32602"
        } else {
            "negotiates another version of MCP: 2024-11-05"
        };
        assert!(shim.log().contains(why), "{}", shim.log());
        peer.disconnect();
    }
}

#[test]
fn unwritten_requests_are_sent_again_and_begun_ones_are_unknown() {
    let place = Place::new();
    let fake = Fake::at(&place);
    let mut shim = Shim::start(&place, &[]);
    let peer = fake.introduced(&mut shim);
    // More than a socket takes of whom nobody reads.
    let begun = shim.start_call("x", &json!({"t": "x".repeat(4 << 20)}));
    peer.wait_for_more();
    let unsent = shim.start_call("x", &json!({"unsent": true}));
    let cancelled = shim.start_call("x", &json!({"cancelled": true}));
    shim.cancel(&cancelled);
    peer.disconnect();
    assert_eq!(outcome(&shim.answer(&begun)), (-31005, "unknown"));
    let mut peer = fake.introduced_again();
    let request = peer.expect_request("tools/call");
    assert_eq!((&request["id"], &request["params"]["arguments"]), (&unsent, &json!({"unsent": true})));
    peer.respond(&request, &json!({"content": []}));
    result(&shim.answer(&unsent));
    shim.shut_down_writing();
    peer.expect_end();
    peer.disconnect();
    shim.expect_end();
}

#[test]
fn subscription_that_could_not_be_had_at_once_is_had_when_there_are_other_resources() {
    let place = Place::new();
    let fake = Fake::at(&place);
    let mut shim = Shim::start(&place, &[]);
    let mut peer = fake.introduced(&mut shim);
    let call = shim.start_request("resources/subscribe", &json!({"uri": "x://1"}));
    let request = peer.expect_request("resources/subscribe");
    peer.respond(&request, &json!({}));
    result(&shim.answer(&call));
    peer.disconnect();
    let mut peer = fake.introduced_again();
    for is_there in [false, true] {
        let request = peer.expect_request("resources/subscribe");
        assert_eq!(request["params"], json!({"uri": "x://1"}));
        if is_there {
            peer.respond(&request, &json!({}));
        } else {
            let error = json!({"code": -32002, "message": "not yet"});
            peer.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
            peer.notify("notifications/resources/list_changed", &Value::Null);
        }
    }
    shim.expect_notification("notifications/resources/list_changed");
    shim.shut_down_writing();
    peer.expect_end();
    peer.disconnect();
    shim.expect_end();
}

#[test]
fn daemon_warns_of_a_shim_of_another_version() {
    let place = Place::new();
    let daemon: Daemon = start(&place);
    let mut agent = Agent::connect(&daemon);
    let info = json!({"name": "x", "version": "1"});
    let meta = json!({"mcpd/connect": "9.9.9", "mcpd/ids_from": 70});
    let capabilities = json!({"sampling": {}});
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info, "_meta": meta});
    result(&agent.request("initialize", &params));
    agent.notify("notifications/initialized", &Value::Null);
    until("it warns", || daemon.log().contains("`mcpd connect` 9.9.9").then_some(()));
    let call = agent.start_call("a__send_request", &json!({"method": "sampling/createMessage", "params": {}}));
    let question = agent.expect_request("sampling/createMessage");
    assert_eq!(question["id"], 70, "it was asked under lower ones before");
    agent.respond(&question, &json!({}));
    result(&agent.answer(&call));
    drop(Shim::ready(&place));
    assert_eq!(daemon.log().matches("mcpd connect").count(), 1, "{}", daemon.log());
    arguments(&agent.call("a__echo", &json!({})));
}

#[test]
fn overloaded_daemon_is_retried_with_growing_delays() {
    let place = Place::new();
    let fake = Fake::at(&place);
    let mut shim = Shim::start(&place, &[]);
    fake.introduced(&mut shim).disconnect();
    let begin = Instant::now();
    for _ in 0..8 {
        let mut peer = fake.accept();
        peer.expect_request("initialize");
        peer.send(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": -31003, "message": "full"}}));
        peer.disconnect();
    }
    // Waits of 10, 20, 40 ms and so on; each may be half as long.
    assert!(begin.elapsed() > Duration::from_millis(500), "{:?}", begin.elapsed());
    let _peer = fake.introduced_again();
    shim.shut_down_writing();
}
