//! Which agent a message of the server belongs to, if the message itself does not say.
//!
//! A message belongs to an agent for certain only if everything that the server may be working on is that agent's: unanswered calls, open
//! tasks, requests of the server, and cancelled calls that it may not have read about. Over HTTP, a message on the stream of a
//! call belongs to that call.

use bytes::Bytes;

use super::pending_call::PendingCall;
use super::server_requests::Recipient;
use crate::jsonrpc::members::{members, text};
use crate::level::Level;
use crate::server::messages::agents::Agent;
use crate::server::messages::call::ReplySender;
use crate::server::role::Role;

/// Whose calls, tasks and requests the server may be working on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::server) enum Ownership {
    /// The server has nothing to do.
    #[default]
    Nobody,
    /// Only this session's.
    One(u64),
    /// More than one session's.
    Several,
}

impl Ownership {
    /// Adds a session.
    pub(super) fn and(self, session: u64) -> Self {
        match self {
            Self::Nobody => Self::One(session),
            Self::One(other) if other == session => self,
            Self::One(_) | Self::Several => Self::Several,
        }
    }
}

/// Whom the instance serves, and the call on whose stream the message at hand has arrived.
pub(super) struct Attribution {
    role: Role,
    within: Option<Within>,
}

/// A call on whose own stream a message has arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Within {
    /// The id of the call at the server.
    pub(super) request: u64,
    pub(super) session: u64,
}

/// Where a request of the server goes.
pub(super) enum Route {
    /// To an agent that can be sent requests.
    Agent(Recipient),
    /// To the agent of this modern call, which can only be answered.
    Call(u64),
}

/// What the server may be working on when it sends a request.
pub(super) struct Work<'a, C> {
    /// Sessions of everything, cancelled calls included.
    pub(super) owner: Ownership,
    /// The same without cancelled calls.
    pub(super) owner_of_unanswered: Ownership,
    /// Where the owner can be reached, as far as a call or a task of it says so.
    pub(super) to: Option<&'a ReplySender>,
    /// Pending calls with their ids.
    pub(super) calls: C,
}

impl Attribution {
    pub(super) fn new(role: Role) -> Self {
        Self { role, within: None }
    }

    pub(super) fn role(&self) -> &Role {
        &self.role
    }

    /// The agent that the instance belongs to.
    pub(super) fn agent(&self) -> Option<&Agent> {
        match &self.role {
            Role::Of(agent) => Some(agent),
            Role::Any | Role::Nobody => None,
        }
    }

    /// The message at hand has arrived on the stream of this call.
    pub(super) fn set_within(&mut self, within: Option<Within>) {
        self.within = within;
    }

    /// The session whose call's stream the message has arrived on.
    pub(super) fn session_within(&self) -> Option<u64> {
        self.within.map(|within| within.session)
    }

    /// Whether the message may be about the call with this id.
    pub(super) fn may_be_about(&self, request: u64) -> bool {
        self.within.is_none_or(|within| within.request == request)
    }

    /// Where a request of the server goes.
    ///
    /// # Errors
    /// Why it goes nowhere.
    pub(super) fn route<'a>(
        &self,
        Work { owner, owner_of_unanswered, to, calls }: Work<'_, impl Iterator<Item = (u64, &'a PendingCall)>>,
    ) -> Result<Route, &'static str> {
        let session = match (owner, self.agent()) {
            // The retry of a suspended call belongs to the connection that it arrives on.
            (Ownership::One(session), _) => session,
            (Ownership::Nobody, Some(agent)) => agent.session,
            (Ownership::Several, _) if owner_of_unanswered != Ownership::Several => {
                return Err(
                    "a call of another agent was given up, and the server may still be working on it, so mcpd \
                    cannot know whom this is for",
                );
            }
            (Ownership::Several, _) => {
                return Err("several agents are using this server, so mcpd cannot know whom this is for");
            }
            (Ownership::Nobody, None) => {
                return Err("no agent has a call at this server, so mcpd cannot know whom this is for");
            }
        };
        // Of several calls it is the latest that an agent waits for: most servers send requests soon after they have read a call. The
        // answer reaches the server in any case, which knows what it is for.
        let candidates = calls
            .filter(|(id, call)| call.reply.key.session == session && self.may_be_about(*id) && !call.is_answered());
        if let Some((id, call)) = candidates.max_by_key(|(id, call)| (call.reply.to().is_some(), *id))
            && call.origin.is_stateless()
        {
            return Ok(Route::Call(id));
        }
        if let Some(agent) = self.agent().filter(|agent| agent.session == session) {
            return Ok(Route::Agent(Recipient { session, to: agent.to.clone() }));
        }
        let to = to.ok_or("no agent waits any more for the call that this may be for")?;
        Ok(Route::Agent(Recipient { session, to: to.clone() }))
    }
}

/// The level of a log message, if MCP has it.
pub(in crate::server) fn level_of(params: Option<&Bytes>) -> Option<Level> {
    let [level] = members(params?, ["level"]).ok()?;
    Level::named(&text(&level?)?)
}
