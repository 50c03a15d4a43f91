//! Tool lists: complete, unique names, deterministic order, announced changes.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::http::{Behavior, Front, Request, Response};
use crate::support::{Agent, Place, Server, Setup, arguments, code, result, until};

/// How a server answers a request.
type Answer = fn(&Request) -> Response;

/// A server that lists these tools only.
fn bare(name: &str, tools: &[&str]) -> Server {
    tools.iter().fold(Server::named(name).flags("--bare"), |server, tool| server.flags(&format!("--tool {tool}")))
}

/// Case F6.
#[test]
fn tools_are_listed_by_server_in_file_order_and_then_in_the_servers_own() {
    let setup = Setup::with(bare("zoo", &["z", "a"])).server(bare("ant", &["m", "b"]));
    let daemon = setup.start();
    let expected = ["zoo__z", "zoo__a", "ant__m", "ant__b"];
    assert_eq!(Agent::ready(&daemon).tools(), expected);
    assert_eq!(Agent::ready(&daemon).tools(), expected, "the same for another agent");
}

#[test]
fn listed_tool_differs_from_the_servers_own_in_its_name_only() {
    let daemon = Setup::with(bare("files", &["read"])).start();
    let mut agent = Agent::ready(&daemon);
    agent.send_raw("{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/list\"}\n");
    let line = agent.next_line().expect("an answer");
    let tool = r#"{"zeta":1.10,"name":"files__read","inputSchema":{"type":"object","properties":{"b":{},"a":{}}},"x-vendor":12345678901234567890123,"execution":{"taskSupport":"optional"},"description":"caf\u00e9 \/ é"}"#;
    assert!(line.contains(tool), "{line}");
}

#[test]
fn pages_of_a_long_list_are_joined_in_order() {
    let server = Server::named("many").flags("--bare --page-size 3");
    let names: Vec<_> = (0..10).map(|number| format!("t{number}")).collect();
    let server = names.iter().fold(server, |server, name| server.flags(&format!("--tool {name}")));
    let daemon = Setup::with(server).start();
    let expected: Vec<_> = names.iter().map(|name| format!("many__{name}")).collect();
    assert_eq!(Agent::ready(&daemon).tools(), expected);
}

#[test]
fn daemon_without_servers_lists_nothing() {
    let daemon = Setup::new().start();
    assert!(Agent::ready(&daemon).tools().is_empty());
}

#[test]
fn first_list_waits_for_servers_that_are_still_starting() {
    let setup = Setup::with(bare("slow", &["x"]).flags("--init-delay 700")).server(bare("fast", &["y"]));
    let daemon = setup.spawn();
    assert_eq!(Agent::ready(&daemon).tools(), ["slow__x", "fast__y"]);
}

#[test]
fn first_call_waits_for_the_server_that_may_have_the_tool() {
    let daemon = Setup::with(Server::named("slow").flags("--init-delay 700")).spawn();
    let answer = Agent::ready(&daemon).call("slow__echo", &json!({"n": 1}));
    assert_eq!(arguments(&answer), &json!({"n": 1}));
}

/// Case A6.
#[test]
fn after_five_seconds_a_list_waits_no_longer_and_the_rest_is_announced() {
    let slow = bare("slow", &["x"]).flags("--init-delay 30000").line("handshake_timeout = \"5m\"");
    let setup = Setup::with(slow).server(bare("fast", &["y"])).head("[daemon]\nfirst_list_wait = \"5s\"");
    let daemon = setup.spawn();
    daemon.wait_row("fast", "has listed", |row| row["tools_exposed"] == 1);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["fast__y"]);
    agent.expect_notification("notifications/tools/list_changed");
    assert_eq!(agent.tools(), ["slow__x", "fast__y"]);
}

#[test]
fn tool_registered_after_the_handshake_is_announced_and_listed() {
    let daemon = Setup::with(bare("files", &["read"]).flags("--late-tools 500")).start();
    let mut agent = Agent::ready(&daemon);
    if agent.tools().len() == 1 {
        agent.expect_notification("notifications/tools/list_changed");
    }
    assert_eq!(agent.tools(), ["files__read", "files__late"]);
    arguments(&agent.call("files__late", &json!({})));
}

#[test]
fn list_change_is_announced_to_every_agent_that_sees_the_list() {
    let daemon = Setup::with(bare("files", &["mutate_tools", "old"])).start();
    let mut agents = [Agent::ready(&daemon), Agent::ready(&daemon)];
    for agent in &mut agents {
        assert_eq!(agent.tools(), ["files__mutate_tools", "files__old"]);
    }
    result(&agents[0].call("files__mutate_tools", &json!({"add": ["new"], "remove": ["old"]})));
    for agent in &mut agents {
        agent.expect_notification("notifications/tools/list_changed");
        assert_eq!(agent.tools(), ["files__mutate_tools", "files__new"]);
    }
}

