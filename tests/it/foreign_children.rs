//! Children that mcpd inherited, and did not start, are left alone.

use std::fs;

use rustix::process::Signal;

use crate::support::{Daemon, MCPD, Process, STRANGER, Server, Setup, TAG, signal, until};

/// A process that the shell left to the daemon it became. Dropping it ends it.
struct Stranger(Process);

impl Drop for Stranger {
    fn drop(&mut self) {
        if self.0.is_alive() {
            signal(self.0.pid, Signal::KILL);
        }
    }
}

/// Of mcpd's own session and of one of its own.
const KINDS: [&str; 2] = ["", "setsid"];

/// A daemon with a child that no server started.
fn start(launcher: &str) -> (Daemon, Stranger) {
    let script = format!("{TAG}={STRANGER} {launcher} sleep 300 >/dev/null 2>&1 & echo $! >\"$HOME/stranger\"");
    let daemon = Setup::with(Server::named("a")).after_shell(&script).start();
    let pid = fs::read_to_string(daemon.place().path("home/stranger")).expect("the shell wrote it");
    let process = Process::find(pid.trim().parse().expect("a process id")).expect("it runs");
    assert!(process.parent == daemon.pid() && process.command.contains("sleep"), "{process:?}");
    (daemon, Stranger(process))
}

#[test]
fn child_that_mcpd_had_before_it_started_survives_its_stop() {
    for kind in KINDS {
        let (mut daemon, stranger) = start(kind);
        daemon.stop_in_order(Signal::TERM);
        assert!(stranger.0.is_alive(), "{:?} is gone", stranger.0);
    }
}

#[test]
fn child_that_mcpd_had_before_it_started_survives_the_loss_of_a_guard() {
    for kind in KINDS {
        let (mut daemon, stranger) = start(kind);
        let before = daemon.server_pid("a");
        daemon.family();
        signal(daemon.guard_pid("a"), Signal::KILL);
        daemon.wait_row("a", "is ready again", |row| row["state"] == "ready" && row["pid"] != before);
        assert!(stranger.0.is_alive(), "{:?} is gone", stranger.0);
    }
}

#[test]
fn child_that_mcpd_had_before_it_started_may_be_an_agent() {
    let script = format!(
        "{TAG}={STRANGER} sh -c 'until [ -S \"$0\" ]; do sleep 0.02; done; {MCPD} call a__echo {{}} --runtime-dir \"${{0%/*}}\"; \
         echo $? >\"$HOME/exit-code\"' \"$HOME/../run/mcp.sock\" >/dev/null 2>\"$HOME/errors\" & :"
    );
    let daemon = Setup::with(Server::named("a")).after_shell(&script).start();
    let code = || fs::read_to_string(daemon.place().path("home/exit-code")).ok().filter(|code| code.ends_with('\n'));
    let code = until("it has called", code);
    assert_eq!(code, "0\n", "{:?}", fs::read_to_string(daemon.place().path("home/errors")));
}
