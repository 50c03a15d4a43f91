//! Attaches agents to instances. An instance must know its agents to send them notifications.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Instant;

use tokio::sync::oneshot;

use super::Group;
use super::slots::InstanceRole;
use crate::config::{AgentDirectory, Sharing};
use crate::era::{Era, Eras};
use crate::server::messages::agents::Agent;
use crate::server::messages::subscribers::{SubscriptionChange, TaskSubscriptionChange};

/// The agents of a group.
#[derive(Default)]
pub(super) struct GroupAgents {
    /// The connected agents, by session.
    attached: BTreeMap<u64, Agent>,
    /// Agents without an instance because their user has too many, with their working directories.
    refused: BTreeMap<u64, (Agent, AgentDirectory)>,
    /// Sessions that wait for the lists of their instance.
    unlisted: Vec<(u64, oneshot::Sender<Infallible>)>,
    /// The eras of the agents that have connected or called.
    eras: Eras,
}

impl GroupAgents {
    pub(super) fn new(attached: BTreeMap<u64, Agent>) -> Self {
        Self { attached, ..Self::default() }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Agent> {
        self.attached.values()
    }

    pub(super) fn get(&self, session: u64) -> Option<&Agent> {
        self.attached.get(&session)
    }

    fn remove(&mut self, session: u64) {
        self.attached.remove(&session);
        self.refused.remove(&session);
    }

    /// Removes an agent from those that have no instance.
    pub(super) fn take_refused(&mut self, session: u64) -> Option<(Agent, AgentDirectory)> {
        self.refused.remove(&session)
    }

    /// A session waits for the lists of its instance. `listed` is dropped when it has waited long enough.
    pub(super) fn wait_for_lists(&mut self, session: u64, listed: oneshot::Sender<Infallible>) {
        self.unlisted.push((session, listed));
    }

    /// Ends the wait of the sessions whose lists are not `to_come`.
    pub(super) fn end_waits(&mut self, is_to_come: impl Fn(u64) -> bool) {
        self.unlisted.retain(|(session, listed)| !listed.is_closed() && is_to_come(*session));
    }

    /// Whether no agent of this era had connected or called.
    pub(super) fn note_era(&mut self, era: Era) -> bool {
        let is_new = !self.eras.contains(era);
        self.eras.insert(era);
        is_new
    }

    /// The eras of the agents that have connected or called.
    pub(super) fn eras(&self) -> Eras {
        self.eras
    }
}

impl Group {
    /// Attaches an agent to its own instance or that of its directory. Starts the instance if it is absent, unless the agent's user
    /// has too many.
    pub(super) fn assign_instance(&mut self, agent: &Agent, directory: AgentDirectory) {
        let session = agent.session;
        let sharing = self.config().settings.sharing;
        if !sharing.is_by_agent() || self.slots.of_session(session).is_some() {
            return;
        }
        for slot in self.slots.all_mut().iter_mut() {
            match &mut slot.instance_role {
                InstanceRole::Session { agent: own, directory: of, has_left }
                    if own.session == session && *of == directory =>
                {
                    *has_left = false;
                    return;
                }
                InstanceRole::Workspace { directory: of, sessions, eras, .. } if *of == directory => {
                    sessions.insert(session);
                    eras.insert(agent.era);
                    slot.running.control.retry(true);
                    return self.apply_eras();
                }
                _ => {}
            }
        }
        let instance_role = match sharing {
            Sharing::Session => InstanceRole::Session { agent: agent.clone(), directory, has_left: false },
            _ if !self.make_room_for_directory(agent.user.as_ref()) => {
                // Its next call tries again, as other agents of its user may be gone by then.
                self.agents.refused.insert(session, (agent.clone(), directory));
                return;
            }
            _ => InstanceRole::Workspace {
                directory,
                sessions: [session].into(),
                eras: Eras::from_iter([agent.era]),
                user: agent.user.clone(),
            },
        };
        self.start(instance_role, false);
    }

    /// Detaches a session, and stops instances that are no longer needed.
    pub(super) fn release_instance(&mut self, session: u64) {
        for slot in self.slots.all_mut().iter_mut() {
            match &mut slot.instance_role {
                InstanceRole::Session { agent, has_left, .. } => *has_left |= agent.session == session,
                InstanceRole::Workspace { sessions, .. } => {
                    if sessions.remove(&session) {
                        slot.used = Instant::now();
                        // Nobody needs it. If it has failed, `status` shows why until it is idle.
                        slot.running.control.retry(!sessions.is_empty());
                    }
                }
                InstanceRole::Listing | InstanceRole::Pool | InstanceRole::Era(_) => {}
            }
        }
        self.retire_idle(Instant::now());
    }

    /// Whether the instances must know this agent. The instances of a pool need only agents that receive log messages.
    pub(super) fn needs_agent(&self, agent: &Agent) -> bool {
        self.config().settings.sharing != Sharing::Pool || agent.level.is_some()
    }

    /// Attaches an agent to its instances, or replaces its data there.
    pub(super) async fn attach_at_instances(&mut self, agent: Agent) {
        for slot in self.slots.all().iter().filter(|slot| slot.instance_role.is_for(agent.session)) {
            slot.running.handle.attach_agent(agent.clone()).await;
        }
        self.agents.attached.insert(agent.session, agent);
    }

    /// Detaches a session from its instances.
    pub(super) fn detach_at_instances(&mut self, session: u64) {
        self.agents.remove(session);
        for slot in self.slots.all_mut().iter_mut().filter(|slot| slot.may_have_calls_of(session)) {
            slot.running.handle.detach(session);
            slot.other_sessions.remove(&session);
        }
    }

    /// Begins or ends a subscription of an agent, to a task at the instance that runs the task.
    pub(super) async fn subscribe(&mut self, agent: Agent, change: Box<SubscriptionChange>) {
        let index = match self.config().settings.sharing {
            _ if let SubscriptionChange::Task(TaskSubscriptionChange { instance_tag, begins, .. }) = *change => {
                let index = if begins { self.instance_of_task(instance_tag) } else { self.with_tag(instance_tag) };
                // The instance is notified when the agent disconnects.
                index.iter().for_each(|index| self.slots.all_mut()[*index].record_use(agent.session));
                index
            }
            Sharing::Shared | Sharing::Pool => self.slots.permanent(),
            Sharing::Session | Sharing::Workspace => self.slots.of_session(agent.session),
        };
        if let Some(slot) = index.and_then(|index| self.slots.all().get(index)) {
            slot.running.handle.subscribe(agent, change).await;
        }
    }
}
