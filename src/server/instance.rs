//! One connection to a server after its handshake, with everything that is in flight on it.
//!
//! The instance only dispatches. It hands each event to the component that the event concerns. The component queues lines on the
//! [`Wire`], answers agents, or returns what others have to do. No component knows another, except for what it is handed to read.
//! Calls between the eras go through [`crate::bridge`], whose steps are carried out here. The task of the server decides when to
//! read, write and expire, and acts on each [`Effect`].
//!
//! | component | owns |
//! | --- | --- |
//! | [`wire`] | the link, queued lines, pending requests, deadlines |
//! | [`calls`] | admission and counters of calls |
//! | [`cancelled_calls`] | cancelled calls that the server may still work on |
//! | [`suspended_calls`] | bridged calls that wait for the retry of their agent |
//! | [`attribution`] | which agent a message belongs to |
//! | [`lists`], [`logging`], [`health_checks`] | the lists, log level and health checks of the server |
//! | [`server_requests`] | requests of the server to agents |
//! | [`subscriptions`] | subscriptions to resources, tasks and lists |
//! | [`tasks`] | every task |

mod attribution;
mod bridged_call;
mod bridging;
mod calls;
mod cancelled_calls;
mod effect;
mod header_params;
mod health_checks;
mod input_collection;
mod last_line;
mod lists;
mod logging;
mod ownership;
mod pending_call;
mod pending_request;
mod references;
mod server_requests;
mod session_errors;
mod subscriptions;
mod suspended_calls;
mod tasks;
mod transport_errors;
mod wire;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

pub(super) use self::attribution::LogOwner;
use self::attribution::level_of;
use self::attribution::{Attribution, LogRecipient, RequestTarget, SourceStream, Workload};
use self::bridged_call::PendingBridgedCall;
use self::bridging::{Beginning, Retry};
use self::calls::CallCounter;
use self::cancelled_calls::{CancelledCalls, GRACE, Until};
pub(super) use self::effect::{Effect, Recipients};
use self::health_checks::HealthChecks;
use self::input_collection::{has_space_for_inputs, set_input_response, take_complete};
use self::lists::{Fetch, ServerLists};
use self::logging::Logging;
use self::pending_call::{AbandonedCall, PendingCall};
pub(super) use self::pending_request::PendingRequest;
use self::pending_request::ServerResponse;
use self::references::Reference;
use self::server_requests::{
    AnswerUse, CallInput, InputAnswer, Recipient, RequestEnd, RequestHandling, ServerRequests,
};
pub(super) use self::server_requests::{FromAgent, not_forwarded};
use self::session_errors::is_about_session;
use self::subscriptions::ServerSubscriptions;
pub(super) use self::subscriptions::{NewSubscription, NotificationSupport, Topic};
use self::suspended_calls::SuspendedCalls;
pub(super) use self::suspended_calls::{tag, tag_of_retry};
use self::tasks::{Lookup, TaskTable};
use self::wire::{MAX_SMALL_LINE, Wire};
use super::agent_scope::{AgentScope, roots_result};
use super::fair_share::{MAX_IN_FLIGHT, Vacancies};
use super::link::Link;
use super::messages::call::{Call, CallKey, Failure, Origin, RequestKind};
use super::messages::cancellation::Cancellation;
use super::messages::server_notification::{
    ExtensionNotification, ModernTaskStatus, ResourceUpdate, ServerNotification,
};
use super::server_request::{ParsedRequest, may_have_arrived_error};
use super::stats::Stats;
use crate::bridge::{self, BridgeError, BridgedCall, ServerRequest, Step};
use crate::calls::CallOutcome;
use crate::catalog::{List, Lists};
use crate::client_capabilities::ClientCapability;
use crate::config::{Launch, Malformed, SandboxLevel, ServerConfig, Sharing};
use crate::era::input::Input;
use crate::era::notification::without_subscription;
use crate::era::result::with_result_type;
use crate::era::{self, Era};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::normalise::own_id;
use crate::jsonrpc::pending::parse_own_id;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_REQUEST};
use crate::jsonrpc::splice::{Change, Edit, applied, splice};
use crate::jsonrpc::{Message, MessageError, parse};
use crate::list_kind::ListKind;
use crate::message_limit::MessageLimit;
use crate::methods;
use crate::server::error::{ListProblem, ServerError};
use crate::task_state::{TaskState, TaskSupport};
use crate::transport::http::{RequestError, is_busy};
use crate::transport::{Arrival, Incoming};

/// Why the server gets no answer to a request that it has sent for a call.
const CALL_HAS_ENDED: &str = "the call that this was for has ended";
/// Queued lines for a server that does not read, beyond which it gets no notifications of agents.
const MAX_NOTIFICATIONS: usize = MAX_IN_FLIGHT;
/// Why a call fails whose inputs are too large. The text continues the name of the server.
const INPUTS_TOO_LARGE: &str = "requested input, and its requests and their answers together are too large";

/// A running instance of a server.
pub(super) struct Instance {
    pub(super) wire: Wire,
    config: Arc<ServerConfig>,
    calls: CallCounter,
    cancelled: CancelledCalls,
    suspended: SuspendedCalls,
    attribution: Attribution,
    pub(super) lists: ServerLists,
    pub(super) health: HealthChecks,
    pub(super) logging: Logging,
    pub(super) subscriptions: ServerSubscriptions,
    pub(super) server_requests: ServerRequests,
    tasks: TaskTable,
}

/// What an instance is made for.
pub(super) struct Setup {
    pub(super) config: Arc<ServerConfig>,
    pub(super) scope: AgentScope,
    /// Distinguishes it from other instances of the same server.
    pub(super) label: Option<Arc<str>>,
    pub(super) stats: Arc<Stats>,
    pub(super) message_limit: MessageLimit,
}

