//! What is queued and pending on the link to a server: lines to write, requests that it has not answered, and when the next of them
//! expires.
//!
//! Components of an instance receive it as `&mut Wire`; no component has a reference to another. The [`PendingRequest`] of a response
//! decides its meaning.

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use memchr::memmem;
use serde::Serialize;
use serde_json::Value;

use super::pending_request::{Bridge, PendingCall, PendingRequest};
use crate::era::{self, Era};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::pending::{Match, Pending, parse_own_id};
use crate::jsonrpc::{Message, reply};
use crate::message_limit::MessageLimit;
use crate::server::evidence::Evidence;
use crate::server::fairness::MAX_IN_FLIGHT;
use crate::server::link::{Link, LinkError, RemoteTransport};
use crate::server::messages::call::CallKey;
use crate::server::server_request::may_have_arrived_error;
use crate::tap::TapPoint;
use crate::transport::http::HeaderParams;
use crate::transport::{Arrival, Incoming, Outbox};

/// Maximum number of queued lines for a server that does not read. Beyond it calls are refused. Lines of cancelled calls count too, so
/// that cancelling calls in a loop fills no memory.
pub(super) const MAX_LINES: usize = 16 * MAX_IN_FLIGHT;

/// Maximum size in bytes of a small line. Small lines have a separate limit while the server does not read.
pub(super) const MAX_SMALL_LINE: usize = 4 << 10;

/// Bytes that are kept of the last line. The method stands in them, except after large params.
const MAX_KEPT: usize = 96;

/// One connection.
pub(in crate::server) struct Wire {
    link: Link,
    outbox: Outbox,
    pending: Pending<PendingRequest>,
    /// No pending request expires earlier.
    next_deadline: Option<Instant>,
    /// `None` until the handshake has ended.
    protocol: Option<&'static str>,
    limit: MessageLimit,
    /// The server accepts no calls before this time.
    paused_until: Option<Instant>,
    /// The response to a request of the handshake had no `jsonrpc`, so those to later requests need none either.
    is_unversioned: bool,
    last_line: LastLine,
    evidence: Evidence,
}

impl Wire {
    pub(super) fn new(mut link: Link, limit: MessageLimit, tap: TapPoint) -> Self {
        let (outbox, pending) = (link.tapped_outbox(tap), Pending::default());
        Self {
            link,
            outbox,
            pending,
            next_deadline: None,
            protocol: None,
            limit,
            paused_until: None,
            is_unversioned: false,
            last_line: LastLine::default(),
            evidence: Evidence::default(),
        }
    }

    /// Closes the connection and returns its transport.
    pub(in crate::server) fn into_link(self) -> Link {
        self.link
    }

    /// The limit of each message, each way.
    pub(super) fn limit(&self) -> &MessageLimit {
        &self.limit
    }

    /// The unit of the limits of buffers, in bytes.
    pub(super) fn buffer_unit(&self) -> usize {
        self.limit.buffer_unit()
    }
}

/// The protocol version.
impl Wire {
    pub(in crate::server) fn protocol(&self) -> Option<&'static str> {
        self.protocol
    }

    /// The server's era; legacy before the handshake has ended.
    pub(in crate::server) fn era(&self) -> Era {
        self.protocol.map_or(Era::Legacy, era::of)
    }

    /// Uses this version from now on, and drops the requests of the handshake that are unanswered.
    pub(in crate::server) fn negotiated(&mut self, protocol: &'static str) {
        self.protocol = Some(protocol);
        match self.era() {
            Era::Legacy => {
                let initialized = self.queue_line(reply::notification("notifications/initialized"));
                self.link.set_protocol(protocol, initialized);
            }
            Era::Modern => self.link.switch_to_modern(),
        }
        for (id, _) in self.remove_where(PendingRequest::is_handshake_request) {
            self.link.cancel(id);
        }
    }

    /// The server has answered in the modern era: a failing `initialize` does not end the connection any more.
    pub(in crate::server) fn note_modern_support(&mut self) {
        self.link.note_modern_support();
    }

    /// Whether the server has answered in the modern era, and may support the legacy era as well.
    pub(in crate::server) fn is_known_modern(&self) -> bool {
        self.link.is_known_modern()
    }
}

