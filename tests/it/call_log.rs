//! The call log: one entry for each call, without arguments unless the server is configured so.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, MCPD, Place, Server, Setup, arguments, code, result, run, skipped, until};

const CANARY: &str = "canary-7d1f";

/// The entries that `mcpd calls --json` prints.
fn calls(daemon: &Daemon, args: &[&str]) -> Vec<Value> {
    let ran = daemon.client(&[&["calls", "--json"], args].concat()).expect_code(0);
    assert_eq!(ran.stderr, "");
    ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn lines(path: impl AsRef<std::path::Path>) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn values<'a>(calls: &'a [Value], key: &str) -> Vec<&'a Value> {
    calls.iter().map(|call| &call[key]).collect()
}

#[test]
fn call_record_has_all_that_is_known_of_the_call() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    agent.call("a__sleep", &json!({"ms": 30, "text": CANARY}));
    let all = calls(&daemon, &[]);
    assert_eq!(all.len(), 1, "{all:?}");
    let call = &all[0];
    let expected = json!({
        "session": 1, "pid": std::process::id(), "uid": rustix::process::getuid().as_raw(), "client": "test-agent 7",
        "profile": "default", "server": "a", "tool": "sleep", "outcome": "ok",
    });
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&call[key], value, "{key} in {call}");
    }
    let time = call["time"].as_str().expect("a time");
    assert!(time.ends_with('Z') && time.len() == "2026-01-01T00:00:00.000Z".len(), "{time}");
    let duration = call["duration_ms"].as_f64().expect("a number");
    assert!((30.0..600_000.0).contains(&duration), "{call}");
    assert!(call["request_bytes"].as_u64() > Some(100) && call["reply_bytes"].as_u64() > Some(100), "{call}");
    assert!(call["arguments"].is_null(), "{call}");
    let table = daemon.client(&["calls"]).expect_code(0);
    let row = table.stdout.lines().nth(1).expect("a row below the header");
    assert!(["test-agent 7", "sleep", " ok ", "default"].iter().all(|cell| row.contains(cell)), "{table}");
}

#[test]
fn every_outcome_of_a_call_has_a_name() {
    let setup = Setup::with(Server::named("a").line("tool_timeouts = { raw = \"300ms\" }\ndeny = [\"echo\"]"));
    let daemon = setup.server(Server::named("b").flags("--exit-at-start 3")).start();
    let mut agent = Agent::ready(&daemon);
    agent.call("a__cwd", &json!({}));
    agent.call("a__refuse", &json!({}));
    agent.call("a__fail", &json!({"code": -5}));
    agent.call("a__raw", &json!({"answer": false}));
    agent.call("a__echo", &json!({}));
    agent.call("nothing", &json!({}));
    let id = agent.start_call("a__sleep", &json!({"ms": 600_000}));
    agent.cancel(&id);
    daemon.wait_row("a", "has no call in flight", |row| row["in_flight"] == 0 && row["calls"] == 5);
    agent.call("a__die", &json!({}));
    agent.expect_quiet();
    let all = calls(&daemon, &[]);
    let words = ["ok", "tool_error", "error", "timed_out", "unknown_tool", "unknown_tool", "cancelled", "died"];
    assert_eq!(values(&all, "outcome"), words);
    assert_eq!((&all[2]["code"], &all[6]["reply_bytes"]), (&json!(-5), &json!(0)));
    assert_eq!((&all[4]["server"], &all[4]["tool"]), (&Value::Null, &json!("a__echo")));
}

#[test]
fn calls_are_filtered_by_server_and_number() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let mut agent = Agent::ready(&daemon);
    for tool in ["a__echo", "b__echo", "b__cwd", "a__cwd"] {
        agent.call(tool, &json!({}));
    }
    let pairs = |args: &[&str]| -> Vec<String> {
        let all = calls(&daemon, args);
        all.iter().map(|call| format!("{}/{}", call["server"], call["tool"]).replace('"', "")).collect()
    };
    assert_eq!(pairs(&["--server", "b"]), ["b/echo", "b/cwd"]);
    assert_eq!(pairs(&["-n", "2"]), ["b/cwd", "a/cwd"]);
    assert_eq!(pairs(&["-n", "1", "--server", "b"]), ["b/cwd"]);
    assert_eq!(pairs(&["-n", "0"]), [""; 0]);
    let unknown = daemon.client(&["calls", "--server", "c"]).expect_code(1);
    assert!(unknown.stderr.contains("there is no server `c`; servers: a, b"), "{unknown}");
}

