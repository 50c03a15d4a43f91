//! Calls of a legacy agent at a modern server.
//!
//! A server that requires input answers `input_required`. The agent is sent a request for each input, and the call is sent again with
//! the answers. This repeats no effects, because the server has ended the first request.

use std::sync::Arc;

use bytes::Bytes;

use super::request::BridgedRequest;
use super::step::{BridgeError, Step, TaskStep};
use crate::era::input::RequiredInputs;
use crate::era::legacy_client_meta::LegacyClientMeta;
use crate::era::result::{self, ToLegacy};
use crate::era::task::Status;
use crate::era::{MISSING_CAPABILITY, TASKS, error, request};
use crate::jsonrpc::members::{NotAnObject, members, text};
use crate::jsonrpc::splice::{Change, applied};
use crate::printable::one_line;

/// Maximum number of times that one call may require input.
const MAX_INPUT_ROUNDS: usize = 64;
/// Memory limit of an instance in units of `max_message`: once for all its calls that wait for input responses, and once for all its
/// suspended calls. One call may use one unit.
pub(crate) const MAX_RETAINED_MEMORY: usize = 4;

/// What mcpd does with the task if a modern server turns a call into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskUse {
    /// The server must not make a task.
    None,
    /// The agent has requested a task and receives it.
    Returned,
    /// The agent waits for the result of a task that it does not know.
    Hidden,
}

/// A call of a legacy agent.
#[derive(Debug, Clone)]
pub(super) struct CallToModern {
    pub(super) client_meta: Arc<LegacyClientMeta>,
    pub(super) task: TaskUse,
    /// How often the server has required input.
    pub(super) input_rounds: usize,
}

/// The responses of the agent to input requests.
#[derive(Debug)]
pub(super) struct InputResponses {
    /// Raw keys, with the raw results that have arrived.
    inputs: Vec<(Bytes, Option<Bytes>)>,
    /// The server's `requestState`, raw.
    request_state: Option<Bytes>,
}

impl InputResponses {
    /// Copies the parts, so that they do not keep a large line in memory.
    pub(super) fn new(required: &RequiredInputs) -> Self {
        let copy = |raw: &Bytes| Bytes::copy_from_slice(raw);
        let inputs = required.inputs.iter().map(|input| (copy(&input.key), None)).collect();
        Self { inputs, request_state: required.request_state.as_ref().map(copy) }
    }

    pub(super) fn set(&mut self, index: usize, result: Bytes) {
        if let Some((_, slot)) = self.inputs.get_mut(index) {
            *slot = Some(result);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let inputs = self.inputs.iter().map(|(key, result)| key.len() + result.as_ref().map_or(0, Bytes::len));
        inputs.sum::<usize>() + self.request_state.as_ref().map_or(0, Bytes::len)
    }

    pub(super) fn are_complete(&self) -> bool {
        self.inputs.iter().all(|(_, result)| result.is_some())
    }

    /// The change that adds the responses to the call.
    pub(super) fn change(&self, params: &Bytes) -> Change {
        let result = |(key, result): &(Bytes, Option<Bytes>)| Some((key.clone(), result.clone()?));
        let results: Vec<_> = self.inputs.iter().filter_map(result).collect();
        request::with_inputs(params, &results, self.request_state.as_ref())
    }
}

impl CallToModern {
    /// The changes that translate the request.
    pub(super) fn changes(&self, params: &Bytes) -> Result<Vec<Change>, NotAnObject> {
        request::to_modern(params, &self.client_meta, self.task != TaskUse::None)
    }

