//! The agents that a server has to know of, because they are told what they did not ask for. Pure.
//!
//! It outlives an instance: who is there and what they want is the same for the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::call::ReplySender;
use super::subscriptions::{Subscription, Subscriptions};
use super::task_subscribers::{TaskSubscribers, TaskSubscription};
use crate::client_capabilities::ClientCapabilities;
use crate::era::Era;
use crate::log_level::LogLevel;

/// One that is there.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Number of its connection.
    pub session: u64,
    /// The way to it.
    pub to: ReplySender,
    /// From which level on it wants log messages, if it has said so.
    pub level: Option<LogLevel>,
    /// What it can be asked to do.
    pub abilities: Arc<ClientCapabilities>,
    /// In which era it speaks; that of its first request, if it speaks in both.
    pub era: Era,
    /// Whose it is; `None` for one that is known by its calls alone.
    pub user: Option<Arc<User>>,
}

/// A user at a profile. Some limits hold for all agents of one together.
#[derive(Debug, PartialEq, Eq)]
pub struct User {
    /// Name of the profile.
    pub profile: Arc<str>,
    /// User id at connect time.
    pub uid: u32,
    /// Whether this is another user than the one who runs mcpd.
    pub is_guest: bool,
}

impl Agent {
    /// One that is known by its calls alone, and has said nothing of itself.
    pub(crate) fn unknown(session: u64, to: &ReplySender, era: Era) -> Self {
        Self { session, to: to.clone(), level: None, abilities: Arc::default(), era, user: None }
    }
}

/// Those of one server, or of one of its instances.
#[derive(Debug, Default)]
pub(crate) struct Agents {
    there: BTreeMap<u64, Agent>,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) task_subscribers: TaskSubscribers,
}

impl Agents {
    /// One is there, or wants something else than before.
    pub(crate) fn attach(&mut self, agent: Agent) {
        self.there.insert(agent.session, agent);
    }

    /// One has gone. Gives the raw URIs of the resources that nobody has subscribed to any more.
    pub(crate) fn detach(&mut self, session: u64) -> Vec<bytes::Bytes> {
        self.there.remove(&session);
        self.subscriptions.leave_all(session)
    }

    /// The way to one is this, if it is not known yet.
    pub(crate) fn know(&mut self, session: u64, to: &ReplySender) {
        self.there.entry(session).or_insert_with(|| Agent::unknown(session, to, Era::Legacy));
    }

    /// Has one hear of a resource that others have subscribed to; `false` if there are none.
    pub(crate) fn join(&mut self, uri: &[u8], session: u64, to: Option<&ReplySender>) -> bool {
        let joined = self.subscriptions.join(uri, session);
        if let Some(to) = to.filter(|_| joined) {
            self.know(session, to);
        }
        joined
    }

    /// One is to hear of a resource from now on, or no more. What the server has to be asked for, if anything.
    pub(crate) fn hear(&mut self, agent: Agent, subscription: Subscription) -> Option<Subscription> {
        let (session, Subscription { uri, raw, begins }) = (agent.session, &subscription);
        if !begins {
            let raw = self.subscriptions.give_up(uri, session)?;
            return Some(Subscription { raw, ..subscription });
        }
        self.attach(agent);
        if self.subscriptions.join(uri, session) {
            return None;
        }
        self.subscriptions.insert(uri.clone(), raw.clone(), [session]);
        Some(subscription)
    }

    /// One is to hear of a task from now on, or no more. What the server has to be asked for, if anything.
    pub(crate) fn follow(&mut self, agent: Agent, following: TaskSubscription) -> Option<TaskSubscription> {
        let (session, TaskSubscription { id, begins }) = (agent.session, &following);
        let is_new = if *begins {
            self.attach(agent);
            self.task_subscribers.join(id, session)
        } else {
            self.task_subscribers.leave(id, session)
        };
        is_new.then_some(following)
    }

    /// Each that is there, and what it has subscribed to.
    pub(crate) fn into_parts(self) -> (BTreeMap<u64, Agent>, Vec<(Agent, Subscription)>) {
        let subscribed =
            |(session, subscription): (u64, Subscription)| Some((self.there.get(&session)?.clone(), subscription));
        let subscriptions = self.subscriptions.by_agent().filter_map(subscribed).collect();
        (self.there, subscriptions)
    }

    /// Whether nobody wants to hear of anything that only an instance can tell.
    pub(crate) fn want_nothing(&self) -> bool {
        self.subscriptions.is_empty() && self.task_subscribers.is_empty()
    }

    /// The level that a server has to log from so that each has what it wants, if any has said so.
    pub(crate) fn level(&self) -> Option<LogLevel> {
        self.there.values().filter_map(|agent| agent.level).min()
    }

    /// The way to each.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ReplySender> {
        self.there.values().map(|agent| &agent.to)
    }

    /// The way to one.
    pub(crate) fn find(&self, session: u64) -> Option<&ReplySender> {
        self.there.get(&session).map(|agent| &agent.to)
    }
}
