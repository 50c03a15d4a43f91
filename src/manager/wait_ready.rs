//! Waiting, for a bounded time, until a server has done what it was told, and saying what has become of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::orders::Order;
use super::{Enablement, Manager, ManagerError, Member, Toggle, View};
use crate::server::lifecycle::State;
use crate::server::{HealthOverride, ServerHandle, ServerSnapshot};

/// For the end of the instance before, and for the tools of the next one, beside what its handshake may take.
const MARGIN: Duration = Duration::from_secs(10);

/// What has become of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerOutcome {
    /// The one of its tools that this is about, as it names it.
    pub(crate) tool: Option<Arc<str>>,
    /// The word for its state, or for that of its instance that is worst off; `disabled`, or `removed`. Of a tool `enabled`
    /// or `disabled`.
    pub(crate) state: &'static str,
    /// Why it is not what it was to be, on one line.
    pub(crate) reason: Option<String>,
    /// Whether it is what it was to be.
    pub(crate) done: bool,
}

impl Manager {
    /// How long the methods below wait at most; then they tell what the server is doing.
    pub(crate) fn wait_limit(&self, server: &str) -> Result<Duration, ManagerError> {
        let view = self.view.borrow();
        let member = find(&view, server).ok_or_else(|| unknown(server))?;
        Ok(member.config.settings.handshake_timeout + MARGIN)
    }

    /// Restarts a server and waits until the new instance has told its tools, or has failed; of a server with several
    /// instances, until all have.
    pub(crate) async fn restart_and_wait(&self, server: &str) -> Result<ServerOutcome, ManagerError> {
        let limit = self.wait_limit(server)?;
        let (handle, revision) = self.order(|done| Order::Restart(server.to_owned(), done)).await?;
        let mut view = self.view();
        let has_settled = handle.wait_for(|published| {
            published.revision >= revision && (published.first_start_ended || published.not_started_yet)
        });
        let is_enabled = |view: &View| find(view, server).is_some_and(|member| member.enablement.runs());
        let waited = timeout(limit, async {
            tokio::select! {
                _ = has_settled => {}
                // Nothing will be started.
                _ = view.wait_for(|view| !is_enabled(view)) => {}
            }
        });
        let in_time = waited.await.is_ok();
        Ok(self.became(server, true, in_time))
    }

    /// As [`Manager::toggle`], for a bounded time.
    pub(crate) async fn toggle_and_wait(&self, server: &str, toggle: Toggle) -> Result<ServerOutcome, ManagerError> {
        let is_on = matches!(toggle, Toggle::Enable | Toggle::EnableTool(_));
        let toggled = timeout(self.wait_limit(server)?, self.switch(server, toggle)).await;
        let in_time = toggled.is_ok();
        if let Some(tool) = toggled.unwrap_or(Ok(None))? {
            let state = if is_on { "enabled" } else { "disabled" };
            return Ok(ServerOutcome { tool: Some(tool), state, reason: None, done: true });
        }
        Ok(self.became(server, is_on, in_time))
    }

    /// As [`Manager::override_health`], and waits until every instance that runs goes by it.
    pub(crate) async fn override_health_and_wait(
        &self,
        server: &str,
        health_override: HealthOverride,
    ) -> Result<ServerOutcome, ManagerError> {
        let limit = self.wait_limit(server)?;
        self.override_health(server, health_override).await?;
        let instances: Vec<_> = find(&self.view.borrow(), server).map(with_instances).unwrap_or_default();
        let goes_by_it = |published: &ServerSnapshot| match health_override {
            HealthOverride::ForceUnhealthy => !matches!(published.state, State::Ready { .. }),
            HealthOverride::ForceHealthy | HealthOverride::Auto => {
                !matches!(published.state, State::Unresponsive { .. })
            }
        };
        // What was said holds, however long an instance that ends just now takes for it.
        let _ = timeout(limit, join_all(instances.iter().map(|one| one.wait_for(goes_by_it)))).await;
        let settled = self.became(server, true, true);
        Ok(ServerOutcome { done: settled.state != "removed", ..settled })
    }

    fn became(&self, server: &str, should_run: bool, in_time: bool) -> ServerOutcome {
        let view = self.view.borrow();
        let Some(member) = find(&view, server) else {
            return ServerOutcome { tool: None, state: "removed", reason: None, done: false };
        };
        let is_hidden = !should_run && member.enablement == Enablement::Disabled;
        let (state, mut reason) = if is_hidden { ("disabled", None) } else { state(member) };
        let good: &[&str] = if should_run { &["ready", "idle"] } else { &["disabled"] };
        let done = good.contains(&state);
        if !done && reason.is_none() {
            reason = match state {
                "disabled" => Some("it has to be enabled first".to_owned()),
                _ if !in_time => Some("it takes longer than it is waited for".to_owned()),
                // It is being tried again.
                "starting" => member.handle.published().last_error.as_ref().map(ToString::to_string),
                _ => None,
            };
        }
        ServerOutcome { tool: None, state, reason, done }
    }
}

fn find<'a>(view: &'a View, server: &str) -> Option<&'a Member> {
    view.servers.iter().find(|member| **member.handle.name() == *server)
}

/// It, and each of its instances, where there may be several.
pub(super) fn with_instances(member: &Member) -> Vec<ServerHandle> {
    let instances = member.handle.instances().unwrap_or_default();
    instances.iter().chain([&member.handle]).cloned().collect()
}

fn unknown(server: &str) -> ManagerError {
    ManagerError::UnknownServer { server: server.to_owned() }
}

fn state(member: &Member) -> (&'static str, Option<String>) {
    let all: Arc<[ServerHandle]> = member.handle.instances().unwrap_or_default();
    let trouble = all.iter().find_map(|one| {
        let published = one.published();
        let reason = reason(one.name(), &published.state)?;
        let purpose = one.label().map_or("one", |purpose| purpose);
        Some((published.word(), Some(format!("{purpose}: {reason}"))))
    });
    let published = member.handle.published();
    if !member.enablement.runs() && published.state == State::Stopped {
        return ("disabled", None);
    }
    trouble.unwrap_or_else(|| (published.word(), reason(member.handle.name(), &published.state)))
}

fn reason(server: &str, state: &State) -> Option<String> {
    match state {
        State::NeedsLogin { reason } => Some(format!("{reason}; run `mcpd login {server}`")),
        state => state.reason().map(ToString::to_string),
    }
}
