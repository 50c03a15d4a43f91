//! Servers and proxies that compress what was not to be compressed.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{beside, expect_error, expect_well, start};
use crate::support::http::{Behavior, Front, Lock, Response};
use crate::support::{Agent, Place, Server, Setup, result};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

fn answer(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [], "n": 1}}).to_string()
}

fn gzip(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_ref()).expect("a vector");
    encoder.finish().expect("a vector")
}

/// Case I17.
#[test]
fn compressed_response_is_decoded() {
    let (front, daemon) = start(Behavior::json());
    let mut agent = Agent::ready(&daemon);
    let bodies: [fn(&Value) -> Response; 8] = [
        |id| Response::body(JSON, gzip(answer(id))).header("content-encoding", "gzip"),
        |id| Response::body(JSON, gzip(answer(id))).header("content-encoding", "X-Gzip").chunked(1),
        |id| Response::body(JSON, gzip(answer(id))).header("content-encoding", "gzip").until_end(),
        // Several members are one text. Source: RFC 1952, 2.2.
        |id| {
            let (text, half) = (answer(id), answer(id).len() / 2);
            let members = [gzip(&text[..half]), gzip(""), gzip(&text[half..])].concat();
            Response::body(JSON, members).header("content-encoding", "gzip").chunked(7)
        },
        |id| Response::body(EVENTS, gzip(format!("data: {}\n\n", answer(id)))).header("content-encoding", "gzip"),
        |id| Response::body(JSON, answer(id)).header("content-encoding", "identity"),
        |id| Response::body(JSON, answer(id)).header("content-encoding", ""),
        |id| {
            let error = json!({"jsonrpc": "2.0", "id": id, "result": {"content": [], "n": 1}}).to_string();
            Response::body(JSON, gzip(error)).header("content-encoding", "gzip").with_status(500)
        },
    ];
    for (number, body) in bodies.into_iter().enumerate() {
        front.answer_tool("echo", body);
        assert_eq!(result(&agent.call("a__echo", &json!({})))["n"], 1, "body {number}");
        expect_well(&mut agent);
    }
    for request in front.http().requests() {
        assert_eq!(request.header("accept-encoding"), Some("identity"), "{}", request.head());
    }
}

/// Case I17.
#[test]
fn compressed_event_is_received_while_its_stream_is_open() {
    let (front, daemon) = start(Behavior::default());
    let mut agent = Agent::ready(&daemon);
    let writers = Lock::new(Vec::new());
    front.answer_tool("echo", move |id| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        write!(encoder, "data: {}\n\n", answer(id)).expect("a vector");
        encoder.flush().expect("a vector");
        let (writer, response) = Response::stream(EVENTS);
        writer.write(encoder.get_ref());
        writers.lock().push(writer);
        response.header("content-encoding", "gzip")
    });
    assert_eq!(result(&agent.call("a__echo", &json!({})))["n"], 1);
    expect_well(&mut agent);
}

/// Case I17.
#[test]
fn body_that_cannot_be_decoded_fails_its_call_and_is_named() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::json());
    let setup = Setup::with(front.server()).server(Server::named("good"));
    let daemon = setup.head("[daemon]\nmax_message = \"256KiB\"").start_in(&place);
    let mut agent = Agent::ready(&daemon);
    type Coded = fn(&Value) -> Response;
    let bodies: [(Coded, i64, &str); 6] = [
        (|id| Response::body(JSON, answer(id)).header("content-encoding", "br"), -32603, "Content-Encoding: br`"),
        (|id| Response::body(EVENTS, answer(id)).header("content-encoding", "zstd"), -32603, "Content-Encoding: zstd`"),
        (
            |id| Response::body(JSON, gzip(gzip(answer(id)))).header("content-encoding", "gzip, gzip"),
            -32603,
            "Content-Encoding: gzip, gzip`",
        ),
        (|id| Response::body(JSON, answer(id)).header("content-encoding", "gzip"), -31001, "gzip data is damaged"),
        (
            |id| {
                let mut body = gzip(answer(id));
                body.truncate(body.len() - 12);
                Response::body(JSON, body).header("content-encoding", "gzip")
            },
            -31001,
            "gzip data is damaged",
        ),
        // 64 MiB of blanks are 64 KiB of gzip data.
        (
            |_| Response::body(JSON, gzip(vec![b' '; 64 << 20])).header("content-encoding", "gzip"),
            -31006,
            "max_message",
        ),
    ];
    for (body, expected, part) in bodies {
        front.answer_tool("echo", body);
        let answer = agent.call("a__echo", &json!({}));
        expect_error(&answer, expected, "unknown");
        assert!(answer["error"]["message"].to_string().contains(part), "{answer}");
        expect_well(&mut agent);
    }
    assert_eq!(daemon.row("a")["restarts"], 0);
}

/// Case I17.
#[test]
fn list_and_handshake_with_an_unknown_coding_are_named() {
    for (method, name) in [("tools/list", "last_error"), ("initialize", "reason")] {
        let place = Place::new();
        let front = Front::start(&place, "a", "", Behavior::json());
        front.intercept(move |request| {
            let is_it = request.rpc() == method;
            is_it.then(|| Response::body(JSON, "\u{1}").header("content-encoding", "br"))
        });
        let daemon = beside(front.server(), &place);
        daemon.wait_row("a", "names the coding", |row| {
            row[name].as_str().is_some_and(|why| why.contains("`Content-Encoding: br`"))
        });
    }
}
