//! The task of one server: instance after instance, until it is told to stop.
//!
//! Owns everything of the server, so nothing is locked. While no instance is ready it holds calls back for a bounded
//! time; [`super::serve`] is what it does while one is.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

use super::call::{Call, CallKey, Failure};
use super::handshake::{HandshakeError, ServerInfo, handshake};
use super::instance::Instance;
use super::lifecycle::{Event, Lifecycle, State};
use super::process::{self, Ended, Inherited, Process};
use super::publish::Publisher;
use super::serve::End;
use super::stderr::{self, StderrRing};
use super::{Command, MAX_IN_FLIGHT, Stop, StopOrder};
use crate::config::ServerConfig;

/// How long a call waits for a server that is starting or restarting.
const HOLD: Duration = Duration::from_secs(10);
/// How long the tools of a server that went down stay listed.
const LIST_GRACE: Duration = Duration::from_secs(60);
/// For a guard to say that its server runs.
const SPAWN_TIMEOUT: Duration = Duration::from_secs(10);
/// For the reason to arrive when a server lets go of its streams.
pub(super) const EXIT_GRACE: Duration = Duration::from_millis(500);
/// For what a dead server had written before.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// What a server's task is started with.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) config: Arc<ServerConfig>,
    pub(super) inherited: Inherited,
    pub(super) max_message: usize,
}

pub(super) struct ServerTask {
    pub(super) settings: Settings,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) stop: StopOrder,
    pub(super) publisher: Publisher,
    pub(super) lifecycle: Lifecycle,
    ring: watch::Sender<StderrRing>,
    /// Calls held back, oldest first.
    held: VecDeque<(Instant, Call)>,
    /// When the tools of a server that is down are no longer listed.
    forget_at: Option<Instant>,
}

