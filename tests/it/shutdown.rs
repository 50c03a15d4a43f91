//! An ordered stop finishes calls that end soon and refuses the others with an outcome.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::support::{Agent, Server, Setup, arguments, code, until};

/// Servers that leave when they are asked to, behind wrappers or not.
fn polite() -> Setup {
    Setup::with(Server::named("plain")).server(Server::named("wrapped").flags("--wrap"))
}

/// Case E1.
#[test]
fn call_that_ends_soon_is_still_answered_when_the_daemon_stops() {
    let mut daemon = polite().start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let call = agent.start_call("plain__sleep", &gate.arguments());
    daemon.wait_at_gate("plain", &gate);
    daemon.signal(Signal::TERM);
    gate.open();
    arguments(&agent.answer(&call));
    agent.expect_end();
    assert!(daemon.wait_exit().success());
}

/// Case E1.
#[test]
fn call_that_outlasts_the_stop_ends_with_a_shutdown_error() {
    let mut daemon = polite().start();
    let mut agent = Agent::ready(&daemon);
    let call = agent.start_call("plain__sleep", &json!({"ms": 600_000}));
    daemon.wait_journal("plain", "600000");
    daemon.signal(Signal::TERM);
    let answer = agent.answer(&call);
    assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31005, &json!("unknown")));
    agent.expect_end();
    assert!(daemon.wait_exit().success());
}

/// Case E1.
#[test]
fn call_made_while_the_daemon_stops_is_refused_and_was_not_sent() {
    let mut daemon = polite().start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let first = agent.start_call("plain__sleep", &gate.arguments());
    daemon.wait_at_gate("plain", &gate);
    daemon.signal(Signal::TERM);
    let answer = until("a call is refused", || {
        let answer = agent.call("plain__echo", &json!({}));
        answer["result"].is_null().then_some(answer)
    });
    assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31005, &json!("not_sent")));
    gate.open();
    arguments(&agent.answer(&first));
    agent.expect_end();
    assert!(daemon.wait_exit().success());
}

#[test]
fn agent_that_reads_nothing_does_not_delay_the_stop() {
    let mut daemon = polite().start();
    let mut deaf = Agent::ready(&daemon);
    for _ in 0..20 {
        deaf.start_call("plain__big", &json!({"bytes": 1 << 20}));
    }
    daemon.wait_journal("plain", "1048576");
    daemon.stop_in_order(Signal::TERM);
    deaf.disconnect();
}

/// How long a daemon with a call in flight takes to stop when it is told so that often.
fn stops_after(signals: usize) -> Duration {
    let mut daemon = polite().start();
    let mut agent = Agent::ready(&daemon);
    let call = agent.start_call("plain__sleep", &json!({"ms": 600_000}));
    daemon.wait_journal("plain", "600000");
    let start = Instant::now();
    if signals > 1 {
        daemon.signal(Signal::TERM);
        until("the daemon takes no more agents", || (!daemon.agent_socket().exists()).then_some(()));
    }
    daemon.stop_in_order(Signal::TERM);
    let took = start.elapsed();
    let answer = agent.answer(&call);
    assert!([-31001, -31005].contains(&code(&answer)) && answer["error"]["data"]["outcome"] == "unknown", "{answer}");
    agent.expect_end();
    took
}

#[test]
fn second_sigterm_does_not_wait_for_calls_in_flight() {
    let (patient, hasty) = (stops_after(1), stops_after(2));
    assert!(hasty < patient, "{hasty:?}, and with one signal {patient:?}");
}

/// Case E2.
#[test]
fn repeated_sighup_of_a_terminal_stops_the_daemon_in_order() {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudoterminal");
    unlockpt(&terminal).expect("one's own");
    let name = ptsname(&terminal, Vec::new()).expect("it has a name").into_string().expect("text");
    let slow = Server::named("slow").flags("--leave-delay 400");
    let mut daemon = Setup::with(slow).after_shell(&format!("exec < {name}")).start();
    let mut agent = Agent::ready(&daemon);
    let gate = daemon.gate();
    let call = agent.start_call("slow__sleep", &gate.arguments());
    daemon.wait_at_gate("slow", &gate);
    daemon.signal(Signal::HUP);
    until("the daemon takes no more agents", || (!daemon.agent_socket().exists()).then_some(()));
    daemon.signal(Signal::HUP);
    gate.open();
    daemon.stop_in_order(Signal::HUP);
    arguments(&agent.answer(&call));
    agent.expect_end();
    assert_eq!(daemon.journal("slow").last().expect("a line"), "# left", "it had the time to leave by itself");
}
