//! The task that moves bytes between standard streams and the socket of a daemon, which [`daemon`] handles.

mod daemon;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::{FutureExt, LocalBoxFuture};
use tokio::net::UnixStream;
use tokio::time::{Interval, Sleep, interval, sleep_until};

use super::lines::LineSplitter;
use super::reconnect::{ConnectResult, DaemonSockets, FirstConnection, ReconnectDelays};
use super::relay::{Relay, RelayEvent, RelayState};
use super::request::ShimInfo;
use super::streams::{Input, Output};
use super::unanswered;

/// Bytes per read: a pipe's capacity.
const CHUNK: usize = 64 << 10;
/// Interval of checks whether an agent that has closed its output still reads: a killed agent does neither.
const READER_CHECK: Duration = Duration::from_millis(500);

/// How the relay ended.
#[derive(Debug)]
pub(crate) enum Outcome<F> {
    /// The agent has received everything, or reads no more.
    AgentLeft,
    /// There was no daemon at the start, for this reason.
    NoDaemon(F),
    /// The next daemon cannot resume the session, for this reason.
    Incompatible(String),
    /// A standard stream failed.
    Failed(io::Error),
}

/// Why there is no daemon at the start.
pub(crate) struct NoDaemon<F> {
    /// For the caller.
    pub(crate) code: F,
    /// For the agent, if it is known.
    pub(crate) reason: Option<String>,
}

/// Determines why no daemon runs, if possible.
pub(crate) type Explain<'a> = Box<dyn Fn() -> LocalBoxFuture<'a, Option<String>> + 'a>;

/// The connection to the daemon.
enum DaemonLink<'a, F> {
    /// The first daemon is being connected or started.
    Starting(LocalBoxFuture<'a, Result<FirstConnection, NoDaemon<F>>>),
    Connected(UnixStream),
    /// A daemon was lost, and the next one is awaited.
    Reconnecting(LocalBoxFuture<'a, ConnectResult>),
    /// No daemon is awaited.
    Closed(Option<F>),
}

struct Task<'a, F, S> {
    relay: Relay,
    input: Input,
    output: Output,
    link: DaemonLink<'a, F>,
    /// Those of the profile of the first connection; `None` until then.
    sockets: Option<DaemonSockets>,
    delays: ReconnectDelays,
    report: S,
    explain: Explain<'a>,
    /// An explanation in progress.
    explaining: Option<LocalBoxFuture<'a, Option<String>>>,
    from_agent: LineSplitter,
    from_daemon: LineSplitter,
    chunk: Box<[u8]>,
    /// The agent has closed its output.
    input_ended: bool,
    /// Set once it has.
    may_interrupt: Arc<AtomicBool>,
    /// `None` until then.
    reader_checks: Option<Interval>,
    /// The daemon accepts no more bytes.
    is_write_closed: bool,
    /// Since when the daemon is connected.
    up_since: Instant,
    /// The timer of parked requests.
    sleep: Option<(Instant, Pin<Box<Sleep>>)>,
}

/// Serves the agent on standard input and output until it leaves. `first` connects to the first daemon; `report`
/// receives events; `explain` is called when requests were parked too long. `may_interrupt` is set at the end of standard input.
pub(crate) async fn run<'a, F>(
    first: impl Future<Output = Result<FirstConnection, NoDaemon<F>>> + 'a,
    info: ShimInfo,
    may_interrupt: Arc<AtomicBool>,
    report: impl FnMut(RelayEvent),
    explain: Explain<'a>,
) -> Outcome<F> {
    let (input, output) = match (Input::open(), Output::open()) {
        (Ok(input), Ok(output)) => (input, output),
        (Err(error), _) | (_, Err(error)) => return Outcome::Failed(error),
    };
    let mut task = Task {
        relay: Relay::new(info, fastrand::u64(..)),
        input,
        output,
        link: DaemonLink::Starting(first.boxed_local()),
        sockets: None,
        delays: ReconnectDelays::since(Instant::now()),
        report,
        explain,
        explaining: None,
        from_agent: LineSplitter::new(unanswered::MAX_BYTES),
        // The daemon has its own limit.
        from_daemon: LineSplitter::new(usize::MAX),
        chunk: vec![0; CHUNK].into(),
        input_ended: false,
        may_interrupt,
        reader_checks: None,
        is_write_closed: false,
        up_since: Instant::now(),
        sleep: None,
    };
    poll_fn(|cx| task.poll(cx)).await
}

