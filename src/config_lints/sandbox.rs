//! Commands that work in no sandbox, or need what a sandbox takes away.

use super::Context;
use crate::config::diagnostic::Diagnostic;
use crate::config::notes::Use;
use crate::config::sandbox_advice::{privilege_problem, process_inspecting_package};
use crate::config::{Launch, SandboxLevel};

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let commands = context.texts().filter(|(_, _, purpose, _)| *purpose == Use::Command);
    let complaints = commands.filter_map(|(server, note, ..)| {
        let Ok(Launch::Program(program)) = &server.launch else { return None };
        if server.settings.sandbox.level == SandboxLevel::None {
            return None;
        }
        let path = program.passed.as_ref().and_then(|passed| passed.get("PATH"));
        let path = program.env.get("PATH").or(path).map_or("", String::as_str);
        let complaint = match privilege_problem(&program.command, path, context.sources) {
            Some(reason) => format!("the command of `{}` {reason}", server.name),
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
