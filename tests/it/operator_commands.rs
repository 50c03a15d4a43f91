//! Operator commands of a running daemon answer when they are done and do not delay others.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::reload::{changing, text};
use crate::support::{Agent, Daemon, Place, Ran, Server, Setup, WAIT_LIMIT, arguments, code, request, until};

fn state(daemon: &Daemon, server: &str) -> (String, bool) {
    let row = daemon.row(server);
    (row["state"].as_str().expect("text").to_owned(), row["disabled"] == true)
}

/// The cells of the row of one server, or of what is indented below it.
fn cells(table: &Ran, first: &str) -> Vec<String> {
    let row = table.stdout.lines().find(|line| line.starts_with(first));
    let cells = row.unwrap_or_else(|| panic!("no row {first}: {table}")).split("  ");
    cells.map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn restart_is_reported_when_the_new_process_serves_and_affects_no_others() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let mut agent = Agent::ready(&daemon);
    let before = [daemon.server_pid("a"), daemon.server_pid("b")];
    let pending = agent.start_call("a__sleep", &json!({"ms": 300}));
    daemon.wait_journal("a", "300");
    let ran = daemon.client(&["restart", "a"]).expect_code(0);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("a: ready\n", ""));
    arguments(&agent.answer(&pending));
    assert_ne!(daemon.server_pid("a"), before[0]);
    assert_eq!(daemon.server_pid("b"), before[1]);
    assert!(agent.tools().contains(&"a__echo".to_owned()), "its tools are known again");
    arguments(&agent.call("a__echo", &json!({})));
}

#[test]
fn several_servers_are_restarted_disabled_and_enabled_by_one_command() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).server(Server::named("c")).start();
    daemon.client(&["disable", "--stop", "c"]).expect_code(0);
    let output = |args: &[&str]| daemon.client(args).expect_code(0).stdout;
    assert_eq!(output(&["restart", "b", "a"]), "b: ready\na: ready\n");
    assert_eq!(output(&["restart", "--all"]), "a: ready\nb: ready\n", "c is disabled");
    for server in ["a", "b"] {
        assert_eq!(daemon.row(server)["restarts"], 2, "{server}");
    }
    assert_eq!(output(&["disable", "a", "b/echo"]), "a: disabled\nb/echo: disabled\n");
    assert_eq!(output(&["enable", "c", "b__echo", "a"]), "c: ready\nb/echo: enabled\na: ready\n");
    daemon.client(&["restart", "--all", "a"]).expect_code(2);
    let ran = daemon.client(&["disable", "--stop", "a", "b/echo"]).expect_code(2);
    assert!(ran.stderr.contains("`--stop` stops a whole server"), "{ran}");
    assert_eq!(state(&daemon, "a"), ("ready".to_owned(), false), "nothing was disabled");
}

#[test]
fn failure_of_one_server_does_not_keep_a_command_from_the_others() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b").flags("--exit-at-start 3")).start();
    let ran = daemon.client(&["restart", "b", "x", "a"]).expect_code(1);
    assert_eq!(ran.stdout, "a: ready\n", "{ran}");
    assert!(ran.stderr.contains("mcpd: b: ") && ran.stderr.contains("there is no server `x`"), "{ran}");
    let ran = daemon.client(&["restart", "--all", "--json"]).expect_code(1);
    let objects = serde_json::Deserializer::from_str(&ran.stdout).into_iter::<Value>();
    let done: Vec<_> = objects.map(|object| object.map(|object| object["done"].clone()).expect("JSON")).collect();
    assert_eq!(done, [true, false]);
}

