//! What the service manager is told: that the daemon serves, that it stops, a line for `systemctl status`, and, if it wants
//! to know, again and again that the loop which moves the data still turns.
//!
//! Knows: what servers publish, how many agents there are. Must not touch: what it tells about. Without a service manager
//! there is nobody to tell, and that is no failure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use sd_notify::NotifyState;
use tokio::net::UnixDatagram;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::deadline_timer::DeadlineTimer;
use crate::manager::{Presence, View};
use crate::server::lifecycle::NEEDS_LOGIN;
use crate::server::{Stop, StopOrder};

/// Between two lines at least.
const SPACING: Duration = Duration::from_millis(250);
/// Names shown of the servers in one state.
const NAMES: usize = 3;

/// What the line is made of, and the order after which the daemon stops.
pub(super) struct Facts {
    pub(super) view: watch::Receiver<Arc<View>>,
    pub(super) agents: watch::Receiver<usize>,
    pub(super) stop: StopOrder,
}

/// Says that the daemon serves, then what has changed, for as long as the daemon runs. A service manager that does not
/// read holds up nothing but this task, which is why it is not `sd_notify::notify` that writes.
pub(super) async fn run(mut facts: Facts) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let Ok(socket) = UnixDatagram::unbound() else { return };
    if let Err(error) = socket.connect(path) {
        tracing::warn!("cannot tell the service manager anything: {error}");
        return;
    }
    let mut said = String::new();
    let mut watchdog = Watchdog::wanted();
    let (mut news, mut stops) = (Some(NotifyState::Ready), false);
    loop {
        let (line, changed) = facts.line();
        let state = news.take().map(|state| format!("{state}\n")).unwrap_or_default();
        if !state.is_empty() || line != said {
            // A service manager that has gone has nobody to hear of it.
            let _ = socket.send(format!("{state}{}\n", NotifyState::Status(&line)).as_bytes()).await;
            said = line;
        }
        tokio::select! {
            () = async { sleep(SPACING).await; changed.await } => {}
            () = facts.stop.at_least(Stop::Drain), if !stops => (news, stops) = (Some(NotifyState::Stopping), true),
            () = Watchdog::due(&mut watchdog) => news = Some(NotifyState::Watchdog),
        }
    }
}

/// A service manager that replaces a daemon from which it hears nothing for some time (sd_watchdog_enabled(3)).
struct Watchdog {
    timer: DeadlineTimer,
    every: Duration,
}

impl Watchdog {
    /// Half of the time, as systemd advises.
    fn wanted() -> Option<Self> {
        let every = sd_notify::watchdog_enabled()? / 2;
        match DeadlineTimer::new() {
            Ok(timer) => Some(Self { timer, every }),
            Err(error) => {
                tracing::warn!("cannot tell the service manager that it runs: {error}");
                None
            }
        }
    }

    /// Ends when it is to be told; never, if nobody wants to know.
    async fn due(watchdog: &mut Option<Self>) {
        let Some(Self { timer, every }) = watchdog else { return std::future::pending().await };
        timer.set(Some(Instant::now() + *every));
        timer.elapsed().await;
    }
}

impl Facts {
    /// The line as it is now, and what ends when it may be another.
    fn line(&mut self) -> (String, impl Future<Output = ()> + use<>) {
        let agents = *self.agents.borrow_and_update();
        let view = Arc::clone(&self.view.borrow_and_update());
        let (mut states, changes) = (Vec::new(), FuturesUnordered::new());
        for server in &view.servers {
            let mut published = server.handle.watch();
            let word = published.borrow_and_update().word();
            let word = if server.presence == Presence::Shown || word == "stopping" { word } else { "disabled" };
            states.push((&**server.handle.name(), word));
            changes.push(changed(published).boxed());
        }
        changes.push(changed(self.view.clone()).boxed());
        changes.push(changed(self.agents.clone()).boxed());
        (summary(&states, agents), changes.into_future().map(drop))
    }
}

/// Ends at the next change; never, if whoever could make one has gone.
async fn changed<T>(mut watched: watch::Receiver<T>) {
    if watched.changed().await.is_err() {
        std::future::pending().await
    }
}

/// How many servers, each with its name and the word for its state, are in which state, and how many agents are
/// connected: `2 servers ready, 1 failed (git); 3 agents`.
fn summary(servers: &[(&str, &str)], agents: usize) -> String {
    let mut groups = vec![("ready", Vec::new())];
    for &(name, state) in servers {
        match groups.iter_mut().find(|(word, _)| *word == state) {
            Some((_, names)) => names.push(name),
            None => groups.push((state, vec![name])),
        }
    }
    let groups = groups.iter().filter(|(_, names)| !names.is_empty());
    let groups: Vec<_> = groups.enumerate().map(|(place, (word, names))| group(word, names, place == 0)).collect();
    let servers = if groups.is_empty() { "no servers".to_owned() } else { groups.join(", ") };
    let agents = match agents {
        0 => "no agents".to_owned(),
        1 => "1 agent".to_owned(),
        more => format!("{more} agents"),
    };
    format!("{servers}; {agents}")
}

/// The servers in one state. Those that do not serve are named, but not all of a crowd.
fn group(word: &str, names: &[&str], first: bool) -> String {
    let noun = match names.len() {
        _ if !first => "",
        1 => " server",
        _ => " servers",
    };
    let state = match (word, names.len()) {
        ("backoff", _) => "in backoff",
        (NEEDS_LOGIN, 1) => "needs a login",
        (NEEDS_LOGIN, _) => "need a login",
        _ => word,
    };
    let shown = names[..names.len().min(NAMES)].join(", ");
    let who = match names.len() {
        _ if word == "ready" => String::new(),
        count if count > NAMES => format!(" ({shown}, …)"),
        _ => format!(" ({shown})"),
    };
    format!("{}{noun} {state}{who}", names.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts_servers_by_state_and_names_those_that_do_not_serve() {
        let check = |servers: &[(&str, &str)], agents, line: &str| assert_eq!(summary(servers, agents), line);
        check(&[], 0, "no servers; no agents");
        check(&[("a", "ready")], 1, "1 server ready; 1 agent");
        check(&[("web", "backoff")], 0, "1 server in backoff (web); no agents");
        check(&[("web", "needs_login")], 0, "1 server needs a login (web); no agents");
        let logins = [("a", "ready"), ("b", "needs_login"), ("c", "needs_login")];
        check(&logins, 0, "1 server ready, 2 need a login (b, c); no agents");
        let git = [("git", "failed"), ("a", "ready"), ("b", "ready")];
        check(&git, 3, "2 servers ready, 1 failed (git); 3 agents");
        let mixed = [("a", "starting"), ("b", "ready"), ("c", "backoff"), ("d", "starting")];
        check(&mixed, 2, "1 server ready, 2 starting (a, d), 1 in backoff (c); 2 agents");
        let crowd = ["a", "b", "c", "d"].map(|name| (name, "stopping"));
        check(&crowd, 12, "4 servers stopping (a, b, c, …); 12 agents");
        check(&crowd[..3], 12, "3 servers stopping (a, b, c); 12 agents");
    }
}
