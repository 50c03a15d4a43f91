//! Calls of modern agents that a legacy server asks something about: such an agent can only be answered that more has to be
//! known, and sends the call again with what was asked for. Meanwhile the call goes on at the server, and nobody waits for it here.
//!
//! Source: MCP 2026-07-28, `basic/patterns/mrtr`. The `requestState` that is made here says nothing: it is a random number that
//! is known to this instance, for one call of one profile, until it is used once or the call has run out of time.

mod call;

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::time::Instant;

use bytes::Bytes;

pub(super) use self::call::Held;
use super::asked::Asked;
use super::calls::Unanswered;
use super::crossing::{Crossing, Way};
use super::{Effect, Instance};
use crate::era::input::{self, Given};
use crate::era::{Era, request};
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS};
use crate::jsonrpc::{Message, parse};
use crate::server::messages::call::{Call, CallKey, Failure, Origin};
use crate::server::question::{Wish, failed, not_asked, undeclared};

/// Requests of a server that one call waits with.
const MOST: usize = 16;

/// Calls for which nobody waits, and what was asked about calls, may together have the bytes of so many largest messages, and what
/// was asked about one call, which its agent is told in one, those of one. What is more is refused.
pub(super) const MOST_MESSAGES: usize = 4;

/// What the states of an instance begin with that a person calls by this name. It is another in each daemon, so that nobody can have
/// a call led to an instance that has told him nothing.
pub(in crate::server) fn mark(purpose: Option<&str>) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(purpose)
}

/// Whether the params of a call may have `inputResponses` or `requestState`, which an escaped letter can hide.
fn may_come_back(call: &Call) -> bool {
    [&b"requestState"[..], b"inputResponses", b"\\u00"]
        .iter()
        .any(|sign| memchr::memmem::find(&call.line, sign).is_some())
}

/// The mark of the instance that has made the state with which a call comes back, if it is such a call.
pub(in crate::server) fn marked(call: &Call) -> Option<u64> {
    if !call.origin.is_stateless() || !may_come_back(call) {
        return None;
    }
    let [params] = members(&call.line, ["params"]).ok()?;
    let Given { state, .. } = input::given(&params?).ok()??;
    let (mark, _) = str::from_utf8(&state).ok()?.split_once('.')?;
    u64::from_str_radix(mark, 16).ok()
}

impl Instance {
    /// Whether a call goes on with one that this instance has suspended.
    pub(in crate::server) fn is_resumed_by(&self, call: &Call) -> bool {
        self.wire.era() == Era::Legacy && marked(call) == Some(self.mark)
    }

    /// Has the agent of the call `request` told what the server asks with its request `id`.
    pub(super) fn hold(
        &mut self,
        request: u64,
        id: &Bytes,
        (method, params): (&Bytes, Option<&Bytes>),
        wish: &Wish,
    ) -> Result<(), ErrorObject> {
        let server = self.config.name.clone();
        let not_asked = |why| not_asked(ErrorCode::Unavailable, why, &server);
        let (bytes, max_message) = (params.map_or(0, Bytes::len), self.wire.max_message());
        if self.held_bytes() + bytes > MOST_MESSAGES * max_message {
            return Err(not_asked("too many calls wait for their agents to come back"));
        }
        let Some(call) = self.wire.call_mut(request) else {
            return Err(not_asked("no agent has a call at this server, so mcpd cannot know whom this is for"));
        };
        let Some((abilities, held)) = call.held() else {
            return Err(not_asked("the call that this is for is of a server's own era"));
        };
        if !abilities.include(wish.ability) {
            return Err(undeclared(wish.ability));
        }
        if held.asked.len() >= MOST || held.bytes() + bytes > max_message {
            return Err(not_asked("too many requests for agents are unanswered"));
        }
        held.add(id, method, params);
        call.deadline.put_off(Instant::now());
        let look_at = call.look_at();
        look_at.into_iter().for_each(|at| self.wire.expire_by(at));
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        let bytes = |call: &Unanswered| match call.crossing.as_deref() {
            Some(Crossing { asked, way: Way::Down { held, .. } }) => {
                held.bytes() + if call.reply.to().is_none() { asked.bytes() } else { 0 }
            }
            _ => 0,
        };
        self.unanswered().map(bytes).sum()
    }

    /// Keeps the server's answer to a call for which nobody waits just now until its agent comes back. One that is too large with
    /// all that is held is lost.
    pub(super) fn keep_answer(&mut self, mut call: Unanswered, mut crossing: Crossing, line: &Bytes) -> Effect {
        let has_room = self.held_bytes() + line.len() <= MOST_MESSAGES * self.wire.max_message();
        let Way::Down { held, .. } = &mut crossing.way else { return Effect::Nothing };
        if !has_room {
            return self.end_failed(call, Failure::AnswerTooLarge);
        }
        let unanswered = std::mem::take(&mut held.asked);
        held.answer = Some(Bytes::copy_from_slice(line));
        self.refuse_asked(unanswered);
        call.crossing = Some(Box::new(crossing));
        self.wire.park(call);
        Effect::Nothing
    }

