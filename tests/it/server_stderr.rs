//! `mcpd logs`: stderr lines of servers, read without delaying the server.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Daemon, MCPD, Place, Ran, Server, Setup, arguments, resident_kib, run, until, wait_exit};

/// The lines that `mcpd logs --json` prints.
fn lines(daemon: &Daemon, args: &[&str]) -> Vec<Value> {
    let ran = daemon.client(&[&["logs", "--json"], args].concat()).expect_code(0);
    assert_eq!(ran.stderr, "");
    ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn texts(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["text"].as_str().expect("text")).collect()
}

/// Has `server` write a line and waits until it is read.
fn write(daemon: &Daemon, agent: &mut Agent, server: &str, text: &str) {
    arguments(&agent.call(&format!("{server}__stderr"), &json!({"text": text})));
    let what = format!("{text} is read");
    until(&what, || texts(&lines(daemon, &[server])).contains(&text).then_some(()));
}

/// `mcpd logs -f --json`, whose output waits until it is read.
fn follow(daemon: &Daemon, args: &[&str]) -> Child {
    let mut command = daemon.place().command(MCPD);
    command.args(["logs", "-f", "--json"]).args(args).arg("--runtime-dir").arg(daemon.place().runtime_dir());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Each line as it comes.
fn next_event(child: &mut Child) -> impl FnMut() -> Value + use<> {
    let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    move || serde_json::from_str(&output.next().expect("a line").expect("text")).expect("JSON")
}

/// All that comes until the writer ends.
fn read_on(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    let mut pipe = pipe.expect("a pipe");
    thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).expect("text");
        text
    })
}

#[test]
fn logs_of_several_servers_are_merged_without_those_of_others() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).server(Server::named("c")).start();
    let mut agent = Agent::ready(&daemon);
    for (server, text) in [("a", "one"), ("b", "two"), ("c", "three"), ("a", "four")] {
        write(&daemon, &mut agent, server, text);
    }
    assert_eq!(texts(&lines(&daemon, &["a", "b"])), ["one", "two", "four"]);
    assert_eq!(texts(&lines(&daemon, &["c", "a", "--tail", "2"])), ["three", "four"]);
}

#[test]
fn missing_lines_are_reported_with_the_command_that_shows_more() {
    let daemon = Server::named("a").start();
    let of_one = daemon.client(&["logs", "a"]).expect_code(0);
    assert_eq!(
        (&*of_one.stdout, &*of_one.stderr),
        ("", "mcpd: a has written nothing to stderr. `mcpd doctor a` shows whether it runs\n")
    );
    assert!(daemon.client(&["logs"]).expect_code(0).stderr.contains("`mcpd status`"));
    assert_eq!(daemon.client(&["logs", "--json"]).expect_code(0).stderr, "");
}

#[test]
fn line_has_its_time_and_its_server() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__stderr", &json!({"text": "what\u{1b}[2J\tis\u{202e}wrong"})));
    write(&daemon, &mut agent, "a", "end");
    let all = lines(&daemon, &["a"]);
    let pid = daemon.server_pid("a");
    assert_eq!((&all[0]["server"], &all[0]["pid"], &all[0]["purpose"]), (&json!("a"), &json!(pid), &Value::Null));
    let time = all[0]["time"].as_str().expect("a time");
    assert!(time.ends_with('Z') && time.len() == "2026-01-01T00:00:00.000Z".len(), "{time}");
    let plain = daemon.client(&["logs", "a"]).expect_code(0);
    let (_, line) = plain.stdout.split_once(' ').expect("a local time, and the line");
    // Only a terminal gets escapes.
    let expected = format!("a[{pid}]: what\u{1b}[2J\tis\u{202e}wrong\n");
    assert!(line.starts_with(&expected) && plain.stderr.is_empty(), "{plain}");
}

#[test]
fn lines_of_all_servers_come_in_the_order_they_were_written() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let mut agent = Agent::ready(&daemon);
    for (server, text) in [("a", "1"), ("b", "2"), ("b", "3"), ("a", "4")] {
        write(&daemon, &mut agent, server, text);
    }
    assert_eq!(texts(&lines(&daemon, &[])), ["1", "2", "3", "4"]);
    assert_eq!(texts(&lines(&daemon, &["-n", "3"])), ["2", "3", "4"]);
    assert_eq!(texts(&lines(&daemon, &["b", "-n", "1"])), ["3"]);
    assert_eq!(texts(&lines(&daemon, &["-n", "0"])), [""; 0]);
}

