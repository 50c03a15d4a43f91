//! `mcpd doctor`: every part of the way that a call takes, looked at in that order, with what to do where something is wrong.
//!
//! Nothing is changed. Every look is bounded in time, and none needs a daemon: one that is not there, hangs, or is of another
//! version is something that is found. `finding` is what all of them make, `probe` what they look at, `page` shows it.

mod agents;
mod configuration;
mod daemon;
mod finding;
mod page;
pub(super) mod probe;
mod process;
mod program;
mod programs;
mod remedy;
mod remotes;
mod runtime;
mod servers;
mod trial;
mod unit;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::ArgValueCandidates;

use self::finding::{Finding, Group, count};
use self::page::Signs;
use self::probe::{Daemon, DaemonProbe};
use self::servers::Told;
use super::spinner::with_spinner;
use super::style::OutputStyle;
use super::{FAILED, USAGE, completions, connect_print, fail, try_print};
use crate::admin::report::Report;
use crate::config::interpolate::{Process, Sources};
use crate::config::{self, Loaded, ServerConfig};
use crate::sockets::RuntimeDir;
use crate::suggest::hint;

#[derive(Debug, clap::Args)]
pub(super) struct Wanted {
    /// Only these servers; what is no server's is looked at all the same
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    servers: Vec<String>,
    /// Configuration, as `mcpd serve --config FILE` takes it [default: what the running daemon serves, else as `mcpd serve`]
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Start no server to look at it, where no daemon runs
    #[arg(long)]
    no_start: bool,
    /// Print what is found as JSON
    #[arg(long)]
    json: bool,
}

/// `given` is the runtime directory that a person has named, `directory` the one that there is, if any.
pub(super) async fn run(wanted: &Wanted, given: Option<PathBuf>, directory: Option<RuntimeDir>) -> ExitCode {
    let options = connect_print::options(given.as_deref());
    let groups = match with_spinner(|| "looking".to_owned(), examine(wanted, options, directory)).await {
        Ok(groups) => groups,
        Err(refused) => return fail(USAGE, refused),
    };
    let printed = match wanted.json {
        true => page::print_json(&groups),
        false => try_print(page::render(&groups, Signs::of_stdout(), OutputStyle::of_stdout())),
    };
    let (_, problems) = count(&groups);
    match printed {
        Err(code) if code != ExitCode::SUCCESS => code,
        _ if problems > 0 => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    }
}

/// # Errors
/// If there is no server of a name that is wanted.
async fn examine(wanted: &Wanted, options: Vec<String>, directory: Option<RuntimeDir>) -> Result<Vec<Group>, String> {
    let mut probe = DaemonProbe::run(directory, options, &wanted.config).await;
    let loaded = config::load(&probe.files, &probe.sources);
    probe.definitions = definitions(&loaded);
    let probe = probe;
    let config = loaded.as_ref().ok().map(|loaded| &loaded.config);
    known(wanted, config.map(|config| &config.servers[..]), probe.report())?;
    let is_wanted = |name: &str| wanted.servers.is_empty() || wanted.servers.iter().any(|wanted| wanted == name);
    let configured: Option<Vec<_>> =
        config.map(|config| config.servers.iter().filter(|server| is_wanted(&server.name)).collect());
    let elsewhere = daemon::elsewhere(&probe);
    let may_start = !wanted.no_start && elsewhere.is_none();
    let all = configured.as_deref().unwrap_or_default();
    let (runtime, daemon, unit, programs, told) = tokio::join!(
        runtime::check(&probe, config),
        daemon::check(&probe, elsewhere.as_ref()),
        unit::check(&probe, loaded.as_ref().ok()),
        programs::check(&probe, all),
        told(&probe, &loaded, all, may_start),
    );
    let servers = match told {
        Ok(told) => {
            let told: Vec<_> = told.into_iter().filter(|told| is_wanted(&told.report.name)).collect();
            servers::check(&probe, &told, configured.as_deref())
        }
        Err(finding) => Group { title: "servers", findings: vec![finding] },
    };
    let configuration = configuration::check(&probe, &loaded);
    Ok(vec![program::check(), runtime, daemon, unit, configuration, programs, servers, agents::check(&probe, config)])
}

/// Where each server is configured, by its name.
fn definitions(loaded: &Result<Loaded, config::ConfigError>) -> HashMap<String, config::Definition> {
    let loaded = loaded.iter();
    let named = loaded.flat_map(|loaded| {
        loaded
            .config
            .servers
            .iter()
            .filter_map(|server| Some((server.name.to_string(), loaded.definition(&server.name)?)))
    });
    named.collect()
}

/// How servers are: by the daemon, or by starting them.
///
/// # Errors
/// That they are not looked at, and why.
async fn told(
    probe: &DaemonProbe,
    loaded: &Result<Loaded, config::ConfigError>,
    servers: &[&ServerConfig],
    may_start: bool,
) -> Result<Vec<Told>, Finding> {
    let not = |why: &str| Finding::fine("servers", format!("not looked at: {why}"));
    match (&probe.daemon, loaded) {
        (Daemon::Answers { report, .. }, _) => {
            Ok(report.servers.iter().map(|report| Told { report: report.clone(), trial: None }).collect())
        }
        (Daemon::Silent { .. }, _) => Err(not("the daemon that has them does not answer")),
        (Daemon::Absent, Err(_)) => Err(not("the configuration is not valid")),
        (Daemon::Absent, Ok(_)) if !may_start => Err(not("none is started for it")),
        (Daemon::Absent, Ok(loaded)) => {
            let at_once = loaded.config.daemon.max_starting;
            let tried = trial::run(servers, Process.current_dir().as_deref(), at_once).await;
            tried.map_err(|error| Finding::problem("servers", error.to_string(), "`mcpd check`"))
        }
    }
}

/// Whether there are servers of all names that are wanted.
fn known(wanted: &Wanted, configured: Option<&[ServerConfig]>, report: Option<&Report>) -> Result<(), String> {
    let configured_names = configured.into_iter().flatten().map(|server| &*server.name);
    let names: Vec<&str> =
        configured_names.chain(report.iter().flat_map(|report| &report.servers).map(|server| &*server.name)).collect();
    if configured.is_none() && report.is_none() {
        return Ok(());
    }
    match wanted.servers.iter().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(format!("there is no server `{}`{}", name.escape_debug(), hint(name, names))),
    }
}
