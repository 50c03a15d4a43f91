//! What agents see that have instances of their own: a view each, in which such a server offers what the agent's instance does.
//!
//! A view is kept once for all agents for whom it is the same. Who is offered what the servers are known to offer anyway has the
//! view of the profile, and who has no such server asks for no other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::enablement::Enablement;
use super::orders::Order;
use super::view::{View, keep_names};
use crate::catalog::{Identity, Lists, Names, identity, is_same};
use crate::server::AgentLists;

/// Where sessions get the views of their agents; cheap to clone.
#[derive(Debug, Clone)]
pub struct AgentViews {
    pub(super) orders: mpsc::Sender<Order>,
    /// Of the agents' profile.
    pub(super) profile: Arc<str>,
}

/// The agents that have asked, and what they see.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    all: BTreeMap<u64, watch::Sender<Arc<View>>>,
    /// Each view that differs from that of the profile, once.
    views: HashMap<Vec<(usize, Identity)>, Arc<View>>,
}

impl AgentViews {
    /// What the agent with this connection sees now, and what it will: at any moment in accordance with the view of the profile.
    /// `None` if the manager has ended, or has no such profile any more.
    pub async fn of(self, session: u64) -> Option<watch::Receiver<Arc<View>>> {
        let (done, answer) = oneshot::channel();
        self.orders.send(Order::Follow(session, self.profile, done)).await.ok()?;
        answer.await.ok()?.ok()
    }
}

impl Subscribers {
    /// What the agent with this connection sees now, and what it will; `profile` is what all see.
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

    /// Shows each agent what it is to see by now. `is_new` says that the view of the profile is another than before.
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

    /// Has the names that are shown only here lead where they lead, or nowhere, under whatever naming.
    pub(super) fn keep_names(&self, names: &mut Names) {
        self.views.values().for_each(|view| keep_names(names, view));
    }
}

/// The view in which some servers offer something else.
fn view_with(profile: &View, other: &[(usize, &Lists)], names: &mut Names) -> View {
    let mut servers = profile.servers.clone();
    for (server, lists) in other {
        servers[*server].lists = (*lists).clone();
    }
    View::new(names, profile.naming.clone(), servers, profile.settled)
}

/// The servers, by their indices, that offer agents something of their own.
fn agent_lists(profile: &View) -> Vec<(usize, Arc<AgentLists>)> {
    let servers = profile.servers.iter().enumerate().filter(|(_, member)| member.enablement == Enablement::Enabled);
    let per_agent = servers.map(|(server, member)| (server, Arc::clone(&member.handle.published().agent_lists)));
    per_agent.filter(|(_, per_agent)| !per_agent.is_empty()).collect()
}

/// What they offer this agent, where that is something else than the profile has.
fn others<'a>(profile: &View, per_agent: &'a [(usize, Arc<AgentLists>)], session: u64) -> Vec<(usize, &'a Lists)> {
    let lists = per_agent.iter().filter_map(|(server, per_agent)| Some((*server, per_agent.get(&session)?)));
    lists.filter(|(server, lists)| !is_same(lists, &profile.servers[*server].lists)).collect()
}
