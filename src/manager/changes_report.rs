//! The report on changed definitions of one server.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Definitions of tools, prompts and templates, and instructions, that are not approved.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChangesReport {
    /// The setting `changes`: `warn` or `hold`.
    pub rule: String,
    /// Changed definitions. Those that the rules of the configuration hide do not count.
    pub changed: usize,
    /// Definitions under names that have no approved definition.
    pub new: usize,
    /// Changed and new definitions that agents do not get until they are approved.
    pub withheld: usize,
    /// When the first of them was seen, in UTC (RFC 3339).
    pub since: Option<String>,
    /// Why the pin file cannot be used or written, on one line. With `warn`, nothing is compared with a file that cannot be used; with
    /// `hold`, nothing is approved.
    pub file_problem: Option<String>,
    /// A stable code for it: `unreadable`, `not_regular`, `foreign`, `writable_by_others`, `too_large`, `malformed`, `other_server` or
    /// `unwritable`.
    pub file_problem_code: Option<String>,
}
