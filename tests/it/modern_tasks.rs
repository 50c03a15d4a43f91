//! Modern tasks belong to their profile: any connection to the profile that has the id may use the task.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, Server, Setup, arguments, code, meta, plain, result, until};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn start() -> Daemon {
    let head = "[profiles.other]\n[profiles.narrow]\ndeny = ['s/echo']";
    Setup::with(Server::named("s").flags("--era modern --tasks")).head(head).start()
}

/// A request of a client that understands tasks.
fn ask(agent: &mut Agent, method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = Value::Object(meta(&json!({"extensions": {EXTENSION: {}}})));
    agent.request(method, &params)
}

fn about(agent: &mut Agent, act: &str, id: &Value) -> Value {
    ask(agent, &format!("tasks/{act}"), &json!({"taskId": id, "inputResponses": {"who": {"action": "accept"}}}))
}

/// Has `echo` make the task `id`; the id that the agent is told.
#[track_caller]
fn create_task(agent: &mut Agent, id: &str) -> Value {
    let arguments = json!({"as_task": true, "id": id, "ask": true});
    let answer = ask(agent, "tools/call", &json!({"name": "s__echo", "arguments": arguments}));
    assert_eq!(
        (&result(&answer)["resultType"], &result(&answer)["status"]),
        (&json!("task"), &json!("input_required"))
    );
    result(&answer)["taskId"].clone()
}

