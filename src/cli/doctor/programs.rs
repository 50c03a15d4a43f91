//! The commands of servers, searched on the PATH that the daemon gives them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;
use tokio::time::timeout;

use super::finding::{Finding, Fix, Group};
use super::probe::{Change, DaemonProbe, Host};
use super::remedy::{again, missing_command};
use crate::cli::service_env::lasting;
use crate::cli::text::{SEARCHED, join_limited, split_searched_path};
use crate::client_files::Syntax;
use crate::config::diagnostic::Edit;
use crate::config::interpolate::{Process, Sources};
use crate::config::serialize::toml_string;
use crate::config::{Program, ServerConfig};
use crate::config_lints;
use crate::suggest::only_misspelt;

/// Until a program prints its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes read of a script's first line, as many as the kernel reads. Source: execve(2).
const MAX_FIRST_LINE: u64 = 256;
/// Servers that a finding names.
const MAX_NAMED: usize = 5;
/// Oldest Node.js version that current servers support.
const MIN_NODE: u32 = 18;
/// Programs that run other programs: name, arguments that print the version, interpreter of the program itself.
const RUNNERS: [(&str, &[&str], Option<&str>); 9] = [
    ("npx", &["--version"], Some("node")),
    ("node", &["--version"], None),
    ("uvx", &["--version"], None),
    ("uv", &["--version"], None),
    ("bunx", &["--version"], None),
    ("bun", &["--version"], None),
    ("deno", &["--version"], None),
    ("docker", &["version", "--format", "{{.Server.Version}}"], None),
    ("podman", &["--version"], None),
];

/// A program that runs servers.
struct ServerProgram<'a> {
    path: PathBuf,
    /// The path with secrets masked.
    shown: String,
    /// Its own PATH.
    search: String,
    servers: Vec<&'a str>,
}

pub(super) async fn check(probe: &DaemonProbe, servers: &[&ServerConfig]) -> Group {
    let (mut findings, mut programs) = (Vec::new(), Vec::new());
    for server in servers {
        let Some(program) = server.launch.as_ref().ok().and_then(|launch| launch.program()) else { continue };
        let written = program.secrets.masked(&program.command);
        match config_lints::unfound(program, &written, Syntax::Toml, &probe.sources) {
            Some(complaint) => findings.push(unfound(server, program, complaint, probe).await),
            None => add(&mut programs, &server.name, program, probe),
        }
    }
    let found = join_all(programs.iter().map(check_program)).await;
    findings.extend(shell_only(probe, servers).await);
    Group { title: "commands of servers", findings: found.into_iter().flatten().chain(findings).collect() }
}

fn add<'a>(programs: &mut Vec<ServerProgram<'a>>, server: &'a str, program: &Program, probe: &DaemonProbe) {
    let search = program.search_path(&probe.sources);
    let path = match program.command.contains('/') {
        true => Some(PathBuf::from(&program.command)),
        false => probe.sources.on_path(&program.command, &search),
    };
    // A path that depends on the agent is not known here.
    let Some(path) = path.filter(|path| path.is_absolute()) else { return };
    match programs.iter_mut().find(|known| known.path == path && known.search == search) {
        Some(known) => known.servers.push(server),
        None => {
            let shown = program.secrets.masked(&path.to_string_lossy());
            programs.push(ServerProgram { path, shown, search, servers: vec![server] });
        }
    }
}

async fn unfound(
    server: &ServerConfig,
    program: &Program,
    (complaint, help): (String, String),
    probe: &DaemonProbe,
) -> Finding {
    let command = config_lints::shown(program);
    let found = format!("command `{command}` {complaint}");
    let again = again(probe, &server.name);
    let mut fix = None;
    let advice = match on_another_path(program, probe).await {
        Some(advice) => advice,
        None if let Some(meant) = misspelt(program, probe) => {
            let (written, definition) = (toml_string(&meant), probe.definition(&server.name));
            let edit = probe.servers.get(&*server.name).and_then(|server| server.command.as_ref()?.edit.clone());
            fix = edit.map(|edit| Fix::Edit(Edit { text: written.clone(), ..edit }));
            let reload = probe.after(Change::Configuration, &server.name);
            format!("did you mean `{meant}`? Write `command = {written}` in {definition}; then {reload}")
        }
        None if is_missing(program) => missing_command(probe, &server.name, &again),
        None => format!("{help}; then {again}"),
    };
    Finding::problem(&*server.name, found, advice).defined(probe.place(&server.name)).with_fix(fix)
}

/// The only program on the PATH whose name the command may be a misspelling of.
fn misspelt(program: &Program, probe: &DaemonProbe) -> Option<String> {
    let command = &program.command;
    if command.contains('/') || RUNNERS.iter().any(|(runner, ..)| runner == command) {
        return None;
    }
    let path = program.search_path(&probe.sources);
    let directories = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let names = directories.flat_map(|directory| {
        let names = Process.list(&directory).unwrap_or_default();
        names.into_iter().filter(move |name| Process.is_program(&directory.join(name)))
    });
    let names: BTreeSet<_> = names.collect();
    only_misspelt(command, names.iter().map(String::as_str)).map(str::to_owned)
}

