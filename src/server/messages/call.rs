//! A call on its way to a server, its answer, its errors, and whether it may still be written.
//!
//! A session routes a call by what its listener exposes at that moment. The call may then wait: for its server to start, or for a
//! server that does not read. Policy and lists may change meanwhile, so the call is checked again before it is written ([`Access`]).

mod failure;

use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc;

pub use self::failure::{CallError, Failure, MissingInput};
use super::handle::ServerHandle;
use super::server_notification::ServerNotification;
use super::subscribers::ResourceSubscriptionChange;
use super::tasks::{LegacyTaskRequest, ModernTaskRequest, TaskEvent, unknown_task};
use crate::calls::CallOutcome;
use crate::catalog::{Identity, Lists, Route, identity};
use crate::config::CallLimit;
use crate::durations::Operation;
use crate::era::Era;
use crate::era::request_meta::LegacyClientMeta;
use crate::jsonrpc::message::RequestLine;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::list_kind::ListKind;
use crate::log_level::LogLevel;
use crate::methods::TargetKind;
use crate::otlp::ClientSpan;
use crate::server::control::{StopLevel, StopReceiver};
use crate::server::error::ServerError;
use crate::server::fairness::{MAX_IN_FLIGHT, MAX_WAITING_PER_SESSION, Payer};
use crate::server::server_request::ForwardedRequest;
use crate::server::stats::Counter;
use crate::tool_overrides::{RefusedArguments, ToolOverride};
use crate::validity::ResultKind;

/// Identifies a call while the daemon runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// Number of the connection.
    pub session: u64,
    /// Number of the call on that connection.
    pub serial: u64,
}

/// A routed request of an agent.
#[derive(Debug)]
pub struct Call {
    /// The request as received.
    pub request: RequestLine,
    /// What it counts as.
    pub operation: Operation,
    /// What it requires beyond being forwarded.
    pub kind: RequestKind,
    /// The form of its result, if that is mended for agents.
    pub result_kind: Option<ResultKind>,
    /// Its time limits.
    pub limit: CallLimit,
    /// The agent that sent it.
    pub origin: Origin,
    /// The policy that permits it; `None` for requests of mcpd itself.
    pub access: Option<Box<Access>>,
    /// Sends its answer.
    pub response_handle: ResponseHandle,
}

/// The handle of one of several instances. Its strong count is the load of the instance: each unfinished call or task has a clone. The load
/// chooses an instance and limits nobody, so it is not charged to an account.
/// A cancelled call that the server may still work on has a [`WeakLoadToken`].
pub(crate) type LoadToken = Arc<ServerHandle>;

/// The load token of a cancelled call, whose server may still send requests.
pub(crate) type WeakLoadToken = Weak<ServerHandle>;

/// Sends the one answer of a call. Dropping it sends an error with outcome `unknown`.
#[derive(Debug)]
pub struct ResponseHandle {
    /// Names the call in a later [`crate::server::Command::Cancel`].
    pub key: CallKey,
    id: Bytes,
    /// The user of the agent, if it is known.
    uid: Option<u32>,
    server: Arc<str>,
    /// `None` once the answer was sent.
    to: Option<SessionSender>,
    /// Set if the instance is one of several.
    load_token: Option<LoadToken>,
    /// When the call was first parked.
    parked_at: Option<Instant>,
    /// Ends with the answer. Boxed, because only exported calls have it.
    span: Option<Box<ClientSpan>>,
}

impl ResponseHandle {
    /// Answers the session behind `to`, for its call with the raw id `id` at `server`.
    #[must_use]
    pub fn new(key: CallKey, id: &Bytes, server: &Arc<str>, to: &SessionSender) -> Self {
        // Copied, so that a small id does not keep a large line in memory.
        Self {
            key,
            id: Bytes::copy_from_slice(id),
            uid: to.uid(),
            server: Arc::clone(server),
            to: Some(to.clone()),
            load_token: None,
            parked_at: None,
            span: None,
        }
    }

