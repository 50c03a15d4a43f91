//! Owns the servers and publishes what agents see of them.
//!
//! Lives here: the handle ([`Manager`], which the daemon holds and programs embed), the task behind it, and what both
//! tell of the servers. Knows: [`crate::server`], [`crate::catalog`]. Must not touch: sockets, sessions.
//!
//! ```text
//! Manager ── Order ──► ManagerTask ── owns ──► servers
//!    ▲                      └─ publishes ─► View (catalog, servers; a watch: readers never wait)
//!    └──────────────────────────────────────┘
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
//! println!("{}", result.value()?);
//! manager.close().await;
//! # Ok(())
//! # }
//! ```

mod agent_views;
mod changes;
mod check;
mod enablement;
mod error;
mod instructions;
mod listener;
mod offered;
mod orders;
mod orphans;
pub mod report;
mod resources;
mod setup;
mod task;
mod tools;
mod view;
mod wait_ready;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

pub(crate) use self::agent_views::AgentViews;
pub use self::changes::{Changes, ServerFailure};
pub(crate) use self::changes::{DesiredState, ViewConfig};
pub(crate) use self::enablement::Enablement;
pub use self::enablement::Toggle;
use self::enablement::ToggleResult;
pub use self::error::ManagerError;
pub(crate) use self::listener::ViewListener;
pub(crate) use self::offered::{OfferedTool, Unseen, tool_groups};
use self::orders::{Order, ReplySender, check_names};
pub(crate) use self::orphans::Orphans;
use self::report::ServerReport;
pub use self::resources::ResourceTool;
pub use self::setup::Setup;
use self::task::ManagerTask;
pub use self::tools::ExposedTool;
pub(crate) use self::view::ServedProfile;
pub(crate) use self::view::{Member, View};
pub(crate) use self::wait_ready::ServerOutcome;
use crate::client::connected;
use crate::config::{Profile, ServerConfig};
use crate::policy::pattern;
use crate::server::lifecycle::State;
use crate::server::{self, HealthOverride, ServerSnapshot, Stop, StopOrder};

/// Orders that wait for the task; one more waits for a place.
const ORDER_PLACES: usize = 16;

/// Any number of servers as one: what the daemon serves, as a library. Cheap to clone; each clone is the same manager.
///
/// A server that ends is started again, ever more slowly. When the last clone is dropped every server is ended at once,
/// with everything it started; [`Manager::close`] is the polite way.
#[derive(Debug, Clone)]
pub struct Manager {
    orders: mpsc::Sender<Order>,
    view: watch::Receiver<Arc<View>>,
    profiles: watch::Receiver<Arc<[ServedProfile]>>,
    stop: Arc<watch::Sender<Stop>>,
}

/// Watches the lists that a [`Manager`] exposes.
#[derive(Debug, Clone)]
pub struct ListWatch(watch::Receiver<Arc<View>>);

impl ListWatch {
    /// Waits until something has changed since the last call: a list, or the state of a server.
    ///
    /// # Errors
    /// [`ManagerError::Closed`].
    pub async fn changed(&mut self) -> Result<(), ManagerError> {
        self.0.changed().await.map_err(|_| ManagerError::Closed)
    }
}

impl Manager {
    /// Starts servers, all at once, with [`Setup::default`]. Has to be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ManagerError::InvalidServerName`], [`ManagerError::DuplicateServer`]; then none was started.
    pub fn start(servers: impl IntoIterator<Item = ServerConfig>) -> Result<Self, ManagerError> {
        Self::start_with(Setup::default(), servers)
    }

    /// The same with another setup.
    ///
    /// # Errors
    /// As [`Manager::start`].
    pub fn start_with(setup: Setup, servers: impl IntoIterator<Item = ServerConfig>) -> Result<Self, ManagerError> {
        Ok(Self::spawn(setup, servers.into_iter().collect(), Vec::new())?.0)
    }

