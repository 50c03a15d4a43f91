//! The HTTP servers of the tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::support::http::{Behavior, Cut, Cutter, Direction, Front, HttpServer, Lock, Response};
use crate::support::{Place, WAIT_LIMIT, until};

/// A connection on which a request was sent: method, path and further headers, and a body.
fn send_request(address: SocketAddr, head: &str, headers: &[(&str, &str)], body: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(WAIT_LIMIT)).expect("not zero");
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let request = format!("{head} HTTP/1.1\r\nHost: test\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("it reads");
    BufReader::new(stream)
}

/// All until the end; an error if that is a reset.
fn read_all(mut stream: BufReader<TcpStream>) -> std::io::Result<String> {
    // Only the end of what is said is waited for.
    let _ = stream.get_ref().shutdown(std::net::Shutdown::Write);
    let mut text = String::new();
    stream.read_to_string(&mut text).map(|_| text)
}

/// Reads until a line has `part` in it; the last line of a body may have no end.
fn line(stream: &mut BufReader<TcpStream>, part: &str) -> String {
    let mut line = String::new();
    loop {
        let bytes = stream.fill_buf().expect("more comes");
        assert!(!bytes.is_empty(), "the end before {part}");
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
        line.push_str(std::str::from_utf8(&bytes[..end]).expect("text"));
        stream.consume(end);
        if line.contains(part) {
            return line.trim_end().to_owned();
        }
        if line.ends_with('\n') {
            line.clear();
        }
    }
}

#[test]
fn scripted_http_server_writes_every_kind_of_body_and_records_requests() {
    let http = HttpServer::start(|request| match request.path.as_str() {
        "/whole" => Response::json(&json!({"a": 1})).header("x-more", "7"),
        "/chunks" => Response::body("text/plain", "abcdef").chunked(4).with_status(201),
        "/end" => Response::body("text/plain", "abc").until_end(),
        "/raw" => Response::raw("HTTP/1.0 200 OK\r\n\r\nold"),
        "/nothing" => Response::disconnect(),
        _ => Response::status(204),
    });
    let of = |path: &str| read_all(send_request(http.address(), &format!("GET {path}"), &[], "")).expect("an end");
    assert_eq!(
        of("/whole"),
        "HTTP/1.1 200 Whatever\r\ncontent-type: application/json\r\nx-more: 7\r\ncontent-length: 7\r\n\r\n{\"a\":1}"
    );
    assert!(of("/chunks").starts_with("HTTP/1.1 201"), "{}", of("/chunks"));
    assert!(of("/chunks").ends_with("\r\n\r\n4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\n"), "{}", of("/chunks"));
    assert!(of("/end").ends_with("connection: close\r\n\r\nabc"), "{}", of("/end"));
    assert_eq!((of("/raw").as_str(), of("/nothing").as_str()), ("HTTP/1.0 200 OK\r\n\r\nold", ""));
    let form = send_request(http.address(), "POST /form?a=b%20c", &[("X-Secret", "s")], "d=e+f");
    assert_eq!(read_all(form).expect("an end"), "HTTP/1.1 204 Whatever\r\n\r\n");
    let request = http.requests().pop().expect("a request");
    assert_eq!((request.query()["a"].as_str(), request.form()["d"].as_str()), ("b c", "e f"));
    assert_eq!((request.header("x-secret"), request.json()), (Some("s"), Value::Null));
    assert!(request.head().contains("x-secret: s"), "{}", request.head());
    assert_eq!(request.connection + 1, http.accepted());
    assert_eq!(http.count(|request| request.method == "GET"), 6);
    until("connections end", || (http.open() == 0).then_some(()));
}

