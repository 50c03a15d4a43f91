//! A changed server is replaced when its new process is ready. Otherwise the old process continues.

use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::reload::{change, pids, replace, start, text};
use crate::support::{Agent, Daemon, MCPD, Ran, Server, WAIT_LIMIT, arguments, code, result, until};

pub(crate) fn reload(daemon: &Daemon, servers: &[Server]) -> Ran {
    replace(daemon.place(), text(servers, daemon.place()));
    daemon.client(&["reload"])
}

fn other(name: &str) -> Server {
    Server::named(name).env("CHANGED", "1")
}

/// The variable of the instance that answers.
fn changed(agent: &mut Agent, server: &str) -> Value {
    let answer = agent.call(&format!("{server}__env"), &json!({}));
    result(&answer)["structuredContent"]["CHANGED"].clone()
}

/// The starts and ends in a server's journal, in order.
pub(crate) fn events(daemon: &Daemon, server: &str) -> Vec<String> {
    let words = |line: String| line.strip_prefix("# ").map(|rest| rest.split(' ').next().expect("a word").to_owned());
    daemon.journal(server).into_iter().filter_map(words).collect()
}

fn wait_starts(daemon: &Daemon, server: &str, count: usize) {
    let starts = || events(daemon, server).iter().filter(|word| *word == "start").count();
    until(&format!("{server} is started {count} times"), || (starts() >= count).then_some(()));
}

fn expect_alive(daemon: &Daemon, count: usize) {
    let servers = || daemon.place().processes(None).into_iter().filter(|one| one.command.contains("scripted-server"));
    until(&format!("{count} servers run"), || (servers().count() == count).then_some(()));
}

/// Case G3.
#[test]
fn reload_replaces_three_of_twenty_servers_and_notifies_agents_once() {
    let many: Vec<_> = (0..20).map(|number| Server::named(&format!("s{number}"))).collect();
    let mut daemon = start(&many);
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let gate = daemon.gate();
    let call = agent.start_call("s0__sleep", &gate.arguments());
    daemon.wait_at_gate("s0", &gate);
    let before = pids(&daemon);

    let mut servers: Vec<_> = (0..18).map(|number| Server::named(&format!("s{number}"))).collect();
    servers.push(other("s18").flags("--init-delay 300 --tool more"));
    servers.push(Server::named("new"));
    replace(daemon.place(), text(&servers, daemon.place()));
    daemon.signal(Signal::HUP);
    let mut looking = Agent::ready(&daemon);
    let tools = until("the change is in force", || {
        let tools = looking.tools();
        assert!(tools.iter().any(|tool| tool == "s18__echo"), "it has gone: {tools:?}");
        tools.iter().any(|tool| tool == "s18__more").then_some(tools)
    });
    assert!(tools.iter().any(|tool| tool == "new__echo") && !tools.iter().any(|tool| tool == "s19__echo"), "{tools:?}");
    looking.disconnect();
    gate.open();
    arguments(&agent.answer(&call));
    agent.expect_notification("notifications/tools/list_changed");
    agent.expect_quiet();
    let after = pids(&daemon);
    assert_eq!(before[..18], after[..18]);
    assert_ne!(before[18], after[18]);
    assert_eq!(after[19].0, "\"new\"");
    assert_eq!(after.len(), 20);
    until("the old one ends", || (events(&daemon, "s18")[..] == ["start", "start", "eof"]).then_some(()));
    until("the removed one ends", || (events(&daemon, "s19")[..] == ["start", "eof"]).then_some(()));
    let report = "reloaded: added new; changed s18; removed s19";
    until("the reload is reported", || daemon.log().contains(report).then_some(()));
}

