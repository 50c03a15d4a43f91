//! Sessions of the legacy era: streams, resumption, and their end.

use std::thread;

use serde_json::{Value, json};

use super::start;
use crate::support::http_agent::{GET, HttpAgent, POST, call, initialize, request};
use crate::support::{Server, Setup, arguments, until};

/// The session of another connection, ready to post.
fn session(http: &mut HttpAgent) -> (String, String) {
    let session = http.initialize("/mcp");
    (format!("{POST}{session}"), format!("{GET}{session}"))
}

/// A call that sends this many progress notifications.
fn progress(id: u64, n: u64, every: u64) -> Value {
    let mut call = call(id, "s__progress", &json!({"n": n, "every": every}));
    call["params"]["_meta"] = json!({"progressToken": format!("token-{id}")});
    call
}

#[test]
fn what_precedes_a_response_comes_in_an_event_stream() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let (post, _) = session(&mut http);
    let reply = http.post("/mcp", &post, &progress(5, 3, 1));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
    let first = http.event().expect("an event that primes the client");
    assert_eq!((first.data, first.id.is_some()), (Value::Null, true));
    let messages = http.messages();
    let steps: Vec<_> = messages.iter().map(|message| message["params"]["progress"].clone()).collect();
    assert_eq!(steps, [json!(1), json!(2), json!(3), Value::Null]);
    assert!(messages[..3].iter().all(|message| message["params"]["progressToken"] == "token-5"));
    assert_eq!((&messages[3]["id"], arguments(&messages[3])["n"].clone()), (&json!(5), json!(3)));
    // Older clients would read the event without data as a message.
    let older = post.replace("2025-11-25", "2025-06-18");
    http.post("/mcp", &older, &progress(6, 1, 1));
    assert_eq!(http.event().expect("an event").data["params"]["progress"], 1);
    assert_eq!(http.messages().len(), 1);
}

#[test]
fn requests_of_one_session_run_at_once_on_several_connections() {
    let daemon = start();
    let mut first = HttpAgent::connect(&daemon);
    let (post, _) = session(&mut first);
    first.start_post("/mcp", &post, &progress(1, 1, 60_000).to_string());
    let mut others: Vec<_> = (2..6).map(|id| (id, HttpAgent::connect(&daemon))).collect();
    for (id, other) in &mut others {
        other.start_post("/mcp", &post, &progress(*id, 2, 20).to_string());
    }
    for (id, other) in &mut others {
        other.reply();
        let messages = other.messages();
        let token = json!(format!("token-{id}"));
        assert!(messages[..2].iter().all(|message| message["params"]["progressToken"] == token), "{messages:?}");
        assert_eq!(messages[2]["id"], *id);
    }
    let mut second = HttpAgent::connect(&daemon);
    assert_eq!(second.post("/mcp", &post, &request(1, "ping", &json!({}))).error(), (400, -32600), "the id is in use");
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(second.post("/mcp", &post, &cancelled).status, 202);
    assert_eq!(first.reply().status, 200);
    assert_eq!(first.messages(), [Value::Null; 0], "a cancelled request gets no response");
}

#[test]
fn get_streams_have_what_belongs_to_no_request() {
    // The limit ends a call whose question is lost.
    let daemon = Setup::with(Server::named("s").line("call_timeout = '60s'")).start();
    let mut http = HttpAgent::connect(&daemon);
    let (post, get) = session(&mut http);
    let mut stream = HttpAgent::connect(&daemon);
    assert_eq!(stream.request("GET /mcp", &get).header("content-type"), Some("text/event-stream"));
    assert_eq!(stream.event().expect("an event that primes the client").data, Value::Null);
    http.post("/mcp", &post, &request(9, "tools/list", &json!({}))).message();
    http.post("/mcp", &post, &call(2, "s__mutate_tools", &json!({"add": ["fresh"]}))).message();
    assert_eq!(stream.event().expect("a notification").data["method"], "notifications/tools/list_changed");
    // A request of the server comes on the stream, and its response in a POST.
    http.start_post(
        "/mcp",
        &post,
        &call(3, "s__send_request", &json!({"method": "sampling/createMessage"})).to_string(),
    );
    let received = stream.event().expect("a request").data;
    assert_eq!(received["method"], "sampling/createMessage");
    let answer = json!({"jsonrpc": "2.0", "id": received["id"], "result": {"role": "assistant", "model": "m"}});
    let mut other = HttpAgent::connect(&daemon);
    assert_eq!(other.post("/mcp", &post, &answer).status, 202);
    let echoed = http.reply().message();
    assert!(echoed.to_string().contains("assistant"), "{echoed}");
    // Without a GET stream, it comes on the stream of the request.
    drop(stream);
    until("the stream has ended", || {
        let mut http = HttpAgent::connect(&daemon);
        http.start_post(
            "/mcp",
            &post,
            &call(4, "s__send_request", &json!({"method": "sampling/createMessage"})).to_string(),
        );
        if http.reply().header("content-type") != Some("text/event-stream") {
            return None;
        }
        http.event().expect("an event that primes the client");
        let received = http.event().expect("a message").data;
        // Before mcpd knows that nobody reads the other stream, the request is lost there, and only its cancellation comes here.
        (received["method"] == "sampling/createMessage").then(|| {
            let answer = json!({"jsonrpc": "2.0", "id": received["id"], "result": {}});
            assert_eq!(other.post("/mcp", &post, &answer).status, 202);
            assert_eq!(http.messages().len(), 1);
        })
    });
}

