//! Errors of [`Manager`](super::Manager).

use crate::client::ClientError;

/// An error of a [`Manager`](super::Manager).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// No server has this name.
    #[error("there is no server `{server}`")]
    UnknownServer {
        /// The name that was asked for.
        server: String,
    },
    /// Another server has this name.
    #[error("there is a server `{server}` already")]
    DuplicateServer {
        /// The name.
        server: String,
    },
    /// The name is invalid as a prefix of tool names.
    #[error("`{server}` cannot name a server: letters, digits, `-` and single `_` between them can")]
    InvalidServerName {
        /// The name.
        server: String,
    },
    /// No tool has this name, not even a denied one.
    #[error("there is no tool `{tool}`")]
    UnknownTool {
        /// The name that was asked for.
        tool: String,
    },
    /// The server has listed other tools, but none of this name.
    #[error("server `{server}` offers no tool `{tool}`{}", nearest.as_ref().map(|nearest| format!(": did you mean `{nearest}`?")).unwrap_or_default())]
    NoSuchTool {
        /// The configured name.
        server: String,
        /// The name that was asked for.
        tool: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// The server has the maximum number of disabled tools.
    #[error("server `{server}` has {most} tools that are switched off: deny them in its configuration")]
    TooManyToolsOff {
        /// The configured name.
        server: String,
        /// The maximum number.
        most: usize,
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
    #[error("the manager is closed")]
    Closed,
    /// An error of one server or of its connection.
    #[error(transparent)]
    Client(#[from] ClientError),
}
