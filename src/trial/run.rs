//! One run of the server on trial, from its start to the end of its last process.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tokio::time::{interval, sleep_until, timeout};

use super::interruption::Interruption;
use super::outcome::{NotTraced, TrialFailure};
use super::progress::{TraceLine, TrialEvent, TrialPhase, TrialRun};
use super::strace::{self, Trace};
use super::usage::{Sampler, Usage};
use crate::config::ServerConfig;
use crate::server::lifecycle::State;
use crate::server::{self, GuardProgram, ReaperHandle, Running, SandboxHost, ServerContext, ServerHandle, StopLevel};

/// Between two reports of progress.
const SECOND: Duration = Duration::from_secs(1);
/// Lines of stderr that are kept, their length, and bytes of all.
const STDERR: (usize, usize, usize) = (50, 1000, 20_000);

/// Who follows a trial, and what may end it.
pub(super) struct Observer<'a> {
    pub(super) trace: &'a mut dyn FnMut(TraceLine<'_>),
    /// The system calls that are traced.
    pub(super) system_calls: &'static str,
    pub(super) progress: &'a mut dyn FnMut(TrialEvent),
    pub(super) interruption: Interruption,
    /// The limit of bytes on disk.
    pub(super) disk: u64,
}

/// Why a trial does not go on.
#[derive(Debug)]
pub(super) enum Halt {
    /// By this signal.
    Interrupted(i32),
    Failed(TrialFailure),
}

/// A server that runs on trial.
pub(super) struct Run {
    purpose: TrialRun,
    running: Running,
    reaper: ReaperHandle,
    trace: Trace,
    /// Whether it is traced.
    traced: Result<(), NotTraced>,
    /// The process that traces, once it is known.
    tracer: Option<Pid>,
    sampler: Sampler,
}

/// What is left of a run.
pub(super) struct Ended {
    pub(super) usage: Usage,
    pub(super) traced: Result<(), NotTraced>,
    pub(super) stderr: Vec<String>,
}

/// What the sandboxes of a trial depend on, whose directory this is.
pub(super) fn sandbox_host(directory: &Path) -> SandboxHost {
    let mut host = ServerContext::new(GuardProgram::available()).sandbox;
    (host.servers_dir, host.copies) = (Some(directory.to_owned()), true);
    host
}

impl Run {
    /// Starts the server. All of its own is in `directory`. What it writes beside that goes to memory.
    pub(super) fn start(server: ServerConfig, directory: &Path, purpose: TrialRun, observer: &Observer<'_>) -> Self {
        let has_process = server.launch.as_ref().is_ok_and(|launch| launch.program().is_some());
        let tracer =
            if has_process { strace::tracer(directory, observer.system_calls) } else { Err(NotTraced::NoProcess) };
        let reaper = ReaperHandle::of_subreaper();
        let (reaper, traced, trace) = match tracer {
            Ok((tracer, trace)) => (reaper.traced_by(tracer), Ok(()), trace),
            Err(reason) => (reaper, Err(reason), Trace::none()),
        };
        let mut host = ServerContext::new(GuardProgram::available());
        (host.sandbox, host.restarts, host.reaper) = (sandbox_host(directory), None, reaper.clone());
        let shared = host.state_of(Arc::clone(&server.name));
        let running = server::start(Arc::new(server), true, host, Arc::default(), shared);
        let sampler = Sampler::start(running.handle.clone(), directory.to_owned(), observer.disk);
        Self { purpose, running, reaper, trace, traced, tracer: None, sampler }
    }

    pub(super) fn handle(&self) -> &ServerHandle {
        &self.running.handle
    }

    /// Waits until the server has listed what it offers.
    pub(super) async fn ready(
        &mut self,
        phase: TrialPhase,
        limit: Duration,
        observer: &mut Observer<'_>,
    ) -> Result<(), Halt> {
        let handle = self.handle().clone();
        let ready = async {
            let is_settled = |published: &server::ServerSnapshot| match published.state {
                State::Starting | State::Stopping => false,
                State::Ready { .. } | State::Unresponsive { .. } => published.first_start_ended,
                _ => true,
            };
            handle.wait_for(is_settled).await;
        };
        self.during(phase, limit, observer, ready).await?;
        match self.failure() {
            Some(failure) => Err(Halt::Failed(failure)),
            None => Ok(()),
        }
    }

