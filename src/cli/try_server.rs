//! `mcpd try`: runs a server that is not configured in a place that is thrown away, and prints a receipt of what it touches and offers.
//! `--keep` adds it to the configuration with the grants that the receipt shows.

mod keep;
mod options;
mod page;
mod words;

use std::cell::RefCell;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

use self::keep::{Keep, Kept};
pub(super) use self::options::TryServer;
use self::words::{Subject, TrailingOptions};
use super::outcome::{print_report, signal_exit};
use super::style::OutputStyle;
use super::terminal::with_spinner;
use super::{CommandResult, FAILED, USAGE, block_on, call, fail, print};
use crate::config::ServerConfig;
use crate::config::command_line::without_secrets;
use crate::config::interpolate::Process;
use crate::config::known_commands::runner;
use crate::receipt::observed::Observed;
use crate::receipt::report::{PackageReport, Receipt, Subject as ReceiptSubject};
use crate::receipt::touched::Touched;
use crate::receipt::trace::{Limits, TRACED, Tracer};
use crate::sockets::RuntimeDir;
use crate::trial::{
    self, NamedPath, TraceLine, Trial, TrialError, TrialEvent, TrialLimits, TrialPhase, TrialRequest, TrialRun,
};

/// The name of the server during its trial.
const NAME: &str = "trial";

/// What a server that was tried has touched and offers, and how it was kept.
#[skip_serializing_none]
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JsonReport<'a> {
    #[serde(flatten)]
    receipt: &'a Receipt,
    /// What was added to the configuration.
    kept: Option<Kept>,
}

/// A trial, and what its trace says.
struct Tried {
    trial: Trial,
    /// The measured run, and the files of the installation.
    observed: Option<Observed>,
    /// The host names that only the installation has looked up.
    install_hosts: Vec<String>,
}

