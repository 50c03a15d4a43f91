//! A cgroup for each instance with limits, below the cgroup that is delegated to mcpd.
//!
//! ```text
//! mcpd.service/             delegated with `mcpd serve --own-cgroup`; holds no processes once its controllers are enabled
//! ├── daemon/               mcpd, and all processes without limits
//! └── server-NAME-NUMBER/   one instance and its guard: memory.max, memory.oom.group, pids.max
//! ```
//!
//! Without limits, no cgroup is read, created or changed. An instance whose limits cannot be enforced runs without them, and
//! [`Enforcement`] has the reason.
//!
//! [`tree`] takes over the delegated cgroup, and [`events`] reads the events of an instance's cgroup. Source: kernel,
//! `admin-guide/cgroup-v2`. Each access runs on a helper thread with a time limit, as moving a process can wait for others in the
//! kernel. Must not touch the messages of an instance.

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

/// Time to take over the delegated cgroup, and to create one for an instance.
const CREATE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time to read the events of a cgroup. Must be shorter than the time in which the exit status has to arrive (`EXIT_GRACE`, 0.5 s).
const READ_TIMEOUT: Duration = Duration::from_millis(300);
/// Time to remove a cgroup after its last process has ended.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Delay between attempts to remove a cgroup: a process leaves it shortly after its end.
const RETRY_DELAY: Duration = Duration::from_millis(10);

/// Whether the limits of an instance are enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enforcement {
    /// All limits are enforced.
    Enforced,
    /// Some limits are not enforced, for this reason: one line of text.
    NotEnforced(Arc<str>),
}

/// Creates cgroups for instances. Cheap to clone. The default has no delegated cgroup.
#[derive(Debug, Clone, Default)]
pub struct Cgroups(Arc<CgroupState>);

#[derive(Debug, Default)]
struct CgroupState {
    /// The cgroup of this process is delegated to it.
    given: bool,
    /// The delegated cgroup, or why it cannot be used. Set by the first instance with limits.
    tree: OnceCell<Result<Tree, Arc<str>>>,
    made: AtomicU64,
    /// A warning that limits are not enforced was logged.
    has_warned: AtomicBool,
}

/// The cgroup of one instance. Dropping it kills its processes and removes it.
#[derive(Debug)]
pub(super) struct Cgroup {
    limits: Limits,
    /// `None` once it is being removed.
    path: Option<PathBuf>,
}

impl Cgroups {
    /// For a process whose cgroup is delegated to it, as systemd does with `Delegate=`.
    #[must_use]
    pub fn of_own() -> Self {
        Self(Arc::new(CgroupState { given: true, ..CgroupState::default() }))
    }

    /// Applies `limits` to the process `guard` and its future descendants. Returns within a few seconds. If the process ends
    /// meanwhile, its number must not be reused within that time.
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
        let deadline = Instant::now() + CREATE_TIMEOUT;
        let making = spawn_blocking(move || tree.create(&name, limits, guard, deadline));
        // A cgroup that is created too late is dropped on its thread, and so removed.
        let made = match timeout(CREATE_TIMEOUT, making).await {
            Ok(Ok(Ok(cgroup))) => cgroup,
            Ok(Ok(Err(error))) => return (None, not_enforced(server, &error.to_string())),
            Ok(Err(_)) | Err(_) => return (None, not_enforced(server, "the system does not answer")),
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

    /// Logs the reason once, as it is usually the same for every instance of every server.
    fn not_enforced(&self, reason: Arc<str>) -> Enforcement {
        if !self.0.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("limits of servers are not enforced: {reason}");
        }
        Enforcement::NotEnforced(reason)
    }
}

fn not_enforced(server: &str, error: &str) -> Enforcement {
    tracing::warn!(server, "its limits are not enforced: its cgroup cannot be made: {error}");
    Enforcement::NotEnforced(format!("its cgroup cannot be made: {error}").into())
}

impl Cgroup {
    /// The limit that caused the end of the instance, if any.
    pub(super) async fn limit_reached(&self) -> Option<ReachedLimit> {
        let (path, limits) = (self.path.clone()?, self.limits);
        let reading = spawn_blocking(move || {
            let read = |name| fs::read_to_string(path.join(name)).unwrap_or_default();
            events::limit_reached(limits, &read("memory.events"), &read("pids.events"))
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
