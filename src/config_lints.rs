//! Lints: warnings about a valid configuration that probably does not do what was intended.
//!
//! Pure: the inputs are the configuration, the system as [`Sources`] shows it, and the last known lists of servers. Every warning
//! has a place. A false warning is worse than a missed one. Each file has one group of lints.

mod commands;
mod known_commands;
mod names;
mod patterns;
mod permissions;
mod remotes;
#[cfg(test)]
mod tests;
mod tool_overrides;
mod unexpanded;

use std::collections::{BTreeSet, HashMap};

pub(crate) use self::commands::{shown, unfound};
pub(crate) use self::known_commands::{ANSWER, ASKS, PASS_STDIN};
pub(crate) use self::names::{DENY_SHADOWED, shadowed_resources};
use crate::catalog::Lists;
use crate::config::diagnostic::Diagnostic;
use crate::config::interpolate::{Process, Sources, Template};
use crate::config::notes::{Note, NoteScope, Use, What};
use crate::config::{LoadedConfig, ServerConfig};

const MAX_WARNINGS: usize = 100;

type Lint = fn(&Context<'_>) -> Vec<Diagnostic>;

/// All lints but `commands`.
const LINTS: [Lint; 12] = [
    unexpanded::undefined_references,
    remotes::warnings,
    commands::stdio_bridges,
    commands::secret_arguments,
    unexpanded::warnings,
    commands::missing_directories,
    permissions::warnings,
    permissions::guest_directories,
    known_commands::warnings,
    patterns::warnings,
    tool_overrides::warnings,
    names::warnings,
];

/// The inputs of every lint.
struct Context<'a> {
    loaded: &'a LoadedConfig,
    sources: &'a dyn Sources,
    /// The last known lists of each server, in the order of servers.
    known: Vec<Option<Lists>>,
    /// Indices of servers by name.
    by_name: HashMap<&'a str, usize>,
    /// The texts, patterns and limits of the configuration, with their places.
    notes: &'a [Note<'a>],
    /// The place of each server's name.
    names: HashMap<&'a str, &'a Note<'a>>,
}

/// All warnings, in the order of files and lines. `known` has the last known lists of each server.
pub(crate) fn advise(loaded: &LoadedConfig, sources: &dyn Sources, known: Vec<Option<Lists>>) -> Vec<Diagnostic> {
    warnings(loaded, sources, known, &[&LINTS[..], &[commands::warnings]].concat())
}

/// All warnings but those about missing commands, which [`unfound`] reports.
pub(crate) fn advise_beside_commands(
    loaded: &LoadedConfig,
    sources: &dyn Sources,
    known: Vec<Option<Lists>>,
) -> Vec<Diagnostic> {
    warnings(loaded, sources, known, &LINTS)
}

/// Warnings about patterns that match nothing in the known lists, and about overrides of tools that these contradict.
pub(crate) fn unmatched_patterns(loaded: &LoadedConfig, known: Vec<Option<Lists>>) -> Vec<Diagnostic> {
    warnings(loaded, &Process, known, &[patterns::warnings, tool_overrides::warnings])
}

/// The indices of the servers that some pattern or override of the configuration applies to.
pub(crate) fn servers_with_patterns(loaded: &LoadedConfig) -> BTreeSet<usize> {
    with_context(loaded, &Process, Vec::new(), |context| {
        &patterns::targets(context) | &tool_overrides::targets(context)
    })
}

fn warnings(
    loaded: &LoadedConfig,
    sources: &dyn Sources,
    known: Vec<Option<Lists>>,
    lints: &[Lint],
) -> Vec<Diagnostic> {
    let mut warnings: Vec<_> =
        with_context(loaded, sources, known, |context| lints.iter().flat_map(|warnings| warnings(context)).collect());
    let order = |warning: &Diagnostic| loaded.files.iter().position(|path| *path == warning.file.path);
    warnings.sort_by_key(|warning| (order(warning), warning.span.start));
    warnings.truncate(MAX_WARNINGS);
    warnings
}

fn with_context<T>(
    loaded: &LoadedConfig,
    sources: &dyn Sources,
    known: Vec<Option<Lists>>,
    read: impl FnOnce(&Context<'_>) -> T,
) -> T {
    let by_name = loaded.config.servers.iter().enumerate().map(|(index, server)| (&*server.name, index)).collect();
    let notes = &loaded.notes();
    let names = notes.iter().filter_map(|note| match (note.owner, &note.what) {
        (NoteScope::Server(name), What::Name) => Some((&**name, note)),
        _ => None,
    });
    read(&Context { loaded, sources, known, by_name, notes, names: names.collect() })
}

impl Context<'_> {
    fn servers(&self) -> &[ServerConfig] {
        &self.loaded.config.servers
    }

    /// The index of the note's server.
    fn server_of(&self, note: &Note<'_>) -> Option<usize> {
        let NoteScope::Server(name) = note.owner else { return None };
        self.by_name.get(&**name).copied()
    }

    /// The texts of servers, each with its note and its use.
    fn texts(&self) -> impl Iterator<Item = (&ServerConfig, &Note<'_>, Use<'_>, &Template)> {
        self.notes.iter().filter_map(|note| {
            let What::Text(purpose, template) = note.what else { return None };
            Some((&self.servers()[self.server_of(note)?], note, purpose, template))
        })
    }

    /// The place of a server's name.
    fn name_of(&self, server: &ServerConfig) -> Option<&Note<'_>> {
        self.names.get(&*server.name).copied()
    }
}

/// Whether a server can start, as far as the configuration tells.
pub(crate) fn can_start(server: &ServerConfig, sources: &dyn Sources) -> bool {
    server
        .launch
        .as_ref()
        .is_ok_and(|launch| launch.program().is_none_or(|program| commands::can_run(program, sources)))
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
