//! Values that a key can have: a choice between words, a size such as `512MiB`, and time limits of calls.

use std::time::Duration;

use globset::{Glob, GlobMatcher};

/// An enum whose variants have names in a configuration.
pub(super) trait Choice: Copy + PartialEq + 'static {
    const NAMES: &'static [(&'static str, Self)];

    fn of_word(word: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == word).map(|(_, choice)| *choice)
    }

    /// `None` only for a variant that cannot be configured.
    fn word(self) -> Option<&'static str> {
        Self::NAMES.iter().find(|(_, choice)| *choice == self).map(|(word, _)| *word)
    }
}

const SIZE_UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Parses a size in bytes.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim_start() {
        "" | "B" => 1,
        unit => SIZE_UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The size that a text such as `1GB`, `64 mb` or `2g` means most probably.
pub(super) fn in_binary_units(text: &str) -> Option<String> {
    let (number, unit) = text.trim().split_at(text.trim().find(|c: char| !c.is_ascii_digit())?);
    let initial = unit.trim().get(..1)?.to_uppercase();
    let is_unit = ["", "B", "IB"].contains(&&*unit.trim()[1..].to_uppercase());
    let (name, _) = SIZE_UNITS.iter().find(|(name, _)| is_unit && name.starts_with(&initial))?;
    (!number.is_empty()).then(|| format!("{number}{name}"))
}

/// Prints a size in the largest unit that divides it.
#[must_use]
pub(crate) fn size_text(bytes: u64) -> String {
    let unit = SIZE_UNITS.iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| format!("{bytes}B"), |(name, factor)| format!("{}{name}", bytes / factor))
}

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

    #[test]
    fn size_is_printed_in_its_input_syntax() {
        for (bytes, shown) in [(512 << 20, "512MiB"), (1 << 40, "1024GiB"), (1536 << 10, "1536KiB"), (1000, "1000B")] {
            assert_eq!(size_text(bytes), shown);
            assert_eq!(parse_size(shown), Some(bytes));
        }
    }

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
