//! No process is left when the daemon, its reaper and a guard are suspended and killed, in any order that leaves one of them alive.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Agent, Daemon, Process, Server, Setup, WAIT_LIMIT, arguments, field, signal, until};

#[derive(Debug, Clone, Copy)]
enum Part {
    Daemon,
    Reaper,
    Guard,
}

/// A daemon with a server that resists, and with a descendant of it in a session of its own that has lost its parents.
fn hostile() -> Daemon {
    let mut daemon = Setup::with(Server::named("a").flags("--wrap --double-fork --ignore-eof --ignore-term")).start();
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

/// Sends the signals to a new daemon, and fails unless all its processes end. The last signal kills the daemon.
fn expect_no_survivor(signals: &[(Signal, Part)]) {
    let mut daemon = hostile();
    let pids = [daemon.pid(), 0, daemon.guard_pid("a")];
    for (sent, part) in signals {
        let pid = match part {
            Part::Reaper => reaper(&mut daemon),
            part => pids[*part as usize],
        };
        signal(pid, *sent);
        if *sent == Signal::STOP {
            until("it is stopped", || field(pid, "State").starts_with('T').then_some(()));
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
fn suspended_reaper_and_guard_are_continued() {
    let mut daemon = hostile();
    let (guard, reaper, pid) = (daemon.guard_pid("a"), reaper(&mut daemon), daemon.server_pid("a"));
    signal(reaper, Signal::STOP);
    signal(guard, Signal::STOP);
    for pid in [reaper, guard] {
        until("it runs again", || (!field(pid, "State").starts_with('T')).then_some(()));
    }
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    assert_eq!(daemon.server_pid("a"), pid);
    daemon.stop_in_order(Signal::TERM);
}
