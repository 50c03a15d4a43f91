//! The agent that sent a call, as far as a server of the other era needs to know it. Pure.

use std::sync::Arc;

use crate::era::Era;
use crate::era::request_meta::LegacyClientMeta;
use crate::log_level::LogLevel;

/// The origin of a call.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A legacy agent. Its `initialize` applies to all its calls.
    Legacy(Arc<LegacyClientMeta>),
    /// A modern agent. Its call carries everything but the profile.
    Modern {
        /// The profile of the listener.
        profile: Arc<str>,
        /// Minimum level of the log messages that the call requests, if it requests any.
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

    /// Whether the call itself carries everything that is known of the agent.
    #[must_use]
    pub fn is_stateless(&self) -> bool {
        matches!(self, Self::Modern { .. })
    }

    /// Minimum level of the log messages that the agent requests, if it requests any.
    #[must_use]
    pub fn level(&self) -> Option<LogLevel> {
        match self {
            Self::Legacy(client_meta) => client_meta.level,
            Self::Modern { level, .. } => *level,
        }
    }
}
