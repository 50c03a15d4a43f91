//! Tasks of a modern server for a legacy agent.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, Place, Setup, arguments, code, result, until};

pub(super) const RELATED: &str = "io.modelcontextprotocol/related-task";
pub(super) const ELICIT: &str = "elicitation/create";
const STATUS: &str = "notifications/tasks/status";

pub(super) fn start() -> Daemon {
    Setup::with(Era::Modern.server("s").flags("--tasks")).start()
}

pub(super) fn capable_agent(daemon: &Daemon) -> Agent {
    Agent::with_capabilities(daemon, &json!({"sampling": {}, "elicitation": {"form": {}}, "roots": {}}))
}

/// Calls a tool and asks for a task that is kept so long.
fn create(agent: &mut Agent, tool: &str, arguments: &Value, ttl: &Value) -> Value {
    agent.request("tools/call", &json!({"name": tool, "arguments": arguments, "task": {"ttl": ttl}}))
}

/// Has the server make the task `id`, and gives what the agent is told of it. Only the tool `touch` has the server report its status.
#[track_caller]
fn made(agent: &mut Agent, id: &str, more: &Value) -> Value {
    let mut arguments = json!({"as_task": true, "id": id, "silent": true});
    arguments.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let answer = create(agent, "s__echo", &arguments, &Value::Null);
    let task = &result(&answer)["task"];
    assert_eq!((&task["taskId"], &result(&answer)["resultType"]), (&json!(id), &Value::Null), "{answer}");
    task.clone()
}

/// Has a tool answer at once; the task that the agent is told of all the same.
#[track_caller]
fn made_up(agent: &mut Agent, tool: &str, ttl: &Value) -> Value {
    let answer = create(agent, tool, &json!({"n": 1}), ttl);
    result(&answer)["task"].clone()
}

pub(super) fn ask(agent: &mut Agent, act: &str, id: &Value) -> Value {
    agent.request(&format!("tasks/{act}"), &json!({ "taskId": id }))
}

fn start_waiting(agent: &mut Agent, id: &str) -> Value {
    agent.start_request("tasks/result", &json!({ "taskId": id }))
}

pub(super) fn finish(agent: &mut Agent, id: &str, status: &str) {
    arguments(&agent.call("s__finish_task", &json!({"id": id, "status": status, "quiet": true})));
}

pub(super) fn listed(agent: &mut Agent) -> Vec<Value> {
    result(&agent.request("tasks/list", &json!({})))["tasks"].as_array().expect("a list").clone()
}

/// How often the server was sent this about the task.
pub(super) fn request_count(daemon: &Daemon, method: &str, id: &str) -> usize {
    let (method, id) = (format!("\"{method}\""), format!("\"taskId\":\"{id}\""));
    daemon.journal("s").iter().filter(|line| line.contains(&method) && line.contains(&id)).count()
}

#[test]
fn task_is_created_polled_and_awaited() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    let task = made(&mut agent, "t", &json!({"a": 1.5}));
    assert_eq!((&task["status"], &task["pollInterval"], &task["ttl"]), (&json!("working"), &json!(50), &Value::Null));
    assert_eq!(
        (&task["pollIntervalMs"], task.as_object().expect("an object").contains_key("ttl")),
        (&Value::Null, true)
    );
    let state = ask(&mut agent, "get", &json!("t"));
    assert_eq!((&result(&state)["status"], &result(&state)["zeta"]), (&json!("working"), &json!(1.10)));
    assert_eq!((&result(&state)["resultType"], &result(&state)["ttlMs"]), (&Value::Null, &Value::Null));
    assert_eq!(listed(&mut agent), [result(&state).clone()]);
    let waiting = start_waiting(&mut agent, "t");
    until("it is looked at again and again", || (request_count(&daemon, "tasks/get", "t") > 4).then_some(()));
    finish(&mut agent, "t", "completed");
    let ended = agent.answer(&waiting);
    assert_eq!(arguments(&ended)["a"], 1.5);
    assert_eq!(result(&ended)["_meta"][RELATED], json!({"taskId": "t"}));
    assert_eq!(result(&ended)["resultType"], Value::Null);
    let state = ask(&mut agent, "get", &json!("t"));
    assert_eq!((&result(&state)["status"], &result(&state)["result"]), (&json!("completed"), &Value::Null));
    assert_eq!(arguments(&ask(&mut agent, "result", &json!("t")))["a"], 1.5, "it is to be had again");
    assert_eq!(request_count(&daemon, "tasks/result", "t") + request_count(&daemon, "tasks/list", "t"), 0);
    agent.expect_quiet();
}

