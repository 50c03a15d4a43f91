//! Programs that bridge stdio to a URL, which mcpd does not need.

use std::path::Path;

use super::Context;
use crate::config::command_line::is_url;
use crate::config::diagnostic::Diagnostic;
use crate::config::notes::Use;
use crate::config::secret::is_secret_value;
use crate::config::{Launch, Program};

/// The most common such package.
const BRIDGE: &str = "mcp-remote";

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let commands = context.texts().filter(|(_, _, purpose, _)| *purpose == Use::Command);
    let bridges = commands.filter_map(|(server, note, ..)| {
        let Ok(Launch::Program(program)) = &server.launch else { return None };
        let url = bridged(program)?;
        let shown = if is_secret_value(url) { "https://…".to_owned() } else { program.secrets.masked(url) };
        let message = format!("`{}` is run by `{BRIDGE}`, but mcpd connects to URLs itself", server.name);
        let help = format!(
            "write `url = \"{}\"` in place of `command` and `args`, with `headers` for each `--header`",
            shown.escape_debug()
        );
        Some(note.warning(message, help))
    });
    bridges.collect()
}

/// The URL in the arguments of such a program.
fn bridged(program: &Program) -> Option<&str> {
    let name = Path::new(&program.command).file_name().and_then(|name| name.to_str());
    let is_it = |word: &str| word.strip_prefix(BRIDGE).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'));
    let words = name.into_iter().chain(program.args.iter().map(String::as_str));
    let mut after = words.skip_while(|word| !is_it(word)).skip(1);
    after.find(|word| is_url(word))
}
