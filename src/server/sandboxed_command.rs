//! Runs a command in the sandbox of a server, on the standard streams of this process.

use std::path::PathBuf;

use super::context::{GuardProgram, ServerContext};
use super::error::ServerError;
use super::exit::Exit;
use super::launch_spec::LaunchSpec;
use super::process::{foreground, launch_spec};
use super::sandbox::SandboxHost;
use super::start_error::StartError;
use super::task::renewed;
use crate::config::interpolate::{Process, Sources};
use crate::config::{Launch, ServerConfig};

/// Runs `command` with the environment, the working directory and the restrictions of `server`, and waits for its end. `sources` is the
/// environment of the daemon, `sockets` its directory of sockets.
///
/// # Errors
/// If the command cannot be started in this sandbox.
pub(crate) async fn run_in_sandbox(
    server: &ServerConfig,
    command: Vec<String>,
    sources: &dyn Sources,
    sockets: Option<PathBuf>,
) -> Result<Exit, ServerError> {
    let mut context = ServerContext::new(GuardProgram::available());
    let guard = context.guard.clone();
    let Some(guard) = guard.path() else { return Err(StartError::system("mcpd cannot execute itself").into()) };
    context.sandbox = SandboxHost::new(Some(guard), sources);
    context.sandbox.sockets = sockets;
    context.secret_programs.set_environment(sources.variables("").into_iter().collect());

    let Launch::Program(program) =
        renewed(&context, &server.name, server.launch.as_ref().map_err(Clone::clone)?).await?
    else {
        return Err(StartError::system("it runs no program").into());
    };
    let plan = context.sandbox.plan(server, &program.command).await.map_err(StartError::Unenforceable)?;
    let Some(restrictions) = plan.restrictions else {
        return Err(StartError::Sandbox("this system can enforce nothing of its sandbox".to_owned()).into());
    };
    // A terminal is that of this process.
    let variables = sources.variables("").into_iter().chain(Process.var("TERM").map(|term| ("TERM".to_owned(), term)));
    let spec = launch_spec(&program, context.inherited, Some(restrictions), variables);
    let spec = LaunchSpec { instead: command, ..spec };
    let ended = foreground::run(guard, &context.reaper, &spec).await;
    context.reaper.close().await;
    ended.map_err(|error| error.masked(&program.secrets))
}
