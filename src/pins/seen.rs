//! When definitions that are not approved were first seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::kind::PinnedKind;

/// Rises with each change of the format.
const VERSION: u32 = 1;
/// Definitions that are remembered. Further ones count as seen just now.
const MAX_SEEN: usize = 1000;

/// The times at which the present changes of one server were first seen, in seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenChanges {
    times: BTreeMap<(PinnedKind, Arc<str>, Digest), u64>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    seen: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    kind: PinnedKind,
    key: Arc<str>,
    sha256: Digest,
    since: u64,
}

impl SeenChanges {
    /// Replaces the definitions by these. One that was among them before keeps its time, others get `now`.
    pub fn observe(&mut self, changes: impl IntoIterator<Item = (PinnedKind, Arc<str>, Digest)>, now: u64) {
        let before = std::mem::take(&mut self.times);
        let time = |change| (before.get(&change).copied().unwrap_or(now), change);
        self.times = changes.into_iter().take(MAX_SEEN).map(time).map(|(time, change)| (change, time)).collect();
    }

    /// When this definition was first seen.
    pub fn since(&self, kind: PinnedKind, key: &Arc<str>, digest: Digest) -> Option<u64> {
        self.times.get(&(kind, Arc::clone(key), digest)).copied()
    }

    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// `None` if it is no text of [`Self::to_text`].
    pub fn parse(text: &str) -> Option<Self> {
        let Content { version, seen } = serde_json::from_str(text).ok()?;
        let times = seen.into_iter().map(|Line { kind, key, sha256, since }| ((kind, key, sha256), since));
        (version == VERSION).then(|| Self { times: times.collect() })
    }

    pub fn to_text(&self) -> String {
        let line = |((kind, key, digest), since): (&(PinnedKind, Arc<str>, Digest), &u64)| Line {
            kind: *kind,
            key: Arc::clone(key),
            sha256: *digest,
            since: *since,
        };
        let content = Content { version: VERSION, seen: self.times.iter().map(line).collect() };
        // Cannot fail: each key is text.
        serde_json::to_string_pretty(&content).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, json: &str) -> (PinnedKind, Arc<str>, Digest) {
        (PinnedKind::Tool, key.into(), Digest::of(json.as_bytes()))
    }

    #[test]
    fn a_change_keeps_the_time_at_which_it_was_first_seen() {
        let mut seen = SeenChanges::default();
        seen.observe([change("a", "1"), change("b", "1")], 10);
        seen.observe([change("a", "1"), change("a", "2")], 20);
        let since = |seen: &SeenChanges, (kind, key, digest)| seen.since(kind, &key, digest);
        let times = |seen: &SeenChanges| ["1", "2", "3"].map(|json| since(seen, change("a", json)));
        assert_eq!((times(&seen), since(&seen, change("b", "1"))), ([Some(10), Some(20), None], None));
        let read = SeenChanges::parse(&seen.to_text()).expect("its own text");
        assert_eq!((times(&read), read == seen), (times(&seen), true));
        seen.observe([], 30);
        assert!(seen.is_empty() && SeenChanges::parse(&seen.to_text()).is_some_and(|read| read.is_empty()));
    }

    #[test]
    fn other_texts_are_none_and_the_number_of_changes_is_limited() {
        for text in ["", "{}", "[]", r#"{"version":2,"seen":[]}"#] {
            assert!(SeenChanges::parse(text).is_none(), "{text}");
        }
        let mut seen = SeenChanges::default();
        seen.observe((0..2 * MAX_SEEN).map(|number| change(&number.to_string(), "1")), 10);
        assert_eq!(seen.times.len(), MAX_SEEN);
    }
}
