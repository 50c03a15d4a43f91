//! The pins of one server: what is approved, what it offers, and the difference. Pure, but for the log.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::change::{ApprovedDefinition, DefinitionChange, PinFileProblem, ServerChanges};
use super::files::{Addition, Loaded, NewPin};
use super::offered::{Offered, OfferedDefinition};
use crate::clock::time_of_unix_seconds;
use crate::config::{ChangeRule, Instructions, ServerConfig};
use crate::list_kind::{ListKind, PerKind};
use crate::manager::changes_report::ChangesReport;
use crate::pin_files::PinFileError;
use crate::pins::{Approval, ApprovalRule, Digest, PinnedKind, Pins, SeenChanges, TakenNames};

/// Changes of one server that are kept. More are counted.
const MAX_CHANGES: usize = 1000;
/// Time between two lines of the log about changes of one server.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The pin file of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PinFile {
    /// It is being read.
    Unread,
    Absent,
    /// It was read, or is being written.
    Present,
    Unusable(PinFileError),
}

#[derive(Debug)]
pub(super) struct PinnedServer {
    config: Arc<ServerConfig>,
    path: PathBuf,
    file: PinFile,
    pins: Arc<Pins>,
    /// Names that a new item must not take from other servers.
    taken: Arc<TakenNames>,
    approval: Option<Approval>,
    /// The kinds whose first list is trusted when it can be fetched.
    awaited: PerKind<bool>,
    /// Why what is trusted could not be written.
    unwritten: Option<PinFileError>,
    offered: Offered,
    seen: SeenChanges,
    changes: Vec<DefinitionChange>,
    /// Changes beyond the maximum.
    left_out: usize,
    report: Option<Arc<ChangesReport>>,
    /// The last comparison is out of date.
    has_changed: bool,
    /// When a change was last logged, and whether one was not logged since then.
    logged: Option<Instant>,
    is_log_due: bool,
}

impl PinnedServer {
    /// A server with a pin file at `path`: with what was read, or with files that are being read.
    pub(super) fn new(config: &Arc<ServerConfig>, path: PathBuf, loaded: Option<Loaded>) -> Self {
        let mut server = Self {
            config: Arc::clone(config),
            path,
            file: PinFile::Unread,
            pins: Arc::default(),
            taken: Arc::default(),
            approval: None,
            awaited: PerKind::default(),
            unwritten: None,
            offered: Offered::default(),
            seen: SeenChanges::default(),
            changes: Vec::new(),
            left_out: 0,
            report: None,
            has_changed: true,
            logged: None,
            is_log_due: false,
        };
        if let Some(loaded) = loaded {
            server.load(loaded);
        }
        server
    }

    /// The files were read, for the first time or again. Nothing is approved beside what the pin file has.
    pub(super) fn load(&mut self, Loaded { pins, seen }: Loaded) {
        if self.file == PinFile::Unread {
            // Later, what is known here is newer.
            self.seen = seen;
        }
        let (pins, file) = match pins {
            Ok(Some(pins)) => (pins, PinFile::Present),
            Ok(None) => (Arc::default(), PinFile::Absent),
            Err(error) => {
                if self.file != PinFile::Unusable(error) {
                    tracing::warn!(server = %self.config.name, "its pin file cannot be used: {error}");
                }
                (Arc::default(), PinFile::Unusable(error))
            }
        };
        self.replace_pins(pins, file);
        self.awaited = PerKind::default();
    }

    /// Equal pins stay the same value, because views compare them by pointer.
    fn replace_pins(&mut self, pins: Arc<Pins>, file: PinFile) {
        if *self.pins != *pins {
            self.pins = pins;
        }
        (self.file, self.unwritten, self.has_changed) = (file, None, true);
    }

    /// Notes the configuration of the server and what it offers. Returns whether a comparison is due.
    pub(super) fn observe(&mut self, config: &Arc<ServerConfig>, offered: Offered) -> bool {
        let is_same_policy = Arc::ptr_eq(&self.config, config);
        if !is_same_policy || !self.offered.is_same(&offered) {
            (self.config, self.offered, self.has_changed) = (Arc::clone(config), offered, true);
        }
        self.has_changed
    }

