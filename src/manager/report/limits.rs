//! The report on the resource limits of a server.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::config::{Launch, Limits, ServerConfig};
use crate::server::Enforcement;

/// Resource limits of each instance of a server.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LimitsReport {
    /// Maximum memory, in bytes.
    pub memory_max: Option<usize>,
    /// Maximum number of processes and threads.
    pub tasks_max: Option<usize>,
    /// `enforced` or `not enforced`; absent before the first start.
    pub state: Option<String>,
    /// Why they are not enforced, on one line.
    pub reason: Option<String>,
}

/// The limits of a server; `None` if it has none, or has a URL and so no local process.
pub(super) fn of(config: &ServerConfig, enforcement: Option<&Enforcement>) -> Option<LimitsReport> {
    let limits @ Limits { memory_max, tasks_max } = config.settings.limits();
    if limits == Limits::default() || matches!(config.launch, Ok(Launch::Remote(_))) {
        return None;
    }
    let (state, reason) = match enforcement {
        None => (None, None),
        Some(Enforcement::Enforced) => (Some("enforced"), None),
        Some(Enforcement::NotEnforced(reason)) => (Some("not enforced"), Some(reason.to_string())),
    };
    let state = state.map(str::to_owned);
    Some(LimitsReport { memory_max, tasks_max, state, reason })
}
