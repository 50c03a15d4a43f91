//! A call with an instance: it is written, queued at the in-flight limit, parked, or refused.
//!
//! It is checked again, since it may have waited: if its listener hides the name by now, the agent gets the error for an unknown name.

use std::time::Instant;

use super::ServerTask;
use crate::list_kind::ListKind;
use crate::pins::PinnedKind;
use crate::server::instance::Instance;
use crate::server::messages::call::{Call, Exposure, Failure, RequestKind};

/// What can be done with a call now.
pub(super) enum Readiness {
    Send,
    Wait,
    /// As `Wait`, but not for long.
    WaitForRegistration,
    Refuse,
}

impl ServerTask {
    /// Handles a call with an instance.
    pub(super) fn dispatch_call(&mut self, mut call: Box<Call>, instance: &mut Instance) {
        match self.readiness(&mut call, instance) {
            Readiness::Send => self.send_or_queue(call, instance),
            Readiness::Refuse => self.refuse_as_unknown(*call),
            Readiness::Wait | Readiness::WaitForRegistration => {
                self.park(call);
                self.release_parked(instance);
            }
        }
    }

    /// What can be done with a call now, by the newest view of its listener.
    pub(super) fn readiness(&self, call: &mut Call, instance: &Instance) -> Readiness {
        let Some(access) = &mut call.access else { return Readiness::Send };
        let depends_on_any = |is_it: &dyn Fn(ListKind) -> bool| {
            ListKind::ALL.into_iter().any(|kind| access.depends_on(kind) && is_it(kind))
        };
        if depends_on_any(&|kind| instance.lists.is_first_fetch(kind)) {
            return Readiness::Wait;
        }
        // A former instance's definitions were approved, not those of this one, which has failed to list its own.
        let lacks_own = |kind| PinnedKind::of(kind).is_some() && !instance.lists.has_own(kind);
        if depends_on_any(&lacks_own) && access.is_held(&self.config.name) {
            return Readiness::Wait;
        }
        let published = self.publisher.snapshot();
        let exposure = access.check(&self.config.name, &published.lists);
        let has_failed = |kind| access.depends_on(kind) && published.list_errors[kind].is_some();
        match exposure {
            Exposure::Exposed => Readiness::Send,
            Exposure::NotListed if ListKind::ALL.into_iter().any(has_failed) => Readiness::Wait,
            Exposure::NotListed => Readiness::WaitForRegistration,
            Exposure::Hidden => Readiness::Refuse,
        }
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

    /// Writes a call to the instance. A subscription that another agent already has is answered here.
    pub(super) fn send_to_instance(&mut self, mut call: Box<Call>, instance: &mut Instance) {
        if let Err(refused) = call.apply_override() {
            self.publisher.stats.errors.add_one();
            return call.refuse_arguments(&refused);
        }
        call.begin_span();
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
}

/// Whether a call counts against the limit. Requests about tasks do not, as `tasks/result` would count until its task ends.
/// Subscriptions do not, as agents share them.
fn counts_against_limit(call: &Call, instance: &Instance) -> bool {
    match call.kind {
        RequestKind::Plain | RequestKind::NewTask | RequestKind::MayBeTask => !instance.is_resumed_by(call),
        RequestKind::ResourceSubscription(_) | RequestKind::LegacyTask(_) | RequestKind::ModernTask(_) => false,
    }
}