/// Has the server say how its tasks are.
fn touch(agent: &mut Agent, id: &str) {
    arguments(&agent.call("s__touch", &json!({"tasks": [id]})));
}

/// Waits until mcpd has subscribed to exactly these tasks.
fn wait_listen(daemon: &Daemon, ids: &[&str]) {
    daemon.wait_journal("s", &format!("\"taskIds\":{}", json!(ids)));
}

#[test]
fn legacy_agent_receives_the_status_of_its_task() {
    for sharing in ["shared", "session"] {
        let server = Era::Modern.server("s").flags("--tasks").line(format!("sharing = \"{sharing}\""));
        let daemon = Setup::with(server).start();
        let (mut agent, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
        for agent in [&mut agent, &mut other] {
            agent.tools();
        }
        made(&mut agent, "t", &json!({}));
        wait_listen(&daemon, &["t"]);
        touch(&mut agent, "t");
        let status = &agent.expect_notification(STATUS)["params"];
        assert_eq!((&status["taskId"], &status["status"]), (&json!("t"), &json!("working")));
        assert_eq!((&status["pollInterval"], &status["zeta"]), (&json!(50), &json!(1.10)), "{status}");
        assert_eq!([&status["_meta"], &status["ttlMs"], &status["pollIntervalMs"]], [&Value::Null; 3], "{status}");
        finish(&mut agent, "t", "completed");
        touch(&mut agent, "t");
        let status = &agent.expect_notification(STATUS)["params"];
        assert_eq!((&status["status"], &status["result"]), (&json!("completed"), &Value::Null));
        assert_eq!(&listed(&mut agent)[0], status, "it is the state that is known");
        touch(&mut agent, "t");
        // The next task replaces it in the subscription.
        made(&mut agent, "u", &json!({"fail": true}));
        wait_listen(&daemon, &["u"]);
        finish(&mut agent, "u", "completed");
        touch(&mut agent, "u");
        assert_eq!(agent.expect_notification(STATUS)["params"]["status"], "failed", "as in its version");
        agent.expect_quiet();
        other.expect_quiet();
    }
}

#[test]
fn status_ends_the_wait_of_a_legacy_agent() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    made(&mut agent, "t", &json!({"ask": true, "poll_ms": 60_000, "silent": false}));
    wait_listen(&daemon, &["t"]);
    let waiting = start_waiting(&mut agent, "t");
    let question = agent.expect_request(ELICIT);
    agent.respond(&question, &json!({"action": "decline"}));
    // The answer of the agent completes the task, which the server reports.
    assert_eq!(result(&agent.answer(&waiting))["structuredContent"], json!({"who": {"action": "decline"}}));
    assert_eq!(agent.expect_notification(STATUS)["params"]["status"], "completed");
    agent.expect_quiet();
}

