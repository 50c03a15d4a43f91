//! Servers that fail to start are retried, report the reason, and do not affect other servers.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Agent, Place, SCRIPTED, Server, Setup, arguments, code, until};

/// Case A2.
#[test]
fn server_that_exits_at_once_is_restarted_with_growing_delays() {
    let place = Place::new();
    let permit = place.path("permit");
    let daemon = Setup::beside_good(Server::named("a").arg("--exit-unless").arg(&permit)).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert!(!agent.tools().contains(&"a__echo".to_owned()));
    arguments(&agent.call("good__echo", &json!({})));
    let row = daemon
        .wait_row("a", "has been tried again", |row| row["state"] == "backoff" && row["restarts"].as_u64() >= Some(3));
    assert!(row["stderr"].to_string().contains("cannot start: exit code 3"), "{row}");
    assert!(row["last_error"].to_string().contains('3'), "the exit code is named: {row}");
    let starts = daemon.count_starts("a");
    assert!(starts < 12, "{starts} starts without a pause");
    place.write("permit", "");
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    agent.expect_notification("notifications/tools/list_changed");
    arguments(&agent.call("a__echo", &json!({})));
}

/// Case A1.
#[test]
fn command_that_cannot_be_executed_is_reported_and_others_serve() {
    let place = Place::new();
    let plain = place.write("plain-file", "no program");
    let nonsense = place.write_program("nonsense", "echo no program either\n");
    let setup = Setup::beside_good(Server::run_by("missing", "no-such-command-anywhere"))
        .server(Server::run_by("nonsense", nonsense))
        .server(Server::run_by("gone", "/no/such/file"))
        .server(Server::run_by("plain", plain))
        .server(Server::named("nowhere").line("cwd = \"/no/such/directory\""));
    let daemon = setup.start_in(&place);
    let reason = |name: &str| {
        let row = daemon.wait_row(name, "tells why it does not run", |row| row["reason"].is_string());
        row["reason"].as_str().expect("text").to_owned()
    };
    let missing = reason("missing");
    let path = std::env::var("PATH").expect("PATH is set");
    assert!(missing.contains("no-such-command-anywhere") && missing.contains(&path), "{missing}");
    assert!(reason("gone").contains("/no/such/file"), "{}", reason("gone"));
    assert!(reason("plain").to_lowercase().contains("permission denied"), "{}", reason("plain"));
    assert!(reason("nonsense").contains("Exec format error"), "{}", reason("nonsense"));
    assert!(reason("nowhere").contains("/no/such/directory"), "{}", reason("nowhere"));
    arguments(&Agent::ready(&daemon).call("good__echo", &json!({})));
}

#[test]
fn script_whose_interpreter_has_a_carriage_return_is_reported_with_the_conversion() {
    let place = Place::new();
    for (name, first) in [("env", "#!/usr/bin/env sh"), ("sh", "#!/bin/sh")] {
        place.write_program(name, format!("{first}\r\nexit\r\n"));
    }
    let setup = Setup::with(Server::run_by("env", place.path("env"))).server(Server::run_by("sh", place.path("sh")));
    let daemon = setup.start_in(&place);
    for name in ["env", "sh"] {
        let row = daemon.wait_row(name, "tells why it does not run", |row| row["reason"].is_string());
        let reason = row["reason"].as_str().expect("text");
        assert!(reason.contains("a first line that ends with CRLF") && reason.contains("`sed -i "), "{row}");
        assert_eq!(row["code"], "cannot_execute", "{row}");
    }
}

/// Case A5.
#[test]
fn server_that_never_completes_the_handshake_blocks_nothing_and_leaks_nothing() {
    let daemon =
        Setup::beside_good(Server::named("a").flags("--init-never").line("handshake_timeout = \"150ms\"")).spawn();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("good__echo", &json!({})));
    let count = || daemon.open_files().len();
    let waiting = |restarts: u64| {
        daemon.wait_row("a", "waits for another attempt", |row| {
            row["state"] == "backoff" && row["restarts"].as_u64() >= Some(restarts)
        })
    };
    waiting(1);
    let before = count();
    let row = waiting(3);
    assert!(row["reason"].to_string().contains("initialize"), "{row}");
    until("no descriptor is left behind", || (count() <= before).then_some(()));
}

/// Case B20.
#[test]
fn server_with_an_invalid_handshake_fails_and_others_serve() {
    let setup = Setup::beside_good(Server::named("garbage").flags("--init-garbage"))
        .server(Server::named("ancient").flags("--protocol 1999-01-01"))
        .server(Server::named("older").flags("--protocol 2024-11-05"));
    let daemon = setup.start();
    for (name, oddity) in [("garbage", "initialize"), ("ancient", "1999-01-01")] {
        daemon.wait_row(name, "tells why it does not run", |row| row["reason"].to_string().contains(oddity));
    }
    assert_eq!(daemon.row("older")["protocol"], "2024-11-05");
    arguments(&Agent::ready(&daemon).call("good__echo", &json!({})));
}

