//! What a running daemon and its scripted servers tell of themselves.

use std::fs;

use serde_json::Value;

use super::config::journal;
use super::daemon::Daemon;
use super::gate::Gate;
use super::processes::{Process, process_report};
use super::wait::{WAIT_LIMIT, poll, until};

impl Daemon {
    /// The output of `mcpd status --json`.
    pub(crate) fn status(&self) -> Value {
        self.client(&["status", "--json"]).json()
    }

    /// The status row of one server.
    pub(crate) fn row(&self, server: &str) -> Value {
        row(&self.status(), server)
    }

    /// A gate for calls to its scripted servers.
    pub(crate) fn gate(&self) -> Gate {
        Gate::new(self.place())
    }

    /// The open files of the daemon, as the kernel names them.
    pub(crate) fn open_files(&self) -> Vec<String> {
        let report = process_report(&self.place().runtime_dir().join("admin.sock"));
        let files = report["open_files"].as_array().expect("a list").iter();
        files.map(|file| file.as_str().expect("text").to_owned()).collect()
    }

    /// The process id of a running server.
    pub(crate) fn server_pid(&self, server: &str) -> u32 {
        pid(&self.row(server)["pid"])
    }

    /// The process id of a running server's guard.
    pub(crate) fn guard_pid(&self, server: &str) -> u32 {
        pid(&self.row(server)["guard_pid"])
    }

    /// Waits until the status fulfils a condition.
    #[track_caller]
    pub(crate) fn wait_status(&self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let mut last = None;
        let found = poll(WAIT_LIMIT, || {
            let ran = self.client(&["status", "--json"]);
            let ended = ran.code == Some(3) && Process::find(self.pid()).is_none();
            assert!(!ended, "the daemon ended before its status {what}:\n{}", self.log());
            let status = serde_json::from_str(&ran.stdout).ok().filter(|status| holds(status));
            last = Some(ran);
            status
        });
        found.unwrap_or_else(|| panic!("the status never {what}: {}", last.expect("one look at least")))
    }

    /// Waits until the status row of one server fulfils a condition.
    #[track_caller]
    pub(crate) fn wait_row(&self, server: &str, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        row(&self.wait_status(what, |status| holds(&row(status, server))), server)
    }

    /// The journal of a scripted server: received lines and process events, in order.
    pub(crate) fn journal(&self, server: &str) -> Vec<String> {
        let text = fs::read_to_string(journal(self.place(), server)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Counts the lines with this part in the journal of a scripted server.
    pub(crate) fn count_journal(&self, server: &str, part: &str) -> usize {
        self.journal(server).iter().filter(|line| line.contains(part)).count()
    }

    /// Counts the starts of a scripted server.
    pub(crate) fn count_starts(&self, server: &str) -> usize {
        self.journal(server).iter().filter(|line| line.starts_with("# start")).count()
    }

    /// Waits until the journal of a scripted server has this number of lines with this part, or more.
    #[track_caller]
    pub(crate) fn wait_journal_count(&self, server: &str, part: &str, count: usize) {
        until(&format!("{server} receives {part} {count} times"), || {
            (self.count_journal(server, part) >= count).then_some(())
        });
    }

    /// Waits until a call of `sleep` has arrived that waits at this gate. Returns its line.
    #[track_caller]
    pub(crate) fn wait_at_gate(&self, server: &str, gate: &Gate) -> String {
        self.wait_journal(server, gate.path().to_str().expect("text"))
    }

    /// Waits for a line in the journal of a scripted server.
    #[track_caller]
    pub(crate) fn wait_journal(&self, server: &str, part: &str) -> String {
        until(&format!("{server} receives {part}"), || {
            self.journal(server).into_iter().find(|line| line.contains(part))
        })
    }
}

fn row(status: &Value, server: &str) -> Value {
    let rows = status["servers"].as_array().expect("an array of servers");
    rows.iter().find(|row| row["name"] == server).unwrap_or_else(|| panic!("no row {server}: {status}")).clone()
}

fn pid(value: &Value) -> u32 {
    let pid = value.as_u64().and_then(|pid| u32::try_from(pid).ok());
    pid.unwrap_or_else(|| panic!("no process id: {value}"))
}