pub(super) async fn run(
    settings: Settings,
    commands: mpsc::Receiver<Command>,
    stop: StopOrder,
    publisher: Publisher,
    ring: watch::Sender<StderrRing>,
) {
    let startable = settings.config.launch.as_ref().map(drop).map_err(ToString::to_string);
    let lifecycle = Lifecycle::new(startable);
    let mut task =
        ServerTask { settings, commands, stop, publisher, lifecycle, ring, held: VecDeque::new(), forget_at: None };
    task.publish_state();
    task.live().await;
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
                    self.on(Event::Ended { reason });
                }
                State::Backoff { until, .. } => {
                    let due = self.unless_stopped(sleep_until(until.into())).await.is_some();
                    self.on(if due { Event::Due } else { Event::Stop });
                }
                State::Failed { .. } => {
                    self.unless_stopped(std::future::pending::<()>()).await;
                    self.on(Event::Stop);
                }
                State::Ready { .. } | State::Stopping | State::Stopped => break,
            }
        }
        self.refuse_held();
    }

    /// Starts one instance, serves it, and leaves nothing of it behind. Tells how it ended.
    async fn one_instance(&mut self) -> String {
        let Ok(launch) = &self.settings.config.launch else { return "cannot be started".to_owned() };
        let definition = process::definition(launch, self.settings.inherited, |name| std::env::var(name).ok());
        let spawned = match process::spawn() {
            Ok(spawned) => spawned,
            Err(error) => return format!("its guard cannot be started: {error}"),
        };
        // Known before anything is waited for: a child of mcpd that is no known guard is taken for a stray.
        self.publisher.update(|published| published.guard_pid = spawned.guard_pid());
        let started = self.unless_stopped(timeout(SPAWN_TIMEOUT, spawned.start(&definition))).await;
        drop(definition);
        let reason = match started {
            Some(Ok(Ok((process, pipes)))) => {
                self.publisher.update(|published| published.pid = Some(process.pid));
                let _draining = AbortOnDrop(tokio::spawn(stderr::drain(pipes.stderr, self.ring.clone())));
                self.with_process(process, (pipes.stdin, pipes.stdout)).await
            }
            Some(Ok(Err(reason))) => reason,
            Some(Err(_)) => "its guard does not answer".to_owned(),
            None => self.stopped(),
        };
        self.publisher.update(|published| {
            (published.pid, published.guard_pid) = (None, None);
            (published.protocol, published.software) = (None, None);
        });
        reason
    }

    async fn with_process(&mut self, mut process: Process, pipes: (pipe::Sender, pipe::Receiver)) -> String {
        let Settings { config, max_message, .. } = &self.settings;
        let limit = config.handshake_timeout;
        let mut instance = Instance::new(pipes, Arc::clone(config), Arc::clone(&self.publisher.stats), *max_message);
        let end = match self.unless_stopped(introduce(&mut instance, &mut process, limit)).await {
            Some(Ok(info)) => {
                instance.has_tools = info.has_tools;
                self.up(&info);
                self.serve(&mut instance, &mut process).await
            }
            Some(Err(end)) => end,
            None => End::Stop,
        };
        self.forget_at = Some(Instant::now() + LIST_GRACE);
        match end {
            End::Stop => {
                let reason = self.stopped();
                instance.fail_all(&Failure::ShuttingDown, &Failure::ShuttingDown);
                self.end_politely(instance, process).await;
                reason
            }
            End::Ended(ended) => {
                last_words(&mut instance).await;
                let how = match ended {
                    Ended::Exited(how) => how,
                    Ended::GuardLost => {
                        self.guard_lost();
                        "lost its guard".to_owned()
                    }
                };
                self.fail_calls(&mut instance, &how);
                self.kill(process).await;
                how
            }
            End::Broken(how) => {
                self.fail_calls(&mut instance, &how);
                self.kill(process).await;
                how
            }
        }
    }

    async fn kill(&mut self, process: Process) {
        if !self.holding(process.kill()).await {
            self.guard_lost();
        }
    }

    fn guard_lost(&self) {
        self.publisher.update(|published| published.lost_guards += 1);
    }

    fn fail_calls(&self, instance: &mut Instance, how: &str) {
        let unsent = Failure::Unavailable { reason: how.to_owned(), retry_after: None };
        instance.fail_all(&Failure::Died { how: how.to_owned() }, &unsent);
    }

    /// The order to stop arrived outside of [`ServerTask::serve`], which takes the event itself.
    fn stopped(&mut self) -> String {
        self.on(Event::Stop);
        "was stopped".to_owned()
    }

    /// Closes the server's stdin and waits for its end, reading on meanwhile so that it can finish what it writes.
    async fn end_politely(&mut self, instance: Instance, process: Process) {
        let Instance { reader, stdin, .. } = instance;
        drop(stdin);
        let mut rest = reader.into_inner();
        let _reading = AbortOnDrop(tokio::spawn(async move {
            let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
        }));
        let mut stop = self.stop.clone();
        if !self.holding(process.stop(&mut stop)).await {
            self.guard_lost();
        }
    }

    fn up(&mut self, info: &ServerInfo) {
        self.forget_at = None;
        self.publisher.update(|published| {
            published.protocol = Some(info.protocol);
            published.software.clone_from(&info.software);
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
        tracing::info!(server = %self.settings.config.name, "{}", state.word());
        self.publisher.update(|published| {
            if let State::Backoff { reason, .. } | State::Failed { reason } = &state {
                published.last_error = Some(reason.clone());
                published.attempted = true;
            }
            published.state = state;
        });
    }

    /// Waits for `future`, taking in commands meanwhile. `None` if the order to stop came first.
    async fn unless_stopped<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut stop = self.stop.clone();
        self.holding(async {
            tokio::select! {
                output = future => Some(output),
                () = stop.at_least(Stop::Stop) => None,
            }
        })
        .await
    }

    /// Waits for `future`, taking in commands meanwhile.
    async fn holding<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            let due = [self.held.front().map(|(deadline, _)| *deadline), self.forget_at].into_iter().flatten().min();
            tokio::select! {
                output = &mut future => return output,
                Some(command) = self.commands.recv() => self.hold(command),
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => self.expire_held(),
            }
        }
    }

    /// Takes in a command while no instance can: a call waits, or is refused if none will come.
    pub(super) fn hold(&mut self, command: Command) {
        match command {
            Command::Cancel { key, .. } => self.drop_held(key),
            Command::Call(call) => {
                self.publisher.stats.calls.add_one();
                match self.lifecycle.state() {
                    State::Stopping | State::Stopped => self.refuse(*call, Failure::ShuttingDown),
                    State::Failed { .. } => self.refuse(*call, self.unavailable()),
                    _ if self.held.len() >= MAX_IN_FLIGHT => {
                        self.refuse(*call, Failure::Overloaded { what: "too many calls wait for its start" });
                    }
                    _ => self.held.push_back((Instant::now() + HOLD, *call)),
                }
            }
        }
    }

    /// Hands the calls that were held back to an instance that is ready.
    pub(super) fn release_held(&mut self, instance: &mut Instance) {
        for (_, call) in self.held.drain(..) {
            instance.call(call);
        }
    }

    fn drop_held(&mut self, key: CallKey) {
        if let Some(index) = self.held.iter().position(|(_, call)| call.reply.key == key)
            && let Some((_, call)) = self.held.remove(index)
        {
            call.reply.forgive();
        }
    }

    fn expire_held(&mut self) {
        let now = Instant::now();
        while self.held.front().is_some_and(|(deadline, _)| *deadline <= now) {
            if let Some((_, call)) = self.held.pop_front() {
                self.refuse(call, self.unavailable());
            }
        }
        if self.forget_at.is_some_and(|at| at <= now) {
            self.forget_at = None;
            self.publisher.update(|published| published.tools = Arc::default());
        }
    }

    fn refuse_held(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            self.hold(command);
        }
        while let Some((_, call)) = self.held.pop_front() {
            self.refuse(call, Failure::ShuttingDown);
        }
    }

    fn refuse(&self, call: Call, failure: Failure) {
        self.publisher.stats.errors.add_one();
        call.refuse(failure);
    }

    fn unavailable(&self) -> Failure {
        match self.lifecycle.state() {
            State::Backoff { until, reason, .. } => Failure::Unavailable {
                reason: reason.clone(),
                retry_after: Some(until.saturating_duration_since(Instant::now())),
            },
            State::Failed { reason } => Failure::Unavailable { reason: reason.clone(), retry_after: None },
            _ => Failure::Unavailable { reason: "it is still starting".to_owned(), retry_after: None },
        }
    }
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

/// How a server that let go of a stream ended, if it says so soon; otherwise it is ended for `what` it did.
pub(super) async fn closed(process: &mut Process, what: &str) -> End {
    match timeout(EXIT_GRACE, process.ended()).await {
        Ok(ended) => End::Ended(ended),
        Err(_) => End::Broken(what.to_owned()),
    }
}

/// Delivers what a dead server wrote before it died. A descendant may hold its stdout open, so there is a limit.
async fn last_words(instance: &mut Instance) {
    let _ = timeout(LAST_WORDS, async {
        while let Ok(Some(incoming)) = instance.reader.next().await {
            instance.take(incoming);
        }
    })
    .await;
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
