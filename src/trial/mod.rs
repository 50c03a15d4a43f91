//! A trial: one run of a server that is not configured, in a place that is thrown away.
//!
//! The server runs at sandbox level `files` with namespaces. Its home directory and all other directories of its own lie in a
//! [`directory`] that exists only during the trial. It sees the paths that its command line names through copies: what it writes there
//! goes to memory. A tracer ([`strace`]) reports its system calls from outside of the sandbox.
//!
//! A launcher that downloads, such as `npx`, runs twice: the first run installs the package, and the second one is traced and measured.
//!
//! Whatever ends a trial, no process and no directory is left. If this process is killed, its guards end the server, and the next trial
//! removes the directory.

mod directory;
mod fence;
mod interruption;
mod outcome;
mod progress;
mod request;
mod run;
mod strace;
mod usage;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{getpid, set_child_subreaper};
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use self::directory::TrialDirectory;
use self::fence::Fence;
use self::interruption::Interruption;
pub(crate) use self::outcome::{NamedPath, Offer, Places, Trial, TrialError, TrialFailure};
pub(crate) use self::progress::{TraceLine, TrialEvent, TrialPhase, TrialRun};
pub(crate) use self::request::{TrialLimits, TrialRequest};
use self::run::{Ended, Halt, Observer, Run, sandbox_host};
use crate::client::{ClientError, Refused, ToolResult, call_tool, no_tool};
use crate::config::interpolate::Process;
use crate::config::known_commands::runner;
use crate::config::{ProtectedDirectories, Settings};
use crate::era;
use crate::list_kind::ListKind;
use crate::packages::{self, InstalledPackage};
use crate::policy::Policy;
use crate::server::{GuardProgram, ServerContext, ServerHandle, ServerSnapshot, launch_environment};

/// How long the measured run goes on after the server is ready and has answered the call: some servers do something later.
const WATCHED: Duration = Duration::from_secs(1);

