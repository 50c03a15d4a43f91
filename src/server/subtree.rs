//! Process ancestry, read from `/proc`.
//!
//! Guards and the reaper use it to kill their subtrees, and the daemon to kill the remains of a lost reaper. The daemon also uses it to
//! refuse connections of descendants of servers.
//!
//! A process that forks and exits at once is gone before a look at all processes ends. So what is below a process is read from lists of
//! children, which takes microseconds, and is stopped before it is killed: see [`kill`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read;
use std::iter::Sum;
use std::path::Path;
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::getsid;
use rustix::io::Errno;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, wait, waitpid};

/// The names of guards and reapers.
pub(super) const GUARD: &str = "mcpd-guard";
pub(super) const REAPER: &str = "mcpd-reaper";

/// Room for a list of children. A list that is read in parts may lack more of them.
const LIST: usize = 4 << 10;
/// Passes until what was found is killed in any case. Where others may signal these processes, they could continue them without end.
const MAX_PASSES: u32 = 100;

/// Fields of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stat {
    is_dead: bool,
    parent: i32,
    unix_session: i32,
    /// Clock ticks in user and kernel mode.
    ticks: u64,
    /// The same of ended children that it has waited for.
    ticks_of_ended: u64,
    /// When it was started, in clock ticks. Tells it from a later process with the same id.
    started: u64,
    /// Whether it calls itself a guard or a reaper.
    is_supervisor: bool,
}

/// The fields follow the command, which may contain spaces and brackets (proc(5)).
fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, fields) = text.split_once('(')?.1.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let is_dead = ["Z", "X"].contains(&fields.next()?);
    let parent = fields.next()?.parse().ok()?;
    let unix_session = fields.nth(1)?.parse().ok()?;
    let [user, kernel]: [u64; 2] = [fields.nth(7)?.parse().ok()?, fields.next()?.parse().ok()?];
    let [ended_user, ended_kernel]: [u64; 2] = [fields.next()?.parse().ok()?, fields.next()?.parse().ok()?];
    let started = fields.nth(4)?.parse().ok()?;
    let is_supervisor = [GUARD, REAPER].contains(&name);
    let (ticks, ticks_of_ended) = (user + kernel, ended_user + ended_kernel);
    Some(Stat { is_dead, parent, unix_session, ticks, ticks_of_ended, started, is_supervisor })
}

/// The children of `pid` (proc_pid_children(5)); each thread has its own. The list may lack some if one of them ends meanwhile.
fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| {
        let mut list = String::with_capacity(LIST);
        File::open(thread.path().join("children")).ok()?.read_to_string(&mut list).ok()?;
        Some(list.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<_>>())
    });
    lists.flatten().collect()
}

/// Readable processes at one moment. Older ones come first, as long as ids are not used again: a wrapper before what it wraps.
pub(super) struct Processes(BTreeMap<i32, Stat>);

impl Processes {
    /// This process and those below it, except the subtrees of `spared`.
    pub(super) fn below_this(spared: &[u32]) -> Self {
        Self::below(getpid().as_raw_pid(), spared)
    }

    /// `root` and the processes below it, except the subtrees of `spared`.
    fn below(root: i32, spared: &[u32]) -> Self {
        Self::visit(root, spared, |_, _| {})
    }

    /// Calls `found` with each of them as soon as it is read, after its ancestors and before its children are. The youngest come first:
    /// of processes that fork and exit, these are alive.
    fn visit(root: i32, spared: &[u32], mut found: impl FnMut(&Self, i32)) -> Self {
        if !Path::new("/proc/thread-self/children").exists() {
            let processes = Self::all().cut_down(root, spared);
            processes.0.keys().for_each(|pid| found(&processes, *pid));
            return processes;
        }
        let mut processes = Self(BTreeMap::new());
        let mut unread = vec![root];
        while let Some(pid) = unread.pop() {
            let Some(stat) = stat(pid).filter(|_| !is_one_of(pid, spared)) else { continue };
            if processes.0.insert(pid, stat).is_none() {
                found(&processes, pid);
                if !stat.is_dead {
                    unread.extend(children(pid));
                }
            }
        }
        processes
    }

    /// All processes of the machine.
    fn all() -> Self {
        let Ok(entries) = fs::read_dir("/proc") else { return Self(BTreeMap::new()) };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(pids.filter_map(|pid| Some((pid, stat(pid)?))).collect())
    }

    /// The same as [`Self::below`], for a kernel without lists of children.
    fn cut_down(self, root: i32, spared: &[u32]) -> Self {
        let is_below = |pid: i32| {
            let mut ancestors = self.lineage(pid).map(|(pid, _)| pid);
            ancestors.find(|pid| *pid == root || is_one_of(*pid, spared)) == Some(root)
        };
        Self(self.0.iter().filter(|(pid, _)| is_below(**pid)).map(|(pid, stat)| (*pid, *stat)).collect())
    }

