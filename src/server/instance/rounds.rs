//! Rounds of a call of a legacy agent at a modern server: the server answers that it has to know more first, the agent is
//! asked as such agents are, and the call is sent again with what was answered.
//!
//! The second sending is none of a call that was sent: the server has ended that one and wants this one (MCP 2026-07-28,
//! `basic/patterns/mrtr`). Between the two the call stays among the unanswered ones, under an id that the server never sees.

use std::time::Instant;

use bytes::Bytes;

use super::calls::Unanswered;
use super::crossing::{Crossing, TaskUse, Way};
use super::server_requests::{Purpose, Recipient};
use super::{Instance, PendingRequest};
use crate::era::input::{Input, Required};
use crate::era::request;
use crate::jsonrpc::members::{members, text};
use crate::printable::one_line;
use crate::server::client_capabilities::ClientCapability;
use crate::server::messages::call::Failure;
use crate::server::question::Wish;
use crate::server::role::roots_result;

/// Rounds of one call. A server that wants to know more after so many is not asked again.
const MOST: usize = 64;

/// Calls that wait, with what is kept for them, may together have the bytes of so many largest messages, and each those of one; the call
/// that is too much fails.
const MOST_MESSAGES: usize = 4;
const TOO_MUCH: &str = "wants to know more, and what it wants and was answered is too large";

/// What a call waits for before it is sent again.
pub(super) struct Round {
    /// Raw keys, and the raw results as far as they are there.
    answers: Vec<(Bytes, Option<Bytes>)>,
    /// The server's own, raw.
    state: Option<Bytes>,
}

impl Round {
    /// Copied, so that a small part does not keep a large line in memory.
    fn of(inputs: &[Input], state: Option<&Bytes>) -> Self {
        let copied = |raw: &Bytes| Bytes::copy_from_slice(raw);
        Self { answers: inputs.iter().map(|input| (copied(&input.key), None)).collect(), state: state.map(copied) }
    }

    fn bytes(&self) -> usize {
        let answers = self.answers.iter().map(|(key, answer)| key.len() + answer.as_ref().map_or(0, Bytes::len));
        answers.sum::<usize>() + self.state.as_ref().map_or(0, Bytes::len)
    }
}

/// Which answer of which call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its id while it waits.
    pub(super) call: u64,
    index: usize,
}

impl Instance {
    /// The server wants to know more: the agent is asked, or the call is sent again at once if there is nothing to ask.
    pub(super) fn begin_round(&mut self, mut call: Unanswered, mut crossing: Crossing, required: Required) {
        let Way::Up { rounds, round, .. } = &mut crossing.way else { return };
        *rounds += 1;
        if *rounds > MOST {
            let why = format!("has wanted to know more {MOST} times");
            self.fail_sent(call, Failure::NotAnswered { why }, true);
            return;
        }
        let Required { inputs, state } = required;
        *round = Some(Round::of(&inputs, state.as_ref()));
        call.deadline.put_off(Instant::now());
        let session = call.reply.key.session;
        call.crossing = Some(Box::new(crossing));
        let to = call.reply.to().cloned();
        let parked = self.wire.park(call);
        if !self.has_room_for(parked) {
            return self.fail_round(parked, TOO_MUCH.to_owned());
        }
        for (index, input) in inputs.iter().enumerate() {
            let place = Place { call: parked, index };
            let asked = match to.clone() {
                Some(to) => self.ask_for_input(&Recipient { session, to }, Purpose::Call(place), input),
                None => Err("nobody waits for it any more".to_owned()),
            };
            if let Err(why) = asked {
                return self.fail_round(parked, why);
            }
        }
        self.go_on(parked);
    }

