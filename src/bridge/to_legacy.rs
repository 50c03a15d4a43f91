//! Calls of a modern agent at a legacy server.
//!
//! Requests of the server during the call are collected for a moment. Then the agent is answered `input_required` and the call is
//! suspended: it continues at the server and waits for the agent's retry with the inputs.
//!
//! The `requestState` is a random number. It is valid at one instance for one call of one profile, until the retry or until the call
//! times out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{BridgeError, BridgedRequest, Step};
use crate::client_capabilities::{ClientCapabilities, ClientCapability};
use crate::era::input::{self, RetryResponses};
use crate::era::response::{self, ErrorToModern};
use crate::jsonrpc::members::{NotAnObject, members_of_parsed};
use crate::jsonrpc::reply::{self, ErrorObject, INTERNAL_ERROR};
use crate::printable::excerpt;

/// How long requests of the server are collected. A server that needs several inputs requests them together.
const COLLECT_TIME: Duration = Duration::from_millis(50);
/// Maximum number of requests that one call collects.
const MAX_INPUTS: usize = 16;
/// Maximum number of characters of a key that an error quotes.
const MAX_KEY_LEN: usize = 20;
/// How often the connection of a suspended call's agent is checked. Two checks in a row without a connection end the call. A person
/// may take long to answer, but a disconnected agent returns soon or never, and its call blocks server requests to other agents.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The sender of a modern call.
#[derive(Debug, Default)]
pub(crate) struct ModernAgent {
    /// The profile of the socket that it has connected to.
    pub(crate) profile: Arc<str>,
    /// The capabilities that the request declares.
    pub(crate) capabilities: ClientCapabilities,
}

/// A call of a modern agent.
#[derive(Debug, Default)]
pub(super) struct CallToLegacy {
    pub(super) agent: ModernAgent,
    input_requests: Vec<PendingInputRequest>,
    /// Number of input requests so far, which gives each one its key.
    count: u64,
    /// The server's ids of requests that the agent cannot answer; they are refused when the others are sent to the agent.
    unsupported: Vec<(Bytes, ClientCapability)>,
    /// A capability that the server has needed and the agent has not declared.
    missing: Option<ClientCapability>,
    /// When the agent is answered `input_required` with the collected requests.
    input_required_at: Option<Instant>,
}

/// The state of a suspended call.
#[derive(Debug)]
pub(super) struct Suspension {
    request_state: String,
    /// The time of the next connection check.
    pub(super) check_at: Instant,
    /// The agent was disconnected at the last check.
    was_gone: bool,
    /// The server's response line, if it has arrived.
    pub(super) response: Option<Bytes>,
}

/// A request of a legacy server.
pub(crate) struct ServerRequest<'a> {
    /// The server's id, raw.
    pub(crate) id: &'a Bytes,
    pub(crate) method: &'a Bytes,
    pub(crate) params: Option<&'a Bytes>,
    /// The capability that the agent needs.
    pub(crate) capability: ClientCapability,
}

/// The answer `input_required` with the collected requests.
#[derive(Debug, Default)]
pub(crate) struct InputRequiredAnswer {
    /// The raw result for the agent: `input_required`.
    pub(crate) result: Option<Bytes>,
    /// Ids of requests to be refused, each with the capability that the agent lacks.
    pub(crate) refused: Vec<(Bytes, ClientCapability)>,
}

/// Reads the input responses of a retry. `None` if the request is no retry.
///
/// # Errors
/// If they are malformed.
pub(crate) fn read_retry(line: &Bytes, params: &Bytes) -> Result<Option<RetryResponses>, NotAnObject> {
    if may_be_retry(line) { input::retry_responses(params) } else { Ok(None) }
}

/// Whether the params may have `inputResponses` or `requestState`. A line with a `\u00…` escape counts, because the escape may hide one
/// of the names.
fn may_be_retry(line: &Bytes) -> bool {
    [&b"requestState"[..], b"inputResponses", b"\\u00"].iter().any(|sign| memchr::memmem::find(line, sign).is_some())
}

