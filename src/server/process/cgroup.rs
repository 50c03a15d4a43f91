//! A cgroup for each instance, below the cgroup that is delegated to mcpd.
//!
//! ```text
//! mcpd.service/             delegated with `mcpd serve --own-cgroup`; holds no processes once its controllers are enabled
//! ├── daemon/               mcpd and its reaper: cpu.weight
//! └── server-NAME-NUMBER/   one instance and its guard: memory.max, memory.oom.group, pids.max, cpu.weight
//! ```
//!
//! A cgroup is made before its guard, which it receives before the server starts. The reaper has its `cgroup.kill`. An instance whose
//! limits cannot be enforced runs without them, and [`Enforcement`] has the reason.
//!
//! [`Limits`] are the limits of an instance, with the defaults that depend on the machine. [`tree`] takes over the delegated cgroup. Source: kernel, `admin-guide/cgroup-v2`. Each
//! access runs on a helper thread with a time limit, as moving a process can wait for others in the kernel.

mod tree;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use self::tree::Tree;
use crate::config::{CPU_WEIGHT, Limit, ServerConfig, Settings};
use crate::server::start_error::ReachedLimit;

/// Time to take over the delegated cgroup, and to create one for an instance.
const CREATE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time to read the events of a cgroup. Must be shorter than the time in which the exit status has to arrive (`EXIT_GRACE`, 0.5 s).
const READ_TIMEOUT: Duration = Duration::from_millis(300);
/// Time to remove a cgroup after its last process has ended.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(1);
const SILENT: &str = "the system does not answer";
/// Delay between attempts to remove a cgroup: a process leaves it shortly after its end.
const RETRY_DELAY: Duration = Duration::from_millis(10);

/// Creates cgroups for instances. Cheap to clone. The default has no delegated cgroup.
#[derive(Debug, Clone, Default)]
pub struct Cgroups(Arc<CgroupState>);

#[derive(Debug, Default)]
struct CgroupState {
    /// The cgroup of this process is delegated to it.
    given: bool,
    /// The program before may have moved this process into a part of it.
    is_successor: bool,
    /// The delegated cgroup, or why it cannot be used. Set by the first instance.
    tree: OnceCell<Result<Tree, Arc<str>>>,
    made: AtomicU64,
    /// A warning that limits are not enforced was logged.
    has_warned: AtomicBool,
}

/// The cgroup of one instance. Dropping it kills its processes and removes it.
#[derive(Debug)]
pub(in crate::server) struct Cgroup {
    limits: Limits,
    /// `None` once it is being removed.
    path: Option<PathBuf>,
    /// Its `cgroup.kill`. Kernels before 5.14 have none.
    kill: Option<OwnedFd>,
}

impl Cgroups {
    /// For a process whose cgroup is delegated to it, as systemd does with `Delegate=`.
    ///
    /// `is_successor`: the program before this one in the same process may have divided it.
    #[must_use]
    pub fn of_own(is_successor: bool) -> Self {
        Self(Arc::new(CgroupState { given: true, is_successor, ..CgroupState::default() }))
    }

    /// Creates a cgroup with those limits of the server that can be enforced. `supervisors` processes of mcpd will be in it, too. Returns
    /// within a few seconds.
    pub(in crate::server) async fn create(
        &self,
        config: &ServerConfig,
        supervisors: usize,
    ) -> (Option<Cgroup>, Enforcement) {
        let (server, limits) = (&*config.name, Limits::of(&config.settings));
        let tree = match self.0.tree.get_or_init(|| self.take_over()).await {
            Ok(tree) => tree.clone(),
            Err(reason) => return (None, limits.enforcement(|_| false, Arc::clone(reason))),
        };
        let enforcement = tree.enforcement(limits);
        let (state, prefix) = (Arc::clone(&self.0), format!("server-{server}-"));
        let making = spawn_blocking(move || {
            loop {
                let name = format!("{prefix}{}", state.made.fetch_add(1, Ordering::Relaxed) + 1);
                match tree.create(&name, limits, supervisors) {
                    // A killed daemon has left it, with processes that still end.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    made => return made,
                }
            }
        });
        // A cgroup that is created too late is dropped on its thread, and so removed.
        match timeout(CREATE_TIMEOUT, making).await {
            Ok(Ok(Ok(cgroup))) => (Some(cgroup), enforcement),
            Ok(Ok(Err(error))) => (None, not_made(server, limits, &error.to_string())),
            Ok(Err(_)) | Err(_) => (None, not_made(server, limits, SILENT)),
        }
    }

    async fn take_over(&self) -> Result<Tree, Arc<str>> {
        if let Some(reason) = tree::version_1() {
            return Err(reason.into());
        }
        if !self.0.given {
            return Err("mcpd has no cgroup of its own".into());
        }
        let is_successor = self.0.is_successor;
        match timeout(CREATE_TIMEOUT, spawn_blocking(move || Tree::take_over(is_successor))).await {
            Ok(Ok(taken)) => taken.map_err(Arc::from),
            Ok(Err(_)) | Err(_) => Err("the cgroup of mcpd does not answer".into()),
        }
    }

