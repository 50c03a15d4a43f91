//! The view that the agent sees, and the servers that the agent is attached to.
//!
//! A legacy agent sees the view of its profile, or a per-agent view once servers have instances for the agent. Modern requests always
//! see the view of the profile, because the response must not depend on the connection.
//!
//! The agent is attached to a server that is not `shared` (its instances depend on its agents), that broadcasts log messages, or at
//! which the agent has a log level, a subscription or a task. The server then knows the agent's channel, and learns when the agent
//! disconnects.
//!
//! An agent may use the face of one server. A modern request names the face itself, or uses that of the connection.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::FutureExt;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{timeout, timeout_at};

use super::declaration::has_capability;
use super::events::{Event, Events};
use super::named_uris::NamedUris;
use crate::catalog::{Catalog, is_same};
use crate::config::{AgentDirectory, Launch, Sharing};
use crate::era::Era;
use crate::list_kind::{ListKind, PerKind};
use crate::manager::{AgentViewSource, Member, View, ViewPart, WatchedView};
use crate::methods::Capability;
use crate::printable::excerpt;
use crate::server::messages::call::ExposureView;
use crate::server::{Agent, Attachment, ServerHandle, ServerIdentity, ServerSnapshot};

/// Maximum length of an unknown server name in an error, in characters.
const MAX_SERVER_LEN: usize = 64;

pub(super) struct SessionView {
    legacy_view: ShownView,
    modern_view: ShownView,
    named_uris: Arc<NamedUris>,
    agent_views: AgentViewSource,
    /// Maximum time that list requests are parked for instances of this agent whose lists are not cached.
    first_list_wait: Duration,
    directory: AgentDirectory,
    /// The directories below which a guest may choose one for a server. `None` for other agents, which may choose any.
    guest_roots: Option<Arc<[PathBuf]>>,
    /// What of a view this connection uses.
    part: ViewPart,
    attachments: Vec<Attachment>,
    /// Servers' instances for this agent that have not sent their lists yet.
    outstanding_instances: usize,
    /// How many of these have no cached lists. List requests are parked until this is 0.
    without_cached_lists: usize,
    /// The agent is shown per-agent views, or will be.
    has_per_agent_views: bool,
    /// An [`Event::RetryParked`] is awaited already.
    awaits_lists: bool,
    /// The servers and eras for which an [`Event::HandshakeEnded`] is awaited.
    awaited_handshakes: Vec<(ServerHandle, Era)>,
    /// The lists that a legacy agent has.
    lists: ListVersions,
    /// The capabilities that the last handshake in a face has declared.
    declared: Option<Value>,
}

/// A view of the profile or of this agent. The agent is shown the whole, or a face of it.
#[derive(Clone)]
struct ShownView {
    view: watch::Receiver<Arc<View>>,
    /// Used by server tasks to check waiting requests against this view.
    exposure: Arc<WatchedView>,
}

/// The profile has no server with the requested name.
#[derive(Debug)]
pub(super) struct UnknownServer {
    server: Arc<str>,
    /// The servers of the profile.
    known: Vec<Arc<str>>,
}

impl fmt::Display for UnknownServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this profile has no server `{}`", excerpt(&self.server, MAX_SERVER_LEN))?;
        match &self.known[..] {
            [] => f.write_str("; it has no servers"),
            known => write!(f, "; its servers are {}", known.join(", ")),
        }
    }
}

/// The version of each list that a peer has, or was notified of.
#[derive(Default)]
pub(super) struct ListVersions(PerKind<Option<u64>>);

impl ShownView {
    fn new(view: watch::Receiver<Arc<View>>, part: &ViewPart) -> Self {
        Self { exposure: WatchedView::new(&view, part.clone()), view }
    }

    fn part(&self, part: &ViewPart) -> Arc<View> {
        self.view.borrow().part(part)
    }
}

impl ListVersions {
    /// The current versions of the lists for which `is_subscribed` is true.
    pub(super) fn of(catalog: &Catalog, is_subscribed: impl Fn(ListKind) -> bool) -> Self {
        Self(PerKind::from_fn(|kind| is_subscribed(kind).then(|| catalog.version(kind))))
    }

