//! How long agents may cache a list.
//!
//! Source: MCP 2026-07-28, `server/utilities/caching`. A list of several servers is always private, because it depends on the profile.

use bytes::Bytes;

use crate::jsonrpc::members::members;

/// The combined cache hint of the lists of several servers. The default applies where no server sends a hint.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CacheHint {
    /// In milliseconds.
    pub ttl: u64,
}

/// Maximum in milliseconds. Servers do not know of other servers, of policy and of `mcpd disable`, so their own times can be too long.
/// Subscribed agents receive changes at once; others are up to date after a minute.
const MAX_TTL_MS: u64 = 60_000;

impl CacheHint {
    /// The hint of a result. `None` if it has none. A malformed hint forbids caching.
    #[must_use]
    pub fn read(result: &Bytes) -> Option<Self> {
        let [ttl, scope] = members(result, ["ttlMs", "cacheScope"]).ok()?;
        if ttl.is_none() && scope.is_none() {
            return None;
        }
        let ttl = ttl.and_then(|raw| serde_json::from_slice(&raw).ok()).unwrap_or(0);
        Some(Self { ttl })
    }

    /// The shorter of two hints.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { ttl: self.ttl.min(other.ttl) }
    }

    /// The shortest of all hints, up to the maximum. Without hints, caching is forbidden.
    #[must_use]
    pub fn of_all(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().reduce(Self::and).map(|all| all.and(Self { ttl: MAX_TTL_MS })).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_states_its_cache_lifetime() {
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
