//! The recipient of a server message that names none.
//!
//! A message belongs to an agent only if the server can be working for no other agent. Its work consists of unanswered calls, open
//! tasks, unanswered requests of the server, and cancelled calls. Over HTTP, a message on the stream of a call belongs to that call.

use std::time::Instant;

use bytes::Bytes;

use super::abandoned_calls::{AbandonedCalls, Ownership};
use super::forwarded_requests::{ForwardedRequests, Recipient};
use super::pending_request::PendingCall;
use super::tasks::TaskTable;
use super::wire::Wire;
use crate::era::Era;
use crate::jsonrpc::members::{members, text};
use crate::log_level::LogLevel;
use crate::server::agent_scope::AgentScope;
use crate::server::messages::agents::Agent;
use crate::server::messages::call::SessionSender;

/// The agents that the instance serves, and the call on whose stream the current message has arrived.
pub(super) struct Attribution {
    scope: AgentScope,
    source_stream: Option<SourceStream>,
}

/// A call on whose own stream a message has arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceStream {
    /// The id of the call at the server.
    pub(super) request: u64,
    pub(super) session: u64,
}

/// Where a request of the server goes.
pub(super) enum RequestTarget {
    /// To an agent that can be sent requests.
    Agent(Recipient),
    /// To the agent of this modern call, which can only be answered.
    Call(u64),
}

/// Everything that the server may be working on.
pub(super) struct Workload<'a> {
    pub(super) wire: &'a Wire,
    pub(super) abandoned: &'a AbandonedCalls,
    pub(super) tasks: &'a TaskTable,
    pub(super) forwarded_requests: &'a ForwardedRequests,
}

impl<'a> Workload<'a> {
    /// The sessions of calls and tasks that have not ended, each with the channel to it if the call or task has one.
    fn calls_and_tasks(&self) -> impl Iterator<Item = (u64, Option<&'a SessionSender>)> {
        let calls =
            self.wire.unanswered_calls().map(|(_, call)| (call.response_handle.key.session, call.response_handle.to()));
        calls.chain(self.tasks.open())
    }

    /// The sessions of everything but cancelled calls.
    fn sessions(&self) -> impl Iterator<Item = u64> {
        self.calls_and_tasks().map(|(session, _)| session).chain(self.forwarded_requests.sessions())
    }

    /// The owner of everything but cancelled calls.
    fn owner_of_open(&self) -> Ownership {
        self.sessions().fold(Ownership::Nobody, Ownership::and)
    }
}

/// Where a log message of the server goes.
pub(super) enum LogRecipient<'a> {
    /// To the agent of this modern call.
    Call(&'a PendingCall),
    /// To the agent of this session. `None` if no session certainly owns it: it is then delivered only with
    /// `sharing = "session"`.
    Session(Option<MessageOwner>),
    /// To no agent.
    Nobody,
}

/// The session that a log message belongs to.
pub(in crate::server) struct MessageOwner {
    pub(in crate::server) session: u64,
    /// Where a call or task of the session can be reached.
    pub(in crate::server) to: Option<SessionSender>,
}

impl Attribution {
    pub(super) fn new(scope: AgentScope) -> Self {
        Self { scope, source_stream: None }
    }

    pub(super) fn scope(&self) -> &AgentScope {
        &self.scope
    }

    /// The agent that the instance belongs to.
    pub(super) fn agent(&self) -> Option<&Agent> {
        match &self.scope {
            AgentScope::Of(agent) => Some(agent),
            AgentScope::Any | AgentScope::Nobody => None,
        }
    }

    /// The current message has arrived on the stream of this call.
    pub(super) fn set_source_stream(&mut self, source_stream: Option<SourceStream>) {
        self.source_stream = source_stream;
    }

    /// Whether the message may be about the call with this id.
    fn may_be_about(&self, request: u64) -> bool {
        self.source_stream.is_none_or(|source| source.request == request)
    }

    /// The owner of the message. A message on the stream of a request is about that request (MCP 2025-11-25, `basic/transports`,
    /// "Sending Messages to the Server").
    fn owner(&self, work: &Workload<'_>, now: Instant) -> Ownership {
        match self.source_stream {
            Some(source) => Ownership::One(source.session),
            None => work.abandoned.owner(work.sessions(), now),
        }
    }

    /// The agent that the message certainly belongs to, whatever the server works on: the one on whose stream it has arrived, or the one
    /// that the instance belongs to.
    pub(super) fn known_owner(&self, work: &Workload<'_>) -> Option<MessageOwner> {
        match (self.source_stream, self.agent()) {
            (Some(source), _) => Some(MessageOwner { session: source.session, to: self.owner_channel(work) }),
            (None, Some(agent)) => Some(MessageOwner { session: agent.session, to: Some(agent.to.clone()) }),
            (None, None) => None,
        }
    }