impl CallToLegacy {
    pub(super) fn new(agent: ModernAgent) -> Self {
        Self { agent, ..Self::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.input_requests.iter().map(PendingInputRequest::bytes).sum()
    }

    pub(super) fn input_required_at(&self) -> Option<Instant> {
        self.input_required_at
    }

    /// Collects a request of the server. `false` if there are too many.
    pub(super) fn on_server_request(&mut self, request: &ServerRequest<'_>, max_bytes: usize, now: Instant) -> bool {
        let bytes = request.params.map_or(0, Bytes::len);
        if self.input_requests.len() + self.unsupported.len() >= MAX_INPUTS || self.bytes() + bytes > max_bytes {
            return false;
        }
        self.input_required_at.get_or_insert(now + COLLECT_TIME);
        if self.agent.capabilities.include(request.capability) {
            self.count += 1;
            let params = request.params.map(|raw| &raw[..]);
            self.input_requests.push(PendingInputRequest::new(self.count, request.id, request.method, params));
        } else {
            self.unsupported.push((Bytes::copy_from_slice(request.id), request.capability));
        }
        true
    }

    /// Answers the waiting agent `input_required` with the collected requests and this `requestState`. Returns the suspension if the
    /// call is suspended.
    pub(super) fn answer_input_required(
        &mut self,
        request_state: Option<String>,
        now: Instant,
    ) -> (InputRequiredAnswer, Option<Suspension>) {
        self.input_required_at = None;
        let refused = std::mem::take(&mut self.unsupported);
        self.missing = self.missing.or(refused.first().map(|(_, capability)| *capability));
        let Some(request_state) = request_state.filter(|_| !self.input_requests.is_empty()) else {
            return (InputRequiredAnswer { result: None, refused }, None);
        };
        let result = input::required(self.input_requests.iter().map(PendingInputRequest::parts), &request_state);
        let check_at = now + CHECK_INTERVAL;
        let suspension = Suspension { request_state, check_at, was_gone: false, response: None };
        (InputRequiredAnswer { result: Some(result.into()), refused }, Some(suspension))
    }

    /// The server has cancelled its request `id`.
    pub(super) fn withdraw(&mut self, id: &Bytes) {
        self.input_requests.retain(|input| input.id() != id);
        self.unsupported.retain(|(unsupported, _)| unsupported != id);
    }

    /// Removes all requests, which nobody will answer. Returns their ids.
    pub(super) fn take_unanswered(&mut self) -> Vec<Bytes> {
        self.input_required_at = None;
        let unsupported = self.unsupported.drain(..).map(|(id, _)| id);
        self.input_requests.drain(..).map(PendingInputRequest::into_id).chain(unsupported).collect()
    }

    /// The agent has retried the call with these responses. Returns the answered ids with the response lines for the server.
    pub(super) fn resume(
        &mut self,
        capabilities: ClientCapabilities,
        responses: &[(Bytes, Bytes)],
    ) -> Vec<(Bytes, Bytes)> {
        self.agent.capabilities = capabilities;
        take_answered(&mut self.input_requests, responses)
    }

    /// The server has answered.
    pub(super) fn on_response(&self, request: &BridgedRequest, outcome: Result<&Bytes, &Bytes>) -> Step {
        if let Some(capability) = self.missing.filter(|_| is_failure(outcome)) {
            return Step::MissingCapability(capability);
        }
        match outcome {
            Ok(result) => match response::result_to_modern(result, request.caching()) {
                Ok(changes) => Step::ForwardResponse(changes),
                Err(NotAnObject) => Step::Fail(BridgeError::Malformed),
            },
            Err(raw) => match response::error_to_modern(request.method(), raw) {
                ErrorToModern::Unchanged => Step::ForwardResponse(Vec::new()),
                ErrorToModern::Changed(change) => Step::ForwardResponse(vec![change]),
                ErrorToModern::Required(required) if self.agent.capabilities.include(ClientCapability::Url) => {
                    Step::RequireUrls(required.into())
                }
                ErrorToModern::Required(_) => Step::ForwardResponse(response::without_urls(raw).into_iter().collect()),
            },
        }
    }
}

/// Whether the response is an error or a tool result with `isError`.
fn is_failure(outcome: Result<&Bytes, &Bytes>) -> bool {
    let failed =
        |result: &Bytes| members_of_parsed(result, ["isError"]).is_ok_and(|[raw]| raw.as_deref() == Some(b"true"));
    outcome.map_or(true, failed)
}

impl Suspension {
    pub(super) fn is_for(&self, request_state: &[u8]) -> bool {
        self.request_state.as_bytes() == request_state
    }

