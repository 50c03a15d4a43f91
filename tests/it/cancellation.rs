//! A cancelled or timed out call blocks server requests to other agents only while the server may still work on it.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, Server, Setup, inputs, until};

const SAMPLE: &str = "sampling/createMessage";

/// Whether the agent was asked during a call; if not, the server was told why at once.
fn is_served_a_question(agent: &mut Agent, era: Era) -> bool {
    let arguments = json!({"method": SAMPLE, "params": {}});
    let id = agent.start_call("s__send_request", &arguments);
    let first = agent.next();
    let is_refusal = |message: &Value| message["result"]["structuredContent"]["error"]["code"] == -31004;
    if is_refusal(&first) {
        return false;
    }
    let answer = match era {
        Era::Legacy => {
            assert_eq!(first["method"], SAMPLE, "{first}");
            agent.respond(&first, &json!({"model": "m"}));
            agent.answer(&id)
        }
        Era::Modern => {
            let responses: Value = inputs(&first).keys().map(|key| (key.clone(), json!({"model": "m"}))).collect();
            agent.retry_call("s__send_request", &arguments, &first, &responses)
        }
    };
    assert_eq!(answer["result"]["structuredContent"]["result"], json!({"model": "m"}), "{answer}");
    true
}

/// Case B16.
#[test]
fn cancelled_call_that_is_never_answered_blocks_server_requests_only_for_a_time() {
    for era in Era::BOTH {
        // Without an answer to a ping the server is not known to have read the cancellation.
        let daemon = Server::named("s").flags("--no-pings").line("call_timeout = \"4s\"").start();
        let (mut one, mut other) = (Agent::ready(&daemon), era.agent(&daemon, &json!({"sampling": {}})));
        let cancelled = one.start_call("s__sleep", &json!({"ms": 600_000}));
        daemon.wait_journal("s", "60000");
        one.cancel(&cancelled);
        daemon.wait_journal("s", "notifications/cancelled");
        assert!(!is_served_a_question(&mut other, era), "the server may still be at the other's");
        until("it is asked", || is_served_a_question(&mut other, era).then_some(()));
        one.expect_quiet();
        other.expect_quiet();
    }
}

#[test]
fn timed_out_call_blocks_server_requests_only_for_a_time() {
    let daemon = Server::named("s").line("call_timeout = \"3s\"").start();
    let (mut one, mut other) = (Agent::ready(&daemon), Agent::with_capabilities(&daemon, &json!({"sampling": {}})));
    let answer = one.call("s__sleep", &json!({"ms": 600_000}));
    assert_eq!(answer["error"]["code"], -31002, "{answer}");
    until("it is asked", || is_served_a_question(&mut other, Era::Legacy).then_some(()));
    other.expect_quiet();
}

/// Waits until the server has received this number of pings. Its answers come before what it sends later.
fn wait_pings(daemon: &Daemon, count: usize) {
    let pings = || daemon.count_journal("s", "\"ping\"");
    until("the server receives a ping", || (pings() >= count).then_some(()));
}

/// Case B16.
#[test]
fn server_may_send_requests_to_other_agents_after_reading_a_cancellation() {
    for era in Era::BOTH {
        for leaves in [false, true] {
            let daemon = Server::named("s").start();
            let (mut one, mut other) = (Agent::ready(&daemon), era.agent(&daemon, &json!({"sampling": {}})));
            let cancelled = one.start_call("s__sleep", &json!({"ms": 600_000}));
            daemon.wait_journal("s", "60000");
            if leaves {
                one.disconnect();
            } else {
                one.cancel(&cancelled);
                one.expect_quiet();
            }
            wait_pings(&daemon, 1);
            assert!(is_served_a_question(&mut other, era), "the server has read that nobody wants the call");
            other.expect_quiet();
        }
    }
}

/// Case B16.
#[test]
fn server_that_continues_a_cancelled_call_is_not_trusted_again() {
    let daemon = Server::named("s").start();
    let (mut one, mut other) = (Agent::ready(&daemon), Agent::with_capabilities(&daemon, &json!({"sampling": {}})));
    for count in 1..=2 {
        let gate = daemon.gate();
        let cancelled = one.start_call("s__sleep", &gate.stubborn_arguments());
        daemon.wait_at_gate("s", &gate);
        one.cancel(&cancelled);
        wait_pings(&daemon, count);
        if count == 1 {
            gate.open();
            daemon.wait_row("s", "has answered after all", |row| row["stray_responses"] == 1);
        }
    }
    let refused = other.call("s__send_request", &json!({"method": SAMPLE, "params": {}}));
    let error = &refused["result"]["structuredContent"]["error"];
    let text = error["message"].as_str().expect("it says why");
    assert!(error["code"] == -31004 && text.contains("was given up") && !text.contains("several agents"), "{error}");
    other.expect_quiet();
}

/// Case B16.
#[test]
fn pool_routes_a_call_to_an_instance_that_can_send_requests_to_its_agent() {
    let server = Server::named("s").line("sharing = \"pool\"").line("max_instances = 2");
    let daemon = Setup::with(server).start();
    let mut agents = [(); 2].map(|()| Agent::with_capabilities(&daemon, &json!({"sampling": {}})));
    let mut busy = Vec::new();
    for (n, agent) in agents.iter_mut().enumerate() {
        let ms = 60_000 + n;
        busy.push(agent.start_call("s__sleep", &json!({ "ms": ms })));
        daemon.wait_journal("s", &ms.to_string());
    }
    for agent in &mut agents {
        for _ in 0..3 {
            assert!(is_served_a_question(agent, Era::Legacy), "an instance works for no other agent");
        }
    }
    for (agent, id) in agents.iter_mut().zip(&busy) {
        agent.cancel(id);
        agent.expect_quiet();
    }
}
