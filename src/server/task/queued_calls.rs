//! The in-flight limit of an instance: calls beyond it wait in a queue until others end.

use std::time::Instant;

use super::ServerTask;
use super::parked_calls::Readiness;
use crate::server::instance::Instance;
use crate::server::messages::call::{Call, Failure, RequestKind};

/// Whether a call counts against the limit. Requests about tasks do not, as `tasks/result` would count until its task ends.
/// Subscriptions do not, as agents share them.
fn counts_against_limit(call: &Call, instance: &Instance) -> bool {
    match call.kind {
        RequestKind::Plain | RequestKind::NewTask | RequestKind::MayBeTask => !instance.is_resumed_by(call),
        RequestKind::ResourceSubscription(_) | RequestKind::LegacyTask(_) | RequestKind::ModernTask(_) => false,
    }
}

impl ServerTask {
    /// Writes a call to the instance. A subscription that another agent already has is answered here.
    fn send_to_instance(&mut self, call: Box<Call>, instance: &mut Instance) {
        let session = call.response_handle.key.session;
        let effects = match &call.kind {
            RequestKind::Plain | RequestKind::NewTask | RequestKind::MayBeTask | RequestKind::ModernTask(_) => {
                instance.call(call)
            }
            RequestKind::LegacyTask(_) => instance.request_about_task(call),
            RequestKind::ResourceSubscription(subscription) if subscription.begins => {
                if self.agents.join(&subscription.uri, session, call.response_handle.to()) {
                    return call.answer_empty();
                }
                instance.subscribe(*call)
            }
            RequestKind::ResourceSubscription(subscription) => {
                let is_subscribed = instance.subscriptions.withdraw(session, &subscription.uri);
                if !self.agents.resource_subscribers.remove(&subscription.uri, session) || is_subscribed {
                    return call.answer_empty();
                }
                instance.unsubscribe(call)
            }
        };
        self.carry_out(effects, instance);
    }

    /// Writes a call to the instance, or queues it at the limit.
    pub(super) fn send_or_queue(&mut self, call: Box<Call>, instance: &mut Instance) {
        let payer = call.response_handle.payer();
        if !counts_against_limit(&call, instance) || !self.waiting.has_queued() && instance.vacancies().has(payer) {
            self.send_to_instance(call, instance);
        } else if self.may_wait(&call) {
            let until = Instant::now() + call.limit.progress_timeout;
            self.waiting.queue(call, until);
        } else {
            self.refuse(*call, Failure::Overloaded { what: "too many calls wait for it" });
        }
    }

    /// Re-checks every waiting call. Without `releases` none is written.
    pub(super) fn release_waiting(&mut self, instance: &mut Instance, releases: bool) {
        if !self.waiting.is_empty() {
            self.expire_waiting();
        }
        if releases {
            self.release_queued(instance);
            self.release_parked(instance);
            self.release_queued(instance);
        }
    }

    /// Writes queued calls while the limit permits. Each is checked again, as policy and lists may have changed.
    fn release_queued(&mut self, instance: &mut Instance) {
        while self.waiting.has_queued() {
            let vacancies = instance.vacancies();
            let Some(call) = self.waiting.next_queued(|payer| vacancies.has(payer)) else { return };
            match self.readiness(&call, instance) {
                Readiness::Send => self.send_to_instance(call, instance),
                Readiness::Refuse => self.refuse_as_unknown(*call),
                Readiness::Wait | Readiness::WaitForRegistration => self.park(call),
            }
        }
    }
}
