//! Finds the component that a message of the server concerns, and the pending request that a message or deadline ends.

use std::time::Instant;

use bytes::Bytes;

use super::attribution::SourceStream;
use super::ending::Ending;
use super::pending_request::ServerResponse;
use super::{Effects, Instance, suspended_calls};
use crate::era::Era;
use crate::jsonrpc::pending::parse_own_id;
use crate::jsonrpc::{Message, MessageError};
use crate::server::lifecycle::MAX_RETRY_AFTER;
use crate::server::messages::call::Failure;
use crate::transport::http::{RequestError, is_busy};
use crate::transport::{Arrival, Incoming};

impl Instance {
    /// Takes a message or event of the transport.
    pub(in crate::server) fn arrive(&mut self, arrival: Arrival) -> Effects {
        match arrival {
            Arrival::Incoming { incoming, source_request } => {
                let source_stream = source_request
                    .and_then(|request| Some(SourceStream { request, session: self.wire.session_of(request)? }));
                self.attribution.set_source_stream(source_stream);
                let effects = self.handle_message(incoming);
                self.attribution.set_source_stream(None);
                effects
            }
            Arrival::RequestFailed { request, error } => self.request_failed(request, error),
            Arrival::SessionInDoubt => {
                self.doubt_session();
                Effects::none()
            }
            Arrival::MayWrite => Effects::none(),
        }
    }

    /// Takes a message of the server.
    pub(in crate::server) fn handle_message(&mut self, incoming: Incoming) -> Effects {
        match incoming {
            Incoming::Message { line, message: Message::Response { id, response } } => {
                let response = ServerResponse { id: &id, line: &line, result: response.as_ref() };
                self.end_request(&id, Ending::Response(response))
            }
            // A modern server sends no requests, and gets no responses (MCP 2026-07-28, `basic/transports/stdio`).
            Incoming::Message { message: Message::Request { .. }, .. } if self.wire.era() == Era::Modern => {
                self.stats().skipped_lines.add_one();
                Effects::none()
            }
            Incoming::Message { line, message: Message::Request { id, method, params } } => {
                self.handle_server_request(&line, &id, &method, params.as_ref());
                Effects::none()
            }
            Incoming::Message { line, message: Message::Notification { method, params } } => {
                self.handle_notification(line, &method, params)
            }
            Incoming::TooLarge { id: Some(id), is_response: true, size } => {
                let limit = self.wire.limit().clone();
                self.end_by_unusable_response(&id, Failure::ResponseTooLarge { size: Some(size), limit })
            }
            Incoming::Malformed(MessageError::BadResponse { id }) => {
                self.end_by_unusable_response(&id, Failure::MalformedResponse)
            }
            Incoming::TooLarge { .. } | Incoming::Malformed(_) | Incoming::Unclear(_) => {
                self.stats().skipped_lines.add_one();
                Effects::none()
            }
        }
    }

    fn end_by_unusable_response(&mut self, id: &Bytes, failure: Failure) -> Effects {
        self.stats().skipped_lines.add_one();
        self.end_request(id, Ending::Unusable(failure))
    }

    /// The request with this id gets no response.
    fn request_failed(&mut self, request: u64, error: RequestError) -> Effects {
        if let RequestError::Status { status, retry_after: Some(after), .. } = &error
            && is_busy(*status)
        {
            self.wire.pause_until(Instant::now() + (*after).min(MAX_RETRY_AFTER));
        }
        self.end_request(&request.to_string().into(), Ending::NoResponse(error))
    }

    /// Ends the pending request with this raw id. If there is none, the id may be that of a cancelled call.
    fn end_request(&mut self, id: &Bytes, ending: Ending<'_>) -> Effects {
        let pending = parse_own_id(id).and_then(|id_number| Some((id_number, self.wire.take_with_open_request(id)?)));
        match (pending, ending) {
            (Some((id, pending)), ending) => return self.end(id, pending, ending),
            (None, Ending::Response(response)) => self.receive_stray_response(response),
            (None, _) => self.abandoned.answered(id),
        }
        Effects::none()
    }

    /// The server has sent a response that no request waits for.
    pub(super) fn receive_stray_response(&mut self, ServerResponse { id, result, .. }: ServerResponse<'_>) {
        self.abandoned.answered(id);
        if let Some(task) = self.tasks.note_late_response(&mut self.wire, &mut self.abandoned, id, result) {
            self.disown_task(task);
        }
        self.stats().stray_responses.add_one();
        self.wire.receive_stray_response(id, result);
    }

    /// Ends everything whose deadline has passed.
    pub(in crate::server) fn expire(&mut self, now: Instant) -> Effects {
        suspended_calls::present_due(&mut self.wire, self.tag, now);
        suspended_calls::check_agents(&mut self.wire, now);
        let expired = self.wire.remove_where(|pending| pending.deadline().is_some_and(|at| at <= now));
        self.tasks.expire(now);
        let expired_requests = self.forwarded_requests.expire(&mut self.wire, now);
        self.requests_ended(expired_requests);
        self.subscriptions.expire(now);
        let ends = [self.tasks.next_end(), self.forwarded_requests.next_deadline(), self.subscriptions.next_deadline()];
        self.wire.reset_deadline(ends.into_iter().flatten());
        let mut effects = Effects::none();
        for (id, pending) in expired {
            effects.append(self.end(id, pending, Ending::Expired));
        }
        effects
    }
}
