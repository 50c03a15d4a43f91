//! Which agents have subscribed to which resources of a server. Pure.
//!
//! A server knows one client, so it is asked for a resource once, however many agents want to hear of it. What is here
//! outlives an instance: the next one is asked anew.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Bound;

use bytes::Bytes;

/// What an agent wants to hear of, or no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The URI as text.
    pub uri: Bytes,
    /// The same as the agent spelled it in JSON.
    pub raw: Bytes,
    /// Whether it is to begin.
    pub begins: bool,
}

/// Those of one server, by URI.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(BTreeMap<Bytes, Subscribers>);

#[derive(Debug)]
struct Subscribers {
    /// As the first agent spelled the URI.
    raw: Bytes,
    agents: BTreeSet<u64>,
}

impl Subscriptions {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an agent to those of a resource; `false` if there are none yet, so that the server has to be asked.
    pub(crate) fn join(&mut self, uri: &[u8], agent: u64) -> bool {
        self.0.get_mut(uri).map(|one| one.agents.insert(agent)).is_some()
    }

    /// The server has accepted that these agents hear of a resource.
    pub(crate) fn insert(&mut self, uri: Bytes, raw: Bytes, agents: impl IntoIterator<Item = u64>) {
        match self.0.entry(uri) {
            Entry::Vacant(place) => drop(place.insert(Subscribers { raw, agents: agents.into_iter().collect() })),
            Entry::Occupied(mut one) => one.get_mut().agents.extend(agents),
        }
    }

    /// Removes an agent from those of a resource. Whether others are left.
    pub(crate) fn leave(&mut self, uri: &[u8], agent: u64) -> bool {
        let Some(one) = self.0.get_mut(uri) else { return false };
        one.agents.remove(&agent);
        let others = !one.agents.is_empty();
        if !others {
            self.0.remove(uri);
        }
        others
    }

    /// Removes an agent from those of a resource. Gives its raw URI if nobody is left for it.
    pub(crate) fn give_up(&mut self, uri: &[u8], agent: u64) -> Option<Bytes> {
        let one = self.0.get_mut(uri)?;
        let was_last = one.agents.remove(&agent) && one.agents.is_empty();
        if was_last { self.0.remove(uri).map(|one| one.raw) } else { None }
    }

    /// Removes an agent from all. Gives the raw URIs of those that nobody is left for.
    pub(crate) fn leave_all(&mut self, agent: u64) -> Vec<Bytes> {
        let mut left = Vec::new();
        self.0.retain(|_, one| {
            let was_last = one.agents.remove(&agent) && one.agents.is_empty();
            if was_last {
                left.push(one.raw.clone());
            }
            !was_last
        });
        left
    }

    /// Removes one that the server does not keep up.
    pub(crate) fn forget(&mut self, uri: &[u8]) {
        self.0.remove(uri);
    }

    /// Each URI, as text and raw.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.0.iter().map(|(uri, one)| (uri, &one.raw))
    }

    /// What each agent has subscribed to.
    pub(crate) fn by_agent(&self) -> impl Iterator<Item = (u64, Subscription)> {
        self.0.iter().flat_map(|(uri, one)| {
            let subscription = Subscription { uri: uri.clone(), raw: one.raw.clone(), begins: true };
            one.agents.iter().map(move |agent| (*agent, subscription.clone()))
        })
    }

    /// The agents that are to hear that the resource `uri` has changed: subscribers of it, and of what it is a part of, for
    /// a change of that may be told so (MCP 2025-11-25, schema, `ResourceUpdatedNotificationParams`).
    pub(crate) fn concerned(&self, uri: &[u8]) -> BTreeSet<u64> {
        let mut agents = BTreeSet::new();
        // Every URI that this one begins with sorts before it; what does not begin it tells how much to cut off.
        let mut before = Bound::Included(uri);
        while let Some((whole, one)) = self.0.range::<[u8], _>((Bound::Unbounded, before)).next_back() {
            let common = whole.iter().zip(uri).take_while(|(a, b)| a == b).count();
            before = if common == whole.len() { Bound::Excluded(&whole[..]) } else { Bound::Included(&uri[..common]) };
            if is_part(uri, whole) {
                agents.extend(&one.agents);
            }
        }
        agents
    }
}

/// Whether `uri` is `whole` or a part of it.
#[must_use]
pub(crate) fn is_part(uri: &[u8], whole: &[u8]) -> bool {
    let Some(rest) = uri.strip_prefix(whole) else { return false };
    rest.is_empty() || whole.ends_with(b"/") || matches!(rest[0], b'/' | b'?' | b'#')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with(all: &[(&'static str, u64)]) -> Subscriptions {
        let mut subscriptions = Subscriptions::default();
        for (uri, agent) in all {
            subscriptions.insert(Bytes::from(*uri), Bytes::from(format!("\"{uri}\"")), [*agent]);
        }
        subscriptions
    }

    #[test]
    fn a_resource_is_the_servers_matter_from_its_first_agent_to_its_last() {
        let mut subscriptions = with(&[]);
        assert!(!subscriptions.join(b"a", 1));
        subscriptions.insert(Bytes::from("a"), Bytes::from("\"a\""), [1, 2]);
        assert!(subscriptions.join(b"a", 3) && subscriptions.join(b"a", 3), "twice is once");
        assert!(subscriptions.leave(b"a", 3) && subscriptions.leave(b"a", 9) && !subscriptions.leave(b"b", 1));
        assert_eq!((subscriptions.give_up(b"b", 1), subscriptions.give_up(b"a", 9)), (None, None));
        assert_eq!(subscriptions.leave_all(1), [""; 0]);
        assert_eq!(subscriptions.leave_all(2), ["\"a\""]);
        assert!(subscriptions.is_empty());
        subscriptions.insert(Bytes::from("a"), Bytes::from("\"a\""), [1]);
        assert_eq!(subscriptions.give_up(b"a", 1).as_deref(), Some(&b"\"a\""[..]));
        assert!(subscriptions.is_empty());
    }

    #[test]
    fn a_change_concerns_those_who_have_the_resource_or_what_it_is_a_part_of() {
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
        fn whom_a_change_concerns_is_found_without_asking_all(
            all in prop::collection::vec("[a/]{0,5}", 0..12), uri in "[a/]{0,7}",
        ) {
            let mut subscriptions = Subscriptions::default();
            for (agent, own) in (0..).zip(&all) {
                subscriptions.insert(Bytes::from(own.clone()), Bytes::new(), [agent]);
            }
            let is_concerned = |own: &String| is_part(uri.as_bytes(), own.as_bytes());
            let expected: BTreeSet<u64> = (0..).zip(&all).filter(|(_, own)| is_concerned(own)).map(|(agent, _)| agent).collect();
            prop_assert_eq!(subscriptions.concerned(uri.as_bytes()), expected);
        }
    }
}
