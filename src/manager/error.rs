//! Errors of [`Manager`](super::Manager).

use crate::client::{ClientError, Outcome};

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
    /// No tool is exposed under this name, not even as a denied one.
    #[error("there is no tool `{tool}`")]
    UnknownTool {
        /// The requested name.
        tool: String,
    },
    /// The server has the maximum number of disabled tools.
    #[error(
        "cannot disable another tool of server `{server}`: {max} are disabled, the maximum. Patterns of `deny` have no maximum"
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
    #[error("the manager of all servers is closed")]
    Closed,
    /// An error of one server or of its connection.
    #[error(transparent)]
    Server(#[from] ClientError),
}

impl ManagerError {
    /// What is known about the request.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Server(error) => error.outcome(),
            _ => Outcome::NotSent,
        }
    }
}
