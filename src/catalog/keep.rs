//! How long a list may be kept by who has it, and whether by others, too.
//!
//! Source: MCP 2026-07-28, `server/utilities/caching`.

use bytes::Bytes;

use crate::jsonrpc::members::members;

/// What the parts of a list say of it together; the default is what holds where nothing is said.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// In milliseconds.
    pub ttl: u64,
    /// It is the same for everybody.
    pub is_public: bool,
}

impl Keep {
    /// What a result says; `None` if it says nothing. What is malformed allows nothing.
    #[must_use]
    pub fn read(result: &Bytes) -> Option<Self> {
        let [ttl, scope] = members(result, ["ttlMs", "cacheScope"]).ok()?;
        if ttl.is_none() && scope.is_none() {
            return None;
        }
        let ttl = ttl.and_then(|raw| serde_json::from_slice(&raw).ok()).unwrap_or(0);
        Some(Self { ttl, is_public: scope.is_some_and(|raw| raw[..] == *b"\"public\"") })
    }

    /// What holds for two parts: the shorter time, and the stricter scope.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { ttl: self.ttl.min(other.ttl), is_public: self.is_public && other.is_public }
    }

    /// Of all parts; of none, nothing may be kept.
    #[must_use]
    pub fn of_all(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().reduce(Self::and).unwrap_or_default()
    }

    /// The word for its scope.
    #[must_use]
    pub fn scope(self) -> &'static str {
        if self.is_public { "public" } else { "private" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_says_how_long_it_may_be_kept_and_by_whom() {
        let read = |text: &'static str| Keep::read(&Bytes::from_static(text.as_bytes()));
        let keep = |ttl, is_public| Some(Keep { ttl, is_public });
        for (result, expected) in [
            ("{}", None),
            ("[]", None),
            (r#"{"ttlMs":7,"cacheScope":"public"}"#, keep(7, true)),
            (r#"{"ttlMs":7}"#, keep(7, false)),
            (r#"{"cacheScope":"public"}"#, keep(0, true)),
            (r#"{"ttlMs":-1,"cacheScope":"private"}"#, keep(0, false)),
            (r#"{"ttlMs":"long","cacheScope":7}"#, keep(0, false)),
        ] {
            assert_eq!(read(result), expected, "{result}");
        }
    }

    #[test]
    fn of_several_parts_the_shortest_time_and_the_strictest_scope_hold() {
        let [long, short, own] = [(9, true), (3, true), (5, false)].map(|(ttl, is_public)| Keep { ttl, is_public });
        assert_eq!(Keep::of_all([long, short]), Keep { ttl: 3, is_public: true });
        assert_eq!(Keep::of_all([long, own]), Keep { ttl: 5, is_public: false });
        assert_eq!(Keep::of_all([]), Keep::default());
    }
}
