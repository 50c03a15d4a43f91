//! The table of unanswered requests. It assigns ids, and each entry is taken once.

use std::collections::VecDeque;

/// The unanswered requests of one connection. Ids are small integers and never reused.
#[derive(Debug)]
pub struct Pending<T> {
    next: u64,
    /// In the order of their ids.
    entries: VecDeque<(u64, T)>,
}

/// The request of a response.
#[derive(Debug, PartialEq)]
pub enum Match<T> {
    /// This request, which is no longer pending.
    Owner(T),
    /// No request: the id is unknown, or its request was answered or cancelled.
    Unknown,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self::beginning_at(1)
    }
}

impl<T> Pending<T> {
    /// A table with the given first id.
    #[must_use]
    pub fn beginning_at(first: u64) -> Self {
        Self { next: first, entries: VecDeque::new() }
    }

    /// Adds the entry that `entry` makes of a new id. Returns the id.
    pub fn register(&mut self, entry: impl FnOnce(u64) -> T) -> u64 {
        let id = self.next;
        self.next += 1;
        self.entries.push_back((id, entry(id)));
        id
    }

    /// The id of the next entry.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes the entry with the raw id `id`. Only the exact text that was sent matches.
    pub fn take(&mut self, id: &[u8]) -> Match<T> {
        let entry = self.position(id).and_then(|index| self.entries.remove(index));
        entry.map_or(Match::Unknown, |(_, owner)| Match::Owner(owner))
    }

    /// The entry with the raw id `id`, which stays pending.
    pub fn get_mut(&mut self, id: &[u8]) -> Option<&mut T> {
        let index = self.position(id)?;
        self.entries.get_mut(index).map(|(_, owner)| owner)
    }

    /// Removes every entry that meets `condition`.
    pub fn remove_where(&mut self, condition: impl Fn(&T) -> bool) -> Vec<(u64, T)> {
        let all = std::mem::take(&mut self.entries).into_iter();
        let (removed, rest): (Vec<_>, Vec<_>) = all.partition(|(_, entry)| condition(entry));
        self.entries = rest.into();
        removed
    }

    /// Every pending entry.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|(_, entry)| entry)
    }

    /// Every pending entry with its id.
    pub fn with_ids(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    /// Every pending entry, mutably.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, entry)| entry)
    }

    /// The number of pending entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn position(&self, raw: &[u8]) -> Option<usize> {
        let id = parse_own_id(raw)?;
        self.entries.binary_search_by_key(&id, |(id, _)| *id).ok()
    }
}

/// Parses `raw` as an assigned id, if its text has the form of one.
#[must_use]
pub fn parse_own_id(raw: &[u8]) -> Option<u64> {
    let [b'1'..=b'9', ..] = raw else { return None };
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    raw.iter().try_fold(0_u64, |id, byte| id.checked_mul(10)?.checked_add(digit(byte)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_response_is_taken_once_and_only_by_its_exact_id() {
        let mut pending = Pending::default();
        pending.register(|_| "a");
        let id = "1";
        for stray in ["2", "\"1\"", "1.0", "01", "-1", "1e0", "null", "", "99999999999999999999999"] {
            assert_eq!(pending.take(stray.as_bytes()), Match::Unknown, "{stray}");
        }
        assert_eq!(pending.take(id.as_bytes()), Match::Owner("a"));
        assert_eq!(pending.take(id.as_bytes()), Match::Unknown);
    }

    proptest! {
        #[test]
        fn every_entry_ends_exactly_once(operations in prop::collection::vec((0..3u8, 0..20usize), 0..200)) {
            let mut pending = Pending::default();
            let (mut sent, mut ended) = (Vec::new(), Vec::new());
            for (kind, index) in operations {
                match kind {
                    0 => drop(pending.register(|id| { sent.push(id); sent.len() - 1 })),
                    1 => if let Some(id) = sent.get(index)
                        && let Match::Owner(n) = pending.take(id.to_string().as_bytes()) { ended.push(n); },
                    _ => ended.extend(pending.remove_where(|n| *n == index).into_iter().map(|(_, n)| n)),
                }
            }
            ended.extend(pending.remove_where(|_| true).into_iter().map(|(_, n)| n));
            ended.sort_unstable();
            prop_assert_eq!(ended, (0..sent.len()).collect::<Vec<_>>());
            prop_assert_eq!(pending.len(), 0);
        }
    }
}
