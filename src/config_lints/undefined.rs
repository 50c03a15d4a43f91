//! Texts with undefined references, which prevent their server from starting.

use std::collections::HashSet;
use std::path::Path;

use super::Context;
use crate::config::diagnostic::Diagnostic;
use crate::config::interpolate::UndefinedValue;

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
fn help(undefined: &UndefinedValue, context: &Context<'_>) -> &'static str {
    const CREDENTIAL: &str = "give it to the unit with `LoadCredential=`";
    let is_credential =
        |path: &Path| context.sources.var("CREDENTIALS_DIRECTORY").is_some_and(|directory| path.starts_with(directory));
    match undefined {
        UndefinedValue::Variable(_) | UndefinedValue::Empty(_) => {
            "define it where mcpd runs, or write a default: `${NAME:-default}`"
        }
        UndefinedValue::Credential(_) => CREDENTIAL,
        UndefinedValue::File { path, .. } if is_credential(path) => CREDENTIAL,
        UndefinedValue::File { .. } => "write that file, or name another",
        UndefinedValue::Home => "define `HOME` where mcpd runs, or write an absolute path",
        _ => "the other servers are not affected",
    }
}
