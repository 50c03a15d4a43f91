//! Where logins are kept, and what is being made of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// For a renewal to end. Most authorization servers answer at once, and whoever waits is being stopped, for which there is a limit.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where logins are kept, as `mcpd login` leaves them, and which of them are being renewed. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Logins {
    directory: PathBuf,
    under_way: Arc<watch::Sender<()>>,
}

impl Logins {
    /// Those in this directory, which need not be there yet.
    #[must_use]
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, under_way: Arc::new(watch::Sender::new(())) }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What a renewal holds as long as it goes on.
    pub(super) fn begin(&self) -> impl Sized + Send + use<> {
        self.under_way.subscribe()
    }

    /// Waits until no renewal goes on, for a bounded time. An authorization server that has given a refresh token in the place of
    /// another takes the old one no more, so whoever is ended before the new one is kept has lost the login. Tells whether none goes on.
    pub async fn settled(&self) -> bool {
        timeout(PATIENCE, self.under_way.closed()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_is_settled_when_the_last_renewal_has_ended() {
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
