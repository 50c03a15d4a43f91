//! What is alive, read from `/proc`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::wait::WAIT_LIMIT;

/// One process. Its start time distinguishes it from a later one with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    started: u64,
    pub(crate) command: String,
}

impl Process {
    /// The process `pid`; a zombie counts as gone.
    pub(crate) fn find(pid: u32) -> Option<Self> {
        let stat = stat(pid)?;
        (stat.first()? != "Z").then_some(())?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        Some(Self { pid, parent: stat.get(1)?.parse().ok()?, started: stat.get(19)?.parse().ok()?, command })
    }

    /// Whether this very process still runs.
    pub(crate) fn is_alive(&self) -> bool {
        Self::find(self.pid).is_some_and(|now| now.started == self.started)
    }
}

/// The fields of `/proc/PID/stat` behind the command name, which may contain anything: state, parent, group, …
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split_whitespace().map(str::to_owned).collect())
}

fn all() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    entries.filter_map(|entry| Process::find(entry.file_name().to_str()?.parse().ok()?))
}

/// The processes with `tag` in their environment, and those below `root`, except those with `STRANGER`.
pub(crate) fn alive(tag: &str, stranger: &str, root: Option<u32>) -> Vec<Process> {
    let all: Vec<_> = all().filter(|process| !tagged(process, stranger)).collect();
    let mut family: Vec<u32> = root.into_iter().collect();
    let mut found = Vec::new();
    // A child may precede its parent in the listing, so passes repeat until none finds more.
    while let Some(next) =
        all.iter().find(|p| !family.contains(&p.pid) && (family.contains(&p.parent) || tagged(p, tag)))
    {
        family.push(next.pid);
        found.push(next.clone());
    }
    found
}

fn tagged(process: &Process, tag: &str) -> bool {
    let environ = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|entry| entry == tag.as_bytes())
}

/// The process ids below `pid`, zombies included.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|child| stat(*child).is_some_and(|stat| stat[1] == pid.to_string())).collect()
}

/// The reaper below a daemon, and the guards and orphans below the reaper, zombies included.
pub(crate) fn supervised(daemon: u32) -> Vec<u32> {
    let reapers = children(daemon);
    reapers.iter().flat_map(|reaper| children(*reaper)).chain(reapers.iter().copied()).collect()
}

/// A line of `/proc/PID/status`.
pub(crate) fn field(pid: u32, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {key} in the status of {pid}")).trim().to_owned()
}

/// Resident memory of a process without pages of files. A debug build has many of those.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    field(pid, "RssAnon").trim_end_matches(" kB").parse().expect("a number")
}

/// Processor time that a process has used so far.
pub(crate) fn cpu_time(pid: u32) -> Duration {
    let stat = stat(pid).expect("the process runs");
    let ticks: u64 = stat[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    // Linux counts in hundredths of a second here (proc(5), `USER_HZ`).
    Duration::from_millis(ticks * 10)
}

/// Sends a signal, by the id of one process that the test started.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("a process id");
    // A process that has ended already is no error.
    let _ = kill_process(pid, signal);
}

/// What the daemon with this operator socket reports about its own process, which is hidden from other processes.
pub(crate) fn process_report(socket: &Path) -> Value {
    let mut stream = UnixStream::connect(socket).expect("it accepts");
    stream.set_read_timeout(Some(WAIT_LIMIT)).expect("not zero");
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "process", "params": {"version": "0"}});
    stream.write_all(format!("{request}\n").as_bytes()).expect("it is read");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a line in time");
    let mut answer: Value = serde_json::from_str(&line).expect("JSON");
    answer["result"].take()
}
