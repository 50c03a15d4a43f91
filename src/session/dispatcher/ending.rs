//! The end of a session: what its agent still receives when its profile is removed or the daemon stops.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::FutureExt;
use tokio::time::{sleep, timeout};

use super::Session;
use crate::calls::CallOutcome;
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::session::events::Event;
use crate::session::transport::Transport;
use crate::session::unanswered::{OnResponse, UnansweredCall};

/// Time to write the last responses when the daemon stops.
const LAST_RESPONSES_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for unanswered calls after the profile of the agent was removed.
const PROFILE_REMOVED_TIMEOUT: Duration = Duration::from_secs(2);

impl<T: Transport> Session<T> {
    /// Accepts no more requests; the agent receives the responses that it waits for.
    pub(super) fn begin_leaving(&mut self) {
        let refusal = profile_removed_error(Delivery::NotSent);
        self.refuse_parked(&refusal);
        self.drain.refusal = Some(refusal);
        self.drain.is_leaving = true;
        self.subscriptions.end_listens(&mut self.output);
        self.events.push(sleep(PROFILE_REMOVED_TIMEOUT).map(|()| Event::ProfileRemovedTimeout));
    }

    /// Accepts no more requests: `mcpd connect` sends them to the next program. Calls have the time `wait`.
    pub(super) fn begin_draining(&mut self, wait: Duration) {
        let refusal = stopping().with_restart_wait(wait);
        self.refuse_parked(&refusal);
        self.drain.refusal.get_or_insert(refusal);
    }

    /// Answers calls that have taken too long, and cancels them.
    pub(super) async fn end_calls(&mut self) {
        self.deliver_arrived();
        for (id, UnansweredCall { key, server, record, on_response, .. }) in self.unanswered.take_calls() {
            let line = reply::error(Some(&id), &profile_removed_error(Delivery::Unknown).about_server(server.name()));
            self.recorder.end(record, Some(&server), CallOutcome::ShuttingDown, line.len());
            // A request that several servers answer is answered once. A `subscriptions/listen` has ended before.
            let is_last = match on_response {
                OnResponse::Subrequest => self.unanswered.fan_outs_mut().remove(&id).is_some(),
                OnResponse::Topic(_) => false,
                _ => true,
            };
            if is_last {
                self.output.respond_line(&id, line);
            }
            server.cancel(key, None).await;
        }
    }

    /// Refuses what is parked or unread, and writes the last responses within a short limit.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        self.deliver_arrived();
        self.refuse_parked(&stopping());
        let last = async {
            self.refuse_unread().await?;
            self.subscriptions.end_listens(&mut self.output);
            while !self.output.is_empty() {
                poll_fn(|cx| self.output.poll_write(cx)).await?;
            }
            Ok(())
        };
        timeout(LAST_RESPONSES_TIMEOUT, last).await.unwrap_or(Ok(()))
    }

    /// Refuses what the agent has sent and nobody has read, so that the agent knows that no server has received it.
    async fn refuse_unread(&mut self) -> io::Result<()> {
        self.drain.refusal.get_or_insert_with(stopping);
        self.output.transport().stop_receiving()?;
        while let Some(message) = poll_fn(|cx| self.output.transport().poll_message(cx)).await? {
            self.receive(message);
            self.command = None;
        }
        Ok(())
    }

    /// Writes an error to an agent that has read everything else, without waiting.
    pub(super) async fn write_last(&mut self, error: &ErrorObject) {
        if self.output.is_empty() {
            self.output.respond_error(None, error);
            poll_fn(|cx| Poll::Ready(self.output.poll_write(cx).is_ready())).await;
        }
    }

    fn refuse_parked(&mut self, error: &ErrorObject) {
        for (parked, _) in self.unanswered.take_parked() {
            self.refuse_parkable(&parked, error, CallOutcome::ShuttingDown);
        }
        self.tasks.refuse_pages(error, &mut self.output);
    }
}

fn stopping() -> ErrorObject {
    ErrorObject::of_mcpd(ErrorCode::ShuttingDown, "mcpd is being stopped", Delivery::NotSent).by_stopping_daemon()
}

fn profile_removed_error(delivery: Delivery) -> ErrorObject {
    ErrorObject::of_mcpd(
        ErrorCode::ShuttingDown,
        "the profile of this connection is no longer available to this agent",
        delivery,
    )
}
