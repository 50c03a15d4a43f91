//! Tasks that an agent creates for server requests. Only the instance that sent the request can use the task.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, Setup, code, result};

const SAMPLE: &str = "sampling/createMessage";
const STATUS: &str = "notifications/tasks/status";

/// Two servers, `s` and `t`, with an instance for each agent.
fn start() -> Daemon {
    let own = |name| Server::named(name).line("sharing = \"session\"");
    Setup::with(own("s")).server(own("t")).start()
}

fn capabilities() -> Value {
    let requests = json!({"sampling": {"createMessage": {}}, "elicitation": {"create": {}}});
    json!({"sampling": {}, "elicitation": {}, "tasks": {"list": {}, "cancel": {}, "requests": requests}})
}

fn capable_agent(daemon: &Daemon) -> Agent {
    Agent::with_capabilities(daemon, &capabilities())
}

/// Has a server ask its client.
fn start_question(agent: &mut Agent, server: &str, method: &str, params: &Value) -> Value {
    agent.start_call(&format!("{server}__send_request"), &json!({"method": method, "params": params}))
}

/// What the server got from the agent, which answers with this.
#[track_caller]
fn forward_request(agent: &mut Agent, server: &str, (method, params): (&str, &Value), answer: &Value) -> Value {
    let call = start_question(agent, server, method, params);
    let question = agent.expect_request(method);
    assert_eq!(question["params"], *params);
    agent.respond(&question, answer);
    let answer = agent.answer(&call);
    result(&answer)["structuredContent"].clone()
}

/// The error that the server got without the agent being asked.
#[track_caller]
fn refusal(agent: &mut Agent, server: &str, method: &str, params: &Value) -> Value {
    let call = start_question(agent, server, method, params);
    let answer = agent.answer(&call);
    result(&answer)["structuredContent"]["error"].clone()
}

fn task(id: &str, status: &str) -> Value {
    json!({"taskId": id, "status": status, "createdAt": "2026-01-01T00:00:00Z", "ttl": null, "x": 1})
}

/// Has a server ask for a task, which the agent makes.
#[track_caller]
fn make(agent: &mut Agent, server: &str, id: &str) -> Value {
    let params = json!({"task": {"ttl": 5000}, "messages": []});
    forward_request(agent, server, (SAMPLE, &params), &json!({"task": task(id, "working")}))
}

#[track_caller]
fn expect_unknown(agent: &mut Agent, server: &str, id: &str) {
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let expected = json!({"code": -32602, "message": format!("Unknown task: {id}")});
        assert_eq!(refusal(agent, server, method, &json!({ "taskId": id })), expected, "{server} {method}");
    }
    agent.expect_quiet();
}

fn tell_status(agent: &mut Agent, id: &str, status: &str) -> String {
    let line = format!(
        r#"{{"method":"{STATUS}", "jsonrpc":"2.0","params":{{"x":1.10,"taskId":"{id}","status":"{status}"}}}}"#
    );
    agent.send_raw(format!("{line}\n"));
    line
}

/// The notifications about tasks that the instances of a server got.
fn task_statuses(daemon: &Daemon, server: &str) -> Vec<String> {
    daemon.journal(server).into_iter().filter(|line| line.contains(STATUS)).collect()
}

fn strays(daemon: &Daemon) -> Value {
    daemon.status()["agents"][0]["stray_notifications"].clone()
}

#[test]
fn server_creates_a_task_at_its_agent_and_continues_with_it() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    assert_eq!(make(&mut agent, "s", "t-1")["result"]["task"], task("t-1", "working"));
    let about = json!({"taskId": "t-1", "x": 1});
    for (method, answer) in [
        ("tasks/get", task("t-1", "working")),
        ("tasks/result", json!({"model": "m", "content": {}})),
        ("tasks/cancel", task("t-1", "cancelled")),
    ] {
        assert_eq!(forward_request(&mut agent, "s", (method, &about), &answer)["result"], answer, "{method}");
    }
    let form = json!({"task": {}, "message": "who?"});
    forward_request(&mut agent, "s", ("elicitation/create", &form), &json!({"task": task("t-2", "input_required")}));
    let about = json!({"taskId": "t-2"});
    forward_request(&mut agent, "s", ("tasks/result", &about), &json!({"action": "accept"}));
    agent.expect_quiet();
}