    /// The exported span of the call ends with its answer.
    pub(crate) fn set_span(&mut self, span: Option<Box<ClientSpan>>) {
        self.span = span;
    }

    /// The exported span of the call.
    pub(crate) fn span_mut(&mut self) -> Option<&mut ClientSpan> {
        self.span.as_deref_mut()
    }

    /// Counts the call as load of an instance until it ends.
    pub(crate) fn set_load_token(&mut self, load_token: LoadToken) {
        self.load_token = Some(load_token);
    }

    /// Parks the call, and returns when it was first parked. It is parked again if its instance ends before it is written.
    pub(crate) fn park(&mut self, now: Instant) -> Instant {
        *self.parked_at.get_or_insert(now)
    }

    /// The load token, if the instance is one of several.
    pub(crate) fn load_token(&self) -> Option<&LoadToken> {
        self.load_token.as_ref()
    }

    /// Whose share of a server the call uses.
    pub(crate) fn payer(&self) -> Payer {
        Payer { uid: self.uid, session: self.key.session }
    }

    /// The agent's raw id.
    #[must_use]
    pub fn id(&self) -> &Bytes {
        &self.id
    }

    /// Sends a whole response line with the agent's id.
    pub(crate) fn answer(self, line: Bytes, outcome: CallOutcome) {
        self.answer_with(line, outcome, None);
    }

    /// Sends a response line that reports on a task.
    pub(crate) fn answer_with(mut self, line: Bytes, outcome: CallOutcome, task: Option<Box<TaskEvent>>) {
        self.send(line, outcome, task, None);
    }

    /// Sends the error for an unknown name.
    pub(crate) fn refuse_unknown(self, access: &Access) {
        let line = reply::error(Some(&self.id), &access.unknown());
        self.answer(line, CallOutcome::UnknownTool);
    }

    /// Sends the error of a failed call.
    pub(crate) fn fail(mut self, failure: Failure, may_have_arrived: bool) {
        self.send_error(failure, may_have_arrived);
    }

    /// Answers this request of the agent with `input_required`. The call stays pending, and the agent's retry brings a new handle.
    pub(crate) fn suspend(&mut self, line: Bytes) {
        self.send(line, CallOutcome::Ok, None, None);
    }

    /// Sends no answer, as the agent has cancelled the call.
    pub(crate) fn disarm(mut self) {
        self.to = None;
        self.end_span(CallOutcome::Cancelled, 0);
    }

    fn end_span(&mut self, outcome: CallOutcome, reply_bytes: usize) {
        if let Some(span) = self.span.take() {
            span.end(outcome, reply_bytes);
        }
    }

    /// Sends progress, or drops it if the channel is full.
    pub(crate) fn notify(&self, line: Bytes) {
        if let Some(to) = &self.to {
            to.send_notification(ToAgent::CallNotification { key: self.key, line });
        }
    }

    /// The channel to the session, unless the answer was sent.
    pub(crate) fn to(&self) -> Option<&SessionSender> {
        self.to.as_ref()
    }

    fn send(
        &mut self,
        line: Bytes,
        outcome: CallOutcome,
        task: Option<Box<TaskEvent>>,
        failure: Option<Box<CallError>>,
    ) {
        let Some(SessionSender(channel)) = self.to.take() else { return };
        self.end_span(outcome, line.len());
        let answer = ToAgent::Response { key: self.key, line, outcome, task, failure };
        if let Err(mpsc::error::TrySendError::Full(answer)) = channel.to.try_send(answer) {
            // Answers to calls that were cancelled meanwhile fill the channel. This one waits for capacity; there is at most
            // one such task for each call.
            tokio::spawn(async move { channel.to.send(answer).await });
        }
    }

