//! A modern agent, whose requests each carry their metadata.

use super::*;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// A relay with its output to both sides.
struct Shim(Relay, Instant);

impl Shim {
    fn new() -> Self {
        Self(Relay::new(ShimInfo { cwd: Some("/a".to_owned()), version: "1", server: None }, 7), Instant::now())
    }

    /// A relay that has forwarded this request.
    fn with_request(line: &str) -> Self {
        let mut shim = Self::new();
        shim.0.connected();
        shim.receive_from_agent(line);
        assert_eq!(shim.daemon_reads(), line);
        shim
    }

    fn receive_from_agent(&mut self, line: &str) {
        self.0.receive_from_agent(Piece::Line(Bytes::copy_from_slice(line.as_bytes())), self.1);
    }

    fn receive_from_daemon(&mut self, line: &str) {
        self.0.receive_from_daemon(Bytes::copy_from_slice(line.as_bytes()), self.1);
    }

    fn agent_reads(&mut self) -> String {
        written(&mut self.0.to_agent)
    }

    fn daemon_reads(&mut self) -> String {
        written(&mut self.0.to_daemon)
    }

    /// Replaces the daemon. The new one answers `server/discover` with this.
    fn resume(&mut self, answer: &str) {
        self.0.lost(self.1);
        self.0.connected();
        let request = self.daemon_reads();
        assert!(
            request.contains(r#""method":"server/discover""#) && request.contains(r#"{"name":"x","version":"1"}"#),
            "{request}"
        );
        let request: Value = serde_json::from_str(&request).expect("one message");
        self.receive_from_daemon(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{answer}}}\n", request["id"]));
    }
}

fn written(outbox: &mut Outbox) -> String {
    let mut written = Vec::new();
    while !outbox.is_empty() {
        outbox.write_some(&mut written).now_or_never().expect("room").expect("room");
    }
    String::from_utf8(written).expect("text")
}

fn request(id: &str, method: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{META}}}}}\n")
}

fn acknowledgement(id: &str) -> String {
    let meta = format!("\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}}");
    let granted = r#""notifications":{"toolsListChanged":true}"#;
    let method = "notifications/subscriptions/acknowledged";
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{{meta},{granted}}}}}\n")
}

/// The notification of changes that a subscriber of tools may have missed.
fn missed(id: &str) -> String {
    let meta = format!("\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}}");
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{{{meta}}}}}\n")
}

const SERVES: &str = r#""result":{"supportedVersions":["2026-07-28"]}"#;

#[test]
fn modern_requests_pass_unchanged_without_a_handshake() {
    for method in ["server/discover", "tools/list", "tools/call", "initialize", "ping", "subscriptions/listen"] {
        let mut shim = Shim::with_request(&request("1", method));
        assert_eq!(shim.agent_reads(), "");
    }
}

