//! Lists of session instances follow the operator's rules and keep their names.

use std::rc::Rc;

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, code, resident_kib, result, until};

/// A server with an instance for each agent, which offers what its agent has it offer.
fn own(name: &str) -> Server {
    Server::named(name).line("sharing = \"session\"").flags("--bare --tool mutate_tools")
}

/// A daemon whose configuration the test changes.
fn changing(head: &str, servers: &[Server]) -> (Daemon, Rc<Place>) {
    let place = Place::new();
    let file = place.write("changing.toml", text(head, servers, &place));
    (Setup::new().config(file).start_in(&place), place)
}

fn text(head: &str, servers: &[Server], place: &Place) -> String {
    let servers: String = servers.iter().map(|server| server.toml(place)).collect();
    format!("{head}\n{servers}")
}

fn reload(daemon: &Daemon, text: String) {
    daemon.place().write("changing.toml", text);
    daemon.client(&["reload"]).expect_code(0);
}

fn change(agent: &mut Agent, tool: &str, what: &Value) {
    arguments(&agent.call(tool, what));
}

const CHANGED: &str = "notifications/tools/list_changed";

#[test]
fn policy_applies_to_tools_of_a_single_instance_and_follows_reloads() {
    let (daemon, place) = changing("", &[own("s").line("deny = [\"secret_*\"]")]);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__mutate_tools"]);
    change(&mut agent, "s__mutate_tools", &json!({ "add": ["secret_one", "open"] }));
    agent.expect_notification(CHANGED);
    assert_eq!(agent.tools(), ["s__mutate_tools", "s__open"]);
    let [denied, unknown] =
        ["s__secret_one", "s__secret_two"].map(|tool| agent.call(tool, &json!({}))["error"].to_string());
    assert_eq!(denied.replace("_one", "_two"), unknown);
    reload(&daemon, text("", &[own("s").line("deny = [\"open\"]")], &place));
    agent.expect_notification(CHANGED);
    assert_eq!(agent.tools(), ["s__mutate_tools", "s__secret_one"], "its instance was not restarted for that");
    assert_eq!(code(&agent.call("s__open", &json!({}))), -32602);
    result(&agent.call("s__secret_one", &json!({})));
}

#[test]
fn servers_come_go_and_change_while_agents_have_lists_of_their_own() {
    let (daemon, place) = changing("", &[own("s"), Server::named("a").flags("--bare --tool echo")]);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__mutate_tools", "a__echo"]);
    change(&mut agent, "s__mutate_tools", &json!({ "add": ["own"] }));
    agent.expect_notification(CHANGED);
    // Another server with instances for agents, before the first.
    reload(&daemon, text("", &[own("t"), own("s"), Server::named("a").flags("--bare --tool echo")], &place));
    let all = ["t__mutate_tools", "s__mutate_tools", "s__own", "a__echo"];
    until("the new one is listed", || (agent.tools() == all).then_some(()));
    change(&mut agent, "t__mutate_tools", &json!({ "add": ["too"] }));
    let all = ["t__mutate_tools", "t__too", "s__mutate_tools", "s__own", "a__echo"];
    until("what its instance offers is listed", || (agent.tools() == all).then_some(()));
    result(&agent.call("s__own", &json!({})));
    // The same servers, of which none has an instance for each agent any more.
    let shared = ["t", "s"].map(|name| Server::named(name).flags("--bare --tool mutate_tools"));
    reload(&daemon, text("", &shared, &place));
    until("all agents see the same", || (agent.tools() == ["t__mutate_tools", "s__mutate_tools"]).then_some(()));
    assert_eq!(code(&agent.call("s__own", &json!({}))), -32602);
    arguments(&agent.call("s__mutate_tools", &json!({})));
    agent.disconnect();
}

#[test]
fn stopped_server_offers_nothing_until_it_is_enabled() {
    let (daemon, _place) = changing("", &[own("s")]);
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    change(&mut agent, "s__mutate_tools", &json!({ "add": ["own"] }));
    agent.expect_notification(CHANGED);
    daemon.client(&["disable", "--stop", "s"]).expect_code(0);
    agent.expect_notification(CHANGED);
    assert_eq!(agent.tools(), [""; 0]);
    assert_eq!(code(&agent.call("s__own", &json!({}))), -32602);
    daemon.client(&["enable", "s"]).expect_code(0);
    agent.expect_notification(CHANGED);
    assert_eq!(agent.tools(), ["s__mutate_tools"], "another instance");
    agent.disconnect();
}

