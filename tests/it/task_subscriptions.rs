//! Subscribers to a modern task receive its status under the id that they know.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, SUBSCRIPTION, Server, Setup, Shim, arguments, code, result, until};

const TASK_NOTIFICATION: &str = "notifications/tasks";

fn capabilities() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

fn server() -> Server {
    Server::named("s").flags("--era modern --tasks")
}

fn start() -> Daemon {
    Setup::with(server()).head("[profiles.other]\n[profiles.narrow]\ndeny = ['s/echo']").start()
}

fn connect(daemon: &Daemon) -> Agent {
    Agent::modern(daemon, &capabilities())
}

/// Has `echo` make the task `id`, which waits for an answer; the id that the agent is told.
#[track_caller]
fn create_task(agent: &mut Agent, id: &str) -> Value {
    let answer = agent.call("s__echo", &json!({"as_task": true, "id": id, "ask": true}));
    result(&answer)["taskId"].clone()
}

/// Has the server say how its tasks are.
fn touch(agent: &mut Agent, tasks: &[&str]) {
    arguments(&agent.call("s__touch", &json!({ "tasks": tasks })));
}

/// Waits until the server was asked for a set that has all of these in it, and the newest has none of those; that.
fn wait_listen(daemon: &Daemon, with: &[&str], without: &[&str]) -> Value {
    until("the server is asked for them", || {
        let journal = daemon.journal("s");
        let line = journal.iter().rev().find(|line| line.contains("subscriptions/listen"))?;
        let listen: Value = serde_json::from_str(line).ok()?;
        let has = |id: &&str| {
            listen["params"]["notifications"]["taskIds"].as_array().is_some_and(|all| all.contains(&json!(id)))
        };
        (with.iter().all(has) && !without.iter().any(has)).then_some(listen)
    })
}

#[test]
fn task_subscriber_receives_progress_and_end() {
    let daemon = start();
    let mut other = connect(&daemon);
    let (first, second) = (create_task(&mut other, "a.b \"c"), create_task(&mut other, "t2"));
    let mut agent = connect(&daemon);
    let (id, granted) = agent.listen(&json!({"toolsListChanged": true, "taskIds": ["unknown", first]}));
    assert_eq!(granted, json!({"toolsListChanged": true, "taskIds": [first]}));
    let mut third = connect(&daemon);
    let (third_id, _) = third.listen(&json!({"taskIds": [second]}));
    let listen = wait_listen(&daemon, &["a.b \"c", "t2"], &[]);
    assert!(listen["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"].is_object());
    touch(&mut other, &["a.b \"c"]);
    let params = agent.subscription_notification(&id, TASK_NOTIFICATION);
    assert_eq!(
        (&params["taskId"], &params["status"], &params["zeta"]),
        (&first, &json!("input_required"), &json!(1.1))
    );
    assert_eq!(params["inputRequests"]["who"]["method"], "elicitation/create");
    let answers = json!({"taskId": first, "inputResponses": {"who": {"action": "accept"}}});
    result(&other.request("tasks/update", &answers));
    let params = agent.subscription_notification(&id, TASK_NOTIFICATION);
    assert_eq!((&params["taskId"], &params["status"]), (&first, &json!("completed")));
    assert_eq!(params["result"]["structuredContent"], answers["inputResponses"]);
    assert_eq!(params["_meta"], json!({ SUBSCRIPTION: id }));
    result(&other.request("tasks/cancel", &json!({ "taskId": second })));
    let params = third.subscription_notification(&third_id, TASK_NOTIFICATION);
    assert_eq!((&params["taskId"], &params["status"]), (&second, &json!("cancelled")));
    for quiet in [&mut agent, &mut third, &mut other] {
        quiet.expect_quiet();
    }
    let last = create_task(&mut other, "t3");
    let (last_id, _) = third.listen(&json!({"taskIds": [last]}));
    wait_listen(&daemon, &["t3"], &["a.b \"c", "t2"]);
    touch(&mut other, &["t3"]);
    assert_eq!(third.subscription_notification(&last_id, TASK_NOTIFICATION)["taskId"], last);
    [agent, third].into_iter().for_each(Agent::disconnect);
}

