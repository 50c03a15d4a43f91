//! `mcpd tap`: what agents and servers send and receive, byte for byte, without secrets.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Stdio};

use rustix::process::Signal;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::reload::{change, changing, text};
use crate::support::http::{Behavior, Front};
use crate::support::http_agent::{HttpAgent, POST, request};
use crate::support::{
    Agent, Daemon, MCPD, Place, Server, Setup, arguments, call_text, initialize, initialize_params, result, signal,
    until, wait_exit,
};

/// A running `mcpd tap`. Its output is read as far as the test wants.
struct Tap {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    notes: Lines<BufReader<std::process::ChildStderr>>,
}

impl Tap {
    /// Starts, and waits until the daemon sends messages.
    fn start(daemon: &Daemon, args: &[&str]) -> Self {
        let mut command = daemon.place().command(MCPD);
        command.arg("tap").args(args).arg("--runtime-dir").arg(daemon.place().runtime_dir());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut notes = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        assert_eq!(notes.next().expect("a note").expect("text"), "mcpd: watching; Ctrl-C ends it");
        Self { child, lines, notes }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("text")
    }

    /// The lines up to the one with this part, which is included.
    fn until(&mut self, part: &str) -> Vec<String> {
        let mut all = vec![self.line()];
        while !all.last().expect("one").contains(part) {
            all.push(self.line());
        }
        all
    }

    /// Ends it by Ctrl-C. Returns the rest of its output, and its notes.
    fn interrupt(mut self) -> (Vec<String>, Vec<String>) {
        signal(self.child.id(), Signal::INT);
        let rest = self.lines.map(|line| line.expect("text")).collect();
        let notes = self.notes.map(|line| line.expect("text")).collect();
        assert_eq!(wait_exit(&mut self.child).code(), Some(0));
        (rest, notes)
    }
}

/// The messages among these lines of one peer and direction, byte for byte.
fn messages(lines: &[String], peer: &str, direction: &str) -> Vec<String> {
    let of_peer = |line: &&String| {
        let line = value(line);
        !line["peer"][peer].is_null() && line["direction"] == direction
    };
    let message = |line: &String| {
        let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line).expect("an object");
        members["message"].get().to_owned()
    };
    lines.iter().filter(of_peer).map(message).collect()
}

fn value(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The lines that the scripted server has received.
fn received(daemon: &Daemon, server: &str) -> Vec<String> {
    daemon.journal(server).into_iter().filter(|line| line.starts_with('{')).collect()
}

#[test]
fn a_tap_has_what_both_sides_send_and_receive_byte_for_byte() {
    let daemon = Server::named("a").start();
    let before = received(&daemon, "a").len();
    let mut tap = Tap::start(&daemon, &["--json"]);
    let mut agent = Agent::connect(&daemon);
    let answer = r#"{"jsonrpc":"2.0", "id":$ID ,"result":{"content":[],"n":1.50e2,"\u0061":"\/é"}}"#;
    let raw = json!({"text": format!("{answer}\n"), "answer": false}).to_string();
    let sent = [
        initialize("2025-11-25").to_string(),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        r#"{ "jsonrpc": "2.0", "id": "x\u0031",  "method": "ping" }"#.to_owned(),
        call_text("7", "a__raw", &raw),
        call_text("8", "a__fail", r#"{"message":"no"}"#),
        r#"{"jsonrpc":"2.0","id":"last","method":"ping"}"#.to_owned(),
    ];
    let mut got = Vec::new();
    for line in &sent {
        agent.send_raw(format!("{line}\n"));
        if line.contains(r#""id""#) {
            got.push(agent.next_line().expect("a response").trim_end().to_owned());
        }
    }
    let lines = tap.until(r#""id":"last","answers""#);
    assert_eq!(messages(&lines, "agent", "from"), sent);
    assert_eq!(messages(&lines, "agent", "to"), got);
    let to_server = messages(&lines, "server", "to");
    assert_eq!(to_server, received(&daemon, "a")[before..], "{lines:#?}");
    let id = value(&to_server[0])["id"].to_string();
    assert_eq!(messages(&lines, "server", "from")[0], answer.replace("$ID", &id));
    drop(agent);
    let all: Vec<_> = lines.iter().map(|line| value(line)).collect();
    let call = all.iter().find(|line| line["method"] == "tools/call").expect("the call");
    assert_eq!((&call["format"], &call["peer"]["client"], &call["id"]), (&json!(1), &json!("test-agent 7"), &json!(7)));
    assert_eq!(call["bytes"], sent[3].len());
    assert_eq!(call["time"].as_str().map(str::len), Some("2026-01-01T00:00:00.000000Z".len()), "{call}");
    let answers: Vec<_> = all.iter().filter(|line| line["answers"] == "tools/call").collect();
    let ends: Vec<_> = answers.iter().map(|line| (&line["peer"]["server"], &line["error"])).collect();
    let (ok, error) = (&Value::Null, &json!(true));
    let (server, agent) = (&json!("a"), &Value::Null);
    assert_eq!(ends, [(server, ok), (agent, ok), (server, error), (agent, error)]);
    assert!(answers.iter().all(|line| line["took_ms"].as_f64() > Some(0.0)), "{answers:?}");
    assert_eq!(answers[0]["peer"]["pid"], daemon.server_pid("a"));
}

#[test]
fn what_is_no_message_is_a_text() {
    let daemon = Server::named("a").start();
    let mut tap = Tap::start(&daemon, &["a", "--json"]);
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__raw", &json!({"text": "Listening on \"x\"\n[1, 2]\n"})));
    let lines = tap.until(r#""text":"Listening on \"x\""}"#);
    assert_eq!(value(lines.last().expect("one"))["text"], "Listening on \"x\"");
    assert_eq!(value(&tap.line())["message"], json!([1, 2]));
}

