//! The second stage of a start: a process that restricts itself and then becomes the server.
//!
//! The guard re-executes itself under the name [`ARGV0`]. The stage's standard input is a socket to the guard, which sends it the
//! server's three standard streams and the [`LaunchSpec`], so no secret appears in an argument list. The socket closes when the server is
//! executed; otherwise the stage sends the error.

use std::io::{BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};

use super::{domain, files};
use crate::server::fd_passing;
use crate::server::guard::{self, LaunchSpec};
use crate::server::start_error::StartError;

/// The process name of a stage, by which `main` recognizes one.
pub(in crate::server) const ARGV0: &str = "mcpd-sandbox";

/// Starts a stage in a process group of its own, and waits until it has become the server.
pub(in crate::server) fn spawn(definition: &LaunchSpec, streams: &[OwnedFd; 3]) -> Result<Child, StartError> {
    let (mut ours, theirs) = UnixStream::pair().map_err(StartError::system)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(ARGV0).env_clear().process_group(0);
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(StartError::system)?;
    drop(command);
    let mut answer = String::new();
    let sent = fd_passing::send(&ours, b"S", &streams.each_ref().map(AsFd::as_fd))
        .and_then(|()| guard::send_line(&mut ours, definition));
    match sent.and_then(|()| ours.read_to_string(&mut answer)) {
        Ok(0) => return Ok(child),
        Ok(_) => {}
        Err(error) => answer = serde_json::to_string(&StartError::system(error)).unwrap_or_default(),
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(serde_json::from_str(&answer).unwrap_or_else(|error| StartError::System(error.to_string())))
}

/// Runs this process as a stage. Returns only if the server was not executed.
pub(in crate::server) fn run() -> ExitCode {
    let Ok(control) = guard::control() else { return ExitCode::FAILURE };
    let Err(error) = execute(&control);
    let _ = guard::send_line(&mut &control, &error);
    ExitCode::FAILURE
}

fn execute(control: &UnixStream) -> Result<std::convert::Infallible, StartError> {
    let streams = guard::receive_streams(control).map_err(StartError::system)?;
    let mut definition: LaunchSpec = serde_json::Deserializer::from_reader(BufReader::new(control))
        .into_iter()
        .next()
        .and_then(Result::ok)
        .ok_or_else(|| StartError::System("the definition is not complete".to_owned()))?;
    let Some(restrictions) = definition.sandbox.take() else {
        return Err(StartError::System("no sandbox".to_owned()));
    };
    let rules = restrictions.domain.as_ref().and_then(|domain| domain.files.as_ref());
    let mut paths = files::Paths::default();
    if let Some(rules) = rules {
        files::create_private(rules).map_err(StartError::system)?;
        paths = files::paths(rules, &definition, &guard::find_program(&definition)?)?;
    }
    domain::restrict(&restrictions, &paths.read, &paths.write)
        .map_err(|error| StartError::Sandbox(error.to_string()))?;
    if let Some(rules) = rules {
        files::fill_private(rules, &mut definition.env).map_err(StartError::system)?;
    }
    let mut command = guard::command(&definition, streams)?;
    let error = command.exec();
    Err(guard::cannot_run(&command, &error))
}
