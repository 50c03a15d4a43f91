//! What an owner can ask of its manager, and how it is done.
//!
//! Each order is carried out whole or not at all, without waiting: a server that is to end is told so and set aside, and
//! whoever wants to see the end waits for it.

use std::collections::HashSet;
use std::sync::Arc;

use globset::Glob;
use tokio::sync::{oneshot, watch};

use super::switches::{Presence, Switched, Toggle};
use super::task::{Entry, ManagerTask};
use super::{ManagerError, View};
use crate::config::ServerConfig;
use crate::naming::is_server_name;
use crate::server::{Running, ServerHandle, Stop, Vouched};

/// The answer to an order.
pub(super) type Done<T> = oneshot::Sender<Result<T, ManagerError>>;

/// What an owner asks for.
#[derive(Debug)]
pub(super) enum Order {
    /// One server more.
    Connect(Box<ServerConfig>, Done<ServerHandle>),
    /// One server less.
    Disconnect(String, Done<ServerHandle>),
    /// These servers and no others.
    SetServers(Vec<ServerConfig>, Done<Changes>),
    /// Other denied tools.
    Deny(String, Vec<Glob>, Done<()>),
    /// Something switched on or off.
    Toggle(String, Toggle, Done<Switched>),
    /// What a person says of how it is.
    Vouch(String, Vouched, Done<()>),
    /// Another instance.
    Restart(String, Done<(ServerHandle, u64)>),
    /// What the agent with this connection sees.
    Follow(u64, Done<watch::Receiver<Arc<View>>>),
    /// What servers have brought by now, published.
    Refresh(Done<()>),
}

/// What a new set of servers made of the old one; names in the order of the sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Started.
    pub added: Vec<Arc<str>>,
    /// Being ended.
    pub removed: Vec<Arc<str>>,
    /// To be run differently: started again.
    pub restarted: Vec<Arc<str>>,
}

impl ManagerTask {
    pub(super) fn obey(&mut self, order: Order) {
        // Whoever asked may have gone meanwhile.
        match order {
            Order::Connect(config, done) => drop(done.send(self.connect(*config))),
            Order::Disconnect(name, done) => drop(done.send(self.disconnect(&name))),
            Order::SetServers(configs, done) => drop(done.send(self.set_servers(configs))),
            Order::Deny(name, deny, done) => drop(done.send(self.deny(&name, &deny))),
            Order::Toggle(name, wanted, done) => drop(done.send(self.toggle(&name, &wanted))),
            Order::Vouch(name, vouched, done) => drop(done.send(self.vouch(&name, vouched))),
            Order::Restart(name, done) => drop(done.send(self.restart(&name))),
            Order::Follow(session, done) => drop(done.send(Ok(self.follow(session)))),
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
        let entry = self.start_one(config, Presence::Shown);
        let handle = entry.running.handle.clone();
        self.servers.push(entry);
        self.publish_anew();
        Ok(handle)
    }

    fn disconnect(&mut self, name: &str) -> Result<ServerHandle, ManagerError> {
        let handle = self.find(name)?.running.handle.clone();
        let gone = self.servers.extract_if(.., |entry| *entry.config.name == *name);
        self.leaving.extend(gone.map(leave));
        self.publish_anew();
        Ok(handle)
    }

    fn set_servers(&mut self, configs: Vec<ServerConfig>) -> Result<Changes, ManagerError> {
        check_names(configs.iter().map(|config| &config.name))?;
        let mut changes = Changes::default();
        let mut before = std::mem::take(&mut self.servers);
        for config in configs {
            let entry = match before.iter().position(|entry| entry.config.name == config.name) {
                None => {
                    changes.added.push(Arc::clone(&config.name));
                    self.start_one(config, Presence::Shown)
                }
                Some(index) => {
                    let entry = before.remove(index);
                    let same = entry.config.runs_like(&config);
                    if !same {
                        changes.restarted.push(Arc::clone(&config.name));
                    }
                    self.take_over(entry, config, same)
                }
            };
            self.servers.push(entry);
        }
        changes.removed = before.iter().map(|entry| Arc::clone(&entry.config.name)).collect();
        self.leaving.extend(before.into_iter().map(leave));
        self.publish_anew();
        Ok(changes)
    }

    /// Has a server run as `config` says, by the same instance if that is `same`; what was switched off stays so.
    fn take_over(&mut self, mut entry: Entry, mut config: ServerConfig, same: bool) -> Entry {
        config.policy = config.policy.without(entry.config.policy.switched_off().clone());
        if entry.config.settings.sharing != config.settings.sharing {
            let other = self.start_one(config, entry.presence);
            other.running.control.vouch(entry.running.control.vouched());
            self.leaving.push(leave(entry));
            return other;
        }
        entry.config = Arc::new(config);
        if !same {
            entry.running.control.reconfigure(Arc::clone(&entry.config));
        }
        entry
    }

    fn deny(&mut self, name: &str, deny: &[Glob]) -> Result<(), ManagerError> {
        let entry = self.find(name)?;
        let bad =
            |error: globset::Error| ManagerError::BadPattern { server: name.to_owned(), reason: error.to_string() };
        let policy = entry.config.policy.denying(deny).map_err(bad)?;
        entry.config = Arc::new(ServerConfig { policy, ..(*entry.config).clone() });
        self.publish_anew();
        Ok(())
    }

    fn vouch(&mut self, name: &str, vouched: Vouched) -> Result<(), ManagerError> {
        self.find(name)?.running.control.vouch(vouched);
        self.publish_anew();
        Ok(())
    }

    fn restart(&mut self, name: &str) -> Result<(ServerHandle, u64), ManagerError> {
        let running = &self.find(name)?.running;
        Ok((running.handle.clone(), running.control.restart()))
    }
}

fn leave(entry: Entry) -> Running {
    entry.running.control.stop(Stop::Stop);
    entry.running
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
