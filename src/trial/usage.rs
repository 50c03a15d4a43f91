//! What a server on trial uses: disk, memory and processes, sampled by a helper thread.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::server::{ServerHandle, ancestry, pid_and_descendants};

/// Pause between two samples.
const PAUSE: Duration = Duration::from_millis(200);
/// Samples of memory and processes for each one of the disk.
const SAMPLES_PER_LOOK_AT_DISK: u32 = 5;
/// Bytes of a block in the count of a file.
const BLOCK: u64 = 512;
/// What a file or directory counts at least, for its inode.
const ENTRY: u64 = 256;
/// A tree that is deeper counts as one that fills the disk.
const MAX_DEPTH: usize = 200;

/// What was used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Bytes on disk at the last look.
    pub(super) disk: u64,
    /// The most memory of all processes together.
    pub(super) peak_memory: Option<u64>,
    /// The most processes at once.
    pub(super) processes: usize,
}

/// Samples what a server uses, until it is dropped.
pub(super) struct Sampler {
    latest: watch::Receiver<Usage>,
    task: JoinHandle<()>,
}

impl Sampler {
    /// `limit` is that of the disk: there is no use in counting beyond.
    pub(super) fn start(server: ServerHandle, directory: PathBuf, limit: u64) -> Self {
        let (sender, latest) = watch::channel(Usage::default());
        let task = tokio::spawn(async move {
            for number in 0.. {
                let (guard, pid) = {
                    let published = server.published();
                    (published.guard_pid, published.pid)
                };
                let at = (number % SAMPLES_PER_LOOK_AT_DISK == 0).then(|| directory.clone());
                let sampled = spawn_blocking(move || Sample::take(guard, pid, at.as_deref(), limit)).await;
                if let Ok(sample) = sampled {
                    sender.send_if_modified(|usage| sample.add_to(usage));
                }
                sleep(PAUSE).await;
            }
        });
        Self { latest, task }
    }

    pub(super) fn usage(&self) -> Usage {
        *self.latest.borrow()
    }

    /// Waits for another sample. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Usage {
        if self.latest.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        self.usage()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Sample {
    disk: Option<u64>,
    memory: Option<u64>,
    processes: usize,
}

impl Sample {
    fn take(guard: Option<u32>, server: Option<u32>, directory: Option<&Path>, limit: u64) -> Self {
        let processes = guard.zip(server).map(|(guard, server)| below(guard, server)).unwrap_or_default();
        let memory: Vec<_> = processes.iter().filter_map(|pid| memory(*pid)).collect();
        let disk = directory.map(|directory| disk(directory, limit).saturating_add(unlinked(&processes, directory)));
        let memory = (!memory.is_empty()).then(|| memory.iter().sum());
        Self { disk, memory, processes: processes.len() }
    }

    /// Returns whether that changes anything.
    fn add_to(&self, usage: &mut Usage) -> bool {
        let before = *usage;
        usage.disk = self.disk.unwrap_or(usage.disk);
        usage.peak_memory = usage.peak_memory.max(self.memory);
        usage.processes = usage.processes.max(self.processes);
        *usage != before
    }
}

/// The processes below the guard, without mcpd's own above the server.
fn below(guard: u32, server: u32) -> Vec<i32> {
    let server = server.cast_signed();
    let above = ancestry(server).pids;
    let mut all = pid_and_descendants(guard);
    all.retain(|pid| *pid == server || !above.contains(pid));
    all
}

/// The memory of a process in bytes: its share of what it has in common with others.
fn memory(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let share = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    share.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// The bytes on disk of everything below `directory`. Stops counting beyond `limit`.
fn disk(directory: &Path, limit: u64) -> u64 {
    let Ok(root) = open(CWD, directory) else { return 0 };
    let (mut total, mut open_directories) = (0_u64, Vec::from_iter(listing(root)));
    while let Some((directory, list)) = open_directories.last_mut() {
        if total > limit {
            return total;
        }
        let Some(Ok(entry)) = list.next() else {
            open_directories.pop();
            continue;
        };
        if [c".", c".."].contains(&entry.file_name()) {
            continue;
        }
        let Ok(stat) = statat(&*directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        total = total.saturating_add(u64::try_from(stat.st_blocks).unwrap_or_default() * BLOCK + ENTRY);
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            if open_directories.len() == MAX_DEPTH {
                return u64::MAX;
            }
            let inner = open(&open_directories[open_directories.len() - 1].0, entry.file_name());
            open_directories.extend(inner.ok().and_then(listing));
        }
    }
    total
}

fn open(parent: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    openat(parent, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn listing(directory: OwnedFd) -> Option<(OwnedFd, Dir)> {
    let list = Dir::read_from(&directory).ok()?;
    Some((directory, list))
}

/// The bytes of files on the same disk that these processes have open and have removed already.
fn unlinked(processes: &[i32], directory: &Path) -> u64 {
    let Ok(device) = fs::metadata(directory).map(|found| found.dev()) else { return 0 };
    let mut seen = BTreeSet::new();
    let descriptors = processes.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok()).flatten();
    let files = descriptors.flatten().filter_map(|entry| fs::metadata(entry.path()).ok());
    let mut left = files.filter(|file| file.is_file() && file.nlink() == 0 && file.dev() == device);
    left.by_ref().filter(|file| seen.insert(file.ino())).map(|file| file.blocks() * BLOCK).sum()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn disk_is_counted_with_unlinked_files_up_to_the_limit() {
        let place = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(place.path().join("a/b")).expect("a fresh directory");
        let before = disk(place.path(), u64::MAX);
        fs::write(place.path().join("a/b/file"), vec![1; 1 << 20]).expect("a fresh file");
        let after = disk(place.path(), u64::MAX);
        assert!(after >= before + (1 << 20), "{before} {after}");
        let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 1).collect();
        fs::create_dir_all(place.path().join(deep)).expect("a fresh directory");
        assert_eq!(disk(place.path(), u64::MAX), u64::MAX);

        let own = [rustix::process::getpid().as_raw_pid()];
        let file = place.path().join("a/b/file");
        let (open, unlinked_before) = (File::open(&file).expect("it exists"), unlinked(&own, place.path()));
        fs::remove_file(&file).expect("it exists");
        assert!(unlinked(&own, place.path()) >= unlinked_before + (1 << 20));
        drop(open);
    }

    #[test]
    fn memory_of_a_process_is_read() {
        assert!(memory(rustix::process::getpid().as_raw_pid()).expect("its own") > 1 << 20);
        assert_eq!(memory(0), None);
    }

    #[test]
    fn peaks_are_kept_and_the_disk_is_the_latest() {
        let mut usage = Usage::default();
        for (disk, memory, processes) in [(Some(5), Some(9), 2), (None, Some(3), 7), (Some(1), None, 0)] {
            Sample { disk, memory, processes }.add_to(&mut usage);
        }
        assert_eq!(usage, Usage { disk: 1, peak_memory: Some(9), processes: 7 });
    }
}