    /// The configuration is the same, but for the approval.
    pub(super) fn set_config(&mut self, config: &Arc<ServerConfig>) {
        self.config = Arc::clone(config);
    }

    /// Trusts what a server without a pin file offers. Returns what has to be written.
    pub(super) fn trust(&mut self) -> Option<Addition> {
        if self.config.settings.changes != ChangeRule::Warn || !self.has_changed || !self.offered.is_complete() {
            return None;
        }
        let is_first = self.file == PinFile::Absent;
        if is_first {
            self.awaited = PerKind::from_fn(|kind| PinnedKind::of(kind).is_some());
            self.file = PinFile::Present;
        }
        let trusted = PerKind::from_fn(|kind| self.awaited[kind] && !self.offered.has_failed(kind));
        let is_trusted = |one: &OfferedDefinition<'_>| one.list.map_or(is_first, |list| trusted[list]);
        let mut pins = Pins::clone(&self.pins);
        let mut added = Vec::new();
        for one in self.offered.definitions().filter(is_trusted) {
            pins.approve(one.kind, &one.key, one.definition());
            added.push(NewPin { kind: one.kind, key: Arc::clone(&one.key), json: one.json.clone() });
        }
        ListKind::ALL.into_iter().for_each(|kind| self.awaited[kind] &= !trusted[kind]);
        if is_first || !added.is_empty() {
            tracing::info!(server = %self.config.name, definitions = added.len(), "trusts what it offers at first");
            self.pins = Arc::new(pins);
        } else if self.unwritten.is_none() {
            return None;
        }
        Some(Addition { known: self.known(), pins: added })
    }

    /// What is approved and offered.
    pub(super) fn known(&self) -> Vec<NewPin> {
        let is_approved = |one: &OfferedDefinition<'_>| self.pins.is_approved(one.kind, &one.key, one.digest());
        let approved = self.offered.definitions().filter(is_approved);
        approved.map(|OfferedDefinition { kind, key, json, .. }| NewPin { kind, key, json }).collect()
    }

