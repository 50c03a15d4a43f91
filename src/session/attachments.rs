//! The servers that have to know that the agent is there: those with instances for agents or their directories, and those that
//! tell it what it did not ask for.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Rare, Setup};
use crate::catalog::is_same;
use crate::config::{Launch, Settings, Sharing};
use crate::manager::{Member, OwnViews, Presence, View};
use crate::server::{Agent, Attachment, ServerHandle};

/// Those of one agent.
#[derive(Default)]
pub(super) struct Attachments {
    all: Vec<Attachment>,
    /// How many have an instance for the agent that has not listed yet.
    unlisted: usize,
    /// How many of those are not known from before either: first lists wait for them.
    unknown: usize,
    /// The agent is shown views of its own, or will be.
    has_own_views: bool,
}

impl Attachments {
    /// Says to the servers for which that matters that the agent is there. What it returns is to be waited for.
    pub(super) fn update(&mut self, setup: &Setup, agent: &Agent) -> Vec<BoxFuture<'static, Rare>> {
        let current = setup.view.borrow().clone();
        let knows_agents = |member: &&Member| {
            let Settings { sharing, broadcast_logs, .. } = member.config.settings;
            // Instances of a pool follow the eras of the agents that are there.
            sharing != Sharing::Shared || broadcast_logs || agent.level.is_some()
        };
        self.all.retain(|one| current.servers.iter().any(|member| one.is_with(&member.handle)));
        let mut waits = Vec::new();
        for member in current.servers.iter().filter(knows_agents) {
            if self.are_with(&member.handle) {
                continue;
            }
            let (attachment, listed) = member.handle.attach(agent.clone(), setup.cwd.clone());
            self.all.push(attachment);
            if !member.config.settings.sharing.is_by_agent() {
                continue;
            }
            if !std::mem::replace(&mut self.has_own_views, true) {
                waits.push(own(setup.own_views.clone(), agent.session).boxed());
            }
            if member.presence == Presence::Shown {
                // What a server is known to offer is listed at once, unless it is defined by where the agent works. How the agent's
                // own instance differs is announced.
                let is_by_directory = member.config.launch.as_ref().is_ok_and(Launch::wants_agent_cwd);
                let is_known = member.handle.published().has_listed && !is_by_directory;
                self.unlisted += 1;
                self.unknown += usize::from(!is_known);
                let in_view = in_view(listed, member.handle.clone(), setup.own_views.clone(), agent.session);
                waits.push(
                    timeout(setup.first_list_wait, in_view)
                        .map(move |view| Rare::Listed { view: view.ok().flatten(), is_known })
                        .boxed(),
                );
            }
        }
        waits
    }

    /// Says to the servers that know of the agent that it wants something else than before.
    pub(super) async fn change(&self, agent: &Agent) {
        for one in &self.all {
            one.change(agent.clone()).await;
        }
    }

    /// Says to them that the roots of the agent have changed.
    pub(super) async fn roots_changed(&self, line: &Bytes) {
        for one in &self.all {
            one.roots_changed(line.clone()).await;
        }
    }

    /// Says to a server that the agent is there, for the server to know when it has gone.
    pub(super) fn ensure(&mut self, server: &ServerHandle, agent: Agent) {
        if !self.are_with(server) {
            self.all.push(server.attach(agent, None).0);
        }
    }

    fn are_with(&self, server: &ServerHandle) -> bool {
        self.all.iter().any(|one| one.is_with(server))
    }

    /// One that was waited for has come, or was waited for long enough.
    pub(super) fn listed(&mut self, is_known: bool) {
        self.unlisted -= 1;
        self.unknown -= usize::from(!is_known);
    }

    /// Whether first lists wait for no instance of the agent's.
    pub(super) fn are_known(&self) -> bool {
        self.unknown == 0
    }

    /// Whether every instance of the agent's has listed, or is waited for no more.
    pub(super) fn have_listed(&self) -> bool {
        self.unlisted == 0
    }
}

/// Waits for the views of an agent; those of a manager that has ended never come.
async fn own(views: OwnViews, session: u64) -> Rare {
    match views.of(session).await {
        Some(view) => Rare::Own(view),
        None => std::future::pending().await,
    }
}

/// Waits until what `server` offers the agent after `listed` is what the agent sees.
async fn in_view(
    listed: impl Future<Output = ()>,
    server: ServerHandle,
    views: OwnViews,
    session: u64,
) -> Option<watch::Receiver<Arc<View>>> {
    listed.await;
    let mut view = views.of(session).await?;
    let has_them = |view: &Arc<View>| {
        let member =
            view.servers.iter().find(|member| member.presence == Presence::Shown && member.handle.is_same(&server));
        member.is_none_or(|member| server.published().own_lists(session).is_none_or(|own| is_same(own, &member.lists)))
    };
    // One that nobody publishes any more is as it will stay.
    let _ = view.wait_for(has_them).await;
    Some(view)
}
