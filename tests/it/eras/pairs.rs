//! Everyday requests, with agents and servers of each era.

use serde_json::{Value, json};

use super::both;
use crate::support::{Agent, Daemon, Era, LEVEL, PROTOCOL, Setup, arguments, code, notification, plain, result, until};

/// Whether a result says what it is, as it does in the modern era alone.
#[track_caller]
fn expect_of(era: Era, result: &Value) {
    let expected = if era == Era::Modern { json!("complete") } else { Value::Null };
    assert_eq!(result["resultType"], expected, "{era:?}: {result}");
}

/// Every agent with every server, in a daemon with both.
fn each(daemon: &Daemon, mut check: impl FnMut(&mut Agent, Era, Era)) {
    for (agent, server) in Era::pairs() {
        let mut connected = agent.agent(daemon, &json!({}));
        check(&mut connected, agent, server);
        connected.expect_quiet();
    }
}

#[test]
fn agents_of_both_eras_list_the_same() {
    let daemon = both();
    let mut lists = Vec::new();
    for era in Era::BOTH {
        let mut agent = era.agent(&daemon, &json!({}));
        for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            let answer = agent.request(method, &json!({}));
            expect_of(era, result(&answer));
            lists.push(plain(result(&answer)));
        }
        agent.expect_quiet();
    }
    let (legacy, modern) = lists.split_at(4);
    assert_eq!(legacy, modern);
    let tools: Vec<_> = legacy[0]["tools"].as_array().expect("a list").iter().map(|tool| &tool["name"]).collect();
    assert!(tools.contains(&&json!("old__echo")) && tools.contains(&&json!("new__echo")), "{tools:?}");
    assert_eq!([1, 2, 3].map(|list| legacy[list].as_object().expect("an object").len()), [1; 3]);
}

#[test]
fn agents_of_each_era_call_servers_of_each_era() {
    let daemon = both();
    each(&daemon, |agent, speaks, server| {
        let answer = agent.call(&server.tool("echo"), &json!({"mark": 1}));
        expect_of(speaks, result(&answer));
        assert_eq!(arguments(&answer), &json!({"mark": 1}));
        let received = &result(&answer)["structuredContent"]["params"];
        assert_eq!(received["name"], "echo");
        match server {
            Era::Legacy => assert_eq!(received["_meta"], Value::Null),
            Era::Modern => assert_eq!(received["_meta"][PROTOCOL], "2026-07-28"),
        }
    });
    let is_probe = |line: &String| line.contains("server/discover");
    let modern_lines = daemon.journal("old").into_iter().filter(|line| line.contains(PROTOCOL) && !is_probe(line));
    assert_eq!(modern_lines.collect::<Vec<_>>(), [""; 0]);
    let legacy_lines =
        daemon.journal("new").into_iter().filter(|line| line.contains("\"id\"") && !line.contains(PROTOCOL));
    // It has refused that.
    let legacy_lines = legacy_lines.filter(|line| !line.contains("\"initialize\""));
    assert_eq!(legacy_lines.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn server_receives_client_name_and_capabilities_of_the_agent() {
    let daemon = both();
    let can = json!({"elicitation": {"url": {}}, "experimental": {"x": {"n": 1}}});
    for era in Era::BOTH {
        let mut agent = era.agent(&daemon, &can);
        let answer = agent.call("new__echo", &json!({}));
        let meta = &result(&answer)["structuredContent"]["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], can, "{era:?}");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"], json!({"name": "test-agent", "version": "7"}));
    }
}

#[test]
fn errors_of_servers_pass_between_all_eras() {
    let daemon = both();
    let data = json!({"zeta": 1.1, "alpha": serde_json::from_str::<Value>("12345678901234567890123").expect("JSON")});
    each(&daemon, |agent, speaks, server| {
        for failure in [-32000, -32603, 7] {
            let answer = agent.call(&server.tool("fail"), &json!({"code": failure, "message": "broken"}));
            assert_eq!((code(&answer), &answer["error"]["message"]), (failure, &json!("broken")));
            assert_eq!((&answer["error"]["data"], &answer["error"]["x-vendor"]), (&data, &json!(true)));
        }
        let answer = agent.call(&server.tool("refuse"), &json!({}));
        expect_of(speaks, result(&answer));
        assert_eq!(result(&answer)["isError"], true);
    });
}

/// Case H1.
#[test]
fn unknown_and_denied_tools_get_the_same_bytes_in_both_eras() {
    let deny = |era: Era| era.server(era.name()).line("deny = [\"umask\"]");
    let daemon = Setup::with(deny(Era::Legacy)).server(deny(Era::Modern)).start();
    for (speaks, server) in Era::pairs() {
        let mut agent = speaks.agent(&daemon, &json!({}));
        let [denied, unknown] = ["umask", "magic"].map(|tool| {
            let name = server.tool(tool);
            let message = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call",
                "params": agent.with_meta(&json!({"name": name, "arguments": {}}))});
            agent.send(&message);
            agent.next_line().expect("an answer").replace(&name, "?")
        });
        assert_eq!(denied, unknown);
        assert!(denied.contains("-32602") && denied.contains("Unknown tool: ?"), "{denied}");
        assert!(!daemon.journal(server.name()).iter().any(|line| line.contains("umask") && line.contains("call")));
    }
}

