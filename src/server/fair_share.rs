//! Fair-share admission at the in-flight limit of an instance.
//!
//! Below the limit every call is admitted, and nothing is counted per session. At the limit, a call of a session with fewer than
//! `limit / sessions` calls is still admitted, so one busy session cannot lock out the others. No admitted call is removed. So the
//! session with the `k`th most calls has at most `limit / k`, and all `n` sessions together have at most `limit × (1 + 1/2 + … +
//! 1/n)`.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;

/// Calls in flight at one instance. One more waits ([`super::fair_queue`]), unless its session has less than its equal share.
pub(crate) const MAX_IN_FLIGHT: usize = 256;

/// What each session uses: its number of calls, or their bytes.
pub(super) struct Usage(HashMap<u64, usize>);

impl Usage {
    /// Sums up the sizes of each session.
    pub(super) fn of(used: impl Iterator<Item = (u64, usize)>) -> Self {
        let mut sizes = HashMap::new();
        for (session, size) in used {
            *sizes.entry(session).or_default() += size;
        }
        Self(sizes)
    }

    /// Whether `session` would still have less than its equal share of `capacity` with `size` more.
    pub(super) fn is_below_share(&self, capacity: usize, session: u64, size: usize) -> bool {
        let own = self.0.get(&session);
        let sessions = self.0.len() + usize::from(own.is_none());
        sessions > 1 && own.copied().unwrap_or_default() + size <= (capacity / sessions).max(1)
    }
}

/// The sessions that an instance admits one more call of.
pub(super) enum Vacancies {
    /// All sessions.
    All,
    /// No session.
    None,
    /// Sessions with less than their share.
    BelowShare(Usage),
}

impl Vacancies {
    pub(super) fn has(&self, session: u64) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::BelowShare(shares) => shares.is_below_share(MAX_IN_FLIGHT, session, 1),
        }
    }
}

/// Whether a call of `size` is admitted although the whole `capacity` is used. `used` has each unanswered call: its session and its
/// size.
pub(super) fn is_below_share(
    capacity: usize,
    session: u64,
    size: usize,
    used: impl Iterator<Item = (u64, usize)>,
) -> bool {
    Usage::of(used).is_below_share(capacity, session, size)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPACITY: usize = 32;

    /// Admits as an instance does.
    fn is_admitted(used: &[u64], session: u64) -> bool {
        used.len() < CAPACITY || is_below_share(CAPACITY, session, 1, used.iter().map(|of| (*of, 1)))
    }

    fn count(used: &[u64], session: u64) -> usize {
        used.iter().filter(|of| **of == session).count()
    }

    #[test]
    fn session_alone_gets_the_whole_capacity_and_beside_others_its_share() {
        let mut used = Vec::new();
        for session in 1..=4 {
            while is_admitted(&used, session) {
                used.push(session);
            }
        }
        let shares: Vec<_> = (1..=4).map(|session| count(&used, session)).collect();
        assert_eq!(shares, [32, 16, 10, 8]);
    }

    #[test]
    fn share_is_counted_in_bytes_as_well() {
        let greedy = [(1, 900), (1, 100)];
        let is_admitted = |session, size| is_below_share(1000, session, size, greedy.into_iter());
        assert!(!is_admitted(1, 1) && is_admitted(2, 500) && !is_admitted(2, 501));
    }

    #[test]
    fn session_that_takes_the_whole_capacity_at_once_keeps_no_other_from_its_share() {
        let mut used = vec![0; CAPACITY];
        for _ in 0..10 * CAPACITY {
            // The oldest call is answered.
            used.remove(0);
            for session in [0, 0, 0, 1] {
                if is_admitted(&used, session) {
                    used.push(session);
                }
            }
        }
        assert!(count(&used, 1) >= CAPACITY / 2 - 1, "{used:?}");
    }

    proptest! {
        #[test]
        fn session_without_a_call_is_always_admitted_and_all_together_stay_bounded(
            operations in prop::collection::vec((0..4u8, 0..40u64, 0..1000usize), 0..600),
        ) {
            let mut used: Vec<u64> = Vec::new();
            for (kind, session, which) in operations {
                // Some sessions call far more often than others.
                let session = if kind == 0 { session } else { session % 3 };
                if kind == 3 && !used.is_empty() {
                    used.swap_remove(which % used.len());
                    continue;
                }
                let own = count(&used, session);
                let is_admitted = is_admitted(&used, session);
                prop_assert!(is_admitted || own > 0, "nobody is shut out");
                prop_assert!(is_admitted || used.len() >= CAPACITY, "nobody is refused while there is room");
                if is_admitted {
                    used.push(session);
                }
                let mut counts: Vec<_> = (0..40).map(|of| count(&used, of)).filter(|count| *count > 0).collect();
                counts.sort_unstable_by(|a, b| b.cmp(a));
                for (before, count) in counts.iter().enumerate() {
                    prop_assert!(*count <= (CAPACITY / (before + 1)).max(1), "{counts:?}");
                }
            }
        }
    }
}
