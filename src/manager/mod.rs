//! Owns the servers and publishes what agents see of them.
//!
//! [`Manager`] is the handle that the daemon and embedding programs use. A task behind it owns the servers and publishes views.
//! This module uses [`crate::server`] and [`crate::catalog`]. It must not use sockets or sessions.
//!
//! ```text
//! Manager ── ManagerCommand ──► ManagerTask ── owns ──► servers
//!    ▲                               └─ publishes ─► View (catalog and servers, in a watch channel: readers never wait)
//!    └───────────────────────────────────────────────┘
//! ```
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use mcpd::{Manager, ServerConfig};
//!
//! let time = ServerConfig::new("time", "uvx").args(["mcp-server-time"]);
//! let manager = Manager::start([time])?;
//! for tool in manager.all_tools().await {
//!     println!("{}", tool.name);
//! }
//! let result = manager.call_tool("time__get_current_time", &serde_json::json!({ "timezone": "UTC" })).await?;
//! println!("{}", result.text()?);
//! manager.close().await;
//! # Ok(())
//! # }
//! ```

mod agent_views;
mod approval;
mod changes;
mod changes_report;
mod commands;
mod extensions;
mod figures;
mod figures_report;
mod malformed_report;
mod offered;
mod pins;
pub mod report;
mod resources;
mod setup;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod tools;
mod usage;
mod view;
mod wait_ready;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

pub(crate) use self::agent_views::AgentViewSource;
pub use self::changes::{Changes, ServerFailure};
pub(crate) use self::changes::{DesiredState, ViewConfig};
pub use self::commands::ManagerError;
use self::commands::{ManagerCommand, OutcomeSender, check_names};
pub(crate) use self::figures::Figures;
pub(crate) use self::offered::{OfferedTool, Unseen, tool_groups};
pub(crate) use self::pins::change::{DefinitionChange, ServerChanges};
use self::report::{DurationReport, ServerReport};
pub use self::resources::ResourceTool;
pub use self::setup::Setup;
use self::task::ManagerTask;
pub use self::tools::{ExposedTool, ToolRef};
pub use self::view::Toggle;
use self::view::ToggleResult;
pub(crate) use self::view::{
    Enablement, Member, ServedProfile, UnlistedName, View, ViewPart, WatchedView, start_for_call,
};
pub(crate) use self::wait_ready::ServerOutcome;
pub use crate::backoff::RestartDelays;
use crate::client::connected;
use crate::config::{Profile, ServerConfig};
pub use crate::naming::Naming;
use crate::pin_files::PinDirectory;
use crate::policy::pattern;
use crate::server::lifecycle::State;
use crate::server::{HealthOverride, ServerSnapshot, StopChannel, StopLevel};

/// Capacity of the queue of commands. At the limit, senders wait.
const COMMAND_CAPACITY: usize = 16;

/// Runs any number of servers and exposes them as one, as the daemon does. Cheap to clone; each clone is the same manager.
///
/// A server that exits is restarted with increasing delays. When the last clone is dropped, every server and everything it started
/// is killed at once. [`Manager::close`] stops the servers in order instead.
#[derive(Debug, Clone)]
pub struct Manager {
    commands: mpsc::Sender<ManagerCommand>,
    view: watch::Receiver<Arc<View>>,
    profiles: watch::Receiver<Arc<[ServedProfile]>>,
    stop: Arc<StopChannel>,
    pins: Option<PinDirectory>,
    figures: Figures,
}

/// Watches the lists that a [`Manager`] exposes.
#[derive(Debug, Clone)]
pub struct ListWatch(watch::Receiver<Arc<View>>);

impl ListWatch {
    /// Waits until a list or the set of servers has changed since the last call. Changes of a state are not reported.
    ///
    /// # Errors
    /// [`ManagerError::Closed`].
    pub async fn changed(&mut self) -> Result<(), ManagerError> {
        self.0.changed().await.map_err(|_| ManagerError::Closed)
    }
}

impl Manager {
    /// Starts all servers in parallel, with [`Setup::default`]. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ClientError::InvalidServerName`](crate::ClientError), [`ManagerError::DuplicateServer`]. On an error, no server is started.
    pub fn start(servers: impl IntoIterator<Item = ServerConfig>) -> Result<Self, ManagerError> {
        Self::start_with(Setup::default(), servers)
    }

    /// Like [`Manager::start`], with the given setup.
    ///
    /// # Errors
    /// As [`Manager::start`].
    pub fn start_with(setup: Setup, servers: impl IntoIterator<Item = ServerConfig>) -> Result<Self, ManagerError> {
        Ok(Self::spawn(setup, servers.into_iter().collect(), Vec::new())?.0)
    }

