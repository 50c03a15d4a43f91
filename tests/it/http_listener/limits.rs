//! Limits of agents over HTTP: each has its error, and leaves room for others.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::loopback::free;
use super::{GUEST, start, with_guests};
use crate::support::http_agent::{GET, HttpAgent, HttpReply, POST, call, initialize, modern, modern_headers, request};
use crate::support::{Agent, Daemon, Server, Setup, arguments, code, connect_as, resident_kib, signal, until};

/// Open files of a daemon. Half of them may be connections, and half of these of one user.
const FILES: usize = 400;
const OF_USER: usize = FILES / 4;
/// Connections of a guest at a profile.
const OF_GUEST: usize = 64;
/// GET streams of a session.
const OF_SESSION: usize = 16;
/// Refused connections that are kept.
const KEPT: usize = 16;

/// Few connections are admitted. Refused ones may take their time.
fn with_few_connections() -> Setup {
    Setup::with(Server::named("s")).line_timeout(3_600_000).after_shell(&format!("ulimit -n {FILES}"))
}

/// Fails unless it is the error of a user with too many connections.
#[track_caller]
fn expect_too_many(reply: &HttpReply, id: &Value) {
    assert_eq!((reply.error(), reply.header("retry-after")), ((503, -31003), Some("1")), "{reply:?}");
    assert_eq!(reply.json()["id"], *id);
    assert_eq!(reply.json()["error"]["data"]["outcome"], "not_sent");
}

/// Connects so many agents, and returns once they are accepted.
fn connect_all(daemon: &Daemon, count: usize) -> Vec<HttpAgent> {
    let mut all: Vec<_> = (0..count).map(|_| HttpAgent::connect(daemon)).collect();
    for http in &mut all {
        assert_eq!(http.request("GET /healthz", GET).status, 200);
    }
    all
}

/// A connection whose first request has arrived before the daemon accepts it.
fn with_early_request(daemon: &Daemon) -> HttpAgent {
    signal(daemon.pid(), Signal::STOP);
    let mut http = HttpAgent::connect(daemon);
    http.start_post("/mcp", POST, &initialize(1).to_string());
    signal(daemon.pid(), Signal::CONT);
    http
}

/// Fails unless the connection is refused, and ends.
#[track_caller]
fn expect_refused(mut http: HttpAgent) {
    let reply = http.reply();
    expect_too_many(&reply, &Value::Null);
    assert_eq!(reply.header("connection"), Some("close"));
    assert!(http.try_reply().is_none(), "the connection is closed");
}

#[test]
fn connections_and_sessions_beyond_those_of_a_user_get_503() {
    let daemon = with_few_connections().start();
    let mut agent = Agent::ready(&daemon);
    let mut all = connect_all(&daemon, OF_USER - 2);
    let (mut one, mut other) = (all.swap_remove(0), all.swap_remove(0));
    // A session is one more connection of its user.
    let session = format!("{POST}{}", one.initialize("/mcp"));
    expect_too_many(&other.post("/mcp", POST, &initialize(7)), &json!(7));
    expect_refused(with_early_request(&daemon));
    // What is connected still works.
    arguments(&agent.call("s__echo", &json!({})));
    arguments(&one.post("/mcp", &session, &call(2, "s__echo", &json!({}))).message());
    let refused = other.modern("/mcp", 3, "tools/list", &json!({}));
    expect_too_many(&refused, &json!(3));
    assert_eq!(one.request("DELETE /mcp", &session).status, 204);
    until("there is room", || (other.post("/mcp", POST, &initialize(8)).status == 200).then_some(()));
}