    /// The peer receives the current list of this kind. It is compared with later ones if the peer is notified of its changes.
    pub(super) fn received(&mut self, kind: ListKind, catalog: &Catalog) {
        if let Some(known) = &mut self.0[kind] {
            *known = catalog.version(kind);
        }
    }

    /// Records the current versions. Returns the changed kinds, one for each notification to send: resources and templates share a
    /// notification.
    pub(super) fn update(&mut self, catalog: &Catalog) -> Vec<ListKind> {
        let mut changed: Vec<ListKind> = Vec::new();
        for kind in ListKind::ALL {
            let version = catalog.version(kind);
            if self.0[kind].is_some_and(|known| known != version) {
                self.0[kind] = Some(version);
                if changed.last().map(|last| last.change_notification()) != Some(kind.change_notification()) {
                    changed.push(kind);
                }
            }
        }
        changed
    }
}

impl SessionView {
    pub(super) fn new(
        profile: watch::Receiver<Arc<View>>,
        named_uris: Arc<NamedUris>,
        agent_views: AgentViewSource,
        first_list_wait: Duration,
        (cwd, guest_roots): (Option<Arc<str>>, Option<Arc<[PathBuf]>>),
        own_server: Option<Arc<str>>,
    ) -> Self {
        let part = ViewPart { face: None, without: own_server };
        let profile = ShownView::new(profile, &part);
        Self {
            legacy_view: profile.clone(),
            modern_view: profile,
            named_uris,
            agent_views,
            first_list_wait,
            directory: cwd.map(|cwd| AgentDirectory::of(cwd, guest_roots.as_deref())).unwrap_or_default(),
            guest_roots,
            part,
            attachments: Vec::new(),
            outstanding_instances: 0,
            without_cached_lists: 0,
            has_per_agent_views: false,
            awaits_lists: false,
            awaited_handshakes: Vec::new(),
            lists: ListVersions::default(),
            declared: None,
        }
    }

    /// The view of the legacy agent.
    pub(super) fn legacy(&self) -> Arc<View> {
        self.legacy_view.part(&self.part)
    }

    /// The view of a modern request that names `face`, if it names one.
    pub(super) fn modern(&self, face: Option<&Arc<str>>) -> Arc<View> {
        self.modern_view.part(&self.part_at(face))
    }

    /// Whether a request that names `face`, if it names one, uses a face.
    pub(super) fn is_face(&self, face: Option<&Arc<str>>) -> bool {
        face.is_some() || self.part.face.is_some()
    }

    /// A handshake declares these capabilities, if it is in a face.
    pub(super) fn note_declared(&mut self, capabilities: Option<Value>) {
        self.declared = capabilities;
    }

    /// Whether the last handshake was in a face and has declared this capability.
    pub(super) fn has_declared(&self, capability: Capability) -> bool {
        self.declared.as_ref().is_some_and(|declared| has_capability(declared, capability))
    }

    /// What of a view a request uses that names `face`, if it names one.
    fn part_at(&self, face: Option<&Arc<str>>) -> ViewPart {
        ViewPart { face: face.or(self.part.face.as_ref()).cloned(), ..self.part.clone() }
    }

    /// The view of a request of this era. Only a modern request names a face.
    pub(super) fn of(&self, era: Era, face: Option<&Arc<str>>) -> Arc<View> {
        match era {
            Era::Legacy => self.legacy(),
            Era::Modern => self.modern(face),
        }
    }

    /// The check by which a server's tokio task sees whether a waiting request is still permitted.
    pub(super) fn exposure(&self, era: Era, face: Option<&Arc<str>>) -> Arc<dyn ExposureView> {
        let ShownView { view, exposure } = match era {
            Era::Legacy => &self.legacy_view,
            Era::Modern => &self.modern_view,
        };
        match face {
            Some(_) if face != self.part.face.as_ref() => WatchedView::new(view, self.part_at(face)) as _,
            _ => Arc::clone(exposure) as _,
        }
    }