#[test]
fn several_agents_may_subscribe_to_one_task() {
    let daemon = start();
    let mut other = connect(&daemon);
    let task = create_task(&mut other, "t");
    let mut agents = [connect(&daemon), connect(&daemon)];
    let ids = agents.each_mut().map(|agent| agent.listen(&json!({"taskIds": [task]})).0);
    wait_listen(&daemon, &["t"], &[]);
    touch(&mut other, &["t"]);
    for (agent, id) in agents.iter_mut().zip(&ids) {
        assert_eq!(agent.subscription_notification(id, TASK_NOTIFICATION)["taskId"], task);
    }
    agents[0].cancel(&ids[0]);
    agents[0].expect_quiet();
    touch(&mut other, &["t"]);
    assert_eq!(agents[1].subscription_notification(&ids[1], TASK_NOTIFICATION)["taskId"], task);
    agents.iter_mut().for_each(Agent::expect_quiet);
    let [first, second] = agents;
    second.disconnect();
    wait_listen(&daemon, &[], &["t"]);
    drop(first);
    let listens = daemon.count_journal("s", "\"taskIds\"");
    assert_eq!(listens, 1, "one for both");
}

#[test]
fn task_that_an_agent_is_not_to_know_cannot_be_listened_to() {
    let daemon = start();
    let mut other = connect(&daemon);
    let task = create_task(&mut other, "t");
    for profile in ["other", "narrow"] {
        let mut agent = Agent::connect_to(&daemon.place().runtime_dir().join(format!("{profile}.sock")));
        agent.speak_modern(&capabilities());
        let (_, granted) = agent.listen(&json!({"taskIds": [task, "t"]}));
        assert_eq!(granted, json!({}), "{profile}");
        agent.disconnect();
    }
    let mut undeclared = Agent::modern(&daemon, &json!({}));
    let refused = undeclared.request("subscriptions/listen", &json!({"notifications": {"taskIds": [task]}}));
    assert_eq!(
        (code(&refused), &refused["error"]["data"]),
        (-32021, &json!({ "requiredCapabilities": capabilities() }))
    );
    let mut agent = connect(&daemon);
    agent.listen(&json!({"toolsListChanged": true}));
    touch(&mut other, &["t"]);
    for quiet in [&mut agent, &mut undeclared, &mut other] {
        quiet.expect_quiet();
    }
    assert!(!daemon.journal("s").iter().any(|line| line.contains("\"taskIds\"")), "the server hears nothing of it");
    agent.disconnect();
}

/// Case B22.
#[test]
fn restarted_server_reports_only_tasks_of_its_new_process() {
    let daemon = start();
    let mut other = connect(&daemon);
    let task = create_task(&mut other, "t");
    let mut agent = connect(&daemon);
    agent.listen(&json!({"taskIds": [task]}));
    wait_listen(&daemon, &["t"], &[]);
    assert_eq!(code(&other.call("s__die", &json!({"how": "kill"}))), -31001);
    daemon.wait_row("s", "is up again", |row| row["state"] == "ready" && row["restarts"] == 1);
    let next = create_task(&mut other, "u");
    let (next_id, _) = agent.listen(&json!({"taskIds": [next]}));
    wait_listen(&daemon, &["u"], &["t"]);
    touch(&mut other, &["t", "u"]);
    assert_eq!(agent.subscription_notification(&next_id, TASK_NOTIFICATION)["taskId"], next);
    agent.expect_quiet();
    agent.disconnect();
}

/// Case E11.
#[test]
fn behind_connect_an_agent_listens_on_when_its_tasks_have_gone_with_the_daemon() {
    let place = Place::new();
    let daemon = Setup::with(server()).start_in(&place);
    let mut shim = Shim::start(&place, &[]);
    shim.speak_modern(&capabilities());
    let answer = shim.call("s__echo", &json!({"as_task": true, "id": "t", "ask": true}));
    let task = result(&answer)["taskId"].clone();
    let filter = json!({"toolsListChanged": true, "taskIds": [task]});
    let (id, granted) = shim.listen(&filter);
    assert_eq!(granted, filter);
    drop(daemon);
    let daemon = Setup::with(server()).start_in(&place);
    let granted =
        shim.subscription_notification(&id, "notifications/subscriptions/acknowledged")["notifications"].clone();
    assert_eq!(granted, json!({"toolsListChanged": true}), "it is of something else by now");
    shim.subscription_notification(&id, "notifications/tools/list_changed");
    arguments(&connect(&daemon).call("s__mutate_tools", &json!({"add": ["fresh"]})));
    shim.subscription_notification(&id, "notifications/tools/list_changed");
    assert_eq!(code(&shim.request("tasks/get", &json!({ "taskId": task }))), -32602);
    shim.cancel(&id);
    shim.expect_quiet();
}

/// The next report of the subscription that is not of the task's beginning.
fn end_of(agent: &mut Agent, subscription: &Value) -> Value {
    loop {
        let params = agent.subscription_notification(subscription, TASK_NOTIFICATION);
        if params["status"] != "working" {
            return params;
        }
    }
}

/// Has `echo` make the task `t`, which waits for nothing.
#[track_caller]
fn create_working_task(agent: &mut Agent) -> Value {
    result(&agent.call("s__echo", &json!({"as_task": true, "id": "t"})))["taskId"].clone()
}