/// Whether the command is a name, or the absolute path of a file that does not exist.
fn is_missing(Program { command, .. }: &Program) -> bool {
    !command.contains('/') || (command.starts_with('/') && !Process.exists(Path::new(command)))
}

/// Merges each finding about a missing command into the finding that the server is down because of it.
pub(super) fn merge_missing(programs: &mut Group, servers: &mut Group) {
    for server in &mut servers.findings {
        if server.code.as_deref() != Some("command_not_found") {
            continue;
        }
        let is_same = |finding: &Finding| finding.about == server.about && finding.verdict.word() == "problem";
        let Some(index) = programs.findings.iter().position(is_same) else { continue };
        let program = programs.findings.remove(index);
        if let Some(path) = split_searched_path(&program.found).1 {
            server.found += &format!("{SEARCHED}{path}");
        }
        (server.verdict, server.fix) = (program.verdict, program.fix);
    }
}

/// Warns about commands that this shell finds, but a daemon that an agent starts with the login environment does not.
async fn shell_only(probe: &DaemonProbe, servers: &[&ServerConfig]) -> Vec<Finding> {
    let of_this_shell = Process.var("PATH").unwrap_or_default();
    let mut findings = Vec::new();
    for server in servers {
        let Some(program) = server.launch.as_ref().ok().and_then(|launch| launch.program()) else { continue };
        if !probe.starts_with_login_path() || program.command.contains('/') || program.env.contains_key("PATH") {
            continue;
        }
        let Some(file) = Process.on_path(&program.command, &of_this_shell) else { continue };
        let Some(path) = login_path(probe).await.filter(|path| Process.on_path(&program.command, path).is_none())
        else {
            continue;
        };
        let found = format!(
            "command `{}` is {}, which is on the PATH of this shell, but not of the login shell",
            config_lints::shown(program),
            file.display()
        );
        let advice = format!(
            "write `command = \"{}\"`: a daemon that an agent starts searches the PATH of the login shell: {path}",
            file.display()
        );
        findings.push(Finding::warning(&*server.name, found, advice).defined(probe.place(&server.name)));
    }
    findings
}

/// The advice for a command that is not on the daemon's PATH, but on the PATH of this shell or of the login environment.
async fn on_another_path(program: &Program, probe: &DaemonProbe) -> Option<String> {
    let uses_daemons_path =
        probe.sources.is_daemons() && !program.command.contains('/') && !program.env.contains_key("PATH");
    if !uses_daemons_path {
        return None;
    }
    let find = |path: &str| std::path::absolute(Process.on_path(&program.command, path)?).ok();
    let of_this_shell = Process.var("PATH").unwrap_or_default();
    let command = probe.after(Change::Environment, "");
    let login = login_path(probe).await;
    let path = match probe.host() {
        // The unit's file stays as it is if the login shell does not answer.
        Host::Unit if probe.login().await.trouble.is_some() => None,
        Host::Unit => login.map(|path| lasting(&path)),
        Host::ByHand => Some(of_this_shell.clone()),
        _ => Some(format!("{of_this_shell}:{}", login.unwrap_or_default())),
    };
    if let Some(file) = path.and_then(|path| find(&path)) {
        let file = file.display();
        return Some(format!("it is {file}, outside the daemon's PATH: {command}; or write `command = \"{file}\"`"));
    }
    let file = find(&of_this_shell)?;
    let directory = file.parent().unwrap_or(&file).display();
    let file = file.display();
    Some(format!(
        "it is {file}, outside the daemon's PATH: write `command = \"{file}\"`; \
         or add {directory} to PATH in the profile of your login shell, then {command}"
    ))
}

async fn login_path(probe: &DaemonProbe) -> Option<String> {
    let path = probe.login().await.variables.get(OsStr::new("PATH"))?;
    Some(path.to_string_lossy().into_owned())
}

async fn check_program(program: &ServerProgram<'_>) -> Vec<Finding> {
    let shown = &program.shown;
    let name = shown.rsplit('/').next().unwrap_or_default().to_owned();
    let of = of_servers(&program.servers);
    if let Some(interpreter) = missing_interpreter(&program.path, &program.search) {
        let found = format!("{shown} needs the interpreter `{interpreter}`, which is not found; {of}");
        return vec![Finding::problem(&name, found, format!("install {interpreter}, or reinstall {name}"))];
    }
    let Some((_, words, runs_by)) = RUNNERS.iter().find(|(runner, ..)| *runner == name) else {
        return vec![Finding::fine(name, format!("{shown}; {of}"))];
    };
    let mut findings = vec![check_runner(&name, &program.path, words, &program.search, &of).await];
    if let Some(by) = runs_by.and_then(|by| Process.on_path(by, &program.search)) {
        let (name, of) = (runs_by.unwrap_or_default(), format!("runs {name}"));
        findings.push(check_runner(name, &by, &["--version"], &program.search, &of).await);
    }
    findings
}