#[test]
fn interrupted_stream_is_resumed_with_its_last_event() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let (post, get) = session(&mut http);
    let mut lost = HttpAgent::connect(&daemon);
    lost.post("/mcp", &post, &progress(9, 3, 30));
    let primed = lost.event().expect("an event that primes the client").id.expect("an id");
    let first = lost.event().expect("progress");
    assert_eq!(first.data["params"]["progress"], 1);
    drop(lost);
    // Answered while nobody reads.
    http.post("/mcp", &post, &progress(10, 6, 30));
    http.messages();
    let resume = |id: &str| format!("{get}Last-Event-ID: {id}\r\n");
    let id = first.id.expect("an id");
    for (last, left) in [(&primed, &[1, 2, 3][..]), (&id, &[2, 3]), (&id, &[2, 3])] {
        let mut again = HttpAgent::connect(&daemon);
        assert_eq!(again.request("GET /mcp", &resume(last)).status, 200);
        let mut messages = again.messages();
        assert_eq!(messages.pop().map(|message| message["id"].clone()), Some(json!(9)));
        let found: Vec<_> = messages.iter().map(|message| message["params"]["progress"].clone()).collect();
        assert_eq!(found, left, "{messages:?}");
    }
    for unknown in ["", "x", "999-0", "1-0", &format!("{id}0")] {
        assert_eq!(http.request("GET /mcp", &resume(unknown)).status, 400, "{unknown}");
    }
}

#[test]
fn resumed_get_stream_begins_with_what_was_sent_while_nobody_read_it() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let (post, get) = session(&mut http);
    http.post("/mcp", &post, &request(9, "tools/list", &json!({}))).message();
    let mut lost = HttpAgent::connect(&daemon);
    lost.request("GET /mcp", &get);
    let id = lost.event().expect("an event that primes the client").id.expect("an id");
    drop(lost);
    let mut other = HttpAgent::connect(&daemon);
    let (post, read) = session(&mut other);
    other.post("/mcp", &post, &request(9, "tools/list", &json!({}))).message();
    let mut stream = HttpAgent::connect(&daemon);
    stream.request("GET /mcp", &read);
    stream.event().expect("an event that primes the client");
    other.post("/mcp", &post, &call(2, "s__mutate_tools", &json!({"add": ["fresh"]}))).message();
    assert_eq!(stream.event().expect("a notification").data["method"], "notifications/tools/list_changed");
    let mut again = HttpAgent::connect(&daemon);
    assert_eq!(again.request("GET /mcp", &format!("{get}Last-Event-ID: {id}\r\n")).status, 200);
    assert_eq!(again.event().expect("a notification").data["method"], "notifications/tools/list_changed");
}

#[test]
fn session_belongs_to_its_path_and_ends_with_delete() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let (post, get) = session(&mut http);
    let ping = request(2, "ping", &json!({}));
    assert_eq!(http.post("/servers/s", &post, &ping).status, 404, "another path");
    let mut stream = HttpAgent::connect(&daemon);
    stream.request("GET /mcp", &get);
    stream.event().expect("an event that primes the client");
    let mut open = HttpAgent::connect(&daemon);
    open.start_post("/mcp", &post, &call(3, "s__sleep", &json!({"ms": 60_000})).to_string());
    until("the call runs", || daemon.status()["servers"][0]["in_flight"].as_u64().filter(|calls| *calls > 0));
    assert_eq!(http.request("DELETE /mcp", &get).status, 204);
    assert_eq!(http.post("/mcp", &post, &ping).error(), (404, -32600));
    assert_eq!(http.request("GET /mcp", &get).status, 404);
    assert_eq!(http.request("DELETE /mcp", &get).status, 404);
    assert_eq!(stream.event(), None);
    let lost = open.reply();
    assert_eq!((lost.error(), &lost.json()["id"]), ((404, -31005), &json!(3)));
    assert_eq!(lost.json()["error"]["data"]["outcome"], "unknown", "it was sent");
    until("the call was cancelled", || (daemon.status()["servers"][0]["in_flight"] == 0).then_some(()));
    assert_eq!(http.request("GET /mcp", GET).status, 405, "without a session there is no stream");
    assert_eq!(http.request("DELETE /mcp", GET).header("allow"), Some("POST"));
    let legacy = format!("{GET}MCP-Protocol-Version: 2025-06-18\r\n");
    assert_eq!(http.request("GET /mcp", &legacy).error(), (400, -32600), "a legacy client has forgotten its session");
}

