//! The view of one profile. It is rebuilt only when one of its inputs changes.
//!
//! A profile that hides nothing and uses the manager's naming shares the view of the whole, at no cost. Every other profile has its
//! own lists and assigns its own names.

use std::sync::Arc;

use tokio::sync::watch;

use super::Entry;
use crate::catalog::{Lists, Names};
use crate::config::{Profile, ServerConfig};
use crate::manager::agent_views::Subscribers;
use crate::manager::view::{Exposing, Member, View, keep_names};
use crate::naming::Naming;

/// The configuration of a server, and its variant for a profile; `None` if the profile excludes the server.
type Seen = (Arc<ServerConfig>, Option<Arc<ServerConfig>>);

/// A profile with its view and the agents that have views of their own.
#[derive(Debug)]
pub(super) struct ProfileView {
    pub(super) profile: Arc<Profile>,
    pub(super) names: Names,
    /// Maximum size of a message for profiles without a limit of their own, in bytes.
    max_message: usize,
    /// The profile shares the view of the whole.
    is_whole: bool,
    seen: Vec<Seen>,
    /// The profile has changed since the view was built.
    changed: bool,
    pub(super) view: watch::Sender<Arc<View>>,
    pub(super) subscribers: Subscribers,
}

impl ProfileView {
    /// The view of everything that the servers' own policies permit.
    pub(super) fn whole(naming: Naming, max_message: usize) -> Self {
        let view = Arc::new(View::empty(naming));
        Self::new(Arc::new(Profile::whole(naming)), max_message, false, view)
    }

    /// A profile whose view is empty, or that of the whole if they are the same.
    pub(super) fn of(profile: Arc<Profile>, whole: &Self) -> Self {
        let is_whole = whole.is_same_as(&profile);
        let view = if is_whole { whole.view.borrow().clone() } else { Arc::new(View::empty(profile.naming)) };
        Self::new(profile, whole.max_message, is_whole, view)
    }

    fn new(profile: Arc<Profile>, max_message: usize, is_whole: bool, first: Arc<View>) -> Self {
        let (view, names, subscribers) = (watch::Sender::new(first), Names::default(), Subscribers::default());
        Self { profile, names, max_message, is_whole, seen: Vec::new(), changed: true, view, subscribers }
    }

    /// Whether this view of the whole serves `profile` unchanged.
    fn is_same_as(&self, profile: &Profile) -> bool {
        profile.is_whole()
            && profile.naming == self.profile.naming
            && profile.quotas.max_message.is_none_or(|own| own == self.max_message)
    }

    /// Changes the naming of this view of the whole. Names that agents know keep their targets, or become unknown.
    pub(super) fn rename(&mut self, naming: Naming, profiles: &[Self]) {
        if self.profile.naming != naming {
            self.keep_names();
            profiles
                .iter()
                .filter(|shown| shown.is_whole)
                .for_each(|shown| shown.subscribers.keep_names(&mut self.names));
            self.profile = Arc::new(Profile::whole(naming));
            self.changed = true;
        }
    }

    /// Changes the profile. Names that agents know keep their targets, or become unknown.
    pub(super) fn set_profile(&mut self, profile: Arc<Profile>, whole: &Self) {
        if self.is_whole && !whole.is_same_as(&profile) {
            self.names = whole.names.clone();
            self.is_whole = false;
        }
        if self.profile != profile {
            if !self.is_whole && self.profile.naming != profile.naming {
                self.keep_names();
            }
            self.changed = true;
            self.seen.clear();
            self.profile = profile;
        }
    }

    fn keep_names(&mut self) {
        keep_names(&mut self.names, &self.view.borrow());
        self.subscribers.keep_names(&mut self.names);
    }

    /// Publishes the current state of these servers with their lists. `settled`: the view no longer waits for first lists.
    pub(super) fn publish(&mut self, servers: &[(&Entry, Lists)], settled: bool) {
        let last = self.view.borrow().clone();
        self.update_seen(servers);
        let seen = self.seen.iter().zip(servers);
        let members: Vec<_> = seen
            .filter_map(|((_, seen), (entry, lists))| Some(entry.member(Arc::clone(seen.as_ref()?), lists)))
            .collect();
        let settled = settled || last.settled || members.iter().all(Member::lists_are_known);
        let same = members.len() == last.servers.len() && members.iter().zip(&last.servers).all(|(a, b)| a.is_as(b));
        let is_new = std::mem::take(&mut self.changed) || !same || settled != last.settled;
        if is_new {
            let max_message = self.profile.quotas.max_message.unwrap_or(self.max_message);
            let exposing = Exposing { naming: self.profile.naming, max_message };
            let view = View::new(&mut self.names, exposing, members, settled);
            self.view.send_replace(Arc::new(view.with_faces_of(&last)));
        }
        self.subscribers.show(&self.view.borrow(), is_new, &mut self.names);
    }

    /// Updates the configuration of each server in this profile, and reuses known results.
    fn update_seen(&mut self, servers: &[(&Entry, Lists)]) {
        let before = std::mem::take(&mut self.seen);
        let of = |at: usize, config: &Arc<ServerConfig>| {
            let is_it = |known: &&Seen| Arc::ptr_eq(&known.0, config);
            let known = before.get(at).filter(is_it).or_else(|| before.iter().find(is_it));
            known.map_or_else(|| self.profile.seen(config), |(_, seen)| seen.clone())
        };
        let configs = servers.iter().map(|(entry, _)| &entry.config).enumerate();
        self.seen = configs.map(|(at, config)| (Arc::clone(config), of(at, config))).collect();
    }

    /// Publishes this view, or the view of `whole` if the profile shares it.
    pub(super) fn publish_beside(&mut self, whole: &mut Self, servers: &[(&Entry, Lists)]) {
        let view = whole.view.borrow().clone();
        if !self.is_whole {
            return self.publish(servers, view.settled);
        }
        let is_new = self.view.send_if_modified(|seen| {
            let is_other = !Arc::ptr_eq(seen, &view);
            *seen = Arc::clone(&view);
            is_other
        });
        self.subscribers.show(&view, is_new, &mut whole.names);
    }

    /// Subscribes an agent, by its session, to its view.
    pub(super) fn follow(&mut self, session: u64, whole: &mut Self) -> watch::Receiver<Arc<View>> {
        let view = self.view.borrow().clone();
        let names = if self.is_whole { &mut whole.names } else { &mut self.names };
        self.subscribers.follow(session, &view, names)
    }
}
