//! Applies a changed configuration while the daemon runs.
//!
//! A configuration is read and checked as a whole, then the sockets of its profiles are created. If either fails, nothing changes
//! and `status` reports the reason until a later configuration is valid. Changes of `[daemon]` apply at the next start, except for
//! `naming` and `idle_exit`. Configurations are read one at a time, but a later one can be read while servers of an earlier one start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::spawn_blocking;

use super::agent_sockets::PrepareSockets;
use super::config_state::{ConfigState, RejectedConfig};
use super::pattern_check::PatternCheck;
use crate::admin::report::{ProfileChanges, ReloadFailure, ReloadReport};
use crate::admin::{EnvironmentChanges, ReloadAnswer, ReloadRequest};
use crate::config::interpolate::{Environment, Sources};
use crate::config::{self, DaemonConfig, Profile, ServerConfig};
use crate::manager::{Changes, DesiredState, Manager, ManagerError, ServerFailure, ViewConfig};
use crate::masking::KnownSecrets;
use crate::server::SecretPrograms;
use crate::sockets::SocketError;

/// Configurations that may be waiting for their servers at once. At the limit the next one is read later. The queue of
/// [`PrepareSockets`] has a place for each of them and the next.
pub(super) const MAX_PENDING: usize = 32;

/// State of the reload task.
pub(super) struct Reload {
    /// Files named at start; empty for the default files.
    pub(super) files: Vec<PathBuf>,
    /// Variables that the configuration in force was read with.
    pub(super) environment: Environment,
    pub(super) secret_programs: SecretPrograms,
    /// Those of all configurations.
    pub(super) secrets: KnownSecrets,
    /// The `[daemon]` table at start.
    pub(super) daemon: DaemonConfig,
    pub(super) manager: Manager,
    pub(super) prepare_sockets: mpsc::Sender<PrepareSockets>,
    pub(super) state: ConfigState,
    pub(super) patterns: PatternCheck,
    /// `idle_exit` of `[daemon]`.
    pub(super) idle_limit: watch::Sender<Option<Duration>>,
}

/// A configuration that the manager is applying.
struct Pending {
    warnings: Vec<String>,
    profiles: Option<ProfileChanges>,
    done: oneshot::Receiver<Result<Changes, ManagerError>>,
    prepare_sockets: mpsc::Sender<PrepareSockets>,
}

/// A configuration that is in force or was replaced by a later one, and the operators to answer.
struct ReloadOutcome {
    warnings: Vec<String>,
    profiles: Option<ProfileChanges>,
    changes: Result<Changes, ManagerError>,
    answers: Vec<ReloadAnswer>,
}

/// Why a configuration is not applied.
enum NotApplied {
    Rejected(RejectedConfig),
    /// The daemon ends. Operators get no answer from here. The next program reads the configuration.
    Stopping,
}

impl From<RejectedConfig> for NotApplied {
    fn from(rejected: RejectedConfig) -> Self {
        Self::Rejected(rejected)
    }
}

impl Reload {
    /// Reloads on each signal and request. Those that arrive together cause one reload.
    pub(super) async fn run(mut self, signals: Arc<Notify>, mut requests: mpsc::Receiver<ReloadRequest>) {
        let mut pending = FuturesUnordered::new();
        loop {
            let mut received: Vec<ReloadRequest> = Vec::new();
            let has_room = pending.len() < MAX_PENDING;
            tokio::select! {
                Some(finished) = pending.next() => {
                    self.finish(finished).await;
                    continue;
                }
                () = self.patterns.due(), if pending.is_empty() => {
                    self.patterns.log().await;
                    continue;
                }
                () = signals.notified(), if has_room => {}
                Some(first) = requests.recv(), if has_room => received.push(first),
            }
            received.extend(std::iter::from_fn(|| requests.try_recv().ok()));
            let mut changes = BTreeMap::new();
            let mut answers = Vec::new();
            for ReloadRequest { environment, answer } in received {
                changes.extend(environment.unwrap_or_default().0);
                answers.push(answer);
            }
            match self.read(changes).await {
                Ok(order) => pending.push(wait_in_force(order, answers)),
                Err(NotApplied::Stopping) => {}
                Err(NotApplied::Rejected(rejected)) => {
                    tracing::error!("not reloaded, nothing has changed: {}", rejected.reason);
                    let result = Err(rejected.reason.clone());
                    self.state.reject(rejected);
                    answer(answers, &result);
                }
            }
        }
    }

