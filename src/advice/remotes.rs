//! Servers that this version cannot run.

use super::Look;
use crate::config::Launch;
use crate::config::diagnostic::Diagnostic;

pub(super) fn warnings(look: &Look<'_>) -> Vec<Diagnostic> {
    let remotes = look.servers().iter().filter(|server| matches!(server.launch, Ok(Launch::Remote(_))));
    let warnings = remotes.filter_map(|server| {
        let message = format!(
            "server `{}` cannot be started: it has a `url`, and this version of mcpd does not speak HTTP to servers",
            server.name
        );
        Some(look.name_of(server)?.warning(message, "the other servers are not affected"))
    });
    warnings.collect()
}