    /// The definitions of `what` that the server offers, and the others.
    pub(super) fn find(&self, what: Vec<ApprovedDefinition>) -> (Vec<NewPin>, Vec<ApprovedDefinition>) {
        let mut named: HashMap<(PinnedKind, &str), Vec<_>> = HashMap::new();
        what.iter().for_each(|(kind, key, digest)| named.entry((*kind, key)).or_default().push(*digest));
        let is_named = |one: &OfferedDefinition<'_>| {
            named.get(&(one.kind, &*one.key)).is_some_and(|digests| digests.contains(&one.digest()))
        };
        let mut found = HashMap::new();
        for one in self.offered.definitions().filter(is_named) {
            let id = (one.kind, one.key.to_string(), one.digest());
            found.insert(id, NewPin { kind: one.kind, key: one.key, json: one.json });
        }
        let (mut pins, mut changed_again) = (Vec::new(), Vec::new());
        for id in what {
            match found.remove(&id) {
                Some(pin) => pins.push(pin),
                None => changed_again.push(id),
            }
        }
        (pins, changed_again)
    }

    /// What was approved is written.
    pub(super) fn set_pins(&mut self, pins: Arc<Pins>) {
        self.replace_pins(pins, PinFile::Present);
    }

    /// What was trusted is written, or not.
    pub(super) fn set_written(&mut self, written: Result<(), PinFileError>) {
        let unwritten = written.err();
        if let Some(error) = unwritten.filter(|error| self.unwritten != Some(*error)) {
            tracing::warn!(server = %self.config.name, "its pin file cannot be written: {error}");
        }
        if self.unwritten != unwritten {
            self.unwritten = unwritten;
            self.set_report(None);
        }
    }

    pub(super) fn set_taken(&mut self, taken: TakenNames) {
        if *self.taken != taken {
            (self.taken, self.has_changed) = (Arc::new(taken), true);
        }
    }

    /// The names with approved definitions; `None` if definitions are not compared.
    pub(super) fn pins(&self) -> Option<&Pins> {
        self.approval.as_ref().map(|approval| &**approval.pins())
    }

    pub(super) fn approval(&self) -> Option<&Approval> {
        self.approval.as_ref()
    }

    pub(super) fn report(&self) -> Option<&Arc<ChangesReport>> {
        self.report.as_ref()
    }

    /// Why the pin file cannot be used.
    pub(super) fn unusable(&self) -> Option<PinFileProblem> {
        match self.file {
            PinFile::Unusable(error) => Some(self.problem(error)),
            PinFile::Unread | PinFile::Absent | PinFile::Present => None,
        }
    }

    pub(super) fn problem(&self, error: PinFileError) -> PinFileProblem {
        PinFileProblem { file: self.path.clone(), error }
    }

    /// Why the pin file cannot be used or written.
    fn any_problem(&self) -> Option<PinFileProblem> {
        self.unusable().or_else(|| Some(self.problem(self.unwritten?)))
    }

    pub(super) fn changes(&self) -> ServerChanges {
        ServerChanges {
            server: Arc::clone(&self.config.name),
            rule: self.config.settings.changes,
            problem: self.any_problem(),
            changes: self.changes.clone(),
            left_out: self.left_out,
        }
    }

    /// Compares what the server offers with what is approved, if either has changed. Returns when the present changes were first seen, if that
    /// has to be written.
    pub(super) fn compare(&mut self, now: u64) -> Option<SeenChanges> {
        if !std::mem::take(&mut self.has_changed) {
            return None;
        }
        self.update_approval();
        let seen_before = self.seen.clone();
        let before: HashMap<_, _> = self.changes.iter().map(|change| (id(change), change.since)).collect();
        let (mut changes, mut counts, mut is_unseen) = (Vec::new(), Counts::default(), false);
        let mut listed = HashSet::new();
        for one in self.unapproved() {
            if !listed.insert(id(&one)) {
                continue;
            }
            counts.add(&one);
            if changes.len() < MAX_CHANGES {
                let seen = seen_before.since(one.kind, &one.key, one.digest).map(time_of_unix_seconds);
                let since = seen.or_else(|| before.get(&id(&one)).copied());
                is_unseen |= since.is_none();
                changes.push(DefinitionChange { since: since.unwrap_or_else(|| time_of_unix_seconds(now)), ..one });
            }
        }
        self.left_out = counts.all() - changes.len();
        self.changes = changes;
        self.is_log_due |= is_unseen;
        self.log(counts);
        self.set_report(Some(counts));
        if self.offered.is_complete() {
            self.seen.observe(self.changes.iter().map(id), now);
        }
        (self.seen != seen_before).then(|| self.seen.clone())
    }

    /// The approval that follows from the rule and the file. An equal one stays the same value, because views compare it by pointer.
    fn update_approval(&mut self) {
        let rule = match (self.config.settings.changes, self.file) {
            (ChangeRule::Hold, _) => Some(ApprovalRule::Hold),
            (ChangeRule::Warn, PinFile::Present) => Some(ApprovalRule::Warn),
            (ChangeRule::Warn | ChangeRule::Follow, _) => None,
        };
        let approval = rule.map(|rule| Approval::new(rule, Arc::clone(&self.pins), Arc::clone(&self.taken)));
        let is_same = self.approval.as_ref().zip(approval.as_ref()).is_some_and(|(last, now)| last.is_same(now));
        if !is_same {
            self.approval = approval;
        }
    }

    /// The definitions that are not approved, but for those that the rules of the configuration hide.
    fn unapproved(&self) -> impl Iterator<Item = DefinitionChange> {
        let policy = &self.config.policy;
        let is_hidden = move |one: &OfferedDefinition<'_>| match one.list {
            Some(list) => policy.verdict_of_rules(list, &one.key, Some(&one.json)).is_err(),
            None => self.config.settings.instructions != Instructions::OfServer,
        };
        let offered = self.offered.definitions().filter(move |one| !is_hidden(one));
        offered.filter_map(|one| {
            let (approval, digest) = (self.approval.as_ref()?, one.digest());
            if self.pins.is_approved(one.kind, &one.key, digest) {
                return None;
            }
            Some(DefinitionChange {
                kind: one.kind,
                digest,
                is_new: !self.pins.knows(one.kind, &one.key),
                withheld: approval.verdict(one.kind, &one.key, one.definition()).err(),
                since: time_of_unix_seconds(0),
                approved: Vec::new(),
                current: one.json,
                key: one.key,
            })
        })
    }

    /// Logs new changes. A server that changes all the time gets a line in each interval.
    fn log(&mut self, Counts { changed, new, withheld }: Counts) {
        let may_log = self.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL);
        if self.is_log_due && may_log && self.offered.is_complete() {
            (self.is_log_due, self.logged) = (false, Some(Instant::now()));
            let server = &self.config.name;
            tracing::warn!(%server, changed, new, withheld, "offers definitions that were not approved");
        }
    }

    /// Reports these changes, or those of the last report.
    fn set_report(&mut self, counts: Option<Counts>) {
        let last = || self.report.as_deref().map_or_else(Counts::default, Counts::of);
        let counts = counts.unwrap_or_else(last);
        let problem = self.any_problem();
        let report = (counts.all() > 0 || problem.is_some()).then(|| ChangesReport {
            rule: self.config.settings.changes.word().to_owned(),
            changed: counts.changed,
            new: counts.new,
            withheld: counts.withheld,
            since: self
                .changes
                .iter()
                .map(|change| change.since)
                .min()
                .map(|at| humantime::format_rfc3339_millis(at).to_string()),
            file_problem_code: problem.as_ref().map(|problem| problem.error.word().to_owned()),
            file_problem: problem.map(|problem| problem.to_string()),
        });
        // An equal one stays the same value, because views compare it by pointer.
        if self.report.as_deref() != report.as_ref() {
            self.report = report.map(Arc::new);
        }
    }
}

