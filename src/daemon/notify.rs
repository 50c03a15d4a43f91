//! Notifications to the service manager (sd_notify(3)): readiness, stop, a status line, and the watchdog if it is enabled.
//!
//! Reads what servers publish and the number of agents; changes nothing. Does nothing without a service manager.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use sd_notify::NotifyState;
use tokio::net::UnixDatagram;
use tokio::sync::watch;
use tokio::time::sleep;

use super::lifecycle::Lifecycle;
use crate::deadline_timer::DeadlineTimer;
use crate::manager::View;
use crate::server::lifecycle::StateName;
use crate::server::{StopLevel, StopReceiver};

/// Minimum time between two status lines.
const MIN_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of server names listed for one state.
const MAX_NAMES: usize = 3;

/// Sources of the status line.
struct Sources {
    view: watch::Receiver<Arc<View>>,
    agents: watch::Receiver<usize>,
}

/// Notifies the service manager for as long as the daemon runs. Writes by itself, as `sd_notify::notify` would block the whole
/// daemon while the service manager does not read.
pub(super) fn run(
    view: watch::Receiver<Arc<View>>,
    agents: watch::Receiver<usize>,
    lifecycle: &Lifecycle,
) -> impl Future<Output = ()> + use<> {
    notify(Sources { view, agents }, lifecycle.stopping(), lifecycle.ending())
}

/// `ending` is raised whenever servers are stopped, `stop` only if the daemon ends for good.
async fn notify(mut sources: Sources, mut stop: StopReceiver, mut ending: StopReceiver) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let Ok(socket) = UnixDatagram::unbound() else { return };
    if let Err(error) = socket.connect(path) {
        tracing::warn!("cannot notify the service manager: {error}");
        return;
    }
    let mut sent = String::new();
    let mut watchdog = Watchdog::from_env();
    let (mut pending, mut stops, mut ends) = (Some(NotifyState::Ready), false, false);
    loop {
        let (line, changed) = sources.line();
        let state = pending.take().map(|state| format!("{state}\n")).unwrap_or_default();
        if !state.is_empty() || line != sent {
            // Fails only if the service manager is gone.
            let _ = socket.send(format!("{state}{}\n", NotifyState::Status(&line)).as_bytes()).await;
            sent = line;
        }
        tokio::select! {
            () = async { sleep(MIN_INTERVAL).await; changed.await } => {}
            () = stop.at_least(StopLevel::FinishRunning), if !stops => (pending, stops) = (Some(NotifyState::Stopping), true),
            () = ending.at_least(StopLevel::FinishRunning), if !ends => {
                ends = true;
                if stop.now() == StopLevel::Run {
                    pending = Some(NotifyState::Reloading);
                }
            }
            () = Watchdog::due(&mut watchdog) => pending = Some(NotifyState::Watchdog),
        }
    }
}

/// The watchdog: the service manager restarts a daemon that stops sending (sd_watchdog_enabled(3)).
struct Watchdog {
    timer: DeadlineTimer,
    every: Duration,
}

impl Watchdog {
    /// Sends after half of the timeout, as systemd advises. `None` if the watchdog is not enabled.
    fn from_env() -> Option<Self> {
        let every = sd_notify::watchdog_enabled()? / 2;
        match DeadlineTimer::new() {
            Ok(timer) => Some(Self { timer, every }),
            Err(error) => {
                tracing::warn!("cannot serve the watchdog of the service manager: {error}");
                None
            }
        }
    }

    /// Waits until the next notification is due; for ever without a watchdog.
    async fn due(watchdog: &mut Option<Self>) {
        let Some(Self { timer, every }) = watchdog else { return std::future::pending().await };
        timer.set(Some(Instant::now() + *every));
        timer.elapsed().await;
    }
}

