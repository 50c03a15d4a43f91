//! Merges the profiles of several files and checks them against the servers of all files.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::diagnostic::Diagnostic;
use super::super::layer::ProfileLayer;
use super::super::profile::{MAX_PROFILES, Profile};
use super::super::read::suggestion;
use crate::naming::Naming;

/// The profiles of the files added so far.
#[derive(Debug, Default)]
pub(in crate::config) struct ProfileLayers {
    pub(in crate::config) all: Vec<ProfileLayer>,
    /// Their indices in `all`.
    by_name: HashMap<Arc<str>, usize>,
    /// The names of all servers that have a table in any file.
    servers: HashSet<String>,
    /// The error about too many profiles was reported.
    too_many: bool,
}

impl ProfileLayers {
    /// Adds the servers and profiles of a file. Returns an error for each duplicate profile.
    pub(super) fn add(&mut self, servers: Vec<String>, profiles: Vec<ProfileLayer>) -> Vec<Diagnostic> {
        self.servers.extend(servers);
        profiles.into_iter().filter_map(|profile| self.add_one(profile)).collect()
    }

    fn add_one(&mut self, profile: ProfileLayer) -> Option<Diagnostic> {
        let name = &profile.name;
        let problem = if let Some(first) = self.by_name.get(&name.value) {
            let first = &self.all[*first].name.location;
            let problem = name.location.problem(format!("profile `{}` is configured twice", name.value));
            problem.label(format!("the first is at {first}")).help("remove one of the two, or give it another name")
        } else if self.all.len() == MAX_PROFILES {
            if std::mem::replace(&mut self.too_many, true) {
                return None;
            }
            let problem = name.location.problem(format!("there are more than {MAX_PROFILES} profiles"));
            problem.help("any number of agents can share one profile")
        } else {
            self.by_name.insert(Arc::clone(&name.value), self.all.len());
            self.all.push(profile);
            return None;
        };
        Some(name.location.error(problem))
    }

    /// Errors for profiles with unknown servers.
    pub(super) fn check(&self) -> Vec<Diagnostic> {
        let mut known: Vec<_> = self.servers.iter().map(String::as_str).collect();
        known.sort_unstable();
        let mut wrong = Vec::new();
        for profile in &self.all {
            let named = profile.servers.iter().flat_map(|servers| &servers.value);
            for server in named.filter(|server| !self.servers.contains(&*server.value)) {
                let (profile, name) = (&profile.name.value, server.value.escape_debug());
                let message = format!("profile `{profile}` has a server `{name}` that is not configured");
                let help = match &*known {
                    [] => "configure it as `[servers.NAME]`".to_owned(),
                    known => suggestion(&server.value, known),
                };
                wrong.push(server.location.error(server.location.problem(message).help(help)));
            }
        }
        wrong
    }

    /// All profiles, with the default profile first.
    pub(super) fn resolve(&self, naming: Naming) -> Vec<Arc<Profile>> {
        let mut profiles: Vec<_> = self.all.iter().map(|layer| Arc::new(layer.resolve(naming))).collect();
        match profiles.iter().position(|profile| *profile.name == *Profile::DEFAULT) {
            Some(default) => profiles[..=default].rotate_right(1),
            None => profiles.insert(0, Arc::new(Profile::whole(naming))),
        }
        profiles
    }
}
