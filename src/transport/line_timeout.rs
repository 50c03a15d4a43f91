//! The time limit for a peer that pauses within a line.

use std::fmt;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt};

use crate::deadline_timer::DeadlineTimer;

/// Limits how long a peer may pause within a line. No timer is set for a line whose rest can be read at once.
#[derive(Default)]
pub(super) struct LineTimeout {
    limit: Option<Duration>,
    /// Set while the peer pauses.
    timer: Option<BoxFuture<'static, ()>>,
}

impl LineTimeout {
    /// Lets a peer pause for `limit` at most.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit: Some(limit), timer: None }
    }

    /// Call this after each read within a line: `has_data` if the read returned. Pending while the peer may still pause.
    ///
    /// # Errors
    /// `TimedOut` if the pause was too long. Data that arrived in time counts, even if it is read late.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, has_data: bool) -> Poll<io::Result<()>> {
        if has_data {
            self.timer = None;
            return Poll::Ready(Ok(()));
        }
        if let (Some(limit), None) = (self.limit, &self.timer)
            // Without a free descriptor there is no limit.
            && let Ok(mut timer) = DeadlineTimer::new()
        {
            timer.set(Some(Instant::now() + limit));
            self.timer = Some(timer.elapsed().boxed());
        }
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        timer
            .poll_unpin(cx)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the peer paused too long within a line")))
    }
}

impl fmt::Debug for LineTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineTimeout").field("limit", &self.limit).finish_non_exhaustive()
    }
}
