//! Requests of the server to agents: sent to one agent, and ended by its answer, a cancellation or a deadline.
//!
//! Source: MCP 2025-11-25, `client/sampling`, `client/elicitation`, `client/roots`, `basic/utilities/cancellation`. URL
//! elicitations are kept by the ids that the server has given them: when a person has opened a URL, the notification of the server has only
//! that id (`client/elicitation`, "URL Mode Elicitation Requests", "URL Elicitation Required Error").

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::wire::{MAX_SMALL_LINE, Wire};
use crate::client_capabilities::ClientCapability;
use crate::era::input::{Input, elicitation_to_legacy};
use crate::era::{Era, request_meta};
use crate::jsonrpc::mcpd_error::ErrorCode;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_REQUEST, METHOD_NOT_FOUND};
use crate::jsonrpc::splice::{applied, splice, without};
use crate::methods;
use crate::printable::one_line;
use crate::server::agent_scope::AgentScope;
use crate::server::messages::call::{MissingInput, SessionSender, ToAgent};
use crate::server::messages::server_notification::ServerNotification;
use crate::server::server_request::{
    Cancellation, ForwardedRequest, FromAgentMessage, ParsedRequest, ServerResponseHandle, Withdrawal,
    may_have_arrived_error, not_delivered,
};

/// Maximum number of unanswered requests of one instance. One more is refused with −31003, and so is a request that exceeds
/// one buffer unit together with the others.
const MAX_OPEN: usize = 64;

/// The unanswered requests of one instance.
pub(in crate::server) struct ForwardedRequests {
    server: Arc<str>,
    /// Time limit for the answer of an agent.
    timeout: Duration,
    open: Vec<OpenRequest>,
    /// Number of requests so far.
    count: u64,
    /// Futures that the server's task has to poll. It passes their output to [`ForwardedRequests::handle_agent_message`].
    waits: Vec<BoxFuture<'static, FromAgent>>,
    elicitations: Elicitations<SessionSender>,
}

/// A request that an agent has not answered.
struct OpenRequest {
    number: u64,
    /// The server's id, raw.
    id: Bytes,
    session: u64,
    bytes: usize,
    answer_use: AnswerUse,
    /// Calls of the agent were unanswered when it arrived. It ends when the last of them is cancelled.
    is_for_call: bool,
    deadline: Instant,
    withdraw: oneshot::Sender<Withdrawal>,
}

/// The use of the agent's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerUse {
    /// The server, which has sent the request.
    Server,
    /// A call that is sent again with the answer.
    Call(CallInput),
}

/// An input of a call that is sent again with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallInput {
    /// The id of the call while it waits.
    pub(super) call: u64,
    pub(super) index: usize,
}

/// The agent that gets a request.
pub(super) struct Recipient {
    pub(super) session: u64,
    pub(super) to: SessionSender,
}

/// A message of an agent about a request of the server.
pub(in crate::server) struct FromAgent {
    /// The number of the request.
    number: u64,
    message: Option<FromAgentMessage>,
    /// The channel for more messages.
    more: mpsc::Receiver<FromAgentMessage>,
}

/// The answer of an agent for a call, or why there is none.
pub(super) struct InputAnswer {
    pub(super) input: CallInput,
    /// The whole response line.
    pub(super) response: Result<Bytes, &'static str>,
}

/// How requests end that nobody will answer.
#[derive(Clone, Copy)]
pub(super) struct RequestEnd {
    pub(super) code: ErrorCode,
    pub(super) reason: &'static str,
}

/// What happens with a request of a legacy server.
pub(super) enum RequestHandling {
    /// It is a ping.
    Ping,
    /// It is answered with the roots of the configuration.
    Roots,
    /// It is forwarded to an agent.
    Forward(ParsedRequest),
    Refused(ErrorObject),
}

