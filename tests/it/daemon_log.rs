//! The daemon's log: levels, formats, and the span of each call.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, MCPD, Place, Server, Setup, result, until};

const CANARY: &str = "canary-51c0";

/// The lines of the log that tell of the end of a call.
fn ends(daemon: &Daemon) -> Vec<String> {
    daemon.log().lines().filter(|line| line.contains("call ended")).map(str::to_owned).collect()
}

#[test]
fn call_leaves_one_line_with_its_span_and_without_its_arguments() {
    let daemon = Setup::with(Server::named("a")).option("--log=debug").start();
    let mut agent = Agent::ready(&daemon);
    agent.call("a__echo", &json!({"text": CANARY}));
    agent.call("a__fail", &json!({"code": -5, "message": CANARY}));
    let lines = until("both lines are written", || Some(ends(&daemon)).filter(|lines| lines.len() == 2));
    let parts =
        ["DEBUG", "mcp.call", "otel.name=mcp.a.echo", "session=1", "request_id=2", "outcome=\"ok\"", "duration_ms="];
    assert!(parts.iter().all(|part| lines[0].contains(part)), "{}", lines[0]);
    assert!(lines[1].contains("outcome=\"error\"") && lines[1].contains("code=-5"), "{}", lines[1]);
    assert!(!daemon.log().contains(CANARY), "{}", daemon.log());
}

#[test]
fn level_of_a_running_daemon_can_be_changed() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    let level = |args: &[&str], code| daemon.client(&[&["reload", "--log-level"], args].concat()).expect_code(code);
    assert_eq!(level(&[], 0).stdout, "info\n");
    agent.call("a__cwd", &json!({}));
    assert_eq!(level(&["warn,mcpd::calls=debug"], 0).stdout, "warn,mcpd::calls=debug\n");
    agent.call("a__echo", &json!({}));
    until("the call is logged", || ends(&daemon).first().map(|line| assert!(line.contains("mcp.a.echo"), "{line}")));
    for bad in ["dbug", "mcpd=loud", ""] {
        let ran = level(&[bad], 2);
        assert!(
            ran.stdout.is_empty() && ran.stderr.contains("write a level") || ran.stderr.contains("write one"),
            "{ran}"
        );
    }
    assert_eq!(level(&[], 0).stdout, "warn,mcpd::calls=debug\n", "a refused filter changes nothing");
    level(&["info"], 0);
    agent.call("a__echo", &json!({}));
    level(&["debug"], 0);
    agent.call("a__umask", &json!({}));
    let lines = until("the last call is logged", || Some(ends(&daemon)).filter(|lines| lines.len() > 1));
    assert!(lines.len() == 2 && lines[1].contains("mcp.a.umask"), "{lines:?}");
}

#[test]
fn flag_wins_over_the_environment() {
    let setup = Setup::with(Server::named("a")).variable("RUST_LOG", "trace");
    let daemon = setup.option("--log").option("warn").start();
    assert_eq!(daemon.client(&["reload", "--log-level"]).expect_code(0).stdout, "warn\n");
    assert_eq!(daemon.log(), "");
    let daemon = Setup::with(Server::named("a")).variable("RUST_LOG", "error").start();
    assert_eq!(daemon.client(&["reload", "--log-level"]).expect_code(0).stdout, "error\n");
}

#[test]
fn json_lines_are_json_and_keep_the_fields_of_a_call() {
    let daemon = Setup::with(Server::named("a")).option("--log=debug").option("--log-format=json").start();
    Agent::ready(&daemon).call("a__echo", &json!({}));
    let lines = until("the call is logged", || Some(ends(&daemon)).filter(|lines| !lines.is_empty()));
    let line: Value = serde_json::from_str(&lines[0]).expect("JSON");
    let span = &line["span"];
    let found = (&line["level"], &span["name"], &span["otel.name"], &span["session"], &span["outcome"]);
    assert_eq!(found, (&json!("DEBUG"), &json!("mcp.call"), &json!("mcp.a.echo"), &json!(1), &json!("ok")));
    assert!(span["duration_ms"].is_number(), "{line}");
    for line in daemon.log().lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("no JSON ({error}): {line}"));
    }
}

#[test]
fn call_is_logged_with_the_trace_of_its_agent() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "00f067aa0ba902b7";
    let servers = Era::BOTH.map(|era| era.server(&format!("{era:?}")));
    let setup = servers.into_iter().fold(Setup::new(), Setup::server);
    let daemon = setup.option("--log=debug").option("--log-format=json").start();
    let traced = |parent: &str| json!({"traceparent": parent, "tracestate": "v=1", "baggage": "user=7"});
    let trace = (json!(TRACE), json!(SPAN));
    for (speaks, server) in Era::pairs() {
        let before = ends(&daemon).len();
        let mut agent = speaks.agent(&daemon, &json!({}));
        for meta in [traced(&format!("00-{TRACE}-{SPAN}-01")), traced("none"), json!({"x/y": 1})] {
            let params = json!({"name": format!("{server:?}__echo"), "arguments": {}, "_meta": meta});
            let answer = agent.request("tools/call", &params);
            let received = &result(&answer)["structuredContent"]["params"]["_meta"];
            let is_unchanged = meta.as_object().expect("an object").iter().all(|(key, value)| received[key] == *value);
            assert!(is_unchanged, "{speaks:?} {server:?}: {received}");
        }
        let lines = until("all calls are logged", || Some(ends(&daemon)).filter(|lines| lines.len() == before + 3));
        let lines = lines[before..].iter().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let found: Vec<_> =
            lines.map(|line| (line["span"]["trace_id"].clone(), line["span"]["parent_id"].clone())).collect();
        assert_eq!(found, [trace.clone(), Default::default(), Default::default()], "{speaks:?} {server:?}");
    }
}

#[test]
fn bad_filter_starts_nothing() {
    let place = Place::new();
    for args in [&["--log", "dbug"][..], &["--log=mcpd=loud"], &["--log="], &["--log-format", "xml"]] {
        let mut command = place.command(MCPD);
        command.arg("serve").args(args).arg("--runtime-dir").arg(place.runtime_dir());
        let ran = crate::support::run(&mut command).expect_code(2);
        assert!(ran.stdout.is_empty() && ran.stderr.lines().count() >= 1, "{ran}");
        assert!(!place.runtime_dir().exists(), "nothing was made");
    }
}

#[test]
fn malformed_log_filter_in_the_environment_is_reported_and_ignored() {
    let daemon = Setup::with(Server::named("a")).variable("RUST_LOG", "dbug").start();
    assert_eq!(daemon.client(&["reload", "--log-level"]).expect_code(0).stdout, "info\n");
    let log = daemon.log();
    assert!(log.contains("RUST_LOG is ignored") && log.contains("`dbug` is no level"), "{log}");
}

#[test]
fn journal_that_is_another_stream_is_not_taken_for_stderr() {
    let daemon = Setup::with(Server::named("a")).variable("JOURNAL_STREAM", "1:2").start();
    until("stderr has the log", || daemon.log().contains("serving").then_some(()));
}

#[test]
fn log_level_requires_a_daemon() {
    let place = Place::new();
    assert!(place.client(&["reload", "--log-level"]).expect_code(3).stderr.contains("not running"));
    place.client(&["reload", "--log-level", "debug"]).expect_code(3);
    place.client(&["reload", "--log-level", "dbug"]).expect_code(2);
}
