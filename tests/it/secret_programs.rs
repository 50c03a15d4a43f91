//! Secrets that programs print: `${cmd:PROGRAM ARGS}`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::http::{Behavior, Front, Request, Response};
use crate::support::{
    Agent, Daemon, Place, Process, STRANGER, Server, Setup, TAG, UserManager, children, quoted, result, signal,
    skipped, until,
};

/// Where the programs of a test note their runs, and the secrets that they print.
const CANARY: &str = "cAnArY";

/// A shell script that notes each run in `runs`.
fn script(place: &Place, name: &str, body: &str) -> PathBuf {
    let text = format!("#!/bin/sh\ncd {}\necho \"$#\" >>runs\n{body}\n", place.path("").display());
    let path = place.write(name, text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("it is ours");
    path
}

fn runs(place: &Place) -> usize {
    fs::read_to_string(place.path("runs")).unwrap_or_default().lines().count()
}

fn cmd(program: &Path, args: &str) -> String {
    format!("${{cmd:{} {args}}}", program.display())
}

fn env_of(daemon: &Daemon, server: &str) -> Value {
    let answer = Agent::ready(daemon).call(&format!("{server}__env"), &json!({}));
    result(&answer)["structuredContent"].clone()
}

/// A server whose tools show what it has received.
fn showing(name: &str) -> Server {
    Server::named(name).flags("--bare --tool env --tool echo")
}

#[track_caller]
fn expect_masked(daemon: &Daemon) {
    let config = daemon.place().path("config.toml").display().to_string();
    for command in [&["status"][..], &["status", "--json"], &["doctor"], &["check", "--config", &config], &["logs"]] {
        let shown = daemon.client(command).to_string();
        assert!(!shown.contains(CANARY), "{command:?}: {shown}");
    }
    assert!(!daemon.log().contains(CANARY), "{}", daemon.log());
}

/// Case H18.
#[test]
fn output_of_a_program_reaches_its_server_and_nobody_else() {
    let place = Place::new();
    let program =
        script(&place, "print", &format!("printf '{CANARY} %s|' \"$@\"\n printf '%s\\r\\n' \"$USER_OF_ALL\""));
    // Split as a shell splits words, without its other expansions.
    let reference = cmd(&program, r#"'a b}' "c $HOME" d\ e *"#);
    let server = showing("a").env("TOKEN", &format!("x-{reference}-y"));
    script(&place, "home/own", &format!("echo {CANARY} of home; pwd; cat"));
    let server = server.env("HOME_TOKEN", "${cmd:~/own}");
    let setup =
        Setup::with(server).server(Server::named("other").env("PLAIN", "$${cmd:own}").flags("--bare --tool env"));
    let daemon = setup.variable("USER_OF_ALL", "from-mcpd").start_in(&place);
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    let config = place.path("config.toml").display().to_string();
    for command in [&["check", "--config", &config][..], &["status"], &["tools"], &["status", "--json"]] {
        daemon.client(command).expect_code(0);
    }
    let env = env_of(&daemon, "a");
    assert_eq!(env["TOKEN"], format!("x-{CANARY} a b}}|{CANARY} c $HOME|{CANARY} d e|{CANARY} *|from-mcpd-y"));
    let directory = place.path("").display().to_string();
    assert_eq!(env["HOME_TOKEN"], format!("{CANARY} of home\n{}", directory.trim_end_matches('/')));
    assert_eq!(env_of(&daemon, "other")["PLAIN"], "${cmd:own}");
    assert_eq!(runs(&place), 2, "one run for each reference");
    let checked = daemon.client(&["check", "--config", &config]).to_string();
    assert!(checked.contains("note: each start of a runs `${cmd:~/own}`"), "{checked}");
    let checked = daemon.client(&["check", "--show", "--config", &config]).stdout;
    assert!(
        checked.contains(&format!("${{cmd:{} …}}", program.display())) && checked.contains("${cmd:~/own}"),
        "{checked}"
    );
    assert!(!checked.contains("$HOME"), "{checked}");
    expect_masked(&daemon);
}

/// Case H18.
#[test]
fn program_that_fails_stops_its_server_alone_and_names_itself() {
    let place = Place::new();
    let fail = |name: &str, body: &str| script(&place, name, body).display().to_string();
    let plain = place.write("plain", "text").display().to_string();
    let rows = [
        ("exits", fail("exits", &format!("echo {CANARY}; echo {CANARY} >&2; exit 3")), "exited with code 3"),
        ("signal", fail("signal", "kill -9 $$"), "was ended by signal 9"),
        ("silent", fail("silent", ":"), "printed nothing"),
        ("blank", fail("blank", "echo"), "printed nothing"),
        ("large", fail("large", "head -c 70000 /dev/zero | tr '\\0' x"), "printed more than 64KiB"),
        ("endless", fail("endless", "exec yes"), "printed more than 64KiB"),
        ("binary", fail("binary", "printf '\\377'"), "printed text that is not UTF-8"),
        ("nul", fail("nul", "printf 'a\\0b'"), "printed a NUL character"),
        ("hangs", fail("hangs", "exec sleep 300"), "did not end within 3s"),
        ("absent", "no-such-program".to_owned(), "is not found on the PATH of mcpd"),
        ("nowhere", "/nowhere/program".to_owned(), "does not exist"),
        ("plain", plain, "cannot be run: Permission denied (os error 13)"),
    ];
    let setup = rows.iter().fold(Setup::with(showing("good")), |setup, (name, program, _)| {
        setup.server(showing(name).env("TOKEN", &format!("${{cmd:{program} of-vault}}")))
    });
    let daemon = setup.variable("MCPD_TEST_SECRET_TIMEOUT_MS", "3000").start_in(&place);
    for (name, program, what) in &rows {
        let row = daemon.wait_row(name, "has failed", |row| row["state"] == "backoff");
        let expected = format!("`${{cmd:{program} …}}` has no value: `{program}` {what}");
        assert_eq!((&row["reason"], &row["code"]), (&json!(expected), &json!("unusable_value")), "{row}");
    }
    let doctor = daemon.client(&["doctor", "exits"]).stdout;
    assert!(
        doctor.contains("run that program in a terminal, and fix what it reports; then `mcpd restart exits"),
        "{doctor}"
    );
    let mut agent = Agent::ready(&daemon);
    result(&agent.call("good__echo", &json!({})));
    let refused = agent.call("exits__echo", &json!({}));
    assert!(refused.to_string().contains("exited with code 3") && !refused.to_string().contains(CANARY), "{refused}");
    expect_masked(&daemon);
    script(&place, "silent", "echo better");
    until("a call starts it", || agent.call("silent__echo", &json!({}))["error"].is_null().then_some(()));
}

/// Case H18.
#[test]
fn concurrent_starts_run_a_program_once() {
    let place = Place::new();
    let program = script(&place, "wait", "until [ -e go ]; do sleep 0.05; done; cat token");
    place.write("token", CANARY);
    let names = ["a", "b", "c", "d", "e"];
    let reference = cmd(&program, "x");
    let setup = names.iter().fold(Setup::with(showing("other").env("T", &cmd(&program, "y"))), |setup, name| {
        setup.server(showing(name).env("TOKEN", &reference))
    });
    let daemon = setup.server(showing("good")).spawn_in(&place);
    // Others start meanwhile, and the daemon answers.
    daemon.wait_row("good", "is ready", |row| row["state"] == "ready");
    assert_eq!(
        (daemon.row("a")["state"].clone(), daemon.row("e")["state"].clone()),
        (json!("starting"), json!("starting"))
    );
    place.write("go", "");
    names.iter().for_each(|name| assert_eq!(env_of(&daemon, name)["TOKEN"], CANARY));
    assert_eq!(runs(&place), 2, "one run for each command line");
    // Each later start runs it again, and a reload none.
    place.write("token", format!("{CANARY}-2"));
    daemon.client(&["reload"]).expect_code(0);
    assert_eq!(runs(&place), 2);
    daemon.client(&["restart", "b"]).expect_code(0);
    assert_eq!(
        (env_of(&daemon, "b")["TOKEN"].clone(), env_of(&daemon, "a")["TOKEN"].clone(), runs(&place)),
        (json!(format!("{CANARY}-2")), json!(CANARY), 3)
    );
    expect_masked(&daemon);
}

/// An agent process that a secret's program leaves behind. Dropping it ends it.
struct Left(Process);

impl Drop for Left {
    fn drop(&mut self) {
        signal(self.0.pid, Signal::KILL);
    }
}

/// Case H19.
#[test]
fn agent_that_a_program_starts_is_outside_of_the_daemon_and_survives_it() {
    for leave in ["setsid sleep 300", "sleep 300"] {
        for how in [Signal::TERM, Signal::KILL] {
            let place = Place::new();
            // It has the tag of strangers, as it is no remainder of the daemon. It keeps the program's output open.
            let body = format!("{TAG}={STRANGER} {leave} & echo $! >agent; echo {CANARY}");
            let program = script(&place, "starts-agent", &body);
            let mut daemon = Setup::with(showing("a").env("TOKEN", &cmd(&program, ""))).start_in(&place);
            assert_eq!(env_of(&daemon, "a")["TOKEN"], CANARY);
            let pid = fs::read_to_string(place.path("agent")).expect("it was started");
            let agent = Left(Process::find(pid.trim().parse().expect("a process id")).expect("it runs"));
            let is_below = |root: u32| {
                let (mut waiting, mut found) = (vec![root], false);
                while let Some(pid) = waiting.pop() {
                    found |= pid == agent.0.pid;
                    waiting.extend(children(pid));
                }
                found
            };
            assert!(!is_below(daemon.pid()), "{:?}", agent.0);
            // The loss of the reaper has no effect on it either.
            daemon.family();
            let (reaper, before) = (children(daemon.pid()), daemon.server_pid("a"));
            assert_eq!(reaper.len(), 1, "the daemon has its reaper and nothing else");
            signal(reaper[0], Signal::KILL);
            daemon.wait_row("a", "is ready again", |row| row["state"] == "ready" && row["pid"] != before);
            assert!(agent.0.is_alive());
            // The restart has started another one.
            let pid = fs::read_to_string(place.path("agent")).expect("it was started");
            let _second = Process::find(pid.trim().parse().expect("a process id")).map(Left);
            daemon.family();
            if how == Signal::TERM {
                daemon.stop_in_order(how);
            } else {
                daemon.kill9();
                daemon.expect_no_family(std::time::Duration::from_secs(60));
            }
            assert!(agent.0.is_alive(), "{leave} {how:?}");
        }
    }
}

/// Case H19.
#[test]
fn agent_that_a_program_starts_survives_the_service() {
    let script = format!("{TAG}={STRANGER} setsid sleep 300 >/dev/null 2>&1 & echo $! >\"$HOME/agent\"; echo {CANARY}");
    let reference = format!("${{cmd:sh -c '{script}'}}");
    let Some(manager) = UserManager::start(&Setup::with(showing("a").env("TOKEN", &reference))) else { return };
    // Like most machines, it has a bus.
    manager.systemctl(&["start", "dbus.socket"]);
    if manager.shell("busctl --user status >/dev/null").code != Some(0) {
        return skipped("the user manager has no bus");
    }
    manager.systemctl(&["start", "mcpd.service"]).expect_code(0);
    manager.wait_row("a", "is ready", |row| row["state"] == "ready");
    let agent = fs::read_to_string(manager.place().path("home/agent")).expect("it was started");
    let agent = agent.trim();
    let cgroup = manager.shell(&format!("cat /proc/{agent}/cgroup")).stdout;
    assert!(cgroup.contains("/mcpd-secret-") && !cgroup.contains("mcpd.service"), "{cgroup}");
    manager.systemctl(&["stop", "mcpd.socket", "mcpd.service"]).expect_code(0);
    manager.expect_nothing_left();
    manager.shell(&format!("kill {agent}")).expect_code(0);
}

/// Case H19.
#[test]
fn program_that_runs_ends_with_the_daemon() {
    for how in [Signal::TERM, Signal::KILL] {
        let place = Place::new();
        let program = script(&place, "hangs", "echo $$ >pid; exec sleep 300");
        let mut daemon = Setup::with(showing("a").env("TOKEN", &cmd(&program, ""))).spawn_in(&place);
        let pid = until("it runs", || fs::read_to_string(place.path("pid")).ok()?.trim().parse().ok());
        let process = Process::find(pid).expect("it runs");
        daemon.family();
        if how == Signal::TERM {
            daemon.stop_in_order(how);
        } else {
            daemon.kill9();
        }
        until("it is killed", || (!process.is_alive()).then_some(()));
    }
}

/// A server by HTTP that accepts the token in a file, which a program prints.
fn serve_with_header(place: &Rc<Place>, body: &str) -> (Front, Daemon) {
    let front = Front::start(place, "a", "", Behavior::json());
    place.write("accepted", format!("{CANARY}-1"));
    place.write("token", format!("{CANARY}-1\n"));
    let accepted = place.path("accepted");
    front.intercept(move |request: &Request| {
        let token = format!("Bearer {}", fs::read_to_string(&accepted).expect("it is there"));
        let refusal = json!({"error": format!("{:?} is not {token}", request.header("authorization"))});
        (request.header("authorization") != Some(&*token)).then(|| Response::json(&refusal).with_status(401))
    });
    let program = script(place, "token-of", body);
    let header = format!("headers = {{ Authorization = {} }}", quoted(format!("Bearer {}", cmd(&program, "a"))));
    let daemon = Setup::with(front.server().line(header)).server(showing("good")).start_in(place);
    (front, daemon)
}

/// Case H18.
#[test]
fn program_runs_again_after_a_401_and_the_call_is_made_once() {
    let place = Place::new();
    let (front, daemon) = serve_with_header(&place, "cat token");
    let mut agent = Agent::ready(&daemon);
    result(&agent.call("a__echo", &json!({})));
    assert_eq!(runs(&place), 1);
    for number in 2..4 {
        place.write("token", format!("{CANARY}-{number}\n"));
        place.write("accepted", format!("{CANARY}-{number}"));
        let before = daemon.count_journal("a", "tools/call");
        let calls: Vec<_> = (0..4).map(|n| agent.start_call("a__echo", &json!({ "n": n }))).collect();
        calls.iter().for_each(|call| drop(result(&agent.answer(call)).clone()));
        let made = daemon.count_journal("a", "tools/call") - before;
        assert_eq!((made, runs(&place)), (calls.len(), number));
    }
    daemon.client(&["reload"]).expect_code(0);
    result(&agent.call("a__echo", &json!({})));
    assert_eq!((front.sessions(), daemon.row("a")["restarts"].clone(), runs(&place)), (1, json!(0), 3));
    // A program that fails now leaves the header as it is.
    script(&place, "token-of", "exit 4");
    place.write("accepted", format!("{CANARY}-4"));
    let refused = agent.call("a__echo", &json!({}));
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]["outcome"]), (&json!(-31004), &json!("not_sent")));
    assert!(!refused.to_string().contains(CANARY), "{refused}");
    script(&place, "token-of", "cat token");
    place.write("token", format!("{CANARY}-4\n"));
    until("the next start runs it", || agent.call("a__echo", &json!({}))["error"].is_null().then_some(()));
    expect_masked(&daemon);
}

