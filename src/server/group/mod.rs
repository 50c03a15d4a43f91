//! A server of which there may be several instances: one for each agent, for each workspace, for each era, or as many as are busy.
//!
//! Stands where otherwise the one [`super::task`] does and looks the same from outside: commands come in by one queue, what
//! is published is put together from what the instances publish. Knows: instances by their handles. Must not touch:
//! lines, processes. Which instance a call goes to is in [`slots`], in which era each is opened in [`eras`], what is told of
//! them all in [`summary`].

mod agents;
mod eras;
mod handover;
mod slots;
mod summary;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};

use self::handover::PendingHandover;
use self::slots::{Purpose, Slot};
use self::summary::Counted;
use super::context::ServerContext;
use super::control::{Orders, Wanted};
use super::messages::agents::Agent;
use super::messages::call::{Call, Failure, RequestKind};
use super::messages::command::Command;
use super::messages::handle::ServerHandle;
use super::publish::{Changed, Publisher};
use super::running::{Running, stop_all};
use super::stderr;
use super::stop_order::Stop;
use super::task::Parts;
use super::wiring::start_instance;
use crate::catalog::{Identity, Lists};
use crate::config::{ServerConfig, Sharing};
use crate::deadline_timer::DeadlineTimer;
use crate::era::{Era, Eras};
use crate::server::error::ServerError;

/// Until it is looked again whether an instance that had calls is idle now.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Why a call is refused for which no instance may be started.

/// The task of such a server.
pub(super) struct Group {
    host: ServerContext,
    /// One for all instances.
    stderr: stderr::Writer,
    orders: Orders,
    wanted: Wanted,
    commands: mpsc::Receiver<Command>,
    publisher: Publisher,
    /// Notified by the instances.
    changed: Changed,
    slots: Vec<Slot>,
    /// Agents that wait for the tools of an instance of theirs.
    unlisted: Vec<(u64, oneshot::Sender<Infallible>)>,
    /// Those that are there, by their numbers.
    agents: BTreeMap<u64, Agent>,
    /// In which agents have connected, or called.
    eras: Eras,
    /// Calls and subscriptions of the task that this group replaces.
    pending: PendingHandover,
    /// Those of them that have no instance because their users have too many, with where they work.
    refused: BTreeMap<u64, (Agent, Option<Arc<str>>)>,
    /// Being ended.
    leaving: Vec<Running>,
    /// All of both, for those who look.
    instances: watch::Sender<Arc<[ServerHandle]>>,
    /// As last known.
    lists: Lists,
    /// Those of the instance for modern calls, where each era has its own.
    second_lists: Option<Lists>,
    /// Which of them were kept for the next start.
    kept: Option<Identity>,
    /// Instances started so far.
    started: u64,
    /// Guards lost by instances that are gone.
    lost_guards: u64,
}

impl Group {
    pub(super) fn new(parts: Parts, instances: watch::Sender<Arc<[ServerHandle]>>) -> Self {
        let Parts { host, stderr, orders, commands, publisher } = parts;
        let wanted = orders.wanted();
        Self {
            host,
            stderr,
            orders,
            wanted,
            commands,
            publisher,
            changed: Arc::default(),
            slots: Vec::new(),
            unlisted: Vec::new(),
            agents: BTreeMap::new(),
            eras: Eras::default(),
            pending: PendingHandover::default(),
            refused: BTreeMap::new(),
            leaving: Vec::new(),
            instances,
            lists: Lists::default(),
            second_lists: None,
            kept: None,
            started: 0,
            lost_guards: 0,
        }
    }

    pub(super) async fn run(mut self) {
        let mut stop = self.orders.stop.clone();
        tokio::select! {
            () = self.recall_lists() => {}
            () = stop.at_least(Stop::Finish) => {}
        }
        self.start_standing();
        self.take_up_handover().await;
        self.gather();
        let mut orders = self.orders.clone();
        let changed = Arc::clone(&self.changed);
        let mut timer = DeadlineTimer::new();
        loop {
            if let Ok(timer) = &mut timer {
                timer.set(self.next_look());
            }
            tokio::select! {
                Some(command) = self.commands.recv() => self.take(command).await,
                () = changed.notified() => {
                    self.gather();
                    self.follow_eras();
                }
                wanted = orders.changed() => self.change(wanted),
                () = elapsed(timer.as_ref().ok()) => {
                    self.retire_idle(Instant::now());
                    self.follow_eras();
                }
                () = stop.at_least(Stop::Finish) => break,
            }
        }
        self.end().await;
    }

