//! The task of one server: instance after instance, until it is told to stop.
//!
//! Owns everything of the server, so nothing is locked. While no instance is ready it holds calls back for a bounded
//! time ([`super::hold`]); [`super::serve`] is what it does while one is, [`super::ending`] how one ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

use super::agents::Agents;
use super::call::Call;
use super::control::{Orders, Wanted};
use super::ending::{End, closed};
use super::handshake::{HandshakeError, ServerInfo, handshake};
use super::instance::Instance;
use super::lifecycle::{Event, Lifecycle, State};
use super::process::{self, NotStarted, Process};
use super::publish::Publisher;
use super::role::Role;
use super::stderr;
use super::turn::Turn;
use super::{Command, Host};
use crate::config::{Launch, ServerConfig};

/// For what a server that is gone had written to stderr to be taken in.
const LAST_STDERR: Duration = Duration::from_millis(200);
/// For a guard to say that its server runs.
const SPAWN_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct ServerTask {
    pub(super) host: Host,
    pub(super) orders: Orders,
    /// As the instance is run, or was last.
    pub(super) config: Arc<ServerConfig>,
    /// Of the orders that led to this instance.
    pub(super) revision: u64,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) publisher: Publisher,
    pub(super) lifecycle: Lifecycle,
    stderr: stderr::Writer,
    /// What it is for, if it is one of several.
    purpose: Option<Arc<str>>,
    /// For whom.
    role: Role,
    /// Calls held back, oldest first.
    pub(super) held: VecDeque<(Instant, Call)>,
    /// When the tools of a server that is down are no longer listed.
    pub(super) forget_at: Option<Instant>,
    /// Since when an instance that may be stopped for it has had no call.
    pub(super) idle_since: Option<Instant>,
    pub(super) agents: Agents,
}

pub(super) async fn run(
    host: Host,
    orders: Orders,
    commands: mpsc::Receiver<Command>,
    publisher: Publisher,
    stderr: stderr::Writer,
    (purpose, role): (Option<Arc<str>>, Role),
) {
    let Wanted { config, revision, .. } = orders.wanted();
    let lifecycle = Lifecycle::new(startable(&config), host.restarts, config.settings.backoff_reset);
    let mut task = ServerTask {
        host,
        orders,
        config,
        revision,
        commands,
        publisher,
        lifecycle,
        stderr,
        purpose,
        role,
        held: VecDeque::new(),
        forget_at: None,
        idle_since: None,
        agents: Agents::default(),
    };
    task.recall_lists().await;
    if !task.orders.wants_any() || (task.is_lazy() && task.publisher.knows_lists()) {
        task.lifecycle = task.lifecycle.not_yet_started();
    }
    task.publish_state();
    task.live().await;
}

pub(super) fn startable(config: &ServerConfig) -> Result<(), String> {
    match &config.launch {
        Ok(Launch::Program(_)) => Ok(()),
        Ok(Launch::Remote(_)) => {
            Err("it has a `url`, and this version of mcpd does not speak HTTP to servers".to_owned())
        }
        Err(undefined) => Err(undefined.to_string()),
    }
}