/// Case G3.
#[test]
fn server_whose_replacement_fails_keeps_running_and_the_reload_reports_why() {
    let daemon = start(&[Server::named("s"), Server::named("t")]);
    let before = pids(&daemon);
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let broken = [Server::named("s").flags("--no-such-flag"), Server::named("t")];
    let ran = reload(&daemon, &broken).expect_code(1);
    assert!(ran.stdout.starts_with("kept         t\nnot started  s: exited with code 2"), "{ran}");
    assert!(
        ran.stdout.contains(" (its previous definition keeps running)\n    ") && ran.stdout.contains("--no-such-flag"),
        "{ran}"
    );
    let failed = daemon.client(&["reload", "--json"]).expect_code(1).json();
    assert_eq!(failed["failed"][0]["name"], "s", "{failed}");
    assert!(failed["failed"][0]["runs_on"] == true && failed["kept"] == json!(["t"]), "{failed}");
    let late = Server::named("s").flags("--init-never").line("handshake_timeout = \"200ms\"");
    let ran = reload(&daemon, &[late, Server::named("t")]).expect_code(1);
    assert!(
        ran.stdout.contains(
            "s: did not answer `initialize` within 200ms (`handshake_timeout`) (its previous definition keeps running)"
        ),
        "{ran}"
    );
    let row = daemon.row("s");
    assert!(row["update_error"].as_str().is_some_and(|reason| reason.contains("initialize")), "{row}");
    assert_eq!((&row["state"], &row["restarts"]), (&json!("ready"), &json!(0)));
    let table = daemon.client(&["status"]).expect_code(0);
    assert!(table.stdout.contains("s: still runs its previous definition"), "{table}");
    arguments(&agent.call("s__echo", &json!({})));
    assert_eq!(pids(&daemon), before);
    agent.expect_quiet();

    let ran = reload(&daemon, &[Server::named("s"), Server::named("t")]).expect_code(0);
    assert_eq!(ran.stdout, "kept         s, t\n");
    assert!(daemon.row("s")["update_error"].is_null());
    assert_eq!(pids(&daemon), before);
    expect_alive(&daemon, 2);
}

#[test]
fn replacement_that_cannot_list_is_discarded_and_a_failing_new_server_is_retried() {
    let daemon = start(&[Server::named("s")]);
    let before = pids(&daemon);
    let needed = daemon.place().path("needed");
    let set = [Server::named("s").flags("--list-errors 99"), Server::named("new").arg("--exit-unless").arg(&needed)];
    let ran = reload(&daemon, &set).expect_code(1);
    assert!(
        ran.stdout.starts_with(
            "not started  s: its answer to `tools/list` is an error: not yet (-32603) (its previous definition keeps running)"
        ),
        "{ran}"
    );
    assert!(ran.stdout.contains("not started  new: exited with code 3\n"), "{ran}");
    assert_eq!(pids(&daemon)[0], before[0]);
    daemon.place().write("needed", "");
    daemon.wait_row("new", "is ready", |row| row["state"] == "ready");
}

#[test]
fn server_that_fails_to_start_is_reported_by_the_reload_that_broke_it_and_named_by_later_ones() {
    let daemon = start(&[Server::named("s")]);
    let again = Server::named("again").flags("--exit-at-start 1");
    let set = [again, Server::named("s"), Server::named("never").env("X", "${NO_SUCH_VARIABLE}")];
    let ran = reload(&daemon, &set).expect_code(1);
    assert!(ran.stdout.starts_with("kept         s\nnot started  again: exited with code 1\n"), "{ran}");
    assert!(ran.stdout.contains("not started  never: ") && ran.stdout.contains("NO_SUCH_VARIABLE"), "{ran}");
    for _ in 0..2 {
        let ran = reload(&daemon, &set).expect_code(0);
        assert_eq!(ran.stdout, "kept         s\nstill down   again, never: `mcpd status` shows why\n", "{ran}");
    }
    let slow = Server::named("slow").flags("--init-never").line("handshake_timeout = \"1s\"");
    let ran = reload(&daemon, std::slice::from_ref(&slow)).expect_code(1);
    assert!(
        ran.stdout.contains("not started  slow: did not answer `initialize` within 1s (`handshake_timeout`)\n"),
        "{ran}"
    );
    wait_starts(&daemon, "slow", 2);
    let ran = reload(&daemon, std::slice::from_ref(&slow)).expect_code(0);
    assert!(ran.stdout.contains("still down   slow: "), "{ran}");
}