    /// Ends every instance; calls that come meanwhile are refused.
    async fn end(mut self) {
        if self.orders.stop.now() == Stop::Finish {
            while let Ok(command) = self.commands.try_recv() {
                self.take(command).await;
            }
        }
        let slots = self.slots.drain(..).map(|slot| slot.running);
        let mut all: Vec<Running> = slots.chain(self.leaving.drain(..)).collect();
        let counted = Counted::of(&all, Arc::clone(&self.publisher.stats));
        let stop = self.orders.stop.clone();
        let mut ended = std::pin::pin!(stop_all(&mut all, stop));
        let panicked = loop {
            tokio::select! {
                panicked = &mut ended => break panicked,
                Some(command) = self.commands.recv() => refuse(command),
            }
        };
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            refuse(command);
        }
        counted.rest();
        if let Some(panic) = panicked {
            std::panic::resume_unwind(panic.into_panic());
        }
    }

    /// The instance that is there without any agent: the first of a pool, or the one that tells the tools of a server
    /// that can be run without knowing for whom.
    fn start_standing(&mut self) {
        let purpose = match self.config().settings.sharing {
            Sharing::Shared => Purpose::Era(Era::Legacy),
            Sharing::Pool => Purpose::Pool,
            Sharing::Session | Sharing::Workspace => Purpose::Listing,
        };
        let needs_agent = self.config().launch.as_ref().is_ok_and(crate::config::Launch::needs_agent_cwd);
        if !needs_agent {
            self.start(purpose, true);
        }
    }

    fn start(&mut self, purpose: Purpose, stays: bool) {
        self.started += 1;
        let config = Arc::new(purpose.config(self.config()));
        let (label, changed) = (purpose.label(self.started), Arc::clone(&self.changed));
        let stderr = self.stderr.for_purpose(Arc::clone(&label));
        let record = self.publisher.record_of_instance(stderr);
        let whose = (label, purpose.scope().unwrap_or_else(|| self.host.scope()));
        let mut host = self.host.clone();
        if purpose.is_second_era() {
            // The lists of the server are those of the other one.
            host.cache = None;
        }
        let era = self.preferred(&purpose);
        let running = start_instance((config, self.wanted.enabled), era, host, changed, whose, record);
        running.control.vouch(self.wanted.vouched);
        for agent in self.agents.values().filter(|agent| purpose.is_for(agent.session)) {
            running.handle.introduce_soon(agent.clone());
        }
        self.slots.push(Slot::new(purpose, running, stays));
        self.publish_instances();
    }

    fn retire(&mut self, is_done: impl Fn(&Slot) -> bool) {
        for slot in self.slots.extract_if(.., |slot| is_done(slot)) {
            slot.running.control.stop(Stop::Drain);
            self.leaving.push(slot.running);
        }
        self.publish_instances();
    }

    async fn take(&mut self, command: Command) {
        match command {
            Command::Attach { agent, cwd, unlisted } => {
                self.attach(&agent, cwd);
                self.note_era(agent.era);
                self.unlisted.push((agent.session, unlisted));
                if self.tells(&agent) {
                    self.introduce(*agent).await;
                }
                self.gather();
            }
            Command::Detach { session } => {
                self.take_leave(session);
                self.detach(session);
            }
            Command::Hear { agent, interest } => self.hear(*agent, interest).await,
            Command::Cancel { key, words } => {
                for slot in self.slots.iter().filter(|slot| slot.may_have_calls_of(key.session)) {
                    slot.running.handle.cancel(key, words.as_deref().cloned()).await;
                }
            }
            Command::Call(call) => self.call(call).await,
            Command::RootsChanged { session, line } => {
                if let Some(slot) = self.slots.iter().find(|slot| slot.purpose.belongs_to(session)) {
                    slot.running.handle.roots_changed(session, line).await;
                }
            }
            // Each of its instances can be asked, and has its own tasks.
            Command::Check(_) | Command::Relist | Command::DropTask { .. } => {}
        }
    }

    async fn call(&mut self, mut call: Box<Call>) {
        let (session, era) = (call.reply.key.session, call.origin.era());
        self.note_era(era);
        let index = match self.config().settings.sharing {
            _ if let Some(index) = self.holder_of(&call) => Some(index),
            _ if let RequestKind::Stated(ask) = &call.matter => match self.maker(ask.maker) {
                Some(index) => Some(index),
                None => return call.refuse_unknown_task(),
            },
            // Only one is asked for what is asked for once.
            Sharing::Shared | Sharing::Pool if matches!(call.matter, RequestKind::Subscription(_)) => self.first(),
            Sharing::Shared => self.of_era(era),
            Sharing::Pool => self.least_busy(era, session),
            Sharing::Session | Sharing::Workspace => {
                if let Some((agent, cwd)) = self.refused.remove(&session) {
                    self.attach(&agent, cwd);
                } else if let Some(to) = call.reply.to() {
                    // One that has not said that it is there is there by calling.
                    self.attach(&Agent::unknown(session, to, era), None);
                }
                self.slots.iter().position(|slot| slot.purpose.belongs_to(session))
            }
        };
        match index.and_then(|index| self.slots.get_mut(index)) {
            Some(slot) => {
                slot.is_used_by(session);
                call.reply.hold(slot.ticket(session));
                slot.running.handle.call(call).await;
            }
            None => {
                let enabled = self.wanted.enabled;
                let reason = if enabled { ServerError::TooManyDirectories } else { ServerError::Disabled };
                call.refuse(Failure::Unavailable { reason, retry_after: None });
            }
        }
    }

    fn change(&mut self, wanted: Wanted) {
        let before = std::mem::replace(&mut self.wanted, wanted);
        if before.revision != self.wanted.revision {
            self.kept = None;
        }
        for slot in &mut self.slots {
            if before.revision != self.wanted.revision {
                slot.due = slot.running.control.reconfigure(Arc::new(slot.purpose.config(&self.wanted.config)));
            }
            slot.running.control.enable(self.wanted.enabled);
            slot.running.control.vouch(self.wanted.vouched);
        }
        if !self.wanted.enabled {
            self.lists = Lists::default();
        }
        self.gather();
    }

    fn publish_instances(&self) {
        let all = self.slots.iter().map(|slot| &slot.running).chain(&self.leaving);
        self.instances.send_replace(all.map(|running| running.handle.clone()).collect());
    }

    fn config(&self) -> &ServerConfig {
        &self.wanted.config
    }
}

/// No instance is left to do it.
fn refuse(command: Command) {
    if let Command::Call(call) = command {
        call.refuse(Failure::ShuttingDown);
    }
}

async fn elapsed(timer: Option<&DeadlineTimer>) {
    match timer {
        Some(timer) => timer.elapsed().await,
        None => std::future::pending().await,
    }
}
