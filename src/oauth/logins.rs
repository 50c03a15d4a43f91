//! The directory of logins, and their renewals in progress.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How long shutdown waits for renewals. Most authorization servers respond at once.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(2);

/// The directory of logins, and their renewals in progress. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Logins {
    directory: PathBuf,
    renewals: TaskTracker,
}

impl Logins {
    /// The logins in this directory, which need not exist yet.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        let renewals = TaskTracker::new();
        // A closed tracker still counts. It only lets `wait` end once it is empty.
        renewals.close();
        Self { directory, renewals }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Marks a renewal as in progress while the value lives.
    pub(super) fn begin(&self) -> TaskTrackerToken {
        self.renewals.token()
    }

    /// Waits until no renewal is in progress, for a limited time. Returns whether none is. An authorization server that
    /// has replaced a refresh token no longer accepts the old one, so a process that ends before the new one is stored
    /// loses the login.
    pub async fn settled(&self) -> bool {
        timeout(RENEWAL_TIMEOUT, self.renewals.wait()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settled_waits_for_the_last_renewal() {
        let logins = Logins::new(PathBuf::from("/x"));
        assert!(logins.settled().await);
        let (one, other) = (logins.begin(), logins.clone().begin());
        let mut settled = Box::pin(logins.settled());
        assert!(futures_util::poll!(&mut settled).is_pending());
        drop(one);
        assert!(futures_util::poll!(&mut settled).is_pending());
        drop(other);
        assert!(settled.await);
    }
}
