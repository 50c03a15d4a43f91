//! Commands that work in no sandbox, or need what a sandbox takes away.

use super::Context;
use crate::config::diagnostic::Diagnostic;
use crate::config::interpolate::Sources;
use crate::config::notes::Use;
use crate::config::sandbox_advice::{privilege_problem, process_inspecting_package};
use crate::config::{Launch, SandboxLevel, ServerConfig};

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let commands = context.texts().filter(|(_, _, purpose, _)| *purpose == Use::Command);
    let complaints = commands.filter_map(|(server, note, ..)| {
        let Ok(Launch::Program(program)) = &server.launch else { return None };
        let complaint = match needed_privileges(server, context.sources) {
            Some(reason) => format!("the command of `{}` {reason}", server.name),
            None if server.settings.sandbox.level == SandboxLevel::None => return None,
            None => {
                let package = process_inspecting_package(&program.command, &program.args)?;
                format!(
                    "`{package}` inspects or signals other processes, and the sandbox of `{}` forbids that",
                    server.name
                )
            }
        };
        Some(note.warning(complaint, "write `sandbox = \"none\"` if you trust this server with all that you may do"))
    });
    complaints.collect()
}

/// Why the command of a server does not work in its sandbox, if it gains privileges: the rest of a sentence about the command.
pub(crate) fn needed_privileges(server: &ServerConfig, sources: &dyn Sources) -> Option<&'static str> {
    let program = server.launch.as_ref().ok()?.program()?;
    let is_confined = server.settings.sandbox.level != SandboxLevel::None;
    is_confined.then(|| privilege_problem(&program.command, &program.search_path(sources), sources))?
}
