//! The task of a server with several instances: one for each agent, each workspace or each era, or a pool.
//!
//! From outside it looks like the task of a single instance ([`super::task`]): one queue of commands, one published
//! snapshot. It reaches its instances by their handles, and handles neither messages nor processes. [`slots`] chooses the
//! instance of a call, [`eras`] the era of an instance, and [`summary`] merges what the instances publish.

mod agents;
mod eras;
mod slots;
mod summary;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use self::agents::GroupAgents;
use self::slots::{InstanceRole, Slot, Slots};
use self::summary::{GroupLists, MovedTotals};
use super::context::ServerContext;
use super::control::{ControlReceiver, DesiredState, StopLevel};
use super::error::ServerError;
use super::messages::agents::Agent;
use super::messages::call::{Call, Failure, RequestKind};
use super::messages::command::{Command, CommandReceiver};
use super::messages::handle::ServerHandle;
use super::messages::subscribers::{ResourceSubscriptionChange, SubscriptionChange};
use super::publish::{ChangeSignal, Publisher};
use super::stderr;
use super::task::{Handover, Parts};
use super::wiring::{InstanceSpec, start_instance, stop_all};
use crate::config::{AgentDirectory, ServerConfig, Sharing};
use crate::deadline_timer::DeadlineTimer;
use crate::era::Era;

/// Interval of the checks whether an instance that had calls is idle.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The task of a server with several instances.
pub(super) struct Group {
    context: ServerContext,
    /// One for all instances.
    stderr: stderr::Writer,
    control: ControlReceiver,
    desired: DesiredState,
    commands: CommandReceiver,
    publisher: Publisher,
    /// Notified by the instances.
    changed: ChangeSignal,
    slots: Slots,
    agents: GroupAgents,
    lists: GroupLists,
    /// Calls and subscriptions of the task that this group replaces.
    pending: PendingHandover,
}

impl Group {
    pub(super) fn new(parts: Parts, instances: watch::Sender<Arc<[ServerHandle]>>) -> Self {
        let Parts { context, stderr, control, commands, publisher } = parts;
        let desired = control.desired();
        Self {
            context,
            stderr,
            control,
            desired,
            commands,
            publisher,
            changed: Arc::default(),
            slots: Slots::new(instances),
            agents: GroupAgents::default(),
            lists: GroupLists::default(),
            pending: PendingHandover::default(),
        }
    }

    pub(super) async fn run(mut self) {
        let mut stop = self.control.stop.clone();
        tokio::select! {
            () = self.load_lists() => {}
            () = stop.at_least(StopLevel::FinishAll) => {}
        }
        self.start_permanent();
        self.take_up_handover().await;
        self.gather();
        let mut control = self.control.clone();
        let changed = Arc::clone(&self.changed);
        let mut timer = DeadlineTimer::new();
        loop {
            if let Ok(timer) = &mut timer {
                timer.set(self.next_check());
            }
            tokio::select! {
                Some(command) = self.commands.recv() => self.handle_command(command).await,
                () = changed.notified() => {
                    self.gather();
                    self.apply_eras();
                }
                desired = control.changed() => self.change(desired),
                () = elapsed(timer.as_ref().ok()) => {
                    self.retire_idle(Instant::now());
                    self.apply_eras();
                }
                () = stop.at_least(StopLevel::FinishAll) => break,
            }
        }
        self.end().await;
    }

    /// Stops every instance. Calls that arrive meanwhile are refused.
    async fn end(mut self) {
        if self.control.stop.now() == StopLevel::FinishAll {
            while let Ok(command) = self.commands.try_recv() {
                self.handle_command(command).await;
            }
        }
        let mut all = self.slots.take_all();
        let moved = MovedTotals::of(&all, Arc::clone(&self.publisher.stats));
        let stop = self.control.stop.clone();
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
        moved.rest();
        if let Some(panic) = panicked {
            std::panic::resume_unwind(panic.into_panic());
        }
    }

    /// Starts the permanent instance, which needs no agent: the first one of a pool, or the one that lists.
    fn start_permanent(&mut self) {
        let instance_role = match self.config().settings.sharing {
            Sharing::Shared => InstanceRole::Era(Era::Legacy),
            Sharing::Pool => InstanceRole::Pool,
            Sharing::Session | Sharing::Workspace => InstanceRole::Listing,
        };
        let needs_agent = self.config().launch.as_ref().is_ok_and(crate::config::Launch::needs_agent_cwd);
        if !needs_agent {
            self.start(instance_role, true);
        }
    }

    fn start(&mut self, instance_role: InstanceRole, is_permanent: bool) {
        let config = Arc::new(instance_role.config(self.config()));
        let (label, changed) = (instance_role.label(self.slots.count_start()), Arc::clone(&self.changed));
        let stderr = self.stderr.for_purpose(Arc::clone(&label));
        let record = self.publisher.shared_state_of_instance(stderr);
        let mut context = self.context.clone();
        if instance_role.is_modern_of_both() {
            // The instance of the other era stores the lists.
            context.cache = None;
        }
        let spec = InstanceSpec {
            config,
            enabled: self.desired.enabled,
            era: self.preferred(&instance_role),
            label,
            scope: instance_role.scope().unwrap_or_else(|| self.context.scope()),
        };
        let running = start_instance(spec, context, changed, record);
        running.control.override_health(self.desired.health_override);
        for agent in self.agents.all().filter(|agent| instance_role.is_for(agent.session)) {
            running.handle.attach_agent_soon(agent.clone());
        }
        self.slots.push(Slot::new(instance_role, running, is_permanent));
    }

