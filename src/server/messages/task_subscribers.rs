//! The subscriptions of agents to tasks of an instance. Pure.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status Notifications".

use std::collections::BTreeMap;

use bytes::Bytes;

use super::agents::Agent;
use super::resource_subscribers::ResourceSubscriptionChange;

/// Begins or ends a subscription of an agent, other than to changed lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionChange {
    /// To changes of a resource.
    Resource(ResourceSubscriptionChange),
    /// To the status of a task.
    Task(TaskSubscriptionChange),
}

/// Begins or ends the subscription of an agent to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSubscriptionChange {
    /// The server's id of the task, as text.
    pub id: Bytes,
    /// The tag of the instance that created the task.
    pub instance_tag: u64,
    /// Whether the subscription begins; otherwise it ends.
    pub begins: bool,
}

/// The subscribers of the tasks of one instance, by task id and session.
///
/// A subscriber is not attached to the instance, because the instance may belong to another agent.
#[derive(Debug, Default)]
pub(crate) struct TaskSubscribers(BTreeMap<Bytes, BTreeMap<u64, Agent>>);

impl TaskSubscribers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an agent to a task.
    pub(crate) fn add(&mut self, id: &Bytes, agent: Agent) {
        self.0.entry(id.clone()).or_default().insert(agent.session, agent);
    }

    /// Removes a session from a task. Returns whether it was the last subscriber.
    pub(crate) fn remove(&mut self, id: &Bytes, session: u64) -> bool {
        let Some(sessions) = self.0.get_mut(id) else { return false };
        let was_last = sessions.remove(&session).is_some() && sessions.is_empty();
        if was_last {
            self.0.remove(id);
        }
        was_last
    }

    /// Removes a session from all tasks. Returns the tasks without subscribers.
    pub(crate) fn remove_from_all(&mut self, session: u64) -> Vec<Bytes> {
        let all: Vec<_> = self.0.keys().cloned().collect();
        all.into_iter().filter(|id| self.remove(id, session)).collect()
    }

    /// The subscribers of one task.
    pub(crate) fn of_task(&self, id: &[u8]) -> impl Iterator<Item = &Agent> {
        self.0.get(id).into_iter().flat_map(BTreeMap::values)
    }

    /// Removes a task that has ended or whose subscription the server refuses.
    pub(crate) fn forget(&mut self, id: &[u8]) {
        self.0.remove(id);
    }

    /// Removes all tasks, as their instance was replaced.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::call::SessionSender;
    use super::*;
    use crate::era::Era;
    use crate::server::stop_level::StopReceiver;

    fn agent(session: u64) -> Agent {
        let (to, _) = SessionSender::channel(None, Arc::default(), StopReceiver::channel().1);
        Agent::from_call(session, &to, Era::Modern)
    }

    #[test]
    fn server_is_unsubscribed_with_the_last_subscriber() {
        let mut task_subscribers = TaskSubscribers::default();
        let [a, b] = ["a", "b"].map(Bytes::from);
        for (id, session) in [(&a, 1), (&a, 2), (&a, 2), (&b, 2)] {
            task_subscribers.add(id, agent(session));
        }
        let sessions =
            |all: &TaskSubscribers, id: &[u8]| all.of_task(id).map(|agent| agent.session).collect::<Vec<_>>();
        assert_eq!(sessions(&task_subscribers, b"a"), [1, 2]);
        assert!(sessions(&task_subscribers, b"c").is_empty());
        assert!(!task_subscribers.remove(&a, 9) && !task_subscribers.remove(&a, 1) && !task_subscribers.remove(&a, 1));
        assert_eq!(task_subscribers.remove_from_all(2), [a.clone(), b]);
        assert!(task_subscribers.is_empty() && !task_subscribers.remove(&a, 2));
        task_subscribers.add(&a, agent(1));
        task_subscribers.forget(b"a");
        assert!(task_subscribers.is_empty() && task_subscribers.remove_from_all(1).is_empty());
    }
}
