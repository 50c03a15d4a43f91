//! Task-only tools of a legacy server, called by modern agents.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, Setup, arguments, code, result, until};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const ELICIT: &str = "elicitation/create";

fn server() -> Server {
    Server::named("s").flags("--tasks --task-only build")
}

fn start() -> Daemon {
    Setup::with(server()).head("[profiles.other]").start()
}

fn socket(daemon: &Daemon, profile: &str) -> PathBuf {
    daemon.place().runtime_dir().join(format!("{profile}.sock"))
}

fn capabilities() -> Value {
    json!({"extensions": {EXTENSION: {}}, "elicitation": {}})
}

/// An agent that understands tasks.
fn connect(daemon: &Daemon) -> Agent {
    Agent::modern(daemon, &capabilities())
}

fn about(agent: &mut Agent, act: &str, id: &Value) -> Value {
    agent.request(&format!("tasks/{act}"), &json!({ "taskId": id }))
}

fn update(agent: &mut Agent, id: &Value, responses: &Value) -> Value {
    agent.request("tasks/update", &json!({"taskId": id, "inputResponses": responses}))
}

/// Has `build` make a task; the id that the agent is told.
#[track_caller]
fn made(agent: &mut Agent, arguments: &Value) -> Value {
    let answer = agent.call("s__build", arguments);
    assert_eq!(result(&answer)["resultType"], "task", "{answer}");
    result(&answer)["taskId"].clone()
}

/// Has the server end the task that it calls so.
fn finish(agent: &mut Agent, id: &str) {
    result(&agent.call("s__finish_task", &json!({ "id": id })));
}

/// Looks at a task until it is in this status, which may take the server a moment.
#[track_caller]
fn follow(agent: &mut Agent, id: &Value, status: &str) -> Value {
    for _ in 0..1000 {
        let state = about(agent, "get", id);
        if result(&state)["status"] == status {
            return result(&state).clone();
        }
    }
    panic!("it never is {status}");
}

fn request_count(daemon: &Daemon, method: &str) -> usize {
    daemon.journal("s").iter().filter(|line| line.contains(&format!("\"method\":\"{method}\""))).count()
}

#[test]
fn legacy_task_is_followed_to_its_result_on_any_connection() {
    let daemon = start();
    let mut maker = connect(&daemon);
    let answer = maker.call("s__build", &json!({"id": "t 1", "n": 7}));
    let (task, id) = (result(&answer), result(&answer)["taskId"].clone());
    assert_eq!(
        (&task["status"], &task["ttlMs"], &task["pollIntervalMs"]),
        (&json!("working"), &Value::Null, &json!(50))
    );
    assert_eq!((&task["task"], &task["ttl"]), (&Value::Null, &Value::Null), "nothing of the other era: {task}");
    assert_ne!(id, "t 1");
    drop(maker);
    let mut agent = connect(&daemon);
    let working = about(&mut agent, "get", &id);
    assert_eq!((&result(&working)["resultType"], &result(&working)["status"]), (&json!("complete"), &json!("working")));
    assert_eq!((&result(&working)["taskId"], &result(&working)["result"]), (&id, &Value::Null));
    finish(&mut agent, "t 1");
    let ended = about(&mut agent, "get", &id);
    assert_eq!((&result(&ended)["status"], &result(&ended)["taskId"]), (&json!("completed"), &id));
    let params = &result(&ended)["result"]["structuredContent"]["params"];
    assert_eq!((&params["arguments"]["n"], &params["task"]), (&json!(7), &json!({})));
    assert_eq!(result(&ended)["result"]["resultType"], "complete");
    assert_eq!(about(&mut agent, "get", &id)["result"], ended["result"], "it is to be had again");
}

