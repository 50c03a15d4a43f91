//! Variables that a reload is to use from now on.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Variables by name, with their new values; those without a value are unset. `Debug` shows names only.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct EnvironmentChanges(pub(crate) BTreeMap<String, Option<String>>);

impl fmt::Debug for EnvironmentChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
