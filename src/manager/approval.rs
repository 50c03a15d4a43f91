//! Definitions that are not approved, and their approval by an operator.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Manager;
use super::commands::{ManagerCommand, ManagerError};
use super::pins::change::{ApproveError, Approved, ApprovedDefinition, ServerChanges};
use super::pins::files::{Loaded, LoadedPins, add_texts};
use super::pins::is_compared;
use crate::config::ServerConfig;
use crate::disk::on_disk;

impl Manager {
    /// The definitions of a server, or of all servers, that are not approved, with the approved ones.
    ///
    /// # Errors
    /// [`ManagerError::UnknownServer`], [`ManagerError::Closed`].
    pub(crate) async fn definition_changes(&self, server: Option<&str>) -> Result<Vec<ServerChanges>, ManagerError> {
        let server = server.map(str::to_owned);
        let mut all = self.execute(|done| ManagerCommand::Changes(server, done)).await?;
        if let Some(directory) = self.pins.clone() {
            let with_texts = all.clone();
            let read = on_disk(move || {
                let mut all = with_texts;
                all.iter_mut().for_each(|one| add_texts(&directory, &one.server, &mut one.changes));
                all
            });
            // Without an answer of the disk, the changes are shown alone.
            all = read.await.unwrap_or(all);
        }
        Ok(all)
    }

    /// Approves definitions that a server offers. Returns once that is written and in force.
    ///
    /// # Errors
    /// Why nothing was approved.
    pub(crate) async fn approve(&self, server: &str, what: Vec<ApprovedDefinition>) -> Result<Approved, ApproveError> {
        let (done, answer) = oneshot::channel();
        let command = ManagerCommand::Approve(server.to_owned(), what, done);
        self.commands.send(command).await.map_err(|_| ApproveError::Closed)?;
        answer.await.map_err(|_| ApproveError::Closed)?
    }

    /// The pin files of those of these servers that are not pinned yet.
    pub(super) async fn load_pins(&self, servers: impl IntoIterator<Item = &ServerConfig>) -> LoadedPins {
        let Some(directory) = self.pins.clone() else { return Vec::new() };
        let view = Arc::clone(&self.view.borrow());
        let is_known = |config: &ServerConfig| {
            let mut members = view.servers.iter();
            members.any(|member| member.config.name == config.name && is_compared(&member.config))
        };
        let new = servers.into_iter().filter(|config| is_compared(config) && !is_known(config));
        let names: Vec<_> = new.map(|config| Arc::clone(&config.name)).collect();
        let requested = names.clone();
        let read = on_disk(move || requested.iter().map(|name| Loaded::read(&directory, name)).collect::<Vec<_>>());
        match read.await {
            Ok(loaded) => names.into_iter().zip(loaded).collect(),
            Err(_) => names.into_iter().map(|name| (name, Loaded::late())).collect(),
        }
    }
}