#[test]
fn id_of_a_request_stays_in_use_when_its_connection_is_gone() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let (post, _) = session(&mut http);
    let in_flight = || daemon.status()["servers"][0]["in_flight"].as_u64().expect("a number");
    let mut lost = HttpAgent::connect(&daemon);
    lost.start_post("/mcp", &post, &call(3, "s__sleep", &json!({"ms": 60_000})).to_string());
    until("the call runs", || (in_flight() == 1).then_some(()));
    drop(lost);
    let again = call(3, "s__echo", &json!({"text": "again"}));
    for _ in 0..20 {
        assert_eq!(in_flight(), 1);
        assert_eq!(http.post("/mcp", &post, &again).error(), (400, -32600));
    }
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}});
    assert_eq!(http.post("/mcp", &post, &cancelled).status, 202);
    let answer = until("the id is free", || Some(http.post("/mcp", &post, &again)).filter(|reply| reply.status == 200));
    assert_eq!(arguments(&answer.message())["text"], "again");
}

#[test]
fn messages_that_nobody_reads_wait_for_the_stream_that_is_resumed() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let (post, get) = session(&mut http);
    let mut lost = HttpAgent::connect(&daemon);
    lost.request("GET /mcp", &get);
    let primed = lost.event().expect("an event that primes the client").id.expect("an id");
    drop(lost);
    let mut added = 0_u64;
    until("a message comes while nothing is read", || {
        added += 2;
        // An agent learns of changes to lists that it has read.
        http.post("/mcp", &post, &request(added, "tools/list", &json!({}))).message();
        let change = call(added + 1, "s__mutate_tools", &json!({"add": [format!("fresh{added}")]}));
        let is_single = http.post("/mcp", &post, &change).header("content-type") == Some("application/json");
        if !is_single {
            http.messages();
        }
        is_single.then_some(())
    });
    let mut again = HttpAgent::connect(&daemon);
    assert_eq!(again.request("GET /mcp", &format!("{get}Last-Event-ID: {primed}\r\n")).status, 200);
    assert_eq!(again.event().expect("a notification").data["method"], "notifications/tools/list_changed");
}

#[test]
fn session_that_nobody_uses_expires_unless_a_stream_is_read() {
    let daemon = Setup::with(Server::named("s")).variable("MCPD_TEST_HTTP_IDLE_MS", "300").start();
    let mut http = HttpAgent::connect(&daemon);
    let (post, _) = session(&mut http);
    let (_, read) = session(&mut http);
    let mut stream = HttpAgent::connect(&daemon);
    stream.request("GET /mcp", &read);
    until("only the session with a stream is left", || (super::agents(&daemon).len() == 1).then_some(()));
    assert_eq!(http.post("/mcp", &post, &request(2, "ping", &json!({}))).status, 404);
    assert_eq!(
        http.post(
            "/mcp",
            &read.replace("text/event-stream", "*/*\r\nContent-Type: application/json"),
            &request(2, "ping", &json!({}))
        )
        .status,
        200
    );
}

#[test]
fn refused_initialize_opens_no_session() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let mut body = initialize(1);
    body["params"].as_object_mut().expect("params").remove("clientInfo");
    let reply = http.post("/mcp", POST, &body);
    assert_eq!((reply.error(), reply.header("mcp-session-id")), ((200, -32602), None));
    until("it has ended", || super::agents(&daemon).is_empty().then_some(()));
}

#[test]
fn agents_by_http_receive_their_answers_when_the_daemon_stops() {
    let mut daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let (post, get) = session(&mut http);
    let mut stream = HttpAgent::connect(&daemon);
    stream.request("GET /mcp", &get);
    http.start_post("/mcp", &post, &call(3, "s__sleep", &json!({"ms": 300})).to_string());
    until("the call runs", || daemon.journal("s").iter().any(|line| line.contains("\"sleep\"")).then_some(()));
    let answer = thread::spawn(move || http.reply().message());
    assert!(daemon.term().success());
    assert_eq!(answer.join().expect("an answer")["id"], 3);
    assert_eq!(stream.messages(), [Value::Null; 0]);
}
