//! The environment of another process, with the files of this one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Process, Sources};

/// The environment variables and working directory of a daemon, and the files of this process. The default is this process's own.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    /// `None` for the variables of this process.
    variables: Option<BTreeMap<String, String>>,
    /// Its working directory.
    directory: Option<PathBuf>,
}

impl Environment {
    pub(crate) fn new(variables: Option<BTreeMap<String, String>>, directory: Option<PathBuf>) -> Self {
        Self { variables, directory }
    }

    /// Whether it is the environment of a daemon.
    pub(crate) fn is_daemons(&self) -> bool {
        self.variables.is_some()
    }

    /// This environment with changed variables. `None` unsets a variable.
    pub(crate) fn with(&self, changes: BTreeMap<String, Option<String>>) -> Self {
        let mut variables: BTreeMap<_, _> = self.variables("").into_iter().collect();
        for (name, value) in changes {
            match value {
                Some(value) => drop(variables.insert(name, value)),
                None => drop(variables.remove(&name)),
            }
        }
        Self { variables: Some(variables), directory: self.directory.clone() }
    }
}

impl Sources for Environment {
    fn var(&self, name: &str) -> Option<String> {
        match &self.variables {
            Some(variables) => variables.get(name).cloned(),
            None => Process.var(name),
        }
    }

    fn variables(&self, prefix: &str) -> Vec<(String, String)> {
        let Some(variables) = &self.variables else { return Process.variables(prefix) };
        let matching = variables.iter().filter(|(name, _)| name.starts_with(prefix));
        matching.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn home(&self) -> Option<PathBuf> {
        let own = self.variables.as_ref().and_then(|variables| variables.get("HOME")).map(PathBuf::from);
        own.filter(|home| home.is_absolute()).or_else(|| Process.home())
    }

    fn current_dir(&self) -> Option<PathBuf> {
        self.directory.clone().or_else(|| Process.current_dir())
    }
}
