//! The calls that run: asked of all sessions when somebody looks, so that a call costs nothing more.

#![expect(
    clippy::disallowed_types,
    reason = "a session that is behind leaves out a question, which an operator repeats"
)]

use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, timeout_at};

use super::report::RunningCallReport;

/// Calls of one answer, and of one session: the oldest.
pub(crate) const MAX_RUNNING: usize = 100;
/// Questions that a session may be behind. Beyond that it leaves some out.
const QUESTIONS: usize = 8;
/// Calls that are not read yet. More are left out.
const QUEUE: usize = 4096;
/// Maximum wait for the sessions. One that waits for a server's queue does not answer.
const WAIT: Duration = Duration::from_millis(50);

/// Takes the calls of one session.
pub(crate) type RunningCallSender = mpsc::Sender<RunningCallReport>;

/// Asks all sessions.
#[derive(Debug)]
pub(super) struct Questions(broadcast::Sender<RunningCallSender>);

/// The questions to one session.
pub(crate) struct QuestionReceiver(broadcast::Receiver<RunningCallSender>);

impl Questions {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(QUESTIONS))
    }

    pub(super) fn subscribe(&self) -> QuestionReceiver {
        QuestionReceiver(self.0.subscribe())
    }

    /// The oldest calls, oldest first.
    pub(super) async fn ask(&self) -> Vec<RunningCallReport> {
        let (sender, mut answers) = mpsc::channel(QUEUE);
        // Fails without sessions. Otherwise the queue closes once all have answered.
        let _ = self.0.send(sender);
        let (mut calls, deadline) = (Vec::new(), Instant::now() + WAIT);
        while let Ok(Some(call)) = timeout_at(deadline, answers.recv()).await {
            calls.push(call);
        }
        calls.sort_by_key(|call| std::cmp::Reverse(call.running_ms));
        calls.truncate(MAX_RUNNING);
        calls
    }
}

impl QuestionReceiver {
    /// Waits for the next question.
    pub(crate) async fn next(&mut self) -> RunningCallSender {
        loop {
            match self.0.recv().await {
                Ok(sender) => return sender,
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}