#[test]
fn policy_applies_to_a_server_that_keeps_running_after_a_failed_replacement() {
    let daemon = start(&[Server::named("s")]);
    let mut agent = Agent::ready(&daemon);
    reload(&daemon, &[Server::named("s").flags("--exit-at-start 1").line("deny = [\"echo\"]")]).expect_code(1);
    assert_eq!(code(&agent.call("s__echo", &json!({}))), -32602);
    assert!(agent.tools().contains(&"s__sleep".to_owned()));
}

#[test]
fn server_that_holds_a_lock_is_ended_before_the_next_one_is_started() {
    let daemon = start(&[Server::named("s")]);
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let first = other("s").line("replace = \"stop_first\"");
    assert_eq!(reload(&daemon, &[first]).expect_code(0).stdout, "changed      s\n");
    assert_eq!(events(&daemon, "s"), ["start", "eof", "start"]);
    agent.expect_quiet();
    let shared = Server::named("s").line("replace = \"stop_first\"").line("sharing = \"pool\"");
    assert_eq!(reload(&daemon, &[shared]).expect_code(0).stdout, "changed      s\n");
    assert_eq!(events(&daemon, "s"), ["start", "eof", "start", "eof", "start"]);
    let broken =
        Server::named("s").line("replace = \"stop_first\"").line("sharing = \"pool\"").flags("--exit-at-start 1");
    let ran = reload(&daemon, &[broken]).expect_code(1);
    assert!(ran.stdout.contains("not started  s: exited with code 1\n"), "{ran}");
    agent.disconnect();
}

#[test]
fn calls_in_flight_finish_and_new_calls_use_the_new_instance() {
    let daemon = start(&[Server::named("s")]);
    let mut agent = Agent::ready(&daemon);
    let old = u64::from(daemon.server_pid("s"));
    let soon = agent.start_call("s__sleep", &json!({"ms": 1000}));
    let never = agent.start_call("s__sleep", &json!({"ms": 600_000, "ignore_cancel": true}));
    daemon.wait_journal("s", "60000");
    reload(&daemon, &[other("s")]).expect_code(0);
    assert_ne!(u64::from(daemon.server_pid("s")), old);
    arguments(&agent.call("s__echo", &json!({})));
    let new = u64::from(daemon.server_pid("s"));
    arguments(&agent.answer(&soon));
    let ended = agent.answer(&never);
    assert_eq!((code(&ended), &ended["error"]["data"]["outcome"]), (-31005, &json!("unknown")), "{ended}");
    let row = daemon.row("s");
    assert_eq!((&row["calls"], &row["in_flight"], &row["restarts"]), (&json!(3), &json!(0), &json!(1)), "{row}");
    assert_eq!(row["pid"], json!(new));
    expect_alive(&daemon, 1);
}

#[test]
fn no_call_is_lost_or_refused_while_a_server_is_replaced_again_and_again() {
    let daemon = start(&[Server::named("s")]);
    let socket = daemon.agent_socket();
    let (stop, stopped) = std::sync::mpsc::channel();
    let caller = thread::spawn(move || {
        let mut agent = Agent::ready_at(&socket);
        let mut calls = 0;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let burst: Vec<_> = (0..32).map(|n| agent.start_call("s__echo", &json!({"n": n}))).collect();
            for (n, id) in burst.iter().enumerate() {
                assert_eq!(arguments(&agent.answer(id))["n"], n);
            }
            calls += burst.len();
        }
        calls
    });
    for number in 0..10 {
        reload(&daemon, &[Server::named("s").env("NUMBER", &number.to_string())]).expect_code(0);
    }
    stop.send(()).expect("it listens");
    let calls = caller.join().expect("no call failed");
    assert_eq!(daemon.row("s")["calls"], json!(calls));
    expect_alive(&daemon, 1);
}