#[test]
fn stream_is_written_while_it_is_read_and_cut_on_request() {
    let (events, raw) = (Response::events(), Response::raw_stream());
    let answers = Lock::new(vec![raw.1, events.1]);
    let http = HttpServer::start(move |_| answers.lock().pop().expect("two requests"));
    let mut first = send_request(http.address(), "GET /", &[], "");
    assert!(events.0.event("1", "one\ntwo") && events.0.event("", "three"));
    assert_eq!(line(&mut first, "id"), "id: 1");
    assert_eq!(line(&mut first, "two"), "data: two");
    assert_eq!(line(&mut first, "three"), "data: three");
    events.0.cut();
    assert!(!read_all(first).expect("an end").contains("0\r\n\r\n"));
    let mut second = send_request(http.address(), "GET /", &[], "");
    assert!(raw.0.write("HTTP/1.1 200 OK\r\n"));
    assert_eq!(line(&mut second, "200"), "HTTP/1.1 200 OK");
    drop(second);
    until("it is noticed that nobody reads", || (!raw.0.is_read()).then_some(()));
}

#[test]
#[should_panic(expected = "not to come")]
fn request_that_was_not_to_come_fails_the_test() {
    let http = HttpServer::start(|_| Response::unexpected());
    assert_eq!(read_all(send_request(http.address(), "GET /", &[], "")).expect("an end"), "");
}

const POST: &[(&str, &str)] =
    &[("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")];
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;

/// The id of a session that this opens.
fn open_session(front: &Front) -> String {
    let mut stream = send_request(front.http().address(), "POST /mcp", POST, INITIALIZE);
    let id = line(&mut stream, "mcp-session-id").split_once(": ").expect("a header").1.to_owned();
    line(&mut stream, "serverInfo");
    id
}

fn post(front: &Front, session: &str, body: &str) -> BufReader<TcpStream> {
    let headers: Vec<_> = POST.iter().copied().chain([("Mcp-Session-Id", session)]).collect();
    send_request(front.http().address(), "POST /mcp", &headers, body)
}

fn call(tool: &str, arguments: &str) -> String {
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments},"_meta":{{"progressToken":9}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{params}}}"#)
}

