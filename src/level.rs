//! How severe a log message of a server is. Pure.
//!
//! Source: MCP 2025-11-25, `server/utilities/logging`, "Log Levels"; the order is that of RFC 5424.

/// From the least severe to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For who looks for a mistake.
    Debug,
    /// In the course of things.
    Info,
    /// So, but worth a look.
    Notice,
    /// A mistake may follow.
    Warning,
    /// Something failed.
    Error,
    /// A part fails.
    Critical,
    /// Somebody has to act.
    Alert,
    /// It cannot be used.
    Emergency,
}

impl Level {
    /// Each with its word.
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

    /// The one of that word.
    #[must_use]
    pub fn named(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|(own, _)| own.as_bytes() == word).map(|(_, level)| level)
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_its_word_and_is_more_severe_than_the_one_before() {
        for (word, level) in Level::ALL {
            assert_eq!((Level::named(word.as_bytes()), level.word()), (Some(level), word));
        }
        assert!(Level::ALL.windows(2).all(|two| two[0].1 < two[1].1));
        assert_eq!((Level::named(b"warn"), Level::named(b"Info"), Level::named(b"")), (None, None, None));
    }
}
