//! Live terminal views, and the restored terminal after them.

use std::fs::{self, File};
use std::process::Stdio;
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, MCPD, Place, Server, Setup, Terminal, arguments, children, signal, until, wait_exit,
};

#[test]
fn long_wait_shows_its_reason_and_leaves_nothing_on_the_screen() {
    let place = Place::new();
    let gate = place.write("gate", "");
    let daemon = Setup::with(Server::named("slow").arg("--init-until").arg(&gate)).start_in(&place);
    fs::remove_file(&gate).expect("it is there");
    let Some(terminal) = Terminal::open(daemon.place(), 80, 24) else { return };
    terminal.line("m restart slow");
    let meanwhile = terminal.wait("restarting slow · ");
    assert!(!meanwhile.contains("slow: ready"), "{meanwhile}");
    place.write("gate", "");
    let screen = terminal.wait("slow: ready\n$");
    assert_eq!(screen, "$ m restart slow\nslow: ready\n$");
    // Nobody sees what is piped.
    let ran = daemon.client(&["restart", "slow"]).expect_code(0);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("slow: ready\n", ""));
}

#[test]
fn terminal_has_colours_and_a_pipe_has_not() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("sick").flags("--exit-at-start 3")).start();
    daemon.wait_row("sick", "is in backoff", |row| row["state"] == "backoff");
    let Some(terminal) = Terminal::open(daemon.place(), 80, 40) else { return };
    terminal.line("m status; echo end");
    let screen = terminal.wait("\nend");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    // The second of the sixteen colours, in either of its spellings.
    let colours = terminal.colours();
    assert!(["\u{1b}[32mready", "\u{1b}[38;5;2mready"].iter().any(|ready| colours.contains(ready)), "{colours}");
    terminal.line("clear; NO_COLOR=1 m status; echo done");
    terminal.wait("\ndone");
    assert!(!terminal.colours().contains('\u{1b}'), "{}", terminal.colours());
    assert!(!daemon.client(&["status"]).stdout.contains('\u{1b}'));
}

#[test]
fn calls_and_logs_use_the_width_of_the_terminal() {
    let name = "a-rather-long-name-of-a-server";
    let daemon = Server::named(name).start();
    let mut agent = Agent::ready(&daemon);
    agent.call(&format!("{name}__stderr"), &json!({"text": "a complaint"}));
    let Some(terminal) = Terminal::open(daemon.place(), 80, 24) else { return };
    terminal.line("m calls; m logs");
    let screen = terminal.wait("a complaint");
    let (header, row) = (line_with(&screen, "OUTCOME"), line_with(&screen, "test-agent"));
    assert!(row.contains(&format!("  test-agent 7  {name}  stderr  ")), "{screen}");
    assert!(header.starts_with("TIME      AGENT         SERVER"), "{screen}");
    // The month and the time, as in a syslog.
    let line = line_with(&screen, "a complaint");
    assert_eq!(line.find(name), Some("Jan 01 11:20:30 ".len()), "{screen}");

    // Later calls keep the columns.
    terminal.line("clear; m calls -f -n 1");
    terminal.wait_for("the last call", |screen| screen.starts_with("TIME") && screen.contains("stderr"));
    agent.call(&format!("{name}__echo"), &json!({}));
    let screen = terminal.wait("  echo    ok");
    assert_eq!(screen.lines().count(), 3, "{screen}");
    terminal.key("C-c");
}

fn line_with<'s>(screen: &'s str, part: &str) -> &'s str {
    screen.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part}: {screen}"))
}

/// A terminal in which `view` is shown, with its settings before.
fn showing(daemon: &Daemon, view: &str, shown: &str) -> Option<Terminal> {
    let terminal = Terminal::open(daemon.place(), 80, 24)?;
    terminal.line("stty -g > before; clear; echo before");
    terminal.wait_for("an empty screen", |screen| screen == "before\n$");
    terminal.line(view);
    terminal.wait_for(shown, |screen| screen.contains(shown) && !screen.contains("before"));
    assert_eq!(terminal.asks("#{alternate_on} #{cursor_flag}"), "1 0");
    Some(terminal)
}

/// The terminal is as it was: what stood there, the cursor, and its settings.
fn expect_as_before(daemon: &Daemon, terminal: &Terminal) {
    terminal.wait_for("what stood there before", |screen| screen.starts_with("before\n$ m ") && screen.ends_with('$'));
    until("the cursor is back", || (terminal.asks("#{alternate_on} #{cursor_flag}") == "0 1").then_some(()));
    terminal.line("stty -g > after; echo settled");
    terminal.wait("\nsettled");
    let [before, after] =
        ["before", "after"].map(|name| fs::read_to_string(daemon.place().path(name)).expect("a file"));
    assert_eq!(before, after);
}

fn daemon() -> Daemon {
    Setup::with(Server::named("a")).server(Server::named("b")).start()
}

/// A daemon with this number of servers, of which only the last one fails.
fn many(count: usize) -> Daemon {
    let server = |number: usize| Server::named(&format!("s{number:02}")).line("changes = \"follow\"");
    let servers = (1..count).map(server);
    let sick = server(count).flags("--exit-at-start 3");
    servers.fold(Setup::default(), Setup::server).server(sick).start()
}