/// The version of a program that runs other programs.
async fn check_runner(name: &str, path: &Path, words: &[&str], search: &str, of: &str) -> Finding {
    let shown = path.display();
    let line = format!("`{shown} {}`", words.join(" "));
    match first_line_of(path, words, search).await {
        Ok(version) if name == "node" && node_major(&version).is_some_and(|major| major < MIN_NODE) => {
            Finding::warning(
                name,
                format!("{shown}, version {version}; {of}"),
                format!("install Node.js {MIN_NODE} or newer: current servers do not run on this version"),
            )
        }
        Ok(version) => Finding::fine(name, format!("{shown}, version {version}; {of}")),
        Err(reason) if name == "docker" => Finding::problem(
            name,
            format!("{shown} does not reach its own daemon: {reason}; {of}"),
            format!("`systemctl start docker`, and add this user to the group `docker`, until {line} prints a version"),
        ),
        Err(reason) => {
            Finding::warning(name, format!("{shown} prints no version: {reason}; {of}"), format!("run {line}"))
        }
    }
}

fn of_servers(servers: &[&str]) -> String {
    let servers = join_limited(servers, MAX_NAMED);
    format!("used by {} {servers}", if servers.contains(' ') { "servers" } else { "server" })
}

/// The first line that a program prints, or a reason on one line if it fails.
async fn first_line_of(path: &Path, words: &[&str], search: &str) -> Result<String, String> {
    let mut command = Command::new(path);
    command.args(words).env("PATH", search).stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let Ok(output) = timeout(VERSION_TIMEOUT, child.wait_with_output()).await else {
        // The child was not reaped, so its group still exists. The signal also ends the child's own children.
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        return Err(format!("no output within {}", crate::duration::format(VERSION_TIMEOUT)));
    };
    let output = output.map_err(|error| error.to_string())?;
    let first =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().find(|line| !line.trim().is_empty()).map(str::to_owned);
    match output.status.success() {
        true => Ok(first(&output.stdout).unwrap_or_default().trim().to_owned()),
        false => Err(first(&output.stderr).unwrap_or_else(|| output.status.to_string())),
    }
}

/// The major version in the output of `node --version`.
fn node_major(version: &str) -> Option<u32> {
    version.trim_start_matches('v').split('.').next()?.parse().ok()
}

/// The interpreter that the first line of a script names, if it does not exist. Source: execve(2), "Interpreter scripts".
fn missing_interpreter(script: &Path, search: &str) -> Option<String> {
    let mut first = Vec::new();
    File::open(script).ok()?.take(MAX_FIRST_LINE).read_to_end(&mut first).ok()?;
    let (interpreter, name) = interpreter(&String::from_utf8_lossy(&first))?;
    let is_there = match &name {
        Some(name) => Process.on_path(name, search).is_some(),
        None => Process.is_program(Path::new(&interpreter)),
    };
    (!is_there).then(|| name.unwrap_or(interpreter))
}

/// The interpreter's path in the first line, and the program that `env` searches on the PATH.
fn interpreter(first: &str) -> Option<(String, Option<String>)> {
    let mut words = first.lines().next()?.strip_prefix("#!")?.split_whitespace();
    let interpreter = words.next()?.to_owned();
    let is_env = Path::new(&interpreter).file_name().is_some_and(|name| name == "env");
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='));
    Some((interpreter, name.filter(|_| is_env).map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_names_the_interpreter() {
        for (first, expected) in [
            ("#!/bin/sh\nx", Some(("/bin/sh", None))),
            ("#! /opt/venv/bin/python3 -u\n", Some(("/opt/venv/bin/python3", None))),
            ("#!/usr/bin/env node\n", Some(("/usr/bin/env", Some("node")))),
            ("#!/usr/bin/env -S A=1 deno run\n", Some(("/usr/bin/env", Some("deno")))),
            ("\u{7f}ELF", None),
            ("#!", None),
            ("", None),
        ] {
            let found = interpreter(first);
            let found = found.as_ref().map(|(path, name)| (&**path, name.as_deref()));
            assert_eq!(found, expected, "{first:?}");
        }
    }

    #[test]
    fn major_version_of_node_is_parsed() {
        for (version, major) in [("v22.3.0", Some(22)), ("16.1", Some(16)), ("", None), ("node", None)] {
            assert_eq!(node_major(version), major, "{version}");
        }
    }

    #[test]
    fn five_servers_are_named_and_the_others_counted() {
        assert_eq!(of_servers(&["a"]), "used by server a");
        assert_eq!(of_servers(&["a", "b"]), "used by servers a, b");
        assert_eq!(of_servers(&["a"; 7]), "used by servers a, a, a, a, a and 2 more");
    }
}
