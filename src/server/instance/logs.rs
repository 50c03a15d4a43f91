//! The log messages of an instance: how severe they have to be, and whose they are.
//!
//! Source: MCP 2025-11-25, `server/utilities/logging`.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;

use super::calls::Unanswered;
use super::ownership::Whose;
use super::{Effect, Instance, Owner};
use crate::era::Era;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::splice::splice;
use crate::level::Level;
use crate::server::call::ReplySender;

/// The level that the server is asked for. One question is out at a time: a server that does not answer is not sent more and
/// more, however often agents change their minds.
#[derive(Debug, Default)]
pub(in crate::server) struct Asking {
    /// Whether it can be asked at all.
    pub(in crate::server) declared: bool,
    wanted: Option<Level>,
    /// Of calls that are unanswered.
    of_calls: Option<Level>,
    asked: Option<Level>,
    is_out: bool,
}

/// What a server logs from that was asked for another level, and that nobody wants one of any more: from which level on it logged before,
/// it has not said.
const USUAL: Level = Level::Info;

impl Asking {
    /// What is to be asked for, if anything ever was.
    fn needed(&self) -> Option<Level> {
        let all = self.wanted.into_iter().chain(self.of_calls).min();
        all.or(self.asked.map(|_| USUAL))
    }
}

impl Instance {
    /// Has the server log from this level on, if it was not asked for that last. None is what it was asked for before.
    pub(in crate::server) fn want_level(&mut self, level: Option<Level>) {
        self.level.wanted = level.or(self.level.wanted);
        self.ask_for_level();
    }

    /// Has it log from this level on for as long as a call is unanswered, which is of a modern agent and says so for itself.
    pub(super) fn log_for_call(&mut self, level: Level) {
        self.level.of_calls = Some(self.level.of_calls.map_or(level, |of_calls| of_calls.min(level)));
        self.ask_for_level();
    }

    /// A call has ended.
    pub(super) fn log_for_calls_that_are_left(&mut self) {
        if self.level.of_calls.is_some() {
            let stateless = self.unanswered().filter(|call| call.origin.is_stateless());
            self.level.of_calls = stateless.filter_map(|call| call.origin.level()).min();
            self.ask_for_level();
        }
    }

    /// It has answered what it was asked, or that took too long.
    pub(super) fn level_answered(&mut self) {
        self.level.is_out = false;
        self.ask_for_level();
    }

    fn ask_for_level(&mut self) {
        let Asking { declared: true, asked, is_out: false, .. } = self.level else { return };
        let Some(wanted) = self.level.needed().filter(|needed| asked != Some(*needed)) else { return };
        (self.level.asked, self.level.is_out) = (Some(wanted), true);
        let deadline = self.aside_deadline();
        self.request("logging/setLevel", &json!({ "level": wanted.word() }), Owner::Level { deadline });
    }

    /// Passes a log message to the one call of the modern era that it is certainly of, and that wants it; else it is its session's.
    pub(super) fn log_message(&self, line: Bytes, params: Option<Bytes>) -> Effect {
        let may_log = |id: u64, call: &Unanswered| {
            let is_within = self.within.is_none_or(|(within, _)| within == id);
            is_within && (self.era() == Era::Legacy || call.origin.level().is_some())
        };
        let calls = || {
            self.pending.with_ids().filter_map(move |(id, owner)| match owner {
                Owner::Call(call) if may_log(id, call) => Some(call),
                _ => None,
            })
        };
        if self.within.is_none() && self.late_until.is_some_and(|at| at > Instant::now()) {
            return Effect::Nothing;
        }
        if !calls().any(|call| call.origin.is_stateless()) {
            return Effect::Logged { owner: self.owner(), line, params };
        }
        let is_certain = self.era() == Era::Modern || matches!(self.whose(), Whose::One(_));
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
        let Whose::One(session) = self.whose() else { return None };
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
    pub(super) fn whose(&self) -> Whose {
        if let Some((_, session)) = self.within {
            return Whose::One(session);
        }
        self.given_up.whose(self.busy_sessions(), Instant::now())
    }

    /// The same for what the server may ask something for.
    pub(super) fn whose_request(&self) -> Whose {
        match self.within {
            Some((_, session)) => Whose::One(session),
            None => self.given_up.whose_request(self.busy_sessions(), Instant::now()),
        }
    }

    /// The same without the calls that were given up.
    pub(super) fn whose_unanswered(&self) -> Whose {
        self.busy_sessions().fold(Whose::Nobody, Whose::and)
    }

    fn busy_sessions(&self) -> impl Iterator<Item = u64> {
        self.busy_for().map(|(session, _)| session).chain(self.questions.sessions())
    }
}

/// The level that a message says it has, if it is one that MCP knows.
pub(in crate::server) fn level_of(params: Option<&Bytes>) -> Option<Level> {
    let [level] = members(params?, ["level"]).ok()?;
    Level::named(&text(&level?)?)
}
