//! The subscriptions of agents to resources of a server. Pure.
//!
//! A server has one client, so mcpd subscribes once to a resource for all its agents. The subscriptions outlive an instance and
//! are renewed at the next one.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Bound;

use bytes::Bytes;

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
}
