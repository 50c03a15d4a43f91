//! Process ancestry, read from `/proc`.
//!
//! Guards and the reaper use it to kill their subtrees, and the daemon to kill the remains of a lost reaper. The daemon also uses it to
//! refuse connections of descendants of servers.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, wait, waitpid};

/// Fields of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stat {
    parent: i32,
    unix_session: i32,
}

/// The fields follow the command, which may contain spaces and brackets (proc(5)).
fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    Some(Stat { parent, unix_session: fields.nth(1)?.parse().ok()? })
}

/// All readable processes on the machine.
fn processes() -> HashMap<i32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

/// All descendants of this process, except the subtrees of `spared`.
fn descendants(processes: &HashMap<i32, Stat>, spared: &[u32]) -> Vec<i32> {
    let own = getpid().as_raw_pid();
    let is_ours = |pid: i32| {
        let mut pid = pid;
        for _ in 0..processes.len() {
            if is_one_of(pid, spared) {
                return false;
            }
            match processes.get(&pid) {
                Some(stat) if stat.parent == own => return true,
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        false
    };
    processes.keys().copied().filter(|pid| is_ours(*pid)).collect()
}

fn is_one_of(pid: i32, pids: &[u32]) -> bool {
    pids.iter().any(|other| i32::try_from(*other) == Ok(pid))
}

/// The bytes that `root` and each of its descendants have written anywhere (proc_pid_io(5)). Unreadable processes are left out.
pub(crate) fn bytes_written_below(root: u32) -> HashMap<i32, u64> {
    let processes = processes();
    let others = processes.keys().copied().filter(|pid| is_below(*pid, root, &processes));
    others.filter_map(|pid| Some((pid, bytes_written(pid)?))).collect()
}

/// `root` and its descendants.
pub(crate) fn pid_and_descendants(root: u32) -> Vec<i32> {
    let processes = processes();
    processes.keys().copied().filter(|pid| is_below(*pid, root, &processes)).collect()
}

fn is_below(mut pid: i32, root: u32, processes: &HashMap<i32, Stat>) -> bool {
    for _ in 0..processes.len() {
        if is_one_of(pid, &[root]) {
            return true;
        }
        match processes.get(&pid) {
            Some(stat) => pid = stat.parent,
            None => return false,
        }
    }
    false
}

fn bytes_written(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let counter = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    // `wchar` counts system calls; `write_bytes` also counts writes to disk through mapped memory.
    counter("wchar:").max(counter("write_bytes:"))
}

/// The present descendants of this process.
pub(crate) fn all_descendants() -> Vec<u32> {
    descendants(&processes(), &[]).into_iter().map(i32::unsigned_abs).collect()
}

/// Sends SIGKILL to every descendant outside the subtrees of `spared`, and reaps the dead ones. Returns whether there were any.
///
/// This process must be a child subreaper, so that it inherits orphans.
pub(crate) fn kill_descendants(spared: &[u32]) -> bool {
    let processes = processes();
    let killed = descendants(&processes, spared);
    kill_and_reap(&processes, &killed);
    !killed.is_empty()
}

/// Kills the remains of a lost reaper. Returns whether there were any.
///
/// Spares the subtrees of `spared`, and this process's own Unix session, which every guard leaves.
pub(crate) fn kill_orphans(spared: &[u32]) -> bool {
    // Not getsid(2): it returns 0 for a leader outside this PID namespace, and `rustix` requires a positive number.
    let Some(own) = stat(getpid().as_raw_pid()) else { return false };
    let processes = processes();
    let mut orphans = descendants(&processes, spared);
    orphans.retain(|pid| processes.get(pid).is_some_and(|stat| stat.unix_session != own.unix_session));
    kill_and_reap(&processes, &orphans);
    !orphans.is_empty()
}

fn kill_and_reap(processes: &HashMap<i32, Stat>, pids: &[i32]) {
    let own = getpid().as_raw_pid();
    for pid in pids {
        let Some(target) = Pid::from_raw(*pid) else { continue };
        // A pidfd refers to one process. Its id may have been reused since it was read in `/proc`, so the process is compared below.
        let Ok(pidfd) = pidfd_open(target, PidfdFlags::empty()) else { continue };
        let is_same = stat(*pid).is_some_and(|now| {
            processes
                .get(pid)
                .is_some_and(|then| now.unix_session == then.unix_session && [then.parent, own].contains(&now.parent))
        });
        if is_same {
            // An error means that the process is gone, as intended.
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
        let _ = waitpid(Some(target), WaitOptions::NOHANG);
    }
}

/// Reaps one dead child, if there is one. The error means that this process has no children.
pub(crate) fn reap_any() -> rustix::io::Result<Option<(Pid, rustix::process::WaitStatus)>> {
    wait(WaitOptions::NOHANG)
}

/// A process and its ancestors, nearest first.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ancestry {
    pub(crate) pids: Vec<i32>,
    pub(crate) end: AncestryEnd,
}

/// Where an ancestry ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AncestryEnd {
    /// At the first process, or outside of this PID namespace.
    Root,
    /// At a process that is gone or may not be read.
    Unreadable,
    /// At no known process: the ancestry is too long, or it changed with each reading. A process can cause both on purpose.
    #[default]
    Unsettled,
}

/// Readings of an ancestry until it counts as unsettled.
const MAX_READINGS: usize = 5;
/// Longest ancestry that is read.
const MAX_ANCESTORS: usize = 1024;

/// The ancestry of `pid`.
///
/// A parent may end, and its id may be reused, between two steps. A child then has another parent. So the ancestry is read until two
/// readings agree: each parent was still its child's parent after it was looked at.
pub(crate) fn ancestry(pid: i32) -> Ancestry {
    let mut read = read_ancestry(pid);
    for _ in 1..MAX_READINGS {
        let again = read_ancestry(pid);
        if again == read {
            return read;
        }
        read = again;
    }
    Ancestry { end: AncestryEnd::Unsettled, ..read }
}

fn read_ancestry(mut pid: i32) -> Ancestry {
    let mut pids = Vec::new();
    while pid > 1 && pids.len() < MAX_ANCESTORS {
        pids.push(pid);
        let Some(stat) = stat(pid) else { return Ancestry { pids, end: AncestryEnd::Unreadable } };
        pid = stat.parent;
    }
    let end = if pid <= 1 { AncestryEnd::Root } else { AncestryEnd::Unsettled };
    Ancestry { pids, end }
}
