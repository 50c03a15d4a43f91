//! Which agents share an instance, and how long it lives.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, SCRIPTED, Server, Setup, WAIT_LIMIT, arguments, until};

fn by(sharing: &str) -> Server {
    Server::named("s").line(format!("sharing = \"{sharing}\""))
}

fn pid(agent: &mut Agent) -> u64 {
    let answer = agent.call("s__echo", &json!({}));
    answer["result"]["structuredContent"]["pid"].as_u64().unwrap_or_else(|| panic!("{answer}"))
}

fn cwd(agent: &mut Agent) -> String {
    agent.call("s__cwd", &json!({}))["result"].to_string()
}

/// The instances of `s` that run, by what they are for.
fn instances(daemon: &Daemon) -> Vec<String> {
    let status = daemon.status();
    let all = status["servers"][0]["instances"].as_array().cloned().unwrap_or_default();
    all.iter()
        .filter(|one| !one["pid"].is_null())
        .map(|one| one["purpose"].as_str().expect("text").to_owned())
        .collect()
}

#[test]
fn session_instance_ends_with_its_agent() {
    let daemon = Setup::with(by("session")).start();
    let (mut first, mut second) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let pids = [pid(&mut first), pid(&mut second)];
    assert_ne!(pids[0], pids[1]);
    assert_eq!(pid(&mut first), pids[0]);
    assert_eq!(instances(&daemon), ["listing", "session 1", "session 2"]);
    first.disconnect();
    until("its instance is gone", || (instances(&daemon) == ["listing", "session 2"]).then_some(()));
    assert_eq!(pid(&mut second), pids[1]);
    assert_eq!(daemon.status()["servers"][0]["calls"], 4, "what an instance did is not forgotten with it");
}

#[test]
fn agents_in_one_directory_share_an_instance_that_runs_there() {
    let server = by("workspace").env("WHERE", "${agent:cwd}").line("idle_timeout = \"300ms\"");
    let daemon = Setup::with(server).start();
    let place = std::rc::Rc::clone(daemon.place());
    let [here, there] = ["here", "there"].map(|name| {
        std::fs::create_dir(place.path(name)).expect("the test's own");
        place.path(name).to_str().expect("text").to_owned()
    });
    let mut agents = [&here, &there, &here].map(|cwd| Agent::working_in(&daemon, cwd.as_ref()));
    assert!(cwd(&mut agents[0]).contains(&here) && cwd(&mut agents[1]).contains(&there));
    let pids = agents.each_mut().map(pid);
    assert_eq!(pids[0], pids[2]);
    assert_ne!(pids[0], pids[1]);
    assert_eq!(instances(&daemon).len(), 2);
    let [first, second, third] = agents;
    drop((first, second));
    until("the one that nobody uses is gone", || (instances(&daemon) == [here.as_str()]).then_some(()));
    drop(third);
    until("the other is, too", || instances(&daemon).is_empty().then_some(()));
    let mut back = Agent::working_in(&daemon, here.as_ref());
    assert!(back.tools().contains(&"s__echo".to_owned()), "the last known tools are still listed");
    assert!(cwd(&mut back).contains(&here), "a call waits for the instance");
}

/// Case K34.
#[test]
fn instance_that_fails_in_a_directory_is_shown_and_not_started_again_without_an_agent() {
    let script = "case $PWD in */bad) exit 7;; esac; exec \"$0\" \"$@\"";
    let server = Server::run_by("s", "sh").arg("-c").arg(script).arg(SCRIPTED).line("sharing = \"workspace\"");
    // Its starts show that time has passed.
    let clock = Server::run_by("clock", "sh").arg("-c").arg("exit 3");
    let daemon = Setup::with(server).server(clock).start();
    let bad = daemon.place().path("bad");
    std::fs::create_dir(&bad).expect("the test's own");
    daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
    let agent = Agent::working_in(&daemon, &bad);
    let instance = || {
        let row = daemon.row("s");
        let of_directory = |one: &&Value| one["purpose"] == bad.to_str().expect("text");
        row["instances"].as_array().expect("a list").iter().find(of_directory).cloned()
    };
    until("it has failed", || instance().filter(|one| one["reason"] == "exited with code 7"));
    let shown = daemon.client(&["status", "--check", "s"]).expect_code(1);
    let line = shown.stdout.lines().find(|line| line.contains("exited with code 7")).expect("it is shown");
    assert!(line.starts_with("✗ s (") && line.contains("/bad): "), "{shown}");
    assert_eq!(daemon.row("s")["state"], "ready", "elsewhere it runs");
    let found = daemon.client(&["doctor", "s"]);
    assert!(found.stdout.contains(&format!("is down for `{}`: exited with code 7", bad.display())), "{found}");
    drop(agent);
    let tick = || {
        let now = daemon.row("clock")["restarts"].as_u64();
        until("the other server was started again", || (daemon.row("clock")["restarts"].as_u64() > now).then_some(()));
    };
    until("the agent has gone", || daemon.status()["agents"].as_array().is_none_or(Vec::is_empty).then_some(()));
    tick();
    let before = until("it has ended", || instance().filter(|one| one["state"] == "backoff"));
    tick();
    let after = instance().expect("it is still shown");
    assert_eq!((&after["restarts"], &after["reason"]), (&before["restarts"], &before["reason"]));
    let _agent = Agent::working_in(&daemon, &bad);
    until("it is started again", || instance().filter(|one| one["restarts"].as_u64() > before["restarts"].as_u64()));
}

