//! Snapshots of what is exposed to agents of a profile, to one agent, or to the operator.
//!
//! The face of a server is the part of a view that belongs to this server, under the server's own names. It is built when an agent first
//! uses it. A call that waits before it is sent to its server is checked against the newest view ([`WatchedView`]). [`UnlistedName`] says whether
//! a request for a name that no list has waits for a server that may still list it.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::select_all;
use tokio::sync::watch;

use super::changes_report::ChangesReport;
use crate::catalog::{self, Catalog, Lists, Names, Offer, Source, is_same};
use crate::config::{Instructions, Profile, ServerConfig};
use crate::era::{Era, TASKS};
use crate::list_kind::ListKind;
use crate::message_limit::list_bytes;
use crate::naming::Naming;
use crate::policy::Hidden;
use crate::server::lifecycle::StateName;
use crate::server::messages::call::{AccessTarget, CallError, Exposure, ExposureView};
use crate::server::{ServerHandle, ServerIdentity, ServerSnapshot, failure_in};
use crate::tool_overrides::ToolOverride;

/// A snapshot of the exposed lists and their servers. The view of the whole contains everything that servers' own policies permit.
#[derive(Debug)]
pub struct View {
    /// The exposed lists and their routes.
    pub catalog: Catalog,
    /// The servers; routes name them by index.
    pub servers: Vec<Member>,
    /// The naming of exposed tools and prompts.
    pub naming: Naming,
    /// Maximum size of a message with one of its lists, in bytes.
    max_message: usize,
    /// Readers need not wait for first lists: each server has listed (perhaps from the cache), or its first start attempt has
    /// ended, or `first_list_wait` has passed.
    pub settled: bool,
    /// Unique to this view.
    version: u64,
    /// The face of each server, once an agent has used it. Empty in a face.
    faces: Box<[OnceLock<Arc<View>>]>,
    /// This view without each server, once an agent that this server has started has used it. Empty in a face.
    without: Box<[OnceLock<Arc<View>>]>,
    /// The names assigned so far, if a server may have agents.
    names: Option<Box<Names>>,
}

/// The part of a view that an agent sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct ViewPart {
    /// The face of this server alone.
    pub(crate) face: Option<Arc<str>>,
    /// Not this server: it has started the agent, and would list its own items again.
    pub(crate) without: Option<Arc<str>>,
}

/// How a view exposes lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exposing {
    pub(super) naming: Naming,
    /// Maximum size of a message with a list, in bytes.
    pub(super) max_message: usize,
}

/// A profile and its view.
#[derive(Debug, Clone)]
pub(crate) struct ServedProfile {
    pub(crate) profile: Arc<Profile>,
    pub(crate) view: watch::Receiver<Arc<View>>,
}

/// One server of a manager.
#[derive(Debug, Clone)]
pub struct Member {
    /// Handle for calls and state.
    pub handle: ServerHandle,
    /// Its configuration, with the policy of this view.
    pub config: Arc<ServerConfig>,
    /// Whether agents see it and whether it runs.
    pub enablement: Enablement,
    /// Its latest lists in this view; empty while it is disabled.
    pub lists: Lists,
    /// Why the last change of its configuration failed, if it did.
    pub refused: Option<Arc<str>>,
    /// Its definitions that are not approved, if there is anything to report.
    pub changes: Option<Arc<ChangesReport>>,
}

impl View {
    /// A view without servers.
    pub(super) fn empty(naming: Naming) -> Self {
        Self::of(Catalog::default(), Vec::new(), Exposing { naming, max_message: usize::MAX }, false)
    }

    /// The face of `server`. A server that is not in this view has an empty face.
    pub(crate) fn face(&self, server: &str) -> Arc<Self> {
        let index = self.servers.iter().position(|member| *member.config.name == *server);
        let Some((member, face)) = index.and_then(|index| self.servers.get(index).zip(self.faces.get(index))) else {
            return Arc::new(Self { settled: true, ..Self::empty(Naming::Own) });
        };
        let build = || {
            let settled = self.settled || member.lists_are_known();
            let view = Self::new(&mut Names::default(), self.exposing(Naming::Own), vec![member.clone()], settled);
            Arc::new(Self { faces: Box::default(), without: Box::default(), ..view })
        };
        Arc::clone(face.get_or_init(build))
    }

    /// The part of this view that an agent sees.
    pub(crate) fn part(self: &Arc<Self>, part: &ViewPart) -> Arc<Self> {
        let whole = part.without.as_deref().map_or_else(|| Arc::clone(self), |server| self.without(server));
        part.face.as_deref().map_or_else(|| Arc::clone(&whole), |server| whole.face(server))
    }

