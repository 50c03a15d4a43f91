//! What the commands that edit the configuration have in common.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{block_on, reload};
use crate::config;
use crate::config::interpolate::Process;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// The file to edit: the one that was named, else the user's.
///
/// # Errors
/// If it is not in the format of our own, or there is none.
pub(super) fn our_file(named: Option<&Path>) -> Result<PathBuf, String> {
    let path = named.map(Path::to_owned).or_else(|| config::default_path(&Process));
    let path = path.ok_or("no home directory: name a file with `--file FILE`")?;
    match path.extension().is_some_and(|name| name == "json" || name == "jsonc") {
        true => Err(format!(
            "{}: only files in the format of mcpd itself are edited, not those of other clients",
            path.display()
        )),
        false => Ok(path),
    }
}

/// The directory of secrets that are moved out of the configuration at `path`: beside it as it is named, wherever a symbolic
/// link leads, since what that leads to may be published.
pub(super) fn secrets_of(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).with_file_name("secrets")
}

/// Has a running daemon take over what was edited, if that is wanted; else says how.
pub(super) fn next_step(directory: Option<RuntimeDir>, wanted: bool) -> ExitCode {
    let running = directory.filter(|directory| UnixStream::connect(directory.socket(ADMIN_SOCKET)).is_ok());
    match running {
        Some(directory) if wanted => block_on(reload::run(&directory, false)),
        Some(_) => {
            eprintln!("mcpd: the running daemon takes it over with `mcpd reload`");
            ExitCode::SUCCESS
        }
        None => ExitCode::SUCCESS,
    }
}