#[test]
fn modern_task_is_followed_to_its_end_on_any_connection() {
    let daemon = start();
    let id = create_task(&mut Agent::connect(&daemon), "a.b \"c");
    let mut agent = Agent::connect(&daemon);
    let waiting = about(&mut agent, "get", &id);
    assert_eq!((&result(&waiting)["taskId"], &result(&waiting)["resultType"]), (&id, &json!("complete")));
    assert_eq!(result(&waiting)["inputRequests"]["who"]["method"], "elicitation/create");
    assert_eq!(plain(result(&about(&mut agent, "update", &id))), json!({}));
    let ended = about(&mut agent, "get", &id);
    assert_eq!((&result(&ended)["taskId"], &result(&ended)["status"]), (&id, &json!("completed")));
    assert_eq!(result(&ended)["result"]["structuredContent"], json!({"who": {"action": "accept"}}));
    let journal = daemon.journal("s").join("\n");
    assert_eq!(journal.matches(r#""taskId":"a.b \"c""#).count(), 3, "the server knows its own id: {journal}");
    let other = create_task(&mut agent, "other");
    assert_eq!(plain(result(&about(&mut agent, "cancel", &other))), json!({}));
    assert_eq!(result(&about(&mut agent, "get", &other))["status"], "cancelled");
}

#[test]
fn only_the_id_of_a_task_is_altered() {
    let daemon = start();
    let mut agent = Agent::connect(&daemon);
    let id = create_task(&mut agent, "t");
    let answer = ask(&mut agent, "tasks/get", &json!({"taskId": id, "x-n": 1.10}));
    assert_eq!(result(&answer)["zeta"], 1.1);
    let arguments = json!({"as_task": true, "id": "u"});
    let params =
        json!({"name": "s__echo", "arguments": arguments, "_meta": meta(&json!({"extensions": {EXTENSION: {}}}))});
    agent.start_request("tools/call", &params);
    let line = agent.next_line().expect("an answer");
    let rest = r#","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":50}"#;
    assert!(line.contains(r#""zeta":1.10,"taskId":""#) && line.contains(rest), "{line}");
}

#[test]
fn task_is_unknown_to_other_profiles() {
    let daemon = start();
    let id = create_task(&mut Agent::connect(&daemon), "t");
    let text = id.as_str().expect("text");
    let lines = daemon.journal("s").len();
    for profile in ["other", "narrow"] {
        assert_eq!(
            code(&about(&mut Agent::connect_to(&daemon.profile_socket(profile)), "get", &id)),
            -32602,
            "{profile}"
        );
    }
    let mut agent = Agent::connect(&daemon);
    for forged in ["t".to_owned(), format!("{text}u"), text[1..].to_owned(), text.replace(".echo.", ".fail.")] {
        for act in ["get", "update", "cancel"] {
            let answer = about(&mut agent, act, &json!(forged));
            let message = format!("Unknown task: {forged}");
            assert_eq!((code(&answer), &answer["error"]["message"]), (-32602, &json!(message)));
        }
    }
    let undeclared = agent.request("tasks/get", &json!({"taskId": id, "_meta": meta(&json!({}))}));
    assert_eq!(code(&undeclared), -32021);
    assert_eq!(undeclared["error"]["data"], json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}}));
    assert_eq!(daemon.journal("s").len(), lines, "the server hears nothing of it");
    for gone in ["tasks/list", "tasks/result"] {
        assert_eq!(code(&ask(&mut agent, gone, &json!({ "taskId": id }))), -32601, "{gone}");
    }
}

#[test]
fn task_is_used_through_faces_and_the_aggregate() {
    // The name of the second tool begins with the first, and its end could be the tag of an instance.
    let server = Server::named("s").flags("--era modern --tasks --bare --tool build --tool build.1");
    let daemon = Setup::with(server).start();
    let (mut face, mut all) = (Era::Modern.agent_at_face(&daemon, "s"), Agent::connect(&daemon));
    let exposed = result(&ask(&mut all, "tools/list", &json!({})))["tools"].as_array().expect("a list").clone();
    for (index, own) in ["build", "build.1"].into_iter().enumerate() {
        let wants = |name: &Value, id: &str| json!({"name": name, "arguments": {"as_task": true, "id": id}});
        let [first, second] = [format!("{index} face"), format!("{index} all")];
        let of_face = ask(&mut face, "tools/call", &wants(&json!(own), &first));
        let of_all = ask(&mut all, "tools/call", &wants(&exposed[index]["name"], &second));
        for task in [&of_face, &of_all].map(|made| &result(made)["taskId"]) {
            for agent in [&mut face, &mut all] {
                assert_eq!(result(&about(agent, "get", task))["taskId"], *task, "{own}");
            }
        }
    }
}

/// Case B22.
#[test]
fn task_id_is_unambiguous_for_tool_names_with_dots_and_tags() {
    let tricky = Server::named("tricky").flags("--era modern --tasks --bare --tool s__echo");
    let daemon = Setup::with(Server::named("s").flags("--era modern --tasks")).server(tricky).start();
    let mut agent = Agent::connect(&daemon);
    create_task(&mut agent, "t");
    let mut face = Era::Modern.agent_at_face(&daemon, "tricky");
    let wants = json!({"name": "s__echo", "arguments": {"as_task": true, "id": "t"}});
    let id = result(&ask(&mut face, "tools/call", &wants))["taskId"].clone();
    assert_eq!(result(&about(&mut agent, "get", &id))["status"], "working", "it is the task of `tricky`");
    assert!(!daemon.journal("s").iter().any(|line| line.contains("tasks/get")));
}

#[test]
fn agents_see_the_task_extension_if_a_server_offers_it() {
    for (flags, expected) in
        [("--era modern --tasks", true), ("--era modern", false), ("--tasks", false), ("--bare", false)]
    {
        for sharing in ["shared", "pool"] {
            let server = Server::named("s").flags(flags).line(format!("sharing = \"{sharing}\""));
            let daemon = Setup::with(server).start();
            let mut agent = Agent::connect(&daemon);
            ask(&mut agent, "tools/list", &json!({}));
            let found = ask(&mut agent, "server/discover", &json!({}));
            let extensions = &result(&found)["capabilities"]["extensions"];
            assert_eq!(extensions[EXTENSION].is_object(), expected, "{flags} {sharing}: {found}");
        }
    }
}

#[test]
fn agent_without_the_task_extension_receives_the_result_directly() {
    let daemon = start();
    let wants = json!({"name": "s__echo", "arguments": {"as_task": true, "id": "t"}, "task": {"ttl": 5}});
    let mut plain = wants.clone();
    plain["_meta"] = Value::Object(meta(&json!({})));
    assert_eq!(arguments(&Agent::connect(&daemon).request("tools/call", &plain))["id"], "t");
}

/// How many instances `s` has.
fn instances(daemon: &Daemon) -> Option<usize> {
    daemon.row("s")["instances"].as_array().map(Vec::len)
}

#[test]
fn task_is_requested_at_the_instance_that_created_it() {
    let wants = json!({"name": "s__echo", "arguments": {"as_task": true, "id": "second", "ask": true}});
    let pool = Server::named("s").flags("--era modern --tasks").line("sharing = \"pool\"");
    let daemon = Setup::with(pool.line("idle_timeout = \"200ms\"")).start();
    let [mut one, mut other] = [(); 2].map(|()| Agent::modern(&daemon, &json!({"extensions": {EXTENSION: {}}})));
    let gate = daemon.gate();
    let busy = one.start_call("s__sleep", &gate.arguments());
    daemon.wait_at_gate("s", &gate);
    let id = result(&other.request("tools/call", &wants))["taskId"].clone();
    gate.open();
    arguments(&one.answer(&busy));
    let clock = one.start_call("s__sleep", &json!({"ms": 1500}));
    one.answer(&clock);
    assert_eq!(instances(&daemon), Some(2), "it is kept for its task");
    for agent in [&mut one, &mut other] {
        assert_eq!(result(&about(agent, "get", &id))["status"], "input_required");
    }
    assert_eq!(plain(result(&about(&mut one, "update", &id))), json!({}));
    assert_eq!(result(&about(&mut one, "get", &id))["status"], "completed");
    daemon.wait_row("s", "has one instance", |row| row["instances"].as_array().map(Vec::len) == Some(1));
    let gone = about(&mut one, "get", &id);
    assert_eq!(
        (code(&gone), &gone["error"]["message"]),
        (-32602, &json!(format!("Unknown task: {}", id.as_str().expect("text"))))
    );
}

#[test]
fn task_outlives_the_agent_that_started_its_instance() {
    for sharing in ["session", "workspace"] {
        let server = Server::named("s").flags("--era modern --tasks").line(format!("sharing = \"{sharing}\""));
        let daemon = Setup::with(server.line("idle_timeout = \"200ms\"")).start();
        let mut one = Agent::connect(&daemon);
        let id = create_task(&mut one, "t");
        one.disconnect();
        let mut other = Agent::connect(&daemon);
        assert_eq!(result(&about(&mut other, "get", &id))["status"], "input_required", "{sharing}");
        assert_eq!(plain(result(&about(&mut other, "cancel", &id))), json!({}));
        assert_eq!(result(&about(&mut other, "get", &id))["status"], "cancelled");
        other.disconnect();
        until("the instance has ended", || (instances(&daemon) == Some(1)).then_some(()));
        assert_eq!(code(&about(&mut Agent::connect(&daemon), "get", &id)), -32602, "{sharing}");
    }
}

#[test]
fn lazy_server_stays_up_for_a_modern_task() {
    let lazy =
        Server::named("s").flags("--era modern --tasks").line("start = \"lazy\"").line("idle_timeout = \"200ms\"");
    let clock = Server::named("clock").line("start = \"lazy\"").line("idle_timeout = \"600ms\"");
    let daemon = Setup::with(lazy).server(clock).start();
    let wait = |server: &str, expected: &str| drop(daemon.wait_row(server, expected, |row| row["state"] == expected));
    wait("s", "idle");
    let mut agent = Agent::connect(&daemon);
    let id = create_task(&mut agent, "t");
    agent.disconnect();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("clock__echo", &json!({})));
    wait("clock", "idle");
    assert_eq!(daemon.row("s")["state"], "ready", "it is at the task");
    let mut agent = Agent::connect(&daemon);
    assert_eq!(plain(result(&about(&mut agent, "update", &id))), json!({}));
    assert_eq!(result(&about(&mut agent, "get", &id))["status"], "completed");
    wait("s", "idle");
}
