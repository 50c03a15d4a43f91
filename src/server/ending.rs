//! How an instance ends: its calls are answered, and no process of it is left.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::call::Failure;
use super::instance::Instance;
use super::lifecycle::State;
use super::process::{Ended, Process};
use super::task::{AbortOnDrop, ServerTask};

/// How long the tools of a server that went down stay listed.
const LIST_GRACE: Duration = Duration::from_secs(60);
/// For the reason to arrive when a server lets go of its streams.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// For what a dead server had written before.
const LAST_WORDS: Duration = Duration::from_millis(80);

/// Why an instance is served no longer.
#[derive(Debug)]
pub(super) enum End {
    /// The server ended by itself.
    Ended(Ended),
    /// It lives, but cannot be talked to.
    Broken(String),
    /// It is to be stopped, and its calls have ended or had their time.
    Stop,
}

impl ServerTask {
    /// Leaves nothing of an instance behind. Tells how it ended.
    pub(super) async fn end(&mut self, end: End, mut instance: Instance, process: Process) -> String {
        if matches!(self.lifecycle.state(), State::Ready { .. } | State::Unresponsive { .. } | State::Stopping) {
            self.forget_at = Some(Instant::now() + LIST_GRACE);
        }
        let how = match end {
            End::Stop => {
                let how = self.stopped();
                instance.fail_all(&Failure::ShuttingDown, &Failure::ShuttingDown);
                self.end_politely(instance, process).await;
                return how;
            }
            End::Broken(how) => how,
            End::Ended(ended) => {
                self.last_words(&mut instance).await;
                match ended {
                    Ended::Exited(how) => how,
                    Ended::GuardLost => "lost its guard".to_owned(),
                }
            }
        };
        let unsent = Failure::Unavailable { reason: how.clone(), retry_after: None };
        instance.fail_all(&Failure::Died { how: how.clone() }, &unsent);
        if !self.holding(process.kill()).await {
            self.guard_lost();
        }
        how
    }

    /// Closes the server's stdin and waits for its end, reading on meanwhile so that it can finish what it writes.
    async fn end_politely(&mut self, instance: Instance, process: Process) {
        let Instance { reader, stdin, .. } = instance;
        drop(stdin);
        let mut rest = reader.into_inner();
        let _reading = AbortOnDrop(tokio::spawn(async move {
            let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
        }));
        let mut stop = self.orders.stop.clone();
        if !self.holding(process.stop(&mut stop)).await {
            self.guard_lost();
        }
    }

    /// Delivers what a dead server wrote before it died. A descendant may hold its stdout open, so there is a limit.
    async fn last_words(&mut self, instance: &mut Instance) {
        let _ = timeout(LAST_WORDS, async {
            while let Ok(Some(incoming)) = instance.reader.next().await {
                let effect = instance.take(incoming);
                self.effect(effect);
            }
        })
        .await;
    }

    pub(super) fn guard_lost(&self) {
        self.publisher.update(|published| published.lost_guards += 1);
    }
}

/// How a server that let go of a stream ended, if it says so soon; otherwise it is ended for `what` it did.
pub(super) async fn closed(process: &mut Process, what: &str) -> End {
    match timeout(EXIT_GRACE, process.ended()).await {
        Ok(ended) => End::Ended(ended),
        Err(_) => End::Broken(what.to_owned()),
    }
}
