//! Why a text could not be filled in, as data.

use std::path::PathBuf;

use crate::printable::one_line;

/// Why a text could not be filled in. It names what was looked for, and never contains a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UndefinedValue {
    /// A `${NAME}` without a default.
    #[error("environment variable `{0}` is not set")]
    Variable(String),
    /// A `${NAME}` without a default, which would stand for nothing.
    #[error("environment variable `{0}` is empty: write `${{{0}:-}}` if it may be")]
    Empty(String),
    /// A `${file:…}` or `${cred:…}` that cannot be read, or is empty.
    #[error("cannot use {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said, or what is wrong with what it holds.
        reason: String,
    },
    /// A `${cred:NAME}` outside a systemd unit with credentials.
    #[error("credential `{0}` is not available: environment variable `CREDENTIALS_DIRECTORY` is not set")]
    Credential(String),
    /// A `~/` of a user without a home directory.
    #[error("the home directory that `~/` stands for is not known")]
    Home,
    /// A `${agent:cwd}` where one instance is for all agents.
    #[error("`${{agent:cwd}}` needs `sharing = \"workspace\"` or `\"session\"`")]
    AgentCwd,
    /// A `${agent:cwd}` for an agent that does not say where it works.
    #[error("the working directory of the agent is not known")]
    UnknownCwd,
    /// A `${input:ID}` of another client's file, which a person is to answer.
    #[error("`${{input:{}}}` is asked for by `mcpd import`", one_line(.0))]
    Input(String),
    /// A `${…}` of another client's file that only this can fill in.
    #[error("what `${{{0}}}` stands for only another program knows: write it out")]
    Foreign(String),
    /// A key that only works with some texts, and was filled in with another.
    #[error("`{key}` {complaint} once its `${{…}}` are filled in")]
    Unfit {
        /// The key of the server's table.
        key: &'static str,
        /// Such as `is empty`.
        complaint: &'static str,
    },
}