    /// Like [`Manager::start_with`], with a view for each of `profiles`. Returns also the manager's task, which ends when no server
    /// process is left, and returns those that could not be ended.
    pub(crate) fn spawn(
        setup: Setup,
        servers: Vec<ServerConfig>,
        profiles: Vec<Arc<Profile>>,
    ) -> Result<(Self, JoinHandle<Vec<u32>>), ManagerError> {
        check_names(servers.iter().map(|config| &config.name))?;
        let (pins, figures) = (setup.pins.clone(), Figures::new(setup.host.durations.clone()));
        let task = ManagerTask::start(setup, servers, profiles);
        let (view, profiles) = (task.view(), task.profiles());
        let (commands, receiver) = mpsc::channel(COMMAND_CAPACITY);
        let stop = StopChannel::new();
        let running = tokio::spawn(task.run(receiver, stop.receiver.clone()));
        Ok((Self { commands, view, profiles, stop: Arc::new(stop), pins, figures }, running))
    }

    /// The view of everything that is exposed, and its updates.
    pub(crate) fn view(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }

    /// Watches the exposed lists and the states of servers for changes from now on.
    #[must_use]
    pub fn watch(&self) -> ListWatch {
        let mut view = self.view.clone();
        view.mark_unchanged();
        ListWatch(view)
    }

    /// The profiles, each with its view.
    pub(crate) fn profiles(&self) -> watch::Receiver<Arc<[ServedProfile]>> {
        self.profiles.clone()
    }

    /// The source of views for agents of `profile` that have server instances of their own.
    pub(crate) fn agent_views(&self, profile: &Arc<str>) -> AgentViewSource {
        AgentViewSource { commands: self.commands.clone(), profile: Arc::clone(profile) }
    }

    /// Adds a server after the others, and waits until its tools are known.
    ///
    /// # Errors
    /// [`ClientError::InvalidServerName`](crate::ClientError), [`ManagerError::DuplicateServer`]. If the first start of the server fails, it
    /// is removed again and the error is [`ClientError::Unavailable`](crate::ClientError).
    pub async fn connect(&self, server: ServerConfig) -> Result<(), ManagerError> {
        let pins = self.load_pins([&server]).await;
        let handle = self.execute(|done| ManagerCommand::Connect(Box::new(server), pins, done)).await?;
        handle.wait_for(|published| published.first_start_ended).await;
        let Err(error) = connected(&handle) else { return self.refresh().await };
        self.disconnect(handle.name()).await?;
        Err(error.into())
    }

    /// Removes a server, and returns when no process of it is left. Calls in flight have 2 s to finish, and then fail with
    /// [`ClientError::Stopped`](crate::ClientError). What [`Manager::set_denied_tools`] denies stays denied if the server is connected again.
    ///
    /// # Errors
    /// [`ManagerError::UnknownServer`].
    pub async fn disconnect(&self, server: &str) -> Result<(), ManagerError> {
        let handle = self.execute(|done| ManagerCommand::Disconnect(server.to_owned(), done)).await?;
        handle.wait_ended().await;
        Ok(())
    }

    /// Replaces the set of servers, in this order.
    ///
    /// - A new instance of each changed server starts beside the old one, unless [`Replace`](crate::config::Replace) forbids it.
    /// - When the new instance is ready, the old one finishes its calls and stops. If the new one fails, the old one continues.
    /// - Unchanged servers keep running. A changed policy or call limit needs no new process.
    ///
    /// Returns when every server is in its new state or has failed, or when a later set has replaced this one. The maximum time is
    /// twice the longest `handshake_timeout` of the started servers, plus 10 s, plus 2 s for each of them.
    ///
    /// # Errors
    /// [`ClientError::InvalidServerName`](crate::ClientError), [`ManagerError::DuplicateServer`]. On an error, nothing changes. A server that fails
    /// to start is reported in [`Changes::failed`] instead.
    pub async fn set_servers(&self, servers: impl IntoIterator<Item = ServerConfig>) -> Result<Changes, ManagerError> {
        let desired = DesiredState { servers: servers.into_iter().collect(), exposed: None };
        self.apply(desired).await?.await.map_err(|_| ManagerError::Closed)?
    }

    /// Orders the servers, names and profiles of a configuration. The returned channel receives the outcome when they are in force.
    pub(crate) async fn apply(
        &self,
        desired: DesiredState,
    ) -> Result<oneshot::Receiver<Result<Changes, ManagerError>>, ManagerError> {
        let pins = self.load_pins(&desired.servers).await;
        let (done, answer) = oneshot::channel();
        self.commands.send(ManagerCommand::Apply(desired, pins, done)).await.map_err(|_| ManagerError::Closed)?;
        Ok(answer)
    }

    /// Denies the tools of a server whose own names match one of these globs, beside those that the policy of its configuration hides.
    /// Replaces the patterns of an earlier call; an empty list denies nothing beside that policy. Applies to lists and calls as soon as this
    /// returns.
    ///
    /// The patterns hold for the server of this name as long as the manager runs, also if the server is connected only later, disconnected
    /// and connected again, or changed with [`Manager::set_servers`].
    ///
    /// # Errors
    /// [`ClientError::InvalidServerName`](crate::ClientError), [`ManagerError::BadPattern`]. On an error, nothing changes.
    pub async fn set_denied_tools(&self, server: &str, patterns: &[&str]) -> Result<(), ManagerError> {
        let bad =
            |error: globset::Error| ManagerError::BadPattern { server: server.to_owned(), reason: error.to_string() };
        let globs = patterns.iter().map(|text| pattern(text)).collect::<Result<_, _>>().map_err(bad)?;
        self.execute(|done| ManagerCommand::Deny(server.to_owned(), globs, done)).await
    }

