//! How long a call may take: what holds for all tools of a server, and what for some of them.

use std::time::Duration;

use globset::{Glob, GlobMatcher};

/// How long one call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimit {
    /// Without an answer or progress; never more than `total`.
    pub silence: Duration,
    /// Whatever progress it makes.
    pub total: Duration,
}

/// What some tools of a server have in the place of its `call_timeout`, by globs on the server's own names for them. The
/// first that matches counts.
#[derive(Debug, Clone, Default)]
pub struct ToolTimeouts(Vec<(GlobMatcher, Duration)>);

impl ToolTimeouts {
    /// These, in this order.
    pub fn new(timeouts: impl IntoIterator<Item = (Glob, Duration)>) -> Self {
        Self(timeouts.into_iter().map(|(glob, timeout)| (glob.compile_matcher(), timeout)).collect())
    }

    /// That of the server's own tool name; `None` for one of no special kind.
    #[must_use]
    pub fn of(&self, tool: &str) -> Option<Duration> {
        self.0.iter().find(|(glob, _)| glob.is_match(tool)).map(|(_, timeout)| *timeout)
    }

    /// The longest of all, or nothing.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.0.iter().map(|(_, timeout)| *timeout).max().unwrap_or_default()
    }

    fn patterns(&self) -> impl Iterator<Item = (&Glob, Duration)> {
        self.0.iter().map(|(glob, timeout)| (glob.glob(), *timeout))
    }
}

impl PartialEq for ToolTimeouts {
    fn eq(&self, other: &Self) -> bool {
        self.patterns().eq(other.patterns())
    }
}

impl Eq for ToolTimeouts {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::pattern;

    const SECOND: Duration = Duration::from_secs(1);

    fn timeouts(all: &[(&str, u32)]) -> ToolTimeouts {
        ToolTimeouts::new(all.iter().map(|(text, seconds)| (pattern(text).expect("a glob"), *seconds * SECOND)))
    }

    #[test]
    fn the_first_that_matches_counts() {
        let own = timeouts(&[("slow_build", 3), ("slow_*", 2)]);
        assert_eq!(own.of("slow_build"), Some(3 * SECOND));
        assert_eq!(own.of("slow_test"), Some(2 * SECOND));
        assert_eq!((own.of("fast"), own.of("Slow_test")), (None, None));
        assert_eq!(own.longest(), 3 * SECOND);
    }

    #[test]
    fn they_are_the_same_if_they_say_the_same_in_the_same_order() {
        assert_eq!(timeouts(&[("a", 1), ("b", 2)]), timeouts(&[("a", 1), ("b", 2)]));
        assert_ne!(timeouts(&[("a", 1), ("b", 2)]), timeouts(&[("b", 2), ("a", 1)]));
        assert_ne!(timeouts(&[("a", 1)]), timeouts(&[("a", 2)]));
    }
}
