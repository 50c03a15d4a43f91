//! Response bodies in every framing, malformed and endless: each call ends once, and others are not affected.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

use super::{beside, expect_error, expect_well, start, start_with};
use crate::support::http::{Behavior, Front, Lock, Response, Writer};
use crate::support::{Agent, Daemon, Place, Server, Setup, code, field, resident_kib, result};

fn answer(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [], "n": 1}})
}

#[test]
fn response_is_the_same_in_every_framing() {
    let (front, daemon) = start(Behavior::json());
    let mut agent = Agent::ready(&daemon);
    let framings: [fn(&Value) -> Response; 10] = [
        |id| Response::json(&answer(id)),
        |id| Response::json(&answer(id)).chunked(1),
        |id| Response::json(&answer(id)).until_end(),
        |id| Response::json(&answer(id)).header("connection", "close"),
        |id| Response::raw(format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}", answer(id))),
        |id| Response::body("Application/JSON; charset=utf-8", answer(id).to_string()),
        |id| Response::body("text/event-stream", format!("data: {}\n\n", answer(id))),
        |id| Response::body("text/event-stream", format!("event: result\ndata: {}\n\n", answer(id))),
        |id| Response::body("text/event-stream", format!("event: endpoint\ndata: {}\n\n", answer(id))),
        |id| {
            Response::body("text/event-stream;charset=utf-8", format!(": hi\r\ndata:{}\r\n\r\n", answer(id))).chunked(1)
        },
    ];
    for (number, framing) in framings.into_iter().enumerate() {
        front.answer_tool("echo", framing);
        assert_eq!(result(&agent.call("a__echo", &json!({})))["n"], 1, "framing {number}");
        expect_well(&mut agent);
    }
}

#[test]
fn json_over_several_lines_reaches_agents_on_one() {
    let (front, daemon) = start(Behavior::default());
    let mut agent = Agent::ready(&daemon);
    let pretty = |id: &Value| serde_json::to_string_pretty(&answer(id)).expect("JSON");
    let events = move |id: &Value, end: &str| {
        let lines: String = pretty(id).lines().map(|line| format!("data: {line}{end}")).collect();
        Response::body("text/event-stream", format!("{lines}{end}"))
    };
    front.answer_tool("echo", move |id| Response::body("application/json", pretty(id).replace('\n', "\r\n")));
    assert_eq!(result(&agent.call("a__echo", &json!({})))["n"], 1);
    for end in ["\n", "\r\n", "\r"] {
        front.answer_tool("echo", move |id| events(id, end));
        assert_eq!(result(&agent.call("a__echo", &json!({})))["n"], 1);
    }
    expect_well(&mut agent);
}

/// Case I7.
#[test]
fn malformed_response_body_ends_its_call_with_one_error() {
    let (front, daemon) =
        start_with(Behavior::default(), "", |server| server.line("tool_timeouts = { echo = \"20s\" }"));
    let mut agent = Agent::ready(&daemon);
    let oddities: [fn(&Value) -> Response; 13] = [
        |_| Response::body("text/html", "<!doctype html><title>Welcome</title>"),
        |id| Response::body("text/plain", answer(id).to_string()),
        |id| {
            Response::body("application/json", answer(id).to_string())
                .header("content-type", "text/html")
                .with_status(203)
        },
        |_| Response::body("application/json", "{\"jsonrpc\": \"2.0\", "),
        |_| Response::body("application/json", ""),
        |_| Response::body("application/json", b"\xff\xfe".to_vec()),
        |_| Response::json(&json!({"jsonrpc": "2.0", "id": 987_654, "result": {}})),
        |id| Response::json(&json!({"jsonrpc": "2.0", "id": id})),
        |id| {
            Response::json(&json!({"jsonrpc": "2.0", "id": id, "result": {}, "error": {"code": 1, "message": "both"}}))
        },
        |_| Response::json(&json!([])),
        |_| Response::status(202),
        |_| Response::status(204),
        |_| Response::body("text/event-stream", "data: prose\n\nevent: other\ndata: {}\n\n"),
    ];
    let count = oddities.len();
    for (number, odd) in oddities.into_iter().enumerate() {
        front.answer_tool("echo", odd);
        // `Agent::answer` fails on a response with both ends or none.
        let answer = agent.call("a__echo", &json!({}));
        if number != 2 {
            code(&answer);
        }
        assert_eq!(front.calls("echo"), number + 1, "{answer}");
    }
    assert_eq!(front.calls("echo"), count);
    expect_well(&mut agent);
    assert_eq!(daemon.row("a")["restarts"], 0);
}

