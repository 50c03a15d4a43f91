//! Headers with values of `${file:…}` and `${cmd:…}`, which are read again while their server is in use.

use std::collections::BTreeMap;
use std::fmt;
#[expect(clippy::disallowed_types, reason = "a cell: each lock lasts for one copy or change, without waiting")]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};

use super::interpolate::{Process, Template, UnusableValue};
use super::secret::secret_entries;
use super::secret_values::{AGENT_CWD, CommandOutputs, SecretCommand, Secrets};

/// The headers of a server whose values come from files and programs. Copies of the configuration share them, so each has the values
/// that were read last.
#[derive(Clone, Default)]
pub struct RotatingHeaders {
    shared: Option<Arc<Shared>>,
    /// Replaces [`AGENT_CWD`].
    agent_cwd: Option<String>,
}

struct Shared {
    /// Only files and programs are left to be read.
    templates: BTreeMap<String, Template>,
    #[expect(clippy::disallowed_types, reason = "see the import")]
    latest: Mutex<BTreeMap<String, String>>,
    /// Those of the server, which keep the values of all readings: a server may repeat an old secret.
    secrets: Secrets,
}

impl RotatingHeaders {
    /// `values` are those of the first reading. Later values are added to `secrets`.
    #[expect(clippy::disallowed_types, reason = "see the import")]
    pub(super) fn new(
        templates: BTreeMap<String, Template>,
        values: BTreeMap<String, String>,
        secrets: Secrets,
    ) -> Self {
        if templates.is_empty() {
            return Self::default();
        }
        Self { shared: Some(Arc::new(Shared { templates, latest: Mutex::new(values), secrets })), agent_cwd: None }
    }

    /// These headers for agents in the directory `agent_cwd`.
    pub(super) fn at(&self, agent_cwd: &str) -> Self {
        Self { agent_cwd: Some(agent_cwd.to_owned()), ..self.clone() }
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.is_none()
    }

    /// The values that were read last.
    pub(crate) fn latest(&self) -> BTreeMap<String, String> {
        let Some(shared) = &self.shared else { return BTreeMap::new() };
        let values = shared.latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let agent_cwd = self.agent_cwd.as_deref().unwrap_or(AGENT_CWD);
        values.into_iter().map(|(name, value)| (name, value.replace(AGENT_CWD, agent_cwd))).collect()
    }

    /// The secrets of the server, and those of the values that were read last.
    pub(crate) fn secret_values(&self) -> Vec<String> {
        let known = self.shared.iter().flat_map(|shared| shared.secrets.all());
        known.chain(secret_entries(&self.latest())).filter(|value| !value.contains('\0')).collect()
    }

    /// The programs of their `${cmd:…}`.
    pub(crate) fn commands(&self) -> Vec<SecretCommand> {
        let templates = self.shared.iter().flat_map(|shared| shared.templates.values());
        templates.flat_map(Template::commands).cloned().collect()
    }

    /// Whether the header `name` has the output of a program.
    pub(super) fn runs_programs(&self, name: &str) -> bool {
        let template = self.shared.as_ref().and_then(|shared| shared.templates.get(name));
        template.is_some_and(Template::runs_programs)
    }

    /// Reads the files again, and takes the outputs of the programs. Blocks.
    ///
    /// # Errors
    /// If a value cannot be used. The values stay as they were.
    pub(crate) fn read_again(&self, outputs: &CommandOutputs) -> Result<(), UnusableValue> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let (mut values, mut secrets) = (BTreeMap::new(), Secrets::default());
        for (name, template) in &shared.templates {
            let value = outputs.fill(&template.interpolate(&Process, &mut secrets)?);
            if !is_header_value(&value) {
                let complaint = "has one with a control character";
                return Err(UnusableValue::Invalid { key: "headers", complaint });
            }
            values.insert(name.clone(), value);
        }
        secrets.values().chain(outputs.values()).for_each(|secret| shared.secrets.add_later(secret));
        *shared.latest.lock().unwrap_or_else(PoisonError::into_inner) = values;
        Ok(())
    }
}

/// Whether the same files and programs are read. The values are compared with all other headers.
impl PartialEq for RotatingHeaders {
    fn eq(&self, other: &Self) -> bool {
        let templates = |one: &Self| one.shared.as_ref().map(|shared| shared.templates.clone());
        templates(self) == templates(other) && self.agent_cwd == other.agent_cwd
    }
}

impl fmt::Debug for RotatingHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.shared.iter().flat_map(|shared| shared.templates.keys());
        f.debug_set().entries(names).finish()
    }
}

/// Whether it can be a line of an HTTP message.
pub(super) fn is_header_value(text: &str) -> bool {
    !text.replace(AGENT_CWD, "").contains(|c: char| c.is_control() && c != '\t')
}