#[test]
fn every_exit_from_a_view_restores_the_terminal() {
    let daemon = daemon();
    for (view, shown) in [("m status --watch", "PROFILE"), ("m top", "SERVER")] {
        for way in ["q", "C-c", "Escape"] {
            let Some(terminal) = showing(&daemon, view, shown) else { return };
            terminal.key(way);
            expect_as_before(&daemon, &terminal);
        }
        for way in [Signal::TERM, Signal::HUP, Signal::INT] {
            let Some(terminal) = showing(&daemon, view, shown) else { return };
            let shell: u32 = terminal.asks("#{pane_pid}").parse().expect("a number");
            signal(until("it runs below the shell", || children(shell).first().copied()), way);
            expect_as_before(&daemon, &terminal);
        }
    }
}

#[test]
fn watched_status_follows_events_and_the_terminal_size() {
    let daemon = daemon();
    let Some(terminal) = showing(&daemon, "m status --watch", "PROFILE") else { return };
    terminal.wait("no agents are connected");
    let _agent = Agent::ready(&daemon);
    let screen = terminal.wait("test-agent 7");
    assert!(screen.contains("q quits"), "{screen}");
    terminal.resize(80, 8);
    terminal.wait_for("less of it", |screen| screen.contains("lines 1–7 of ") && screen.ends_with("q quits"));
    terminal.resize(60, 30);
    let screen =
        terminal.wait_for("all of it", |screen| screen.contains("test-agent 7") && screen.ends_with("q quits"));
    assert!(!screen.contains(" MCP "), "what does not fit is left out: {screen}");
    daemon.client(&["disable", "b"]).expect_code(0);
    terminal.wait("disabled");
}

#[test]
fn watched_status_shows_sixty_servers_by_scrolling() {
    let daemon = many(60);
    let Some(terminal) = showing(&daemon, "m status --watch", "SERVER") else { return };
    let screen = terminal.wait("lines 1–23 of ");
    assert!(screen.contains("s01 ") && !screen.contains("s59 "), "{screen}");
    for key in ["NPage", "Down"] {
        terminal.key(key);
    }
    let screen = terminal.wait("lines 24–46 of ");
    assert!(screen.starts_with("SERVER ") && screen.lines().count() == 24, "the heading stays: {screen}");
    terminal.key("End");
    terminal.wait("PROFILE");
    terminal.key("Home");
    terminal.wait("lines 1–23 of ");
    terminal.key("PPage");
    terminal.key("Escape");
    expect_as_before(&daemon, &terminal);
}

#[test]
fn view_shows_that_the_daemon_has_gone_and_then_the_next_one() {
    let mut daemon = daemon();
    let place = Rc::clone(daemon.place());
    let Some(terminal) = showing(&daemon, "m status --watch", "PROFILE") else { return };
    let before = format!("pid {}", daemon.pid());
    terminal.wait(&before);
    daemon.term();
    let screen = terminal.wait("not running");
    assert!(screen.contains("last known state is shown below") && screen.contains(&before), "{screen}");
    let next = Setup::with(Server::named("c")).start_in(&place);
    let screen = terminal.wait(&format!("pid {}", next.pid()));
    assert!(!screen.contains("last known state"), "{screen}");
}