    fn without(self: &Arc<Self>, server: &str) -> Arc<Self> {
        let Some(index) = self.servers.iter().position(|member| *member.config.name == *server) else {
            return Arc::clone(self);
        };
        let build = || {
            let mut servers = self.servers.clone();
            servers.remove(index);
            let mut names = self.names.as_deref().cloned().unwrap_or_default();
            Arc::new(Self::new(&mut names, self.exposing(self.naming), servers, self.settled))
        };
        self.without.get(index).map_or_else(|| Arc::clone(self), |view| Arc::clone(view.get_or_init(build)))
    }

    /// The server of this view, if the view is a face.
    pub(crate) fn face_member(&self) -> Option<&Member> {
        self.servers.first().filter(|_| self.naming == Naming::Own)
    }

    /// Whether agents of this era may know the server of a face: it is enabled, and policy does not hide all that it has.
    pub(crate) fn exposes_face_member(&self, era: Era) -> bool {
        let Some(member) = self.face_member().filter(|member| member.is_enabled()) else { return false };
        let is_any = |count: fn(&catalog::Exposure) -> usize| {
            self.catalog.exposure().iter().any(|counts| ListKind::ALL.iter().any(|kind| count(&counts[*kind]) > 0))
        };
        let hides_some = is_any(|counts| counts.denied + counts.withheld)
            || !ListKind::ALL.iter().any(|kind| member.config.policy.exposes(*kind));
        let hides_all = hides_some && !is_any(|counts| counts.exposed);
        !hides_all || self.extensions(era).keys().any(|id| id != TASKS)
    }

    /// Takes over each face of `last` that would be built alike.
    pub(super) fn with_faces_of(self, last: &Self) -> Self {
        for (member, face) in last.servers.iter().zip(&last.faces) {
            let index = self.servers.iter().position(|other| other.is_as(member));
            if let Some((index, known)) = index.zip(face.get().filter(|known| known.settled || !self.settled)) {
                let _ = self.faces[index].set(Arc::clone(known));
            }
        }
        self
    }

    /// The view of `servers`. Bare names go to the first server that lists them, so none are assigned until the view is settled.
    pub(super) fn new(names: &mut Names, exposing: Exposing, servers: Vec<Member>, settled: bool) -> Self {
        let Exposing { naming, max_message } = exposing;
        let may_name = naming != Naming::Bare || settled;
        let sources: Vec<_> = servers.iter().map(source).collect();
        let catalog = if may_name {
            Catalog::build(names, naming, &sources, list_bytes(max_message))
        } else {
            Catalog::default()
        };
        let names = servers.iter().any(|member| member.config.settings.agent).then(|| Box::new(names.clone()));
        Self { names, ..Self::of(catalog, servers, exposing, settled) }
    }

    fn of(catalog: Catalog, servers: Vec<Member>, exposing: Exposing, settled: bool) -> Self {
        let Exposing { naming, max_message } = exposing;
        static VERSIONS: AtomicU64 = AtomicU64::new(0);
        let unused = || servers.iter().map(|_| OnceLock::new()).collect();
        let (faces, without) = (unused(), unused());
        Self {
            catalog,
            servers,
            naming,
            max_message,
            settled,
            version: VERSIONS.fetch_add(1, Ordering::Relaxed),
            faces,
            without,
            names: None,
        }
    }

    /// How a view with the same lists exposes them under another naming.
    pub(super) fn exposing(&self, naming: Naming) -> Exposing {
        Exposing { naming, max_message: self.max_message }
    }

    /// Identifies this view.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The servers that may still list an item of this name, or any item without a name.
    pub(crate) fn may_still_list(&self, name: Option<&[u8]>) -> impl Iterator<Item = &Member> {
        let may_be_of = move |member: &Member| name.is_none_or(|name| self.naming.may_be_of(&member.config.name, name));
        let is_it = move |member: &&Member| member.is_enabled() && may_be_of(member);
        self.servers.iter().filter(is_it).filter(|member| member.may_list_more())
    }