fn id(change: &DefinitionChange) -> (PinnedKind, Arc<str>, Digest) {
    (change.kind, Arc::clone(&change.key), change.digest)
}

/// Numbers of changes.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    changed: usize,
    new: usize,
    withheld: usize,
}

impl Counts {
    fn of(report: &ChangesReport) -> Self {
        Self { changed: report.changed, new: report.new, withheld: report.withheld }
    }

    fn add(&mut self, change: &DefinitionChange) {
        *(if change.is_new { &mut self.new } else { &mut self.changed }) += 1;
        self.withheld += usize::from(change.withheld.is_some());
    }

    fn all(self) -> usize {
        self.changed + self.new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policy, pattern};
    use crate::server::ServerError;
    use crate::server::tests::{TestServer, in_runtime, list};

    const TOOLS: &str = r#"[{"name":"a","inputSchema":{}},{"name":"b","inputSchema":{}}]"#;
    const CHANGED_TOOLS: &str = r#"[{"name":"a","inputSchema":{},"title":"A"},{"name":"c","inputSchema":{}}]"#;

    fn config(rule: ChangeRule) -> Arc<ServerConfig> {
        let mut config = ServerConfig::new("s", "cat");
        config.settings.changes = rule;
        Arc::new(config)
    }

    fn pinned(config: &Arc<ServerConfig>, pins: Result<Option<Arc<Pins>>, PinFileError>) -> PinnedServer {
        let loaded = Loaded { pins, seen: SeenChanges::default() };
        PinnedServer::new(config, "/pins/s.json".into(), Some(loaded))
    }

