//! A call on its way to a server, what comes back, and how it can fail.

mod access;
mod failure;
mod origin;
mod request_kind;

use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc;

pub use self::access::{Access, Exposure, Listener, Subject, Target};
pub use self::failure::{CallError, Failure};
pub use self::origin::Origin;
pub use self::request_kind::RequestKind;
use super::handle::ServerHandle;
use super::server_notification::ServerNotification;
use super::subscriptions::Subscription;
use super::tasks::{TaskNews, unknown_task};
use crate::calls::Outcome;
use crate::config::CallLimit;
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::request_line::RequestLine;
use crate::server::error::ServerError;
use crate::server::fair_queue::MAX_WAITING_PER_SESSION;
use crate::server::fair_share::MAX_IN_FLIGHT;
use crate::server::server_request::ForwardedRequest;
use crate::server::stats::Counter;
use crate::server::stop_order::{Stop, StopOrder};

/// Which call of which session: unique while the daemon runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// Number of the connection.
    pub session: u64,
    /// Number of the call on that connection.
    pub serial: u64,
}

/// A request that was routed.
#[derive(Debug)]
pub struct Call {
    /// As it came.
    pub request: RequestLine,
    /// What it is about, beside itself.
    pub matter: RequestKind,
    /// How long it may take.
    pub limit: CallLimit,
    /// Who calls.
    pub origin: Origin,
    /// What permits it to reach the server; `None` for requests of mcpd's own.
    pub access: Option<Box<Access>>,
    /// Where the answer goes.
    pub reply: Reply,
}

/// The way to one of several instances, held by each of its calls until that has ended, and by each task that has not: how
/// many copies are out is how busy the instance is.
pub(crate) type LoadGuard = Arc<ServerHandle>;

/// The same, of a call that was given up and that its server may ask something for.
pub(crate) type WeakLoadGuard = Weak<ServerHandle>;

/// The debt of one answer. It cannot be lost: one that is dropped unpaid answers that the outcome is unknown.
#[derive(Debug)]
pub struct Reply {
    /// Names the call in a later [`crate::server::Command::Cancel`].
    pub key: CallKey,
    id: Bytes,
    server: Arc<str>,
    /// `None` once paid.
    to: Option<ReplySender>,
    /// Of an instance that is one of several.
    ticket: Option<LoadGuard>,
    /// When the call was parked first.
    parked_at: Option<Instant>,
}

impl Reply {
    /// The debt to the session behind `to`, for its call with the raw id `id` at `server`.
    #[must_use]
    pub fn new(key: CallKey, id: &Bytes, server: &Arc<str>, to: &ReplySender) -> Self {
        // Copied, so that a small id does not keep a large line in memory.
        Self {
            key,
            id: Bytes::copy_from_slice(id),
            server: Arc::clone(server),
            to: Some(to.clone()),
            ticket: None,
            parked_at: None,
        }
    }

    /// Has the call hold `ticket` until it ends.
    pub(crate) fn hold(&mut self, ticket: LoadGuard) {
        self.ticket = Some(ticket);
    }

    /// Since when the call has been parked, which it is `now`. It may be parked again if its instance ends before it is written.
    pub(crate) fn park(&mut self, now: Instant) -> Instant {
        *self.parked_at.get_or_insert(now)
    }

    /// What it holds.
    pub(crate) fn ticket(&self) -> Option<&LoadGuard> {
        self.ticket.as_ref()
    }

    /// The agent's id, raw.
    #[must_use]
    pub fn id(&self) -> &Bytes {
        &self.id
    }

    /// Answers with a whole response line that carries the agent's id.
    pub(crate) fn answer(self, line: Bytes, outcome: Outcome) {
        self.answer_with(line, outcome, None);
    }

    /// The same, with what the answer says of a task.
    pub(crate) fn answer_with(mut self, line: Bytes, outcome: Outcome, task: Option<Box<TaskNews>>) {
        self.pay(line, outcome, task);
    }

    /// Answers that what was asked for is unknown.
    pub(crate) fn answer_unknown(self, access: &Access) {
        let line = reply::error(Some(&self.id), &access.unknown());
        self.answer(line, Outcome::UnknownTool);
    }

    /// Answers that the call failed on the way.
    pub(crate) fn fail(mut self, failure: Failure, sent: bool) {
        self.pay_error(failure, sent);
    }

    /// Answers the call, which goes on at the server without anybody who waits for it.
    pub(crate) fn suspend(&mut self, line: Bytes) {
        self.pay(line, Outcome::Ok, None);
    }

    /// Owes nothing any more: the agent has cancelled.
    pub(crate) fn forgive(mut self) {
        self.to = None;
    }

    /// Sends progress, or drops it if the session has fallen behind.
    pub(crate) fn progress(&self, line: Bytes) {
        if let Some(to) = &self.to {
            to.send_unasked(ToAgent::Progress { key: self.key, line });
        }
    }

    /// The way to the session it is owed to.
    pub(crate) fn to(&self) -> Option<&ReplySender> {
        self.to.as_ref()
    }

    fn pay(&mut self, line: Bytes, outcome: Outcome, task: Option<Box<TaskNews>>) {
        let Some(ReplySender(back)) = self.to.take() else { return };
        let answer = ToAgent::Answer { key: self.key, line, outcome, task };
        if let Err(mpsc::error::TrySendError::Full(answer)) = back.to.try_send(answer) {
            // Calls that were cancelled meanwhile have left their answers in the channel. This one waits its turn; there
            // are no more of its kind than calls.
            tokio::spawn(async move { back.to.send(answer).await });
        }
    }

