//! How an instance ends: its calls are answered, and no process of it is left.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::{AbortOnDrop, ServerTask};
use crate::server::error::{Recovery, ServerError};
use crate::server::instance::Instance;
use crate::server::lifecycle::{Event, State};
use crate::server::link::{Closed, Link};
use crate::server::messages::call::Failure;
use crate::server::process::{Ended, Process};
use crate::server::stop_order::Stop;
use crate::transport::http::Disconnect;

/// How long the tools of a server that is down stay listed.
pub(super) const LIST_GRACE: Duration = Duration::from_secs(60);
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
    Broken(ServerError),
    /// It is reached by HTTP, and cannot be any more.
    Disconnected(Disconnect),
    /// It is to be stopped, and its calls have ended or had their time.
    Stop,
}

impl ServerTask {
    /// Leaves nothing of an instance behind. Tells what that means for its server.
    pub(super) async fn end(&mut self, end: End, mut instance: Instance, mut process: Option<Process>) -> Event {
        if matches!(self.lifecycle.state(), State::Ready { .. } | State::Unresponsive { .. } | State::Stopping) {
            self.forget_at = Some(Instant::now() + LIST_GRACE);
        }
        self.wait_for_next_instance();
        let is_broken = matches!(end, End::Broken(_));
        let error = match end {
            End::Stop => {
                let event = self.stopped();
                instance.fail_all(&Failure::ShuttingDown, &Failure::ShuttingDown);
                self.end_politely(instance, process).await;
                return event;
            }
            End::Broken(error) => error,
            End::Disconnected(disconnect) => ServerError::Disconnected(disconnect),
            End::Ended(how_ended) => {
                // If mcpd died before the orphans of a lost guard, nobody would kill them: they go first.
                if how_ended == Ended::GuardLost {
                    self.kill(process.take()).await;
                }
                self.last_words(&mut instance).await;
                match how_ended {
                    Ended::Exited(exit) => {
                        self.last_process.exit = Some(exit.clone());
                        ServerError::Exited(exit)
                    }
                    Ended::GuardLost => ServerError::GuardLost,
                }
            }
        };
        let recovery = error.recovery();
        let unsent = match recovery {
            Recovery::Login => Failure::LoginNeeded { why: error.to_string() },
            Recovery::Retry | Recovery::Reconfigure => {
                Failure::Unavailable { reason: error.clone(), retry_after: None }
            }
        };
        // The next instance gets what this one has not seen.
        if instance.wire.is_stdio() && recovery == Recovery::Retry {
            instance.take_unsent(&unsent).into_iter().for_each(|call| self.park(Box::new(call)));
        }
        instance.fail_all(&Failure::Died { reason: error.clone() }, &unsent);
        self.kill(process).await;
        // One that can be talked to no more may still have a session.
        if let (Link::Http(http), true) = (instance.wire.into_link(), is_broken) {
            self.holding(http.close()).await;
        }
        Event::Ended(error)
    }

    /// Ends what is left of a process, with all that it started.
    async fn kill(&mut self, process: Option<Process>) {
        if let Some(process) = process
            && !self.holding(process.kill()).await
        {
            self.guard_lost();
        }
    }

    /// Tells the server that it is over: closes its stdin and waits for its end, reading on meanwhile so that it can finish what
    /// it writes, or ends its session.
    async fn end_politely(&mut self, instance: Instance, process: Option<Process>) {
        let mut stop = self.orders.stop.clone();
        let _reading = match instance.wire.into_link() {
            Link::Pipes { stdin, stdout } => {
                drop(stdin);
                let mut rest = stdout.into_inner();
                AbortOnDrop(tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
                }))
            }
            Link::Http(http) => {
                let closing = async {
                    tokio::select! {
                        () = http.close() => {}
                        () = stop.at_least(Stop::Kill) => {}
                    }
                };
                return self.holding(closing).await;
            }
        };
        if let Some(process) = process
            && !self.holding(process.stop(&mut stop)).await
        {
            self.guard_lost();
        }
    }

    /// Delivers what a dead server wrote before it died. A descendant may hold its stdout open, so there is a limit.
    async fn last_words(&mut self, instance: &mut Instance) {
        let _ = timeout(LAST_WORDS, async {
            while let Ok(arrival) = poll_fn(|cx| instance.wire.poll_next(cx)).await {
                let effect = instance.arrive(arrival);
                self.effect(effect);
            }
        })
        .await;
    }

    pub(super) fn guard_lost(&self) {
        self.publisher.update(|published| published.lost_guards += 1);
    }
}

/// How a server ended to which there is no way any more. If it is a process, that says so soon, or is ended for what it did.
pub(super) async fn parted(process: &mut Option<Process>, closed: Closed) -> End {
    let stream = match closed {
        Closed::Disconnected(disconnect) => return End::Disconnected(disconnect),
        Closed::Stream(stream) => stream,
    };
    let Some(process) = process else { return End::Broken(ServerError::StreamClosed(stream)) };
    match timeout(EXIT_GRACE, process.ended()).await {
        Ok(ended) => End::Ended(ended),
        Err(_) => End::Broken(ServerError::StreamClosed(stream)),
    }
}
