//! Tools with another name, another description and fewer arguments: agents see these, servers receive their own.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::reload::{change, changing, pids, text};
use crate::support::{
    Agent, Daemon, Era, Place, Server, Setup, arguments, call_text, code, content, inputs, result, until,
};

const SEARCH: &str = r#"tool = { search = { name = "find", description = "Finds.", arguments = { repo = "a/b", n = 1.50 }, hide_arguments = ["debug"] } }"#;

/// A server of this era with the tools `search` and `echo`, which have four arguments.
fn wiki(place: &Place, era: Era) -> Server {
    let schema = json!({
        "type": "object",
        "properties": {"repo": {"type": "string"}, "q": {"type": "string"}, "n": {}, "debug": {"type": "boolean"}},
        "required": ["repo", "q"],
        "dependentRequired": {"debug": ["repo"]},
    });
    let tool = |name: &str| json!({"name": name, "title": "T", "description": "old", "inputSchema": schema});
    let list = place.write("tools.json", json!({"tools": [tool("search"), tool("echo")]}).to_string());
    era.server("s").flags("--tool search").arg("--tool-list").arg(list)
}

fn start(era: Era, lines: &[&str]) -> Daemon {
    let place = Place::new();
    let server = lines.iter().fold(wiki(&place, era), |server, line| server.line(*line));
    Setup::with(server).start_in(&place)
}

fn list(agent: &mut Agent) -> Vec<Value> {
    let answer = agent.request("tools/list", &json!({}));
    result(&answer)["tools"].as_array().expect("tools").clone()
}

/// What the server received of the calls of a tool.
fn received(daemon: &Daemon, tool: &str) -> Vec<Value> {
    let journal = daemon.journal("s");
    let calls = journal.iter().filter(|line| line.contains("tools/call"));
    let calls = calls.map(|line| serde_json::from_str::<Value>(line).expect("JSON")["params"].clone());
    calls.filter(|params| params["name"] == tool).collect()
}

#[test]
fn agents_see_the_configured_tool_and_the_server_its_own_in_every_pair_of_eras() {
    for (agents, servers) in Era::pairs() {
        let daemon = start(servers, &[SEARCH]);
        let mut aggregate = agents.agent(&daemon, &json!({}));
        let mut face = agents.agent_at_face(&daemon, "s");
        for (agent, prefix) in [(&mut aggregate, "s__"), (&mut face, "")] {
            let tools = list(agent);
            let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "dependentRequired": {}});
            let find =
                json!({"name": format!("{prefix}find"), "title": "T", "description": "Finds.", "inputSchema": schema});
            assert_eq!(tools[0], find, "{agents:?} {servers:?}");
            assert_eq!((&tools[1]["name"], &tools[1]["description"]), (&json!(format!("{prefix}echo")), &json!("old")));
            assert!(tools[1]["inputSchema"]["properties"]["repo"].is_object(), "{tools:?}");
            let answer = agent.call(&format!("{prefix}find"), &json!({"q": "x"}));
            assert_eq!(arguments(&answer), &json!({"repo": "a/b", "n": 1.5, "q": "x"}));
            let without = agent.request("tools/call", &json!({"name": format!("{prefix}find")}));
            assert_eq!(arguments(&without), &json!({"repo": "a/b", "n": 1.5}));
            assert_eq!(
                arguments(&agent.call(&format!("{prefix}echo"), &json!({"repo": "c/d"}))),
                &json!({"repo": "c/d"})
            );
        }
        assert_eq!(received(&daemon, "search").len(), 4, "the server knows its own name only");
        assert!(received(&daemon, "find").is_empty() && received(&daemon, "s__find").is_empty());
    }
}

/// Case H1.
#[test]
fn original_name_is_as_unknown_as_a_name_that_never_existed() {
    let daemon = start(Era::Legacy, &[SEARCH]);
    for (mut agent, prefix) in [
        (Agent::ready(&daemon), "s__"),
        (Era::Legacy.agent_at_face(&daemon, "s"), ""),
        (Era::Modern.agent_at_face(&daemon, "s"), ""),
    ] {
        let mut error = |name: &str| agent.call(&format!("{prefix}{name}"), &json!({"q": "x"}))["error"].to_string();
        let original = error("search");
        assert_eq!(original, error("nosuch").replace("nosuch", "search"));
        assert!(original.contains("-32602") && original.contains("Unknown tool"), "{original}");
    }
    let unprefixed = Agent::ready(&daemon).call("find", &json!({}));
    assert!(unprefixed["error"]["message"].to_string().contains("the tool is `s__find` here"), "{unprefixed}");
    assert!(received(&daemon, "search").is_empty());
}

