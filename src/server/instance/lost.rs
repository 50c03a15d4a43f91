//! Requests that are not answered: what came is of no use, or something has happened on the way, as it does to a server that is reached
//! by HTTP alone.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::calls::Unanswered;
use super::crossing::Way;
use super::polls::Step;
use super::{Effect, Instance, PendingRequest};
use crate::era::Era;
use crate::jsonrpc::pending::minted;
use crate::server::lifecycle::LONGEST_RETRY_AFTER;
use crate::server::messages::call::{Failure, RequestKind};
use crate::server::messages::tasks::TaskAct;
use crate::transport::http::{Lost, is_busy, unprocessed};

/// Before a look at a task that was lost on its way is made again.
const AGAIN: Duration = Duration::from_secs(1);

impl Instance {
    /// A server has answered a request with what nobody can use.
    pub(super) fn unusable_response(&mut self, id: &Bytes, failure: Failure) -> Effect {
        self.stats.skipped_lines.add_one();
        match self.take_unless_parked(id) {
            Some(PendingRequest::Call(call)) => {
                self.fail_call(call, failure);
            }
            None => self.cancelled.answered(id),
            Some(owner) => return self.own_request_failed(id, owner),
        }
        Effect::Nothing
    }

    /// Ends the request of this id.
    pub(in crate::server) fn lost(&mut self, request: u64, lost: Lost) -> Effect {
        if let Lost::Status { status, retry_after: Some(after), .. } = &lost
            && is_busy(*status)
        {
            self.wire.pause_until(Instant::now() + (*after).min(LONGEST_RETRY_AFTER));
        }
        let id = request.to_string();
        match self.wire.take(id.as_bytes()) {
            Some(PendingRequest::Call(call)) => {
                let given_back = match pause(&lost) {
                    Some(pause) => self.look_later(call, pause),
                    None => Some(call),
                };
                if let Some(call) = given_back {
                    let (failure, sent) = failure(lost);
                    self.fail_sent(call, failure, sent);
                }
                Effect::Nothing
            }
            Some(owner) => self.own_request_failed(id.as_bytes(), owner),
            None => {
                self.cancelled.answered(id.as_bytes());
                Effect::Nothing
            }
        }
    }

    /// A look at a task was lost on its way, which did nothing: there is another after this time, as long as the call has time for it.
    /// Any other call is given back.
    fn look_later(&mut self, mut call: Unanswered, pause: Duration) -> Option<Unanswered> {
        let at = Instant::now() + pause;
        match (&call.matter, call.crossing.as_deref_mut().map(|crossing| &mut crossing.way)) {
            (RequestKind::Task(ask), Some(Way::About { step, .. })) if ask.act == TaskAct::Result => {
                *step = Step::Wait(at)
            }
            _ => return Some(call),
        }
        self.wire.expire_by(at);
        self.wire.park(call);
        None
    }

    /// Whether the request of this id is the one that introduces mcpd.
    pub(in crate::server) fn is_introducing(&mut self, request: u64) -> bool {
        matches!(
            self.wire.get_mut(request.to_string().as_bytes()),
            Some(PendingRequest::Initialize | PendingRequest::Discover)
        )
    }

    /// Whether it has not answered the request that opens a connection of this era.
    pub(in crate::server) fn awaits_opening(&self, era: Era) -> bool {
        self.wire.has_pending(|entry| match era {
            Era::Legacy => matches!(entry, PendingRequest::Initialize),
            Era::Modern => matches!(entry, PendingRequest::Discover),
        })
    }

    /// What is not an agent's has no usable answer.
    pub(super) fn own_request_failed(&mut self, id: &[u8], owner: PendingRequest) -> Effect {
        match owner {
            PendingRequest::Page { listing, .. } => {
                let fetch = self.lists.failed(listing, "is unusable");
                return self.fetched(fetch);
            }
            PendingRequest::Check => return Effect::Checked(self.health.checked()),
            PendingRequest::LogLevel { .. } => self.logging.answered(&mut self.wire),
            PendingRequest::Renewal { uri, .. } => return Effect::Lapsed(uri),
            PendingRequest::Listen { .. } => {
                minted(id).into_iter().for_each(|id| drop(self.subscriptions.listen_ended(id, None)));
            }
            PendingRequest::UpdateTask { task, .. } => self.update_failed(task),
            PendingRequest::TaskResult { task } => self.task_end_answered(&task, false),
            PendingRequest::Call(_)
            | PendingRequest::Initialize
            | PendingRequest::Discover
            | PendingRequest::Ping
            | PendingRequest::CancellationCheck
            | PendingRequest::CancelTask { .. }
            | PendingRequest::Ignored { .. } => {}
        }
        Effect::Nothing
    }

    /// Why a call is not sent now, if the server has said that it wants none for a while.
    pub(super) fn is_paused(&self) -> Option<Failure> {
        let left = self.wire.paused_for()?;
        let reason = "it has asked to be left alone for a while".to_owned();
        Some(Failure::Unavailable { reason, retry_after: Some(left) })
    }
}

/// When what does nothing at the server may be asked again: soon, or when it wants to be. `None` where that would not help.
fn pause(lost: &Lost) -> Option<Duration> {
    match lost {
        Lost::Cut { .. } => Some(AGAIN),
        Lost::Status { status, retry_after, .. } if is_busy(*status) => {
            Some(retry_after.unwrap_or_default().clamp(AGAIN, LONGEST_RETRY_AFTER))
        }
        _ => None,
    }
}

/// What it is for the agent, and whether the server may have done what it was asked.
fn failure(lost: Lost) -> (Failure, bool) {
    match lost {
        Lost::NotSent { reason } => (Failure::Unavailable { reason, retry_after: None }, false),
        Lost::Unprocessed { reason } => (Failure::Unavailable { reason, retry_after: None }, false),
        Lost::LoginNeeded { why } => (Failure::LoginNeeded { why }, false),
        Lost::Cut { reason } => (Failure::Died { how: reason }, true),
        Lost::TooLarge => (Failure::AnswerTooLarge, true),
        Lost::NoAnswer => (Failure::AnswerMalformed, true),
        Lost::Status { status, retry_after, said } => {
            let said = said.map(|said| format!(": {said}")).unwrap_or_default();
            let reason = format!("it answers with HTTP {status}{said}");
            match unprocessed(status) {
                Some(statement) => {
                    tracing::debug!(%status, "a request was not processed: {statement}");
                    (Failure::Unavailable { reason, retry_after }, false)
                }
                None => (Failure::Status { status: reason, retry_after }, true),
            }
        }
    }
}
