//! What one user at one profile may take of the daemon, and whose connection is closed when all hold too much.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Daemon;
use crate::server::User;

/// Of all places, one user at one profile may have this share; one more connection gets −31003 and is closed.
const SHARE: usize = 2;
/// The same for a user that is a guest.
const GUEST_SHARE: usize = 16;
/// All guests together may have this share.
const ALL_GUESTS_SHARE: usize = 2;

/// How often refusals are logged; those between are counted.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Refusals that were not logged yet.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    logged: Option<Instant>,
    unlogged: u64,
}

impl Refusals {
    /// Counts one. Gives how many were not logged before it, if it is to be logged.
    pub(super) fn count(&mut self) -> Option<u64> {
        if self.logged.is_some_and(|logged| logged.elapsed() < LOG_INTERVAL) {
            self.unlogged += 1;
            return None;
        }
        self.logged = Some(Instant::now());
        Some(std::mem::take(&mut self.unlogged))
    }
}

/// A connection that holds a part of the budget.
#[derive(Debug)]
struct Holder<Id> {
    id: Id,
    user: Arc<User>,
    bytes: usize,
    age: Duration,
}

/// Which connections are to be closed so that the rest fit into `limit` bytes.
///
/// They are connections of the user who holds most, beginning with the one that has held most bytes for the longest time: who
/// reads slowly is not closed for others who do not read.
fn surplus<Id>(mut holders: Vec<Holder<Id>>, limit: usize) -> Vec<Holder<Id>> {
    let mut users: HashMap<(Arc<str>, u32), usize> = HashMap::new();
    let key = |holder: &Holder<Id>| (Arc::clone(&holder.user.profile), holder.user.uid);
    for holder in &holders {
        *users.entry(key(holder)).or_default() += holder.bytes;
    }
    let mut total: usize = users.values().sum();
    let mut surplus = Vec::new();
    while total > limit {
        let cost = |holder: &Holder<Id>| holder.bytes as u128 * holder.age.as_millis().max(1);
        let most = (0..holders.len()).max_by_key(|&at| (users[&key(&holders[at])], cost(&holders[at])));
        let Some(most) = most else { break };
        let holder = holders.swap_remove(most);
        total -= holder.bytes;
        users.entry(key(&holder)).and_modify(|bytes| *bytes -= holder.bytes);
        surplus.push(holder);
    }
    surplus
}

impl Daemon {
    /// The reason to refuse one more agent of `user`, if a limit is reached.
    pub(super) fn is_full_for(&self, user: &User) -> Option<String> {
        let max = self.max_sessions;
        if self.sessions.len() >= max {
            return Some(format!("mcpd serves {max} agents already"));
        }
        let own = max / if user.is_guest { GUEST_SHARE } else { SHARE };
        if self.connected.values().filter(|agent| *agent.user == *user).count() >= own.max(1) {
            return Some(format!("mcpd serves {own} agents of this user at this profile already"));
        }
        let guests = self.connected.values().filter(|agent| agent.user.is_guest).count();
        let is_full = user.is_guest && guests >= max / ALL_GUESTS_SHARE;
        is_full.then(|| format!("mcpd serves {guests} agents of other users already"))
    }

    /// Closes connections until the others are within the budget.
    pub(super) fn relieve(&mut self) {
        let holders = self.connected.iter().filter(|(_, agent)| agent.cut_off.is_some() && agent.backlog.bytes() > 0);
        let holders = holders.map(|(id, agent)| {
            let user = Arc::clone(&agent.user);
            Holder { id: *id, user, bytes: agent.backlog.bytes(), age: agent.backlog.age() }
        });
        for Holder { id, bytes, .. } in surplus(holders.collect(), self.budget.limit()) {
            let Some(agent) = self.connected.get_mut(&id) else { continue };
            let (session, pid, uid) = (agent.number, agent.peer.pid, agent.peer.uid);
            tracing::warn!(session, pid, uid, bytes, "cut off an agent: unread and half-sent data exceeds the budget");
            // It may have ended already.
            let _ = agent.cut_off.take().map(|order| order.send(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 1000;
    const GUEST: u32 = 7;

    /// Numbers of the connections that are closed, in order, of those with a user, bytes and an age in seconds each.
    fn closed(limit: usize, all: &[(u32, usize, u64)]) -> Vec<usize> {
        let user = |uid| Arc::new(User { profile: "p".into(), uid, is_guest: uid == GUEST });
        let holder = |(id, &(uid, bytes, age)): (usize, &_)| Holder {
            id,
            user: user(uid),
            bytes,
            age: Duration::from_secs(age),
        };
        surplus(all.iter().enumerate().map(holder).collect(), limit).into_iter().map(|holder| holder.id).collect()
    }

    #[test]
    fn nothing_is_closed_within_the_limit() {
        assert_eq!(closed(10, &[(OWN, 5, 1), (GUEST, 5, 100)]), [0; 0]);
        assert_eq!(closed(10, &[]), [0; 0]);
    }

    #[test]
    fn connections_of_the_user_who_holds_most_are_closed_first() {
        assert_eq!(closed(10, &[(OWN, 5, 100), (GUEST, 3, 1), (GUEST, 3, 2)]), [2]);
        assert_eq!(closed(4, &[(OWN, 4, 100), (GUEST, 3, 1), (GUEST, 3, 2)]), [2, 0]);
    }

    #[test]
    fn of_one_user_the_connection_that_has_held_most_for_longest_is_closed_first() {
        assert_eq!(closed(10, &[(OWN, 9, 1), (OWN, 3, 60)]), [1]);
        assert_eq!(closed(10, &[(OWN, 9, 60), (OWN, 3, 60)]), [0]);
    }

    #[test]
    fn refusals_between_two_that_are_logged_are_counted() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.count(), Some(0));
        assert_eq!([refusals.count(), refusals.count()], [None, None]);
        refusals.logged = None;
        assert_eq!(refusals.count(), Some(2));
    }
}
