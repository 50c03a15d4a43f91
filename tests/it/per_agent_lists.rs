//! Agents with an instance of their own see the lists of that instance.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, Setup, arguments, code, result};

/// A server whose instances offer what the directory says that they are started for.
fn by_directory(sharing: &str) -> Server {
    let server = Server::named("s").line(format!("sharing = \"{sharing}\""));
    let server = server.arg("--tool-list").arg("${agent:cwd}/tools.json");
    // It can do what is listed anywhere: what is not reached, mcpd has refused.
    let server = server.flags("--tool here --tool there --tool later");
    server.arg("--library").arg("${agent:cwd}/library.json")
}

/// A server whose instances change what they offer when they are asked to.
fn changeable(sharing: &str) -> Server {
    Server::named("s").line(format!("sharing = \"{sharing}\""))
}

/// Where an agent works, with what the instance there is to offer, all of one name.
fn directory(daemon: &Daemon, name: &str) -> PathBuf {
    let path = daemon.place().path(name);
    if !path.exists() {
        fs::create_dir(&path).expect("the test's own");
    }
    offer(daemon, name, &[name]);
    let library = json!({
        "prompts": [{ "name": name }],
        "resources": [{ "uri": format!("{name}://1"), "name": name }],
        "resourceTemplates": [{ "uriTemplate": format!("{name}://all/{{id}}"), "name": name }],
        "completions": true,
    });
    daemon.place().write(&format!("{name}/library.json"), library.to_string());
    path
}

/// Has the instances in a directory list these tools, and what makes them say that they list others, when they are asked next.
fn offer(daemon: &Daemon, directory: &str, tools: &[&str]) {
    let tool = |name: &&str| json!({ "name": name, "inputSchema": {} });
    let tools: Vec<_> = tools.iter().chain(&["burst_list_changed", "die"]).map(tool).collect();
    daemon.place().write(&format!("{directory}/tools.json"), json!({ "tools": tools }).to_string());
}

/// An agent that works in a directory, which offers what its name says.
fn working_in(daemon: &Daemon, name: &str) -> Agent {
    Agent::working_in(daemon, &directory(daemon, name))
}

fn list(agent: &mut Agent, method: &str, member: &str, key: &str) -> Vec<String> {
    let answer = agent.request(method, &json!({}));
    let items = result(&answer)[member].as_array().expect("a list").clone();
    items.iter().map(|item| item[key].as_str().expect("text").to_owned()).collect()
}

/// All that an agent is offered but for the tools that every instance has.
fn list_tools(agent: &mut Agent) -> Vec<String> {
    let mut all = agent.tools();
    all.retain(|tool| tool != "s__burst_list_changed" && tool != "s__die");
    all.extend(list(agent, "prompts/list", "prompts", "name"));
    all.extend(list(agent, "resources/list", "resources", "uri"));
    all.extend(list(agent, "resources/templates/list", "resourceTemplates", "uriTemplate"));
    all
}

/// All that one working in `name` is to be offered.
fn all_of(name: &str) -> Vec<String> {
    vec![format!("s__{name}"), format!("s__{name}"), format!("{name}://1"), format!("{name}://all/{{id}}")]
}

/// What asks for all that one working in `name` is offered.
fn requests(name: &str) -> Vec<(&'static str, Value)> {
    let exposed = format!("s__{name}");
    let argument = json!({ "name": "a", "value": "" });
    vec![
        ("tools/call", json!({ "name": exposed, "arguments": {} })),
        ("prompts/get", json!({ "name": exposed })),
        ("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": exposed }, "argument": argument })),
        ("resources/read", json!({ "uri": format!("{name}://1") })),
        ("resources/read", json!({ "uri": format!("{name}://all/7") })),
        ("resources/subscribe", json!({ "uri": format!("{name}://1") })),
    ]
}

/// Makes an instance say that it has other tools.
fn announce(agent: &mut Agent) {
    arguments(&agent.call("s__burst_list_changed", &json!({ "n": 1 })));
}

const CHANGED: &str = "notifications/tools/list_changed";

#[test]
fn agent_sees_and_calls_only_what_its_own_instance_offers() {
    for sharing in ["session", "workspace"] {
        let daemon = Setup::with(by_directory(sharing)).start();
        let (mut here, mut there) = (working_in(&daemon, "here"), working_in(&daemon, "there"));
        assert_eq!(list_tools(&mut here), all_of("here"), "{sharing}");
        assert_eq!(list_tools(&mut there), all_of("there"), "the first lists are of the agent's own instance");
        for (agent, own, others) in [(&mut here, "here", "there"), (&mut there, "there", "here")] {
            for (method, params) in requests(own) {
                result(&agent.request(method, &params));
            }
            for ((method, denied), (_, unknown)) in requests(others).into_iter().zip(requests("nowhere")) {
                let [denied, unknown] =
                    [denied, unknown].map(|params| agent.request(method, &params)["error"].to_string());
                assert_eq!(denied.replace(others, "nowhere"), unknown, "{method}");
            }
        }
        let reached = daemon.count_journal("s", "tools/call");
        assert_eq!(reached, 2, "no instance has seen what its agent is not offered");
    }
}