    /// Where the owner of the message can be reached, if a call or task of it is open.
    fn owner_channel(&self, work: &Workload<'_>) -> Option<SessionSender> {
        let is_owner = |session| self.source_stream.is_none_or(|source| source.session == session);
        work.calls_and_tasks().filter(|(session, _)| is_owner(*session)).find_map(|(_, to)| to.cloned())
    }

    /// Whether all open calls are of one agent, and all cancelled calls are of its user, who may see messages about each of them.
    fn is_among_one_user(&self, work: &Workload<'_>) -> bool {
        let is_one = self.source_stream.is_none() && matches!(work.owner_of_open(), Ownership::One(_));
        let uid = || self.owner_channel(work).and_then(|to| to.uid());
        is_one && uid().is_some_and(|uid| work.abandoned.are_all_of(uid))
    }

    /// Where a log message goes: to the one modern call that it certainly belongs to and that requests it, else to a session.
    ///
    /// Source: MCP 2025-11-25, `server/utilities/logging`.
    pub(super) fn log_recipient<'a>(
        &self,
        work: &Workload<'a>,
        params: Option<&Bytes>,
        now: Instant,
    ) -> LogRecipient<'a> {
        let era = work.wire.era();
        let may_log = |id: u64, call: &PendingCall| {
            self.may_be_about(id) && (era == Era::Legacy || call.origin.level().is_some())
        };
        let calls = || work.wire.calls().filter(move |(id, call)| may_log(*id, call)).map(|(_, call)| call);
        let is_among_one_user = self.is_among_one_user(work);
        let in_transit = work.abandoned.in_transit_for(now);
        let is_any_stateless = calls().any(|call| call.origin.is_stateless());
        if !is_among_one_user && self.source_stream.is_none() && in_transit != Ownership::Nobody {
            // It may be about a cancelled call. Then drop it, unless all work is of one session and that is legacy.
            let owner = work.sessions().fold(in_transit, Ownership::and);
            if is_any_stateless || owner == Ownership::Several {
                return LogRecipient::Nobody;
            }
        }
        let owner = if is_among_one_user { work.owner_of_open() } else { self.owner(work, now) };
        if !is_any_stateless {
            let Ownership::One(session) = owner else { return LogRecipient::Session(None) };
            return LogRecipient::Session(Some(MessageOwner { session, to: self.owner_channel(work) }));
        }
        let is_certain = era == Era::Modern || matches!(owner, Ownership::One(_));
        match (calls().next(), calls().nth(1), level_of(params)) {
            (Some(call), None, Some(level))
                if is_certain && call.origin.level().is_some_and(|least| level >= least) =>
            {
                LogRecipient::Call(call)
            }
            _ => LogRecipient::Nobody,
        }
    }

    /// Where a request of the server goes.
    ///
    /// # Errors
    /// Why no agent receives it.
    pub(super) fn request_target(&self, work: &Workload<'_>, now: Instant) -> Result<RequestTarget, &'static str> {
        let owner = match self.source_stream {
            Some(source) => Ownership::One(source.session),
            None => work.abandoned.owner_of_request(work.sessions(), now),
        };
        let session = match (owner, self.agent()) {
            // The retry of a suspended call belongs to the connection that it arrives on.
            (Ownership::One(session), _) => session,
            (Ownership::Nobody, Some(agent)) => agent.session,
            (Ownership::Several, _) => {
                return Err(if work.owner_of_open() == Ownership::Several {
                    "several agents are using this server, so mcpd cannot know whom this is for"
                } else {
                    "a call of another agent was given up, and the server may still be working on it, so mcpd \
                    cannot know whom this is for"
                });
            }
            (Ownership::Nobody, None) => {
                return Err("no agent has a call at this server, so mcpd cannot know whom this is for");
            }
        };
        // Of several calls, the latest that an agent waits for: most servers send requests soon after they have read a call. A
        // wrong choice among the calls of one agent is harmless: the server matches the answer by its request id.
        let candidates = work.wire.unanswered_calls();
        let candidates =
            candidates.filter(|(id, call)| call.response_handle.key.session == session && self.may_be_about(*id));
        if let Some((id, call)) = candidates.max_by_key(|(id, call)| (call.response_handle.to().is_some(), *id))
            && call.origin.is_stateless()
        {
            return Ok(RequestTarget::Call(id));
        }
        if let Some(agent) = self.agent().filter(|agent| agent.session == session) {
            return Ok(RequestTarget::Agent(Recipient { session, to: agent.to.clone() }));
        }
        let to = self.owner_channel(work).ok_or("no agent waits any more for the call that this may be for")?;
        Ok(RequestTarget::Agent(Recipient { session, to }))
    }
}

/// The level of a log message, if MCP has it.
pub(in crate::server) fn level_of(params: Option<&Bytes>) -> Option<LogLevel> {
    let [level] = members(params?, ["level"]).ok()?;
    LogLevel::named(&text(&level?)?)
}
