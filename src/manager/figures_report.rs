//! What servers use and list, and how long requests take, in reports.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalog::{List, Lists};
use crate::list_kind::ListKind;

/// What the processes of a server use, its guards included. Measured at most 5 s before the report.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsageReport {
    /// Resident memory in bytes, without pages of files and without memory that processes share.
    pub memory_bytes: u64,
    /// Processor time in milliseconds, including ended processes.
    pub cpu_ms: u64,
    /// Number of processes.
    pub processes: u64,
}

/// The size of a list of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListReport {
    /// `tools`, `prompts`, `resources`, `resourceTemplates` or `skills`.
    pub kind: String,
    /// Number of items.
    pub items: usize,
    /// Bytes of their definitions.
    pub bytes: usize,
}

/// The size of each list that is not empty.
pub(super) fn list_sizes(lists: &Lists) -> Vec<ListReport> {
    let size = |(kind, list): (ListKind, &Arc<List>)| ListReport {
        kind: kind.member().to_owned(),
        items: list.items.len(),
        bytes: list.items.iter().map(|item| item.json.len()).sum(),
    };
    lists.iter().filter(|(_, list)| !list.items.is_empty()).map(size).collect()
}

/// How long requests or sessions with the same labels took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DurationReport {
    /// The name in the conventions of OpenTelemetry, such as `mcp.client.operation.duration`.
    pub metric: String,
    /// Configured name of the server.
    pub server: Option<String>,
    /// The method of a request; `_OTHER` for one of an extension.
    pub method: Option<String>,
    /// The server's own name of the tool or prompt.
    pub target: Option<String>,
    /// The protocol version of a session.
    pub protocol: Option<String>,
    /// The error code of the server, or a word for the failure. Absent if it succeeded.
    pub error: Option<String>,
    /// The number of durations.
    pub count: u64,
    /// Their sum.
    pub total: Duration,
    /// The number of them up to each bound of the conventions: 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120 and 300 s, and
    /// beyond the last.
    pub buckets: Vec<u64>,
}
