//! Fair-share admission at the in-flight limit of an instance.
//!
//! Below the limit every call is admitted, and nothing is counted per agent. At the limit, an agent with fewer than
//! `limit / agents` calls is still admitted, so one busy agent cannot lock out the others. Admitted calls stay: of `n`
//! agents the `k`th largest has at most `1/k` of the limit, and all together have at most `1 + 1/2 + … + 1/n` times the limit.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;

/// Calls in flight at one instance. One more waits ([`super::fair_queue`]), unless its agent has less than its equal share.
/// Unwritten calls may together have as many bytes as the largest message. A call beyond that is refused with −31003, unless its agent
/// has less than its share.
pub(crate) const MAX_IN_FLIGHT: usize = 256;

/// The share of each session.
pub(super) struct FairShares(HashMap<u64, usize>);

impl FairShares {
    /// Sums up the sizes of each session.
    pub(super) fn of(taken: impl Iterator<Item = (u64, usize)>) -> Self {
        let mut sizes = HashMap::new();
        for (session, size) in taken {
            *sizes.entry(session).or_default() += size;
        }
        Self(sizes)
    }

    /// Whether `session` gets `size` more although all `places` are taken.
    pub(super) fn is_due(&self, places: usize, session: u64, size: usize) -> bool {
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
    Due(FairShares),
}

impl Vacancies {
    pub(super) fn has(&self, session: u64) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Due(shares) => shares.is_due(MAX_IN_FLIGHT, session, 1),
        }
    }
}

/// Whether a call of `size` gets a place although all `places` are taken. `taken` has each unanswered call: whose it is,
/// and its size.
pub(super) fn is_due(places: usize, session: u64, size: usize, taken: impl Iterator<Item = (u64, usize)>) -> bool {
    FairShares::of(taken).is_due(places, session, size)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLACES: usize = 32;

    /// Admits as an instance does.
    fn is_taken(taken: &[u64], session: u64) -> bool {
        taken.len() < PLACES || is_due(PLACES, session, 1, taken.iter().map(|of| (*of, 1)))
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
        let is_due = |session, size| is_due(1000, session, size, greedy.into_iter());
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
