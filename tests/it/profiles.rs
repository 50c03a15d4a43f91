//! Profiles: sockets, servers, rules and names. Everything outside a profile is answered like a nonexistent name.

use std::rc::Rc;

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, call_text, code, result, until};

const LIBRARY: &str = r#"{"prompts":[{"name":"greet"},{"name":"secret"}],"completions":true,"logging":true,
    "resources":[{"uri":"x://1","name":"one"},{"uri":"x://secret/1","name":"two"}],
    "resourceTemplates":[{"uriTemplate":"x://{+id}","name":"any"}]}"#;

fn agent(daemon: &Daemon, profile: &str) -> Agent {
    Agent::ready_at(&daemon.profile_socket(profile))
}

/// Two servers, and three profiles of them beside the default one.
fn start() -> Daemon {
    let head = "[profiles.reviewer]\nservers = ['files']\ndeny = ['*/edit_*']\n\
                [profiles.releaser]\nservers = ['git']\nallow = ['git/log', 'files/*']\n[profiles.nobody]\nservers = []";
    let tools = |tools: &str| tools.split(' ').map(|tool| format!("--tool {tool} ")).collect::<String>() + "--bare";
    let files = Server::named("files").flags(&tools("read_file edit_file")).line("deny = ['read_secret']");
    let git = Server::named("git").flags(&tools("log edit_commit"));
    Setup::new().head(head).server(files).server(git).start()
}

#[test]
fn agents_see_and_call_only_what_their_profile_has() {
    let daemon = start();
    let all = ["files__read_file", "files__edit_file", "git__log", "git__edit_commit"];
    for (profile, has) in
        [("mcp", &all[..]), ("reviewer", &["files__read_file"]), ("releaser", &["git__log"]), ("nobody", &[])]
    {
        let mut agent = agent(&daemon, profile);
        assert_eq!(agent.tools(), has, "{profile}");
        for tool in all {
            let answer = agent.call(tool, &json!({ "profile": profile }));
            if has.contains(&tool) {
                arguments(&answer);
            } else {
                assert_eq!(code(&answer), -32602, "{profile}: {tool}");
            }
        }
    }
    let journal: String = ["files", "git"].map(|server| daemon.journal(server).join("\n")).concat();
    let calls = |profile: &str| journal.matches(&format!("\"profile\":\"{profile}\"")).count();
    assert_eq!(["mcp", "reviewer", "releaser", "nobody"].map(calls), [4, 1, 1, 0], "no child sees what is not there");
}

