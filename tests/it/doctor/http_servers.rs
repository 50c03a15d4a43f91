//! Findings about servers at URLs.

use super::{doctor, expect, expect_healthy, findings};
use crate::support::http::{Behavior, Front, Response};
use crate::support::{Place, Server, Setup};

#[test]
fn without_a_daemon_each_http_server_is_connected_once() {
    let place = Place::new();
    let good = Front::start(&place, "good", "--bare --tool x", Behavior::default());
    let [locked, lost] = ["locked", "lost"].map(|name| Front::start(&place, name, "", Behavior::default()));
    locked.intercept(|_| Some(Response::status(401)));
    lost.intercept(|_| Some(Response::status(404)));
    let config = Setup::with(good.server())
        .server(locked.server())
        .server(lost.server())
        // Nobody listens at the discard port.
        .server(Server::at("gone", "http://127.0.0.1:9/mcp"))
        .write(&place);
    let ran = place.client(&["doctor", "--json", "--config", config.to_str().expect("text")]).expect_code(1);
    let all = findings(&ran);
    let of = |name: &str| all.iter().find(|one| one.get("group") == "servers" && one.get("about") == name).expect(name);
    let found = of("good").get("found");
    let origin = format!("http://{}", good.http().address());
    assert!(found.starts_with("ready after ") && found.contains(&format!("streamable http at {origin}")), "{ran}");
    for (name, found, advice) in [
        ("gone", "did not start: cannot be reached: ", "nothing listens there"),
        ("lost", "did not start: ", "correct the path of its `url`"),
        ("locked", "needs a login", "`mcpd login locked --config "),
    ] {
        let finding = of(name);
        assert!(finding.get("level") == "problem" && finding.get("found").starts_with(found), "{finding:?}");
        assert!(finding.get("advice").contains(advice), "{finding:?}");
    }
    assert_eq!(good.sessions(), 0);
}

#[test]
fn unreachable_url_is_reported_with_its_proxy() {
    let place = Place::new();
    let front = Front::start(&place, "s", "", Behavior::default());
    let server = || Setup::with(front.server()).server(Server::at("gone", "http://127.0.0.1:9/mcp"));
    let mut daemon = Setup::with(front.server()).start_in(&place);
    expect_healthy(doctor(&daemon));
    daemon.term();
    let daemon = server().variable("ALL_PROXY", "http://127.0.0.1:9").variable("NO_PROXY", "*").start_in(&place);
    let finding = expect(doctor(&daemon), "problem", "gone", "cannot be reached");
    assert!(finding.get("advice").contains("ALL_PROXY is set"), "{finding:?}");
}

#[test]
fn dead_proxy_is_reported_as_the_cause() {
    let server = Setup::with(Server::at("far", "http://far.invalid/mcp"));
    let daemon = server.variable("ALL_PROXY", "http://127.0.0.1:9").start();
    let finding = expect(doctor(&daemon), "problem", "far", "the proxy 127.0.0.1:9 (`ALL_PROXY`) cannot be reached");
    assert!(finding.get("advice").starts_with("start that proxy"), "{finding:?}");
}
