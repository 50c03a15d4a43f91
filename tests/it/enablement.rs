//! `mcpd disable` and `mcpd enable`: agents see the change at once, and processes stay.

use serde_json::{Value, json};

use crate::reload::{changing, text};
use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, code, result};

const CHANGED: &str = "notifications/tools/list_changed";

fn says(daemon: &Daemon, args: &[&str], expected: &str) {
    let ran = daemon.client(args).expect_code(0);
    let note = match expected.strip_suffix(": disabled\n") {
        Some(target) if target.contains('/') || args.contains(&"--stop") => {
            "note: until you enable it or the daemon stops; `--keep` makes it permanent\n"
        }
        Some(_) => {
            "note: until you enable it or the daemon stops; `--keep` makes it permanent, `--stop` also stops its process\n"
        }
        None => "",
    };
    assert_eq!((&*ran.stdout, &*ran.stderr), (expected, note));
}

/// What is answered to a tool, a prompt and a resource, each without its own name.
fn answers(agent: &mut Agent, [tool, prompt, uri]: [&str; 3]) -> [String; 3] {
    let tool_answer = agent.call(tool, &json!({}));
    let prompt_answer = agent.request("prompts/get", &json!({"name": prompt}));
    let resource_answer = agent.request("resources/read", &json!({"uri": uri}));
    [(tool_answer, tool), (prompt_answer, prompt), (resource_answer, uri)]
        .map(|(answer, name)| answer["error"].to_string().replace(name, "NAME"))
}

#[test]
fn disabled_server_is_hidden_while_its_process_stays_and_its_calls_end() {
    let place = Place::new();
    let library = json!({
        "prompts": [{"name": "ask"}],
        "resources": [{"uri": "u://1", "name": "one"}],
        "resourceTemplates": [{"uriTemplate": "k://{id}", "name": "any"}],
    });
    let library = place.write("library", library.to_string());
    let daemon =
        Setup::with(Server::named("a").arg("--library").arg(library)).server(Server::named("b")).start_in(&place);
    let mut agents = [Agent::ready(&daemon), Agent::ready(&daemon)];
    let [agent, other] = &mut agents;
    let (before, listed) = (daemon.server_pid("a"), agent.tools());
    other.tools();
    let gate = daemon.gate();
    let pending = agent.start_call("a__sleep", &gate.arguments());
    daemon.wait_at_gate("a", &gate);
    says(&daemon, &["disable", "a"], "a: disabled\n");
    other.expect_notification(CHANGED);
    assert!(other.tools().iter().all(|tool| tool.starts_with("b__")));
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        let list = other.request(method, &json!({}));
        assert!(result(&list).as_object().expect("an object").values().all(|list| list == &json!([])), "{list}");
    }
    let never = answers(other, ["a__none", "a__none", "z://none"]);
    for uri in ["u://1", "k://1"] {
        assert_eq!(answers(other, ["a__echo", "a__ask", uri]), never);
    }
    let row = daemon.row("a");
    assert_eq!((&row["state"], &row["disabled"], &row["tools_exposed"]), (&json!("disabled"), &json!(true), &json!(0)));
    let table = daemon.client(&["status"]).expect_code(0);
    let shown = format!("a       disabled  {before}");
    assert!(table.stdout.contains(&shown), "{table}");
    says(&daemon, &["restart", "b"], "b: ready\n");
    gate.open();
    arguments(&agent.answer(&pending));
    says(&daemon, &["disable", "a"], "a: disabled\n");
    says(&daemon, &["enable", "a"], "a: ready\n");
    agent.tools();
    assert_eq!((daemon.server_pid("a"), agent.tools()), (before, listed));
    for mut agent in agents {
        arguments(&agent.call("a__echo", &json!({})));
        agent.disconnect();
    }
    assert_eq!(daemon.row("a")["restarts"], 0);
}

#[test]
fn instances_of_agents_stay_while_their_server_is_disabled() {
    let daemon = Server::named("s").line("sharing = \"session\"").start();
    let mut agent = Agent::ready(&daemon);
    let pid = |answer: &Value| answer["result"]["structuredContent"]["pid"].as_u64().expect("a process");
    let before = pid(&agent.call("s__echo", &json!({})));
    agent.tools();
    says(&daemon, &["disable", "s"], "s: disabled\n");
    agent.expect_notification(CHANGED);
    assert_eq!(agent.tools(), [""; 0]);
    assert_eq!(code(&agent.call("s__echo", &json!({}))), -32602);
    let mut late = Agent::ready(&daemon);
    assert_eq!(late.tools(), [""; 0], "nobody waits for what is hidden");
    says(&daemon, &["enable", "s"], "s: ready\n");
    agent.expect_notification(CHANGED);
    assert_eq!(pid(&agent.call("s__echo", &json!({}))), before);
    late.expect_notification(CHANGED);
    arguments(&late.call("s__echo", &json!({})));
}