/// Case I7.
#[test]
fn unexpected_and_duplicate_responses_are_dropped() {
    let (front, daemon) = start(Behavior::default());
    let mut agent = Agent::ready(&daemon);
    front.answer_tool("echo", |id| {
        let strange = json!({"jsonrpc": "2.0", "id": 987_654, "result": {"n": 0}});
        let second = json!({"jsonrpc": "2.0", "id": id, "result": {"n": 2}});
        Response::body("text/event-stream", format!("data: {strange}\n\ndata: {}\n\ndata: {second}\n\n", answer(id)))
    });
    assert_eq!(result(&agent.call("a__echo", &json!({})))["n"], 1);
    daemon.wait_row("a", "counts what is stray", |row| row["stray_responses"] == 2);
    expect_well(&mut agent);
}

/// Case I7.
#[test]
fn batch_is_no_answer() {
    for version in ["2025-03-26", "2025-11-25"] {
        let flags = format!("--protocol {version}");
        let (front, daemon) =
            start_with(Behavior::json(), &flags, |server| server.line("tool_timeouts = { echo = \"20s\" }"));
        let mut agent = Agent::ready(&daemon);
        front.answer_tool("echo", |id| Response::json(&json!([answer(id)])));
        expect_error(&agent.call("a__echo", &json!({})), -32603, "unknown");
        let events = |id: &Value| format!("data: {}\n\n", json!([answer(id)]));
        front.answer_tool("echo", move |id| Response::body("text/event-stream", events(id)));
        expect_error(&agent.call("a__echo", &json!({})), -31001, "unknown");
        expect_well(&mut agent);
    }
}

#[test]
fn secret_echoed_by_a_server_is_not_shown() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::json());
    let key = place.write("key", "s3cret");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("it is ours");
    let header = format!("headers = {{ X-Key = \"${{file:{}}}\" }}", key.display());
    let daemon = beside(front.server().line(&header), &place);
    let mut agent = Agent::ready(&daemon);
    for (head, expected) in [("no such key: ", "no such key: …"), ("x".repeat(195).as_str(), "x…")] {
        let complaint = format!("{head}s3cret");
        front.answer_tool("echo", move |_| Response::body("text/plain", complaint.clone()).with_status(403));
        let answer = agent.call("a__echo", &json!({})).to_string();
        assert!(answer.contains(expected) && !answer.contains("s3c"), "{answer}");
    }
    expect_well(&mut agent);
}

/// A daemon with a small message cap.
/// A server whose tool `echo` has this time, at a daemon that takes small messages only.
fn narrow(echo_timeout: &str) -> (Front, Daemon) {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::default());
    let setup = Setup::with(front.server().line(format!("tool_timeouts = {{ echo = \"{echo_timeout}\" }}")))
        .server(Server::named("good"));
    let daemon = setup.head("[daemon]\nmax_message = \"256KiB\"").start_in(&place);
    (front, daemon)
}

/// Writes this for as long as somebody reads it, at most a gigabyte.
fn without_end(head: &'static str, piece: Vec<u8>, response: (Writer, Response)) -> Response {
    let (writer, response) = response;
    thread::spawn(move || {
        let mut left = (1_usize << 30) / piece.len();
        let _ = writer.write(head);
        while left > 0 && writer.write(&piece) {
            left -= 1;
        }
    });
    response
}

