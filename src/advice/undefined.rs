//! Texts that cannot be filled in, so that their server cannot be started.

use std::collections::HashSet;

use super::Look;
use crate::config::diagnostic::Diagnostic;

pub(super) fn warnings(look: &Look<'_>) -> Vec<Diagnostic> {
    const HELP: &str = "define it where mcpd runs, or give it a default: `${NAME:-default}`";
    let mut failing = HashSet::new();
    let mut warnings = Vec::new();
    for (server, note, _, template) in look.texts() {
        if let Some(undefined) = template.undefined(look.sources) {
            failing.insert(&server.name);
            warnings.push(note.warning(format!("server `{}` cannot be started: {undefined}", server.name), HELP));
        }
    }
    // What no text of its own explains.
    for server in look.servers().iter().filter(|server| !failing.contains(&server.name)) {
        if let (Err(reason), Some(note)) = (&server.launch, look.name_of(server)) {
            let message = format!("server `{}` cannot be started: {reason}", server.name);
            warnings.push(note.warning(message, "the other servers are not affected"));
        }
    }
    warnings
}
