//! Spans of tool calls over OTLP, and `traceparent` on its way to servers.

mod collector;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use self::collector::{CLIENT, Collector, SERVER, Span, head};
use crate::support::{Agent, Daemon, Era, Server, Setup, result, until};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00f067aa0ba902b7";
const CANARY: &str = "canary-5c2e";

/// Both spans of one call.
fn pair(spans: &[Span]) -> (Span, Span) {
    assert_eq!(spans.len(), 2, "{spans:?}");
    let of = |kind| spans.iter().find(|span| span.kind == kind).expect("a span of each side").clone();
    (of(SERVER), of(CLIENT))
}

/// An address at which nothing listens.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound")
}

/// The `_meta` that the server receives in a call with this one.
fn received_meta(agent: &mut Agent, tool: &str, meta: &Value) -> Value {
    let answer = agent.request("tools/call", &json!({"name": tool, "arguments": {}, "_meta": meta}));
    result(&answer)["structuredContent"]["params"]["_meta"].clone()
}

fn warnings(daemon: &Daemon) -> usize {
    daemon.log().matches("spans are not exported").count()
}

#[test]
fn call_has_a_span_for_its_agent_and_one_below_it_for_its_server() {
    let collector = Collector::start();
    let servers = Era::BOTH.map(|era| era.server(&format!("{era:?}")));
    let daemon = servers.into_iter().fold(Setup::new().head(&collector.head()), Setup::server).start();
    for (number, (speaks, server)) in Era::pairs().enumerate() {
        let mut agent = speaks.agent(&daemon, &json!({}));
        let meta = json!({
            "traceparent": format!("00-{TRACE}-{PARENT}-01"), "tracestate": "v=1", "baggage": "user=7", "x/y": 1.50
        });
        let received = received_meta(&mut agent, &format!("{server:?}__echo"), &meta);
        let spans = collector.wait(2 * (number + 1)).split_off(2 * number);
        let (outer, inner) = pair(&spans);
        assert_eq!(outer.name, format!("tools/call {server:?}__echo"));
        assert_eq!((&*inner.name, &*inner.trace, &*outer.trace), ("tools/call echo", TRACE, TRACE));
        assert_eq!((&*outer.parent, &inner.parent), (PARENT, &outer.id), "{speaks:?} {server:?}");
        assert_eq!((outer.flags, inner.flags, outer.is_error, inner.is_error), (1, 1, false, false));
        assert!(outer.began <= inner.began && inner.began <= inner.ended && inner.ended <= outer.ended, "{spans:?}");
        assert_eq!(received["traceparent"], format!("00-{TRACE}-{}-01", inner.id), "{speaks:?} {server:?}");
        let others = ["tracestate", "baggage", "x/y"];
        assert!(others.iter().all(|key| received[key] == meta[key]), "{speaks:?} {server:?}: {received}");
    }
}

#[test]
fn span_has_the_attributes_of_the_conventions_and_what_mcpd_knows() {
    let collector = Collector::start();
    let daemon = Setup::with(Server::named("a")).head(&collector.head()).start();
    let answer = Agent::ready(&daemon).call("a__fail", &json!({"code": -5}));
    let (outer, inner) = pair(&collector.wait(2));
    let common = [
        ("mcp.method.name", json!("tools/call")),
        ("gen_ai.operation.name", json!("execute_tool")),
        ("error.type", json!("-5")),
        ("rpc.response.status_code", json!("-5")),
        ("mcpd.server", json!("a")),
        ("mcpd.profile", json!("default")),
        ("mcpd.client", json!("test-agent 7")),
        ("mcpd.session", json!(1)),
        ("mcpd.outcome", json!("error")),
    ];
    let (outer_only, inner_only) = (
        [("jsonrpc.request.id", json!(answer["id"].to_string())), ("gen_ai.tool.name", json!("a__fail"))],
        [("gen_ai.tool.name", json!("fail"))],
    );
    for (span, own) in [(&outer, &outer_only[..]), (&inner, &inner_only[..])] {
        assert!(span.is_error, "{span:?}");
        for (key, value) in common.iter().chain(own) {
            assert_eq!(&span.attributes[*key], value, "{key} in {span:?}");
        }
        for key in ["mcpd.request.size", "mcpd.response.size"] {
            assert!(span.attributes[key].as_u64() > Some(50), "{key} in {span:?}");
        }
        assert!(span.attributes.len() <= common.len() + 4, "{span:?}");
    }
    // The id of mcpd's request to the server.
    assert!(inner.attributes["jsonrpc.request.id"].as_str().is_some_and(|id| id.parse::<u64>().is_ok()), "{inner:?}");
}

