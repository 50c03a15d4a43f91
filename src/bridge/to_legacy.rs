//! Calls of a modern agent at a legacy server. What the server requests during the call is collected for a moment and answers the
//! call as `input_required`; then the call is suspended until the agent retries it with its inputs, while it goes on at the server.
//!
//! The `requestState` is a random number that one instance knows, for one call of one profile, until it is used once or the call has
//! timed out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::inputs::{PendingInput, take_answered};
use super::request::BridgedRequest;
use super::step::{BridgeError, Step, TaskStep};
use crate::client_capabilities::{ClientCapabilities, ClientCapability};
use crate::era::error::{self, ErrorToModern};
use crate::era::input::{self, Given};
use crate::era::result::{self, Cached};
use crate::era::task::made_to_modern;
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::reply::{ErrorObject, INTERNAL_ERROR};
use crate::printable::excerpt;

/// How long requests of the server are collected. A server that needs several inputs requests them together.
const COLLECT: Duration = Duration::from_millis(50);
/// Requests of the server that one call collects.
const MAX_INPUTS: usize = 16;
/// Characters shown of a key that the agent has chosen.
const MAX_KEY_LEN: usize = 20;
/// How often a suspended call looks for its agent. A person may take long to answer, but an agent that has disconnected returns soon or
/// never, and until its call ends a shared server can send requests to nobody else. Two checks in a row without the agent end the call.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Who has sent a modern call.
#[derive(Debug, Default)]
pub(crate) struct ModernAgent {
    /// The profile of the socket.
    pub(crate) profile: Arc<str>,
    /// What the request declares.
    pub(crate) capabilities: ClientCapabilities,
}

/// A call of a modern agent.
#[derive(Debug, Default)]
pub(super) struct ToLegacy {
    pub(super) agent: ModernAgent,
    /// The server is requested to make a task of it.
    pub(super) creates_task: bool,
    inputs: Vec<PendingInput>,
    /// How many there have been.
    count: u64,
    /// The server's ids of requests that the agent cannot answer; they are refused when the others are presented.
    unsupported: Vec<(Bytes, ClientCapability)>,
    /// A capability that the server needed and the agent has not declared.
    missing: Option<ClientCapability>,
    /// When the collected requests are presented.
    present_at: Option<Instant>,
}

/// What a suspended call waits with.
#[derive(Debug)]
pub(super) struct Suspension {
    state: String,
    /// When to look for the agent.
    pub(super) check_at: Instant,
    /// It was gone at the last check.
    was_gone: bool,
    /// The server's response, which arrived meanwhile: the whole line.
    pub(super) response: Option<Bytes>,
}

/// A request of a legacy server.
pub(crate) struct ServerRequest<'a> {
    /// The server's id, raw.
    pub(crate) id: &'a Bytes,
    pub(crate) method: &'a Bytes,
    pub(crate) params: Option<&'a Bytes>,
    /// What the agent has to support.
    pub(crate) capability: ClientCapability,
}

/// What is to be sent when the collected requests are presented.
#[derive(Debug, Default)]
pub(crate) struct Presentation {
    /// The raw result for the agent: `input_required`.
    pub(crate) result: Option<Bytes>,
    /// Requests of the server to be refused, with the capability that the agent lacks.
    pub(crate) refused: Vec<(Bytes, ClientCapability)>,
}

/// The agent's retry of a call, if its params say that it is one.
///
/// # Errors
/// If they are malformed.
pub(crate) fn retry(line: &Bytes, params: &Bytes) -> Result<Option<Given>, NotAnObject> {
    if may_be_retry(line) { input::given(params) } else { Ok(None) }
}

/// Whether the params may have `inputResponses` or `requestState`, which an escaped letter can hide.
fn may_be_retry(line: &Bytes) -> bool {
    [&b"requestState"[..], b"inputResponses", b"\\u00"].iter().any(|sign| memchr::memmem::find(line, sign).is_some())
}