/// Case B14.
#[test]
fn list_change_without_a_difference_is_not_announced() {
    let daemon = Setup::with(bare("files", &["burst_list_changed"])).start();
    let mut agent = Agent::ready(&daemon);
    let list_requests = || daemon.count_journal("files", "tools/list");
    let before = list_requests();
    result(&agent.call("files__burst_list_changed", &json!({"n": 5000})));
    daemon.wait_status("relisted", |_| list_requests() > before);
    result(&agent.call("files__burst_list_changed", &json!({"n": 1})));
    agent.expect_quiet();
    assert!(list_requests() - before < 10, "asked {} times", list_requests() - before);
}

#[test]
fn list_that_changes_back_is_announced_to_agents_that_have_read_it_meanwhile() {
    const CHANGED: &str = "notifications/tools/list_changed";
    let daemon = Setup::with(bare("s", &["mutate_tools"])).start();
    let (mut legacy, mut modern, mut changer) =
        (Agent::ready(&daemon), Agent::modern(&daemon, &json!({})), Agent::ready(&daemon));
    legacy.tools();
    let (subscription, _) = modern.listen(&json!({"toolsListChanged": true}));
    for (change, is_listed) in [("add", true), ("remove", false), ("add", true)] {
        arguments(&changer.call("s__mutate_tools", &json!({ change: ["x"] })));
        legacy.expect_notification(CHANGED);
        modern.subscription_notification(&subscription, CHANGED);
        for agent in [&mut legacy, &mut modern] {
            assert_eq!(agent.tools().contains(&"s__x".to_owned()), is_listed, "{change}");
        }
    }
    for agent in [&mut legacy, &mut modern, &mut changer] {
        agent.expect_quiet();
    }
    modern.disconnect();
}

#[test]
fn tools_are_requested_from_a_server_that_declares_them_and_once_from_one_that_declares_nothing() {
    let place = Place::new();
    let library = place.write("library.json", r#"{"prompts":[{"name":"greet"}]}"#);
    let prompts = Server::named("prompts").flags("--no-tools-capability --library").arg(&library);
    let nothing = Server::named("nothing").flags("--no-tools-capability");
    let daemon = Setup::with(prompts).server(nothing).server(bare("files", &["read"])).start_in(&place);
    assert_eq!(Agent::ready(&daemon).tools(), ["files__read"]);
    assert_eq!(daemon.row("nothing")["state"], "ready");
    let requests = |server| daemon.count_journal(server, "tools/list");
    assert_eq!((requests("prompts"), requests("nothing")), (0, 1));
}

#[test]
fn naming_scheme_is_the_users_choice() {
    let head = "[daemon]\nnaming = \"mcp__{server}__{tool}\"";
    let daemon = Setup::with(Server::named("a").flags("--bare --tool echo")).head(head).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["mcp__a__echo"]);
    arguments(&agent.call("mcp__a__echo", &json!({})));
}

/// Case H6.
#[test]
fn with_bare_names_the_first_server_keeps_a_name_and_both_can_be_called() {
    let head = "[daemon]\nnaming = \"{tool}\"";
    let daemon = Setup::with(bare("a", &["echo"])).server(bare("b", &["echo", "own"])).head(head).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["echo", "b__echo", "own"]);
    let pid = |answer: &Value| result(answer)["structuredContent"]["pid"].clone();
    let (first, second) = (agent.call("echo", &json!({})), agent.call("b__echo", &json!({})));
    assert_eq!([pid(&first), pid(&second)], [daemon.row("a")["pid"].clone(), daemon.row("b")["pid"].clone()]);
}

/// Case H6.
#[test]
fn colliding_tool_names_do_not_misroute_calls() {
    let evil = ["read", "files__read", "evil__read", "mcp__files__read", "mcpd", "status"];
    for naming in ["{server}__{tool}", "mcp__{server}__{tool}", "{tool}"] {
        let head = format!("[daemon]\nnaming = \"{naming}\"");
        let daemon = Setup::with(bare("files", &["read"])).server(bare("evil", &evil)).head(&head).start();
        let mut agent = Agent::ready(&daemon);
        let mut names = agent.tools();
        let own = naming.replace("{server}", "files").replace("{tool}", "read");
        assert_eq!(names[0], own, "{naming}");
        let answer = agent.call(&own, &json!({}));
        assert_eq!(result(&answer)["structuredContent"]["pid"], daemon.row("files")["pid"], "{naming}");
        assert_eq!(names.len(), 1 + evil.len(), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 1 + evil.len(), "one name for two tools: {names:?}");
    }
}

#[test]
fn name_that_clients_would_refuse_gets_a_short_form_that_can_be_called() {
    let long = "x".repeat(80);
    let server = Server::named("files").arg("--bare").arg("--tool").arg(&long).arg("--tool").arg("a.b é");
    let daemon = Setup::with(server).start();
    let mut agent = Agent::ready(&daemon);
    let names = agent.tools();
    assert_eq!(names.len(), 2, "{names:?}");
    for (name, own) in names.iter().zip([long.as_str(), "a.b é"]) {
        let acceptable = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        assert!(name.len() <= 53 && name.bytes().all(acceptable), "{name:?}");
        let answer = agent.call(name, &json!({}));
        assert_eq!(result(&answer)["structuredContent"]["params"]["name"], own);
    }
}

