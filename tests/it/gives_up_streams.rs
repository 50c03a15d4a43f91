//! A call whose stream cannot be gone on with is ended, also where the server does not say that it cannot.

use serde_json::json;

use crate::support::http::{Front, Manner, Response};
use crate::support::{Agent, Place, Setup, arguments};

/// Case I5.
#[test]
fn a_stream_that_is_gone_on_with_in_vain_is_not_asked_for_for_ever() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Manner { retry: Some(20), ..Manner::default() });
    let daemon = Setup::with(front.server()).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let progress = json!({"name": "a__progress", "arguments": {"n": 100, "every": 50}, "_meta": {"progressToken": 7}});
    let call = agent.ask("tools/call", &progress);
    agent.expect_notification("notifications/progress");
    // What it has forgotten has no events, rather than an error.
    front.instead(|request| request.header("last-event-id").map(|_| Response::body("text/event-stream", "")));
    front.cut_streams();
    let error = &agent.answer(&call)["error"];
    assert_eq!((&error["code"], &error["data"]["outcome"]), (&json!(-31001), &json!("unknown")), "{error}");
    front.as_before();
    arguments(&agent.call("a__echo", &json!({})));
    assert_eq!(daemon.row("a")["restarts"], 0);
}
