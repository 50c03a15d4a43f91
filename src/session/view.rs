//! The view that the agent sees, and the servers that the agent is attached to.
//!
//! A legacy agent sees the view of its profile, or a per-agent view once servers have instances for the agent. Modern requests always
//! see the view of the profile, because the response must not depend on the connection.
//!
//! The agent is attached to a server that is not `shared` (its instances depend on its agents), that broadcasts log messages, or at
//! which the agent has a log level, a subscription or a task. The server then knows the agent's channel, and learns when the agent
//! disconnects.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{FutureExt, select_all};
use tokio::sync::watch;
use tokio::time::{timeout, timeout_at};

use super::events::{Event, Events};
use crate::catalog::{Catalog, is_same};
use crate::config::{Launch, Settings, Sharing};
use crate::era::Era;
use crate::list_kind::{ListKind, PerKind};
use crate::manager::{AgentViews, Member, View, ViewListener};
use crate::server::messages::call::ExposureView;
use crate::server::{Agent, Attachment, ServerHandle};

pub(super) struct AgentView {
    agent: ShownView,
    profile: ShownView,
    agent_views: AgentViews,
    /// Maximum time that list requests are parked for instances of this agent whose lists are not cached.
    first_list_wait: Duration,
    cwd: Option<Arc<str>>,
    attachments: Vec<Attachment>,
    /// Servers' instances for this agent that have not sent their lists yet.
    unlisted: usize,
    /// How many of these have no cached lists. List requests are parked until this is 0.
    unknown: usize,
    /// The agent is shown views of its own, or will be.
    has_own_views: bool,
    /// An [`Event::MayBeListed`] is awaited already.
    awaits_lists: bool,
    /// The lists that a legacy agent has.
    lists: ListVersions,
}

/// A view that the agent is shown.
#[derive(Clone)]
struct ShownView {
    view: watch::Receiver<Arc<View>>,
    /// Checks the same view for the tokio tasks of servers.
    listener: Arc<ViewListener>,
}

/// The version of each list that a peer has, or was notified of.
#[derive(Default)]
pub(super) struct ListVersions(PerKind<Option<u64>>);

impl ShownView {
    fn new(view: watch::Receiver<Arc<View>>) -> Self {
        Self { listener: ViewListener::new(&view), view }
    }
}