#[test]
fn subscriptions_and_levels_move_to_the_replacement_for_each_sharing() {
    const LIBRARY: &str = r#"{"resources":[{"uri":"x://1","name":"one"}],"resourceTemplates":[],"logging":{}}"#;
    let daemon = start(&[]);
    let library = daemon.place().write("shelf.json", LIBRARY);
    let server = |number: &str, sharing: &str| {
        let line = format!("sharing = {sharing:?}");
        Server::named("s").arg("--library").arg(&library).env("NUMBER", number).line(line)
    };
    reload(&daemon, &[server("0", "shared")]).expect_code(0);
    let mut agent = Agent::ready(&daemon);
    result(&agent.request("resources/subscribe", &json!({"uri": "x://1"})));
    result(&agent.request("logging/setLevel", &json!({"level": "error"})));
    let count = |word: &str| daemon.count_journal("s", word);
    until("the level is set", || (count("logging/setLevel") == 1).then_some(()));
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://1"}}"#;
    for (round, sharing) in ["shared", "session", "session", "pool", "shared"].into_iter().enumerate() {
        let before = (count("resources/subscribe"), count("logging/setLevel"));
        reload(&daemon, &[server(&format!("1{round}"), sharing)]).expect_code(0);
        until("it is subscribed to anew", || (count("resources/subscribe") > before.0).then_some(()));
        until("the level is set anew", || (count("logging/setLevel") > before.1).then_some(()));
        arguments(&agent.call("s__raw", &json!({"text": format!("{updated}\n")})));
        agent.expect_notification("notifications/resources/updated");
    }
    result(&agent.request("resources/unsubscribe", &json!({"uri": "x://1"})));
    agent.expect_quiet();
}

#[test]
fn agents_own_instance_is_replaced_by_another_one_of_its_own() {
    let own = |name: &str| Server::named(name).line("sharing = \"session\"");
    let daemon = start(&[own("s")]);
    let mut agents = [Agent::ready(&daemon), Agent::ready(&daemon)];
    let mut values = || agents.each_mut().map(|agent| changed(agent, "s"));
    assert_eq!(values(), [Value::Null, Value::Null]);
    expect_alive(&daemon, 3);
    reload(&daemon, &[own("s").env("CHANGED", "yes")]).expect_code(0);
    assert_eq!(values(), ["yes", "yes"], "each has the new one");
    expect_alive(&daemon, 3);
    let ran = reload(&daemon, &[own("s").flags("--exit-at-start 1")]).expect_code(1);
    assert!(ran.stdout.contains(" (its previous definition keeps running)"), "{ran}");
    assert_eq!(values(), ["yes", "yes"], "each has it still");
    expect_alive(&daemon, 3);
}

#[test]
fn stopped_server_takes_its_new_definition_at_once() {
    let lazy = |name: &str| Server::named(name).line("start = \"lazy\"").line("idle_timeout = \"200ms\"");
    let daemon = start(&[Server::named("off"), lazy("lazy"), Server::named("bad").flags("--exit-at-start 1")]);
    daemon.client(&["disable", "off"]).expect_code(0);
    daemon.wait_row("lazy", "sleeps", |row| row["state"] == "idle");
    let others = [other("off"), lazy("lazy").env("CHANGED", "1"), other("bad")];
    assert_eq!(reload(&daemon, &others).expect_code(0).stdout, "changed      off, lazy, bad\n");
    assert_eq!(daemon.row("off")["disabled"], true);
    let mut agent = Agent::ready(&daemon);
    daemon.client(&["enable", "off"]).expect_code(0);
    for name in ["off", "lazy", "bad"] {
        assert_eq!(changed(&mut agent, name), "1");
    }
}

/// Case E7.
#[test]
fn mcpd_that_is_stopped_or_killed_amid_a_replacement_leaves_nothing() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut daemon = start(&[Server::named("s")]);
        replace(daemon.place(), text(&[Server::named("s").flags("--init-never --double-fork")], daemon.place()));
        daemon.signal(Signal::HUP);
        wait_starts(&daemon, "s", 2);
        daemon.family();
        if signal == Signal::TERM {
            daemon.stop_in_order(signal);
        } else {
            daemon.kill9();
            daemon.expect_no_family(WAIT_LIMIT);
        }
    }
}