    /// The server has answered with this result. `Err` has the inputs that it requires.
    pub(super) fn on_result(&self, result: &Bytes) -> Result<Step, RequiredInputs> {
        Ok(match result::to_legacy(result) {
            Ok(ToLegacy::Complete(_)) if self.task == TaskUse::Returned => Step::Task(TaskStep::AnswerCompletedTask),
            Ok(ToLegacy::Complete(changes)) => Step::ForwardResponse(changes),
            Ok(ToLegacy::Required(_)) if self.input_rounds >= MAX_INPUT_ROUNDS => {
                Step::Fail(BridgeError::Input(format!("has required input {MAX_INPUT_ROUNDS} times")))
            }
            Ok(ToLegacy::Required(required)) => return Err(required),
            Ok(ToLegacy::Unknown(kind)) => Step::Fail(BridgeError::UnknownResult(kind)),
            Ok(ToLegacy::Task(changes)) => {
                let legacy = Bytes::from(applied(result, &changes));
                match self.task {
                    TaskUse::Returned => Step::ForwardTaskResponse { changes, result: legacy },
                    TaskUse::Hidden => Step::Task(TaskStep::PollHiddenTask {
                        task: legacy,
                        is_working: Status::read(result) == Some(Status::Working),
                    }),
                    TaskUse::None => Step::Fail(BridgeError::UnknownResult("task".to_owned())),
                }
            }
            Ok(ToLegacy::Malformed(_)) | Err(NotAnObject) => Step::Fail(BridgeError::Malformed),
        })
    }

    /// The changes to send a call again with support for tasks, if this error requires that. This repeats no effects, because the
    /// server has refused the call.
    pub(super) fn resend_as_task(&mut self, request: &BridgedRequest, error: &Bytes) -> Option<Vec<Change>> {
        if self.task != TaskUse::None || self.input_rounds > 0 || request.tool().is_none() || !requires_tasks(error) {
            return None;
        }
        self.task = TaskUse::Hidden;
        self.changes(request.params()).ok()
    }
}

/// The step that answers the agent with this error.
pub(super) fn respond_with_error(method: &[u8], raw: &Bytes) -> Step {
    Step::ForwardResponse(error::to_legacy(method, raw).into_iter().collect())
}

/// The raw result in this response line of an agent. The error text continues the sentence ``server `NAME` …``.
pub(crate) fn input_response_of(line: &Bytes) -> Result<Bytes, String> {
    let line = line.slice(..line.len().saturating_sub(1));
    match members(&line, ["result", "error"]) {
        Ok([Some(result), None]) => Ok(result),
        Ok([_, Some(error)]) => {
            let message = members(&error, ["message"]).ok().and_then(|[raw]| text(&raw?));
            let message = message.map(|message| one_line(&String::from_utf8_lossy(&message))).unwrap_or_default();
            Err(format!("wanted to know more, which was answered with an error: {message}"))
        }
        _ => Err("wanted to know more, which was answered with nothing".to_owned()),
    }
}

/// Whether the raw `error` requires the capability for tasks.
fn requires_tasks(error: &Bytes) -> bool {
    let inner = |raw: Option<Bytes>, name| raw.and_then(|raw| members(&raw, [name]).ok()).and_then(|[raw]| raw);
    let Ok([code, data]) = members(error, ["code", "data"]) else { return false };
    let tasks = inner(inner(inner(data, "requiredCapabilities"), "extensions"), TASKS);
    tasks.is_some() && code.is_some_and(|code| code[..] == *MISSING_CAPABILITY.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_task_capability_is_found_in_an_error() {
        let tasks = r#""io.modelcontextprotocol/tasks":{}"#;
        for (code, required, expected) in [
            ("-32021", format!(r#"{{"extensions":{{{tasks}}}}}"#), true),
            ("-32021", format!(r#"{{"extensions":{{"a/b":{{}},{tasks}}},"x":1}}"#), true),
            ("-32021", r#"{"extensions":{"a/b":{}}}"#.to_owned(), false),
            ("-32021", r#"{"sampling":{}}"#.to_owned(), false),
            ("-32021", "7".to_owned(), false),
            ("-32602", format!(r#"{{"extensions":{{{tasks}}}}}"#), false),
        ] {
            let error = format!(r#"{{"code":{code},"message":"","data":{{"requiredCapabilities":{required}}}}}"#);
            assert_eq!(requires_tasks(&Bytes::from(error)), expected, "{code} {required}");
        }
        assert!(!requires_tasks(&Bytes::from_static(b"[]")));
        assert!(!requires_tasks(&Bytes::from_static(br#"{"code":-32021}"#)));
    }
}
