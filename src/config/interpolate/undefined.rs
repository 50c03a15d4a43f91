//! Why a text could not be expanded, as data.

use std::path::PathBuf;

use crate::printable::one_line;

/// Why a text could not be expanded. It names the reference and never contains a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UndefinedValue {
    /// A `${NAME}` without a default.
    #[error("environment variable `{0}` is not set")]
    Variable(String),
    /// A `${NAME}` without a default, whose variable is empty.
    #[error("environment variable `{0}` is empty: write `${{{0}:-}}` if it may be")]
    Empty(String),
    /// A `${file:…}` or `${cred:…}` that cannot be read, or is empty.
    #[error("cannot use {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system, or the problem of its text.
        reason: String,
    },
    /// A `${cred:NAME}` outside a systemd unit with credentials.
    #[error("credential `{0}` is not available: environment variable `CREDENTIALS_DIRECTORY` is not set")]
    Credential(String),
    /// A `~/` of a user without a home directory.
    #[error("the home directory for `~/` is not known")]
    Home,
    /// A `${agent:cwd}` where all agents share one instance.
    #[error("`${{agent:cwd}}` needs `sharing = \"workspace\"` or `\"session\"`")]
    AgentCwd,
    /// A `${agent:cwd}` for an agent whose working directory is unknown.
    #[error("the working directory of the agent is not known")]
    UnknownCwd,
    /// A `${input:ID}` of another client's file, which requires an answer of the user.
    #[error("`${{input:{}}}` has no value: run `mcpd import`, which prompts for it", one_line(.0))]
    Input(String),
    /// A `${…}` that only the client of the file can expand.
    #[error("only the client of this file can expand `${{{0}}}`: write its value instead")]
    Foreign(String),
    /// A value that is invalid for its key after expansion.
    #[error("`{key}` {complaint} after its `${{…}}` are expanded")]
    Unfit {
        /// The key of the server's table.
        key: &'static str,
        /// Such as `is empty`.
        complaint: &'static str,
    },
}
