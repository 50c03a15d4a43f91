//! Who is there, for the instances that serve them: what an instance is to tell an agent unasked, it has to know the agent for.

use std::sync::Arc;
use std::time::Instant;

use super::Group;
use super::slots::Purpose;
use crate::config::Sharing;
use crate::era::Eras;
use crate::server::messages::agents::Agent;
use crate::server::messages::task_subscribers::Interest;

impl Group {
    /// Attaches an agent to its own instance or that of its directory. Starts the instance if it is absent, unless the agent's user
    /// has too many.
    pub(super) fn attach(&mut self, agent: &Agent, cwd: Option<Arc<str>>) {
        let session = agent.session;
        let sharing = self.config().settings.sharing;
        if !sharing.is_by_agent() || self.slots.iter().any(|slot| slot.purpose.belongs_to(session)) {
            return;
        }
        for slot in &mut self.slots {
            match &mut slot.purpose {
                Purpose::Session { agent: own, cwd: of, has_left } if own.session == session && *of == cwd => {
                    *has_left = false;
                    return;
                }
                Purpose::Workspace { cwd: of, agents, eras, .. } if *of == cwd => {
                    agents.insert(session);
                    eras.insert(agent.era);
                    return self.follow_eras();
                }
                _ => {}
            }
        }
        let purpose = match sharing {
            Sharing::Session => Purpose::Session { agent: agent.clone(), cwd, has_left: false },
            _ if !self.make_room_for_directory(agent.user.as_ref()) => {
                // It has room once other agents of its user are gone, so its next call tries again.
                self.refused.insert(session, (agent.clone(), cwd));
                return;
            }
            _ => Purpose::Workspace {
                cwd,
                agents: [session].into(),
                eras: Eras::from_iter([agent.era]),
                user: agent.user.clone(),
            },
        };
        self.start(purpose, false);
    }

    /// It has gone, and what is not at anything any more goes with it.
    pub(super) fn detach(&mut self, session: u64) {
        for slot in &mut self.slots {
            match &mut slot.purpose {
                Purpose::Session { agent, has_left, .. } => *has_left |= agent.session == session,
                Purpose::Workspace { agents, .. } => {
                    if agents.remove(&session) {
                        slot.used = Instant::now();
                    }
                }
                Purpose::Listing | Purpose::Pool | Purpose::Era(_) => {}
            }
        }
        self.retire_idle(Instant::now());
    }

    /// Whether instances have to know that an agent is there. Those of a pool serve whoever calls.
    pub(super) fn needs_agent(&self, agent: &Agent) -> bool {
        let settings = &self.config().settings;
        settings.sharing != Sharing::Pool || settings.broadcast_logs || agent.level.is_some()
    }

    /// Says to the instances for an agent that it is there, or wants something else than before.
    pub(super) async fn announce(&mut self, agent: Agent) {
        for slot in self.slots.iter().filter(|slot| slot.purpose.is_for(agent.session)) {
            slot.running.handle.attach_agent(agent.clone()).await;
        }
        self.agents.insert(agent.session, agent);
    }

    /// Says to them that it has gone.
    pub(super) fn forget_agent(&mut self, session: u64) {
        self.agents.remove(&session);
        self.refused.remove(&session);
        for slot in self.slots.iter_mut().filter(|slot| slot.may_have_calls_of(session)) {
            slot.running.handle.detach(session);
            slot.guests.remove(&session);
        }
    }

    /// Has one hear of something, or no more, from the instance that would be asked for it.
    pub(super) async fn subscribe(&self, agent: Agent, interest: Box<Interest>) {
        let index = match self.config().settings.sharing {
            Sharing::Shared if matches!(*interest, Interest::Task(_)) => self.second().or_else(|| self.first()),
            Sharing::Shared | Sharing::Pool => self.first(),
            Sharing::Session | Sharing::Workspace => {
                self.slots.iter().position(|slot| slot.purpose.belongs_to(agent.session))
            }
        };
        if let Some(slot) = index.and_then(|index| self.slots.get(index)) {
            slot.running.handle.subscribe(agent, interest).await;
        }
    }

    /// The instance that is there for as long as the group.
    pub(super) fn first(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.stays)
    }
}