impl<F, S: FnMut(RelayEvent)> Task<'_, F, S> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome<F>> {
        loop {
            for event in std::mem::take(&mut self.relay.events) {
                // An agent that has closed its output expects the daemon to close.
                if event != RelayEvent::DaemonLost || !self.input_ended {
                    (self.report)(event);
                }
            }
            if let Err(error) = self.write_to_agent(cx) {
                return Poll::Ready(outcome_of(error));
            }
            if let Some(end) = self.outcome() {
                return Poll::Ready(end);
            }
            // Both sides are polled each time, so that neither waits for the other.
            let (daemon, agent) = (self.poll_link(cx), self.poll_agent(cx));
            if daemon.is_pending() && agent.is_pending() && self.poll_expiry(cx).is_pending() {
                return if self.poll_agent_gone(cx) { Poll::Ready(Outcome::AgentLeft) } else { Poll::Pending };
            }
        }
    }

    /// Whether the agent neither writes nor reads any more.
    fn poll_agent_gone(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.input_ended {
            return false;
        }
        let reader_checks = self.reader_checks.get_or_insert_with(|| interval(READER_CHECK));
        while reader_checks.poll_tick(cx).is_ready() {
            if self.output.is_closed() {
                return true;
            }
        }
        false
    }

    fn write_to_agent(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.relay.to_agent.is_empty() {
            if self.relay.to_agent.poll_write(cx, &mut self.output)?.is_pending() {
                break;
            }
        }
        Ok(())
    }

    /// The outcome, once nothing is left to do.
    fn outcome(&mut self) -> Option<Outcome<F>> {
        if !self.relay.to_agent.is_empty() {
            return None;
        }
        match (&mut self.relay.state, &mut self.link) {
            (RelayState::Closed(_), DaemonLink::Closed(refused @ Some(_))) => refused.take().map(Outcome::NoDaemon),
            (RelayState::Closed(why), _) => Some(Outcome::Incompatible(std::mem::take(why))),
            // The first attempt must end first.
            (_, DaemonLink::Starting(_)) => None,
            _ => (self.input_ended && self.relay.is_idle()).then_some(Outcome::AgentLeft),
        }
    }

    /// Ready if anything was read from the agent.
    fn poll_agent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.input_ended || !self.relay.may_read_agent() {
            return Poll::Pending;
        }
        match ready!(self.input.poll_read(cx, &mut self.chunk)) {
            // An incomplete line is no message. A terminal or peer that is gone sends no more, either.
            Ok(0) | Err(_) => {
                self.input_ended = true;
                self.may_interrupt.store(true, Ordering::Relaxed);
            }
            Ok(read) => {
                let now = Instant::now();
                self.from_agent.push(&self.chunk[..read]);
                while let Some(piece) = self.from_agent.take_next() {
                    self.relay.receive_from_agent(piece, now);
                }
            }
        }
        Poll::Ready(())
    }

    /// Ready if requests have expired.
    fn poll_expiry(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // The first daemon has as much time as its start takes.
        let due = if matches!(self.link, DaemonLink::Starting(_)) { None } else { self.relay.next_deadline() };
        let Some(due) = due else {
            (self.sleep, self.explaining) = (None, None);
            return Poll::Pending;
        };
        let fresh = || (due, Box::pin(sleep_until(due.into())));
        let (_, sleep) = match &mut self.sleep {
            Some(sleep) if sleep.0 == due => sleep,
            other => other.insert(fresh()),
        };
        if self.explaining.is_none() {
            ready!(sleep.poll_unpin(cx));
        }
        let why = match self.relay.state {
            RelayState::Connected => None,
            // Also with a connection: systemd accepts it while the daemon's starts fail.
            _ => ready!(self.explaining.get_or_insert_with(&self.explain).poll_unpin(cx)),
        };
        self.explaining = None;
        self.relay.expire(Instant::now(), why.as_deref());
        Poll::Ready(())
    }
}

/// An agent that has closed our output is gone.
fn outcome_of<F>(error: io::Error) -> Outcome<F> {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Outcome::AgentLeft,
        _ => Outcome::Failed(error),
    }
}
