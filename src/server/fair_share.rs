//! Fair-share admission at the in-flight limit of an instance.
//!
//! Below the limit every call is admitted, and nothing is counted per session. At the limit, a call of a session with fewer than
//! `limit / sessions` calls is still admitted, so one busy agent cannot lock out the others. No admitted call is removed. So the
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
    pub(super) fn of(taken: impl Iterator<Item = (u64, usize)>) -> Self {
        let mut sizes = HashMap::new();
        for (session, size) in taken {
            *sizes.entry(session).or_default() += size;
        }
        Self(sizes)
    }

    /// Whether `session` would still have less than its equal share of `places` with `size` more.
    pub(super) fn is_below_share(&self, places: usize, session: u64, size: usize) -> bool {
        let own = self.0.get(&session);
        let sessions = self.0.len() + usize::from(own.is_none());
        sessions > 1 && own.copied().unwrap_or_default() + size <= (places / sessions).max(1)
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

/// Whether a call of `size` gets a place although all `places` are taken. `taken` has each unanswered call: whose it is,
/// and its size.
pub(super) fn is_below_share(
    places: usize,
    session: u64,
    size: usize,
    taken: impl Iterator<Item = (u64, usize)>,
) -> bool {
    Usage::of(taken).is_below_share(places, session, size)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLACES: usize = 32;

    /// Admits as an instance does.
    fn is_taken(taken: &[u64], session: u64) -> bool {
        taken.len() < PLACES || is_below_share(PLACES, session, 1, taken.iter().map(|of| (*of, 1)))
    }

    fn count(taken: &[u64], session: u64) -> usize {
        taken.iter().filter(|of| **of == session).count()
    }

    #[test]
    fn an_agent_alone_has_all_places_and_beside_others_its_part() {
        let mut taken = Vec::new();
        for session in 1..=4 {
            while is_taken(&taken, session) {
                taken.push(session);
            }
        }
        let parts: Vec<_> = (1..=4).map(|session| count(&taken, session)).collect();
        assert_eq!(parts, [32, 16, 10, 8]);
    }

    #[test]
    fn a_part_is_counted_in_bytes_as_well() {
        let greedy = [(1, 900), (1, 100)];
        let is_due = |session, size| is_below_share(1000, session, size, greedy.into_iter());
        assert!(!is_due(1, 1) && is_due(2, 500) && !is_due(2, 501));
    }

    #[test]
    fn one_that_takes_every_place_at_once_keeps_no_other_from_its_part() {
        let mut taken = vec![0; PLACES];
        for _ in 0..10 * PLACES {
            // The oldest call is answered.
            taken.remove(0);
            for session in [0, 0, 0, 1] {
                if is_taken(&taken, session) {
                    taken.push(session);
                }
            }
        }
        assert!(count(&taken, 1) >= PLACES / 2 - 1, "{taken:?}");
    }

    proptest! {
        #[test]
        fn an_agent_without_a_call_always_gets_a_place_and_all_together_stay_bounded(
            operations in prop::collection::vec((0..4u8, 0..40u64, 0..1000usize), 0..600),
        ) {
            let mut taken: Vec<u64> = Vec::new();
            for (kind, session, which) in operations {
                // Some agents ask far more often than others.
                let session = if kind == 0 { session } else { session % 3 };
                if kind == 3 && !taken.is_empty() {
                    taken.swap_remove(which % taken.len());
                    continue;
                }
                let own = count(&taken, session);
                let is_taken = is_taken(&taken, session);
                prop_assert!(is_taken || own > 0, "nobody is shut out");
                prop_assert!(is_taken || taken.len() >= PLACES, "nobody is refused while there is room");
                if is_taken {
                    taken.push(session);
                }
                let mut counts: Vec<_> = (0..40).map(|of| count(&taken, of)).filter(|count| *count > 0).collect();
                counts.sort_unstable_by(|a, b| b.cmp(a));
                for (before, count) in counts.iter().enumerate() {
                    prop_assert!(*count <= (PLACES / (before + 1)).max(1), "{counts:?}");
                }
            }
        }
    }
}