#[test]
fn front_answers_by_json_or_by_events_and_knows_its_sessions() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::json());
    let session = open_session(&front);
    let mut answer = post(&front, &session, &call("echo", r#"{"n":1}"#));
    assert!(line(&mut answer, "structuredContent").contains(r#""n":1"#));
    line(&mut post(&front, "other", &call("echo", "{}")), " 404 ");
    line(&mut send_request(front.http().address(), "POST /mcp", POST, &call("echo", "{}")), " 400 ");
    line(&mut send_request(front.http().address(), "POST /mcp", &POST[1..], INITIALIZE), " 406 ");
    line(&mut send_request(front.http().address(), "POST /mcp", &POST[..1], INITIALIZE), " 415 ");
    assert_eq!(front.sessions(), 1);
    line(&mut send_request(front.http().address(), "DELETE /mcp", &[("Mcp-Session-Id", &session)], ""), " 200 ");
    assert_eq!(front.sessions(), 0);
    front.intercept(|_| Some(Response::status(500)));
    line(&mut post(&front, &session, INITIALIZE), " 500 ");
    front.stop_intercepting();
    let session = open_session(&front);
    front.forget_sessions();
    line(&mut post(&front, &session, &call("echo", "{}")), " 404 ");
    let session = open_session(&front);
    assert_eq!(read_all(post(&front, &session, &call("die", "{}"))).expect("an end"), "");
}

#[test]
fn scripted_http_server_replays_after_an_event_id() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior { retry: Some(20), ..Behavior::default() });
    let session = open_session(&front);
    let mut stream = post(&front, &session, &call("progress", r#"{"n":3,"every":300}"#));
    line(&mut stream, "retry: 20");
    let id = line(&mut stream, "id: ").trim_start_matches("id: ").to_owned();
    line(&mut stream, r#""progress":1"#);
    front.cut_streams();
    assert!(!read_all(stream).expect("an end").contains("structuredContent"));
    let resume = [("Mcp-Session-Id", &*session), ("Last-Event-ID", &*id)];
    let mut stream = send_request(front.http().address(), "GET /mcp", &resume, "");
    for part in [r#""progress":1"#, r#""progress":2"#, r#""progress":3"#, "structuredContent"] {
        line(&mut stream, part);
    }
    assert!(read_all(stream).expect("an end").ends_with("0\r\n\r\n"));
    let mut common = send_request(front.http().address(), "GET /mcp", &resume[..1], "");
    until("somebody listens", || (front.stream_listeners() == 1).then_some(()));
    line(&mut post(&front, &session, &call("burst_list_changed", r#"{"n":1}"#)), "structuredContent");
    line(&mut common, "list_changed");
    front.end_streams();
    assert!(read_all(common).expect("an end").ends_with("0\r\n\r\n"));
}

#[test]
fn front_speaks_http_with_sse() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::old());
    line(&mut send_request(front.http().address(), "POST /sse", POST, INITIALIZE), " 405 ");
    let mut stream = send_request(front.http().address(), "GET /sse", &[], "");
    line(&mut stream, "event: endpoint");
    let path = line(&mut stream, "data: ").trim_start_matches("data: ").to_owned();
    line(&mut send_request(front.http().address(), &format!("POST {path}"), POST, &call("echo", "{}")), " 202 ");
    line(&mut stream, "structuredContent");
    front.http().wait_request("the call", |request| request.rpc() == "tools/call");
    let table = format!("[servers.a]\nurl = \"{}\"\n\n", front.http().url("/sse"));
    assert_eq!((front.sessions(), front.server().toml(&place)), (1, table));
    drop(stream);
    until("the session ends with its stream", || (front.sessions() == 0).then_some(()));
}

#[test]
fn front_does_without_sessions_ids_of_events_and_a_stream() {
    let place = Place::new();
    let behavior = Behavior { has_sessions: false, has_event_ids: false, has_stream: false, ..Behavior::default() };
    let front = Front::start(&place, "a", "", behavior);
    let initialized = send_request(front.http().address(), "POST /mcp", POST, INITIALIZE);
    let initialized = read_all(initialized).expect("an end");
    assert!(initialized.contains("\r\n\r\n") && !initialized.contains("session") && !initialized.contains("id: "));
    line(&mut send_request(front.http().address(), "GET /mcp", &[], ""), " 405 ");
    line(&mut send_request(front.http().address(), "POST /mcp", POST, &call("echo", "{}")), "structuredContent");
}

#[test]
fn cutter_passes_so_many_bytes_and_cuts_once() {
    let http = HttpServer::start(|request| Response::body("text/plain", request.body.clone()));
    let cutter = Cutter::before(http.address());
    let whole = read_all(send_request(cutter.address(), "POST /", &[], "body")).expect("an end");
    let (sent, received) = cutter.passed();
    assert_eq!(received, whole.len() as u64);
    for (direction, after, left) in
        [(Direction::FromServer, received - 2, received - 2), (Direction::ToServer, sent - 1, 0)]
    {
        cutter.plan(Cut { direction, after, resets: false });
        let cut = read_all(send_request(cutter.address(), "POST /", &[], "body")).expect("an end");
        assert_eq!((cut.len() as u64, cutter.give_up()), (left, false));
    }
    cutter.plan(Cut { direction: Direction::FromServer, after: 0, resets: true });
    read_all(send_request(cutter.address(), "POST /", &[], "body")).expect_err("a reset");
    cutter.plan(Cut { direction: Direction::FromServer, after: 10_000, resets: true });
    assert_eq!(read_all(send_request(cutter.address(), "POST /", &[], "body")).expect("an end"), whole);
    assert!(cutter.give_up());
    let mut stream = send_request(cutter.address(), "POST /", &[], "body");
    line(&mut stream, "body");
    cutter.cut_all();
    assert_eq!(read_all(stream).expect("an end"), "");
}
