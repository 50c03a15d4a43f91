//! Many concurrent calls.

use serde_json::json;

use super::{expect_well, start};
use crate::support::http::Behavior;
use crate::support::{Agent, arguments};

/// Calls in flight.
const MANY: usize = 100;

#[test]
fn hundred_concurrent_calls_report_progress_in_order_and_end_once() {
    for behavior in [Behavior::default(), Behavior::old()] {
        let (_front, daemon) = start(behavior);
        let mut agent = Agent::ready(&daemon);
        let calls: Vec<_> = (0..MANY)
            .map(|number| {
                let arguments = json!({"n": 3, "every": number * 7 % 11});
                let params = json!({"name": "a__progress", "arguments": arguments, "_meta": {"progressToken": number}});
                agent.start_request("tools/call", &params)
            })
            .collect();
        let mut steps_seen = [Some(0); MANY];
        while steps_seen.iter().any(Option::is_some) {
            let message = agent.next();
            if let Some(number) = message["params"]["progressToken"].as_u64() {
                let steps = steps_seen[number as usize].as_mut().expect("it has not been answered");
                *steps += 1;
                assert_eq!(message["params"]["progress"], json!(steps), "call {number}");
            } else {
                let number = calls.iter().position(|id| *id == message["id"]).expect("a call");
                assert_eq!(steps_seen[number].take(), Some(3), "call {number}: {message}");
                arguments(&message);
            }
        }
        expect_well(&mut agent);
    }
}

#[test]
fn hundred_concurrent_calls_reuse_connections() {
    let (front, daemon) = start(Behavior::json());
    let mut agent = Agent::ready(&daemon);
    for _ in 0..5 {
        let calls: Vec<_> = (0..MANY).map(|number| agent.start_call("a__echo", &json!({"number": number}))).collect();
        for (number, call) in calls.iter().enumerate() {
            assert_eq!(arguments(&agent.answer(call))["number"], number);
        }
    }
    // On a machine that stands still for seconds they are closed in between.
    assert!(front.http().accepted() < 2 * MANY, "{} connections", front.http().accepted());
    expect_well(&mut agent);
}
