//! A task belongs to the agent whose call created it. Other agents cannot use it, and it ends when its agent disconnects.

use std::fs;
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, code, notification, request, result, until};

fn server(name: &str) -> Server {
    Server::named(name).flags("--tasks")
}

fn start() -> Daemon {
    Setup::with(server("s")).start()
}

fn start_pair() -> (Daemon, Agent, Agent) {
    let daemon = start();
    let [one, other] = [(); 2].map(|()| Agent::ready(&daemon));
    (daemon, one, other)
}

/// Calls a tool as a task; the answer.
fn create(agent: &mut Agent, tool: &str, arguments: &Value) -> Value {
    agent.request("tools/call", &json!({"name": tool, "arguments": arguments, "task": {"ttl": null}}))
}

/// The same; the id of the task.
#[track_caller]
fn create_task(agent: &mut Agent, tool: &str, arguments: &Value) -> Value {
    let answer = create(agent, tool, arguments);
    result(&answer)["task"]["taskId"].clone()
}

fn ask(agent: &mut Agent, act: &str, id: &Value) -> Value {
    agent.request(&format!("tasks/{act}"), &json!({ "taskId": id }))
}

#[track_caller]
fn status(agent: &mut Agent, id: &Value) -> Value {
    let answer = ask(agent, "get", id);
    result(&answer)["status"].clone()
}

/// Has the server end a task, as any agent may.
fn finish(agent: &mut Agent, id: &Value) {
    arguments(&agent.call("s__finish_task", &json!({ "id": id })));
}

fn expect_status(agent: &mut Agent, id: &Value, status: &str) {
    let params = &agent.expect_notification("notifications/tasks/status")["params"];
    assert_eq!((&params["taskId"], &params["status"]), (id, &json!(status)));
}

#[track_caller]
fn expect_unknown(agent: &mut Agent, id: &str) {
    for act in ["get", "cancel", "result"] {
        let error = json!({"code": -32602, "message": format!("Unknown task: {id}")});
        assert_eq!(ask(agent, act, &json!(id))["error"], error, "{act}");
    }
}

fn list(agent: &mut Agent, cursor: &Value) -> (Vec<Value>, Value) {
    let answer = agent.request("tasks/list", &json!({ "cursor": cursor }));
    let page = result(&answer);
    let tasks = page["tasks"].as_array().expect("a list");
    (tasks.iter().map(|task| task["taskId"].clone()).collect(), page["nextCursor"].clone())
}

fn list_tasks(agent: &mut Agent) -> Vec<Value> {
    let (tasks, next) = list(agent, &Value::Null);
    assert_eq!(next, Value::Null);
    tasks
}

/// How often the server was sent this about the task.
fn request_count(daemon: &Daemon, server: &str, method: &str, id: &str) -> usize {
    let (method, id) = (format!("\"{method}\""), format!("\"taskId\":\"{id}\""));
    daemon.journal(server).iter().filter(|line| line.contains(&method) && line.contains(&id)).count()
}

fn wait_cancelled(daemon: &Daemon, server: &str, id: &str) {
    until("it is cancelled", || (request_count(daemon, server, "tasks/cancel", id) == 1).then_some(()));
}

/// The progress token that the server was given with the last call of that tool.
fn token(daemon: &Daemon, tool: &str) -> Value {
    let calls = daemon.journal("s");
    let line = calls.iter().rfind(|line| line.contains(&format!("\"{tool}\""))).expect("a call");
    serde_json::from_str::<Value>(line).expect("JSON")["params"]["_meta"]["progressToken"].clone()
}

/// Has the server say something while no call of the agent's is unanswered but this one.
fn notify(agent: &mut Agent, method: &str, params: &Value) {
    let line = notification(method, params);
    arguments(&agent.call("s__raw", &json!({"text": format!("{line}\n")})));
}

