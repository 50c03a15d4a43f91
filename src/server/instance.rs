//! One running instance: its streams, the requests it has not answered, the lists being followed.
//!
//! Synchronous but for its streams: each event is taken in and turned into lines queued for the server, answers to
//! sessions, and an [`Effect`] for the task around it, which decides when to read, write and expire.

mod always_tasks;
mod asked;
mod asking;
mod at_work;
mod calls;
mod cancelled_calls;
mod crossing;
mod declared;
mod effect;
mod expiry;
mod heads;
mod health_checks;
pub(super) mod held;
mod kept;
mod lists;
mod logging;
mod logs;
mod lost;
mod notifications;
mod ownership;
mod pending_request;
mod places;
mod polls;
mod rounds;
mod server_requests;
mod stated;
mod stated_asks;
mod stated_questions;
mod stated_tasks;
mod subscriptions;
mod task_calls;
mod task_inputs;
mod task_questions;
mod task_tools;
mod tasks;
mod unsent;
mod wire;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use self::always_tasks::AlwaysTasks;
use self::cancelled_calls::CancelledCalls;
pub(super) use self::effect::Effect;
use self::health_checks::HealthChecks;
use self::lists::{Fetch, ServerLists};
use self::logging::Logging;
pub(super) use self::logs::level_of;
pub(super) use self::pending_request::PendingRequest;
pub(super) use self::server_requests::FromAgent;
use self::server_requests::ServerRequests;
use self::stated::StatedTasks;
use self::subscriptions::Subscriptions;
pub(super) use self::subscriptions::{NewSubscription, Topic};
use self::task_tools::TaskTools;
use self::tasks::Tasks;
use self::wire::Wire;
use super::link::Link;
use super::messages::call::Failure;
use super::messages::tasks::TaskSupport;
use super::role::Role;
use super::stats::Stats;
use crate::catalog::List;
use crate::config::ServerConfig;
use crate::era::Era;
use crate::jsonrpc::pending::minted;
use crate::jsonrpc::splice::{Edit, splice};
use crate::jsonrpc::{Malformed, Message};
use crate::kind::Kind;
use crate::transport::{Arrival, Incoming};

/// A running instance of a server.
pub(super) struct Instance {
    pub(super) wire: Wire,
    pub(super) stats: Arc<Stats>,
    config: Arc<ServerConfig>,
    /// Calls among the pending requests.
    calls: usize,
    pub(super) lists: ServerLists,
    pub(super) health: HealthChecks,
    pub(super) logging: Logging,
    pub(super) subscriptions: Subscriptions,
    cancelled: CancelledCalls,
    pub(super) server_requests: ServerRequests,
    role: Role,
    tasks: Tasks,
    /// Those of agents of the modern era.
    stated: StatedTasks,
    pub(super) task_support: TaskSupport,
    task_tools: TaskTools,
    /// Tools of a modern server that make tasks, though an agent has asked for none.
    always_tasks: AlwaysTasks,
    /// The call on whose own stream is what is taken in just now, and its session.
    within: Option<(u64, u64)>,
    /// What its states begin with, so that they are known for its own.
    pub(super) mark: u64,
}

impl Instance {
    pub(super) fn new(
        link: Link,
        (config, role): (Arc<ServerConfig>, Role),
        stats: Arc<Stats>,
        max_message: usize,
    ) -> Self {
        let cancelled = CancelledCalls::new(link.remote().is_none());
        let timeout = config.settings.handshake_timeout;
        let subscriptions = Subscriptions::new(Arc::clone(&stats), timeout);
        let server_requests = ServerRequests::new(Arc::clone(&config.name), config.settings.call_timeout_max);
        Self {
            wire: Wire::new(link, max_message),
            stats,
            config,
            calls: 0,
            lists: ServerLists::new(timeout),
            health: HealthChecks::default(),
            logging: Logging::new(timeout),
            subscriptions,
            cancelled,
            server_requests,
            role,
            tasks: Tasks::default(),
            stated: StatedTasks::default(),
            task_support: TaskSupport::default(),
            task_tools: TaskTools::default(),
            always_tasks: AlwaysTasks::default(),
            within: None,
            mark: 0,
        }
    }

    /// Whether it has calls, tasks or requests for agents that have not ended.
    pub(super) fn is_busy(&self) -> bool {
        self.calls > 0
            || self.subscriptions.are_waited_for()
            || self.has_open_tasks()
            || self.server_requests.are_open()
    }

    /// Calls that were taken and have not ended.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    /// By when a request of our own that an agent does not wait for has to be answered.
    fn request_deadline(&self) -> Instant {
        Instant::now() + self.config.settings.handshake_timeout
    }