#[test]
fn memory_is_bounded_and_the_oldest_are_forgotten() {
    const REMEMBERED: usize = 1000;
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    for n in 0..REMEMBERED + 15 {
        agent.call(&format!("unknown{n}"), &json!({}));
    }
    let expected: Vec<_> = (15..REMEMBERED + 15).map(|n| json!(format!("unknown{n}"))).collect();
    assert_eq!(values(&calls(&daemon, &["-n", "2000"]), "tool"), expected.iter().collect::<Vec<_>>());
}

#[test]
fn follow_reports_calls_that_end_later() {
    let mut daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let mut agent = Agent::ready(&daemon);
    agent.call("b__echo", &json!({}));
    let mut command = daemon.place().command(MCPD);
    command.args(["calls", "-f", "--json", "--server", "b", "--runtime-dir"]).arg(daemon.place().runtime_dir());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut text = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = text.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("JSON")
    };
    assert_eq!(next()["tool"], "echo");
    agent.call("a__cwd", &json!({}));
    agent.call("b__cwd", &json!({}));
    let call = next();
    assert_eq!((&call["tool"], &call["server"]), (&json!("cwd"), &json!("b")));
    drop(agent);
    daemon.stop_in_order(rustix::process::Signal::TERM);
    assert_eq!(crate::support::wait_exit(&mut child).code(), Some(3), "nobody is left to follow");
}

#[test]
fn arguments_are_recorded_only_for_servers_configured_so() {
    let setup = Setup::with(Server::named("quiet")).server(Server::named("verbose").line("log_arguments = true"));
    let place = Place::new();
    let file = place.path("calls.jsonl");
    let head = format!("[daemon]\ncall_log = {}", crate::support::quoted(&file));
    let daemon = setup.head(&head).variable("RUST_LOG", "trace").start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let canary = json!({"text": CANARY});
    arguments(&agent.call("quiet__echo", &canary));
    agent.call("quiet__refuse", &canary);
    agent.call("quiet__nothing", &canary);
    let everything = || {
        let ran =
            [daemon.client(&["calls"]), daemon.client(&["calls", "--json"]), daemon.client(&["status", "--json"])];
        let text: String = ran.iter().map(ToString::to_string).collect();
        text + &daemon.log()
    };
    until("the file has the calls", || (lines(&file).len() == 3).then_some(()));
    assert!(!everything().contains(CANARY) && !fs::read_to_string(&file).expect("there").contains(CANARY));
    arguments(&agent.call("verbose__echo", &canary));
    let long = json!({"text": "x".repeat(100_000)});
    arguments(&agent.call("verbose__echo", &long));
    until("the file has the calls", || (lines(&file).len() == 5).then_some(()));
    let all = calls(&daemon, &[]);
    let mut without_format = all.clone();
    for call in &mut without_format {
        assert_eq!(call.as_object_mut().and_then(|call| call.remove("format")), Some(json!(1)));
    }
    assert_eq!(without_format, lines(&file), "both tell the same");
    assert_eq!(all[3]["arguments"], canary.to_string());
    let cut = all[4]["arguments"].as_str().expect("text");
    assert!(cut.len() < 5000 && cut.ends_with('…'), "{} bytes", cut.len());
    assert!(!daemon.log().contains(CANARY), "{}", daemon.log());
}

#[test]
fn file_is_private_and_is_rotated_before_it_exceeds_its_limit() {
    const MAX_FILE: usize = 10 << 20;
    let place = Place::new();
    // Calls before, up to 60 KiB below the limit.
    let former = json!({"text": "x".repeat(MAX_FILE - (60 << 10))}).to_string() + "\n";
    let file = place.write("calls.jsonl", former);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("one's own file");
    let head = format!("[daemon]\ncall_log = {}", crate::support::quoted(&file));
    let mut daemon = Setup::with(Server::named("a").line("log_arguments = true")).head(&head).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    for n in 0..30 {
        agent.call("a__echo", &json!({"text": "x".repeat(4000), "n": n}));
    }
    drop(agent);
    daemon.stop_in_order(rustix::process::Signal::TERM);
    let before = place.path("calls.jsonl.1");
    for path in [&file, &before] {
        let found = fs::metadata(path).expect("it is there");
        assert!(found.len() <= MAX_FILE as u64 && found.permissions().mode() & 0o777 == 0o600, "{path:?}: {found:?}");
    }
    let all = [lines(before), lines(&file)].concat();
    assert_eq!(all.len(), 31, "nothing is lost by an orderly stop");
}

