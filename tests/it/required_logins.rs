//! Servers that require a login wait for a person without being contacted.

use serde_json::json;

use crate::login::fixture::LoginFixture;
use crate::support::http::{Behavior, Front, Response};
use crate::support::{Agent, Place, Setup, arguments, code, until};

fn locked(front: &Front) {
    front.intercept(|_| Some(Response::status(401).header("www-authenticate", "Bearer")));
}

/// Case I11.
#[test]
fn server_that_needs_a_login_is_not_retried_until_requested() {
    let place = Place::new();
    let front = Front::start(&place, "s", "", Behavior::default());
    locked(&front);
    let daemon = Setup::with(front.server()).start_in(&place);
    assert_eq!(daemon.row("s")["state"], "needs_login");
    let ran = daemon.client(&["status"]).expect_code(1);
    assert!(ran.stdout.contains("✗ s: needs a login: ") && ran.stdout.contains("→ mcpd login s\n"), "{ran}");
    assert!(Agent::ready(&daemon).tools().is_empty());
    let restarted = daemon.client(&["restart", "s"]).expect_code(1);
    assert!(restarted.stderr.contains("run `mcpd login s`"), "{restarted}");
    let tools = daemon.client(&["tools", "--all"]).stdout;
    assert!(tools.contains("s · 0 tools · needs a login: run `mcpd login s`"), "{tools}");
    // One time at the start and one at the restart: what was not let in is not tried again by itself.
    let tried = front.http().count(|request| request.method == "POST");
    assert_eq!(tried, 2);
    assert_eq!(daemon.row("s")["restarts_last_hour"], 0);
    front.stop_intercepting();
    daemon.client(&["restart", "s"]).expect_code(0);
    assert_eq!(daemon.row("s")["state"], "ready");
    daemon.client(&["status"]).expect_code(0);
}

/// Case I11.
#[test]
fn server_that_requires_a_login_later_has_its_calls_refused_at_once() {
    let place = Place::new();
    let front = Front::start(&place, "s", "", Behavior::default());
    let daemon = Setup::with(front.server()).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("s__echo", &json!({})));
    locked(&front);
    let refused = agent.call("s__echo", &json!({}));
    assert_eq!(refused["error"]["data"]["outcome"], "not_sent", "{refused}");
    daemon.wait_row("s", "needs a login", |row| row["state"] == "needs_login");
    let before = front.http().requests().len();
    let refused = agent.call("s__echo", &json!({}));
    assert_eq!(code(&refused), -31004, "{refused}");
    let message = refused["error"]["message"].to_string();
    assert!(message.contains("needs a login: ") && message.contains("run `mcpd login s`"), "{refused}");
    assert_eq!(refused["error"]["data"], json!({"server": "s", "outcome": "not_sent"}));
    assert_eq!(front.http().requests().len(), before);
}

/// Case I12.
#[test]
fn server_whose_new_url_needs_a_login_keeps_the_old_one_until_a_reload() {
    let fixture = LoginFixture::new();
    let old = Front::start(&fixture.place, "tracker", "", Behavior::default());
    Setup::with(old.server()).write(&fixture.place);
    let daemon = fixture.serve();
    Setup::with(fixture.front.server()).write(&fixture.place);
    let refused = daemon.client(&["reload"]).expect_code(1);
    let expected = "tracker: needs a login (its previous definition keeps running)\n    → mcpd login tracker";
    assert!(refused.stdout.contains(expected), "{refused}");
    arguments(&Agent::ready(&daemon).call("tracker__echo", &json!({})));
    let ran = fixture.log_in().expect_code(0);
    assert!(ran.stdout.contains("tracker: goes on as it was before it was changed, until `mcpd reload"), "{ran}");
    daemon.client(&["reload"]).expect_code(0);
    until("the session at the old one has ended", || (old.sessions() == 0).then_some(()));
    assert_eq!(fixture.front.sessions(), 1);
}
