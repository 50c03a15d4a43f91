//! `mcpd doctor`: checks every part of the path of a call, in order, and prints the fix for each problem.
//!
//! It changes nothing without `--fix`. Every check has a time limit and works without a daemon. Checks read the `probe` and return a `finding`;
//! `page` prints the findings.

mod agents;
mod causes;
mod configuration;
mod daemon;
mod finding;
mod fix;
pub(super) mod page;
pub(super) mod probe;
mod programs;
mod remedy;
mod runtime;
mod servers;
mod system;
mod unit;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::ArgValueCandidates;

use self::finding::{Finding, Group, count};
use self::page::Signs;
use self::probe::{ConfiguredServer, Daemon, DaemonProbe, WrittenValue};
use self::servers::{ServerCheck, start_for_trial};
use super::client_entries::runtime_dir_options;
use super::style::OutputStyle;
use super::terminal::with_spinner;
use super::{CommandResult, FAILED, USAGE, completions, fail, try_print};
use crate::admin::report::Report;
use crate::config::interpolate::{Process, Sources};
use crate::config::notes::{NoteScope, Use, What};
use crate::config::{self, LoadedConfig, ServerConfig};
use crate::sockets::RuntimeDir;
use crate::suggest::hint;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Check only these servers, and everything that belongs to no server
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    servers: Vec<String>,
    /// Configuration file; repeatable [default: the files that the running daemon uses; if none runs, as for `mcpd serve`]
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// If no daemon runs, do not start servers to check them
    #[arg(long)]
    no_start: bool,
    /// Fix what has one certain remedy, after a confirmation: misspelt keys and commands, modes, missing directories, downloads that
    /// were cut off
    #[arg(long, conflicts_with = "json")]
    fix: bool,
    /// Fix without a confirmation
    #[arg(long, short, requires = "fix")]
    yes: bool,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// `given`: the value of `--runtime-dir`. `directory`: the resolved runtime directory.
pub(super) async fn run(arguments: &Arguments, given: Option<PathBuf>, directory: Option<RuntimeDir>) -> CommandResult {
    let options = runtime_dir_options(given.as_deref());
    let checked = async || {
        let checked = check(arguments, options.clone(), directory.clone());
        with_spinner(|| "checking".to_owned(), checked).await.map_err(|error| fail(USAGE, error))
    };
    let (mut groups, mut probe) = checked().await?;
    let (signs, style) = (Signs::of_stdout(), OutputStyle::of_stdout());
    let fix = probe.mcpd_with_files(&format!(
        "doctor{} --fix",
        arguments.servers.iter().map(|name| format!(" {name}")).collect::<String>()
    ));
    let printed = match arguments.json {
        true => page::print_json(&groups),
        false => try_print(page::render(&groups, &probe.path_owner(), &fix, signs, style)),
    };
    let mut code = printed.err().unwrap_or(ExitCode::SUCCESS);
    if code == ExitCode::SUCCESS
        && arguments.fix
        && let Some(succeeded) = fix::run(&groups, &probe, arguments.yes).await?
    {
        (groups, probe) = checked().await?;
        let left = try_print(page::render_left(&groups, &probe.path_owner(), &fix, signs, style));
        code = left.err().unwrap_or(ExitCode::from(if succeeded { 0 } else { FAILED }));
    }
    let (_, problems) = count(&groups);
    Ok(match code {
        ExitCode::SUCCESS if problems > 0 => ExitCode::from(FAILED),
        code => code,
    })
}