/// Runs the server. Hands `trace` each line of the tracer, and `progress` what happens. Until this returns, SIGINT,
/// SIGTERM and SIGHUP end the trial.
///
/// # Errors
/// If there was no measured run, or something of the trial is left.
pub(crate) async fn run(
    request: TrialRequest,
    trace: &mut dyn FnMut(TraceLine<'_>),
    progress: &mut dyn FnMut(TrialEvent),
) -> Result<Trial, TrialError> {
    let interruption = Interruption::listen().map_err(TrialError::System)?;
    // What a lost reaper and its guards leave, and the tracer.
    set_child_subreaper(Some(getpid())).map_err(|error| TrialError::System(error.into()))?;
    let state = ProtectedDirectories::of(&Process).state.ok_or(TrialError::NoHome)?;
    let directory =
        blocking(move || TrialDirectory::create(&state.join("trials"))).await?.map_err(TrialError::System)?;
    let (disk, system_calls) = (request.limits.disk, request.system_calls);
    let mut observer = Observer { trace, system_calls, progress, interruption, disk };
    let tried = in_directory(request, directory.path(), &mut observer).await;
    let removed = blocking(move || directory.remove()).await?;
    let trial = tried?;
    removed.map_err(|(path, error)| TrialError::Directory { path, error })?;
    Ok(trial)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, TrialError> {
    spawn_blocking(work).await.map_err(|error| TrialError::System(io::Error::other(error)))
}

async fn in_directory(
    request: TrialRequest,
    directory: &Path,
    observer: &mut Observer<'_>,
) -> Result<Trial, TrialError> {
    let TrialRequest { server, call, weak, network, limits, .. } = request;
    let launch = server.launch.as_ref().map_err(|error| TrialError::Value(error.clone()))?;
    let installs = launch.program().is_some_and(|program| runner(&program.command, &program.args).is_some());
    let has_namespaces = launch.program().is_some() && namespaces(weak).await?;
    let mut fence = Fence::new(server, directory, has_namespaces, network)?;

    let mut installed = None;
    if installs {
        let began = Instant::now();
        let (run, ready) = start(&mut fence, TrialRun::Install, limits.install, observer).await?;
        let took = began.elapsed();
        let ended = run.end(ready.is_ok(), observer).await.map_err(TrialError::Processes)?;
        match ready {
            // What it has tried is this version. The measured run could write another one.
            Ok(()) => installed = Some((took, ended.traced, package(&fence).await)),
            Err(Halt::Interrupted(signal)) => return Err(TrialError::Interrupted(signal)),
            Err(Halt::Failed(failure)) => return Err(TrialError::Install { failure, stderr: ended.stderr }),
        }
    }

    let began = Instant::now();
    let (mut run, ready) = start(&mut fence, TrialRun::Measured, limits.run, observer).await?;
    let started = ready.is_ok().then(|| began.elapsed());
    let mut called = None;
    let measured = match ready {
        Ok(()) => measure(&mut run, call, &mut called, limits.run, observer).await,
        Err(halt) => Err(halt),
    };
    let offer = offer(&run.handle().published());
    let failure = match &measured {
        Ok(()) => run.failure(),
        Err(Halt::Failed(failure)) => Some(failure.clone()),
        Err(Halt::Interrupted(_)) => None,
    };
    let Ended { usage, traced, stderr } = run.end(measured.is_ok(), observer).await.map_err(TrialError::Processes)?;
    if let Err(Halt::Interrupted(signal)) = measured {
        return Err(TrialError::Interrupted(signal));
    }
    let (installed, install_traced, package) =
        installed.map_or((None, Ok(()), None), |(took, traced, package)| (Some(took), traced, package));
    Ok(Trial {
        started,
        package,
        installed,
        offer,
        failure,
        call: called,
        stderr,
        peak_memory: usage.peak_memory,
        processes: usage.processes,
        traced: install_traced.and(traced),
        places: fence.places(),
        has_namespaces,
    })
}

/// Whether the server gets namespaces. Without them, the trial must be permitted to be a weak one.
async fn namespaces(weak: bool) -> Result<bool, TrialError> {
    let host = ServerContext::new(GuardProgram::available()).sandbox;
    match blocking(move || host.try_namespaces()).await? {
        Err(failure) if !weak => Err(TrialError::NoNamespaces(failure)),
        tried => Ok(tried.is_ok()),
    }
}

/// Starts the server, and waits until it is ready. A directory of which there can be no copy is only readable.
async fn start(
    fence: &mut Fence,
    purpose: TrialRun,
    limit: Duration,
    observer: &mut Observer<'_>,
) -> Result<(Run, Result<(), Halt>), TrialError> {
    let phase = if purpose == TrialRun::Install { TrialPhase::Installing } else { TrialPhase::Starting };
    loop {
        let server = fence.server(purpose, limit);
        let mut run = Run::start(server, fence.directory(), purpose, observer);
        let ready = run.ready(phase, limit, observer).await;
        let uncopied = match &ready {
            Err(Halt::Failed(TrialFailure::Server(error))) => error.uncopied(),
            _ => None,
        };
        if !uncopied.is_some_and(|path| fence.give_up_copy(path)) {
            return Ok((run, ready));
        }
        run.end(false, observer).await.map_err(TrialError::Processes)?;
    }
}

/// Calls the tool, and then leaves the server to itself for a moment.
async fn measure(
    run: &mut Run,
    call: Option<(String, Value)>,
    called: &mut Option<Result<ToolResult, ClientError>>,
    limit: Duration,
    observer: &mut Observer<'_>,
) -> Result<(), Halt> {
    if let Some((tool, arguments)) = call {
        let server = run.handle().clone();
        *called =
            Some(run.during(TrialPhase::Calling, limit, observer, call_listed(&server, &tool, &arguments)).await?);
    }
    run.during(TrialPhase::Watching, limit + WATCHED, observer, sleep(WATCHED)).await
}

/// Calls a tool that the server lists.
async fn call_listed(server: &ServerHandle, tool: &str, arguments: &Value) -> Result<ToolResult, ClientError> {
    let tools = Arc::clone(&server.published().lists[ListKind::Tools]);
    let unknown = || no_tool(server.name(), tool, &Policy::default(), &tools);
    if !tools.items.iter().any(|item| &*item.key == tool) {
        return Err(unknown());
    }
    let limit = Settings::default().call_limit(tool);
    call_tool(server, tool, arguments, limit, None).await.map_err(|refused| match refused {
        Refused::Error(error) => error,
        Refused::Hidden => unknown(),
    })
}

/// What the launcher has installed.
async fn package(fence: &Fence) -> Option<InstalledPackage> {
    let server = fence.server(TrialRun::Measured, Duration::ZERO);
    let (env, cwd) = launch_environment(&server, &sandbox_host(fence.directory()), &Process).await.ok()?;
    let program = server.launch.ok()?.program()?.clone();
    blocking(move || packages::installed(&program.command, &program.args, &env, &cwd)).await.ok()?
}

fn offer(published: &ServerSnapshot) -> Option<Offer> {
    let protocol = published.protocol?;
    let era = era::of(protocol);
    let identity = published.identity(era)?;
    Some(Offer {
        era,
        protocol,
        software: published.software.clone(),
        capabilities: identity.sent_capabilities.clone(),
        instructions: identity.instructions.clone(),
        lists: published.lists.clone(),
    })
}
