//! What `mcpd setup --json` prints.

use serde::Serialize;
use serde_with::skip_serializing_none;

use super::daemon::DaemonOutcome;
use crate::cli::client_changes::FileReport;
use crate::cli::import;

/// What setup has done, step by step.
#[skip_serializing_none]
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport {
    /// The import, without `--undo`.
    pub(super) import: Option<import::JsonReport>,
    /// What became of the daemon.
    pub(super) daemon: Option<DaemonOutcome>,
    /// Files of clients, and what happened to each.
    pub(super) clients: Vec<FileReport>,
    /// With `--undo`: files and directories that were removed or given back.
    pub(super) removed: Vec<String>,
}