/// Input and output.
impl Wire {
    /// Writes as much as the server accepts. Pending if it accepts nothing; ready if there is nothing to write.
    pub(in crate::server) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        self.link.poll_write(cx, &mut self.outbox)
    }

    /// The next message or event. May be cancelled without loss.
    pub(in crate::server) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Arrival, LinkError>> {
        let mut arrival = ready!(self.link.poll_next(cx))?;
        if let Arrival::Incoming { incoming: incoming @ Incoming::Unclear(_), .. } = &mut arrival {
            self.clarify(incoming);
        }
        Poll::Ready(Ok(arrival))
    }

    /// The next message, if it was read already.
    pub(in crate::server) fn next_buffered(&mut self) -> Option<Incoming> {
        let mut incoming = self.link.next_buffered()?;
        self.clarify(&mut incoming);
        Some(incoming)
    }

    /// Decides about a line that is not a message.
    fn clarify(&mut self, incoming: &mut Incoming) {
        let Incoming::Unclear(unclear) = incoming else { return };
        let error = unclear.error.clone();
        *incoming = match unclear.unversioned.take() {
            Some((line, message)) if self.tolerates(&message) => Incoming::Message { line, message },
            _ => {
                self.evidence.note_skipped(&unclear.line);
                Incoming::Malformed(error)
            }
        };
    }

    /// What the server has left that may explain its failure.
    pub(in crate::server) fn evidence(&self) -> Evidence {
        let mut evidence = self.evidence.clone();
        if self.protocol.is_some() {
            evidence.note_served();
        }
        self.link.note_pipes(self.outbox.written(), &mut evidence);
        let is_unanswered = |id| self.pending.with_ids().any(|(pending, _)| pending == id);
        if !self.has_unwritten() && self.last_line.request.is_none_or(is_unanswered) {
            self.last_line.method().into_iter().for_each(|method| evidence.note_last_message(method));
        }
        evidence
    }

    /// The server has sent a response with an id that no pending request has.
    pub(in crate::server) fn receive_stray_response(&mut self, id: &[u8], outcome: Result<&Bytes, &Bytes>) {
        let is_late = parse_own_id(id).is_some_and(|id| id < self.next_id());
        if !is_late {
            self.evidence.note_unused_id(id, outcome.err().map(|error| &error[..]));
        }
    }

    /// Whether this message may lack its version.
    fn tolerates(&mut self, message: &Message) -> bool {
        let Message::Response { id, .. } = message else { return false };
        self.is_unversioned |= self.get_mut(id).is_some_and(|pending| pending.is_handshake_request());
        self.is_unversioned
    }

    /// Whether lines wait to be written.
    pub(in crate::server) fn has_unwritten(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// The transport of a server at a URL.
    pub(in crate::server) fn remote(&self) -> Option<RemoteTransport> {
        self.link.remote()
    }

    /// Waits until the program of this server listens at its URL, if it has one.
    pub(in crate::server) async fn wait_listening(&mut self) -> Result<(), LinkError> {
        self.link.wait_listening().await
    }

    /// Whether it is a session with a server at a URL.
    pub(super) fn is_remote_session(&self) -> bool {
        self.protocol.is_some() && self.era() == Era::Legacy && !self.is_stdio()
    }

    /// States this version in the headers of all requests until another one is negotiated.
    pub(in crate::server) fn state_protocol(&mut self, protocol: &'static str) {
        self.link.state_protocol(protocol);
    }

    /// The server has forgotten the session: the connection is over.
    pub(super) fn forget_session(&mut self) {
        self.link.forget_session();
    }

    /// Whether the server is a process.
    pub(in crate::server) fn is_stdio(&self) -> bool {
        matches!(self.link, Link::Pipes { .. })
    }

    /// Whether parts of requests are repeated in HTTP headers.
    pub(super) fn has_headers(&self) -> bool {
        self.link.sends_header_params()
    }

    /// The arguments of tools that are repeated in HTTP headers.
    pub(super) fn set_header_params(&mut self, params: HeaderParams) {
        self.link.set_header_params(params);
    }
}

