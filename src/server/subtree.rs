//! Who descends from whom, read from `/proc`.
//!
//! Knows process ids and nothing else. Used by the guard, by the daemon for what a killed guard left behind, and to
//! tell a person's `mcpd status` from a server that asks.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait, waitpid};

/// Parent of every process on the machine that could be read.
fn parents() -> HashMap<i32, i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

/// The parent of `pid`: the second field behind the command, which may itself contain spaces and brackets (proc(5)).
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Children of this process and all their descendants, but for the subtrees of `spared`.
fn descendants(spared: &[u32]) -> Vec<Pid> {
    let parents = parents();
    let own = getpid().as_raw_pid();
    let is_ours = |pid: i32| {
        let mut pid = pid;
        for _ in 0..parents.len() {
            if spared.iter().any(|spared| i32::try_from(*spared) == Ok(pid)) {
                return false;
            }
            match parents.get(&pid) {
                Some(&parent) if parent == own => return true,
                Some(&parent) => pid = parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().filter(|pid| is_ours(**pid)).filter_map(|pid| Pid::from_raw(*pid)).collect()
}

/// Sends SIGKILL to every descendant outside the subtrees of `spared`, reaps what has died, and tells whether any is
/// left. Descendants must come to this process when their parents die: it has to be a child subreaper.
pub(crate) fn kill_descendants(spared: &[u32]) -> bool {
    let left = descendants(spared);
    for pid in &left {
        // One that has gone meanwhile is what we want.
        let _ = kill_process(*pid, Signal::KILL);
    }
    for pid in &left {
        let _ = waitpid(Some(*pid), WaitOptions::NOHANG);
    }
    !left.is_empty()
}

/// Reaps one dead child, if there is any; the error tells that there is no child at all.
pub(crate) fn reap_any() -> rustix::io::Result<Option<(Pid, rustix::process::WaitStatus)>> {
    wait(WaitOptions::NOHANG)
}

/// Whether `pid` is one of `ancestors` or descends from one of them.
pub(crate) fn descends_from(pid: i32, ancestors: &[u32]) -> bool {
    let mut pid = Some(pid);
    while let Some(current) = pid.filter(|pid| *pid > 1) {
        if ancestors.iter().any(|ancestor| i32::try_from(*ancestor) == Ok(current)) {
            return true;
        }
        pid = parent(current);
    }
    false
}
