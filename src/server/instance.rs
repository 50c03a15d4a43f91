//! One connection to a server, with everything that is in flight on it.
//!
//! The instance dispatches: each event goes to the component that it concerns, which queues lines on the [`Wire`], answers agents, or
//! returns what others have to do. No component knows another. Calls between the eras go through [`crate::bridge`], whose steps are
//! carried out here. The task around it decides when to read, write and expire, and acts on each [`Effect`].
//!
//! | component | owns |
//! | --- | --- |
//! | [`wire`] | the link, queued lines, pending requests, deadlines |
//! | [`calls`] | admission and counters of calls |
//! | [`cancelled_calls`] | cancelled calls that the server may still work on |
//! | [`attribution`] | which agent a message belongs to |
//! | [`lists`], [`logging`], [`health_checks`] | the lists, log level and health checks of the server |
//! | [`server_requests`] | requests of the server to agents |
//! | [`subscriptions`] | subscriptions to resources, tasks and lists |
//! | [`tasks`] | tasks, whoever owns them |

mod attribution;
mod calls;
mod cancelled_calls;
mod effect;
mod header_params;
mod health_checks;
mod lists;
mod logging;
mod pending_call;
mod pending_request;
mod server_requests;
mod subscriptions;
mod tasks;
mod transport_errors;
mod wire;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use bytes::Bytes;
use serde_json::json;
use serde_json::value::RawValue;

pub(super) use self::attribution::level_of;
use self::attribution::{Attribution, Ownership, Route, Within, Work};
use self::calls::Calls;
use self::cancelled_calls::{CancelledCalls, GRACE, Until};
pub(super) use self::effect::Effect;
use self::health_checks::HealthChecks;
use self::lists::{Fetch, ServerLists};
use self::logging::Logging;
use self::pending_call::{Abandoned, PendingCall};
pub(super) use self::pending_request::PendingRequest;
pub(super) use self::server_requests::FromAgent;
use self::server_requests::{Answer, CallInput, Purpose, Recipient, ServerRequests};
use self::subscriptions::Subscriptions;
pub(super) use self::subscriptions::{NewSubscription, NotificationSupport, Topic};
use self::tasks::{Lookup, Noted, RequestRefused, Required, TaskTable, is_unknown};
use self::wire::{MAX_SMALL_LINE, Wire};
use super::link::Link;
use super::messages::call::{Call, CallKey, Failure, Origin, ReplySender, RequestKind};
use super::messages::cancellation::Cancellation;
use super::messages::tasks::TaskAsk;
use super::question::{Wish, failed, not_asked, undeclared};
use super::role::{Role, roots_result};
use super::share::Vacancies;
use super::stats::Stats;
use crate::bridge::{
    self, BridgeError, BridgedCall, BridgedRequest, CompletedTask, DONE, MAX_SUSPENDED, ModernAgent, Presentation,
    ResponseContext, Resumed, ServerRequest, Step, TaskInput, TaskSeen, TaskStep, task_params,
};
use crate::calls::Outcome;
use crate::catalog::{List, Lists};
use crate::chance;
use crate::client_capabilities::{ClientCapabilities, ClientCapability};
use crate::config::ServerConfig;
use crate::era::input::{self, Given, Input};
use crate::era::notification::without_subscription;
use crate::era::stated::Meta;
use crate::era::task::{Status, not_declared};
use crate::era::{self, Era};
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::members::{NotAnObject, members, text};
use crate::jsonrpc::pending::minted;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND};
use crate::jsonrpc::splice::{Change, Edit, applied, splice};
use crate::jsonrpc::{Malformed, Message, parse};
use crate::kind::Kind;
use crate::printable::one_line;
use crate::server::messages::tasks::unknown_task;
use crate::task_state::{TaskAct, TaskState, TaskSupport};
use crate::transport::http::{Lost, is_busy};
use crate::transport::{Arrival, Incoming};

/// What a server is told when its request for a call cannot be answered any more.
const CALL_HAS_ENDED: &str = "the call that this was for has ended";
/// The same for a task.
const TASK_HAS_ENDED: &str = "the task that this was for has ended";
/// What an agent is told when inputs are too large; it continues the name of the server.
const INPUTS_TOO_LARGE: &str = "wants to know more, and what it wants and was answered is too large";

/// A running instance of a server.
pub(super) struct Instance {
    pub(super) wire: Wire,
    config: Arc<ServerConfig>,
    calls: Calls,
    cancelled: CancelledCalls,
    attribution: Attribution,
    pub(super) lists: ServerLists,
    pub(super) health: HealthChecks,
    pub(super) logging: Logging,
    pub(super) subscriptions: Subscriptions,
    pub(super) server_requests: ServerRequests,
    tasks: TaskTable,
    /// Begins each `requestState` of this instance, and identifies it in ids of modern tasks.
    tag: u64,
}

/// The tag of the instance with this purpose. It differs in each daemon, so that nobody can have a call routed to an instance that has told
/// him nothing.
pub(super) fn tag(purpose: Option<&str>) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(purpose)
}

/// The tag of the instance that has suspended the call of which this is a retry.
pub(super) fn tag_of_retry(call: &Call) -> Option<u64> {
    if !call.origin.is_stateless() {
        return None;
    }
    let [params] = members(&call.request.line, ["params"]).ok()?;
    let Given { state, .. } = bridge::retry(&call.request.line, &params?).ok()??;
    let (tag, _) = str::from_utf8(&state).ok()?.split_once('.')?;
    u64::from_str_radix(tag, 16).ok()
}

/// What an instance is made for.
pub(super) struct Setup {
    pub(super) config: Arc<ServerConfig>,
    pub(super) role: Role,
    /// What it is for, if it is one of several.
    pub(super) purpose: Option<Arc<str>>,
    pub(super) stats: Arc<Stats>,
    pub(super) max_message: usize,
}