    /// `pid` and its ancestors, nearest first. Ids that were reused while they were read may form a circle.
    fn lineage(&self, pid: i32) -> impl Iterator<Item = (i32, &Stat)> {
        let stat = |pid| Some((pid, self.0.get(&pid)?));
        std::iter::successors(stat(pid), move |(_, child)| stat(child.parent)).take(self.0.len())
    }

    /// The descendants of this process among them.
    pub(super) fn descendants(&self) -> Vec<i32> {
        self.0.keys().copied().filter(|pid| self.is_descendant(*pid)).collect()
    }

    /// Whether `pid` is a descendant of this process.
    pub(super) fn is_descendant(&self, pid: i32) -> bool {
        let own = getpid().as_raw_pid();
        pid != own && self.lineage(pid).any(|(_, stat)| stat.parent == own)
    }

    /// The one of `leaders` whose Unix session `pid` belongs to, or else its nearest ancestor.
    pub(super) fn session_leader(&self, pid: i32, leaders: &[u32]) -> Option<u32> {
        self.lineage(pid)
            .map(|(_, stat)| stat.unix_session)
            .find(|leader| is_one_of(*leader, leaders))
            .map(i32::cast_unsigned)
    }

    fn is_dead(&self, pid: i32) -> bool {
        self.0.get(&pid).is_some_and(|stat| stat.is_dead)
    }

    /// Sends `signal` to each of these.
    pub(super) fn signal(&self, pids: &[i32], signal: Signal) {
        for pid in pids {
            // A pidfd refers to one process. Its id may have been reused since it was read in `/proc`, so the process is compared below.
            let Some(Ok(pidfd)) = Pid::from_raw(*pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { continue };
            let started = |stat: &Stat| stat.started;
            if stat(*pid).as_ref().map(started) == self.0.get(pid).map(started) {
                // An error means that the process is gone, as intended.
                let _ = pidfd_send_signal(pidfd, signal);
            }
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
pub(crate) struct ProcessUsage {
    /// Bytes read.
    pub(crate) read: u64,
    /// Bytes written anywhere.
    pub(crate) written: u64,
    /// Clock ticks on a processor.
    pub(crate) ticks: u64,
}

impl ProcessUsage {
    /// What was done since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
            ticks: self.ticks.saturating_sub(before.ticks),
        }
    }
}

impl Sum for ProcessUsage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            read: sum.read + one.read,
            written: sum.written + one.written,
            ticks: sum.ticks + one.ticks,
        })
    }
}

/// What `root` and each of its descendants have done (proc_pid_io(5), proc_pid_stat(5)). Unreadable processes are left out.
pub(crate) fn usage_below(root: u32) -> HashMap<i32, ProcessUsage> {
    let below = Processes::below(root.cast_signed(), &[]).0.into_iter();
    below.filter_map(|(pid, stat)| Some((pid, usage(pid, stat.ticks)?))).collect()
}

/// What a process and all below it use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SubtreeUsage {
    /// Bytes of their own memory.
    pub(crate) memory: u64,
    /// Time on a processor, ended processes included.
    pub(crate) cpu: Duration,
    /// Number of living processes.
    pub(crate) processes: u64,
}

/// What `root` and its descendants use; `None` if it has ended.
///
/// Memory is resident memory without pages of files and of shared memory. A proportional size (`smaps_rollup`) costs 50 times as much
/// to read, and the kernel shows it only for some processes.
pub(crate) fn subtree_usage(root: u32) -> Option<SubtreeUsage> {
    let root = root.cast_signed();
    let below = Processes::below(root, &[]).0;
    below.get(&root).filter(|stat| !stat.is_dead)?;
    let ticks = below.values().map(|stat| stat.ticks + stat.ticks_of_ended).sum::<u64>();
    let living = below.iter().filter(|(_, stat)| !stat.is_dead).map(|(pid, _)| own_memory(*pid));
    let (memory, processes) = living.fold((0, 0), |(memory, count), own| (memory + own.unwrap_or_default(), count + 1));
    let cpu = Duration::from_millis(ticks * 1_000 / clock_ticks_per_second().max(1));
    Some(SubtreeUsage { memory, cpu, processes })
}

/// Bytes of resident memory that belongs to no file and is not shared (proc_pid_statm(5)).
fn own_memory(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut pages = text.split_ascii_whitespace().skip(1).map_while(|field| field.parse::<u64>().ok());
    let (resident, shared) = (pages.next()?, pages.next()?);
    Some(resident.saturating_sub(shared) * page_size() as u64)
}

/// `root` and its descendants.
pub(crate) fn pid_and_descendants(root: u32) -> Vec<i32> {
    Processes::below(root.cast_signed(), &[]).0.into_keys().collect()
}

fn usage(pid: i32, ticks: u64) -> Option<ProcessUsage> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let counter = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    // `wchar` counts system calls; `write_bytes` also counts writes to disk through mapped memory.
    let written = counter("wchar:").max(counter("write_bytes:"))?;
    Some(ProcessUsage { read: counter("rchar:")?, written, ticks })
}