#[test]
fn piped_watch_prints_again_only_when_something_has_happened() {
    let daemon = daemon();
    let path = daemon.place().path("watched");
    let mut command = daemon.place().command(MCPD);
    command.args(["status", "--watch", "--json", "--runtime-dir"]).arg(daemon.place().runtime_dir());
    let mut child =
        command.stdin(Stdio::null()).stdout(File::create(&path).expect("a file")).spawn().expect("it starts");
    let reports = || -> Vec<Value> {
        let text = fs::read_to_string(&path).expect("a file");
        text.split_inclusive('\n').filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    until("it is printed", || (!reports().is_empty()).then_some(()));
    daemon.client(&["disable", "b"]).expect_code(0);
    let last = until("what happened is printed", || {
        reports().last().filter(|report| report["servers"][1]["disabled"] == true).cloned()
    });
    assert_eq!(last["format"], 1);
    let count = reports().len();
    assert!(count <= 3, "{count} reports of one thing that happened");
    child.kill().expect("one's own child");
    wait_exit(&mut child);
}

#[test]
fn top_counts_past_and_new_calls() {
    let daemon = Server::named("a").flags("--bare --tool echo --tool fail --tool sleep").start();
    let mut agent = Agent::ready(&daemon);
    for _ in 0..5 {
        arguments(&agent.call("a__echo", &json!({})));
    }
    agent.call("a__fail", &json!({"code": -5}));
    let report = daemon.client(&["top", "--json"]).expect_code(0).json();
    let row = &report["servers"][0];
    assert_eq!(
        (&report["format"], &row["name"], &row["calls"], &row["errors"]),
        (&json!(1), &json!("a"), &json!(6), &json!(1))
    );
    assert!(row["p50_ms"].is_number() && row["p99_ms"].as_f64() >= row["p50_ms"].as_f64(), "{row}");
    assert_eq!((&report["tools"][0]["tool"], &report["tools"][0]["calls"]), (&json!("echo"), &json!(5)));
    assert_eq!((&report["last"][0]["tool"], &report["last"][0]["outcome"]), (&json!("fail"), &json!("error")));
    let piped = daemon.client(&["top"]).expect_code(0);
    assert!(piped.stdout.contains("a/echo") && piped.stdout.contains("6 calls"), "{piped}");
    let Some(terminal) = showing(&daemon, "m top", "6 calls") else { return };
    let gate = daemon.gate();
    let waiting = agent.start_call("a__sleep", &gate.arguments());
    terminal.wait("1 in flight");
    terminal.key("s");
    terminal.key("s");
    let screen = terminal.wait("a/sleep");
    assert!(screen.contains("IN FLIGHT  ") && screen.contains("test-agent 7 (agent "), "{screen}");
    terminal.key("s");
    gate.open();
    agent.answer(&waiting);
    terminal.wait("7 calls");
    terminal.wait_for("the longest call is the first of the slowest", |screen| {
        let slowest = screen.lines().skip_while(|line| !line.contains("SLOWEST CALLS")).nth(1);
        slowest.is_some_and(|row| row.starts_with("a/sleep"))
    });
    terminal.key("s");
    terminal.wait("LAST CALLS");
    terminal.key("e");
    terminal.wait("ERRORS▾");
}

#[test]
fn top_opens_each_of_sixty_servers() {
    let daemon = many(60);
    let Some(terminal) = showing(&daemon, "m top", "of 60") else { return };
    let screen = terminal.wait("▸ s01");
    assert!(screen.contains("servers 1–") && !screen.contains("s60") && screen.lines().count() <= 24, "{screen}");
    terminal.key("End");
    let screen = terminal.wait("▸ s60");
    assert!(screen.contains("–60 of 60"), "{screen}");
    terminal.key("Enter");
    let screen = terminal.wait("cannot start: exit code 3");
    for part in ["s60 · ", "✗ s60: exited with code 3", "→ mcpd ", "STDERR", "Esc back"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    terminal.resize(80, 8);
    terminal.key("NPage");
    terminal.wait("lines 7–13 of ");
    terminal.resize(80, 24);
    terminal.key("Escape");
    terminal.wait("▸ s60");
    terminal.key("Up");
    terminal.wait("▸ s59");
    terminal.key("Home");
    terminal.wait("▸ s01");
    terminal.key("q");
    expect_as_before(&daemon, &terminal);
}

#[test]
fn top_shows_its_keys_and_filters_servers_by_name() {
    let daemon = many(60);
    let Some(terminal) = showing(&daemon, "m top", "of 60") else { return };
    terminal.wait("? keys");
    terminal.key("?");
    let screen = terminal.wait("WHAT IT DOES");
    assert!(screen.contains("any other key: back") && !screen.contains("s01"), "{screen}");
    terminal.key("?");
    terminal.wait("▸ s01");
    terminal.key("/");
    terminal.wait("Enter keeps it");
    for key in ["S", "5", "q", "BSpace"] {
        terminal.key(key);
    }
    let screen = terminal.wait("/s5▏");
    assert!(screen.contains("▸ s50") && screen.contains("s59") && !screen.contains("s01"), "{screen}");
    terminal.key("Enter");
    terminal.wait("/s5 · Esc shows all");
    terminal.key("Down");
    terminal.wait("▸ s51");
    terminal.key("Enter");
    terminal.wait("s51 · ");
    terminal.key("Escape");
    terminal.wait("/s5 · Esc shows all");
    terminal.key("Escape");
    terminal.wait("of 60");
    terminal.key("Escape");
    expect_as_before(&daemon, &terminal);
}

#[test]
fn top_shows_memory_and_what_a_server_writes_to_stderr() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    agent.call("a__stderr", &json!({"text": "the first line"}));
    let report = daemon.client(&["top", "--json"]).expect_code(0).json();
    let row = &report["servers"][0];
    assert!(row["memory_bytes"].as_u64() > Some(100_000) && row["cpu_percent"].is_number(), "{row}");
    let Some(terminal) = showing(&daemon, "m top", "▸ a") else { return };
    terminal.key("Enter");
    terminal.wait("the first line");
    agent.call("a__stderr", &json!({"text": "the second line"}));
    let screen = terminal.wait("the second line");
    assert!(line_with(&screen, "memory").contains(" in 2 processes"), "{screen}");
    terminal.key("b");
    terminal.wait("▸ a");
    terminal.key("m");
    terminal.wait("MEMORY▾");
}

#[test]
fn view_without_a_daemon_ends_at_once_with_the_remedy() {
    let place = Place::new();
    for args in [&["status", "--watch"][..], &["top"], &["top", "--json"]] {
        let ran = place.client(args).expect_code(3);
        assert!(ran.stderr.contains("`mcpd start --runtime-dir ") && ran.stdout.is_empty(), "{ran}");
    }
}
