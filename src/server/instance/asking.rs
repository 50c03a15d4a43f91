//! What a server asks: what is answered at once, and to whom the rest goes.
//!
//! Source: MCP 2025-11-25, `client/sampling`, `client/elicitation`, `client/roots`, `basic/utilities/tasks`.

use std::time::Instant;

use bytes::Bytes;
use futures_util::future::FutureExt;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::Instance;
use super::ownership::Ownership;
use super::questions::{For, MOST, Open, said};
use crate::era::input::elicitation_to_legacy;
use crate::jsonrpc::members::members;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_REQUEST, METHOD_NOT_FOUND};
use crate::jsonrpc::splice::applied;
use crate::printable::one_line;
use crate::progress;
use crate::server::call::ReplySender;
use crate::server::question::{Back, OfTask, Question, Wish, not_asked};
use crate::server::role::{Ability, Role};

/// Who is asked.
enum Whom {
    /// An agent, by the number of its connection.
    Agent(u64, ReplySender),
    /// Whoever waits for the call of this id, and can only be told so by its answer.
    Caller(u64),
}

impl Instance {
    /// A server that asks hears at once that nobody will answer, or that an agent does, whatever becomes of that agent.
    pub(super) fn server_request(&mut self, line: &Bytes, id: &Bytes, method: &Bytes, params: Option<&Bytes>) {
        if method[..] == *b"ping" {
            self.wire.try_notify(reply::result(id, b"{}"));
            return;
        }
        let passed_on = match Wish::read(method, params) {
            None => {
                let message = format!("mcpd does not pass `{}` on", one_line(&String::from_utf8_lossy(method)));
                Err(ErrorObject::new(METHOD_NOT_FOUND, message))
            }
            Some(Ok(wish)) if wish.ability == Ability::Roots && !self.is_one_agents() => {
                return self.tell_roots(id);
            }
            Some(Ok(_)) if matches!(self.role, Role::Nobody) => {
                Err(ErrorObject::new(METHOD_NOT_FOUND, "there are no agents here that could be asked"))
            }
            Some(Ok(wish)) if wish.ability == Ability::Tasks && !self.is_one_agents() => {
                let why = "mcpd has not declared `tasks` here: they are for an agent's own instance (`sharing = \"session\"`)";
                Err(ErrorObject::new(METHOD_NOT_FOUND, why))
            }
            Some(wish) => wish.and_then(|wish| self.pass_on(line, id, (method, params), wish)),
        };
        if let Err(error) = passed_on {
            self.wire.try_notify(reply::error(Some(id), &error));
        }
    }

