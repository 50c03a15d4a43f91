//! Taking over a changed configuration while the daemon runs.
//!
//! It is read and checked as a whole first, and the sockets of its profiles are made; if either fails, nothing changes, and that is
//! remembered until one holds. What the `[daemon]` table says holds from the next start on, but for how tools are named.
//! Configurations are read one after another, and waited for together: while servers start that one has brought, the next may
//! come.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::spawn_blocking;

use super::agent_sockets::PrepareSockets;
use super::pattern_check::PatternCheck;
use crate::admin::report::{ReloadFailed, ReloadReport};
use crate::admin::{ReloadAnswer, ReloadAsked};
use crate::clock::Moment;
use crate::config::interpolate::{Environment, Sources};
use crate::config::{self, DaemonConfig, Launch, Loaded, Profile, ServerConfig, Stamp};
use crate::manager::{Changes, Exposed, Failed, Manager, ManagerError, Wanted};

/// Configurations whose servers are waited for at once. While there are so many, the next is not read yet: it is the latest
/// when it is. There is room for what each of them and the next may want of the sockets, so that none waits for another.
pub(super) const MOST: usize = 32;

/// A configuration that is not valid, which was the last to be read.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    pub(super) at: Moment,
    /// For a person, on several lines.
    pub(super) reason: String,
    /// The files of this configuration, as they were read.
    pub(super) stamps: Vec<Stamp>,
}

impl Refused {
    fn now(reason: String, stamps: Vec<Stamp>) -> Self {
        Self { at: Moment::now(), reason, stamps }
    }
}

/// What a reload compares with, and whom it tells.
pub(super) struct Reload {
    /// As named at start; none means the default file.
    pub(super) files: Vec<PathBuf>,
    /// What was read last and held.
    pub(super) held: Vec<PathBuf>,
    /// The same, and what was tried since.
    pub(super) read: watch::Sender<Vec<PathBuf>>,
    /// What the configuration that runs was read with.
    pub(super) environment: Environment,
    /// As it was at start.
    pub(super) daemon: DaemonConfig,
    pub(super) manager: Manager,
    /// To who owns the sockets.
    pub(super) prepare_sockets: mpsc::Sender<PrepareSockets>,
    pub(super) refused: watch::Sender<Option<Refused>>,
    /// What the files of the configuration held that runs.
    pub(super) stamps: watch::Sender<Vec<Stamp>>,
    pub(super) patterns: PatternCheck,
}

/// What is wanted and not in force yet.
struct Ordered {
    warnings: Vec<String>,
    done: oneshot::Receiver<Result<Changes, ManagerError>>,
    prepare_sockets: mpsc::Sender<PrepareSockets>,
}

/// A configuration that is in force, or was overtaken, and whom to answer.
struct Finished {
    warnings: Vec<String>,
    changes: Result<Changes, ManagerError>,
    answers: Vec<ReloadAnswer>,
}

impl Reload {
    /// Reloads once for any number of `signals` and of operators who `asked` that came meanwhile: the last one finds the latest
    /// files.
    pub(super) async fn on(mut self, signals: Arc<Notify>, mut asked: mpsc::Receiver<ReloadAsked>) {
        let mut ordered = FuturesUnordered::new();
        loop {
            let mut waiting: Vec<ReloadAsked> = Vec::new();
            let has_room = ordered.len() < MOST;
            tokio::select! {
                Some(finished) = ordered.next() => {
                    self.finish(finished).await;
                    continue;
                }
                () = self.patterns.due(), if ordered.is_empty() => {
                    self.patterns.log().await;
                    continue;
                }
                () = signals.notified(), if has_room => {}
                Some(first) = asked.recv(), if has_room => waiting.push(first),
            }
            waiting.extend(std::iter::from_fn(|| asked.try_recv().ok()));
            let mut changes = BTreeMap::new();
            let mut answers = Vec::new();
            for ReloadAsked { environment, answer } in waiting {
                changes.extend(environment.unwrap_or_default().0);
                answers.push(answer);
            }
            match self.read(changes).await {
                Ok(order) => {
                    self.refused.send_replace(None);
                    ordered.push(in_force(order, answers));
                }
                Err(refused) => {
                    tracing::error!("not reloaded, nothing has changed: {}", refused.reason);
                    let answered = Err(refused.reason.clone());
                    self.refused.send_replace(Some(refused));
                    answer(answers, &answered);
                }
            }
        }
    }