    /// Answers the call that has come back under this key, if its answer was kept.
    fn give_kept(&mut self, key: CallKey) {
        let is_it = |call: &Unanswered, _| call.reply.key == key && call.is_parked();
        let Some((_, mut call)) = self.wire.remove_calls_where(is_it).pop() else { return };
        let Some(mut crossing) = call.crossing.take() else { return };
        let Way::Down { held, .. } = &mut crossing.way else { return };
        let Some(line) = held.answer.take() else { return };
        if let Ok(Message::Response { id, outcome }) = parse(&line) {
            self.end_crossing(call, *crossing, (&id, &line), outcome.as_ref());
        }
    }

    /// A call that its agent sends again: what it was asked for goes to the server, and it waits for the call as before. The call
    /// itself comes back if it is none of these.
    pub(super) fn resume(&mut self, call: Box<Call>, crossing: Crossing) -> Option<(Box<Call>, Crossing)> {
        let (Origin::Modern { profile, .. }, Way::Down { .. }) = (&call.origin, &crossing.way) else {
            return Some((call, crossing));
        };
        if !may_come_back(&call) {
            return Some((call, crossing));
        }
        let given = match input::given(&crossing.asked.params) {
            Ok(given) => given,
            Err(NotAnObject) => {
                // Were it taken for a new one, the tool would be called twice.
                let error = ErrorObject::new(INVALID_PARAMS, "`inputResponses` or `requestState` is malformed");
                call.refuse_with(&error);
                return None;
            }
        };
        let Some(Given { responses, state }) = given else { return Some((call, crossing)) };
        let known = self.wire.calls_mut().find(|held| held.is_held_as(&state, profile));
        let Crossing { asked, way: Way::Down { abilities, .. } } = crossing else { return None };
        let is_the_same = |held: &Unanswered| {
            held.crossing.as_ref().is_some_and(|crossing| {
                crossing.asked.method == asked.method && request::is_again(&crossing.asked.params, &asked.params)
            })
        };
        let Some(held) = known.filter(|held| is_the_same(held)) else {
            // What has become of a call that there was, nobody can tell.
            let error = ErrorObject::new(INVALID_PARAMS, "`requestState` is not known, or not any more");
            call.refuse_with(&error.about_server(&self.config.name).with_delivery(Delivery::Unknown));
            return None;
        };
        let answered = held.take_answered(&responses);
        held.deadline.put_off(Instant::now());
        held.progress_token = call.progress_token.as_deref().map(Bytes::copy_from_slice);
        held.reply = call.reply;
        // It says for itself who it is from, as every request of its era.
        held.origin = call.origin;
        if let Some(Crossing { way: Way::Down { abilities: known, .. }, .. }) = held.crossing.as_deref_mut() {
            *known = abilities;
        }
        held.tell_what_is_asked(self.mark);
        let (key, look_at) = (held.reply.key, held.look_at());
        look_at.into_iter().for_each(|at| self.wire.expire_by(at));
        self.give_kept(key);
        self.say_answers(answered);
        None
    }

    /// Answers the server's requests of these ids with these lines.
    pub(super) fn say_answers(&mut self, answered: Vec<(Bytes, Bytes)>) {
        for (id, line) in answered {
            if !self.wire.try_notify(line) {
                let why = "the answer found no room, because the server does not read";
                self.wire.try_notify(reply::error(Some(&id), &failed(ErrorCode::Overloaded, why, &self.config.name)));
            }
        }
    }

    /// The server does not want to know any more what it has asked with this request.
    pub(super) fn withdraw_held(&mut self, id: &Bytes) {
        self.stated.withdraw(id);
        for (_, held) in self.wire.calls_mut().filter_map(Unanswered::held) {
            held.asked.retain(|asked| asked.id != id);
        }
    }

    /// Tells the server that nobody will answer what it has asked about a call that was given up.
    pub(super) fn give_up_held(&mut self, call: &mut Unanswered) {
        if let Some((_, held)) = call.held() {
            let unanswered = std::mem::take(&mut held.asked);
            self.refuse_asked(unanswered);
        }
    }

    /// Tells the server that nobody will answer what it has asked about a call that has ended.
    pub(super) fn refuse_asked(&mut self, unanswered: Vec<Asked>) {
        for asked in unanswered {
            let error = failed(ErrorCode::Died, "the call that this was for has ended", &self.config.name);
            self.wire.try_notify(reply::error(Some(&asked.id), &error));
        }
    }
}