    /// Why the server is down, if it is.
    pub(super) fn failure(&self) -> Option<TrialFailure> {
        let published = self.handle().published();
        let is_up = matches!(published.state, State::Ready { .. } | State::Unresponsive { .. });
        let reason = || published.state.reason().or(published.last_error.as_ref()).cloned();
        (!is_up).then(|| TrialFailure::Server(reason().unwrap_or(server::ServerError::Stopped)))
    }

    /// Does `work` while it observes the server, at most for `limit`.
    pub(super) async fn during<T>(
        &mut self,
        phase: TrialPhase,
        limit: Duration,
        observer: &mut Observer<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T, Halt> {
        let (began, mut second, mut work) = (Instant::now(), interval(SECOND), pin!(work));
        let Observer { trace, progress, interruption, disk, .. } = observer;
        let run = self.purpose;
        let mut trace = |text: Option<&[u8]>| trace(TraceLine { run, text });
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                signal = interruption.signal() => return Err(Halt::Interrupted(signal)),
                () = sleep_until((began + limit).into()) => return Err(Halt::Failed(TrialFailure::Timeout(limit))),
                usage = self.sampler.changed() => if usage.disk > *disk {
                    return Err(Halt::Failed(TrialFailure::Disk(*disk)));
                },
                () = self.trace.read(&mut trace) => {
                    self.tracer = self.tracer.or_else(|| strace::tracing_process(&self.reaper));
                }
                _ = second.tick() => progress(TrialEvent {
                    phase,
                    elapsed: began.elapsed(),
                    disk: self.sampler.usage().disk,
                    stderr: last_line(&self.running.handle),
                }),
            }
        }
    }

    /// Ends the server in order, or at once if it is not `in_order` or a signal comes. Returns when no process of it is left.
    pub(super) async fn end(mut self, in_order: bool, observer: &mut Observer<'_>) -> Result<Ended, Vec<u32>> {
        let traces = strace::tracing_process(&self.reaper);
        self.tracer = self.tracer.or(traces);
        let Observer { trace, progress, interruption, .. } = observer;
        let Self {
            running: Running { handle, control, .. },
            reaper,
            trace: output,
            traced,
            tracer,
            sampler,
            purpose: run,
        } = &mut self;
        let mut trace = |text: Option<&[u8]>| trace(TraceLine { run: *run, text });
        progress(TrialEvent {
            phase: TrialPhase::Ending,
            elapsed: Duration::ZERO,
            disk: sampler.usage().disk,
            stderr: None,
        });
        control.stop(if in_order { StopLevel::FinishRunning } else { StopLevel::Kill });
        let mut ended = pin!(async {
            handle.wait_ended().await;
            reaper.close().await
        });
        let left = loop {
            tokio::select! {
                left = &mut ended => break left,
                _ = interruption.signal(), if control.stopping() < StopLevel::Kill => control.stop(StopLevel::Kill),
                // A tracer that waits for its output to be read holds up what it traces.
                () = output.read(&mut trace) => {}
            }
        };
        if let Some(tracer) = *tracer {
            if timeout(strace::END_LIMIT, output.read_all(&mut trace)).await.is_err() {
                strace::kill(tracer);
            }
            strace::reap(tracer).await;
        }
        if !left.is_empty() {
            return Err(left);
        }
        let refused = output.complaint().map(|reason| NotTraced::Refused(reason.to_owned()));
        let traced = match (traces, traced) {
            (None, Ok(())) => Err(refused.unwrap_or(NotTraced::EndedEarly)),
            (_, traced) => traced.clone(),
        };
        let (lines, longest, most) = STDERR;
        Ok(Ended { usage: sampler.usage(), traced, stderr: handle.stderr().last(lines, longest, most) })
    }
}

fn last_line(server: &ServerHandle) -> Option<String> {
    let (_, longest, most) = STDERR;
    server.stderr().last(1, longest, most).pop()
}
