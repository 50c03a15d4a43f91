//! Expiry of tasks and of cached results.

use std::collections::BTreeMap;
use std::time::Instant;

use super::{SessionTask, SessionTasks};

impl SessionTasks {
    /// When the next task or cached result expires.
    pub(in crate::server::instance::tasks) fn next_end(&self) -> Option<Instant> {
        let cached = (self.cached_bytes > 0).then_some(&self.all);
        let cached = cached.into_iter().flat_map(BTreeMap::values).filter_map(SessionTask::cached_until);
        self.all_open().filter_map(|task| task.open.as_ref()?.until).chain(cached).min()
    }

    /// Ends tasks and removes cached results that have expired `now`.
    pub(in crate::server::instance::tasks) fn expire(&mut self, now: Instant) {
        let is_over =
            |task: &SessionTask| task.open.as_ref().and_then(|open| open.until).is_some_and(|until| until <= now);
        let over: Vec<_> = self.all.iter().filter(|(_, task)| is_over(task)).map(|(task_key, _)| *task_key).collect();
        for task_key in over {
            self.end(task_key);
        }
        let is_over = |task: &SessionTask| task.cached_until().is_some_and(|until| until <= now);
        let over: Vec<_> = self.all.iter().filter(|(_, task)| is_over(task)).map(|(task_key, _)| *task_key).collect();
        for task_key in over {
            self.forget(task_key);
        }
    }

    /// Removes cached results, the oldest first and those of this session before others, until `bytes` more fit into `max_bytes`.
    pub(in crate::server::instance::tasks) fn evict_cached(&mut self, session: u64, bytes: usize, max_bytes: usize) {
        while self.cached_bytes > 0 && self.cached_bytes + bytes > max_bytes {
            let mut cached = self.all.iter().filter(|(_, task)| task.completed.is_some());
            let of_session = cached.clone().find(|(_, task)| task.key.session == session);
            let Some(task_key) = of_session.or_else(|| cached.next()).map(|(task_key, _)| *task_key) else { return };
            self.forget(task_key);
        }
    }
}
