//! `max_concurrent` and its fair queue: calls of one session keep their order, and sessions take turns.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::reload::{change, text};
use crate::support::{Agent, Daemon, Era, Place, Server, Setup, arguments, code, inputs, result, signal, until};

fn one_at_a_time() -> Server {
    Server::named("s").line("max_concurrent = 1")
}

/// The `mark` of each call that the server has received, in order.
fn received(daemon: &Daemon) -> Vec<String> {
    let calls = daemon.journal("s").into_iter().filter(|line| line.contains("tools/call"));
    let mark = |line: String| {
        let call: Value = serde_json::from_str(&line).expect("JSON");
        call["params"]["arguments"]["mark"].as_str().map(str::to_owned)
    };
    calls.filter_map(mark).collect()
}

fn wait_calls(daemon: &Daemon, calls: usize) {
    daemon.wait_row("s", "has taken in the calls", |row| row["calls"] == calls);
}

/// How many of the answers that agents get while all call at once belong to another call.
fn mixed_up(daemon: &Daemon, ms: u32) -> usize {
    let mut agents: Vec<_> = (0..4).map(|_| Agent::ready(daemon)).collect();
    let mut calls = Vec::new();
    for n in 0..10 {
        for (index, agent) in agents.iter_mut().enumerate() {
            let arguments = json!({"ms": ms, "mark": format!("agent {index} call {n}")});
            calls.push((index, agent.start_call("s__sleep", &arguments), arguments));
        }
    }
    calls.iter().filter(|(index, id, expected)| arguments(&agents[*index].answer(id)) != expected).count()
}

/// Case B13.
#[test]
fn server_that_mixes_up_concurrent_calls_is_called_one_at_a_time() {
    let mixing = |server: Server| Setup::with(server.flags("--mix-up-replies")).start();
    assert!(mixed_up(&mixing(Server::named("s")), 1000) > 0, "without the key this server mixes calls up");
    assert_eq!(mixed_up(&mixing(one_at_a_time()), 20), 0);
}

#[test]
fn sessions_take_turns_and_each_keeps_its_order() {
    let daemon = Setup::with(one_at_a_time()).start();
    let (mut greedy, mut modest) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let pid = daemon.server_pid("s");
    signal(pid, Signal::STOP);
    let call = |agent: &mut Agent, mark: String| agent.start_call("s__echo", &json!({ "mark": mark }));
    let mut calls: Vec<_> = (0..10).map(|n| call(&mut greedy, format!("greedy {n}"))).collect();
    wait_calls(&daemon, 10);
    let small: Vec<_> = (0..2).map(|n| call(&mut modest, format!("modest {n}"))).collect();
    wait_calls(&daemon, 12);
    signal(pid, Signal::CONT);
    small.iter().for_each(|id| drop(arguments(&modest.answer(id)).clone()));
    calls.drain(..).for_each(|id| drop(arguments(&greedy.answer(&id)).clone()));
    let expected = ["greedy 0", "greedy 1", "modest 0", "greedy 2", "modest 1"].map(str::to_owned);
    let rest = (3..10).map(|n| format!("greedy {n}"));
    assert_eq!(received(&daemon), expected.into_iter().chain(rest).collect::<Vec<_>>());
}