#[test]
fn task_is_created_polled_and_awaited_with_every_byte_unchanged() {
    let (daemon, mut agent, _) = start_pair();
    let call = r#"{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"s__echo","task":{"ttl":60000,"x":1.10},"arguments":{"a":1.10}}}"#;
    agent.send_raw(format!("{call}\n"));
    let object = |status: &str| {
        format!(
            r#"{{"zeta":1.10,"status":"{status}","taskId":"task-1","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000,"pollInterval":50,"x-vendor":12345678901234567890123}}"#
        )
    };
    let answer = |id: &str, result: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n");
    let made = format!(r#"{{"task":{},"x-beside":1.0}}"#, object("working"));
    assert_eq!(agent.next_line().expect("a line"), answer("\"c\"", &made));
    daemon.wait_journal("s", r#""name":"echo","task":{"ttl":60000,"x":1.10},"arguments":{"a":1.10}"#);

    agent.send_raw(
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tasks/get\",\"params\":{\"taskId\":\"task\\u002d1\",\"x\":1.10}}\n",
    );
    assert_eq!(agent.next_line().expect("a line"), answer("7", &object("working")));
    daemon.wait_journal("s", r#""method":"tasks/get","params":{"taskId":"task\u002d1","x":1.10}}"#);
    agent.send_raw("{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tasks/list\"}\n");
    assert_eq!(agent.next_line().expect("a line"), answer("8", &format!(r#"{{"tasks":[{}]}}"#, object("working"))));

    let waiting = agent.start_request("tasks/result", &json!({"taskId": "task-1"}));
    daemon.wait_journal("s", "tasks/result");
    let id = agent.start_call("s__finish_task", &json!({"id": "task-1"}));
    let status = r#"{"jsonrpc":"2.0","method":"notifications/tasks/status","params":"#;
    assert_eq!(agent.next_line().expect("a line"), format!("{status}{}}}\n", object("completed")));
    let ended = agent.answer(&waiting);
    assert_eq!(arguments(&ended)["a"], 1.1);
    assert_eq!(result(&ended)["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], "task-1");
    arguments(&agent.answer(&id));
    assert_eq!(arguments(&ask(&mut agent, "result", &json!("task-1")))["a"], 1.1, "it is to be had again");
}

#[test]
fn agent_sees_task_support_and_which_tools_create_tasks() {
    let daemon = start();
    let mut agent = Agent::connect(&daemon);
    let introduction = agent.initialize("2025-11-25");
    let declared = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(result(&introduction)["capabilities"]["tasks"], declared);
    let tools = agent.request("tools/list", &json!({}));
    let echo = &result(&tools)["tools"][0];
    assert_eq!((&echo["name"], &echo["execution"]["taskSupport"]), (&json!("s__echo"), &json!("optional")));
    assert_eq!((&echo["zeta"], echo["x-vendor"].is_number()), (&json!(1.10), true));
    let early = Agent::connect(&daemon).request("tasks/list", &json!({}));
    assert_eq!(code(&early), -32602);
}

/// Case C15.
#[test]
fn other_agents_cannot_access_a_task_and_no_server_sees_the_attempt() {
    let (daemon, mut one, mut other) = start_pair();
    let id = create_task(&mut one, "s__echo", &json!({}));
    expect_unknown(&mut other, "task-1");
    expect_unknown(&mut other, "task-9");
    expect_unknown(&mut one, "task-9");
    expect_unknown(&mut one, "");
    for wrong in [json!(7), json!(["task-1"]), Value::Null] {
        assert_eq!(code(&ask(&mut one, "get", &wrong)), -32602);
    }
    assert_eq!((list_tasks(&mut one), list_tasks(&mut other)), (vec![id.clone()], vec![]));
    assert_eq!(request_count(&daemon, "s", "tasks/get", "task-1"), 1, "for the list");
    assert!(!daemon.journal("s").iter().any(|line| line.contains("tasks/cancel") || line.contains("tasks/result")));
    assert!(!daemon.journal("s").iter().any(|line| line.contains("tasks/list") || line.contains("task-9")));
}

#[test]
fn tasks_of_two_agents_with_equal_ids_stay_separate() {
    let (_daemon, mut one, mut other) = start_pair();
    // Both use the same request ids and the same progress token.
    let params = |n: u64| json!({"name": "s__echo", "arguments": {"n": n}, "task": {}, "_meta": {"progressToken": 1}});
    let tasks = [(&mut one, 1), (&mut other, 2)].map(|(agent, n)| {
        let answer = agent.request("tools/call", &params(n));
        result(&answer)["task"]["taskId"].clone()
    });
    assert_eq!(tasks, ["task-1", "task-2"]);
    for (n, agent) in [(1, &mut one), (2, &mut other)] {
        let id = json!(format!("task-{n}"));
        finish(agent, &id);
        expect_status(agent, &id, "completed");
        assert_eq!(arguments(&ask(agent, "result", &id))["n"], n);
        assert_eq!(list_tasks(agent), [id]);
        agent.expect_quiet();
    }
}

#[test]
fn task_status_reaches_the_owner_only_and_an_unknown_task_nobody() {
    let (daemon, mut one, mut other) = start_pair();
    let id = create_task(&mut one, "s__echo", &json!({}));
    let odd = r#"{"method":"notifications/tasks/status", "params":{"x":1.10,"status":"input_required","taskId":"task\u002d1"},"jsonrpc":"2.0"}"#;
    arguments(&other.call("s__raw", &json!({"text": format!("{odd}\n")})));
    assert_eq!(one.next_line().expect("a line").trim_end(), odd);
    for params in [json!({"taskId": "task-9", "status": "working"}), json!({"taskId": 1}), json!({}), Value::Null] {
        notify(&mut other, "notifications/tasks/status", &params);
    }
    assert_eq!(daemon.row("s")["stray_notifications"], 4);
    finish(&mut other, &id);
    expect_status(&mut one, &id, "completed");
    one.expect_quiet();
    other.expect_quiet();
}

/// As the TypeScript SDK does it.
#[test]
fn status_sent_before_the_response_of_the_call_reaches_its_agent() {
    let (daemon, mut agent, mut other) = start_pair();
    let call = agent.start_request("tools/call", &json!({"name": "s__echo", "arguments": {"early": true}, "task": {}}));
    let first = agent.next();
    assert_eq!((&first["params"]["taskId"], &first["params"]["status"]), (&json!("task-1"), &json!("working")));
    result(&agent.answer(&call));
    // One that belongs to none of the calls that wait is nobody's.
    let busy = agent.start_request("tools/call", &json!({"name": "s__echo", "arguments": {"delay": 200}, "task": {}}));
    daemon.wait_journal("s", "\"delay\":200");
    notify(&mut other, "notifications/tasks/status", &json!({"taskId": "x", "status": "working"}));
    result(&agent.answer(&busy));
    assert_eq!(daemon.row("s")["stray_notifications"], 1);
    // A task that was over before it was told of is no open one.
    let quick = json!({"early": true, "status": "completed", "id": "quick"});
    create_task(&mut agent, "s__echo", &quick);
    expect_status(&mut agent, &json!("quick"), "completed");
    agent.expect_quiet();
    other.expect_quiet();
}

#[test]
fn progress_continues_after_task_creation_until_the_end() {
    let (daemon, mut one, mut other) = start_pair();
    let mut tasks = Vec::new();
    for agent in [&mut one, &mut other] {
        let params = json!({"name": "s__echo", "arguments": {}, "task": {}, "_meta": {"progressToken": "mine"}});
        let answer = agent.request("tools/call", &params);
        tasks.push((result(&answer)["task"]["taskId"].clone(), token(&daemon, "echo")));
    }
    let [(first, first_token), (_, other_token)] = &tasks[..] else { panic!("two tasks") };
    assert_ne!(first_token, other_token);
    let progress = |token: &Value, n: u64| json!({"progressToken": token, "progress": n});
    notify(&mut other, "notifications/progress", &progress(first_token, 1));
    notify(&mut other, "notifications/progress", &progress(other_token, 2));
    assert_eq!(
        one.expect_notification("notifications/progress")["params"],
        json!({"progressToken": "mine", "progress": 1})
    );
    assert_eq!(other.expect_notification("notifications/progress")["params"]["progress"], 2);
    finish(&mut one, first);
    expect_status(&mut one, first, "completed");
    notify(&mut other, "notifications/progress", &progress(first_token, 3));
    one.expect_quiet();
    other.expect_quiet();
}

#[test]
fn tasks_are_listed_in_the_order_of_their_making_page_by_page() {
    let daemon = Setup::with(server("s")).server(server("t")).start();
    let mut agent = Agent::ready(&daemon);
    let ids: Vec<_> = (0..40)
        .map(|n| {
            let tool = if n % 2 == 0 { "s__echo" } else { "t__echo" };
            create_task(&mut agent, tool, &json!({"id": format!("{}", 40 - n)}))
        })
        .collect();
    let (first, cursor) = list(&mut agent, &Value::Null);
    assert_eq!(first, ids[..32]);
    let (second, end) = list(&mut agent, &cursor);
    assert_eq!((&second[..], end), (&ids[32..], Value::Null));
    for wrong in [json!(""), json!("41"), json!("x"), json!(32), json!({})] {
        assert_eq!(code(&agent.request("tasks/list", &json!({"cursor": wrong}))), -32602, "{wrong}");
    }
    // What is made between two pages is on the last one, and nothing is listed twice.
    let (_, cursor) = list(&mut agent, &Value::Null);
    let more = create_task(&mut agent, "s__echo", &json!({}));
    let (rest, _) = list(&mut agent, &cursor);
    assert_eq!(rest.last(), Some(&more));
    assert_eq!(rest[..8], ids[32..]);
}

#[test]
fn task_that_its_server_has_forgotten_is_no_longer_listed() {
    let (daemon, mut agent, _) = start_pair();
    let ids = [(); 3].map(|()| create_task(&mut agent, "s__echo", &json!({})));
    arguments(&agent.call("s__forget_task", &json!({"id": "task-2"})));
    assert_eq!(list_tasks(&mut agent), [ids[0].clone(), ids[2].clone()]);
    expect_unknown(&mut agent, "task-2");
    assert_eq!(request_count(&daemon, "s", "tasks/get", "task-2"), 1);
    // Whoever asks first hears it from the server.
    arguments(&agent.call("s__forget_task", &json!({"id": "task-3"})));
    assert_eq!(ask(&mut agent, "get", &ids[2])["error"]["message"], "Failed to retrieve task: Task not found");
    expect_unknown(&mut agent, "task-3");
    assert_eq!(list_tasks(&mut agent), [ids[0].clone()]);
}

#[test]
fn server_without_tasks_get_leaves_the_list_with_the_last_known_status() {
    let (_daemon, mut agent, mut other) = start_pair();
    let mute = create_task(&mut agent, "s__echo", &json!({"mute": true}));
    let id = create_task(&mut agent, "s__echo", &json!({}));
    notify(&mut other, "notifications/tasks/status", &json!({"taskId": mute, "status": "input_required", "x": 1}));
    agent.expect_notification("notifications/tasks/status");
    let waiting = agent.start_request("tasks/list", &json!({}));
    let second = agent.start_request("tasks/list", &json!({}));
    assert_eq!(status(&mut agent, &id), "working");
    for list in [&waiting, &second] {
        let answer = agent.answer(list);
        assert_eq!(result(&answer)["tasks"][0], json!({"taskId": mute, "status": "input_required", "x": 1}));
        assert_eq!(result(&answer)["tasks"][1]["taskId"], id);
    }
}

/// The server does not answer `tasks/get`, so the page waits until the poll has timed out.
#[test]
fn task_whose_tool_is_denied_while_its_page_is_gathered_is_not_listed() {
    let (daemon, mut agent, _) = start_pair();
    agent.tools();
    create_task(&mut agent, "s__echo", &json!({"mute": true}));
    for polls in 1.. {
        let page = agent.start_request("tasks/list", &json!({}));
        until("the task is polled", || (request_count(&daemon, "s", "tasks/get", "task-1") == polls).then_some(()));
        daemon.client(&["disable", "s/echo"]).expect_code(0);
        if agent.next()["method"] == "notifications/tools/list_changed" {
            assert_eq!(result(&agent.answer(&page))["tasks"], json!([]));
            return;
        }
        // The page was answered before the tool was denied.
        agent.expect_notification("notifications/tools/list_changed");
        daemon.client(&["enable", "s/echo"]).expect_code(0);
        agent.expect_notification("notifications/tools/list_changed");
    }
}

#[test]
fn list_that_is_cancelled_is_not_answered() {
    let (_daemon, mut agent, _) = start_pair();
    create_task(&mut agent, "s__echo", &json!({"mute": true}));
    let waiting = [(); 3].map(|()| agent.start_request("tasks/list", &json!({})));
    for id in [&waiting[1], &waiting[0]] {
        agent.cancel(id);
    }
    agent.send(&request(waiting[2].clone(), "ping", &Value::Null));
    let refusal = agent.answer(&waiting[2]);
    assert_eq!(code(&refusal), -32600, "its id is in use");
    assert_eq!(result(&agent.answer(&waiting[2]))["tasks"].as_array().map(Vec::len), Some(1));
    agent.expect_quiet();
}

#[test]
fn task_is_cancelled_by_its_agent_and_an_ended_one_is_not() {
    let (daemon, mut agent, mut other) = start_pair();
    let id = create_task(&mut agent, "s__echo", &json!({}));
    let waiting = agent.start_request("tasks/result", &json!({"taskId": id}));
    daemon.wait_journal("s", "tasks/result");
    assert_eq!(result(&ask(&mut agent, "cancel", &id))["status"], "cancelled");
    result(&agent.answer(&waiting));
    assert_eq!(ask(&mut agent, "cancel", &id)["error"]["message"], "it has ended");
    assert_eq!(status(&mut agent, &id), "cancelled");
    agent.expect_quiet();
    other.expect_quiet();
}

/// Case C15.
#[test]
fn tasks_of_a_disconnected_agent_are_cancelled_and_others_are_not() {
    let (daemon, mut leaver, mut other) = start_pair();
    for _ in 0..3 {
        create_task(&mut leaver, "s__echo", &json!({}));
    }
    let other_task = create_task(&mut other, "s__echo", &json!({}));
    finish(&mut leaver, &json!("task-2"));
    expect_status(&mut leaver, &json!("task-2"), "completed");
    drop(leaver);
    wait_cancelled(&daemon, "s", "task-1");
    wait_cancelled(&daemon, "s", "task-3");
    assert_eq!(status(&mut other, &other_task), "working");
    assert_eq!([2, 4].map(|n| request_count(&daemon, "s", "tasks/cancel", &format!("task-{n}"))), [0, 0]);
    // Whoever comes next and whatever it is called finds nothing.
    expect_unknown(&mut Agent::ready(&daemon), "task-2");
}

#[test]
fn task_created_after_its_agent_left_is_cancelled() {
    let daemon = Setup::with(server("s").line("tool_timeouts = { fail = \"100ms\" }")).start();
    let [mut agent, mut leaver] = [(); 2].map(|()| Agent::ready(&daemon));
    let create = |agent: &mut Agent, tool: &str, id: &str| {
        let params = json!({"name": tool, "arguments": {"id": id, "delay": 8000}, "task": {}});
        agent.start_request("tools/call", &params)
    };
    let cancelled = create(&mut agent, "s__echo", "cancelled");
    create(&mut leaver, "s__echo", "left");
    let late = create(&mut agent, "s__fail", "late");
    daemon.wait_row("s", "has all three", |row| row["calls"] == 3);
    agent.cancel(&cancelled);
    leaver.disconnect();
    assert_eq!(code(&agent.answer(&late)), -31002);
    for id in ["cancelled", "left", "late"] {
        wait_cancelled(&daemon, "s", id);
        expect_unknown(&mut agent, id);
    }
    assert_eq!(list_tasks(&mut agent), [""; 0]);
}

#[test]
fn log_is_not_delivered_while_a_task_of_another_agent_works() {
    let place = Place::new();
    let library = place.write("logging.json", r#"{"logging":true}"#);
    let daemon = Setup::with(server("s").arg("--library").arg(library)).start_in(&place);
    let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    let id = create_task(&mut one, "s__echo", &json!({}));
    let log = |data: &str| json!({"level": "error", "data": data});
    notify(&mut one, "notifications/message", &log("mine"));
    notify(&mut other, "notifications/message", &log("whose?"));
    finish(&mut one, &id);
    notify(&mut other, "notifications/message", &log("other's"));
    assert_eq!(one.expect_notification("notifications/message")["params"]["data"], "mine");
    assert_eq!(other.expect_notification("notifications/message")["params"]["data"], "other's");
    expect_status(&mut one, &id, "completed");
    // A ttl that has passed ends it as well.
    one.request("tools/call", &json!({"name": "s__echo", "arguments": {}, "task": {"ttl": 1}}));
    until("its time has passed", || {
        notify(&mut other, "notifications/message", &log("again"));
        let id = other.start_request("ping", &json!({}));
        let next = other.next();
        let is_log = next["method"] == "notifications/message";
        if is_log {
            other.answer(&id);
        }
        is_log.then_some(())
    });
    one.expect_quiet();
}

#[test]
fn task_that_survives_its_agent_may_own_server_requests() {
    let daemon = start();
    let mut one = Agent::ready(&daemon);
    let stubborn = create_task(&mut one, "s__echo", &json!({"ignore_cancel": true}));
    drop(one);
    wait_cancelled(&daemon, "s", stubborn.as_str().expect("text"));
    let mut other = Agent::with_capabilities(&daemon, &json!({"sampling": {}}));
    let ask = json!({"method": "sampling/createMessage"});
    let answer = other.call("s__send_request", &ask);
    assert_eq!(code(&result(&answer)["structuredContent"]), -31004);
    finish(&mut other, &stubborn);
    let call = other.start_call("s__send_request", &ask);
    let question = other.expect_request("sampling/createMessage");
    other.respond(&question, &json!({}));
    result(&other.answer(&call));
}

#[test]
fn expired_tasks_free_their_slots() {
    let (_daemon, mut agent, _other) = start_pair();
    for _ in 0..256 {
        agent.request("tools/call", &json!({"name": "s__echo", "arguments": {}, "task": {"ttl": 1}}));
    }
    until("there is room", || (!create(&mut agent, "s__echo", &json!({}))["result"].is_null()).then_some(()));
}

/// Case B22.
#[test]
fn tasks_end_with_their_server() {
    let (daemon, mut agent, mut other) = start_pair();
    let id = create_task(&mut agent, "s__echo", &json!({}));
    let waiting = agent.start_request("tasks/result", &json!({"taskId": id}));
    daemon.wait_journal("s", "tasks/result");
    assert_eq!(code(&other.call("s__die", &json!({"how": "kill"}))), -31001);
    assert_eq!(code(&agent.answer(&waiting)), -31001);
    expect_unknown(&mut agent, "task-1");
    assert_eq!(list_tasks(&mut agent), [""; 0]);
    daemon.wait_row("s", "is up again", |row| row["state"] == "ready");
    expect_unknown(&mut agent, "task-1");
    // The next instance begins to count anew.
    assert_eq!(create_task(&mut other, "s__echo", &json!({})), id);
    expect_unknown(&mut agent, "task-1");
    assert_eq!((list_tasks(&mut agent), list_tasks(&mut other)), (vec![], vec![id.clone()]));
    finish(&mut agent, &id);
    expect_status(&mut other, &id, "completed");
    agent.expect_quiet();
}

fn write(place: &Rc<Place>, servers: &[Server]) -> std::path::PathBuf {
    let text: String = servers.iter().map(|server| server.toml(place)).collect();
    place.write("new.toml", text);
    let file = place.path("changing.toml");
    fs::rename(place.path("new.toml"), &file).expect("the test's own");
    file
}

#[test]
fn task_of_a_newly_denied_tool_is_unknown() {
    let place = Place::new();
    let mut daemon = Setup::new().config(write(&place, &[server("s")])).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let id = create_task(&mut agent, "s__echo", &json!({}));
    create_task(&mut agent, "s__sleep", &json!({}));
    let waiting = agent.start_request("tasks/result", &json!({"taskId": id}));
    daemon.wait_journal("s", "tasks/result");
    let reload = |daemon: &mut Daemon, server: Server| {
        write(&place, &[server]);
        let before = daemon.log().matches("reloaded").count();
        daemon.signal(Signal::HUP);
        until("it is reloaded", || (daemon.log().matches("reloaded").count() > before).then_some(()));
    };
    reload(&mut daemon, server("s").line("deny = [\"echo\"]"));
    expect_unknown(&mut agent, "task-1");
    assert_eq!(list_tasks(&mut agent), ["task-2"]);
    finish(&mut agent, &id);
    result(&agent.answer(&waiting));
    // Nothing is told of it either.
    agent.expect_quiet();
    assert_eq!(request_count(&daemon, "s", "tasks/get", "task-1"), 0);
    reload(&mut daemon, server("s"));
    assert_eq!(status(&mut agent, &id), "completed");
    assert_eq!(list_tasks(&mut agent), ["task-1", "task-2"]);
}

#[test]
fn pool_instance_stays_up_for_its_task_and_receives_its_requests() {
    let pool = server("s").line("sharing = \"pool\"").line("idle_timeout = \"200ms\"");
    let clock = Server::named("clock").line("start = \"lazy\"").line("idle_timeout = \"1500ms\"");
    let daemon = Setup::with(pool).server(clock).start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let busy = agent.start_call("s__sleep", &gate.arguments());
    daemon.wait_at_gate("s", &gate);
    let id = create_task(&mut agent, "s__echo", &json!({"id": "second"}));
    gate.open();
    arguments(&agent.answer(&busy));
    // The other one is kept far longer than this one would be.
    arguments(&agent.call("clock__echo", &json!({})));
    daemon.wait_row("clock", "idle", |row| row["state"] == "idle");
    let instances = || daemon.row("s")["instances"].as_array().map(Vec::len);
    assert_eq!(instances(), Some(2));
    assert_eq!(status(&mut agent, &id), "working");
    assert_eq!(list_tasks(&mut agent), std::slice::from_ref(&id));
    assert_eq!(result(&ask(&mut agent, "cancel", &id))["status"], "cancelled");
    daemon.wait_row("s", "has one instance", |row| row["instances"].as_array().map(Vec::len) == Some(1));
    expect_unknown(&mut agent, "second");
    assert_eq!(list_tasks(&mut agent), [""; 0]);
}

#[test]
fn each_way_of_sharing_runs_tasks() {
    for (sharing, others) in [("session", "task-1"), ("workspace", "task-2"), ("pool", "task-2")] {
        let daemon = Setup::with(server("s").line(format!("sharing = \"{sharing}\""))).start();
        let [mut one, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
        let id = create_task(&mut one, "s__echo", &json!({}));
        if sharing != "pool" {
            assert_eq!(create_task(&mut other, "s__echo", &json!({})), others, "{sharing}");
        }
        assert_eq!(status(&mut one, &id), "working");
        assert_eq!(result(&ask(&mut one, "cancel", &id))["status"], "cancelled");
        one.expect_quiet();
        if sharing != "session" {
            create_task(&mut other, "s__echo", &json!({"id": "left"}));
            other.disconnect();
            wait_cancelled(&daemon, "s", "left");
        }
    }
}

#[test]
fn lazy_server_stays_up_for_a_task() {
    let lazy = server("s").line("start = \"lazy\"").line("idle_timeout = \"200ms\"");
    let clock = Server::named("clock").line("start = \"lazy\"").line("idle_timeout = \"400ms\"");
    let daemon = Setup::with(lazy).server(clock).start();
    let wait = |server: &str, expected: &str| drop(daemon.wait_row(server, expected, |row| row["state"] == expected));
    wait("s", "idle");
    let mut agent = Agent::ready(&daemon);
    let id = create_task(&mut agent, "s__echo", &json!({}));
    arguments(&agent.call("clock__echo", &json!({})));
    wait("clock", "idle");
    assert_eq!(status(&mut agent, &id), "working");
    finish(&mut agent, &id);
    expect_status(&mut agent, &id, "completed");
    wait("s", "idle");
    expect_unknown(&mut agent, "task-1");
    assert_eq!(daemon.row("s")["state"], "idle", "nobody wakes it for what is gone");
}

#[test]
fn lazy_server_stays_up_for_its_pending_requests() {
    let lazy = server("s").line("start = \"lazy\"").line("idle_timeout = \"200ms\"").line("sharing = \"session\"");
    let clock = Server::named("clock").line("start = \"lazy\"").line("idle_timeout = \"600ms\"");
    let daemon = Setup::with(lazy).server(clock).start();
    let mut agent = Agent::with_capabilities(&daemon, &json!({"sampling": {}}));
    let asking = request("q", "sampling/createMessage", &json!({}));
    arguments(&agent.call("s__raw", &json!({ "text": format!("{asking}\n") })));
    let question = agent.expect_request("sampling/createMessage");
    arguments(&agent.call("clock__echo", &json!({})));
    daemon.wait_row("clock", "idle", |row| row["state"] == "idle");
    agent.respond(&question, &json!({"n": 7}));
    daemon.wait_journal("s", "\"n\":7");
    agent.expect_quiet();
}

#[test]
fn wait_for_a_result_lasts_as_long_as_the_server_reports_work() {
    let daemon = Setup::with(server("s").line("tool_timeouts = { echo = \"6s\" }")).start();
    let [mut agent, mut other] = [(); 2].map(|()| Agent::ready(&daemon));
    let [lasting, silent] = [(); 2].map(|()| create_task(&mut agent, "s__echo", &json!({})));
    let mute = agent.start_request("tasks/result", &json!({"taskId": silent}));
    let waiting = agent.start_request("tasks/result", &json!({"taskId": lasting}));
    daemon.wait_journal("s", "tasks/result");
    for n in 0..3 {
        // Each sign comes within the limit, all together take far longer.
        arguments(&other.call("s__sleep", &json!({"ms": 3500})));
        if n == 1 {
            assert_eq!(status(&mut agent, &lasting), "working");
        } else {
            notify(&mut other, "notifications/tasks/status", &json!({"taskId": lasting, "status": "working"}));
            expect_status(&mut agent, &lasting, "working");
        }
    }
    assert_eq!(code(&agent.answer(&mute)), -31002);
    finish(&mut agent, &lasting);
    expect_status(&mut agent, &lasting, "completed");
    arguments(&agent.answer(&waiting));
    assert_eq!(status(&mut agent, &silent), "working", "the task goes on");
}

#[test]
fn older_version_knows_no_tasks_on_either_side() {
    let daemon = Setup::with(server("s")).server(server("old").flags("--protocol 2025-06-18")).start();
    let mut old = Agent::connect(&daemon);
    assert!(result(&old.initialize("2025-06-18"))["capabilities"]["tasks"].is_null());
    // A field that a version does not know passes, and what comes of it is nobody else's.
    let id = create_task(&mut old, "s__echo", &json!({}));
    for method in ["get", "cancel", "result", "list"] {
        assert_eq!(code(&ask(&mut old, method, &id)), -32601, "{method}");
    }
    finish(&mut old, &id);
    old.expect_quiet();
    let mut agent = Agent::ready(&daemon);
    create_task(&mut agent, "old__echo", &json!({"id": "of-old"}));
    expect_unknown(&mut agent, "of-old");
    assert_eq!(list_tasks(&mut agent), [""; 0]);
    create_task(&mut old, "s__echo", &json!({"id": "left"}));
    drop(old);
    wait_cancelled(&daemon, "s", "left");
    drop(agent);
    assert!(!daemon.journal("old").iter().any(|line| line.contains("\"tasks/")));
}

#[test]
fn server_receives_only_requests_that_it_declares() {
    let keeper = Server::named("keeper").flags("--tasks --no-task-cancel");
    let daemon = Setup::with(Server::named("plain")).server(keeper).start();
    let mut agent = Agent::ready(&daemon);
    // It may answer as if nothing had been asked for.
    arguments(&create(&mut agent, "plain__echo", &json!({})));
    // What it says of a task is no more than a result.
    let result_of = r#"{"task":{"taskId":"x","status":"working","ttl":null}}"#;
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result_of}}}\n");
    assert_eq!(create_task(&mut agent, "plain__raw", &json!({"text": text, "answer": false})), "x");
    expect_unknown(&mut agent, "x");
    let other_task = create_task(&mut agent, "keeper__echo", &json!({}));
    assert_eq!(code(&ask(&mut agent, "cancel", &other_task)), -32602);
    assert_eq!(status(&mut agent, &other_task), "working");
    drop(agent);
    arguments(&Agent::ready(&daemon).call("keeper__echo", &json!({})));
    for server in ["plain", "keeper"] {
        let journal = daemon.journal(server);
        assert!(!journal.iter().any(|line| line.contains("tasks/cancel") || line.contains("tasks/list")), "{server}");
        assert_eq!(journal.iter().any(|line| line.contains("tasks/get")), server == "keeper");
    }
}

/// Case B22.
#[test]
fn duplicate_task_ids_of_two_servers_are_refused() {
    let daemon = Setup::with(server("s")).server(server("t")).start();
    let mut agent = Agent::ready(&daemon);
    let id = create_task(&mut agent, "s__echo", &json!({"n": 1}));
    let refusal = create(&mut agent, "t__echo", &json!({"n": 2}));
    assert_eq!(code(&refusal), -32603);
    assert_eq!(refusal["error"]["data"], json!({"server": "t", "outcome": "unknown"}));
    wait_cancelled(&daemon, "t", "task-1");
    finish(&mut agent, &id);
    expect_status(&mut agent, &id, "completed");
    assert_eq!(arguments(&ask(&mut agent, "result", &id))["n"], 1);
    assert_eq!(list_tasks(&mut agent), [id]);
    agent.expect_quiet();
}

/// Case B22.
#[test]
fn unusual_task_ids_of_a_server_expose_no_task_of_another_agent() {
    let (daemon, mut one, mut other) = start_pair();
    let id = create_task(&mut one, "s__echo", &json!({"id": "a"}));
    for agent in [&mut other, &mut one] {
        assert_eq!(code(&create(agent, "s__echo", &json!({"id": "a"}))), -32603, "the same id again");
    }
    expect_unknown(&mut other, "a");
    assert_eq!(status(&mut one, &id), "working");
    assert_eq!(request_count(&daemon, "s", "tasks/cancel", "a"), 0, "that would be the first one");
    // An id that is none passes, and cannot be asked for.
    for odd in [json!(7), json!({"x": 1}), json!([])] {
        assert_eq!(create_task(&mut one, "s__echo", &json!({"id": odd})), odd);
        assert_eq!(code(&ask(&mut one, "get", &odd)), -32602);
    }
    // A task that nobody asked for is a result like any other.
    let unasked = r#"{"jsonrpc":"2.0","id":$ID,"result":{"task":{"taskId":"u","status":"working"}}}"#;
    let answer = other.call("s__raw", &json!({"text": format!("{unasked}\n"), "answer": false}));
    assert_eq!(result(&answer)["task"]["taskId"], "u");
    expect_unknown(&mut other, "u");
    assert_eq!(list_tasks(&mut one), [id]);
    assert_eq!(list_tasks(&mut other), [""; 0]);
}

/// Case C15.
#[test]
fn open_tasks_per_agent_are_limited_and_ended_tasks_free_slots() {
    let (_daemon, mut agent, mut other) = start_pair();
    for n in 0..300 {
        create_task(&mut agent, "s__echo", &json!({"id": format!("ended {n}"), "status": "completed"}));
    }
    expect_unknown(&mut agent, "ended 0");
    assert_eq!(status(&mut agent, &json!("ended 299")), "completed");
    for n in 0..256 {
        create_task(&mut agent, "s__echo", &json!({"id": format!("open {n}")}));
    }
    let refusal = create(&mut agent, "s__echo", &json!({"id": "one more"}));
    assert_eq!((code(&refusal), &refusal["error"]["data"]), (-31003, &json!({"outcome": "not_sent"})));
    arguments(&agent.call("s__echo", &json!({})));
    create_task(&mut other, "s__echo", &json!({"id": "another's"}));
    finish(&mut agent, &json!("open 7"));
    expect_status(&mut agent, &json!("open 7"), "completed");
    create_task(&mut agent, "s__echo", &json!({"id": "one more"}));
}