/// Case H9.
#[test]
fn no_form_of_a_tap_has_secrets() {
    let place = Place::new();
    let file = place.write("secret", "s3cr\"et-in-file\n");
    let server = Server::named("a").env("FROM_FILE", &format!("${{file:{}}}", file.display()));
    let server = server.env("API_KEY", "key-0123456789").env("DB_PASSWORD", "${PASSWORD_VARIABLE}");
    let daemon = Setup::with(server).variable("PASSWORD_VARIABLE", "pass-word-9").start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let forms = [&["--json"][..], &["--raw"], &[]].map(|args| Tap::start(&daemon, args));
    let canaries = ["s3cr", "key-0123456789", "pass-word-9", "given-by-the-agent"];
    let call = json!({
        "a": "the s3cr\"et-in-file of it", "b": ["key-0123456789", "pass-word-9"], "password": "given-by-the-agent",
        "progressToken": "stays", "last": 1,
    });
    assert_eq!(*arguments(&agent.call("a__echo", &call)), call, "agents get everything");
    for mut tap in forms {
        let mut lines = Vec::new();
        // The call and its answer pass twice each.
        while lines.iter().filter(|line: &&String| line.contains("last")).count() < 4 {
            lines.push(tap.line());
        }
        let text = lines.join("\n");
        assert!(canaries.iter().all(|canary| !text.contains(canary)), "{text}");
        assert!(text.contains("the … of it") && text.contains("stays"), "{text}");
        for line in lines.iter().filter(|line| line.starts_with(r#"{"format""#)).map(|line| value(line)) {
            assert!(line["masked"].as_u64() >= Some(4) && line["bytes"].as_u64() > Some(200), "{line}");
        }
    }
}

/// Case H9.
#[test]
fn a_tap_masks_names_of_clients_and_methods_encoded_secrets_and_those_of_a_later_configuration() {
    let server = |secret: &str| Server::named("a").env("API_KEY", secret);
    let (mut daemon, place) = changing(&[server("key-0123456789")]);
    let mut tap = Tap::start(&daemon, &["--json"]);
    let mut agent = Agent::connect(&daemon);
    let mut params = initialize_params("2025-11-25", &json!({}));
    params["clientInfo"]["name"] = json!("key-0123456789");
    result(&agent.request("initialize", &params));
    agent.request("key-0123456789/run", &json!({"last": 1}));
    let first = tap.until(r#""answers":"…/run""#).join("\n");
    change(&mut daemon, text(&[server("new\"key-42")], &place), "reloaded: changed a");
    let nested = json!({"api_token": "agents-own", "a": "new\"key-42 of key-0123456789"}).to_string();
    let call = json!({
        "nested": nested, "url": "https://x.org/?k=new%22key-42", "basic": "dTpuZXcia2V5LTQyOjE=",
        "headers": [{"name": "X-Api-Key", "value": "agents-own"}], "password": ["agents-own", 987_654], "last": 2,
    });
    assert_eq!(*arguments(&agent.call("a__echo", &call)), call, "agents get everything");
    let second = tap.until(r#""answers":"tools/call""#).join("\n");
    for canary in ["key-0123", "key-42", "agents-own", "987654", "bmV3Im", "ldyJrZXktN"] {
        assert!(!first.contains(canary) && !second.contains(canary), "{canary}: {first}\n{second}");
    }
    assert!(first.contains(r#""client":"… 7""#) && second.contains("https://x.org/?k=…"), "{first}\n{second}");
}

/// Case F10.
#[test]
fn a_tap_that_does_not_read_delays_nobody_and_gets_the_number_of_what_it_missed() {
    const CALLS: usize = 24;
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let mut tap = Tap::start(&daemon, &["--json"]);
    signal(tap.child.id(), Signal::STOP);
    let text = "x".repeat(1 << 20);
    for _ in 0..CALLS {
        arguments(&agent.call("a__echo", &json!({ "text": text })));
    }
    signal(tap.child.id(), Signal::CONT);
    let count = |lines: &[String]| {
        let missed: u64 = lines.iter().filter_map(|line| value(line)["missed"].as_u64()).sum();
        let large = lines.iter().filter(|line| line.len() > 1 << 20).count();
        (missed, large as u64)
    };
    let mut lines = Vec::new();
    let mut seen = (0, 0);
    while seen.0 + seen.1 < 4 * CALLS as u64 {
        // The number stands before the next message.
        if lines.is_empty() {
            agent.call("a__cwd", &json!({}));
        }
        lines.push(tap.line());
        seen = count(&lines);
    }
    assert!(seen.0 > 0 && seen.1 > 0 && seen.0 + seen.1 <= 4 * CALLS as u64 + 8, "{seen:?}");
    let (_, notes) = tap.interrupt();
    assert!(notes.iter().any(|note| note.contains("messages are missing here")), "{notes:?}");
}

/// Case F10.
#[test]
fn at_most_four_watch_at_once() {
    let daemon = Server::named("a").start();
    let mut taps: Vec<_> = (0..4).map(|_| Tap::start(&daemon, &[])).collect();
    let refused = daemon.client(&["tap"]).expect_code(1);
    assert_eq!(refused.stderr, "mcpd: 4 taps are open, which is the limit: end one of them first\n");
    taps.pop().expect("one").interrupt();
    let mut one_more = until("a place is free", || {
        let file = daemon.place().path("tapped");
        let mut command = daemon.place().command(MCPD);
        command.args(["tap", "-o"]).arg(&file).arg("--runtime-dir").arg(daemon.place().runtime_dir());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut notes = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let first = notes.next().expect("a note").expect("text");
        if first.starts_with("mcpd: watching") {
            return Some(child);
        }
        wait_exit(&mut child);
        None
    });
    signal(one_more.id(), Signal::INT);
    assert_eq!(wait_exit(&mut one_more).code(), Some(0));
    for tap in taps {
        tap.interrupt();
    }
}

#[test]
fn a_tap_is_of_one_server_or_one_agent_and_of_one_method() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let mut agent = Agent::ready(&daemon);
    let unknown = daemon.client(&["tap", "test-agnt"]).expect_code(1);
    let expected = "mcpd: there is no server `test-agnt`; servers: a, b; agents: 1 test-agent 7\n";
    assert_eq!(unknown.stderr, expected);
    let args = [&["b", "--json"][..], &["test-agent", "--json"], &["1", "--json", "--method", "tools/*"]];
    let [mut server, mut name, mut number] = args.map(|args| Tap::start(&daemon, args));
    for tool in ["a__echo", "b__echo"] {
        arguments(&agent.call(tool, &json!({})));
    }
    result(&agent.request("ping", &json!({"last": true})));
    result(&agent.request("tools/list", &json!({"last": true})));
    let lines = server.until("structuredContent");
    assert!(lines.len() == 2 && lines.iter().all(|line| value(line)["peer"]["server"] == "b"), "{lines:?}");
    let lines = name.until(r#""answers":"tools/list""#);
    assert!(lines.len() == 8 && lines.iter().all(|line| value(line)["peer"]["agent"] == 1), "{lines:?}");
    let lines: Vec<_> = number.until(r#""answers":"tools/list""#).iter().map(|line| value(line)).collect();
    let method =
        |line: &Value| [&line["method"], &line["answers"]].iter().find_map(|method| method.as_str().map(str::to_owned));
    let methods: Vec<_> = lines.iter().filter_map(method).collect();
    let [call, list] = ["tools/call", "tools/list"];
    assert_eq!(methods, [call, call, call, call, list, list]);
}

#[test]
fn a_file_is_new_private_and_complete_after_ctrl_c() {
    let daemon = Server::named("a").start();
    let file = daemon.place().path("tapped.jsonl");
    let path = file.display().to_string();
    let tap = Tap::start(&daemon, &["-o", &path]);
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__echo", &json!({"text": "x".repeat(200 << 10)})));
    let lines = || fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    let (stdout, notes) = tap.interrupt();
    assert_eq!((stdout, notes), (Vec::new(), vec![format!("mcpd: 7 messages in {path}")]));
    let sizes: Vec<_> =
        lines().iter().map(|line| (line.len() > 200 << 10, value(line)["message"].is_object())).collect();
    assert_eq!(sizes.iter().filter(|size| **size == (true, true)).count(), 4, "{sizes:?}");
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let refused = daemon.client(&["tap", "-o", &path]).expect_code(2);
    assert!(refused.stderr.contains("cannot write") && lines().len() == 7, "{refused}");
}

#[test]
fn a_tap_ends_with_the_daemon() {
    let mut daemon = Server::named("a").start();
    let mut tap = Tap::start(&daemon, &[]);
    daemon.stop_in_order(Signal::TERM);
    assert_eq!(wait_exit(&mut tap.child).code(), Some(3));
    assert_eq!(tap.notes.next().expect("a note").expect("text"), "mcpd: the daemon has stopped");
}

#[test]
fn agents_over_http_are_watched_like_others() {
    let daemon = Server::named("a").start();
    let mut tap = Tap::start(&daemon, &["--json"]);
    let mut agent = HttpAgent::connect(&daemon);
    let session = format!("{POST}{}", agent.initialize("/mcp"));
    let body = r#"{"jsonrpc":"2.0", "id":  5,"method":"tools/call","params":{"name":"a__echo","arguments":{}}}"#;
    agent.start_post("/mcp", &session, body);
    let got = agent.reply().body;
    let lines = tap.until(r#""id":5,"answers":"tools/call""#);
    let [from, to] = ["from", "to"].map(|direction| messages(&lines, "agent", direction));
    assert_eq!((from.len(), &*from[2], to.last().map(String::as_str)), (3, body, Some(got.trim_end())));
    let reply = agent.modern("/mcp", 6, "tools/call", &json!({"name": "a__echo", "arguments": {"n": 1}}));
    let lines = tap.until(r#""id":6,"answers":"tools/call""#);
    let [from, to] = ["from", "to"].map(|direction| messages(&lines, "agent", direction));
    assert_eq!(value(&from[0])["id"], 6);
    assert_eq!(to, [reply.body.trim_end()]);
}

#[test]
fn face_of_an_http_agent_is_no_message_of_it() {
    let daemon = Server::named("a").start();
    let mut tap = Tap::start(&daemon, &["--json"]);
    let mut agent = HttpAgent::connect(&daemon);
    let session = format!("{POST}{}", agent.initialize("/servers/a"));
    agent.post("/servers/a", &session, &request(9, "ping", &json!({})));
    let from = messages(&tap.until(r#""id":9,"answers":"ping""#), "agent", "from");
    let methods: Vec<_> = from.iter().map(|message| value(message)["method"].clone()).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "ping"]);
}

#[test]
fn servers_at_urls_are_watched_like_others() {
    for behavior in [Behavior::default, Behavior::json, Behavior::old] {
        let place = Place::new();
        let front = Front::start(&place, "a", "", behavior());
        let daemon = Setup::with(front.server()).start_in(&place);
        let mut agent = Agent::ready(&daemon);
        let mut tap = Tap::start(&daemon, &["a", "--json"]);
        arguments(&agent.call("a__echo", &json!({"text": "é"})));
        let lines = tap.until(r#""answers":"tools/call""#);
        let sent = front.http().wait_request("the call", |request| request.rpc() == "tools/call");
        let [to, from] = ["to", "from"].map(|direction| messages(&lines, "server", direction));
        assert_eq!(to, [String::from_utf8_lossy(&sent.body)]);
        assert_eq!(value(&from[0])["id"], value(&to[0])["id"]);
        assert_eq!(value(&lines[0])["peer"]["pid"], Value::Null);
        drop(daemon);
    }
}
