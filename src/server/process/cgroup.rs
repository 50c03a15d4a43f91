//! A cgroup for each instance that has limits, below the one that mcpd was given for itself.
//!
//! ```text
//! mcpd.service/             given with `mcpd serve --own-cgroup`; holds no process once it hands controllers down
//! ├── daemon/               mcpd, and all that runs without limits
//! └── server-NAME-NUMBER/   one instance and its guard: memory.max, memory.oom.group, pids.max
//! ```
//!
//! Without limits nothing is looked at, moved or made. Where they cannot be had the instance runs without them, and
//! [`Enforcement`] says why.
//!
//! Knows: the files of cgroup v2 (kernel, `admin-guide/cgroup-v2`). Each access is made on a helper thread and waited
//! for a limited time: moving a process waits for others in the kernel. Must not touch: what an instance says. Taking
//! the given cgroup over is in [`tree`], reading what happened in one, pure, in [`events`].

mod events;
mod tree;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use self::tree::Tree;
use crate::config::Limits;
use crate::server::exit::ReachedLimit;

/// For the given cgroup to be taken over, and for an instance's to be made.
const CREATE_TIMEOUT: Duration = Duration::from_secs(2);
/// For what happened in one to be read. Whoever asks how a server ended waits no longer than half a second.
const READ_TIMEOUT: Duration = Duration::from_millis(300);
/// For one to be removed after its last process.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Until the next attempt: a process leaves its cgroup a little after it has ended.
const RETRY_DELAY: Duration = Duration::from_millis(10);

/// Whether the limits of an instance are in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enforcement {
    /// All of them.
    Enforced,
    /// Not all of them; the reason is for a person, on one line.
    NotEnforced(Arc<str>),
}

/// Where cgroups for instances can be made; cheap to clone. The default is nowhere.
#[derive(Debug, Clone, Default)]
pub struct Cgroups(Arc<CgroupState>);

#[derive(Debug, Default)]
struct CgroupState {
    /// The cgroup of this process is given to it.
    given: bool,
    /// The same, taken over, or why it cannot be; by the first instance that has limits.
    tree: OnceCell<Result<Tree, Arc<str>>>,
    made: AtomicU64,
    /// A warning that limits are not enforced was logged.
    has_warned: AtomicBool,
}

/// The cgroup of one instance. Dropping it ends whatever is in it and removes it as soon as that has gone.
#[derive(Debug)]
pub(super) struct Cgroup {
    limits: Limits,
    /// `None` once it is being removed.
    path: Option<PathBuf>,
}

impl Cgroups {
    /// For a process that has its cgroup to itself, to divide as it likes: systemd gives it with `Delegate=`.
    #[must_use]
    pub fn of_own() -> Self {
        Self(Arc::new(CgroupState { given: true, ..CgroupState::default() }))
    }

    /// Puts the process `guard`, with all that it will start, under `limits`. Returns within a few seconds; until then the
    /// process must not be reaped.
    pub(super) async fn create(&self, server: &str, limits: Limits, guard: u32) -> (Option<Cgroup>, Enforcement) {
        let tree = match self.0.tree.get_or_init(|| self.take_over()).await {
            Ok(tree) => tree.clone(),
            Err(reason) => return (None, self.not_enforced(Arc::clone(reason))),
        };
        let missing = tree.missing(limits);
        if let Some(reason) = missing.filter(|_| !tree.has_any(limits)) {
            return (None, self.not_enforced(reason.into()));
        }
        let name = format!("server-{server}-{}", self.0.made.fetch_add(1, Ordering::Relaxed) + 1);
        let too_late = Instant::now() + CREATE_TIMEOUT;
        let making = spawn_blocking(move || tree.create(&name, limits, guard, too_late));
        // One that comes too late is dropped where it was made, and so removed.
        let made = match timeout(CREATE_TIMEOUT, making).await {
            Ok(Ok(Ok(cgroup))) => cgroup,
            Ok(Ok(Err(error))) => return (None, unmade(server, &error.to_string())),
            Ok(Err(_)) | Err(_) => return (None, unmade(server, "the system does not answer")),
        };
        (Some(made), missing.map_or(Enforcement::Enforced, |reason| self.not_enforced(reason.into())))
    }

    async fn take_over(&self) -> Result<Tree, Arc<str>> {
        if !self.0.given {
            return Err("mcpd has no cgroup of its own: see `mcpd serve --own-cgroup`".into());
        }
        match timeout(CREATE_TIMEOUT, spawn_blocking(Tree::take_over)).await {
            Ok(Ok(taken)) => taken.map_err(Arc::from),
            Ok(Err(_)) | Err(_) => Err("the cgroup of mcpd does not answer".into()),
        }
    }

    /// Says so once: for most reasons it is the same for every instance of every server.
    fn not_enforced(&self, reason: Arc<str>) -> Enforcement {
        if !self.0.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("limits of servers are not enforced: {reason}");
        }
        Enforcement::NotEnforced(reason)
    }
}

fn unmade(server: &str, error: &str) -> Enforcement {
    tracing::warn!(server, "its limits are not enforced: its cgroup cannot be made: {error}");
    Enforcement::NotEnforced(format!("its cgroup cannot be made: {error}").into())
}

impl Cgroup {
    /// The limit that had to do with the end of the instance, if one had.
    pub(super) async fn limit_reached(&self) -> Option<ReachedLimit> {
        let (path, limits) = (self.path.clone()?, self.limits);
        let reading = spawn_blocking(move || {
            let read = |name| fs::read_to_string(path.join(name)).unwrap_or_default();
            events::limit_reached(limits, &read("memory.events"), &read("pids.events"))
        });
        timeout(READ_TIMEOUT, reading).await.ok()?.ok()?
    }

    /// Ends whatever is left in it, and removes it; gives up after [`REMOVE_TIMEOUT`], with a warning.
    pub(super) async fn remove(mut self) {
        if let Some(path) = self.path.take() {
            removed(path).await;
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let (Some(path), Ok(runtime)) = (self.path.take(), Handle::try_current()) {
            runtime.spawn(removed(path));
        }
    }
}

async fn removed(path: PathBuf) {
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

/// Kills what is in it: nothing, unless the guard was lost. Then removes it with what a server made below it.
fn remove(path: &Path) -> io::Result<()> {
    // Kernels before 5.14 cannot; there what a guard leaves is found by the daemon alone.
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