/// Case H20.
#[test]
fn configured_arguments_of_an_agent_reach_no_server_in_any_spelling() {
    for (agents, servers) in Era::pairs() {
        let daemon = start(servers, &[SEARCH]);
        let mut agent = agents.agent(&daemon, &json!({}));
        for (argument, given) in [
            ("repo", json!({"repo": "c/d"})),
            ("repo", json!({"q": "x", "Repo": "c/d"})),
            ("debug", json!({"debug": true})),
        ] {
            let answer = agent.call("s__find", &given);
            assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-32602, &json!("not_sent")), "{answer}");
            assert!(answer["error"]["message"].to_string().contains(&format!("`{argument}`")), "{answer}");
        }
        let meta = agent.with_meta(&json!({}))["_meta"].to_string();
        for arguments in [
            r#"{"r\u0065po":"c/d"}"#,
            r#"{"q":"x","repo":"c/d","repo":"e/f"}"#,
            r#"{},"arguments":{"repo":"c/d"}"#,
            r#"{},"\u0061rguments":{"repo":"c/d"}"#,
            r#"{},"Arguments":{"repo":"c/d"}"#,
            r#"["repo"]"#,
            r#""{\"repo\":\"c/d\"}""#,
        ] {
            let mut line = call_text("\"x\"", "s__find", arguments);
            if agents == Era::Modern {
                line = line.replacen(r#""params":{"#, &format!(r#""params":{{"_meta":{meta},"#), 1);
            }
            agent.send_raw(line + "\n");
            assert_eq!(code(&agent.answer(&json!("x"))), -32602, "{arguments}");
        }
        assert!(received(&daemon, "search").is_empty(), "{agents:?} {servers:?}");
        assert!(!daemon.journal("s").iter().any(|line| line.contains("c/d")));
    }
}