/// Lines to the server.
impl Wire {
    /// Queues a notification or a response. Returns its number in the outbox.
    pub(in crate::server) fn queue_line(&mut self, line: Bytes) -> u64 {
        self.last_line.note(&line, None);
        self.outbox.push(line)
    }

    /// Queues a notification or a response, unless it is too large, or the queue of a server that does not read is full. Small lines have a
    /// separate limit.
    /// Returns whether the line was queued.
    pub(super) fn try_queue_line(&mut self, line: Bytes) -> bool {
        let is_small = line.len() <= MAX_SMALL_LINE && self.outbox.lines() < MAX_LINES;
        let has_room = self.limit.permits(&line) && (is_small || self.outbox.bytes() <= self.buffer_unit());
        if has_room {
            self.queue_line(line);
        }
        has_room
    }

    /// Queues an agent's response to the request `id` of the server, or else an error that says why the server does not receive it.
    pub(super) fn queue_answer(&mut self, id: &Bytes, line: Bytes, server: &str) {
        let (size, is_permitted) = (line.len() - 1, self.limit.permits(&line));
        if self.try_queue_line(line) {
            return;
        }
        let (code, why) = if is_permitted {
            (ErrorCode::Overloaded, "was dropped, because the server does not read its input".to_owned())
        } else {
            (ErrorCode::TooLarge, self.limit.excess(Some(size)))
        };
        let error = may_have_arrived_error(code, &format!("the answer of the agent {why}"), server);
        self.try_queue_line(reply::error(Some(id), &error));
    }

    /// Queues a request of mcpd with the `_meta` that its era requires.
    pub(in crate::server) fn own_request(&mut self, method: &str, mut params: Value, entry: PendingRequest) {
        if self.era() == Era::Modern {
            params["_meta"] = era::own_params()["_meta"].take();
        }
        self.request(method, &params, entry);
    }

    /// Queues a request of mcpd without changes, and returns its id.
    pub(in crate::server) fn request(&mut self, method: &str, params: &impl Serialize, entry: PendingRequest) -> u64 {
        if let Some(deadline) = entry.next_check_at() {
            self.expire_by(deadline);
        }
        let Self { outbox, link, last_line, .. } = self;
        self.pending.register(|id| {
            push_request((outbox, link, last_line), id, reply::request(id, method, params));
            entry
        })
    }

    /// Queues the request of a call. `line` builds it from the new id. `Err` has the call and the size of a request that is too large.
    pub(super) fn send_call(
        &mut self,
        mut call: PendingCall,
        line: impl FnOnce(u64) -> Bytes,
    ) -> Result<(), Box<(PendingCall, usize)>> {
        let line = line(self.next_id());
        if !self.limit.permits(&line) {
            return Err(Box::new((call, line.len() - 1)));
        }
        let Self { outbox, link, last_line, .. } = self;
        self.pending.register(|id| {
            call.line = push_request((outbox, link, last_line), id, line);
            if let Some(span) = call.response_handle.span_mut() {
                span.set_request_id(id);
            }
            PendingRequest::Call(call)
        });
        Ok(())
    }

    /// Registers a call that is not at the server now, and returns the id that it has until it is sent again.
    pub(super) fn register_without_request(&mut self, call: PendingCall) -> u64 {
        self.pending.register(|_| PendingRequest::Call(call))
    }

    /// Whether writing of this line has begun.
    pub(super) fn has_begun(&self, line: u64) -> bool {
        self.outbox.has_begun(line)
    }

    /// Removes a line if none of it was written. Returns whether it was removed.
    pub(super) fn retract(&mut self, line: u64) -> bool {
        self.outbox.retract(line)
    }

    /// Number of unwritten lines.
    pub(super) fn unwritten_lines(&self) -> usize {
        self.outbox.lines()
    }

    /// Whether the queue and this many more bytes would exceed one buffer unit.
    pub(super) fn is_full_with(&self, bytes: usize) -> bool {
        self.has_unwritten() && self.outbox.bytes() + bytes > self.buffer_unit()
    }
}

/// Pauses that a server at a URL requires (`Retry-After`).
impl Wire {
    /// Sets the time before which the server accepts no calls.
    pub(super) fn pause_until(&mut self, at: Instant) {
        self.paused_until = Some(at);
    }