#[test]
fn exposed_name_maps_to_the_same_tool_for_every_agent() {
    let head = "[daemon]\nnaming = \"{tool}\"";
    let (daemon, _place) = changing(head, &[own("s"), Server::named("late").flags("--bare --tool mutate_tools")]);
    let (mut one, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    assert_eq!(one.tools(), ["mutate_tools", "late__mutate_tools"]);
    change(&mut one, "mutate_tools", &json!({ "add": ["own"] }));
    one.expect_notification(CHANGED);
    assert_eq!(one.tools(), ["mutate_tools", "own", "late__mutate_tools"]);
    // The name is given, though the other agent does not see what has it.
    assert_eq!(other.tools(), ["mutate_tools", "late__mutate_tools"]);
    change(&mut other, "late__mutate_tools", &json!({ "add": ["own"] }));
    for agent in [&mut one, &mut other] {
        agent.expect_notification(CHANGED);
    }
    assert_eq!(other.tools(), ["mutate_tools", "late__mutate_tools", "late__own"]);
    assert_eq!(one.tools(), ["mutate_tools", "own", "late__mutate_tools", "late__own"]);
    assert_eq!(code(&other.call("own", &json!({}))), -32602);
    let [mine, shared] = ["own", "late__own"].map(|tool| one.call(tool, &json!({})));
    let theirs = other.call("late__own", &json!({}));
    let pid = |answer: &Value| answer["result"]["structuredContent"]["pid"].as_u64().expect("a process");
    assert_eq!(pid(&shared), pid(&theirs));
    assert_ne!(pid(&mine), pid(&theirs));
    // It is the other's as soon as its instance has it, too.
    change(&mut other, "mutate_tools", &json!({ "add": ["own"] }));
    other.expect_notification(CHANGED);
    assert_eq!(other.tools(), ["mutate_tools", "own", "late__mutate_tools", "late__own"]);
    one.expect_quiet();
}

#[test]
fn operator_sees_what_the_server_is_known_to_offer() {
    let (daemon, _place) = changing("", &[own("s")]);
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    change(&mut agent, "s__mutate_tools", &json!({ "add": ["own"] }));
    agent.expect_notification(CHANGED);
    assert_eq!(daemon.row("s")["tools_exposed"], 1);
    assert!(!daemon.client(&["tools"]).expect_code(0).stdout.contains("own"));
}

#[test]
fn instances_with_equal_lists_share_their_memory() {
    const AGENTS: u64 = 40;
    let place = Place::new();
    // Where the agents work another list lies than where the instance runs that lists for nobody.
    let tool = |n: u32| json!({ "name": format!("tool_{n}"), "description": "x".repeat(1000), "inputSchema": {} });
    let write = |directory: &str, count: u32| {
        let tools: Vec<_> = (0..count).map(tool).collect();
        place.write(&format!("{directory}/tools.json"), json!({ "tools": tools }).to_string());
    };
    write("home", 1);
    write("tmp", 500);
    let server = Server::named("s").line("sharing = \"session\"").flags("--tool-list tools.json");
    let daemon = Setup::with(server).start_in(&place);
    let connect = || {
        let mut agent = Agent::working_in(&daemon, &place.path("tmp"));
        if agent.tools().len() != 500 {
            agent.expect_notification(CHANGED);
            assert_eq!(agent.tools().len(), 500);
        }
        agent
    };
    let first = connect();
    let before = resident_kib(daemon.pid());
    let agents: Vec<_> = (0..AGENTS).map(|_| connect()).collect();
    let each = (resident_kib(daemon.pid()) - before) / AGENTS;
    println!("{before} KiB, then {each} KiB for each");
    assert!(each < 256, "{each} KiB for each agent, whose list has more than 500");
    assert_eq!(daemon.row("s")["tools_exposed"], 1);
    drop((first, agents));
}
