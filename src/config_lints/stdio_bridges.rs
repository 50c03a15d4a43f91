//! Programs that bridge stdio to a URL, which mcpd does not need.

use std::path::Path;

use super::Context;
use crate::config::command_line::is_url;
use crate::config::diagnostic::Diagnostic;
use crate::config::notes::Use;
use crate::config::{Launch, Program};

/// The most common such package.
const BRIDGE: &str = "mcp-remote";

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let commands = context.texts().filter(|(_, _, purpose, _)| *purpose == Use::Command);
    let bridges = commands.filter_map(|(server, note, ..)| {
        let Ok(Launch::Program(program)) = &server.launch else { return None };
        let at = bridged(program)?;
        let mut args = context.texts().filter(|(of, _, purpose, _)| of.name == server.name && *purpose == Use::Arg);
        let written = args.nth(at).map(|(.., template)| template.shown()).unwrap_or_default();
        let shown = if written == "…" { "https://…".to_owned() } else { written };
        let message = format!("`{}` is run by `{BRIDGE}`, but mcpd connects to URLs itself", server.name);
        let help = format!(
            "write `url = \"{}\"` in place of `command` and `args`, with `headers` for each `--header`",
            shown.escape_debug()
        );
        Some(note.warning(message, help))
    });
    bridges.collect()
}

/// The index of the URL in the arguments of such a program.
fn bridged(program: &Program) -> Option<usize> {
    let name = Path::new(&program.command).file_name().and_then(|name| name.to_str());
    let is_it = |word: &str| word.strip_prefix(BRIDGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'));
    let bridge = program.args.iter().position(|arg| is_it(arg)).map(|at| at + 1);
    let start = if name.is_some_and(is_it) { Some(0) } else { bridge }?;
    let is_url = |at: &usize| is_url(&program.args[*at]);
    (start..program.args.len()).find(is_url)
}