    fn send_error(&mut self, failure: Failure, may_have_arrived: bool) {
        let outcome = failure.outcome();
        let is_stopping =
            failure == Failure::ShuttingDown && self.to.as_ref().is_some_and(SessionSender::daemon_is_stopping);
        let failure = CallError { server: Arc::clone(&self.server), failure, may_have_arrived };
        let mut error = failure.to_object();
        if is_stopping {
            error = error.by_stopping_daemon();
        }
        self.send(reply::error(Some(&self.id), &error), outcome, None, Some(Box::new(failure)));
    }
}

impl Drop for ResponseHandle {
    fn drop(&mut self) {
        if self.to.is_some() {
            self.send_error(
                Failure::Died { reason: ServerError::Internal("was lost to a fault of mcpd".to_owned()) },
                true,
            );
        }
    }
}

/// A message from a server's task to a session.
#[derive(Debug)]
pub enum ToAgent {
    /// The one answer to a call.
    Response {
        /// The call.
        key: CallKey,
        /// The whole response line.
        line: Bytes,
        /// The outcome of the call.
        outcome: CallOutcome,
        /// The task that it reports on.
        task: Option<Box<TaskEvent>>,
        /// The failure, if mcpd answers in place of the server.
        failure: Option<Box<CallError>>,
    },
    /// A notification line of an unanswered call, or of its task.
    CallNotification {
        /// The call.
        key: CallKey,
        /// The whole line.
        line: Bytes,
    },
    /// A notification without a call.
    ServerNotification(ServerNotification),
    /// A request for the agent.
    Request(Box<ForwardedRequest>),
}

/// The channel to one session. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SessionSender(Arc<SessionChannel>);

#[derive(Debug)]
struct SessionChannel {
    to: mpsc::Sender<ToAgent>,
    /// The number of notifications that were dropped because it was full.
    dropped: Arc<Counter>,
    /// The stop level of the daemon.
    stopping: StopReceiver,
    /// The user of the agent.
    uid: Option<u32>,
}

/// Unanswered requests of one session; one more is refused with −31003. One server can have all of them: in flight and in
/// its queue.
pub const MAX_UNANSWERED_PER_SESSION: usize = MAX_IN_FLIGHT + MAX_WAITING_PER_SESSION;
/// Capacity of the channel to a session. Its task empties the channel each time it runs, so it is full only during a
/// burst of many servers. Then notifications are dropped and counted, while responses have reserved capacity.
const SESSION_CAPACITY: usize = MAX_UNANSWERED_PER_SESSION + 768;
/// Capacity that only answers may take: one for each unanswered request. Answers to cancelled calls may fill it; then an
/// answer waits.
const RESERVED_FOR_ANSWERS: usize = MAX_UNANSWERED_PER_SESSION;

impl SessionSender {
    /// A channel to a new session of this user. `dropped` counts dropped notifications; `stopping` is the stop level of the daemon.
    #[must_use]
    pub fn channel(uid: Option<u32>, dropped: Arc<Counter>, stopping: StopReceiver) -> (Self, mpsc::Receiver<ToAgent>) {
        let (to, receiver) = mpsc::channel(SESSION_CAPACITY);
        (Self(Arc::new(SessionChannel { to, dropped, stopping, uid })), receiver)
    }

    /// The user of the agent, if it is known.
    pub(crate) fn uid(&self) -> Option<u32> {
        self.0.uid
    }

    /// Whether the daemon is stopping.
    pub(crate) fn daemon_is_stopping(&self) -> bool {
        self.0.stopping.now() > StopLevel::Run
    }

    /// Sends a notification, or drops it if the channel is full.
    pub(crate) fn send_notification(&self, message: ToAgent) {
        if self.0.to.capacity() > RESERVED_FOR_ANSWERS {
            let _ = self.0.to.try_send(message);
        } else {
            self.0.dropped.add(1);
        }
    }

