//! One connection to a server after its handshake, with everything that is in flight on it.
//!
//! The instance only dispatches. It hands each event to the component that the event concerns. The component queues lines on the
//! [`Wire`], answers agents, or returns what others have to do. No component knows another, except for what it is handed to read.
//! The task of the server decides when to read, write and expire, and carries out all [`Effects`].
//!
//! | component | owns |
//! | --- | --- |
//! | [`wire`] | the link, queued lines, pending requests, deadlines |
//! | [`admission`] | admission and counters of calls |
//! | [`abandoned_calls`] | calls that nobody waits for, and that the server may still work on |
//! | [`attribution`] | which agent a message belongs to |
//! | [`lists`], [`logging`], [`health_checks`] | the lists, log level and health checks of the server |
//! | [`forwarded_requests`] | requests of the server to agents |
//! | [`subscriptions`] | subscriptions to resources, tasks and lists |
//! | [`tasks`] | every task |
//!
//! The methods of the instance stand in one file per subject:
//!
//! | file | events |
//! | --- | --- |
//! | [`routing`] | a message or deadline: finds the pending request that it ends |
//! | [`ending`] | the end of a pending request: what follows for each kind, for fetched lists, and for errors about the session |
//! | [`agent_calls`] | calls of agents: queued, answered, failed or cancelled |
//! | [`bridge_driver`], [`suspended_calls`] | calls between the eras, their retries, and inputs that they require |
//! | [`legacy_requests`] | requests of a legacy server |
//! | [`notifications`] | notifications, both ways |
//! | [`task_driver`] | requests and reports about tasks |

mod abandoned_calls;
mod admission;
mod agent_calls;
mod attribution;
mod bridge_driver;
mod effect;
mod ending;
mod forwarded_requests;
mod health_checks;
mod legacy_requests;
mod lists;
mod logging;
mod notifications;
mod pending_request;
mod routing;
mod subscriptions;
mod suspended_calls;
mod task_driver;
mod tasks;
mod wire;

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;

use self::abandoned_calls::AbandonedCalls;
use self::admission::CallCounter;
pub(super) use self::attribution::MessageOwner;
use self::attribution::{Attribution, Workload};
pub(super) use self::effect::{Effect, Effects, Recipients};
use self::forwarded_requests::ForwardedRequests;
pub(super) use self::forwarded_requests::{FromAgent, not_forwarded};
use self::health_checks::HealthChecks;
use self::lists::ServerLists;
use self::logging::Logging;
pub(super) use self::pending_request::PendingRequest;
use self::subscriptions::ServerSubscriptions;
pub(super) use self::subscriptions::{NewSubscription, NotificationSupport, Topic};
pub(super) use self::suspended_calls::{tag, tag_of_retry};
use self::tasks::TaskTable;
use self::wire::Wire;
use super::agent_scope::AgentScope;
use super::fairness::Vacancies;
use super::link::Link;
use super::stats::Stats;
use crate::config::ServerConfig;
use crate::era::Era;
use crate::message_limit::MessageLimit;
use crate::tap::TapPoint;
use crate::task_state::TaskSupport;

/// A running instance of a server.
pub(super) struct Instance {
    pub(super) wire: Wire,
    config: Arc<ServerConfig>,
    calls: CallCounter,
    abandoned: AbandonedCalls,
    /// Identifies the instance in the ids of suspended calls and of modern tasks.
    tag: u64,
    attribution: Attribution,
    pub(super) lists: ServerLists,
    pub(super) health: HealthChecks,
    pub(super) logging: Logging,
    pub(super) subscriptions: ServerSubscriptions,
    pub(super) forwarded_requests: ForwardedRequests,
    tasks: TaskTable,
}

/// What an instance is made for.
pub(super) struct InstanceSetup {
    pub(super) config: Arc<ServerConfig>,
    pub(super) scope: AgentScope,
    /// Distinguishes it from other instances of the same server.
    pub(super) label: Option<Arc<str>>,
    pub(super) stats: Arc<Stats>,
    pub(super) message_limit: MessageLimit,
    pub(super) tap: TapPoint,
}