impl ToLegacy {
    pub(super) fn new(agent: ModernAgent) -> Self {
        Self { agent, ..Self::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.inputs.iter().map(PendingInput::bytes).sum()
    }

    pub(super) fn present_at(&self) -> Option<Instant> {
        self.present_at
    }

    /// Collects a request of the server. `false` if there are too many.
    pub(super) fn request(&mut self, request: &ServerRequest<'_>, max_bytes: usize, now: Instant) -> bool {
        let bytes = request.params.map_or(0, Bytes::len);
        if self.inputs.len() + self.unsupported.len() >= MAX_INPUTS || self.bytes() + bytes > max_bytes {
            return false;
        }
        self.present_at.get_or_insert(now + COLLECT);
        if self.agent.capabilities.include(request.capability) {
            self.count += 1;
            let params = request.params.map(|raw| &raw[..]);
            self.inputs.push(PendingInput::new(self.count, request.id, request.method, params));
        } else {
            self.unsupported.push((Bytes::copy_from_slice(request.id), request.capability));
        }
        true
    }

    /// Presents what was collected: to an agent that waits, with this new state. Returns the suspension if the call is suspended.
    pub(super) fn present(&mut self, state: Option<String>, now: Instant) -> (Presentation, Option<Suspension>) {
        self.present_at = None;
        let refused = std::mem::take(&mut self.unsupported);
        self.missing = self.missing.or(refused.first().map(|(_, capability)| *capability));
        let Some(state) = state.filter(|_| !self.inputs.is_empty()) else {
            return (Presentation { result: None, refused }, None);
        };
        let result = input::required(self.inputs.iter().map(PendingInput::parts), &state);
        let check_at = now + CHECK_INTERVAL;
        let suspension = Suspension { state, check_at, was_gone: false, response: None };
        (Presentation { result: Some(result.into()), refused }, Some(suspension))
    }

    /// The server has cancelled its request `id`.
    pub(super) fn withdraw(&mut self, id: &Bytes) {
        self.inputs.retain(|input| input.id() != id);
        self.unsupported.retain(|(unsupported, _)| unsupported != id);
    }

    /// The server's ids of all requests, which nobody will answer.
    pub(super) fn take_unanswered(&mut self) -> Vec<Bytes> {
        self.present_at = None;
        let unsupported = self.unsupported.drain(..).map(|(id, _)| id);
        self.inputs.drain(..).map(PendingInput::into_id).chain(unsupported).collect()
    }

    /// The agent has retried the call with these responses. Returns the server's ids with the response lines for it.
    pub(super) fn resume(
        &mut self,
        capabilities: ClientCapabilities,
        responses: &[(Bytes, Bytes)],
    ) -> Vec<(Bytes, Bytes)> {
        self.agent.capabilities = capabilities;
        take_answered(&mut self.inputs, responses)
    }

    /// The server has answered.
    pub(super) fn response(&self, request: &BridgedRequest, outcome: Result<&Bytes, &Bytes>) -> Step {
        if let Some(capability) = self.missing.filter(|_| is_failure(outcome)) {
            return Step::MissingCapability(capability);
        }
        match outcome {
            Ok(result) if self.creates_task => match (made_to_modern(result), result::to_modern(result, Cached::No)) {
                (Ok(changes), _) => Step::Task(TaskStep::Created(changes)),
                (Err(NotAnObject), Ok(changes)) => Step::Respond(changes),
                (Err(NotAnObject), Err(NotAnObject)) => Step::Fail(BridgeError::Malformed),
            },
            Ok(result) => match result::to_modern(result, request.cached()) {
                Ok(changes) => Step::Respond(changes),
                Err(NotAnObject) => Step::Fail(BridgeError::Malformed),
            },
            Err(raw) => match error::to_modern(request.method(), raw) {
                ErrorToModern::Unchanged => Step::Respond(Vec::new()),
                ErrorToModern::Changed(change) => Step::Respond(vec![change]),
                ErrorToModern::Required(required) if self.agent.capabilities.include(ClientCapability::Url) => {
                    Step::RequireUrls(required.into())
                }
                ErrorToModern::Required(_) => Step::Respond(error::without_urls(raw).into_iter().collect()),
            },
        }
    }
}

/// Whether the response is an error, or the result of a tool that has failed.
fn is_failure(outcome: Result<&Bytes, &Bytes>) -> bool {
    let failed = |result: &Bytes| members(result, ["isError"]).is_ok_and(|[raw]| raw.as_deref() == Some(b"true"));
    outcome.map_or(true, failed)
}

impl Suspension {
    pub(super) fn is_for(&self, state: &[u8]) -> bool {
        self.state.as_bytes() == state
    }

    /// Checks whether the agent is there, when it is time. `true` if it was gone twice in a row.
    pub(super) fn check(&mut self, is_gone: bool, now: Instant) -> bool {
        if now < self.check_at {
            return false;
        }
        let was_gone = std::mem::replace(&mut self.was_gone, is_gone);
        self.check_at = now + CHECK_INTERVAL;
        was_gone && is_gone
    }
}

/// Why a call is not sent, if it is the retry of one for which a legacy server required URLs, and they were not opened.
pub(crate) fn unopened_urls(request: &BridgedRequest, server: &str) -> Option<ErrorObject> {
    let (key, said) = error::unopened(request.params())?;
    let key = excerpt(&key, MAX_KEY_LEN);
    let why = format!("the server does this only after a URL was opened, which was {said} (`{key}`)");
    Some(ErrorObject::new(INTERNAL_ERROR, why).about_server(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_that_is_gone_at_two_checks_in_a_row_is_gone_for_good() {
        let now = Instant::now();
        let (mut suspension, mut seconds) =
            (Suspension { state: String::new(), check_at: now + CHECK_INTERVAL, was_gone: false, response: None }, 0);
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
            assert_eq!(suspension.check(is_gone, now), expected, "after {seconds} s");
        }
    }
}
