//! What each server offers, compared with what the operator has approved of it.
//!
//! [`PinnedServers`] belongs to the manager's task, which notes here what servers publish before it builds views from that. A server without a
//! pin file is trusted once it has listed completely (`changes = "warn"`). Other differences are kept for reports. The verdict on a definition
//! is a part of the policy ([`crate::pins::Approval`]), so a changed one is withheld whether it was noted here or not.
//!
//! Files are read and written on other threads, those of one server one after the other. Only files have the texts of approved definitions.
//! They are read when a server is new, and again when a set of servers is put in force, so that an operator can withdraw an approval.

pub(super) mod change;
pub(super) mod files;
mod offered;
mod server;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::change::{ApproveError, Approved, ApprovedDefinition, ServerChanges};
use self::files::{Addition, Loaded, LoadedPins};
use self::offered::Offered;
use self::server::PinnedServer;
use super::changes_report::ChangesReport;
use super::view::View;
use crate::catalog::{Item, Lists};
use crate::clock::unix_seconds;
use crate::config::{ChangeRule, ServerConfig};
use crate::disk::{DiskTimeout, on_disk};
use crate::list_kind::ListKind;
use crate::naming::Naming;
use crate::pin_files::{PinDirectory, PinFileError};
use crate::pins::{PinnedKind, Pins, SeenChanges, TakenNames};
use crate::server::ServerHandle;

/// Least time between two writes of when the changes of a server were first seen.
const SEEN_INTERVAL: Duration = Duration::from_secs(1);
/// Time for the last writes when the manager ends.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// What a server publishes now.
pub(super) struct ObservedServer<'a> {
    pub(super) config: &'a Arc<ServerConfig>,
    pub(super) handle: &'a ServerHandle,
    /// The lists that agents see.
    pub(super) lists: Lists,
}

/// The pins of all servers whose definitions are compared.
#[derive(Debug)]
pub(super) struct PinnedServers {
    /// `None`: nothing is pinned.
    directory: Option<PinDirectory>,
    servers: BTreeMap<Arc<str>, Pinned>,
    /// The files of servers that will come.
    loaded: BTreeMap<Arc<str>, Loaded>,
    work: JoinSet<DoneWork>,
    /// Files that are to be read and have not been.
    unread: usize,
    /// The views whose names were last noted.
    noted_views: Vec<u64>,
}

#[derive(Debug)]
struct Pinned {
    server: PinnedServer,
    is_busy: bool,
    queue: VecDeque<FileWork>,
    /// Writes when its changes were first seen.
    seen: Option<watch::Sender<SeenChanges>>,
}

/// Work on the pin file of a server.
#[derive(Debug)]
enum FileWork {
    Load,
    /// What is trusted.
    Trust(Addition),
    Approve(Addition, Answer),
}

/// Ended work on the pin file of a server.
#[derive(Debug)]
pub(super) struct DoneWork {
    server: Arc<str>,
    outcome: WorkOutcome,
}

#[derive(Debug)]
enum WorkOutcome {
    Loaded(Loaded),
    Trusted(Result<Arc<Pins>, PinFileError>),
    Approved(Result<Arc<Pins>, PinFileError>, Answer),
}

/// Where an approval is answered, and with what if it is written.
#[derive(Debug)]
struct Answer {
    to: ApprovalSender,
    approved: Approved,
}

/// Where the task sends the outcome of an approval.
pub(super) type ApprovalSender = oneshot::Sender<Result<Approved, ApproveError>>;

/// The outcome of an approval, to be sent once it is in force.
#[derive(Debug)]
pub(super) struct ApprovalAnswer(ApprovalSender, Result<Approved, ApproveError>);

impl ApprovalAnswer {
    pub(super) fn send(self) {
        // The caller may have dropped its future.
        drop(self.0.send(self.1));
    }
}