#[test]
fn task_is_unknown_to_every_server_except_its_creator() {
    let daemon = start();
    let [mut agent, mut other] = [(); 2].map(|()| capable_agent(&daemon));
    make(&mut agent, "s", "of s");
    make(&mut agent, "t", "of t");
    for (server, id) in [("s", "of t"), ("t", "of s"), ("s", "of nobody"), ("s", "")] {
        expect_unknown(&mut agent, server, id);
    }
    expect_unknown(&mut other, "s", "of s");
    for (server, id) in [("s", "of s"), ("t", "of t")] {
        forward_request(&mut agent, server, ("tasks/get", &json!({ "taskId": id })), &task(id, "working"));
    }
    // What a server did not ask to be made a task of is none.
    forward_request(&mut agent, "s", (SAMPLE, &json!({"task": {}})), &json!({"content": {}}));
    forward_request(&mut agent, "s", (SAMPLE, &json!({})), &json!({"task": task("not asked for", "working")}));
    expect_unknown(&mut agent, "s", "not asked for");
}

#[test]
fn second_task_with_the_same_id_is_refused() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    make(&mut agent, "s", "same");
    let refused = make(&mut agent, "t", "same");
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    expect_unknown(&mut agent, "t", "same");
    forward_request(&mut agent, "s", ("tasks/get", &json!({"taskId": "same"})), &task("same", "working"));
}

#[test]
fn task_status_reaches_only_the_server_that_owns_the_task() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    make(&mut agent, "s", "of s");
    make(&mut agent, "t", "of t");
    let lines = ["of s", "of t"].map(|id| tell_status(&mut agent, id, "completed"));
    tell_status(&mut agent, "of nobody", "completed");
    agent.send(&json!({"jsonrpc": "2.0", "method": STATUS}));
    agent.expect_quiet();
    for (server, line) in ["s", "t"].into_iter().zip(lines) {
        daemon.wait_journal(server, STATUS);
        result(&agent.call(&format!("{server}__echo"), &json!({})));
        assert_eq!(task_statuses(&daemon, server), [line]);
    }
    assert_eq!(strays(&daemon), 2);
}

