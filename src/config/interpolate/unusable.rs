//! Why a text with references is not valid, and why the value of a key cannot be used, as data.

use std::path::PathBuf;

use crate::printable::one_line;

/// Why the value of a key cannot be used: a reference in it has no value, or the expanded text is invalid. Names the reference or the key,
/// and never contains a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableValue {
    /// A `${NAME}` without a default.
    #[error("environment variable `{0}` is not set in mcpd's environment: write `${{{0}:-DEFAULT}}` for a default")]
    Variable(String),
    /// A `${NAME}` without a default, whose variable is empty.
    #[error("environment variable `{0}` is empty: set it, or write `${{{0}:-}}` to allow an empty value")]
    Empty(String),
    /// A `${file:…}` or `${cred:…}` that cannot be read, or is empty.
    #[error("`{reference}` cannot be used: {}: {reason}", path.display())]
    File {
        /// The reference as written.
        reference: String,
        /// The file.
        path: PathBuf,
        /// The error of the system, or the problem of its text.
        reason: String,
    },
    /// A `${cred:NAME}` outside a systemd unit with credentials.
    #[error(
        "`${{cred:{0}}}` has no value: mcpd does not run in a systemd unit with credentials; add `LoadCredential={0}:PATH` to its unit"
    )]
    Credential(String),
    /// A `${cmd:…}` whose program cannot be run, fails, or prints no usable text.
    #[error("`{reference}` has no value: {reason}")]
    Command {
        /// The reference without the program's arguments.
        reference: String,
        /// What the program did, without its output.
        reason: String,
    },
    /// A `~/` of a user without a home directory.
    #[error("`~/` has no value: mcpd does not know the home directory; set `HOME`, or write an absolute path")]
    Home,
    /// A `${agent:cwd}` where all agents share one instance.
    #[error("`${{agent:cwd}}` needs `sharing = \"workspace\"` or `\"session\"`")]
    AgentCwd,
    /// A `${agent:cwd}` for an agent whose working directory is unknown.
    #[error("`${{agent:cwd}}` has no value: the agent has to state its working directory in `_meta[\"mcpd/cwd\"]`")]
    UnknownCwd,
    /// A guest's working directory outside of the roots of its profile.
    #[error(
        "the agent of another user may not choose this working directory: add `workspace_roots` with a directory above it to the profile"
    )]
    RefusedDirectory,
    /// A guest's working directory for a server that could be led out of it.
    #[error("the agent of another user chooses its working directory, which needs `sandbox = \"files\"`")]
    GuestSandbox,
    /// A `${input:ID}` of another client's file, which requires an answer of the user.
    #[error("`${{input:{}}}` has no value: run `mcpd import`, which prompts for it", one_line(.0))]
    Input(String),
    /// A `${…}` that only the program can expand whose file it is.
    #[error(
        "mcpd cannot expand `${{{0}}}`, which is for the program that this file belongs to: replace it by its value"
    )]
    Foreign(String),
    /// A value that is invalid for its key after expansion.
    #[error("`{key}` {complaint} after its `${{…}}` are expanded")]
    Invalid {
        /// The key of the server's table.
        key: &'static str,
        /// Such as `is empty`.
        complaint: &'static str,
    },
}

/// A `${` that is not a valid reference.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::config) struct TemplateError {
    pub(in crate::config) message: String,
    pub(in crate::config) help: String,
}

pub(in crate::config) fn malformed(message: impl Into<String>, help: impl Into<String>) -> TemplateError {
    TemplateError { message: message.into(), help: help.into() }
}