/// Case I8.
#[test]
fn answers_over_the_limit_fail_their_call_alone_in_bounded_memory() {
    let (front, daemon) = narrow("60s");
    let mut agent = Agent::ready(&daemon);
    expect_well(&mut agent);
    let before = resident_kib(daemon.pid());
    let large: [fn(&Value) -> Response; 6] = [
        |id| Response::json(&json!({"jsonrpc": "2.0", "id": id, "result": {"big": "x".repeat(300 << 10)}})),
        |id| {
            Response::json(&json!({"jsonrpc": "2.0", "id": id, "result": {"big": "x".repeat(300 << 10)}}))
                .chunked(1 << 10)
        },
        |id| Response::body("text/event-stream", format!("data: {}{id}\n\n", "x".repeat(300 << 10))),
        |_| without_end("", vec![b'x'; 64 << 10], Response::stream("application/json")),
        |_| without_end("data: ", vec![b'x'; 64 << 10], Response::events()),
        |_| without_end("", [&b"data: "[..], &[b'x'; 1 << 10], b"\n"].concat(), Response::events()),
    ];
    for (number, large) in large.into_iter().enumerate() {
        front.answer_tool("echo", large);
        let answer = agent.call("a__echo", &json!({}));
        assert_eq!(code(&answer), -31006, "{number}: {answer}");
        expect_well(&mut agent);
    }
    let grown = resident_kib(daemon.pid()).saturating_sub(before);
    assert!(grown < 24 << 10, "{grown} KiB more");
    assert_eq!(daemon.row("a")["restarts"], 0);
}

/// Case I8.
#[test]
fn many_large_answers_that_do_not_end_take_bounded_memory() {
    const CALLS: usize = 40;
    const SENT: usize = 6 << 20;
    for (head, kind) in [("", "application/json"), ("data: ", "text/event-stream")] {
        let (front, daemon) =
            start_with(Behavior::default(), "", |server| server.line("tool_timeouts = { echo = \"10s\" }"));
        let mut agent = Agent::ready(&daemon);
        expect_well(&mut agent);
        let most = || field(daemon.pid(), "VmHWM").trim_end_matches(" kB").parse::<u64>().expect("a number");
        let before = most();
        // Neither ended nor cut.
        let writers = Arc::new(Lock::new(Vec::new()));
        front.answer_tool("echo", move |_| {
            let (writer, response) = Response::stream(kind);
            let writers = Arc::clone(&writers);
            thread::spawn(move || {
                let _ = writer.write(head);
                let _ = (0..SENT >> 16).all(|_| writer.write([b'x'; 1 << 16]));
                writers.lock().push(writer);
            });
            response
        });
        (0..CALLS).for_each(|_| drop(agent.start_call("a__echo", &json!({}))));
        (0..CALLS).for_each(|_| expect_error(&agent.next(), -31002, "unknown"));
        let more = most() - before;
        assert!(more < ((CALLS * SENT) >> 10) as u64 / 3, "{more} KiB more");
        front.stop_intercepting();
        result(&agent.call("a__sleep", &json!({"ms": 0})));
        agent.disconnect();
    }
}

/// Case I8.
#[test]
fn endless_stream_without_response_times_out_in_bounded_memory() {
    let (front, daemon) = narrow("3s");
    let mut agent = Agent::ready(&daemon);
    expect_well(&mut agent);
    let before = resident_kib(daemon.pid());
    let noise =
        [": nothing\n\n".repeat(1_000), "id: 1\nretry: 5\n".repeat(1_000), "event: other\ndata: {}\n\n".repeat(1_000)];
    for noise in noise {
        front.answer_tool("echo", move |_| without_end("", noise.clone().into(), Response::events()));
        let silent = agent.start_call("a__echo", &json!({}));
        result(&agent.call("a__sleep", &json!({"ms": 0})));
        expect_error(&agent.answer(&silent), -31002, "unknown");
    }
    front.stop_intercepting();
    expect_well(&mut agent);
    let grown = resident_kib(daemon.pid()).saturating_sub(before);
    assert!(grown < 24 << 10, "{grown} KiB more");
}
