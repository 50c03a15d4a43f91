//! The subscriptions of agents to resources of a server, and to tasks of an instance. Pure.
//!
//! A server has one client, so mcpd subscribes once for all its agents. Subscriptions to resources outlive an instance and are renewed at
//! the next one. Source of tasks: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status Notifications".

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;

use super::agents::Agent;

/// Begins or ends the subscription of an agent to a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceSubscriptionChange {
    /// The URI as text.
    pub uri: Bytes,
    /// The URI as raw JSON of the agent.
    pub raw: Bytes,
    /// Whether the subscription begins; otherwise it ends.
    pub begins: bool,
}

/// The subscriptions of one server, by URI.
#[derive(Debug, Default)]
pub(crate) struct ResourceSubscribers(BTreeMap<Bytes, Subscribers>);

#[derive(Debug)]
struct Subscribers {
    /// The URI as raw JSON of the first agent.
    raw: Bytes,
    sessions: BTreeSet<u64>,
}

impl ResourceSubscribers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a session to a resource that has subscribers. Returns whether the server's subscription has to change: the resource has
    /// none, so mcpd has to subscribe first.
    pub(crate) fn add(&mut self, uri: &[u8], session: u64) -> bool {
        self.0.get_mut(uri).map(|one| one.sessions.insert(session)).is_none()
    }

    /// Records a subscription of these sessions that the server has accepted.
    pub(crate) fn insert(&mut self, uri: Bytes, raw: Bytes, sessions: impl IntoIterator<Item = u64>) {
        match self.0.entry(uri) {
            Entry::Vacant(vacant) => drop(vacant.insert(Subscribers { raw, sessions: sessions.into_iter().collect() })),
            Entry::Occupied(mut one) => one.get_mut().sessions.extend(sessions),
        }
    }

    /// Removes a session from a resource. Returns whether the server's subscription has to change: no other subscriber is left.
    pub(crate) fn remove(&mut self, uri: &[u8], session: u64) -> bool {
        let Some(one) = self.0.get_mut(uri) else { return true };
        one.sessions.remove(&session);
        let is_last = one.sessions.is_empty();
        if is_last {
            self.0.remove(uri);
        }
        is_last
    }

    /// Removes a session from a resource. Returns the raw URI if no subscriber is left.
    pub(crate) fn remove_subscriber(&mut self, uri: &[u8], session: u64) -> Option<Bytes> {
        let one = self.0.get_mut(uri)?;
        let was_last = one.sessions.remove(&session) && one.sessions.is_empty();
        if was_last { self.0.remove(uri).map(|one| one.raw) } else { None }
    }

    /// Removes a session from all resources. Returns the raw URIs of those without subscribers.
    pub(crate) fn remove_from_all(&mut self, session: u64) -> Vec<Bytes> {
        let mut left = Vec::new();
        self.0.retain(|_, one| {
            let was_last = one.sessions.remove(&session) && one.sessions.is_empty();
            if was_last {
                left.push(one.raw.clone());
            }
            !was_last
        });
        left
    }

    /// Removes a subscription that the server has ended.
    pub(crate) fn forget(&mut self, uri: &[u8]) {
        self.0.remove(uri);
    }

    /// Each URI, as text and as raw JSON.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.0.iter().map(|(uri, one)| (uri, &one.raw))
    }

    /// Each subscription with its session, as the change that begins it.
    pub(crate) fn by_session(&self) -> impl Iterator<Item = (u64, ResourceSubscriptionChange)> {
        self.0.iter().flat_map(|(uri, one)| {
            let subscription = ResourceSubscriptionChange { uri: uri.clone(), raw: one.raw.clone(), begins: true };
            one.sessions.iter().map(move |session| (*session, subscription.clone()))
        })
    }

    /// The sessions to notify of a change of the resource `uri`: its subscribers and those of resources that contain it. A server
    /// may report the change of a part (MCP 2025-11-25, schema, `ResourceUpdatedNotificationParams`).
    pub(crate) fn concerned(&self, uri: &[u8]) -> BTreeSet<u64> {
        let mut sessions = BTreeSet::new();
        // Every prefix of `uri` sorts before it. An entry that is no prefix shows how much of `uri` to cut off for the next lookup.
        let mut before = Bound::Included(uri);
        while let Some((whole, one)) = self.0.range::<[u8], _>((Bound::Unbounded, before)).next_back() {
            let common = whole.iter().zip(uri).take_while(|(a, b)| a == b).count();
            before = if common == whole.len() { Bound::Excluded(&whole[..]) } else { Bound::Included(&uri[..common]) };
            if is_part(uri, whole) {
                sessions.extend(&one.sessions);
            }
        }
        sessions
    }
}

