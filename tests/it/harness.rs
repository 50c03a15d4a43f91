//! The test harness detects unread messages and leftover processes.

use std::time::Duration;

use serde_json::json;

use crate::support::{Agent, Place, SCRIPTED, Server};

#[test]
#[should_panic(expected = "not the end")]
fn unread_response_fails_the_test() {
    let daemon = Server::named("a").start();
    Agent::ready(&daemon).start_request("ping", &json!({}));
}

#[test]
#[should_panic(expected = "unread")]
fn notification_that_was_passed_over_fails_the_test() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let call = agent.start_call("a__mutate_tools", &json!({"add": ["new"]}));
    daemon.wait_row("a", "shows the new tool", |row| row["tools_exposed"] == 26);
    agent.answer(&call);
    agent.request("ping", &json!({}));
}

#[test]
#[should_panic(expected = "processes are left")]
fn process_that_was_left_behind_fails_the_test() {
    let place = Place::new();
    let mut child = place.command(SCRIPTED).arg("--stay-alive").spawn().expect("it starts");
    // Not given the usual time, because it does not leave by itself.
    let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| place.expect_no_process(Duration::ZERO)));
    child.wait().expect("the harness has killed it");
    std::panic::resume_unwind(verdict.expect_err("it was there"));
}
