//! When tasks are over in any case, and what is kept of them.

use std::collections::BTreeMap;
use std::time::Instant;

use super::{SessionTask, SessionTasks};

impl SessionTasks {
    /// When the next one is over in any case.
    pub(in crate::server::instance::tasks) fn next_end(&self) -> Option<Instant> {
        let kept = (self.cached_bytes > 0).then_some(&self.all);
        let kept = kept.into_iter().flat_map(BTreeMap::values).filter_map(SessionTask::cached_until);
        self.all_open().filter_map(|task| task.open.as_ref()?.until).chain(kept).min()
    }

    /// Ends those that are over `now` in any case, and forgets what is kept no longer.
    pub(in crate::server::instance::tasks) fn expire(&mut self, now: Instant) {
        let is_over =
            |task: &SessionTask| task.open.as_ref().and_then(|open| open.until).is_some_and(|until| until <= now);
        let over: Vec<_> = self.all.iter().filter(|(_, task)| is_over(task)).map(|(request, _)| *request).collect();
        for request in over {
            self.end(request);
        }
        let is_over = |task: &SessionTask| task.cached_until().is_some_and(|until| until <= now);
        let over: Vec<_> = self.all.iter().filter(|(_, task)| is_over(task)).map(|(request, _)| *request).collect();
        for request in over {
            self.forget(request);
        }
    }

    /// Forgets what is kept for this session, or else for any, the oldest first, until together with so many bytes more it has
    /// no more than `most`.
    pub(in crate::server::instance::tasks) fn evict_cached(&mut self, session: u64, bytes: usize, most: usize) {
        while self.cached_bytes > 0 && self.cached_bytes + bytes > most {
            let mut kept = self.all.iter().filter(|(_, task)| task.completed.is_some());
            let own = kept.clone().find(|(_, task)| task.key.session == session);
            let Some(request) = own.or_else(|| kept.next()).map(|(request, _)| *request) else { return };
            self.forget(request);
        }
    }
}
