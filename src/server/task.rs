//! The task of one server: it runs instance after instance until the server is stopped.
//!
//! It owns everything of the server. While no instance is ready, or its in-flight limit is reached, calls wait for a bounded time in
//! [`parked_calls`]. [`opening`] starts an instance, [`serve`] runs it, [`shutdown`] leaves nothing of it behind.

mod attempt;
mod dispatch;
mod failure_log;
mod fanout;
mod health_checks;
mod idle;
mod opening;
mod parked_calls;
mod secrets;
mod serve;
mod shutdown;
mod waiting_calls;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

pub(crate) use self::attempt::remove_below;
use self::failure_log::LastProcess;
use self::idle::Idle;
use self::opening::OpenEras;
pub(crate) use self::parked_calls::{START_WAIT, failure_in};
pub(super) use self::secrets::renewed;
use self::waiting_calls::WaitingCalls;
use super::agent_scope::AgentScope;
use super::context::ServerContext;
use super::control::{ControlReceiver, DesiredState};
use super::error::ServerError;
use super::lifecycle::{BACKOFF_RESET, Event, Lifecycle, State};
use super::messages::agents::Agents;
use super::messages::call::Call;
use super::messages::command::CommandReceiver;
use super::publish::Publisher;
use super::stderr;
use crate::config::known_commands::{self, Runner};
use crate::config::{Launch, ServerConfig};
use crate::era::Eras;
use crate::list_kind::PerKind;
use crate::message_limit::MessageLimit;
use crate::test_variable::test_variable;

/// What the task of one instance, or of a group of instances, starts with.
pub(super) struct Parts {
    pub(super) context: ServerContext,
    /// One for all instances.
    pub(super) stderr: stderr::Writer,
    pub(super) control: ControlReceiver,
    pub(super) commands: CommandReceiver,
    pub(super) publisher: Publisher,
}

/// What the instances of a task are for.
pub(super) struct Purpose {
    /// The label of one of several instances.
    pub(super) label: Option<Arc<str>>,
    /// The agents that they serve.
    pub(super) scope: AgentScope,
}

pub(super) struct ServerTask {
    context: ServerContext,
    control: ControlReceiver,
    /// The configuration of the present or last instance.
    config: Arc<ServerConfig>,
    commands: CommandReceiver,
    publisher: Publisher,
    lifecycle: Lifecycle,
    purpose: Purpose,
    waiting: WaitingCalls,
    idle: Idle,
    agents: Agents,
    eras: OpenEras,
    last_process: LastProcess,
}

impl ServerTask {
    /// The limit of messages from and to the server.
    fn message_limit(&self) -> MessageLimit {
        let ServerConfig { name, settings, .. } = &*self.config;
        MessageLimit::new(format_args!("servers.{name}"), settings.max_message, self.context.max_message)
    }
}

/// What a task leaves to the group of instances that replaces it.
pub(super) struct Handover {
    pub(super) parts: Parts,
    pub(super) calls: Vec<Call>,
    pub(super) agents: Agents,
}

/// Runs until the server is stopped. If several instances are needed, returns the handover for their group.
pub(super) async fn run(parts: Parts, purpose: Purpose) -> Option<Handover> {
    let Parts { context, stderr, mut control, commands, publisher } = parts;
    let DesiredState { config, revision, .. } = control.desired();
    control.apply(revision);
    let backoff_reset = test_variable("MCPD_TEST_BACKOFF_RESET_MS").map_or(BACKOFF_RESET, Duration::from_millis);
    let lifecycle = Lifecycle::new(startable(&config), context.restarts, backoff_reset);
    let mut task = ServerTask {
        context,
        control,
        config,
        commands,
        waiting: WaitingCalls::new(&publisher.stats),
        publisher,
        lifecycle,
        purpose,
        idle: Idle::default(),
        agents: Agents::default(),
        eras: OpenEras::default(),
        last_process: LastProcess::new(stderr),
    };
    task.load_lists().await;
    if !task.control.should_run() || (task.is_lazy() && task.publisher.knows_lists()) {
        task.lifecycle = task.lifecycle.not_yet_started();
    }
    task.publish_state(None);
    task.run().await;
    task.needs_both_eras().then(|| task.into_handover())
}

pub(super) fn startable(config: &ServerConfig) -> Result<(), ServerError> {
    config.launch.as_ref().map(|_| ()).map_err(|undefined| undefined.clone().into())
}

impl ServerTask {
    fn into_handover(mut self) -> Handover {
        // The instance that gets these calls counts them again.
        self.publisher.stats.calls.change(self.waiting.len() as u64, 0);
        let calls = self.waiting.drain().map(|call| *call).collect();
        let Self { context, last_process, control, commands, publisher, agents, .. } = self;
        let stderr = last_process.stderr().clone();
        Handover { parts: Parts { context, stderr, control, commands, publisher }, calls, agents }
    }

