//! One agent's calls and unread responses do not use up a server for the others.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Server, Setup, arguments, code, connect_as, request, resident_kib, skipped};

/// Has `agent` ask for the same so many times, in one write.
fn burst(agent: &mut Agent, tool: &str, arguments: &Value, count: usize) {
    let call = |id: usize| {
        let params = json!({"name": tool, "arguments": arguments});
        request(format!("{tool} {id}"), "tools/call", &params).to_string() + "\n"
    };
    agent.send_raw((0..count).map(call).collect::<String>());
}

/// Calls that end only when they are cancelled.
fn hold(agent: &mut Agent, count: usize) {
    burst(agent, "a__sleep", &json!({"ms": 600_000}), count);
}

/// Case F3.
#[test]
fn single_call_is_admitted_at_a_full_server() {
    let daemon = Server::named("a").start();
    let mut greedy: Vec<_> = (0..6).map(|_| Agent::ready(&daemon)).collect();
    for (before, agent) in (1..).zip(&mut greedy) {
        hold(agent, 256);
        // Then they are all at the server's task, and before this one.
        agent.request("ping", &json!({}));
        arguments(&Agent::ready(&daemon).call("a__echo", &json!({"before": before})));
    }
    let mut modest = Agent::ready(&daemon);
    for n in 0..20 {
        assert_eq!(arguments(&modest.call("a__echo", &json!({"n": n}))), &json!({"n": n}));
    }
    // Each had the in-flight limit, divided by the number of agents at that time.
    let row =
        daemon.wait_row("a", "has their shares in flight", |row| row["in_flight"] == 256 + 128 + 85 + 64 + 51 + 42);
    assert_eq!(row["restarts"], 0);
    greedy.into_iter().for_each(Agent::disconnect);
    daemon.wait_row("a", "has no call in flight", |row| row["in_flight"] == 0);
}

/// Case F3.
#[test]
fn user_with_many_connections_has_one_share_of_a_full_server() {
    const GUEST: u32 = 54_321;
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can connect as somebody else");
    }
    let head = format!("[profiles.open]\nallow_uids = [{GUEST}]\nmax_calls = 65536\nrate = 1000000");
    let daemon = Setup::with(Server::named("a")).head(&head).start();
    let socket = daemon.profile_socket("open");
    let mut guests: Vec<_> =
        (0..4).map(|_| Agent::from_stream(connect_as(GUEST, &socket).expect("admitted"))).collect();
    for guest in &mut guests {
        guest.initialize("2025-11-25");
        hold(guest, 256);
        // Then they are all at the server's task, and before those of the next one.
        guest.request("ping", &json!({}));
    }
    let mut own = Agent::ready(&daemon);
    hold(&mut own, 256);
    // Alone, each connection of the guest has its share; beside it, the owner has half of all calls.
    let expected = 256 + 128 + 85 + 64 + 256 / 2;
    daemon.wait_row("a", "has their shares in flight", |row| row["in_flight"] == expected);
    own.disconnect();
    guests.into_iter().for_each(Agent::disconnect);
}

/// Case F3.
#[test]
fn single_call_is_not_refused_for_the_bursts_of_others() {
    let daemon = Server::named("a").start();
    let mut greedy: Vec<_> = (0..30).map(|_| Agent::ready(&daemon)).collect();
    let mut modest = Agent::ready(&daemon);
    for n in 0..10 {
        // Together far more than wait for a server's task at a time.
        greedy.iter_mut().for_each(|agent| burst(agent, "a__echo", &json!({}), 100));
        assert_eq!(arguments(&modest.call("a__echo", &json!({"n": n}))), &json!({"n": n}));
        for agent in &mut greedy {
            for _ in 0..100 {
                let answer = agent.next();
                assert!(answer["result"].is_object() || code(&answer) == -31003, "{answer}");
            }
        }
    }
}

/// Case A14.
#[test]
fn server_that_does_not_read_is_shared_by_bytes() {
    let daemon =
        Setup::with(Server::named("a")).server(Server::named("good")).head("[daemon]\nmax_message = \"1MiB\"").start();
    let (mut greedy, mut modest) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let mut calls = vec![greedy.start_call("a__stop_reading", &json!({}))];
    daemon.wait_journal("a", "stop_reading");
    let text = "x".repeat(100_000);
    calls.extend((0..30).map(|_| greedy.start_call("a__echo", &json!({"text": text}))));
    let refused = greedy.answer(calls.last().expect("there are some"));
    assert_eq!((code(&refused), &refused["error"]["data"]["outcome"]), (-31003, &json!("not_sent")), "{refused}");
    // It waits for the server like those before it, and is refused nothing.
    let waiting = modest.start_call("a__echo", &json!({"small": true}));
    arguments(&modest.call("good__echo", &json!({})));
    modest.expect_quiet();
    modest.cancel(&waiting);
    modest.expect_quiet();
    let resident = resident_kib(daemon.pid());
    assert!(resident < 64 << 10, "{resident} KiB");
    greedy.disconnect();
}