    /// Whether `target` of `server` is exposed here to agents of `era`. `lists` is what the server lists now, which may be newer than what this view
    /// was built from.
    pub(crate) fn exposure(&self, server: &str, era: Era, target: &AccessTarget, lists: Option<&Lists>) -> Exposure {
        let is_it = |member: &Member| *member.config.name == *server && member.is_enabled();
        let Some(index) = self.servers.iter().position(is_it) else { return Exposure::Hidden };
        let member = &self.servers[index];
        let policy = &member.config.policy;
        let now = lists.unwrap_or(&member.lists);
        let exposed_if = |permitted| if permitted { Exposure::Exposed } else { Exposure::Hidden };
        let (leads_here, offer) = match target {
            AccessTarget::Extension { id, items } => {
                let permitted = id.as_ref().map_or(policy.permits_unknown_methods(), |id| policy.permits_extension(id));
                let strictest = items.iter().map(|item| self.exposure(server, era, item, lists)).max();
                return if permitted { strictest.unwrap_or(Exposure::Exposed) } else { Exposure::Hidden };
            }
            AccessTarget::UnlistedName(name) => return exposed_if(!self.hides_name(member, now, name)),
            AccessTarget::UnlistedUri(uri) => {
                let uri = std::str::from_utf8(uri);
                return exposed_if(uri.is_ok_and(|uri| policy.permits_unlisted(uri)));
            }
            AccessTarget::Skill(uri) => {
                let Ok(uri) = std::str::from_utf8(uri) else { return Exposure::Hidden };
                let leads_here = self.catalog.server_of(uri).is_none_or(|owner| owner == index);
                return exposed_if(leads_here && policy.permits(ListKind::Skills, uri, None));
            }
            AccessTarget::Named { kind, exposed, name } => {
                let route = self.catalog.route(*kind, exposed);
                let leads_here = route.map(|route| route.server == index && route.name == *name);
                (leads_here, Offer::of_name(policy, *kind, &now[*kind], name, era))
            }
            AccessTarget::Uri(uri) => {
                let Ok(uri) = std::str::from_utf8(uri) else { return Exposure::Hidden };
                let leads_here = self.catalog.server_of(uri).map(|owner| owner == index);
                (leads_here, Offer::of_uri(policy, now, uri))
            }
        };
        match (leads_here, offer) {
            (Some(false), _) | (_, Offer::Denied) => Exposure::Hidden,
            (_, Offer::NotListed) => Exposure::NotListed,
            (Some(true), Offer::Permitted) => Exposure::Exposed,
            // The catalog was built from the same lists and does not contain it.
            (None, Offer::Permitted) if is_same(now, &member.lists) => Exposure::Hidden,
            (None, Offer::Permitted) if !self.may_expose(member, target) => Exposure::Hidden,
            (None, Offer::Permitted) => Exposure::Exposed,
        }
    }

    /// Whether a tool or prompt that the server lists now may get the exposed name of `target`, which may be of an earlier view.
    fn may_expose(&self, member: &Member, target: &AccessTarget) -> bool {
        let AccessTarget::Named { kind, exposed, name } = target else { return true };
        let shown = member.shown_name(*kind, name);
        self.naming.candidates(&member.config.name, shown).any(|candidate| candidate.as_bytes() == exposed)
    }

    /// What the configuration changes of the tool of `server` that `target` names.
    pub(crate) fn tool_override(&self, server: &str, target: &AccessTarget) -> Option<Arc<ToolOverride>> {
        let AccessTarget::Named { kind: ListKind::Tools, name, .. } = target else { return None };
        let member = self.servers.iter().find(|member| *member.config.name == *server)?;
        member.config.tool_overrides.get(name).cloned()
    }

    /// Whether policy hides a tool or prompt that `name` may mean at a server, by the server's own name or as it would be exposed. One that is
    /// not listed is hidden by its name alone. A kind that is hidden as a whole hides only its listed names, since the name may be of
    /// something else.
    fn hides_name(&self, member: &Member, lists: &Lists, name: &[u8]) -> bool {
        const KINDS: [ListKind; 2] = [ListKind::Tools, ListKind::Prompts];
        let (server, policy) = (&*member.config.name, &member.config.policy);
        let Ok(name) = std::str::from_utf8(name) else { return true };
        let is_exposed_as = |kind: ListKind, raw: &str| {
            raw == name || self.naming.candidates(server, member.shown_name(kind, raw)).any(|one| one == name)
        };
        let hides_listed = |kind: ListKind| lists[kind].hidden(kind, policy).keys().any(|raw| is_exposed_as(kind, raw));
        let is_listed = |raw: &str| KINDS.iter().any(|kind| lists[*kind].items.iter().any(|item| *item.key == *raw));
        let hides_pattern = |kind: ListKind, raw: &str| {
            let verdict = policy.verdict(kind, raw, None);
            verdict.is_err_and(|why| !matches!(why, Hidden::ListKind { .. } | Hidden::Unfit))
        };
        let prefixes = self.naming.whole(server, "");
        let names = prefixes.iter().filter_map(|prefix| name.strip_prefix(&**prefix)).chain([name]);
        let own_names = |shown| member.config.tool_overrides.tools_shown_as(shown).map(|tool| &**tool);
        let mut raw_names = names.flat_map(|shown| std::iter::once(shown).chain(own_names(shown)));
        KINDS.into_iter().any(hides_listed)
            || raw_names.any(|raw| !is_listed(raw) && KINDS.into_iter().any(|kind| hides_pattern(kind, raw)))
    }
}

