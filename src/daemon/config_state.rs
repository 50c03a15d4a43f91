//! The configuration in force, the reason why a later one was rejected, and the watch of their files (`[daemon] watch = true`).
//!
//! The reload task writes it. The daemon reads it for reports, and the watch compares with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::task::spawn_blocking;

use crate::admin::EnvironmentChanges;
use crate::clock::Moment;
use crate::config::interpolate::Process;
use crate::config::{Stamp, changed};
use crate::deadline_timer::DeadlineTimer;

/// A configuration that was read last and is not valid.
#[derive(Debug, Clone)]
pub(super) struct RejectedConfig {
    pub(super) at: Moment,
    /// Text for a person, on several lines.
    pub(super) reason: String,
    /// The files of this configuration, as they were read.
    pub(super) stamps: Vec<Stamp>,
}

impl RejectedConfig {
    pub(super) fn now(reason: String, stamps: Vec<Stamp>) -> Self {
        Self { at: Moment::now(), reason, stamps }
    }
}

#[derive(Debug)]
struct State {
    rejected: Option<RejectedConfig>,
    stamps: Vec<Stamp>,
    /// The files of `${file:…}`, as they were read.
    secret_files: Vec<Stamp>,
    environment: EnvironmentChanges,
}

impl State {
    /// The files that were read last, valid or not.
    fn last_read(&self) -> Vec<Stamp> {
        // Without any, reading itself has failed.
        let rejected = self.rejected.as_ref().filter(|rejected| !rejected.stamps.is_empty());
        let stamps = rejected.map_or(&self.stamps, |rejected| &rejected.stamps);
        stamps.iter().chain(&self.secret_files).cloned().collect()
    }
}

/// Cheap to clone; each clone shares the same state.
#[derive(Debug, Clone)]
pub(super) struct ConfigState(Arc<watch::Sender<State>>);

impl ConfigState {
    /// The files are those of the configuration at start.
    pub(super) fn new(stamps: Vec<Stamp>, secret_files: Vec<Stamp>) -> Self {
        Self(Arc::new(watch::Sender::new(State {
            rejected: None,
            stamps,
            secret_files,
            environment: EnvironmentChanges::default(),
        })))
    }

    pub(super) fn reject(&self, rejected: RejectedConfig) {
        self.0.send_modify(|state| state.rejected = Some(rejected));
    }

    /// Puts the configuration of these files in force, which was read after these changes of the environment.
    pub(super) fn accept(&self, stamps: Vec<Stamp>, secret_files: Vec<Stamp>, changes: EnvironmentChanges) {
        self.0.send_modify(|state| {
            (state.rejected, state.stamps, state.secret_files) = (None, stamps, secret_files);
            state.environment.0.extend(changes.0);
        });
    }

    /// All changes of the environment since the start.
    pub(super) fn environment(&self) -> EnvironmentChanges {
        self.0.borrow().environment.clone()
    }

    pub(super) fn rejected(&self) -> Option<RejectedConfig> {
        self.0.borrow().rejected.clone()
    }

    /// The files of the configuration in force, as they were read.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        self.0.borrow().stamps.clone()
    }
}

/// Time between two comparisons.
const INTERVAL: Duration = Duration::from_millis(500);

/// Requests a reload after each change of the files that were read last. Runs as long as the daemon.
///
/// - The files of `${file:…}` count, too.
/// - The files are compared periodically, in the way of `mcpd status`. So replaced files, changed links and network disks are noticed.
/// - A change counts if it is there at two comparisons, because an editor may still be writing.
/// - A removed file does not count, because many editors remove a file for a moment. In `config.d` it does count.
pub(super) async fn watch_files(state: ConfigState, reload: Arc<Notify>) {
    let mut timer = match DeadlineTimer::new() {
        Ok(timer) => timer,
        Err(error) => return tracing::warn!("cannot watch the configuration: {error}"),
    };
    let mut states = state.0.subscribe();
    let mut was_changed = false;
    loop {
        timer.set(Some(Instant::now() + INTERVAL));
        timer.elapsed().await;
        let stamps = states.borrow_and_update().last_read();
        // A file may be on a disk that has gone away.
        let is_changed = spawn_blocking(move || stamps.iter().any(has_changed)).await.unwrap_or(false);
        if is_changed && was_changed {
            reload.notify_one();
            // The next comparison is with the files as the reload has read them.
            let _ = states.changed().await;
        }
        was_changed = is_changed && !was_changed;
    }
}

fn has_changed(Stamp { path, sha256 }: &Stamp) -> bool {
    let is_removed = sha256.is_some() && !path.exists();
    !is_removed && changed(path, sha256.as_deref(), &Process)
}