impl Instance {
    pub(super) fn new(link: Link, setup: Setup) -> Self {
        let Setup { config, scope, label, stats, message_limit } = setup;
        let timeout = config.settings.handshake_timeout;
        let call_timeout = config.settings.call_timeout_max;
        Self {
            cancelled: CancelledCalls::new(link.remote().is_none()),
            suspended: SuspendedCalls::new(label.as_deref()),
            wire: Wire::new(link, message_limit),
            calls: CallCounter::new(Arc::clone(&stats)),
            attribution: Attribution::new(scope),
            lists: ServerLists::new(&config.settings),
            health: HealthChecks::default(),
            logging: Logging::new(timeout),
            subscriptions: ServerSubscriptions::new(stats, timeout),
            server_requests: ServerRequests::new(Arc::clone(&config.name), call_timeout),
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
            || self.server_requests.are_open()
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
        let cancelled = self.cancelled.len(Instant::now());
        self.calls.vacancies(&self.wire, self.config.settings.max_concurrent, cancelled)
    }

    /// When the next cancelled call stops counting without a further message of the server, if one will.
    pub(super) fn next_vacancy(&self) -> Option<Instant> {
        self.cancelled.next_over()
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

    /// The roots of an agent have changed. The server is notified if it serves this agent alone.
    pub(super) fn roots_changed(&mut self, session: u64, line: &Bytes) {
        let agent = self.attribution.agent().filter(|agent| agent.session == session);
        if agent.is_some_and(|agent| agent.capabilities.include(ClientCapability::Roots)) {
            self.wire.try_queue_line(splice(line, &mut []));
        }
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

    // ── Messages of the server ────────────────────────────────────────────────────────────────────────────────────────

    /// Takes a message or event of the transport.
    pub(super) fn arrive(&mut self, arrival: Arrival) -> Effect {
        match arrival {
            Arrival::Incoming { incoming, source_request } => {
                let within = source_request
                    .and_then(|request| Some(SourceStream { request, session: self.wire.session_of(request)? }));
                self.attribution.set_source_stream(within);
                let effect = self.handle_message(incoming);
                self.attribution.set_source_stream(None);
                effect
            }
            Arrival::RequestFailed { request, error } => self.no_response(request, error),
            Arrival::SessionInDoubt => {
                self.doubt_session();
                Effect::Nothing
            }
            Arrival::MayWrite => Effect::Nothing,
        }
    }

    /// Takes a message of the server.
    pub(super) fn handle_message(&mut self, incoming: Incoming) -> Effect {
        match incoming {
            Incoming::Message { line, message: Message::Response { id, response } } => {
                self.response(&line, &id, response)
            }
            // A modern server sends no requests, and gets no responses (MCP 2026-07-28, `basic/transports/stdio`).
            Incoming::Message { message: Message::Request { .. }, .. } if self.wire.era() == Era::Modern => {
                self.stats().skipped_lines.add_one();
                Effect::Nothing
            }
            Incoming::Message { line, message: Message::Request { id, method, params } } => {
                self.server_request(&line, &id, &method, params.as_ref());
                Effect::Nothing
            }
            Incoming::Message { line, message: Message::Notification { method, params } } => {
                self.notification(line, &method, params)
            }
            Incoming::TooLarge { id: Some(id), is_response: true, size } => {
                let failure = self.response_too_large(Some(size));
                self.unusable_response(&id, failure)
            }
            Incoming::Malformed(MessageError::BadResponse { id }) => {
                self.unusable_response(&id, Failure::MalformedResponse)
            }
            Incoming::TooLarge { .. } | Incoming::Malformed(_) | Incoming::Unclear(_) => {
                self.stats().skipped_lines.add_one();
                Effect::Nothing
            }
        }
    }

    fn response(&mut self, line: &Bytes, id: &Bytes, outcome: Result<Bytes, Bytes>) -> Effect {
        let Some(pending) = self.wire.take_with_open_request(id) else {
            return self.stray_response(id, outcome.as_ref());
        };
        self.cancelled.pending_answered(id);
        if let Err(error) = &outcome
            && self.wire.is_remote_session()
            && !pending.is_about_resource()
            && is_about_session(error)
        {
            self.note_session_error(&pending);
        }
        match pending {
            PendingRequest::Call(call) => {
                let id_edit = Edit { part: id, replacement: call.response_handle.id() };
                let modern = outcome.as_ref().ok().filter(|_| self.wire.era() == Era::Modern);
                let answer = match modern.and_then(with_result_type) {
                    None => splice(line, &mut [id_edit]),
                    Some(typed) => {
                        splice(line, &mut typed.iter().map(Change::edit).chain([id_edit]).collect::<Vec<_>>())
                    }
                };
                self.end_call(call, answer, ServerResponse { id, line, result: outcome.as_ref() })
            }
            PendingRequest::Bridged(bridged) => {
                self.bridged_response(bridged, ServerResponse { id, line, result: outcome.as_ref() })
            }
            PendingRequest::Page { listing, .. } => {
                let fetch = self.lists.page(&mut self.wire, listing, outcome);
                self.fetched(fetch)
            }
            PendingRequest::Subscribe { uri, .. } if outcome.is_err() => Effect::SubscribeRefused(uri),
            PendingRequest::Ping | PendingRequest::SessionCheck { .. } => {
                self.health.ping_answered();
                Effect::Nothing
            }
            PendingRequest::Probe | PendingRequest::Subscribe { .. } | PendingRequest::Ignored { .. } => {
                Effect::Nothing
            }
            PendingRequest::CancellationCheck => {
                self.check_cancellations();
                Effect::Nothing
            }
            PendingRequest::Listen { .. } => {
                let refused = parse_own_id(id).map(|id| self.subscriptions.listen_ended(id, Some(outcome.as_ref())));
                Effect::refused(refused.unwrap_or_default())
            }
            PendingRequest::Check => Effect::Checked(self.health.checked()),
            PendingRequest::LogLevel { .. } => {
                self.logging.answered(&mut self.wire);
                Effect::Nothing
            }
            PendingRequest::CancelTask { task_key, .. } => {
                self.tasks.disowned(task_key, outcome.as_ref());
                Effect::Nothing
            }
            PendingRequest::Initialize | PendingRequest::Discover => self.stray_response(id, outcome.as_ref()),
        }
    }

    /// The server has sent a response that no request waits for.
    fn stray_response(&mut self, id: &Bytes, outcome: Result<&Bytes, &Bytes>) -> Effect {
        self.cancelled.answered(id);
        if let Some(task) = self.tasks.late_response(&mut self.wire, &mut self.cancelled, id, outcome) {
            self.disown_task(task);
        }
        self.stats().stray_responses.add_one();
        self.wire.note_stray_response(id, outcome);
        Effect::Nothing
    }

    /// The server has sent a response that is malformed or too large.
    fn unusable_response(&mut self, id: &Bytes, failure: Failure) -> Effect {
        self.stats().skipped_lines.add_one();
        let is_too_large = matches!(failure, Failure::ResponseTooLarge { .. });
        match self.wire.take_with_open_request(id) {
            Some(PendingRequest::Call(call)) => {
                self.fail_call(call, failure);
                Effect::Nothing
            }
            Some(PendingRequest::Bridged(bridged)) => {
                self.fail_bridged(bridged, failure);
                Effect::Nothing
            }
            Some(pending) => {
                let problem = if is_too_large { ListProblem::TooLarge } else { ListProblem::Unusable };
                self.request_failed(id, pending, problem)
            }
            None => {
                self.cancelled.answered(id);
                Effect::Nothing
            }
        }
    }

    /// The request with this id gets no response.
    pub(super) fn no_response(&mut self, request: u64, error: RequestError) -> Effect {
        if let RequestError::Status { status, retry_after: Some(after), .. } = &error
            && is_busy(*status)
        {
            self.wire.pause_until(Instant::now() + (*after).min(super::lifecycle::MAX_RETRY_AFTER));
        }
        let id = request.to_string();
        let pending = self.wire.take(id.as_bytes());
        if let Some(pending) = pending.as_ref().filter(|pending| !pending.is_about_resource())
            && error.may_end_session(self.has_rotating_secrets())
        {
            self.note_session_error(pending);
        }
        match pending {
            Some(PendingRequest::Call(call)) => {
                let (failure, may_have_arrived) = transport_errors::failure(error, self.wire.limit());
                self.fail_with(call, failure, may_have_arrived)
            }
            Some(PendingRequest::Bridged(bridged)) => {
                let (failure, may_have_arrived) = transport_errors::failure(error, self.wire.limit());
                self.fail_bridged_with(bridged, failure, may_have_arrived)
            }
            Some(pending) => {
                let problem = match error {
                    RequestError::TooLarge => ListProblem::TooLarge,
                    RequestError::UnknownCoding { coding } => ListProblem::UnknownCoding(coding.to_string()),
                    error => ListProblem::Failed(error.disconnect()),
                };
                self.request_failed(id.as_bytes(), pending, problem)
            }
            None => {
                self.cancelled.answered(id.as_bytes());
                Effect::Nothing
            }
        }
    }

    /// Whether its headers have secrets that are read again once the server refuses them.
    fn has_rotating_secrets(&self) -> bool {
        matches!(&self.config.launch, Ok(Launch::Remote(remote)) if !remote.rotating.is_empty())
    }

    fn response_too_large(&self, size: Option<usize>) -> Failure {
        Failure::ResponseTooLarge { size, limit: self.wire.limit().clone() }
    }

    fn request_too_large(&self, size: usize) -> Failure {
        Failure::RequestTooLarge { size, limit: self.wire.limit().clone() }
    }

    /// This request has failed as it does in a session that the server has forgotten. If it is the ping that was to show that, the session
    /// is over.
    fn note_session_error(&mut self, pending: &PendingRequest) {
        match pending {
            PendingRequest::SessionCheck { .. } => self.wire.forget_session(),
            _ => self.doubt_session(),
        }
    }

    /// Sends a ping that shows whether the server still knows the session, unless one is unanswered.
    fn doubt_session(&mut self) {
        let is_checked = |pending: &PendingRequest| matches!(pending, PendingRequest::SessionCheck { .. });
        if self.wire.is_remote_session() && !self.wire.has_pending(is_checked) {
            let deadline = self.request_deadline();
            self.wire.own_request("ping", json!({}), PendingRequest::SessionCheck { deadline });
        }
    }

    /// A request of mcpd has no usable response. `problem` says why, for a list.
    fn request_failed(&mut self, id: &[u8], pending: PendingRequest, problem: ListProblem) -> Effect {
        match pending {
            PendingRequest::Page { listing, .. } => {
                let fetch = self.lists.failed(listing, problem);
                return self.fetched(fetch);
            }
            PendingRequest::Check => return Effect::Checked(self.health.checked()),
            PendingRequest::LogLevel { .. } => self.logging.answered(&mut self.wire),
            PendingRequest::Subscribe { uri, .. } => return Effect::SubscribeRefused(uri),
            PendingRequest::Listen { .. } => {
                parse_own_id(id).into_iter().for_each(|id| drop(self.subscriptions.listen_ended(id, None)));
            }
            PendingRequest::Call(_)
            | PendingRequest::Bridged(_)
            | PendingRequest::Initialize
            | PendingRequest::Discover
            | PendingRequest::Ping
            | PendingRequest::Probe
            | PendingRequest::SessionCheck { .. }
            | PendingRequest::CancellationCheck
            | PendingRequest::CancelTask { .. }
            | PendingRequest::Ignored { .. } => {}
        }
        Effect::Nothing
    }

    /// Reports how the fetch of a list has ended.
    fn fetched(&mut self, fetch: Fetch) -> Effect {
        match fetch {
            Fetch::Continues => Effect::Nothing,
            Fetch::Done(kind, list) => {
                let list = self.prepared(kind, list);
                Effect::Listed { kind, list, settled: self.lists.are_settled() }
            }
            Fetch::Failed { kind, reason, partial } => {
                let partial = partial.map(|list| self.prepared(kind, list));
                Effect::ListFailed { kind, reason, partial, settled: self.lists.are_settled() }
            }
        }
    }

    /// The list as it is published.
    fn prepared(&mut self, kind: ListKind, list: List) -> List {
        if kind != ListKind::Tools {
            return list;
        }
        let mut list = header_params::without_unfit(&mut self.wire, &self.config.name, list);
        list.makes_tasks = self.tasks.support().of_calls;
        list
    }

    fn notification(&mut self, line: Bytes, method: &Bytes, params: Option<Bytes>) -> Effect {
        match &method[..] {
            b"notifications/progress" => self.progress(&line, params.as_ref()),
            b"notifications/message" => return self.log_message(line, params),
            b"notifications/tasks/status" => self.task_status(&line, params.as_ref()),
            b"notifications/subscriptions/acknowledged" => {
                let Some(acknowledged) = self.subscriptions.acknowledged(&mut self.wire, params.as_ref()) else {
                    return Effect::Nothing;
                };
                if acknowledged.lists_may_have_changed {
                    self.lists.mark_all_changed();
                }
                return Effect::TopicsAnswered { accepted: acknowledged.accepted, refused: acknowledged.refused };
            }
            b"notifications/tasks" => return self.modern_task_status(&line, params.as_ref()),
            b"notifications/resources/updated" => return self.resource_updated(&line, params.as_ref()),
            b"notifications/cancelled" if self.wire.era() == Era::Modern => {
                self.subscriptions.cancelled_by_server(&mut self.wire, params.as_ref());
            }
            b"notifications/cancelled" => {
                if let Some(id) = self.server_requests.cancelled_by_server(line, params.as_ref()) {
                    self.wire.bridged_calls_mut().for_each(|bridged| bridged.state.withdraw(&id));
                }
            }
            b"notifications/elicitation/complete" => {
                self.server_requests.elicitation_completed(&line, params.as_ref());
            }
            _ if methods::may_be_extension_notification(method) => {
                return self.extension_notification(&line, method, params.as_ref());
            }
            _ if self.subscriptions.is_expected(&self.wire, params.as_ref()) => self.lists.notified(method),
            _ => {}
        }
        Effect::Nothing
    }

    /// A notification of an extension goes to the agent whose calls it names, to the agent of the instance, or to the agents of one user.
    fn extension_notification(&mut self, line: &Bytes, method: &Bytes, params: Option<&Bytes>) -> Effect {
        let era = self.wire.era();
        let Some((named, line)) = self.translate_to_agent(line, params) else { return Effect::Nothing };
        let recipients = match named.or_else(|| self.attribution.known_owner(&self.workload())) {
            Some(owner) => Recipients::Owner(owner),
            // A modern server may send notifications only about requests and subscriptions.
            None if era == Era::Modern => return Effect::Nothing,
            None => Recipients::OneUser,
        };
        let (server, method) = (Arc::clone(&self.config.name), Arc::from(&*String::from_utf8_lossy(method)));
        let notification = ExtensionNotification { server, era, method, line };
        Effect::Notify { notification: ServerNotification::Extension(Box::new(notification)), recipients }
    }

    /// A notification with the agent's own ids and tokens of the calls that it names, and the agent, if it names any. `None` if it names
    /// one that is not pending, or calls of several agents.
    fn translate_to_agent(&mut self, line: &Bytes, params: Option<&Bytes>) -> Option<(Option<LogOwner>, Bytes)> {
        let (mut owner, mut changes) = (None::<LogOwner>, Vec::new());
        for reference in Reference::all(params)? {
            let Some(PendingRequest::Call(call)) = self.wire.get_mut(&reference.raw) else { return None };
            let replacement = reference.at_agent(call)?.clone();
            let (session, to) = (call.response_handle.key.session, call.response_handle.to().cloned());
            if owner.is_some_and(|owner| owner.session != session) {
                return None;
            }
            owner = Some(LogOwner { session, to });
            changes.push(Change { part: reference.raw, replacement });
        }
        Some((owner, splice(line, &mut changes.iter().map(Change::edit).collect::<Vec<_>>())))
    }

    /// An agent of this era has sent a notification of an extension. It is dropped if it names a request that is not a pending one of the
    /// agent, or if the server does not read.
    pub(super) fn forward_notification(&mut self, session: u64, era: Era, line: &Bytes) {
        let is_connected = self.wire.era() == era && self.wire.protocol().is_some();
        if !is_connected || self.wire.unwritten_lines() >= MAX_NOTIFICATIONS {
            return;
        }
        let Ok([params]) = members(line, ["params"]) else { return };
        let change = |reference: Reference| {
            let is_it = |call: &PendingCall| {
                call.response_handle.key.session == session && reference.at_agent(call) == Some(&reference.raw)
            };
            let (id, _) = self.wire.calls().find(|(_, call)| is_it(call))?;
            Some(Change { part: reference.raw, replacement: id.to_string().into() })
        };
        let references = Reference::all(params.as_ref());
        let changes = references.and_then(|all| all.into_iter().map(change).collect::<Option<Vec<_>>>());
        if let Some(changes) = changes {
            self.wire.try_queue_line(splice(line, &mut changes.iter().map(Change::edit).collect::<Vec<_>>()));
        }
    }

    fn resource_updated(&self, line: &Bytes, params: Option<&Bytes>) -> Effect {
        let Some(Ok([Some(uri)])) = params.map(|params| members(params, ["uri"])) else { return Effect::Nothing };
        let Some(uri) = text(&uri) else { return Effect::Nothing };
        let line = match self.wire.era() {
            Era::Legacy => splice(line, &mut []),
            Era::Modern if !self.subscriptions.is_expected(&self.wire, params) => return Effect::Nothing,
            Era::Modern => splice(&Bytes::from(applied(line, &without_subscription(params))), &mut []),
        };
        let update = ResourceUpdate { server: self.config.name.clone(), uri: uri.clone(), line };
        let notification = ServerNotification::Updated(Box::new(update));
        Effect::Notify { notification, recipients: Recipients::ResourceSubscribers(uri) }
    }

    /// Forwards progress to the call or task with this token, and restarts the time limit of the call or task.
    fn progress(&mut self, line: &Bytes, params: Option<&Bytes>) {
        let Some(Ok([Some(token)])) = params.map(|params| members(params, ["progressToken"])) else { return };
        let own = own_id(&token).unwrap_or(&token);
        let Some(call) = self.wire.get_mut(own).and_then(PendingRequest::call_mut) else {
            return self.tasks.progress(&mut self.wire, line, &token);
        };
        let Some(agent_token) = &call.progress_token else { return };
        call.deadline.extend(Instant::now());
        let line = splice(line, &mut [Edit { part: &token, replacement: agent_token }]);
        call.response_handle.notify(line);
    }

    fn log_message(&self, line: Bytes, params: Option<Bytes>) -> Effect {
        match self.attribution.log_recipient(&self.workload(), params.as_ref(), Instant::now()) {
            LogRecipient::Call(call) => call.response_handle.notify(splice(&line, &mut [])),
            LogRecipient::Session(owner) => {
                let to_all = (self.config.settings.sharing == Sharing::Session).then_some(Recipients::All);
                if let Some(recipients) = to_all.or(owner.map(Recipients::Owner)) {
                    let level = level_of(params.as_ref());
                    let notification = ServerNotification::Logged { level, line: splice(&line, &mut []) };
                    return Effect::Notify { notification, recipients };
                }
            }
            LogRecipient::Nobody => {}
        }
        Effect::Nothing
    }

    fn workload(&self) -> Workload<'_> {
        let Self { wire, cancelled, tasks, server_requests, .. } = self;
        Workload { wire, cancelled, tasks, server_requests }
    }

    // ── Calls ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Queues an agent's call, or refuses it at once. Returns whether it was queued.
    pub(super) fn call(&mut self, call: Box<Call>) -> bool {
        if let Some(left) = self.wire.paused_for() {
            self.refuse(*call, Failure::Unavailable { reason: ServerError::RetryLater, retry_after: Some(left) });
            return false;
        }
        if call.origin.era() != self.wire.era() {
            return self.bridge(*call);
        }
        let Some(call) = self.check_limits(*call) else { return false };
        let (call, line) = PendingCall::new(call, &[]);
        self.wire.expire_by(call.deadline.at());
        self.calls.count_started();
        match self.wire.send_call(call, line) {
            Ok(()) => true,
            Err(refused) => {
                let (call, size) = *refused;
                self.fail_with(call, self.request_too_large(size), false);
                false
            }
        }
    }

    /// Returns the call unless it is refused.
    fn check_limits(&self, call: Call) -> Option<Call> {
        let what = if matches!(call.kind, RequestKind::NewTask) && !self.tasks.have_capacity() {
            "it has too many tasks that have not ended"
        } else if self.calls.exceeds_outbox(&self.wire, &call) {
            "it does not read its input"
        } else {
            return Some(call);
        };
        self.refuse(call, Failure::Overloaded { what });
        None
    }

    fn refuse(&self, call: Call, failure: Failure) {
        self.stats().errors.add_one();
        call.refuse(failure);
    }

    /// Subscribes to a resource for an agent's call.
    pub(super) fn subscribe(&mut self, call: Call) {
        let key = call.response_handle.key;
        if let Some(call) = self.subscriptions.subscribe(&mut self.wire, call) {
            let was_queued = self.call(Box::new(call));
            self.subscriptions.note_queued(key, was_queued);
        }
    }

    /// Unsubscribes from a resource for the call of the last agent that has subscribed to it.
    pub(super) fn unsubscribe(&mut self, call: Box<Call>) {
        if let Some(call) = self.subscriptions.unsubscribe_for(&self.wire, call) {
            self.call(call);
        }
    }

    /// Cancels a call. The server receives the cancellation if it may have received the call.
    pub(super) fn cancel(&mut self, key: CallKey, words: Option<&Cancellation>) {
        let is_it = |pending: &PendingRequest| pending.call().is_some_and(|call| call.response_handle.key == key);
        let (id, call, abandoned, has_no_request) = match self.wire.remove_where(is_it).pop() {
            Some((id, PendingRequest::Call(call))) => {
                let abandoned = call.abandoned(id);
                (id, call, abandoned, false)
            }
            Some((id, PendingRequest::Bridged(mut bridged))) => {
                self.withdraw_requests_for(id, &mut bridged);
                let (abandoned, has_no_request) = (bridged.call.abandoned(id), bridged.state.has_no_pending_request());
                (id, bridged.call, abandoned, has_no_request)
            }
            _ => {
                self.subscriptions.cancel_waiting(key);
                return self.drop_task_of(key);
            }
        };
        let may_have_arrived = !has_no_request && !self.wire.retract(call.line);
        call.response_handle.disarm();
        self.count_ended();
        if may_have_arrived {
            let line = match words.filter(|words| words.line.len() <= MAX_SMALL_LINE) {
                Some(Cancellation { line, request }) => {
                    splice(line, &mut [Edit { part: request, replacement: id.to_string().as_bytes() }])
                }
                None if words.is_some() => reply::cancelled(id, "the agent cancelled"),
                None => reply::cancelled(id, "the agent disconnected"),
            };
            self.abandon(abandoned, line);
        }
        let reason = "the agent has given up the call that this was for";
        self.end_requests_for(key.session, RequestEnd { code: ErrorCode::Died, reason });
        for call in self.subscriptions.cancelled(&mut self.wire, key, may_have_arrived) {
            self.subscribe(call);
        }
    }

    fn count_ended(&mut self) {
        self.calls.count_ended();
        self.logging.call_ended(&mut self.wire);
    }

    /// Sends the server a call's cancellation, and a ping behind it.
    fn abandon(&mut self, abandoned: AbandonedCall, cancellation: Bytes) {
        self.note_abandoned(abandoned);
        self.wire.queue_line(cancellation);
        self.check_cancellations();
    }

    /// The server may go on with a call that no agent waits for.
    fn note_abandoned(&mut self, AbandonedCall { id, key, uid, creates_task, load }: AbandonedCall) {
        let now = Instant::now();
        let agent = (key.session, uid);
        if self.wire.era() == Era::Legacy {
            let at = now + GRACE.min(self.config.settings.call_timeout);
            let until = Until { at, answered_from: self.wire.next_id() };
            self.cancelled.add(id, agent, Some(until), load, now);
        } else {
            self.cancelled.add_modern(agent, now);
        }
        self.wire.abandon_http_response(id);
        if creates_task {
            self.tasks.call_cancelled(id, key);
        }
    }

    /// Sends a ping behind a cancellation, unless one is unanswered: its response shows that the server has read the cancellation.
    fn check_cancellations(&mut self) {
        let is_sent = self.wire.has_pending(|pending| matches!(pending, PendingRequest::CancellationCheck));
        if !is_sent && self.cancelled.has_unread() {
            self.wire.own_request(self.wire.era().greeting(), json!({}), PendingRequest::CancellationCheck);
        }
    }

    /// The server has answered a call. The agent gets `answer`.
    fn end_call(&mut self, call: PendingCall, answer: Bytes, response: ServerResponse<'_>) -> Effect {
        let outcome = response.result;
        if let Some(failure) = outcome.err().and_then(|error| header_params::refusal(&self.wire, error)) {
            self.lists.mark_changed(ListKind::Tools);
            return self.fail_with(call, failure, false);
        }
        let tag = self.suspended.tag();
        let noted = self.tasks.response(&mut self.wire, &mut self.cancelled, &call, response, tag);
        if call.requests_task() {
            self.drop_early_tasks();
        }
        let news = match noted {
            Ok(news) => news,
            Err(failure) => {
                self.fail_call(call, failure);
                return Effect::Nothing;
            }
        };
        let key = call.response_handle.key;
        let mends = self.config.settings.malformed == Malformed::Mend;
        let not_found = outcome.err().and_then(|error| call.not_found(error));
        let answer = not_found.unwrap_or(answer);
        if let Err(error) = outcome {
            self.stats().errors.add_one();
            if let Some(to) = call.response_handle.to() {
                self.server_requests.call_failed(error, key.session, to);
            }
        }
        self.count_ended();
        let ended = CallOutcome::of(outcome);
        let sandbox = &self.config.settings.sandbox;
        if sandbox.level == SandboxLevel::Files && matches!(ended, CallOutcome::ToolError | CallOutcome::Error { .. }) {
            self.stats().refused_calls.note(sandbox, outcome.unwrap_or_else(|error| error));
        }
        call.answer(answer, ended, news, mends, self.calls.stats());
        let subscription = self.subscriptions.answered(&mut self.wire, key, outcome);
        subscription.map_or(Effect::Nothing, |subscription| Effect::Subscribed(Box::new(subscription)))
    }

    /// Fails a call, and takes it back if the server has not begun to read it. Returns whether the server may have read it.
    fn fail_call(&mut self, call: PendingCall, failure: Failure) -> bool {
        let may_have_arrived = !self.wire.retract(call.line);
        self.fail_with(call, failure, may_have_arrived);
        may_have_arrived
    }

    /// Fails a call. `may_have_arrived` is whether the server may have read it.
    fn fail_with(&mut self, call: PendingCall, failure: Failure, may_have_arrived: bool) -> Effect {
        self.count_ended();
        self.stats().errors.add_one();
        self.subscriptions.failed(&mut self.wire, call.response_handle.key, &failure, may_have_arrived);
        call.response_handle.fail(failure, may_have_arrived);
        Effect::Nothing
    }

    /// Takes back unwritten calls that their listener hides by now.
    pub(super) fn revoke_hidden(&mut self, lists: &Lists) {
        for pending in self.calls.take_hidden(&mut self.wire, &self.config.name, lists) {
            match pending {
                PendingRequest::Call(call) => self.end_hidden(call),
                PendingRequest::Bridged(bridged) => self.end_hidden(bridged.call),
                _ => {}
            }
        }
    }

    /// Answers a call of something that its listener does not expose any more.
    fn end_hidden(&mut self, call: PendingCall) {
        let Some(access) = &call.access else { return };
        self.count_ended();
        self.stats().errors.add_one();
        let failure = Failure::Unavailable { reason: ServerError::Hidden, retry_after: None };
        self.subscriptions.failed(&mut self.wire, call.response_handle.key, &failure, false);
        call.response_handle.refuse_unknown(access);
    }

    /// Ends every call and task: the server is gone, or may not be waited for any longer.
    pub(super) fn fail_all(&mut self, written: &Failure, unwritten: &Failure) {
        self.tasks.clear();
        self.subscriptions.fail_all(unwritten);
        self.server_requests.withdraw_all();
        for (_, pending) in self.wire.remove_where(|_| true) {
            let failure = |was_written: bool| if was_written { written.clone() } else { unwritten.clone() };
            match pending {
                PendingRequest::Call(call) => {
                    let was_written = self.wire.has_begun(call.line);
                    self.fail_call(call, failure(was_written));
                }
                PendingRequest::Bridged(bridged) => {
                    let was_written = self.wire.has_begun(bridged.call.line) || bridged.state.was_sent_before();
                    self.fail_bridged(bridged, failure(was_written));
                }
                _ => {}
            }
        }
    }

    /// Takes the unwritten calls, in the form in which their sessions sent them. For an instance that has ended.
    ///
    /// A call that cannot be read again ends with `failure`.
    pub(super) fn take_unwritten(&mut self, failure: &Failure) -> Vec<Call> {
        let mut unsent = Vec::new();
        for call in self.calls.take_unwritten(&mut self.wire) {
            match call {
                Ok(call) => unsent.push(call),
                Err(call) => {
                    self.stats().errors.add_one();
                    call.response_handle.fail(failure.clone(), false);
                }
            }
        }
        self.logging.call_ended(&mut self.wire);
        unsent
    }

    // ── Calls between the eras ────────────────────────────────────────────────────────────────────────────────────────

    /// Whether a call continues one that this instance has suspended.
    pub(super) fn is_resumed_by(&self, call: &Call) -> bool {
        self.wire.era() == Era::Legacy && tag_of_retry(call) == Some(self.suspended.tag())
    }

    /// Begins a call of the other era. Returns whether it was queued.
    fn bridge(&mut self, call: Call) -> bool {
        match bridging::begin(call, &self.config) {
            Beginning::Send(call, state, changes) => return self.send_bridged(call, state, &changes),
            Beginning::Resume(retry) => self.resume(*retry),
            Beginning::Refused => {}
        }
        false
    }

    fn send_bridged(&mut self, call: Call, state: BridgedCall, changes: &[Change]) -> bool {
        let Some(call) = self.check_limits(call) else { return false };
        // Before the call, so that the level applies to the call.
        if let Origin::Modern { level: Some(level), .. } = &call.origin {
            self.logging.call_started(&mut self.wire, *level);
        }
        let (call, line) = PendingCall::new(call, changes);
        self.wire.expire_by(call.deadline.at());
        self.calls.count_started();
        self.queue_bridged(PendingBridgedCall::new(call, state), |_, id| line(id))
    }

    /// Queues a request of a bridged call, or fails the call if the request is too large. Returns whether it was queued.
    fn queue_bridged(
        &mut self,
        bridged: Box<PendingBridgedCall>,
        line: impl FnOnce(&PendingBridgedCall, u64) -> Bytes,
    ) -> bool {
        match self.wire.send_bridged(bridged, line) {
            Ok(()) => true,
            Err((bridged, size)) => {
                self.fail_bridged_with(bridged, self.request_too_large(size), false);
                false
            }
        }
    }

    /// Fails a bridged call as [`Self::fail_call`] does.
    fn fail_bridged(&mut self, bridged: Box<PendingBridgedCall>, failure: Failure) -> bool {
        let may_have_arrived = !self.wire.retract(bridged.call.line);
        self.fail_bridged_with(bridged, failure, may_have_arrived);
        may_have_arrived
    }

    /// Fails a bridged call. `may_have_arrived` is whether the server may have read the latest request.
    fn fail_bridged_with(
        &mut self,
        bridged: Box<PendingBridgedCall>,
        failure: Failure,
        may_have_arrived: bool,
    ) -> Effect {
        let may_have_arrived = may_have_arrived || bridged.state.was_sent_before();
        self.fail_with(bridged.call, failure, may_have_arrived)
    }

    /// The server has answered a bridged call.
    fn bridged_response(&mut self, mut bridged: Box<PendingBridgedCall>, response: ServerResponse<'_>) -> Effect {
        self.refuse_requests_for(&mut bridged);
        if bridged.state.is_suspended() {
            return match SuspendedCalls::store_response(&mut self.wire, bridged, response.line) {
                Ok(()) => Effect::Nothing,
                Err(bridged) => self.fail_bridged_with(
                    bridged,
                    Failure::Overloaded { what: "too many calls wait for the retries of their agents" },
                    true,
                ),
            };
        }
        let step = bridged.state.on_response(response.result);
        self.carry_out(bridged, response, step)
    }

    fn carry_out(&mut self, bridged: Box<PendingBridgedCall>, response: ServerResponse<'_>, step: Step) -> Effect {
        match step {
            Step::ForwardResponse(changes) => self.end_changed(bridged.call, response, &changes),
            Step::RequireUrls(result) => {
                let answer = reply::result(bridged.call.response_handle.id(), &result);
                self.end_call(bridged.call, answer, response)
            }
            Step::MissingCapability(capability) => {
                let error = era::error::missing_capability(capability.declared_by(), &self.config.name);
                let error = Bytes::from(json!(error).to_string());
                let answer = reply::raw_error(bridged.call.response_handle.id(), &error);
                self.end_call(bridged.call, answer, ServerResponse { result: Err(&error), ..response })
            }
            Step::RequestInputs(inputs) => {
                self.collect_inputs(bridged, &inputs);
                Effect::Nothing
            }
            Step::Fail(error) => {
                let failure = match error {
                    BridgeError::Malformed => Failure::MalformedResponse,
                    BridgeError::UnknownResult(what) => Failure::UnknownResultType { what },
                    BridgeError::Input(why) => Failure::InputUnavailable { why },
                };
                self.fail_bridged_with(bridged, failure, true)
            }
        }
    }

    /// Ends a call with the server's line, with these changes.
    fn end_changed(&mut self, call: PendingCall, response: ServerResponse<'_>, changes: &[Change]) -> Effect {
        let agent_id = call.response_handle.id().clone();
        let id = Edit { part: response.id, replacement: &agent_id };
        let mut edits: Vec<_> = std::iter::once(id).chain(changes.iter().map(Change::edit)).collect();
        let answer = splice(response.line, &mut edits);
        self.end_call(call, answer, response)
    }

    /// Sends a call again that the server has ended.
    fn resend(&mut self, mut bridged: Box<PendingBridgedCall>, changes: &[Change]) {
        if bridged.call.is_hidden(&self.config.name) {
            return self.end_hidden(bridged.call);
        }
        bridged.call.deadline.extend(Instant::now());
        self.queue_bridged(bridged, |bridged, id| bridged.line(id, changes));
    }

    // ── Inputs that a modern server requires of a legacy agent ────────────────────────────────────────────────────────

    /// Requests the inputs of the agent, or sends the call again at once if there are none.
    fn collect_inputs(&mut self, mut bridged: Box<PendingBridgedCall>, inputs: &[Input]) {
        bridged.call.deadline.extend(Instant::now());
        let (session, to) = (bridged.call.response_handle.key.session, bridged.call.response_handle.to().cloned());
        let call = self.wire.register_without_request(bridged);
        if !has_space_for_inputs(&self.wire, call) {
            return self.fail_inputs(call, INPUTS_TOO_LARGE.to_owned());
        }
        for (index, input) in inputs.iter().enumerate() {
            let requested = match to.clone() {
                Some(to) => self.request_input(&Recipient { session, to }, CallInput { call, index }, input),
                None => Err("nobody waits for it any more".to_owned()),
            };
            if let Err(why) = requested {
                return self.fail_inputs(call, why);
            }
        }
        self.resend_if_complete(call);
    }

    /// Sends the agent a request for an input, unless the configuration has it. `Err` continues the name of the server.
    fn request_input(&mut self, recipient: &Recipient, call_input: CallInput, input: &Input) -> Result<(), String> {
        let parsed = server_requests::read_input(input)?;
        if parsed.capability != ClientCapability::Roots || !self.has_configured_roots() {
            let sent = self.server_requests.send_input(&mut self.wire, recipient, call_input, input, parsed);
            return sent.map_err(|error| error.message);
        }
        set_input_response(&mut self.wire, call_input, roots_result(self.config.roots()).into());
        Ok(())
    }

    /// An agent has sent a response, or progress, for a request of the server.
    pub(super) fn handle_agent_message(&mut self, received: FromAgent) {
        if let Some(InputAnswer { input, response: Ok(line) }) =
            self.server_requests.handle_agent_message(&mut self.wire, received)
        {
            self.input_received(input, bridge::input_response_of(&line));
        }
    }

    /// A call of this session has ended without a response of the server.
    fn end_requests_for(&mut self, session: u64, end: RequestEnd) {
        let ended = self.server_requests.call_ended(&mut self.wire, session, end);
        self.requests_ended(ended);
    }

    /// Agents will not answer these requests.
    fn requests_ended(&mut self, ended: Vec<InputAnswer>) {
        for InputAnswer { input, response } in ended {
            if let Err(why) = response {
                self.input_received(input, Err(format!("requested input, but {why}")));
            }
        }
    }

    fn input_received(&mut self, input: CallInput, result: Result<Bytes, String>) {
        match result {
            Ok(result) => {
                set_input_response(&mut self.wire, input, result);
                if has_space_for_inputs(&self.wire, input.call) {
                    self.resend_if_complete(input.call);
                } else {
                    self.fail_inputs(input.call, INPUTS_TOO_LARGE.to_owned());
                }
            }
            Err(why) => self.fail_inputs(input.call, why),
        }
    }

    /// Sends the call again once every input is there.
    fn resend_if_complete(&mut self, call: u64) {
        if let Some((bridged, changes)) = take_complete(&mut self.wire, call) {
            self.resend(bridged, &changes);
        }
    }

    /// The call cannot be sent again; `why` continues the name of the server.
    fn fail_inputs(&mut self, call: u64, why: String) {
        self.withdraw_inputs(call);
        if let Some(bridged) = self.wire.take_bridged(call) {
            self.fail_bridged_with(bridged, Failure::InputUnavailable { why }, true);
        }
    }

    /// The inputs of this call are no longer needed.
    fn withdraw_inputs(&mut self, call: u64) {
        self.server_requests.withdraw_for(call, CALL_HAS_ENDED);
    }

    // ── Requests of a legacy server ───────────────────────────────────────────────────────────────────────────────────

    /// The server has sent a request. The server gets an error at once if no agent will answer.
    fn server_request(&mut self, line: &Bytes, id: &Bytes, method: &Bytes, params: Option<&Bytes>) {
        if let Some(line) = server_requests::without_task(line, method, params)
            && let Ok(Message::Request { id, method, params }) = parse(&line)
        {
            return self.server_request(&line, &id, &method, params.as_ref());
        }
        let refused = match server_requests::classify(method, params, self.attribution.scope()) {
            RequestHandling::Ping => {
                self.wire.try_queue_line(reply::result(id, b"{}"));
                return;
            }
            RequestHandling::Roots => match self.config.roots() {
                [] => Err(server_requests::no_roots()),
                roots => {
                    self.wire.try_queue_line(reply::result(id, &roots_result(roots)));
                    return;
                }
            },
            RequestHandling::Forward(parsed) => {
                self.route_request(line, &ServerRequest { id, method, params, capability: parsed.capability }, parsed)
            }
            RequestHandling::Refused(error) => Err(error),
        };
        if let Err(error) = refused {
            self.wire.try_queue_line(reply::error(Some(id), &error));
        }
    }

    /// Whether the configuration has the roots of the server.
    fn has_configured_roots(&self) -> bool {
        self.attribution.agent().is_none() && !self.config.roots().is_empty()
    }

    /// Forwards a request to the agent that it is certainly for.
    fn route_request(
        &mut self,
        line: &Bytes,
        request: &ServerRequest<'_>,
        parsed: ParsedRequest,
    ) -> Result<(), ErrorObject> {
        let unavailable = |why| server_requests::unavailable(why, &self.config.name);
        if self.wire.protocol().is_none() {
            return Err(unavailable("the handshake is not over"));
        }
        match self.attribution.request_target(&self.workload(), Instant::now()).map_err(unavailable)? {
            RequestTarget::Agent(_) if self.server_requests.has(request.id) => {
                Err(ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered"))
            }
            RequestTarget::Agent(recipient) => {
                let (line, id) = (line.clone(), request.id.clone());
                self.server_requests.send(&mut self.wire, &recipient, line, id, AnswerUse::Server, parsed)
            }
            RequestTarget::Call(call) => SuspendedCalls::collect(&mut self.wire, call, request).map_err(unavailable),
        }
    }

    /// The agent of a suspended call retries it: the server gets the inputs, and the agent waits for the call as before.
    fn resume(&mut self, Retry { call, request, agent, given }: Retry) {
        match SuspendedCalls::resume(&mut self.wire, call, &request, agent, &given) {
            Ok(resumed) => {
                match resumed.response {
                    Some(line) => self.end_cached(resumed.id, &line),
                    None => self.suspended.answer_input_required(&mut self.wire, resumed.id, Instant::now()),
                }
                self.send_answers(resumed.answered);
            }
            Err(call) => SuspendedCalls::refuse_unknown(call, &self.config.name),
        }
    }

    /// Ends a resumed call with the response that was cached for it.
    fn end_cached(&mut self, id: u64, line: &Bytes) {
        if let (Some(bridged), Ok(Message::Response { id, response })) = (self.wire.take_bridged(id), parse(line)) {
            self.bridged_response(bridged, ServerResponse { id: &id, line, result: response.as_ref() });
        }
    }

    /// Sends the server these responses to its requests.
    fn send_answers(&mut self, answered: Vec<(Bytes, Bytes)>) {
        for (id, line) in answered {
            self.wire.queue_answer(&id, line, &self.config.name);
        }
    }

    /// The bridged call with this id ends: neither its agent nor its server waits for an answer to a request any more.
    fn withdraw_requests_for(&mut self, id: u64, bridged: &mut PendingBridgedCall) {
        self.refuse_requests_for(bridged);
        self.withdraw_inputs(id);
    }

    /// Answers the server's unanswered requests for this call with an error.
    fn refuse_requests_for(&mut self, bridged: &mut PendingBridgedCall) {
        for id in bridged.state.take_unanswered() {
            let error = may_have_arrived_error(ErrorCode::Died, CALL_HAS_ENDED, &self.config.name);
            self.wire.try_queue_line(reply::error(Some(&id), &error));
        }
    }

    // ── Tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Forwards a request of a legacy agent about a task, if this instance has created the task for the agent.
    pub(super) fn request_about_task(&mut self, call: Box<Call>) {
        let RequestKind::LegacyTask(task_request) = &call.kind else { return };
        match self.tasks.look_up(call.response_handle.key.session, task_request) {
            Lookup::Unknown => call.refuse_unknown_task(),
            Lookup::NotCancellable => call.refuse_with(&self.tasks.cancellation_refusal(&self.config.name)),
            Lookup::Forward => {
                self.call(call);
            }
        }
    }

    /// A legacy server reports the status of a task.
    fn task_status(&mut self, line: &Bytes, params: Option<&Bytes>) {
        let Some(state) = params.and_then(TaskState::read) else { return self.stats().stray_notifications.add_one() };
        let may_create = self.may_create_tasks();
        let dropped = self.tasks.status(&mut self.wire, line, state, may_create);
        self.stats().stray_notifications.add(dropped);
    }

    /// A modern server reports the status of a task to clients that listen for it.
    ///
    /// Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status Notifications".
    fn modern_task_status(&mut self, line: &Bytes, params: Option<&Bytes>) -> Effect {
        if !self.subscriptions.is_of_stream(params) {
            return Effect::Nothing;
        }
        let Some((id, ended)) = self.tasks.modern_status(params) else { return Effect::Nothing };
        if ended {
            self.subscriptions.task_ended(&id);
        }
        let line = Bytes::from(applied(line, &without_subscription(params)));
        let (server, instance_tag) = (self.config.name.clone(), self.suspended.tag());
        let status = ModernTaskStatus { server, instance_tag, id: id.clone(), line };
        let notification = ServerNotification::ModernTaskStatus(Box::new(status));
        Effect::Notify { notification, recipients: Recipients::TaskSubscribers { id, ended } }
    }

    /// An agent subscribes to a task. Returns whether the server can report it.
    pub(super) fn subscribe_task(&mut self, id: &Bytes) -> bool {
        let is_modern = self.wire.era() == Era::Modern;
        if is_modern {
            self.subscriptions.subscribe_task(id);
        }
        is_modern
    }

    /// The last subscriber of a task has gone.
    pub(super) fn unsubscribe_task(&mut self, id: &Bytes) {
        self.subscriptions.unsubscribe_task(id);
    }

    /// Updates the subscriptions at a modern server. Returns when to call this again.
    pub(super) fn refresh_subscriptions(&mut self) -> Option<Instant> {
        self.subscriptions.refresh(&mut self.wire)
    }

    /// Whether a call may be answered with a task that is not known yet.
    fn may_create_tasks(&self) -> bool {
        self.tasks.support().declared && self.wire.has_pending(PendingRequest::creates_task)
    }

    /// Drops notifications about unknown tasks, unless a call is pending that may have created them.
    fn drop_early_tasks(&mut self) {
        if !self.may_create_tasks() {
            let dropped = self.tasks.drop_early();
            self.stats().stray_notifications.add(dropped);
        }
    }

    /// An agent has missed the response that a task was created for it.
    pub(super) fn drop_task(&mut self, session: u64, id: &Bytes) {
        if let Some(task) = self.tasks.of_session(session, id) {
            self.disown_task(task);
        }
    }

    /// A call has ended whose agent does not know of the task that the call has created.
    fn drop_task_of(&mut self, key: CallKey) {
        if let Some(task) = self.tasks.created_by(key) {
            self.disown_task(task);
        }
        self.tasks.forget_modern(key);
    }

    /// An agent has disconnected. No agent can request its tasks any more.
    pub(super) fn drop_tasks(&mut self, session: u64) {
        for task_key in self.tasks.all_of_session(session) {
            self.disown_task(task_key);
        }
    }

    fn disown_task(&mut self, task_key: u64) {
        let deadline = self.request_deadline();
        self.tasks.disown(&mut self.wire, task_key, deadline);
    }

    // ── Time ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Ends everything whose deadline has passed.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Effect> {
        self.suspended.present_due(&mut self.wire, now);
        SuspendedCalls::check_agents(&mut self.wire, now);
        let expired = self.wire.remove_where(|pending| pending.deadline().is_some_and(|at| at <= now));
        self.tasks.expire(now);
        let expired_requests = self.server_requests.expire(&mut self.wire, now);
        self.requests_ended(expired_requests);
        self.subscriptions.expire(now);
        let ends = [self.tasks.next_end(), self.server_requests.next_deadline(), self.subscriptions.next_deadline()];
        self.wire.reset_deadline(ends.into_iter().flatten());
        let mut effects = Vec::new();
        for (id, pending) in expired {
            match pending {
                PendingRequest::Call(call) => self.expire_call(id, call),
                PendingRequest::Bridged(bridged) => self.expire_bridged(id, bridged),
                PendingRequest::Page { listing, .. } => {
                    let fetch = self.lists.failed(listing, ListProblem::TimedOut);
                    effects.push(self.fetched(fetch));
                }
                PendingRequest::Listen { .. } => {
                    self.wire.abandon_http_response(id);
                    self.wire.queue_line(reply::cancelled(id, "it was not acknowledged in time"));
                    self.subscriptions.listen_ended(id, None);
                }
                PendingRequest::LogLevel { .. } => self.logging.answered(&mut self.wire),
                // A server that does not confirm a cancellation may still work on the task.
                PendingRequest::CancelTask { .. }
                | PendingRequest::Initialize
                | PendingRequest::Discover
                | PendingRequest::Ping
                | PendingRequest::Probe
                | PendingRequest::SessionCheck { .. }
                | PendingRequest::CancellationCheck
                | PendingRequest::Check
                | PendingRequest::Subscribe { .. }
                | PendingRequest::Ignored { .. } => {}
            }
        }
        effects
    }

    fn expire_call(&mut self, id: u64, call: PendingCall) {
        let (abandoned, session, after) =
            (call.abandoned(id), call.response_handle.key.session, call.deadline.current_limit());
        self.health.call_timed_out(call.deadline.begun());
        if self.fail_call(call, Failure::TimedOut { after }) {
            self.abandon(abandoned, reply::cancelled(id, "the call timed out"));
        }
        self.end_timed_out_requests(session);
    }

    fn expire_bridged(&mut self, id: u64, mut bridged: Box<PendingBridgedCall>) {
        self.withdraw_requests_for(id, &mut bridged);
        let call = &bridged.call;
        let (session, after, is_away) =
            (call.response_handle.key.session, call.deadline.current_limit(), call.response_handle.to().is_none());
        if bridged.state.has_no_pending_request() {
            // It waits for its agent, which says nothing about the server.
            self.fail_bridged_with(bridged, Failure::TimedOut { after }, true);
        } else {
            self.health.call_timed_out(call.deadline.begun());
            let abandoned = bridged.call.abandoned(id);
            if self.fail_bridged(bridged, Failure::TimedOut { after }) {
                let why = if is_away { "its agent has not come back" } else { "the call timed out" };
                self.abandon(abandoned, reply::cancelled(id, why));
            }
        }
        self.end_timed_out_requests(session);
    }

    fn end_timed_out_requests(&mut self, session: u64) {
        let reason = "the call that this was for timed out";
        self.end_requests_for(session, RequestEnd { code: ErrorCode::TimedOut, reason });
    }
}