fn source(Member { config, lists, .. }: &Member) -> Source<'_> {
    let ServerConfig { name, policy, settings, tool_overrides, .. } = &**config;
    Source { name, policy, settings, overrides: tool_overrides, lists }
}

impl Member {
    /// Whether agents see the server.
    pub(crate) fn is_enabled(&self) -> bool {
        self.enablement.is_enabled()
    }

    /// The name of a tool or prompt before server and prefix are added.
    pub(crate) fn shown_name<'a>(&'a self, kind: ListKind, own: &'a str) -> &'a str {
        if kind == ListKind::Tools { self.config.tool_overrides.shown_name(own) } else { own }
    }

    /// The instructions of the server with this identity: those that are configured, or else those that it sends, if they are approved.
    pub(crate) fn instructions(&self, identity: Option<&ServerIdentity>) -> Option<Arc<str>> {
        match &self.config.settings.instructions {
            Instructions::OfServer => {
                let ServerIdentity { instructions, fingerprint, .. } = identity?;
                instructions.clone().filter(|text| self.config.policy.permits_instructions(text, fingerprint))
            }
            Instructions::Omitted => None,
            Instructions::Text(text) => Some(Arc::clone(text)),
        }
    }

    /// The state that reports contain: that of `published`, or `disabled` unless the server is still being stopped.
    pub(crate) fn state_name(&self, published: &ServerSnapshot) -> StateName {
        match published.state_name() {
            name if self.is_enabled() || name == StateName::Stopping => name,
            _ => StateName::Disabled,
        }
    }

    /// The operator's decision differs from the configuration. It ends with the daemon.
    pub(super) fn is_overridden(&self) -> bool {
        self.is_enabled() != self.config.settings.enabled
    }

    /// Its first start has ended, or it is not started.
    pub(crate) fn has_attempted_start(&self) -> bool {
        !self.enablement.runs() || self.handle.published().first_start_ended
    }

    /// The server has sent its lists, or they are cached, or its first start has ended, or it is not started.
    pub(super) fn lists_are_known(&self) -> bool {
        self.has_attempted_start() || self.handle.published().lists_known
    }

    /// Whether the server may list more than this view contains: it has not listed yet, or this view is outdated.
    fn may_list_more(&self) -> bool {
        let published = self.handle.published();
        let is_seen = |lists: &Lists| is_same(lists, &self.lists);
        let is_outdated = !is_seen(&published.lists) && !published.agent_lists.values().any(is_seen);
        !self.handle.has_ended() && (published.may_list_more() || is_outdated)
    }

    /// Whether both contribute the same to a view.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let Self { handle, config, enablement, lists, refused, changes } = self;
        let reports = |report: &Option<Arc<ChangesReport>>| report.as_ref().map(Arc::as_ptr);
        handle.is_same(&other.handle)
            && Arc::ptr_eq(config, &other.config)
            && (*enablement, refused) == (other.enablement, &other.refused)
            && reports(changes) == reports(&other.changes)
            && is_same(lists, &other.lists)
    }
}

/// Keeps the targets of a view's names when the naming changes. A kept name may become unknown, but never gets another target.
pub(super) fn keep_names(names: &mut Names, view: &View) {
    names.keep(&view.catalog, |server| Arc::clone(&view.servers[server].config.name));
}

/// A command to enable or disable a server or one of its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Toggle {
    /// Runs the server and exposes its lists to agents.
    Enable,
    /// Hides the server from agents. Its process keeps running, and calls in flight finish.
    Disable,
    /// Hides the server from agents and stops its process.
    Stop,
    /// Lists this tool and permits calls of it, if policy does. Takes the server's own name or an exposed name.
    EnableTool(String),
    /// Denies this tool until it is enabled, also after the server was removed and added again. While the server has not listed any tools,
    /// every name is accepted, and the tool is denied once it appears.
    DisableTool(String),
}

/// Whether agents see a server, and whether it runs. The configuration decides until an operator does; the operator's decision holds until the
/// daemon stops or the configured `enabled` changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enablement {
    /// Agents see its lists.
    Enabled,
    /// It runs, but agents do not see it.
    Disabled,
    /// It has no process, and agents do not see it.
    Stopped,
}