    pub(super) fn ask_for_input(
        &mut self,
        recipient: &Recipient,
        purpose: Purpose,
        Input { method, params, .. }: &Input,
    ) -> Result<(), String> {
        let named = one_line(&String::from_utf8_lossy(method));
        match Wish::read(method, params.as_ref()) {
            None => Err(format!("wants `{named}`, which mcpd does not pass on")),
            // Neither is among what may be asked for (MCP 2026-07-28, `basic/patterns/mrtr`); tasks may be another server's.
            Some(Ok(wish)) if wish.ability == ClientCapability::Tasks || wish.task.is_some() => {
                Err(format!("wants `{named}` of tasks, which mcpd does not pass on"))
            }
            Some(Err(error)) => Err(format!("wants `{named}` that is malformed: {}", error.message)),
            Some(Ok(wish)) if wish.ability == ClientCapability::Roots && self.answers_roots() => {
                let roots = Bytes::from(roots_result(self.config.roots()));
                match purpose {
                    Purpose::Call(place) => self.keep_input(place, roots),
                    Purpose::Task(place) => self.keep_task_input(place, roots),
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

    /// The agent has answered one of the questions: with this raw result, or so that nobody can go on.
    pub(super) fn input_given(&mut self, place: Place, given: Result<Bytes, String>) {
        match given {
            Ok(result) => {
                self.keep_input(place, result);
                if !self.has_room_for(place.call) {
                    return self.fail_round(place.call, TOO_MUCH.to_owned());
                }
                self.go_on(place.call);
            }
            Err(why) => self.fail_round(place.call, why),
        }
    }

    fn keep_input(&mut self, place: Place, result: Bytes) {
        if let Some(round) = self.round_of(place.call)
            && let Some((_, answer)) = round.answers.get_mut(place.index)
        {
            *answer = Some(result);
        }
    }

    fn has_room_for(&self, parked: u64) -> bool {
        let own = self.wire.calls().find(|(id, _)| *id == parked).map_or(0, |(_, call)| call.parked_bytes());
        let all: usize = self.unanswered().map(Unanswered::parked_bytes).sum();
        own <= self.wire.max_message() && all <= MOST_MESSAGES * self.wire.max_message()
    }

    /// Who waits for the answer with this raw id: nobody for that of a call that waits here, which the server cannot know.
    pub(super) fn take_unless_parked(&mut self, id: &[u8]) -> Option<PendingRequest> {
        match self.wire.get_mut(id) {
            Some(PendingRequest::Call(call)) if call.is_parked() => None,
            _ => self.wire.take(id),
        }
    }

    fn round_of(&mut self, parked: u64) -> Option<&mut Round> {
        match &mut self.wire.call_mut(parked)?.crossing.as_mut()?.way {
            Way::Up { round, .. } => round.as_mut(),
            Way::Down { .. } | Way::About { .. } | Way::Stated { .. } => None,
        }
    }

    /// Sends the call again once everything is there.
    fn go_on(&mut self, parked: u64) {
        let is_complete = |round: &mut Round| round.answers.iter().all(|(_, answer)| answer.is_some());
        if !self.round_of(parked).is_some_and(is_complete) {
            return;
        }
        let Some(mut call) = self.wire.take_call(parked) else { return };
        let Some(crossing) = &mut call.crossing else { return };
        let Way::Up { speaker, task, round, .. } = &mut crossing.way else { return };
        let Some(Round { answers, state }) = round.take() else { return };
        let answers: Vec<_> = answers.into_iter().filter_map(|(key, answer)| Some((key, answer?))).collect();
        let asked = &crossing.asked;
        let Ok(mut changes) = request::to_modern(&asked.params, speaker, *task != TaskUse::None) else { return };
        changes.push(request::again(&asked.params, &answers, state.as_ref()));
        call.deadline.put_off(Instant::now());
        self.send_again(call, &changes);
    }

    /// The call cannot be sent again; `why` says of the server what it wanted.
    pub(super) fn fail_round(&mut self, parked: u64, why: String) {
        self.withdraw_inputs(parked);
        if let Some(call) = self.wire.take_call(parked) {
            self.fail_sent(call, Failure::NotAnswered { why }, true);
        }
    }
}

/// What an agent has answered with this whole line: its raw result, or why there is none, of the server.
pub(super) fn given(line: &Bytes) -> Result<Bytes, String> {
    let line = line.slice(..line.len().saturating_sub(1));
    match members(&line, ["result", "error"]) {
        Ok([Some(result), None]) => Ok(result),
        Ok([_, Some(error)]) => {
            let said = members(&error, ["message"]).ok().and_then(|[raw]| text(&raw?));
            let said = said.map(|said| one_line(&String::from_utf8_lossy(&said))).unwrap_or_default();
            Err(format!("wanted to know more, which was answered with an error: {said}"))
        }
        _ => Err("wanted to know more, which was answered with nothing".to_owned()),
    }
}

impl Unanswered {
    /// The server has ended it, and does not know the id that it has here.
    pub(super) fn is_parked(&self) -> bool {
        self.crossing.as_deref().is_some_and(|crossing| match &crossing.way {
            Way::Up { round, .. } => round.is_some(),
            Way::About { step, .. } => step.is_waiting(),
            Way::Down { held, .. } => held.is_answered(),
            Way::Stated { .. } => false,
        })
    }

    /// It is sent again: what it does, it may have done when it was sent first.
    pub(super) fn was_sent_before(&self) -> bool {
        matches!(self.crossing.as_deref(), Some(Crossing { way: Way::Up { rounds: 1.., .. }, .. }))
    }

    /// What is kept of it while it waits.
    fn parked_bytes(&self) -> usize {
        match self.crossing.as_deref() {
            Some(Crossing { asked, way: Way::Up { round: Some(round), .. } }) => asked.bytes() + round.bytes(),
            _ => 0,
        }
    }
}