/// Decides what happens with a request of a legacy server whose instance has this scope.
pub(super) fn classify(method: &Bytes, params: Option<&Bytes>, scope: &AgentScope) -> RequestHandling {
    if method[..] == *b"ping" {
        return RequestHandling::Ping;
    }
    let refused = |message: String| RequestHandling::Refused(ErrorObject::new(METHOD_NOT_FOUND, message));
    let serves_one_agent = matches!(scope, AgentScope::Of(_));
    let parsed = ParsedRequest::read(method, params).or_else(|| match scope {
        // Only the agent's own instance knows which extensions the agent has.
        AgentScope::Of(agent)
            if agent.era == Era::Legacy
                && methods::may_be_extension_request(method)
                && agent.capabilities.declares_method(method) =>
        {
            Some(ParsedRequest::of_extension(params))
        }
        _ => None,
    });
    match parsed {
        None => RequestHandling::Refused(not_forwarded(method)),
        Some(Ok(parsed)) if parsed.capability == ClientCapability::Roots && !serves_one_agent => RequestHandling::Roots,
        Some(Ok(_)) if matches!(scope, AgentScope::Nobody) => {
            refused("there are no agents here that could be asked".to_owned())
        }
        Some(Ok(parsed)) => RequestHandling::Forward(parsed),
        Some(Err(error)) => RequestHandling::Refused(error),
    }
}

/// The request `line` without `task`, if it has that member. mcpd declares no tasks of agents to servers, so it ignores the member
/// as MCP requires. An agent with support for tasks would answer with one.
///
/// Source: MCP 2025-11-25, `basic/utilities/tasks`, "Task Support and Handling".
pub(super) fn without_task(line: &Bytes, method: &[u8], params: Option<&Bytes>) -> Option<Bytes> {
    let may_have_task = matches!(method, b"sampling/createMessage" | b"elicitation/create");
    let changes = params.filter(|_| may_have_task).and_then(|params| without(params, &["task"]).ok())?;
    (!changes.is_empty()).then(|| applied(line, &changes).into())
}

/// The error for a request that mcpd forwards to no agent.
pub(in crate::server) fn not_forwarded(method: &[u8]) -> ErrorObject {
    let method = one_line(&String::from_utf8_lossy(method));
    ErrorObject::new(METHOD_NOT_FOUND, format!("mcpd does not forward `{method}` to agents"))
}

/// The error for a server without configured roots.
pub(super) fn no_roots() -> ErrorObject {
    ErrorObject::new(METHOD_NOT_FOUND, "no `roots` are configured, and the instance is not one agent's own")
}

/// The error for a request that no agent receives.
pub(super) fn unavailable(why: &str, server: &Arc<str>) -> ErrorObject {
    not_delivered(ErrorCode::Unavailable, why, server)
}

/// Reads an input that a modern server requires.
pub(super) fn read_input(Input { method, params, .. }: &Input) -> Result<ParsedRequest, MissingInput> {
    let named = || one_line(&String::from_utf8_lossy(method));
    let parsed = ParsedRequest::read(method, params.as_ref());
    let parsed = parsed.ok_or_else(|| MissingInput::NotForwarded { method: named() })?;
    parsed.map_err(|error| MissingInput::Malformed { method: named(), reason: error.message })
}

async fn next_message(number: u64, mut replies: mpsc::Receiver<FromAgentMessage>) -> FromAgent {
    FromAgent { number, message: replies.recv().await, more: replies }
}

impl ForwardedRequests {
    /// `timeout` is the time limit for answers of agents.
    pub(super) fn new(server: Arc<str>, timeout: Duration) -> Self {
        let elicitations = Elicitations::default();
        Self { server, timeout, open: Vec::new(), count: 0, waits: Vec::new(), elicitations }
    }

    /// The sessions with unanswered requests.
    pub(super) fn sessions(&self) -> impl Iterator<Item = u64> {
        self.open.iter().map(|open| open.session)
    }

