//! One running instance: its streams, the requests it has not answered, the lists being followed.
//!
//! Synchronous but for its streams: each event is taken in and turned into lines queued for the server, answers to
//! sessions, and an [`Effect`] for the task around it, which decides when to read, write and expire.

mod always_tasks;
mod asked;
mod asking;
mod asks;
mod at_work;
mod calls;
mod crossing;
mod declared;
mod effect;
mod elicitations;
mod expiry;
mod following;
mod heads;
pub(super) mod held;
mod kept;
mod listening;
mod listens;
mod lists;
mod logs;
mod lost;
mod notices;
mod owner;
mod ownership;
mod pings;
mod places;
mod polls;
mod questions;
mod rounds;
mod stated;
mod stated_asks;
mod stated_questions;
mod stated_tasks;
mod task_calls;
mod task_inputs;
mod task_questions;
mod task_tools;
mod tasks;
mod unsent;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use self::always_tasks::AlwaysTasks;
pub(super) use self::asks::Accepted;
use self::asks::Ask;
pub(super) use self::effect::Effect;
use self::listening::Listening;
pub(super) use self::listening::Topic;
use self::lists::Following;
use self::logs::Asking;
pub(super) use self::logs::level_of;
pub(super) use self::owner::Owner;
use self::ownership::GivenUp;
use self::pings::Askers;
pub(super) use self::questions::Heard;
use self::questions::Questions;
use self::stated::StatedTasks;
use self::task_tools::TaskTools;
use self::tasks::Tasks;
use super::call::Failure;
use super::link::{Closed, Link};
use super::role::Role;
use super::stats::Stats;
use super::tasks::TaskSupport;
use crate::config::ServerConfig;
use crate::era::{self, Era};
use crate::jsonrpc::pending::{Pending, Taken, minted};
use crate::jsonrpc::reply;
use crate::jsonrpc::splice::{Edit, splice};
use crate::jsonrpc::{Malformed, Message};
use crate::kind::PerKind;
use crate::transport::{Arrival, Incoming, Outbox};

/// A running instance of a server.
pub(super) struct Instance {
    pub(super) link: Link,
    pub(super) outbox: Outbox,
    pub(super) pending: Pending<Owner>,
    pub(super) stats: Arc<Stats>,
    config: Arc<ServerConfig>,
    max_message: usize,
    /// Negotiated; none before that.
    pub(super) protocol: Option<&'static str>,
    /// Calls among the pending requests.
    calls: usize,
    /// The lists that it offers.
    following: PerKind<Option<Following>>,
    /// No pending request expires earlier.
    pub(super) next_deadline: Option<Instant>,
    askers: Askers,
    /// Subscriptions that it has not answered.
    asks: Vec<Ask>,
    pub(super) level: Asking,
    pub(super) listening: Listening,
    given_up: GivenUp,
    pub(super) questions: Questions,
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
    /// Until when it may speak of a call that was given up.
    late_until: Option<Instant>,
    /// Until when it wants to be left alone.
    left_alone_until: Option<Instant>,
    /// When the latest call was sent of those that have timed out since the last health check.
    timed_out: Option<Instant>,
}

impl Instance {
    pub(super) fn new(
        link: Link,
        (config, role): (Arc<ServerConfig>, Role),
        stats: Arc<Stats>,
        max_message: usize,
    ) -> Self {
        let given_up = GivenUp::new(link.remote().is_none());
        Self {
            link,
            outbox: Outbox::default(),
            pending: Pending::default(),
            stats,
            config,
            max_message,
            protocol: None,
            calls: 0,
            following: PerKind::default(),
            next_deadline: None,
            askers: Askers::default(),
            asks: Vec::new(),
            level: Asking::default(),
            listening: Listening::default(),
            given_up,
            questions: Questions::default(),
            role,
            tasks: Tasks::default(),
            stated: StatedTasks::default(),
            task_support: TaskSupport::default(),
            task_tools: TaskTools::default(),
            always_tasks: AlwaysTasks::default(),
            within: None,
            mark: 0,
            late_until: None,
            left_alone_until: None,
            timed_out: None,
        }
    }