    /// Logs once that configured limits are not enforced, as the reason is usually the same for every instance of every server.
    pub(in crate::server) fn warn_once(&self, enforcement: &Enforcement) {
        let Some(reason) = enforcement.reason().filter(|_| enforcement.breaks_configuration()) else { return };
        if !self.0.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("limits of servers are not enforced: {reason}");
        }
    }
}

fn not_made(server: &str, limits: Limits, error: &str) -> Enforcement {
    tracing::warn!(server, "its limits are not enforced: its cgroup cannot be made: {error}");
    limits.enforcement(|_| false, format!("its cgroup cannot be made: {error}"))
}

impl Cgroup {
    /// Its `cgroup.kill`, open for writing.
    pub(super) fn kill_file(&self) -> Option<BorrowedFd<'_>> {
        self.kill.as_ref().map(AsFd::as_fd)
    }

    /// Moves the process `guard` into it. Its future descendants start there. If the process ends meanwhile, its number must not be
    /// reused within [`CREATE_TIMEOUT`].
    ///
    /// # Errors
    /// The enforcement of its limits, if the process was not moved.
    pub(super) async fn admit(&self, server: &str, guard: u32) -> Result<(), Enforcement> {
        let (procs, deadline) =
            (self.path.as_ref().map(|path| path.join("cgroup.procs")), Instant::now() + CREATE_TIMEOUT);
        let moving = spawn_blocking(move || match procs {
            Some(procs) if Instant::now() < deadline => fs::write(procs, guard.to_string()),
            _ => Err(io::ErrorKind::TimedOut.into()),
        });
        match timeout(CREATE_TIMEOUT, moving).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(not_made(server, self.limits, &error.to_string())),
            Ok(Err(_)) | Err(_) => Err(not_made(server, self.limits, SILENT)),
        }
    }

    /// The limit that caused the end of the instance, if any.
    pub(super) async fn limit_reached(&self) -> Option<ReachedLimit> {
        let (path, limits) = (self.path.clone()?, self.limits);
        let reading = spawn_blocking(move || {
            let read = |name| fs::read_to_string(path.join(name)).unwrap_or_default();
            limit_reached(limits, &read("memory.events"), &read("pids.events"))
        });
        timeout(READ_TIMEOUT, reading).await.ok()?.ok()?
    }

    /// Kills its remaining processes and removes it. Gives up after [`REMOVE_TIMEOUT`] with a warning.
    pub(super) async fn remove(mut self) {
        if let Some(path) = self.path.take() {
            remove_cgroup(path).await;
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let (Some(path), Ok(runtime)) = (self.path.take(), Handle::try_current()) {
            runtime.spawn(remove_cgroup(path));
        }
    }
}

async fn remove_cgroup(path: PathBuf) {
    let start = Instant::now();
    while start.elapsed() < REMOVE_TIMEOUT {
        let attempt = path.clone();
        if let Ok(Ok(Ok(()))) = timeout(REMOVE_TIMEOUT, spawn_blocking(move || remove(&attempt))).await {
            return;
        }
        sleep(RETRY_DELAY).await;
    }
    tracing::warn!(cgroup = %path.display(), "this cgroup could not be removed");
}

/// Kills the processes in a cgroup, which exist only if the guard was lost. Then removes it with its child cgroups.
fn remove(path: &Path) -> io::Result<()> {
    // Kernels before 5.14 have no `cgroup.kill`. There, only the reaper kills the remains of a lost guard.
    let _ = fs::write(path.join("cgroup.kill"), "1");
    remove_empty(path)
}

fn remove_empty(path: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(()) => return Ok(()),
        Err(_) => {}
    }
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type()?.is_dir() {
            remove_empty(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

/// The limit that caused the end of an instance, if any. `memory` and `pids` are the contents of `memory.events` and
/// `pids.events`, empty if missing.
pub(super) fn limit_reached(limits: Limits, memory: &str, pids: &str) -> Option<ReachedLimit> {
    if count(memory, "oom_kill") > 0 {
        // `oom` is counted in the cgroup whose limit was reached: this one, or one above it.
        let own =
            limits.memory_max.max.filter(|_| count(memory, "oom") > 0).and_then(|limit| u64::try_from(limit).ok());
        return Some(ReachedLimit::Memory(own));
    }
    limits.tasks_max.max.filter(|_| count(pids, "max") > 0).map(ReachedLimit::Processes)
}

/// The number on the line that starts with `key`.
fn count(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// A resource that is limited, by the name of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitKey {
    /// Memory.
    MemoryMax,
    /// Processes and threads.
    TasksMax,
    /// The share of the processors.
    CpuWeight,
}

impl LimitKey {
    /// The key of the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryMax => "memory_max",
            Self::TasksMax => "tasks_max",
            Self::CpuWeight => "cpu_weight",
        }
    }

    /// The controller that enforces it (kernel, `admin-guide/cgroup-v2`).
    pub(crate) fn controller(self) -> &'static str {
        match self {
            Self::MemoryMax => "memory",
            Self::TasksMax => "pids",
            Self::CpuWeight => "cpu",
        }
    }
}

