//! The sandbox stage of a start: a process that restricts itself and then becomes the server.
//!
//! The guard re-executes itself under the name [`ARGV0`]. The stage's standard input is a socket to the guard, which sends it the
//! server's three standard streams and the [`LaunchSpec`], so no secret appears in an argument list. The stage sends [`READY`],
//! and the socket closes when the server is executed. Otherwise the stage sends the error.

use std::convert::Infallible;
use std::ffi::CString;
use std::io::{BufRead, BufReader, Read, Write};
use std::iter;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use nix::unistd::execve;
use signal_hook::consts::SIGPIPE;

use super::domain;
use super::files::{self, Paths};
use crate::server::fd_passing;
use crate::server::launch_spec::{LaunchSpec, find_program};
use crate::server::start_error::StartError;

/// The process name of a stage, by which `main` recognizes one.
pub(in crate::server) const ARGV0: &str = "mcpd-sandbox";

/// Sent immediately before the server is executed.
const READY: u8 = b'R';

/// Starts a stage in a process group of its own, and waits until it has become the server.
pub(in crate::server) fn spawn(spec: &LaunchSpec, streams: &[OwnedFd; 3]) -> Result<Child, StartError> {
    let (mut ours, theirs) = UnixStream::pair().map_err(StartError::system)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(ARGV0).env_clear().process_group(0);
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(StartError::system)?;
    drop(command);
    let mut answer = Vec::new();
    let sent = fd_passing::send_streams(&ours, streams).and_then(|()| fd_passing::send_line(&mut ours, spec));
    match sent.and_then(|()| ours.read_to_end(&mut answer)) {
        Ok(_) if answer == [READY] => return Ok(child),
        Ok(_) => {}
        Err(error) => answer = serde_json::to_vec(&StartError::system(error)).unwrap_or_default(),
    }
    let _ = child.kill();
    let _ = child.wait();
    let error = answer.strip_prefix(&[READY]).unwrap_or(&answer);
    let unexplained = |_| StartError::system("the process that applies the sandbox ended without a reason");
    Err(serde_json::from_slice(error).unwrap_or_else(unexplained))
}

/// Runs this process as a stage. Returns only if the server was not executed.
pub(in crate::server) fn run() -> ExitCode {
    let Ok(socket) = fd_passing::inherited_socket() else { return ExitCode::FAILURE };
    let Err(error) = execute(&socket);
    let _ = fd_passing::send_line(&mut &socket, &error);
    ExitCode::FAILURE
}

fn execute(socket: &UnixStream) -> Result<Infallible, StartError> {
    let [stdin, stdout, stderr] = fd_passing::receive_streams(socket).map_err(StartError::system)?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).map_err(StartError::system)?;
    let mut spec: LaunchSpec = serde_json::from_str(&line).map_err(StartError::system)?;
    let restrictions = spec.sandbox.take().ok_or_else(|| StartError::system("no sandbox"))?;
    let rules = restrictions.domain.as_ref().and_then(|domain| domain.files.as_ref());
    if let Some(rules) = rules {
        files::create_private(rules).map_err(StartError::system)?;
    }
    let program = find_program(&spec)?;
    let paths = rules.map_or_else(|| Ok(Paths::default()), |rules| files::paths(rules, &spec, &program))?;
    domain::restrict(&restrictions, &paths.read, &paths.write)
        .map_err(|error| StartError::Sandbox(error.to_string()))?;
    if let Some(rules) = rules {
        files::fill_private(rules, &mut spec.env).map_err(StartError::system)?;
    }
    let [path, command] = [program.as_os_str().as_bytes(), spec.command.as_bytes()].map(c_string);
    let (path, command) = (path?, command?);
    let args: Vec<_> = spec.args.iter().map(|argument| c_string(argument.as_bytes())).collect::<Result<_, _>>()?;
    let args: Vec<_> = iter::once(command).chain(args).collect();
    let env = spec.env.iter().map(|(name, value)| c_string(format!("{name}={value}").as_bytes()));
    let env: Vec<_> = env.collect::<Result<_, _>>()?;

    rustix::process::chdir(&spec.cwd).map_err(StartError::system)?;
    rustix::stdio::dup2_stdin(stdin).map_err(StartError::system)?;
    rustix::stdio::dup2_stdout(stdout).map_err(StartError::system)?;
    rustix::stdio::dup2_stderr(stderr).map_err(StartError::system)?;
    // `exec` resets handlers to the default, and the runtime of Rust ignores this signal.
    signal_hook::flag::register(SIGPIPE, Arc::default()).map_err(StartError::system)?;
    (&mut &*socket).write_all(&[READY]).map_err(StartError::system)?;
    // Not `Command::exec`: its `execvp` runs a file of unknown format (ENOEXEC) with `/bin/sh`.
    let Err(error) = execve(&path, &args, &env);
    Err(StartError::of_execution(&program, &error.into()))
}

/// Does not fail for text of the configuration, which permits no NUL.
fn c_string(bytes: &[u8]) -> Result<CString, StartError> {
    CString::new(bytes).map_err(StartError::system)
}
