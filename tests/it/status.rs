//! `mcpd status` reports servers, agents and faults at any time.

use std::fs;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, Place, Process, SCRIPTED, Server, Setup, arguments, children, code, quoted, signal, until,
};

/// A setup in which one server works and one never gets through its handshake.
fn ailing() -> Daemon {
    let sick = Server::named("sick").flags("--exit-at-start 3");
    Setup::with(Server::named("good")).server(sick).start()
}

#[test]
fn server_row_shows_what_runs_and_its_counters() {
    let daemon = Setup::with(
        Server::named("a").flags("--bare --tool echo --tool fail --tool x --tool sleep").line(r#"deny = ["x"]"#),
    )
    .start();
    let mut agent = Agent::ready(&daemon);
    let answer = agent.call("a__echo", &json!({}));
    assert_eq!(code(&agent.call("a__fail", &json!({"code": -5}))), -5);
    let gate = daemon.gate();
    let pending = agent.start_call("a__sleep", &gate.arguments());
    let row = daemon.wait_row("a", "counts the call in flight", |row| row["in_flight"] == 1);
    let expected = json!({
        "name": "a", "state": "ready", "protocol": "2025-11-25", "software": "scripted 1.0", "tools_exposed": 3,
        "tools_denied": 1, "calls": 3, "in_flight": 1, "errors": 1, "restarts": 0, "skipped_lines": 0,
        "stray_responses": 0, "tools_truncated": false, "pid": answer["result"]["structuredContent"]["pid"],
    });
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&row[key], value, "{key} in {row}");
    }
    assert!(row["uptime_ms"].is_u64() && row["guard_pid"].is_u64() && row["last_error"].is_null(), "{row}");
    gate.open();
    arguments(&agent.answer(&pending));
}

