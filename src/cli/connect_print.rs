//! `mcpd connect --print CLIENT`: prints the configuration entries for a client.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::agent::ProfileArg;
use super::config_edit::OLD_ENTRIES;
use super::connect::Arguments;
use super::{FAILED, USAGE, fail, print, start_failure};
use crate::config::interpolate::Process;
use crate::config::{self, LoadedConfig};
use crate::http_listener::token;
use crate::known_clients::{Client, Program};
use crate::sockets::{ADMIN_SOCKET, ExpectedListener, RuntimeDir, SESSION_VARIABLE};
use crate::{admin, autostart};

/// Prints the entries for `client` on stdout, and its file on stderr. `given`: the runtime directory on the command line.
pub(super) fn run(
    client: &Client,
    arguments: &Arguments,
    given: Option<&Path>,
    directory: Option<&RuntimeDir>,
) -> ExitCode {
    if arguments.http {
        return print_http(client, arguments, directory);
    }
    let Some(command) = this_program() else { return fail(FAILED, "the path of this executable is not UTF-8") };
    let options = [options(given), arguments.profile.options()].concat();
    let program = |server: Option<&str>| {
        let face = server.map(|server| ["--server".to_owned(), server.to_owned()]);
        let args = ["connect".to_owned()].into_iter().chain(options.clone()).chain(face.into_iter().flatten());
        let name = server.unwrap_or("mcpd").to_owned();
        Program { name, command: command.clone(), args: args.collect(), env: variables(directory) }
    };
    let programs: Vec<_> = if arguments.each {
        match servers(&arguments.profile, directory) {
            Ok(servers) => servers.iter().map(|server| program(Some(server))).collect(),
            Err(code) => return code,
        }
    } else {
        vec![program(arguments.server.as_deref())]
    };
    let file =
        client.main_file(&Process).map_or_else(|| "its configuration".to_owned(), |file| file.display().to_string());
    let what = if programs.len() == 1 { "this entry" } else { "these entries" };
    print_note!("Add {what} to {file} ({}), and keep what the file already has:", client.title);
    let printed = print(client.entries(&programs));
    let lines: Vec<_> = programs.iter().filter_map(|program| client.command_line(program)).collect();
    match &lines[..] {
        [] => {}
        [line] => print_note!("Or run this command, which adds the entry: {line}"),
        lines => print_note!("Or run these commands, which add the entries:\n{}", lines.join("\n")),
    }
    print_note!("{OLD_ENTRIES}");
    warn_unknown(&arguments.profile, directory);
    printed
}

/// Prints the entries with which `client` connects over HTTP.
fn print_http(client: &Client, arguments: &Arguments, directory: Option<&RuntimeDir>) -> ExitCode {
    let profile = &arguments.profile;
    let socket = match directory.map(|directory| profile.socket(directory)) {
        Some(Ok(socket)) => socket,
        Some(Err(code)) => return code,
        None => return fail(USAGE, "there is no runtime directory: use `--runtime-dir`"),
    };
    let servers = match arguments.each.then(|| servers(profile, directory)).transpose() {
        Ok(servers) => servers.unwrap_or_default(),
        Err(code) => return code,
    };
    let paths: Vec<_> = match (&arguments.server, &servers[..]) {
        (Some(server), _) => vec![(server.clone(), format!("/servers/{server}"))],
        (None, []) => vec![("mcpd".to_owned(), "/mcp".to_owned())],
        (None, all) => all.iter().map(|server| (server.clone(), format!("/servers/{server}"))).collect(),
    };
    let at = |base: &str| paths.iter().map(|(name, path)| (name.clone(), format!("{base}{path}"))).collect::<Vec<_>>();
    let entries = if client.opens_unix_sockets() {
        client.url_entries(&at(&format!("unix://{}#", socket.display())), None)
    } else {
        let Some(address) = loopback_address(profile, directory) else {
            let table = format!("[profiles.{}]", profile.name());
            let help = format!("add `http = \"127.0.0.1:7780\"` to `{table}`, then run `mcpd reload`");
            return fail(USAGE, format!("the profile `{}` is not served over HTTP: {help}", profile.name()));
        };
        match token::read_or_create(profile.name()) {
            Ok(token) => client.url_entries(&at(&format!("http://{address}")), Some(&token)),
            Err(error) => return fail(FAILED, error),
        }
    };
    let Some(entries) = entries else {
        let title = client.title;
        return fail(USAGE, format!("{title} launches its servers; use `mcpd connect --print {}`", client.word));
    };
    let file =
        client.main_file(&Process).map_or_else(|| "its configuration".to_owned(), |file| file.display().to_string());
    let what = if paths.len() == 1 { "this entry" } else { "these entries" };
    print_note!("Add {what} to {file} ({}), and keep what the file already has:", client.title);
    print(entries)
}

/// The loopback address of a profile: of the daemon if one runs, else as configured.
fn loopback_address(profile: &ProfileArg, directory: Option<&RuntimeDir>) -> Option<String> {
    let mut report = None;
    super::block_on(async {
        if let Some(directory) = directory {
            report = admin::status(&directory.socket(ADMIN_SOCKET)).await.ok();
        }
        ExitCode::SUCCESS
    });
    match report {
        Some(report) => report.profiles.into_iter().find(|known| known.name == profile.name())?.http,
        None => {
            let LoadedConfig { config, .. } = config::load(&[], &Process).ok()?;
            let known = config.profiles.iter().find(|known| *known.name == *profile.name())?;
            known.http.map(|address| address.to_string())
        }
    }
}

/// Warns that neither the configuration nor the running daemon has the profile.
fn warn_unknown(profile: &ProfileArg, directory: Option<&RuntimeDir>) {
    let Ok(LoadedConfig { config, .. }) = config::load(&[], &Process) else { return };
    let mut known: BTreeSet<String> = directory.map(RuntimeDir::profiles).into_iter().flatten().collect();
    known.extend(config.profiles.iter().map(|known| known.name.to_string()));
    if profile.daemon() == ExpectedListener::OwnDaemon && !known.contains(profile.name()) {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        print_note!("warning: the configuration has no profile `{}`; it has: {known}", profile.name());
    }
}

/// The servers of the profile, from the daemon, which is started if none runs. An error is printed.
fn servers(profile: &ProfileArg, directory: Option<&RuntimeDir>) -> Result<Vec<String>, ExitCode> {
    if profile.daemon() != ExpectedListener::OwnDaemon {
        let message = "`--each` needs the user who runs the daemon; print each entry with `--server NAME` instead";
        return Err(fail(USAGE, message));
    }
    let Some(directory) = directory else {
        return Err(fail(USAGE, "there is no runtime directory: use `--runtime-dir`"));
    };
    let mut found = Vec::new();
    let listed = super::block_on(async {
        if let Err(error) = autostart::ensure(directory).await {
            return start_failure(&error);
        }
        match admin::status(&directory.socket(ADMIN_SOCKET)).await {
            Ok(report) => match report.profiles.into_iter().find(|known| known.name == profile.name()) {
                Some(known) => found = known.servers,
                None => return profile.unknown(directory),
            },
            Err(error) => return fail(FAILED, error),
        }
        ExitCode::SUCCESS
    });
    match &found[..] {
        _ if listed != ExitCode::SUCCESS => Err(listed),
        [] => Err(fail(FAILED, "the profile has no servers; `mcpd add` adds one")),
        _ => Ok(found),
    }
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