    /// The remaining time in which the server accepts no calls.
    pub(super) fn paused_for(&self) -> Option<Duration> {
        let left = self.paused_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

/// Requests that the server has not answered.
impl Wire {
    /// Takes the request with this raw id.
    pub(in crate::server) fn take(&mut self, id: &[u8]) -> Option<PendingRequest> {
        match self.pending.take(id) {
            Match::Owner(entry) => Some(entry),
            Match::Unknown => None,
        }
    }

    /// The request with this raw id.
    pub(super) fn get_mut(&mut self, id: &[u8]) -> Option<&mut PendingRequest> {
        self.pending.get_mut(id)
    }

    /// The call that is pending under this id.
    pub(super) fn call_mut(&mut self, id: u64) -> Option<&mut PendingCall> {
        self.pending.get_mut(itoa::Buffer::new().format(id).as_bytes())?.call_mut()
    }

    /// Takes the call that is pending under this id.
    pub(super) fn take_call(&mut self, id: u64) -> Option<PendingCall> {
        self.call_mut(id)?;
        match self.take(itoa::Buffer::new().format(id).as_bytes()) {
            Some(PendingRequest::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// Takes the call with this key, with the id that the server knows it by.
    pub(super) fn take_call_of(&mut self, key: CallKey) -> Option<(u64, PendingCall)> {
        let (id, _) = self.calls().find(|(_, call)| call.response_handle.key == key)?;
        Some((id, self.take_call(id)?))
    }

    /// What the call under this id has as a call between the eras.
    pub(super) fn bridge_mut(&mut self, id: u64) -> Option<&mut Bridge> {
        self.call_mut(id)?.bridge.as_deref_mut()
    }

    /// The session of the call that is pending under this id.
    pub(super) fn session_of(&mut self, id: u64) -> Option<u64> {
        Some(self.call_mut(id)?.response_handle.key.session)
    }

    /// Every call, with the id that the server knows it by.
    pub(super) fn calls(&self) -> impl Iterator<Item = (u64, &PendingCall)> {
        self.pending.with_ids().filter_map(|(id, pending)| Some((id, pending.call()?)))
    }

    /// All calls but suspended ones that the server has answered.
    pub(super) fn unanswered_calls(&self) -> impl Iterator<Item = (u64, &PendingCall)> {
        self.calls().filter(|(_, call)| !call.is_answered())
    }

    /// Every call between the eras, with its id.
    pub(super) fn bridges(&self) -> impl Iterator<Item = (u64, &Bridge)> {
        self.calls().filter_map(|(id, call)| Some((id, call.bridge.as_deref()?)))
    }

    /// Every call, to be changed.
    pub(super) fn calls_mut(&mut self) -> impl Iterator<Item = &mut PendingCall> {
        self.pending.iter_mut().filter_map(PendingRequest::call_mut)
    }

    /// Restarts the time limits of the calls of this session. Returns whether there are any.
    pub(super) fn extend_calls(&mut self, session: u64) -> bool {
        let (now, mut any) = (Instant::now(), false);
        for call in self.calls_mut().filter(|call| call.response_handle.key.session == session) {
            call.deadline.extend(now);
            any = true;
        }
        any
    }

    /// Restarts the time limits of requests for the result of this task.
    pub(super) fn extend_results(&mut self, task: &[u8]) {
        let now = Instant::now();
        self.calls_mut().filter(|call| call.awaits(task)).for_each(|call| call.deadline.extend(now));
    }

    /// Takes the request with this raw id, unless it is a call without a request at the server, which does not know
    /// the id.
    pub(super) fn take_with_open_request(&mut self, id: &[u8]) -> Option<PendingRequest> {
        match self.get_mut(id) {
            Some(PendingRequest::Call(call)) if call.has_no_pending_request() => None,
            _ => self.take(id),
        }
    }

    /// Removes every request that `condition` holds for, with their ids.
    pub(in crate::server) fn remove_where(
        &mut self,
        condition: impl Fn(&PendingRequest) -> bool,
    ) -> Vec<(u64, PendingRequest)> {
        self.pending.remove_where(condition)
    }

    /// Removes every unwritten call that `condition` holds for, and takes back its line, which is empty for a call without a request at
    /// the server.
    pub(super) fn retract_calls_where(
        &mut self,
        condition: impl Fn(&PendingCall) -> bool,
    ) -> Vec<(PendingCall, Bytes)> {
        let outbox = &mut self.outbox;
        let is_it = |call: &PendingCall| !outbox.has_begun(call.line) && condition(call);
        let removed = self.pending.remove_where(|pending| pending.call().is_some_and(&is_it)).into_iter();
        let calls = removed.filter_map(|(_, pending)| pending.into_call());
        calls
            .map(|call| {
                let line = outbox.take(call.line).unwrap_or_default();
                (call, line)
            })
            .collect()
    }

    /// Whether any pending request is one of these.
    pub(in crate::server) fn has_pending(&self, condition: impl Fn(&PendingRequest) -> bool) -> bool {
        self.pending.iter().any(condition)
    }

    /// The id that the next request gets.
    pub(super) fn next_id(&self) -> u64 {
        self.pending.next()
    }

    /// Keeps this `subscriptions/listen` request open: it does not expire any more.
    pub(super) fn keep_open(&mut self, id: u64) {
        if let Some(PendingRequest::Listen { acknowledge_by }) = self.get_mut(itoa::Buffer::new().format(id).as_bytes())
        {
            *acknowledge_by = None;
        }
    }

    /// Keeps this request pending, but ignores its response.
    pub(super) fn ignore_response(&mut self, id: u64, deadline: Instant) {
        self.expire_by(deadline);
        if let Some(entry) = self.get_mut(itoa::Buffer::new().format(id).as_bytes()) {
            *entry = PendingRequest::Ignored { deadline };
        }
    }

    /// Stops waiting for the HTTP response to this request.
    pub(in crate::server) fn abandon_http_response(&mut self, id: u64) {
        self.link.cancel(id);
    }
}

/// Deadlines.
impl Wire {
    /// When [`Instance::expire`](super::Instance::expire) has to be called next.
    pub(in crate::server) fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline
    }

    /// Schedules the next call at this time or earlier.
    pub(super) fn expire_by(&mut self, deadline: Instant) {
        self.next_deadline = Some(self.next_deadline.map_or(deadline, |next| next.min(deadline)));
    }

    /// Sets the next time to the earliest of these and of the deadlines of the pending requests.
    pub(super) fn reset_deadline(&mut self, others: impl Iterator<Item = Instant>) {
        self.next_deadline = self.pending.iter().filter_map(PendingRequest::next_check_at).chain(others).min();
    }
}

/// Queues the line of a request. Returns its number in the outbox.
fn push_request((outbox, link, last): (&mut Outbox, &mut Link, &mut LastLine), id: u64, line: Bytes) -> u64 {
    last.note(&line, Some(id));
    let number = outbox.push(line);
    link.register_request(number, id);
    number
}

/// The beginning of the last line that was queued.
#[derive(Debug, Default)]
struct LastLine {
    beginning: Vec<u8>,
    /// The id, if it is a request.
    request: Option<u64>,
}

impl LastLine {
    fn note(&mut self, line: &[u8], request: Option<u64>) {
        self.beginning.clear();
        self.beginning.extend_from_slice(&line[..line.len().min(MAX_KEPT)]);
        self.request = request;
    }

    /// The method, if the line has one and it stands before the params.
    fn method(&self) -> Option<String> {
        let envelope = &self.beginning[..memmem::find(&self.beginning, br#""params""#).unwrap_or(self.beginning.len())];
        let at = memmem::find(envelope, br#""method""#)? + br#""method""#.len();
        let value = envelope[at..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
        let end = memchr::memchr(b'"', value)?;
        String::from_utf8(value[..end].to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_is_read_only_before_the_params() {
        for (line, method) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#, Some("tools/call")),
            (r#"{"method" : "ping", "id":1}"#, Some("ping")),
            (r#"{"params":{"method":"secret"},"method":"ping"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None),
            (r#"{"method":"cut"#, None),
        ] {
            let mut last = LastLine::default();
            last.note(line.as_bytes(), None);
            assert_eq!(last.method().as_deref(), method, "{line}");
        }
    }
}
