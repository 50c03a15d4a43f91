//! Calls between the eras: what a call from the other one has to have changed on its way to the server, and its answer on the
//! way back.
//!
//! Source: MCP 2026-07-28, `basic`, `basic/versioning`, `basic/patterns/mrtr`. What is changed is decided in [`crate::era`];
//! here is what outlives one message: [`rounds`](super::rounds) for a modern server that wants to know more before it answers,
//! [`held`](super::held) for a legacy one that asks while an agent waits that nobody may ask.

use std::sync::Arc;

use bytes::Bytes;

use super::always_tasks::AlwaysTasks;
use super::calls::Unanswered;
use super::held::Held;
use super::polls::Step;
use super::rounds::Round;
use super::stated_asks::Phase;
use super::unsent::Parts;
use super::{Effect, Instance};
use crate::era;
use crate::era::error::{self, ErrorToModern};
use crate::era::request;
use crate::era::result::{self, Cached, ToLegacy};
use crate::era::speaker::Speaker;
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::members::{NotAnObject, members, text};
use crate::jsonrpc::reply::{self, ErrorObject, INTERNAL_ERROR};
use crate::jsonrpc::splice::{Change, Edit, applied, splice};
use crate::printable::excerpt;
use crate::server::client_capabilities::{ClientCapabilities, ClientCapability};
use crate::server::messages::call::{Call, Failure, Origin, RequestKind, numbered};

/// Most characters shown of what an agent says.
const LONGEST_KEY: usize = 20;

/// What is kept of a call from the other era until it is answered.
pub(super) struct Crossing {
    pub(super) asked: Request,
    pub(super) way: Way,
}

/// A request, as it came. All parts are slices of the line.
pub(super) struct Request {
    line: Bytes,
    id: Bytes,
    rename: Option<(Bytes, Bytes)>,
    progress_token: Option<Bytes>,
    /// As text.
    pub(super) method: Bytes,
    pub(super) params: Bytes,
}

/// From which era to which.
pub(super) enum Way {
    /// From an agent that has introduced itself to a server that wants to know with each request who asks.
    Up { speaker: Arc<Speaker>, task: TaskUse, rounds: usize, round: Option<Round> },
    /// The same about a task that such a server has made.
    About { speaker: Arc<Speaker>, step: Step },
    /// From an agent that can be asked nothing to a server that asks.
    Down { profile: Arc<str>, abilities: ClientCapabilities, held: Held, makes_task: bool },
    /// The same about a task that such a server has made, which calls it by this id, as text.
    Stated { id: Bytes, phase: Phase },
}

/// What becomes of a task that a modern server makes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskUse {
    /// It may make none.
    None,
    /// The agent has asked for it, and is told.
    Told,
    /// The agent waits for its result.
    Followed,
}

impl Crossing {
    /// Of a call that comes from another era than that of the server, which may make tasks, some of these tools always, with what has to be
    /// changed of its line.
    pub(super) fn of(call: &Call, always: Option<&AlwaysTasks>) -> Result<(Self, Vec<Change>), NotAnObject> {
        let [method, params] = members(&call.line, ["method", "params"])?;
        let method = method.as_ref().and_then(text).ok_or(NotAnObject)?;
        let params = params.ok_or(NotAnObject)?;
        let (line, id) = (call.line.clone(), call.id.clone());
        let (rename, progress_token) = (call.rename.clone(), call.progress_token.clone());
        let asked = Request { line, id, rename, progress_token, method, params };
        let (way, changes) = match (&call.origin, &call.matter) {
            (Origin::Legacy(speaker), RequestKind::Task(ask)) => {
                let (step, changes) = Step::first(&asked, speaker, ask.act)?;
                (Way::About { speaker: Arc::clone(speaker), step }, changes)
            }
            (Origin::Legacy(speaker), matter) => {
                let is_one_always = |tools: &AlwaysTasks| asked.tool().is_some_and(|name| tools.include(&name));
                let task = match (always, matter) {
                    (Some(_), RequestKind::NewTask) => TaskUse::Told,
                    (Some(tools), RequestKind::Nothing) if is_one_always(tools) => TaskUse::Followed,
                    _ => TaskUse::None,
                };
                let changes = request::to_modern(&asked.params, speaker, task != TaskUse::None)?;
                (Way::Up { speaker: Arc::clone(speaker), task, rounds: 0, round: None }, changes)
            }
            (Origin::Modern { profile, .. }, _) => {
                let changes = request::to_legacy(&asked.params, false)?;
                let [meta] = members(&asked.params, ["_meta"])?;
                let capabilities = meta.and_then(|meta| members(&meta, [era::meta::CAPABILITIES]).ok());
                let abilities = ClientCapabilities::read(era::MODERN, capabilities.and_then(|[raw]| raw).as_ref());
                let held = Held::default();
                (Way::Down { profile: Arc::clone(profile), abilities, held, makes_task: false }, changes)
            }
        };
        Ok((Self { asked, way }, changes))
    }

