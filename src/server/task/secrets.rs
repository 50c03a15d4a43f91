//! Secrets that a server needs at its start: the outputs of `${cmd:…}`, and files in headers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::config::interpolate::UnusableValue;
use crate::config::{CommandOutputs, Launch, RotatingHeaders, SecretCommand};
use crate::server::context::ServerContext;
use crate::server::launch_spec::LaunchSpec;
use crate::server::process_attributes::ProcessAttributes;
use crate::transport::http::ReadAgain;

/// A file may be on a disk that has gone away.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The launch for a start now: runs its programs, and reads the files of its headers. Its secrets are known before anything is started.
pub(in crate::server) async fn renewed(
    context: &ServerContext,
    server: &str,
    launch: &Launch,
) -> Result<Launch, UnusableValue> {
    let outputs = outputs(context, launch.commands()).await?;
    let launch = launch.with_outputs(&outputs)?;
    if let Some(remote) = launch.remote()
        && let Err(unusable) = read_again(&remote.rotating, outputs).await
    {
        if !launch.commands().is_empty() {
            return Err(unusable);
        }
        // The next attempt reads it again.
        tracing::warn!(%server, "its headers stay as they were: {unusable}");
    }
    context.secrets.add(launch.secret_values());
    Ok(launch)
}

/// How the headers are read again after they were refused.
pub(super) fn reread(context: &ServerContext, headers: &RotatingHeaders) -> ReadAgain {
    let (context, headers) = (context.clone(), headers.clone());
    Arc::new(move || {
        let (context, headers) = (context.clone(), headers.clone());
        async move {
            let read = read_again(&headers, outputs(&context, &headers.commands()).await?).await;
            context.secrets.add(headers.secret_values());
            read
        }
        .boxed()
    })
}

async fn read_again(headers: &RotatingHeaders, outputs: CommandOutputs) -> Result<(), UnusableValue> {
    if headers.is_empty() {
        return Ok(());
    }
    let headers = headers.clone();
    let reading = spawn_blocking(move || headers.read_again(&outputs));
    let Ok(read) = timeout(READ_TIMEOUT, reading).await else {
        tracing::warn!("headers stay as they were: their files could not be read within {READ_TIMEOUT:?}");
        return Ok(());
    };
    read.unwrap_or(Ok(()))
}

async fn outputs(context: &ServerContext, commands: &[SecretCommand]) -> Result<CommandOutputs, UnusableValue> {
    let mut outputs = CommandOutputs::default();
    for command in commands {
        let output = context.secret_programs.output(command, launch_spec(context, command), context.guard.path());
        outputs.add(command, output.await?.to_string());
    }
    Ok(outputs)
}

/// The program with the whole environment, in the user's home directory.
fn launch_spec(context: &ServerContext, command: &SecretCommand) -> LaunchSpec {
    let env = context.secret_programs.environment();
    let cwd = env.get("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
    let program = match command.program().strip_prefix("~/") {
        Some(rest) => cwd.join(rest).to_string_lossy().into_owned(),
        None => command.program().to_owned(),
    };
    let ProcessAttributes { umask, open_files, core_size } = context.inherited;
    LaunchSpec {
        command: program,
        args: command.args().to_vec(),
        env,
        cwd,
        cwd_is_stated: false,
        umask,
        open_files,
        core_size,
        tasks_max: None,
        sandbox: None,
        instead: Vec::new(),
    }
}
