//! Resource subscriptions, and which agents may or must receive each update.

use std::collections::{HashMap, HashSet};

/// What is known of an agent's subscription to a resource.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscriptionState {
    #[default]
    No,
    /// It has asked for one or given it up, and has no answer yet.
    Perhaps,
    Yes,
}

struct Update {
    uri: &'static str,
    /// The server has said it, for all that is known.
    is_over: bool,
    /// By the number of the agent.
    listeners: [Listener; 2],
}

#[derive(Debug, Clone, Copy)]
struct Listener {
    must: bool,
    may: bool,
    received: u32,
}

/// The subscriptions of both agents, and every update that a server was made to tell of, by its mark.
#[derive(Default)]
pub(super) struct Updates {
    subscribed: [HashMap<&'static str, SubscriptionState>; 2],
    all: HashMap<String, Update>,
}

impl Updates {
    pub(super) fn of(&self, number: usize, uri: &str) -> SubscriptionState {
        self.subscribed[number].get(uri).copied().unwrap_or_default()
    }

    /// What is known now of the subscription of an agent.
    pub(super) fn set(&mut self, number: usize, uri: &'static str, now: SubscriptionState) {
        self.subscribed[number].insert(uri, now);
        for update in self.all.values_mut().filter(|update| update.uri == uri && !update.is_over) {
            (update.listeners[number].must, update.listeners[number].may) = (false, true);
        }
    }

    /// The resources that somebody has subscribed to.
    pub(super) fn subscribed_uris(&self) -> HashSet<&'static str> {
        let all = self.subscribed.iter().flatten().filter(|(_, subscribed)| **subscribed == SubscriptionState::Yes);
        all.map(|(uri, _)| *uri).collect()
    }

    /// An agent has the server tell of one.
    pub(super) fn begin(&mut self, mark: &str, uri: &'static str) {
        let listeners = [0, 1].map(|number| {
            let subscribed = self.of(number, uri);
            Listener {
                must: subscribed == SubscriptionState::Yes,
                may: subscribed != SubscriptionState::No,
                received: 0,
            }
        });
        self.all.insert(mark.to_owned(), Update { uri, is_over: false, listeners });
    }

    /// The agent that had the server tell of it has its answer.
    pub(super) fn end(&mut self, mark: &str) {
        self.all.get_mut(mark).expect("it was begun").is_over = true;
    }

    /// This agent was told.
    pub(super) fn deliver(&mut self, number: usize, mark: &str, uri: &str) {
        let update = self.all.get_mut(mark).unwrap_or_else(|| panic!("nobody has changed {uri}: {mark}"));
        assert_eq!(update.uri, uri);
        update.listeners[number].received += 1;
    }

    /// How often somebody was told.
    pub(super) fn deliveries(&self) -> u32 {
        self.all.values().flat_map(|update| update.listeners).map(|listener| listener.received).sum()
    }

    /// Fails unless each was told to those who had subscribed, once, and to nobody else.
    pub(super) fn expect_right(&self) {
        for (mark, Update { uri, listeners, .. }) in &self.all {
            for Listener { must, may, received } in listeners {
                let allowed = u32::from(*must)..=u32::from(*may);
                assert!(allowed.contains(received), "{mark} of {uri}: {listeners:?}");
            }
        }
    }
}