#[test]
fn failed_tool_completes_its_task_and_failed_call_fails_it() {
    let daemon = start();
    let mut agent = connect(&daemon);
    for (end, status) in [("refusal", "completed"), ("error", "failed")] {
        for reported in ["completed", "failed"] {
            let id = made(&mut agent, &json!({"id": format!("{end} {reported}"), "end": end, "status": reported}));
            let state = about(&mut agent, "get", &id);
            assert_eq!(result(&state)["status"], status, "{state}");
            if end == "refusal" {
                assert_eq!(result(&state)["result"]["isError"], true);
            } else {
                let error = json!({"code": -32007, "message": "it broke", "data": {"zeta": 1.1}});
                assert_eq!(result(&state)["error"], error);
            }
        }
    }
}

#[test]
fn input_of_the_agent_is_sent_as_a_task_update() {
    let daemon = start();
    let mut maker = connect(&daemon);
    let asks = json!([
        {"method": ELICIT, "params": {"message": "Who?", "zeta": 1.5}},
        {"method": ELICIT, "params": {"message": "Why?"}},
    ]);
    let id = made(&mut maker, &json!({"id": "t", "asks": asks}));
    maker.disconnect();
    let mut agent = connect(&daemon);
    let state = follow(&mut agent, &id, "input_required");
    let inputs = state["inputRequests"].as_object().expect("they are there").clone();
    let input = |message: &str| {
        let found = inputs.iter().find(|(_, input)| input["params"]["message"] == message);
        found.map(|(key, input)| (key.clone(), input.clone())).expect("it is asked")
    };
    let ((who, first), (why, _)) = (input("Who?"), input("Why?"));
    assert_eq!(first, json!({"method": ELICIT, "params": {"message": "Who?", "zeta": 1.5}}), "nothing else is in it");
    let yes = json!({"action": "accept", "content": {"n": 1.5}});
    let done = update(&mut agent, &id, &json!({"nobody": {}, who.clone(): yes}));
    assert_eq!(result(&done), &json!({"resultType": "complete"}));
    let left = follow(&mut agent, &id, "input_required");
    assert_eq!(left["inputRequests"].as_object().map(|left| left.keys().collect::<Vec<_>>()), Some(vec![&why]));
    result(&update(&mut agent, &id, &json!({who: {"action": "decline"}, why: {"action": "cancel"}})));
    let ended = follow(&mut agent, &id, "completed");
    assert_eq!(ended["result"]["structuredContent"], json!([yes, {"action": "cancel"}]), "each is answered once");
    assert_eq!(code(&update(&mut agent, &id, &json!(7))), -32602);
    agent.expect_quiet();
}

#[test]
fn input_request_that_the_agent_does_not_support_is_refused() {
    let daemon = start();
    let mut agent = Agent::modern(&daemon, &json!({"extensions": {EXTENSION: {}}}));
    let asks = json!([{"method": ELICIT, "params": {"message": "Who?"}}]);
    let id = made(&mut agent, &json!({"id": "t", "asks": asks}));
    let ended = follow(&mut agent, &id, "completed");
    assert_eq!(ended["result"]["structuredContent"][0]["code"], -32601, "{ended}");
}

#[test]
fn cancelled_task_refuses_its_pending_input_requests() {
    let daemon = start();
    let mut agent = connect(&daemon);
    let asks = json!([{"method": ELICIT, "params": {"message": "Who?"}}]);
    let id = made(&mut agent, &json!({"id": "t", "asks": asks}));
    follow(&mut agent, &id, "input_required");
    for _ in 0..2 {
        assert_eq!(result(&about(&mut agent, "cancel", &id)), &json!({"resultType": "complete"}));
    }
    let state = about(&mut agent, "get", &id);
    assert_eq!((&result(&state)["status"], &result(&state)["inputRequests"]), (&json!("cancelled"), &Value::Null));
    let refused = |line: &String| line.contains("task-ask-") && line.contains("\"error\"");
    until("it is refused", || daemon.journal("s").iter().any(refused).then_some(()));
    let daemon = Setup::with(server().flags("--no-task-cancel")).start();
    let mut agent = connect(&daemon);
    let id = made(&mut agent, &json!({"id": "t"}));
    assert_eq!(code(&about(&mut agent, "cancel", &id)), -32602);
    assert_eq!(request_count(&daemon, "tasks/cancel"), 0);
}

