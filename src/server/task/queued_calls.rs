//! The in-flight limit of an instance: calls beyond it wait in a queue until others end.

use std::time::Instant;

use super::ServerTask;
use super::parked_calls::{ParkedCall, Readiness};
use crate::server::fair_queue::Entry;
use crate::server::instance::Instance;
use crate::server::messages::call::{Call, Failure, RequestKind};

/// Whether a call counts against the limit. `tasks/result` may hold a place until the task ends, so other requests about tasks need no
/// place.
/// Subscriptions are shared by agents.
fn takes_place(call: &Call, instance: &Instance) -> bool {
    match call.kind {
        RequestKind::Nothing | RequestKind::NewTask | RequestKind::MayBeTask => !instance.is_resumed_by(call),
        RequestKind::Subscription(_) | RequestKind::Task(_) | RequestKind::ModernTask(_) => false,
    }
}

impl ServerTask {
    /// Writes a call to the instance, or queues it at the limit.
    pub(super) fn give_or_queue(&mut self, call: Box<Call>, instance: &mut Instance) {
        let session = call.reply.key.session;
        if !takes_place(&call, instance) || self.queued.is_empty() && instance.vacancies().has(session) {
            self.give(call, instance);
        } else if self.may_wait(&call) {
            let until = Instant::now() + call.limit.silence;
            self.queued.push(ParkedCall::entry(call, until));
        } else {
            self.refuse(*call, Failure::Overloaded { what: "too many calls wait for it" });
        }
    }

    /// Re-checks every waiting call. Without `releases` none is written.
    pub(super) fn release_waiting(&mut self, instance: &mut Instance, releases: bool) {
        if !self.parked.is_empty() || !self.queued.is_empty() {
            self.expire_parked();
        }
        if releases {
            self.release_queued(instance);
            self.release_parked(instance);
            self.release_queued(instance);
        }
    }

    /// Writes queued calls while the limit permits. Each is checked again, as policy and lists may have changed.
    fn release_queued(&mut self, instance: &mut Instance) {
        while !self.queued.is_empty() {
            let vacancies = instance.vacancies();
            let Some(Entry { item: ParkedCall { call, .. }, .. }) = self.queued.pop(|session| vacancies.has(*session))
            else {
                return;
            };
            match self.readiness(&call, instance) {
                Readiness::Release => self.give(call, instance),
                Readiness::Refuse => self.refuse_as_unknown(*call),
                Readiness::Wait | Readiness::WaitForRegistration => self.park(call),
            }
        }
    }

    /// Refuses expired queued calls.
    pub(super) fn expire_queued(&mut self, now: Instant) {
        for Entry { item: ParkedCall { call, .. }, .. } in self.queued.expire(now) {
            let after = call.limit.silence;
            self.refuse(*call, Failure::TimedOut { after });
        }
    }
}
