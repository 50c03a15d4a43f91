//! The profiles of several files, and whether they fit to the servers of all of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::diagnostic::Diagnostic;
use super::super::layer::ProfileLayer;
use super::super::profile::{MAX_PROFILES, Profile};
use super::super::read::suggestion;
use crate::naming::Naming;

/// Those of the files added so far.
#[derive(Debug, Default)]
pub(in crate::config) struct ProfileLayers {
    pub(in crate::config) all: Vec<ProfileLayer>,
    /// Where each is among them.
    by_name: HashMap<Arc<str>, usize>,
    /// Every server that any file has a word about.
    servers: HashSet<String>,
    /// There were more than there may be, which has been said.
    too_many: bool,
}

impl ProfileLayers {
    /// Adds those of a file with these servers; what it configures a second time comes back as errors.
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
            problem.help("let agents that see the same share one: any number of them can")
        } else {
            self.by_name.insert(Arc::clone(&name.value), self.all.len());
            self.all.push(profile);
            return None;
        };
        Some(name.location.error(problem))
    }

    /// Names of servers that no file configures.
    pub(super) fn check(&self) -> Vec<Diagnostic> {
        let mut known: Vec<_> = self.servers.iter().map(String::as_str).collect();
        known.sort_unstable();
        let mut wrong = Vec::new();
        for profile in &self.all {
            let named = profile.servers.iter().flat_map(|servers| &servers.value);
            for server in named.filter(|server| !self.servers.contains(&*server.value)) {
                let (profile, name) = (&profile.name.value, server.value.escape_debug());
                let message = format!("profile `{profile}` has a server `{name}` that nobody configures");
                let help = match &*known {
                    [] => "configure it as `[servers.NAME]`".to_owned(),
                    known => suggestion(&server.value, known),
                };
                wrong.push(server.location.error(server.location.problem(message).help(help)));
            }
        }
        wrong
    }

    /// All of them, the one first that is always there.
    pub(super) fn resolve(&self, naming: &Naming) -> Vec<Arc<Profile>> {
        let mut profiles: Vec<_> = self.all.iter().map(|layer| Arc::new(layer.resolve(naming))).collect();
        match profiles.iter().position(|profile| *profile.name == *Profile::DEFAULT) {
            Some(default) => profiles[..=default].rotate_right(1),
            None => profiles.insert(0, Arc::new(Profile::whole(naming.clone()))),
        }
        profiles
    }
}