#[test]
fn name_outside_the_profile_gets_the_answer_of_an_unknown_name() {
    let daemon = start();
    let mut agent = agent(&daemon, "reviewer");
    let mut answer_to = |name: &str| {
        let call = call_text(r#""x""#, "NAME", "{}");
        agent.send_raw(call.replace("NAME", name) + "\n");
        agent.next_line().expect("an answer")
    };
    let never_was = answer_to("files__none");
    for denied in ["files__edit_file", "git__log", "git__edit_commit"] {
        assert_eq!(answer_to(denied).replace(denied, "files__none"), never_was);
    }
}

#[test]
fn each_profile_has_its_naming() {
    let head = "[profiles.bare]\nnaming = '{tool}'\n[profiles.late]\nnaming = '{tool}'\nservers = ['b']\n\
                [profiles.full]\nnaming = 'mcp__{server}__{tool}'";
    let long = "a_tool_with_a_long_name";
    let server = |name| Server::named(name).flags(&format!("--bare --tool echo --tool {long}"));
    let daemon = Setup::new().head(head).server(server("a")).server(server("b")).start();
    let of = |server: &str| [format!("{server}__echo"), format!("{server}__{long}")];
    assert_eq!(Agent::ready(&daemon).tools(), [of("a"), of("b")].concat());
    let mut bare = agent(&daemon, "bare");
    assert_eq!(bare.tools(), ["echo", long, "b__echo", &format!("b__{long}")]);
    let mut late = agent(&daemon, "late");
    assert_eq!(late.tools(), ["echo", long], "the names of one profile say nothing in another");
    assert_eq!(agent(&daemon, "full").tools(), [of("mcp__a"), of("mcp__b")].concat());
    let pid = |agent: &mut Agent, tool: &str| result(&agent.call(tool, &json!({})))["structuredContent"]["pid"].clone();
    assert_eq!(pid(&mut bare, "echo"), daemon.server_pid("a"));
    assert_eq!(pid(&mut late, "echo"), daemon.server_pid("b"));
    assert_eq!(pid(&mut bare, "b__echo"), daemon.server_pid("b"));
}

#[test]
fn no_instance_starts_for_an_agent_whose_profile_lacks_the_server() {
    let head = "[profiles.without]\nservers = ['shared']\n[profiles.with]\nservers = ['own']";
    let own = Server::named("own").line("sharing = 'session'");
    let daemon = Setup::new().head(head).server(own).server(Server::named("shared")).start();
    let before = daemon.count_starts("own");
    let mut without = agent(&daemon, "without");
    assert!(without.tools().iter().all(|tool| tool.starts_with("shared__")));
    arguments(&without.call("shared__echo", &json!({})));
    assert_eq!(daemon.count_starts("own"), before);
    let mut with = agent(&daemon, "with");
    arguments(&with.call("own__echo", &json!({})));
    assert_eq!(daemon.count_starts("own"), before + 1);
    without.expect_quiet();
}

/// A server with everything, for all agents and for those of `plain`, from which a part is kept.
fn start_with_library() -> Daemon {
    let place: Rc<Place> = Place::new();
    let head = "[profiles.plain]\nprompts.deny = ['*/secret']\nresources.deny = ['s/x://secret/*']\n\
                [profiles.other]\nservers = ['other']\n[profiles.tools]\nexpose = ['tools']";
    let library = place.write("shelf.json", LIBRARY);
    let server = Server::named("s").flags("--tasks --instructions Read-me").arg("--library").arg(library);
    Setup::new().head(head).server(server).server(Server::named("other")).start_in(&place)
}

#[test]
fn prompts_resources_templates_and_completions_obey_the_profile() {
    let daemon = start_with_library();
    for (profile, prompts, uris) in [
        ("mcp", &["s__greet", "s__secret"][..], &["x://1", "x://secret/1", "x://secret/2", "x://2"][..]),
        ("plain", &["s__greet"], &["x://1", "x://2"]),
        ("other", &[], &[]),
        ("tools", &[], &[]),
    ] {
        let mut agent = agent(&daemon, profile);
        let listed = result(&agent.request("prompts/list", &json!({})))["prompts"].clone();
        let names: Vec<_> = listed.as_array().expect("a list").iter().map(|prompt| prompt["name"].clone()).collect();
        assert_eq!(names, prompts, "{profile}");
        for name in ["s__greet", "s__secret", "s__none"] {
            let got = agent.request("prompts/get", &json!({ "name": name }));
            assert_eq!(got["error"].is_null(), prompts.contains(&name), "{profile}: {got}");
            let reference =
                json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "x", "value": ""}});
            let completed = agent.request("completion/complete", &reference);
            assert_eq!(completed["error"].is_null(), prompts.contains(&name), "{profile}: {completed}");
        }
        for uri in ["x://1", "x://secret/1", "x://secret/2", "x://2", "y://1"] {
            for method in ["resources/read", "resources/subscribe"] {
                let answer = agent.request(method, &json!({ "uri": uri }));
                let expected = if uris.contains(&uri) { Value::Null } else { json!(-32002) };
                assert_eq!(answer["error"]["code"], expected, "{profile}: {method} {answer}");
            }
        }
    }
    let journal = daemon.journal("s");
    let asks = |line: &&String| line.contains("resources/read") || line.contains("resources/subscribe");
    let requests = journal.iter().filter(asks).filter(|line| line.contains("\"x://secret/2\""));
    assert_eq!(requests.count(), 2, "read and subscribed to by one agent");
}

#[test]
fn updates_and_log_levels_reach_agents_whose_profile_has_the_server() {
    let daemon = start_with_library();
    let [mut default, mut other] = ["mcp", "other"].map(|profile| agent(&daemon, profile));
    result(&default.request("resources/subscribe", &json!({ "uri": "x://1" })));
    assert_eq!(code(&other.request("resources/subscribe", &json!({ "uri": "x://1" }))), -32002);
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://1"}}"#;
    arguments(&default.call("s__raw", &json!({ "text": format!("{updated}\n") })));
    default.expect_notification("notifications/resources/updated");
    result(&other.request("logging/setLevel", &json!({ "level": "debug" })));
    result(&default.request("logging/setLevel", &json!({ "level": "error" })));
    daemon.wait_journal("s", "logging/setLevel");
    assert!(!daemon.journal("s").iter().any(|line| line.contains("\"debug\"")), "it is not its agent");
    other.expect_quiet();
}

#[test]
fn tasks_progress_and_instructions_obey_the_profile() {
    let daemon = start_with_library();
    let [mut default, mut other] = ["mcp", "other"].map(|profile| agent(&daemon, profile));
    let params = json!({"name": "s__sleep", "arguments": {"ms": 600_000}, "task": {"ttl": 60_000}});
    assert_eq!(code(&other.request("tools/call", &params)), -32602);
    let made = default.request("tools/call", &params);
    let id = result(&made)["task"]["taskId"].clone();
    assert!(id.is_string(), "{made}");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let [theirs, none] = [&id, &json!("none")].map(|id| other.request(method, &json!({ "taskId": id })));
        let plain = |answer: &Value, id: &Value| answer["error"].to_string().replace(id.as_str().expect("text"), "ID");
        assert_eq!(plain(&theirs, &id), plain(&none, &json!("none")), "{method}");
    }
    default.disconnect();
    let params = json!({"name": "other__echo", "arguments": {}, "_meta": {"progressToken": 1}});
    result(&other.request("tools/call", &params));
    let mut newcomer = Agent::connect_to(&daemon.profile_socket("other"));
    let instructions = newcomer.initialize("2025-11-25")["result"]["instructions"].clone();
    assert!(!instructions.to_string().contains("Read-me"), "{instructions}");
    let mut newcomer = Agent::connect_to(&daemon.profile_socket("plain"));
    let instructions = newcomer.initialize("2025-11-25")["result"]["instructions"].clone();
    assert!(instructions.to_string().contains("Read-me"), "{instructions}");
}

