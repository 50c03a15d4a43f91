//! Why a manager did not do what it was asked.

use crate::client::ClientError;

/// Why a [`Manager`](super::Manager) did not do what it was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// No server has this name.
    #[error("there is no server `{server}`")]
    UnknownServer {
        /// The name that was asked for.
        server: String,
    },
    /// Two servers would have this name.
    #[error("there is a server `{server}` already")]
    DuplicateServer {
        /// The name.
        server: String,
    },
    /// A name that could not be told apart in the names of tools.
    #[error("`{server}` cannot name a server: letters, digits, `-` and single `_` between them can")]
    InvalidServerName {
        /// The name.
        server: String,
    },
    /// No tool has this name, and none that is denied would have it.
    #[error("there is no tool `{tool}`")]
    UnknownTool {
        /// The name that was asked for.
        tool: String,
    },
    /// A server that is known to offer other tools, and none of this name.
    #[error("server `{server}` offers no tool `{tool}`{}", nearest.as_ref().map(|nearest| format!(": did you mean `{nearest}`?")).unwrap_or_default())]
    NoSuchTool {
        /// The configured name.
        server: String,
        /// The name that was asked for.
        tool: String,
        /// One that is spelt much alike.
        nearest: Option<String>,
    },
    /// A server of which so many tools are switched off that no other can be.
    #[error("server `{server}` has {most} tools that are switched off: deny them in its configuration")]
    TooManyToolsOff {
        /// The configured name.
        server: String,
        /// How many there can be.
        most: usize,
    },
    /// A pattern that is no glob.
    #[error("server `{server}`: {reason}")]
    BadPattern {
        /// The configured name.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Arguments that a [`ResourceTool`](super::ResourceTool) does not take.
    #[error("`{tool}`: {reason}")]
    BadResourceArguments {
        /// The tool.
        tool: &'static str,
        /// What is wrong with them.
        reason: String,
    },
    /// Asked after [`Manager::close`](super::Manager::close).
    #[error("the manager is closed")]
    Closed,
    /// What one server, or the way to it, has to say.
    #[error(transparent)]
    Client(#[from] ClientError),
}
