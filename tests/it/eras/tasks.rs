//! Tasks do not cross eras: an agent has only tasks of servers of its own era.

use serde_json::{Value, json};

use crate::support::{Agent, Era, Server, Setup, arguments, code, result, until};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn task_capabilities() -> Value {
    json!({"extensions": {EXTENSION: {}}})
}

/// A legacy server with a tool that can only be called as a task.
fn server() -> Server {
    Server::named("s").flags("--tasks --task-only build")
}

/// Calls a tool that agents of this era do not have. The error is the same as for a tool that does not exist.
#[track_caller]
fn expect_unknown(agent: &mut Agent, tool: &str) {
    let none = tool.replace("build", "biuld");
    let [error, expected] = [tool, &none].map(|tool| agent.call(tool, &json!({}))["error"].to_string());
    assert_eq!(error, expected.replace("biuld", "build"));
}

#[test]
fn tool_that_requires_a_task_is_unknown_to_modern_agents() {
    for sharing in ["shared", "pool", "session"] {
        let daemon = Setup::with(server().line(format!("sharing = \"{sharing}\""))).start();
        for capabilities in [json!({}), task_capabilities()] {
            let mut agent = Agent::modern(&daemon, &capabilities);
            let tools = agent.tools();
            assert!(tools.contains(&"s__echo".to_owned()) && !tools.contains(&"s__build".to_owned()), "{tools:?}");
            expect_unknown(&mut agent, "s__build");
            let mut face = Era::Modern.agent_at_face(&daemon, "s");
            let tools = face.tools();
            assert!(tools.contains(&"echo".to_owned()) && !tools.contains(&"build".to_owned()), "{tools:?}");
            expect_unknown(&mut face, "build");
        }
        assert_eq!(daemon.count_journal("s", "\"build\",\"arguments\""), 0);
        for (mut agent, tool) in
            [(Agent::ready(&daemon), "s__build"), (Era::Legacy.agent_at_face(&daemon, "s"), "build")]
        {
            assert!(agent.tools().contains(&tool.to_owned()), "{sharing}");
            let answer = agent.request("tools/call", &json!({"name": tool, "arguments": {}, "task": {}}));
            assert!(result(&answer)["task"]["taskId"].is_string(), "{answer}");
        }
    }
}

#[test]
fn call_of_a_tool_that_requires_a_task_is_refused_when_its_parked_call_is_released() {
    let daemon = Setup::with(server().line("start = \"lazy\"")).start();
    let mut agent = Agent::modern(&daemon, &task_capabilities());
    expect_unknown(&mut agent, "s__build");
    arguments(&agent.call("s__echo", &json!({"n": 1})));
    assert!(!daemon.journal("s").iter().any(|line| line.contains("\"build\"")));
}

#[test]
fn tool_with_optional_task_support_is_called_without_a_task() {
    let daemon = Setup::with(server()).start();
    for capabilities in [json!({}), task_capabilities()] {
        let mut agent = Agent::modern(&daemon, &capabilities);
        let call = json!({"name": "s__echo", "arguments": {"n": 1.5}, "task": {"ttl": 5}});
        assert_eq!(arguments(&agent.request("tools/call", &call))["n"], 1.5);
    }
    assert_eq!(daemon.count_journal("s", "\"task\""), 0, "the server is asked for no task");
}

#[test]
fn server_that_requires_task_support_refuses_the_call_of_a_legacy_agent() {
    let daemon = Setup::with(Era::Modern.server("s").flags("--tasks")).start();
    for version in ["2025-06-18", "2025-11-25"] {
        let mut agent = Agent::connect(&daemon);
        result(&agent.initialize(version));
        let before = daemon.count_journal("s", "tools/call");
        let error = agent.call("s__echo", &json!({"as_task": "always", "id": "t"}))["error"].clone();
        assert_eq!((&error["code"], &error["message"]), (&json!(-32021), &json!("Missing required client capability")));
        assert_eq!(error["data"]["requiredCapabilities"], task_capabilities());
        assert_eq!(daemon.count_journal("s", "tools/call"), before + 1, "it is not repeated");
    }
}

/// Case J9.
#[test]
fn unrequested_task_of_a_modern_server_ends_the_call_as_an_error() {
    let daemon = Setup::with(Era::Modern.server("s").flags("--tasks")).start();
    let task = r#"{"resultType":"task","taskId":"t","status":"working","ttlMs":null}"#;
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{task}}}\n");
    let mut agent = Agent::ready(&daemon);
    let answer = agent.call("s__raw", &json!({"text": text, "answer": false}));
    assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-32603, &json!("unknown")), "{answer}");
    let message = "server `s` answered with a result of type `task`, which the agent's version of MCP does not have";
    assert_eq!(answer["error"]["message"], message);
    until("nothing is in flight", || (daemon.row("s")["in_flight"] == 0).then_some(()));
    agent.expect_quiet();
}

#[test]
fn legacy_call_that_requests_a_task_of_a_modern_server_is_refused() {
    let daemon = Setup::with(Era::Modern.server("s").flags("--tasks")).start();
    let face = Era::Legacy.agent_at_face(&daemon, "s");
    for (mut agent, tool, is_face) in [(Agent::ready(&daemon), "s__echo", false), (face, "echo", true)] {
        let call = json!({"name": tool, "arguments": {"as_task": true, "id": "t"}, "task": {"ttl": 5}});
        let refused = agent.request("tools/call", &call);
        assert_eq!((code(&refused), &refused["error"]["data"]["outcome"]), (-32601, &json!("not_sent")), "{refused}");
        let message = refused["error"]["message"].as_str().expect("text");
        assert!(message.contains("server `s`") && message.contains("without `task`"), "{message}");
        assert_eq!(arguments(&agent.call(tool, &json!({"as_task": true, "id": "t"})))["id"], "t");
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let answer = agent.request(method, &json!({"taskId": "t"}));
            // The server has declared no tasks to legacy agents.
            let unknown_method = json!({"code": -32601, "message": format!("unknown method: {method}")});
            let unknown_task = json!({"code": -32602, "message": "Unknown task: t"});
            assert_eq!(answer["error"], if is_face { unknown_method } else { unknown_task }, "{method}");
        }
    }
    assert_eq!((daemon.count_journal("s", "tools/call"), daemon.count_journal("s", "\"tasks/")), (2, 0));
}

#[test]
fn tasks_are_declared_to_the_agents_of_the_server_s_era_only() {
    for (server, agent) in Era::pairs() {
        let daemon = Setup::with(server.server("s").flags("--tasks")).start();
        let is_declared = match agent {
            Era::Legacy => {
                let declared = Agent::connect(&daemon).initialize("2025-11-25");
                result(&declared)["capabilities"]["tasks"].is_object()
            }
            Era::Modern => {
                let declared = Agent::modern(&daemon, &task_capabilities()).request("server/discover", &json!({}));
                result(&declared)["capabilities"]["extensions"][EXTENSION].is_object()
            }
        };
        assert_eq!(is_declared, agent == server, "{agent:?} {server:?}");
    }
}