    /// Why the call is not made again, if it is one that a legacy server has wanted URLs opened for first, which were not.
    pub(super) fn unopened(&self, server: &str) -> Option<ErrorObject> {
        let is_down = matches!(self.way, Way::Down { .. });
        let (key, said) = error::unopened(&self.asked.params).filter(|_| is_down)?;
        let key = excerpt(&key, LONGEST_KEY);
        let why = format!("the server does this only after a URL was opened, which was {said} (`{key}`)");
        Some(ErrorObject::new(INTERNAL_ERROR, why).about_server(server).with_delivery(Delivery::NotSent))
    }

    /// What is told of the agent, if it does not say that itself.
    pub(super) fn speaker(&self) -> Option<Arc<Speaker>> {
        match &self.way {
            Way::Up { speaker, .. } | Way::About { speaker, .. } => Some(Arc::clone(speaker)),
            Way::Down { .. } | Way::Stated { .. } => None,
        }
    }
}

impl Request {
    /// What makes of it the request `method` about the same task, for whom it is.
    ///
    /// # Errors
    /// If its params, or their `_meta`, are no object.
    pub(super) fn about_task(&self, method: &str, speaker: &Speaker) -> Result<Vec<Change>, NotAnObject> {
        let [part] = members(&self.line, ["method"])?;
        let mut changes = request::to_modern(&self.params, speaker, true)?;
        changes.extend(part.map(|part| Change { part, replacement: format!("\"{method}\"").into() }));
        Ok(changes)
    }

    /// The line as the server gets it once more, its request numbered `id`.
    pub(super) fn line_as(&self, id: u64, changes: &[Change]) -> Bytes {
        numbered(&self.line, (&self.id, self.rename.as_ref(), self.progress_token.as_ref()), id, changes)
    }

    /// The request as it came.
    pub(super) fn parts(&self) -> Parts {
        (self.line.clone(), self.id.clone(), self.rename.clone(), self.progress_token.clone())
    }

    pub(super) fn bytes(&self) -> usize {
        self.line.len()
    }

    /// The tool that it calls, by the server's own name, as text.
    pub(super) fn tool(&self) -> Option<Bytes> {
        self.own_name().filter(|_| self.method[..] == *b"tools/call")
    }

    /// What it is about, in the same way.
    pub(super) fn own_name(&self) -> Option<Bytes> {
        self.rename.as_ref().and_then(|(_, own)| text(own))
    }

    /// The same by the name that the agent knows it by.
    pub(super) fn agents_name(&self) -> Option<Bytes> {
        self.rename.as_ref().and_then(|(part, _)| text(part))
    }

    /// Whether its answer may be kept by a client, and has to say how long.
    fn cached(&self) -> Cached {
        if self.method[..] == *b"resources/read" { Cached::Yes } else { Cached::No }
    }
}

