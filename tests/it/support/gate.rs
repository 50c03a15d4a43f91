//! Calls and servers that wait until the test lets them go on.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::place::Place;

/// A file that does not exist until [`Gate::open`]. The tool `sleep` with [`Gate::arguments`] answers then.
pub(crate) struct Gate {
    path: PathBuf,
}

impl Gate {
    /// A gate with a name of its own in this place.
    pub(crate) fn new(place: &Place, name: &str) -> Self {
        Self { path: place.path(&format!("{name}.gate")) }
    }

    /// The arguments of a call of `sleep` that waits at this gate.
    pub(crate) fn arguments(&self) -> Value {
        json!({"until": self.path})
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
