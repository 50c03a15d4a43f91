//! Commands from [`Manager`](super::Manager) handles to the manager's task, and why it refuses them.

use std::collections::HashSet;
use std::sync::Arc;

use globset::Glob;
use tokio::sync::{oneshot, watch};

use super::changes::{Changes, DesiredState};
use super::pins::ApprovalSender;
use super::pins::change::{ApprovedDefinition, ServerChanges};
use super::pins::files::LoadedPins;
use super::view::{Toggle, ToggleResult, View};
use crate::client::{ClientError, Outcome};
use crate::config::ServerConfig;
use crate::server::{HealthOverride, ServerHandle};

/// Where the task sends the answer to a command.
pub(super) type OutcomeSender<T> = oneshot::Sender<Result<T, ManagerError>>;

/// A command, with the channel for its answer.
#[derive(Debug)]
pub(super) enum ManagerCommand {
    /// Add a server.
    Connect(Box<ServerConfig>, LoadedPins, OutcomeSender<ServerHandle>),
    /// Remove a server.
    Disconnect(String, OutcomeSender<ServerHandle>),
    /// Replace the set of servers, and the names and profiles if given.
    Apply(DesiredState, LoadedPins, OutcomeSender<Changes>),
    /// Replace the patterns of denied tools.
    Deny(String, Vec<Glob>, OutcomeSender<()>),
    /// Enable or disable a server or tool.
    Toggle(String, Toggle, OutcomeSender<ToggleResult>),
    /// Override the health of a server.
    OverrideHealth(String, HealthOverride, OutcomeSender<()>),
    /// Restart a server. Answers with the revision of the new instance.
    Restart(String, OutcomeSender<(ServerHandle, u64)>),
    /// Subscribe an agent, by its session and profile, to its view.
    Follow(u64, Arc<str>, OutcomeSender<watch::Receiver<Arc<View>>>),
    /// Report the definitions of one server, or of all, that are not approved.
    Changes(Option<String>, OutcomeSender<Vec<ServerChanges>>),
    /// Approve definitions of a server.
    Approve(String, Vec<ApprovedDefinition>, ApprovalSender),
    /// Publish the current state of the servers.
    Refresh(OutcomeSender<()>),
}

pub(super) fn check_names<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Result<(), ManagerError> {
    let mut seen = HashSet::new();
    for name in names {
        ClientError::check_name(name)?;
        if !seen.insert(name) {
            return Err(ManagerError::DuplicateServer { server: name.to_string() });
        }
    }
    Ok(())
}

/// An error of a [`Manager`](crate::manager::Manager).
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
    /// Invalid arguments for a [`ResourceTool`](crate::manager::ResourceTool).
    #[error("`{tool}`: {reason}")]
    BadResourceArguments {
        /// The tool.
        tool: &'static str,
        /// What is wrong with them.
        reason: String,
    },
    /// The manager was closed with [`Manager::close`](crate::manager::Manager::close).
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