#[test]
fn bytes_that_are_not_configured_pass_unchanged() {
    let daemon = start(Era::Legacy, &[SEARCH]);
    let mut agent = Agent::ready(&daemon);
    let odd = r#"{ "q":"caf\u00e9 \/ é", "big":12345678901234567890123,"x":[1.10, {"repo":"inner"}] }"#;
    for tool in ["s__find", "s__echo"] {
        agent.send_raw(call_text("\"x\"", tool, odd) + "\n");
        result(&agent.answer(&json!("x")));
    }
    let journal = daemon.journal("s");
    let of =
        |tool: &str| journal.iter().find(|line| line.contains(&format!(r#""name":"{tool}""#))).expect("a call").clone();
    assert!(of("echo").contains(&format!(r#""arguments":{odd}"#)), "{}", of("echo"));
    let changed = odd.replacen('{', r#"{"repo":"a/b","n":1.50,"#, 1);
    assert!(of("search").contains(&format!(r#""arguments":{changed}"#)), "{}", of("search"));
}

#[test]
fn policy_time_limits_and_records_use_the_original_name() {
    let denied = start(Era::Legacy, &[SEARCH, "deny = [\"search\"]"]);
    let mut agent = Agent::ready(&denied);
    assert_eq!(agent.tools(), ["s__echo"]);
    let unknown = agent.call("s__find", &json!({}))["error"].to_string();
    assert_eq!(unknown, agent.call("s__fine", &json!({}))["error"].to_string().replace("fine", "find"));

    let daemon = start(Era::Legacy, &[SEARCH, "deny = [\"find\"]"]);
    let mut agent = Agent::ready(&daemon);
    result(&agent.call("s__find", &json!({"q": "x"})));
    let calls = daemon.client(&["calls", "--json"]).expect_code(0);
    assert!(calls.stdout.contains(r#""tool":"search""#) && !calls.stdout.contains("find"), "{calls}");
    for name in ["s/search", "s__find", "s/find"] {
        let ran = daemon.client(&["disable", name]).expect_code(0);
        assert!(!ran.stdout.contains("unknown"), "{ran}");
        assert_eq!(code(&agent.call("s__find", &json!({}))), -32602, "{name}");
        assert_eq!(daemon.row("s")["tools_disabled"], json!(["search"]));
        daemon.client(&["enable", "s/search"]).expect_code(0);
    }
    let place = Place::new();
    let head = "[profiles.p]\ndeny = ['s/search']\n[profiles.q]\ndeny = ['s/find']";
    let daemon = Setup::with(wiki(&place, Era::Legacy).line(SEARCH)).head(head).start_in(&place);
    assert_eq!(Agent::ready_at(&daemon.profile_socket("p")).tools(), ["s__echo"]);
    assert_eq!(Agent::ready_at(&daemon.profile_socket("q")).tools(), ["s__find", "s__echo"]);
}

#[test]
fn commands_show_both_names() {
    let daemon = start(Era::Legacy, &[SEARCH]);
    let table = daemon.client(&["tools"]).expect_code(0);
    assert!(table.stdout.contains("s__find") && !table.stdout.contains("s__search"), "{table}");
    for name in ["s__find", "s/search"] {
        let details = daemon.client(&["tools", name]).expect_code(0);
        for part in ["s__find", "the server's own name: s/search", "Finds."] {
            assert!(details.stdout.contains(part), "{details}");
        }
        assert!(!details.stdout.contains("debug") && !details.stdout.contains("repo"), "{details}");
        let called = daemon.client(&["call", "--json", name, "q=x"]).expect_code(0);
        assert!(called.stdout.contains("a/b"), "{called}");
    }
    let all = daemon.client(&["tools", "--all", "--json"]).expect_code(0).json();
    let find = &all["tools"][0];
    assert_eq!(
        (&find["tool"], &find["name"], &find["configured_name"]),
        (&json!("search"), &json!("s__find"), &json!("find"))
    );
    assert!(all["tools"][1]["configured_name"].is_null(), "{all}");
    let refused = daemon.client(&["call", "s__find", "repo=c/d"]);
    assert!(refused.code == Some(1) || refused.code == Some(2), "{refused}");
}

#[test]
fn every_kind_of_instance_gets_the_fixed_arguments() {
    for sharing in ["session", "workspace", "pool"] {
        let daemon = start(Era::Legacy, &[SEARCH, &format!("sharing = \"{sharing}\"")]);
        let mut agents =
            [Agent::working_in(&daemon, &std::env::temp_dir()), Agent::working_in(&daemon, &std::env::temp_dir())];
        for agent in &mut agents {
            assert!(agent.tools().contains(&"s__find".to_owned()), "{sharing}");
            assert_eq!(arguments(&agent.call("s__find", &json!({})))["repo"], "a/b", "{sharing}");
            assert_eq!(code(&agent.call("s__find", &json!({"debug": 1}))), -32602, "{sharing}");
        }
    }
}

/// Case H20.
#[test]
fn task_gets_the_fixed_arguments_and_outlives_a_new_name_of_its_tool() {
    let server = |name: &str| {
        Server::named("s")
            .flags("--tasks")
            .line(format!("tool = {{ echo = {{ name = \"{name}\", arguments = {{ repo = 7 }} }} }}"))
    };
    let (mut daemon, place) = changing(&[server("say")]);
    let mut agent = Agent::ready(&daemon);
    assert!(agent.tools().contains(&"s__say".to_owned()));
    let task = json!({"name": "s__say", "arguments": {"repo": 8}, "task": {"ttl": null}});
    assert_eq!(code(&agent.request("tools/call", &task)), -32602);
    let task = json!({"name": "s__say", "arguments": {"q": 1}, "task": {"ttl": null}});
    let created = agent.request("tools/call", &task);
    let id = result(&created)["task"]["taskId"].clone();
    change(&mut daemon, text(&[server("tell")], &place), "reloaded: updated s");
    agent.expect_notification("notifications/tools/list_changed");
    assert!(agent.tools().contains(&"s__tell".to_owned()));
    result(&agent.request("tasks/get", &json!({"taskId": id})));
    arguments(&agent.call("s__finish_task", &json!({"id": id})));
    agent.expect_notification("notifications/tasks/status");
    let answer = agent.request("tasks/result", &json!({"taskId": id}));
    assert_eq!(arguments(&answer), &json!({"repo": 7, "q": 1}), "{answer}");
}

/// Case H20.
#[test]
fn retry_of_a_call_gets_the_fixed_arguments_again() {
    let fixed = r#"tool = { send_request = { name = "ask", arguments = { method = "sampling/createMessage" } } }"#;
    let daemon = Server::named("s").line(fixed).start();
    let mut agent = Agent::modern(&daemon, &json!({"sampling": {}}));
    let given = json!({"params": {"maxTokens": 7, "messages": []}});
    let required = agent.call("s__ask", &given);
    let key = inputs(&required).keys().next().expect("an input").clone();
    let model = json!({"model": "m", "role": "assistant", "content": {}});
    let other = json!({"params": {}, "method": "roots/list"});
    assert_eq!(code(&agent.retry_call("s__ask", &other, &required, &json!({&*key: model}))), -32602);
    let answer = agent.retry_call("s__ask", &given, &required, &json!({&*key: model}));
    assert_eq!(content(&answer)["result"], model);

    let rounds = r#"[{ inputs = { q = { method = "elicitation/create", params = { message = "?" } } }, state = "x" }]"#;
    let fixed = format!("tool = {{ need_input = {{ name = \"ask\", arguments = {{ rounds = {rounds} }} }} }}");
    let daemon = Era::Modern.server("s").line(fixed).start();
    let accepted = json!({"action": "decline"});
    let mut modern = Agent::modern(&daemon, &json!({"elicitation": {"form": {}}}));
    let required = modern.call("s__ask", &json!({}));
    let answer = modern.retry_call("s__ask", &json!({}), &required, &json!({"q": accepted}));
    assert_eq!(result(&answer)["resultType"], "complete", "{answer}");
    let mut legacy = Agent::with_capabilities(&daemon, &json!({"elicitation": {}}));
    let call = legacy.start_call("s__ask", &json!({}));
    let request = legacy.expect_request("elicitation/create");
    legacy.respond(&request, &accepted);
    result(&legacy.answer(&call));
}

#[test]
fn reload_changes_overrides_without_a_restart_and_agents_are_notified() {
    let server = |line: &str| Server::named("s").flags("--bare --tool search --tool echo").line(line);
    let (mut daemon, place) = changing(&[server("")]);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__search", "s__echo"]);
    let before = pids(&daemon);
    for (line, names) in [
        (SEARCH, ["s__find", "s__echo"]),
        ("tool = { search = { name = \"seek\" } }", ["s__seek", "s__echo"]),
        ("tool = { search = { name = \"echo\" }, echo = { name = \"search\" } }", ["s__echo", "s__search"]),
        ("", ["s__search", "s__echo"]),
        ("tool = { search = { description = \"new\" } }", ["s__search", "s__echo"]),
    ] {
        change(&mut daemon, text(&[server(line)], &place), "reloaded: updated s");
        agent.expect_notification("notifications/tools/list_changed");
        assert_eq!(agent.tools(), names, "{line}");
        assert_eq!(pids(&daemon), before, "{line}");
    }
    // A bad one changes nothing.
    let bad = "tool = { search = { name = \"x\" }, echo = { name = \"x\" } }";
    change(&mut daemon, text(&[server(bad)], &place), "have the same name");
    assert_eq!(agent.tools(), ["s__search", "s__echo"]);
    agent.expect_quiet();
}

/// A lazy server whose lists are known, and that starts only once the gate is open.
fn parked(line: &str) -> (Daemon, Rc<Place>, PathBuf, impl Fn(&str) -> String + use<>) {
    let place = Place::new();
    let gate = place.write("gate", "");
    let write = {
        let (place, gate) = (Rc::clone(&place), gate.clone());
        move |line: &str| {
            let server = Server::named("s").flags("--bare --tool search --tool echo --exit-unless").arg(&gate);
            text(&[server.line("start = \"lazy\"").line("idle_timeout = \"1s\"").line(line)], &place)
        }
    };
    let setup = || Setup::new().config(place.write("changing.toml", write(line)));
    let mut first = setup().start_in(&place);
    first.wait_row("s", "has listed and is idle", |row| row["state"] == "idle");
    first.term();
    drop(first);
    fs::remove_file(&gate).expect("it is there");
    let daemon = setup().start_in(&place);
    (daemon, place, gate, write)
}

/// Case H20.
#[test]
fn parked_call_is_built_with_the_overrides_at_its_release_or_refused() {
    let line = |rest: &str| format!("tool = {{ search = {{ {rest} }} }}");
    let (mut daemon, _place, gate, write) = parked(&line("arguments = { repo = 1 }"));
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__search", "s__echo"], "from memory");
    let calls = [json!({}), json!({"q": 1}), json!({"debug": 1})].map(|given| agent.start_call("s__search", &given));
    let other = agent.start_call("s__echo", &json!({"repo": 5}));
    daemon.wait_row("s", "has parked the calls", |row| row["calls"] == 4);
    let changed = line("arguments = { repo = 2 }, hide_arguments = ['debug']");
    change(&mut daemon, write(&changed), "reloaded: updated s");
    fs::write(&gate, "").expect("the test's own");
    let [first, second, third] = calls.map(|id| agent.answer(&id));
    assert_eq!((arguments(&first), arguments(&second)), (&json!({"repo": 2}), &json!({"repo": 2, "q": 1})));
    assert_eq!((code(&third), &third["error"]["data"]["outcome"]), (-32602, &json!("not_sent")), "{third}");
    assert_eq!(arguments(&agent.answer(&other)), &json!({"repo": 5}));
    let journal = daemon.journal("s");
    assert!(!journal.iter().any(|line| line.contains("debug")), "{journal:?}");
}

/// Case H13.
#[test]
fn parked_call_of_a_name_that_a_reload_takes_away_is_unknown() {
    let (mut daemon, _place, gate, write) = parked("");
    let mut agent = Agent::ready(&daemon);
    let call = agent.start_call("s__search", &json!({"q": 1}));
    let kept = agent.start_call("s__echo", &json!({"q": 2}));
    daemon.wait_row("s", "has parked the calls", |row| row["calls"] == 2);
    change(
        &mut daemon,
        write("tool = { search = { name = 'find' }, echo = { arguments = { n = 3 } } }"),
        "reloaded: updated s",
    );
    fs::write(&gate, "").expect("the test's own");
    assert_eq!(agent.answer(&call)["error"], json!({"code": -32602, "message": "Unknown tool: s__search"}));
    assert_eq!(arguments(&agent.answer(&kept)), &json!({"n": 3, "q": 2}));
    assert!(received(&daemon, "search").is_empty());
}

/// Case H21.
#[test]
fn tool_whose_name_another_tool_has_is_left_out_alone_and_named() {
    let server = Server::named("s")
        .flags("--bare --tool search --tool find --tool echo")
        .line("tool = { search = { name = \"find\" } }");
    let daemon = Setup::with(server).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__find", "s__echo"]);
    result(&agent.call("s__find", &json!({})));
    assert_eq!((received(&daemon, "find").len(), received(&daemon, "search").len()), (1, 0));
    let message = "agents do not see the tool `search`: the server itself has a tool `find`";
    let status = daemon.client(&["status"]).expect_code(0);
    assert!(status.stdout.contains(message), "{status}");
    let report = json!([{"tool": "search", "problem": "name_taken", "value": "find"}]);
    assert_eq!(daemon.row("s")["tool_overrides"], report);
    until("it is logged", || daemon.log().contains("agents do not see the tool `search` of `s`").then_some(()));
    let all = daemon.client(&["tools", "--all"]).expect_code(0);
    assert!(all.stdout.contains("another tool of its server has the name"), "{all}");
}

#[test]
fn override_without_effect_or_without_a_required_argument_is_reported() {
    let line = r#"tool = { search = { hide_arguments = ["repo"] }, serch = { name = "x" } }"#;
    let daemon = start(Era::Legacy, &[line]);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__search", "s__echo"], "the tool is not lost");
    let missing = "each call of the tool `search` fails: the server requires the argument `repo`, which is hidden";
    let status = daemon.client(&["status"]).expect_code(0);
    assert!(status.stdout.contains(missing), "{status}");
    until("both are logged", || {
        let log = daemon.log();
        let unlisted = log.contains("`s` has no tool `serch`") && log.contains("did you mean `search`?");
        (unlisted && log.contains("each call of the tool `search` fails")).then_some(())
    });
    let doctor = daemon.client(&["doctor"]);
    assert!(doctor.stdout.contains("`s` has no tool `serch`") && doctor.stdout.contains("which is hidden"), "{doctor}");
}
