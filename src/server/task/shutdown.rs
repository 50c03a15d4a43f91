//! Ends an instance: answers its calls, and leaves no process of it.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::{AbortOnDrop, START_WAIT, ServerTask};
use crate::server::control::StopLevel;
use crate::server::error::ServerError;
use crate::server::instance::Instance;
use crate::server::lifecycle::{Event, State};
use crate::server::link::{Link, LinkError};
use crate::server::messages::call::Failure;
use crate::server::process::{EOF_GRACE, EOF_GRACE_OF_DOWNLOAD, EOF_GRACE_OF_LAST_DOWNLOAD, Process, ProcessEnd};
use crate::transport::http::Disconnect;

/// How long the tools of a server that is down stay listed.
pub(super) const LIST_GRACE: Duration = Duration::from_secs(60);
/// Time for the exit status to arrive after a server has closed its streams.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// Time to read what a dead server has written.
const LAST_WORDS: Duration = Duration::from_millis(80);

/// Why an instance stops.
#[derive(Debug)]
pub(super) enum StopReason {
    /// Its process ended.
    Ended(ProcessEnd),
    /// It still runs, but cannot be used.
    Broken(ServerError),
    /// Its HTTP connection has ended.
    Disconnected(Disconnect),
    /// Its stop was requested, and its calls have ended or had their time.
    Stop,
}

impl ServerTask {
    /// Ends an instance. Returns the event for the lifecycle.
    pub(super) async fn end(&mut self, end: StopReason, mut instance: Instance, process: Option<Process>) -> Event {
        if matches!(self.lifecycle.state(), State::Ready { .. } | State::Unresponsive { .. } | State::Stopping) {
            self.publisher.forget_lists_at(Instant::now() + LIST_GRACE);
        }
        self.waiting.await_next_instance(Instant::now() + START_WAIT);
        let may_run = matches!(end, StopReason::Broken(_) | StopReason::Ended(ProcessEnd::Lost(_)));
        let error = match end {
            StopReason::Stop => {
                let grace = self.stdin_grace();
                let event = self.apply_stop();
                instance.fail_all(&Failure::ShuttingDown, &Failure::ShuttingDown);
                self.end_politely(instance, process, grace).await;
                return event;
            }
            StopReason::Broken(error) => error,
            StopReason::Disconnected(disconnect) => ServerError::Disconnected(disconnect),
            StopReason::Ended(how_ended) => {
                self.last_words(&mut instance).await;
                match how_ended {
                    ProcessEnd::Exited(exit) => {
                        self.last_process.note_exit(&exit);
                        ServerError::Exited(exit)
                    }
                    ProcessEnd::Lost(supervisor) => ServerError::Lost(supervisor),
                }
            }
        };
        let has_finished =
            matches!(&error, ServerError::Exited(exit) if exit.is_success()) && self.has_nothing_to_do(&instance);
        self.idle.set_finished(has_finished);
        let error = self.explained(error, &instance);
        let unsent = match error.needs_login() {
            true => Failure::LoginNeeded { why: error.to_string() },
            false => Failure::Unavailable { reason: error.clone(), retry_after: None },
        };
        // Calls that were not written wait for the next instance.
        if instance.wire.is_stdio() && !error.needs_login() {
            instance.take_unwritten(&unsent).into_iter().for_each(|call| self.park(Box::new(call)));
        }
        instance.fail_all(&Failure::Died { reason: error.clone() }, &unsent);
        if may_run {
            // It may have to clean up: a client of Docker removes its container.
            self.end_politely(instance, process, EOF_GRACE).await;
        } else if let Some(process) = process {
            self.handling_commands_until(process.kill()).await;
        }
        if has_finished { Event::Finished(error) } else { Event::Ended(error) }
    }

    /// Time for the process to end by itself once its stdin is closed. A runner that is stopped in a download leaves half of it in its
    /// cache.
    fn stdin_grace(&self) -> Duration {
        match self.lifecycle.state() {
            State::Starting if self.runner().is_some() && !self.publisher.knows_lists() => {
                if self.control.stop.now() == StopLevel::Run {
                    EOF_GRACE_OF_DOWNLOAD
                } else {
                    EOF_GRACE_OF_LAST_DOWNLOAD
                }
            }
            _ => EOF_GRACE,
        }
    }

    /// Closes the server's stdin and waits for its exit, or ends its HTTP session. Its stdout is read meanwhile, so that it can
    /// finish writing.
    async fn end_politely(&mut self, instance: Instance, process: Option<Process>, grace: Duration) {
        let mut stop = self.control.stop.clone();
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
                        () = stop.at_least(StopLevel::Kill) => {}
                    }
                };
                return self.handling_commands_until(closing).await;
            }
        };
        if let Some(process) = process {
            self.handling_commands_until(process.stop(grace, &mut stop)).await;
        }
    }

    /// Delivers what a dead server wrote before it died. A descendant may keep its stdout open, so there is a limit.
    async fn last_words(&mut self, instance: &mut Instance) {
        let _ = timeout(LAST_WORDS, async {
            while let Ok(arrival) = poll_fn(|cx| instance.wire.poll_next(cx)).await {
                let effects = instance.arrive(arrival);
                self.carry_out(effects, instance);
            }
        })
        .await;
    }
}

/// The reason of a closed link. A process reports its exit status soon, or else is killed for closing the stream.
pub(super) async fn disconnected(process: &mut Option<Process>, closed: LinkError) -> StopReason {
    let stream = match closed {
        LinkError::Disconnected(disconnect) => return StopReason::Disconnected(disconnect),
        LinkError::Stream(stream) => stream,
    };
    let Some(process) = process else { return StopReason::Broken(ServerError::StreamClosed(stream)) };
    match timeout(EXIT_GRACE, process.wait_ended()).await {
        Ok(ended) => StopReason::Ended(ended),
        Err(_) => StopReason::Broken(ServerError::StreamClosed(stream)),
    }
}
