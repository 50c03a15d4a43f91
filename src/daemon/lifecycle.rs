//! From serving to the end of the daemon, or to a restart.
//!
//! ```text
//! Serving ─ restart ─► Draining ─ calls have ended ─► Stopping(Successor) ─► the next program
//!    └──── SIGTERM ───────┴──────────────┴──────────► Stopping(End)
//! ```

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::successor::ProgramFile;
use crate::admin::Restarting;
use crate::admin::report::ProgramReport;
use crate::duration;
use crate::server::{StopChannel, StopLevel, StopReceiver};
use crate::session::{DrainOrder, Drained, Drains};

/// Time in which servers end.
const SERVERS_END: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Lifecycle {
    phase: Phase,
    /// Raised by signals, and by the daemon itself if it has to end.
    stopping: StopChannel,
    ending: StopChannel,
    drains: Drains,
    /// The time that calls have before a restart.
    restart_wait: Duration,
    program: ProgramFile,
}

/// What the daemon does with agents and servers.
#[derive(Debug)]
enum Phase {
    /// Accepts agents.
    Serving,
    /// Sessions finish their calls before a restart. Agents that connect wait.
    Draining(Drain),
    /// Ends servers, then sessions.
    Stopping(Next),
}

#[derive(Debug)]
struct Drain {
    drained: Drained,
    /// Then remaining calls have had their time.
    deadline: Instant,
    operators: Vec<oneshot::Sender<()>>,
}

/// What follows when no server is left.
#[derive(Debug)]
enum Next {
    End,
    /// The next program, for which these operators wait.
    Successor(Vec<oneshot::Sender<()>>),
}

impl Lifecycle {
    /// `stopping` is raised by signals.
    pub(super) fn new(stopping: StopChannel, restart_wait: Duration, program: ProgramFile) -> Self {
        let (ending, drains) = (StopChannel::new(), Drains::new());
        Self { phase: Phase::Serving, stopping, ending, drains, restart_wait, program }
    }

    /// Raised when the daemon has to end.
    pub(super) fn stopping(&self) -> StopReceiver {
        self.stopping.receiver.clone()
    }

    /// Raised when servers are stopped, for good or before a restart.
    pub(super) fn ending(&self) -> StopReceiver {
        self.ending.receiver.clone()
    }

    /// The order before a restart, for sessions.
    pub(super) fn drain(&self) -> DrainOrder {
        self.drains.order()
    }

    /// The file of the running program.
    pub(super) fn program(&self) -> ProgramReport {
        self.program.report()
    }

    pub(super) fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    pub(super) fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Stopping(_))
    }

    /// Whether the daemon ends without a successor.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Stopping(Next::End))
    }

    /// Requires the daemon to end, as a signal does.
    pub(super) fn require_end(&self) {
        self.stopping.raise(StopLevel::FinishRunning);
    }

    /// Ends without a successor: servers are stopped.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Stopping(Next::End);
        self.ending.raise(StopLevel::FinishRunning);
    }

    /// Has sessions finish their calls before a restart, which an operator requires. `None` if the daemon ends without a successor.
    pub(super) fn restart(&mut self) -> Option<Restarting> {
        let wait = self.restart_wait;
        if self.is_serving() {
            tracing::info!("restarting: calls have {}", duration::format(wait));
            let (drained, deadline) = (self.drains.begin(wait), Instant::now() + wait);
            self.phase = Phase::Draining(Drain { drained, deadline, operators: Vec::new() });
        }
        let operators = match &mut self.phase {
            Phase::Draining(drain) => &mut drain.operators,
            Phase::Stopping(Next::Successor(operators)) => operators,
            Phase::Serving | Phase::Stopping(Next::End) => return None,
        };
        let (sender, ended) = oneshot::channel();
        operators.push(sender);
        Some(Restarting { at_most: wait + SERVERS_END, ended })
    }

    /// Waits until all calls have ended before a restart, or have had their time. Cancel safe.
    pub(super) async fn drained(&mut self) {
        let Phase::Draining(drain) = &mut self.phase else { return std::future::pending().await };
        if timeout_at(drain.deadline.into(), drain.drained.wait()).await.is_err() {
            tracing::warn!("calls that still run are ended for the restart");
        }
    }

    /// Ends the drain: servers are stopped, and the next program follows.
    pub(super) fn end_for_successor(&mut self) {
        if let Phase::Draining(drain) = &mut self.phase {
            self.phase = Phase::Stopping(Next::Successor(std::mem::take(&mut drain.operators)));
            self.ending.raise(StopLevel::FinishRunning);
        }
    }

    /// Reports to operators that no server is left. Returns whether a successor follows.
    pub(super) fn servers_ended(&mut self) -> bool {
        let Phase::Stopping(Next::Successor(operators)) = &mut self.phase else { return false };
        for operator in operators.drain(..) {
            // It may have disconnected.
            let _ = operator.send(());
        }
        true
    }
}