    async fn handle_command(&mut self, command: Command) {
        match command {
            Command::Attach { agent, directory, listed_signal } => {
                self.assign_instance(&agent, directory);
                self.note_era(agent.era);
                self.agents.wait_for_lists(agent.session, listed_signal);
                if self.needs_agent(&agent) {
                    self.attach_at_instances(*agent).await;
                }
                self.gather();
            }
            Command::Detach { session } => {
                self.detach_at_instances(session);
                self.release_instance(session);
            }
            Command::Subscribe { agent, change } => self.subscribe(*agent, change).await,
            Command::Cancel { key, notification } => {
                for slot in self.slots.all().iter().filter(|slot| slot.may_have_calls_of(key.session)) {
                    slot.running.handle.cancel(key, notification.as_deref().cloned()).await;
                }
            }
            Command::Call(call) => self.call(call).await,
            Command::RootsChanged { session, line } => {
                if let Some(slot) = self.slots.all().iter().find(|slot| slot.instance_role.belongs_to(session)) {
                    slot.running.handle.roots_changed(session, line).await;
                }
            }
            Command::Notify { session, era, line } => {
                let is_by_agent = self.config().settings.sharing.is_by_agent();
                let serves =
                    |slot: &&Slot| slot.speaks(era) && (!is_by_agent || slot.instance_role.belongs_to(session));
                let mut serving = self.slots.all().iter().filter(serves);
                // Rather where the agent has calls, since the notification may name one.
                let with_calls = serving.clone().find(|slot| slot.may_have_calls_of(session));
                if let Some(slot) = with_calls.or_else(|| serving.next()) {
                    slot.running.handle.notify(session, era, line).await;
                }
            }
            Command::Wake => self.slots.all().iter().for_each(|slot| slot.running.handle.wake()),
            // These commands go to the instances directly.
            Command::Check(_) | Command::Relist | Command::DropTask { .. } => {}
        }
    }

    async fn call(&mut self, mut call: Box<Call>) {
        let (session, era) = (call.response_handle.key.session, call.origin.era());
        self.note_era(era);
        let index = match self.config().settings.sharing {
            _ if let Some(index) = self.instance_that_suspended(&call) => Some(index),
            _ if let RequestKind::ModernTask(task_request) = &call.kind => {
                match self.instance_of_task(task_request.instance_tag) {
                    Some(index) => Some(index),
                    None => return call.refuse_unknown_task(),
                }
            }
            // Only one instance subscribes.
            Sharing::Shared | Sharing::Pool if matches!(call.kind, RequestKind::ResourceSubscription(_)) => {
                self.slots.permanent()
            }
            Sharing::Shared => self.instance_for_era_or_start(era),
            Sharing::Pool => self.pool_instance_or_start(era, session),
            Sharing::Session | Sharing::Workspace => {
                if let Some((agent, directory)) = self.agents.take_refused(session) {
                    self.assign_instance(&agent, directory);
                } else if let Some(to) = call.response_handle.to() {
                    // The agent called before it was attached.
                    self.assign_instance(&Agent::from_call(session, to, era), AgentDirectory::Unknown);
                }
                self.slots.of_session(session)
            }
        };
        match index.and_then(|index| self.slots.all_mut().get_mut(index)) {
            Some(slot) => {
                slot.record_use(session);
                call.response_handle.set_load_token(slot.load_token(session));
                slot.running.handle.call(call).await;
            }
            None => {
                let enabled = self.desired.enabled;
                let reason = if enabled { ServerError::TooManyDirectories } else { ServerError::Disabled };
                call.refuse(Failure::Unavailable { reason, retry_after: None });
            }
        }
    }

    fn change(&mut self, desired: DesiredState) {
        let before = std::mem::replace(&mut self.desired, desired);
        if before.revision != self.desired.revision {
            self.lists.forget_stored();
        }
        for slot in self.slots.all_mut().iter_mut() {
            if before.revision != self.desired.revision {
                slot.target_revision =
                    slot.running.control.reconfigure(Arc::new(slot.instance_role.config(&self.desired.config)));
            }
            slot.running.control.enable(self.desired.enabled);
            slot.running.control.override_health(self.desired.health_override);
        }
        if !self.desired.enabled {
            self.lists.clear();
        }
        self.gather();
    }

    fn config(&self) -> &ServerConfig {
        &self.desired.config
    }
}

/// Refuses a call, as no instance is left.
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

/// What a group takes over from the task of a single instance, after the server turned out to have both eras: calls that wait for an
/// instance, and subscriptions.
#[derive(Default)]
pub(super) struct PendingHandover {
    calls: Vec<Call>,
    subscriptions: Vec<(Agent, ResourceSubscriptionChange)>,
}

impl Group {
    /// A group that replaces the task of a single instance.
    pub(in crate::server) fn in_place_of(handover: Handover, instances: watch::Sender<Arc<[ServerHandle]>>) -> Self {
        let Handover { parts, calls, agents } = handover;
        let (agents, subscriptions) = agents.into_parts();
        let lists = parts.publisher.known().lists;
        let (agents, lists) = (GroupAgents::new(agents), GroupLists::new(lists));
        Self { agents, lists, pending: PendingHandover { calls, subscriptions }, ..Self::new(parts, instances) }
    }

    /// Hands the calls and subscriptions to instances.
    pub(super) async fn take_up_handover(&mut self) {
        let PendingHandover { calls, subscriptions } = std::mem::take(&mut self.pending);
        for (agent, subscription) in subscriptions {
            self.subscribe(agent, Box::new(SubscriptionChange::Resource(subscription))).await;
        }
        for call in calls {
            self.call(Box::new(call)).await;
        }
    }
}
