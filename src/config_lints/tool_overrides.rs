//! Overrides of tools that the known list of their server contradicts.

use std::collections::BTreeSet;

use super::Context;
use super::patterns::suggestion;
use crate::catalog::{OverrideDefect, override_defects};
use crate::config::diagnostic::Diagnostic;
use crate::config::notes::{Note, What};
use crate::list_kind::ListKind;

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    context.notes.iter().filter_map(|note| warning(context, note)).collect()
}

/// The indices of the servers with overrides.
pub(super) fn targets(context: &Context<'_>) -> BTreeSet<usize> {
    let overrides = context.notes.iter().filter(|note| matches!(note.what, What::ToolOverride(_)));
    overrides.filter_map(|note| context.server_of(note)).collect()
}

fn warning(context: &Context<'_>, note: &Note<'_>) -> Option<Diagnostic> {
    let What::ToolOverride(tool) = note.what else { return None };
    let index = context.server_of(note)?;
    let server = &context.servers()[index];
    let list = &context.known.get(index)?.as_ref()?[ListKind::Tools];
    let (_, defect) = override_defects(list, &server.tool_overrides).find(|(name, _)| *name == &**tool)?;
    let (name, tool) = (&server.name, tool.escape_debug());
    let (message, help) = match defect {
        OverrideDefect::Unlisted => {
            let known: Vec<_> = list.items.iter().map(|item| &*item.key).collect();
            (format!("`{name}` has no tool `{tool}`"), suggestion(note_text(note, &server.name), &known))
        }
        OverrideDefect::NameTaken(taken) => (
            format!("agents do not see the tool `{tool}` of `{name}`: the server itself has a tool `{taken}`"),
            "give the tool another `name`".to_owned(),
        ),
        OverrideDefect::MissingArgument(argument) => (
            format!(
                "each call of the tool `{tool}` fails: `{name}` requires the argument `{}`, which is hidden",
                argument.escape_debug()
            ),
            "give it a value in `arguments`, or remove it from `hide_arguments`".to_owned(),
        ),
    };
    Some(note.warning(message, help))
}

/// The name of the tool, without the prefix of the names that agents see.
fn note_text<'n>(note: &Note<'n>, server: &str) -> &'n str {
    let What::ToolOverride(tool) = note.what else { return "" };
    tool.strip_prefix(server).and_then(|rest| rest.strip_prefix("__")).unwrap_or(tool)
}