    /// Takes in what has come.
    pub(super) fn arrive(&mut self, arrival: Arrival) -> Effect {
        match arrival {
            Arrival::Incoming { incoming, within } => {
                self.within = within.and_then(|request| Some((request, self.session_of(request)?)));
                let effect = self.take(incoming);
                self.within = None;
                effect
            }
            Arrival::Lost { request, lost } => self.lost(request, lost),
            Arrival::Moved => Effect::Nothing,
        }
    }

    /// Takes in what the server sent.
    pub(super) fn take(&mut self, incoming: Incoming) -> Effect {
        match incoming {
            Incoming::Message { line, message: Message::Response { id, outcome } } => {
                self.response(&line, &id, outcome)
            }
            // Such a server asks nothing, and is answered nothing (MCP 2026-07-28, `basic/transports/stdio`).
            Incoming::Message { message: Message::Request { .. }, .. } if self.wire.era() == Era::Modern => {
                self.stats.skipped_lines.add_one();
                Effect::Nothing
            }
            Incoming::Message { line, message: Message::Request { id, method, params } } => {
                self.server_request(&line, &id, &method, params.as_ref());
                Effect::Nothing
            }
            Incoming::Message { line, message: Message::Notification { method, params } } => {
                self.notification(line, &method, params)
            }
            Incoming::TooLarge { id: Some(id), is_response: true } => {
                self.unusable_response(&id, Failure::AnswerTooLarge)
            }
            Incoming::Malformed(Malformed::BadResponse { id }) => self.unusable_response(&id, Failure::AnswerMalformed),
            Incoming::TooLarge { .. } | Incoming::Malformed(_) | Incoming::Batch(_) => {
                self.stats.skipped_lines.add_one();
                Effect::Nothing
            }
        }
    }

    /// What has become of a fetched list.
    fn fetched(&mut self, fetch: Fetch) -> Effect {
        match fetch {
            Fetch::Continues => Effect::Nothing,
            Fetch::Done(kind, list) => {
                let list = self.prepared(kind, list);
                Effect::Listed { kind, list, settled: self.lists.are_settled() }
            }
            Fetch::Failed { reason, partial } => {
                let partial = partial.map(|(kind, list)| (kind, self.prepared(kind, list)));
                Effect::NotListed { reason, partial, settled: self.lists.are_settled() }
            }
        }
    }

    /// The list as it is published.
    fn prepared(&mut self, kind: Kind, list: List) -> List {
        if kind != Kind::Tools {
            return list;
        }
        let mut list = self.without_unfit(list);
        list.makes_tasks = self.wire.era() == Era::Modern && self.task_support.declared;
        self.note_task_tools(&list);
        list
    }

    fn response(&mut self, line: &Bytes, id: &Bytes, outcome: Result<Bytes, Bytes>) -> Effect {
        let taken = self.take_unless_parked(id);
        if taken.is_some() {
            self.cancelled.pending_answered(id);
        }
        match taken {
            Some(PendingRequest::Call(mut call)) => {
                if let Some(crossing) = call.crossing.take() {
                    return self.end_crossing(call, *crossing, (id, line), outcome.as_ref());
                }
                let answer = splice(line, &mut [Edit { part: id, replacement: call.reply.id() }]);
                self.end_call(call, id, answer, outcome.as_ref())
            }
            Some(PendingRequest::Page { listing, .. }) => {
                let fetch = self.lists.page(&mut self.wire, listing, outcome);
                self.fetched(fetch)
            }
            Some(PendingRequest::Renewal { uri, .. }) if outcome.is_err() => Effect::Lapsed(uri),
            Some(PendingRequest::Ping | PendingRequest::Renewal { .. } | PendingRequest::Ignored { .. }) => {
                Effect::Nothing
            }
            Some(PendingRequest::CancellationCheck) => {
                self.check_cancellations();
                Effect::Nothing
            }
            Some(PendingRequest::Listen { .. }) => {
                let refused = minted(id).map(|id| self.subscriptions.listen_ended(id, Some(outcome.as_ref())));
                Effect::refused(refused.unwrap_or_default())
            }
            Some(PendingRequest::Check) => Effect::Checked(self.health.checked()),
            Some(PendingRequest::LogLevel { .. }) => {
                self.logging.answered(&mut self.wire);
                Effect::Nothing
            }
            Some(PendingRequest::CancelTask { task, .. }) => {
                self.disowned_answered(task, outcome.as_ref());
                Effect::Nothing
            }
            Some(PendingRequest::UpdateTask { task, .. }) => {
                if outcome.is_err() {
                    self.update_failed(task);
                }
                Effect::Nothing
            }
            Some(PendingRequest::TaskResult { task }) => {
                self.task_end_answered(&task, outcome.is_ok());
                Effect::Nothing
            }
            Some(PendingRequest::Initialize | PendingRequest::Discover) | None => {
                self.cancelled.answered(id);
                self.late_answer(id, outcome.as_ref());
                self.stats.stray_responses.add_one();
                Effect::Nothing
            }
        }
    }
}
