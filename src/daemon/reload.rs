//! Taking over a changed configuration while the daemon runs.
//!
//! It is read and checked as a whole first; one that does not hold changes nothing. What the `[daemon]` table says holds
//! from the next start on.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_blocking;

use crate::admin::ReloadAsked;
use crate::admin::report::ReloadReport;
use crate::config::interpolate::Process;
use crate::config::{self, DaemonConfig, Loaded};
use crate::manager::{Changes, Manager};

/// What a reload compares with, and whom it tells.
pub(super) struct Reload {
    /// As named at start; none means the default file.
    pub(super) files: Vec<PathBuf>,
    /// As it was at start.
    pub(super) daemon: DaemonConfig,
    pub(super) manager: Manager,
}

impl Reload {
    /// Reloads once for any number of `signals` and of operators who `asked` that came meanwhile: the last one finds the latest
    /// files.
    pub(super) async fn on(self, signals: Arc<Notify>, mut asked: mpsc::Receiver<ReloadAsked>) {
        loop {
            let mut waiting = Vec::new();
            tokio::select! {
                () = signals.notified() => {}
                Some(first) = asked.recv() => waiting.push(first),
            }
            waiting.extend(std::iter::from_fn(|| asked.try_recv().ok()));
            let reloaded = self.once().await;
            for answer in waiting {
                // Whoever asked may have gone.
                let _ = answer.send(reloaded.clone());
            }
        }
    }

    async fn once(&self) -> Result<ReloadReport, String> {
        let reloaded = self.take_over().await;
        match &reloaded {
            Ok((changes, _)) => tracing::info!("reloaded: {}", summary(changes)),
            Err(reason) => tracing::error!("not reloaded, nothing has changed: {reason}"),
        }
        reloaded.map(|(_, report)| report)
    }

    async fn take_over(&self) -> Result<(Changes, ReloadReport), String> {
        let files = self.files.clone();
        // A file may be on a disk that has gone away.
        let loaded = spawn_blocking(move || config::load(&files, &Process)).await.map_err(|error| error.to_string())?;
        let Loaded { config, warnings, .. } = loaded.map_err(|error| error.render(false))?;
        let mut warnings: Vec<_> = warnings.iter().map(|warning| warning.render(false)).collect();
        if config.daemon != self.daemon {
            warnings.push("what has changed in [daemon] holds when mcpd is started the next time".to_owned());
        }
        let names: Vec<_> = config.servers.iter().map(|server| Arc::clone(&server.name)).collect();
        let changes = self.manager.set_servers(config.servers).await.map_err(|error| error.to_string())?;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let report = report(&names, &changes, warnings);
        Ok((changes, report))
    }
}

fn report(names: &[Arc<str>], changes: &Changes, warnings: Vec<String>) -> ReloadReport {
    let Changes { added, removed, restarted } = changes;
    let texts = |names: &[Arc<str>]| names.iter().map(ToString::to_string).collect();
    let is_kept = |name: &&Arc<str>| !added.contains(name) && !restarted.contains(name);
    let kept = names.iter().filter(is_kept).map(ToString::to_string).collect();
    ReloadReport { kept, added: texts(added), changed: texts(restarted), removed: texts(removed), warnings }
}

fn summary(changes: &Changes) -> String {
    let said = [("added", &changes.added), ("restarted", &changes.restarted), ("removed", &changes.removed)];
    let said = said.into_iter().filter(|(_, names)| !names.is_empty());
    let said: Vec<_> = said.map(|(what, names)| format!("{what} {}", names.join(", "))).collect();
    if said.is_empty() { "no server is to be run differently".to_owned() } else { said.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reload_did_is_said_in_one_line() {
        let names = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        let check = |changes: Changes, expected| assert_eq!(summary(&changes), expected);
        check(Changes::default(), "no server is to be run differently");
        check(
            Changes { added: names(&["a", "b"]), removed: names(&["c"]), ..Changes::default() },
            "added a, b; removed c",
        );
        check(Changes { restarted: names(&["d"]), ..Changes::default() }, "restarted d");
    }
}
