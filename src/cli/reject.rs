//! `mcpd reject`: adds tools of a server to its `deny`, and applies that.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use serde::Serialize;

use super::keep::{Keep, WrittenToggle};
use super::outcome::print_report_line;
use super::text::one_line;
use super::tool_names::{self, qualified};
use super::{CommandResult, USAGE, completions, fail, try_print};
use crate::manager::Toggle;
use crate::sockets::RuntimeDir;

#[derive(Debug, Args)]
pub(super) struct Reject {
    /// The server, as printed by `mcpd status`
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    server: String,
    /// Tools, by their own or exposed names
    #[arg(required = true, value_name = "TOOL", add = ArgValueCompleter::new(completions::tools_of_server))]
    tools: Vec<String>,
    /// Configuration file to load [default: that of the running daemon, else the user's]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print each result as JSON
    #[arg(long)]
    json: bool,
}

/// A tool that `deny` has now.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport<'a> {
    /// Configured name of the server.
    server: &'a str,
    /// The server's own name for the tool.
    tool: &'a str,
    /// The file that has the decision.
    file: &'a Path,
}

pub(super) async fn run(directory: &RuntimeDir, Reject { server, tools, config, json }: Reject) -> CommandResult {
    let keep = Keep::in_file(config);
    if let Some(other) = tools.iter().find(|tool| is_other(tool)) {
        let why = "only tools can be rejected: for others, write a table such as `[servers.NAME.prompts]` with `deny` (`mcpd edit`)";
        return Err(fail(USAGE, format!("`{}`: {why}", one_line(other))));
    }
    let mut code = ExitCode::SUCCESS;
    for tool in tools {
        let own = own_name(directory, &server, &tool).await;
        match keep.write(directory, &server, &Toggle::DisableTool(own.clone())).await {
            Ok(WrittenToggle { file, .. }) if json => {
                print_report_line(&JsonReport { server: &server, tool: &own, file: &file })?;
            }
            Ok(_) => try_print(format!("{server}/{}: denied\n", one_line(&own)))?,
            Err(failure) => code = if code == ExitCode::SUCCESS { failure } else { code },
        }
    }
    Ok(code)
}

/// Whether a word names something else than a tool, as for `mcpd approve`.
fn is_other(word: &str) -> bool {
    word == "instructions" || word.starts_with("prompt:") || word.starts_with("template:")
}

/// The server's own name of a tool. Without a daemon, the name is taken as it is.
async fn own_name(directory: &RuntimeDir, server: &str, word: &str) -> String {
    for name in [&*qualified(server, word), word] {
        if let Ok((found, _)) = tool_names::find(directory, None, name).await
            && let Some(found) = found.into_iter().find(|found| found.server == server)
        {
            return found.tool;
        }
    }
    word.to_owned()
}
