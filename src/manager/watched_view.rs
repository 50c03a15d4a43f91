//! Access checks against the newest view, for calls that wait before they are sent to their server.

use std::sync::Arc;

use tokio::sync::watch;

use super::{View, ViewPart};
use crate::catalog::Lists;
use crate::era::Era;
use crate::server::messages::call::{AccessTarget, Exposure, ExposureView};

/// Reads the newest view of a profile, or of a part of it.
#[derive(Debug)]
pub(crate) struct WatchedView {
    view: watch::Receiver<Arc<View>>,
    part: ViewPart,
}

impl WatchedView {
    pub(crate) fn new(view: &watch::Receiver<Arc<View>>, part: ViewPart) -> Arc<Self> {
        Arc::new(Self { view: view.clone(), part })
    }

    fn newest(&self) -> Arc<View> {
        self.view.borrow().part(&self.part)
    }

    /// Whether nobody publishes the view any more: the profile has been removed, or the daemon is stopping.
    fn is_gone(&self) -> bool {
        self.view.has_changed().is_err()
    }
}

impl ExposureView for WatchedView {
    fn version(&self) -> u64 {
        if self.is_gone() { u64::MAX } else { self.newest().version() }
    }

    fn exposure(&self, server: &str, era: Era, target: &AccessTarget, lists: Option<&Lists>) -> Exposure {
        match lists {
            // A server that still releases calls is not being stopped, so the profile has been removed.
            Some(_) if self.is_gone() => Exposure::Hidden,
            lists => self.newest().exposure(server, era, target, lists),
        }
    }
}
