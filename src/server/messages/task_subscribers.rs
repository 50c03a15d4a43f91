//! The subscriptions of agents to tasks of an instance. Pure.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status Notifications".

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

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
    /// Whether the subscription begins; otherwise it ends.
    pub begins: bool,
}

/// The subscribers of the tasks of one instance, by task id.
#[derive(Debug, Default)]
pub(crate) struct TaskSubscribers(BTreeMap<Bytes, BTreeSet<u64>>);

impl TaskSubscribers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a session to a task. Returns whether the server's subscription has to change: it is the only subscriber.
    pub(crate) fn add(&mut self, id: &Bytes, session: u64) -> bool {
        let sessions = self.0.entry(id.clone()).or_default();
        sessions.insert(session);
        sessions.len() == 1
    }

    /// Removes a session from a task. Returns whether the server's subscription has to change: it was the last subscriber.
    pub(crate) fn remove(&mut self, id: &Bytes, session: u64) -> bool {
        let Some(sessions) = self.0.get_mut(id) else { return false };
        let was_last = sessions.remove(&session) && sessions.is_empty();
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
    pub(crate) fn of_task(&self, id: &[u8]) -> impl Iterator<Item = u64> {
        self.0.get(id).into_iter().flatten().copied()
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
    use super::*;

    #[test]
    fn server_is_concerned_only_by_the_first_and_last_subscriber_of_a_task() {
        let mut task_subscribers = TaskSubscribers::default();
        let [a, b] = ["a", "b"].map(Bytes::from);
        assert!(
            task_subscribers.add(&a, 1)
                && !task_subscribers.add(&a, 2)
                && !task_subscribers.add(&a, 2)
                && task_subscribers.add(&b, 2)
        );
        assert!(task_subscribers.of_task(b"a").eq([1, 2]) && task_subscribers.of_task(b"c").next().is_none());
        assert!(!task_subscribers.remove(&a, 9) && !task_subscribers.remove(&a, 1) && !task_subscribers.remove(&a, 1));
        assert_eq!(task_subscribers.remove_from_all(2), [a.clone(), b]);
        assert!(task_subscribers.is_empty() && !task_subscribers.remove(&a, 2));
        task_subscribers.add(&a, 1);
        task_subscribers.forget(b"a");
        assert!(task_subscribers.is_empty() && task_subscribers.remove_from_all(1).is_empty());
    }
}
