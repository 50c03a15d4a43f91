//! What can be said of a configuration that holds: what will most likely not do what was meant.
//!
//! Pure: over the configuration, the outside world as [`Sources`] shows it, and what servers were last known to offer. Every
//! warning has the place of what it is about. A false alarm is worse than a miss. One idea a file.

mod arguments;
mod commands;
mod names;
mod patterns;
mod permissions;
mod remotes;
mod stdio_bridges;
#[cfg(test)]
mod tests;
mod undefined;

use std::collections::HashMap;

pub(crate) use self::commands::{shown, unfound};
pub(crate) use self::names::{DENY_SHADOWED, shadowed_resources};
use crate::catalog::Lists;
use crate::config::diagnostic::Diagnostic;
use crate::config::interpolate::{Process, Sources, Template};
use crate::config::notes::{Note, Owner, Use, What};
use crate::config::{Launch, Loaded, ServerConfig};

/// Warnings that are given at most.
const MAX_WARNINGS: usize = 100;

/// What there is to say of one thing.
type Lint = fn(&Context<'_>) -> Vec<Diagnostic>;

/// All of them but `commands`.
const LINTS: [Lint; 7] = [
    undefined::warnings,
    remotes::warnings,
    stdio_bridges::warnings,
    arguments::warnings,
    permissions::warnings,
    patterns::warnings,
    names::warnings,
];

/// What advice is about.
struct Context<'a> {
    loaded: &'a Loaded,
    sources: &'a dyn Sources,
    /// Of each server, in their order, what it was last known to offer.
    known: Vec<Option<Lists>>,
    /// Servers by their names.
    by_name: HashMap<&'a str, usize>,
    /// What there is advice about.
    notes: &'a [Note<'a>],
    /// Where servers have their names.
    names: HashMap<&'a str, &'a Note<'a>>,
}

/// Everything there is to say, in the order of files and lines. `known` has for each server what it was
/// last known to offer.
pub(crate) fn advise(loaded: &Loaded, sources: &dyn Sources, known: Vec<Option<Lists>>) -> Vec<Diagnostic> {
    warnings(loaded, sources, known, &[&LINTS[..], &[commands::warnings]].concat())
}

/// The same but for commands that are not there, of which [`unfound`] tells.
pub(crate) fn advise_beside_commands(
    loaded: &Loaded,
    sources: &dyn Sources,
    known: Vec<Option<Lists>>,
) -> Vec<Diagnostic> {
    warnings(loaded, sources, known, &LINTS)
}

/// Warnings of patterns that match nothing that servers are known to offer.
pub(crate) fn unmatched_patterns(loaded: &Loaded, known: Vec<Option<Lists>>) -> Vec<Diagnostic> {
    warnings(loaded, &Process, known, &[patterns::warnings])
}

fn warnings(loaded: &Loaded, sources: &dyn Sources, known: Vec<Option<Lists>>, lints: &[Lint]) -> Vec<Diagnostic> {
    let by_name = loaded.config.servers.iter().enumerate().map(|(index, server)| (&*server.name, index)).collect();
    let notes = &loaded.notes();
    let names = notes.iter().filter_map(|note| match (note.owner, &note.what) {
        (Owner::Server(name), What::Name) => Some((&**name, note)),
        _ => None,
    });
    let context = Context { loaded, sources, known, by_name, notes, names: names.collect() };
    let mut warnings: Vec<_> = lints.iter().flat_map(|warnings| warnings(&context)).collect();
    let order = |warning: &Diagnostic| loaded.files.iter().position(|path| *path == warning.file.path);
    warnings.sort_by_key(|warning| (order(warning), warning.span.start));
    warnings.truncate(MAX_WARNINGS);
    warnings
}

impl Context<'_> {
    fn servers(&self) -> &[ServerConfig] {
        &self.loaded.config.servers
    }

    /// The server that a note is about, by its index.
    fn server_of(&self, note: &Note<'_>) -> Option<usize> {
        let Owner::Server(name) = note.owner else { return None };
        self.by_name.get(&**name).copied()
    }

    /// The texts of servers, each with its note and what it is for.
    fn texts(&self) -> impl Iterator<Item = (&ServerConfig, &Note<'_>, Use<'_>, &Template)> {
        self.notes.iter().filter_map(|note| {
            let What::Text(purpose, template) = note.what else { return None };
            Some((&self.servers()[self.server_of(note)?], note, purpose, template))
        })
    }

    /// Where a server has its name.
    fn name_of(&self, server: &ServerConfig) -> Option<&Note<'_>> {
        self.names.get(&*server.name).copied()
    }
}

/// Whether a server of this configuration will start, as far as can be told without starting it.
pub(crate) fn can_start(server: &ServerConfig, sources: &dyn Sources) -> bool {
    match &server.launch {
        Err(_) => false,
        Ok(Launch::Program(program)) => commands::can_run(program, sources),
        Ok(Launch::Remote(_)) => true,
    }
}

/// Some of `names`, for a message: "`a`, `b` and 3 more".
fn some<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    const SHOWN: usize = 3;
    let names: Vec<_> = names.into_iter().map(|name| format!("`{}`", name.escape_debug())).collect();
    match names.as_slice() {
        [shown @ .., last] if names.len() <= SHOWN && !shown.is_empty() => format!("{} and {last}", shown.join(", ")),
        all if all.len() <= SHOWN => all.concat(),
        all => format!("{} and {} more", all[..SHOWN].join(", "), all.len() - SHOWN),
    }
}
