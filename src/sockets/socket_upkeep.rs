//! Keeping lock and sockets where others look for them: a file that was deleted is made anew.
//!
//! They are looked at now and then: a watch on the directory would be lost with it, and may not be had at all where
//! other programs watch many. Meanwhile another daemon may have started in the place of the files; then this one has to end.

use std::io;
use std::time::{Duration, Instant};

use super::listener::identity;
use super::{Listener, Lock, SocketError};
use crate::deadline_timer::DeadlineTimer;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// Until the next look if another daemon holds the lock: it may be about to fail.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Holds the lock, and keeps it and the sockets in their places.
#[derive(Debug)]
pub(crate) struct SocketUpkeep {
    lock: Lock,
    timer: DeadlineTimer,
    /// What has been said of them.
    trouble: Option<String>,
    /// Another daemon held the lock at the last look.
    has_rival: bool,
}

/// What a look at the files has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Standing {
    /// This daemon owns the directory, as far as can be known.
    Owner,
    /// Another daemon has held the lock at two looks in a row: this one has to end.
    Superseded,
}

impl SocketUpkeep {
    /// # Errors
    /// If the system has no timer.
    pub(crate) fn new(lock: Lock) -> io::Result<Self> {
        let mut timer = DeadlineTimer::new()?;
        timer.set(Some(Instant::now() + LOOK));
        Ok(Self { lock, timer, trouble: None, has_rival: false })
    }

    /// What it holds.
    pub(crate) fn lock(&mut self) -> &mut Lock {
        &mut self.lock
    }

    /// Waits until it is time for a look. May be cancelled without loss.
    pub(crate) fn due(&self) -> impl Future<Output = ()> + use<> {
        self.timer.elapsed()
    }

    /// Listens anew where a socket was deleted. What stands in the place of one is left alone, and so is everything once
    /// another daemon holds the lock; either is said once.
    pub(crate) fn look_after<'a>(&mut self, sockets: impl IntoIterator<Item = &'a mut Listener>) -> Standing {
        let mut trouble = self.lock.keep().err();
        let has_rival = matches!(trouble, Some(SocketError::AlreadyRunning(_)));
        let had_rival = std::mem::replace(&mut self.has_rival, has_rival);
        if trouble.is_none() {
            for socket in sockets {
                // One that cannot be kept is no reason to leave the others.
                trouble = socket.keep().err().or(trouble);
            }
        }
        let trouble = trouble.map(|error| error.to_string());
        if let Some(what) = trouble.as_ref().filter(|_| trouble != self.trouble) {
            tracing::warn!("clients may not find mcpd: {what}");
        }
        self.trouble = trouble;
        self.timer.set(Some(Instant::now() + if has_rival { LOOK_AGAIN } else { LOOK }));
        if has_rival && had_rival { Standing::Superseded } else { Standing::Owner }
    }
}

impl Lock {
    /// Takes it anew if its file was deleted: another daemon would not find it held.
    fn keep(&mut self) -> Result<(), SocketError> {
        if !self.is_in_place() {
            let anew = self.directory.take_lock()?;
            *self = Self { names: std::mem::take(&mut self.names), ..anew };
            self.write_names()?;
        }
        Ok(())
    }
}

impl Listener {
    fn keep(&mut self) -> Result<(), SocketError> {
        match identity(&self.path) {
            Ok(found) if found == self.identity => Ok(()),
            Ok(_) => Err(SocketError::Replaced(self.path.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut anew = Self::at(self.path.clone(), self.mode())?;
                std::mem::swap(&mut self.fd_reserve, &mut anew.fd_reserve);
                *self = anew;
                tracing::warn!(socket = %self.path.display(), "was deleted, and is there again");
                Ok(())
            }
            Err(source) => Err(SocketError::Io { path: self.path.clone(), source }),
        }
    }
}
