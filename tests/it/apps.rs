//! MCP Apps: UI resources of tools, and calls of apps by unprefixed tool names.

use std::rc::Rc;

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, Place, Server, Setup, arguments, code, result};

const INTERFACE: &str = "ui://charts/view";

/// A server of this era with a tool that has an interface, which no list has, and a tool that only the interface calls.
fn charts(place: &Rc<Place>, era: Era) -> Server {
    let tools = json!({"tools": [
        {"name": "echo", "inputSchema": {"type": "object"}, "_meta": {"ui": {"resourceUri": INTERFACE, "x": 1.50}}},
        {"name": "die", "inputSchema": {"type": "object"}, "_meta": {"ui/resourceUri": "ui://charts/denied"}},
    ]});
    let library = json!({
        "extensions": {"io.modelcontextprotocol/ui": {}},
        "resources": [
            {"uri": "ui://charts/listed", "name": "l", "_meta": {"ui": {"prefersBorder": true}}},
            {"uri": "s://charts/resource", "name": "r"},
        ],
    });
    let tools = place.write("tools.json", tools.to_string());
    era.server("charts").library(&library).arg("--tool-list").arg(tools)
}

fn start(era: Era, lines: &str) -> Daemon {
    let place = Place::new();
    let other = Server::named("other").flags("--bare --tool echo --tool draw");
    Setup::with(charts(&place, era).line(lines)).server(other).start_in(&place)
}

fn read(agent: &mut Agent, uri: &str) -> Value {
    agent.request("resources/read", &json!({"uri": uri}))
}

#[test]
fn interface_and_its_metadata_pass_unchanged() {
    for (agents, servers) in Era::pairs() {
        let daemon = start(servers, "");
        let mut agent = agents.agent(&daemon, &json!({}));
        let tools = agent.request("tools/list", &json!({}));
        assert_eq!(result(&tools)["tools"][0]["_meta"], json!({"ui": {"resourceUri": INTERFACE, "x": 1.50}}));
        let resources = agent.request("resources/list", &json!({}));
        assert_eq!(result(&resources)["resources"][0]["_meta"], json!({"ui": {"prefersBorder": true}}));
        for uri in ["ui://charts/listed", INTERFACE] {
            let answer = read(&mut agent, uri);
            assert_eq!(result(&answer)["received"]["uri"], uri, "a server need not list its interfaces: {answer}");
        }
        assert!(!read(&mut agent, "ui://charts/other")["error"].is_null());
    }
}

#[test]
fn extensions_of_the_client_reach_the_server() {
    let declared = json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    for (agents, servers) in Era::pairs() {
        if (agents, servers) == (Era::Modern, Era::Legacy) {
            continue;
        }
        let daemon = start(servers, "sharing = \"session\"");
        let mut agent = agents.agent(&daemon, &declared);
        result(&agent.call("charts__echo", &json!({})));
        let journal = daemon.journal("charts");
        assert!(journal.iter().any(|line| line.contains("profile=mcp-app")), "{agents:?} {servers:?}: {journal:?}");
    }
}

#[test]
fn interface_calls_a_tool_by_its_own_name() {
    for era in Era::BOTH {
        let daemon = start(Era::Legacy, "");
        let mut face = era.agent_at_face(&daemon, "charts");
        assert_eq!(arguments(&face.call("echo", &json!({"a": 1}))), &json!({"a": 1}), "a face has unprefixed names");
        let mut agent = era.agent(&daemon, &json!({}));
        for meta in [json!({"ui": {"resourceUri": INTERFACE}}), json!({"ui/resourceUri": INTERFACE})] {
            let answer = agent.request("tools/call", &json!({"name": "echo", "arguments": {"a": 2}, "_meta": meta}));
            assert_eq!(result(&answer)["structuredContent"]["pid"], daemon.server_pid("charts"), "{answer}");
        }
        for (tool, uri) in [("draw", INTERFACE), ("echo", "s://charts/resource")] {
            let meta = json!({"ui": {"resourceUri": uri}});
            let answer = agent.request("tools/call", &json!({"name": tool, "arguments": {}, "_meta": meta}));
            assert_eq!(code(&answer), -32602, "a tool of another server, or no interface: {answer}");
        }
    }
}

#[test]
fn error_for_an_own_name_names_the_face_and_no_denied_tool() {
    let daemon = start(Era::Legacy, "deny = [\"die\"]\nexpose = [\"tools\", \"ui\"]");
    let mut agent = Agent::ready(&daemon);
    let answer = agent.call("draw", &json!({}));
    let message = answer["error"]["message"].as_str().expect("text");
    assert!(code(&answer) == -32602 && message.contains("mcpd connect --server other"), "{message}");
    assert_eq!(agent.call("die", &json!({}))["error"]["message"], "Unknown tool: die");
    result(&read(&mut agent, INTERFACE));
    assert_eq!(code(&read(&mut agent, "ui://charts/denied")), -32002, "the tool that names it is denied");
    let meta = json!({"ui": {"resourceUri": INTERFACE}});
    let answer = agent.request("tools/call", &json!({"name": "die", "arguments": {}, "_meta": meta}));
    assert_eq!(answer["error"]["message"], "Unknown tool: die");
}

#[test]
fn interface_is_hidden_where_expose_does_not_name_it() {
    for rules in ["deny = [\"die\"]", "expose = [\"tools\"]", "expose = [\"ui\"]\nresources.deny = [\"ui://charts/*\"]"]
    {
        let daemon = start(Era::Legacy, rules);
        assert_eq!(code(&read(&mut Agent::ready(&daemon), INTERFACE)), -32002, "{rules}");
        assert!(!daemon.journal("charts").iter().any(|line| line.contains("resources/read")), "{rules}");
    }
}
