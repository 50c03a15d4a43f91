//! Agents and servers are used in their negotiated version, without features that the version lacks.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, Setup, code, result};

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const LIBRARY: &str = r#"{"prompts":[{"name":"p"}],"resources":[{"uri":"x://1","name":"r"}],"completions":true}"#;

fn start(flags: &str) -> Daemon {
    let server = Server::named("s").flags(flags).library(LIBRARY);
    Setup::with(server).start()
}

fn ready(daemon: &Daemon, version: &str) -> (Agent, Value) {
    let mut agent = Agent::connect(daemon);
    let introduction = result(&agent.initialize(version)).clone();
    (agent, introduction)
}

#[test]
fn agent_sees_only_the_capabilities_of_its_version() {
    let daemon = start("");
    for version in VERSIONS {
        let (_agent, introduction) = ready(&daemon, version);
        let capabilities = introduction["capabilities"].as_object().expect("an object");
        assert_eq!(capabilities.contains_key("completions"), version != "2024-11-05", "{version}");
        for always in ["tools", "prompts", "resources"] {
            assert_eq!(capabilities[always]["listChanged"], true, "{version} {always}");
        }
        assert!(!capabilities.contains_key("tasks") || version == "2025-11-25", "{version}");
    }
}

/// The requests of agents, each with whether the legacy versions and the modern one have it.
#[rustfmt::skip]
const METHODS: [(&str, [bool; 5]); 21] = [
    ("initialize", [true, true, true, true, false]),
    ("ping", [true, true, true, true, false]),
    ("server/discover", [false, false, false, false, true]),
    ("tools/list", [true, true, true, true, true]),
    ("tools/call", [true, true, true, true, true]),
    ("prompts/list", [true, true, true, true, true]),
    ("prompts/get", [true, true, true, true, true]),
    ("resources/list", [true, true, true, true, true]),
    ("resources/templates/list", [true, true, true, true, true]),
    ("resources/read", [true, true, true, true, true]),
    ("resources/subscribe", [true, true, true, true, false]),
    ("resources/unsubscribe", [true, true, true, true, false]),
    ("subscriptions/listen", [false, false, false, false, true]),
    ("completion/complete", [true, true, true, true, true]),
    ("logging/setLevel", [true, true, true, true, false]),
    ("tasks/list", [false, false, false, true, false]),
    ("tasks/get", [false, false, false, true, true]),
    ("tasks/cancel", [false, false, false, true, true]),
    ("tasks/result", [false, false, false, true, false]),
    ("tasks/update", [false, false, false, false, true]),
    ("no/such", [false; 5]),
];

#[test]
fn method_is_unknown_to_agents_whose_version_lacks_it() {
    let daemon = start("");
    let legacy = VERSIONS.map(|version| ready(&daemon, version).0);
    let modern = Agent::modern(&daemon, &json!({}));
    for (index, mut agent) in legacy.into_iter().chain([modern]).enumerate() {
        for (method, versions) in METHODS {
            let answer = agent.request(method, &json!({}));
            let is_unknown = answer["error"]["code"] == -32601;
            assert_eq!(is_unknown, !versions[index], "{method}: {answer}");
        }
    }
}

#[test]
fn agent_may_only_ping_before_initialize() {
    let daemon = start("");
    for (method, _) in METHODS.into_iter().filter(|(method, _)| *method != "initialize") {
        let mut agent = Agent::connect(&daemon);
        let answer = agent.request(method, &json!({}));
        if method == "ping" {
            result(&answer);
        } else {
            let message = answer["error"]["message"].as_str().expect("an error");
            assert!(code(&answer) == -32602 && message.starts_with("send `initialize` first"), "{method}: {answer}");
        }
    }
}

#[test]
fn common_features_work_in_every_version_on_both_sides() {
    for server in VERSIONS {
        let daemon = start(&format!("--protocol {server}"));
        assert_eq!(daemon.row("s")["protocol"], server);
        for agent in VERSIONS {
            let (mut agent, _) = ready(&daemon, agent);
            result(&agent.call("s__echo", &json!({})));
            result(&agent.request("prompts/get", &json!({"name": "s__p"})));
            result(&agent.request("resources/read", &json!({"uri": "x://1"})));
            let reference = json!({"type": "ref/prompt", "name": "s__p"});
            result(&agent.request("completion/complete", &json!({"ref": reference, "argument": {}})));
        }
    }
}

#[test]
fn field_that_a_version_does_not_know_passes() {
    let daemon = start("--protocol 2024-11-05");
    let (mut agent, _) = ready(&daemon, "2024-11-05");
    let list = agent.request("tools/list", &json!({}));
    assert_eq!(result(&list)["tools"][0]["execution"]["taskSupport"], "optional");
}
