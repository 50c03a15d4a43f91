//! What a report means, in words: sentences of the page that `cli` writes, so that they are those of `mcpd status`, `tools` and `diff`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::admin::report::{ChangeReport, Report, ToolReport};

/// The functions that write them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sentences {
    pub(crate) advice: fn(&Report) -> Advice,
    /// What hides a tool.
    pub(crate) hidden: fn(&ToolReport) -> Option<String>,
    /// What is wrong with the definition of a tool that agents see nevertheless.
    pub(crate) defects: fn(&ToolReport) -> Option<String>,
    /// How a definition differs from the approved ones, with `[-old-]` and `{+new+}`.
    pub(crate) difference: fn(&ChangeReport) -> String,
}

/// What a report means, and what to do.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Advice {
    /// About the configuration, as `mcpd status` prints it.
    pub(crate) configuration: String,
    /// Notes about several servers or about profiles.
    pub(crate) notes: Vec<String>,
    /// By server, for those with anything to say.
    pub(crate) servers: BTreeMap<String, ServerAdvice>,
}

/// The same about one server.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ServerAdvice {
    /// Why it is down.
    pub(crate) failures: Vec<String>,
    /// The command that fixes or explains that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    pub(crate) notes: Vec<String>,
}
