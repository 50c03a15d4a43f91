//! Merges the layers of several files into one configuration, and checks the profiles against the servers of all files.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::diagnostic::{Diagnostic, Spanned};
use super::super::interpolate::Sources;
use super::super::keys::KeyLayer;
use super::super::layer::{DefaultsLayer, Layer, NarrowingLayer, ProfileLayer, ServerLayer};
use super::super::profile::{MAX_PROFILES, Profile};
use super::super::read::suggestion;
use super::super::{Config, DaemonConfig};
use crate::naming::Naming;

/// The layers added so far, later ones on top.
#[derive(Debug, Default)]
pub(in crate::config) struct Layers {
    pub(in crate::config) daemon: KeyLayer,
    pub(in crate::config) defaults: DefaultsLayer,
    /// In the order in which they were configured.
    pub(in crate::config) servers: Vec<ServerLayer>,
    /// Their indices in `servers`.
    by_name: HashMap<Arc<str>, usize>,
    pub(in crate::config) profiles: ProfileLayers,
    /// An error may have hidden servers. Unknown names are not reported then.
    is_partial: bool,
}

impl Layers {
    /// Adds `layer` on top. Returns conflicts with the layers below.
    pub(super) fn add(&mut self, layer: Layer) -> Vec<Diagnostic> {
        let Layer { daemon, defaults, servers, narrowings, server_names, profiles, is_partial } = layer;
        self.is_partial |= is_partial;
        self.daemon = daemon.merge(std::mem::take(&mut self.daemon));
        self.defaults = defaults.merge(std::mem::take(&mut self.defaults));
        let mut wrong = self.profiles.add(server_names, profiles);
        // A file narrows only servers of other files, so add its servers last.
        wrong.extend(narrowings.into_iter().flat_map(|narrowing| self.narrow(narrowing)));
        wrong.extend(servers.into_iter().filter_map(|server| self.add_server(server)));
        wrong
    }

    /// Records that a file is missing.
    pub(super) fn mark_partial(&mut self) {
        self.is_partial = true;
    }

    fn add_server(&mut self, server: ServerLayer) -> Option<Diagnostic> {
        let name = &server.name;
        if let Some(first) = self.by_name.get(&name.value) {
            let problem = name.location.problem(format!("server `{}` is configured twice", name.value));
            let first = &self.servers[*first].name.location;
            let problem = problem.label(format!("the first is at {first}"));
            return Some(name.location.error(problem.help("remove one of the two, or give it another name")));
        }
        self.by_name.insert(Arc::clone(&name.value), self.servers.len());
        self.servers.push(server);
        None
    }

    fn narrow(&mut self, narrowing: NarrowingLayer) -> Vec<Diagnostic> {
        let NarrowingLayer { name, misplaced, rules } = narrowing;
        let Some(server) = self.by_name.get(&name.value).and_then(|at| self.servers.get_mut(*at)) else {
            if self.is_partial {
                return Vec::new();
            }
            let problem = name.location.problem(format!("server `{}` has no `command`", name.value));
            let help = "write `command = \"npx\"`, or a `url`: no layer below this file configures it";
            return vec![name.location.error(problem.help(help))];
        };
        let first = server.name.location.clone();
        let lower = std::mem::take(&mut server.rules);
        server.rules = rules.merge(lower);
        let complain = |key: Spanned<String>| {
            let message =
                format!("`{}` of server `{}` is set outside the table that defines the server", key.value, name.value);
            let problem = key.location.problem(message).label(format!("it is configured at {first}"));
            key.location.error(
                problem
                    .help("set it there: other files can only narrow the policy of a server and change its settings"),
            )
        };
        misplaced.into_iter().map(complain).collect()
    }

    /// Errors that only the merged layers show.
    pub(super) fn check(&self, sources: &dyn Sources) -> Vec<Diagnostic> {
        if self.is_partial {
            return Vec::new();
        }
        let mut wrong = self.profiles.check();
        wrong.extend(self.servers.iter().filter_map(|server| server.check_cwd(&self.defaults, sources)));
        wrong.extend(self.servers.iter().filter_map(|server| server.check_listening(&self.defaults, sources)));
        wrong.extend(self.servers.iter().flat_map(ServerLayer::check_tools));
        wrong
    }

    /// The configuration, with defaults for unset keys.
    pub(super) fn resolve(&self, sources: &dyn Sources) -> Config {
        let daemon = DaemonConfig::resolve(&self.daemon);
        Config {
            profiles: self.profiles.resolve(daemon.naming),
            daemon,
            servers: self.servers.iter().map(|server| server.resolve(&self.defaults, sources)).collect(),
        }
    }
}

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

    /// Errors for profiles with unknown servers, or with the address or a directory of another profile.
    pub(super) fn check(&self) -> Vec<Diagnostic> {
        let mut known: Vec<_> = self.servers.iter().map(String::as_str).collect();
        known.sort_unstable();
        let (mut wrong, mut addresses) = (self.shared_directories(), HashMap::new());
        for profile in &self.all {
            if let Some(http) = &profile.http
                && let Some(first) = addresses.insert(http.value, &profile.name.value)
            {
                let problem = http.location.problem(format!("profile `{first}` has the same address"));
                wrong.push(http.location.error(problem.help("give each profile a port of its own")));
            }
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

    /// Errors for directories that two profiles have.
    fn shared_directories(&self) -> Vec<Diagnostic> {
        let (mut wrong, mut first) = (Vec::new(), HashMap::new());
        for profile in &self.all {
            let name = &profile.name.value;
            for directory in profile.directories.iter().flat_map(|all| &all.value) {
                let (path, location) = (directory.value.display(), &directory.location);
                let first = *first.entry(&directory.value).or_insert(name);
                if first != name {
                    let problem = location.problem(format!("the profiles `{first}` and `{name}` both have `{path}`"));
                    wrong.push(
                        location.error(
                            problem.help("an agent gets one profile by its directory: remove it from the other"),
                        ),
                    );
                }
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
