//! The same rule on each way to a server: faces, profiles, HTTP, tasks, instances of agents, pools, and reloads in between.

use super::*;
use crate::support::Era;
use crate::support::http::{Behavior, Front};
use crate::support::http_agent::{HttpAgent, POST, call, request};

/// Has the server change everything, and waits until it is withheld.
fn pull(daemon: &Daemon) {
    let mut agent = Agent::ready(daemon);
    offer(daemon.place(), EVIL);
    announce(&mut agent, "s__");
    until_offered(&mut agent, "s__", false);
    agent.disconnect();
}

/// Case L2.
#[test]
fn face_withholds_what_the_aggregate_withholds() {
    let place = approved();
    let daemon = held(&place);
    let mut agents = Era::BOTH.map(|era| era.agent_at_face(&daemon, "s"));
    agents.iter_mut().for_each(|agent| expect_exposed(agent, ""));
    pull(&daemon);
    for agent in &mut agents {
        until_offered(agent, "", false);
        expect_withheld(&daemon, agent, "");
    }
    agents.into_iter().for_each(Agent::disconnect);
}

/// Case L2.
#[test]
fn profiles_withhold_what_is_not_approved_beside_their_own_rules() {
    let place = approved();
    let head = "[profiles.narrow]\nservers = ['s']\nallow = ['s/read', 's/write']\n[profiles.wide]\nservers = ['s']\n";
    let daemon = Setup::with(server(&place, "hold")).head(head).start_in(&place);
    let [mut narrow, mut wide] = ["narrow", "wide"].map(|name| Agent::ready_at(&daemon.profile_socket(name)));
    assert_eq!(narrow.tools(), ["s__read", "s__write"]);
    expect_exposed(&mut wide, "s__");
    pull(&daemon);
    until("it is withheld there, too", || (narrow.tools() == ["s__write"]).then_some(()));
    assert_eq!(code(&narrow.call("s__read", &json!({}))), -32602);
    until_offered(&mut wide, "s__", false);
    expect_withheld(&daemon, &mut wide, "s__");
    [narrow, wide].into_iter().for_each(Agent::disconnect);
}

/// Case L2.
#[test]
fn agents_over_http_get_only_what_is_approved() {
    let place = approved();
    let daemon = held(&place);
    let mut http = HttpAgent::connect(&daemon);
    let headers = format!("{POST}{}", http.initialize("/mcp"));
    let list = |http: &mut HttpAgent, id: u64| {
        let legacy = http.post("/mcp", &headers, &request(id, "tools/list", &json!({}))).message().to_string();
        legacy + &http.modern("/mcp", id, "tools/list", &json!({})).json().to_string()
    };
    assert_eq!(list(&mut http, 10).matches("\"s__read\"").count(), 2);
    pull(&daemon);
    let all = list(&mut http, 11);
    assert!(!all.contains("\"s__read\"") && !all.contains("evil"), "{all}");
    let reached = count_reached(&daemon);
    let mut refusal = |tool: &str| {
        let legacy = http.post("/mcp", &headers, &call(12, tool, &json!({}))).json()["error"].to_string();
        let params = json!({ "name": tool, "arguments": {} });
        (legacy, http.modern("/mcp", 13, "tools/call", &params).json()["error"].to_string())
    };
    let (held, unknown) = (refusal("s__read"), refusal("s__none"));
    assert_eq!((held.0.replace("read", "none"), held.1.replace("read", "none")), unknown);
    assert_eq!(count_reached(&daemon), reached, "the server sees none of it");
}

