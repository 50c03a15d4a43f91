//! Programs that a server cannot be run by, because they are not there.

use std::path::Path;

use super::Look;
use crate::config::diagnostic::Diagnostic;
use crate::config::interpolate::Sources;
use crate::config::notes::Use;
use crate::config::{AGENT_CWD, Launch, Program};

pub(super) fn warnings(look: &Look<'_>) -> Vec<Diagnostic> {
    let commands = look.texts().filter(|(_, _, purpose, _)| *purpose == Use::Command);
    let complaints = commands.filter_map(|(server, note, ..)| {
        let Ok(Launch::Program(program)) = &server.launch else { return None };
        let (complaint, help) = unfound(program, look.sources)?;
        let command = program.secrets.masked(&program.command);
        Some(note.warning(format!("command `{}` {complaint}", command.escape_debug()), help))
    });
    complaints.collect()
}

/// Why the command of a program cannot be run, and what to write instead.
pub(crate) fn unfound(program: &Program, sources: &dyn Sources) -> Option<(String, String)> {
    let command = &program.command;
    if command.contains(AGENT_CWD) {
        return None;
    }
    if !command.contains('/') {
        return not_on_path(program, sources);
    }
    if !command.starts_with('/') {
        let complaint = "is looked for in the working directory of the server".to_owned();
        return Some((complaint, "write the whole path, or begin it with `~/`".to_owned()));
    }
    let path = Path::new(command);
    if !sources.exists(path) {
        return Some(("does not exist".to_owned(), "install it, or write the path where it is".to_owned()));
    }
    let help = "write the path of a program, or make it one with `chmod +x`".to_owned();
    (!sources.is_program(path)).then(|| ("cannot be executed".to_owned(), help))
}

/// A server gets mcpd's own `PATH`, unless its `env` has another.
fn not_on_path(program: &Program, sources: &dyn Sources) -> Option<(String, String)> {
    let own = program.env.get("PATH");
    let path = own.cloned().or_else(|| sources.var("PATH")).unwrap_or_default();
    if path.contains(AGENT_CWD) || sources.on_path(&program.command, &path).is_some() {
        return None;
    }
    let searched = match own {
        Some(_) => "is not found on the PATH of its `env`".to_owned(),
        None => format!("is not found; PATH searched: {path}"),
    };
    Some((searched, "write its whole path, or set `env = { PATH = \"…\" }`".to_owned()))
}
