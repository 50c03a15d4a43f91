//! No process is left when the daemon, its reaper and a guard are suspended and killed, in any order that leaves one of them alive.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    Agent, Daemon, MCPD, Place, Process, Server, Setup, WAIT_LIMIT, arguments, field, quoted, signal,
    system_has_namespaces, until,
};

#[derive(Debug, Clone, Copy)]
enum Part {
    Daemon,
    Reaper,
    Guard,
}

/// A daemon with a server that resists, and with a descendant of it in a session of its own that has lost its parents.
fn hostile() -> Daemon {
    let mut daemon = Server::named("a").flags("--wrap --double-fork --ignore-eof --ignore-term").start();
    let script = "trap '' HUP INT TERM; setsid sh -c '(sleep 600; :) </dev/null >/dev/null 2>&1 &'";
    let answer = Agent::ready(&daemon).call("a__run", &json!({"argv": ["sh", "-c", script]}));
    assert_eq!(answer["result"]["structuredContent"]["code"], 0, "{answer}");
    let is_orphan = |process: &Process| process.command.contains("sleep 600");
    until("the orphan runs", || daemon.family().iter().any(is_orphan).then_some(()));
    daemon
}

/// The reaper of a daemon.
fn reaper(daemon: &mut Daemon) -> u32 {
    let family = daemon.family();
    family.iter().find(|process| process.command.starts_with("mcpd-reaper")).expect("a reaper").pid
}

/// Suspends a process, and waits until it has stopped.
fn suspend(pid: u32) {
    signal(pid, Signal::STOP);
    until("it is stopped", || field(pid, "State").starts_with('T').then_some(()));
}

fn expect_continued(pid: u32) {
    until("it runs again", || (!field(pid, "State").starts_with('T')).then_some(()));
}

/// Sends the signals to a new daemon, and fails unless all its processes end. The last signal kills the daemon.
fn expect_no_survivor(signals: &[(Signal, Part)]) {
    let mut daemon = hostile();
    let pids = [daemon.pid(), 0, daemon.guard_pid("a")];
    for (sent, part) in signals {
        let pid = match part {
            Part::Reaper => reaper(&mut daemon),
            part => pids[*part as usize],
        };
        match *sent {
            Signal::STOP => suspend(pid),
            sent => signal(pid, sent),
        }
    }
    daemon.wait_exit();
    daemon.expect_no_family(WAIT_LIMIT);
}

/// Case E12.
#[test]
fn nothing_survives_a_suspended_daemon_and_a_killed_guard() {
    use Part::{Daemon, Guard, Reaper};
    use Signal as S;
    for signals in [
        &[(S::STOP, Daemon), (S::KILL, Guard), (S::KILL, Daemon)][..],
        &[(S::KILL, Guard), (S::KILL, Daemon)],
        &[(S::STOP, Daemon), (S::KILL, Daemon)],
        // The kernel continues the reaper when its parent dies.
        &[(S::STOP, Daemon), (S::STOP, Reaper), (S::KILL, Guard), (S::KILL, Daemon)],
        &[(S::STOP, Daemon), (S::STOP, Reaper), (S::KILL, Daemon)],
    ] {
        expect_no_survivor(signals);
    }
}

/// Case E12.
#[test]
fn nothing_survives_a_killed_reaper() {
    use Part::{Daemon, Reaper};
    use Signal as S;
    for signals in [
        &[(S::STOP, Daemon), (S::KILL, Reaper), (S::KILL, Daemon)][..],
        &[(S::KILL, Reaper), (S::KILL, Daemon)],
        &[(S::STOP, Daemon), (S::STOP, Reaper), (S::KILL, Reaper), (S::KILL, Daemon)],
    ] {
        expect_no_survivor(signals);
    }
}

/// Case A19.
#[test]
fn killed_reaper_is_replaced_and_its_servers_are_restarted() {
    let mut daemon = hostile();
    for also_guard in [false, true] {
        let (before, first, pid) = (daemon.family(), reaper(&mut daemon), daemon.server_pid("a"));
        let guard = daemon.guard_pid("a");
        signal(first, Signal::KILL);
        if also_guard {
            signal(guard, Signal::KILL);
        }
        daemon.wait_row("a", "is ready again", |row| row["state"] == "ready" && row["pid"] != pid);
        until("all that ran is gone", || before.iter().all(|process| !process.is_alive()).then_some(()));
        assert_ne!(reaper(&mut daemon), first);
        arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    }
    daemon.kill9();
    daemon.expect_no_family(WAIT_LIMIT);
}

/// Case A19.
#[test]
fn lost_reaper_is_no_crash_of_its_servers_and_is_shown_in_status() {
    let names = ["a", "b"];
    let mut daemon = names.into_iter().fold(Setup::new(), |setup, name| setup.server(Server::named(name))).start();
    for lost in 1..=4 {
        let pids = names.map(|name| daemon.server_pid(name));
        signal(reaper(&mut daemon), Signal::KILL);
        for (name, pid) in names.into_iter().zip(pids) {
            daemon.wait_row(name, "runs again", |row| row["state"] == "ready" && row["pid"] != pid);
        }
        daemon.wait_status("has the number of losses", |status| status["reapers_lost"] == lost);
    }
    for row in names.map(|name| daemon.row(name)) {
        assert_eq!(
            (&row["restarts"], &row["restarts_last_hour"], &row["last_error"]),
            (&json!(4), &json!(0), &json!(null))
        );
    }
    let status = daemon.client(&["status"]).expect_code(0).stdout;
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(status.contains("the process `mcpd-reaper` was killed 4 times"), "{status}");
}

