//! The options of `mcpd try`.

use std::time::Duration;

use clap::Args;

use crate::cli::config_edit::EditOptions;
use crate::duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct TryServer {
    #[command(flatten)]
    pub(super) options: TryOptions,
    /// Command that starts the server, with its arguments, or the URL of the server. `--keep` and `--call`, and options of mcpd after them,
    /// can also go at the end. After `--`, every word is part of the command
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND|URL")]
    pub(super) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct TryOptions {
    /// Call this tool, and print its result. Arguments as for `mcpd call`: `key=value` (a text), `key:=JSON`, or one JSON object. Before the
    /// command, `--` ends them
    #[arg(long, num_args = 1.., value_names = ["TOOL", "ARGUMENT"], value_terminator = "--")]
    pub(super) call: Vec<String>,
    /// Add the server to the configuration under this name, at sandbox level `files`, with the grants that you accept and the version that
    /// was tried. Approves its definitions
    #[arg(long, value_name = "NAME")]
    pub(super) keep: Option<String>,
    /// Environment variable of the server; repeatable. It gets no other variable of yours
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub(super) env: Vec<String>,
    /// Run it at level `files` without namespaces if this system permits none
    #[arg(long)]
    pub(super) weak: bool,
    /// Run the server without a network; only the installation of a package has one
    #[arg(long)]
    pub(super) no_network: bool,
    /// How long the server may take to get ready and to answer the call [default: 1m, and 5m for an installation]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(super) timeout: Option<Duration>,
    /// Accept the proposed grants without a question, except those whose only reason is what the server tried to do
    #[arg(short, long)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) edit: EditOptions,
}
