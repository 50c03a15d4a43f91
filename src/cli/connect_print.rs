//! `mcpd connect --print CLIENT`: prints the configuration entry for a client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::config_edit::OLD_ENTRIES;
use super::{FAILED, fail, print};
use crate::config::interpolate::Process;
use crate::known_clients::{Client, Program};
use crate::sockets::{RuntimeDir, SESSION_VARIABLE};

/// Prints the entry for `client` on stdout, and its file on stderr. `options`: what `mcpd connect` needs to find `directory`.
pub(super) fn run(client: &Client, options: &[String], directory: Option<&RuntimeDir>) -> ExitCode {
    let Some(command) = this_program() else { return fail(FAILED, "the path of this executable is not UTF-8") };
    let args = ["connect".to_owned()].into_iter().chain(options.iter().cloned()).collect();
    let program = Program { command, args, env: variables(directory) };
    let file =
        client.main_file(&Process).map_or_else(|| "its configuration".to_owned(), |file| file.display().to_string());
    print_note!("Add this entry to {file} ({}), and keep what the file already has:", client.title);
    let printed = print(client.entry(&program));
    if let Some(line) = client.command_line(&program) {
        print_note!("Or run this command, which adds the entry: {line}");
    }
    print_note!("{OLD_ENTRIES}");
    printed
}

/// The variable that `mcpd connect` needs to find `directory`. Clients do not pass `XDG_RUNTIME_DIR` on.
fn variables(directory: Option<&RuntimeDir>) -> BTreeMap<String, String> {
    let without_session = |name: &str| std::env::var_os(name).filter(|_| name != SESSION_VARIABLE);
    let is_found = RuntimeDir::resolve(None, without_session).is_ok_and(|found| Some(&found) == directory);
    let session = directory.and_then(RuntimeDir::session).filter(|_| !is_found).and_then(Path::to_str);
    session.map(|session| (SESSION_VARIABLE.to_owned(), session.to_owned())).into_iter().collect()
}

/// The options with which `mcpd connect` finds the same socket from any directory.
pub(super) fn options(runtime_dir: Option<&Path>) -> Vec<String> {
    let absolute =
        runtime_dir.and_then(|directory| std::path::absolute(directory).ok()?.into_os_string().into_string().ok());
    absolute.map(|directory| vec!["--runtime-dir".to_owned(), directory]).unwrap_or_default()
}

/// The absolute path of this program: its link on the PATH if there is one, since package managers move the file itself with each
/// version.
pub(super) fn this_program() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_this =
        |candidate: &PathBuf| candidate.is_absolute() && candidate.canonicalize().is_ok_and(|path| path == program);
    let found = std::env::split_paths(&path).map(|directory| directory.join("mcpd")).find(is_this);
    found.unwrap_or(program).into_os_string().into_string().ok()
}