impl Instance {
    /// The server has answered a call of the other era.
    pub(super) fn end_crossing(
        &mut self,
        call: Unanswered,
        mut crossing: Crossing,
        (id, line): (&Bytes, &Bytes),
        outcome: Result<&Bytes, &Bytes>,
    ) -> Effect {
        if let Way::Down { held, .. } = &mut crossing.way {
            if call.reply.to().is_none() {
                return self.keep_answer(call, crossing, line);
            }
            let unanswered = std::mem::take(&mut held.asked);
            self.refuse_asked(unanswered);
        }
        match (&crossing.way, outcome) {
            (Way::About { .. }, _) => self.told_of_task(call, crossing, (id, line), outcome),
            (Way::Stated { .. }, _) => self.stated_answered(call, crossing, (id, line), outcome),
            (Way::Down { makes_task: true, .. }, Ok(result)) => self.stated_made(call, crossing, (id, line), result),
            (Way::Up { task, .. }, Ok(result)) => match result::to_legacy(result) {
                Ok(ToLegacy::Complete(_)) if *task == TaskUse::Told => self.keep_result(call, &crossing, id, result),
                Ok(ToLegacy::Complete(changes)) => self.end_changed(call, (id, line), &changes, outcome),
                Ok(ToLegacy::Required(required)) => {
                    self.begin_round(call, crossing, required);
                    Effect::Nothing
                }
                Ok(ToLegacy::Malformed(_)) => self.end_failed(call, Failure::AnswerMalformed),
                Ok(ToLegacy::Unknown(kind)) => self.end_failed(call, Failure::NotOfItsEra { what: kind }),
                Ok(ToLegacy::Task(changes)) => {
                    let made = Bytes::from(applied(result, &changes));
                    match task {
                        TaskUse::Told => self.end_changed(call, (id, line), &changes, Ok(&made)),
                        TaskUse::Followed => self.await_end(call, crossing, id, (result, &made)),
                        TaskUse::None => self.end_failed(call, Failure::NotOfItsEra { what: "task".to_owned() }),
                    }
                }
                Err(NotAnObject) => self.end_failed(call, Failure::AnswerMalformed),
            },
            (Way::Up { .. }, Err(raw)) => {
                let Some((call, crossing)) = self.retry_as_task(call, crossing, raw) else { return Effect::Nothing };
                let change = error::to_legacy(&crossing.asked.method, raw);
                self.end_changed(call, (id, line), change.as_slice(), outcome)
            }
            (Way::Down { .. }, Ok(result)) => match result::to_modern(result, crossing.asked.cached()) {
                Ok(changes) => self.end_changed(call, (id, line), &changes, outcome),
                Err(NotAnObject) => self.end_failed(call, Failure::AnswerMalformed),
            },
            (Way::Down { abilities, .. }, Err(raw)) => match error::to_modern(&crossing.asked.method, raw) {
                ErrorToModern::Unchanged => self.end_changed(call, (id, line), &[], outcome),
                ErrorToModern::Changed(change) => self.end_changed(call, (id, line), &[change], outcome),
                ErrorToModern::Required(required) if abilities.include(ClientCapability::Url) => {
                    let answer = reply::result(call.reply.id(), &required);
                    self.end_call(call, id, answer, outcome)
                }
                ErrorToModern::Required(_) => {
                    self.end_changed(call, (id, line), error::without_urls(raw).as_slice(), outcome)
                }
            },
        }
    }

    /// Sends a call again that the server has ended, or that it was not sent as.
    pub(super) fn send_again(&mut self, call: Unanswered, changes: &[Change]) {
        if call.is_hidden(&self.config.name) {
            return self.end_hidden(call);
        }
        let line = |call: &Unanswered, id| {
            let crossing = call.crossing.as_ref();
            crossing.map_or_else(Bytes::new, |crossing| crossing.asked.line_as(id, changes))
        };
        self.wire.send_call(call, line);
    }

    pub(super) fn end_changed(
        &mut self,
        call: Unanswered,
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

    pub(super) fn end_failed(&mut self, call: Unanswered, failure: Failure) -> Effect {
        self.fail_sent(call, failure, true);
        Effect::Nothing
    }
}