impl Enablement {
    /// What the configuration says.
    pub(super) fn configured(config: &ServerConfig) -> Self {
        if config.settings.enabled { Self::Enabled } else { Self::Stopped }
    }

    /// Whether agents see the server.
    pub(super) fn is_enabled(self) -> bool {
        self == Self::Enabled
    }

    /// Whether the server should run.
    pub(super) fn runs(self) -> bool {
        self != Self::Stopped
    }
}

/// The server, and the tool if any, that a [`Toggle`] applied to.
#[derive(Debug)]
pub(super) struct ToggleResult {
    pub(super) handle: ServerHandle,
    /// The server's own name of the tool.
    pub(super) tool: Option<Arc<str>>,
}

/// Reads the newest view of a profile, or of a part of it.
#[derive(Debug)]
pub(crate) struct WatchedView {
    view: watch::Receiver<Arc<View>>,
    part: ViewPart,
}

impl WatchedView {
    pub(crate) fn new(view: &watch::Receiver<Arc<View>>, part: ViewPart) -> Arc<Self> {
        Arc::new(Self { view: view.clone(), part })
    }

    fn newest(&self) -> Arc<View> {
        self.view.borrow().part(&self.part)
    }

    /// Whether nobody publishes the view any more: the profile has been removed, or the daemon is stopping.
    fn is_gone(&self) -> bool {
        self.view.has_changed().is_err()
    }
}

impl ExposureView for WatchedView {
    fn version(&self) -> u64 {
        if self.is_gone() { u64::MAX } else { self.newest().version() }
    }

    fn exposure(&self, server: &str, era: Era, target: &AccessTarget, lists: Option<&Lists>) -> Exposure {
        match lists {
            // A server that still releases calls is not being stopped, so the profile has been removed.
            Some(_) if self.is_gone() => Exposure::Hidden,
            lists => self.newest().exposure(server, era, target, lists),
        }
    }

    fn tool_override(&self, server: &str, target: &AccessTarget) -> Option<Arc<ToolOverride>> {
        self.newest().tool_override(server, target)
    }

    fn holds(&self, server: &str) -> bool {
        self.newest().servers.iter().any(|member| *member.config.name == *server && member.config.policy.holds())
    }
}

/// What becomes of a request for an unlisted name.
#[derive(Debug)]
pub(crate) enum UnlistedName<'a> {
    /// No server may still list it.
    Unknown,
    /// These servers may list it in time, so the request waits.
    Waits(Vec<&'a Member>),
    /// Servers may list it, but none of them will be ready in time. The error is about the first one.
    Down(CallError),
}

impl<'a> UnlistedName<'a> {
    /// Decides about a request that waits at most until `until`. The `candidates` are the servers that may still list the name
    /// ([`View::may_still_list`]). Those that the request waits for are started by [`start_for_call`].
    pub(crate) fn of(candidates: Vec<&'a Member>, until: Instant, now: Instant) -> Self {
        let may_wait = until > now;
        let may_come = |member: &&Member| {
            let state = &member.handle.published().state;
            state.starts_for_call(now) || state.may_be_ready_by(until)
        };
        if may_wait && candidates.iter().any(may_come) {
            return Self::Waits(candidates);
        }
        let Some(first) = candidates.first().map(|member| &member.handle) else { return Self::Unknown };
        let failure = failure_in(&first.published().state);
        Self::Down(CallError { server: Arc::clone(first.name()), failure, may_have_arrived: false })
    }
}

/// Notes that a call waits for these servers, and starts those that a call starts.
pub(crate) fn start_for_call(servers: &[&Member], now: Instant) {
    let starts = |member: &&&Member| member.handle.published().state.starts_for_call(now);
    servers.iter().filter(starts).for_each(|member| member.handle.wake());
    servers.iter().for_each(|member| member.handle.note_waiting_call());
}

impl View {
    /// Waits until a server that may still list items sends its lists or changes its state. Such servers are those of now.
    pub(crate) fn await_lists(&self) -> impl Future<Output = ()> + Send + use<> {
        let changed = self.may_still_list(None).map(|member| {
            let server = member.handle.clone();
            let known = |published: &ServerSnapshot| (published.lists_complete, published.state.name());
            let before = known(&server.published());
            async move { server.wait_for(|now| known(now) != before).await }.boxed()
        });
        let all: Vec<_> = changed.collect();
        async move {
            match all.is_empty() {
                true => pending().await,
                false => drop(select_all(all).await),
            }
        }
    }
}
