//! The agents that are attached to a server, with their subscriptions. Pure.
//!
//! This outlives an instance: the next one serves the same agents.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::call::SessionSender;
use super::subscribers::{ResourceSubscribers, ResourceSubscriptionChange, TaskSubscribers};
use crate::client_capabilities::ClientCapabilities;
use crate::era::Era;
use crate::log_level::LogLevel;

/// An attached agent.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Number of its connection.
    pub session: u64,
    /// The channel to its session.
    pub to: SessionSender,
    /// The lowest level of the log messages that it requires, if it has set one.
    pub level: Option<LogLevel>,
    /// The capabilities that it has declared.
    pub capabilities: Arc<ClientCapabilities>,
    /// The era of its first request.
    pub era: Era,
    /// Its user; `None` for an agent that has only sent calls.
    pub user: Option<Arc<User>>,
}

/// A user of a profile. Some limits apply to all agents of a user together.
#[derive(Debug, PartialEq, Eq)]
pub struct User {
    /// Name of the profile.
    pub profile: Arc<str>,
    /// User id at connect time.
    pub uid: u32,
    /// Whether this is a guest: another user than the one that runs mcpd.
    pub is_guest: bool,
}

impl Agent {
    /// An agent that has only sent calls.
    pub(crate) fn from_call(session: u64, to: &SessionSender, era: Era) -> Self {
        Self { session, to: to.clone(), level: None, capabilities: Arc::default(), era, user: None }
    }
}

/// The agents of one server, or of one of its instances.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    attached: BTreeMap<u64, Agent>,
    pub(crate) resource_subscribers: ResourceSubscribers,
    pub(crate) task_subscribers: TaskSubscribers,
}

impl Agents {
    /// Adds an agent, or replaces its data: log level, capabilities and user.
    pub(crate) fn attach(&mut self, agent: Agent) {
        self.attached.insert(agent.session, agent);
    }

    /// Removes an agent. Returns the raw URIs of the resources without other subscribers.
    pub(crate) fn detach(&mut self, session: u64) -> Vec<bytes::Bytes> {
        self.attached.remove(&session);
        self.resource_subscribers.remove_from_all(session)
    }

    /// Adds an agent with this channel, unless it is attached.
    pub(crate) fn add_if_absent(&mut self, session: u64, to: &SessionSender) {
        self.attached.entry(session).or_insert_with(|| Agent::from_call(session, to, Era::Legacy));
    }

    /// Subscribes an agent to a resource that has subscribers; `false` if it has none.
    pub(crate) fn join(&mut self, uri: &[u8], session: u64, to: Option<&SessionSender>) -> bool {
        let joined = !self.resource_subscribers.add(uri, session);
        if let Some(to) = to.filter(|_| joined) {
            self.add_if_absent(session, to);
        }
        joined
    }

    /// Begins or ends a subscription to a resource. Returns the subscription that the server has to change, if any.
    pub(crate) fn subscribe(
        &mut self,
        agent: Agent,
        subscription: ResourceSubscriptionChange,
    ) -> Option<ResourceSubscriptionChange> {
        let (session, ResourceSubscriptionChange { uri, raw, begins }) = (agent.session, &subscription);
        if !begins {
            let raw = self.resource_subscribers.remove_subscriber(uri, session)?;
            return Some(ResourceSubscriptionChange { raw, ..subscription });
        }
        self.attach(agent);
        if !self.resource_subscribers.add(uri, session) {
            return None;
        }
        self.resource_subscribers.insert(uri.clone(), raw.clone(), [session]);
        Some(subscription)
    }

    /// The agents, and each subscription to a resource with its agent.
    pub(crate) fn into_parts(self) -> (BTreeMap<u64, Agent>, Vec<(Agent, ResourceSubscriptionChange)>) {
        let subscribed = |(session, subscription): (u64, ResourceSubscriptionChange)| {
            Some((self.attached.get(&session)?.clone(), subscription))
        };
        let subscriptions = self.resource_subscribers.by_session().filter_map(subscribed).collect();
        (self.attached, subscriptions)
    }

    /// Whether there are no subscriptions, which need an instance.
    pub(crate) fn has_no_subscriptions(&self) -> bool {
        self.resource_subscribers.is_empty() && self.task_subscribers.is_empty()
    }

    /// The lowest level that any agent has set.
    pub(crate) fn level(&self) -> Option<LogLevel> {
        self.attached.values().filter_map(|agent| agent.level).min()
    }

    /// The channels of all agents.
    pub(crate) fn all(&self) -> impl Iterator<Item = &SessionSender> {
        self.attached.values().map(|agent| &agent.to)
    }

    /// Whether all agents are certainly of one user, on whatever profiles.
    pub(crate) fn are_of_one_user(&self) -> bool {
        let mut uids = self.attached.values().map(|agent| agent.user.as_ref().map(|user| user.uid));
        uids.next().is_none_or(|first| first.is_some() && uids.all(|uid| uid == first))
    }

    /// The channel of one agent.
    pub(crate) fn find(&self, session: u64) -> Option<&SessionSender> {
        self.attached.get(&session).map(|agent| &agent.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::control::StopReceiver;

    fn agents(uids: &[Option<u32>]) -> Agents {
        let (to, _) = SessionSender::channel(None, Arc::default(), StopReceiver::channel().1);
        let mut all = Agents::default();
        for (session, uid) in (0..).zip(uids) {
            let profile = Arc::from(format!("profile{session}"));
            let user = uid.map(|uid| Arc::new(User { profile, uid, is_guest: uid != 1000 }));
            all.attach(Agent { user, ..Agent::from_call(session, &to, Era::Legacy) });
        }
        all
    }

    #[test]
    fn agents_are_of_one_user_if_all_uids_are_known_and_equal() {
        for (uids, expected) in [
            (&[][..], true),
            (&[Some(1000)], true),
            (&[Some(1000), Some(1000)], true),
            (&[Some(1000), Some(1001)], false),
            (&[Some(1000), None], false),
            (&[None], false),
        ] {
            assert_eq!(agents(uids).are_of_one_user(), expected, "{uids:?}");
        }
    }
}