#[test]
fn full_disk_causes_one_warning() {
    let daemon = Setup::with(Server::named("a")).head("[daemon]\ncall_log = \"/dev/full\"").start();
    let mut agent = Agent::ready(&daemon);
    for n in 0..50 {
        assert_eq!(arguments(&agent.call("a__echo", &json!({"n": n}))), &json!({"n": n}));
    }
    let ran = until("the loss is told", || {
        let ran = daemon.client(&["calls", "--json", "-n", "100"]).expect_code(0);
        ran.stderr.contains("50 calls are missing in the call log file").then_some(ran)
    });
    assert_eq!(ran.stdout.lines().count(), 50, "{ran}");
    let warnings = daemon.log().lines().filter(|line| line.contains("/dev/full")).count();
    assert_eq!(warnings, 1, "{}", daemon.log());
}

/// Case K27.
#[test]
fn file_in_a_directory_of_all_users_is_neither_a_link_nor_of_another_user() {
    let place = Place::new();
    for (name, mode) in [("shared", 0o1777), ("own", 0o755)] {
        fs::create_dir(place.path(name)).expect("a fresh directory");
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).expect("the test's own");
        place.write(&format!("{name}/target"), "");
        symlink("target", place.path(&format!("{name}/calls"))).expect("a fresh link");
    }
    let mut refusals = vec![("shared/calls", "it is a link")];
    if rustix::process::geteuid().is_root() {
        let others = place.write("shared/others", "");
        chown(others, Some(54_321), None).expect("root may");
        refusals.push(("shared/others", "it is another user's"));
    } else {
        skipped("only root can give a file to another user");
    }
    for (file, reason) in refusals {
        let head = format!("[daemon]\ncall_log = {}", crate::support::quoted(place.path(file)));
        let daemon = Setup::with(Server::named("a")).head(&head).start_in(&place);
        result(&Agent::ready(&daemon).call("a__echo", &json!({})));
        until("the reason is logged", || daemon.log().contains(reason).then_some(()));
        assert_eq!(fs::read_to_string(place.path(file)).expect("it is there"), "");
    }
    // Nobody else could have put this link there.
    let head = format!("[daemon]\ncall_log = {}", crate::support::quoted(place.path("own/calls")));
    let daemon = Setup::with(Server::named("a")).head(&head).start_in(&place);
    result(&Agent::ready(&daemon).call("a__echo", &json!({})));
    until("the call is written", || (lines(place.path("own/target")).len() == 1).then_some(()));
}

#[test]
fn agents_have_no_access_to_call_records() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    for method in ["calls", "log_level", "status", "logs", "restart", "enable", "disable", "reload"] {
        assert_eq!(
            code(&agent.request(method, &json!({"version": "0", "filter": "trace", "server": "a"}))),
            -32601,
            "{method}"
        );
    }
}

#[test]
fn calls_without_a_daemon_reports_that_none_runs() {
    let place = Place::new();
    for args in [&["calls"][..], &["calls", "-f"], &["calls", "--json"]] {
        let ran = place.client(args).expect_code(3);
        assert!(ran.stderr.contains("not running") && ran.stdout.is_empty(), "{args:?}: {ran}");
    }
    for args in [&["calls", "-n", "x"][..], &["calls", "--server"]] {
        place.client(args).expect_code(2);
    }
}

#[test]
fn closed_output_ends_follow_without_an_error() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    for n in 0..20 {
        agent.call(&format!("unknown{n}"), &json!({}));
    }
    let script = "\"$0\" calls --json --runtime-dir \"$1\" | head -n 1";
    let mut command = daemon.place().command("sh");
    command.args(["-c", script, MCPD]).arg(daemon.place().runtime_dir());
    let ran = run(&mut command).expect_code(0);
    assert!(ran.stdout.lines().count() == 1 && ran.stderr.is_empty(), "{ran}");
}
