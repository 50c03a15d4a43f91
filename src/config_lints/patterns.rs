//! Patterns that match nothing in the known lists of servers.

use std::collections::BTreeSet;

use globset::Glob;

use super::{Context, some};
use crate::catalog::Lists;
use crate::config::diagnostic::{Correction, Diagnostic};
use crate::config::notes::{Note, NoteScope, What};
use crate::config::serialize::toml_string;
use crate::list_kind::ListKind;
use crate::policy::{self, Policy, is_fit_name};
use crate::suggest::nearest;

/// Between server and tool in the names that agents see.
const SEPARATOR: &str = "__";

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    context.notes.iter().filter_map(|note| warning(context, note)).collect()
}

/// The kind of a pattern's targets, the pattern, and the indices of the servers that it applies to. `None` for another note.
fn pattern<'n>(context: &Context<'_>, note: &'n Note<'_>) -> Option<(ListKind, &'n Glob, Vec<usize>)> {
    let all = || 0..context.servers().len();
    Some(match (&note.what, note.owner) {
        (What::Pattern(kind, glob), NoteScope::Server(_)) => (*kind, glob, vec![context.server_of(note)?]),
        (What::Pattern(kind, glob), _) => (*kind, glob, all().collect()),
        (What::Scoped(kind, of, glob), _) => {
            let matcher = of.compile_matcher();
            (*kind, glob, all().filter(|index| matcher.is_match(&*context.servers()[*index].name)).collect())
        }
        _ => return None,
    })
}

/// The indices of the servers that some pattern applies to.
pub(super) fn targets(context: &Context<'_>) -> BTreeSet<usize> {
    context.notes.iter().filter_map(|note| pattern(context, note)).flat_map(|(_, _, servers)| servers).collect()
}

fn warning(context: &Context<'_>, note: &Note<'_>) -> Option<Diagnostic> {
    let (kind, glob, servers) = pattern(context, note)?;
    if let (What::Scoped(_, of, _), []) = (&note.what, &servers[..]) {
        return Some(no_server(context, note, of));
    }
    // A server without a known list may have a match.
    let names: Vec<_> = servers.iter().map(|index| &*context.servers()[*index].name).collect();
    let lists = servers.iter().map(|index| context.known.get(*index)?.as_ref());
    let Some(known) = lists.collect::<Option<Vec<_>>>() else {
        let message = format!("`{}` is a name that agents see", glob.glob().escape_debug());
        return Some(note.warning(message, own_pattern(kind, glob.glob(), &names, &[])?.help()));
    };
    let patterns = Policy::default().with(kind, None, std::slice::from_ref(glob)).ok()?;
    let offered: Vec<_> = known.iter().flat_map(|lists| keys(lists, kind)).collect();
    let is_cut = known.iter().any(|lists| kinds(kind).iter().any(|kind| lists[*kind].truncated));
    if is_cut || offered.is_empty() || offered.iter().any(|(kind, key)| !patterns.permits(*kind, key, None)) {
        return None;
    }
    let shown = glob.glob().escape_debug();
    let message = format!("`{shown}` matches none of the {} of {}", word(kind), some(names.iter().copied()));
    let Some(pattern) = own_pattern(kind, glob.glob(), &names, &offered) else {
        let offered: Vec<_> = offered.iter().map(|(_, key)| *key).collect();
        return Some(note.warning(message, suggestion(glob.glob(), &offered)));
    };
    // The pattern of a profile also names the server.
    let is_certain = pattern.is_offered && matches!(note.what, What::Pattern(..));
    let correction = is_certain.then(|| note.edit(toml_string(pattern.own))).flatten().map(Correction::Edit);
    Some(note.warning(message, pattern.help()).corrected(correction))
}

fn no_server(context: &Context<'_>, note: &Note<'_>, pattern: &Glob) -> Diagnostic {
    let message = format!("`{}` matches no server", pattern.glob().escape_debug());
    let names: Vec<_> = context.servers().iter().map(|server| &*server.name).collect();
    note.warning(message, suggestion(pattern.glob(), &names))
}

/// A pattern for the names that agents see, split.
struct OwnPattern<'p> {
    prefix: &'p str,
    /// The pattern for the server's own names.
    own: &'p str,
    /// Whether that matches something.
    is_offered: bool,
}

impl OwnPattern<'_> {
    fn help(&self) -> String {
        let (own, prefix) = (self.own.escape_debug(), self.prefix.escape_debug());
        format!("write `{own}`: patterns match the names that the server itself uses, without `{prefix}`")
    }
}

/// Splits a pattern for the names that agents see.
fn own_pattern<'p>(
    kind: ListKind,
    pattern: &'p str,
    servers: &[&str],
    offered: &[(ListKind, &str)],
) -> Option<OwnPattern<'p>> {
    if !matches!(kind, ListKind::Tools | ListKind::Prompts) {
        return None;
    }
    let ends = pattern.match_indices(SEPARATOR).map(|(at, _)| pattern.split_at(at + SEPARATOR.len()));
    let ends = ends.chain(pattern.find('/').map(|at| pattern.split_at(at + 1)));
    let fits = |own: &str| {
        let glob = policy::pattern(own).ok()?;
        let patterns = Policy::default().with(kind, None, &[glob]).ok()?;
        offered.iter().any(|(kind, key)| !patterns.permits(*kind, key, None)).then_some(())
    };
    if let Some((prefix, own)) = ends.clone().find(|(_, own)| fits(own).is_some()) {
        return Some(OwnPattern { prefix, own, is_offered: true });
    }
    let is_of_server = |prefix: &str| {
        let server = prefix.strip_suffix(SEPARATOR).or(prefix.strip_suffix('/')).unwrap_or(prefix);
        servers.iter().any(|name| server == *name || server.strip_prefix("mcp__") == Some(name))
    };
    let (prefix, own) = ends.clone().find(|(prefix, own)| !own.is_empty() && is_of_server(prefix))?;
    Some(OwnPattern { prefix, own, is_offered: false })
}

/// The suggestion for a pattern that matches none of `known`.
pub(super) fn suggestion(pattern: &str, known: &[&str]) -> String {
    let plain: String = pattern.chars().filter(|c| !matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\')).collect();
    match nearest(&plain, known.iter().copied()) {
        Some(name) if !plain.is_empty() => format!("did you mean `{}`?", name.escape_debug()),
        _ => format!("available: {}", some(known.iter().copied())),
    }
}

/// The lists that patterns for `kind` apply to, as in policy.
fn kinds(kind: ListKind) -> &'static [ListKind] {
    match kind {
        ListKind::Tools => &[ListKind::Tools],
        ListKind::Prompts => &[ListKind::Prompts],
        ListKind::Resources | ListKind::Templates => &[ListKind::Resources, ListKind::Templates],
        // Servers need not list their skills.
        ListKind::Skills => &[],
    }
}

fn keys(lists: &Lists, kind: ListKind) -> impl Iterator<Item = (ListKind, &str)> {
    let of_kind = |kind: &ListKind| lists[*kind].items.iter().map(|item| (*kind, &*item.key)).collect::<Vec<_>>();
    let keys = kinds(kind).iter().flat_map(of_kind);
    // An invalid name is hidden regardless of patterns.
    keys.filter(|(kind, key)| !matches!(kind, ListKind::Tools | ListKind::Prompts) || is_fit_name(key))
}

fn word(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => "tools",
        ListKind::Prompts => "prompts",
        ListKind::Resources | ListKind::Templates => "resources",
        ListKind::Skills => "skills",
    }
}
