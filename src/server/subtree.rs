//! Process ancestry, read from `/proc`.
//!
//! Guards and the reaper use it to kill their subtrees, and the daemon to kill the remains of a lost reaper. The daemon also uses it to
//! refuse connections of descendants of servers.

use std::collections::HashMap;
use std::fs;
use std::iter::Sum;

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, wait, waitpid};

/// The names of guards and reapers.
pub(super) const GUARD: &str = "mcpd-guard";
pub(super) const REAPER: &str = "mcpd-reaper";

/// Fields of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stat {
    parent: i32,
    unix_session: i32,
    /// Clock ticks in user and kernel mode.
    ticks: u64,
    /// Whether it calls itself a guard or a reaper.
    is_supervisor: bool,
}

/// The fields follow the command, which may contain spaces and brackets (proc(5)).
fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, fields) = text.split_once('(')?.1.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let unix_session = fields.nth(1)?.parse().ok()?;
    let [user, kernel]: [u64; 2] = [fields.nth(7)?.parse().ok()?, fields.next()?.parse().ok()?];
    let is_supervisor = [GUARD, REAPER].contains(&name);
    Some(Stat { parent, unix_session, ticks: user + kernel, is_supervisor })
}

/// All readable processes on the machine at one moment.
pub(super) struct Processes(HashMap<i32, Stat>);

impl Processes {
    pub(super) fn read() -> Self {
        let Ok(entries) = fs::read_dir("/proc") else { return Self(HashMap::new()) };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(pids.filter_map(|pid| Some((pid, stat(pid)?))).collect())
    }

    /// `pid` and its ancestors, nearest first. Ids that were reused while they were read may form a circle.
    fn lineage(&self, pid: i32) -> impl Iterator<Item = (i32, &Stat)> {
        let stat = |pid| Some((pid, self.0.get(&pid)?));
        std::iter::successors(stat(pid), move |(_, child)| stat(child.parent)).take(self.0.len())
    }

    /// All descendants of this process, except the subtrees of `spared`.
    pub(super) fn descendants(&self, spared: &[u32]) -> Vec<i32> {
        let own = getpid().as_raw_pid();
        let is_ours = |pid: i32| {
            let mut spared_or_below = self.lineage(pid).map(|(pid, stat)| (is_one_of(pid, spared), stat.parent == own));
            spared_or_below
                .find(|(is_spared, is_child)| *is_spared || *is_child)
                .is_some_and(|(is_spared, _)| !is_spared)
        };
        self.0.keys().copied().filter(|pid| is_ours(*pid)).collect()
    }

    /// The one of `leaders` whose Unix session `pid` belongs to, or else its nearest ancestor.
    pub(super) fn session_leader(&self, pid: i32, leaders: &[u32]) -> Option<u32> {
        self.lineage(pid)
            .map(|(_, stat)| stat.unix_session)
            .find(|leader| is_one_of(*leader, leaders))
            .map(i32::cast_unsigned)
    }

    /// Sends `signal` to each of these descendants, and reaps the dead ones.
    pub(super) fn signal(&self, pids: &[i32], signal: Signal) {
        let own = getpid().as_raw_pid();
        for pid in pids {
            let Some(target) = Pid::from_raw(*pid) else { continue };
            // A pidfd refers to one process. Its id may have been reused since it was read in `/proc`, so the process is compared below.
            let Ok(pidfd) = pidfd_open(target, PidfdFlags::empty()) else { continue };
            let is_same = stat(*pid).is_some_and(|now| {
                self.0.get(pid).is_some_and(|then| {
                    now.unix_session == then.unix_session && [then.parent, own].contains(&now.parent)
                })
            });
            if is_same {
                // An error means that the process is gone, as intended.
                let _ = pidfd_send_signal(pidfd, signal);
            }
            let _ = waitpid(Some(target), WaitOptions::NOHANG);
        }
    }

    /// Sends SIGTERM to each of these descendants. A suspended one is continued, so that it can act.
    pub(super) fn terminate(&self, pids: &[i32]) {
        for signal in [Signal::TERM, Signal::CONT] {
            self.signal(pids, signal);
        }
    }
}

fn is_one_of(pid: i32, pids: &[u32]) -> bool {
    pids.iter().any(|other| i32::try_from(*other) == Ok(pid))
}