#[test]
fn disabling_a_server_does_not_start_it_and_permits_a_stop() {
    let daemon = Server::named("s").start();
    says(&daemon, &["disable", "s"], "s: disabled\n");
    assert!(daemon.row("s")["pid"].is_u64());
    says(&daemon, &["disable", "--stop", "s"], "s: disabled\n");
    assert!(daemon.row("s")["pid"].is_null());
    says(&daemon, &["disable", "s"], "s: disabled\n");
    assert_eq!(daemon.row("s")["state"], "disabled");
    says(&daemon, &["enable", "s"], "s: ready\n");
    // One that nobody sees may be restarted.
    says(&daemon, &["disable", "s"], "s: disabled\n");
    let before = daemon.server_pid("s");
    says(&daemon, &["restart", "s"], "s: ready\n");
    assert_ne!(daemon.server_pid("s"), before);
    assert_eq!(daemon.row("s")["disabled"], true);
}

#[test]
fn disabled_server_that_is_down_is_reported_as_disabled() {
    let broken = Server::named("broken").flags("--exit-unless /nonexistent");
    let daemon = Setup::with(Server::named("s")).server(broken).start();
    daemon.wait_row("broken", "is down", |row| row["state"] == "backoff");
    says(&daemon, &["disable", "broken"], "broken: disabled\n");
    let all = daemon.client(&["tools", "--all", "broken"]).expect_code(0);
    assert!(all.stdout.contains("disabled: `mcpd enable broken`"), "{all}");
    let ran = daemon.client(&["reload"]).expect_code(0);
    assert!(!ran.stdout.contains("down"), "{ran}");
}

#[test]
fn tool_disabled_by_either_name_is_answered_like_a_nonexistent_one() {
    let daemon =
        Setup::with(Server::named("s").flags("--bare --tool one --tool two")).server(Server::named("t")).start();
    let mut agent = Agent::ready(&daemon);
    let before = daemon.server_pid("s");
    agent.tools();
    says(&daemon, &["disable", "s/one"], "s/one: disabled\n");
    agent.expect_notification(CHANGED);
    says(&daemon, &["disable", "s/s__two"], "s/two: disabled\n");
    agent.expect_notification(CHANGED);
    assert!(agent.tools().iter().all(|tool| tool.starts_with("t__")));
    let error = |agent: &mut Agent, tool: &str| agent.call(tool, &json!({}))["error"].to_string().replace(tool, "NAME");
    assert_eq!(error(&mut agent, "s__one"), error(&mut agent, "s__no"));
    let row = daemon.row("s");
    assert_eq!(row["tools_disabled"], json!(["one", "two"]));
    assert_eq!((&row["tools_exposed"], &row["tools_denied"], &row["disabled"]), (&json!(0), &json!(2), &Value::Null));
    let table = daemon.client(&["status"]).expect_code(0);
    assert!(table.stdout.contains("\ns: disabled tools: one, two\n"), "{table}");
    let unknown = daemon.client(&["disable", "s/twoo"]).expect_code(1);
    assert!(unknown.stderr.contains("server `s` offers no tool `twoo`: did you mean `two`?"), "{unknown}");
    let unknown = daemon.client(&["enable", "t/nothing-like-it"]).expect_code(1);
    assert!(unknown.stderr.contains("server `t` offers no tool `nothing-like-it`\n"), "{unknown}");
    daemon.client(&["disable", "--stop", "s/one"]).expect_code(2);
    daemon.client(&["disable", "no/one"]).expect_code(1);
    says(&daemon, &["enable", "s/one"], "s/one: enabled\n");
    agent.expect_notification(CHANGED);
    arguments(&agent.call("s__one", &json!({})));
    assert_eq!(daemon.row("s")["tools_disabled"], json!(["two"]));
    assert_eq!(daemon.server_pid("s"), before);
    agent.disconnect();
}

