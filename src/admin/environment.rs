//! Changes of environment variables that a reload applies.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// New values by variable name; `None` unsets the variable. `Debug` shows names only.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct EnvironmentChanges(pub(crate) BTreeMap<String, Option<String>>);

impl fmt::Debug for EnvironmentChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