    /// Whether the session has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.to.is_closed()
    }

    /// Sends a request to the agent; `false` if the session is gone or its channel is full.
    pub(crate) fn send_request(&self, request: Box<ForwardedRequest>) -> bool {
        self.0.to.capacity() > RESERVED_FOR_ANSWERS && self.0.to.try_send(ToAgent::Request(request)).is_ok()
    }
}

impl Call {
    /// Changes the arguments as the newest override of the called tool requires ([`Access::check`]).
    ///
    /// # Errors
    /// Why the call is refused.
    pub(crate) fn apply_override(&mut self) -> Result<(), RefusedArguments> {
        match &mut self.access {
            Some(access) => access.tool_override.apply(&mut self.request),
            None => Ok(()),
        }
    }

    /// Begins the exported span of the call, if it has one, and makes it the parent of what the server does.
    pub(crate) fn begin_span(&mut self) {
        let change = self.response_handle.span_mut().and_then(|span| span.begin(&self.request.line));
        if let Some(change) = change {
            self.request = self.request.with_change(&change);
        }
    }

    /// Sends the error of a call with arguments that the configuration does not permit.
    pub(crate) fn refuse_arguments(self, refused: &RefusedArguments) {
        let error = refused.to_object(&self.response_handle.server);
        self.refuse_with(&error);
    }

    /// The subscription that the call changes, if any.
    pub(crate) fn subscription(&self) -> Option<&ResourceSubscriptionChange> {
        match &self.kind {
            RequestKind::ResourceSubscription(subscription) => Some(subscription),
            _ => None,
        }
    }

    /// Sends the error of a call that no server has received, or the one for an unknown name if policy hides it by now.
    pub(crate) fn refuse(self, failure: Failure) {
        let server = Arc::clone(&self.response_handle.server);
        match &self.access {
            Some(access) if access.is_hidden(&server) => self.refuse_as_unknown(),
            _ => self.response_handle.fail(failure, false),
        }
    }

    /// Sends the error for an unknown name, as policy hides it by now. A call of mcpd itself has no policy, and gets
    /// `ShuttingDown`.
    pub(crate) fn refuse_as_unknown(self) {
        let Self { access, response_handle, .. } = self;
        match access {
            Some(access) => response_handle.refuse_unknown(&access),
            None => response_handle.fail(Failure::ShuttingDown, false),
        }
    }

    /// Sends the error of a call without an instance. Tasks end with their instance, so a call about one gets "unknown task".
    pub(crate) fn refuse_without_instance(self, failure: Failure) {
        match self.kind {
            RequestKind::LegacyTask(_) => self.refuse_unknown_task(),
            _ => self.refuse(failure),
        }
    }

    /// Sends the error for an unknown task.
    pub(crate) fn refuse_unknown_task(self) {
        let id = match &self.kind {
            RequestKind::LegacyTask(task_request) => &task_request.id,
            RequestKind::ModernTask(task_request) => &task_request.id,
            _ => return,
        };
        let error = unknown_task(id);
        self.refuse_with(&error);
    }

    /// Sends an error in place of the server.
    pub(crate) fn refuse_with(self, error: &ErrorObject) {
        let line = reply::error(Some(self.response_handle.id()), error);
        self.response_handle.answer(line, CallOutcome::Error { code: Some(error.code.into()) });
    }

    /// Sends an empty result in place of the server.
    pub(crate) fn answer_empty(self) {
        let line = reply::result(self.response_handle.id(), b"{}");
        self.response_handle.answer(line, CallOutcome::Ok);
    }
}

/// What a call does besides getting an answer. Payloads are boxed, because most calls have none.
#[derive(Debug)]
pub enum RequestKind {
    /// A plain call: nothing is left once it is answered.
    Plain,
    /// Begins or ends a subscription to a resource.
    ResourceSubscription(Box<ResourceSubscriptionChange>),
    /// Requests that the server runs it as a task.
    NewTask,
    /// A request about a task on behalf of a legacy agent.
    LegacyTask(Box<LegacyTaskRequest>),
    /// The server may run it as a task, because its agent is modern and supports tasks.
    MayBeTask,
    /// A request of a modern agent about a task.
    ModernTask(Box<ModernTaskRequest>),
}