    /// Uses the face of `server` for this connection, from its first request on. Of a long name that no server has, only the beginning is
    /// kept, for the error.
    pub(super) fn set_face(&mut self, server: Arc<str>) {
        let is_known = self.check_face(Some(&server)).is_ok();
        self.part.face = Some(if is_known { server } else { excerpt(&server, MAX_SERVER_LEN).into() });
        for shown in [&mut self.legacy_view, &mut self.modern_view] {
            *shown = ShownView::new(shown.view.clone(), &self.part);
        }
    }

    /// The server whose face a request uses, if it uses one.
    ///
    /// # Errors
    /// If the profile does not have the server.
    pub(super) fn check_face(&self, face: Option<&Arc<str>>) -> Result<Option<Arc<str>>, UnknownServer> {
        let Some(server) = face.or(self.part.face.as_ref()) else { return Ok(None) };
        let view = self.modern_view.part(&ViewPart { face: None, ..self.part.clone() });
        let known = view.servers.iter().map(|member| &member.config.name);
        let server = Arc::clone(server);
        if known.clone().any(|name| *name == server) {
            return Ok(Some(server));
        }
        Err(UnknownServer { server, known: known.cloned().collect() })
    }

    /// What the server of a face has declared, if it is known and the agent may see it: to this agent's own instance, if the agent
    /// has one in the legacy era.
    pub(super) fn identity(&self, view: &View, session: u64, era: Era) -> Option<Arc<ServerIdentity>> {
        FaceHandshake::of(view, session, era)?.identity()
    }

    /// Schedules an [`Event::HandshakeEnded`] for when [`FaceHandshake::can_answer`] becomes true, at the latest at `until`. At most
    /// one is scheduled for each server and era, however many requests wait.
    pub(super) fn await_handshake(&mut self, view: &View, session: u64, era: Era, until: Instant, events: &mut Events) {
        let Some(handshake) = FaceHandshake::of(view, session, era) else { return };
        let server = handshake.server.clone();
        if self.awaited_handshakes.iter().any(|(other, of)| other.is_same(&server) && *of == era) {
            return;
        }
        self.awaited_handshakes.push((server.clone(), era));
        let ended = async move {
            // The view has its replacement soon, if it has one.
            if !handshake.server.wait_for(|published| handshake.has_ended(published, until, Instant::now())).await {
                std::future::pending::<()>().await;
            }
        };
        events.push(timeout_at(until.into(), ended).map(move |_| Event::HandshakeEnded(server, era)));
    }

    /// [`Event::HandshakeEnded`] has happened.
    pub(super) fn stop_awaiting_handshake(&mut self, server: &ServerHandle, era: Era) {
        self.awaited_handshakes.retain(|(other, of)| !(other.is_same(server) && *of == era));
    }

    /// The resources that results on the profile have named.
    pub(super) fn named_uris(&self) -> &NamedUris {
        &self.named_uris
    }

    /// Whether every server's instance for this agent has sent its lists, or has cached ones.
    pub(super) fn has_first_lists(&self) -> bool {
        self.without_cached_lists == 0
    }

    /// Whether every server's instance for this agent has sent its lists.
    pub(super) fn all_instances_listed(&self) -> bool {
        self.outstanding_instances == 0
    }

    pub(super) fn set_cwd(&mut self, cwd: Arc<str>) {
        self.directory = AgentDirectory::of(cwd, self.guest_roots.as_deref());
    }

    /// The agent receives this list.
    pub(super) fn note_list_sent(&mut self, kind: ListKind, catalog: &Catalog) {
        self.lists.0[kind] = Some(catalog.version(kind));
    }

    /// The lists of a legacy agent that have changed since it was last notified.
    pub(super) fn changed_lists(&mut self) -> Vec<ListKind> {
        let view = self.legacy();
        self.lists.update(&view.catalog)
    }

    /// A response of `server` is sent to the agent.
    pub(super) fn note_result(&self, server: &Arc<str>, line: &Bytes) {
        self.named_uris.record(server, line);
    }

    /// The index of the server of a resource that the agent may read.
    pub(super) fn server_of_resource(&self, uri: &[u8], view: &View) -> Option<usize> {
        view.catalog.server_of(str::from_utf8(uri).ok()?).or_else(|| self.named_uris.server_in(view, uri))
    }