    /// Enables or disables a server or one of its tools. Applies to lists and calls as soon as this returns.
    ///
    /// [`Toggle::Enable`] returns when the server's tools are known or its start has failed. [`Toggle::Stop`] returns when its process
    /// has ended.
    ///
    /// # Errors
    /// [`ManagerError::UnknownServer`], [`ClientError::UnknownTool`](crate::ClientError), [`ManagerError::TooManyDisabledTools`]. On an
    /// error, nothing changes.
    pub async fn toggle(&self, server: &str, toggle: Toggle) -> Result<(), ManagerError> {
        self.switch(server, toggle).await.map(drop)
    }

    /// Like [`Manager::toggle`]. Returns the server's own name of the toggled tool, if any.
    pub(crate) async fn switch(&self, server: &str, toggle: Toggle) -> Result<Option<Arc<str>>, ManagerError> {
        let of_process = matches!(toggle, Toggle::Enable | Toggle::Stop).then_some(toggle == Toggle::Enable);
        let ToggleResult { handle, tool } =
            self.execute(|done| ManagerCommand::Toggle(server.to_owned(), toggle, done)).await?;
        let is_down = |state: &State| matches!(state, State::Stopping | State::Stopped);
        match of_process {
            None => return Ok(tool),
            Some(true) => {
                let is_up = |published: &ServerSnapshot| published.not_started_yet || !is_down(&published.state);
                handle.wait_for(|published| is_up(published) && published.first_start_ended).await;
            }
            Some(false) => drop(handle.wait_for(|published| published.state == State::Stopped).await),
        }
        self.refresh().await?;
        Ok(tool)
    }

    /// Overrides the health of a server until the next override: [`HealthOverride::ForceUnhealthy`] keeps calls away from it, and
    /// [`HealthOverride::ForceHealthy`] prevents restarts because of missed answers.
    ///
    /// # Errors
    /// [`ManagerError::UnknownServer`].
    pub async fn override_health(&self, server: &str, health_override: HealthOverride) -> Result<(), ManagerError> {
        self.execute(|done| ManagerCommand::OverrideHealth(server.to_owned(), health_override, done)).await
    }

    /// Stops the instance of a server after its calls, and starts another one. A server in backoff is started at once. Returns without
    /// waiting for the start.
    ///
    /// # Errors
    /// [`ManagerError::UnknownServer`].
    pub async fn restart(&self, server: &str) -> Result<(), ManagerError> {
        self.execute(|done| ManagerCommand::Restart(server.to_owned(), done)).await.map(drop)
    }

    /// State, health and counters of every server, in order. Does not wait. After [`Manager::close`] there are none.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerReport> {
        if self.is_closed() { Vec::new() } else { self.figures.of_servers(&self.view.borrow()) }
    }

    /// How long requests and sessions took since the start, as histograms: requests to servers, and sessions with them. Does not wait.
    #[must_use]
    pub fn durations(&self) -> Vec<DurationReport> {
        self.figures.of_durations()
    }

    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Measures what the processes of all servers use, for [`ServerReport::usage`], unless that was done within the last 2 s. Nothing is
    /// measured between calls. Waits for at most 100 ms, and only if the last values are older than 5 s.
    pub async fn measure_usage(&self) {
        let view = Arc::clone(&self.view.borrow());
        self.figures.measure(&view).await;
    }

    /// Whether the manager is closed, and no process of it is left.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.commands.is_closed()
    }

    /// Returns when the views include everything that servers have published so far.
    pub(crate) async fn refresh(&self) -> Result<(), ManagerError> {
        self.execute(ManagerCommand::Refresh).await
    }

    /// Stops every server: calls in flight have 2 s, then stdin is closed. SIGTERM follows after 3 s, and SIGKILL after 2 s more.
    /// Returns when no process is left. From then on, nothing is listed, and everything else fails with [`ManagerError::Closed`]. May be
    /// called again.
    pub async fn close(&self) {
        self.stop(StopLevel::FinishRunning);
        self.commands.closed().await;
    }

    /// Completes once the servers are being stopped for good.
    pub(crate) async fn stopping(&self) {
        self.stop.receiver.clone().at_least(StopLevel::FinishAll).await;
    }

    /// Whether the servers are being stopped for good, or have been.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.receiver.now() > StopLevel::Run || self.is_closed()
    }

    /// Stops every server for good, in the way that `stop` names.
    pub(crate) fn stop(&self, stop: StopLevel) {
        self.stop.raise(stop);
    }

    async fn execute<T>(&self, command: impl FnOnce(OutcomeSender<T>) -> ManagerCommand) -> Result<T, ManagerError> {
        let (done, answer) = oneshot::channel();
        self.commands.send(command(done)).await.map_err(|_| ManagerError::Closed)?;
        answer.await.map_err(|_| ManagerError::Closed)?
    }
}