#[test]
fn agent_without_task_support_receives_the_result_of_the_tool() {
    let daemon = start();
    let mut agent = Agent::modern(&daemon, &json!({}));
    let before = request_count(&daemon, "tools/call");
    let refused = agent.call("s__build", &json!({"id": "t"}));
    assert_eq!(code(&refused), -32021);
    assert_eq!(refused["error"]["data"], json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}}));
    assert_eq!(request_count(&daemon, "tools/call"), before, "the server receives nothing");
    assert_eq!(
        arguments(&connect(&daemon).call("s__echo", &json!({"n": 1})))["n"],
        1,
        "what may be either is answered"
    );
}

/// Case C15.
#[test]
fn task_is_unknown_to_other_profiles() {
    let daemon = start();
    let mut agent = connect(&daemon);
    let id = made(&mut agent, &json!({"id": "t"}));
    let mut other = Agent::connect_to(&socket(&daemon, "other"));
    other.speak_modern(&capabilities());
    let mut legacy = Agent::ready(&daemon);
    let mine = legacy.request("tools/call", &json!({"name": "s__build", "arguments": {"id": "u"}, "task": {}}));
    assert_eq!(result(&mine)["task"]["taskId"], "u");
    let taken = agent.call("s__build", &json!({"id": "u"}));
    assert_eq!(code(&taken), -32603, "an id that another one has: {taken}");
    let lines = daemon.journal("s").len();
    let text = id.as_str().expect("text");
    for act in ["get", "update", "cancel"] {
        assert_eq!(code(&about(&mut other, act, &id)), -32602, "{act}");
        for forged in [json!("t"), json!("u"), json!(format!("{text}u")), json!(text[1..])] {
            assert_eq!(code(&about(&mut agent, act, &forged)), -32602, "{act} {forged}");
        }
    }
    for act in ["get", "result", "cancel"] {
        for unknown in [&json!("t"), &id] {
            assert_eq!(code(&about(&mut legacy, act, unknown)), -32602, "{act} {unknown}");
        }
    }
    assert_eq!(daemon.journal("s").len(), lines, "the server receives nothing");
    assert_eq!(result(&about(&mut agent, "get", &id))["status"], "working");
}

/// Case B22.
#[test]
fn task_ends_with_its_server() {
    let daemon = start();
    let mut agent = connect(&daemon);
    let id = made(&mut agent, &json!({"id": "t", "mute": true}));
    let waiting = agent.start_request("tasks/get", &json!({ "taskId": id }));
    agent.call("s__die", &json!({}));
    assert_eq!(code(&agent.answer(&waiting)), -31001);
    result(&agent.call("s__echo", &json!({})));
    for act in ["get", "update", "cancel"] {
        let unknown = about(&mut agent, act, &id);
        let message = format!("Unknown task: {}", id.as_str().expect("text"));
        assert_eq!((code(&unknown), &unknown["error"]["message"]), (-32602, &json!(message)), "{act}");
    }
}

#[test]
fn task_that_the_server_has_forgotten_is_unknown() {
    let daemon = start();
    let mut agent = connect(&daemon);
    let id = made(&mut agent, &json!({"id": "t"}));
    result(&agent.call("s__forget_task", &json!({"id": "t"})));
    for _ in 0..2 {
        assert_eq!(code(&about(&mut agent, "get", &id)), -32602);
    }
    assert_eq!(request_count(&daemon, "tasks/get"), 1);
}

#[test]
fn task_is_cancelled_if_its_id_never_reaches_the_agent() {
    let daemon = start();
    let mut agent = connect(&daemon);
    let call = agent.start_call("s__build", &json!({"id": "t", "delay": 300}));
    daemon.wait_journal("s", "tools/call");
    agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}}));
    daemon.wait_journal("s", "tasks/cancel");
    agent.expect_quiet();
}

/// The next report of the subscription that has this status. Those before it are of the working task.
#[track_caller]
fn reported(agent: &mut Agent, subscription: &Value, status: &str) -> Value {
    loop {
        let params = agent.subscription_notification(subscription, "notifications/tasks");
        if params["status"] == status {
            return params;
        }
        assert_eq!(params["status"], "working", "{params}");
    }
}