#[test]
fn refused_connection_gets_the_reason_in_its_protocol() {
    let address = free();
    let daemon = with_few_connections().head(&format!("[profiles.default]\nhttp = '{address}'")).start();
    let _all = connect_all(&daemon, OF_USER);
    let mut late = HttpAgent::connect(&daemon);
    until("it is accepted", || daemon.log().contains("refused an agent").then_some(()));
    late.start_post("/mcp", POST, &initialize(1).to_string());
    expect_refused(late);
    let mut loopback = HttpAgent::connect_tcp(address);
    loopback.start_post("/mcp", POST, &initialize(1).to_string());
    expect_refused(loopback);
    let mut agent = Agent::connect(&daemon);
    agent.send(&initialize(1));
    assert_eq!(code(&agent.next()), -31003);
    agent.expect_end();
    // While many send nothing, further ones are refused at once.
    let _silent: Vec<_> = (0..KEPT).map(|_| HttpAgent::connect(&daemon)).collect();
    let mut further = Agent::connect(&daemon);
    assert_eq!(code(&further.next()), -31003);
    further.expect_end();
    expect_refused(with_early_request(&daemon));
}

#[test]
fn http_connections_of_a_guest_are_charged_to_the_guest() {
    let Some((_daemon, socket)) = with_guests() else { return };
    let guest = || HttpAgent::from_stream(connect_as(GUEST, &socket).expect("the mode lets it"));
    let _others: Vec<_> = (3..OF_GUEST).map(|_| guest()).collect();
    let (mut first, mut second) = (guest(), guest());
    assert_eq!(second.request("GET /healthz", GET).status, 200, "all are accepted, in their order");
    first.initialize("/mcp");
    expect_too_many(&second.post("/mcp", POST, &initialize(2)), &json!(2));
    HttpAgent::connect_to(&socket).initialize("/mcp");
}

#[test]
fn ten_thousand_streams_are_bounded_and_disturb_no_others() {
    const ATTEMPTS: usize = 10_000;
    const AT_ONCE: usize = 100;
    let daemon = with_few_connections().start();
    let (mut agent, idle) = (Agent::ready(&daemon), resident_kib(daemon.pid()));
    agent.tools();
    let mut http = HttpAgent::connect(&daemon);
    let session = http.initialize("/mcp");
    let get = format!("GET /mcp HTTP/1.1\r\n{GET}{session}\r\n");
    let mut streams = connect_all(&daemon, OF_SESSION);
    streams.iter_mut().for_each(|stream| stream.write(&get));
    // Besides the agent, both sessions, and the connection of one.
    let mut modern_streams = connect_all(&daemon, OF_USER - OF_SESSION - 4);
    for (id, stream) in (1..).zip(&mut modern_streams) {
        let listen = modern(id, "subscriptions/listen", &json!({"notifications": {"toolsListChanged": true}}));
        stream.start_post("/mcp", &modern_headers(&listen), &listen.to_string());
    }
    for stream in streams.iter_mut().chain(&mut modern_streams) {
        let reply = stream.reply();
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")), "{reply:?}");
    }
    // The others are refused.
    expect_refused(with_early_request(&daemon));
    for refused in (OF_USER..ATTEMPTS).step_by(AT_ONCE) {
        http.write(get.repeat(AT_ONCE));
        for _ in 0..AT_ONCE {
            assert_eq!(http.reply().error(), (429, -31003), "{refused}");
        }
        arguments(&agent.call("s__echo", &json!({"n": refused})));
    }
    let each = resident_kib(daemon.pid()).saturating_sub(idle) / OF_USER as u64;
    assert!(each < 128, "{each} KiB for each stream");
    agent.call("s__mutate_tools", &json!({"add": ["fresh"]}));
    for stream in &mut modern_streams {
        let methods = [(); 2].map(|()| stream.event().expect("a notification").data["method"].clone());
        assert_eq!(methods[1], "notifications/tools/list_changed");
    }
    agent.expect_notification("notifications/tools/list_changed");
    assert_eq!(http.request("DELETE /mcp", &format!("{GET}{session}")).status, 204);
    drop((http, streams, modern_streams));
    until("they are released", || (super::agents(&daemon).len() == 1).then_some(()));
    let connect = || {
        let mut http = HttpAgent::connect(&daemon);
        (http.request("GET /healthz", GET).status == 200).then_some(http)
    };
    let _others: Vec<_> = (1..OF_USER).map(|_| until("there is room", connect)).collect();
}

#[test]
fn further_get_streams_of_a_session_get_429() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let session = http.initialize("/mcp");
    let mut streams: Vec<_> = (0..=OF_SESSION).map(|_| HttpAgent::connect(&daemon)).collect();
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
