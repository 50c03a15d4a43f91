//! Handles one order completely or not at all, without waiting. A removed server is stopped and moves to `leaving`.

use std::sync::Arc;

use globset::Glob;

use super::{Entry, ManagerTask};
use crate::config::ServerConfig;
use crate::manager::error::ManagerError;
use crate::manager::orders::{Order, check_names};
use crate::policy::RunTimeDeny;
use crate::server::{HealthOverride, ServerHandle, StopLevel};

impl ManagerTask {
    pub(super) fn handle(&mut self, order: Order) {
        if !matches!(order, Order::Apply(..) | Order::Follow(..) | Order::Refresh(_)) {
            self.apply_staged();
        }
        // The caller may have dropped its future.
        match order {
            Order::Connect(config, done) => drop(done.send(self.connect(*config))),
            Order::Disconnect(name, done) => drop(done.send(self.disconnect(&name))),
            Order::Apply(desired, done) => self.apply(desired, done),
            Order::Deny(name, deny, done) => drop(done.send(self.deny(&name, &deny))),
            Order::Toggle(name, toggle, done) => drop(done.send(self.toggle(&name, &toggle))),
            Order::OverrideHealth(name, health_override, done) => {
                drop(done.send(self.override_health(&name, health_override)))
            }
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
        let entry = self.start_one(self.with_denied(Arc::new(config)));
        let handle = entry.running.handle.clone();
        self.servers.push(entry);
        self.publish(false);
        Ok(handle)
    }

    fn disconnect(&mut self, name: &str) -> Result<ServerHandle, ManagerError> {
        let handle = self.find(name)?.running.handle.clone();
        self.cancel_replacement(name);
        let gone = self.servers.extract_if(.., |entry| *entry.config.name == *name);
        self.changing.gone.extend(gone.map(|entry| (entry.running, StopLevel::FinishRunning)));
        self.publish(false);
        self.stop_gone();
        Ok(handle)
    }

    fn deny(&mut self, name: &str, deny: &[Glob]) -> Result<(), ManagerError> {
        check_names([&Arc::from(name)].into_iter())?;
        let bad =
            |error: globset::Error| ManagerError::BadPattern { server: name.to_owned(), reason: error.to_string() };
        let mut denied = self.denied(name);
        denied.set_patterns(deny).map_err(bad)?;
        self.set_denied(name, denied);
        self.publish(false);
        Ok(())
    }

    /// What is denied at run time of the server of this name.
    pub(super) fn denied(&self, name: &str) -> RunTimeDeny {
        self.denied.get(name).cloned().unwrap_or_default()
    }

    /// Replaces what is denied at run time, for the server of this name that there is or will be.
    pub(super) fn set_denied(&mut self, name: &str, denied: RunTimeDeny) {
        if denied.is_empty() {
            self.denied.remove(name);
        } else {
            self.denied.insert(name.to_owned(), denied.clone());
        }
        if let Ok(entry) = self.find(name) {
            entry.config = entry.config.under(denied);
        }
    }

    /// `config` with what is denied at run time.
    pub(super) fn with_denied(&self, config: Arc<ServerConfig>) -> Arc<ServerConfig> {
        match self.denied.get(&*config.name) {
            Some(denied) => config.under(denied.clone()),
            None => config,
        }
    }

    fn override_health(&mut self, name: &str, health_override: HealthOverride) -> Result<(), ManagerError> {
        self.find(name)?.running.control.override_health(health_override);
        for one in self.changing.replacements.iter().filter(|one| *one.config.name == *name) {
            one.running.control.override_health(health_override);
        }
        self.publish(false);
        Ok(())
    }

    fn restart(&mut self, name: &str) -> Result<(ServerHandle, u64), ManagerError> {
        let running = &self.find(name)?.running;
        Ok((running.handle.clone(), running.control.restart()))
    }
}