#[test]
fn list_change_of_one_instance_is_announced_to_its_agents_only() {
    let daemon = Setup::with(by_directory("workspace")).start();
    let mut agents = ["here", "here", "there"].map(|name| working_in(&daemon, name));
    for agent in &mut agents {
        agent.tools();
    }
    offer(&daemon, "here", &["here", "later"]);
    announce(&mut agents[0]);
    let [mut one, mut other, mut stranger] = agents;
    for agent in [&mut one, &mut other] {
        agent.expect_notification(CHANGED);
        assert!(agent.tools().contains(&"s__later".to_owned()));
        arguments(&agent.call("s__later", &json!({})));
    }
    stranger.expect_quiet();
    assert!(!stranger.tools().contains(&"s__later".to_owned()));
    assert_eq!(code(&stranger.call("s__later", &json!({}))), -32602);
    one.expect_quiet();
}

#[test]
fn tool_of_a_single_instance_is_announced_to_its_agent_only() {
    let daemon = Setup::with(changeable("session")).start();
    let (mut one, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    assert_eq!(one.tools(), other.tools());
    arguments(&one.call("s__mutate_tools", &json!({ "add": ["own"], "remove": ["big"] })));
    one.expect_notification(CHANGED);
    assert!(one.tools().contains(&"s__own".to_owned()) && !other.tools().contains(&"s__own".to_owned()));
    arguments(&one.call("s__own", &json!({})));
    assert_eq!(code(&one.call("s__big", &json!({ "bytes": 1 }))), -32602);
    result(&other.call("s__big", &json!({ "bytes": 1 })));
    assert_eq!(code(&other.call("s__own", &json!({}))), -32602);
    other.expect_quiet();
    assert!(!Agent::ready(&daemon).tools().contains(&"s__own".to_owned()), "nor does one that comes later see it");
}

#[test]
fn first_list_of_an_agent_comes_from_its_instance() {
    let daemon = Setup::with(by_directory("session").flags("--init-delay 300")).start();
    let mut first = working_in(&daemon, "here");
    assert_eq!(list_tools(&mut first), all_of("here"));
    let mut second = working_in(&daemon, "there");
    // Asked at once, and never told to ask again.
    assert_eq!(list_tools(&mut second), all_of("there"));
    second.expect_quiet();
    first.expect_quiet();
    // Called without a list, which nobody needs who knows the name.
    result(&working_in(&daemon, "later").call("s__later", &json!({})));
}

#[test]
fn agent_whose_instance_does_not_start_sees_the_last_known_lists() {
    let daemon = Setup::with(by_directory("session").line("cwd = \"${agent:cwd}\"")).start();
    let mut here = working_in(&daemon, "here");
    assert_eq!(list_tools(&mut here), all_of("here"));
    let mut lost = Agent::working_in(&daemon, "/nowhere/at/all".as_ref());
    assert_eq!(list_tools(&mut lost), all_of("here"));
    assert_eq!(code(&lost.call("s__here", &json!({}))), -31004);
}

#[test]
fn instance_that_hangs_during_its_start_delays_the_first_list_for_a_limited_time() {
    let hanging = Server::named("s").line("sharing = \"session\"").env("WHERE", "${agent:cwd}").flags("--init-never");
    // Longer than a test waits for anything.
    let setup = Setup::with(hanging.line("handshake_timeout = \"10m\"")).server(Server::named("a"));
    let daemon = setup.head("[daemon]\nfirst_list_wait = \"5s\"").start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__echo", &json!({})));
    assert!(agent.tools().contains(&"a__echo".to_owned()));
}

#[test]
fn agent_sees_the_lists_of_its_restarted_instance() {
    let daemon = Setup::with(by_directory("workspace")).start();
    let (mut here, mut there) = (working_in(&daemon, "here"), working_in(&daemon, "there"));
    let mut before = [list_tools(&mut here), list_tools(&mut there)];
    assert_eq!(code(&here.call("s__die", &json!({}))), -31001);
    result(&here.call("s__here", &json!({})));
    assert_eq!(list_tools(&mut here), before[0]);
    here.expect_quiet();
    offer(&daemon, "here", &["later"]);
    assert_eq!(code(&here.call("s__die", &json!({}))), -31001);
    here.expect_notification(CHANGED);
    before[0][0] = "s__later".to_owned();
    assert_eq!(list_tools(&mut here), before[0]);
    // An order of the operator restarts all of them.
    daemon.client(&["restart", "s"]).expect_code(0);
    assert_eq!([list_tools(&mut here), list_tools(&mut there)], before);
    for agent in [&mut here, &mut there] {
        agent.expect_quiet();
    }
}
