//! What agents of one profile see, built again only when something in it is another than before.
//!
//! A profile that hides nothing and names as the manager does is the view of the whole, and costs nothing beside it. Each of the
//! others has lists and names of its own: the names that were given in one say nothing in another.

use std::sync::Arc;

use tokio::sync::watch;

use super::Entry;
use crate::catalog::{Lists, Names};
use crate::config::{Profile, ServerConfig};
use crate::manager::agent_views::Subscribers;
use crate::manager::view::{Member, View, keep_names};
use crate::naming::Naming;

/// A server as it is configured, and as it is seen in a profile, if it is.
type Seen = (Arc<ServerConfig>, Option<Arc<ServerConfig>>);

/// A profile, and what is seen of it.
#[derive(Debug)]
pub(super) struct ProfileView {
    pub(super) profile: Arc<Profile>,
    pub(super) names: Names,
    /// What it shows is the same as the whole.
    is_whole: bool,
    seen: Vec<Seen>,
    /// It is another profile than the view was built for.
    changed: bool,
    pub(super) view: watch::Sender<Arc<View>>,
    pub(super) subscribers: Subscribers,
}

impl ProfileView {
    /// The view that hides nothing but what servers' own policies do.
    pub(super) fn whole(naming: Naming) -> Self {
        let view = Arc::new(View::empty(naming.clone()));
        Self::new(Arc::new(Profile::whole(naming)), false, view)
    }

    /// A profile that shows nothing of its own yet.
    pub(super) fn of(profile: Arc<Profile>, whole: &Self) -> Self {
        let is_whole = whole.is_same_as(&profile);
        let view = if is_whole { whole.view.borrow().clone() } else { Arc::new(View::empty(profile.naming.clone())) };
        Self::new(profile, is_whole, view)
    }

    fn new(profile: Arc<Profile>, is_whole: bool, first: Arc<View>) -> Self {
        let (view, names, subscribers) = (watch::Sender::new(first), Names::default(), Subscribers::default());
        Self { profile, names, is_whole, seen: Vec::new(), changed: true, view, subscribers }
    }

    /// Whether this, the whole, is what `profile` shows.
    fn is_same_as(&self, profile: &Profile) -> bool {
        profile.is_whole() && profile.naming == self.profile.naming
    }

    /// Is named as `naming` says from now on, this being the whole; the names that agents know go on to lead where they lead, or
    /// nowhere.
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

    /// Is `profile` from now on. As for names, the same holds.
    pub(super) fn become_other(&mut self, profile: Arc<Profile>, whole: &Self) {
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

    /// Shows what there is by now of these servers, each with its lists. `settled` says that nothing is to be waited for.
    pub(super) fn publish(&mut self, servers: &[(&Entry, Lists)], settled: bool) {
        let last = self.view.borrow().clone();
        self.look_at(servers);
        let seen = self.seen.iter().zip(servers);
        let members: Vec<_> = seen
            .filter_map(|((_, seen), (entry, lists))| Some(entry.member(Arc::clone(seen.as_ref()?), lists)))
            .collect();
        let is_known = |member: &Member| {
            let published = member.handle.published();
            published.attempted || published.has_listed
        };
        let settled = settled || last.settled || members.iter().all(is_known);
        let same = members.len() == last.servers.len() && members.iter().zip(&last.servers).all(|(a, b)| a.is_as(b));
        let is_new = std::mem::take(&mut self.changed) || !same || settled != last.settled;
        if is_new {
            let view = View::new(&mut self.names, self.profile.naming.clone(), members, settled);
            self.view.send_replace(Arc::new(view));
        }
        self.subscribers.show(&self.view.borrow(), is_new, &mut self.names);
    }

    /// Works out which of them is seen as what, unless that is known.
    fn look_at(&mut self, servers: &[(&Entry, Lists)]) {
        let before = std::mem::take(&mut self.seen);
        let of = |at: usize, config: &Arc<ServerConfig>| {
            let is_it = |known: &&Seen| Arc::ptr_eq(&known.0, config);
            let known = before.get(at).filter(is_it).or_else(|| before.iter().find(is_it));
            known.map_or_else(|| self.profile.seen(config), |(_, seen)| seen.clone())
        };
        let configs = servers.iter().map(|(entry, _)| &entry.config).enumerate();
        self.seen = configs.map(|(at, config)| (Arc::clone(config), of(at, config))).collect();
    }

    /// Shows what this or, if it is the same, `whole` has been built to show.
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

    /// What the agent with this connection sees now, and what it will.
    pub(super) fn follow(&mut self, session: u64, whole: &mut Self) -> watch::Receiver<Arc<View>> {
        let view = self.view.borrow().clone();
        let names = if self.is_whole { &mut whole.names } else { &mut self.names };
        self.subscribers.follow(session, &view, names)
    }
}