/// Case A14.
#[test]
fn endless_calls_and_cancellations_at_a_blocked_server_are_refused() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    agent.start_call("a__stop_reading", &json!({}));
    daemon.wait_journal("a", "stop_reading");
    // It has read one line ahead. The other is more than a pipe holds, so that what follows cannot be written.
    for _ in 0..2 {
        agent.start_call("a__echo", &json!({"text": "x".repeat(1 << 20)}));
    }
    for _ in 0..5000 {
        let id = agent.start_call("a__echo", &json!({}));
        agent.cancel(&id);
    }
    let refused = agent.call("a__echo", &json!({}));
    assert_eq!((code(&refused), &refused["error"]["data"]["outcome"]), (-31003, &json!("not_sent")));
    agent.disconnect();
}

/// Case F3.
#[test]
fn unanswered_calls_of_an_agent_are_limited_in_bytes_across_servers() {
    let head = "[daemon]\nmax_message = \"64KiB\"";
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).head(head).start();
    let (mut agent, mut other) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let large = json!({"ms": 600_000, "text": "x".repeat(60_000)});
    let mut parked = Vec::new();
    // One after the other: a server is not given two of them at once.
    for count in 1..=2 {
        parked.extend(["a__sleep", "b__sleep"].map(|tool| agent.start_call(tool, &large)));
        let have = |status: &Value| (0..2).all(|server| status["servers"][server]["in_flight"] == count);
        daemon.wait_status("has them in flight", have);
    }
    let refused = agent.call("a__sleep", &large);
    assert_eq!((code(&refused), &refused["error"]["data"]), (-31003, &json!({"outcome": "not_sent"})));
    arguments(&agent.call("a__echo", &json!({"small": true})));
    arguments(&other.call("a__echo", &json!({"text": "x".repeat(60_000)})));
    agent.cancel(&parked[0]);
    arguments(&agent.call("a__echo", &json!({"text": "x".repeat(60_000)})));
    parked[1..].iter().for_each(|id| agent.cancel(id));
    agent.expect_quiet();
}

/// Case C2.
#[test]
fn agent_that_reads_nothing_is_disconnected_and_its_calls_are_cancelled() {
    let head = "[daemon]\nmax_message = \"64KiB\"";
    let daemon = Setup::with(Server::named("a")).head(head).start();
    let (mut deaf, mut agent) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let gate = daemon.gate();
    let own = agent.start_call("a__sleep", &gate.arguments());
    hold(&mut deaf, 20);
    daemon.wait_row("a", "has them in flight", |row| row["in_flight"] == 21);
    // Far more than the sockets between them hold.
    burst(&mut deaf, "a__big", &json!({"bytes": 60_000}), 40);
    daemon.wait_status("counts one agent", |status| status["agents"].as_array().is_some_and(|all| all.len() == 1));
    daemon.wait_row("a", "has one call in flight", |row| row["in_flight"] == 1);
    arguments(&agent.call("a__echo", &json!({})));
    gate.open();
    assert_eq!(arguments(&agent.answer(&own)), &gate.arguments());
    let cancelled = daemon.count_journal("a", "notifications/cancelled");
    assert!((20..=60).contains(&cancelled), "{cancelled} calls were cancelled");
    deaf.disconnect();
}

/// The number of each progress notification up to the answer.
fn progress_until_answered(agent: &mut Agent, id: &Value) -> Vec<u64> {
    let mut steps = Vec::new();
    loop {
        let message = agent.next();
        if message["id"] == *id {
            arguments(&message);
            return steps;
        }
        steps.push(message["params"]["progress"].as_u64().expect("a number"));
    }
}

fn ask_for_progress(agent: &mut Agent, n: u64) -> Value {
    let token = "t".repeat(1000);
    let params = json!({"name": "a__progress", "arguments": {"n": n}, "_meta": {"progressToken": token}});
    agent.start_request("tools/call", &params)
}

fn dropped(daemon: &Daemon) -> u64 {
    daemon.status()["agents"][0]["dropped_notifications"].as_u64().expect("a number")
}

/// Case B15.
#[test]
fn unread_progress_drops_the_oldest_but_never_the_response() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let few = ask_for_progress(&mut agent, 100);
    assert_eq!(progress_until_answered(&mut agent, &few), (1..=100).collect::<Vec<_>>());
    assert_eq!(dropped(&daemon), 0, "an agent that reads is told everything");

    let many = 20_000;
    let id = ask_for_progress(&mut agent, many);
    daemon.wait_row("a", "has answered", |row| row["calls"] == 2 && row["in_flight"] == 0);
    let dropped = dropped(&daemon);
    let steps = progress_until_answered(&mut agent, &id);
    assert!(dropped > 0 && steps.len() as u64 + dropped == many, "{} were told, {dropped} dropped", steps.len());
    assert!(steps.is_sorted());
    assert_eq!((steps[0], steps[steps.len() - 1]), (1, many), "the newest is told");
    agent.expect_quiet();
}
