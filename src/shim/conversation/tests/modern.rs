//! An agent of the modern era, which says of each request what it is to be read with.

use super::*;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// An agent and what its shim has said to either side and nobody has looked at.
struct Shim(Conversation, Instant);

impl Shim {
    fn new() -> Self {
        Self(Conversation::new(Own { cwd: Some("/a".to_owned()), version: "1" }, 7), Instant::now())
    }

    /// One that has asked this, to which it was connected.
    fn asking(line: &str) -> Self {
        let mut shim = Self::new();
        shim.0.connected();
        shim.agent_says(line);
        assert_eq!(shim.daemon_hears(), line);
        shim
    }

    fn agent_says(&mut self, line: &str) {
        self.0.agent_says(Piece::Line(Bytes::copy_from_slice(line.as_bytes())), self.1);
    }

    fn daemon_says(&mut self, line: &str) {
        self.0.daemon_says(Bytes::copy_from_slice(line.as_bytes()), self.1);
    }

    fn agent_hears(&mut self) -> String {
        written(&mut self.0.to_agent)
    }

    fn daemon_hears(&mut self) -> String {
        written(&mut self.0.to_daemon)
    }

    /// The daemon goes and another one comes, which is asked whether it serves. Its answer is this.
    fn goes_on(&mut self, answer: &str) {
        self.0.lost(self.1);
        self.0.connected();
        let asked = self.daemon_hears();
        assert!(
            asked.contains(r#""method":"server/discover""#) && asked.contains(r#"{"name":"x","version":"1"}"#),
            "{asked}"
        );
        let asked: Value = serde_json::from_str(&asked).expect("one message");
        self.daemon_says(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{answer}}}\n", asked["id"]));
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

/// What an agent that listens to the tools may have missed.
fn missed(id: &str) -> String {
    let meta = format!("\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}}");
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{{{meta}}}}}\n")
}

const SERVES: &str = r#""result":{"supportedVersions":["2026-07-28"]}"#;

#[test]
fn nothing_is_added_to_its_requests_and_they_wait_for_no_handshake() {
    for method in ["server/discover", "tools/list", "tools/call", "initialize", "ping", "subscriptions/listen"] {
        let mut shim = Shim::asking(&request("1", method));
        assert_eq!(shim.agent_hears(), "");
    }
}