#[test]
fn progress_comes_with_the_agents_own_token() {
    let daemon = both();
    each(&daemon, |agent, speaks, server| {
        let token = format!("{speaks:?}");
        let params = json!({"name": server.tool("progress"), "arguments": {"n": 3}, "_meta": {"progressToken": token}});
        let call = agent.start_request("tools/call", &params);
        for step in 1..=3 {
            let notification = agent.next();
            let expected = json!({"progressToken": token, "progress": step, "total": 3});
            assert_eq!(
                (&notification["method"], &notification["params"]),
                (&json!("notifications/progress"), &expected)
            );
        }
        arguments(&agent.answer(&call));
    });
}

#[test]
fn cancelled_call_is_cancelled_at_the_server() {
    let daemon = both();
    each(&daemon, |agent, speaks, server| {
        let mark = format!("{speaks:?}-{server:?}");
        let call = agent.start_call(&server.tool("sleep"), &json!({"ms": 600_000, "mark": mark}));
        let sent: Value = serde_json::from_str(&daemon.wait_journal(server.name(), &mark)).expect("JSON");
        agent.cancel(&call);
        let id = sent["id"].to_string();
        until("the server hears of it", || {
            let is_cancellation = |line: &String| line.contains("notifications/cancelled") && line.contains(&id);
            daemon.journal(server.name()).iter().any(is_cancellation).then_some(())
        });
    });
    for server in Era::BOTH {
        daemon.wait_row(server.name(), "has nothing left to do", |row| row["in_flight"] == 0);
    }
}

#[test]
fn prompts_completions_and_resources_are_had_from_every_server() {
    let daemon = both();
    each(&daemon, |agent, speaks, server| {
        let prompt = format!("{}__greet", server.name());
        let reference = json!({"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": "a", "value": "b"}});
        for (method, params) in [
            ("prompts/get", json!({"name": prompt})),
            ("completion/complete", reference),
            ("resources/read", json!({"uri": server.uri()})),
        ] {
            let answer = agent.request(method, &params);
            let result = result(&answer);
            expect_of(speaks, result);
            assert_eq!(result["zeta"], 1.1);
            assert_eq!(result["received"]["_meta"][PROTOCOL].is_string(), server == Era::Modern, "{method}");
            let is_cacheable = speaks == Era::Modern && method == "resources/read";
            assert_eq!(
                (result["ttlMs"].is_null(), result["cacheScope"].is_null()),
                (!is_cacheable, !is_cacheable),
                "{method}"
            );
        }
    });
}

#[test]
fn missing_resource_has_the_error_code_of_the_agents_era() {
    let daemon = both();
    for (era, expected) in [(Era::Legacy, -32002), (Era::Modern, -32602)] {
        let mut agent = era.agent(&daemon, &json!({}));
        assert_eq!(code(&agent.request("resources/read", &json!({"uri": "nowhere://1"}))), expected);
    }
}