#[test]
fn every_outcome_ends_the_spans_of_its_call() {
    let collector = Collector::start();
    let server = Server::named("a").line("tool_timeouts = { raw = \"300ms\" }");
    let daemon = Setup::with(server).head(&collector.head()).start();
    let mut agent = Agent::ready(&daemon);
    let mut before = 0;
    let mut check = |name: &str, expected: &[(u64, Option<&str>)]| {
        let mut spans = collector.wait(before + expected.len()).split_off(before);
        before += spans.len();
        spans.sort_by_key(|span| span.kind);
        let error =
            |span: &Span| span.attributes.get("error.type").map(|value| value.as_str().expect("text").to_owned());
        let found: Vec<_> = spans.iter().map(|span| (span.kind, error(span))).collect();
        let expected: Vec<_> = expected.iter().map(|(kind, error)| (*kind, error.map(str::to_owned))).collect();
        assert_eq!(found, expected, "{name}: {spans:?}");
        assert!(spans.iter().all(|span| span.is_error == error(span).is_some()), "{name}: {spans:?}");
        spans
    };
    agent.call("a__cwd", &json!({}));
    check("a result", &[(SERVER, None), (CLIENT, None)]);
    agent.call("a__refuse", &json!({}));
    check("a refusal", &[(SERVER, Some("tool_error")), (CLIENT, Some("tool_error"))]);
    agent.call("a__raw", &json!({"answer": false}));
    check("a late answer", &[(SERVER, Some("timed_out")), (CLIENT, Some("timed_out"))]);
    agent.call("nothing", &json!({}));
    let unknown = check("an unknown tool", &[(SERVER, Some("unknown_tool"))]);
    assert_eq!((&*unknown[0].name, &unknown[0].attributes["gen_ai.tool.name"]), ("tools/call", &json!("_OTHER")));
    let id = agent.start_call("a__sleep", &json!({"ms": 600_000}));
    daemon.wait_row("a", "has a call in flight", |row| row["in_flight"] == 1);
    agent.cancel(&id);
    check("a cancelled call", &[(SERVER, Some("cancelled")), (CLIENT, Some("cancelled"))]);
    agent.call("a__die", &json!({}));
    check("a dead server", &[(SERVER, Some("died")), (CLIENT, Some("died"))]);
}

#[test]
fn collector_never_receives_arguments_results_or_texts_of_errors() {
    let collector = Collector::start();
    let daemon = Setup::with(Server::named("a")).head(&collector.head()).start();
    let mut agent = Agent::ready(&daemon);
    let answers = [
        agent.call("a__echo", &json!({"text": CANARY})),
        agent.call("a__refuse", &json!({"text": CANARY})),
        agent.call("a__fail", &json!({"code": -7, "message": CANARY})),
    ];
    assert!(answers[..2].iter().all(|answer| answer.to_string().contains(CANARY)), "{answers:?}");
    collector.wait(6);
    let text = collector.text();
    assert!(text.contains("a__echo") && !text.contains(CANARY), "{text}");
}

#[test]
fn call_without_a_sampled_trace_of_its_agent_is_not_changed() {
    let collector = Collector::start();
    let daemon = Setup::with(Server::named("a")).head(&collector.head()).start();
    let mut agent = Agent::ready(&daemon);
    for (meta, spans) in [
        (json!({"traceparent": format!("00-{TRACE}-{PARENT}-00")}), 0),
        (json!({"traceparent": "none", "x/y": 1}), 2),
        (json!({"x/y": 1}), 2),
    ] {
        let before = collector.spans().len();
        assert_eq!(received_meta(&mut agent, "a__echo", &meta), meta);
        let spans = collector.wait(before + spans).split_off(before);
        let is_own = |span: &Span| span.trace != TRACE && (span.kind == CLIENT || span.parent.is_empty());
        assert!(spans.iter().all(is_own), "{spans:?}");
    }
    assert_eq!(collector.spans().len(), 4);
}