    /// When the next request expires.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.open.iter().map(|open| open.deadline).min()
    }

    /// Whether a request is unanswered.
    pub(in crate::server) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether a request of the server with this raw id is unanswered.
    pub(super) fn has(&self, id: &Bytes) -> bool {
        self.open.iter().any(|open| open.answer_use == AnswerUse::Server && open.id == id)
    }

    /// Futures that the server's task has to poll from now on.
    pub(in crate::server) fn take_waits(&mut self) -> impl Iterator<Item = BoxFuture<'static, FromAgent>> {
        self.waits.drain(..)
    }

    /// Sends an agent a request for an input that a modern server requires for a call.
    pub(super) fn send_input(
        &mut self,
        wire: &mut Wire,
        recipient: &Recipient,
        call_input: CallInput,
        Input { method, params, .. }: &Input,
        parsed: ParsedRequest,
    ) -> Result<(), ErrorObject> {
        let number = self.count + 1;
        let params = params.as_ref().map(|raw| match elicitation_to_legacy(raw, &number.to_string()) {
            Some(change) if parsed.capability == ClientCapability::Url => applied(raw, &[change]),
            _ => raw.to_vec(),
        });
        let params: Option<&RawValue> = params.as_deref().and_then(|raw| serde_json::from_slice(raw).ok());
        let line = request_line(number, &String::from_utf8_lossy(method), params);
        let parts = members(&line, ["id", "params"]).ok().and_then(|[id, params]| Some((id?, params)));
        let (id, params) = parts.ok_or_else(|| ErrorObject::new(INVALID_REQUEST, "cannot be asked"))?;
        // The token was read from the server's line, but the token to replace has to be a slice of this line.
        let meta = params.and_then(|params| members(&params, ["_meta"]).ok()).and_then(|[meta]| meta);
        let progress_token = request_meta::read(meta).unwrap_or_default();
        self.send(wire, recipient, line, id, AnswerUse::Call(call_input), ParsedRequest { progress_token, ..parsed })
    }

    /// Sends an agent a request, and restarts the time limits of the agent's calls.
    pub(super) fn send(
        &mut self,
        wire: &mut Wire,
        Recipient { session, to }: &Recipient,
        line: Bytes,
        id: Bytes,
        answer_use: AnswerUse,
        parsed: ParsedRequest,
    ) -> Result<(), ErrorObject> {
        let bytes: usize = self.open.iter().map(|open| open.bytes).sum();
        let is_full = bytes > 0 && bytes + line.len() > wire.buffer_unit();
        if is_full || self.open.len() >= MAX_OPEN {
            return Err(not_delivered(
                ErrorCode::Overloaded,
                "too many requests for agents are unanswered",
                &self.server,
            ));
        }
        let (response_handle, replies) = ServerResponseHandle::new(&id, &self.server);
        let own_id = response_handle.id().clone();
        let (withdraw, withdrawn) = oneshot::channel();
        let ParsedRequest { capability, progress_token, elicitation } = parsed;
        let bytes = line.len();
        let request = ForwardedRequest { line, id, progress_token, capability, response_handle, withdrawn };
        if !to.send_request(Box::new(request)) {
            return Err(not_delivered(ErrorCode::Unavailable, "the agent has gone, or does not keep up", &self.server));
        }
        if let Some(elicitation) = elicitation {
            self.elicitations.add(&elicitation, *session, to);
        }
        let deadline = Instant::now() + self.timeout;
        wire.expire_by(deadline);
        self.count += 1;
        let (number, is_for_call) = (self.count, wire.extend_calls(*session));
        let session = *session;
        self.open.push(OpenRequest { number, id: own_id, session, bytes, answer_use, is_for_call, deadline, withdraw });
        self.waits.push(next_message(number, replies).boxed());
        Ok(())
    }

    /// Forwards a message of an agent to the server. Returns an answer that is for a call.
    pub(super) fn handle_agent_message(
        &mut self,
        wire: &mut Wire,
        FromAgent { number, message, more }: FromAgent,
    ) -> Option<InputAnswer> {
        let index = self.open.iter().position(|open| open.number == number)?;
        // A person may be typing.
        wire.extend_calls(self.open[index].session);
        // An answer always precedes the end of the channel.
        match message? {
            FromAgentMessage::Progress(line) => {
                if self.open[index].answer_use == AnswerUse::Server {
                    wire.try_queue_line(line);
                }
                self.waits.push(next_message(number, more).boxed());
                None
            }
            FromAgentMessage::Response(line) => {
                let OpenRequest { id, answer_use, .. } = self.open.swap_remove(index);
                if let AnswerUse::Call(input) = answer_use {
                    return Some(InputAnswer { input, response: Ok(line) });
                }
                wire.queue_answer(&id, line, &self.server);
                None
            }
        }
    }

    /// The server has cancelled a request. Returns the raw id if the request is not in this table.
    pub(super) fn cancelled_by_server(&mut self, line: Bytes, params: Option<&Bytes>) -> Option<Bytes> {
        let [request] = members(params?, ["requestId"]).ok()?;
        let request = request?;
        let is_it = |open: &OpenRequest| open.answer_use == AnswerUse::Server && open.id == request;
        let Some(index) = self.open.iter().position(is_it) else { return Some(request) };
        let withdrawal = if line.len() > MAX_SMALL_LINE {
            Withdrawal::Reason("the server cancelled")
        } else {
            Withdrawal::Cancelled(Cancellation { line, request })
        };
        // The agent may have disconnected.
        let _ = self.open.swap_remove(index).withdraw.send(withdrawal);
        None
    }

    /// A call of this session was cancelled or has timed out. If it was the last call, requests for the session's calls end.
    pub(super) fn call_ended(&mut self, wire: &mut Wire, session: u64, end: RequestEnd) -> Vec<InputAnswer> {
        if self.open.is_empty() || wire.calls().any(|(_, call)| call.response_handle.key.session == session) {
            return Vec::new();
        }
        self.end(wire, |open| open.is_for_call && open.session == session, end)
    }

    /// Ends requests whose time limit has passed.
    pub(super) fn expire(&mut self, wire: &mut Wire, now: Instant) -> Vec<InputAnswer> {
        let end = RequestEnd { code: ErrorCode::TimedOut, reason: "the agent did not answer in time" };
        self.end(wire, |open| open.deadline <= now, end)
    }

    fn end(
        &mut self,
        wire: &mut Wire,
        is_over: impl Fn(&OpenRequest) -> bool,
        RequestEnd { code, reason }: RequestEnd,
    ) -> Vec<InputAnswer> {
        let mut answers = Vec::new();
        for OpenRequest { id, answer_use, withdraw, .. } in self.open.extract_if(.., |open| is_over(open)) {
            let _ = withdraw.send(Withdrawal::Reason(reason));
            match answer_use {
                AnswerUse::Server => {
                    wire.try_queue_line(reply::error(Some(&id), &may_have_arrived_error(code, reason, &self.server)));
                }
                AnswerUse::Call(input) => answers.push(InputAnswer { input, response: Err(reason) }),
            }
        }
        answers
    }

    /// Ends requests for inputs of this call, because their answers are no longer needed.
    pub(super) fn withdraw_for(&mut self, call: u64, why: &'static str) {
        let is_for_it =
            |open: &mut OpenRequest| matches!(open.answer_use, AnswerUse::Call(input) if input.call == call);
        for OpenRequest { withdraw, .. } in self.open.extract_if(.., is_for_it) {
            let _ = withdraw.send(Withdrawal::Reason(why));
        }
    }

    /// The server is gone. Dropping the requests notifies the agents.
    pub(super) fn withdraw_all(&mut self) {
        self.open.clear();
    }

    /// A call of this session has failed with this raw error, which may require URLs to be opened.
    pub(super) fn call_failed(&mut self, error: &Bytes, session: u64, to: &SessionSender) {
        self.elicitations.add_required(error, session, to);
    }

    /// The server reports that a person has opened a URL. Agents with this elicitation are notified.
    pub(super) fn elicitation_completed(&mut self, line: &Bytes, params: Option<&Bytes>) {
        let Some(Ok([Some(id)])) = params.map(|params| members(params, ["elicitationId"])) else { return };
        let Some(id) = text(&id) else { return };
        for to in self.elicitations.complete(&id) {
            to.send_notification(ToAgent::ServerNotification(ServerNotification::ElicitationCompleted(splice(
                line,
                &mut [],
            ))));
        }
    }
}