    /// Checks the connection when it is time. `true` if the agent was gone twice in a row.
    pub(super) fn check_connection(&mut self, is_gone: bool, now: Instant) -> bool {
        if now < self.check_at {
            return false;
        }
        let was_gone = std::mem::replace(&mut self.was_gone, is_gone);
        self.check_at = now + CHECK_INTERVAL;
        was_gone && is_gone
    }
}

/// The error for a retry whose URLs, required by a legacy server, were not opened.
pub(crate) fn unopened_urls(request: &BridgedRequest, server: &str) -> Option<ErrorObject> {
    let (key, refusal) = response::unopened(request.params())?;
    let key = excerpt(&key, MAX_KEY_LEN);
    let why = format!("the server does this only after a URL was opened, which was {refusal} (`{key}`)");
    Some(ErrorObject::new(INTERNAL_ERROR, why).about_server(server))
}

/// A request of the server that its agent has not answered.
#[derive(Debug)]
pub(crate) struct PendingInputRequest {
    /// The key in `inputRequests`.
    key: String,
    /// The server's id, raw.
    id: Bytes,
    /// As text.
    method: Bytes,
    params: Option<Bytes>,
}

impl PendingInputRequest {
    /// Copies the parts, so that the input does not keep a large line in memory.
    pub(crate) fn new(number: u64, id: &[u8], method: &[u8], params: Option<&[u8]>) -> Self {
        let [id, method] = [id, method].map(Bytes::copy_from_slice);
        Self { key: number.to_string(), id, method, params: params.map(Bytes::copy_from_slice) }
    }

    pub(crate) fn id(&self) -> &Bytes {
        &self.id
    }

    pub(crate) fn into_id(self) -> Bytes {
        self.id
    }

    /// The size that counts against the limits.
    pub(crate) fn bytes(&self) -> usize {
        self.params.as_ref().map_or(0, Bytes::len)
    }

    /// Key, method and params, as in `inputRequests`.
    pub(crate) fn parts(&self) -> (&str, &[u8], Option<&Bytes>) {
        (&self.key, &self.method, self.params.as_ref())
    }
}

/// Removes the inputs that these responses answer. Returns the server's ids, each with the response line for it.
pub(crate) fn take_answered(
    inputs: &mut Vec<PendingInputRequest>,
    responses: &[(Bytes, Bytes)],
) -> Vec<(Bytes, Bytes)> {
    let mut lines = Vec::new();
    for (key, result) in responses {
        if let Some(index) = inputs.iter().position(|input| input.key.as_bytes() == &key[..]) {
            let input = inputs.remove(index);
            let line = reply::result(&input.id, result);
            lines.push((input.id, line));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_that_is_gone_at_two_checks_in_a_row_is_gone_for_good() {
        let now = Instant::now();
        let (mut suspension, mut seconds) = (
            Suspension {
                request_state: String::new(),
                check_at: now + CHECK_INTERVAL,
                was_gone: false,
                response: None,
            },
            0,
        );
        for (after, is_gone, expected) in [
            (29, true, false),
            (1, false, false),
            (60, true, false),
            (29, true, false),
            (1, false, false),
            (31, true, false),
            (30, true, true),
        ] {
            seconds += after;
            let now = now + Duration::from_secs(seconds);
            assert_eq!(suspension.check_connection(is_gone, now), expected, "after {seconds} s");
        }
    }
}