impl ListVersions {
    /// The current versions of the lists for which `is_followed` is true.
    pub(super) fn of(catalog: &Catalog, is_followed: impl Fn(ListKind) -> bool) -> Self {
        Self(PerKind::from_fn(|kind| is_followed(kind).then(|| catalog.version(kind))))
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

impl AgentView {
    pub(super) fn new(
        profile: watch::Receiver<Arc<View>>,
        agent_views: AgentViews,
        first_list_wait: Duration,
        cwd: Option<Arc<str>>,
    ) -> Self {
        let profile = ShownView::new(profile);
        Self {
            agent: profile.clone(),
            profile,
            agent_views,
            first_list_wait,
            cwd,
            attachments: Vec::new(),
            unlisted: 0,
            unknown: 0,
            has_own_views: false,
            awaits_lists: false,
            lists: ListVersions::default(),
        }
    }

    /// The view for requests of this era.
    pub(super) fn of(&self, era: Era) -> Arc<View> {
        self.shown(era).view.borrow().clone()
    }

    /// The check by which a server's tokio task sees whether a waiting request of this era is still permitted.
    pub(super) fn listener(&self, era: Era) -> Arc<dyn ExposureView> {
        Arc::clone(&self.shown(era).listener) as _
    }

    fn shown(&self, era: Era) -> &ShownView {
        match era {
            Era::Legacy => &self.agent,
            Era::Modern => &self.profile,
        }
    }

    /// Whether the first lists are complete in `view`, so that list requests can be answered. A modern request sees the profile's
    /// view, but also waits for the agent's own instances: the profile's view has no lists of a server with an instance per directory
    /// before its first instance has sent them.
    pub(super) fn is_settled(&self, view: &View) -> bool {
        view.settled && self.unknown == 0
    }

    /// Whether every server's instance for this agent has sent its lists.
    pub(super) fn has_listed(&self) -> bool {
        self.unlisted == 0
    }

    pub(super) fn set_cwd(&mut self, cwd: Arc<str>) {
        self.cwd = Some(cwd);
    }

    /// The agent receives this list.
    pub(super) fn list_sent(&mut self, kind: ListKind, catalog: &Catalog) {
        self.lists.0[kind] = Some(catalog.version(kind));
    }

    /// The lists of a legacy agent that have changed since it was last notified.
    pub(super) fn changed_lists(&mut self) -> Vec<ListKind> {
        self.lists.update(&self.agent.view.borrow().catalog)
    }

    /// Whether the agent may know of changes of this resource, which may be denied by now.
    pub(super) fn permits_resource(&self, server: &str, uri: &[u8]) -> bool {
        let Ok(uri) = str::from_utf8(uri) else { return false };
        let view = self.agent.view.borrow();
        let is_it = |member: &&Member| **member.handle.name() == *server && member.is_enabled();
        view.servers
            .iter()
            .find(is_it)
            .is_some_and(|member| member.config.policy.permits(ListKind::Resources, uri, None))
    }

    /// Watches `view`, which was published anew, again if the agent sees it. Returns whether the agent does.
    pub(super) fn is_changed(&self, view: watch::Receiver<Arc<View>>, events: &mut Events) -> bool {
        let is_shown = view.same_channel(&self.agent.view) || view.same_channel(&self.profile.view);
        if is_shown {
            events.watch(view);
        }
        is_shown
    }

    /// Shows a legacy agent `view` from now on. Returns whether that is another one than before.
    pub(super) fn show(&mut self, view: watch::Receiver<Arc<View>>, events: &mut Events) -> bool {
        let is_other = !view.same_channel(&self.agent.view);
        if is_other {
            // The view of the profile is watched all along.
            if !view.same_channel(&self.profile.view) {
                events.watch(view.clone());
            }
            self.agent = ShownView::new(view);
        }
        is_other
    }

    /// A server's instance for this agent has sent its lists, or has not done so in time. List requests no longer wait for it.
    pub(super) fn listed(&mut self, is_known: bool) {
        self.unlisted -= 1;
        self.unknown -= usize::from(!is_known);
    }

    /// Schedules an [`Event::MayBeListed`] for when a server sends its lists or changes its state, at the latest at `until`.
    pub(super) fn await_lists(&mut self, view: &View, until: Instant, events: &mut Events) {
        if std::mem::replace(&mut self.awaits_lists, true) {
            return;
        }
        let seen = |server: &ServerHandle| {
            let published = server.published();
            (published.lists_complete, published.state.name())
        };
        let changed = |member: &Member| {
            let (server, before) = (member.handle.clone(), seen(&member.handle));
            async move { server.wait_for(|now| (now.lists_complete, now.state.name()) != before).await }.boxed()
        };
        let changed = select_all(view.may_still_list(None).map(changed));
        events.push(timeout_at(until.into(), changed).map(|_| Event::MayBeListed));
    }

    /// [`Event::MayBeListed`] has happened.
    pub(super) fn may_be_listed(&mut self) {
        self.awaits_lists = false;
    }

    /// Attaches the agent to the servers that need it.
    pub(super) fn attach(&mut self, agent: &Agent, events: &mut Events) {
        let current = self.of(Era::Legacy);
        let knows_agents = |member: &&Member| {
            let Settings { sharing, broadcast_logs, .. } = member.config.settings;
            // So does a pool, because the eras of its agents decide the era of its instances.
            sharing != Sharing::Shared || broadcast_logs || agent.level.is_some()
        };
        self.attachments.retain(|one| current.servers.iter().any(|member| one.is_with(&member.handle)));
        for member in current.servers.iter().filter(knows_agents) {
            if !self.is_attached(&member.handle) {
                self.attach_to(member, agent, events);
            }
        }
    }

    fn attach_to(&mut self, member: &Member, agent: &Agent, events: &mut Events) {
        let (attachment, listed) = member.handle.attach(agent.clone(), self.cwd.clone());
        self.attachments.push(attachment);
        if !member.config.settings.sharing.is_by_agent() {
            return;
        }
        if !std::mem::replace(&mut self.has_own_views, true) {
            events.push(own_view(self.agent_views.clone(), agent.session));
        }
        if member.is_enabled() {
            // Known lists are shown at once, unless they depend on where the agent works. If the lists of the agent's own
            // instance differ, the agent is notified.
            let is_by_directory = member.config.launch.as_ref().is_ok_and(Launch::needs_agent_cwd);
            let is_known = member.handle.published().lists_known && !is_by_directory;
            self.unlisted += 1;
            self.unknown += usize::from(!is_known);
            let in_view = in_view(listed, member.handle.clone(), self.agent_views.clone(), agent.session);
            let in_view = timeout(self.first_list_wait, in_view);
            events.push(in_view.map(move |view| Event::Listed { view: view.ok().flatten(), is_known }));
        }
    }

    /// Attaches the agent to `server`, so that the server learns when the agent disconnects.
    pub(super) fn attach_for(&mut self, server: &ServerHandle, agent: Agent) {
        if !self.is_attached(server) {
            self.attachments.push(server.attach(agent, None).0);
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

/// Waits for the views of an agent. A manager that has ended provides none.
async fn own_view(views: AgentViews, session: u64) -> Event {
    match views.of(session).await {
        Some(view) => Event::OwnView(view),
        None => std::future::pending().await,
    }
}

/// Waits for `listed`, then until the agent's view has the lists of `server`'s instance for the agent.
async fn in_view(
    listed: impl Future<Output = ()>,
    server: ServerHandle,
    views: AgentViews,
    session: u64,
) -> Option<watch::Receiver<Arc<View>>> {
    listed.await;
    let mut view = views.of(session).await?;
    let has_them = |view: &Arc<View>| {
        let member = view.servers.iter().find(|member| member.is_enabled() && member.handle.is_same(&server));
        member
            .is_none_or(|member| server.published().agent_lists(session).is_none_or(|own| is_same(own, &member.lists)))
    };
    // A view that nobody publishes any more does not change.
    let _ = view.wait_for(has_them).await;
    Some(view)
}
