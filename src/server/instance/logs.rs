//! The log messages of an instance: which call or agent each belongs to.
//!
//! Source: MCP 2025-11-25, `server/utilities/logging`.

use std::time::Instant;

use bytes::Bytes;

use super::calls::Unanswered;
use super::ownership::Ownership;
use super::{Effect, Instance};
use crate::era::Era;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::splice::splice;
use crate::level::Level;
use crate::server::messages::call::ReplySender;

impl Instance {
    /// Passes a log message to the one call of the modern era that it is certainly of, and that wants it; else it is its session's.
    pub(super) fn log_message(&self, line: Bytes, params: Option<Bytes>) -> Effect {
        let may_log = |id: u64, call: &Unanswered| {
            let is_within = self.within.is_none_or(|(within, _)| within == id);
            is_within && (self.wire.era() == Era::Legacy || call.origin.level().is_some())
        };
        let calls = || self.wire.calls().filter(move |(id, call)| may_log(*id, call)).map(|(_, call)| call);
        let in_transit = self.cancelled.in_transit_for(Instant::now());
        let is_any_stateless = calls().any(|call| call.origin.is_stateless());
        if self.within.is_none() && in_transit != Ownership::Nobody {
            // It may be about a cancelled call. That matters unless all calls are of one agent, which is told of each alike.
            let owner = self.busy_sessions().fold(in_transit, Ownership::and);
            if is_any_stateless || owner == Ownership::Several {
                return Effect::Nothing;
            }
        }
        if !is_any_stateless {
            return Effect::Logged { owner: self.owner(), line, params };
        }
        let is_certain = self.wire.era() == Era::Modern || matches!(self.ownership(), Ownership::One(_));
        if let (Some(call), None, true) = (calls().next(), calls().nth(1), is_certain)
            && let Some(least) = call.origin.level()
            && level_of(params.as_ref()).is_some_and(|level| level >= least)
        {
            call.reply.progress(splice(&line, &mut []));
        }
        Effect::Nothing
    }

    /// The agent that what the server says now certainly belongs to, and the way to it if a call of it is unanswered or a
    /// task of it has not ended.
    pub(super) fn owner(&self) -> Option<(u64, Option<ReplySender>)> {
        let Ownership::One(session) = self.ownership() else { return None };
        Some((session, self.way_to_owner()))
    }

    /// The way to whomever all belongs that the server may be at, if a call of theirs is unanswered or a task of theirs has not
    /// ended.
    pub(super) fn way_to_owner(&self) -> Option<ReplySender> {
        let is_theirs = |session| self.within.is_none_or(|(_, within)| within == session);
        self.busy_for().filter(|(session, _)| is_theirs(*session)).find_map(|(_, to)| to.cloned())
    }

    /// To whom all belongs that the server may be at, or whose call it is that it speaks of: what comes on the stream of a request
    /// is about that request (MCP 2025-11-25, `basic/transports`, "Sending Messages to the Server").
    pub(super) fn ownership(&self) -> Ownership {
        if let Some((_, session)) = self.within {
            return Ownership::One(session);
        }
        self.cancelled.owner(self.busy_sessions(), Instant::now())
    }

    /// The same for what the server may ask something for.
    pub(super) fn owner_of_request(&self) -> Ownership {
        match self.within {
            Some((_, session)) => Ownership::One(session),
            None => self.cancelled.owner_of_request(self.busy_sessions(), Instant::now()),
        }
    }

    /// The same without the calls that were given up.
    pub(super) fn owner_of_unanswered(&self) -> Ownership {
        self.busy_sessions().fold(Ownership::Nobody, Ownership::and)
    }

    fn busy_sessions(&self) -> impl Iterator<Item = u64> {
        self.busy_for().map(|(session, _)| session).chain(self.server_requests.sessions())
    }
}

/// The level that a message says it has, if it is one that MCP knows.
pub(in crate::server) fn level_of(params: Option<&Bytes>) -> Option<Level> {
    let [level] = members(params?, ["level"]).ok()?;
    Level::named(&text(&level?)?)
}