    /// Whether the agent may know of changes of this resource, which may be denied by now.
    pub(super) fn permits_resource(&self, server: &str, uri: &[u8]) -> bool {
        let Ok(uri) = str::from_utf8(uri) else { return false };
        let view = self.legacy();
        let is_it = |member: &&Member| **member.handle.name() == *server && member.is_enabled();
        view.servers
            .iter()
            .find(is_it)
            .is_some_and(|member| member.config.policy.permits(ListKind::Resources, uri, None))
    }

    /// Watches `view`, which was published anew, again if the agent sees it. Returns whether the agent does.
    pub(super) fn rewatch_if_shown(&self, view: watch::Receiver<Arc<View>>, events: &mut Events) -> bool {
        let is_shown = view.same_channel(&self.legacy_view.view) || view.same_channel(&self.modern_view.view);
        if is_shown {
            events.watch(view);
        }
        is_shown
    }

    /// Shows a legacy agent `view` from now on. Returns whether that is another one than before.
    pub(super) fn show(&mut self, view: watch::Receiver<Arc<View>>, events: &mut Events) -> bool {
        let is_other = !view.same_channel(&self.legacy_view.view);
        if is_other {
            // The view of the profile is watched all along.
            if !view.same_channel(&self.modern_view.view) {
                events.watch(view.clone());
            }
            self.legacy_view = ShownView::new(view, &self.part);
        }
        is_other
    }

    /// A server's instance for this agent has sent its lists, or has not done so in time. List requests no longer wait for it.
    pub(super) fn instance_listed(&mut self, had_cached_lists: bool) {
        self.outstanding_instances -= 1;
        self.without_cached_lists -= usize::from(!had_cached_lists);
    }

    /// Schedules an [`Event::RetryParked`] for when a server sends its lists or changes its state, at the latest at `until`.
    pub(super) fn await_lists(&mut self, view: &View, until: Instant, events: &mut Events) {
        if std::mem::replace(&mut self.awaits_lists, true) {
            return;
        }
        events.push(timeout_at(until.into(), view.await_lists()).map(|_| Event::RetryParked));
    }

    /// [`Event::RetryParked`] has happened.
    pub(super) fn stop_awaiting_lists(&mut self) {
        self.awaits_lists = false;
    }

    /// Attaches the agent to the servers that need it.
    pub(super) fn attach_where_needed(&mut self, agent: &Agent, events: &mut Events) {
        let current = self.legacy();
        let needs_attachment = |member: &&Member| {
            // So does a pool, because the eras of its agents decide the era of its instances.
            member.config.settings.sharing != Sharing::Shared
                || agent.level.is_some()
                || member.notifies_of_extensions()
        };
        self.attachments.retain(|one| current.servers.iter().any(|member| one.is_with(&member.handle)));
        for member in current.servers.iter().filter(needs_attachment) {
            if !self.is_attached(&member.handle) {
                self.attach_with_instance(member, agent, events);
            }
        }
    }

    fn attach_with_instance(&mut self, member: &Member, agent: &Agent, events: &mut Events) {
        let (attachment, listed) = member.handle.attach(agent.clone(), self.directory.clone());
        self.attachments.push(attachment);
        if !member.config.settings.sharing.is_by_agent() {
            return;
        }
        if !std::mem::replace(&mut self.has_per_agent_views, true) {
            events.push(per_agent_view(self.agent_views.clone(), agent.session));
        }
        if member.is_enabled() {
            // Known lists are shown at once, unless they depend on where the agent works. If the lists of the agent's own
            // instance differ, the agent is notified.
            let is_by_directory = member.config.launch.as_ref().is_ok_and(Launch::needs_agent_cwd);
            let had_cached_lists = member.handle.published().lists_known && !is_by_directory;
            self.outstanding_instances += 1;
            self.without_cached_lists += usize::from(!had_cached_lists);
            let in_view = in_view(listed, member.handle.clone(), self.agent_views.clone(), agent.session);
            let in_view = timeout(self.first_list_wait, in_view);
            events.push(in_view.map(move |view| Event::Listed { view: view.ok().flatten(), had_cached_lists }));
        }
    }

