//! A call that nobody wants any more keeps a shared server from asking other agents only as long as it may be at it.

use serde_json::{Value, json};

use crate::support::{Agent, Era, Server, Setup, inputs, until};

const SAMPLE: &str = "sampling/createMessage";

fn cancel(agent: &mut Agent, id: &Value) {
    agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
}

/// Whether the agent was asked during a call; if not, the server was told why at once.
fn is_asked(agent: &mut Agent, era: Era) -> bool {
    let arguments = json!({"method": SAMPLE, "params": {}});
    let id = agent.start_call("s__ask_client", &arguments);
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
            agent.call_again("s__ask_client", &arguments, &first, &responses)
        }
    };
    assert_eq!(answer["result"]["structuredContent"]["result"], json!({"model": "m"}), "{answer}");
    true
}

/// Case B16.
#[test]
fn a_cancelled_call_that_is_never_answered_does_not_keep_a_server_from_asking_for_ever() {
    for era in Era::BOTH {
        let daemon = Setup::with(Server::named("s").line("call_timeout = \"1s\"")).start();
        let (mut one, mut other) = (Agent::ready(&daemon), era.agent(&daemon, &json!({"sampling": {}})));
        let given_up = one.start_call("s__sleep", &json!({"ms": 60_000}));
        daemon.wait_journal("s", "60000");
        cancel(&mut one, &given_up);
        daemon.wait_journal("s", "notifications/cancelled");
        assert!(!is_asked(&mut other, era), "the server may still be at the other's");
        until("it is asked", || is_asked(&mut other, era).then_some(()));
        one.expect_quiet();
        other.expect_quiet();
    }
}

#[test]
fn a_call_that_has_run_out_of_time_does_not_either() {
    let daemon = Setup::with(Server::named("s").line("call_timeout = \"500ms\"")).start();
    let (mut one, mut other) = (Agent::ready(&daemon), Agent::able(&daemon, &json!({"sampling": {}})));
    let answer = one.call("s__sleep", &json!({"ms": 60_000}));
    assert_eq!(answer["error"]["code"], -31002, "{answer}");
    until("it is asked", || is_asked(&mut other, Era::Legacy).then_some(()));
    other.expect_quiet();
}