impl ServerTask {
    async fn live(&mut self) {
        let mut first = true;
        loop {
            match self.lifecycle.state().clone() {
                State::Starting => {
                    if !std::mem::take(&mut first) {
                        self.publisher.stats.restarts.add_one();
                    }
                    let reason = self.one_instance().await;
                    self.on(Event::Ended { reason, retry_after: None });
                }
                State::Backoff { until, .. } => {
                    let due = self.while_wanted(sleep_until(until.into())).await.is_some();
                    if due {
                        self.publisher.stats.recovered.add(Instant::now());
                    }
                    self.on(if due { Event::Due } else { Event::Stop });
                }
                State::Failed { .. } | State::NeedsLogin { .. } => {
                    self.refuse_held();
                    self.while_wanted(std::future::pending::<()>()).await;
                    self.on(Event::Stop);
                }
                State::Stopped if !self.start_again().await => break,
                State::Stopped => {}
                // Both last only while there is an instance.
                State::Ready { .. } | State::Unresponsive { .. } | State::Stopping => break,
            }
        }
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            self.hold(command);
        }
        self.refuse_held();
    }

    /// Starts one instance, serves it, and leaves nothing of it behind. Tells how it ended.
    async fn one_instance(&mut self) -> String {
        let turns = self.host.turns.clone();
        let Some(turn) = self.while_wanted(turns.take()).await else { return self.stopped() };
        let Ok(Launch::Program(program)) = &self.config.launch else { return "cannot be started".to_owned() };
        let secrets = program.secrets.clone();
        let host = &self.host;
        let definition = process::definition(program, host.inherited, own_env());
        let mut spawned = match process::spawn(&host.guard, &definition) {
            Ok(spawned) => spawned,
            Err(NotStarted::Refused(reason)) => return secrets.masked(&reason),
            Err(NotStarted::GuardLost) => return "its guard died".to_owned(),
        };
        // Known before anything is waited for: a child of mcpd that is no known guard is taken for a stray.
        self.publisher.update(|published| published.guard_pid = spawned.guard_pid());
        let (cgroups, config) = (self.host.cgroups.clone(), Arc::clone(&self.config));
        let limits = self.holding(spawned.limit(&cgroups, &config)).await;
        self.publisher.update(|published| published.limits = limits);
        let started = self.while_wanted(timeout(SPAWN_TIMEOUT, spawned.start(&definition))).await;
        drop(definition);
        let reason = match started {
            Some(Ok(Ok(pid))) => {
                self.publisher.update(|published| published.pid = Some(pid));
                let (process, pipes) = spawned.into_process();
                let mut draining = AbortOnDrop(tokio::spawn(self.stderr.clone().drain(pipes.stderr, pid)));
                let reason = self.with_process(process, (pipes.stdin, pipes.stdout), turn).await;
                // What it said last says most.
                let _ = self.holding(timeout(LAST_STDERR, &mut draining.0)).await;
                reason
            }
            not_started => {
                if !self.holding(spawned.kill()).await {
                    self.guard_lost();
                }
                match not_started {
                    Some(Ok(Err(NotStarted::Refused(reason)))) => secrets.masked(&reason),
                    Some(Ok(_)) => "its guard died".to_owned(),
                    Some(Err(_)) => "its guard does not answer".to_owned(),
                    None => self.stopped(),
                }
            }
        };
        self.publisher.update(|published| {
            (published.pid, published.guard_pid) = (None, None);
            (published.protocol, published.software) = (None, None);
            published.checked = None;
        });
        reason
    }

    async fn with_process(
        &mut self,
        mut process: Process,
        pipes: (pipe::Sender, pipe::Receiver),
        turn: Turn,
    ) -> String {
        let limit = self.config.settings.handshake_timeout;
        let stats = Arc::clone(&self.publisher.stats);
        let mut instance =
            Instance::new(pipes, (Arc::clone(&self.config), self.role.clone()), stats, self.host.max_message);
        let end = match self.while_wanted(turn.during(introduce(&mut instance, &mut process, limit))).await {
            Some(Ok(info)) => {
                self.up(&info);
                instance.level.declared = info.logs;
                instance.task_support = info.tasks;
                self.serve(&mut instance, info.offers, &mut process).await
            }
            Some(Err(end)) => end,
            None => End::Stop,
        };
        self.end(end, instance, process).await
    }

    /// It ceased to be wanted outside of [`ServerTask::serve`], which takes the event itself.
    pub(super) fn stopped(&mut self) -> String {
        self.on(Event::Stop);
        "was stopped".to_owned()
    }

    fn up(&mut self, info: &ServerInfo) {
        self.forget_at = None;
        self.publisher.update(|published| {
            published.protocol = Some(info.protocol);
            published.software.clone_from(&info.software);
            published.instructions.clone_from(&info.instructions);
            published.checked = Some((Instant::now(), 0));
        });
        self.on(Event::Up);
    }

    pub(super) fn on(&mut self, event: Event) {
        let before = self.lifecycle.state().clone();
        self.lifecycle.on(event, Instant::now(), fastrand::f64().mul_add(2.0, -1.0));
        if *self.lifecycle.state() != before {
            self.publish_state();
        }
    }

    fn publish_state(&self) {
        let state = self.lifecycle.state().clone();
        let (purpose, marked_down) = (self.purpose.as_deref(), self.marked_down());
        tracing::info!(server = %self.config.name, instance = purpose, "{}", state.word());
        self.publisher.update(|published| {
            if let State::Unresponsive { reason, .. } = &state
                && !marked_down
            {
                published.last_error = Some(reason.clone());
            }
            if let State::Backoff { reason, .. } | State::Failed { reason } = &state {
                published.last_error = Some(reason.clone());
                published.attempted = true;
            }
            published.attempted |= matches!(state, State::NeedsLogin { .. });
            published.state = state;
        });
    }
}

/// mcpd's own environment; what is not UTF-8 cannot be passed on.
fn own_env() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The handshake, unless the server ends or takes longer than `limit`.
async fn introduce(instance: &mut Instance, process: &mut Process, limit: Duration) -> Result<ServerInfo, End> {
    let result = tokio::select! {
        result = timeout(limit, handshake(instance)) => result,
        ended = process.ended() => return Err(End::Ended(ended)),
    };
    match result {
        Ok(Ok(info)) => Ok(info),
        Ok(Err(HandshakeError::Refused(reason))) => Err(End::Broken(reason)),
        Ok(Err(HandshakeError::Closed)) => Err(closed(process, "closed its streams during the handshake").await),
        Err(_) => {
            let limit = humantime::format_duration(limit);
            Err(End::Broken(format!("did not answer `initialize` within {limit}")))
        }
    }
}

/// A task that ends with its owner.
pub(super) struct AbortOnDrop(pub(super) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
