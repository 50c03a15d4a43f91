//! When what an instance owes is waited for no longer, and what becomes of it then.

use std::sync::Arc;
use std::time::Instant;

use super::calls::Unanswered;
use super::{Effect, Instance, PendingRequest};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::reply;
use crate::server::messages::call::Failure;

impl Instance {
    /// Ends what has waited too long.
    pub(in crate::server) fn expire(&mut self, now: Instant) -> Effect {
        let mark = self.mark;
        self.wire.calls_mut().for_each(|call| call.look(mark, now));
        let expired = self.wire.remove_where(|owner| owner.deadline().is_some_and(|at| at <= now));
        self.tasks.expire(now);
        self.stated.at_work.expire(now);
        let expired_requests = self.server_requests.expire(&mut self.wire, now);
        self.requests_ended(expired_requests);
        self.poll_tasks(now);
        let unanswered = self.stated.expire(now);
        self.refuse_questions(&unanswered);
        self.subscriptions.expire(now);
        let polls: Vec<_> = self.unanswered().filter_map(Unanswered::polls_at).collect();
        let ends = [
            self.tasks.next_end(),
            self.stated.next_end(),
            self.stated.at_work.next_end(),
            self.server_requests.next_deadline(),
            self.subscriptions.next_deadline(),
        ];
        let ends = ends.into_iter().flatten().chain(polls);
        self.wire.reset_deadline(ends);
        let mut effect = Effect::Nothing;
        for (id, owner) in expired {
            match owner {
                PendingRequest::Call(call) => self.expire_call(id, call),
                PendingRequest::Page { listing, .. } => {
                    let fetch = self.lists.failed(listing, "did not come in time");
                    effect = self.fetched(fetch);
                }
                PendingRequest::Listen { .. } => {
                    self.wire.give_up(id);
                    self.wire.notify(reply::cancelled(id, "it was not acknowledged in time"));
                    self.subscriptions.listen_ended(id, None);
                }
                PendingRequest::LogLevel { .. } => self.logging.answered(&mut self.wire),
                PendingRequest::UpdateTask { task, .. } => self.update_failed(task),
                // A server that cancels nothing may be at the task as before.
                PendingRequest::CancelTask { .. }
                | PendingRequest::Initialize
                | PendingRequest::Discover
                | PendingRequest::Ping
                | PendingRequest::CancellationCheck
                | PendingRequest::Check
                | PendingRequest::Renewal { .. }
                | PendingRequest::TaskResult { .. }
                | PendingRequest::Ignored { .. } => {}
            }
        }
        effect
    }

    fn expire_call(&mut self, id: u64, mut call: Unanswered) {
        let (after, key, makes_task) = (call.deadline.limit(), call.reply.key, call.makes_task());
        let ticket = call.reply.ticket().map(Arc::downgrade);
        let is_away = call.reply.to().is_none();
        self.give_up_held(&mut call);
        self.withdraw_inputs(id);
        // A call that waits for its agent tells nothing about the server.
        if !call.is_parked() {
            self.health.call_timed_out(call.deadline.begun());
        }
        if call.is_parked() {
            self.fail_sent(call, Failure::TimedOut { after }, true);
        } else if self.fail_call(call, Failure::TimedOut { after }) {
            let why = if is_away { "its agent has not come back" } else { "the call timed out" };
            self.abandon((id, key), makes_task, ticket, reply::cancelled(id, why));
        }
        self.end_requests_for(key.session, (ErrorCode::TimedOut, "the call that this was for timed out"));
    }
}
