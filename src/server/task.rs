//! The task of one server: instance after instance, until it is told to stop.
//!
//! Owns everything of the server, so nothing is locked. While no instance is ready it holds calls back for a bounded
//! time ([`super::hold`]); [`super::serve`] is what it does while one is, [`super::ending`] how one ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

use super::agents::Agents;
use super::control::{Orders, Wanted};
use super::ending::{End, ended, parted};
use super::handshake::{HandshakeError, Opening, ServerInfo, handshake};
use super::hold::ParkedCall;
use super::instance::{Instance, held};
use super::lifecycle::{Event, Lifecycle, State};
use super::link::Link;
use super::process::{Ended, Process};
use super::publish::{Publisher, RemoteTransport};
use super::role::Role;
use super::stderr;
use super::turn::Turn;
use super::{Command, Host};
use crate::config::{Launch, ServerConfig};
use crate::era::{self, Era};

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
    pub(super) stderr: stderr::Writer,
    /// What it is for, if it is one of several.
    purpose: Option<Arc<str>>,
    /// For whom.
    role: Role,
    /// Calls that wait, oldest first.
    pub(super) parked: Vec<ParkedCall>,
    /// When the tools of a server that is down are no longer listed.
    pub(super) forget_at: Option<Instant>,
    /// Since when an instance that may be stopped for it has had no call.
    pub(super) idle_since: Option<Instant>,
    pub(super) agents: Agents,
    /// The instance has ended when it was asked which era it speaks in: the next one is not asked.
    died_of_probe: bool,
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
        parked: Vec::new(),
        forget_at: None,
        idle_since: None,
        agents: Agents::default(),
        died_of_probe: false,
    };
    task.recall_lists().await;
    if !task.orders.wants_any() || (task.is_lazy() && task.publisher.knows_lists()) {
        task.lifecycle = task.lifecycle.not_yet_started();
    }
    task.publish_state();
    task.live().await;
}

pub(super) fn startable(config: &ServerConfig) -> Result<(), String> {
    config.launch.as_ref().map(|_| ()).map_err(ToString::to_string)
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
                    let event = self.one_instance().await;
                    self.on(event);
                }
                State::Backoff { until, .. } => {
                    let due = self.while_wanted(sleep_until(until.into())).await.is_some();
                    if due {
                        self.publisher.stats.recovered.add(Instant::now());
                    }
                    self.on(if due { Event::Due } else { Event::Stop });
                }
                State::Failed { .. } | State::NeedsLogin { .. } => {
                    self.refuse_parked();
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
        self.refuse_parked();
    }

    /// Has one instance, and another if that one has died of the question which era it speaks in. Tells what its end means.
    async fn one_instance(&mut self) -> Event {
        let mut event = self.one_attempt().await;
        if self.died_of_probe {
            event = self.one_attempt().await;
            self.died_of_probe = false;
        }
        event
    }

    /// Has one instance, serves it, and leaves nothing of it behind. Tells what its end means.
    async fn one_attempt(&mut self) -> Event {
        let turns = self.host.turns.clone();
        let Some(turn) = self.while_wanted(turns.take()).await else { return self.stopped() };
        let config = Arc::clone(&self.config);
        let event = match &config.launch {
            Ok(Launch::Program(program)) => self.one_process(program, turn).await,
            Ok(Launch::Remote(remote)) => self.one_connection(remote, turn).await,
            Err(undefined) => ended(undefined.to_string()),
        };
        self.publisher.update(|published| {
            (published.pid, published.guard_pid) = (None, None);
            (published.remote, published.protocol, published.software) = (None, None, None);
            (published.extensions, published.makes_tasks) = (None, false);
            published.checked = None;
        });
        event
    }

    /// Introduces mcpd on `link`, and serves the instance at its end, which has a process if it is one that mcpd has started.
    pub(super) async fn with_link(&mut self, link: Link, mut process: Option<Process>, turn: Turn) -> Event {
        let limit = self.config.settings.handshake_timeout;
        let stats = Arc::clone(&self.publisher.stats);
        let mut instance =
            Instance::new(link, (Arc::clone(&self.config), self.role.clone()), stats, self.host.max_message);
        instance.mark = held::mark(self.purpose.as_deref());
        let legacy = self.died_of_probe.then_some(Era::Legacy);
        let found = legacy.or_else(|| self.publisher.verdict.of(&self.config));
        let opening = Opening::of(self.config.settings.era, found);
        // What begins and ends it is not to take room for as long as it lasts.
        let introduced = Box::pin(turn.during(introduce(&mut instance, &mut process, (opening, limit))));
        let introduced = self.while_wanted(introduced).await;
        self.judge(introduced.as_ref(), opening, &instance);
        let end = match introduced {
            Some(Ok(info)) => {
                self.up(&info, instance.link.remote());
                instance.level.declared = info.logs;
                instance.listening.declare(info.tells);
                instance.task_support = info.tasks;
                self.serve(&mut instance, info.offers, &mut process).await
            }
            Some(Err(end)) => end,
            None => End::Stop,
        };
        Box::pin(self.end(end, instance, process)).await
    }

    /// Remembers what has shown which era the server speaks in.
    fn judge(&mut self, introduced: Option<&Result<ServerInfo, End>>, opening: Opening, instance: &Instance) {
        let verdict = &self.publisher.verdict;
        match introduced {
            Some(Ok(info)) => match era::of(info.protocol) {
                Era::Legacy if info.is_guessed || self.died_of_probe => verdict.seems_legacy(&self.config),
                era => verdict.found(&self.config, era),
            },
            Some(Err(End::Ended(Ended::Exited(_)))) if opening == Opening::Ask && instance.is_asked_alone() => {
                self.died_of_probe = true;
            }
            // It may have been a legacy server once.
            Some(Err(End::Broken(_) | End::Parted(_))) => verdict.forget(),
            Some(Err(End::Ended(_) | End::Stop)) | None => {}
        }
    }

    /// It ceased to be wanted outside of [`ServerTask::serve`], which takes the event itself.
    pub(super) fn stopped(&mut self) -> Event {
        self.on(Event::Stop);
        ended("was stopped")
    }

    fn up(&mut self, info: &ServerInfo, remote: Option<RemoteTransport>) {
        self.forget_at = None;
        self.publisher.update(|published| {
            published.remote = remote;
            published.protocol = Some(info.protocol);
            published.software.clone_from(&info.software);
            published.extensions.clone_from(&info.extensions);
            published.makes_tasks = info.tasks.of_calls;
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

/// The handshake, unless the server ends or takes longer than `limit`.
async fn introduce(
    instance: &mut Instance,
    process: &mut Option<Process>,
    (opening, limit): (Opening, Duration),
) -> Result<ServerInfo, End> {
    let ended = async {
        match process {
            Some(process) => process.ended().await,
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        result = timeout(limit, handshake(instance, opening)) => result,
        ended = ended => return Err(End::Ended(ended)),
    };
    match result {
        Ok(Ok(info)) => Ok(info),
        Ok(Err(HandshakeError::Refused(reason))) => Err(End::Broken(reason)),
        Ok(Err(HandshakeError::Closed(closed))) => Err(parted(process, closed).await),
        Err(_) => {
            let limit = humantime::format_duration(limit);
            let what = if opening == Opening::Discover { "server/discover" } else { "initialize" };
            Err(End::Broken(format!("did not answer `{what}` within {limit}")))
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