impl Sources {
    /// The current line, and a future that ends when it may have changed.
    fn line(&mut self) -> (String, impl Future<Output = ()> + use<>) {
        let agents = *self.agents.borrow_and_update();
        let view = Arc::clone(&self.view.borrow_and_update());
        let (mut states, changes) = (Vec::new(), FuturesUnordered::new());
        for server in &view.servers {
            let mut published = server.handle.watch();
            let state = server.state_name(&published.borrow_and_update());
            states.push((&**server.handle.name(), state));
            changes.push(changed(published).boxed());
        }
        changes.push(changed(self.view.clone()).boxed());
        changes.push(changed(self.agents.clone()).boxed());
        (summary(&states, agents), changes.into_future().map(drop))
    }
}

/// Waits for the next change; for ever once the sender is gone.
async fn changed<T>(mut watched: watch::Receiver<T>) {
    if watched.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Counts of servers by state, given as (name, state), and of agents: `2 servers ready, 1 failed (git); 3 agents`.
fn summary(servers: &[(&str, StateName)], agents: usize) -> String {
    let mut groups = vec![(StateName::Ready, Vec::new())];
    for &(name, state) in servers {
        match groups.iter_mut().find(|(known, _)| *known == state) {
            Some((_, names)) => names.push(name),
            None => groups.push((state, vec![name])),
        }
    }
    let groups = groups.iter().filter(|(_, names)| !names.is_empty());
    let groups: Vec<_> = groups.enumerate().map(|(place, (state, names))| group(*state, names, place == 0)).collect();
    let servers = if groups.is_empty() { "no servers".to_owned() } else { groups.join(", ") };
    let agents = match agents {
        0 => "no agents".to_owned(),
        1 => "1 agent".to_owned(),
        more => format!("{more} agents"),
    };
    format!("{servers}; {agents}")
}

/// The servers in one state. At most [`MAX_NAMES`] names, and none for `ready`.
fn group(state: StateName, names: &[&str], first: bool) -> String {
    let noun = match names.len() {
        _ if !first => "",
        1 => " server",
        _ => " servers",
    };
    let predicate = match (state, names.len()) {
        (StateName::Backoff, _) => "in backoff",
        (StateName::ListFailed, _) => "unable to list",
        (StateName::NeedsLogin, 1) => "needs a login",
        (StateName::NeedsLogin, _) => "need a login",
        _ => state.word(),
    };
    let shown = names[..names.len().min(MAX_NAMES)].join(", ");
    let who = match names.len() {
        _ if state == StateName::Ready => String::new(),
        count if count > MAX_NAMES => format!(" ({shown}, …)"),
        _ => format!(" ({shown})"),
    };
    format!("{}{noun} {predicate}{who}", names.len())
}

#[cfg(test)]
mod tests {
    use super::StateName::{Backoff, Failed, NeedsLogin, Ready, Starting, Stopping};
    use super::*;

    #[test]
    fn line_counts_servers_by_state_and_names_those_that_are_not_ready() {
        let check = |servers: &[(&str, StateName)], agents, line: &str| assert_eq!(summary(servers, agents), line);
        check(&[], 0, "no servers; no agents");
        check(&[("a", Ready)], 1, "1 server ready; 1 agent");
        check(&[("web", Backoff)], 0, "1 server in backoff (web); no agents");
        check(&[("web", NeedsLogin)], 0, "1 server needs a login (web); no agents");
        let logins = [("a", Ready), ("b", NeedsLogin), ("c", NeedsLogin)];
        check(&logins, 0, "1 server ready, 2 need a login (b, c); no agents");
        let git = [("git", Failed), ("a", Ready), ("b", Ready)];
        check(&git, 3, "2 servers ready, 1 failed (git); 3 agents");
        let mixed = [("a", Starting), ("b", Ready), ("c", Backoff), ("d", Starting)];
        check(&mixed, 2, "1 server ready, 2 starting (a, d), 1 in backoff (c); 2 agents");
        let crowd = ["a", "b", "c", "d"].map(|name| (name, Stopping));
        check(&crowd, 12, "4 servers stopping (a, b, c, …); 12 agents");
        check(&crowd[..3], 12, "3 servers stopping (a, b, c); 12 agents");
    }
}