impl Instance {
    pub(super) fn new(link: Link, setup: Setup) -> Self {
        let Setup { config, role, purpose, stats, max_message } = setup;
        let timeout = config.settings.handshake_timeout;
        let call_timeout = config.settings.call_timeout_max;
        Self {
            cancelled: CancelledCalls::new(link.remote().is_none()),
            wire: Wire::new(link, max_message),
            calls: Calls::new(Arc::clone(&stats)),
            attribution: Attribution::new(role),
            lists: ServerLists::new(timeout),
            health: HealthChecks::default(),
            logging: Logging::new(timeout),
            subscriptions: Subscriptions::new(stats, timeout),
            server_requests: ServerRequests::new(Arc::clone(&config.name), call_timeout),
            tasks: TaskTable::default(),
            tag: tag(purpose.as_deref()),
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

    /// Calls that were accepted and have not ended.
    pub(super) fn calls(&self) -> usize {
        self.calls.count()
    }

    /// Calls that an agent waits for.
    pub(super) fn awaited(&self) -> usize {
        self.wire.calls().filter(|(_, call)| call.reply.to().is_some()).count()
    }

    /// The sessions that may start one more call now.
    ///
    /// A call that was cancelled or has timed out counts for `max_concurrent` while the server may work on it.
    pub(super) fn vacancies(&self) -> Vacancies {
        let cancelled = self.cancelled.len(Instant::now());
        self.calls.vacancies(&self.wire, self.config.settings.max_concurrent, cancelled)
    }

    /// When time alone frees the place of a cancelled call.
    pub(super) fn next_vacancy(&self) -> Option<Instant> {
        self.cancelled.next_over()
    }

    /// The deadline of a request of our own that no agent waits for.
    fn request_deadline(&self) -> Instant {
        Instant::now() + self.config.settings.handshake_timeout
    }

    /// What the server supports of tasks.
    pub(super) fn declare_tasks(&mut self, support: TaskSupport) {
        self.tasks.declare(support);
    }

    /// Takes note of what the tools of the server require.
    pub(super) fn note_tools(&mut self, tools: &List) {
        self.tasks.note_tools(tools);
    }

    /// The client capabilities that are declared to the server.
    pub(super) fn capabilities(&self) -> Box<RawValue> {
        self.attribution.role().capabilities(self.config.roots())
    }

    /// The roots of an agent have changed, which concerns the server if it is that agent's own.
    pub(super) fn roots_changed(&mut self, session: u64, line: &Bytes) {
        let agent = self.attribution.agent().filter(|agent| agent.session == session);
        if agent.is_some_and(|agent| agent.abilities.include(ClientCapability::Roots)) {
            self.wire.try_notify(splice(line, &mut []));
        }
    }

    /// Whether the request of this id opens the connection.
    pub(super) fn is_introducing(&mut self, request: u64) -> bool {
        let pending = self.wire.get_mut(request.to_string().as_bytes());
        matches!(pending, Some(PendingRequest::Initialize | PendingRequest::Discover))
    }

    /// Whether it has not answered the request that opens a connection of this era.
    pub(super) fn awaits_opening(&self, era: Era) -> bool {
        self.wire.has_pending(|entry| match era {
            Era::Legacy => matches!(entry, PendingRequest::Initialize),
            Era::Modern => matches!(entry, PendingRequest::Discover),
        })
    }

    // ── Messages of the server ────────────────────────────────────────────────────────────────────────────────────────

    /// Something has arrived.
    pub(super) fn arrive(&mut self, arrival: Arrival) -> Effect {
        match arrival {
            Arrival::Incoming { incoming, within } => {
                let within = within.and_then(|request| {
                    let session = self.wire.call_mut(request)?.reply.key.session;
                    Some(Within { request, session })
                });
                self.attribution.set_within(within);
                let effect = self.take(incoming);
                self.attribution.set_within(None);
                effect
            }
            Arrival::Lost { request, lost } => self.lost(request, lost),
            Arrival::Moved => Effect::Nothing,
        }
    }

    /// The server has sent a message.
    pub(super) fn take(&mut self, incoming: Incoming) -> Effect {
        match incoming {
            Incoming::Message { line, message: Message::Response { id, outcome } } => {
                self.response(&line, &id, outcome)
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
            Incoming::TooLarge { id: Some(id), is_response: true } => {
                self.unusable_response(&id, Failure::AnswerTooLarge)
            }
            Incoming::Malformed(Malformed::BadResponse { id }) => self.unusable_response(&id, Failure::AnswerMalformed),
            Incoming::TooLarge { .. } | Incoming::Malformed(_) | Incoming::Batch(_) => {
                self.stats().skipped_lines.add_one();
                Effect::Nothing
            }
        }
    }

    fn response(&mut self, line: &Bytes, id: &Bytes, outcome: Result<Bytes, Bytes>) -> Effect {
        let Some(pending) = self.wire.take_unless_parked(id) else { return self.stray_response(id, outcome.as_ref()) };
        self.cancelled.pending_answered(id);
        match pending {
            PendingRequest::Call(call) if call.bridged.is_some() => {
                self.bridged_response(call, (id, line), outcome.as_ref())
            }
            PendingRequest::Call(call) => {
                let answer = splice(line, &mut [Edit { part: id, replacement: call.reply.id() }]);
                self.end_call(call, id, answer, outcome.as_ref())
            }
            PendingRequest::Page { listing, .. } => {
                let fetch = self.lists.page(&mut self.wire, listing, outcome);
                self.fetched(fetch)
            }
            PendingRequest::Renewal { uri, .. } if outcome.is_err() => Effect::Lapsed(uri),
            PendingRequest::Ping | PendingRequest::Renewal { .. } | PendingRequest::Ignored { .. } => Effect::Nothing,
            PendingRequest::CancellationCheck => {
                self.check_cancellations();
                Effect::Nothing
            }
            PendingRequest::Listen { .. } => {
                let refused = minted(id).map(|id| self.subscriptions.listen_ended(id, Some(outcome.as_ref())));
                Effect::refused(refused.unwrap_or_default())
            }
            PendingRequest::Check => Effect::Checked(self.health.checked()),
            PendingRequest::LogLevel { .. } => {
                self.logging.answered(&mut self.wire);
                Effect::Nothing
            }
            PendingRequest::CancelTask { task, .. } => {
                self.tasks.disowned(task, outcome.as_ref());
                Effect::Nothing
            }
            PendingRequest::UpdateTask { task, .. } => {
                if outcome.is_err() {
                    self.task_inputs_refused(task);
                }
                Effect::Nothing
            }
            PendingRequest::TaskResult { task } => {
                let unanswered = self.tasks.result_arrived(&task, outcome.is_ok());
                self.refuse_unanswered(&unanswered, TASK_HAS_ENDED);
                Effect::Nothing
            }
            PendingRequest::Initialize | PendingRequest::Discover => self.stray_response(id, outcome.as_ref()),
        }
    }

    /// A response that no request waits for.
    fn stray_response(&mut self, id: &Bytes, outcome: Result<&Bytes, &Bytes>) -> Effect {
        self.cancelled.answered(id);
        if let Some(task) = self.tasks.late_response((&mut self.wire, &mut self.cancelled), id, outcome) {
            self.disown_task(task);
        }
        self.stats().stray_responses.add_one();
        Effect::Nothing
    }

    /// The server has answered a request with something that nobody can use.
    fn unusable_response(&mut self, id: &Bytes, failure: Failure) -> Effect {
        self.stats().skipped_lines.add_one();
        match self.wire.take_unless_parked(id) {
            Some(PendingRequest::Call(call)) => {
                self.fail_call(call, failure);
            }
            None => self.cancelled.answered(id),
            Some(pending) => return self.own_request_failed(id, pending),
        }
        Effect::Nothing
    }

    /// The request of this id gets no response.
    pub(super) fn lost(&mut self, request: u64, lost: Lost) -> Effect {
        if let Lost::Status { status, retry_after: Some(after), .. } = &lost
            && is_busy(*status)
        {
            self.wire.pause_until(Instant::now() + (*after).min(super::lifecycle::LONGEST_RETRY_AFTER));
        }
        let id = request.to_string();
        match self.wire.take(id.as_bytes()) {
            Some(PendingRequest::Call(call)) => {
                let call = match transport_errors::pause(&lost) {
                    Some(pause) => self.poll_later(call, Instant::now() + pause),
                    None => Some(call),
                };
                if let Some(call) = call {
                    let (failure, sent) = transport_errors::failure(lost);
                    self.fail_sent(call, failure, sent);
                }
                Effect::Nothing
            }
            Some(pending) => self.own_request_failed(id.as_bytes(), pending),
            None => {
                self.cancelled.answered(id.as_bytes());
                Effect::Nothing
            }
        }
    }

    /// A request that is not an agent's has no usable response.
    fn own_request_failed(&mut self, id: &[u8], pending: PendingRequest) -> Effect {
        match pending {
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
            PendingRequest::UpdateTask { task, .. } => self.task_inputs_refused(task),
            PendingRequest::TaskResult { task } => drop(self.tasks.result_arrived(&task, false)),
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
        let mut list = header_params::without_unfit(&mut self.wire, &self.config.name, list);
        list.makes_tasks = self.wire.era() == Era::Modern && self.tasks.support().declared;
        self.tasks.note_tools(&list);
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
                    self.lists.have_changed();
                }
                return Effect::Acknowledged { accepted: acknowledged.accepted, refused: acknowledged.refused };
            }
            b"notifications/tasks" => return self.modern_task_status(&line, params.as_ref()),
            b"notifications/resources/updated" => return self.resource_updated(line, params),
            b"notifications/cancelled" if self.wire.era() == Era::Modern => {
                self.subscriptions.cancelled_by_server(&mut self.wire, params.as_ref());
            }
            b"notifications/cancelled" => {
                if let Some(id) = self.server_requests.cancelled_by_server(line, params.as_ref()) {
                    self.tasks.withdraw(&id);
                    let bridged = self.wire.calls_mut().filter_map(|call| call.bridged.as_mut());
                    bridged.for_each(|bridged| bridged.withdraw(&id));
                }
            }
            b"notifications/elicitation/complete" => {
                self.server_requests.elicitation_completed(&line, params.as_ref());
            }
            _ if self.subscriptions.is_expected(&self.wire, params.as_ref()) => self.lists.notified(method),
            _ => {}
        }
        Effect::Nothing
    }

    fn resource_updated(&self, line: Bytes, params: Option<Bytes>) -> Effect {
        match self.wire.era() {
            Era::Legacy => Effect::Updated { line, params },
            Era::Modern if !self.subscriptions.is_expected(&self.wire, params.as_ref()) => Effect::Nothing,
            Era::Modern => {
                let line = applied(&line, &without_subscription(params.as_ref())).into();
                Effect::Updated { line, params }
            }
        }
    }

    /// Passes progress to the call or task whose token it carries, which gets its full time again.
    fn progress(&mut self, line: &Bytes, params: Option<&Bytes>) {
        let Some(Ok([Some(token)])) = params.map(|params| members(params, ["progressToken"])) else { return };
        let Some(PendingRequest::Call(call)) = self.wire.get_mut(&token) else {
            return self.tasks.progress(&mut self.wire, line, &token);
        };
        let Some(own) = &call.progress_token else { return };
        call.deadline.put_off(Instant::now());
        let line = splice(line, &mut [Edit { part: &token, replacement: own }]);
        call.reply.progress(line);
    }

    /// Passes a log message to the one modern call that it certainly belongs to and that requests it; else it belongs to a session.
    ///
    /// Source: MCP 2025-11-25, `server/utilities/logging`.
    fn log_message(&self, line: Bytes, params: Option<Bytes>) -> Effect {
        let may_log = |id: u64, call: &PendingCall| {
            self.attribution.may_be_about(id) && (self.wire.era() == Era::Legacy || call.origin.level().is_some())
        };
        let calls = || self.wire.calls().filter(move |(id, call)| may_log(*id, call)).map(|(_, call)| call);
        let in_transit = self.cancelled.in_transit_for(Instant::now());
        let is_any_stateless = calls().any(|call| call.origin.is_stateless());
        if self.attribution.session_within().is_none() && in_transit != Ownership::Nobody {
            // It may be about a cancelled call. That matters unless all calls are of one legacy agent.
            let owner = self.busy_sessions().fold(in_transit, Ownership::and);
            if is_any_stateless || owner == Ownership::Several {
                return Effect::Nothing;
            }
        }
        let ownership = self.ownership();
        if !is_any_stateless {
            let owner =
                if let Ownership::One(session) = ownership { Some((session, self.way_to_owner())) } else { None };
            return Effect::Logged { owner, line, params };
        }
        let is_certain = self.wire.era() == Era::Modern || matches!(ownership, Ownership::One(_));
        if let (Some(call), None, true) = (calls().next(), calls().nth(1), is_certain)
            && let Some(least) = call.origin.level()
            && level_of(params.as_ref()).is_some_and(|level| level >= least)
        {
            call.reply.progress(splice(&line, &mut []));
        }
        Effect::Nothing
    }

    // ── Attribution ───────────────────────────────────────────────────────────────────────────────────────────────────

    /// The sessions that the server may be working for, and where each can be reached.
    fn busy_for(&self) -> impl Iterator<Item = (u64, Option<&ReplySender>)> {
        let calls = self.wire.calls().map(|(_, call)| call).filter(|call| !call.is_answered());
        calls.map(|call| (call.reply.key.session, call.reply.to())).chain(self.tasks.open())
    }

    fn busy_sessions(&self) -> impl Iterator<Item = u64> {
        self.busy_for().map(|(session, _)| session).chain(self.server_requests.sessions())
    }

    /// Whose everything is that the server may be working on. A message on the stream of a request is about that request (MCP 2025-11-25,
    /// `basic/transports`, "Sending Messages to the Server").
    fn ownership(&self) -> Ownership {
        match self.attribution.session_within() {
            Some(session) => Ownership::One(session),
            None => self.cancelled.owner(self.busy_sessions(), Instant::now()),
        }
    }

    /// The same for everything that the server may send a request for.
    fn ownership_of_request(&self) -> Ownership {
        match self.attribution.session_within() {
            Some(session) => Ownership::One(session),
            None => self.cancelled.owner_of_request(self.busy_sessions(), Instant::now()),
        }
    }

    /// Where the owner of the message at hand can be reached, if a call or task of it is open.
    fn way_to_owner(&self) -> Option<ReplySender> {
        let within = self.attribution.session_within();
        let is_owner = |session| within.is_none_or(|within| within == session);
        self.busy_for().filter(|(session, _)| is_owner(*session)).find_map(|(_, to)| to.cloned())
    }

    // ── Calls ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Queues an agent's call, or refuses it at once. Returns whether it was queued.
    pub(super) fn call(&mut self, call: Box<Call>) -> bool {
        if let Some(left) = self.wire.paused_for() {
            let reason = "it has asked to be left alone for a while".to_owned();
            self.refuse(*call, Failure::Unavailable { reason, retry_after: Some(left) });
            return false;
        }
        if call.origin.era() == self.wire.era() {
            return self.send(*call, &[], None);
        }
        match self.bridge(*call) {
            Some((call, bridged, changes)) => self.send(call, &changes, Some(Box::new(bridged))),
            None => false,
        }
    }

    fn send(&mut self, call: Call, changes: &[Change], bridged: Option<Box<BridgedCall>>) -> bool {
        if matches!(call.matter, RequestKind::NewTask) && !self.tasks.have_capacity() {
            self.refuse(call, Failure::Overloaded { what: "it has too many tasks that have not ended" });
            return false;
        }
        if self.calls.is_unread(&self.wire, &call) {
            self.refuse(call, Failure::Overloaded { what: "it does not read its input" });
            return false;
        }
        // Before the call, so that the server logs so by then.
        if let (Origin::Modern { level: Some(level), .. }, Some(_)) = (&call.origin, &bridged) {
            self.logging.call_started(&mut self.wire, *level);
        }
        let (call, line) = PendingCall::new(call, changes, bridged);
        self.wire.expire_by(call.deadline.at());
        self.wire.send_call(call, |_, id| line(id));
        self.calls.started();
        self.logging.call_ended(&mut self.wire);
        true
    }

    fn refuse(&self, call: Call, failure: Failure) {
        self.stats().errors.add_one();
        call.refuse(failure);
    }

    /// Subscribes to a resource for an agent's call.
    pub(super) fn subscribe(&mut self, call: Call) {
        let key = call.reply.key;
        if let Some(call) = self.subscriptions.subscribe(&mut self.wire, call) {
            let was_sent = self.call(Box::new(call));
            self.subscriptions.sent(key, was_sent);
        }
    }

    /// Unsubscribes from a resource for the call of the last agent that has it.
    pub(super) fn unsubscribe(&mut self, call: Box<Call>) {
        if let Some(call) = self.subscriptions.unsubscribe_for(&self.wire, call) {
            self.call(call);
        }
    }

    /// Cancels a call. The server is told if it may have received the call.
    pub(super) fn cancel(&mut self, key: CallKey, words: Option<&Cancellation>) {
        let Some((id, mut call)) = self.wire.remove_calls_where(|call, _| call.reply.key == key).pop() else {
            self.subscriptions.cancel_waiting(key);
            let deadline = self.request_deadline();
            let unanswered = self.tasks.drop_created_by(&mut self.wire, key, deadline);
            self.refuse_unanswered(&unanswered, TASK_HAS_ENDED);
            return self.drop_task_of(key);
        };
        self.refuse_requests_for(&mut call);
        let (abandoned, follows_task) = (call.abandoned(id), call.follows_task());
        let is_parked = call.is_parked();
        let sent = !is_parked && !self.wire.retract(call.line);
        call.reply.forgive();
        self.count_ended();
        self.withdraw_inputs(id);
        if sent {
            let line = match words.filter(|words| words.line.len() <= MAX_SMALL_LINE) {
                Some(Cancellation { line, request }) => {
                    splice(line, &mut [Edit { part: request, replacement: id.to_string().as_bytes() }])
                }
                None if words.is_some() => reply::cancelled(id, "the agent cancelled"),
                None => reply::cancelled(id, "the agent disconnected"),
            };
            self.abandon(abandoned, line);
        }
        if follows_task {
            self.drop_task_of(key);
        }
        self.end_requests_for(key.session, (ErrorCode::Died, "the agent has given up the call that this was for"));
        for call in self.subscriptions.cancelled(&mut self.wire, key, sent) {
            self.subscribe(call);
        }
    }

    fn count_ended(&mut self) {
        self.calls.ended();
        self.logging.call_ended(&mut self.wire);
    }

    /// Sends the server a call's cancellation, and a ping behind it.
    fn abandon(&mut self, abandoned: Abandoned, cancellation: Bytes) {
        self.note_abandoned(abandoned);
        self.wire.notify(cancellation);
        self.check_cancellations();
    }

    /// The server may go on with a call that nobody waits for.
    fn note_abandoned(&mut self, Abandoned { id, key, creates_task, load }: Abandoned) {
        let now = Instant::now();
        if self.wire.era() == Era::Legacy {
            let at = now + GRACE.min(self.config.settings.call_timeout);
            let until = Until { at, answered: self.wire.next_id() };
            self.cancelled.add((id, key.session), Some(until), load, now);
        } else {
            self.cancelled.add_modern(key.session, now);
        }
        self.wire.give_up(id);
        if creates_task {
            self.tasks.call_cancelled(id, key);
        }
    }

    /// Sends a ping behind a cancellation, unless one is unanswered: its response shows that the server has read the cancellation.
    fn check_cancellations(&mut self) {
        let is_sent = self.wire.has_pending(|entry| matches!(entry, PendingRequest::CancellationCheck));
        if !is_sent && self.cancelled.has_unread() {
            self.wire.own_request(self.wire.era().greeting(), json!({}), PendingRequest::CancellationCheck);
        }
    }

    /// The server has answered the call, which it knows by `id`.
    fn end_call(&mut self, call: PendingCall, id: &Bytes, answer: Bytes, response: Result<&Bytes, &Bytes>) -> Effect {
        if let Some(failure) = response.err().and_then(|error| header_params::refusal(&self.wire, error)) {
            self.lists.has_changed(Kind::Tools);
            self.fail_sent(call, failure, false);
            return Effect::Nothing;
        }
        let noted = self.tasks.response((&mut self.wire, &mut self.cancelled), &call, id, response, self.tag);
        if matches!(call.kind, RequestKind::NewTask) {
            self.drop_early_tasks();
        }
        let Noted { news, ended } = match noted {
            Ok(noted) => noted,
            Err(failure) => {
                self.fail_call(call, failure);
                return Effect::Nothing;
            }
        };
        ended.into_iter().for_each(|task| self.withdraw_task_inputs(task));
        let key = call.reply.key;
        if let Err(error) = response {
            self.stats().errors.add_one();
            if let Some(to) = call.reply.to() {
                self.server_requests.call_failed(error, key.session, to);
            }
        }
        self.count_ended();
        call.reply.answer_with(answer, Outcome::of(response), news);
        let subscription = self.subscriptions.answered(&mut self.wire, key, response);
        subscription.map_or(Effect::Nothing, |subscription| Effect::Subscribed(Box::new(subscription)))
    }

    /// Fails a call, and takes it back if the server has not begun to read it. Returns whether the server may have read it.
    fn fail_call(&mut self, call: PendingCall, failure: Failure) -> bool {
        let sent = !self.wire.retract(call.line);
        self.fail_sent(call, failure, sent);
        sent
    }

    /// Fails a call of which it is known whether the server may have read it, as it was sent last.
    fn fail_sent(&mut self, call: PendingCall, failure: Failure, sent: bool) -> Effect {
        let sent = sent || call.was_sent_before();
        self.count_ended();
        self.stats().errors.add_one();
        self.subscriptions.failed(&mut self.wire, call.reply.key, &failure, sent);
        if call.follows_task() {
            self.drop_task_of(call.reply.key);
        }
        call.reply.fail(failure, sent);
        Effect::Nothing
    }

    /// Takes back calls that wait for a server that does not read, and that their listener hides by now.
    pub(super) fn revoke_hidden(&mut self, lists: &Lists) {
        for call in self.calls.take_hidden(&mut self.wire, &self.config.name, lists) {
            self.end_hidden(call);
        }
    }

    /// Answers a call of something that its listener does not expose any more.
    fn end_hidden(&mut self, call: PendingCall) {
        let Some(access) = &call.access else { return };
        self.count_ended();
        self.stats().errors.add_one();
        let failure = Failure::Unavailable { reason: "it was refused".to_owned(), retry_after: None };
        self.subscriptions.failed(&mut self.wire, call.reply.key, &failure, false);
        if call.follows_task() {
            self.drop_task_of(call.reply.key);
        }
        call.reply.answer_unknown(access);
    }

    /// Ends every call and task: the server is gone, or may not be waited for any longer.
    pub(super) fn fail_all(&mut self, written: &Failure, unwritten: &Failure) {
        self.tasks.clear();
        self.subscriptions.fail_all(unwritten);
        self.server_requests.withdraw_all();
        for (_, pending) in self.wire.remove_where(|_| true) {
            if let PendingRequest::Call(call) = pending {
                let was_written = self.wire.has_begun(call.line) || call.was_sent_before();
                let failure = if was_written { written } else { unwritten };
                self.fail_call(call, failure.clone());
            }
        }
    }

    /// Takes the calls that were not written, as they came. For an instance that has ended.
    ///
    /// A call that cannot be read again ends with `failure`.
    pub(super) fn take_unsent(&mut self, failure: &Failure) -> Vec<Call> {
        let mut unsent = Vec::new();
        for call in self.calls.take_unsent(&mut self.wire) {
            match call {
                Ok(call) => unsent.push(call),
                Err(call) => {
                    self.stats().errors.add_one();
                    call.reply.fail(failure.clone(), false);
                }
            }
        }
        self.logging.call_ended(&mut self.wire);
        unsent
    }

    // ── Calls between the eras ────────────────────────────────────────────────────────────────────────────────────────

    /// Whether a call continues one that this instance has suspended.
    pub(super) fn is_resumed_by(&self, call: &Call) -> bool {
        self.wire.era() == Era::Legacy && tag_of_retry(call) == Some(self.tag)
    }

    /// Begins a call of the other era, unless it ends here.
    fn bridge(&mut self, call: Call) -> Option<(Call, BridgedCall, Vec<Change>)> {
        let request = match BridgedRequest::new(&call.request) {
            Ok(request) => request,
            Err(NotAnObject) => return refuse_malformed(call),
        };
        match call.origin.clone() {
            Origin::Legacy(speaker) => {
                let begun = match &call.matter {
                    RequestKind::Task(ask) => BridgedCall::task_request(request, &speaker, ask.act),
                    kind => {
                        let task = self.tasks.use_for(kind, &request);
                        BridgedCall::to_modern(request, &speaker, task)
                    }
                };
                match begun {
                    Ok((bridged, changes)) => Some((call, bridged, changes)),
                    Err(NotAnObject) => refuse_malformed(call),
                }
            }
            Origin::Modern { profile, .. } => self.bridge_to_legacy(call, request, profile),
        }
    }

    fn bridge_to_legacy(
        &mut self,
        call: Call,
        request: BridgedRequest,
        profile: Arc<str>,
    ) -> Option<(Call, BridgedCall, Vec<Change>)> {
        let Ok([meta]) = members(request.params(), ["_meta"]) else { return refuse_malformed(call) };
        let declared = meta.and_then(|meta| members(&meta, [era::meta::CAPABILITIES]).ok()).and_then(|[raw]| raw);
        let capabilities = ClientCapabilities::read(era::MODERN, declared.as_ref());
        if let Some(error) = bridge::unopened_urls(&request, &self.config.name) {
            call.refuse_with(&error.with_delivery(Delivery::NotSent));
            return None;
        }
        match bridge::retry(&request.line().line, request.params()) {
            Ok(None) => {}
            Ok(Some(given)) => {
                self.resume(call, &request, (&profile, capabilities), &given);
                return None;
            }
            Err(NotAnObject) => {
                // Were it taken for a new one, the tool would be called twice.
                let why = "`inputResponses` or `requestState` is malformed";
                call.refuse_with(&ErrorObject::new(INVALID_PARAMS, why));
                return None;
            }
        }
        let own_name = request.own_name().unwrap_or_default();
        match request.method() {
            b"tools/call" if self.tasks.requires_task(&own_name) => {
                self.bridge_as_task(call, request, ModernAgent { profile, capabilities })
            }
            b"tasks/get" | b"tasks/update" | b"tasks/cancel" => {
                self.bridge_task_request(call, request, ModernAgent { profile, capabilities })
            }
            _ => match BridgedCall::to_legacy(request, ModernAgent { profile, capabilities }) {
                Ok((bridged, changes)) => Some((call, bridged, changes)),
                Err(NotAnObject) => refuse_malformed(call),
            },
        }
    }

    /// A call of a tool that a legacy server runs only as a task.
    fn bridge_as_task(
        &mut self,
        call: Call,
        request: BridgedRequest,
        agent: ModernAgent,
    ) -> Option<(Call, BridgedCall, Vec<Change>)> {
        if let Err(refusal) = self.may_create_task(&request) {
            match refusal {
                Some(error) => call.refuse_with(&error),
                None => self.refuse(call, Failure::Overloaded { what: "it has too many tasks that have not ended" }),
            }
            return None;
        }
        let Ok((mut bridged, changes)) = BridgedCall::to_legacy(request, agent) else { return refuse_malformed(call) };
        let changes = bridged.create_task().unwrap_or(changes);
        Some((call, bridged, changes))
    }

    /// A request of a modern agent about a task of a legacy server.
    fn bridge_task_request(
        &mut self,
        call: Call,
        request: BridgedRequest,
        agent: ModernAgent,
    ) -> Option<(Call, BridgedCall, Vec<Change>)> {
        let task = request.own_name().unwrap_or_default();
        if !self.tasks.declare_for(&agent.profile, &task, agent.capabilities.clone().bare()) {
            call.refuse_with(&unknown_task(&request.exposed_name().unwrap_or_default()));
            return None;
        }
        match request.method() {
            b"tasks/update" => {
                self.update_task(call, &task, request.params());
                return None;
            }
            b"tasks/cancel" if !self.tasks.support().cancels => {
                call.refuse_with(&self.cancels_no_tasks());
                return None;
            }
            _ => {}
        }
        let Ok((mut bridged, changes)) = BridgedCall::to_legacy(request, agent) else { return refuse_malformed(call) };
        bridged.about_legacy_task(task);
        Some((call, bridged, changes))
    }

    /// Whether a call of a modern agent may become a task of a legacy server. `Err` is empty if there are too many tasks.
    fn may_create_task(&self, request: &BridgedRequest) -> Result<(), Option<ErrorObject>> {
        let meta = Meta::of(Some(request.params()));
        if !meta.is_ok_and(|meta| meta.stated.is_some_and(|stated| stated.takes_tasks)) {
            return Err(Some(not_declared()));
        }
        let creating = self.wire.calls().filter(|(_, call)| call.creates_task()).count();
        if self.tasks.have_capacity_for_profiles(creating) { Ok(()) } else { Err(None) }
    }

    fn cancels_no_tasks(&self) -> ErrorObject {
        ErrorObject::new(METHOD_NOT_FOUND, format!("server `{}` cancels no tasks", self.config.name))
    }

    /// The server has answered a bridged call.
    fn bridged_response(
        &mut self,
        mut call: PendingCall,
        (id, line): (&Bytes, &Bytes),
        outcome: Result<&Bytes, &Bytes>,
    ) -> Effect {
        if call.bridged.as_ref().is_some_and(|bridged| bridged.is_suspended()) {
            return self.cache_response(call, line);
        }
        self.refuse_requests_for(&mut call);
        let raw_task_id = if let RequestKind::Task(ask) = &call.kind { self.tasks.raw_id(&ask.id) } else { None };
        let may_create_task = self.tasks.support().declared && self.tasks.have_capacity() && call.reply.to().is_some();
        let is_unknown_task = is_unknown(outcome);
        let context = ResponseContext { now: Instant::now(), raw_task_id, is_unknown_task, may_create_task };
        match call.transition(|bridged| bridged.response(outcome, &context)) {
            Some(step) => self.carry_out(call, (id, line), outcome, step),
            None => Effect::Nothing,
        }
    }

    fn carry_out(
        &mut self,
        call: PendingCall,
        (id, line): (&Bytes, &Bytes),
        outcome: Result<&Bytes, &Bytes>,
        step: Step,
    ) -> Effect {
        match step {
            Step::Respond(changes) => {
                let is_lost_task = call.follows_task() && !is_unknown(outcome);
                if outcome.is_err() && is_lost_task {
                    self.drop_task_of(call.reply.key);
                }
                self.end_changed(call, (id, line), &changes, outcome)
            }
            Step::RespondAs(changes, result) => self.end_changed(call, (id, line), &changes, Ok(&result)),
            Step::Answer(response) => self.end_with(call, id, response.as_ref()),
            Step::RequireUrls(result) => {
                let answer = reply::result(call.reply.id(), &result);
                self.end_call(call, id, answer, outcome)
            }
            Step::MissingCapability(capability) => {
                let error = era::error::missing_capability(capability.declared_by(), &self.config.name);
                self.end_with(call, id, Err(&Bytes::from(json!(error).to_string())))
            }
            Step::Task(step) => self.carry_out_for_task(call, (id, line), outcome, step),
            Step::CollectInputs(inputs) => {
                self.collect_inputs(call, &inputs);
                Effect::Nothing
            }
            Step::Resend(changes) => {
                if let Some(tool) = call.bridged.as_ref().and_then(|bridged| bridged.request().tool()) {
                    self.tasks.remember_task_only(&tool);
                }
                self.resend(call, &changes);
                Effect::Nothing
            }
            Step::Fail(error) => self.fail_sent(call, failure_of(error), true),
        }
    }

    fn carry_out_for_task(
        &mut self,
        mut call: PendingCall,
        (id, line): (&Bytes, &Bytes),
        outcome: Result<&Bytes, &Bytes>,
        step: TaskStep,
    ) -> Effect {
        match step {
            TaskStep::Complete => {
                let Ok(result) = outcome else { return self.fail_sent(call, Failure::AnswerMalformed, true) };
                self.complete_task(call, id, result)
            }
            TaskStep::Follow { task, is_working } => self.follow_task(call, id, outcome, (&task, is_working)),
            TaskStep::Created(changes) => {
                let created = match (outcome, call.bridged.as_ref().and_then(|bridged| bridged.agent())) {
                    (Ok(result), Some(agent)) => {
                        self.tasks.created_for_profile(&mut self.wire, &call, id, result, agent)
                    }
                    _ => Err(Failure::AnswerMalformed),
                };
                self.drop_early_tasks();
                match created {
                    Ok(()) => self.end_changed(call, (id, line), &changes, outcome),
                    Err(failure) => self.fail_sent(call, failure, true),
                }
            }
            TaskStep::Seen(seen) => self.task_seen(call, (id, line), outcome, *seen),
            TaskStep::Cancelled { has_ended } => {
                if has_ended {
                    self.end_legacy_task(&call);
                }
                self.end_with(call, id, Ok(&Bytes::from_static(DONE)))
            }
            TaskStep::Unknown(changes) => {
                let task = call.bridged.as_ref().and_then(|bridged| bridged.legacy_task());
                let unanswered = task.map(|task| self.tasks.forget_of_profile(task)).unwrap_or_default();
                self.refuse_unanswered(&unanswered, TASK_HAS_ENDED);
                self.end_changed(call, (id, line), &changes, outcome)
            }
            TaskStep::Poll => {
                self.poll(call);
                Effect::Nothing
            }
            TaskStep::PollLater { at, inputs } => {
                self.wait_for_poll(call, at, inputs.as_ref());
                Effect::Nothing
            }
            TaskStep::RequestResult(raw_id) => {
                call.deadline.put_off(Instant::now());
                let params = tasks::about(&raw_id);
                self.wire.send_call(call, |_, id| reply::request(id, "tasks/result", &params));
                Effect::Nothing
            }
        }
    }

    /// Notes the state of a legacy server's task, and answers with it unless the server has to be asked for more.
    fn task_seen(
        &mut self,
        mut call: PendingCall,
        (id, line): (&Bytes, &Bytes),
        outcome: Result<&Bytes, &Bytes>,
        seen: TaskSeen,
    ) -> Effect {
        let load = call.reply.ticket().cloned();
        let unanswered = self.tasks.note_of_profile(&mut self.wire, &seen.task, load).unwrap_or_default();
        self.refuse_unanswered(&unanswered, TASK_HAS_ENDED);
        let inputs = self.tasks.inputs_of(&seen.task.id);
        if inputs.is_none() && seen.requires_input() {
            self.tasks.request_inputs(&mut self.wire, &seen.task);
        }
        match call.bridged.as_mut().map(|bridged| bridged.task_noted(seen, inputs.as_ref())) {
            Some(step) => self.carry_out(call, (id, line), outcome, step),
            None => Effect::Nothing,
        }
    }

    /// Ends a call with the server's line, changed so.
    fn end_changed(
        &mut self,
        call: PendingCall,
        (id, line): (&Bytes, &Bytes),
        changes: &[Change],
        outcome: Result<&Bytes, &Bytes>,
    ) -> Effect {
        let own = call.reply.id().clone();
        let own = Edit { part: id, replacement: &own };
        let mut edits: Vec<_> = std::iter::once(own).chain(changes.iter().map(Change::edit)).collect();
        let answer = splice(line, &mut edits);
        self.end_call(call, id, answer, outcome)
    }

    /// Ends a call with a raw result or error.
    fn end_with(&mut self, call: PendingCall, id: &Bytes, response: Result<&Bytes, &Bytes>) -> Effect {
        // Nobody will ask for a task that no agent knows.
        let hidden = if call.follows_task() { self.tasks.created_by(call.reply.key) } else { None };
        let answer = match response {
            Ok(result) => reply::result(call.reply.id(), result),
            Err(error) => reply::raw_error(call.reply.id(), error),
        };
        let effect = self.end_call(call, id, answer, response);
        hidden.into_iter().for_each(|task| self.tasks.forget(task));
        effect
    }

    /// Sends a call again that the server has ended.
    fn resend(&mut self, mut call: PendingCall, changes: &[Change]) {
        if call.is_hidden(&self.config.name) {
            return self.end_hidden(call);
        }
        call.deadline.put_off(Instant::now());
        let line = |call: &PendingCall, id| {
            let bridged = call.bridged.as_ref();
            bridged.map_or_else(Bytes::new, |bridged| bridged.request().line().numbered(id, changes))
        };
        self.wire.send_call(call, line);
    }

    // ── Inputs that a modern server requires of a legacy agent ────────────────────────────────────────────────────────

    /// Asks the agent for the inputs, or sends the call again at once if there are none.
    fn collect_inputs(&mut self, mut call: PendingCall, inputs: &[Input]) {
        call.deadline.put_off(Instant::now());
        let (session, to) = (call.reply.key.session, call.reply.to().cloned());
        let parked = self.wire.park(call);
        if !self.has_space_for_inputs(parked) {
            return self.fail_inputs(parked, INPUTS_TOO_LARGE.to_owned());
        }
        for (index, input) in inputs.iter().enumerate() {
            let place = CallInput { call: parked, index };
            let requested = match to.clone() {
                Some(to) => self.request_input(&Recipient { session, to }, Purpose::Call(place), input),
                None => Err("nobody waits for it any more".to_owned()),
            };
            if let Err(why) = requested {
                return self.fail_inputs(parked, why);
            }
        }
        self.resend_if_complete(parked);
    }

    /// Sends the agent a request for an input, unless mcpd has it. `Err` continues the name of the server.
    fn request_input(&mut self, recipient: &Recipient, purpose: Purpose, input: &Input) -> Result<(), String> {
        let Input { method, params, .. } = input;
        let named = one_line(&String::from_utf8_lossy(method));
        match Wish::read(method, params.as_ref()) {
            None => Err(format!("wants `{named}`, which mcpd does not pass on")),
            // Neither may be required (MCP 2026-07-28, `basic/patterns/mrtr`); tasks may be another server's.
            Some(Ok(wish)) if wish.ability == ClientCapability::Tasks || wish.task.is_some() => {
                Err(format!("wants `{named}` of tasks, which mcpd does not pass on"))
            }
            Some(Err(error)) => Err(format!("wants `{named}` that is malformed: {}", error.message)),
            Some(Ok(wish)) if wish.ability == ClientCapability::Roots && self.has_configured_roots() => {
                let roots = Bytes::from(roots_result(self.config.roots()));
                match purpose {
                    Purpose::Call(place) => self.set_input(place, roots),
                    Purpose::Task(place) => drop(self.tasks.set_input(&self.wire, place, Ok(roots))),
                    Purpose::Server => {}
                }
                Ok(())
            }
            Some(Ok(wish)) => {
                let request = (method, params.as_ref());
                let sent = self.server_requests.send_input(&mut self.wire, recipient, purpose, request, wish);
                sent.map_err(|error| error.message)
            }
        }
    }

    /// An agent has sent something about a request of the server.
    pub(super) fn agent_replied(&mut self, received: FromAgent) {
        if let Some(Answer { purpose, response: Ok(line) }) = self.server_requests.received(&mut self.wire, received) {
            self.input_received(purpose, bridge::input_of(&line));
        }
    }

    /// A call of this session has ended without a response of the server.
    fn end_requests_for(&mut self, session: u64, error: (ErrorCode, &'static str)) {
        let ended = self.server_requests.call_ended(&mut self.wire, session, error);
        self.requests_ended(ended);
    }

    /// Agents will not answer these requests.
    fn requests_ended(&mut self, ended: Vec<Answer>) {
        for Answer { purpose, response } in ended {
            if let Err(why) = response {
                self.input_received(purpose, Err(format!("wanted to know more, but {why}")));
            }
        }
    }

    fn input_received(&mut self, purpose: Purpose, result: Result<Bytes, String>) {
        match (purpose, result) {
            (Purpose::Call(place), Ok(result)) => {
                self.set_input(place, result);
                if self.has_space_for_inputs(place.call) {
                    self.resend_if_complete(place.call);
                } else {
                    self.fail_inputs(place.call, INPUTS_TOO_LARGE.to_owned());
                }
            }
            (Purpose::Call(place), Err(why)) => self.fail_inputs(place.call, why),
            (Purpose::Task(place), result) => self.task_input_received(place, result),
            (Purpose::Server, _) => {}
        }
    }

    fn set_input(&mut self, place: CallInput, result: Bytes) {
        if let Some(bridged) = self.wire.call_mut(place.call).and_then(|call| call.bridged.as_mut()) {
            bridged.set_input(place.index, result);
        }
    }

    fn has_space_for_inputs(&self, parked: u64) -> bool {
        let bytes = |call: &PendingCall| call.bridged.as_ref().map_or(0, |bridged| bridged.collected_bytes());
        let own = self.wire.calls().find(|(id, _)| *id == parked).map_or(0, |(_, call)| bytes(call));
        let all: usize = self.wire.calls().map(|(_, call)| bytes(call)).sum();
        own <= self.wire.max_message() && all <= MAX_SUSPENDED * self.wire.max_message()
    }

    /// Sends the call again once every input is there.
    fn resend_if_complete(&mut self, parked: u64) {
        let changes = self.wire.call_mut(parked).and_then(|call| call.transition(BridgedCall::resend)?);
        if let Some((changes, call)) = changes.and_then(|changes| Some((changes, self.wire.take_call(parked)?))) {
            self.resend(call, &changes);
        }
    }

    /// The call cannot be sent again; `why` continues the name of the server.
    fn fail_inputs(&mut self, parked: u64, why: String) {
        self.withdraw_inputs(parked);
        if let Some(call) = self.wire.take_call(parked) {
            self.fail_sent(call, Failure::NotAnswered { why }, true);
        }
    }

    /// Requests for inputs of this call are not needed any more.
    fn withdraw_inputs(&mut self, call: u64) {
        let is_of_call = |purpose| matches!(purpose, Purpose::Call(place) if place.call == call);
        self.server_requests.withdraw(is_of_call, CALL_HAS_ENDED);
    }

    // ── Requests of a legacy server ───────────────────────────────────────────────────────────────────────────────────

    /// The server sends a request. It is told at once if no agent will answer.
    fn server_request(&mut self, line: &Bytes, id: &Bytes, method: &Bytes, params: Option<&Bytes>) {
        if method[..] == *b"ping" {
            self.wire.try_notify(reply::result(id, b"{}"));
            return;
        }
        let is_own = self.attribution.agent().is_some();
        let routed = match Wish::read(method, params) {
            None => {
                let message = format!("mcpd does not pass `{}` on", one_line(&String::from_utf8_lossy(method)));
                Err(ErrorObject::new(METHOD_NOT_FOUND, message))
            }
            Some(Ok(wish)) if wish.ability == ClientCapability::Roots && !is_own => return self.answer_roots(id),
            Some(Ok(_)) if matches!(self.attribution.role(), Role::Nobody) => {
                Err(ErrorObject::new(METHOD_NOT_FOUND, "there are no agents here that could be asked"))
            }
            Some(Ok(wish)) if wish.ability == ClientCapability::Tasks && !is_own => {
                let why = "mcpd has not declared `tasks` here: they are for an agent's own instance (`sharing = \"session\"`)";
                Err(ErrorObject::new(METHOD_NOT_FOUND, why))
            }
            Some(wish) => wish.and_then(|wish| {
                let request = ServerRequest { id, method, params, capability: wish.ability };
                self.route_request(line, &request, wish)
            }),
        };
        if let Err(error) = routed {
            self.wire.try_notify(reply::error(Some(id), &error));
        }
    }

    /// Whether the configuration has the roots of the server.
    fn has_configured_roots(&self) -> bool {
        self.attribution.agent().is_none() && !self.config.roots().is_empty()
    }

    /// Answers with the roots of the configuration, for an instance that belongs to no agent.
    fn answer_roots(&mut self, id: &Bytes) {
        let line = match self.config.roots() {
            [] => {
                let why = "no `roots` are configured, and the instance is not one agent's own";
                reply::error(Some(id), &ErrorObject::new(METHOD_NOT_FOUND, why))
            }
            roots => reply::result(id, &roots_result(roots)),
        };
        self.wire.try_notify(line);
    }

    /// Passes a request to the agent that it is certainly for.
    fn route_request(&mut self, line: &Bytes, request: &ServerRequest<'_>, wish: Wish) -> Result<(), ErrorObject> {
        let related = if wish.ability == ClientCapability::Tasks { None } else { self.tasks.related(request.params) };
        if let Some(task) = related {
            return self.request_for_task(&task, request);
        }
        if self.wire.protocol().is_none() {
            return Err(self.unavailable("the handshake is not over"));
        }
        let to = self.way_to_owner();
        let work = Work {
            owner: self.ownership_of_request(),
            owner_of_unanswered: self.busy_sessions().fold(Ownership::Nobody, Ownership::and),
            to: to.as_ref(),
            calls: self.wire.calls(),
        };
        match self.attribution.route(work).map_err(|why| self.unavailable(why))? {
            Route::Agent(_) if self.server_requests.has(request.id) => {
                Err(ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered"))
            }
            Route::Agent(recipient) => {
                // No other agent may be asked about a task that was created for it.
                let wish = Wish { task: wish.task.filter(|_| self.attribution.agent().is_some()), ..wish };
                let line = (line.clone(), request.id.clone());
                self.server_requests.send(&mut self.wire, &recipient, line, Purpose::Server, wish)
            }
            Route::Call(call) => self.request_for_call(call, request),
        }
    }

    fn unavailable(&self, why: &str) -> ErrorObject {
        not_asked(ErrorCode::Unavailable, why, &self.config.name)
    }

    /// Keeps a request for a task of a profile until its agent looks at the task.
    fn request_for_task(&mut self, task: &[u8], request: &ServerRequest<'_>) -> Result<(), ErrorObject> {
        let max_message = self.wire.max_message();
        let refused = self.tasks.server_request(task, request, (max_message, MAX_SUSPENDED * max_message));
        refused.map_err(|refused| match refused {
            RequestRefused::IdInUse => ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered"),
            RequestRefused::Ended => self.unavailable("the task that this is for has ended"),
            RequestRefused::Undeclared => undeclared(request.capability),
            RequestRefused::TooMany => self.unavailable("too many requests for agents are unanswered"),
        })
    }

    /// Collects a request for a modern call, which will be answered with it.
    fn request_for_call(&mut self, call: u64, request: &ServerRequest<'_>) -> Result<(), ErrorObject> {
        let (bytes, max_message, now) = (request.params.map_or(0, Bytes::len), self.wire.max_message(), Instant::now());
        if self.suspended_bytes() + bytes > MAX_SUSPENDED * max_message {
            return Err(self.unavailable("too many calls wait for their agents to come back"));
        }
        let Some(call) = self.wire.call_mut(call) else {
            return Err(self.unavailable("no agent has a call at this server, so mcpd cannot know whom this is for"));
        };
        let bridged = call.bridged.as_mut();
        match bridged.and_then(|bridged| bridged.server_request(request, max_message, now)) {
            None => Err(self.unavailable("the call that this is for is of a server's own era")),
            Some(false) => Err(self.unavailable("too many requests for agents are unanswered")),
            Some(true) => {
                call.deadline.put_off(now);
                let at = call.next_event();
                self.wire.expire_by(at);
                Ok(())
            }
        }
    }

    fn suspended_bytes(&self) -> usize {
        let bridged = self.wire.calls().filter_map(|(_, call)| call.bridged.as_ref());
        bridged.map(|bridged| bridged.suspended_bytes()).sum()
    }

    /// Answers the call of this id with the collected requests, if its agent waits.
    fn present(&mut self, id: u64, now: Instant) {
        let tag = self.tag;
        let Some(call) = self.wire.call_mut(id) else { return };
        // Without random numbers there is no state that an agent could retry with.
        let state = call.reply.to().and_then(|_| chance::fresh().ok()).map(|random| format!("{tag:x}.{random}"));
        let presentation = call.transition(|bridged| bridged.present(state, now));
        let Presentation { result, refused } = presentation.unwrap_or_default();
        if let Some(result) = result {
            call.absent_agent = call.reply.to().cloned();
            let line = reply::result(call.reply.id(), &result);
            call.reply.suspend(line);
        }
        let at = call.next_event();
        self.wire.expire_by(at);
        for (id, capability) in refused {
            self.wire.try_notify(reply::error(Some(&id), &undeclared(capability)));
        }
    }

    /// Caches the server's response to a suspended call until its agent retries. A response that is too large with all others is lost.
    fn cache_response(&mut self, mut call: PendingCall, line: &Bytes) -> Effect {
        if self.suspended_bytes() + line.len() > MAX_SUSPENDED * self.wire.max_message() {
            return self.fail_sent(call, Failure::AnswerTooLarge, true);
        }
        self.refuse_requests_for(&mut call);
        if let Some(bridged) = &mut call.bridged {
            bridged.cache_response(line);
        }
        self.wire.park(call);
        Effect::Nothing
    }

    /// The agent of a suspended call retries it: the server gets the inputs, and the agent waits for the call as before.
    fn resume(
        &mut self,
        call: Call,
        request: &BridgedRequest,
        (profile, capabilities): (&str, ClientCapabilities),
        Given { responses, state }: &Given,
    ) {
        let is_it = |call: &PendingCall| {
            let bridged = call.bridged.as_ref();
            bridged.is_some_and(|bridged| bridged.is_suspended_as(state, profile) && bridged.is_repeated_by(request))
        };
        let id = self.wire.calls().find(|(_, call)| is_it(call)).map(|(id, _)| id);
        let Some((id, suspended)) = id.and_then(|id| Some((id, self.wire.call_mut(id)?))) else {
            // What has become of the call, if there was one, nobody can tell.
            let error = ErrorObject::new(INVALID_PARAMS, "`requestState` is not known, or not any more");
            return call.refuse_with(&error.about_server(&self.config.name).with_delivery(Delivery::Unknown));
        };
        let now = Instant::now();
        suspended.deadline.put_off(now);
        suspended.progress_token = call.request.progress_token.as_deref().map(Bytes::copy_from_slice);
        suspended.reply = call.reply;
        suspended.absent_agent = None;
        // It identifies its agent by itself, as every request of its era.
        suspended.origin = call.origin;
        let resumed = suspended.transition(|bridged| bridged.resume(capabilities, responses));
        let Resumed { answered, response } = resumed.unwrap_or_default();
        match response {
            Some(line) => self.end_cached(id, &line),
            None => self.present(id, now),
        }
        self.send_answers(answered);
    }

    /// Ends a resumed call with the response that was cached for it.
    fn end_cached(&mut self, id: u64, line: &Bytes) {
        if let (Some(call), Ok(Message::Response { id, outcome })) = (self.wire.take_call(id), parse(line)) {
            self.bridged_response(call, (&id, line), outcome.as_ref());
        }
    }

    /// Answers the server's requests of these ids with these lines.
    fn send_answers(&mut self, answered: Vec<(Bytes, Bytes)>) {
        for (id, line) in answered {
            if !self.wire.try_notify(line) {
                let why = "the answer found no room, because the server does not read";
                self.wire.try_notify(reply::error(Some(&id), &failed(ErrorCode::Overloaded, why, &self.config.name)));
            }
        }
    }

    /// Tells the server that nobody will answer its requests for this call.
    fn refuse_requests_for(&mut self, call: &mut PendingCall) {
        let unanswered = call.bridged.as_mut().map(|bridged| bridged.take_unanswered()).unwrap_or_default();
        self.refuse_unanswered(&unanswered, CALL_HAS_ENDED);
    }

    fn refuse_unanswered(&mut self, unanswered: &[Bytes], why: &str) {
        for id in unanswered {
            self.wire.try_notify(reply::error(Some(id), &failed(ErrorCode::Died, why, &self.config.name)));
        }
    }

    // ── Tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Passes on a request of a legacy agent about a task, if this instance has created that for the agent.
    pub(super) fn ask_about_task(&mut self, call: Box<Call>) {
        let RequestKind::Task(ask) = &call.matter else { return };
        match self.tasks.look_up(call.reply.key.session, ask) {
            Lookup::Unknown => call.refuse_unknown_task(),
            Lookup::Completed(completed) => {
                let act = ask.act;
                answer_completed(completed, *call, act);
            }
            Lookup::NotCancellable => call.refuse_with(&self.cancels_no_tasks()),
            Lookup::Forward => {
                self.call(call);
            }
        }
    }

    /// A legacy server reports the status of a task.
    fn task_status(&mut self, line: &Bytes, params: Option<&Bytes>) {
        let Some(state) = params.and_then(TaskState::read) else { return self.stats().stray_notifications.add_one() };
        if let Some(unanswered) = self.tasks.note_of_profile(&mut self.wire, &state, None) {
            return self.refuse_unanswered(&unanswered, TASK_HAS_ENDED);
        }
        let may_create = self.may_create_tasks();
        match self.tasks.status(&mut self.wire, line, state, may_create) {
            Ok(ended) => ended.into_iter().for_each(|task| self.withdraw_task_inputs(task)),
            Err(dropped) => self.stats().stray_notifications.add(dropped),
        }
    }

    /// A modern server reports the status of a task, which it does only to clients that listen for it.
    ///
    /// Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status Notifications".
    fn modern_task_status(&mut self, line: &Bytes, params: Option<&Bytes>) -> Effect {
        let id = params.and_then(|params| members(params, ["taskId"]).ok()).and_then(|[raw]| text(&raw?));
        let (true, Some(id)) = (self.subscriptions.is_of_stream(params), id) else { return Effect::Nothing };
        let status = params.and_then(Status::read);
        let ended = matches!(status, Some(Status::Completed(_) | Status::Failed(_) | Status::Cancelled));
        if ended {
            self.subscriptions.task_ended(&id);
            self.tasks.end_modern(&id);
        }
        Effect::TaskTold { line: applied(line, &without_subscription(params)).into(), id, ended }
    }

    /// Whether a call may be answered with a task that is not known yet.
    fn may_create_tasks(&self) -> bool {
        self.tasks.support().declared && self.wire.calls().any(|(_, call)| call.creates_task())
    }

    /// Drops notifications about unknown tasks, unless a call may still say whose they are.
    fn drop_early_tasks(&mut self) {
        if !self.may_create_tasks() {
            let dropped = self.tasks.drop_early();
            self.stats().stray_notifications.add(dropped);
        }
    }

    /// An agent did not learn of a task that was created for it.
    pub(super) fn drop_task(&mut self, session: u64, id: &Bytes) {
        if let Some(task) = self.tasks.of_session(session, id) {
            self.disown_task(task);
        }
    }

    /// An agent does not know of a task that its call has created, and waits for none.
    fn drop_task_of(&mut self, key: CallKey) {
        if let Some(task) = self.tasks.created_by(key) {
            self.disown_task(task);
        }
        self.tasks.forget_modern(key);
    }

    /// An agent has disconnected: nobody can ask for its tasks.
    pub(super) fn drop_tasks(&mut self, session: u64) {
        for task in self.tasks.all_of_session(session) {
            self.disown_task(task);
        }
    }

    fn disown_task(&mut self, task: u64) {
        self.withdraw_task_inputs(task);
        let deadline = self.request_deadline();
        self.tasks.disown(&mut self.wire, task, deadline);
    }

    /// A legacy agent has requested a task, and the server has answered with the result: the task has ended.
    fn complete_task(&mut self, call: PendingCall, id: &Bytes, result: &Bytes) -> Effect {
        let params = call.bridged.as_ref().map(|bridged| bridged.request().params().clone()).unwrap_or_default();
        match self.tasks.complete((&mut self.wire, &mut self.cancelled), &call, id, (&params, result)) {
            Ok((answer, news)) => {
                let answer = reply::result(call.reply.id(), &answer);
                self.count_ended();
                call.reply.answer_with(answer, Outcome::of(Ok(result)), news);
                Effect::Nothing
            }
            Err(failure) => self.fail_sent(call, failure, true),
        }
    }

    /// The server has made a task of a call whose agent waits for the result.
    fn follow_task(
        &mut self,
        mut call: PendingCall,
        id: &Bytes,
        outcome: Result<&Bytes, &Bytes>,
        (task, is_working): (&Bytes, bool),
    ) -> Effect {
        let task = match self.tasks.follow((&mut self.wire, &mut self.cancelled), &call, id, task) {
            Ok(task) => task,
            Err(failure) => return self.fail_sent(call, failure, true),
        };
        call.kind = RequestKind::Task(Box::new(TaskAsk { id: task, act: TaskAct::Result }));
        let (Some(bridged), Ok(result)) = (&mut call.bridged, outcome) else { return Effect::Nothing };
        match bridged.follow_task(result, is_working, Instant::now()) {
            Some(at) => self.wait_for_poll(call, at, None),
            None => self.poll(call),
        }
        Effect::Nothing
    }

    /// Has a request for the result of a task wait until the next poll. The agent is asked for these inputs, as raw `inputRequests`.
    fn wait_for_poll(&mut self, mut call: PendingCall, at: Instant, inputs: Option<&Bytes>) {
        let RequestKind::Task(ask) = &call.kind else { return };
        let (id, task) = (ask.id.clone(), self.tasks.request_of(&ask.id));
        let (session, to) = (call.reply.key.session, call.reply.to().cloned());
        let speaker = call.bridged.as_ref().and_then(|bridged| bridged.speaker());
        let is_known = !call.follows_task();
        // It gets its full time from the next poll on.
        call.deadline.put_off(at);
        self.wire.expire_by(at);
        self.wire.park(call);
        self.wire.put_off_results(&id);
        let (Some(inputs), Some(task), Some(to), Some(speaker)) = (inputs, task, to, speaker) else { return };
        match self.tasks.require(task, speaker, inputs, is_known) {
            Some(Required::Ask(inputs)) => {
                let recipient = Recipient { session, to };
                for (place, input) in inputs {
                    if let Err(why) = self.request_input(&recipient, Purpose::Task(place), &input) {
                        self.task_input_received(place, Err(why));
                    }
                }
                self.send_task_inputs(task);
            }
            Some(Required::Refused(why)) => self.fail_results(task, &why),
            None => {}
        }
    }

    /// Requests the states of tasks that are due.
    fn poll_tasks(&mut self, now: Instant) {
        let is_due = |call: &PendingCall| call.next_poll().is_some_and(|at| at <= now);
        if !self.wire.calls().any(|(_, call)| is_due(call)) {
            return;
        }
        for (_, call) in self.wire.remove_calls_where(|call, _| is_due(call)) {
            self.poll(call);
        }
    }

    /// Requests the state of the task that a call waits for.
    fn poll(&mut self, mut call: PendingCall) {
        let RequestKind::Task(ask) = &call.kind else { return };
        let raw_id = Bytes::from(json!(String::from_utf8_lossy(&ask.id)).to_string());
        let Some(speaker) = call.bridged.as_mut().and_then(|bridged| bridged.poll()) else { return };
        let params = task_params(&raw_id, &speaker);
        let params: Option<&RawValue> = serde_json::from_slice(&params).ok();
        self.wire.send_call(call, |_, id| reply::request(id, "tasks/get", &params));
    }

    /// A poll was lost on its way, which has no effects: it is repeated then. Any other call is returned.
    fn poll_later(&mut self, mut call: PendingCall, at: Instant) -> Option<PendingCall> {
        if !call.bridged.as_mut().is_some_and(|bridged| bridged.poll_later(at)) {
            return Some(call);
        }
        self.wire.expire_by(at);
        self.wire.park(call);
        None
    }

    /// The agent has answered an input of a task, or nobody can.
    fn task_input_received(&mut self, place: TaskInput, result: Result<Bytes, String>) {
        if let Err(why) = self.tasks.set_input(&self.wire, place, result) {
            self.fail_results(place.task, &why);
        }
        self.send_task_inputs(place.task);
    }

    fn send_task_inputs(&mut self, task: u64) {
        let deadline = self.request_deadline();
        self.tasks.send_inputs(&mut self.wire, task, deadline);
    }

    fn task_inputs_refused(&mut self, task: u64) {
        if self.tasks.inputs_refused(task).is_some() {
            self.fail_results(task, "wanted to know more for the task, and did not take the answer");
        }
    }

    /// Fails requests for the result of a task; `why` continues the name of the server.
    fn fail_results(&mut self, task: u64, why: &str) {
        let Some(id) = self.tasks.id_of(task) else { return };
        for (request, pending) in self.wire.remove_where(|pending| pending.awaits(&id)) {
            if let PendingRequest::Call(call) = pending {
                let failure = Failure::NotAnswered { why: why.to_owned() };
                let abandoned = Abandoned { id: request, key: call.reply.key, creates_task: false, load: None };
                if call.is_parked() {
                    self.fail_sent(call, failure, true);
                } else if self.fail_call(call, failure) {
                    self.note_abandoned(abandoned);
                }
            }
        }
    }

    /// The task has ended: requests for its inputs are not needed any more.
    fn withdraw_task_inputs(&mut self, task: u64) {
        let is_of_task = |purpose| matches!(purpose, Purpose::Task(place) if place.task == task);
        self.server_requests.withdraw(is_of_task, TASK_HAS_ENDED);
    }

    /// The agent of a legacy server's task answers requests of the server. Answers to anything else are ignored.
    fn update_task(&mut self, call: Call, id: &Bytes, params: &Bytes) {
        let responses = members(params, ["inputResponses"]).and_then(|[raw]| input::responses(raw.as_ref()));
        let Ok(responses) = responses else {
            return call.refuse_with(&ErrorObject::new(INVALID_PARAMS, "`inputResponses` is malformed"));
        };
        let answered = self.tasks.update(id, &responses);
        call.answer_done(DONE);
        self.send_answers(answered);
    }

    fn end_legacy_task(&mut self, call: &PendingCall) {
        if let Some(task) = call.bridged.as_ref().and_then(|bridged| bridged.legacy_task()) {
            let unanswered = self.tasks.end_of_profile(task);
            self.refuse_unanswered(&unanswered, TASK_HAS_ENDED);
        }
    }

    // ── Time ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Ends what has waited too long.
    pub(super) fn expire(&mut self, now: Instant) -> Effect {
        self.check_suspended(now);
        let expired = self.wire.remove_where(|pending| pending.deadline().is_some_and(|at| at <= now));
        let unanswered = self.tasks.expire(now);
        self.refuse_unanswered(&unanswered, TASK_HAS_ENDED);
        let expired_requests = self.server_requests.expire(&mut self.wire, now);
        self.requests_ended(expired_requests);
        self.poll_tasks(now);
        self.subscriptions.expire(now);
        let polls: Vec<_> = self.wire.calls().filter_map(|(_, call)| call.next_poll()).collect();
        let ends = [self.tasks.next_end(), self.server_requests.next_deadline(), self.subscriptions.next_deadline()];
        self.wire.reset_deadline(ends.into_iter().flatten().chain(polls));
        let mut effect = Effect::Nothing;
        for (id, pending) in expired {
            match pending {
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
                PendingRequest::UpdateTask { task, .. } => self.task_inputs_refused(task),
                // A server that cancels nothing may work on the task as before.
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

    /// Presents requests that were collected, and looks for the agents of suspended calls.
    fn check_suspended(&mut self, now: Instant) {
        let is_due = |call: &PendingCall| call.bridged.as_ref().is_some_and(|bridged| bridged.is_presentation_due(now));
        let due: Vec<_> = self.wire.calls().filter(|(_, call)| is_due(call)).map(|(id, _)| id).collect();
        for id in due {
            self.present(id, now);
        }
        for call in self.wire.calls_mut() {
            let is_gone = call.absent_agent.as_ref().is_some_and(ReplySender::is_gone);
            if call.bridged.as_mut().is_some_and(|bridged| bridged.check(is_gone, now)) {
                call.deadline.end(now);
            }
        }
    }

    fn expire_call(&mut self, id: u64, mut call: PendingCall) {
        let after = call.deadline.limit();
        let is_away = call.reply.to().is_none();
        self.refuse_requests_for(&mut call);
        self.withdraw_inputs(id);
        let (abandoned, session, is_parked) = (call.abandoned(id), call.reply.key.session, call.is_parked());
        // A call that waits for its agent says nothing about the server.
        if !is_parked {
            self.health.call_timed_out(call.deadline.begun());
        }
        if is_parked {
            self.fail_sent(call, Failure::TimedOut { after }, true);
        } else if self.fail_call(call, Failure::TimedOut { after }) {
            let why = if is_away { "its agent has not come back" } else { "the call timed out" };
            self.abandon(abandoned, reply::cancelled(id, why));
        }
        self.end_requests_for(session, (ErrorCode::TimedOut, "the call that this was for timed out"));
    }
}

fn refuse_malformed<T>(call: Call) -> Option<T> {
    call.refuse_with(&ErrorObject::new(INVALID_PARAMS, "`params` or its `_meta` is no object"));
    None
}

fn failure_of(error: BridgeError) -> Failure {
    match error {
        BridgeError::Malformed => Failure::AnswerMalformed,
        BridgeError::TooLarge => Failure::AnswerTooLarge,
        BridgeError::UnknownResult(what) => Failure::NotOfItsEra { what },
        BridgeError::Input(why) => Failure::NotAnswered { why },
    }
}

/// Answers a request about a task that had ended before its agent learned of it.
fn answer_completed(task: &CompletedTask, call: Call, act: TaskAct) {
    use super::messages::tasks::TaskNews;
    let id = call.reply.id().clone();
    match act {
        TaskAct::Get => {
            let news = TaskState::read(&task.state).map(|state| Box::new(TaskNews::Seen(state)));
            call.reply.answer_with(reply::result(&id, &task.state), Outcome::Ok, news);
        }
        TaskAct::Result => call.reply.answer(reply::result(&id, &task.result), Outcome::of(Ok(&task.result))),
        TaskAct::Cancel => {
            call.refuse_with(&ErrorObject::new(INVALID_PARAMS, "the task was not cancelled: it has ended"));
        }
    }
}
