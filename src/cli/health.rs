//! The words of `mcpd health`; [`super::order`] passes them on.

use clap::ValueEnum;

use crate::server::HealthOverride;

/// What a person says of how a server is.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Health {
    /// Well: it is not restarted for leaving pings unanswered
    Up,
    /// Not well: its calls fail at once
    Down,
    /// What it answers counts again
    Auto,
}

impl From<Health> for HealthOverride {
    fn from(health: Health) -> Self {
        match health {
            Health::Up => Self::Up,
            Health::Down => Self::Down,
            Health::Auto => Self::Auto,
        }
    }
}