#[test]
fn log_messages_reach_the_requesting_agent_from_its_level_on() {
    let daemon = both();
    let messages = json!([{"level": "info", "data": "quiet"}, {"level": "error", "data": "loud"}]);
    each(&daemon, |agent, speaks, server| {
        match speaks {
            Era::Legacy => drop(agent.request("logging/setLevel", &json!({"level": "warning"}))),
            Era::Modern => agent.log_from("warning"),
        }
        let text: String = messages
            .as_array()
            .expect("a list")
            .iter()
            .map(|params| format!("{}\n", notification("notifications/message", params)))
            .collect();
        // A modern server says nothing else; what a legacy one says is mcpd's to choose from.
        let call = match server {
            Era::Legacy => agent.start_call("old__raw", &json!({"text": text})),
            Era::Modern => agent.start_call("new__log", &json!({"messages": messages})),
        };
        let notification = agent.expect_notification("notifications/message");
        assert_eq!(notification["params"]["data"], "loud", "{speaks:?} {server:?}");
        arguments(&agent.answer(&call));
    });
}

#[test]
fn legacy_agent_gets_logs_of_a_modern_server_after_its_own_cancellation() {
    let daemon = both();
    let mut agent = Agent::ready(&daemon);
    agent.request("logging/setLevel", &json!({"level": "warning"}));
    let busy = agent.start_call("new__sleep", &json!({"ms": 600_000}));
    daemon.wait_journal("new", "60000");
    agent.cancel(&busy);
    let call = agent.start_call("new__log", &json!({"messages": [{"level": "error", "data": "loud"}]}));
    assert_eq!(agent.expect_notification("notifications/message")["params"]["data"], "loud");
    arguments(&agent.answer(&call));
    agent.expect_quiet();
}

#[test]
fn modern_agent_without_a_log_level_receives_no_log_messages() {
    let daemon = both();
    let mut agent = Agent::modern(&daemon, &json!({}));
    let message = notification("notifications/message", &json!({"level": "emergency", "data": 1}));
    arguments(&agent.call("old__raw", &json!({"text": format!("{message}\n")})));
    let answer = agent.call("new__log", &json!({"messages": [message["params"]]}));
    assert_eq!(result(&answer)["structuredContent"]["params"]["_meta"][LEVEL], Value::Null);
    agent.expect_quiet();
}

#[test]
fn every_way_of_sharing_serves_agents_of_both_eras() {
    for sharing in ["session", "workspace", "pool"] {
        let server = |era: Era| era.server(era.name()).line(format!("sharing = \"{sharing}\""));
        let daemon = Setup::with(server(Era::Legacy)).server(server(Era::Modern)).start();
        each(&daemon, |agent, speaks, server| {
            assert!(agent.tools().contains(&server.tool("echo")), "{sharing} {speaks:?} {server:?}");
            assert_eq!(arguments(&agent.call(&server.tool("echo"), &json!({"n": sharing}))), &json!({"n": sharing}));
        });
    }
}

#[test]
fn large_calls_and_answers_pass_between_the_eras() {
    let daemon = both();
    let long = "é".repeat(1 << 20);
    each(&daemon, |agent, speaks, server| {
        let answer = agent.call(&server.tool("echo"), &json!({"long": long, "pad": 3 << 20}));
        expect_of(speaks, result(&answer));
        assert_eq!(arguments(&answer)["long"].as_str().map(str::len), Some(2 << 20), "{speaks:?} {server:?}");
        let received = &result(&answer)["structuredContent"];
        assert_eq!(received["pad"].as_str().map(str::len), Some(3 << 20));
        assert_eq!(received["params"]["_meta"][PROTOCOL].is_string(), server == Era::Modern);
    });
}

/// Case J8.
#[test]
fn death_of_a_server_ends_calls_of_both_eras_once() {
    let daemon = both();
    for server in Era::BOTH {
        let mut agents = Era::BOTH.map(|era| era.agent(&daemon, &json!({})));
        let calls = agents.each_mut().map(|agent| agent.start_call(&server.tool("sleep"), &json!({"ms": 600_000})));
        daemon.wait_row(server.name(), "has both", |row| row["in_flight"] == 2);
        let killer = agents[0].call(&server.tool("die"), &json!({"how": "kill"}));
        for answer in [killer, agents[0].answer(&calls[0]), agents[1].answer(&calls[1])] {
            assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31001, &json!("unknown")), "{answer}");
        }
        daemon.wait_row(server.name(), "is up again", |row| row["state"] == "ready");
    }
}
