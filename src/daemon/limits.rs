//! Whose connections are closed when several hold too much together. Pure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::server::User;

/// A connection that holds a part of the budget.
#[derive(Debug)]
pub(super) struct Holder<Id> {
    pub(super) id: Id,
    pub(super) user: Arc<User>,
    pub(super) bytes: usize,
    pub(super) age: Duration,
}

/// Which connections are to be closed so that the rest fit into `limit` bytes.
///
/// They are connections of the user who holds most, beginning with the one that has held most bytes for the longest time: who
/// reads slowly is not closed for others who do not read.
pub(super) fn surplus<Id>(mut holders: Vec<Holder<Id>>, limit: usize) -> Vec<Holder<Id>> {
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
    fn connection_with_the_most_bytes_for_the_longest_time_is_closed_first() {
        assert_eq!(closed(10, &[(OWN, 9, 1), (OWN, 3, 60)]), [1]);
        assert_eq!(closed(10, &[(OWN, 9, 60), (OWN, 3, 60)]), [0]);
    }
}
