//! The severity of a log message from a server. Pure.
//!
//! Source: MCP 2025-11-25, `server/utilities/logging`, "Log Levels"; the order is that of RFC 5424.

/// In order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal but significant.
    Notice,
    /// A possible problem.
    Warning,
    /// An operation failed.
    Error,
    /// A component failed.
    Critical,
    /// Immediate action is needed.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl LogLevel {
    /// Each level with its name in MCP.
    pub const ALL: [(&'static str, Self); 8] = [
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("notice", Self::Notice),
        ("warning", Self::Warning),
        ("error", Self::Error),
        ("critical", Self::Critical),
        ("alert", Self::Alert),
        ("emergency", Self::Emergency),
    ];

    /// The level with this name.
    #[must_use]
    pub fn named(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|(name, _)| name.as_bytes() == word).map(|(_, level)| level)
    }

    /// The name in MCP.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_a_name_and_is_more_severe_than_the_one_before() {
        for (word, level) in LogLevel::ALL {
            assert_eq!((LogLevel::named(word.as_bytes()), level.word()), (Some(level), word));
        }
        assert!(LogLevel::ALL.windows(2).all(|two| two[0].1 < two[1].1));
        assert_eq!((LogLevel::named(b"warn"), LogLevel::named(b"Info"), LogLevel::named(b"")), (None, None, None));
    }
}
