//! Fair-share admission at the in-flight limit of an instance.
//!
//! Below the limit every call is admitted, and nothing is counted. At the limit, users have equal shares, and so have the sessions of each
//! user in the share of the user, however many these are. A call within the share of its user or its session is still admitted, so nobody
//! can lock out the others. No admitted call is removed. With one session each, the user with the `k`th most calls has at most
//! `limit / k`, and all `n` users together have at most `limit × (1 + 1/2 + … + 1/n)`. The same is true for the sessions of one user.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;

/// Calls in flight at one instance. One more waits ([`super::fair_queue`]), unless its user or session has less than its share.
pub(crate) const MAX_IN_FLIGHT: usize = 256;

/// Whose share a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Payer {
    /// The user id of the agent, if it is known.
    pub(crate) uid: Option<u32>,
    /// The number of its connection.
    pub(crate) session: u64,
}

/// What each session of each user uses: its number of calls, or their bytes.
pub(super) struct Usage(HashMap<Option<u32>, HashMap<u64, usize>>);

impl Usage {
    /// Sums up the sizes of each session.
    pub(super) fn of(used: impl Iterator<Item = (Payer, usize)>) -> Self {
        let mut users: HashMap<_, HashMap<_, _>> = HashMap::new();
        for (Payer { uid, session }, size) in used {
            *users.entry(uid).or_default().entry(session).or_default() += size;
        }
        Self(users)
    }

    /// Whether, with `size` more, the user or the session of `payer` would still have at most its equal share of `capacity`.
    pub(super) fn is_below_share(&self, capacity: usize, payer: Payer, size: usize) -> bool {
        let user = self.0.get(&payer.uid);
        let session = user.and_then(|sessions| sessions.get(&payer.session));
        let users = self.0.len() + usize::from(user.is_none());
        let sessions = user.map_or(0, HashMap::len) + usize::from(session.is_none());
        let of_user: usize = user.map_or(0, |sessions| sessions.values().sum());
        let is_within = |used: usize, share: usize| used + size <= share.max(1);
        users > 1 && is_within(of_user, capacity / users)
            || sessions > 1 && is_within(session.copied().unwrap_or_default(), capacity / users / sessions)
    }
}

/// Of whom an instance admits one more call.
pub(super) enum Vacancies {
    Everybody,
    Nobody,
    /// Whoever has less than its share.
    BelowShare(Usage),
}

impl Vacancies {
    pub(super) fn has(&self, payer: Payer) -> bool {
        match self {
            Self::Everybody => true,
            Self::Nobody => false,
            Self::BelowShare(usage) => usage.is_below_share(MAX_IN_FLIGHT, payer, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: usize = 32;

    /// Admits as an instance does.
    fn is_admitted(used: &[Payer], payer: Payer) -> bool {
        used.len() < CAPACITY || Usage::of(used.iter().map(|of| (*of, 1))).is_below_share(CAPACITY, payer, 1)
    }

    fn count(used: &[Payer], is_it: impl Fn(&Payer) -> bool) -> usize {
        used.iter().filter(|of| is_it(of)).count()
    }

    fn payer(uid: u32, session: u64) -> Payer {
        Payer { uid: Some(uid), session }
    }

    /// How many calls each of these has after it has sent as many as possible, one after the other.
    fn shares(payers: &[Payer]) -> Vec<usize> {
        let mut used = Vec::new();
        for payer in payers {
            while is_admitted(&used, *payer) {
                used.push(*payer);
            }
        }
        payers.iter().map(|payer| count(&used, |of| of == payer)).collect()
    }

    #[test]
    fn one_alone_gets_the_whole_capacity_and_beside_others_its_share() {
        let expected = [32, 16, 10, 8];
        assert_eq!(shares(&[1, 2, 3, 4].map(|session| payer(1, session))), expected, "sessions of one user");
        assert_eq!(shares(&[1, 2, 3, 4].map(|uid| payer(uid, uid.into()))), expected, "users");
    }

    #[test]
    fn many_sessions_of_a_user_leave_another_user_its_share() {
        let own = (0..CAPACITY as u64).map(|session| payer(1, session));
        let all: Vec<_> = own.chain([payer(2, 100), payer(2, 101)]).collect();
        assert_eq!(shares(&all)[CAPACITY..], [CAPACITY / 2, CAPACITY / 4]);
    }

    #[test]
    fn share_is_counted_in_bytes_as_well() {
        let greedy = [(payer(1, 1), 900), (payer(1, 1), 100)];
        let is_admitted = |payer, size| Usage::of(greedy.into_iter()).is_below_share(1000, payer, size);
        assert!(!is_admitted(payer(1, 1), 1) && is_admitted(payer(1, 2), 500) && !is_admitted(payer(1, 2), 501));
        assert!(is_admitted(payer(2, 2), 500) && !is_admitted(payer(2, 2), 501));
    }

    #[test]
    fn session_that_takes_the_whole_capacity_at_once_keeps_no_other_from_its_share() {
        for [greedy, other] in [[payer(1, 0), payer(1, 1)], [payer(1, 0), payer(2, 1)]] {
            let mut used = vec![greedy; CAPACITY];
            for _ in 0..10 * CAPACITY {
                // The oldest call is answered.
                used.remove(0);
                for payer in [greedy, greedy, greedy, other] {
                    if is_admitted(&used, payer) {
                        used.push(payer);
                    }
                }
            }
            assert!(count(&used, |of| *of == other) >= CAPACITY / 2 - 1, "{used:?}");
        }
    }

    proptest! {
        #[test]
        fn nobody_is_shut_out_and_all_together_stay_bounded(
            operations in prop::collection::vec((0..4u8, 0..5u32, 0..12u64, 0..1000usize), 0..600),
        ) {
            let mut used: Vec<Payer> = Vec::new();
            for (kind, uid, session, which) in operations {
                // Some sessions call far more often than others.
                let session = if kind == 0 { session } else { session % 3 };
                let own = payer(uid, u64::from(uid) * 100 + session);
                if kind == 3 && !used.is_empty() {
                    used.swap_remove(which % used.len());
                    continue;
                }
                let is_admitted = is_admitted(&used, own);
                let users = (0..5).filter(|user| *user == uid || used.iter().any(|of| of.uid == Some(*user))).count();
                let of_user = count(&used, |of| of.uid == own.uid);
                prop_assert!(is_admitted || count(&used, |of| *of == own) > 0, "no session is shut out");
                prop_assert!(is_admitted || users == 1 || of_user + 1 > CAPACITY / users, "a user has its share: {used:?}");
                prop_assert!(is_admitted || used.len() >= CAPACITY, "nobody is refused while there is room");
                if is_admitted {
                    used.push(own);
                }
                for uid in 0..5 {
                    let sessions = (0..12).map(|session| payer(uid, u64::from(uid) * 100 + session));
                    let mut counts: Vec<_> = sessions.map(|one| count(&used, |of| *of == one)).collect();
                    counts.sort_unstable_by(|a, b| b.cmp(a));
                    for (before, count) in counts.iter().enumerate() {
                        prop_assert!(*count <= (CAPACITY / (before + 1)).max(1), "{counts:?}");
                    }
                }
            }
        }
    }
}
