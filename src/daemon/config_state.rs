//! The configuration in force, and the reason why a later one was rejected.
//!
//! The reload task writes it. The daemon reads it for reports, and the watch of the files compares with it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::clock::Moment;
use crate::config::Stamp;

/// A configuration that was read last and is not valid.
#[derive(Debug, Clone)]
pub(super) struct RejectedConfig {
    pub(super) at: Moment,
    /// Text for a person, on several lines.
    pub(super) reason: String,
    /// The files of this configuration, as they were read.
    pub(super) stamps: Vec<Stamp>,
}

impl RejectedConfig {
    pub(super) fn now(reason: String, stamps: Vec<Stamp>) -> Self {
        Self { at: Moment::now(), reason, stamps }
    }
}

#[derive(Debug)]
pub(super) struct State {
    rejected: Option<RejectedConfig>,
    stamps: Vec<Stamp>,
    /// The files of `${file:…}`, as they were read.
    secret_files: Vec<Stamp>,
}

impl State {
    /// The files that were read last, valid or not.
    pub(super) fn last_read(&self) -> Vec<Stamp> {
        // Without any, reading itself has failed.
        let rejected = self.rejected.as_ref().filter(|rejected| !rejected.stamps.is_empty());
        let stamps = rejected.map_or(&self.stamps, |rejected| &rejected.stamps);
        stamps.iter().chain(&self.secret_files).cloned().collect()
    }
}

/// Cheap to clone; each clone shares the same state.
#[derive(Debug, Clone)]
pub(super) struct ConfigState(Arc<watch::Sender<State>>);

impl ConfigState {
    /// The files are those of the configuration at start.
    pub(super) fn new(stamps: Vec<Stamp>, secret_files: Vec<Stamp>) -> Self {
        Self(Arc::new(watch::Sender::new(State { rejected: None, stamps, secret_files })))
    }

    pub(super) fn reject(&self, rejected: RejectedConfig) {
        self.0.send_modify(|state| state.rejected = Some(rejected));
    }

    /// Puts the configuration of these files in force.
    pub(super) fn accept(&self, stamps: Vec<Stamp>, secret_files: Vec<Stamp>) {
        self.0.send_replace(State { rejected: None, stamps, secret_files });
    }

    pub(super) fn rejected(&self) -> Option<RejectedConfig> {
        self.0.borrow().rejected.clone()
    }

    /// The files of the configuration in force, as they were read.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        self.0.borrow().stamps.clone()
    }

    pub(super) fn watch(&self) -> watch::Receiver<State> {
        self.0.subscribe()
    }
}