/// Returns the findings, and what was probed.
///
/// # Errors
/// If a requested server does not exist.
async fn check(
    arguments: &Arguments,
    options: Vec<String>,
    directory: Option<RuntimeDir>,
) -> Result<(Vec<Group>, DaemonProbe), String> {
    let mut probe = DaemonProbe::run(directory, options, &arguments.config).await;
    let loaded = config::load(&probe.files, &probe.sources);
    if let Ok(loaded) = &loaded {
        probe.servers = configured_servers(loaded);
        probe.first_list_wait = loaded.config.daemon.first_list_wait;
    }
    let probe = probe;
    let config = loaded.as_ref().ok().map(|loaded| &loaded.config);
    check_names(&arguments.servers, config.map(|config| &config.servers[..]), probe.report())?;
    let is_selected = |name: &str| arguments.servers.is_empty() || arguments.servers.iter().any(|one| one == name);
    let configured: Option<Vec<_>> =
        config.map(|config| config.servers.iter().filter(|server| is_selected(&server.name)).collect());
    let elsewhere = daemon::elsewhere(&probe);
    let may_start = !arguments.no_start && elsewhere.is_none();
    let all = configured.as_deref().unwrap_or_default();
    let (runtime, daemon, unit, mut programs, states) = tokio::join!(
        runtime::check(&probe, config),
        daemon::check(&probe, elsewhere.as_ref()),
        unit::check(&probe, loaded.as_ref().ok()),
        programs::check(&probe, all),
        server_states(&probe, &loaded, all, may_start),
    );
    let mut system = system::check(&probe);
    let mut configuration = configuration::check(&probe, &loaded);
    let servers = match states {
        Ok(states) => {
            let states: Vec<_> = states.into_iter().filter(|state| is_selected(&state.report.name)).collect();
            let mut servers = servers::check(&probe, &mut configuration, &states, configured.as_deref());
            programs::merge_missing(&mut programs, &mut servers);
            system.findings.extend(servers::default_limits(&states));
            servers
        }
        Err(finding) => Group { title: "servers", findings: vec![finding] },
    };
    let agents = agents::check(&probe, config);
    let groups = vec![system, runtime, daemon, unit, configuration, programs, servers, agents];
    Ok((groups, probe))
}

/// The configured servers and their places, by name.
fn configured_servers(loaded: &LoadedConfig) -> HashMap<String, ConfiguredServer> {
    let configured = |server: &ServerConfig| {
        let definition = loaded.definition(&server.name);
        (server.name.to_string(), ConfiguredServer { config: server.clone(), definition, command: None, cwd: None })
    };
    let mut servers: HashMap<_, _> = loaded.config.servers.iter().map(configured).collect();
    for note in loaded.notes() {
        let (NoteScope::Server(name), What::Text(used, template)) = (note.owner, &note.what) else { continue };
        let Some(server) = servers.get_mut(&**name) else { continue };
        let place = match used {
            Use::Command => &mut server.command,
            Use::Cwd => &mut server.cwd,
            _ => continue,
        };
        *place = Some(WrittenValue { place: note.address(), edit: note.edit(template.source().to_owned()) });
    }
    servers
}

/// The state of servers, from the daemon or from a trial start.
///
/// # Errors
/// A finding with the reason why they were not checked.
async fn server_states(
    probe: &DaemonProbe,
    loaded: &Result<LoadedConfig, config::ConfigError>,
    servers: &[&ServerConfig],
    may_start: bool,
) -> Result<Vec<ServerCheck>, Finding> {
    let unchecked = |why: &str| Finding::fine("servers", format!("not checked: {why}"));
    match (&probe.daemon, loaded) {
        (Daemon::Answers { report, .. }, _) => {
            Ok(report.servers.iter().map(|report| ServerCheck { report: report.clone(), trial: None }).collect())
        }
        (Daemon::Silent { .. }, _) => Err(unchecked("the daemon does not answer")),
        (Daemon::Absent, Err(_)) => Err(unchecked("the configuration is not valid")),
        (Daemon::Absent, Ok(_)) if !may_start => Err(unchecked("no daemon runs, and doctor starts no servers")),
        (Daemon::Absent, Ok(_)) => {
            let states = start_for_trial(servers, Process.current_dir().as_deref()).await;
            states.map_err(|error| Finding::problem("servers", error.to_string(), "`mcpd check`"))
        }
    }
}

/// Fails if a requested server is neither configured nor known to the daemon.
fn check_names(
    requested: &[String],
    configured: Option<&[ServerConfig]>,
    report: Option<&Report>,
) -> Result<(), String> {
    let configured_names = configured.into_iter().flatten().map(|server| &*server.name);
    let names: Vec<&str> =
        configured_names.chain(report.iter().flat_map(|report| &report.servers).map(|server| &*server.name)).collect();
    if configured.is_none() && report.is_none() {
        return Ok(());
    }
    match requested.iter().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(format!("there is no server `{}`{}", name.escape_debug(), hint(name, names))),
    }
}