    /// Reads the configuration and, if it is valid, orders the manager to apply it.
    async fn read(&mut self, changes: BTreeMap<String, Option<String>>) -> Result<Pending, NotApplied> {
        let files = self.files.clone();
        let environment =
            if changes.is_empty() { self.environment.clone() } else { self.environment.with(changes.clone()) };
        let sources = environment.clone();
        // A file may be on a disk that has gone away.
        let loaded = spawn_blocking(move || config::load(&files, &sources)).await;
        let loaded = loaded.map_err(|error| RejectedConfig::now(error.to_string(), Vec::new()))?;
        let loaded = loaded.map_err(|error| RejectedConfig::now(error.render(false), error.stamps().to_vec()))?;
        let config = &loaded.config;
        let mut warnings: Vec<_> = loaded.warnings.iter().map(|warning| warning.render(false)).collect();
        let naming = config.daemon.naming;
        if self.daemon.with_live_keys(&config.daemon) != config.daemon {
            let message =
                "changes in [daemon] other than `naming` and `idle_exit` apply when mcpd is started the next time";
            warnings.push(message.to_owned());
        }
        let has_remote = |server: &ServerConfig| server.launch.as_ref().is_ok_and(|launch| launch.remote().is_some());
        let changed: Vec<_> = used_at_start(&self.environment, &environment).collect();
        if !changed.is_empty() && config.servers.iter().any(has_remote) {
            let names = changed.join(", ");
            warnings.push(format!("for servers at a URL, changes of {names} apply when mcpd is started the next time"));
        }
        let rejected = |reason| RejectedConfig::now(reason, loaded.stamps.clone());
        let prepared = prepare(&self.prepare_sockets, &config.profiles).await.ok_or(NotApplied::Stopping)?;
        prepared.map_err(|error| rejected(error.to_string()))?;
        let exposed = Some(ViewConfig { naming, profiles: config.profiles.clone() });
        self.secrets.add(config.secret_values());
        let desired = DesiredState { servers: config.servers.clone(), exposed };
        let done = self.manager.apply(desired).await.map_err(|error| match error {
            ManagerError::Closed => NotApplied::Stopping,
            error => rejected(error.to_string()).into(),
        })?;
        self.idle_limit.send_replace(config.daemon.idle_exit);
        self.state.accept(loaded.stamps.clone(), loaded.secret_files.clone(), EnvironmentChanges(changes));
        let loaded = Arc::new(loaded);
        let former = self.patterns.replace(Arc::clone(&loaded));
        let profiles = profile_changes(&former.config.profiles, &loaded.config.profiles);
        self.secret_programs.set_environment(environment.variables("").into_iter().collect());
        self.environment = environment;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok(Pending { warnings, profiles, done, prepare_sockets: self.prepare_sockets.clone() })
    }

    /// Logs the outcome of a configuration and answers its operators.
    async fn finish(&mut self, ReloadOutcome { mut warnings, profiles, changes, answers }: ReloadOutcome) {
        let changes = match changes {
            Ok(changes) => changes,
            // The daemon ends.
            Err(ManagerError::Closed) => return,
            Err(error) => return answer(answers, &Err(error.to_string())),
        };
        let summary = summary(&changes);
        if changes.failed.is_empty() {
            tracing::info!("reloaded: {summary}");
        } else {
            tracing::warn!("reloaded: {summary}");
        }
        let unmatched = self.patterns.warnings().await;
        unmatched.iter().for_each(|warning| tracing::warn!("{warning}"));
        warnings.extend(unmatched);
        answer(answers, &Ok(ReloadReport { profiles, ..report(changes, warnings) }));
    }
}

/// Variables that mcpd reads only at start, for its own connections, and whose values differ.
fn used_at_start(former: &Environment, new: &Environment) -> impl Iterator<Item = &'static str> {
    let names = crate::net::client::VARIABLES.into_iter();
    names.filter(|name| former.var(name) != new.var(name))
}