/// Case B14.
#[test]
fn server_that_announces_a_change_at_every_listing_is_not_listed_forever() {
    let start = Instant::now();
    let daemon = Setup::with(bare("files", &["echo"]).flags("--announce-on-list")).spawn();
    let mut agent = Agent::ready(&daemon);
    for n in 0..500 {
        arguments(&agent.call("files__echo", &json!({"n": n})));
    }
    let list_requests = daemon.count_journal("files", "tools/list");
    // Four within 2 s.
    let limit = 8 + 2 * start.elapsed().as_secs();
    assert!(list_requests as u64 <= limit, "asked {list_requests} times in {:?}", start.elapsed());
}

#[test]
fn listed_tool_names_are_unique_and_not_empty() {
    let daemon = Setup::with(bare("files", &["read", "write", "read"])).start();
    let mut agent = Agent::ready(&daemon);
    let mut names = agent.tools();
    assert_eq!(names[..2], ["files__read", "files__write"]);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), agent.tools().len());
}

#[test]
fn server_that_returns_without_tools_lists_no_tools() {
    let place = Place::new();
    let changed = place.path("changed");
    let server = bare("files", &["read", "die"]).arg("--no-tools-if").arg(&changed);
    let daemon = Setup::with(server).server(bare("other", &["x"])).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["files__read", "files__die", "other__x"]);
    place.write("changed", "");
    assert_eq!(code(&agent.call("files__die", &json!({}))), -31001);
    daemon.wait_row("files", "is ready without tools", |row| {
        (&row["state"], &row["restarts"], &row["tools_exposed"]) == (&json!("ready"), &json!(1), &json!(0))
    });
    agent.expect_notification("notifications/tools/list_changed");
    assert_eq!(agent.tools(), ["other__x"]);
    assert_eq!(code(&agent.call("files__read", &json!({}))), -32602);
}

/// Case B26.
#[test]
fn list_that_fails_is_reported_like_a_server_that_is_down_until_it_comes() {
    let answers: [(&str, Answer); 3] = [
        ("its answer to `tools/list` is an error: backend unreachable (-32603)", |request| {
            let error = json!({"code": -32603, "message": "backend unreachable"});
            Response::json(&json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error}))
        }),
        ("its answer to `tools/list` is malformed", |request| {
            Response::json(&json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": {}}))
        }),
        ("its answer to `tools/list` did not come: it answers with HTTP 502 Bad Gateway: no backend", |_| {
            Response::body("text/plain", "no backend").with_status(502)
        }),
    ];
    for (reason, answer) in answers {
        let place = Place::new();
        let front = Front::start(&place, "a", "", Behavior::json());
        front.intercept(move |request| (request.rpc() == "tools/list").then(|| answer(request)));
        let daemon = Setup::with(front.server()).server(bare("other", &["x"])).start_in(&place);
        let mut agent = Agent::ready(&daemon);
        assert_eq!(agent.tools(), ["other__x"]);
        let row = daemon.wait_row("a", "has failed to list", |row| row["state"] == "list_failed");
        assert_eq!(
            (&row["reason"], &row["code"], &row["restarts"]),
            (&json!(reason), &json!("list_failed"), &json!(0))
        );
        for command in [&["status"][..], &["status", "--check"], &["doctor"]] {
            let ran = daemon.client(command).expect_code(1);
            let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(reason), "{command:?}: {ran}");
        }
        until("it is requested again", || {
            (front.http().count(|request| request.rpc() == "tools/list") > 2).then_some(())
        });
        front.stop_intercepting();
        let row = daemon.wait_row("a", "has listed", |row| row["state"] == "ready");
        assert!(row["reason"].is_null(), "{row}");
        daemon.client(&["status"]).expect_code(0);
        agent.expect_notification("notifications/tools/list_changed");
        assert!(agent.tools().contains(&"a__echo".to_owned()));
    }
}

/// Case B26.
#[test]
fn list_that_fails_later_is_reported_and_the_former_one_stays() {
    let place = Place::new();
    let front = Front::start(&place, "a", "--bare --tool x", Behavior::json());
    let daemon = Setup::with(front.server()).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), ["a__x"]);
    front.intercept(|request| (request.rpc() == "tools/list").then(|| Response::status(500)));
    front.notify(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    daemon.wait_row("a", "has failed to list", |row| row["state"] == "list_failed");
    daemon.client(&["status"]).expect_code(1);
    assert_eq!(agent.tools(), ["a__x"]);
    arguments(&agent.call("a__x", &json!({})));
    front.stop_intercepting();
    daemon.wait_row("a", "has listed", |row| row["state"] == "ready");
    agent.expect_quiet();
}

#[test]
fn refused_list_is_requested_again() {
    let daemon = Setup::with(bare("files", &["read"]).flags("--list-errors 1")).start();
    let mut agent = Agent::ready(&daemon);
    if agent.tools().is_empty() {
        agent.expect_notification("notifications/tools/list_changed");
    }
    assert_eq!(agent.tools(), ["files__read"]);
    arguments(&agent.call("files__read", &json!({})));
    assert_eq!(daemon.row("files")["restarts"], 0);
}