    /// Reads the configuration and has the manager take it over, unless it does not hold.
    async fn read(&mut self, changes: BTreeMap<String, Option<String>>) -> Result<Ordered, Refused> {
        let files = self.files.clone();
        let environment = if changes.is_empty() { self.environment.clone() } else { self.environment.with(changes) };
        let sources = environment.clone();
        // A file may be on a disk that has gone away.
        let loaded = spawn_blocking(move || config::load(&files, &sources)).await;
        let loaded = loaded.map_err(|error| Refused::now(error.to_string(), Vec::new()))?;
        let loaded = loaded.map_err(|error| {
            // What makes it hold may be written to any of them.
            self.watch(self.held.iter().chain(error.tried()).cloned().collect());
            Refused::now(error.render(false), error.stamps().to_vec())
        })?;
        let Loaded { config, files, .. } = &loaded;
        self.held.clone_from(files);
        self.watch(files.clone());
        let mut warnings: Vec<_> = loaded.warnings.iter().map(|warning| warning.render(false)).collect();
        let naming = config.daemon.naming.clone();
        if (DaemonConfig { naming: self.daemon.naming.clone(), ..config.daemon.clone() }) != self.daemon {
            warnings.push(
                "what has changed in [daemon] beside the naming holds when mcpd is started the next time".to_owned(),
            );
        }
        let has_remote = |server: &ServerConfig| matches!(server.launch, Ok(Launch::Remote(_)));
        let own: Vec<_> = used_at_start(&self.environment, &environment).collect();
        if !own.is_empty() && config.servers.iter().any(has_remote) {
            let names = own.join(", ");
            warnings.push(format!("for servers at a URL, {names} hold when mcpd is started the next time"));
        }
        let refused = |reason| Refused::now(reason, loaded.stamps.clone());
        prepare(&self.prepare_sockets, &config.profiles).await.map_err(refused)?;
        let exposed = Some(Exposed { naming, profiles: config.profiles.clone() });
        let wanted = Wanted { servers: config.servers.clone(), exposed };
        let done = self.manager.want(wanted).await.map_err(|error| refused(error.to_string()))?;
        self.stamps.send_replace(loaded.stamps.clone());
        self.patterns.replace(Arc::new(loaded));
        self.environment = environment;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok(Ordered { warnings, done, prepare_sockets: self.prepare_sockets.clone() })
    }

    /// Reports what has become of a configuration.
    async fn finish(&mut self, Finished { mut warnings, changes, answers }: Finished) {
        let changes = match changes {
            Ok(changes) => changes,
            Err(error) => return answer(answers, &Err(error.to_string())),
        };
        let said = summary(&changes);
        if changes.failed.is_empty() {
            tracing::info!("reloaded: {said}");
        } else {
            tracing::warn!("reloaded: {said}");
        }
        let unmatched = self.patterns.warnings().await;
        unmatched.iter().for_each(|warning| tracing::warn!("{warning}"));
        warnings.extend(unmatched);
        answer(answers, &Ok(report(changes, warnings)));
    }

    fn watch(&self, files: Vec<PathBuf>) {
        self.read.send_if_modified(|read| {
            let is_other = *read != files;
            *read = files;
            is_other
        });
    }
}

/// Names of variables that differ, and that mcpd reads for its own connections when it starts.
fn used_at_start(former: &Environment, new: &Environment) -> impl Iterator<Item = &'static str> {
    let names = crate::net::client::VARIABLES.into_iter();
    names.filter(|name| former.var(name) != new.var(name))
}

/// Has there be a socket for each of these profiles, and those that are wanted no more be gone.
async fn prepare(prepare_sockets: &mpsc::Sender<PrepareSockets>, profiles: &[Arc<Profile>]) -> Result<(), String> {
    let (answer, made) = oneshot::channel();
    let sent = prepare_sockets.send(PrepareSockets { profiles: profiles.to_vec(), answer }).await;
    let stopped = || "mcpd is being stopped".to_owned();
    sent.map_err(|_| stopped())?;
    made.await.map_err(|_| stopped())?.map_err(|error| error.to_string())
}

/// Waits until a configuration is in force, or was overtaken.
async fn in_force(Ordered { warnings, done, prepare_sockets }: Ordered, answers: Vec<ReloadAnswer>) -> Finished {
    // A manager that is gone has been stopped.
    let changes = done.await.unwrap_or(Err(ManagerError::Closed));
    // Operators who are answered find the sockets as configured, unless the daemon is stopping.
    let _ = prepare(&prepare_sockets, &[]).await;
    Finished { warnings, changes, answers }
}

fn answer(waiting: Vec<ReloadAnswer>, reloaded: &Result<ReloadReport, String>) {
    for one in waiting {
        // Whoever asked may have gone.
        let _ = one.send(reloaded.clone());
    }
}

fn report(
    Changes { kept, updated, added, changed, removed, failed, still_down }: Changes,
    warnings: Vec<String>,
) -> ReloadReport {
    let texts = |names: Vec<Arc<str>>| names.iter().map(ToString::to_string).collect();
    let failure = |Failed { name, code, reason, runs_on, stderr }: Failed| {
        let name = name.to_string();
        ReloadFailed { name, code: code.to_owned(), reason, runs_on, stderr }
    };
    ReloadReport {
        kept: texts(kept),
        updated: texts(updated),
        added: texts(added),
        changed: texts(changed),
        removed: texts(removed),
        failed: failed.into_iter().map(failure).collect(),
        still_down: texts(still_down),
        warnings,
    }
}

fn summary(changes: &Changes) -> String {
    let failed: Vec<_> = changes.failed.iter().map(|one| Arc::clone(&one.name)).collect();
    let said = [
        ("added", &changes.added),
        ("changed", &changes.changed),
        ("updated", &changes.updated),
        ("removed", &changes.removed),
        ("failed", &failed),
    ];
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
            Changes { added: names(&["a", "b"]), removed: names(&["c"]), kept: names(&["k"]), ..Changes::default() },
            "added a, b; removed c",
        );
        check(Changes { updated: names(&["u"]), kept: names(&["k", "u"]), ..Changes::default() }, "updated u");
        let failed =
            Failed { name: "e".into(), code: "exited", reason: "exited".to_owned(), runs_on: true, stderr: Vec::new() };
        check(Changes { changed: names(&["d"]), failed: vec![failed], ..Changes::default() }, "changed d; failed e");
    }
}
