//! Runs the health checks of an instance: sends pings, publishes the result, and restarts the instance if configured.

use std::time::Instant;

use super::ServerTask;
use super::shutdown::StopReason;
use crate::config::OnUnhealthy;
use crate::server::control::HealthOverride;
use crate::server::error::ServerError;
use crate::server::health::{Check, CheckResult, Health, Outcomes, UnansweredCounts};
use crate::server::instance::Instance;
use crate::server::lifecycle::{Event, State};

impl ServerTask {
    /// The health of a new instance, unless checks are off.
    pub(super) fn begin_checkups(&self) -> Option<Health> {
        let settings = &self.config.settings;
        let is_checked = settings.on_unhealthy != OnUnhealthy::Ignore;
        is_checked.then(|| Health::new(settings.health_interval, settings.health_timeout, Instant::now()))
    }

    /// Checks the instance. Returns the reason if it must be restarted.
    pub(super) fn check_up(&mut self, health: &mut Health, instance: &mut Instance) -> Option<StopReason> {
        let health_override = self.control.health_override();
        let outcomes = Outcomes {
            answers_pings: instance.health.answers_pings(&instance.wire),
            has_calls: instance.calls() > 0,
            timed_out: instance.health.take_timed_out(),
        };
        // A mark set by the operator overrides the checks. A server that is marked down gets no calls.
        match health.check(Instant::now(), outcomes, health_override != HealthOverride::Auto) {
            CheckResult::Wait => return None,
            CheckResult::Send(Check::Ping) => instance.health.ping(&mut instance.wire),
            CheckResult::Send(Check::List) => instance.health.probe(&mut instance.wire, instance.lists.offered()),
            CheckResult::Healthy => {
                self.publisher.publish_check(UnansweredCounts::default());
                if health_override == HealthOverride::Auto {
                    self.on(Event::Healthy);
                }
            }
            CheckResult::Missed(silence) => {
                self.publisher.publish_check(silence);
                if health.is_unresponsive() {
                    return self.ill(silence, instance);
                }
            }
        }
        None
    }

    fn ill(&mut self, silence: UnansweredCounts, instance: &Instance) -> Option<StopReason> {
        let reason = ServerError::Unanswered(silence);
        if self.config.settings.on_unhealthy == OnUnhealthy::Restart {
            return Some(StopReason::Broken(reason));
        }
        // The first reason stays. The report has the present numbers.
        if !matches!(self.lifecycle.state(), State::Unresponsive { .. }) {
            self.on(Event::Unhealthy(self.explained(reason, instance)));
        }
        None
    }

    /// Applies the operator's health override.
    pub(super) fn override_health(&mut self, health_override: HealthOverride) {
        match health_override {
            HealthOverride::Auto | HealthOverride::ForceHealthy => self.on(Event::Healthy),
            HealthOverride::ForceUnhealthy => self.on(Event::Unhealthy(ServerError::MarkedDown)),
        }
    }

    /// Whether the operator has marked the server as down, so that the instance gets no calls.
    pub(super) fn marked_down(&self) -> bool {
        matches!(self.lifecycle.state(), State::Unresponsive { reason: ServerError::MarkedDown, .. })
    }
}