/// Case C15.
#[test]
fn status_of_a_legacy_agents_task_reaches_nobody_else() {
    let daemon = start();
    let mut modern = Agent::modern(&daemon, &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let theirs = modern.call("s__echo", &json!({"as_task": true, "id": "theirs"}));
    let (subscription, _) = modern.listen(&json!({"taskIds": [result(&theirs)["taskId"]]}));
    wait_listen(&daemon, &["theirs"]);
    let (mut agent, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    made(&mut agent, "t", &json!({}));
    wait_listen(&daemon, &["t", "theirs"]);
    touch(&mut other, "t");
    assert_eq!(agent.expect_notification(STATUS)["params"]["taskId"], "t");
    let taken = create(&mut agent, "s__echo", &json!({"as_task": true, "id": "theirs"}), &Value::Null);
    assert_eq!(code(&taken), -32603, "an id that another one has: {taken}");
    touch(&mut other, "theirs");
    assert_eq!(modern.subscription_notification(&subscription, "notifications/tasks")["status"], "working");
    daemon.client(&["disable", "s/echo"]).expect_code(0);
    touch(&mut other, "t");
    for quiet in [&mut agent, &mut other, &mut modern] {
        quiet.discard_notifications("notifications/tools/list_changed");
        quiet.expect_quiet();
        quiet.discard_notifications("notifications/tools/list_changed");
    }
    daemon.client(&["enable", "s/echo"]).expect_code(0);
    agent.disconnect();
    until("the task is cancelled", || (request_count(&daemon, "tasks/cancel", "t") == 1).then_some(()));
    touch(&mut other, "t");
    modern.expect_quiet();
    modern.disconnect();
}

#[test]
fn each_task_request_names_its_client_to_the_server() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    made(&mut agent, "t", &json!({"ask": true}));
    let waiting = start_waiting(&mut agent, "t");
    let question = agent.expect_request(ELICIT);
    agent.respond(&question, &json!({"action": "decline"}));
    result(&agent.answer(&waiting));
    ask(&mut agent, "cancel", &json!("t"));
    let journal = daemon.journal("s");
    for method in ["tools/call", "tasks/get", "tasks/update", "tasks/cancel"] {
        let line = journal.iter().find(|line| line.contains(&format!("\"{method}\""))).expect(method);
        let meta = &serde_json::from_str::<Value>(line).expect("JSON")["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test-agent", "{method}");
        let capable_agent = &meta["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(
            (&capable_agent["sampling"], &capable_agent["extensions"]["io.modelcontextprotocol/tasks"]),
            (&json!({}), &json!({}))
        );
    }
}

#[test]
fn agent_with_task_support_sees_which_tools_create_tasks() {
    let place = Place::new();
    let listing = place.write("tools.json", r#"{"tools":[{"name":"echo","inputSchema":{}}]}"#);
    let server = |name| Era::Modern.server(name).arg("--tool-list").arg(&listing);
    let daemon = Setup::with(server("s").flags("--tasks")).server(server("plain")).start_in(&place);
    let task_support = |agent: &mut Agent, tool: &str| {
        let tools = result(&agent.request("tools/list", &json!({})))["tools"].clone();
        let tool = tools.as_array().expect("a list").iter().find(|found| found["name"] == tool).expect("it is listed");
        tool["execution"].clone()
    };
    let mut agent = Agent::ready(&daemon);
    let optional = json!({"taskSupport": "optional"});
    assert_eq!([task_support(&mut agent, "s__echo"), task_support(&mut agent, "plain__echo")], [optional, Value::Null]);
    let mut older = Agent::connect(&daemon);
    result(&older.initialize("2025-06-18"));
    for agent in [&mut older, &mut Agent::modern(&daemon, &json!({}))] {
        assert_eq!(task_support(agent, "s__echo"), Value::Null);
    }
}

#[test]
fn call_without_a_task_request_creates_no_task() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    let answer = agent.call("s__echo", &json!({"as_task": true, "id": "t"}));
    assert_eq!(arguments(&answer)["id"], "t");
    assert!(listed(&mut agent).is_empty());
}

#[test]
fn immediate_result_becomes_a_completed_task() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    let task = made_up(&mut agent, "s__echo", &json!(90_000));
    assert_eq!((&task["status"], &task["ttl"]), (&json!("completed"), &json!(90_000)));
    assert!(task["createdAt"].is_string() && task["createdAt"] == task["lastUpdatedAt"]);
    let id = &task["taskId"];
    assert_eq!(result(&ask(&mut agent, "get", id)), &task);
    assert_eq!(listed(&mut agent)[0], task);
    for _ in 0..2 {
        let ended = ask(&mut agent, "result", id);
        assert_eq!((&arguments(&ended)["n"], &result(&ended)["_meta"][RELATED]["taskId"]), (&json!(1), id));
        assert_eq!(result(&ended)["resultType"], Value::Null);
    }
    assert_eq!(code(&ask(&mut agent, "cancel", id)), -32602);
    assert!(!daemon.journal("s").iter().any(|line| line.contains("tasks/")), "the server knows of no task");
    let other = made_up(&mut agent, "s__refuse", &Value::Null);
    assert_eq!((&other["status"], &other["ttl"]), (&json!("failed"), &json!(300_000)));
    assert_eq!(result(&ask(&mut agent, "result", &other["taskId"]))["isError"], true);
    assert_ne!(&other["taskId"], id);
    let refused = create(&mut agent, "s__fail", &json!({"code": -32050, "message": "no"}), &Value::Null);
    assert_eq!((code(&refused), listed(&mut agent).len()), (-32050, 2), "an error makes no task");
}

