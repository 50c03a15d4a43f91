//! Attaches agents to instances. An instance must know its agents to send them notifications.

use std::time::Instant;

use super::Group;
use super::slots::InstanceRole;
use crate::config::{AgentDirectory, Sharing};
use crate::era::Eras;
use crate::server::messages::agents::Agent;
use crate::server::messages::task_subscribers::{SubscriptionChange, TaskSubscriptionChange};

impl Group {
    /// Attaches an agent to its own instance or that of its directory. Starts the instance if it is absent, unless the agent's user
    /// has too many.
    pub(super) fn assign_instance(&mut self, agent: &Agent, directory: AgentDirectory) {
        let session = agent.session;
        let sharing = self.config().settings.sharing;
        if !sharing.is_by_agent() || self.slots.iter().any(|slot| slot.instance_role.belongs_to(session)) {
            return;
        }
        for slot in &mut self.slots {
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
                self.refused.insert(session, (agent.clone(), directory));
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
        for slot in &mut self.slots {
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
        for slot in self.slots.iter().filter(|slot| slot.instance_role.is_for(agent.session)) {
            slot.running.handle.attach_agent(agent.clone()).await;
        }
        self.agents.insert(agent.session, agent);
    }

    /// Detaches a session from its instances.
    pub(super) fn detach_at_instances(&mut self, session: u64) {
        self.agents.remove(&session);
        self.refused.remove(&session);
        for slot in self.slots.iter_mut().filter(|slot| slot.may_have_calls_of(session)) {
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
                index.iter().for_each(|index| self.slots[*index].record_use(agent.session));
                index
            }
            Sharing::Shared | Sharing::Pool => self.permanent(),
            Sharing::Session | Sharing::Workspace => {
                self.slots.iter().position(|slot| slot.instance_role.belongs_to(agent.session))
            }
        };
        if let Some(slot) = index.and_then(|index| self.slots.get(index)) {
            slot.running.handle.subscribe(agent, change).await;
        }
    }

    /// The instance that lives as long as the group.
    pub(super) fn permanent(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.is_permanent)
    }
}