#[test]
fn listening_agent_receives_the_state_of_a_legacy_task() {
    for quiet in [false, true] {
        let daemon = start();
        let mut agent = connect(&daemon);
        let id = made(&mut agent, &json!({"id": "t", "n": 7}));
        let (subscription, granted) = agent.listen(&json!({"taskIds": ["t", id]}));
        assert_eq!(granted, json!({"taskIds": [id]}));
        let working = reported(&mut agent, &subscription, "working");
        assert_eq!((&working["taskId"], &working["pollIntervalMs"]), (&id, &json!(50)));
        assert_eq!([&working["resultType"], &working["result"], &working["ttl"]], [&Value::Null; 3]);
        result(&agent.call("s__finish_task", &json!({"id": "t", "quiet": quiet})));
        let ended = reported(&mut agent, &subscription, "completed");
        assert_eq!((&ended["taskId"], &ended["resultType"]), (&id, &Value::Null));
        assert_eq!(ended["result"]["structuredContent"]["params"]["arguments"]["n"], 7);
        assert_eq!(ended["result"], result(&about(&mut agent, "get", &id))["result"]);
        agent.expect_quiet();
        // An agent that listens too late learns of the end all the same.
        let mut late = connect(&daemon);
        let (subscription, _) = late.listen(&json!({"taskIds": [id]}));
        assert_eq!(reported(&mut late, &subscription, "completed")["result"], ended["result"]);
        late.expect_quiet();
        agent.expect_quiet();
        [agent, late].into_iter().for_each(Agent::disconnect);
    }
}

#[test]
fn listening_agent_receives_the_failure_of_a_legacy_task() {
    let daemon = start();
    let mut agent = connect(&daemon);
    for (end, status) in [("refusal", "completed"), ("error", "failed")] {
        let id = made(&mut agent, &json!({"id": end, "end": end}));
        let (subscription, _) = agent.listen(&json!({"taskIds": [id]}));
        result(&agent.call("s__finish_task", &json!({"id": end, "status": "failed"})));
        let ended = reported(&mut agent, &subscription, status);
        if end == "refusal" {
            assert_eq!(ended["result"]["isError"], true, "{ended}");
        } else {
            assert_eq!(ended["error"]["code"], -32007, "{ended}");
        }
    }
    let id = made(&mut agent, &json!({"id": "t"}));
    let (subscription, _) = agent.listen(&json!({"taskIds": [id]}));
    result(&about(&mut agent, "cancel", &id));
    assert_eq!(reported(&mut agent, &subscription, "cancelled")["taskId"], id);
    agent.expect_quiet();
    agent.disconnect();
}

#[test]
fn listening_agent_receives_the_input_requests_of_a_legacy_task() {
    let daemon = start();
    let mut agent = connect(&daemon);
    let asks = json!([
        {"method": ELICIT, "params": {"message": "Who?"}},
        {"method": ELICIT, "params": {"message": "Why?"}},
    ]);
    let id = made(&mut agent, &json!({"id": "t", "asks": asks}));
    let (subscription, _) = agent.listen(&json!({"taskIds": [id]}));
    let inputs = loop {
        let state = reported(&mut agent, &subscription, "input_required");
        let inputs = state["inputRequests"].as_object().expect("they are there").clone();
        if inputs.len() == 2 {
            break inputs;
        }
    };
    assert!(inputs.values().all(|input| input["method"] == ELICIT && input["params"]["_meta"].is_null()));
    let responses: Value = inputs.keys().map(|key| (key.clone(), json!({"action": "decline"}))).collect();
    result(&update(&mut agent, &id, &responses));
    let ended = loop {
        let params = agent.subscription_notification(&subscription, "notifications/tasks");
        if params["status"] == "completed" {
            break params;
        }
    };
    assert_eq!(ended["result"]["structuredContent"], json!([{"action": "decline"}, {"action": "decline"}]));
    agent.expect_quiet();
    agent.disconnect();
}