/// What a process has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Bytes read.
    pub(crate) read: u64,
    /// Bytes written anywhere.
    pub(crate) written: u64,
    /// Clock ticks on a processor.
    pub(crate) ticks: u64,
}

impl Usage {
    /// What was done since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
            ticks: self.ticks.saturating_sub(before.ticks),
        }
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            read: sum.read + one.read,
            written: sum.written + one.written,
            ticks: sum.ticks + one.ticks,
        })
    }
}

/// What `root` and each of its descendants have done (proc_pid_io(5), proc_pid_stat(5)). Unreadable processes are left out.
pub(crate) fn usage_below(root: u32) -> HashMap<i32, Usage> {
    let processes = Processes::read();
    let below = processes.0.iter().filter(|(pid, _)| is_below(**pid, root, &processes));
    below.filter_map(|(pid, stat)| Some((*pid, usage(*pid, stat.ticks)?))).collect()
}

/// `root` and its descendants.
pub(crate) fn pid_and_descendants(root: u32) -> Vec<i32> {
    let processes = Processes::read();
    processes.0.keys().copied().filter(|pid| is_below(*pid, root, &processes)).collect()
}

fn is_below(pid: i32, root: u32, processes: &Processes) -> bool {
    processes.lineage(pid).any(|(pid, _)| is_one_of(pid, &[root]))
}

fn usage(pid: i32, ticks: u64) -> Option<Usage> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let counter = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    // `wchar` counts system calls; `write_bytes` also counts writes to disk through mapped memory.
    let written = counter("wchar:").max(counter("write_bytes:"))?;
    Some(Usage { read: counter("rchar:")?, written, ticks })
}

/// The present descendants of this process.
pub(crate) fn all_descendants() -> Vec<u32> {
    Processes::read().descendants(&[]).into_iter().map(i32::unsigned_abs).collect()
}

/// Sends SIGKILL to every descendant, and reaps the dead ones.
///
/// This process must be a child subreaper, so that it inherits orphans.
pub(super) fn kill_descendants() {
    let processes = Processes::read();
    processes.signal(&processes.descendants(&[]), Signal::KILL);
}

/// Kills the remains of a lost reaper, except the subtrees of its guards if these `have_time`. Returns whether there were any.
///
/// Spares the subtrees of `spared`, and this process's own Unix session, which every guard leaves.
pub(crate) fn kill_orphans(spared: &[u32], have_time: bool) -> bool {
    let own = getpid().as_raw_pid();
    let processes = Processes::read();
    // Not getsid(2): it returns 0 for a leader outside this PID namespace, and `rustix` requires a positive number.
    let Some(unix_session) = processes.0.get(&own).map(|stat| stat.unix_session) else { return false };
    let find = |pid: &i32| processes.0.get(pid).filter(|stat| stat.unix_session != unix_session);
    let mut orphans = processes.descendants(spared);
    orphans.retain(|pid| find(pid).is_some());
    let has_remains = !orphans.is_empty();
    if have_time {
        let is_guard = |pid: &i32| find(pid).is_some_and(|stat| stat.parent == own && stat.is_supervisor);
        let guards: Vec<i32> = orphans.iter().copied().filter(is_guard).collect();
        // A suspended one continues, and a dead one is reaped.
        processes.signal(&guards, Signal::CONT);
        orphans.retain(|pid| !processes.lineage(*pid).any(|(pid, _)| guards.contains(&pid)));
    }
    processes.signal(&orphans, Signal::KILL);
    has_remains
}

/// Reaps one dead child, if there is one. The error means that this process has no children.
pub(crate) fn reap_any() -> rustix::io::Result<Option<(Pid, rustix::process::WaitStatus)>> {
    wait(WaitOptions::NOHANG)
}

/// A process and its ancestors, nearest first.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ancestry {
    pub(crate) pids: Vec<i32>,
    /// Those of them that call themselves guards or reapers, of this or of another mcpd.
    pub(crate) supervisors: Vec<i32>,
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
    let mut read = Ancestry::default();
    while pid > 1 && read.pids.len() < MAX_ANCESTORS {
        read.pids.push(pid);
        let Some(stat) = stat(pid) else { return Ancestry { end: AncestryEnd::Unreadable, ..read } };
        if stat.is_supervisor {
            read.supervisors.push(pid);
        }
        pid = stat.parent;
    }
    let end = if pid <= 1 { AncestryEnd::Root } else { AncestryEnd::Unsettled };
    Ancestry { end, ..read }
}
