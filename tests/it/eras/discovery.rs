//! `server/discover`, and the checks of each modern request.

use serde_json::{Value, json};

use super::both;
use crate::support::{Agent, Daemon, Era, PROTOCOL, Server, Setup, arguments, code, meta, result};

fn modern(daemon: &Daemon) -> Agent {
    Agent::modern(daemon, &json!({}))
}

/// The answer to a request with just this `_meta`, on a connection of its own.
fn with_meta(daemon: &Daemon, method: &str, meta: Value) -> Value {
    Agent::connect(daemon).request(method, &json!({"name": "old__echo", "arguments": {}, "_meta": meta}))
}

#[test]
fn agent_discovers_the_daemon_without_a_handshake() {
    let daemon = both();
    let mut agent = modern(&daemon);
    let answer = agent.request("server/discover", &json!({}));
    let found = result(&answer);
    assert_eq!(found["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(found["resultType"], "complete");
    assert!(
        found["ttlMs"].as_u64().is_some()
            && ["public", "private"].contains(&found["cacheScope"].as_str().unwrap_or(""))
    );
    let capabilities = found["capabilities"].as_object().expect("an object");
    for name in ["tools", "prompts", "resources"] {
        assert_eq!(capabilities[name]["listChanged"], true, "{name}");
    }
    assert_eq!(capabilities["resources"]["subscribe"], true);
    assert!(capabilities.contains_key("completions") && capabilities.contains_key("logging"));
    assert!(!capabilities.contains_key("tasks"), "they are an extension");
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "mcpd");
}

#[test]
fn instructions_are_the_same_for_servers_of_both_eras() {
    let with_instructions =
        |era: Era| era.server(era.name()).arg("--instructions").arg(format!("be kind to {}", era.name()));
    let daemon = Setup::with(with_instructions(Era::Legacy)).server(with_instructions(Era::Modern)).start();
    let introduced = Agent::connect(&daemon).initialize("2025-11-25");
    let found = modern(&daemon).request("server/discover", &json!({}));
    let text = result(&found)["instructions"].as_str().expect("text");
    assert!(text.contains("be kind to old") && text.contains("be kind to new"), "{text}");
    assert_eq!(result(&introduced)["instructions"], text);
}

/// Case J7.
#[test]
fn unsupported_version_is_refused_with_the_supported_ones() {
    let daemon = both();
    let mut other = Value::Object(meta(&json!({})));
    for version in ["1900-01-01", "2025-11-25", "2027-01-01", ""] {
        other[PROTOCOL] = json!(version);
        for method in ["server/discover", "tools/list", "tools/call", "subscriptions/listen", "no/such"] {
            let answer = with_meta(&daemon, method, other.clone());
            assert_eq!(code(&answer), -32022, "{method} {version}: {answer}");
            assert_eq!(answer["error"]["data"], json!({"supported": ["2026-07-28"], "requested": version}));
        }
    }
    assert!(!daemon.journal("old").iter().any(|line| line.contains("tools/call")));
}

/// Case J7.
#[test]
fn request_without_required_metadata_is_refused_and_reaches_no_server() {
    let daemon = both();
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    for wrong in [
        json!({PROTOCOL: "2026-07-28"}),
        json!({PROTOCOL: "2026-07-28", capabilities: null}),
        json!({PROTOCOL: "2026-07-28", capabilities: []}),
        json!({PROTOCOL: 7, capabilities: {}}),
        json!({PROTOCOL: null, capabilities: {}}),
    ] {
        for method in ["tools/list", "tools/call", "server/discover", "subscriptions/listen"] {
            let answer = with_meta(&daemon, method, wrong.clone());
            assert_eq!(code(&answer), -32602, "{method} {wrong}: {answer}");
        }
    }
    assert!(!daemon.journal("old").iter().any(|line| line.contains("tools/call")));
}

/// Case J7.
#[test]
fn request_without_version_or_handshake_is_refused_with_both_options() {
    let daemon = both();
    for method in ["tools/list", "tools/call", "server/discover"] {
        let answer = with_meta(&daemon, method, json!({}));
        let message = answer["error"]["message"].as_str().expect("text");
        assert_eq!(code(&answer), -32602, "{method}: {answer}");
        assert!(message.contains("initialize") && message.contains(PROTOCOL), "{message}");
    }
}

/// Case J7.
#[test]
fn methods_that_the_modern_era_removed_are_not_found() {
    let daemon = both();
    let mut agent = modern(&daemon);
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/list",
        "tasks/result",
        "no/such",
    ] {
        let params = json!({"uri": "old://1", "level": "info", "protocolVersion": "2025-11-25", "taskId": "t"});
        assert_eq!(code(&agent.request(method, &params)), -32601, "{method}");
    }
    agent.expect_quiet();
}