    async fn run(&mut self) {
        let mut first = true;
        loop {
            match self.lifecycle.state().clone() {
                State::Starting => {
                    // Reopening for legacy calls is not a restart.
                    if !std::mem::take(&mut first) && !self.eras.take_reopening() {
                        self.publisher.stats.starts_after_first.add_one();
                    }
                    if self.needs_both_eras() {
                        return;
                    }
                    let event = self.run_instance().await;
                    if self.needs_both_eras() {
                        return;
                    }
                    self.on(event);
                }
                State::Backoff { until, callable_at, .. } => {
                    let due = self.wait_for_attempt(until, callable_at).await;
                    if due {
                        self.publisher.stats.failure_restarts.add(Instant::now());
                    }
                    self.on(if due { Event::Due } else { Event::Stop });
                }
                State::Failed { .. } | State::NeedsLogin { .. } => {
                    self.refuse_waiting();
                    self.unless_stopped(std::future::pending::<()>()).await;
                    self.on(Event::Stop);
                }
                State::Stopped if !self.start_again().await => break,
                State::Stopped => {}
                // These states last only while there is an instance.
                State::Ready { .. } | State::Unresponsive { .. } | State::Stopping => break,
            }
        }
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            self.park_command(command);
        }
        self.refuse_waiting();
    }

    /// Starts, serves and ends one instance. Returns the event for the lifecycle.
    async fn attempt(&mut self) -> Event {
        let config = Arc::clone(&self.config);
        // A program may prompt a person, so this comes before the permit that other servers wait for.
        let (context, name) = (self.context.clone(), Arc::clone(&config.name));
        let renewing = async {
            match &config.launch {
                Ok(launch) => secrets::renewed(&context, &name, launch).await,
                Err(undefined) => Err(undefined.clone()),
            }
        };
        let launch = match self.unless_stopped(Box::pin(renewing)).await {
            Some(Ok(launch)) => launch,
            Some(Err(unusable)) => return Event::Ended(unusable.into()),
            None => return self.apply_stop(),
        };
        let permits = self.context.start_permits.clone();
        let is_called = Arc::clone(&self.publisher.stats.is_called);
        is_called.fetch_or(self.waiting.has_parked(), Ordering::Relaxed);
        // A server whose lists are known has been downloaded.
        let cache = self.runner().filter(|_| !self.publisher.knows_lists()).map(|runner| runner.cache());
        let acquiring = permits.acquire(Arc::clone(&is_called), cache);
        let Some(permit) = self.unless_stopped(acquiring).await else { return self.apply_stop() };
        is_called.store(false, Ordering::Relaxed);
        self.last_process.clear();
        let event = match &launch {
            Launch::Program(program) => self.one_process(program, None, permit).await,
            Launch::Served(program, remote) => self.one_process(program, Some(remote), permit).await,
            Launch::Remote(remote) => self.one_connection(remote, permit).await,
        };
        self.publisher.update(|published| {
            (published.pid, published.guard_pid) = (None, None);
            (published.remote, published.protocol, published.software) = (None, None, None);
            published.eras = Eras::default();
            (published.lists_complete, published.list_errors) = (false, PerKind::default());
            published.checked = None;
        });
        event
    }

    /// The runner that its command is, if it is one.
    fn runner(&self) -> Option<&'static Runner> {
        let program = self.config.launch.as_ref().ok()?.program()?;
        known_commands::runner(&program.command, &program.args)
    }

    /// Applies [`Event::Stop`] outside of [`ServerTask::serve`], which has applied the event already. Returns the event of the
    /// ended instance.
    pub(super) fn apply_stop(&mut self) -> Event {
        self.on(Event::Stop);
        Event::Ended(ServerError::Stopped)
    }

    pub(super) fn on(&mut self, event: Event) {
        let before = self.lifecycle.state().clone();
        self.lifecycle.on(event, Instant::now(), fastrand::f64());
        if *self.lifecycle.state() != before {
            self.publish_state(Some(&before));
        }
    }

    /// Logs and publishes the state. `before` is the previous one, if any.
    fn publish_state(&self, before: Option<&State>) {
        self.log_state(before);
        let state = self.lifecycle.state().clone();
        let marked_down = self.marked_down();
        self.publisher.update(|published| {
            if let State::Unresponsive { reason, .. } = &state
                && !marked_down
            {
                published.last_error = Some(reason.clone());
            }
            if let State::Backoff { reason, .. } | State::Failed { reason } = &state {
                published.last_error = Some(reason.clone());
                published.first_start_ended = true;
            }
            published.first_start_ended |= matches!(state, State::NeedsLogin { .. });
            published.state = state;
        });
    }
}

/// A task that ends with its owner.
pub(super) struct AbortOnDrop(pub(super) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
