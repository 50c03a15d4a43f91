//! Agents and servers are used in their negotiated version, without features that the version lacks.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Server, Setup, code, result};

const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const LIBRARY: &str = r#"{"prompts":[{"name":"p"}],"resources":[{"uri":"x://1","name":"r"}],"completions":true}"#;

fn start(flags: &str) -> Daemon {
    let place = Place::new();
    let server = Server::named("s").flags(flags).arg("--library").arg(place.write("library.json", LIBRARY));
    Setup::with(server).start_in(&place)
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

#[test]
fn method_that_its_version_lacks_is_unknown_to_an_agent() {
    let daemon = start("");
    for version in &VERSIONS[..3] {
        let (mut agent, _) = ready(&daemon, version);
        for method in ["tasks/list", "tasks/get", "tasks/cancel", "tasks/result", "server/discover", "no/such"] {
            assert_eq!(code(&agent.request(method, &json!({"taskId": "1"}))), -32601, "{version} {method}");
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