/// Case H18.
#[test]
fn output_of_a_program_may_be_an_argument_or_a_part_of_a_url() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::json());
    let program = script(&place, "key", &format!("echo {CANARY}-$1"));
    let at_url = Server::at("a", &format!("{}?key={}", front.url(), cmd(&program, "url")));
    let by_argument = Server::named("b").flags("--bare --tool env --tool").arg(cmd(&program, "argument"));
    let daemon = Setup::with(at_url).server(by_argument).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    result(&agent.call("a__echo", &json!({})));
    assert!(front.http().requests().iter().all(|request| request.query()["key"] == format!("{CANARY}-url")));
    assert!(agent.tools().contains(&format!("b__{CANARY}-argument")), "{:?}", agent.tools());
    let status = daemon.client(&["status", "--json"]).stdout;
    assert!(!status.contains(&format!("{CANARY}-url")) && !daemon.log().contains(CANARY), "{status}");
}

/// Case H18.
#[test]
fn program_named_in_a_foreign_file_is_not_run() {
    let place = Place::new();
    let program = script(&place, "evil", "echo evil");
    let server = json!({"command": crate::support::SCRIPTED, "args": ["--bare", "--tool", "env", "--tool", "echo"], "env": {"SHOWN": cmd(&program, "x")}});
    let file = place.write(".mcp.json", json!({"mcpServers": {"a": server}}).to_string());
    let daemon = Setup::new().config(file).start_in(&place);
    assert_eq!(env_of(&daemon, "a")["SHOWN"], cmd(&program, "x"));
    assert!(daemon.log().contains("is plain text in this file"), "{}", daemon.log());
    drop(daemon);
    let imported = place.mcpd(&["import", "--dry-run"]).stdout;
    assert!(imported.contains("$${cmd:"), "{imported}");
    assert_eq!(runs(&place), 0);
}