    fn serving(config: &Arc<ServerConfig>, tools: &str) -> TestServer {
        TestServer::new(config).ready(r#"{"tools":{}}"#, &[(ListKind::Tools, tools)])
    }

    /// The keys that are written after this observation.
    fn trusted(server: &mut PinnedServer, config: &Arc<ServerConfig>, other: &TestServer) -> Option<Vec<String>> {
        server.observe(config, Offered::of(&other.handle.published()));
        let added = server.trust().map(|added| added.pins.iter().map(|pin| pin.key.to_string()).collect());
        server.compare(7);
        added
    }

    fn changes(server: &PinnedServer) -> Vec<(String, bool, Option<&'static str>)> {
        let all = server.changes().changes;
        let shown = |change: &DefinitionChange| {
            (change.key.to_string(), change.is_new, change.withheld.map(|withheld| withheld.word()))
        };
        all.iter().map(shown).collect()
    }

    #[test]
    fn first_list_of_each_kind_is_trusted_once() {
        in_runtime(|| {
            let config = config(ChangeRule::Warn);
            let (mut server, other) = (pinned(&config, Ok(None)), serving(&config, TOOLS));
            other.update(|snapshot| {
                snapshot.lists_complete = false;
                snapshot.list_errors[ListKind::Prompts] = Some(ServerError::Starting);
            });
            assert_eq!(trusted(&mut server, &config, &other), None);
            assert!(server.approval().is_none(), "nothing is compared yet");
            other.update(|snapshot| snapshot.lists_complete = true);
            assert_eq!(trusted(&mut server, &config, &other), Some(vec!["a".to_owned(), "b".to_owned()]));
            assert_eq!(trusted(&mut server, &config, &other), None);
            other.update(|snapshot| {
                snapshot.list_errors[ListKind::Prompts] = None;
                snapshot.lists[ListKind::Prompts] = Arc::new(list(ListKind::Prompts, r#"[{"name":"p"}]"#));
            });
            assert_eq!(trusted(&mut server, &config, &other), Some(vec!["p".to_owned()]));
            assert_eq!(changes(&server), []);
            other.update(|snapshot| {
                snapshot.lists[ListKind::Tools] = Arc::new(list(ListKind::Tools, CHANGED_TOOLS));
                snapshot.lists[ListKind::Prompts] = Arc::new(list(ListKind::Prompts, r#"[{"name":"q"}]"#));
            });
            assert_eq!(trusted(&mut server, &config, &other), None);
            let expected = [("a", false), ("c", true), ("q", true)].map(|(key, is_new)| (key.to_owned(), is_new, None));
            assert_eq!(changes(&server), expected);
        });
    }

    #[test]
    fn a_pin_file_that_cannot_be_used_approves_nothing_and_stays() {
        in_runtime(|| {
            for (rule, expected) in [(ChangeRule::Warn, 0), (ChangeRule::Hold, 2)] {
                let config = config(rule);
                let mut server = pinned(&config, Err(PinFileError::WritableByOthers));
                assert_eq!(trusted(&mut server, &config, &serving(&config, TOOLS)), None);
                assert_eq!((changes(&server).len(), server.approval().is_some()), (expected, expected > 0));
                let report = server.report().expect("a problem");
                assert_eq!(
                    (report.withheld, report.file_problem_code.as_deref()),
                    (expected, Some("writable_by_others"))
                );
                assert!(report.file_problem.as_ref().is_some_and(|text| text.starts_with("/pins/s.json: ")));
            }
        });
    }

    #[test]
    fn what_the_configuration_hides_is_no_change() {
        in_runtime(|| {
            let deny = Policy::new(None, &[pattern("c").expect("a glob")]).expect("small");
            let config = Arc::new(ServerConfig { policy: deny, ..(*config(ChangeRule::Hold)).clone() });
            let (mut server, other) = (pinned(&config, Ok(None)), serving(&config, CHANGED_TOOLS));
            trusted(&mut server, &config, &other);
            assert_eq!(changes(&server), [("a".to_owned(), true, Some("new"))]);
            let (offered, digest) = ("a".to_owned(), server.changes.first().expect("one").digest);
            let what = vec![(PinnedKind::Tool, offered, digest), (PinnedKind::Tool, "gone".to_owned(), digest)];
            let (found, changed_again) = server.find(what);
            assert_eq!((found.len(), changed_again), (1, vec![(PinnedKind::Tool, "gone".to_owned(), digest)]));
        });
    }

    #[test]
    fn changes_beyond_the_maximum_are_counted() {
        in_runtime(|| {
            let tools: Vec<_> = (0..MAX_CHANGES + 5).map(|number| format!(r#"{{"name":"t{number}"}}"#)).collect();
            let config = config(ChangeRule::Hold);
            let mut server = pinned(&config, Ok(None));
            trusted(&mut server, &config, &serving(&config, &format!("[{}]", tools.join(","))));
            let ServerChanges { changes, left_out, .. } = server.changes();
            assert_eq!((changes.len(), left_out), (MAX_CHANGES, 5));
            assert_eq!(server.report().map(|report| report.withheld), Some(MAX_CHANGES + 5));
        });
    }
}