#[test]
fn the_next_daemon_is_asked_nothing_before_it_is_known_to_serve() {
    for (answer, is_served) in [
        (SERVES, true),
        (r#""error":{"code":-32601,"message":"an older one"}"#, true),
        (r#""error":{"code":-31003,"message":"full"}"#, false),
    ] {
        let mut shim = Shim::asking(&request("1", "tools/list"));
        shim.daemon_says("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
        shim.agent_hears();
        shim.0.lost(shim.1);
        let held = request("2", "tools/call");
        shim.agent_says(&held);
        shim.goes_on(answer);
        assert_eq!(shim.daemon_hears(), if is_served { held } else { String::new() }, "{answer}");
        assert_eq!(shim.agent_hears(), "", "it was introduced nowhere, and has asked for no list_changed");
        assert_eq!(shim.0.news.contains(&News::Back), is_served);
    }
}

#[test]
fn a_daemon_of_another_version_is_told_of() {
    let info = |version: &str| {
        let info = format!(r#"{{"name":"mcpd","version":"{version}"}}"#);
        format!(r#""result":{{"_meta":{{"io.modelcontextprotocol/serverInfo":{info}}}}}"#)
    };
    let mut shim = Shim::asking(&request("1", "server/discover"));
    shim.daemon_says(&format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{}}}\n", info("1")));
    assert_eq!(shim.0.news, []);
    shim.goes_on(&info("2"));
    assert_eq!(shim.0.news, [News::Lost, News::OtherVersion("2".to_owned()), News::Back]);
}

#[test]
fn what_it_listens_to_is_asked_for_again_and_it_hears_only_what_it_may_have_missed() {
    let listen = request("\"l\"", "subscriptions/listen");
    let mut shim = Shim::asking(&listen);
    shim.daemon_says(&acknowledgement("\"l\""));
    assert_eq!(shim.agent_hears(), acknowledgement("\"l\""));
    for _ in 0..2 {
        shim.goes_on(SERVES);
        assert_eq!((shim.daemon_hears(), shim.agent_hears()), (listen.clone(), String::new()));
        shim.daemon_says(&acknowledgement("\"l\""));
        assert_eq!(shim.agent_hears(), missed("\"l\""));
        shim.daemon_says(&missed("\"l\""));
        assert_eq!(shim.agent_hears(), missed("\"l\""), "what the daemon says passes");
    }
    shim.agent_says("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"l\"}}\n");
    assert!(shim.daemon_hears().contains("cancelled"));
    shim.goes_on(SERVES);
    assert_eq!((shim.daemon_hears(), shim.agent_hears()), (String::new(), String::new()));
}

#[test]
fn what_was_not_acknowledged_is_acknowledged_once_by_whoever_comes() {
    let listen = request("1", "subscriptions/listen");
    let mut shim = Shim::asking(&listen);
    shim.goes_on(SERVES);
    assert_eq!(shim.daemon_hears(), listen);
    shim.daemon_says(&acknowledgement("1"));
    assert_eq!(shim.agent_hears(), acknowledgement("1"));
    let mut waits = Shim::asking(&listen);
    waits.0.lost(waits.1);
    waits.0.expire(waits.1 + Duration::from_secs(10), None);
    assert!(waits.agent_hears().contains("-31004"), "as everything that waits");
}

#[test]
fn a_daemon_that_ends_ends_nothing_that_the_agent_listens_to_and_one_that_stays_does() {
    let listen = request("1", "subscriptions/listen");
    for (end, is_over) in [
        ("\"result\":{\"resultType\":\"complete\"}", false),
        ("\"error\":{\"code\":-31005,\"message\":\"it stops\"}", false),
        ("\"error\":{\"code\":-32602,\"message\":\"no\"}", true),
    ] {
        let end = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{end}}}\n");
        let mut shim = Shim::asking(&listen);
        shim.daemon_says(&acknowledgement("1"));
        shim.daemon_says(&end);
        assert_eq!(shim.agent_hears(), if is_over { acknowledgement("1") + &end } else { acknowledgement("1") });
        let mut stays = Shim::asking(&listen);
        stays.daemon_says(&acknowledgement("1"));
        stays.daemon_says(&end);
        stays.0.expire(stays.1 + Duration::from_secs(10), None);
        assert_eq!(stays.agent_hears(), acknowledgement("1") + &end, "if late");
        shim.goes_on(SERVES);
        assert_eq!(shim.daemon_hears(), if is_over { String::new() } else { listen.clone() }, "{end}");
    }
}

#[test]
fn one_that_discovers_and_is_introduced_then_goes_on_as_introduced() {
    let mut shim = Shim::asking(&request("1", "server/discover"));
    shim.daemon_says("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    shim.agent_says(
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\"}}\n",
    );
    assert!(shim.daemon_hears().contains("mcpd/cwd"));
    shim.daemon_says("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"protocolVersion\":\"2025-11-25\"}}\n");
    shim.agent_says("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    shim.agent_says(&request("3", "tools/list"));
    shim.agent_says(&request("4", "subscriptions/listen"));
    shim.daemon_says("{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n");
    shim.daemon_says(&acknowledgement("4"));
    drop([shim.agent_hears(), shim.daemon_hears()]);
    shim.0.lost(shim.1);
    shim.0.connected();
    let again: Value = serde_json::from_str(&shim.daemon_hears()).expect("one message");
    assert_eq!(again["method"], "initialize");
    shim.daemon_says(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"protocolVersion\":\"2025-11-25\"}}}}\n",
        again["id"]
    ));
    let initialized = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n".to_owned();
    assert_eq!(shim.daemon_hears(), initialized + &request("4", "subscriptions/listen"));
    assert_eq!(shim.agent_hears(), "", "the list was asked for in the era that has no list_changed by itself");
    shim.daemon_says(&acknowledgement("4"));
    assert_eq!(shim.agent_hears(), missed("4"));
}

#[test]
fn nobody_listens_once_there_is_nobody_to_go_on_with() {
    let mut shim = Shim::asking(&request("1", "subscriptions/listen"));
    shim.daemon_says(&acknowledgement("1"));
    shim.agent_hears();
    shim.0.end("why".to_owned());
    let end: Value = serde_json::from_str(&shim.agent_hears()).expect("one message");
    assert_eq!(
        (&end["id"], &end["error"]["code"], &end["error"]["message"]),
        (&json!(1), &json!(-31004), &json!("why"))
    );
}
