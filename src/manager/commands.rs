//! Commands from [`Manager`](super::Manager) handles to the manager's task.

use std::collections::HashSet;
use std::sync::Arc;

use globset::Glob;
use tokio::sync::{oneshot, watch};

use super::changes::{Changes, DesiredState};
use super::error::ManagerError;
use super::view::{Toggle, ToggleResult, View};
use crate::client::ClientError;
use crate::config::ServerConfig;
use crate::server::{HealthOverride, ServerHandle};

/// Where the task sends the answer to a command.
pub(super) type OutcomeSender<T> = oneshot::Sender<Result<T, ManagerError>>;

/// A command, with the channel for its answer.
#[derive(Debug)]
pub(super) enum ManagerCommand {
    /// Add a server.
    Connect(Box<ServerConfig>, OutcomeSender<ServerHandle>),
    /// Remove a server.
    Disconnect(String, OutcomeSender<ServerHandle>),
    /// Replace the set of servers, and the names and profiles if given.
    Apply(DesiredState, OutcomeSender<Changes>),
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