/// Creates the sockets of these profiles, and removes sockets that are not needed any more. `None` if the daemon ends.
async fn prepare(
    prepare_sockets: &mpsc::Sender<PrepareSockets>,
    profiles: &[Arc<Profile>],
) -> Option<Result<(), SocketError>> {
    let (answer, made) = oneshot::channel();
    prepare_sockets.send(PrepareSockets { profiles: profiles.to_vec(), answer }).await.ok()?;
    made.await.ok()
}

/// Waits until a configuration is in force, or was replaced by a later one.
async fn wait_in_force(
    Pending { warnings, profiles, done, prepare_sockets }: Pending,
    answers: Vec<ReloadAnswer>,
) -> ReloadOutcome {
    // A manager that is gone has been stopped.
    let changes = done.await.unwrap_or(Err(ManagerError::Closed));
    // Before operators are answered, the sockets are as configured, unless the daemon is stopping.
    let _ = prepare(&prepare_sockets, &[]).await;
    ReloadOutcome { warnings, profiles, changes, answers }
}

fn answer(waiting: Vec<ReloadAnswer>, reloaded: &Result<ReloadReport, String>) {
    for one in waiting {
        // The operator may have disconnected.
        let _ = one.send(reloaded.clone());
    }
}

fn report(
    Changes { unchanged, updated, added, changed, removed, failed, still_down }: Changes,
    warnings: Vec<String>,
) -> ReloadReport {
    let texts = |names: Vec<Arc<str>>| names.iter().map(ToString::to_string).collect();
    let failure = |ServerFailure { name, code, reason, runs_on, stderr }: ServerFailure| {
        let name = name.to_string();
        ReloadFailure { name, code: code.to_owned(), reason, runs_on, stderr }
    };
    ReloadReport {
        unchanged: texts(unchanged),
        updated: texts(updated),
        added: texts(added),
        changed: texts(changed),
        removed: texts(removed),
        failed: failed.into_iter().map(failure).collect(),
        still_down: texts(still_down),
        profiles: None,
        warnings,
    }
}

/// What became of the `former` profiles; `None` if they are unchanged.
fn profile_changes(former: &[Arc<Profile>], new: &[Arc<Profile>]) -> Option<ProfileChanges> {
    let names = |profiles: &mut dyn Iterator<Item = &Arc<Profile>>| profiles.map(|one| one.name.to_string()).collect();
    let before = |one: &Arc<Profile>| former.iter().find(|former| former.name == one.name);
    let changes = ProfileChanges {
        added: names(&mut new.iter().filter(|one| before(one).is_none())),
        changed: names(&mut new.iter().filter(|one| before(one).is_some_and(|before| before != *one))),
        removed: names(&mut former.iter().filter(|one| new.iter().all(|new| new.name != one.name))),
    };
    (changes != ProfileChanges::default()).then_some(changes)
}

fn summary(changes: &Changes) -> String {
    let failed: Vec<_> = changes.failed.iter().map(|one| Arc::clone(&one.name)).collect();
    let parts = [
        ("added", &changes.added),
        ("changed", &changes.changed),
        ("updated", &changes.updated),
        ("removed", &changes.removed),
        ("failed", &failed),
    ];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<_> = parts.map(|(verb, names)| format!("{verb} {}", names.join(", "))).collect();
    if parts.is_empty() { "no server is to be run differently".to_owned() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_of_a_reload_is_summarized_in_one_line() {
        let names = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        let check = |changes: Changes, expected| assert_eq!(summary(&changes), expected);
        check(Changes::default(), "no server is to be run differently");
        check(
            Changes {
                added: names(&["a", "b"]),
                removed: names(&["c"]),
                unchanged: names(&["k"]),
                ..Changes::default()
            },
            "added a, b; removed c",
        );
        check(Changes { updated: names(&["u"]), unchanged: names(&["k", "u"]), ..Changes::default() }, "updated u");
        let failed = ServerFailure {
            name: "e".into(),
            code: "exited",
            reason: "exited".to_owned(),
            runs_on: true,
            stderr: Vec::new(),
        };
        check(Changes { changed: names(&["d"]), failed: vec![failed], ..Changes::default() }, "changed d; failed e");
    }
}