/// The origin of a call.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A legacy agent. Its `initialize` applies to all its calls.
    Legacy(Arc<LegacyClientMeta>),
    /// A modern agent. Its call carries everything but the profile.
    Modern {
        /// The profile of the listener.
        profile: Arc<str>,
        /// Minimum level of the log messages that the call requests, if it requests any.
        level: Option<LogLevel>,
    },
}

impl Origin {
    /// The era of the call.
    #[must_use]
    pub fn era(&self) -> Era {
        match self {
            Self::Legacy(_) => Era::Legacy,
            Self::Modern { .. } => Era::Modern,
        }
    }

    /// Whether the call itself carries everything that is known of the agent.
    #[must_use]
    pub fn is_stateless(&self) -> bool {
        matches!(self, Self::Modern { .. })
    }

    /// Minimum level of the log messages that the agent requests, if it requests any.
    #[must_use]
    pub fn level(&self) -> Option<LogLevel> {
        match self {
            Self::Legacy(client_meta) => client_meta.level,
            Self::Modern { level, .. } => *level,
        }
    }
}

/// What a call needs its listener to expose.
#[derive(Debug)]
pub enum AccessTarget {
    /// A tool or prompt. For a request about a task, the tool that created the task.
    Named {
        /// Tools or prompts.
        kind: ListKind,
        /// The exposed name.
        exposed: Bytes,
        /// The server's own name.
        name: Arc<str>,
    },
    /// A resource or a resource template.
    Uri(Bytes),
    /// A skill, or a file of a skill, whether it is listed or not.
    Skill(Bytes),
    /// A method of an extension.
    Extension {
        /// The extension; `None` for a method that no declared extension has.
        id: Option<Arc<str>>,
        /// What the request names. All of it is needed.
        items: Vec<AccessTarget>,
    },
    /// A name that no tool or prompt has here, in a request of an extension.
    UnlistedName(Bytes),
    /// A URI that no list has, in a request of an extension, or because a result has named it.
    UnlistedUri(Bytes),
}

impl AccessTarget {
    /// Whether it is a method of this extension.
    #[must_use]
    pub fn is_of(&self, extension: &str) -> bool {
        matches!(self, Self::Extension { id: Some(id), .. } if **id == *extension)
    }

    /// The server's own name of a tool or prompt.
    #[must_use]
    pub fn own_name(&self) -> Option<&Arc<str>> {
        if let Self::Named { name, .. } = self { Some(name) } else { None }
    }

    /// Whether a server's list of `kind` decides about it.
    fn depends_on(&self, kind: ListKind) -> bool {
        match self {
            Self::Named { kind: own, .. } => *own == kind,
            Self::Uri(_) => kind != ListKind::Prompts,
            Self::UnlistedName(_) => matches!(kind, ListKind::Tools | ListKind::Prompts),
            Self::Skill(_) | Self::UnlistedUri(_) => false,
            Self::Extension { items, .. } => items.iter().any(|item| item.depends_on(kind)),
        }
    }
}

/// Whether a listener exposes a target. The strictest comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exposure {
    /// The target may be called.
    Exposed,
    /// Policy would expose it, but the server does not list it now.
    NotListed,
    /// The target is unknown to the agents of the listener.
    Hidden,
}

/// What one listener exposes at any moment. A session implements it over the view of its profile.
pub trait ExposureView: Debug + Send + Sync {
    /// Changes whenever anything that is exposed changes.
    fn version(&self) -> u64;

    /// Whether `target` of `server` is exposed now to agents of `era`. `lists` are the server's present lists.
    fn exposure(&self, server: &str, era: Era, target: &AccessTarget, lists: Option<&Lists>) -> Exposure;