#[test]
fn first_list_of_an_agent_waits_for_the_instance_that_is_started_for_it() {
    let server = by("workspace").env("WHERE", "${agent:cwd}").line("cwd = \"${agent:cwd}\"");
    let daemon = Setup::with(server).start();
    // Nobody has asked for it yet, and nothing is waited for.
    let mut lost = Agent::working_in(&daemon, "/nowhere/at/all".as_ref());
    assert_eq!(lost.tools(), [""; 0], "there it cannot run");
    let here = daemon.place().path("here");
    std::fs::create_dir(&here).expect("the test's own");
    let mut agent = Agent::working_in(&daemon, &here);
    assert!(agent.tools().contains(&"s__echo".to_owned()));
    lost.expect_notification("notifications/tools/list_changed");
}

#[test]
fn directory_of_an_agent_on_this_machine_is_known_without_its_saying_so() {
    let daemon = Setup::with(by("workspace")).start();
    let mut agent = Agent::ready(&daemon);
    let own = std::env::current_dir().expect("it has one");
    assert!(cwd(&mut agent).contains(own.to_str().expect("text")));
}

#[test]
fn pool_grows_while_all_are_busy_and_shrinks_when_they_are_idle() {
    let server = by("pool").line("max_instances = 3").line("idle_timeout = \"500ms\"");
    let daemon = Setup::with(server).start();
    let mut agent = Agent::ready(&daemon);
    for _ in 0..3 {
        pid(&mut agent);
    }
    assert_eq!(instances(&daemon).len(), 1, "calls one after another need no more");
    let gate = daemon.gate();
    let calls: Vec<_> = (0..5).map(|_| agent.start_call("s__sleep", &gate.arguments())).collect();
    until("there are as many as there may be", || (instances(&daemon).len() == 3).then_some(()));
    gate.open();
    for call in &calls {
        arguments(&agent.answer(call));
    }
    until("the extra ones are gone", || (instances(&daemon).len() == 1).then_some(()));
    pid(&mut agent);
    assert_eq!(daemon.status()["servers"][0]["calls"], 9);
}

#[test]
fn warm_pool_does_ten_calls_at_once_on_a_server_that_does_one_at_a_time() {
    let server = by("pool").flags("--one-at-a-time").line("idle_timeout = \"1m\"");
    let daemon = Setup::with(server).start();
    let mut agent = Agent::ready(&daemon);
    let mut round = |ms: u64| {
        let start = Instant::now();
        let calls: Vec<_> = (0..10).map(|_| agent.start_call("s__sleep", &json!({"ms": ms}))).collect();
        calls.iter().for_each(|call| drop(arguments(&agent.answer(call)).clone()));
        start.elapsed().as_millis()
    };
    round(3000);
    assert_eq!(instances(&daemon).len(), 10);
    let took = round(7000);
    assert!(took < 60_000, "ten calls of seven seconds took {took} ms: they were not done side by side");
}

#[test]
fn cancellation_reaches_the_instance_of_the_call() {
    for sharing in ["pool", "session", "workspace"] {
        let daemon = Setup::with(by(sharing)).start();
        let mut agent = Agent::ready(&daemon);
        let call = agent.start_call("s__sleep", &json!({"ms": 600_000}));
        daemon.wait_journal("s", "60000");
        agent.cancel(&call);
        daemon.wait_journal("s", "notifications/cancelled");
        pid(&mut agent);
    }
}

#[test]
fn agent_whose_own_instance_dies_gets_another_without_affecting_others() {
    let daemon = Setup::with(by("session")).start();
    let (mut first, mut second) = (Agent::ready(&daemon), Agent::ready(&daemon));
    let before = [pid(&mut first), pid(&mut second)];
    let died = first.call("s__die", &json!({"how": "kill"}));
    assert_eq!(died["error"]["code"], -31001, "{died}");
    assert_ne!(pid(&mut first), before[0]);
    assert_eq!(pid(&mut second), before[1]);
}

#[test]
fn all_instances_are_ended() {
    let mut setup = Setup::new();
    for sharing in ["session", "workspace", "pool"] {
        let line = format!("sharing = \"{sharing}\"");
        setup = setup.server(Server::named(sharing).flags("--ignore-eof --ignore-term --wrap").line(line));
    }
    let mut daemon = setup.start();
    let mut agents: Vec<_> = (0..3).map(|_| Agent::ready(&daemon)).collect();
    for agent in &mut agents {
        for sharing in ["session", "workspace", "pool"] {
            let answer: Value = agent.call(&format!("{sharing}__echo"), &json!({}));
            assert!(answer["error"].is_null(), "{answer}");
        }
    }
    assert!(daemon.family().len() > 12);
    // The end of the harness's daemon checks the rest.
    daemon.kill9();
    daemon.expect_no_family(WAIT_LIMIT);
}