#[test]
fn failed_restart_reports_the_reason_and_a_repaired_server_restarts_at_once() {
    let place = Place::new();
    let needed = place.write("needed", "");
    let server = Server::named("s").arg("--exit-unless").arg(&needed);
    let daemon = Setup::with(server).start_in(&place);
    std::fs::remove_file(&needed).expect("it is there");
    let failed = daemon.client(&["restart", "s"]).expect_code(1);
    assert!(failed.stderr.contains("s: backoff: exited with code 3") && failed.stdout.is_empty(), "{failed}");
    daemon.wait_row("s", "waits for long", |row| row["restarts"].as_u64() > Some(4));
    place.write("needed", "");
    let ran = daemon.client(&["restart", "s"]).expect_code(0);
    assert_eq!(ran.stdout, "s: ready\n");
}

#[test]
fn server_that_hangs_at_its_restart_is_waited_for_no_longer_than_its_handshake_may_take() {
    let daemon = Server::named("s").flags("--init-never").line("handshake_timeout = \"300ms\"").start();
    let failed = daemon.client(&["restart", "s"]).expect_code(1);
    assert!(failed.stderr.contains("did not answer `initialize` within 300ms"), "{failed}");
}

#[test]
fn restart_covers_all_running_instances_and_leaves_an_idle_server_idle() {
    let lazy = Server::named("lazy").line("start = \"lazy\"").line("idle_timeout = \"300ms\"");
    let daemon = Setup::with(Server::named("s").line("sharing = \"session\"")).server(lazy).start();
    let mut agents = [Agent::ready(&daemon), Agent::ready(&daemon)];
    let mut pids = || agents.each_mut().map(|agent| agent.call("s__echo", &json!({}))["result"].to_string());
    let before = pids();
    assert_eq!(daemon.client(&["restart", "s"]).expect_code(0).stdout, "s: ready\n");
    let row = daemon.row("s");
    let instances = row["instances"].as_array().expect("several");
    assert!(instances.iter().all(|one| one["state"] == "ready" && one["restarts"] == 1), "{row}");
    let after = pids();
    assert!(before.iter().all(|before| !after.contains(before)), "{before:?} {after:?}");
    daemon.wait_row("lazy", "sleeps", |row| row["state"] == "idle");
    assert_eq!(daemon.client(&["restart", "lazy"]).expect_code(0).stdout, "lazy: idle\n");
    assert_eq!(daemon.row("lazy")["restarts"], 0);
}

#[test]
fn stopped_server_is_hidden_until_enabled_and_not_reported_as_down() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let ran = daemon.client(&["disable", "--stop", "a"]).expect_code(0);
    let note = "note: until you enable it or the daemon stops; `--keep` makes it permanent\n";
    assert_eq!((&*ran.stdout, &*ran.stderr), ("a: disabled\n", note));
    agent.expect_notification("notifications/tools/list_changed");
    assert!(!agent.tools().contains(&"a__echo".to_owned()));
    assert_eq!(code(&agent.call("a__echo", &json!({}))), -32602);
    assert_eq!(state(&daemon, "a"), ("disabled".to_owned(), true));
    assert!(daemon.row("a")["pid"].is_null());
    let table = daemon.client(&["status"]).expect_code(0);
    assert_eq!(cells(&table, "a ")[1], "disabled");
    daemon.client(&["disable", "a"]).expect_code(0);
    let refused = daemon.client(&["restart", "a"]).expect_code(1);
    assert!(refused.stderr.contains("a: disabled: `mcpd enable a` enables it"), "{refused}");
    assert_eq!(daemon.client(&["enable", "a"]).expect_code(0).stdout, "a: ready\n");
    agent.expect_notification("notifications/tools/list_changed");
    arguments(&agent.call("a__echo", &json!({})));
    assert_eq!(state(&daemon, "a"), ("ready".to_owned(), false));
    daemon.client(&["enable", "a"]).expect_code(0);
}

#[test]
fn failing_server_can_be_disabled_and_its_failure_no_longer_counts() {
    let daemon = Server::named("sick").flags("--exit-at-start 3").start();
    daemon.client(&["disable", "sick"]).expect_code(0);
    let table = daemon.client(&["status"]).expect_code(0);
    assert!(!table.stdout.contains("exited with"), "{table}");
    let failed = daemon.client(&["enable", "sick"]).expect_code(1);
    assert!(failed.stderr.contains("exited with code 3"), "{failed}");
}