#[test]
fn lines_name_their_instance_and_remain_after_it_has_ended() {
    let daemon = Server::named("s").line("sharing = \"session\"").start();
    let (mut first, mut second) = (Agent::ready(&daemon), Agent::ready(&daemon));
    write(&daemon, &mut first, "s", "one");
    write(&daemon, &mut second, "s", "two");
    first.disconnect();
    daemon.wait_row("s", "has let the first go", |row| !row["instances"].to_string().contains("session 1"));
    let all = lines(&daemon, &["s"]);
    assert_eq!(texts(&all), ["one", "two"]);
    assert_eq!([&all[0]["purpose"], &all[1]["purpose"]], [&json!("session 1"), &json!("session 2")]);
    assert_ne!(all[0]["pid"], all[1]["pid"]);
    let plain = daemon.client(&["logs", "s", "-n", "1"]).expect_code(0);
    assert!(plain.stdout.contains(" s (session 2)[") && plain.stdout.ends_with("]: two\n"), "{plain}");
}

#[test]
fn last_lines_of_a_server_that_cannot_start_are_retained() {
    let daemon = Server::named("sick").flags("--exit-at-start 3").start();
    let output = until("its words are read", || lines(&daemon, &["sick"]).into_iter().next());
    assert!(output["text"].as_str().is_some_and(|text| text.contains("exit code 3")), "{output}");
}

/// Case A13.
#[test]
fn lines_are_retained_up_to_64_kib_each_and_256_per_server() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__stderr", &json!({"text": "y".repeat(1_000_000)})));
    write(&daemon, &mut agent, "a", "next");
    let all = lines(&daemon, &[]);
    assert_eq!(texts(&all), [&*("y".repeat(64 << 10) + "…"), "next"]);
    arguments(&agent.call("a__stderr", &json!({"bytes": 4 << 20, "lines": true})));
    write(&daemon, &mut agent, "a", "end");
    let all = lines(&daemon, &["-n", "1000000"]);
    let bytes: usize = texts(&all).iter().map(|text| text.len()).sum();
    assert!((10_000..256 << 10).contains(&bytes), "{bytes} bytes");
    assert_eq!(texts(&all).last(), Some(&"end"));
}

#[test]
fn twenty_servers_that_write_endlessly_use_a_few_mebibytes() {
    let names: Vec<_> = (0..20).map(|n| format!("s{n}")).collect();
    let daemon = names.iter().fold(Setup::new(), |setup, name| setup.server(Server::named(name))).start();
    let mut agent = Agent::ready(&daemon);
    let before = resident_kib(daemon.pid());
    for length in [1, 100, 10_000] {
        let flood = json!({"text": "z".repeat(length), "times": 400_000 / (length + 50)});
        for name in &names {
            arguments(&agent.call(&format!("{name}__stderr"), &flood));
        }
        for name in &names {
            write(&daemon, &mut agent, name, "end");
        }
    }
    let grown = resident_kib(daemon.pid()).saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB");
}

#[test]
fn follow_shows_later_lines_and_those_of_other_instances() {
    let mut daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let mut agent = Agent::ready(&daemon);
    write(&daemon, &mut agent, "a", "before");
    let mut follower = follow(&daemon, &["a"]);
    let mut next = next_event(&mut follower);
    let first = next();
    assert_eq!(first["text"], "before");
    write(&daemon, &mut agent, "b", "of another");
    write(&daemon, &mut agent, "a", "after");
    assert_eq!(next()["text"], "after");
    daemon.client(&["restart", "a"]).expect_code(0);
    write(&daemon, &mut agent, "a", "anew");
    let last = next();
    assert_eq!(last["text"], "anew");
    assert_ne!(last["pid"], first["pid"]);
    drop(agent);
    daemon.stop_in_order(Signal::TERM);
    assert_eq!(wait_exit(&mut follower).code(), Some(3), "nobody is left to follow");
}

