//! Handles one command completely or not at all, without waiting.
//!
//! A removed server is stopped and moves to `leaving`. A disabled tool is denied by the server's policy, and a disabled server has empty
//! lists. So neither can be called.

use std::collections::BTreeSet;
use std::sync::Arc;

use globset::Glob;

use super::{Entry, ManagerTask};
use crate::client::ClientError;
use crate::config::ServerConfig;
use crate::list_kind::ListKind;
use crate::manager::commands::{ManagerCommand, ManagerError, check_names};
use crate::manager::pins::ApprovalSender;
use crate::manager::pins::change::{ApproveError, ApprovedDefinition, ServerChanges};
use crate::manager::view::{Enablement, Toggle, ToggleResult};
use crate::naming::Naming;
use crate::policy::{RunTimeDeny, is_fit_name};
use crate::server::{HealthOverride, ServerHandle, ServerSnapshot, StopLevel};
use crate::suggest::nearest;
use crate::tool_overrides::ToolOverrides;

impl ManagerTask {
    pub(super) fn handle(&mut self, command: ManagerCommand) {
        let changes_servers = match command {
            ManagerCommand::Connect(..)
            | ManagerCommand::Disconnect(..)
            | ManagerCommand::Deny(..)
            | ManagerCommand::Toggle(..)
            | ManagerCommand::OverrideHealth(..)
            | ManagerCommand::Restart(..) => true,
            ManagerCommand::Apply(..)
            | ManagerCommand::Follow(..)
            | ManagerCommand::Changes(..)
            | ManagerCommand::Approve(..)
            | ManagerCommand::Refresh(_) => false,
        };
        if changes_servers {
            self.apply_staged();
        }
        // The caller may have dropped its future.
        match command {
            ManagerCommand::Connect(config, pins, done) => {
                self.pins.accept(pins);
                drop(done.send(self.connect(*config)));
            }
            ManagerCommand::Disconnect(name, done) => drop(done.send(self.disconnect(&name))),
            ManagerCommand::Apply(desired, pins, done) => {
                self.pins.accept(pins);
                self.apply(desired, done);
            }
            ManagerCommand::Deny(name, deny, done) => drop(done.send(self.deny(&name, &deny))),
            ManagerCommand::Toggle(name, toggle, done) => drop(done.send(self.toggle(&name, &toggle))),
            ManagerCommand::OverrideHealth(name, health_override, done) => {
                drop(done.send(self.override_health(&name, health_override)))
            }
            ManagerCommand::Restart(name, done) => drop(done.send(self.restart(&name))),
            ManagerCommand::Follow(session, profile, done) => {
                if let Some(view) = self.follow(session, &profile) {
                    drop(done.send(Ok(view)));
                }
            }
            ManagerCommand::Changes(name, done) => drop(done.send(self.definition_changes(name.as_deref()))),
            ManagerCommand::Approve(name, what, done) => self.approve(&name, what, done),
            ManagerCommand::Refresh(done) => {
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

    fn definition_changes(&mut self, name: Option<&str>) -> Result<Vec<ServerChanges>, ManagerError> {
        // Includes what servers have published so far.
        self.publish(false);
        if let Some(name) = name {
            self.find(name)?;
        }
        let servers = self.servers.iter().map(|entry| &entry.config);
        let requested = servers.filter(|config| name.is_none_or(|name| *config.name == *name));
        Ok(requested.map(|config| self.pins.changes(config)).collect())
    }

    fn approve(&mut self, name: &str, what: Vec<ApprovedDefinition>, done: ApprovalSender) {
        self.publish(false);
        match self.servers.iter().find(|entry| *entry.config.name == *name) {
            Some(entry) => self.pins.approve(&entry.config, what, done),
            None => drop(done.send(Err(ApproveError::UnknownServer { server: name.to_owned() }))),
        }
    }

    fn restart(&mut self, name: &str) -> Result<(ServerHandle, u64), ManagerError> {
        let running = &self.find(name)?.running;
        Ok((running.handle.clone(), running.control.restart()))
    }
}

/// Maximum number of disabled tools of one server.
const MAX_DISABLED_TOOLS: usize = 1000;

impl ManagerTask {
    pub(super) fn toggle(&mut self, name: &str, toggle: &Toggle) -> Result<ToggleResult, ManagerError> {
        let namings = self.namings();
        self.find(name)?;
        if *toggle == Toggle::Stop {
            self.cancel_replacement(name);
        }
        let mut denied = self.denied(name);
        let entry = self.find(name)?;
        let tool = match toggle {
            Toggle::Enable => entry.set_enablement(Enablement::Enabled),
            Toggle::Disable if entry.enablement == Enablement::Stopped => None,
            Toggle::Disable if !entry.config.settings.enabled => entry.set_enablement(Enablement::Stopped),
            Toggle::Disable => entry.set_enablement(Enablement::Disabled),
            Toggle::Stop => entry.set_enablement(Enablement::Stopped),
            Toggle::EnableTool(tool) => Some(entry.switch(&mut denied, &namings, tool, true)?),
            Toggle::DisableTool(tool) => Some(entry.switch(&mut denied, &namings, tool, false)?),
        };
        let handle = entry.running.handle.clone();
        if tool.is_some() {
            self.set_denied(name, denied);
        }
        self.publish(false);
        self.stop_gone();
        Ok(ToggleResult { handle, tool })
    }
}

impl Entry {
    fn set_enablement<T>(&mut self, enablement: Enablement) -> Option<T> {
        self.enablement = enablement;
        self.running.control.enable(enablement.runs() && self.waits_for.is_empty());
        None
    }

    fn switch(
        &self,
        denied: &mut RunTimeDeny,
        namings: &[Naming],
        tool: &str,
        on: bool,
    ) -> Result<Arc<str>, ManagerError> {
        let mut off = denied.off().clone();
        let server = Arc::clone(&self.config.name);
        let known = known(&self.running.handle.published(), &off);
        let tool = resolve((&server, &self.config.tool_overrides), &known, namings, (tool, on))?;
        if on {
            off.remove(&tool);
        } else {
            off.insert(Arc::clone(&tool));
        }
        if off.len() > MAX_DISABLED_TOOLS {
            return Err(ManagerError::TooManyDisabledTools { server: server.to_string(), max: MAX_DISABLED_TOOLS });
        }
        denied.set_off(off);
        Ok(tool)
    }
}

/// The server's own names of all tools that it has listed for any agent, and of disabled tools.
fn known(published: &ServerSnapshot, off: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
    let lists = published.agent_lists.values().chain([&published.lists]);
    let offered = lists.flat_map(|lists| lists[ListKind::Tools].items.iter().map(|item| Arc::clone(&item.key)));
    offered.chain(off.iter().cloned()).collect()
}

/// Finds the tool whose own name or possible exposed name is `tool`. An own name takes precedence.
fn resolve(
    (server, overrides): (&str, &ToolOverrides),
    known: &BTreeSet<Arc<str>>,
    namings: &[Naming],
    (tool, on): (&str, bool),
) -> Result<Arc<str>, ManagerError> {
    let is_exposed_so = |name: &&Arc<str>| {
        let shown = overrides.shown_name(name);
        shown == tool || namings.iter().any(|naming| naming.candidates(server, shown).any(|one| one == tool))
    };
    if let Some(name) = known.get(tool).or_else(|| known.iter().find(is_exposed_so)) {
        return Ok(Arc::clone(name));
    }
    if known.is_empty() && !on && !tool.is_empty() && is_fit_name(tool) {
        return Ok(tool.into());
    }
    let nearest = nearest(tool, known.iter().map(|name| &**name)).map(str::to_owned);
    Err(ClientError::UnknownTool { server: server.into(), tool: tool.to_owned(), nearest }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool_overrides::ToolOverride;

    #[test]
    fn tool_is_found_by_its_own_name_first_then_by_an_exposed_name() {
        let known: BTreeSet<Arc<str>> = ["read", "write", "s__read", "a b"].map(Arc::from).into();
        let overrides = ToolOverrides::from_iter([("a b".into(), ToolOverride::default().with_name("both".into()))]);
        let found = |tool: &str| {
            resolve(("s", &overrides), &known, &[Naming::default()], (tool, false)).map(|name| name.to_string())
        };
        let no_such = |tool: &str, nearest: Option<&str>| {
            let (server, tool) = ("s".into(), tool.to_owned());
            Err(ClientError::UnknownTool { server, tool, nearest: nearest.map(str::to_owned) }.into())
        };
        assert_eq!(found("read"), Ok("read".to_owned()));
        assert_eq!(found("s__read"), Ok("s__read".to_owned()));
        assert_eq!(found("s__write"), Ok("write".to_owned()));
        assert_eq!((found("both"), found("s__both")), (Ok("a b".to_owned()), Ok("a b".to_owned())));
        assert_eq!(found("wirte"), no_such("wirte", Some("write")));
        assert_eq!(found(""), no_such("", None));
    }

    #[test]
    fn server_without_known_tools_accepts_any_valid_name_to_disable() {
        let none = BTreeSet::new();
        let found =
            |tool: &str, on| resolve(("s", &ToolOverrides::default()), &none, &[Naming::default()], (tool, on)).is_ok();
        assert!(found("any", false));
        assert!(!found("any", true) && !found("", false) && !found("a\u{202e}", false));
    }
}