/// A request line without a newline.
fn request_line(id: u64, method: &str, params: Option<&RawValue>) -> Bytes {
    let mut line = json!({ "jsonrpc": "2.0", "id": id, "method": method }).to_string();
    if let Some(params) = params {
        line.pop();
        line.push_str(",\"params\":");
        line.push_str(params.get());
        line.push('}');
    }
    line.into()
}

/// Maximum number of elicitations. One more replaces the oldest, whose agent is not notified.
const MAX_ELICITATIONS: usize = 256;
/// Maximum length of an id in bytes. Elicitations with longer ids are not tracked.
const MAX_ID_LEN: usize = 1 << 10;
/// Maximum size in bytes of an error that is searched for elicitations.
const MAX_ERROR_LEN: usize = 64 << 10;
/// The error for a call that can be repeated once a person has opened all of its URLs.
const URL_ELICITATION_REQUIRED: &[u8] = b"-32042";

/// The elicitations of one instance. `T` is the channel to an agent.
#[derive(Debug)]
pub(super) struct Elicitations<T> {
    /// Ids as text, each with its session and the channel to it, oldest first.
    known: Vec<(Bytes, u64, T)>,
}

impl<T> Default for Elicitations<T> {
    fn default() -> Self {
        Self { known: Vec::new() }
    }
}