#[test]
fn follow_of_all_servers_shows_added_and_removed_ones() {
    let place = Place::new();
    let text = |servers: &[Server]| -> String { servers.iter().map(|server| server.toml(&place)).collect() };
    let last_words = Server::run_by("sick", "sh").arg("-c").arg("echo hello >&2; cat > /dev/null; echo bye >&2");
    let file = place.write("changing.toml", text(&[Server::named("a"), last_words]));
    let daemon = Setup::new().config(file).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let mut follower = follow(&daemon, &[]);
    let mut next = next_event(&mut follower);
    assert_eq!(next()["text"], "hello");
    write(&daemon, &mut agent, "a", "one");
    assert_eq!(next()["text"], "one");
    place.write("changing.toml", text(&[Server::named("b")]));
    daemon.client(&["reload"]).expect_code(0);
    assert_eq!(next()["text"], "bye", "the last words of one that goes are told, too");
    until("it is listed", || agent.tools().contains(&"b__stderr".to_owned()).then_some(()));
    write(&daemon, &mut agent, "b", "two");
    let line = next();
    assert_eq!((&line["text"], &line["server"]), (&json!("two"), &json!("b")));
    follower.kill().and_then(|()| follower.wait()).expect("one's own child");
    agent.disconnect();
}

#[test]
fn follower_that_does_not_read_delays_nothing_and_receives_the_count_of_missed_lines() {
    const FLOODS: usize = 8;
    let mut daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    write(&daemon, &mut agent, "a", "begin");
    let mut follower = follow(&daemon, &["a"]);
    let output = read_on(follower.stderr.take());
    let mut next = next_event(&mut follower);
    assert_eq!(next()["text"], "begin");
    let before = resident_kib(daemon.pid());
    for _ in 0..FLOODS {
        arguments(&agent.call("a__stderr", &json!({"bytes": 1 << 20, "lines": true})));
    }
    write(&daemon, &mut agent, "a", "end");
    let grown = resident_kib(daemon.pid()).saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB");
    let mut shown = 2;
    while next()["text"] != "end" {
        shown += 1;
    }
    drop(agent);
    daemon.stop_in_order(Signal::TERM);
    wait_exit(&mut follower);
    let output = output.join().expect("a reader does not panic");
    let counts = output.lines().filter_map(|line| line.strip_prefix("mcpd: ")?.split_once(" lines of a are not shown"));
    let missed: usize = counts.map(|(count, _)| count.parse::<usize>().expect("a number")).sum();
    assert!(missed > 0, "{output}");
    assert_eq!(shown + missed, 2 + FLOODS * ((1 << 20) / "complaint\n".len()));
}

#[test]
fn unknown_server_is_refused_with_the_known_ones() {
    let daemon = Setup::with(Server::named("files")).server(Server::named("web")).start();
    for args in [
        &["logs", "file"][..],
        &["logs", "-f", "file"],
        &["restart", "file"],
        &["enable", "file"],
        &["disable", ""],
        &["logs", "web", "file"],
    ] {
        let ran = daemon.client(args).expect_code(1);
        assert!(ran.stderr.contains("files, web") && ran.stdout.is_empty(), "{args:?}: {ran}");
    }
}

#[test]
fn logs_without_a_daemon_reports_that_none_runs() {
    let place = Place::new();
    for args in
        [&["logs"][..], &["logs", "-f"], &["logs", "a", "--json"], &["restart", "a"], &["disable", "a"], &["reload"]]
    {
        let ran = place.client(args).expect_code(3);
        assert!(ran.stderr.contains("not running") && ran.stdout.is_empty(), "{args:?}: {ran}");
    }
}

/// What `mcpd logs` prints after the daemon was killed.
fn kept(place: &Place, args: &[&str]) -> Ran {
    let ran = place.client(&[&["logs"], args].concat()).expect_code(3);
    assert!(ran.stderr.contains("not running"), "{ran}");
    ran
}

