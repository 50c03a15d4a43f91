//! The servers that have to know that the agent is there: those with instances for agents or their directories, and those that
//! tell it what it did not ask for.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::watch;
use tokio::time::timeout;

use super::Rare;
use crate::catalog::{is_same, offer_any};
use crate::config::Settings;
use crate::manager::{FIRST_LISTS, Member, View};
use crate::server::{Agent, Attachment, ServerHandle};

/// Those of one agent.
#[derive(Default)]
pub(super) struct Attachments {
    all: Vec<Attachment>,
    /// How many have started an instance for the agent that alone can tell what tools there are.
    unlisted: usize,
}

impl Attachments {
    /// Says to the servers for which that matters that the agent is there. What it returns is to be waited
    /// for, and told to [`Attachments::listed`]: each is a server whose tools are not known before.
    pub(super) fn update(
        &mut self,
        view: &watch::Receiver<Arc<View>>,
        agent: &Agent,
        cwd: Option<&Arc<str>>,
    ) -> Vec<BoxFuture<'static, Rare>> {
        let current = view.borrow().clone();
        let knows_agents = |member: &&Member| {
            let Settings { sharing, broadcast_logs, .. } = member.config.settings;
            sharing.is_by_agent() || broadcast_logs || agent.level.is_some()
        };
        self.all.retain(|one| current.servers.iter().any(|member| one.is_with(&member.handle)));
        let mut waits = Vec::new();
        for member in current.servers.iter().filter(knows_agents) {
            if self.are_with(&member.handle) {
                continue;
            }
            let (attachment, listed) = member.handle.attach(agent.clone(), cwd.cloned());
            self.all.push(attachment);
            if member.config.settings.sharing.is_by_agent() && member.enabled && !offer_any(&member.lists) {
                self.unlisted += 1;
                let in_view = in_view(listed, member.handle.clone(), view.clone());
                waits.push(timeout(FIRST_LISTS, in_view).map(|_| Rare::Listed).boxed());
            }
        }
        waits
    }

    /// Says to the servers that know of the agent that it wants something else than before.
    pub(super) fn change(&self, agent: &Agent) {
        self.all.iter().for_each(|one| one.change(agent.clone()));
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
    pub(super) fn listed(&mut self) {
        self.unlisted -= 1;
    }

    /// Whether the agent's servers have said all that they are waited for.
    pub(super) fn have_listed(&self) -> bool {
        self.unlisted == 0
    }
}

/// Waits until what `server` says after `listed` is what agents see.
async fn in_view(listed: impl Future<Output = ()>, server: ServerHandle, mut view: watch::Receiver<Arc<View>>) {
    listed.await;
    let lists = server.published().lists.clone();
    let has_them = |view: &Arc<View>| view.servers.iter().any(|member| is_same(&member.lists, &lists));
    // One that nobody publishes any more is as it will stay.
    let _ = view.wait_for(has_them).await;
}