/// Case G4.
#[test]
fn reload_during_a_replacement_continues_supersedes_or_abandons_it() {
    let server = |number: &str, flags: &str| Server::named("s").flags(flags).env("NUMBER", number);
    let daemon = start(&[Server::named("s")]);
    let before = pids(&daemon);
    let ask = |servers: &[Server]| {
        replace(daemon.place(), text(servers, daemon.place()));
        let place = daemon.place();
        let mut command = place.command(MCPD);
        command.args(["reload", "--runtime-dir"]).arg(place.runtime_dir());
        thread::spawn(move || command.output().expect("it runs"))
    };
    let outcome = |reload: thread::JoinHandle<std::process::Output>| {
        let output = reload.join().expect("it ends");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // Five terminals want the same: it is started once, and each is told.
    let five: Vec<_> = (0..5).map(|_| ask(&[server("1", "--init-delay 6000")])).collect();
    for reload in five {
        assert_eq!(outcome(reload), (Some(0), "changed      s\n".to_owned()));
    }
    assert_eq!(events(&daemon, "s").iter().filter(|word| *word == "start").count(), 2);
    let second = pids(&daemon);
    assert_ne!(second, before);
    // Something else: the first is told that it was overtaken.
    let first = ask(&[server("2", "--init-never")]);
    wait_starts(&daemon, "s", 3);
    let next = ask(&[server("3", "")]);
    let (code, text) = outcome(first);
    assert!(code == Some(1) && text.contains("a later configuration has replaced it"), "{code:?} {text}");
    assert_eq!(outcome(next), (Some(0), "changed      s\n".to_owned()));
    // What runs: nothing has changed.
    let third = pids(&daemon);
    let first = ask(&[server("4", "--init-never")]);
    wait_starts(&daemon, "s", 5);
    assert_eq!(outcome(ask(&[server("3", "")])), (Some(0), "kept         s\n".to_owned()));
    assert_eq!(outcome(first).0, Some(1));
    assert_eq!(pids(&daemon), third);
    expect_alive(&daemon, 1);
}

/// Case G2.
#[test]
fn configuration_that_does_not_hold_is_shown_until_one_does() {
    let mut daemon = start(&[Server::named("s")]);
    assert!(daemon.status()["reload_refused"].is_null());
    change(&mut daemon, "[servers.s]\ncomand = \"x\"\n", "not reloaded, nothing has changed");
    let status = daemon.status();
    let refused = &status["reload_refused"];
    assert!(refused["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{refused}");
    assert!(refused["reason"].as_str().is_some_and(|reason| reason.contains("changing.toml:2:1")), "{refused}");
    let table = daemon.client(&["status"]).expect_code(0);
    assert!(
        table.stdout.contains("the configuration was rejected at ") && table.stdout.contains("changing.toml:2:1"),
        "{table}"
    );
    reload(&daemon, &[Server::named("s")]).expect_code(0);
    assert!(daemon.status()["reload_refused"].is_null());
}

#[test]
fn stderr_lines_and_counts_survive_a_replacement() {
    let daemon = start(&[Server::named("s").line("sharing = \"pool\"")]);
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("s__stderr", &json!({"text": "from the first"})));
    reload(&daemon, &[Server::named("s")]).expect_code(0);
    arguments(&agent.call("s__stderr", &json!({"text": "from the second"})));
    let row = until("both are counted", || {
        let row = daemon.row("s");
        (row["calls"] == 2).then_some(row)
    });
    assert_eq!(row["restarts"], 1, "{row}");
    let lines = daemon.client(&["logs", "s"]).expect_code(0).stdout;
    assert!(lines.contains("from the first") && lines.contains("from the second"), "{lines}");
}

#[test]
fn replacement_process_has_no_operator_rights() {
    let mut daemon = start(&[Server::named("s")]);
    let path = daemon.place().path("output");
    let script = format!(
        "{MCPD} status --runtime-dir {} >{path} 2>&1; echo $? >>{path}; cat",
        daemon.place().runtime_dir().display(),
        path = path.display()
    );
    replace(daemon.place(), text(&[Server::run_by("s", "sh").arg("-c").arg(script)], daemon.place()));
    daemon.signal(Signal::HUP);
    let output = until("the server has run `mcpd status`", || {
        std::fs::read_to_string(&path).ok().filter(|output| output.ends_with('\n') && !output.starts_with("mcpd 0"))
    });
    assert!(output.contains("servers have no operator rights"), "{output}");
    until("the refusal is logged", || daemon.log().contains("refused an operator").then_some(()));
}
