//! Who is there, for the instances that serve them: what an instance is to tell an agent unasked, it has to know the agent for.

use super::Group;
use crate::config::Sharing;
use crate::server::{Agent, Interest};

impl Group {
    /// Says to the instances for an agent that it is there, or wants something else than before.
    pub(super) async fn introduce(&mut self, agent: Agent) {
        for slot in self.slots.iter().filter(|slot| slot.purpose.is_for(agent.session)) {
            slot.running.handle.introduce(agent.clone()).await;
        }
        self.agents.insert(agent.session, agent);
    }

    /// Says to them that it has gone.
    pub(super) fn take_leave(&mut self, session: u64) {
        self.agents.remove(&session);
        for slot in self.slots.iter_mut().filter(|slot| slot.may_have_calls_of(session)) {
            slot.running.handle.take_leave(session);
            slot.guests.remove(&session);
        }
    }

    /// Has one hear of something, or no more, from the instance that would be asked for it.
    pub(super) async fn hear(&self, agent: Agent, interest: Box<Interest>) {
        let index = match self.config().settings.sharing {
            Sharing::Shared | Sharing::Pool => self.first(),
            Sharing::Session | Sharing::Workspace => {
                self.slots.iter().position(|slot| slot.purpose.belongs_to(agent.session))
            }
        };
        if let Some(slot) = index.and_then(|index| self.slots.get(index)) {
            slot.running.handle.hear(agent, interest).await;
        }
    }

    /// The instance of a pool that is there for as long as the pool.
    pub(super) fn first(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.stays)
    }
}
