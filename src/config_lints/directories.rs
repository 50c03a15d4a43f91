//! Working directories that do not exist.

use super::Context;
use crate::config::diagnostic::Diagnostic;
use crate::config::notes::Use;
use crate::config::{AGENT_CWD, Launch};

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let directories = context.texts().filter(|(_, _, purpose, _)| *purpose == Use::Cwd);
    let missing = directories.filter_map(|(server, note, ..)| {
        let Ok(Launch::Program(program)) = &server.launch else { return None };
        let cwd = program.cwd.as_ref().filter(|cwd| !context.sources.exists(cwd))?;
        let shown = program.secrets.masked(cwd.to_str().filter(|cwd| !cwd.contains(AGENT_CWD))?);
        let message = format!("working directory `{}` does not exist, so `{}` cannot be started", shown, server.name);
        Some(
            note.warning(message, format!("`mkdir -p {}`, or write another directory", shlex::try_quote(&shown).ok()?)),
        )
    });
    missing.collect()
}