/// Case L2.
#[test]
fn withheld_tool_creates_no_task_and_has_none() {
    let place = approved();
    let daemon = Setup::with(server(&place, "hold").flags("--tasks")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let create = |agent: &mut Agent, tool: &str| {
        agent.request("tools/call", &json!({ "name": tool, "arguments": {}, "task": { "ttl": null } }))
    };
    let task = result(&create(&mut agent, "s__read"))["task"]["taskId"].clone();
    pull(&daemon);
    until_offered(&mut agent, "s__", false);
    let [held, unknown] = ["s__read", "s__none"].map(|tool| create(&mut agent, tool)["error"].to_string());
    assert_eq!(held.replace("read", "none"), unknown);
    // A task that its tool created before is as unknown as the tool.
    assert_eq!(code(&agent.request("tasks/get", &json!({ "taskId": task }))), -32602);
    agent.disconnect();
}

/// Case L2.
#[test]
fn instance_of_one_agent_that_lists_other_definitions_is_withheld_from_it_alone() {
    for sharing in ["session", "workspace"] {
        let place = approved();
        for (directory, description) in [("good", GOOD), ("evil", EVIL)] {
            fs::create_dir(place.path(directory)).expect("a fresh directory");
            offer_tools(&place, &format!("{directory}/tools.json"), &tools(description));
            place.write(&format!("{directory}/library.json"), library(description).to_string());
        }
        let server = Server::named("s").line("changes = 'hold'").line(format!("sharing = '{sharing}'"));
        let server = server.flags("--tool read --tool write").arg("--tool-list").arg("${agent:cwd}/tools.json");
        let daemon = Setup::with(server.arg("--library").arg("${agent:cwd}/library.json")).start_in(&place);
        let [mut good, mut evil] = ["good", "evil"].map(|name| Agent::working_in(&daemon, &place.path(name)));
        expect_exposed(&mut good, "s__");
        expect_withheld(&daemon, &mut evil, "s__");
        expect_exposed(&mut good, "s__");
        daemon.wait_row("s", "reports it", |row| row["changes"]["withheld"] == 3);
        [good, evil].into_iter().for_each(Agent::disconnect);
    }
}

/// Case L2.
#[test]
fn second_instance_of_a_pool_that_lists_other_definitions_gets_no_call_of_them() {
    let place = approved();
    offer_tools(&place, "other.json", &tools(EVIL));
    // Only the first process lists what is approved. Each has a journal of its own.
    let scripted = crate::support::SCRIPTED;
    let script = format!(
        "list=other; mkdir first 2>/dev/null && list=tools; exec '{scripted}' --tool read --tool-list $list.json --journal $list.journal"
    );
    let pool = Server::run_by("s", "sh")
        .arg("-c")
        .arg(&script)
        .line("changes = 'hold'")
        .line(format!("cwd = {}", crate::support::quoted(place.path(""))));
    let daemon = Setup::with(pool.line("sharing = 'pool'").line("max_instances = 2")).start_in(&place);
    let mut agents = [Agent::ready(&daemon), Agent::ready(&daemon)];
    arguments(&agents[0].call("s__read", &json!({})));
    let gate = daemon.gate();
    let busy = agents[0].start_call("s__sleep", &gate.arguments());
    daemon.wait_at_gate("tools", &gate);
    // The pool grows, because its first instance is busy.
    for _ in 0..3 {
        assert_eq!(code(&agents[1].call("s__read", &json!({}))), -32602);
        assert!(!offered_tools(&mut agents[1]).contains("evil"));
    }
    daemon.wait_row("s", "reports it", |row| row["changes"]["withheld"] == 1);
    gate.open();
    arguments(&agents[0].answer(&busy));
    assert_eq!((daemon.count_starts("other"), daemon.count_journal("other", "\"tools/call\"")), (1, 0));
    agents.into_iter().for_each(Agent::disconnect);
}

fn offered_tools(agent: &mut Agent) -> String {
    result(&agent.request("tools/list", &json!({}))).to_string()
}

/// Case L2.
#[test]
fn reloads_apply_another_rule_to_the_running_server_at_once() {
    let place = approved();
    let daemon = held(&place);
    let mut agent = Agent::ready(&daemon);
    pull(&daemon);
    let pid = daemon.server_pid("s");
    let reload = |agent: &mut Agent, rule: &str, line: &str, expected: &[&str]| {
        Setup::with(server(&place, rule).line(line)).write(&place);
        daemon.client(&["reload"]).expect_code(0);
        until("the view has changed", || {
            let all = agent.tools();
            expected.iter().all(|tool| all.contains(&(*tool).to_owned())).then_some(all.contains(&"s__read".to_owned()))
        })
    };
    assert!(!reload(&mut agent, "hold", "deny = ['sleep']", &["s__write"]));
    expect_withheld(&daemon, &mut agent, "s__");
    assert!(reload(&mut agent, "follow", "", &["s__read", "s__sleep"]), "nothing is compared");
    arguments(&agent.call("s__read", &json!({})));
    assert!(!reload(&mut agent, "hold", "", &["s__write"]));
    expect_withheld(&daemon, &mut agent, "s__");
    assert!(reload(&mut agent, "warn", "", &["s__read"]), "it is no suspicious change");
    assert_eq!(daemon.server_pid("s"), pid, "the server has not been restarted");
    agent.disconnect();
}

/// Case L2.
#[test]
fn replacement_of_a_server_that_lists_other_definitions_is_withheld_from_its_first_moment() {
    let place = approved();
    let daemon = held(&place);
    let mut agent = Agent::ready(&daemon);
    let pid = daemon.server_pid("s");
    offer(&place, EVIL);
    // Another command line: the server is replaced, and serves until the new one is ready.
    Setup::with(server(&place, "hold").flags("--server-name another")).write(&place);
    daemon.client(&["reload"]).expect_code(0);
    until_offered(&mut agent, "s__", false);
    daemon.wait_row("s", "is replaced", |row| row["state"] == "ready" && row["pid"] != pid);
    expect_withheld(&daemon, &mut agent, "s__");
    agent.disconnect();
}

/// Case L2.
#[test]
fn server_at_a_url_is_withheld_over_each_transport() {
    for behavior in [Behavior::default(), Behavior::old()] {
        let place = approved();
        let [tools, library] = ["tools.json", "library.json"].map(|name| place.path(name).display().to_string());
        let flags = format!("--tool read --tool write --tool-list {tools} --library {library}");
        let front = Front::start(&place, "s", &flags, behavior);
        let daemon = Setup::with(front.server().line("changes = 'hold'")).start_in(&place);
        let mut agent = Agent::ready(&daemon);
        expect_exposed(&mut agent, "s__");
        pull(&daemon);
        expect_withheld(&daemon, &mut agent, "s__");
        agent.disconnect();
    }
}

/// Case L2.
#[test]
fn unknown_methods_do_not_reach_a_server_whose_definitions_are_held() {
    let place = approved();
    let daemon = held(&place);
    let mut agent = Agent::ready(&daemon);
    let known = count_reached(&daemon);
    assert_eq!(code(&agent.request("vendor/call", &json!({ "name": "read" }))), -32601);
    assert_eq!(count_reached(&daemon), known);
    assert_eq!(daemon.count_journal("s", "vendor/call"), 0);
}
