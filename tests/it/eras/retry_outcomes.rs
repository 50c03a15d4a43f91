//! A call that a modern server has read once may have had an effect, whatever happens to its retry.

use serde_json::json;

use crate::support::{Agent, Era, Setup, code};

const SAMPLE: &str = "sampling/createMessage";

#[test]
fn call_that_required_input_is_never_reported_as_not_sent() {
    let daemon = Setup::with(Era::Modern.server("s").line("call_timeout = \"2s\"")).start();
    let mut agent = Agent::with_capabilities(&daemon, &json!({"sampling": {}}));
    let rounds = json!([{"inputs": {"q": {"method": SAMPLE, "params": {}}}, "state": "s"}]);
    let call = agent.start_call("s__need_input", &json!({ "rounds": rounds }));
    let question = agent.expect_request(SAMPLE);
    let deaf = agent.start_call("s__stop_reading", &json!({}));
    daemon.wait_journal("s", "stop_reading");
    // More than it and the pipe take, so that what comes behind it is not read.
    let [first, second] = [(); 2].map(|()| agent.start_call("s__echo", &json!({"x": "x".repeat(200_000)})));
    agent.respond(&question, &json!({"model": "m"}));
    let answer = agent.answer(&call);
    assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31002, &json!("unknown")), "{answer}");
    for other in [deaf, first, second] {
        assert_eq!(code(&agent.answer(&other)), -31002);
    }
}