#[test]
fn disabled_state_survives_reloads_and_server_restarts_but_not_a_daemon_restart() {
    let (mut daemon, place) = changing(&[Server::named("s"), Server::named("t")]);
    says(&daemon, &["disable", "s/echo"], "s/echo: disabled\n");
    says(&daemon, &["disable", "t"], "t: disabled\n");
    let mut agent = Agent::ready(&daemon);
    for changed in ["deny = [\"die\"]", "args = [\"--crlf\"]", "sharing = \"pool\""] {
        let changed = if changed.starts_with("args") {
            Server::named("s").flags("--crlf")
        } else {
            Server::named("s").line(changed)
        };
        place.write("changing.toml", text(&[changed, Server::named("t").env("X", "1")], &place));
        daemon.client(&["reload"]).expect_code(0);
        daemon.client(&["restart", "s"]).expect_code(0);
        let tools = agent.tools();
        assert!(tools.contains(&"s__sleep".to_owned()) && !tools.contains(&"s__echo".to_owned()), "{tools:?}");
        assert!(tools.iter().all(|tool| tool.starts_with("s__")), "{tools:?}");
        assert_eq!(code(&agent.call("s__echo", &json!({}))), -32602);
    }
    agent.disconnect();
    assert!(daemon.term().success());
    let daemon = Setup::new().config(place.path("changing.toml")).start_in(&place);
    let tools = Agent::ready(&daemon).tools();
    assert!(tools.contains(&"s__echo".to_owned()) && tools.contains(&"t__echo".to_owned()), "{tools:?}");
}

#[test]
fn tool_can_be_disabled_before_its_server_has_listed() {
    let place = Place::new();
    let needed = place.path("needed");
    let server = Server::named("s").flags("--bare --tool one --tool two").arg("--exit-unless").arg(&needed);
    let daemon = Setup::with(server).start_in(&place);
    says(&daemon, &["disable", "s/two"], "s/two: disabled\n");
    place.write("needed", "");
    daemon.client(&["restart", "s"]).expect_code(0);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["s__one"]);
    assert_eq!(code(&agent.call("s__two", &json!({}))), -32602);
    says(&daemon, &["enable", "s/two"], "s/two: enabled\n");
    agent.expect_notification(CHANGED);
    assert_eq!(agent.tools(), ["s__one", "s__two"]);
}

#[test]
fn disabled_tool_is_hidden_from_every_profile_under_every_name() {
    let profiles = "[profiles.bare]\nnaming = \"{tool}\"\n[profiles.long]\nnaming = \"mcp__{server}__{tool}\"";
    let daemon = Setup::with(Server::named("s").flags("--bare --tool one --tool two")).head(profiles).start();
    let socket = |name: &str| daemon.place().runtime_dir().join(name);
    let mut agents = ["mcp.sock", "bare.sock", "long.sock"].map(|name| Agent::ready_at(&socket(name)));
    let mut seen = || agents.each_mut().map(Agent::tools);
    assert_eq!(seen(), [["s__one", "s__two"], ["one", "two"], ["mcp__s__one", "mcp__s__two"]]);
    says(&daemon, &["disable", "s/mcp__s__one"], "s/one: disabled\n");
    assert_eq!(seen(), [["s__two"], ["two"], ["mcp__s__two"]]);
    says(&daemon, &["disable", "s"], "s: disabled\n");
    assert_eq!(seen(), [[""; 0]; 3]);
    says(&daemon, &["enable", "s"], "s: ready\n");
    says(&daemon, &["enable", "s/one"], "s/one: enabled\n");
    assert_eq!(seen(), [["s__one", "s__two"], ["one", "two"], ["mcp__s__one", "mcp__s__two"]]);
    agents.into_iter().for_each(Agent::disconnect);
}

#[test]
fn target_that_names_no_server_is_answered_with_what_to_write() {
    let daemon = Server::named("s").flags("--bare --tool one --tool two").start();
    for (target, expected) in [
        ("one", "there is no server `one`: did you mean `s/one`?"),
        ("s/o*", "`s/o*` is a pattern: patterns belong in `deny` of the server (`mcpd edit`)"),
    ] {
        let ran = daemon.client(&["disable", target]).expect_code(2);
        assert!(ran.stderr.contains(expected), "{ran}");
    }
}

#[test]
fn enabling_a_tool_that_the_configuration_denies_reports_that_it_stays_hidden() {
    let daemon = Server::named("s").line("deny = [\"ech*\"]").start();
    let ran = daemon.client(&["enable", "s/echo"]).expect_code(0);
    assert_eq!(ran.stdout, "s/echo: enabled\n");
    assert_eq!(ran.stderr, "note: agents still do not see it: denied by `ech*` of [servers.s]\n");
    says(&daemon, &["disable", "s/sleep"], "s/sleep: disabled\n");
    says(&daemon, &["enable", "s/sleep"], "s/sleep: enabled\n");
}