/// Case E14.
#[test]
fn lines_of_servers_outlive_the_daemon() {
    let place = Place::new();
    place.write("token", "s3cr3t");
    let secret = format!("${{file:{}}}", place.path("token").display());
    let setup =
        Setup::with(Server::named("a").env("TOKEN", &secret)).server(Server::named("b").env("API_KEY", "literal-key"));
    let mut daemon = setup.server(Server::named("each").line("sharing = \"session\"")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let long = "ä".repeat(9000);
    for (server, text) in
        [("a", "first"), ("b", "other"), ("a", "with s3cr3t"), ("a", &long), ("a", "esc\u{1b}[2J\u{202e}")]
    {
        write(&daemon, &mut agent, server, text);
    }
    write(&daemon, &mut agent, "b", "literal-key bGl0ZXJhbC1rZXk=");
    arguments(&agent.call("each__stderr", &json!({"text": "mine"})));
    let pids = ["a", "b"].map(|name| u64::from(daemon.server_pid(name)));
    let file = place.path("home/.local/state/mcpd/servers.log");
    until("the last line is kept", || fs::read_to_string(&file).ok()?.contains("mine").then_some(()));
    agent.disconnect();
    daemon.kill9();

    let ran = kept(&place, &["--json"]);
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let cut = format!("{}…", "ä".repeat(500));
    assert_eq!(texts(&lines), ["first", "other", "with …", &cut, "esc\u{1b}[2J\u{202e}", "… …k=", "mine"]);
    let servers: Vec<_> = lines.iter().map(|line| line["server"].as_str().expect("text")).collect();
    assert_eq!(servers, ["a", "b", "a", "a", "a", "b", "each"]);
    assert_eq!([&lines[0]["pid"], &lines[1]["pid"]].map(|pid| pid.as_u64().expect("a number")), pids);
    assert!(lines[6]["purpose"].is_string(), "{ran}");

    let ran = kept(&place, &["b", "each", "-n", "1"]);
    assert!(ran.stdout.ends_with("]: mine\n") && ran.stdout.lines().count() == 1, "{ran}");
    assert!(ran.stderr.contains(file.to_str().expect("text")), "{ran}");
    assert!(kept(&place, &["a"]).stdout.ends_with("]: esc\u{1b}[2J\u{202e}\n"));
    let nothing = kept(&place, &["unknown"]);
    assert!(nothing.stdout.is_empty() && !nothing.stderr.contains("servers.log"), "{nothing}");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().expect("a directory"))), (0o600, 0o700));
}

/// Case E14.
#[test]
fn flood_on_stderr_is_kept_in_part_and_its_rest_is_counted() {
    let mut daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__stderr", &json!({"bytes": 1 << 20, "lines": true})));
    let file = daemon.place().path("home/.local/state/mcpd/servers.log");
    until("the rest is counted", || {
        write(&daemon, &mut agent, "a", "more");
        fs::read_to_string(&file).ok()?.contains("lines are not shown here").then_some(())
    });
    agent.disconnect();
    daemon.kill9();
    let shown = kept(daemon.place(), &["a", "-n", "100000"]).stdout;
    let complaints = shown.lines().filter(|line| line.ends_with("complaint")).count();
    assert!((100..2000).contains(&complaints), "{complaints} lines");
}

/// Case E14.
#[test]
fn lines_of_servers_go_to_the_journal_where_stderr_is_the_journal() {
    let place = Place::new();
    let script = "export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2)";
    let daemon = Setup::with(Server::named("a")).after_shell(script).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    write(&daemon, &mut agent, "a", "to the journal");
    let entry = format!("<6>a[{}]: to the journal\n", daemon.server_pid("a"));
    until("the journal has it", || daemon.log().contains(&entry).then_some(()));
    assert!(!place.path("home/.local/state/mcpd/servers.log").exists());
}

#[test]
fn closed_output_ends_follow_without_an_error() {
    let daemon = Server::named("a").start();
    let mut agent = Agent::ready(&daemon);
    write(&daemon, &mut agent, "a", "one");
    write(&daemon, &mut agent, "a", "two");
    let script = "\"$0\" logs a --runtime-dir \"$1\" | head -n 1";
    let mut command = daemon.place().command("sh");
    command.args(["-c", script, MCPD]).arg(daemon.place().runtime_dir());
    let ran = run(&mut command).expect_code(0);
    assert!(ran.stdout.ends_with(": one\n") && ran.stderr.is_empty(), "{ran}");
}

#[test]
fn server_lines_appear_in_the_log_of_mcpd_if_configured() {
    let daemon = Setup::with(Server::named("a")).option("--log").option("info,mcpd::server::stderr=debug").start();
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__stderr", &json!({"bytes": 1 << 20, "lines": true})));
    until("the rest is counted", || {
        write(&daemon, &mut agent, "a", "more");
        daemon.log().contains("lines are not shown here").then_some(())
    });
    let copied = daemon.log().matches("stderr: complaint").count();
    assert!((20..2000).contains(&copied), "{copied} lines");
    daemon.client(&["reload", "--log-level", "info"]).expect_code(0);
    write(&daemon, &mut agent, "a", "unsaid");
    assert!(!daemon.log().contains("unsaid"), "{}", daemon.log());
}