    /// Whether it has calls, tasks or questions that have not ended.
    pub(super) fn is_busy(&self) -> bool {
        let is_subscribing = self.listening.waiting().next().is_some();
        self.calls > 0 || is_subscribing || self.has_open_tasks() || self.questions.are_open()
    }

    /// Calls that were taken and have not ended.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    /// Queues a line that is no request, and tells its number.
    pub(super) fn send(&mut self, line: Bytes) -> u64 {
        self.outbox.push(line)
    }

    /// Writes what the server takes now. Pending if it takes nothing, ready if there is nothing to write, too.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        self.link.poll_write(cx, &mut self.outbox)
    }

    /// In which era it is spoken to.
    pub(super) fn era(&self) -> Era {
        self.protocol.map_or(Era::Legacy, era::of)
    }

    /// Queues a request of our own, with what its era wants every request to say.
    pub(super) fn ask(&mut self, method: &str, mut params: Value, owner: Owner) {
        if self.era() == Era::Modern {
            params["_meta"] = era::own_params()["_meta"].take();
        }
        self.request(method, &params, owner);
    }

    /// Queues a request of our own as it is, and tells its id.
    pub(super) fn request(&mut self, method: &str, params: &impl Serialize, owner: Owner) -> u64 {
        let (outbox, link) = (&mut self.outbox, &mut self.link);
        self.pending.register(|id| {
            link.announce(outbox.push(reply::request(id, method, params)), id);
            owner
        })
    }

    fn expire_by(&mut self, deadline: Instant) {
        self.next_deadline = Some(self.next_deadline.map_or(deadline, |next| next.min(deadline)));
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
            Incoming::Message { message: Message::Request { .. }, .. } if self.era() == Era::Modern => {
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

    fn response(&mut self, line: &Bytes, id: &Bytes, outcome: Result<Bytes, Bytes>) -> Effect {
        let taken = self.take_asked(id);
        if matches!(taken, Taken::Owner(_)) {
            self.given_up.heard(id);
        }
        match taken {
            Taken::Owner(Owner::Call(mut call)) => {
                if let Some(crossing) = call.crossing.take() {
                    return self.end_crossing(call, *crossing, (id, line), outcome.as_ref());
                }
                let answer = splice(line, &mut [Edit { part: id, replacement: call.reply.id() }]);
                self.end_call(call, id, answer, outcome.as_ref())
            }
            Taken::Owner(Owner::Page { listing, .. }) => self.page(listing, outcome),
            Taken::Owner(Owner::Renewal { uri, .. }) if outcome.is_err() => Effect::Lapsed(uri),
            Taken::Owner(Owner::Ping | Owner::Renewal { .. } | Owner::Aside { .. }) => Effect::Nothing,
            Taken::Owner(Owner::CancellationCheck) => {
                self.check_cancellations();
                Effect::Nothing
            }
            Taken::Owner(Owner::Listen { .. }) => {
                minted(id).map_or(Effect::Nothing, |id| self.listen_ended(id, Some(outcome.as_ref())))
            }
            Taken::Owner(Owner::Check) => self.checked(),
            Taken::Owner(Owner::Level { .. }) => {
                self.level_answered();
                Effect::Nothing
            }
            Taken::Owner(Owner::Disowned { task, .. }) => {
                self.disowned_answered(task, outcome.as_ref());
                Effect::Nothing
            }
            Taken::Owner(Owner::Update { task, .. }) => {
                if outcome.is_err() {
                    self.update_failed(task);
                }
                Effect::Nothing
            }
            Taken::Owner(Owner::TaskEnd { task }) => {
                self.task_end_answered(&task, outcome.is_ok());
                Effect::Nothing
            }
            Taken::Owner(Owner::Initialize | Owner::Discover) | Taken::Stray => {
                self.given_up.answered(id);
                self.late_answer(id, outcome.as_ref());
                self.stats.stray_responses.add_one();
                Effect::Nothing
            }
        }
    }
}
