//! Who calls: how it speaks, and what a server of the other era has to be told of it. Pure.

use std::sync::Arc;

use crate::era::Era;
use crate::era::speaker::Speaker;
use crate::log_level::LogLevel;

/// Where a call comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// An agent that has introduced itself, which holds for all its calls.
    Legacy(Arc<Speaker>),
    /// Whoever has come by the socket of this profile: the call says the rest itself.
    Modern {
        /// Its name.
        profile: Arc<str>,
        /// From which level on log messages of the call are desired, if any are.
        level: Option<LogLevel>,
    },
}

impl Origin {
    /// The era of the call.
    #[must_use]
    pub fn era(&self) -> Era {
        match self {
            Self::Legacy(_) => Era::Legacy,
            Self::Modern { .. } => Era::Modern,
        }
    }

    /// Whether nothing is known of who calls but what the call says.
    #[must_use]
    pub fn is_stateless(&self) -> bool {
        matches!(self, Self::Modern { .. })
    }

    /// From which level on log messages of the call are desired, if it says so itself.
    #[must_use]
    pub fn level(&self) -> Option<LogLevel> {
        match self {
            Self::Legacy(speaker) => speaker.level,
            Self::Modern { level, .. } => *level,
        }
    }
}