impl<T: Clone> Elicitations<T> {
    /// A session gets an elicitation with this id.
    pub(super) fn add(&mut self, id: &Bytes, session: u64, to: &T) {
        if id.len() > MAX_ID_LEN || self.known.iter().any(|(own, of, _)| own == id && *of == session) {
            return;
        }
        if self.known.len() == MAX_ELICITATIONS {
            self.known.remove(0);
        }
        // Copied, so that it does not keep the whole message in memory.
        self.known.push((Bytes::copy_from_slice(id), session, to.clone()));
    }

    /// A call of a session has failed with this raw error, which may have elicitations.
    pub(super) fn add_required(&mut self, error: &Bytes, session: u64, to: &T) {
        if error.len() > MAX_ERROR_LEN {
            return;
        }
        let Ok([Some(code), Some(data)]) = members(error, ["code", "data"]) else { return };
        if code[..] != *URL_ELICITATION_REQUIRED {
            return;
        }
        let Ok([Some(all)]) = members(&data, ["elicitations"]) else { return };
        for one in serde_json::from_slice::<Vec<&RawValue>>(&all).unwrap_or_default() {
            let one = all.slice_ref(one.get().as_bytes());
            if let Ok([Some(id)]) = members(&one, ["elicitationId"])
                && let Some(id) = text(&id)
            {
                self.add(&id, session, to);
            }
        }
    }

    /// A person has opened the URL with this id. Removes the elicitation and returns the channels to its agents.
    pub(super) fn complete(&mut self, id: &[u8]) -> Vec<T> {
        self.known.extract_if(.., |(own, ..)| own == id).map(|(.., to)| to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: &'static str) -> Bytes {
        Bytes::from_static(id.as_bytes())
    }

    #[test]
    fn agents_are_notified_once_of_their_elicitation() {
        let mut known = Elicitations::default();
        for (elicitation, session) in [("a", 1), ("a", 1), ("b", 1), ("a", 2)] {
            known.add(&id(elicitation), session, &session);
        }
        assert_eq!(known.complete(b"a"), [1, 2]);
        assert_eq!((known.complete(b"a"), known.complete(b"b")), (vec![], vec![1]));
    }

    #[test]
    fn failed_call_may_have_several_elicitations() {
        let mut known = Elicitations::default();
        for error in ["7", r#"{"code":-32042}"#, r#"{"code":-32042,"data":{"elicitations":7}}"#] {
            known.add_required(&id(error), 1, &1);
        }
        let error = r#"{"code":CODE,"message":"","data":{"elicitations":[{"elicitationId":"x"},7,{"elicitationId":"\u0079"}]}}"#;
        for code in ["-32042", "-32041"] {
            known.add_required(&Bytes::from(error.replace("CODE", code)), 3, &3);
        }
        assert_eq!((known.complete(b"x"), known.complete(b"y"), known.known.len()), (vec![3], vec![3], 0));
    }

    #[test]
    fn number_of_elicitations_is_limited() {
        let mut known = Elicitations::default();
        known.add(&Bytes::from("x".repeat(MAX_ID_LEN + 1)), 1, &1);
        assert!(known.known.is_empty());
        let elicitation = "x".repeat(MAX_ERROR_LEN);
        let data =
            format!(r#"{{"elicitations":[{{"elicitationId":"a"}},{{"elicitationId":"b","x":"{elicitation}"}}]}}"#);
        known.add_required(&Bytes::from(format!(r#"{{"code":-32042,"data":{data}}}"#)), 1, &1);
        assert!(known.known.is_empty());
        for n in 0..3 * MAX_ELICITATIONS {
            known.add(&Bytes::from(n.to_string()), 1, &n);
        }
        assert_eq!(known.known.len(), MAX_ELICITATIONS);
        assert_eq!(
            (known.complete(b"0").len(), known.complete((3 * MAX_ELICITATIONS - 1).to_string().as_bytes()).len()),
            (0, 1)
        );
    }
}