/// Case B22.
#[test]
fn subscription_reaches_the_instance_that_runs_the_task() {
    for sharing in ["session", "workspace", "pool"] {
        let place = Place::new();
        let directories = ["a", "b"].map(|name| {
            let directory = place.path(name);
            std::fs::create_dir_all(&directory).expect("a new directory");
            directory
        });
        let daemon = Setup::with(server().line(format!("sharing = \"{sharing}\""))).start_in(&place);
        let [mut one, mut two] = directories.map(|directory| {
            let mut agent = Agent::working_in(&daemon, &directory);
            agent.speak_modern(&capabilities());
            agent
        });
        // In a pool, the busy instance is not chosen, and then the one with the task is not.
        let gate = daemon.gate();
        let busy = one.start_call("s__sleep", &gate.arguments());
        daemon.wait_at_gate("s", &gate);
        let second = create_working_task(&mut two);
        gate.open();
        arguments(&one.answer(&busy));
        let first = create_working_task(&mut one);
        assert_ne!(first, second, "two instances have a task of the same id");
        let mut agent = connect(&daemon);
        let ids = [&first, &second].map(|task| {
            let (id, granted) = agent.listen(&json!({"taskIds": [task]}));
            assert_eq!(granted, json!({"taskIds": [task]}), "{sharing}");
            id
        });
        until("both instances are asked", || {
            let listens = |line: &&String| line.contains("\"taskIds\":[\"t\"]");
            (daemon.journal("s").iter().filter(listens).count() == 2).then_some(())
        });
        for (task, id) in [&first, &second].into_iter().zip(&ids) {
            result(&one.request("tasks/cancel", &json!({ "taskId": task })));
            let params = end_of(&mut agent, id);
            assert_eq!((&params["taskId"], &params["status"]), (task, &json!("cancelled")), "{sharing}");
            agent.discard_notifications("notifications/tools/list_changed");
        }
        for quiet in [&mut agent, &mut one, &mut two] {
            quiet.discard_notifications("notifications/tools/list_changed");
            quiet.expect_quiet();
        }
        agent.disconnect();
    }
}

#[test]
fn subscriber_of_a_task_receives_nothing_else_of_its_instance() {
    let daemon = Setup::with(server().line("sharing = \"session\"")).start();
    let mut owner = connect(&daemon);
    let task = create_working_task(&mut owner);
    let mut agent = connect(&daemon);
    agent.listen(&json!({"taskIds": [task]}));
    // The instance of `agent` subscribes, too, and may be the last to do so.
    until("the server is asked for the task", || {
        let is_of_task = |line: &String| line.contains("subscriptions/listen") && line.contains(r#""taskIds":["t"]"#);
        daemon.journal("s").iter().any(is_of_task).then_some(())
    });
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"mine"}}"#;
    let text = format!("{log}\n{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{{\"content\":[]}}}}\n");
    owner.log_from("error");
    result(&owner.call("s__raw", &json!({"text": text, "answer": false})));
    assert_eq!(owner.expect_notification("notifications/message")["params"]["data"], "mine");
    agent.expect_quiet();
    agent.disconnect();
}

#[test]
fn task_of_a_denied_tool_is_not_reported() {
    let daemon = start();
    let mut other = connect(&daemon);
    let task = create_working_task(&mut other);
    let mut agent = connect(&daemon);
    let (id, _) = agent.listen(&json!({"taskIds": [task]}));
    wait_listen(&daemon, &["t"], &[]);
    daemon.client(&["disable", "s/echo"]).expect_code(0);
    touch(&mut other, &["t"]);
    agent.expect_quiet();
    daemon.client(&["enable", "s/echo"]).expect_code(0);
    touch(&mut other, &["t"]);
    assert_eq!(agent.subscription_notification(&id, TASK_NOTIFICATION)["status"], "working");
    agent.disconnect();
}

#[test]
fn lazy_server_stops_once_its_task_has_ended() {
    let lazy = server().line("start = \"lazy\"").line("idle_timeout = \"200ms\"");
    let daemon = Setup::with(lazy).start();
    let mut agent = connect(&daemon);
    let task = create_task(&mut agent, "t");
    let (id, _) = agent.listen(&json!({"taskIds": [task]}));
    wait_listen(&daemon, &["t"], &[]);
    let answers = json!({"taskId": task, "inputResponses": {"who": {"action": "accept"}}});
    result(&agent.request("tasks/update", &answers));
    assert_eq!(agent.subscription_notification(&id, TASK_NOTIFICATION)["status"], "completed");
    agent.disconnect();
    daemon.wait_row("s", "is stopped", |row| row["state"] == "idle");
}