/// Case E12.
#[test]
fn server_that_leaves_at_the_end_of_its_input_does_not_survive_daemon_reaper_and_guard_and_one_that_resists_does() {
    let resists = Server::named("resists").flags("--ignore-eof --ignore-term");
    let mut daemon = Setup::with(resists).server(Server::named("leaves")).start();
    let (resists, guards) = (daemon.server_pid("resists"), ["resists", "leaves"].map(|name| daemon.guard_pid(name)));
    // Suspended, so that none of them sees the death of another.
    let above = [daemon.pid(), reaper(&mut daemon), guards[0], guards[1]];
    above.into_iter().for_each(suspend);
    above.into_iter().rev().for_each(|pid| signal(pid, Signal::KILL));
    daemon.wait_exit();
    let left = || daemon.place().processes(None).iter().map(|process| process.pid).collect::<Vec<_>>();
    until("one server is left", || (left() == [resists]).then_some(()));
    signal(resists, Signal::KILL);
    daemon.expect_no_family(WAIT_LIMIT);
}

/// The processes two or three levels below `pid` that prepare a sandbox: below a guard, or below the first process of namespaces.
fn stages_below(pid: u32, levels: u32) -> Vec<Process> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| Process::find(child.parse().ok()?));
    let of_child = |child: Process| match child.command.starts_with("mcpd-sandbox") {
        true => vec![child],
        false if levels > 1 => stages_below(child.pid, levels - 1),
        false => Vec::new(),
    };
    children.flat_map(of_child).collect()
}

/// Suspends a process that prepares a sandbox. Returns whether it had not become the server yet.
fn suspend_stage(stage: &Process) -> bool {
    signal(stage.pid, Signal::STOP);
    until("it is stopped or has become the server", || {
        let status = fs::read_to_string(format!("/proc/{}/status", stage.pid)).unwrap_or_default();
        let is_stage = Process::find(stage.pid).is_some_and(|now| now.command == stage.command);
        (status.contains("State:\tT") || !is_stage).then_some(())
    });
    let is_stage = Process::find(stage.pid).is_some_and(|now| now.command == stage.command);
    if !is_stage {
        signal(stage.pid, Signal::CONT);
    }
    is_stage
}

/// Case A19.
#[test]
fn suspended_process_that_prepares_a_sandbox_is_continued() {
    let place = Place::new();
    let mut sandboxes = vec![("scoped", "\"scope\"".to_owned())];
    if system_has_namespaces() {
        let journal = quoted(place.path("fenced.journal"));
        sandboxes.push(("fenced", format!("{{ level = \"files\", namespaces = \"require\", write = [{journal}] }}")));
    }
    let add = |setup: Setup, (name, sandbox): &(&str, String)| {
        setup.server(Server::named(name).line(format!("sandbox = {sandbox}")))
    };
    let mut daemon = sandboxes.iter().fold(Setup::new(), add).start_in(&place);
    let reaper = reaper(&mut daemon);
    for (name, _) in &sandboxes {
        until("one is suspended before it becomes the server", || {
            let mut restart = place.command(MCPD);
            restart.args(["restart", name, "--runtime-dir"]).arg(place.runtime_dir());
            let mut restart = restart.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            let mut is_suspended = false;
            while restart.try_wait().expect("one's own child").is_none() {
                is_suspended |= !is_suspended && stages_below(reaper, 3).iter().any(suspend_stage);
            }
            is_suspended.then_some(())
        });
        let row = daemon.wait_row(name, "is ready", |row| row["state"] == "ready");
        assert_eq!((&row["restarts_last_hour"], &row["last_error"]), (&json!(0), &json!(null)), "{row}");
    }
    if sandboxes.len() > 1 {
        let guard = daemon.guard_pid("fenced");
        let init = daemon.family().into_iter().find(|process| process.parent == guard).expect("the first process").pid;
        signal(init, Signal::STOP);
        expect_continued(init);
        let pid = daemon.server_pid("fenced");
        signal(pid, Signal::KILL);
        daemon.wait_row("fenced", "runs again", |row| row["state"] == "ready" && row["pid"] != pid);
    }
}

/// Case A19.
#[test]
fn suspended_reaper_and_guard_are_continued() {
    let mut daemon = hostile();
    let (guard, reaper, pid) = (daemon.guard_pid("a"), reaper(&mut daemon), daemon.server_pid("a"));
    signal(reaper, Signal::STOP);
    signal(guard, Signal::STOP);
    [reaper, guard].into_iter().for_each(expect_continued);
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    assert_eq!(daemon.server_pid("a"), pid);
    daemon.stop_in_order(Signal::TERM);
}