    /// Whether only approved definitions of `server` are exposed now.
    fn holds(&self, _server: &str) -> bool {
        false
    }

    /// What the configuration changes now of the tool that `target` names.
    fn tool_override(&self, _server: &str, _target: &AccessTarget) -> Option<Arc<ToolOverride>> {
        None
    }
}

/// The permission of one call to reach its server.
#[derive(Debug)]
pub struct Access {
    /// The listener that decides.
    pub view: Arc<dyn ExposureView>,
    /// The target of the request.
    pub target: AccessTarget,
    /// The kind of target, for the error.
    pub error_kind: TargetKind,
    /// The name, URI or id in the request.
    pub requested_name: Bytes,
    /// The era of the request.
    pub era: Era,
    /// The listener's version when the call was routed.
    pub version: u64,
    /// The server's lists when the call was routed.
    pub lists: Identity,
    /// What the configuration changes of the called tool.
    pub tool_override: AppliedOverride,
}

/// The override of the tool of a call, and what was applied to the call.
#[derive(Debug, Default)]
pub struct AppliedOverride {
    newest: Option<Arc<ToolOverride>>,
    /// What was applied to this call of the agent. The call is sent again if its instance ends before it is written.
    applied: Option<(Option<Arc<ToolOverride>>, Box<RequestLine>)>,
}

impl AppliedOverride {
    /// The override when the call was routed.
    #[must_use]
    pub fn of(route: &Route) -> Self {
        Self { newest: route.tool_override.clone(), applied: None }
    }

    fn apply(&mut self, request: &mut RequestLine) -> Result<(), RefusedArguments> {
        let before = self.applied.as_ref().and_then(|(of_tool, _)| of_tool.as_ref());
        if self.newest.as_ref() == before {
            return Ok(());
        }
        let original = self.applied.take().map_or_else(|| Box::new(request.clone()), |(_, original)| original);
        *request = match &self.newest {
            Some(of_tool) => of_tool.apply(&original)?,
            None => RequestLine::clone(&original),
        };
        self.applied = Some((self.newest.clone(), original));
        Ok(())
    }
}

impl Access {
    /// Whether the call may be written to `server`, whose present lists are `lists`.
    pub(crate) fn exposure(&self, server: &str, lists: &Lists) -> Exposure {
        if self.is_current(lists) {
            return Exposure::Exposed;
        }
        self.view.exposure(server, self.era, &self.target, Some(lists))
    }

    /// As [`Self::exposure`], and notes the newest override of the called tool.
    pub(crate) fn check(&mut self, server: &str, lists: &Lists) -> Exposure {
        if self.is_current(lists) {
            return Exposure::Exposed;
        }
        // Requests about tasks have a tool as their target, too.
        if self.error_kind == TargetKind::Tool {
            self.tool_override.newest = self.view.tool_override(server, &self.target);
        }
        self.view.exposure(server, self.era, &self.target, Some(lists))
    }

    fn is_current(&self, lists: &Lists) -> bool {
        self.view.version() == self.version && self.lists == identity(lists)
    }

    /// Whether the listener's policy now hides the target, regardless of the server's lists.
    pub(crate) fn is_hidden(&self, server: &str) -> bool {
        self.view.version() != self.version
            && self.view.exposure(server, self.era, &self.target, None) == Exposure::Hidden
    }

    /// The error for an unknown target.
    pub(crate) fn unknown(&self) -> ErrorObject {
        self.error_kind.unknown(&self.requested_name, self.era)
    }

    /// Whether only approved definitions of `server` are exposed now.
    pub(crate) fn is_held(&self, server: &str) -> bool {
        self.view.holds(server)
    }

    /// Whether the server's list of `kind` decides about the call.
    pub(crate) fn depends_on(&self, kind: ListKind) -> bool {
        self.target.depends_on(kind)
    }
}