/// Case A18.
#[test]
fn servers_are_started_in_parallel() {
    let slow = |number: u32| Server::named(&format!("s{number}")).flags("--bare --tool echo --init-delay 800");
    let daemon = (0..10).fold(Setup::new(), |setup, number| setup.server(slow(number))).start();
    assert_eq!(Agent::ready(&daemon).tools().len(), 10);
    daemon.expect_side_by_side();
}

/// Calls `tool` while a slower call runs, and returns its answer, which has to come first.
fn answered_before_a_slow_call(agent: &mut Agent, tool: &str) -> Value {
    let slow = agent.start_call("good__sleep", &json!({"ms": 600_000}));
    let call = agent.start_call(tool, &json!({}));
    let answer = loop {
        let message = agent.next();
        if message.get("id").is_some() {
            break message;
        }
    };
    assert_eq!(answer["id"], call, "{answer}");
    agent.cancel(&slow);
    answer
}

#[track_caller]
fn expect_unavailable(answer: &Value, server: &str, reason: &str) {
    assert_eq!(code(answer), -31004, "{answer}");
    let (message, data) = (answer["error"]["message"].as_str().expect("text"), &answer["error"]["data"]);
    assert!(message.contains(&format!("server `{server}`")) && message.contains(reason), "{answer}");
    assert_eq!((&data["server"], &data["outcome"]), (&json!(server), &json!("not_sent")), "{answer}");
    assert!(data["retryAfterMs"].is_u64(), "{answer}");
}

/// Case A21.
#[test]
fn call_starts_a_server_that_waits_for_its_next_attempt() {
    for is_known in [false, true] {
        let place = Place::new();
        let permit = place.path("permit");
        let setup = || Setup::beside_good(Server::named("a").arg("--exit-unless").arg(&permit));
        if is_known {
            place.write("permit", "");
            let mut daemon = setup().start_in(&place);
            assert!(Agent::ready(&daemon).tools().contains(&"a__echo".to_owned()));
            daemon.term();
            fs::remove_file(&permit).expect("it is there");
        }
        let daemon = setup().start_in(&place);
        let wait = || {
            daemon.wait_row("a", "waits for more than 10 s", |row| row["retry_in_ms"].as_u64() > Some(11_000))["restarts"].clone()
        };
        let attempts = wait();
        let mut agent = Agent::ready(&daemon);
        // One attempt fails, and so does the call.
        expect_unavailable(&agent.call("a__echo", &json!({})), "a", "exited with code 3");
        until("the call has made it try again", || (wait() != attempts).then_some(()));
        place.write("permit", "");
        until("a call is answered", || {
            let answer = agent.call("a__echo", &json!({}));
            let is_answered = answer["error"].is_null();
            assert!(is_answered || code(&answer) == -31004, "{answer}");
            is_answered.then_some(())
        });
        let row = daemon.row("a");
        assert_eq!(row["state"], "ready", "{row}");
        agent.disconnect();
    }
}

/// Case A1.
#[test]
fn call_of_a_server_whose_command_cannot_be_executed_fails_without_waiting() {
    let place = Place::new();
    let plain = place.write("plain-file", "no program");
    let setup = Setup::beside_good(Server::run_by("missing", "no-such-command-anywhere"))
        .server(Server::run_by("gone", "/no/such/file"))
        .server(Server::run_by("plain", plain));
    let daemon = setup.start_in(&place);
    for (server, reason) in [
        ("missing", "no-such-command-anywhere"),
        ("gone", "`/no/such/file` does not exist"),
        ("plain", "ermission denied"),
    ] {
        // The next attempt is so far away that a call which waits for it is answered after the slow one, and not so far that it is
        // refused in any case.
        let is_between = |row: &Value| row["retry_in_ms"].as_u64().is_some_and(|ms| (3000..9000).contains(&ms));
        daemon.wait_row(server, "waits for a while", is_between);
        let mut agent = Agent::ready(&daemon);
        let answer = answered_before_a_slow_call(&mut agent, &format!("{server}__anything"));
        expect_unavailable(&answer, server, reason);
        agent.disconnect();
    }
}

/// Case A1.
#[test]
fn call_of_known_tool_fails_without_waiting_once_its_command_is_gone() {
    for start in ["eager", "lazy"] {
        let place = Place::new();
        let program = place.path("program");
        std::os::unix::fs::symlink(SCRIPTED, &program).expect("a fresh path");
        let setup = || Setup::beside_good(Server::run_by("known", &program).line(format!("start = \"{start}\"")));
        let mut daemon = setup().start_in(&place);
        assert!(Agent::ready(&daemon).tools().contains(&"known__echo".to_owned()));
        daemon.term();
        fs::remove_file(&program).expect("it is there");
        let daemon = setup().start_in(&place);
        let mut agent = Agent::ready(&daemon);
        let answer = answered_before_a_slow_call(&mut agent, "known__echo");
        expect_unavailable(&answer, "known", "program` does not exist");
        agent.disconnect();
        // The next attempt that finds the command is the end of that.
        std::os::unix::fs::symlink(SCRIPTED, &program).expect("it is gone");
        daemon.client(&["restart", "known"]).expect_code(0);
        arguments(&Agent::ready(&daemon).call("known__echo", &json!({})));
    }
}