pub(super) fn run(arguments: TryServer, directory: Option<RuntimeDir>) -> CommandResult {
    let line: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let TrailingOptions { command, options } = words::split(arguments, &line);
    let usage = |error: String| fail(USAGE, error);
    let subject = Subject::of(&command, &options.env).map_err(usage)?;
    let called = called(&options.call).map_err(usage)?;
    let keep = options.keep.as_deref().map(|name| Keep::prepare(name, &options.edit)).transpose()?;
    let request = TrialRequest {
        server: server(&subject),
        call: called.clone(),
        weak: options.weak,
        network: !options.no_network,
        system_calls: TRACED,
        limits: limits(options.timeout),
    };
    let tried = block_on(tried(request))?;
    let Tried { trial, observed, install_hosts } = &tried;
    let touched =
        observed.as_ref().map(|observed| Touched::of(observed, &trial.places, trial.has_namespaces, &Process));
    let traced = observed.as_ref().zip(touched.as_ref());
    let runner = subject.command().and_then(|(command, args)| runner(command, args));
    let package = trial.package.clone();
    let package = package.map(|one| PackageReport { name: one.name, version: one.version, integrity: one.integrity });
    let mut receipt = Receipt::of(
        ReceiptSubject {
            command: without_secrets(&command),
            package,
            trial,
            traced,
            runner: runner.map(|runner| runner.cache()),
            called: called.as_ref().map(|(tool, _)| tool.as_str()),
        },
        &Process,
    );
    if let Some(touched) = &mut receipt.touched {
        touched.install_hosts.clone_from(install_hosts);
    }
    if !options.edit.json {
        let code = print(page::render(&receipt, OutputStyle::of_stdout()));
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    let failed = receipt.failure.is_some() || receipt.call.as_ref().is_some_and(|call| call.error.is_some());
    let kept = match keep {
        Some(_) if trial.offer.is_none() || trial.failure.is_some() => {
            fail(FAILED, "not kept: the server did not get ready, or ended during the trial");
            None
        }
        Some(keep) => Some(keep.run(&subject, trial, traced, &options)?),
        None => None,
    };
    let paths: Option<(PathBuf, String)> = kept.as_ref().map(|kept| (kept.file.clone(), kept.name.clone()));
    if options.edit.json {
        print_report(&JsonReport { receipt: &receipt, kept });
    }
    let code = match paths {
        Some((file, name)) => keep::apply(&options.edit, directory, &file, &name)?,
        None => ExitCode::SUCCESS,
    };
    Ok(if failed && code == ExitCode::SUCCESS { ExitCode::from(FAILED) } else { code })
}

fn limits(timeout: Option<Duration>) -> TrialLimits {
    let default = TrialLimits::default();
    let Some(run) = timeout else { return default };
    TrialLimits { run, install: default.install.max(run), ..default }
}

/// The tool to call, with its arguments.
fn called(words: &[String]) -> Result<Option<(String, Value)>, String> {
    let Some((tool, arguments)) = words.split_first() else { return Ok(None) };
    if let Some(word) = arguments.iter().find(|word| !word.contains('=') && !word.starts_with('{') && *word != "-") {
        return Err(format!(
            "`{}` is not an argument of `--call`: write `key=value`, and `--` before the command",
            word.escape_debug()
        ));
    }
    Ok(Some((tool.clone(), call::untyped(arguments)?)))
}

fn server(subject: &Subject) -> ServerConfig {
    match subject {
        Subject::Url(url) => ServerConfig::remote(NAME, url),
        Subject::Command { command, args, env } => {
            let server = ServerConfig::new(NAME, command).args(args);
            env.iter().fold(server, |server, (name, value)| server.env(name, value))
        }
    }
}

async fn tried(request: TrialRequest) -> Result<Tried, ExitCode> {
    let activity = RefCell::new("preparing".to_owned());
    let (mut installing, mut measured) = (Tracer::new(Limits::default()), Tracer::new(Limits::default()));
    let mut trace = |line: TraceLine<'_>| {
        let tracer = if line.run == TrialRun::Install { &mut installing } else { &mut measured };
        match line.text {
            Some(text) => tracer.line(text),
            None => tracer.cut(),
        }
    };
    let mut last = None;
    let mut progress = |event: TrialEvent| {
        if last != Some(event.phase) && !stderr().is_terminal() {
            print_note!("mcpd: {}", phase(event.phase));
        }
        last = Some(event.phase);
        activity.replace(describe(&event));
    };
    let trial = with_spinner(|| activity.borrow().clone(), trial::run(request, &mut trace, &mut progress)).await;
    let mut trial = trial.map_err(|error| refusal(&error))?;
    add_real_paths(&mut trial.places.named);
    let (installing, measured) = (installing.finish(), measured.finish());
    let install_hosts = installing.hosts.difference(&measured.hosts).cloned().collect();
    // Without a program, the trace does not show which process is the server.
    let mut observed = trial.traced.is_ok().then_some(measured).filter(|observed| !observed.programs.is_empty());
    if let Some(observed) = &mut observed {
        observed.absorb_files(installing);
    }
    Ok(Tried { trial, observed, install_hosts })
}

/// Adds where named paths lead, because a trace has no links.
fn add_real_paths(named: &mut Vec<NamedPath>) {
    let real =
        named.iter().filter_map(|named| Some(NamedPath { path: named.path.canonicalize().ok()?, ..named.clone() }));
    let real: Vec<_> = real.filter(|real| !named.contains(real)).collect();
    named.extend(real);
}

fn phase(phase: TrialPhase) -> &'static str {
    match phase {
        TrialPhase::Installing => "installing",
        TrialPhase::Starting => "starting",
        TrialPhase::Calling => "waiting for the tool",
        TrialPhase::Watching => "watching",
        TrialPhase::Ending => "ending",
    }
}

fn describe(TrialEvent { phase: of, disk, stderr, .. }: &TrialEvent) -> String {
    let disk = (*disk > 0).then(|| format!("{} on disk", page::bytes(*disk)));
    [Some(phase(*of).to_owned()), disk, stderr.clone()].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Prints why there was no trial.
fn refusal(error: &TrialError) -> ExitCode {
    match error {
        TrialError::Interrupted(signal) => return signal_exit(*signal),
        TrialError::NoNamespaces(_) => {
            return fail(
                FAILED,
                format!("not tried: {error}\n  help: `--weak` runs the server without namespaces, with less isolation"),
            );
        }
        TrialError::Install { stderr, .. } => {
            stderr.iter().for_each(|line| print_note!("  {line}"));
            return fail(FAILED, format!("the server could not be installed: {error}"));
        }
        _ => {}
    }
    fail(FAILED, format!("not tried: {error}"))
}