#[test]
fn agent_of_a_profile_has_no_operator_rights() {
    let daemon = start();
    let mut agent = agent(&daemon, "reviewer");
    for method in ["status", "reload", "restart", "disable", "logs", "calls"] {
        assert_eq!(code(&agent.request(method, &json!({ "version": "1", "server": "files" }))), -32601, "{method}");
    }
    assert_eq!(daemon.row("files")["state"], "ready");
}

#[test]
fn commands_accept_a_profile_and_an_unknown_one_is_refused_with_the_known_ones() {
    let daemon = start();
    let listed = daemon.client(&["tools", "--profile", "reviewer"]).expect_code(0);
    assert!(listed.stdout.contains("files__read_file") && !listed.stdout.contains("git__"), "{listed}");
    daemon.client(&["call", "--profile", "releaser", "git__log"]).expect_code(0);
    daemon.client(&["call", "--profile=releaser", "files__read_file"]).expect_code(1);
    daemon.client(&["tools", "--profile", "default"]).expect_code(0);
    for name in ["reviwer", "mcp", "admin", "../mcp", "", "a b"] {
        for command in [&["tools"][..], &["call", "x"], &["connect"]] {
            let ran = daemon.client(&[command, &["--profile", name]].concat()).expect_code(2);
            assert!(ran.stderr.contains("default, reviewer, releaser, nobody"), "{name}: {ran}");
        }
    }
    let calls = daemon.client(&["calls"]).expect_code(0);
    let row = calls.stdout.lines().find(|line| line.contains(" log ")).unwrap_or_else(|| panic!("{calls}"));
    assert!(row.contains(" releaser "), "{calls}");
}

#[test]
fn status_shows_each_profile_and_the_profile_of_each_agent() {
    let daemon = start();
    let _agents = ["reviewer", "reviewer", "mcp"].map(|profile| agent(&daemon, profile));
    let status = daemon.status();
    let profile = |name: &str, servers: &[&str], tools: usize, agents: usize| {
        let file = if name == "default" { "mcp" } else { name };
        let socket = daemon.profile_socket(file);
        json!({"name": name, "socket": socket, "servers": servers, "tools": tools, "agents": agents})
    };
    let expected = json!([
        profile("default", &["files", "git"], 4, 1),
        profile("reviewer", &["files"], 1, 2),
        profile("releaser", &["git"], 1, 0),
        profile("nobody", &[], 0, 0),
    ]);
    assert_eq!(status["profiles"], expected);
    let agents = status["agents"].as_array().expect("agents").iter();
    assert_eq!(agents.map(|agent| agent["profile"].clone()).collect::<Vec<_>>(), ["reviewer", "reviewer", "default"]);
    assert_eq!(daemon.row("git")["tools_exposed"], 2, "what a server's own policy leaves");
    let shown = daemon.client(&["status"]).expect_code(0).stdout;
    let rows: Vec<Vec<_>> = shown.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    for row in [["default", "all", "4", "1"], ["reviewer", "files", "1", "2"], ["nobody", "none", "0", "0"]] {
        assert!(rows.contains(&row.to_vec()), "no {row:?}: {shown}");
    }
}

#[test]
fn default_profile_may_be_narrowed_like_any_other() {
    let head = "[profiles.default]\nservers = ['b']\nnaming = '{tool}'\n[profiles.all]";
    let server = |name| Server::named(name).flags("--bare --tool echo");
    let daemon = Setup::new().head(head).server(server("a")).server(server("b")).start();
    assert_eq!(Agent::ready(&daemon).tools(), ["echo"]);
    assert_eq!(agent(&daemon, "all").tools(), ["a__echo", "b__echo"]);
    assert_eq!(daemon.row("a")["state"], "ready", "the operator sees them all");
    daemon.client(&["restart", "a"]).expect_code(0);
}

#[test]
fn hundred_profiles_are_served_and_a_thousand_refused() {
    let profiles =
        |count: usize| (0..count).map(|n| format!("[profiles.p{n}]\ndeny = ['*/t{n}']\n")).collect::<String>();
    let place = Place::new();
    let text = |count| profiles(count) + &Server::named("s").flags("--bare --tool t1 --tool t99").toml(&place);
    let file = place.write("many.toml", text(1000));
    let ran = place.client(&["serve", "--config", file.to_str().expect("text")]).expect_code(2);
    assert!(ran.stderr.contains("more than 100 profiles"), "{ran}");
    place.write("many.toml", text(100));
    let daemon = Setup::new().config(file).start_in(&place);
    assert_eq!(agent(&daemon, "p99").tools(), ["s__t1"]);
    assert_eq!(agent(&daemon, "p1").tools(), ["s__t99"]);
    assert_eq!(daemon.status()["profiles"].as_array().expect("profiles").len(), 101);
    until("all is said", || daemon.log().contains("p99.sock").then_some(()));
}
