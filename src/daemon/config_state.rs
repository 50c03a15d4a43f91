//! The configuration in force, and the reason why a later one was rejected.
//!
//! The reload task writes it and the daemon reads it for reports.
#![expect(clippy::disallowed_types, reason = "two tasks exchange values that are only replaced and copied")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
struct State {
    rejected: Option<RejectedConfig>,
    stamps: Vec<Stamp>,
}

/// Cheap to clone; each clone shares the same state.
#[derive(Debug, Clone)]
pub(super) struct ConfigState(Arc<Mutex<State>>);

impl ConfigState {
    /// `stamps` are those of the configuration at start.
    pub(super) fn new(stamps: Vec<Stamp>) -> Self {
        Self(Arc::new(Mutex::new(State { rejected: None, stamps })))
    }

    pub(super) fn reject(&self, rejected: RejectedConfig) {
        self.lock().rejected = Some(rejected);
    }

    /// Puts the configuration of these files in force.
    pub(super) fn accept(&self, stamps: Vec<Stamp>) {
        *self.lock() = State { rejected: None, stamps };
    }

    pub(super) fn rejected(&self) -> Option<RejectedConfig> {
        self.lock().rejected.clone()
    }

    /// The files of the configuration in force, as they were read.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        self.lock().stamps.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere cannot leave a half-written value here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