/// Whether `uri` equals `whole` or is a part of it.
#[must_use]
pub(crate) fn is_part(uri: &[u8], whole: &[u8]) -> bool {
    let Some(rest) = uri.strip_prefix(whole) else { return false };
    rest.is_empty() || whole.ends_with(b"/") || matches!(rest[0], b'/' | b'?' | b'#')
}

/// Begins or ends a subscription of an agent, other than to changed lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionChange {
    /// To changes of a resource.
    Resource(ResourceSubscriptionChange),
    /// To the status of a task.
    Task(TaskSubscriptionChange),
}

/// Begins or ends the subscription of an agent to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSubscriptionChange {
    /// The server's id of the task, as text.
    pub id: Bytes,
    /// The tag of the instance that created the task.
    pub instance_tag: u64,
    /// Whether the subscription begins; otherwise it ends.
    pub begins: bool,
}

/// The subscribers of the tasks of one instance, by task id and session.
///
/// A subscriber is not attached to the instance, because the instance may belong to another agent.
#[derive(Debug, Default)]
pub(crate) struct TaskSubscribers(BTreeMap<Bytes, BTreeMap<u64, Agent>>);

impl TaskSubscribers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an agent to a task.
    pub(crate) fn add(&mut self, id: &Bytes, agent: Agent) {
        self.0.entry(id.clone()).or_default().insert(agent.session, agent);
    }

    /// Removes a session from a task. Returns whether it was the last subscriber.
    pub(crate) fn remove(&mut self, id: &Bytes, session: u64) -> bool {
        let Some(sessions) = self.0.get_mut(id) else { return false };
        let was_last = sessions.remove(&session).is_some() && sessions.is_empty();
        if was_last {
            self.0.remove(id);
        }
        was_last
    }

    /// Removes a session from all tasks. Returns the tasks without subscribers.
    pub(crate) fn remove_from_all(&mut self, session: u64) -> Vec<Bytes> {
        let all: Vec<_> = self.0.keys().cloned().collect();
        all.into_iter().filter(|id| self.remove(id, session)).collect()
    }

    /// The subscribers of one task.
    pub(crate) fn of_task(&self, id: &[u8]) -> impl Iterator<Item = &Agent> {
        self.0.get(id).into_iter().flat_map(BTreeMap::values)
    }

    /// Removes a task that has ended or whose subscription the server refuses.
    pub(crate) fn forget(&mut self, id: &[u8]) {
        self.0.remove(id);
    }

    /// Removes all tasks, as their instance was replaced.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::era::Era;
    use crate::server::control::StopReceiver;
    use crate::server::messages::call::SessionSender;

    fn with(all: &[(&'static str, u64)]) -> ResourceSubscribers {
        let mut subscriptions = ResourceSubscribers::default();
        for (uri, session) in all {
            subscriptions.insert(Bytes::from(*uri), Bytes::from(format!("\"{uri}\"")), [*session]);
        }
        subscriptions
    }

    #[test]
    fn server_is_concerned_only_by_the_first_and_last_subscriber_of_a_resource() {
        let mut subscriptions = with(&[]);
        assert!(subscriptions.add(b"a", 1));
        subscriptions.insert(Bytes::from("a"), Bytes::from("\"a\""), [1, 2]);
        assert!(!subscriptions.add(b"a", 3) && !subscriptions.add(b"a", 3), "twice is once");
        assert!(!subscriptions.remove(b"a", 3) && !subscriptions.remove(b"a", 9) && subscriptions.remove(b"b", 1));
        assert_eq!((subscriptions.remove_subscriber(b"b", 1), subscriptions.remove_subscriber(b"a", 9)), (None, None));
        assert_eq!(subscriptions.remove_from_all(1), [""; 0]);
        assert_eq!(subscriptions.remove_from_all(2), ["\"a\""]);
        assert!(subscriptions.is_empty());
        subscriptions.insert(Bytes::from("a"), Bytes::from("\"a\""), [1]);
        assert_eq!(subscriptions.remove_subscriber(b"a", 1).as_deref(), Some(&b"\"a\""[..]));
        assert!(subscriptions.is_empty());
    }

    #[test]
    fn change_concerns_subscribers_of_the_resource_and_of_its_containers() {
        let subscriptions = with(&[("x://a", 1), ("x://a/b", 2), ("x://ab", 3), ("x://", 4), ("x://a/b/c", 5)]);
        let check = |uri: &str, expected: &[u64]| {
            assert!(subscriptions.concerned(uri.as_bytes()).iter().eq(expected), "{uri}");
        };
        check("x://a", &[1, 4]);
        check("x://a/b", &[1, 2, 4]);
        check("x://a/b#1", &[1, 2, 4]);
        check("x://abc", &[4]);
        check("x:", &[]);
        check("y://a", &[]);
    }

    proptest! {
        #[test]
        fn concerned_sessions_match_a_check_of_every_subscription(
            all in prop::collection::vec("[a/]{0,5}", 0..12), uri in "[a/]{0,7}",
        ) {
            let mut subscriptions = ResourceSubscribers::default();
            for (session, own) in (0..).zip(&all) {
                subscriptions.insert(Bytes::from(own.clone()), Bytes::new(), [session]);
            }
            let is_concerned = |own: &String| is_part(uri.as_bytes(), own.as_bytes());
            let expected: BTreeSet<u64> = (0..).zip(&all).filter(|(_, own)| is_concerned(own)).map(|(session, _)| session).collect();
            prop_assert_eq!(subscriptions.concerned(uri.as_bytes()), expected);
        }
    }

    fn agent(session: u64) -> Agent {
        let (to, _) = SessionSender::channel(None, Arc::default(), StopReceiver::channel().1);
        Agent::from_call(session, &to, Era::Modern)
    }

    #[test]
    fn server_is_unsubscribed_with_the_last_subscriber() {
        let mut task_subscribers = TaskSubscribers::default();
        let [a, b] = ["a", "b"].map(Bytes::from);
        for (id, session) in [(&a, 1), (&a, 2), (&a, 2), (&b, 2)] {
            task_subscribers.add(id, agent(session));
        }
        let sessions =
            |all: &TaskSubscribers, id: &[u8]| all.of_task(id).map(|agent| agent.session).collect::<Vec<_>>();
        assert_eq!(sessions(&task_subscribers, b"a"), [1, 2]);
        assert!(sessions(&task_subscribers, b"c").is_empty());
        assert!(!task_subscribers.remove(&a, 9) && !task_subscribers.remove(&a, 1) && !task_subscribers.remove(&a, 1));
        assert_eq!(task_subscribers.remove_from_all(2), [a.clone(), b]);
        assert!(task_subscribers.is_empty() && !task_subscribers.remove(&a, 2));
        task_subscribers.add(&a, agent(1));
        task_subscribers.forget(b"a");
        assert!(task_subscribers.is_empty() && task_subscribers.remove_from_all(1).is_empty());
    }
}