/// The names of the daemon's threads.
fn threads(daemon: &Daemon) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.pid())).expect("it runs");
    tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok()).collect()
}

#[test]
fn exporter_runs_only_with_the_key() {
    let with_key = Setup::with(Server::named("a")).head(&head(free_address())).start();
    let without_key = Server::named("a").start();
    let has_exporter = |daemon: &Daemon| threads(daemon).iter().any(|name| name.trim() == "mcpd-otlp");
    assert!(has_exporter(&with_key) && !has_exporter(&without_key));
}

/// Case F9.
#[test]
fn absent_collector_delays_nothing_and_receives_what_waited_once_it_listens() {
    let address = free_address();
    let daemon = Setup::with(Server::named("a")).head(&head(address)).start();
    let mut agent = Agent::ready(&daemon);
    for number in 0..200 {
        result(&agent.call("a__echo", &json!({"n": number})));
    }
    until("the failure is logged", || (warnings(&daemon) > 0).then_some(()));
    let collector = Collector::answering(address, |_| 200);
    let spans = collector.wait(400);
    assert_eq!((spans.len(), warnings(&daemon)), (400, 1));
}

/// Answers each POST at `listener` with the beginning of a body, and returns what was posted.
fn endless_answers(listener: TcpListener) -> mpsc::Receiver<String> {
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        let mut open = Vec::new();
        for connection in listener.incoming() {
            let mut reader = BufReader::new(connection.expect("a connection"));
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|len| len > 2) {
                head += &std::mem::take(&mut line).to_lowercase();
            }
            let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            let mut body = vec![0; len.parse().expect("a number")];
            reader.read_exact(&mut body).expect("a body");
            let mut connection = reader.into_inner();
            connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nx").expect("it reads");
            open.push(connection);
            if sender.send(String::from_utf8_lossy(&body).into_owned()).is_err() {
                return;
            }
        }
    });
    received
}

/// Case F9.
#[test]
fn batch_whose_answer_does_not_end_is_received_and_not_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let daemon = Setup::with(Server::named("a")).head(&head(listener.local_addr().expect("it is bound"))).start();
    let batches = endless_answers(listener);
    let mut agent = Agent::ready(&daemon);
    agent.call("a__echo", &json!({}));
    assert!(batches.recv().expect("a batch").contains("a__echo"));
    agent.call("a__cwd", &json!({}));
    let next = batches.recv().expect("a batch");
    assert!(next.contains("a__cwd") && !next.contains("a__echo"), "{next}");
    assert_eq!(warnings(&daemon), 0);
}

/// Case F9.
#[test]
fn batch_that_a_collector_refuses_is_lost_and_one_that_it_cannot_take_yet_is_sent_again() {
    let collector = Collector::answering("127.0.0.1:0".parse().expect("an address"), |number| match number {
        0 => 400,
        1 => 503,
        _ => 200,
    });
    let daemon = Setup::with(Server::named("a")).head(&collector.head()).start();
    let mut agent = Agent::ready(&daemon);
    agent.call("a__echo", &json!({}));
    collector.http().wait_request("the batch that is refused", |_| true);
    agent.call("a__cwd", &json!({}));
    let spans = collector.wait(2);
    assert!(spans.iter().all(|span| span.name.ends_with("cwd")), "{spans:?}");
    assert_eq!((collector.http().requests().len(), warnings(&daemon)), (3, 1));
}

#[test]
fn last_spans_are_sent_when_the_daemon_stops() {
    let collector = Collector::start();
    let mut daemon = Setup::with(Server::named("a")).head(&collector.head()).start();
    Agent::ready(&daemon).call("a__echo", &json!({}));
    assert!(daemon.term().success());
    assert_eq!(collector.spans().len(), 2);
}