#[test]
fn next_daemon_receives_requests_only_after_discovery() {
    for (answer, is_served) in [
        (SERVES, true),
        (r#""error":{"code":-32601,"message":"an older one"}"#, true),
        (r#""error":{"code":-31003,"message":"full"}"#, false),
    ] {
        let mut shim = Shim::with_request(&request("1", "tools/list"));
        shim.receive_from_daemon("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
        shim.agent_reads();
        shim.0.lost(shim.1);
        let parked = request("2", "tools/call");
        shim.receive_from_agent(&parked);
        shim.resume(answer);
        assert_eq!(shim.daemon_reads(), if is_served { parked } else { String::new() }, "{answer}");
        assert_eq!(shim.agent_reads(), "", "it was introduced nowhere, and has requested no list_changed");
        assert_eq!(shim.0.events.contains(&RelayEvent::DaemonBack), is_served);
    }
}

#[test]
fn daemon_of_another_version_is_reported() {
    let info = |version: &str| {
        let info = format!(r#"{{"name":"mcpd","version":"{version}"}}"#);
        format!(r#""result":{{"_meta":{{"io.modelcontextprotocol/serverInfo":{info}}}}}"#)
    };
    let mut shim = Shim::with_request(&request("1", "server/discover"));
    shim.receive_from_daemon(&format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{}}}\n", info("1")));
    assert_eq!(shim.0.events, []);
    shim.resume(&info("2"));
    assert_eq!(
        shim.0.events,
        [RelayEvent::DaemonLost, RelayEvent::OtherVersion("2".to_owned()), RelayEvent::DaemonBack]
    );
}

#[test]
fn subscriptions_are_repeated_and_missed_changes_reported() {
    let listen = request("\"l\"", "subscriptions/listen");
    let mut shim = Shim::with_request(&listen);
    shim.receive_from_daemon(&acknowledgement("\"l\""));
    assert_eq!(shim.agent_reads(), acknowledgement("\"l\""));
    for _ in 0..2 {
        shim.resume(SERVES);
        assert_eq!((shim.daemon_reads(), shim.agent_reads()), (listen.clone(), String::new()));
        shim.receive_from_daemon(&acknowledgement("\"l\""));
        assert_eq!(shim.agent_reads(), missed("\"l\""));
        shim.receive_from_daemon(&missed("\"l\""));
        assert_eq!(shim.agent_reads(), missed("\"l\""), "notifications of the daemon pass");
    }
    shim.receive_from_agent(
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"l\"}}\n",
    );
    assert!(shim.daemon_reads().contains("cancelled"));
    shim.resume(SERVES);
    assert_eq!((shim.daemon_reads(), shim.agent_reads()), (String::new(), String::new()));
}

#[test]
fn pending_subscription_is_acknowledged_once_by_the_next_daemon() {
    let listen = request("1", "subscriptions/listen");
    let mut shim = Shim::with_request(&listen);
    shim.resume(SERVES);
    assert_eq!(shim.daemon_reads(), listen);
    shim.receive_from_daemon(&acknowledgement("1"));
    assert_eq!(shim.agent_reads(), acknowledgement("1"));
    let mut parked = Shim::with_request(&listen);
    parked.0.lost(parked.1);
    parked.0.expire(parked.1 + Duration::from_secs(10), None);
    assert!(parked.agent_reads().contains("-31004"), "like every parked request");
}

#[test]
fn end_of_a_subscription_is_delivered_only_if_the_daemon_stays() {
    let listen = request("1", "subscriptions/listen");
    for (end, is_over) in [
        ("\"result\":{\"resultType\":\"complete\"}", false),
        ("\"error\":{\"code\":-31005,\"message\":\"it stops\"}", false),
        ("\"error\":{\"code\":-32602,\"message\":\"no\"}", true),
    ] {
        let end = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{end}}}\n");
        let mut shim = Shim::with_request(&listen);
        shim.receive_from_daemon(&acknowledgement("1"));
        shim.receive_from_daemon(&end);
        assert_eq!(shim.agent_reads(), if is_over { acknowledgement("1") + &end } else { acknowledgement("1") });
        let mut stays = Shim::with_request(&listen);
        stays.receive_from_daemon(&acknowledgement("1"));
        stays.receive_from_daemon(&end);
        stays.0.expire(stays.1 + Duration::from_secs(10), None);
        assert_eq!(stays.agent_reads(), acknowledgement("1") + &end, "if late");
        shim.resume(SERVES);
        assert_eq!(shim.daemon_reads(), if is_over { String::new() } else { listen.clone() }, "{end}");
    }
}

#[test]
fn agent_that_discovers_and_initializes_is_resumed_by_initialize() {
    let mut shim = Shim::with_request(&request("1", "server/discover"));
    shim.receive_from_daemon("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    shim.receive_from_agent(
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\"}}\n",
    );
    assert!(shim.daemon_reads().contains("mcpd/cwd"));
    shim.receive_from_daemon("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"protocolVersion\":\"2025-11-25\"}}\n");
    shim.receive_from_agent("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    shim.receive_from_agent(&request("3", "tools/list"));
    shim.receive_from_agent(&request("4", "subscriptions/listen"));
    shim.receive_from_daemon("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n");
    shim.receive_from_daemon(&acknowledgement("4"));
    drop([shim.agent_reads(), shim.daemon_reads()]);
    shim.0.lost(shim.1);
    shim.0.connected();
    let replayed: Value = serde_json::from_str(&shim.daemon_reads()).expect("one message");
    assert_eq!(replayed["method"], "initialize");
    shim.receive_from_daemon(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"protocolVersion\":\"2025-11-25\"}}}}\n",
        replayed["id"]
    ));
    let initialized = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n".to_owned();
    assert_eq!(shim.daemon_reads(), initialized + &request("4", "subscriptions/listen"));
    assert_eq!(shim.agent_reads(), "", "the list was requested in the era that has no list_changed by itself");
    shim.receive_from_daemon(&acknowledgement("4"));
    assert_eq!(shim.agent_reads(), missed("4"));
}

#[test]
fn subscriptions_end_when_no_daemon_can_resume() {
    let mut shim = Shim::with_request(&request("1", "subscriptions/listen"));
    shim.receive_from_daemon(&acknowledgement("1"));
    shim.agent_reads();
    shim.0.end("why".to_owned());
    let end: Value = serde_json::from_str(&shim.agent_reads()).expect("one message");
    assert_eq!(
        (&end["id"], &end["error"]["code"], &end["error"]["message"]),
        (&json!(1), &json!(-31004), &json!("why"))
    );
}