    fn pay_error(&mut self, failure: Failure, sent: bool) {
        let outcome = failure.outcome();
        let is_stopping =
            failure == Failure::ShuttingDown && self.to.as_ref().is_some_and(ReplySender::daemon_is_stopping);
        let mut error = CallError { server: Arc::clone(&self.server), failure, sent }.to_object();
        if is_stopping {
            error = error.by_stopping_daemon();
        }
        self.pay(reply::error(Some(&self.id), &error), outcome, None);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.to.is_some() {
            self.pay_error(
                Failure::Died { reason: ServerError::Internal("was lost to a fault of mcpd".to_owned()) },
                true,
            );
        }
    }
}

/// What a server's task sends to a session.
#[derive(Debug)]
pub enum ToAgent {
    /// The one answer to a call.
    Answer {
        /// The call.
        key: CallKey,
        /// The whole response line.
        line: Bytes,
        /// What it says of the call.
        outcome: Outcome,
        /// What it says of a task.
        task: Option<Box<TaskNews>>,
    },
    /// A notification line of a call that is still unanswered, or of the task that it has made.
    Progress {
        /// The call.
        key: CallKey,
        /// The whole line.
        line: Bytes,
    },
    /// A notification line of no call.
    ServerNotification(ServerNotification),
    /// A request that the agent is to answer.
    Request(Box<ForwardedRequest>),
}

/// The way back to one session.
#[derive(Debug, Clone)]
pub struct ReplySender(Arc<Back>);

#[derive(Debug)]
struct Back {
    to: mpsc::Sender<ToAgent>,
    /// Notifications that found it full.
    dropped: Arc<Counter>,
    /// The order to the daemon as a whole.
    stopping: StopOrder,
}

/// Requests one session may have unanswered; one more is refused with −31003. It is what one server can have of it at a time and
/// what can wait there.
pub const MAX_PER_SESSION: usize = MAX_IN_FLIGHT + MAX_WAITING_PER_SESSION;
/// Places in the channel to a session. Its task empties the channel at every permit, so it is full only in the middle of a
/// burst of many servers: then progress is dropped and counted, while answers have places that progress may not take.
const REPLY_PLACES: usize = MAX_PER_SESSION + 768;
/// Places that progress may not take: as many as a session may have calls in flight. Answers to calls that were cancelled
/// may take them too; then an answer waits for a place.
const KEPT_FOR_ANSWERS: usize = MAX_PER_SESSION;

impl ReplySender {
    /// A channel to a new session, which counts in `dropped` what it drops, of a daemon that is stopped by `stopping`.
    #[must_use]
    pub fn channel(dropped: Arc<Counter>, stopping: StopOrder) -> (Self, mpsc::Receiver<ToAgent>) {
        let (to, receiver) = mpsc::channel(REPLY_PLACES);
        (Self(Arc::new(Back { to, dropped, stopping })), receiver)
    }

    /// Whether the daemon as a whole is being stopped.
    fn daemon_is_stopping(&self) -> bool {
        self.0.stopping.now() > Stop::Run
    }

    /// Sends what answers nothing, or drops it if the session has fallen behind.
    pub(crate) fn send_unasked(&self, message: ToAgent) {
        if self.0.to.capacity() > KEPT_FOR_ANSWERS {
            let _ = self.0.to.try_send(message);
        } else {
            self.0.dropped.add(1);
        }
    }

    /// Whether the session has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.to.is_closed()
    }

    /// Hands over a request; `false` if the session is gone or has fallen behind: then the agent does not hear of it.
    pub(crate) fn ask(&self, question: Box<ForwardedRequest>) -> bool {
        self.0.to.capacity() > KEPT_FOR_ANSWERS && self.0.to.try_send(ToAgent::Request(question)).is_ok()
    }
}

impl Call {
    /// What it begins or ends, if it does that.
    pub(crate) fn subscription(&self) -> Option<&Subscription> {
        match &self.matter {
            RequestKind::Subscription(subscription) => Some(subscription),
            _ => None,
        }
    }

    /// Answers a call that no server has seen: with `failure`, or as an unknown name if its listener hides it by now.
    pub(crate) fn refuse(self, failure: Failure) {
        let server = Arc::clone(&self.reply.server);
        match &self.access {
            Some(access) if access.is_hidden(&server) => self.refuse_as_unknown(),
            _ => self.reply.fail(failure, false),
        }
    }

    /// Answers a call of what its listener does not expose any more.
    pub(crate) fn refuse_as_unknown(self) {
        let Self { access, reply, .. } = self;
        match access {
            Some(access) => reply.answer_unknown(&access),
            None => reply.fail(Failure::ShuttingDown, false),
        }
    }

    /// Answers a call for which there is no instance. A task goes with its instance: then there is none to ask about.
    pub(crate) fn refuse_without_instance(self, failure: Failure) {
        match self.matter {
            RequestKind::Task(_) => self.refuse_unknown_task(),
            _ => self.refuse(failure),
        }
    }

    /// Answers that there is no such task.
    pub(crate) fn refuse_unknown_task(self) {
        let id = match &self.matter {
            RequestKind::Task(ask) => &ask.id,
            RequestKind::Stated(ask) => &ask.id,
            _ => return,
        };
        let error = unknown_task(id);
        self.refuse_with(&error);
    }

    /// Answers, for the server, with an error.
    pub(crate) fn refuse_with(self, error: &ErrorObject) {
        let line = reply::error(Some(self.reply.id()), error);
        self.reply.answer(line, Outcome::Error { code: Some(error.code.into()) });
    }

    /// Answers, for the server, that what is asked is so.
    pub(crate) fn grant(self) {
        self.answer_done(b"{}");
    }

    /// Answers, for the server, with this result.
    pub(crate) fn answer_done(self, result: &[u8]) {
        let line = reply::result(self.reply.id(), result);
        self.reply.answer(line, Outcome::Ok);
    }
}