    /// Hands a request to the agent that it is certainly for.
    fn pass_on(
        &mut self,
        line: &Bytes,
        id: &Bytes,
        asked: (&Bytes, Option<&Bytes>),
        wish: Wish,
    ) -> Result<(), ErrorObject> {
        if let Some(task) = self.stated_asker(asked.1, &wish) {
            return self.hold_for_task(&task, id, asked, &wish);
        }
        let not_asked = |code, why| not_asked(code, why, &self.config.name);
        match self.whom_to_ask().map_err(|why| not_asked(-31004, why))? {
            Whom::Agent(..) if self.questions.has(id) => {
                Err(ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered"))
            }
            Whom::Agent(session, to) => self.ask_agent((session, to), (line.clone(), id.clone()), For::Server, wish),
            Whom::Caller(call) => self.hold(call, id, asked, &wish),
        }
    }

    /// Asks an agent what a server wants to know before it answers a call of it, or goes on with a task.
    pub(super) fn ask_for(
        &mut self,
        whom: (u64, ReplySender),
        purpose: For,
        (method, params): (&Bytes, Option<&Bytes>),
        wish: Wish,
    ) -> Result<(), ErrorObject> {
        let number = self.questions.next();
        let params = params.map(|raw| match elicitation_to_legacy(raw, &number.to_string()) {
            Some(change) if wish.ability == Ability::Url => applied(raw, &[change]),
            _ => raw.to_vec(),
        });
        let params: Option<&RawValue> = params.as_deref().and_then(|raw| serde_json::from_slice(raw).ok());
        let line = json_line(number, &String::from_utf8_lossy(method), params);
        let parts = members(&line, ["id", "params"]).ok().and_then(|[id, params]| Some((id?, params)));
        let (id, params) = parts.ok_or_else(|| ErrorObject::new(INVALID_REQUEST, "cannot be asked"))?;
        // What was read is of the server's line; what is replaced has to be of this one.
        let meta = params.and_then(|params| members(&params, ["_meta"]).ok()).and_then(|[meta]| meta);
        let progress_token = progress::token(meta).unwrap_or_default();
        self.ask_agent(whom, (line, id), purpose, Wish { progress_token, ..wish })
    }

    /// Until the agent has answered, its calls have their full time.
    fn ask_agent(
        &mut self,
        (session, to): (u64, ReplySender),
        (line, id): (Bytes, Bytes),
        purpose: For,
        wish: Wish,
    ) -> Result<(), ErrorObject> {
        let not_asked = |code, why| not_asked(code, why, &self.config.name);
        let bytes = self.questions.bytes();
        let is_full = bytes > 0 && bytes + line.len() > self.wire.max_message();
        if is_full || self.questions.len() >= MOST {
            return Err(not_asked(-31003, "too many requests for agents are unanswered"));
        }
        let (back, way) = Back::new(&id, &self.config.name);
        let own_id = back.id().clone();
        let (withdraw, withdrawn) = oneshot::channel();
        let Wish { ability, progress_token, elicitation, task } = wish;
        // No other may ask for a task that was made for it.
        let task = task.filter(|_| self.is_one_agents()).map(|wish| OfTask { wish, asker: self.questions.asker() });
        let bytes = line.len();
        let question = Question { line, id, progress_token, ability, task, back, withdrawn };
        if !to.ask(Box::new(question)) {
            return Err(not_asked(-31004, "the agent has gone, or does not keep up"));
        }
        if let Some(elicitation) = elicitation {
            self.questions.elicitations.add(&elicitation, session, &to);
        }
        let deadline = Instant::now() + self.config.settings.call_timeout_max;
        self.wire.expire_by(deadline);
        let number = self.questions.next();
        let is_for_call = self.put_off_calls(session);
        self.questions.add(Open { number, id: own_id, session, bytes, purpose, is_for_call, deadline, withdraw });
        self.questions.waits.push(said(number, way).boxed());
        Ok(())
    }

    /// The agent that a request now is certainly for, or why there is none.
    fn whom_to_ask(&self) -> Result<Whom, &'static str> {
        if self.wire.protocol().is_none() {
            return Err("the handshake is not over");
        }
        let session = match (self.owner_of_request(), &self.role) {
            // A call that has come back on another connection than it came on is that one's, wherever it is.
            (Ownership::One(session), _) => session,
            (Ownership::Nobody, Role::Of(agent)) => agent.session,
            (Ownership::Several, _) if self.owner_of_unanswered() != Ownership::Several => {
                return Err(
                    "a call of another agent was given up, and the server may still be working on it, so mcpd cannot know whom this is for",
                );
            }
            (Ownership::Several, _) => {
                return Err("several agents are using this server, so mcpd cannot know whom this is for");
            }
            (Ownership::Nobody, Role::Any | Role::Nobody) => {
                return Err("no agent has a call at this server, so mcpd cannot know whom this is for");
            }
        };
        if let Some(call) = self.stateless_call(session)? {
            return Ok(Whom::Caller(call));
        }
        if let Role::Of(agent) = &self.role
            && agent.session == session
        {
            return Ok(Whom::Agent(agent.session, agent.to.clone()));
        }
        let to = self.way_to_owner().ok_or("no agent waits any more for the call that this may be for")?;
        Ok(Whom::Agent(session, to))
    }

    /// The one call of a connection, to which all belongs that the server is at, if it is one of the modern era: several on one connection may be of several agents.
    fn stateless_call(&self, session: u64) -> Result<Option<u64>, &'static str> {
        let calls = || self.calls_of(session).filter(|(id, _)| self.within.is_none_or(|(within, _)| within == *id));
        if !calls().any(|(_, call)| call.origin.is_stateless()) {
            return Ok(None);
        }
        match (calls().next(), calls().nth(1), self.within) {
            (Some((id, _)), None, Some(_)) => Ok(Some(id)),
            (Some((id, _)), None, None) if !self.cancelled.may_ask(Instant::now()) => Ok(Some(id)),
            _ => Err("several calls are unanswered on the connection, so mcpd cannot know which one this is for"),
        }
    }
}

/// A request line without a newline.
fn json_line(id: u64, method: &str, params: Option<&RawValue>) -> Bytes {
    let mut line = json!({ "jsonrpc": "2.0", "id": id, "method": method }).to_string();
    if let Some(params) = params {
        line.pop();
        line.push_str(",\"params\":");
        line.push_str(params.get());
        line.push('}');
    }
    line.into()
}