/// Case H13.
#[test]
fn queued_call_that_is_cancelled_times_out_or_is_denied_never_reaches_the_server() {
    let place = Place::new();
    let server =
        one_at_a_time().flags("--tool danger --tool late --tool hidden").line("tool_timeouts = { late = \"500ms\" }");
    let config = text(&[server], &place);
    let mut daemon = Setup::new().config(place.write("changing.toml", &config)).start_in(&place);
    let (mut agent, mut leaving) = (Agent::ready(&daemon), Agent::ready(&daemon));
    agent.tools();
    let pid = daemon.server_pid("s");
    signal(pid, Signal::STOP);
    let call = |agent: &mut Agent, tool: &str, mark: &str| agent.start_call(tool, &json!({ "mark": mark }));
    let first = call(&mut agent, "s__echo", "first");
    let cancelled = call(&mut agent, "s__echo", "cancelled");
    let late = call(&mut agent, "s__late", "late");
    let danger = call(&mut agent, "s__danger", "danger");
    let hidden = call(&mut agent, "s__hidden", "hidden");
    call(&mut leaving, "s__echo", "left");
    let last = call(&mut agent, "s__echo", "last");
    wait_calls(&daemon, 7);
    assert_eq!(daemon.row("s")["in_flight"], 1);
    agent.cancel(&cancelled);
    let timed_out = agent.answer(&late);
    assert_eq!((code(&timed_out), &timed_out["error"]["data"]["outcome"]), (-31002, &json!("not_sent")));
    leaving.disconnect();
    daemon.wait_status("counts one agent", |status| status["agents"].as_array().is_some_and(|all| all.len() == 1));
    daemon.client(&["disable", "s/danger"]).expect_code(0);
    change(&mut daemon, format!("{config}\ndeny = [\"hidden\"]"), "reloaded: ");
    signal(pid, Signal::CONT);
    arguments(&agent.answer(&first));
    for (id, tool) in [(danger, "s__danger"), (hidden, "s__hidden")] {
        let unknown = json!({"code": -32602, "message": format!("Unknown tool: {tool}")});
        assert_eq!(agent.answer(&id)["error"], unknown);
    }
    arguments(&agent.answer(&last));
    assert_eq!(received(&daemon), ["first", "last"]);
    agent.disconnect();
}

/// Case B13.
#[test]
fn timed_out_call_keeps_its_slot_while_the_server_may_still_run_it() {
    let server = one_at_a_time().line("tool_timeouts = { sleep = \"100ms\" }");
    let daemon = Setup::with(server).start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let timed_out = agent.call("s__sleep", &gate.stubborn_arguments());
    assert_eq!(code(&timed_out), -31002, "{timed_out}");
    let queued = agent.start_call("s__echo", &json!({"mark": "queued"}));
    wait_calls(&daemon, 2);
    assert!(received(&daemon).is_empty());
    gate.open();
    arguments(&agent.answer(&queued));
    assert_eq!(daemon.row("s")["stray_responses"], 1, "the server had ended the first call");
}

/// Case B13.
#[test]
fn cancelled_call_that_the_server_never_answers_keeps_its_place_for_a_bounded_time() {
    let daemon = Setup::with(one_at_a_time().line("call_timeout = \"2s\"")).start();
    let mut agent = Agent::ready(&daemon);
    let id = agent.start_call("s__sleep", &json!({"ms": 600_000}));
    daemon.wait_journal("s", "60000");
    agent.cancel(&id);
    until("the place is free", || agent.call("s__echo", &json!({}))["error"].is_null().then_some(()));
}

#[test]
fn queued_calls_wait_for_the_next_instance_when_theirs_ends() {
    let daemon = Setup::with(one_at_a_time()).start();
    let mut agent = Agent::ready(&daemon);
    let pid = daemon.server_pid("s");
    signal(pid, Signal::STOP);
    let ids: Vec<_> = (0..3).map(|n| agent.start_call("s__echo", &json!({ "mark": n.to_string() }))).collect();
    wait_calls(&daemon, 3);
    signal(pid, Signal::KILL);
    let died = agent.answer(&ids[0]);
    assert_eq!((code(&died), &died["error"]["data"]["outcome"]), (-31001, &json!("unknown")));
    ids[1..].iter().for_each(|id| drop(arguments(&agent.answer(id)).clone()));
    assert_eq!(received(&daemon), ["1", "2"], "what had reached the first instance is not sent again");
}

#[test]
fn server_that_is_disabled_answers_its_queued_calls() {
    let daemon = Setup::with(one_at_a_time()).start();
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let pid = daemon.server_pid("s");
    signal(pid, Signal::STOP);
    let ids: Vec<_> = (0..3).map(|n| agent.start_call("s__echo", &json!({ "mark": n.to_string() }))).collect();
    wait_calls(&daemon, 3);
    daemon.client(&["disable", "--stop", "s"]).expect_code(0);
    for id in &ids[1..] {
        assert_eq!(code(&agent.answer(id)), -32602, "it is as unknown as what never was");
    }
    assert!(agent.answer(&ids[0])["error"].is_object());
    assert!(!received(&daemon).iter().any(|mark| mark != "0"));
    agent.disconnect();
}

