//! The profiles of several files, and whether they fit to the servers of all of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::diagnostic::{Diagnostic, Level, SourceFile};
use super::super::profile::{MOST_PROFILES, Profile};
use super::super::read::{ProfileDraft, suggestion};
use super::super::tree::Problem;
use crate::naming::Naming;

/// Those of the files added so far.
#[derive(Default)]
pub(super) struct ProfileLayers {
    all: Vec<(Arc<SourceFile>, ProfileDraft)>,
    /// `FILE:LINE:COLUMN` of each one's name.
    places: HashMap<Arc<str>, String>,
    /// Every server that any file has a word about.
    servers: HashSet<String>,
    /// There were more than there may be, which has been said.
    too_many: bool,
}

impl ProfileLayers {
    /// Adds those of a file with these servers; what it configures a second time comes back as errors.
    pub(super) fn add(
        &mut self,
        file: &Arc<SourceFile>,
        servers: Vec<String>,
        profiles: Vec<ProfileDraft>,
    ) -> Vec<Diagnostic> {
        self.servers.extend(servers);
        profiles.into_iter().filter_map(|profile| self.add_one(file, profile)).collect()
    }

    fn add_one(&mut self, file: &Arc<SourceFile>, profile: ProfileDraft) -> Option<Diagnostic> {
        let place = file.address(profile.name_span.start);
        let problem = if let Some(first) = self.places.get(&profile.name) {
            Problem::new(profile.name_span, format!("profile `{}` is configured twice", profile.name))
                .label(format!("the first is at {first}"))
                .help("remove one of the two, or give it another name")
        } else if self.all.len() == MOST_PROFILES {
            if std::mem::replace(&mut self.too_many, true) {
                return None;
            }
            Problem::new(profile.name_span, format!("there are more than {MOST_PROFILES} profiles"))
                .help("let agents that see the same share one: any number of them can")
        } else {
            self.places.insert(Arc::clone(&profile.name), place);
            self.all.push((Arc::clone(file), profile));
            return None;
        };
        Some(Diagnostic::new(Level::Error, file, problem))
    }

    /// Names of servers that no file configures.
    pub(super) fn check(&self) -> Vec<Diagnostic> {
        let mut known: Vec<_> = self.servers.iter().map(String::as_str).collect();
        known.sort_unstable();
        let named = self.all.iter().flat_map(|(file, profile)| {
            profile.servers.iter().flatten().map(move |(server, span)| (file, profile, server, span))
        });
        let unknown = named.filter(|(.., server, _)| !self.servers.contains(&***server));
        let complain = |(file, profile, server, span): (_, &ProfileDraft, &Arc<str>, &std::ops::Range<usize>)| {
            let message =
                format!("profile `{}` has a server `{}` that nobody configures", profile.name, server.escape_debug());
            let help = match &*known {
                [] => "configure it as `[servers.NAME]`".to_owned(),
                known => suggestion(server, known),
            };
            Diagnostic::new(Level::Error, file, Problem::new(span.clone(), message).help(help))
        };
        unknown.map(complain).collect()
    }

    /// All of them, the one first that is always there.
    pub(super) fn settle(self, naming: &Naming) -> Vec<Arc<Profile>> {
        let mut profiles: Vec<_> = self.all.into_iter().map(|(_, draft)| Arc::new(draft.settle(naming))).collect();
        match profiles.iter().position(|profile| *profile.name == *Profile::DEFAULT) {
            Some(default) => profiles[..=default].rotate_right(1),
            None => profiles.insert(0, Arc::new(Profile::whole(naming.clone()))),
        }
        profiles
    }
}
