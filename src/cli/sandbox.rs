//! `mcpd sandbox`: runs a command in the sandbox of a server, so that a person can see what the server sees.

use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::ArgValueCandidates;

use super::client_entries::runtime_dir_options;
use super::doctor::probe::DaemonProbe;
use super::login::Files;
use super::outcome::{config_failure, signal_exit};
use super::text::one_line;
use super::{CommandResult, FAILED, USAGE, completions, fail};
use crate::config::interpolate::{Process, Sources};
use crate::config::{self, AgentDirectory, Launch, SandboxLevel, ServerConfig};
use crate::server::run_in_sandbox;
use crate::sockets::RuntimeDir;
use crate::suggest::hint;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The server
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    server: String,
    /// Command with its arguments [default: $SHELL, else /bin/sh]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    files: Files,
}

/// `given`: the value of `--runtime-dir`. `directory`: the resolved runtime directory.
pub(super) async fn run(arguments: Arguments, given: Option<PathBuf>, directory: Option<RuntimeDir>) -> CommandResult {
    let Arguments { server: name, mut command, files } = arguments;
    let probe = DaemonProbe::run(directory, runtime_dir_options(given.as_deref()), &files.config).await;
    let loaded = config::load(&probe.files, &probe.sources).map_err(|error| config_failure(&error))?;
    let servers = &loaded.config.servers;
    let server = servers.iter().find(|server| *server.name == *name).ok_or_else(|| {
        let near = hint(&name, servers.iter().map(|server| &*server.name));
        fail(USAGE, format!("there is no server `{}`{near}", one_line(&name)))
    })?;
    if let Some(reason) = without_sandbox(server) {
        return Err(fail(USAGE, format!("{name}: {reason}")));
    }
    if command.is_empty() {
        command.push(Process.var("SHELL").unwrap_or_else(|| "/bin/sh".to_owned()));
    }
    let wants_cwd = server.launch.as_ref().is_ok_and(Launch::needs_agent_cwd) || server.settings.sharing.is_by_agent();
    let cwd = Process.current_dir().map(|cwd| AgentDirectory::Own(cwd.to_string_lossy().into()));
    let server = if wants_cwd { server.at(&cwd.unwrap_or_default()) } else { server.clone() };
    let sockets = probe.directory.as_ref().map(|directory| directory.path().to_owned());
    let ended = run_in_sandbox(&server, command, &probe.sources, sockets).await;
    let exit = ended.map_err(|error| fail(FAILED, format!("{name}: {error}")))?;
    Ok(match (exit.code, exit.signal) {
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(FAILED)),
        (None, signal) => signal.map_or(ExitCode::from(FAILED), signal_exit),
    })
}

/// Why a server has no sandbox, if it has none.
fn without_sandbox(server: &ServerConfig) -> Option<String> {
    match &server.launch {
        Ok(Launch::Remote(_)) => Some("is a server with a URL: it has no process and no sandbox".to_owned()),
        Ok(_) if server.settings.sandbox.level == SandboxLevel::None => {
            Some("has `sandbox = \"none\"`: nothing restricts it".to_owned())
        }
        Ok(_) => None,
        Err(reason) => Some(reason.to_string()),
    }
}
