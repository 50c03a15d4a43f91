//! Calls and servers that wait until the test lets them go on.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::place::Place;

/// A file that does not exist until [`Gate::open`]. The tool `sleep` with [`Gate::arguments`] answers then.
pub(crate) struct Gate {
    path: PathBuf,
}

impl Gate {
    /// A closed gate in this place.
    pub(crate) fn new(place: &Place) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self { path: place.path(&format!("gate-{}", COUNT.fetch_add(1, Ordering::Relaxed))) }
    }

    /// The arguments of a call of `sleep` that waits at this gate.
    pub(crate) fn arguments(&self) -> Value {
        json!({"until": self.path})
    }

    /// The arguments of such a call that also ignores its cancellation.
    pub(crate) fn stubborn_arguments(&self) -> Value {
        json!({"until": self.path, "ignore_cancel": true})
    }

    /// The path, which also identifies a call in the journal of its server.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets everything that waits at this gate go on.
    pub(crate) fn open(&self) {
        std::fs::write(&self.path, "").expect("the test's own directory is writable");
    }
}