impl PinnedServers {
    /// The pins in this directory. Those of these servers are read now, which may block.
    pub(super) fn read<'a>(
        directory: Option<PinDirectory>,
        servers: impl IntoIterator<Item = &'a ServerConfig>,
    ) -> Self {
        let mut loaded = BTreeMap::new();
        if let Some(directory) = &directory {
            let compared = servers.into_iter().filter(|config| is_compared(config));
            loaded.extend(compared.map(|config| (Arc::clone(&config.name), Loaded::read(directory, &config.name))));
        }
        Self { directory, servers: BTreeMap::new(), loaded, work: JoinSet::new(), unread: 0, noted_views: Vec::new() }
    }

    /// Whether nothing is ever compared.
    pub(super) fn are_off(&self) -> bool {
        self.directory.is_none()
    }

    /// Takes the files of servers that will come.
    pub(super) fn accept(&mut self, loaded: LoadedPins) {
        self.loaded.extend(loaded);
    }

    /// Reads the files of all known servers again.
    pub(super) fn read_again(&mut self) {
        let names: Vec<_> = self.servers.keys().cloned().collect();
        names.iter().for_each(|name| self.enqueue(name, FileWork::Load));
    }

    /// Whether files are being read.
    pub(super) fn is_reading(&self) -> bool {
        self.unread > 0
    }

    /// Notes what the servers offer now, in the order of the configuration.
    pub(super) fn observe(&mut self, servers: &[ObservedServer<'_>], views: &[Arc<View>]) {
        let mut has_changed = false;
        for ObservedServer { config, handle, .. } in servers.iter().filter(|one| is_compared(one.config)) {
            let name = &config.name;
            if !self.servers.contains_key(name) {
                let loaded = self.loaded.remove(name);
                let is_unread = loaded.is_none();
                let file = self.directory.as_ref().map(|directory| directory.file(name)).unwrap_or_default();
                self.servers.insert(Arc::clone(name), Pinned::new(PinnedServer::new(config, file, loaded)));
                if is_unread {
                    self.enqueue(name, FileWork::Load);
                }
            }
            let Some(pinned) = self.servers.get_mut(name) else { continue };
            has_changed |= pinned.server.observe(config, Offered::of(&handle.published()));
            if let Some(addition) = pinned.server.trust() {
                self.enqueue(name, FileWork::Trust(addition));
            }
        }
        let is_here = |name: &Arc<str>| servers.iter().any(|one| one.config.name == *name && is_compared(one.config));
        self.servers.retain(|name, pinned| is_here(name) || pinned.is_busy || !pinned.queue.is_empty());
        self.note_names(has_changed, servers, views);
        let now = unix_seconds();
        for (name, pinned) in &mut self.servers {
            if let Some(seen) = pinned.server.compare(now) {
                pinned.write_seen(self.directory.as_ref(), name, seen);
            }
        }
    }

    /// Notes for each server the bare names that others expose.
    fn note_names(&mut self, has_changed: bool, servers: &[ObservedServer<'_>], views: &[Arc<View>]) {
        let bare: Vec<_> = views.iter().filter(|view| view.naming == Naming::Bare).collect();
        let versions: Vec<_> = bare.iter().map(|view| view.version()).collect();
        if std::mem::replace(&mut self.noted_views, versions) == self.noted_views && !has_changed {
            return;
        }
        for (index, ObservedServer { config, .. }) in servers.iter().enumerate() {
            let taken = if bare.is_empty() {
                TakenNames::default()
            } else {
                NAMED.map(|(list, kind)| (kind, self.taken(list, kind, index, servers, &bare))).into()
            };
            if let Some(pinned) = self.servers.get_mut(&config.name) {
                pinned.server.set_taken(taken);
            }
        }
    }

    /// The own names of new items of a server that would be exposed under a bare name of another server. Another server has the names in these
    /// views, those with approved definitions, and those that it lists first or without approval.
    fn taken(
        &self,
        list: ListKind,
        kind: PinnedKind,
        index: usize,
        servers: &[ObservedServer<'_>],
        bare: &[&Arc<View>],
    ) -> BTreeSet<Arc<str>> {
        let own = servers[index].config;
        let shown = |config: &ServerConfig, name: &str| -> Arc<str> {
            if list == ListKind::Tools { config.tool_overrides.shown_name(name).into() } else { name.into() }
        };
        let mut names = BTreeSet::new();
        for view in bare {
            for (name, route) in view.catalog.routes(list) {
                let Some(owner) = view.servers.get(route.server).map(|member| &member.config) else { continue };
                if owner.name != own.name && *shown(owner, &route.name) == *name {
                    names.insert(Arc::from(name));
                }
            }
        }
        for (at, ObservedServer { config, lists, .. }) in servers.iter().enumerate().filter(|(at, _)| *at != index) {
            let pins = self.servers.get(&config.name).and_then(|pinned| pinned.server.pins());
            names.extend(pins.into_iter().flat_map(|pins| pins.keys(kind)).map(|name| shown(config, name)));
            if at < index || pins.is_none() {
                let exposed = |item: &&Item| item.verdict(list, &config.policy).is_ok();
                names.extend(lists[list].items.iter().filter(exposed).map(|item| shown(config, &item.key)));
            }
        }
        let renamed = names.iter().flat_map(|name| own.tool_overrides.tools_shown_as(name).cloned());
        let renamed: Vec<_> = renamed.filter(|_| list == ListKind::Tools).collect();
        names.retain(|name| shown(own, name) == *name);
        names.extend(renamed);
        names
    }

    /// The configuration of a server with what is approved of it; `None` if it has that.
    pub(super) fn approved(&mut self, config: &Arc<ServerConfig>) -> Option<Arc<ServerConfig>> {
        let pinned = self.servers.get_mut(&config.name).filter(|_| is_compared(config));
        let approval = pinned.as_ref().and_then(|pinned| pinned.server.approval());
        let is_same = match (config.policy.approval(), approval) {
            (Some(last), Some(now)) => last.is_same(now),
            (None, None) => true,
            _ => false,
        };
        if is_same {
            return None;
        }
        let config = config.approved_by(approval.cloned());
        if let Some(pinned) = pinned {
            pinned.server.set_config(&config);
        }
        Some(config)
    }

    /// The report about a server, if there is anything to report.
    pub(super) fn report(&self, config: &ServerConfig) -> Option<&Arc<ChangesReport>> {
        self.servers.get(&config.name).filter(|_| is_compared(config))?.server.report()
    }

    /// The definitions of a server that are not approved. None if they are not compared.
    pub(super) fn changes(&self, config: &ServerConfig) -> ServerChanges {
        match self.servers.get(&config.name).filter(|_| is_compared(config)) {
            Some(pinned) => pinned.server.changes(),
            None => ServerChanges::none(config),
        }
    }

    /// Approves definitions that a server offers. Answers when that is in force, or has failed.
    pub(super) fn approve(&mut self, config: &ServerConfig, what: Vec<ApprovedDefinition>, to: ApprovalSender) {
        let server = &config.name;
        let pinned = self.servers.get(server).filter(|_| is_compared(config));
        let refused = match pinned {
            _ if self.are_off() => Err(ApproveError::NoDirectory),
            None => Err(ApproveError::Follows { server: server.to_string() }),
            Some(pinned) => pinned.server.unusable().map_or(Ok(pinned), |problem| Err(problem.into())),
        };
        let pinned = match refused {
            Ok(pinned) => pinned,
            Err(error) => return ApprovalAnswer(to, Err(error)).send(),
        };
        let (pins, changed_again) = pinned.server.find(what);
        let approved = Approved { done: pins.len(), changed_again };
        if pins.is_empty() {
            return ApprovalAnswer(to, Ok(approved)).send();
        }
        let addition = Addition { known: pinned.server.known(), pins };
        self.enqueue(server, FileWork::Approve(addition, Answer { to, approved }));
    }

    fn enqueue(&mut self, server: &Arc<str>, work: FileWork) {
        let Some(pinned) = self.servers.get_mut(server) else { return };
        match (work, pinned.queue.back_mut()) {
            // What is trusted now includes what was trusted before.
            (FileWork::Trust(addition), Some(FileWork::Trust(queued))) => queued.pins.extend(addition.pins),
            (FileWork::Load, Some(FileWork::Load)) => {}
            (work, _) => {
                self.unread += usize::from(matches!(work, FileWork::Load));
                pinned.queue.push_back(work);
            }
        }
        self.begin_next(server);
    }

    /// Begins the next work on the pin file of a server, unless one is under way.
    fn begin_next(&mut self, server: &Arc<str>) {
        let Some((pinned, directory)) = self.servers.get_mut(server).zip(self.directory.clone()) else { return };
        if pinned.is_busy {
            return;
        }
        let Some(work) = pinned.queue.pop_front() else { return };
        pinned.is_busy = true;
        let server = Arc::clone(server);
        self.work.spawn(async move {
            let outcome = perform(directory, Arc::clone(&server), work).await;
            DoneWork { server, outcome }
        });
    }

    /// The next work that has ended; `None` if none is under way.
    pub(super) async fn done(&mut self) -> Option<DoneWork> {
        self.work.join_next().await?.ok()
    }

    /// Applies ended work. The answer is due once that is published.
    pub(super) fn finish(&mut self, DoneWork { server, outcome }: DoneWork) -> Option<ApprovalAnswer> {
        if matches!(outcome, WorkOutcome::Loaded(_)) {
            self.unread = self.unread.saturating_sub(1);
        }
        let pinned = self.servers.get_mut(&server)?;
        pinned.is_busy = false;
        let answer = match outcome {
            WorkOutcome::Loaded(loaded) => {
                pinned.load(loaded);
                None
            }
            WorkOutcome::Trusted(written) => {
                pinned.set_trusted(written);
                None
            }
            WorkOutcome::Approved(Ok(pins), Answer { to, approved }) => {
                pinned.server.set_pins(pins);
                Some(ApprovalAnswer(to, Ok(approved)))
            }
            WorkOutcome::Approved(Err(error), Answer { to, .. }) => {
                Some(ApprovalAnswer(to, Err(pinned.server.problem(error).into())))
            }
        };
        self.begin_next(&server);
        answer
    }

    /// Ends the work that is under way or queued, if the disk answers.
    pub(super) async fn end(&mut self) {
        let all = async {
            while let Some(done) = self.done().await {
                if let Some(answer) = self.finish(done) {
                    answer.send();
                }
            }
        };
        if timeout(LAST_WRITES, all).await.is_err() {
            tracing::warn!("the last pin files may not be written");
        }
    }
}

impl Pinned {
    fn new(server: PinnedServer) -> Self {
        Self { server, is_busy: false, queue: VecDeque::new(), seen: None }
    }

    /// The file was read. What is queued was decided by what it had before: nothing of that may come back.
    fn load(&mut self, loaded: Loaded) {
        self.server.load(loaded);
        self.queue.retain_mut(|work| match work {
            FileWork::Load => true,
            FileWork::Trust(_) => false,
            FileWork::Approve(addition, _) => {
                addition.known.clear();
                true
            }
        });
    }

    /// What was trusted is written, or not.
    fn set_trusted(&mut self, written: Result<Arc<Pins>, PinFileError>) {
        let trusts_more = self.queue.iter().any(|work| matches!(work, FileWork::Trust(_)));
        match written {
            Ok(pins) if !trusts_more => self.server.set_pins(pins),
            written => self.server.set_written(written.map(drop)),
        }
    }

    /// Writes the newest value in the background.
    fn write_seen(&mut self, directory: Option<&PinDirectory>, server: &Arc<str>, seen: SeenChanges) {
        match (&self.seen, directory) {
            (Some(writer), _) => drop(writer.send_replace(seen)),
            (None, Some(directory)) => {
                let (writer, mut newest) = watch::channel(seen);
                newest.mark_changed();
                tokio::spawn(keep_seen(directory.clone(), Arc::clone(server), newest));
                self.seen = Some(writer);
            }
            (None, None) => {}
        }
    }
}

/// Writes when changes were first seen, until nobody notes it any more.
async fn keep_seen(directory: PinDirectory, server: Arc<str>, mut newest: watch::Receiver<SeenChanges>) {
    while newest.changed().await.is_ok() {
        let seen = newest.borrow_and_update().clone();
        let (directory, name) = (directory.clone(), Arc::clone(&server));
        let written = on_disk(move || directory.store_seen(&name, &seen)).await.unwrap_or_else(|late| Err(late.into()));
        if let Err(error) = written {
            tracing::debug!(%server, "cannot write when its changes were first seen: {error}");
        }
        sleep(SEEN_INTERVAL).await;
    }
}

async fn perform(directory: PinDirectory, server: Arc<str>, work: FileWork) -> WorkOutcome {
    match work {
        FileWork::Load => {
            let read = on_disk(move || Loaded::read(&directory, &server));
            WorkOutcome::Loaded(read.await.unwrap_or_else(|_| Loaded::late()))
        }
        FileWork::Trust(addition) => WorkOutcome::Trusted(add(directory, server, addition).await),
        FileWork::Approve(addition, answer) => WorkOutcome::Approved(add(directory, server, addition).await, answer),
    }
}

async fn add(directory: PinDirectory, server: Arc<str>, addition: Addition) -> Result<Arc<Pins>, PinFileError> {
    let now = unix_seconds();
    on_disk(move || files::add(&directory, &server, &addition, now)).await.unwrap_or_else(|late| Err(late.into()))
}

impl From<DiskTimeout> for PinFileError {
    fn from(_: DiskTimeout) -> Self {
        Self::Unwritable(std::io::ErrorKind::TimedOut)
    }
}

/// Whether the definitions of a server are compared.
pub(super) fn is_compared(config: &ServerConfig) -> bool {
    config.settings.changes != ChangeRule::Follow
}

/// Lists whose items have names that can be exposed without a prefix.
const NAMED: [(ListKind, PinnedKind); 2] =
    [(ListKind::Tools, PinnedKind::Tool), (ListKind::Prompts, PinnedKind::Prompt)];
