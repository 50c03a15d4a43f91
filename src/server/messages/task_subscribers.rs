//! Which agents follow which tasks of an instance. Pure.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status Notifications".

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::subscriptions::Subscription;

/// Of what an agent wants to hear, or no more, beside changed lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interest {
    /// That a resource has changed.
    Resource(Subscription),
    /// How far a task is.
    Task(TaskSubscription),
}

/// That an agent wants to hear how far a task is, or no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSubscription {
    /// The server's own id of it, as text.
    pub id: Bytes,
    /// Whether it is to begin.
    pub begins: bool,
}

/// Those of one instance, by the ids of the tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskSubscribers(BTreeMap<Bytes, BTreeSet<u64>>);

impl TaskSubscribers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An agent follows a task. Whether it is the first.
    pub(crate) fn join(&mut self, id: &Bytes, agent: u64) -> bool {
        let agents = self.0.entry(id.clone()).or_default();
        agents.insert(agent);
        agents.len() == 1
    }

    /// It does so no more. Whether it was the last.
    pub(crate) fn leave(&mut self, id: &Bytes, agent: u64) -> bool {
        let Some(agents) = self.0.get_mut(id) else { return false };
        let was_last = agents.remove(&agent) && agents.is_empty();
        if was_last {
            self.0.remove(id);
        }
        was_last
    }

    /// An agent follows none any more. Gives those that nobody is left for.
    pub(crate) fn leave_all(&mut self, agent: u64) -> Vec<Bytes> {
        let all: Vec<_> = self.0.keys().cloned().collect();
        all.into_iter().filter(|id| self.leave(id, agent)).collect()
    }

    /// Those of one task.
    pub(crate) fn of(&self, id: &[u8]) -> impl Iterator<Item = u64> {
        self.0.get(id).into_iter().flatten().copied()
    }

    /// Nothing more is heard of a task.
    pub(crate) fn forget(&mut self, id: &[u8]) {
        self.0.remove(id);
    }

    /// The instance is another: its tasks are, too.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_the_servers_matter_from_its_first_follower_to_its_last() {
        let mut task_subscribers = TaskSubscribers::default();
        let [a, b] = ["a", "b"].map(Bytes::from);
        assert!(
            task_subscribers.join(&a, 1)
                && !task_subscribers.join(&a, 2)
                && !task_subscribers.join(&a, 2)
                && task_subscribers.join(&b, 2)
        );
        assert!(task_subscribers.of(b"a").eq([1, 2]) && task_subscribers.of(b"c").next().is_none());
        assert!(!task_subscribers.leave(&a, 9) && !task_subscribers.leave(&a, 1) && !task_subscribers.leave(&a, 1));
        assert_eq!(task_subscribers.leave_all(2), [a.clone(), b]);
        assert!(task_subscribers.is_empty() && !task_subscribers.leave(&a, 2));
        task_subscribers.join(&a, 1);
        task_subscribers.forget(b"a");
        assert!(task_subscribers.is_empty() && task_subscribers.leave_all(1).is_empty());
    }
}