#[test]
fn client_may_initialize_after_discovery() {
    let daemon = both();
    let mut agent = modern(&daemon);
    result(&agent.request("server/discover", &json!({})));
    agent.speak_legacy();
    assert_eq!(result(&agent.initialize("2025-11-25"))["protocolVersion"], "2025-11-25");
    for server in Era::BOTH {
        let answer = agent.call(&server.tool("echo"), &json!({}));
        assert_eq!(result(&answer)["resultType"], Value::Null);
    }
    agent.expect_quiet();
}

#[test]
fn each_request_on_a_connection_is_answered_in_its_era() {
    let daemon = both();
    let mut agent = Agent::ready(&daemon);
    let mut calls = Vec::new();
    for round in 0..20 {
        for (speaks, server) in Era::pairs() {
            match speaks {
                Era::Legacy => agent.speak_legacy(),
                Era::Modern => agent.speak_modern(&json!({"sampling": {}})),
            }
            let id = agent.start_call(&server.tool("sleep"), &json!({"ms": round % 3, "round": round}));
            calls.push((id, speaks, round));
        }
    }
    for (id, speaks, round) in calls.into_iter().rev() {
        let answer = agent.answer(&id);
        assert_eq!(arguments(&answer)["round"], round);
        assert_eq!(result(&answer)["resultType"] == "complete", speaks == Era::Modern, "{answer}");
    }
    agent.expect_quiet();
}

#[test]
fn modern_requests_depend_on_no_earlier_message_of_the_connection() {
    let daemon = Server::named("s").flags("--era modern").start();
    let rounds = json!([{"inputs": {"q": {"method": "sampling/createMessage", "params": {}}}, "state": "s"}]);
    let mut agent = Agent::with_capabilities(&daemon, &json!({"sampling": {}}));
    agent.speak_modern(&json!({}));
    assert_eq!(code(&agent.call("s__need_input", &json!({"rounds": rounds}))), -32021, "this one cannot");
    agent.speak_modern(&json!({"sampling": {}}));
    assert_eq!(result(&agent.call("s__need_input", &json!({"rounds": rounds})))["resultType"], "input_required");
    agent.speak_modern(&json!({}));
    assert_eq!(code(&agent.call("s__need_input", &json!({"rounds": rounds}))), -32021, "nor this one");
}

#[test]
fn modern_agent_sees_only_its_profile() {
    let setup = Setup::new().head("[profiles.reader]\nservers = [\"old\"]\ndeny = [\"*/umask\"]");
    let daemon = setup.server(Era::Legacy.server("old")).server(Era::Modern.server("new")).start();
    let mut agent = Agent::connect_to(&daemon.profile_socket("reader"));
    agent.speak_modern(&json!({}));
    let tools = agent.tools();
    assert!(tools.contains(&"old__echo".into()) && !tools.iter().any(|tool| tool.starts_with("new__")), "{tools:?}");
    assert!(!tools.contains(&"old__umask".into()));
    for hidden in ["new__echo", "old__umask"] {
        assert_eq!(code(&agent.call(hidden, &json!({}))), -32602);
    }
}
