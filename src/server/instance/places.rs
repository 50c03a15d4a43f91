//! How many more calls an instance can be given.

use std::time::Instant;

use super::Instance;
use crate::server::MAX_IN_FLIGHT;
use crate::server::share::{Shares, Vacancies};

impl Instance {
    /// The sessions that may be given one more call now.
    ///
    /// A call that was cancelled or timed out counts for `max_concurrent` for as long as the server may go on with it.
    pub(in crate::server) fn vacancies(&self) -> Vacancies {
        match self.config.settings.max_concurrent {
            Some(max) if self.calls + self.cancelled.len(Instant::now()) < max => Vacancies::All,
            Some(_) => Vacancies::None,
            None if self.calls < MAX_IN_FLIGHT => Vacancies::All,
            None => Vacancies::Due(Shares::of(self.unanswered().map(|call| (call.reply.key.session, 1)))),
        }
    }

    /// When time alone frees a place of an abandoned call.
    pub(in crate::server) fn next_vacancy(&self) -> Option<Instant> {
        self.cancelled.next_over()
    }
}
