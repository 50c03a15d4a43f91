//! A server crash fails only that server's calls, and the server is restarted.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Agent, Place, Server, Setup, arguments, code, expect_died, field, result, signal, supervised, until,
};

/// The process that has answered.
fn answering_pid(answer: &Value) -> u32 {
    result(answer)["structuredContent"]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a process id")
}

/// Case A3.
#[test]
fn calls_of_a_dying_server_fail_at_once_and_are_not_repeated() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agents: Vec<_> = (0..5).map(|_| Agent::ready(&daemon)).collect();
    let calls: Vec<Vec<_>> = agents
        .iter_mut()
        .map(|agent| (0..10).map(|n| agent.start_call("a__sleep", &json!({"ms": 600_000, "n": n}))).collect())
        .collect();
    daemon.wait_journal_count("a", "600000", 50);
    let first = daemon.server_pid("a");
    signal(first, Signal::KILL);
    for (agent, ids) in agents.iter_mut().zip(&calls) {
        ids.iter().for_each(|id| expect_died(&agent.answer(id)));
    }
    let answer = agents[0].call("a__echo", &json!({}));
    assert_ne!(result(&answer)["structuredContent"]["pid"], first, "a new instance answers");
    assert_eq!(daemon.count_journal("a", "600000"), 50, "nothing is replayed");
}

#[test]
fn crash_does_not_affect_other_servers() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let long = agent.start_call("good__sleep", &gate.arguments());
    for how in ["kill", "exit", "kill"] {
        expect_died(&agent.call("a__die", &json!({"how": how})));
        arguments(&agent.call("good__echo", &json!({})));
    }
    gate.open();
    arguments(&agent.answer(&long));
    assert_eq!(daemon.row("good")["restarts"], 0);
}

#[test]
fn server_that_was_up_for_the_reset_time_restarts_soon_after_every_crash() {
    let daemon = Setup::beside_good(Server::named("a")).backoff_reset(1).start();
    let mut agent = Agent::ready(&daemon);
    // Delays that double would be longer than calls wait for by the seventh time.
    for _ in 0..9 {
        expect_died(&agent.call("a__die", &json!({})));
        arguments(&agent.call("a__echo", &json!({})));
    }
}

#[test]
fn call_made_while_a_server_restarts_waits_for_it() {
    let daemon = Setup::beside_good(Server::named("a").flags("--init-delay 300")).start();
    let mut agent = Agent::ready(&daemon);
    let tools = agent.tools();
    expect_died(&agent.call("a__die", &json!({})));
    assert_eq!(agent.tools(), tools, "its tools stay listed");
    assert_eq!(arguments(&agent.call("a__echo", &json!({"n": 1}))), &json!({"n": 1}));
}

#[test]
fn call_to_a_server_that_does_not_return_fails_as_not_sent_after_several_attempts() {
    let place = Place::new();
    let permit = place.write("permit", "");
    let setup = Setup::beside_good(Server::named("a").arg("--exit-unless").arg(&permit));
    let daemon = setup.start_in(&place);
    let mut agent = Agent::ready(&daemon);
    fs::remove_file(permit).expect("it was there");
    expect_died(&agent.call("a__die", &json!({})));
    let answer = agent.call("a__echo", &json!({}));
    let data = &answer["error"]["data"];
    assert_eq!((code(&answer), &data["outcome"], &data["server"]), (-31004, &json!("not_sent"), &json!("a")));
    let row = daemon.row("a");
    assert!(row["restarts"].as_u64() >= Some(4), "{row}");
}

/// Case A4.
#[test]
fn call_sent_right_after_a_crash_is_answered_or_unknown_and_never_refused() {
    let daemon = Setup::beside_good(Server::named("a")).backoff_reset(1).start();
    let mut agent = Agent::ready(&daemon);
    let mut first = None;
    for _ in 0..60 {
        let running = answering_pid(&agent.call("a__echo", &json!({})));
        assert_ne!(first.replace(running), Some(running), "each round has its own instance");
        signal(running, Signal::KILL);
        let calls: Vec<_> = (0..3).map(|n| agent.start_call("a__echo", &json!({"n": n}))).collect();
        for id in &calls {
            let answer = agent.answer(id);
            if !answer["error"].is_null() {
                expect_died(&answer);
            }
        }
    }
}

/// Cases A10 and A11.
#[test]
fn exit_is_noticed_while_a_grandchild_keeps_the_pipe_open() {
    let daemon = Setup::beside_good(Server::named("a").flags("--hold-stdout --double-fork")).start();
    let mut agent = Agent::ready(&daemon);
    let lingering = || {
        daemon.place().processes(None).into_iter().filter(|p| p.command.contains("--stay-alive")).collect::<Vec<_>>()
    };
    let first = lingering();
    assert_eq!(first.len(), 2, "{first:?}");
    expect_died(&agent.call("a__die", &json!({})));
    arguments(&agent.call("a__echo", &json!({})));
    until("the grandchildren of the dead instance are gone", || first.iter().all(|p| !p.is_alive()).then_some(()));
    assert_eq!(lingering().len(), 2);
}

#[test]
fn crashed_servers_leave_no_zombies() {
    let daemon = Setup::beside_good(Server::named("a").flags("--double-fork")).start();
    let mut agent = Agent::ready(&daemon);
    expect_died(&agent.call("a__die", &json!({"how": "kill"})));
    arguments(&agent.call("a__echo", &json!({})));
    until("no child is a zombie", || {
        let zombie = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists() && field(*pid, "State").starts_with('Z');
        (!supervised(daemon.pid()).iter().any(zombie)).then_some(())
    });
}

/// Case A4.
#[test]
fn call_that_was_not_written_to_a_dying_server_is_reported_as_not_sent() {
    let daemon = Setup::beside_good(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    let first = agent.start_call("a__stop_reading", &json!({}));
    daemon.wait_journal("a", "stop_reading");
    // Together far more than a pipe holds.
    let text = "x".repeat(200_000);
    let calls: Vec<_> = (0..10).map(|n| agent.start_call("a__echo", &json!({"n": n, "text": text}))).collect();
    agent.expect_quiet();
    signal(daemon.server_pid("a"), Signal::KILL);
    expect_died(&agent.answer(&first));
    let mut known = 0;
    for (n, id) in calls.iter().enumerate() {
        let answer = agent.answer(id);
        let times_received = daemon.count_journal("a", &format!("\"n\":{n},"));
        match &answer["error"]["data"]["outcome"] {
            Value::Null => assert_eq!((arguments(&answer)["n"].as_u64(), times_received), (Some(n as u64), 1)),
            outcome if outcome == "not_sent" => assert_eq!((code(&answer), times_received), (-31004, 0)),
            _ => {
                expect_died(&answer);
                assert_eq!(times_received, 0, "{answer}");
            }
        }
        known += usize::from(!answer["error"].is_object() || code(&answer) == -31004);
    }
    // The server has taken one of them off the pipe, and the 256 KiB of the pipe hold parts of two.
    assert!(known >= 7, "of {known} calls it is known whether they were made");
}