/// Resource limits of one instance with all its descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Memory in bytes. An instance that exceeds it is killed and restarted.
    pub memory_max: Limit,
    /// Processes and threads. Creating one more fails.
    pub tasks_max: Limit,
    /// The share of the processors.
    pub cpu_weight: usize,
}

impl Limits {
    /// The limits of each instance of a server with these settings, on this machine.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let Settings { mut memory_max, tasks_max, cpu_weight, .. } = *settings;
        if memory_max.is_default {
            // An error leaves it without a limit.
            memory_max.max =
                nix::sys::sysinfo::sysinfo().ok().and_then(|info| usize::try_from(info.ram_total() / 2).ok());
        }
        Self { memory_max, tasks_max, cpu_weight }
    }

    /// The limits that differ from what an instance has in any case, and whether the configuration has a value.
    fn keys(&self) -> impl Iterator<Item = (LimitKey, bool)> {
        let maxima = [(LimitKey::MemoryMax, self.memory_max), (LimitKey::TasksMax, self.tasks_max)].into_iter();
        let maxima = maxima.filter_map(|(key, limit)| Some((key, limit.max.map(|_| !limit.is_default)?)));
        maxima.chain((self.cpu_weight != CPU_WEIGHT).then_some((LimitKey::CpuWeight, true)))
    }

    /// That all of these are enforced which `is_enforced` is true of. The others are not, for this reason.
    pub(super) fn enforcement(
        &self,
        is_enforced: impl Fn(LimitKey) -> bool,
        reason: impl Into<Arc<str>>,
    ) -> Enforcement {
        Enforcement { not_enforced: self.keys().filter(|(key, _)| !is_enforced(*key)).collect(), reason: reason.into() }
    }
}

/// Which limits of an instance are not enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enforcement {
    /// Each with whether the configuration has a value for it. Empty: all limits are enforced.
    not_enforced: Vec<(LimitKey, bool)>,
    /// Why not: one line of text.
    reason: Arc<str>,
}

impl Enforcement {
    /// The limits that are not enforced.
    pub fn not_enforced(&self) -> impl Iterator<Item = LimitKey> {
        self.not_enforced.iter().map(|(key, _)| *key)
    }

    /// Why they are not enforced. `None` if all are.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        (!self.not_enforced.is_empty()).then_some(&*self.reason)
    }

    /// Whether the configuration names any of them.
    #[must_use]
    pub fn breaks_configuration(&self) -> bool {
        self.not_enforced.iter().any(|(_, is_configured)| *is_configured)
    }

    /// Another mechanism has to enforce `key`. Returns whether it was missing.
    pub(in crate::server) fn enforce_otherwise(&mut self, key: LimitKey) -> bool {
        self.not_enforced.extract_if(.., |(missing, _)| *missing == key).count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limit;
    use crate::server::start_error::Exit;

    const fn limit(max: usize) -> Limit {
        Limit { max: Some(max), is_default: false }
    }

    const NONE: Limits = Limits { memory_max: Limit::NONE, tasks_max: Limit::NONE, cpu_weight: 100 };
    const MEMORY: Limits = Limits { memory_max: limit(512 << 20), ..NONE };
    const TASKS: Limits = Limits { tasks_max: limit(64), ..NONE };
    const BOTH: Limits = Limits { memory_max: limit(1000), ..TASKS };

    #[test]
    fn limit_is_named_as_the_cause_only_if_the_kernel_counted_it() {
        let calm = "low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n";
        let over = "low 0\nhigh 0\nmax 90\noom 1\noom_kill 3\noom_group_kill 1\n";
        let old = "low 0\nhigh 0\nmax 90\noom 2\noom_kill 1\n";
        let elsewhere = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\n";
        let refused = "max 7\n";
        let text = |limit| Exit { code: Some(1), limit: Some(limit), signal: None }.to_string();
        let machine = Some("was killed: the machine, or mcpd as a whole, was out of memory");
        let table = [
            (MEMORY, calm, "", None),
            (MEMORY, over, "", Some("was killed: over its memory limit of 512MiB")),
            (MEMORY, old, "", Some("was killed: over its memory limit of 512MiB")),
            (BOTH, over, refused, Some("was killed: over its memory limit of 1000B")),
            (MEMORY, elsewhere, "", machine),
            (TASKS, elsewhere, "max 0\n", machine),
            (TASKS, "", refused, Some("exited with code 1; it had reached its limit of 64 tasks")),
            (BOTH, calm, refused, Some("exited with code 1; it had reached its limit of 64 tasks")),
            (TASKS, "", "max 0\n", None),
            (MEMORY, "", refused, None),
            (BOTH, "", "", None),
            (BOTH, "oom_kill\noom_kill many\n", "max -1\n", None),
        ];
        for (limits, memory, pids, expected) in table {
            let found = limit_reached(limits, memory, pids).map(text);
            assert_eq!(found.as_deref(), expected, "{limits:?} {memory:?} {pids:?}");
        }
    }
}