/// Cases B22, C15.
#[test]
fn legacy_task_is_reported_only_to_its_profile() {
    let daemon = start();
    let mut agent = connect(&daemon);
    let id = made(&mut agent, &json!({"id": "t"}));
    let mut other = Agent::connect_to(&socket(&daemon, "other"));
    other.speak_modern(&capabilities());
    let (_, granted) = other.listen(&json!({"taskIds": [id]}));
    assert_eq!(granted, json!({}));
    assert_eq!(code(&agent.call("s__die", &json!({"how": "kill"}))), -31001);
    daemon.wait_row("s", "is up again", |row| row["state"] == "ready" && row["restarts"] == 1);
    // The new process has a task of the same id, for the other profile.
    let theirs = made(&mut other, &json!({"id": "t"}));
    agent.listen(&json!({"taskIds": [id]}));
    let (subscription, _) = other.listen(&json!({"taskIds": [theirs]}));
    assert_eq!(reported(&mut other, &subscription, "working")["taskId"], theirs);
    finish(&mut other, "t");
    assert_eq!(reported(&mut other, &subscription, "completed")["taskId"], theirs);
    agent.expect_quiet();
    // The task of a legacy agent is that agent's alone.
    let mut legacy = Agent::ready(&daemon);
    let call = json!({"name": "s__build", "arguments": {"id": "t"}, "task": {}});
    assert_eq!(result(&legacy.request("tools/call", &call))["task"]["taskId"], "t");
    agent.listen(&json!({"taskIds": [id]}));
    finish(&mut legacy, "t");
    assert_eq!(legacy.expect_notification("notifications/tasks/status")["params"]["status"], "completed");
    agent.expect_quiet();
    other.expect_quiet();
    [agent, other].into_iter().for_each(Agent::disconnect);
}

#[test]
fn refused_request_for_a_task_result_is_not_repeated() {
    let daemon = start();
    let mut agent = connect(&daemon);
    let id = made(&mut agent, &json!({"id": "t", "no_wait": true}));
    let (subscription, _) = agent.listen(&json!({"taskIds": [id]}));
    reported(&mut agent, &subscription, "working");
    until("the result is requested", || (request_count(&daemon, "tasks/result") == 1).then_some(()));
    finish(&mut agent, "t");
    reported(&mut agent, &subscription, "completed");
    assert_eq!(request_count(&daemon, "tasks/result"), 2, "one to wait, and one for the report");
    agent.disconnect();
}

#[test]
fn server_with_a_working_task_is_not_stopped_as_idle() {
    let lazy = server().line("start = \"lazy\"").line("idle_timeout = \"200ms\"");
    let clock = Server::named("clock").line("start = \"lazy\"").line("idle_timeout = \"400ms\"");
    let daemon = Setup::with(lazy).server(clock).start();
    let wait = |server: &str, expected: &str| drop(daemon.wait_row(server, expected, |row| row["state"] == expected));
    wait("s", "idle");
    let id = made(&mut connect(&daemon), &json!({"id": "t"}));
    let mut agent = connect(&daemon);
    result(&agent.call("clock__echo", &json!({})));
    wait("clock", "idle");
    assert_eq!(result(&about(&mut agent, "get", &id))["status"], "working");
    finish(&mut agent, "t");
    assert_eq!(result(&about(&mut agent, "get", &id))["status"], "completed");
    wait("s", "idle");
    assert_eq!(code(&about(&mut agent, "get", &id)), -32602);
    assert_eq!(daemon.row("s")["state"], "idle", "nobody wakes it for what is gone");
}

#[test]
fn task_outlives_the_agent_that_started_its_instance() {
    let daemon = Setup::with(server().line("sharing = \"session\"").line("idle_timeout = \"200ms\"")).start();
    let mut maker = connect(&daemon);
    maker.tools();
    let id = made(&mut maker, &json!({"id": "t"}));
    maker.disconnect();
    let mut agent = connect(&daemon);
    assert_eq!(result(&about(&mut agent, "get", &id))["status"], "working");
    result(&about(&mut agent, "cancel", &id));
    until("its instance has ended", || (about(&mut agent, "get", &id)["error"]["code"] == -32602).then_some(()));
}
