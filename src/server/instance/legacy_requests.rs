//! Requests of a legacy server: answered here, forwarded to an agent, or collected for a call of a modern agent.

use std::time::Instant;

use bytes::Bytes;

use super::attribution::RequestTarget;
use super::forwarded_requests::{self, AnswerUse, RequestHandling};
use super::pending_request::PendingCall;
use super::{Instance, suspended_calls};
use crate::bridge::ServerRequest;
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_REQUEST};
use crate::jsonrpc::{Message, parse};
use crate::server::agent_scope::roots_result;
use crate::server::server_request::{ParsedRequest, may_have_arrived_error};

/// Why the server gets no answer to a request that it has sent for a call.
const CALL_HAS_ENDED: &str = "the call that this was for has ended";

impl Instance {
    /// The server has sent a request. The server gets an error at once if no agent will answer.
    pub(super) fn handle_server_request(&mut self, line: &Bytes, id: &Bytes, method: &Bytes, params: Option<&Bytes>) {
        if let Some(line) = forwarded_requests::without_task(line, method, params)
            && let Ok(Message::Request { id, method, params }) = parse(&line)
        {
            return self.handle_server_request(&line, &id, &method, params.as_ref());
        }
        let refused = match forwarded_requests::classify(method, params, self.attribution.scope()) {
            RequestHandling::Ping => {
                self.wire.try_queue_line(reply::result(id, b"{}"));
                return;
            }
            RequestHandling::Roots => match self.config.roots() {
                [] => Err(forwarded_requests::no_roots()),
                roots => {
                    self.wire.try_queue_line(reply::result(id, &roots_result(roots)));
                    return;
                }
            },
            RequestHandling::Forward(parsed) => {
                self.route_request(line, &ServerRequest { id, method, params, capability: parsed.capability }, parsed)
            }
            RequestHandling::Refused(error) => Err(error),
        };
        if let Err(error) = refused {
            self.wire.try_queue_line(reply::error(Some(id), &error));
        }
    }

    /// Whether the configuration has the roots of the server.
    pub(super) fn has_configured_roots(&self) -> bool {
        self.attribution.agent().is_none() && !self.config.roots().is_empty()
    }

    /// Forwards a request to the agent that it is certainly for.
    fn route_request(
        &mut self,
        line: &Bytes,
        request: &ServerRequest<'_>,
        parsed: ParsedRequest,
    ) -> Result<(), ErrorObject> {
        let unavailable = |why| forwarded_requests::unavailable(why, &self.config.name);
        if self.wire.protocol().is_none() {
            return Err(unavailable("the handshake is not over"));
        }
        match self.attribution.request_target(&self.workload(), Instant::now()).map_err(unavailable)? {
            RequestTarget::Agent(_) if self.forwarded_requests.has(request.id) => {
                Err(ErrorObject::new(INVALID_REQUEST, "a request with this id is unanswered"))
            }
            RequestTarget::Agent(recipient) => {
                let (line, id) = (line.clone(), request.id.clone());
                self.forwarded_requests.send(&mut self.wire, &recipient, line, id, AnswerUse::Server, parsed)
            }
            RequestTarget::Call(call) => suspended_calls::collect(&mut self.wire, call, request).map_err(unavailable),
        }
    }

    /// Sends the server these responses to its requests.
    pub(super) fn send_answers(&mut self, answered: Vec<(Bytes, Bytes)>) {
        for (id, line) in answered {
            self.wire.queue_answer(&id, line, &self.config.name);
        }
    }

    /// The call with this id ends: neither its agent nor its server waits for an answer to a request any more.
    pub(super) fn withdraw_requests_for(&mut self, id: u64, call: &mut PendingCall) {
        if call.bridge.is_some() {
            self.refuse_requests_for(call);
            self.withdraw_inputs(id);
        }
    }

    /// Answers the server's unanswered requests for this call with an error.
    pub(super) fn refuse_requests_for(&mut self, call: &mut PendingCall) {
        for id in call.bridge.as_mut().map(|bridge| bridge.state.take_unanswered()).unwrap_or_default() {
            let error = may_have_arrived_error(ErrorCode::Died, CALL_HAS_ENDED, &self.config.name);
            self.wire.try_queue_line(reply::error(Some(&id), &error));
        }
    }

    /// The inputs of this call are no longer needed.
    pub(super) fn withdraw_inputs(&mut self, call: u64) {
        self.forwarded_requests.withdraw_for(call, CALL_HAS_ENDED);
    }
}
