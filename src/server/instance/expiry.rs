//! When what an instance owes is waited for no longer, and what becomes of it then.

use std::sync::Arc;
use std::time::Instant;

use super::calls::Unanswered;
use super::{Effect, Instance, Owner};
use crate::jsonrpc::reply;
use crate::server::call::Failure;

impl Instance {
    /// Ends what has waited too long.
    pub(in crate::server) fn expire(&mut self, now: Instant) -> Effect {
        for owner in self.pending.iter_mut() {
            if let Owner::Call(call) = owner {
                call.look(now);
            }
        }
        let expired = self.pending.remove_where(|owner| owner.deadline().is_some_and(|at| at <= now));
        self.tasks.expire(now);
        self.stated.at_work.expire(now);
        self.expire_questions(now);
        self.poll_tasks(now);
        let unanswered = self.stated.expire(now);
        self.refuse_questions(&unanswered);
        self.expire_waiting(now);
        let polls = self.unanswered().filter_map(Unanswered::polls_at);
        let ends = [
            self.tasks.next_end(),
            self.stated.next_end(),
            self.stated.at_work.next_end(),
            self.questions.deadline(),
            self.listening.next_end(),
        ];
        let ends = ends.into_iter().flatten().chain(polls);
        self.next_deadline = self.pending.iter().filter_map(Owner::deadline).chain(ends).min();
        let mut effect = Effect::Nothing;
        for (id, owner) in expired {
            match owner {
                Owner::Call(call) => self.expire_call(id, call),
                Owner::Page { listing, .. } => effect = self.not_listed(listing, "did not come in time"),
                Owner::Listen { .. } => {
                    self.link.give_up(id);
                    self.send(reply::cancelled(id, "it was not acknowledged in time"));
                    self.listen_ended(id, None);
                }
                Owner::Level { .. } => self.level_answered(),
                Owner::Update { task, .. } => self.update_failed(task),
                // A server that cancels nothing may be at the task as before.
                Owner::Disowned { .. }
                | Owner::Initialize
                | Owner::Discover
                | Owner::Ping
                | Owner::CancellationCheck
                | Owner::Check
                | Owner::Renewal { .. }
                | Owner::TaskEnd { .. }
                | Owner::Aside { .. } => {}
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
        self.note_timeout(&call);
        if call.is_parked() {
            self.fail_sent(call, Failure::TimedOut { after }, true);
        } else if self.fail_call(call, Failure::TimedOut { after }) {
            let why = if is_away { "its agent has not come back" } else { "the call timed out" };
            self.abandon((id, key), makes_task, ticket, reply::cancelled(id, why));
        }
        self.give_up_questions(key.session, (-31002, "the call that this was for timed out"));
    }

    /// Remembers a call that has timed out for the next health check. One that waits for its agent says nothing of the server.
    fn note_timeout(&mut self, call: &Unanswered) {
        if !call.is_parked() {
            self.timed_out = self.timed_out.max(Some(call.deadline.begun()));
        }
    }

    /// When the latest call was sent of those that have timed out since this was last called.
    pub(in crate::server) fn take_timed_out(&mut self) -> Option<Instant> {
        self.timed_out.take()
    }
}
