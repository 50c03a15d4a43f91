//! Errors of [`Manager`](super::Manager).

use crate::client::ClientError;

/// An error of a [`Manager`](super::Manager).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// No server has this name.
    #[error("there is no server `{server}`")]
    UnknownServer {
        /// The requested name.
        server: String,
    },
    /// Another server has this name.
    #[error("there is a server `{server}` already")]
    DuplicateServer {
        /// The name.
        server: String,
    },
    /// The name is invalid as a prefix of tool names.
    #[error("`{server}` cannot name a server: use letters, digits and `-`; a single `_` may stand between them")]
    InvalidServerName {
        /// The name.
        server: String,
    },
    /// No tool is exposed under this name, not even as a denied one.
    #[error("there is no tool `{tool}`")]
    UnknownTool {
        /// The requested name.
        tool: String,
    },
    /// The server has listed other tools, but none of this name, which is the server's own.
    #[error("server `{server}` offers no tool `{tool}`{}", nearest.as_ref().map(|nearest| format!(": did you mean `{nearest}`?")).unwrap_or_default())]
    UnknownToolOfServer {
        /// The configured name.
        server: String,
        /// The requested name.
        tool: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// The server has the maximum number of disabled tools.
    #[error(
        "cannot disable another tool of server `{server}`: {max} are disabled, the maximum. Add tools to `deny` in its configuration instead"
    )]
    TooManyDisabledTools {
        /// The configured name.
        server: String,
        /// The maximum number.
        max: usize,
    },
    /// The pattern is not a valid glob.
    #[error("server `{server}`: {reason}")]
    BadPattern {
        /// The configured name.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Invalid arguments for a [`ResourceTool`](super::ResourceTool).
    #[error("`{tool}`: {reason}")]
    BadResourceArguments {
        /// The tool.
        tool: &'static str,
        /// What is wrong with them.
        reason: String,
    },
    /// The manager was closed with [`Manager::close`](super::Manager::close).
    #[error("mcpd takes no more requests, because it is shutting down (`Manager::close` in a Rust program)")]
    Closed,
    /// An error of one server or of its connection.
    #[error(transparent)]
    Server(#[from] ClientError),
}
