//! The program of a server with everything that starting it needs, and the search for it on the server's `PATH`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::sandbox::Restrictions;
use super::start_error::StartError;
use crate::config::command_line::{cr_complaint, interpreter_with_cr, mistaken_for_program};
use crate::config::interpolate::{Process, Sources};

/// Bytes of a program that are searched for its interpreter.
const MAX_FIRST_LINE: u64 = 256;

/// How to start a server. Its secrets are sent over the socket, so they never appear in an argument list.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct LaunchSpec {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// The server's whole environment.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    /// Whether an agent has stated it. Then no link on the way may be one that a server or a guest could have put there.
    pub(crate) cwd_is_stated: bool,
    /// The umask that mcpd was started with, if mcpd has changed it.
    pub(crate) umask: Option<u32>,
    /// The soft limit of open files that mcpd was started with, if mcpd has raised it.
    pub(crate) open_files: Option<u64>,
    /// The soft limit of core files that mcpd was started with.
    pub(crate) core_size: Option<u64>,
    /// Maximum number of processes and threads, which the server's user namespace counts.
    pub(crate) tasks_max: Option<usize>,
    /// `None` starts the server without a sandbox.
    pub(crate) sandbox: Option<Restrictions>,
    /// A command that runs in the place of the server, in its sandbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) instead: Vec<String>,
}

impl LaunchSpec {
    /// Whether the server gets namespaces of its own.
    pub(super) fn has_namespaces(&self) -> bool {
        self.sandbox.as_ref().is_some_and(|sandbox| sandbox.namespaces.is_some())
    }
}

/// The command that runs the server, in its own process group.
pub(super) fn command(spec: &LaunchSpec, [stdin, stdout, stderr]: [OwnedFd; 3]) -> Result<Command, StartError> {
    let mut command = Command::new(find_program(spec)?);
    command.arg0(&spec.command).args(&spec.args).env_clear().envs(&spec.env);
    command.current_dir(&spec.cwd).process_group(0);
    command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    Ok(command)
}

/// Refuses a script that starts no interpreter: with `env`, the system reports only an exit code.
fn refuse_unfit_script(program: &Path) -> Result<(), StartError> {
    let mut start = Vec::new();
    // The start itself reports files that cannot be read.
    let file = Some(program).filter(|program| program.is_file()).map(File::open);
    let _ = file.and_then(Result::ok).map(|file| file.take(MAX_FIRST_LINE).read_to_end(&mut start));
    let Some(interpreter) = interpreter_with_cr(&start) else { return Ok(()) };
    let (complaint, help) = cr_complaint(interpreter, program);
    Err(StartError::ExecRefused { program: program.to_owned(), error: format!("it {complaint}; {help}") })
}

pub(super) fn cannot_run(command: &Command, error: &io::Error) -> StartError {
    StartError::of_execution(Path::new(command.get_program()), error)
}

/// The file to execute: `command` if it contains a `/`, or else the first executable of that name in the server's `PATH`.
pub(super) fn find_program(spec: &LaunchSpec) -> Result<PathBuf, StartError> {
    if !spec.cwd.is_dir() {
        return Err(StartError::NoWorkingDirectory(spec.cwd.clone()));
    }
    let command = &spec.command;
    let not_found = |path: Option<&str>| match mistaken_for_program(command) {
        Some(text) => StartError::CommandLine(text),
        None => StartError::CommandNotFound { command: command.clone(), path: path.map(str::to_owned) },
    };
    let program = if command.contains('/') {
        let path = spec.cwd.join(command);
        if path.exists() { path } else { return Err(not_found(None)) }
    } else {
        let path = spec.env.get("PATH").map_or("", String::as_str);
        Process.on_path_from(&spec.cwd, command, path).ok_or_else(|| not_found(Some(path)))?
    };
    refuse_unfit_script(&program)?;
    Ok(program)
}
