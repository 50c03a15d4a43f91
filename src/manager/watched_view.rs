//! Access checks against the newest view, for calls that wait before they are sent to their server.

use std::sync::Arc;

use tokio::sync::watch;

use super::View;
use crate::catalog::Lists;
use crate::server::messages::call::{AccessTarget, Exposure, ExposureView};

/// Reads the newest view of a profile.
#[derive(Debug)]
pub(crate) struct WatchedView(watch::Receiver<Arc<View>>);

impl WatchedView {
    pub(crate) fn new(view: &watch::Receiver<Arc<View>>) -> Arc<Self> {
        Arc::new(Self(view.clone()))
    }

    /// Whether nobody publishes the view any more: the profile has been removed, or the daemon is stopping.
    fn is_gone(&self) -> bool {
        self.0.has_changed().is_err()
    }
}

impl ExposureView for WatchedView {
    fn version(&self) -> u64 {
        if self.is_gone() { u64::MAX } else { self.0.borrow().version() }
    }

    fn exposure(&self, server: &str, target: &AccessTarget, lists: Option<&Lists>) -> Exposure {
        match lists {
            // A server that still releases calls is not being stopped, so the profile has been removed.
            Some(_) if self.is_gone() => Exposure::Hidden,
            lists => self.0.borrow().exposure(server, target, lists),
        }
    }
}
