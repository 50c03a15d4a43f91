//! How long a line that was begun is waited for.

use std::fmt;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt};

use crate::alarm::Alarm;

/// With a peer that is silent amid a line. Nothing is set for a line whose rest is there to be read.
#[derive(Default)]
pub(super) struct Patience {
    limit: Option<Duration>,
    /// Until it is lost. There is one while nothing comes.
    end: Option<BoxFuture<'static, ()>>,
}

impl Patience {
    /// Lets a peer be silent for `limit` at most.
    pub(super) fn of(limit: Duration) -> Self {
        Self { limit: Some(limit), end: None }
    }

    /// More of a line was looked for, and `has_come` or not. Ready unless the task has to wait for it.
    ///
    /// # Errors
    /// `TimedOut` if it has waited for too long. What has come meanwhile counts, however late it is looked at.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, has_come: bool) -> Poll<io::Result<()>> {
        if has_come {
            self.end = None;
            return Poll::Ready(Ok(()));
        }
        if let (Some(limit), None) = (self.limit, &self.end)
            // Without a free descriptor it is waited for without end.
            && let Ok(mut alarm) = Alarm::new()
        {
            alarm.set(Some(Instant::now() + limit));
            self.end = Some(alarm.rings().boxed());
        }
        let Some(end) = &mut self.end else { return Poll::Pending };
        end.poll_unpin(cx)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "a line was begun and not gone on with")))
    }
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}