#[test]
fn stopped_server_stays_so_over_a_reload_and_not_over_a_restart_of_the_daemon() {
    let (mut daemon, place) = changing(&[Server::named("a"), Server::named("b")]);
    daemon.client(&["disable", "--stop", "a"]).expect_code(0);
    for changed in [Server::named("a"), Server::named("a").env("X", "1"), Server::named("a").line("sharing = \"pool\"")]
    {
        place.write("changing.toml", text(&[changed, Server::named("b")], &place));
        daemon.client(&["reload"]).expect_code(0);
        let starts = daemon.count_starts("a");
        assert_eq!((state(&daemon, "a"), starts), (("disabled".to_owned(), true), 1));
    }
    assert!(daemon.term().success());
    let file = place.path("changing.toml");
    let daemon = Setup::new().config(file).start_in(&place);
    assert_eq!(state(&daemon, "a"), ("ready".to_owned(), false));
}

#[test]
fn reload_reports_what_became_of_each_server() {
    let (daemon, place) = changing(&["kept", "too", "changed", "gone"].map(Server::named));
    let pid = daemon.server_pid("kept");
    let changed = Server::named("changed").env("X", "1");
    let servers =
        [Server::named("new"), Server::named("too").line("deny = [\"echo\"]"), changed, Server::named("kept")];
    place.write("changing.toml", text(&servers, &place) + "[daemon]\nfirst_list_wait = \"9s\"\n");
    let ran = daemon.client(&["reload"]).expect_code(0);
    assert_eq!(
        ran.stdout,
        "kept         kept\nupdated      too (not restarted)\nadded        new\nchanged      changed\nremoved      gone\n"
    );
    assert!(ran.stderr.contains("[daemon]"), "{ran}");
    assert_eq!(daemon.server_pid("kept"), pid);
    assert!(
        daemon.log().contains("reloaded: added new; changed changed; updated too; removed gone"),
        "{}",
        daemon.log()
    );
}

#[test]
fn change_that_needs_no_restart_is_reported_as_updated() {
    let (daemon, place) = changing(&["s", "other"].map(Server::named));
    let pid = daemon.server_pid("s");
    for line in [
        "deny = [\"echo\"]",
        "allow = [\"e*\"]",
        "expose = [\"tools\"]",
        "tools = { read_only = true }",
        "resources = { deny = [\"x://*\"] }",
        "call_timeout = \"1m\"",
        "tool_timeouts = { \"*\" = \"1m\" }",
        "log_arguments = true",
        "",
    ] {
        place.write("changing.toml", text(&[Server::named("s").line(line), Server::named("other")], &place));
        let ran = daemon.client(&["reload"]).expect_code(0);
        assert_eq!(ran.stdout, "kept         other\nupdated      s (not restarted)\n", "{line}: {ran}");
        let json = daemon.client(&["reload", "--json"]).expect_code(0).json();
        assert!(json["kept"] == json!(["s", "other"]) && json.get("updated").is_none(), "{line}: {json}");
    }
    place.write(
        "changing.toml",
        text(&["s", "other"].map(|name| Server::named(name).line("deny = [\"echo\"]")), &place),
    );
    let json = daemon.client(&["reload", "--json"]).expect_code(0).json();
    assert_eq!((&json["kept"], &json["updated"]), (&json!(["s", "other"]), &json!(["s", "other"])));
    assert_eq!(daemon.server_pid("s"), pid);
}

#[test]
fn invalid_configuration_is_reported_with_its_place_and_changes_nothing() {
    let (daemon, place) = changing(&[Server::named("s")]);
    let before = daemon.server_pid("s");
    place.write("changing.toml", "[servers.t]\ncomand = \"x\"\n");
    let ran = daemon.client(&["reload"]).expect_code(2);
    assert!(ran.stderr.contains("changing.toml:2:1") && ran.stderr.contains("nothing has changed"), "{ran}");
    assert_eq!(ran.stdout, "");
    assert_eq!(daemon.server_pid("s"), before);
}