#[test]
fn progress_continues_until_the_task_ends() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    let params = json!({"task": {}, "_meta": {"progressToken": "theirs"}});
    let call = start_question(&mut agent, "s", SAMPLE, &params);
    let question = agent.expect_request(SAMPLE);
    agent.respond(&question, &json!({"task": task("t-1", "working")}));
    result(&agent.answer(&call));
    let token = &question["params"]["_meta"]["progressToken"];
    agent.send_raw(format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progress\":1.50,\"progressToken\":{token}}}}}\n"
    ));
    let task_statuses = daemon.wait_journal("s", "notifications/progress");
    assert!(task_statuses.contains(r#""progress":1.50,"progressToken":"theirs""#), "{task_statuses}");
    agent.expect_quiet();
}

#[test]
fn task_list_contains_only_the_tasks_of_the_requesting_server_and_is_otherwise_unchanged() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    make(&mut agent, "s", "of s");
    let mut list = |server: &str, tasks: &str| {
        let call = start_question(&mut agent, server, "tasks/list", &json!({"cursor": "c"}));
        let question = agent.expect_request("tasks/list");
        assert_eq!(question["params"], json!({"cursor": "c"}));
        let (id, rest) = (&question["id"], r#""nextCursor":"n" "#);
        agent.send_raw(format!("{{\"id\":{id},\"jsonrpc\":\"2.0\",\"result\":{{\"tasks\":{tasks},{rest}}}}}\n"));
        let answer = agent.answer(&call);
        let got = result(&answer)["structuredContent"].clone();
        let line = format!(r#"{{"id":{},"jsonrpc":"2.0","result":{{"tasks":"#, got["id"]);
        daemon
            .journal(server)
            .into_iter()
            .find_map(|got| Some(got.strip_prefix(&line)?.to_owned()))
            .unwrap_or(got.to_string())
    };
    let own = r#"[ {"n":1.10,"taskId":"of s"} ]"#;
    assert_eq!(list("s", own), format!(r#"{own},"nextCursor":"n" }}}}"#));
    let all = r#"[ {"taskId":"of t"}, {"n":1.10,"taskId":"of s"} ]"#;
    assert_eq!(list("s", all), r#"[{"n":1.10,"taskId":"of s"}],"nextCursor":"n" }}"#);
    assert_eq!(list("t", all), r#"[],"nextCursor":"n" }}"#);
    assert!(list("s", "7").contains("-32603"));
}

#[test]
fn tasks_of_an_ended_instance_are_unknown_to_the_next() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    make(&mut agent, "s", "t-1");
    assert_eq!(code(&agent.call("s__die", &json!({}))), -31001);
    expect_unknown(&mut agent, "s", "t-1");
    tell_status(&mut agent, "t-1", "completed");
    agent.expect_quiet();
    assert_eq!(strays(&daemon), 1);
    result(&agent.call("s__echo", &json!({})));
    assert!(task_statuses(&daemon, "s").is_empty());
    make(&mut agent, "s", "t-1");
}

#[test]
fn shared_server_may_not_create_tasks_at_agents() {
    for sharing in ["shared", "pool", "workspace"] {
        let daemon = Setup::with(Server::named("s").line(format!("sharing = \"{sharing}\""))).start();
        let mut agent = capable_agent(&daemon);
        make(&mut agent, "s", "t-1");
        for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
            let error = refusal(&mut agent, "s", method, &json!({"taskId": "t-1"}));
            let why = error["message"].as_str().unwrap_or_default();
            assert!(error["code"] == -32601 && why.contains("has not declared `tasks`"), "{sharing}: {error}");
        }
        tell_status(&mut agent, "t-1", "completed");
        agent.expect_quiet();
        assert!(task_statuses(&daemon, "s").is_empty());
    }
}

#[test]
fn agent_without_task_support_receives_no_task_request() {
    let daemon = start();
    for (version, capabilities) in [("2025-11-25", json!({"sampling": {}})), ("2025-06-18", capabilities())] {
        let mut agent = Agent::connect(&daemon);
        result(&agent.initialize_as(version, &capabilities));
        make(&mut agent, "s", "t-1");
        for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
            let error = refusal(&mut agent, "s", method, &json!({"taskId": "t-1"}));
            assert_eq!(error["code"], -32601, "{version} {method}: {error}");
        }
        tell_status(&mut agent, "t-1", "completed");
        agent.expect_quiet();
        assert!(task_statuses(&daemon, "s").is_empty());
    }
}

#[test]
fn task_request_without_an_id_is_refused() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    for params in [json!({}), json!({"taskId": 7}), json!({"taskId": "a", "TaskId": "b"})] {
        assert_eq!(refusal(&mut agent, "s", "tasks/get", &params)["code"], -32602, "{params}");
    }
    agent.expect_quiet();
}

#[test]
fn server_waits_for_the_result_of_a_task_as_long_as_for_an_answer() {
    let own = Server::named("s").line("sharing = \"session\"").line("call_timeout_max = \"700ms\"");
    let daemon = Setup::with(own).start();
    let mut agent = capable_agent(&daemon);
    make(&mut agent, "s", "t-1");
    let call = start_question(&mut agent, "s", "tasks/result", &json!({"taskId": "t-1"}));
    let question = agent.expect_request("tasks/result");
    assert_eq!(code(&agent.answer(&call)), -31002);
    let cancelled = agent.expect_notification("notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    let refused = daemon.wait_journal("s", "\"error\"");
    assert!(refused.contains("-31002"), "{refused}");
}
