//! Recreates the lock file and the sockets if they were deleted, and takes replaced sockets back.
//!
//! The files are checked periodically. A watch on the directory would end with the directory, and the number of watches is limited.
//! If another daemon has taken the lock in the meantime, this one has to end.

use std::io;
use std::time::{Duration, Instant};

use super::{Listener, Lock, SocketError};
use crate::deadline_timer::DeadlineTimer;

/// Interval between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Time to the next check if another daemon holds the lock. That daemon may be about to fail.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Holds the lock, and recreates its file and the sockets.
#[derive(Debug)]
pub(crate) struct SocketUpkeep {
    lock: Lock,
    timer: DeadlineTimer,
    /// The last logged problem.
    trouble: Option<String>,
    /// Another daemon held the lock at the last check.
    has_rival: bool,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Standing {
    /// This daemon owns the directory, as far as is known.
    Owner,
    /// Another daemon has held the lock at two consecutive checks, so this one has to end.
    Superseded,
}

impl SocketUpkeep {
    /// # Errors
    /// If the system has no timer.
    pub(crate) fn new(lock: Lock) -> io::Result<Self> {
        let mut timer = DeadlineTimer::new()?;
        timer.set(Some(Instant::now() + CHECK_INTERVAL));
        Ok(Self { lock, timer, trouble: None, has_rival: false })
    }

    /// The lock.
    pub(crate) fn lock(&mut self) -> &mut Lock {
        &mut self.lock
    }

    /// The lock, without further checks.
    pub(crate) fn into_lock(self) -> Lock {
        self.lock
    }

    /// Waits until the next check is due. Cancel safe.
    pub(crate) fn due(&self) -> impl Future<Output = ()> + use<> {
        self.timer.elapsed()
    }

    /// Checks the files, and binds each socket again that was deleted or replaced. Leaves files that are no sockets alone, and
    /// everything if another daemon holds the lock. Each other problem is logged once.
    pub(crate) fn check<'a>(&mut self, sockets: impl IntoIterator<Item = &'a mut Listener>) -> Standing {
        let mut trouble = self.lock.keep().err();
        let has_rival = matches!(trouble, Some(SocketError::AlreadyRunning(_)));
        let had_rival = std::mem::replace(&mut self.has_rival, has_rival);
        if trouble.is_none() {
            for socket in sockets {
                // A failure of one socket must not affect the others.
                trouble = socket.keep().err().or(trouble);
            }
        }
        // The daemon reports a rival that stays.
        let trouble = trouble.filter(|_| !has_rival).map(|error| error.to_string());
        if let Some(what) = trouble.as_ref().filter(|_| trouble != self.trouble) {
            tracing::warn!("clients may not find mcpd: {what}");
        }
        self.trouble = trouble;
        self.timer.set(Some(Instant::now() + if has_rival { RECHECK_INTERVAL } else { CHECK_INTERVAL }));
        if has_rival && had_rival { Standing::Superseded } else { Standing::Owner }
    }
}