#[test]
fn immediate_result_is_cached_for_its_ttl() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    let short = made_up(&mut agent, "s__echo", &json!(1));
    let long = made_up(&mut agent, "s__echo", &json!(60_000));
    until("it is over", || (ask(&mut agent, "get", &short["taskId"])["error"]["code"] == -32602).then_some(()));
    assert_eq!(code(&ask(&mut agent, "result", &short["taskId"])), -32602);
    assert_eq!(listed(&mut agent), [long]);
}

/// Case C15.
#[test]
fn task_is_unknown_to_other_agents() {
    let daemon = start();
    let (mut agent, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    made(&mut agent, "t", &json!({}));
    let unsupported = made_up(&mut agent, "s__echo", &Value::Null)["taskId"].clone();
    let lines = daemon.journal("s").len();
    for id in [&json!("t"), &unsupported] {
        for act in ["get", "result", "cancel"] {
            let message = format!("Unknown task: {}", id.as_str().expect("text"));
            assert_eq!(ask(&mut other, act, id)["error"], json!({"code": -32602, "message": message}), "{act}");
        }
    }
    assert!(listed(&mut other).is_empty());
    assert_eq!(daemon.journal("s").len(), lines, "the server hears nothing of it");
}

#[test]
fn input_request_of_a_task_reaches_the_waiting_agent() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    let inputs = json!({
        "q": {"method": ELICIT, "params": {"message": "q?", "_meta": {"x": 1}}},
        "r": {"method": "roots/list"},
    });
    let task = made(&mut agent, "t", &json!({ "ask": inputs }));
    assert_eq!(task["status"], "input_required");
    assert_eq!(result(&ask(&mut agent, "get", &json!("t")))["inputRequests"], Value::Null);
    let waiting = start_waiting(&mut agent, "t");
    let (question, roots) = (agent.expect_request(ELICIT), agent.expect_request("roots/list"));
    assert_eq!(question["params"], json!({"message": "q?", "_meta": {"x": 1, RELATED: {"taskId": "t"}}}));
    assert_eq!(roots["params"], json!({"_meta": {RELATED: {"taskId": "t"}}}));
    agent.respond(&question, &json!({"action": "accept", "content": {"n": 1.5}}));
    let before = request_count(&daemon, "tasks/get", "t");
    until("it is looked at again", || (request_count(&daemon, "tasks/get", "t") > before + 2).then_some(()));
    assert_eq!(request_count(&daemon, "tasks/update", "t"), 0, "the server need not take a part");
    agent.respond(&roots, &json!({"roots": []}));
    let ended = agent.answer(&waiting);
    let task_support = &result(&ended)["structuredContent"];
    assert_eq!(task_support, &json!({"q": {"action": "accept", "content": {"n": 1.5}}, "r": {"roots": []}}));
    assert_eq!(request_count(&daemon, "tasks/update", "t"), 1);
    agent.expect_quiet();
}

/// Case J11.
#[test]
fn agent_that_answers_with_an_error_receives_the_request_again_at_its_next_wait() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    made(&mut agent, "t", &json!({"ask": true}));
    let waiting = start_waiting(&mut agent, "t");
    let question = agent.expect_request(ELICIT);
    agent.send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "not today"}}));
    let answer = agent.answer(&waiting);
    assert!(answer["error"]["message"].as_str().is_some_and(|why| why.contains("not today")), "{answer}");
    let waiting = start_waiting(&mut agent, "t");
    let question = agent.expect_request(ELICIT);
    agent.respond(&question, &json!({"action": "cancel"}));
    assert_eq!(result(&agent.answer(&waiting))["structuredContent"], json!({"who": {"action": "cancel"}}));
    // One that cannot be asked is told so.
    let mut unable = Agent::ready(&daemon);
    made(&mut unable, "u", &json!({"ask": true}));
    assert_eq!(code(&ask(&mut unable, "result", &json!("u"))), -32603);
}

/// Case J11.
#[test]
fn server_that_refuses_the_input_ends_the_wait() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    made(&mut agent, "t", &json!({"ask": true, "deaf": true}));
    let waiting = start_waiting(&mut agent, "t");
    let question = agent.expect_request(ELICIT);
    agent.respond(&question, &json!({"action": "cancel"}));
    assert_eq!(code(&agent.answer(&waiting)), -32603);
    agent.expect_quiet();
}

