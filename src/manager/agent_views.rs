//! Views for agents with their own instances: in such a view, a server lists what the agent's own instance lists.
//!
//! Agents with equal lists share one view. An agent whose instances list the same as the profile's view gets that view.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::commands::ManagerCommand;
use super::view::{View, keep_names};
use crate::catalog::{Identity, Lists, Names, identity, is_same};
use crate::server::AgentLists;

/// The interface for sessions, which get the views of their agents here. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AgentViewSource {
    pub(super) commands: mpsc::Sender<ManagerCommand>,
    /// The profile of the agents.
    pub(super) profile: Arc<str>,
}

/// The agents of one profile that follow their view.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    all: BTreeMap<u64, watch::Sender<Arc<View>>>,
    /// The views that differ from the profile's view, by the lists that differ.
    views: HashMap<Vec<(usize, Identity)>, Arc<View>>,
}

impl AgentViewSource {
    /// The current and later views of the agent with this connection, always consistent with the profile's view. `None` if the
    /// manager has ended or no longer has the profile.
    pub async fn of(self, session: u64) -> Option<watch::Receiver<Arc<View>>> {
        let (done, answer) = oneshot::channel();
        self.commands.send(ManagerCommand::Follow(session, self.profile, done)).await.ok()?;
        answer.await.ok()?.ok()
    }
}

impl Subscribers {
    /// The current and later views of the agent with this connection. `profile` is the profile's view.
    pub(super) fn follow(
        &mut self,
        session: u64,
        profile: &Arc<View>,
        names: &mut Names,
    ) -> watch::Receiver<Arc<View>> {
        let subscriber = self.all.entry(session).or_insert_with(|| watch::Sender::new(Arc::clone(profile)));
        let receiver = subscriber.subscribe();
        self.show(profile, false, names);
        receiver
    }

    /// Updates the view of each agent. `is_new`: the profile's view has changed since the last update.
    pub(super) fn show(&mut self, profile: &Arc<View>, is_new: bool, names: &mut Names) {
        let Self { mut all, views: before } = std::mem::take(self);
        all.retain(|_, subscriber| !subscriber.is_closed());
        if all.is_empty() {
            return;
        }
        let before = if is_new { HashMap::new() } else { before };
        let per_agent = agent_lists(profile);
        let mut views: HashMap<Vec<_>, Arc<View>> = HashMap::new();
        for (session, subscriber) in &all {
            let other = others(profile, &per_agent, *session);
            let view = if other.is_empty() {
                Arc::clone(profile)
            } else {
                let key: Vec<_> = other.iter().map(|(server, lists)| (*server, identity(lists))).collect();
                let known = views.get(&key).or_else(|| before.get(&key)).cloned();
                let view = known.unwrap_or_else(|| Arc::new(view_with(profile, &other, names)));
                Arc::clone(views.entry(key).or_insert(view))
            };
            subscriber.send_if_modified(|seen| {
                let is_other = !Arc::ptr_eq(seen, &view);
                *seen = view;
                is_other
            });
        }
        *self = Self { all, views };
    }

    /// Keeps the targets of names that only these views expose, under every naming.
    pub(super) fn keep_names(&self, names: &mut Names) {
        self.views.values().for_each(|view| keep_names(names, view));
    }
}

/// The profile's view with other lists for some servers, given by index.
fn view_with(profile: &View, other: &[(usize, &Lists)], names: &mut Names) -> View {
    let mut servers = profile.servers.clone();
    for (server, lists) in other {
        servers[*server].lists = (*lists).clone();
    }
    View::new(names, profile.exposing(profile.naming), servers, profile.settled).with_faces_of(profile)
}

/// The indices of servers with per-agent lists, and these lists.
fn agent_lists(profile: &View) -> Vec<(usize, Arc<AgentLists>)> {
    let servers = profile.servers.iter().enumerate().filter(|(_, member)| member.is_enabled());
    let per_agent = servers.map(|(server, member)| (server, Arc::clone(&member.handle.published().agent_lists)));
    per_agent.filter(|(_, per_agent)| !per_agent.is_empty()).collect()
}

/// The lists of this agent's instances that differ from those of the profile's view.
fn others<'a>(profile: &View, per_agent: &'a [(usize, Arc<AgentLists>)], session: u64) -> Vec<(usize, &'a Lists)> {
    let lists = per_agent.iter().filter_map(|(server, per_agent)| Some((*server, per_agent.get(&session)?)));
    lists.filter(|(server, lists)| !is_same(lists, &profile.servers[*server].lists)).collect()
}
