//! What several files ask for, as one configuration.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::Config;
use super::super::diagnostic::Diagnostic;
use super::super::draft::{DaemonDraft, DefaultsDraft, Draft, NarrowingDraft, ServerDraft};
use super::super::interpolate::Sources;
use super::super::sourced::Sourced;
use super::profiles::ProfileLayers;

/// The layers added so far, later ones on top.
#[derive(Debug, Default)]
pub(in crate::config) struct Layers {
    pub(in crate::config) daemon: DaemonDraft,
    pub(in crate::config) defaults: DefaultsDraft,
    /// In the order in which they were configured.
    pub(in crate::config) servers: Vec<ServerDraft>,
    /// Where each is among them.
    by_name: HashMap<Arc<str>, usize>,
    pub(in crate::config) profiles: ProfileLayers,
    /// Whether a mistake may hide servers: then a name that nobody configures is no mistake of its own.
    is_partial: bool,
}

impl Layers {
    /// Puts `draft` on top; what does not fit to the layers below comes back as errors.
    pub(super) fn add(&mut self, draft: Draft) -> Vec<Diagnostic> {
        let Draft { includes: _, daemon, defaults, servers, narrowings, server_names, profiles, is_partial } = draft;
        self.is_partial |= is_partial;
        self.daemon = daemon.over(std::mem::take(&mut self.daemon));
        self.defaults = defaults.over(std::mem::take(&mut self.defaults));
        let mut wrong = self.profiles.add(server_names, profiles);
        // What is narrowed is of another file, so those of this one come later.
        wrong.extend(narrowings.into_iter().flat_map(|narrowing| self.narrow(narrowing)));
        wrong.extend(servers.into_iter().filter_map(|server| self.add_server(server)));
        wrong
    }

    /// Notes that a file is missing.
    pub(super) fn lack_a_file(&mut self) {
        self.is_partial = true;
    }

    fn add_server(&mut self, server: ServerDraft) -> Option<Diagnostic> {
        let name = &server.name;
        if let Some(first) = self.by_name.get(&name.value) {
            let problem = name.place.problem(format!("server `{}` is configured twice", name.value));
            let first = &self.servers[*first].name.place;
            let problem = problem.label(format!("the first is at {first}"));
            return Some(name.place.error(problem.help("remove one of the two, or give it another name")));
        }
        self.by_name.insert(Arc::clone(&name.value), self.servers.len());
        self.servers.push(server);
        None
    }

    fn narrow(&mut self, narrowing: NarrowingDraft) -> Vec<Diagnostic> {
        let NarrowingDraft { name, misplaced, rules } = narrowing;
        let Some(server) = self.by_name.get(&name.value).and_then(|at| self.servers.get_mut(*at)) else {
            if self.is_partial {
                return Vec::new();
            }
            let problem = name.place.problem(format!("server `{}` has no `command`", name.value));
            let help = "write `command = \"npx\"`, or a `url`: no layer below this file configures it";
            return vec![name.place.error(problem.help(help))];
        };
        let first = server.name.place.clone();
        let lower = std::mem::take(&mut server.rules);
        server.rules = rules.over(lower);
        let complain = |key: Sourced<String>| {
            let message = format!("`{}` of server `{}` is set where that is not configured", key.value, name.value);
            let problem = key.place.problem(message).label(format!("it is configured at {first}"));
            key.place.error(problem.help("set it there: elsewhere a server can only be narrowed, and kept another way"))
        };
        misplaced.into_iter().map(complain).collect()
    }

    /// What does not hold over all files together.
    pub(super) fn check(&self) -> Vec<Diagnostic> {
        if self.is_partial { Vec::new() } else { self.profiles.check() }
    }

    /// The configuration, with a default wherever no file says anything.
    pub(super) fn settle(&self, sources: &dyn Sources) -> Config {
        let daemon = self.daemon.settle();
        Config {
            profiles: self.profiles.settle(&daemon.naming),
            daemon,
            servers: self.servers.iter().map(|server| server.settle(&self.defaults, sources)).collect(),
        }
    }
}
