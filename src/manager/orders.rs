//! What an owner can order of its manager.

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

/// The answer to an order.
pub(super) type ReplySender<T> = oneshot::Sender<Result<T, ManagerError>>;

/// What an owner asks for.
#[derive(Debug)]
pub(super) enum Order {
    /// One server more.
    Connect(Box<ServerConfig>, ReplySender<ServerHandle>),
    /// One server less.
    Disconnect(String, ReplySender<ServerHandle>),
    /// All of this and nothing else.
    Apply(DesiredState, ReplySender<Changes>),
    /// Other denied tools.
    Deny(String, Vec<Glob>, ReplySender<()>),
    /// Something switched on or off.
    Toggle(String, Toggle, ReplySender<ToggleResult>),
    /// What a person says of how it is.
    OverrideHealth(String, HealthOverride, ReplySender<()>),
    /// Another instance.
    Restart(String, ReplySender<(ServerHandle, u64)>),
    /// What the agent of this profile with this connection sees.
    Follow(u64, Arc<str>, ReplySender<watch::Receiver<Arc<View>>>),
    /// What servers have brought by now, published.
    Refresh(ReplySender<()>),
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
