//! Time limits of calls: for all tools of a server, and for some of them.

use std::time::Duration;

use globset::{Glob, GlobMatcher};

/// The time limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimit {
    /// Maximum time without an answer or progress. At most `total`.
    pub progress_timeout: Duration,
    /// Maximum total time, independent of progress.
    pub total: Duration,
}

/// Timeouts of some tools that replace `call_timeout`, by globs on tool names of the server. The first match applies.
#[derive(Debug, Clone, Default)]
pub struct ToolTimeouts(Vec<(GlobMatcher, Duration)>);

impl ToolTimeouts {
    /// The timeouts, in order.
    pub fn new(timeouts: impl IntoIterator<Item = (Glob, Duration)>) -> Self {
        Self(timeouts.into_iter().map(|(glob, timeout)| (glob.compile_matcher(), timeout)).collect())
    }

    /// The timeout of a tool. `None` if no glob matches.
    #[must_use]
    pub fn of(&self, tool: &str) -> Option<Duration> {
        self.0.iter().find(|(glob, _)| glob.is_match(tool)).map(|(_, timeout)| *timeout)
    }

    /// The longest timeout. `None` if there are none.
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