/// The present descendants of this process.
pub(crate) fn all_descendants() -> Vec<u32> {
    Processes::below_this(&[]).descendants().into_iter().map(i32::unsigned_abs).collect()
}

/// Kills the descendants of this process that `select` chooses, except the subtrees of `spared`, and reaps the dead ones. Returns whether
/// there were any alive. Other parts of this process wait for those of its children that it `may_reap` not.
///
/// It stops each as soon as it finds it, and all again until a pass finds none that was not found before. A stopped process can neither
/// fork nor continue another one, and it keeps its place where their number is limited, while a killed one makes room for the next. A
/// process that was forked meanwhile by one that has ended is a child of this one, which must be a child subreaper: so repeat this until
/// no child is left.
pub(super) fn kill(spared: &[u32], may_reap: impl Fn(i32) -> bool, select: impl Fn(&Processes, i32) -> bool) -> bool {
    let mut stopped = HashSet::new();
    for pass in 1.. {
        // Processes that fork and exit leave dead ones faster than these can be read, until the system has no id left.
        reap_while(&may_reap);
        let (mut alive, mut has_new) = (Vec::new(), false);
        let processes = Processes::visit(getpid().as_raw_pid(), spared, |processes, pid| {
            if !processes.is_descendant(pid) || !select(processes, pid) {
                return;
            }
            if processes.is_dead(pid) {
                reap(pid);
            } else {
                processes.signal(&[pid], Signal::STOP);
                has_new |= stopped.insert(pid);
                alive.push(pid);
            }
        });
        if !has_new || pass == MAX_PASSES {
            processes.signal(&alive, Signal::KILL);
            break;
        }
    }
    !stopped.is_empty()
}

/// Kills the remains of a lost reaper, except the subtrees of its guards if these `have_time`. Returns whether there were any.
///
/// Spares the subtrees of `spared`, and this process's own Unix session, which every guard leaves.
pub(crate) fn kill_orphans(spared: &[u32], have_time: bool) -> bool {
    let own = getpid().as_raw_pid();
    let is_left = |processes: &Processes, pid: i32| {
        // Not getsid(2): it returns 0 for a leader outside this PID namespace, and `rustix` requires a positive number.
        let unix_session = |pid: &i32| processes.0.get(pid).map(|stat| stat.unix_session);
        processes.is_descendant(pid) && unix_session(&pid) != unix_session(&own)
    };
    let may_reap = |pid: i32| getsid(Some(nix::unistd::Pid::from_raw(pid))) != getsid(None);
    reap_while(may_reap);
    let processes = Processes::below_this(spared);
    let left: Vec<_> = processes.0.iter().filter(|(pid, _)| is_left(&processes, **pid)).collect();
    let guards: Vec<i32> = left
        .iter()
        .filter(|(_, stat)| have_time && stat.parent == own && stat.is_supervisor)
        .map(|(pid, _)| **pid)
        .collect();
    guards.iter().for_each(|pid| reap(*pid));
    // A suspended one continues.
    processes.signal(&guards, Signal::CONT);
    let with_time: Vec<u32> = guards.iter().map(|pid| pid.unsigned_abs()).collect();
    kill(&[spared, &with_time].concat(), may_reap, is_left);
    !left.is_empty()
}

/// Reaps dead children up to the first that it `may_reap` not.
fn reap_while(may_reap: impl Fn(i32) -> bool) {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    while let Ok(status) = waitid(Id::All, flags)
        && let Some(pid) = status.pid().map(nix::unistd::Pid::as_raw).filter(|pid| may_reap(*pid))
    {
        reap(pid);
    }
}

/// Reaps `pid` if it is a dead child.
fn reap(pid: i32) {
    if let Some(child) = Pid::from_raw(pid) {
        let _ = waitpid(Some(child), WaitOptions::NOHANG);
    }
}

/// Reaps one dead child, if there is one. The error means that this process has no children.
pub(crate) fn reap_any() -> rustix::io::Result<Option<(Pid, rustix::process::WaitStatus)>> {
    wait(WaitOptions::NOHANG)
}

/// Reaps all dead children. Returns whether others are left.
pub(super) fn reap_all() -> bool {
    loop {
        match reap_any() {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(error) => return error != Errno::CHILD,
        }
    }
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

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::time::Instant;

    use super::*;

    #[test]
    fn usage_of_a_subtree_has_its_memory_its_time_and_its_processes() {
        let own = std::process::id();
        let before = subtree_usage(own).expect("this process");
        let memory = black_box(vec![1_u8; 64 << 20]);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(100) {
            black_box(memory.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        }
        let after = subtree_usage(own).expect("this process");
        assert!(after.memory >= before.memory + (32 << 20), "{before:?} {after:?}");
        assert!(after.cpu > before.cpu, "{before:?} {after:?}");
        assert!(after.processes >= 1, "{after:?}");
        assert_eq!(subtree_usage(u32::MAX >> 1), None, "no such process");
    }
}
