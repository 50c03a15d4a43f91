//! What an owner can ask of its manager, and how it is done.
//!
//! Each order is carried out whole or not at all, without waiting: a server that is to end is told so and set aside, and
//! whoever wants to see the end waits for it. A new set of servers is a matter of its own ([`super::change`]).

use std::collections::HashSet;
use std::sync::Arc;

use globset::Glob;
use tokio::sync::{oneshot, watch};

use super::change::Wanted;
use super::changes::Changes;
use super::switches::{Presence, Switched, Toggle};
use super::task::{Entry, ManagerTask};
use super::{ManagerError, View};
use crate::config::ServerConfig;
use crate::naming::is_server_name;
use crate::server::{HealthOverride, ServerHandle, Stop};

/// The answer to an order.
pub(super) type Done<T> = oneshot::Sender<Result<T, ManagerError>>;

/// What an owner asks for.
#[derive(Debug)]
pub(super) enum Order {
    /// One server more.
    Connect(Box<ServerConfig>, Done<ServerHandle>),
    /// One server less.
    Disconnect(String, Done<ServerHandle>),
    /// All of this and nothing else.
    Want(Wanted, Done<Changes>),
    /// Other denied tools.
    Deny(String, Vec<Glob>, Done<()>),
    /// Something switched on or off.
    Toggle(String, Toggle, Done<Switched>),
    /// What a person says of how it is.
    Vouch(String, HealthOverride, Done<()>),
    /// Another instance.
    Restart(String, Done<(ServerHandle, u64)>),
    /// What the agent of this profile with this connection sees.
    Follow(u64, Arc<str>, Done<watch::Receiver<Arc<View>>>),
    /// What servers have brought by now, published.
    Refresh(Done<()>),
}

impl ManagerTask {
    pub(super) fn obey(&mut self, order: Order) {
        if !matches!(order, Order::Want(..) | Order::Follow(..) | Order::Refresh(_)) {
            self.hurry();
        }
        // Whoever asked may have gone meanwhile.
        match order {
            Order::Connect(config, done) => drop(done.send(self.connect(*config))),
            Order::Disconnect(name, done) => drop(done.send(self.disconnect(&name))),
            Order::Want(wanted, done) => self.want(wanted, done),
            Order::Deny(name, deny, done) => drop(done.send(self.deny(&name, &deny))),
            Order::Toggle(name, wanted, done) => drop(done.send(self.toggle(&name, &wanted))),
            Order::Vouch(name, vouched, done) => drop(done.send(self.vouch(&name, vouched))),
            Order::Restart(name, done) => drop(done.send(self.restart(&name))),
            Order::Follow(session, profile, done) => {
                if let Some(view) = self.follow(session, &profile) {
                    drop(done.send(Ok(view)));
                }
            }
            Order::Refresh(done) => {
                self.publish(false);
                drop(done.send(Ok(())));
            }
        }
    }

    pub(super) fn find(&mut self, name: &str) -> Result<&mut Entry, ManagerError> {
        let unknown = || ManagerError::UnknownServer { server: name.to_owned() };
        self.servers.iter_mut().find(|entry| *entry.config.name == *name).ok_or_else(unknown)
    }

    fn connect(&mut self, config: ServerConfig) -> Result<ServerHandle, ManagerError> {
        check_names(self.servers.iter().map(|entry| &entry.config.name).chain([&config.name]))?;
        let entry = self.start_one(Arc::new(config), Presence::Shown);
        let handle = entry.running.handle.clone();
        self.servers.push(entry);
        self.publish(false);
        Ok(handle)
    }

    fn disconnect(&mut self, name: &str) -> Result<ServerHandle, ManagerError> {
        let handle = self.find(name)?.running.handle.clone();
        self.give_up_successor(name);
        let gone = self.servers.extract_if(.., |entry| *entry.config.name == *name);
        self.changing.gone.extend(gone.map(|entry| (entry.running, Stop::Stop)));
        self.publish(false);
        self.dismiss();
        Ok(handle)
    }

    fn deny(&mut self, name: &str, deny: &[Glob]) -> Result<(), ManagerError> {
        let entry = self.find(name)?;
        let bad =
            |error: globset::Error| ManagerError::BadPattern { server: name.to_owned(), reason: error.to_string() };
        let policy = entry.config.policy.denying(deny).map_err(bad)?;
        entry.config = Arc::new(ServerConfig { policy, ..(*entry.config).clone() });
        self.publish(false);
        Ok(())
    }

    fn vouch(&mut self, name: &str, vouched: HealthOverride) -> Result<(), ManagerError> {
        self.find(name)?.running.control.vouch(vouched);
        for one in self.changing.successors.iter().filter(|one| *one.config.name == *name) {
            one.running.control.vouch(vouched);
        }
        self.publish(false);
        Ok(())
    }

    fn restart(&mut self, name: &str) -> Result<(ServerHandle, u64), ManagerError> {
        let running = &self.find(name)?.running;
        Ok((running.handle.clone(), running.control.restart()))
    }
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
