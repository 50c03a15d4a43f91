//! Waits, for a bounded time, for servers: until one has carried out a command, or until all running instances have answered a ping.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::commands::ManagerCommand;
use super::report::ServerReport;
use super::{Enablement, Manager, ManagerError, Member, Toggle, View};
use crate::server::ServerHandle;
use crate::server::lifecycle::{State, StateName};

/// Time for the end of the previous instance and for the tool list of the next one, in addition to the handshake.
const MARGIN: Duration = Duration::from_secs(10);

/// The state of a server after a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerOutcome {
    /// The server's own name of the tool, for a command about a tool.
    pub(crate) tool: Option<Arc<str>>,
    /// Its state, or that of its first instance with an error. For a tool `enabled` or `disabled`.
    pub(crate) state: StateName,
    /// Why the requested state was not reached, on one line.
    pub(crate) reason: Option<String>,
    /// Whether the requested state was reached.
    pub(crate) done: bool,
    /// Whether the state ends with the daemon, because the configuration says otherwise.
    pub(crate) temporary: bool,
}

impl Manager {
    /// Maximum time that the methods below wait. After it, they return the current state.
    pub(crate) fn wait_limit(&self, server: &str) -> Result<Duration, ManagerError> {
        let view = self.view.borrow();
        let member = find(&view, server).ok_or_else(|| unknown_server(server))?;
        Ok(member.config.settings.handshake_timeout + MARGIN)
    }

    /// Restarts a server and waits until its new instances have listed their tools or have failed.
    pub(crate) async fn restart_and_wait(&self, server: &str) -> Result<ServerOutcome, ManagerError> {
        let limit = self.wait_limit(server)?;
        let (handle, revision) = self.execute(|done| ManagerCommand::Restart(server.to_owned(), done)).await?;
        let mut view = self.view();
        let has_settled = handle.wait_for(|published| {
            published.revision >= revision && (published.first_start_ended || published.not_started_yet)
        });
        let is_enabled = |view: &View| find(view, server).is_some_and(|member| member.enablement.runs());
        let waited = timeout(limit, async {
            tokio::select! {
                _ = has_settled => {}
                // The server was disabled in the meantime, so no instance will start.
                _ = view.wait_for(|view| !is_enabled(view)) => {}
            }
        });
        let in_time = waited.await.is_ok();
        Ok(self.became(server, true, in_time))
    }

    /// As [`Manager::toggle`], with a time limit.
    pub(crate) async fn toggle_and_wait(&self, server: &str, toggle: Toggle) -> Result<ServerOutcome, ManagerError> {
        let is_on = matches!(toggle, Toggle::Enable | Toggle::EnableTool(_));
        let toggled = timeout(self.wait_limit(server)?, self.switch(server, toggle)).await;
        let in_time = toggled.is_ok();
        if let Some(tool) = toggled.unwrap_or(Ok(None))? {
            let state = if is_on { StateName::Enabled } else { StateName::Disabled };
            return Ok(ServerOutcome { tool: Some(tool), state, reason: None, done: true, temporary: !is_on });
        }
        Ok(self.became(server, is_on, in_time))
    }

    fn became(&self, server: &str, should_run: bool, in_time: bool) -> ServerOutcome {
        let view = self.view.borrow();
        let Some(member) = find(&view, server) else {
            return ServerOutcome {
                tool: None,
                state: StateName::Removed,
                reason: None,
                done: false,
                temporary: false,
            };
        };
        // A server that the configuration disables is stopped in the background.
        let is_hidden = !should_run && (in_time || member.enablement == Enablement::Disabled) && !member.is_enabled();
        let (state, mut reason) = if is_hidden { (StateName::Disabled, None) } else { state(member) };
        let done = match state {
            StateName::Ready | StateName::Idle => should_run,
            StateName::Disabled => !should_run,
            _ => false,
        };
        if !done && reason.is_none() {
            reason = match state {
                StateName::Disabled => None,
                _ if !in_time => Some("it is not ready yet".to_owned()),
                // A further start attempt is running.
                StateName::Starting => member.handle.published().last_error.as_ref().map(ToString::to_string),
                _ => None,
            };
        }
        ServerOutcome { tool: None, state, reason, done, temporary: member.is_overridden() }
    }
}

fn find<'a>(view: &'a View, server: &str) -> Option<&'a Member> {
    view.servers.iter().find(|member| **member.handle.name() == *server)
}

/// The handles of its instances, where there may be several, and of the server itself.
pub(super) fn with_instances(member: &Member) -> Vec<ServerHandle> {
    let instances = member.handle.instances().unwrap_or_default();
    instances.iter().chain([&member.handle]).cloned().collect()
}

fn unknown_server(server: &str) -> ManagerError {
    ManagerError::UnknownServer { server: server.to_owned() }
}

/// The state of a server and the reason for it. An instance with an error comes before the server.
fn state(member: &Member) -> (StateName, Option<String>) {
    let all: Arc<[ServerHandle]> = member.handle.instances().unwrap_or_default();
    let trouble = all.iter().find_map(|one| {
        let published = one.published();
        let reason = published.reason()?;
        let purpose = one.label().map_or("one", |purpose| purpose);
        Some((published.state_name(), Some(format!("{purpose}: {reason}"))))
    });
    let published = member.handle.published();
    if !member.enablement.runs() && published.state == State::Stopped {
        return (StateName::Disabled, None);
    }
    trouble.unwrap_or_else(|| (published.state_name(), published.reason().map(ToString::to_string)))
}

impl Manager {
    /// As [`Manager::servers`], after a ping to every running instance. All pings run at the same time, each for at most the
    /// server's `health_timeout`. The check starts no instance, and a missing response does not change a server's state.
    pub async fn check(&self) -> Vec<ServerReport> {
        let members = self.view.borrow().servers.clone();
        let limited = |member: &Member| {
            let limit = member.config.settings.health_timeout;
            with_instances(member).into_iter().map(move |one| check_instance(one, limit))
        };
        let answers: HashMap<InstanceKey, bool> =
            join_all(members.iter().flat_map(limited)).await.into_iter().flatten().collect();
        let mut servers = self.servers();
        for server in &mut servers {
            let answer = |purpose: &str, pid: Option<u32>| {
                answers.get(&InstanceKey { server: server.name.clone(), purpose: purpose.to_owned(), pid }).copied()
            };
            for one in &mut server.instances {
                one.answers = answer(&one.purpose, one.pid);
            }
            let all = server.instances.iter().map(|one| one.answers).chain([answer("", server.pid)]);
            server.answers = all.flatten().reduce(|all, one| all && one);
        }
        servers
    }

    /// Maximum duration of [`Manager::check`].
    pub(crate) fn check_timeout(&self) -> Duration {
        let view = self.view.borrow();
        view.servers.iter().map(|member| member.config.settings.health_timeout).max().unwrap_or_default()
    }
}

/// Identifies an instance. After a restart, its process id differs.
#[derive(PartialEq, Eq, Hash)]
struct InstanceKey {
    server: String,
    /// Empty if the server has only one instance.
    purpose: String,
    /// `None` for a server with a URL.
    pid: Option<u32>,
}

/// Whether the instance answers a ping; `None` if that does not count.
async fn check_instance(instance: ServerHandle, limit: Duration) -> Option<(InstanceKey, bool)> {
    let purpose = instance.label().map_or_else(String::new, ToString::to_string);
    let key = InstanceKey { server: instance.name().to_string(), purpose, pid: instance.published().pid };
    Some((key, instance.answers(limit).await?))
}
