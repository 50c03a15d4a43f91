//! Who is there, for the instances that serve them: what an instance is to tell an agent unasked, it has to know the agent for.

use super::Group;
use crate::server::Agent;

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
        for slot in self.slots.iter().filter(|slot| slot.purpose.is_for(session)) {
            slot.running.handle.take_leave(session);
        }
    }

    /// The instance of a pool that is there for as long as the pool.
    pub(super) fn first(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.stays)
    }
}