#[test]
fn report_has_the_calls_in_flight_with_their_agent_server_and_tool() {
    let daemon = Server::named("a").start();
    let (mut first, mut second) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let gate = daemon.gate();
    let pending = [first.start_call("a__sleep", &gate.arguments()), second.start_call("a__sleep", &gate.arguments())];
    let running = |status: &Value| status["running_calls"].as_array().cloned().unwrap_or_default();
    let status = daemon.wait_status("shows both calls", |status| running(status).len() == 2);
    let sessions = |rows: Vec<Value>| {
        let mut all: Vec<_> = rows.iter().filter_map(|row| row["session"].as_u64()).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(sessions(running(&status)), sessions(status["agents"].as_array().cloned().expect("agents")));
    for row in running(&status) {
        assert_eq!(
            (&row["client"], &row["server"], &row["tool"]),
            (&json!("test-agent 7"), &json!("a"), &json!("sleep"))
        );
        assert!(row["running_ms"].is_u64(), "{row}");
    }
    gate.open();
    first.answer(&pending[0]);
    second.answer(&pending[1]);
    daemon.wait_status("shows none", |status| running(status).is_empty());
}

#[test]
fn report_shows_the_daemon_its_agents_and_its_sockets() {
    let daemon = Server::named("a").flags("--bare --tool echo").start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__echo", &json!({})));
    let _silent = Agent::connect(&daemon);
    let status =
        daemon.wait_status("shows both agents", |status| status["agents"].as_array().is_some_and(|all| all.len() == 2));
    assert_eq!((&status["pid"], &status["settled"]), (&json!(daemon.pid()), &json!(true)));
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    let first = &status["agents"][0];
    let described = (&first["client"], &first["protocol"], &first["profile"], &first["calls"], &first["pid"]);
    assert_eq!(
        described,
        (&json!("test-agent 7"), &json!("2025-11-25"), &json!("default"), &json!(1), &json!(std::process::id()))
    );
    assert_eq!(first["uid"], rustix::process::getuid().as_raw());
    assert_eq!(status["agents"][1]["client"], Value::Null);
    let socket = daemon.agent_socket();
    assert_eq!(
        status["profiles"],
        json!([{"name": "default", "socket": socket, "servers": ["a"], "tools": 1, "agents": 2}])
    );
}

#[test]
fn table_is_for_people_and_names_every_server_and_its_state() {
    let daemon = ailing();
    daemon.wait_row("sick", "shows its stderr", |row| row["stderr"].to_string().contains("cannot start"));
    let ran = daemon.client(&["status"]);
    let good = ran.stdout.lines().find(|line| line.starts_with("good")).unwrap_or_else(|| panic!("{ran}"));
    assert!(good.contains("ready"), "{ran}");
    let sick = ran.stdout.lines().find(|line| line.starts_with("sick")).unwrap_or_else(|| panic!("{ran}"));
    assert!(sick.contains("backoff") || sick.contains("starting"), "{ran}");
    assert!(ran.stdout.contains("→ mcpd logs sick"), "where there is more: {ran}");
    assert!(ran.stdout.contains("cannot start: exit code 3"), "what it wrote to stderr is shown: {ran}");
    assert!(ran.stdout.contains("mcp.sock"), "{ran}");
}

/// Case A2.
#[test]
fn last_stderr_lines_of_a_server_are_shown_even_if_read_late() {
    let place = Place::new();
    let gate = place.path("gate");
    let script = format!("until [ -e {} ]; do sleep 0.01; done; exec \"$0\" \"$@\"", quoted(&gate));
    let sick = Server::run_by("sick", "sh").arg("-c").arg(script).arg(SCRIPTED).flags("--exit-at-start 3");
    let daemon = Daemon::spawn(Rc::clone(&place), &Setup::with(sick));
    let first_child = |pid: u32| children(pid).first().copied();
    let guard = until("the daemon starts a guard", || first_child(daemon.pid()).and_then(first_child));
    until("its server is there", || (!children(guard).is_empty()).then_some(()));
    signal(daemon.pid(), Signal::STOP);
    fs::write(gate, "").expect("the test's own directory is writable");
    until("its server has gone", || Process::find(guard).is_none().then_some(()));
    signal(daemon.pid(), Signal::CONT);
    let row = daemon.wait_row("sick", "is in backoff", |row| row["state"] == "backoff");
    assert!(row["stderr"].to_string().contains("cannot start: exit code 3"), "{row}");
}

#[test]
fn exit_code_of_status_reports_whether_all_servers_are_up() {
    let well = Server::named("good").start();
    well.client(&["status"]).expect_code(0);
    well.client(&["status", "--json"]).expect_code(0);
    let daemon = ailing();
    // Between two attempts it is starting, which is no failure.
    until("a failure is told", || (daemon.client(&["status"]).code == Some(1)).then_some(()));
}

#[test]
fn without_a_daemon_the_exit_code_is_three_and_nothing_is_started() {
    let place = Place::new();
    for args in [&["status"][..], &["status", "--json"], &["status", "--check"], &["tools"], &["call", "a__echo", "{}"]]
    {
        let ran = place.client(args).expect_code(3);
        assert!(ran.stderr.contains("not running") && ran.stdout.is_empty(), "{args:?}: {ran}");
    }
}

#[test]
fn crash_is_counted_and_remembered() {
    let daemon = Server::named("a").start();
    assert_eq!(code(&Agent::ready(&daemon).call("a__die", &json!({"how": "kill"}))), -31001);
    let row = daemon.wait_row("a", "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
    assert!(row["last_error"].to_string().contains("signal 9"), "the signal is named: {row}");
    assert_eq!(row["errors"], 1);
}

#[test]
fn status_answers_whatever_a_server_does() {
    let setup = Setup::with(Server::named("mute").flags("--init-never")).server(Server::named("stopped"));
    let daemon = setup.spawn();
    daemon.wait_row("stopped", "is ready", |row| row["state"] == "ready");
    let pid = daemon.server_pid("stopped");
    signal(pid, Signal::STOP);
    assert_eq!(daemon.row("mute")["state"], "starting");
    signal(pid, Signal::CONT);
}

#[test]
fn status_answers_with_many_idle_connections() {
    let daemon = Server::named("a").start();
    let socket = daemon.place().runtime_dir().join("admin.sock");
    let idle: Vec<_> = (0..70).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    daemon.client(&["status", "--json"]).expect_code(0);
    drop(idle);
}

#[test]
fn terminal_escapes_of_a_server_are_not_printed() {
    let ugly = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}evil\r\nname";
    let server = Server::named("ugly").arg("--server-name").arg(ugly).arg("--tool").arg("\u{1b}[31mred");
    let daemon = Setup::with(server).start();
    for args in [&["status"][..], &["tools"], &["status", "--json"]] {
        let ran = daemon.client(args).expect_code(0);
        // JSON is for programs: only what a terminal obeys at once matters there.
        let draws = |c: &char| (c.is_control() && *c != '\n') || (*c == '\u{202e}' && args.len() == 1);
        let bad: Vec<_> = ran.stdout.chars().filter(draws).collect();
        assert!(bad.is_empty(), "{args:?} printed {bad:?}");
    }
}

/// Case A13.
#[test]
fn long_stderr_line_is_cut_and_control_characters_are_replaced() {
    let script = "yes | tr -d '\\n' | head -c 1000000 >&2; echo >&2; printf 'zero\\000byte\\n' >&2; exit 3";
    let daemon = Setup::with(Server::run_by("a", "sh").arg("-c").arg(script)).start();
    let row = daemon.wait_row("a", "shows its stderr", |row| row["stderr"].to_string().contains("zero"));
    let lines = row["stderr"].as_array().expect("lines");
    assert!(lines.iter().all(|line| line.as_str().is_some_and(|line| line.len() <= 4 << 10)), "{row}");
    assert!(lines.contains(&json!("y".repeat(4 << 10))) && lines.contains(&json!("zero\u{0}byte")), "{row}");
}

#[test]
fn secret_is_shown_nowhere() {
    let secret = "canary-9f8e7d";
    let sick = Server::named("sick").flags("--exit-at-start 3").env("TOKEN", secret);
    let daemon =
        Setup::with(Server::named("good").env("TOKEN", secret)).server(sick).variable("RUST_LOG", "trace").start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.call("good__env", &json!({}))["result"]["structuredContent"]["TOKEN"], secret);
    assert_eq!(code(&agent.call("good__die", &json!({}))), -31001);
    for args in [&["status"][..], &["status", "--json"]] {
        let ran = daemon.client(args);
        assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{ran}");
    }
    let processes = daemon.place().processes(Some(daemon.pid()));
    assert!(!processes.iter().any(|process| process.command.contains(secret)), "in a command line");
    assert!(!daemon.log().contains(secret), "{}", daemon.log());
}

#[test]
fn status_of_named_servers_shows_only_these() {
    let daemon = Setup::with(Server::named("one")).server(Server::named("two")).start();
    let ran = daemon.client(&["status", "one"]).expect_code(0);
    assert!(ran.stdout.contains("\none ") && !ran.stdout.contains("\ntwo "), "{ran}");
    let servers = daemon.client(&["ls", "two", "--json"]).expect_code(0).json()["servers"].clone();
    assert_eq!((servers.as_array().map(Vec::len), &servers[0]["name"]), (Some(1), &json!("two")));
    let ran = daemon.client(&["status", "tow"]).expect_code(2);
    assert_eq!(ran.stderr, "mcpd: there is no server `tow`: did you mean `two`?\n");
}