    /// The same, for agents of `profiles`, with the task that ends when no process of any server is left.
    pub(crate) fn spawn(
        setup: Setup,
        servers: Vec<ServerConfig>,
        profiles: Vec<Arc<Profile>>,
    ) -> Result<(Self, JoinHandle<()>), ManagerError> {
        check_names(servers.iter().map(|config| &config.name))?;
        let task = ManagerTask::start(setup, servers, profiles);
        let (view, profiles) = (task.view(), task.profiles());
        let (orders, receiver) = mpsc::channel(ORDER_PLACES);
        let (stop, order) = StopOrder::channel();
        let running = tokio::spawn(task.run(receiver, order));
        Ok((Self { orders, view, profiles, stop: Arc::new(stop) }, running))
    }

    /// What is exposed now, and what will be.
    pub(crate) fn view(&self) -> watch::Receiver<Arc<View>> {
        self.view.clone()
    }

    /// Watches what is exposed, from now on.
    #[must_use]
    pub fn watch(&self) -> ListWatch {
        ListWatch(self.view.clone())
    }

    /// The profiles, each with what its agents see.
    pub(crate) fn profiles(&self) -> watch::Receiver<Arc<[ServedProfile]>> {
        self.profiles.clone()
    }

    /// What agents of a profile see that have instances of their own.
    pub(crate) fn agent_views(&self, profile: &Arc<str>) -> AgentViews {
        AgentViews { orders: self.orders.clone(), profile: Arc::clone(profile) }
    }

    /// Adds a server, at the end, and waits until its tools are known.
    ///
    /// # Errors
    /// [`ManagerError::InvalidServerName`], [`ManagerError::DuplicateServer`]; or `ServerNotConnected`, if its first
    /// start fails: then it has been removed again.
    pub async fn connect(&self, server: ServerConfig) -> Result<(), ManagerError> {
        let handle = self.order(|done| Order::Connect(Box::new(server), done)).await?;
        handle.wait_for(|published| published.attempted).await;
        let Err(error) = connected(&handle) else { return self.refresh().await };
        self.disconnect(handle.name()).await?;
        Err(error.into())
    }

    /// Removes a server; returns when no process of it is left. Its calls in flight get 2 s.
    ///
    /// # Errors
    /// [`ManagerError::UnknownServer`].
    pub async fn disconnect(&self, server: &str) -> Result<(), ManagerError> {
        let handle = self.order(|done| Order::Disconnect(server.to_owned(), done)).await?;
        handle.ended().await;
        Ok(())
    }

    /// Makes these the servers, in this order. All that differs from what runs is started beside it first; what runs ends,
    /// after its calls, when that is ready, and goes on if that fails ([`Replace`](crate::config::Replace) says otherwise). The
    /// rest goes on undisturbed, and a changed policy or limit of calls costs no process.
    ///
    /// Returns when every server is as it was to be, or has failed: after twice the longest `handshake_timeout` of those that
    /// were started and 10 s at most, and 2 s more for each of them. A set that is overtaken by another one returns, too.
    ///
    /// # Errors
    /// [`ManagerError::InvalidServerName`], [`ManagerError::DuplicateServer`]; then nothing has changed. That a server fails is
    /// no error, but in [`Changes::failed`].
    pub async fn set_servers(&self, servers: impl IntoIterator<Item = ServerConfig>) -> Result<Changes, ManagerError> {
        let desired = DesiredState { servers: servers.into_iter().collect(), exposed: None };
        self.apply(desired).await?.await.map_err(|_| ManagerError::Closed)?
    }

    /// The same of all that a configuration says, in two steps: it is ordered when this returns, and done when what it returns is told.
    pub(crate) async fn apply(
        &self,
        desired: DesiredState,
    ) -> Result<oneshot::Receiver<Result<Changes, ManagerError>>, ManagerError> {
        let (done, answer) = oneshot::channel();
        self.orders.send(Order::Apply(desired, done)).await.map_err(|_| ManagerError::Closed)?;
        Ok(answer)
    }

