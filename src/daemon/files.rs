//! Reloads the configuration when one of its files changes, if `[daemon] watch = true`.
//!
//! - The files of `${file:…}` count, too.
//! - The files are compared periodically, in the way of `mcpd status`. So replaced files, changed links and network disks are noticed.
//! - A change counts if it is there at two comparisons, because an editor may still be writing.
//! - A removed file does not count, because many editors remove a file for a moment. In `config.d` it does count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use super::config_state::ConfigState;
use crate::config::interpolate::Process;
use crate::config::{Stamp, changed};
use crate::deadline_timer::DeadlineTimer;

/// Time between two comparisons.
const INTERVAL: Duration = Duration::from_millis(500);

/// Requests a reload after each change of the files that were read last. Runs as long as the daemon.
pub(super) async fn run(state: ConfigState, reload: Arc<Notify>) {
    let mut timer = match DeadlineTimer::new() {
        Ok(timer) => timer,
        Err(error) => return tracing::warn!("cannot watch the configuration: {error}"),
    };
    let mut states = state.watch();
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