    /// Attaches the agent to `server`, so that the server learns when the agent disconnects.
    pub(super) fn attach_for_disconnect(&mut self, server: &ServerHandle, agent: Agent) {
        if !self.is_attached(server) {
            self.attachments.push(server.attach(agent, AgentDirectory::Unknown).0);
        }
    }

    fn is_attached(&self, server: &ServerHandle) -> bool {
        self.attachments.iter().any(|one| one.is_with(server))
    }

    /// Sends the agent's new log level to the servers that it is attached to.
    pub(super) async fn update_agent(&self, agent: &Agent) {
        for one in &self.attachments {
            one.change(agent.clone()).await;
        }
    }

    pub(super) async fn roots_changed(&self, line: &Bytes) {
        for one in &self.attachments {
            one.roots_changed(line.clone()).await;
        }
    }
}

/// The handshake that an agent at the face of a server waits for.
pub(super) struct FaceHandshake {
    server: ServerHandle,
    /// Agents may know the server.
    is_exposed: bool,
    /// An instance of this agent starts, or has started.
    has_own_instance: bool,
    /// Its instances may differ by the agent's directory.
    is_by_directory: bool,
    /// The session, if the answer may depend on the connection.
    session: Option<u64>,
    era: Era,
}

impl FaceHandshake {
    /// `None` for a view that is no face.
    pub(super) fn of(view: &View, session: u64, era: Era) -> Option<Self> {
        let Member { handle, config, .. } = view.face_member()?;
        Some(Self {
            server: handle.clone(),
            is_exposed: view.exposes_face_member(era),
            has_own_instance: era == Era::Legacy && config.settings.sharing.is_by_agent(),
            is_by_directory: config.launch.as_ref().is_ok_and(Launch::needs_agent_cwd),
            session: (era == Era::Legacy).then_some(session),
            era,
        })
    }

    fn identity(&self) -> Option<Arc<ServerIdentity>> {
        self.identity_in(&self.server.published()).filter(|_| self.is_exposed).cloned()
    }

    fn identity_in<'a>(&self, published: &'a ServerSnapshot) -> Option<&'a Arc<ServerIdentity>> {
        let own = self.session.and_then(|session| published.agent_identities.get(&session));
        own.or_else(|| published.identity(self.era).filter(|_| !self.is_by_directory))
    }

    /// Whether the handshake of the agent can be answered: the server's declaration is known, or waiting longer is pointless. A stopping
    /// daemon answers only what it knows.
    pub(super) fn can_answer(&self, until: Instant, is_stopping: bool, now: Instant) -> bool {
        if is_stopping { self.identity().is_some() } else { self.has_ended(&self.server.published(), until, now) }
    }

    fn has_ended(&self, published: &ServerSnapshot, until: Instant, now: Instant) -> bool {
        let is_known = self.identity_in(published).is_some();
        // A call starts an idle server, but the handshake of an agent only the agent's own instance.
        let starts = self.has_own_instance || !(published.not_started_yet || self.is_by_directory);
        // An agent's own instance is started when the agent connects.
        let may_be_ready = published.state.may_be_ready_by(until);
        is_known || !self.is_exposed || !starts || !may_be_ready || now >= until
    }
}

/// Waits for the views of an agent. A manager that has ended provides none.
async fn per_agent_view(views: AgentViewSource, session: u64) -> Event {
    match views.of(session).await {
        Some(view) => Event::PerAgentView(view),
        None => std::future::pending().await,
    }
}

/// Waits for `listed`, then until the agent's view has the lists of `server`'s instance for the agent.
async fn in_view(
    listed: impl Future<Output = ()>,
    server: ServerHandle,
    views: AgentViewSource,
    session: u64,
) -> Option<watch::Receiver<Arc<View>>> {
    listed.await;
    let mut view = views.of(session).await?;
    let has_them = |view: &Arc<View>| {
        let member = view.servers.iter().find(|member| member.is_enabled() && member.handle.is_same(&server));
        member.is_none_or(|member| {
            server.published().agent_lists(session).is_none_or(|lists| is_same(lists, &member.lists))
        })
    };
    // A view that nobody publishes any more does not change.
    let _ = view.wait_for(has_them).await;
    Some(view)
}
