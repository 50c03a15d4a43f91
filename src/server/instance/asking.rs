//! What a server asks: what is answered at once, and to whom the rest goes.
//!
//! Source: MCP 2025-11-25, `client/sampling`, `client/elicitation`, `client/roots`, `basic/utilities/tasks`.

use bytes::Bytes;

use super::Instance;
use super::ownership::Ownership;
use super::rounds::given;
use super::server_requests::{Answer, FromAgent, Purpose, Recipient};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_REQUEST, METHOD_NOT_FOUND};
use crate::printable::one_line;
use crate::server::client_capabilities::ClientCapability;
use crate::server::question::{Wish, not_asked};
use crate::server::role::Role;

/// Who is asked.
enum Whom {
    Agent(Recipient),
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
            Some(Ok(wish)) if wish.ability == ClientCapability::Roots && !self.is_one_agents() => {
                return self.tell_roots(id);
            }
            Some(Ok(_)) if matches!(self.role, Role::Nobody) => {
                Err(ErrorObject::new(METHOD_NOT_FOUND, "there are no agents here that could be asked"))
            }
            Some(Ok(wish)) if wish.ability == ClientCapability::Tasks && !self.is_one_agents() => {
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
        match self.whom_to_ask().map_err(|why| not_asked(ErrorCode::Unavailable, why))? {
            Whom::Agent(_) if self.server_requests.has(id) => {
                Err(ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered"))
            }
            Whom::Agent(recipient) => {
                // No other may ask for a task that was made for it.
                let wish = Wish { task: wish.task.filter(|_| self.is_one_agents()), ..wish };
                let request = (line.clone(), id.clone());
                self.server_requests.send(&mut self.wire, &recipient, request, Purpose::Server, wish)
            }
            Whom::Caller(call) => self.hold(call, id, asked, &wish),
        }
    }

    /// An agent has sent something about a request of the server.
    pub(in crate::server) fn agent_replied(&mut self, received: FromAgent) {
        if let Some(Answer { purpose, response: Ok(line) }) = self.server_requests.received(&mut self.wire, received) {
            self.input_received(purpose, given(&line));
        }
    }

    /// A call of this session has ended without an answer of the server.
    pub(super) fn end_requests_for(&mut self, session: u64, error: (ErrorCode, &'static str)) {
        let ended = self.server_requests.call_ended(&mut self.wire, session, error);
        self.requests_ended(ended);
    }

    /// Agents will not answer these requests.
    pub(super) fn requests_ended(&mut self, ended: Vec<Answer>) {
        for Answer { purpose, response } in ended {
            if let Err(why) = response {
                self.input_received(purpose, Err(format!("wanted to know more, but {why}")));
            }
        }
    }

    fn input_received(&mut self, purpose: Purpose, input: Result<Bytes, String>) {
        match purpose {
            Purpose::Call(place) => self.input_given(place, input),
            Purpose::Task(place) => self.task_input_given(place, input),
            Purpose::Server => {}
        }
    }

    /// What was asked for a call is wanted no more.
    pub(super) fn withdraw_inputs(&mut self, call: u64) {
        let is_of_call = |purpose| matches!(purpose, Purpose::Call(place) if place.call == call);
        self.server_requests.withdraw(is_of_call, "the call that this was for has ended");
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
        if let Some(call) = self.stateless_call(session) {
            return Ok(Whom::Caller(call));
        }
        if let Role::Of(agent) = &self.role
            && agent.session == session
        {
            return Ok(Whom::Agent(Recipient { session, to: agent.to.clone() }));
        }
        let to = self.way_to_owner().ok_or("no agent waits any more for the call that this may be for")?;
        Ok(Whom::Agent(Recipient { session, to }))
    }

    /// The call of this connection that a request of the server is answered by, if that call is of the modern era.
    ///
    /// Everything that the server may be working on is of this connection. Of several calls it is the latest that somebody waits for:
    /// most servers ask soon after they have read a call. The answer reaches the server in any case, which knows what it is for.
    fn stateless_call(&self, session: u64) -> Option<u64> {
        let is_at_hand = |id: u64| self.within.is_none_or(|(within, _)| within == id);
        let calls = self.calls_of(session).filter(|(id, call)| is_at_hand(*id) && !call.is_answered());
        let (id, call) = calls.max_by_key(|(id, call)| (call.reply.to().is_some(), *id))?;
        call.origin.is_stateless().then_some(id)
    }
}