/// A suspended call has the only place, so what goes on with it must not wait for one.
#[test]
fn input_responses_do_not_wait_behind_queued_calls() {
    for era in Era::BOTH {
        let daemon = Setup::with(one_at_a_time()).start();
        let mut agent = era.agent(&daemon, &json!({"sampling": {}}));
        let mut other = Agent::ready(&daemon);
        let asking = json!({"method": "sampling/createMessage", "params": {}});
        let id = agent.start_call("s__send_request", &asking);
        let first = agent.next();
        let waiting = other.start_call("s__echo", &json!({}));
        wait_calls(&daemon, 2);
        let answer = match era {
            Era::Legacy => {
                agent.respond(&first, &json!({"model": "m"}));
                agent.answer(&id)
            }
            Era::Modern => {
                let responses: Value = inputs(&first).keys().map(|key| (key.clone(), json!({"model": "m"}))).collect();
                agent.retry_call("s__send_request", &asking, &first, &responses)
            }
        };
        assert_eq!(result(&answer)["structuredContent"]["result"], json!({"model": "m"}), "{answer}");
        arguments(&other.answer(&waiting));
    }
}

#[test]
fn requests_about_a_task_do_not_wait_for_a_place() {
    let daemon = Setup::with(one_at_a_time().flags("--tasks")).start();
    let mut agent = Agent::ready(&daemon);
    let params = json!({"name": "s__echo", "arguments": {"ms": 600_000}, "task": {}});
    let made = agent.request("tools/call", &params);
    let task = result(&made)["task"]["taskId"].clone();
    let waits = agent.start_request("tasks/result", &json!({ "taskId": task }));
    result(&agent.request("tasks/get", &json!({ "taskId": task })));
    result(&agent.request("tasks/cancel", &json!({ "taskId": task })));
    agent.answer(&waits);
}

/// Case F2.
#[test]
fn burst_at_a_server_that_starts_waits_as_well() {
    let place = Place::new();
    let server = || Server::named("s").line("start = \"lazy\"").line("idle_timeout = \"1s\"");
    let mut first = Setup::with(server()).start_in(&place);
    first.wait_row("s", "has listed and is idle", |row| row["state"] == "idle");
    first.term();
    drop(first);
    let daemon = Setup::with(server()).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let ids: Vec<_> = (0..600).map(|n| agent.start_call("s__echo", &json!({ "n": n }))).collect();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(arguments(&agent.answer(id)), &json!({ "n": n }));
    }
}

/// Case F3.
#[test]
fn server_queues_a_bounded_number_of_calls_and_shares_them_among_sessions() {
    let daemon = Setup::with(one_at_a_time()).start();
    let pid = daemon.server_pid("s");
    signal(pid, Signal::STOP);
    let burst = |agent: &mut Agent, count: usize| {
        let ids: Vec<_> = (0..count).map(|_| agent.start_call("s__echo", &json!({}))).collect();
        agent.request("ping", &json!({}));
        ids
    };
    // One call is at the server.
    let mut greedy: Vec<_> = (0..4).map(|_| Agent::ready(&daemon)).collect();
    let mut ids: Vec<_> = greedy.iter_mut().map(|agent| burst(agent, 1024)).collect();
    wait_calls(&daemon, 4 * 1024);
    for (agent, ids) in greedy.iter_mut().zip(&mut ids).take(1) {
        let more = burst(agent, 2);
        ids.push(more[0].clone());
        let refused = agent.answer(&more[1]);
        assert_eq!((code(&refused), &refused["error"]["data"]["outcome"]), (-31003, &json!("not_sent")));
    }
    let mut modest = Agent::ready(&daemon);
    let small = burst(&mut modest, 4096 / 5 + 1);
    let refused = modest.answer(small.last().expect("there are some"));
    assert_eq!(code(&refused), -31003, "it has its share");
    signal(pid, Signal::CONT);
    small[..4096 / 5].iter().for_each(|id| drop(arguments(&modest.answer(id)).clone()));
    for (agent, ids) in greedy.iter_mut().zip(&ids) {
        ids.iter().for_each(|id| drop(arguments(&agent.answer(id)).clone()));
    }
}
