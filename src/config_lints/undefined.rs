//! Texts with undefined references, which prevent their server from starting.

use std::collections::HashSet;
use std::path::Path;

use super::Context;
use crate::config::diagnostic::Diagnostic;
use crate::config::interpolate::UnusableValue;

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let mut failing = HashSet::new();
    let mut warnings = Vec::new();
    for (server, note, _, template) in context.texts() {
        if let Some(undefined) = template.undefined(context.sources) {
            failing.insert(&server.name);
            warnings.push(note.warning(
                format!("server `{}` cannot be started: {undefined}", server.name),
                help(&undefined, context),
            ));
        }
    }
    // Servers that fail for another reason.
    for server in context.servers().iter().filter(|server| !failing.contains(&server.name)) {
        if let (Err(reason), Some(note)) = (&server.launch, context.name_of(server)) {
            let message = format!("server `{}` cannot be started: {reason}", server.name);
            warnings.push(note.warning(message, "the other servers are not affected"));
        }
    }
    warnings
}

/// Only a variable may have a default.
fn help(undefined: &UnusableValue, context: &Context<'_>) -> &'static str {
    let is_credential =
        |path: &Path| context.sources.var("CREDENTIALS_DIRECTORY").is_some_and(|directory| path.starts_with(directory));
    match undefined {
        UnusableValue::Variable(_) | UnusableValue::Empty(_) => {
            "set it where mcpd runs, and restart the daemon; under systemd, `mcpd reload --environment` takes it from the login shell"
        }
        UnusableValue::File { path, .. } if is_credential(path) => "add `LoadCredential=NAME:PATH` to the unit of mcpd",
        UnusableValue::File { .. } => "write that file, or name another",
        UnusableValue::Command { .. } => "run that program in a terminal, and correct it or its reference",
        UnusableValue::Home => "set `HOME` where mcpd runs, or write an absolute path",
        _ => "the other servers are not affected",
    }
}
