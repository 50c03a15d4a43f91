//! Requests of servers to the agent: sampling, elicitation and roots.
//!
//! The agent receives them under ids that the session assigns, because two servers may use the same id. Each request has a
//! [`ServerResponseHandle`], which sends an error if the session drops it, and a channel that ends once the server needs no response.
//!
//! Source: MCP 2025-11-25, `client/sampling`, `client/elicitation`, `client/roots`, `basic/utilities/cancellation` and `progress`.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::FutureExt;

use super::agent::{AgentInfo, SessionStatus};
use super::events::{Event, Events};
use super::output::Output;
use super::transport::{Address, Transport};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::pending::{Match, Pending};
use crate::jsonrpc::reply::{self, ErrorObject};
use crate::jsonrpc::splice::{Edit, splice};
use crate::server::server_request::{ForwardedRequest, ServerResponseHandle, Withdrawal};

/// Maximum number of unanswered requests from all servers to one agent. One more is refused with −31003. It is higher than the limit of one
/// instance.
const MAX_REQUESTS: usize = 128;
/// Longest progress notification that is forwarded, in bytes. A longer one is dropped, because nothing limits how many of
/// them wait for a server that does not read.
const MAX_NOTIFICATION: usize = 64 << 10;

pub(super) struct ServerRequests {
    unanswered: Pending<UnansweredRequest>,
    /// Those that arrived before `notifications/initialized`.
    early: Vec<ForwardedRequest>,
    /// The agent can answer no more.
    is_closed: bool,
    /// Counts stray responses.
    status: Arc<SessionStatus>,
}

/// A request that the agent has received.
struct UnansweredRequest {
    response_handle: ServerResponseHandle,
    /// The server's token, raw.
    progress_token: Option<Bytes>,
}

impl ServerRequests {
    pub(super) fn new(status: Arc<SessionStatus>) -> Self {
        Self { unanswered: Pending::default(), early: Vec::new(), is_closed: false, status }
    }

    /// Uses ids from `first` on, because the agent has received requests with lower ones.
    pub(super) fn begin_at(&mut self, first: Option<u64>) {
        self.unanswered = first.map_or_else(Pending::default, Pending::beginning_at);
    }

    /// Forwards a server's request to the agent, or refuses it.
    pub(super) fn receive(
        &mut self,
        request: ForwardedRequest,
        agent: &AgentInfo,
        output: &mut Output<impl Transport>,
        events: &mut Events,
    ) {
        self.early.retain_mut(ForwardedRequest::is_pending);
        if !agent.supports(request.capability) {
            request.response_handle.refuse_undeclared(request.capability);
        } else if agent.protocol_version().is_none() {
            request.response_handle.not_delivered(
                ErrorCode::Unavailable,
                "the agent uses MCP 2026-07-28, so it can get only requests that belong to one of its calls",
            );
        } else if self.is_closed {
            request.response_handle.not_delivered(ErrorCode::Unavailable, "the agent has closed its sending side");
        } else if self.unanswered.len() + self.early.len() >= MAX_REQUESTS {
            request.response_handle.not_delivered(ErrorCode::Overloaded, "the agent has too many unanswered requests");
        } else if !output.limit().permits(&request.line) {
            let why = format!("the request {}", output.limit().excess(Some(request.line.len())));
            request.response_handle.not_delivered(ErrorCode::TooLarge, &why);
        } else if !output.has_room() {
            request.response_handle.not_delivered(ErrorCode::Overloaded, "the agent does not read");
        } else if agent.is_ready() {
            self.send(request, output, events);
        } else {
            self.early.push(request);
        }
    }

    /// Two servers may choose the same id and the same token: the id that the session assigns replaces both.
    fn send(&mut self, mut request: ForwardedRequest, output: &mut Output<impl Transport>, events: &mut Events) {
        // It may have waited for the agent to be ready.
        if !request.is_pending() {
            return;
        }
        let ForwardedRequest { line, id, progress_token, response_handle, withdrawn, .. } = request;
        self.unanswered.register(|assigned_id| {
            let mut digits = itoa::Buffer::new();
            let replacement = digits.format(assigned_id).as_bytes();
            let token = progress_token.as_ref().unwrap_or(&id);
            let mut edits = [Edit { part: &id, replacement }, Edit { part: token, replacement }];
            let edits = if progress_token.is_some() { &mut edits[..] } else { &mut edits[..1] };
            output.send(Address::Session, splice(&line, edits));
            events.push(withdrawn.map(move |withdrawal| Event::Withdrawn(assigned_id, withdrawal.ok())));
            let progress_token = progress_token.as_deref().map(Bytes::copy_from_slice);
            UnansweredRequest { response_handle, progress_token }
        });
    }

    /// The agent is ready, and receives what arrived before.
    pub(super) fn send_early(&mut self, output: &mut Output<impl Transport>, events: &mut Events) {
        for request in std::mem::take(&mut self.early) {
            self.send(request, output, events);
        }
    }

    /// The agent has answered the request with this id.
    pub(super) fn answer(&mut self, line: &Bytes, id: &Bytes) {
        if let Some(UnansweredRequest { response_handle, .. }) = self.take(id) {
            let line = splice(line, &mut [Edit { part: id, replacement: response_handle.id() }]);
            response_handle.answer(line);
        }
    }

    /// The agent has answered with an invalid response.
    pub(super) fn refuse(&mut self, id: &Bytes, code: i32, why: &str) {
        if let Some(UnansweredRequest { response_handle, .. }) = self.take(id) {
            response_handle.refuse(&ErrorObject::new(code, why));
        }
    }

    /// The agent has sent a response to no request.
    pub(super) fn count_stray_response(&self) {
        self.status.stray_responses.add_one();
    }

    fn take(&mut self, id: &Bytes) -> Option<UnansweredRequest> {
        match self.unanswered.take(id) {
            Match::Owner(request) => Some(request),
            Match::Unknown => {
                self.count_stray_response();
                None
            }
        }
    }

    /// Forwards the agent's progress notification to the server whose request it is about.
    pub(super) fn forward_progress(&mut self, line: &Bytes, token: &Bytes) {
        if line.len() > MAX_NOTIFICATION {
            return;
        }
        if let Some(UnansweredRequest { response_handle, progress_token: Some(server_token), .. }) =
            self.unanswered.get_mut(token)
        {
            response_handle.progress(splice(line, &mut [Edit { part: token, replacement: server_token }]));
        }
    }

    /// A server does not need the response any more. The agent is notified, unless it has answered.
    pub(super) fn withdraw(&mut self, id: u64, withdrawal: Option<Withdrawal>, output: &mut Output<impl Transport>) {
        let mut digits = itoa::Buffer::new();
        let replacement = digits.format(id).as_bytes();
        let Match::Owner(_) = self.unanswered.take(replacement) else { return };
        let line = match withdrawal {
            Some(Withdrawal::Cancelled(cancellation)) => {
                splice(&cancellation.line, &mut [Edit { part: &cancellation.request, replacement }])
            }
            Some(Withdrawal::Reason(reason)) => reply::cancelled(id, reason),
            None => reply::cancelled(id, "the server has gone"),
        };
        output.send(Address::Session, line);
    }

    /// The agent sends nothing more: every request fails.
    pub(super) fn close(&mut self) {
        *self = Self { is_closed: true, ..Self::new(Arc::clone(&self.status)) };
    }
}
