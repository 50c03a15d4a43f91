//! How long a list may be kept by who has it.
//!
//! Source: MCP 2026-07-28, `server/utilities/caching`. Whatever its parts say, a list of several servers is for who has asked alone: what
//! is in it depends on the profile, so it is never what others may be told.

use bytes::Bytes;

use crate::jsonrpc::members::members;

/// What the parts of a list say of it together; the default is what holds where nothing is said.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CacheHint {
    /// In milliseconds.
    pub ttl: u64,
}

/// In milliseconds. Servers come and go, are switched on and off and change their policy, of which those who say how long their own lists
/// hold know nothing. Who listens hears of that at once, and who does not is up to date again after a minute.
const MAX_TTL_MS: u64 = 60_000;

impl CacheHint {
    /// What a result says; `None` if it says nothing. What is malformed allows nothing.
    #[must_use]
    pub fn read(result: &Bytes) -> Option<Self> {
        let [ttl, scope] = members(result, ["ttlMs", "cacheScope"]).ok()?;
        if ttl.is_none() && scope.is_none() {
            return None;
        }
        let ttl = ttl.and_then(|raw| serde_json::from_slice(&raw).ok()).unwrap_or(0);
        Some(Self { ttl })
    }

    /// What holds for two parts: the shorter time.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { ttl: self.ttl.min(other.ttl) }
    }

    /// Of all parts, but not for long; of none, nothing may be kept.
    #[must_use]
    pub fn of_all(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().reduce(Self::and).map(|all| all.and(Self { ttl: MAX_TTL_MS })).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_says_how_long_it_may_be_kept() {
        for (result, expected) in [
            ("{}", None),
            ("[]", None),
            (r#"{"ttlMs":7,"cacheScope":"public"}"#, Some(7)),
            (r#"{"ttlMs":7}"#, Some(7)),
            (r#"{"cacheScope":"public"}"#, Some(0)),
            (r#"{"ttlMs":-1,"cacheScope":"private"}"#, Some(0)),
            (r#"{"ttlMs":"long","cacheScope":7}"#, Some(0)),
        ] {
            let read = CacheHint::read(&Bytes::from_static(result.as_bytes()));
            assert_eq!(read, expected.map(|ttl| CacheHint { ttl }), "{result}");
        }
    }

    #[test]
    fn of_several_parts_the_shortest_time_holds_and_none_is_long() {
        let of_all = |parts: &[u64]| CacheHint::of_all(parts.iter().map(|ttl| CacheHint { ttl: *ttl })).ttl;
        assert_eq!([of_all(&[9, 3]), of_all(&[3, 9]), of_all(&[MAX_TTL_MS + 1, u64::MAX])], [3, 3, MAX_TTL_MS]);
        assert_eq!(CacheHint::of_all([]), CacheHint::default());
    }
}