impl Instance {
    pub(super) fn new(link: Link, setup: InstanceSetup) -> Self {
        let InstanceSetup { config, scope, label, stats, message_limit, tap } = setup;
        let timeout = config.settings.handshake_timeout;
        let call_timeout = config.settings.call_timeout_max;
        Self {
            abandoned: AbandonedCalls::new(link.remote().is_none()),
            tag: tag(label.as_deref()),
            wire: Wire::new(link, message_limit, tap),
            calls: CallCounter::new(Arc::clone(&stats)),
            attribution: Attribution::new(scope),
            lists: ServerLists::new(&config.settings),
            health: HealthChecks::default(),
            logging: Logging::new(timeout),
            subscriptions: ServerSubscriptions::new(stats, timeout),
            forwarded_requests: ForwardedRequests::new(Arc::clone(&config.name), call_timeout),
            tasks: TaskTable::default(),
            config,
        }
    }

    pub(super) fn stats(&self) -> &Stats {
        self.calls.stats()
    }

    /// Whether it has calls, tasks or requests for agents that have not ended.
    pub(super) fn is_busy(&self) -> bool {
        self.calls.count() > 0
            || self.subscriptions.are_waited_for()
            || self.tasks.has_open()
            || self.forwarded_requests.are_open()
    }

    /// The number of calls that were accepted and have not ended.
    pub(super) fn calls(&self) -> usize {
        self.calls.count()
    }

    /// The number of calls that an agent waits for.
    pub(super) fn awaited(&self) -> usize {
        self.wire.calls().filter(|(_, call)| call.response_handle.to().is_some()).count()
    }

    /// The sessions that may start one more call now.
    ///
    /// A call that was cancelled or has timed out counts for `max_concurrent` while the server may work on it.
    pub(super) fn vacancies(&self) -> Vacancies {
        let abandoned = self.abandoned.len(Instant::now());
        self.calls.vacancies(&self.wire, self.config.settings.max_concurrent, abandoned)
    }

    /// When the next cancelled call stops counting without a further message of the server, if one will.
    pub(super) fn next_vacancy(&self) -> Option<Instant> {
        self.abandoned.next_over()
    }

    /// The deadline of a request of mcpd that no agent waits for.
    fn request_deadline(&self) -> Instant {
        Instant::now() + self.config.settings.handshake_timeout
    }

    /// The server has declared what it supports of tasks.
    pub(super) fn declare_tasks(&mut self, support: TaskSupport) {
        self.tasks.declare(support);
    }

    /// The client capabilities that are declared to the server.
    pub(super) fn capabilities(&self) -> Box<RawValue> {
        self.attribution.scope().capabilities(self.config.roots())
    }

    /// Whether the request with this id opens the connection.
    pub(super) fn is_handshake_request(&mut self, request: u64) -> bool {
        let pending = self.wire.get_mut(request.to_string().as_bytes());
        matches!(pending, Some(PendingRequest::Initialize | PendingRequest::Discover))
    }

    /// Whether the request that opens a connection of this era is unanswered.
    pub(super) fn awaits_handshake_response(&self, era: Era) -> bool {
        self.wire.has_pending(|pending| match era {
            Era::Legacy => matches!(pending, PendingRequest::Initialize),
            Era::Modern => matches!(pending, PendingRequest::Discover),
        })
    }

    /// Updates the subscriptions at a modern server. Returns when to call this again.
    pub(super) fn refresh_subscriptions(&mut self) -> Option<Instant> {
        self.subscriptions.refresh(&mut self.wire)
    }

    fn workload(&self) -> Workload<'_> {
        let Self { wire, abandoned, tasks, forwarded_requests, .. } = self;
        Workload { wire, abandoned, tasks, forwarded_requests }
    }
}

#[cfg(test)]
mod tests;