/// Case J11.
#[test]
fn completed_task_has_no_pending_input_requests() {
    let daemon = start();
    let mut agent = capable_agent(&daemon);
    made(&mut agent, "t", &json!({"ask": true}));
    let waiting = start_waiting(&mut agent, "t");
    let question = agent.expect_request(ELICIT);
    finish(&mut agent, "t", "completed");
    result(&agent.answer(&waiting));
    let taken_back = agent.expect_notification("notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
}

#[test]
fn task_end_is_reported_in_the_form_of_the_agents_era() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    made(&mut agent, "tool", &json!({"fail": true}));
    finish(&mut agent, "tool", "completed");
    assert_eq!(result(&ask(&mut agent, "get", &json!("tool")))["status"], "failed");
    assert_eq!(result(&ask(&mut agent, "result", &json!("tool")))["isError"], true);
    made(&mut agent, "broken", &json!({}));
    finish(&mut agent, "broken", "failed");
    let state = ask(&mut agent, "get", &json!("broken"));
    assert_eq!((&result(&state)["status"], &result(&state)["error"]), (&json!("failed"), &Value::Null));
    let error = json!({"code": -32050, "message": "it broke", "data": {"n": 1.10}});
    assert_eq!(ask(&mut agent, "result", &json!("broken"))["error"], error);
}

#[test]
fn cancelled_task_ends_pending_waits() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    made(&mut agent, "t", &json!({}));
    let waiting = start_waiting(&mut agent, "t");
    let cancelled = ask(&mut agent, "cancel", &json!("t"));
    assert_eq!((&result(&cancelled)["taskId"], &result(&cancelled)["status"]), (&json!("t"), &json!("cancelled")));
    assert_eq!(code(&agent.answer(&waiting)), -32603);
    made(&mut agent, "stubborn", &json!({"ignore_cancel": true}));
    assert_eq!(result(&ask(&mut agent, "cancel", &json!("stubborn")))["status"], "working", "it is what is true");
    made(&mut agent, "over", &json!({"ignore_cancel": true}));
    finish(&mut agent, "over", "completed");
    assert_eq!(code(&ask(&mut agent, "cancel", &json!("over"))), -32602);
}

#[test]
fn cancelled_wait_leaves_the_task_running() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    made(&mut agent, "t", &json!({}));
    let waiting = start_waiting(&mut agent, "t");
    until("it is looked at", || (request_count(&daemon, "tasks/get", "t") > 2).then_some(()));
    agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}}));
    agent.expect_quiet();
    assert_eq!(request_count(&daemon, "tasks/cancel", "t"), 0);
    finish(&mut agent, "t", "completed");
    result(&ask(&mut agent, "result", &json!("t")));
    agent.expect_quiet();
}

/// Case B22.
#[test]
fn end_of_the_server_ends_the_wait_for_its_task() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    made(&mut agent, "t", &json!({}));
    let waiting = start_waiting(&mut agent, "t");
    arguments(&agent.call("s__forget_task", &json!({"id": "t"})));
    assert_eq!(code(&agent.answer(&waiting)), -32602);
    assert_eq!(code(&ask(&mut agent, "get", &json!("t"))), -32602);
    made(&mut agent, "u", &json!({}));
    let waiting = start_waiting(&mut agent, "u");
    until("it is looked at", || (request_count(&daemon, "tasks/get", "u") > 1).then_some(()));
    agent.call("s__die", &json!({"how": "kill"}));
    assert!(agent.answer(&waiting)["error"].is_object());
    assert_eq!(code(&ask(&mut agent, "get", &json!("u"))), -32602, "it has gone with its instance");
}

/// Case B22.
#[test]
fn tasks_of_a_disconnected_agent_are_cancelled() {
    let daemon = start();
    let mut agent = Agent::ready(&daemon);
    made(&mut agent, "t", &json!({}));
    agent.disconnect();
    until("it is cancelled", || (request_count(&daemon, "tasks/cancel", "t") == 1).then_some(()));
    let journal = daemon.journal("s");
    let line = journal.iter().find(|line| line.contains("tasks/cancel")).expect("it was sent");
    assert!(line.contains("io.modelcontextprotocol/protocolVersion") && line.contains("extensions"), "{line}");
}
