//! Orders from [`Manager`](super::Manager) handles to the manager's task.

use std::collections::HashSet;
use std::sync::Arc;

use globset::Glob;
use tokio::sync::{oneshot, watch};

use super::changes::{Changes, DesiredState};
use super::enablement::{Toggle, ToggleResult};
use super::error::ManagerError;
use super::view::View;
use crate::config::ServerConfig;
use crate::naming::is_server_name;
use crate::server::{HealthOverride, ServerHandle};

/// Where the task sends the answer to an order.
pub(super) type SessionSender<T> = oneshot::Sender<Result<T, ManagerError>>;

/// An order, with the channel for its answer.
#[derive(Debug)]
pub(super) enum Order {
    /// Add a server.
    Connect(Box<ServerConfig>, SessionSender<ServerHandle>),
    /// Remove a server.
    Disconnect(String, SessionSender<ServerHandle>),
    /// Replace the set of servers, and the names and profiles if given.
    Apply(DesiredState, SessionSender<Changes>),
    /// Replace the patterns of denied tools.
    Deny(String, Vec<Glob>, SessionSender<()>),
    /// Enable or disable a server or tool.
    Toggle(String, Toggle, SessionSender<ToggleResult>),
    /// Override the health of a server.
    OverrideHealth(String, HealthOverride, SessionSender<()>),
    /// Restart a server. Answers with the revision of the new instance.
    Restart(String, SessionSender<(ServerHandle, u64)>),
    /// Subscribe an agent, by its session and profile, to its view.
    Follow(u64, Arc<str>, SessionSender<watch::Receiver<Arc<View>>>),
    /// Publish the current state of the servers.
    Refresh(SessionSender<()>),
}

pub(super) fn check_names<'a>(names: impl Iterator<Item = &'a Arc<str>>) -> Result<(), ManagerError> {
    let mut seen = HashSet::new();
    for name in names {
        if !is_server_name(name) {
            return Err(ManagerError::InvalidServerName { server: name.to_string() });
        }
        if !seen.insert(name) {
            return Err(ManagerError::DuplicateServer { server: name.to_string() });
        }
    }
    Ok(())
}
