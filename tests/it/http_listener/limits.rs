//! Limits of agents over HTTP: each has its error, and leaves room for others.

use serde_json::{Value, json};

use super::start;
use crate::support::http_agent::{GET, HttpAgent, HttpReply, POST, initialize, request};
use crate::support::{Server, Setup, connect_as, skipped, until};

/// Of a user whom a profile admits.
const GUEST: u32 = 54_321;
/// Connections of a guest at a profile.
const OF_GUEST: usize = 64;

/// Fails unless it is the error of a user with too many connections.
#[track_caller]
fn expect_too_many(reply: &HttpReply, id: &Value) {
    assert_eq!((reply.error(), reply.header("retry-after")), ((503, -31003), Some("1")), "{reply:?}");
    assert_eq!(reply.json()["id"], *id);
    assert_eq!(reply.json()["error"]["data"]["outcome"], "not_sent");
}

#[test]
fn http_connections_of_a_guest_are_charged_to_the_guest() {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can connect as somebody else");
        return;
    }
    let profile = format!("[profiles.guests]\nallow_uids = [{GUEST}]");
    let daemon = Setup::with(Server::named("s")).head(&profile).start();
    let socket = daemon.profile_socket("guests");
    let guest = || HttpAgent::from_stream(connect_as(GUEST, &socket).expect("the mode lets it"));
    let _others: Vec<_> = (3..OF_GUEST).map(|_| guest()).collect();
    // Connections are accepted in their order.
    let (mut first, mut second) = (guest(), guest());
    first.initialize("/mcp");
    expect_too_many(&second.post("/mcp", POST, &initialize(2)), &json!(2));
    HttpAgent::connect_to(&socket).initialize("/mcp");
}

#[test]
fn further_get_streams_of_a_session_get_429() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let session = http.initialize("/mcp");
    let mut streams: Vec<_> = (0..17).map(|_| HttpAgent::connect(&daemon)).collect();
    let replies: Vec<_> = streams.iter_mut().map(|one| one.request("GET /mcp", &format!("{GET}{session}"))).collect();
    let (refused, served) = replies.split_last().expect("some");
    assert!(served.iter().all(|reply| reply.status == 200), "{served:?}");
    assert_eq!((refused.error(), refused.header("retry-after")), ((429, -31003), Some("1")));
    let ping = request(2, "ping", &json!({}));
    assert_eq!(http.post("/mcp", &format!("{POST}{session}"), &ping).status, 200);
    streams.remove(0);
    until("there is room", || {
        let mut one = HttpAgent::connect(&daemon);
        (one.request("GET /mcp", &format!("{GET}{session}")).status == 200).then_some(())
    });
}