#[test]
fn concurrent_reloads_are_all_answered() {
    let (daemon, place) = changing(&[Server::named("s")]);
    place.write("changing.toml", text(&[Server::named("s"), Server::named("t")], &place));
    let requests: Vec<_> = (0..20).map(|_| ask(&daemon, "reload", "")).collect();
    for mut operator in requests {
        assert_eq!(answer(&mut operator)["result"]["kept"][0], "s");
    }
    daemon.wait_row("t", "is ready", |row| row["state"] == "ready");
}

/// A question on the operator's socket.
fn ask(daemon: &Daemon, method: &str, server: &str) -> BufReader<UnixStream> {
    let socket = daemon.place().runtime_dir().join("admin.sock");
    let mut stream = UnixStream::connect(socket).expect("it accepts");
    stream.set_read_timeout(Some(WAIT_LIMIT)).expect("not zero");
    let params = json!({"version": "0", "server": server, "logs": {"follow": true}});
    let question = request(1, method, &params);
    stream.write_all(format!("{question}\n").as_bytes()).expect("it is read");
    BufReader::new(stream)
}

fn next(operator: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    operator.read_line(&mut line).expect("a line in time");
    serde_json::from_str(&line).expect("JSON")
}

fn answer(operator: &mut BufReader<UnixStream>) -> Value {
    std::iter::repeat_with(|| next(operator)).find(|message| !message["id"].is_null()).expect("there is no end")
}

#[test]
fn waiting_operators_leave_connections_for_status() {
    let hangs = Server::named("hangs").flags("--init-never").line("handshake_timeout = \"1h\"");
    let mut daemon = Setup::with(hangs).server(Server::named("works")).spawn();
    daemon.wait_row("works", "is ready", |row| row["state"] == "ready");
    let methods = ["restart", "logs", "restart", "enable"];
    let mut operators: Vec<_> = (0..64).map(|n| ask(&daemon, methods[n % 4], "hangs")).collect();
    let first: Vec<_> = operators.iter_mut().map(next).collect();
    let refused = first.iter().filter(|message| message["error"]["code"] == -31003).count();
    assert_eq!(refused, 64 - 24, "{first:?}");
    daemon.status();
    arguments(&Agent::ready(&daemon).call("works__echo", &json!({})));
    drop(operators);
    until("there is room again", || {
        let mut operator = ask(&daemon, "logs", "works");
        (next(&mut operator)["result"] == json!({})).then_some(())
    });
    daemon.stop_in_order(Signal::TERM);
}

#[test]
fn status_table_shows_idle_servers_and_each_instance() {
    let lazy = Server::named("lazy").line("start = \"lazy\"").line("idle_timeout = \"300ms\"");
    let daemon = Setup::with(Server::named("own").line("sharing = \"session\"")).server(lazy).start();
    daemon.wait_row("lazy", "sleeps", |row| row["state"] == "idle");
    let mut agents: Vec<_> = (0..9).map(|_| Agent::ready(&daemon)).collect();
    for agent in &mut agents {
        arguments(&agent.call("own__echo", &json!({})));
    }
    let table = daemon.client(&["status"]).expect_code(0);
    assert_eq!(cells(&table, "lazy ")[1], "idle");
    assert_eq!(cells(&table, "own ")[1], "ready");
    let first = cells(&table, "  session 1 ");
    assert_eq!((&*first[1], &first[4..]), ("ready", &["2025-11-25", "1", "0", "0"].map(str::to_owned)[..]));
    let all = daemon.row("own");
    let pid = all["instances"].as_array().expect("several").iter().find(|one| one["purpose"] == "session 1");
    assert_eq!(pid.expect("it is there")["pid"].to_string(), first[2]);
    assert_eq!(cells(&table, "  listing ")[1], "ready");
    assert_eq!(cells(&table, "  session 9 ")[1], "ready", "a pipe has every instance");
}