    /// Hides the tools of a server whose own names match one of these globs, instead of those hidden so far. Holds for
    /// lists and calls from the moment this returns.
    ///
    /// # Errors
    /// [`ManagerError::UnknownServer`], [`ManagerError::BadPattern`]; then nothing has changed.
    pub async fn set_denied_tools(&self, server: &str, patterns: &[&str]) -> Result<(), ManagerError> {
        let bad =
            |error: globset::Error| ManagerError::BadPattern { server: server.to_owned(), reason: error.to_string() };
        let globs = patterns.iter().map(|text| pattern(text)).collect::<Result<_, _>>().map_err(bad)?;
        self.order(|done| Order::Deny(server.to_owned(), globs, done)).await
    }

    /// Switches a server, or one of its tools, off or on. Holds for lists and calls from the moment this returns; of a
    /// server that is to run or to end it returns when its tools are known or its start has failed, or its process is gone.
    ///
    /// # Errors
    /// [`ManagerError::UnknownServer`], [`ManagerError::NoSuchTool`], [`ManagerError::TooManyToolsOff`]; then nothing has
    /// changed.
    pub async fn toggle(&self, server: &str, toggle: Toggle) -> Result<(), ManagerError> {
        self.switch(server, toggle).await.map(drop)
    }

    /// As [`Manager::toggle`]. Returns the tool that was switched, as its server names it.
    pub(crate) async fn switch(&self, server: &str, toggle: Toggle) -> Result<Option<Arc<str>>, ManagerError> {
        let of_process = matches!(toggle, Toggle::Enable | Toggle::Stop).then_some(toggle == Toggle::Enable);
        let ToggleResult { handle, tool } = self.order(|done| Order::Toggle(server.to_owned(), toggle, done)).await?;
        let is_down = |state: &State| matches!(state, State::Stopping | State::Stopped);
        match of_process {
            None => return Ok(tool),
            Some(true) => {
                let is_up = |published: &ServerSnapshot| published.asleep || !is_down(&published.state);
                handle.wait_for(|published| is_up(published) && published.attempted).await;
            }
            Some(false) => drop(handle.wait_for(|published| published.state == State::Stopped).await),
        }
        self.refresh().await?;
        Ok(tool)
    }

    /// Says how a server is, whatever it answers when it is asked: one that is [`HealthOverride::Down`] gets no calls, one that is
    /// [`HealthOverride::Up`] is not restarted for not answering. Holds until something else is said.
    ///
    /// # Errors
    /// [`ManagerError::UnknownServer`].
    pub async fn vouch(&self, server: &str, vouched: HealthOverride) -> Result<(), ManagerError> {
        self.order(|done| Order::OverrideHealth(server.to_owned(), vouched, done)).await
    }

    /// Ends the instance of a server, after its calls, and starts another one; one that waits to be started again is
    /// started now. Does not wait for it.
    ///
    /// # Errors
    /// [`ManagerError::UnknownServer`].
    pub async fn restart(&self, server: &str) -> Result<(), ManagerError> {
        self.order(|done| Order::Restart(server.to_owned(), done)).await.map(drop)
    }

    /// State, health and counters of every server, in order. Waits for nobody.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerReport> {
        report::servers(&self.view.borrow())
    }

    /// Returns when all that servers have told by now is seen.
    pub(crate) async fn refresh(&self) -> Result<(), ManagerError> {
        self.order(Order::Refresh).await
    }

    /// Ends every server in order: calls in flight get 2 s, then stdin is closed, after 3 s SIGTERM, after 2 s SIGKILL.
    /// Returns when no process is left.
    pub async fn close(&self) {
        self.stop(Stop::Drain);
        self.orders.closed().await;
    }

    /// Ends every server as far as `stop` says, for good.
    pub(crate) fn stop(&self, stop: Stop) {
        server::raise(&self.stop, stop);
    }

    async fn order<T>(&self, order: impl FnOnce(ReplySender<T>) -> Order) -> Result<T, ManagerError> {
        let (done, answer) = oneshot::channel();
        self.orders.send(order(done)).await.map_err(|_| ManagerError::Closed)?;
        answer.await.map_err(|_| ManagerError::Closed)?
    }
}
