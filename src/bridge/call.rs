//! The state of one bridged call.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::legacy_task::{self, Phase};
use super::request::BridgedRequest;
use super::step::{BridgeError, Step, TaskSeen, TaskStep};
use super::task_poll::{CANCEL, GET, PollOutcome, TaskRequest, interval};
use super::to_legacy::{CallToLegacy, ModernAgent, Presentation, ServerRequest, Suspension};
use super::to_modern::{CallToModern, CollectedInputs, TaskUse, respond_with_error};
use crate::client_capabilities::ClientCapabilities;
use crate::era::agent_meta::AgentMeta;
use crate::era::request;
use crate::jsonrpc::members::NotAnObject;
use crate::jsonrpc::splice::Change;
use crate::task_state::TaskAct;

/// A call whose agent and server speak different eras.
#[derive(Debug)]
pub(crate) struct BridgedCall {
    request: BridgedRequest,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Legacy agent, modern server.
    InFlight(CallToModern),
    CollectingInputs {
        call: CallToModern,
        inputs: CollectedInputs,
    },
    TaskAtModernServer {
        task: TaskRequest,
        is_cancellation: bool,
    },
    PollingTask {
        task: TaskRequest,
        next_poll: Instant,
    },
    /// Modern agent, legacy server.
    Forwarded(CallToLegacy),
    Suspended {
        call: CallToLegacy,
        suspension: Suspension,
    },
    TaskAtLegacyServer {
        id: Bytes,
        phase: Phase,
    },
}

/// Facts that decide what a response means.
pub(crate) struct ResponseContext {
    pub(crate) now: Instant,
    /// The raw id of the task that the request is about.
    pub(crate) raw_task_id: Option<Bytes>,
    /// The server has answered that it does not know the task, or that the task has ended.
    pub(crate) is_unknown_task: bool,
    /// The call may be sent again with support for tasks.
    pub(crate) may_create_task: bool,
}

/// Constructors. Each returns the changes that the other era needs.
impl BridgedCall {
    /// A call of a legacy agent.
    pub(crate) fn to_modern(
        request: BridgedRequest,
        legacy_agent: &Arc<AgentMeta>,
        task: TaskUse,
    ) -> Result<(Self, Vec<Change>), NotAnObject> {
        let call = CallToModern { legacy_agent: Arc::clone(legacy_agent), task, attempts: 0 };
        let changes = call.changes(request.params())?;
        Ok((Self { request, state: State::InFlight(call) }, changes))
    }

    /// A request of a legacy agent about a task.
    pub(crate) fn task_request(
        request: BridgedRequest,
        legacy_agent: &Arc<AgentMeta>,
        act: TaskAct,
    ) -> Result<(Self, Vec<Change>), NotAnObject> {
        let is_cancellation = act == TaskAct::Cancel;
        let changes = request.about_task(if is_cancellation { CANCEL } else { GET }, legacy_agent)?;
        let task = TaskRequest { legacy_agent: Arc::clone(legacy_agent), act, is_hidden: false };
        Ok((Self { request, state: State::TaskAtModernServer { task, is_cancellation } }, changes))
    }

    /// A call of a modern agent.
    pub(crate) fn to_legacy(request: BridgedRequest, agent: ModernAgent) -> Result<(Self, Vec<Change>), NotAnObject> {
        let changes = request::to_legacy(request.params(), false)?;
        Ok((Self { request, state: State::Forwarded(CallToLegacy::new(agent)) }, changes))
    }
}

/// Properties.
impl BridgedCall {
    pub(crate) fn request(&self) -> &BridgedRequest {
        &self.request
    }

    /// No request for this call is pending at the server.
    pub(crate) fn has_no_open_request(&self) -> bool {
        match &self.state {
            State::CollectingInputs { .. } | State::PollingTask { .. } => true,
            State::Suspended { suspension, .. } => suspension.response.is_some(),
            State::InFlight(_)
            | State::TaskAtModernServer { .. }
            | State::Forwarded(_)
            | State::TaskAtLegacyServer { .. } => false,
        }
    }

    /// The response has arrived and waits for the retry of the agent.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(&self.state, State::Suspended { suspension, .. } if suspension.response.is_some())
    }

    /// The agent was answered `input_required` and has not retried the call.
    pub(crate) fn is_suspended(&self) -> bool {
        matches!(self.state, State::Suspended { .. })
    }

    /// An earlier request for it was sent, so it may have had effects.
    pub(crate) fn was_sent_before(&self) -> bool {
        matches!(&self.state, State::InFlight(call) | State::CollectingInputs { call, .. } if call.attempts > 0)
    }

    /// Another instance can send it instead.
    pub(crate) fn fits_any_instance(&self) -> bool {
        match &self.state {
            State::InFlight(call) => call.attempts == 0,
            State::Forwarded(_) => true,
            _ => false,
        }
    }

    /// The server may make a task of it that the agent has not requested.
    pub(crate) fn creates_task(&self) -> bool {
        match &self.state {
            State::InFlight(call) | State::CollectingInputs { call, .. } => call.task == TaskUse::Followed,
            State::Forwarded(call) | State::Suspended { call, .. } => call.creates_task,
            State::TaskAtModernServer { .. } | State::PollingTask { .. } | State::TaskAtLegacyServer { .. } => false,
        }
    }

    /// The agent waits for the result of a task that it does not know.
    pub(crate) fn follows_task(&self) -> bool {
        matches!(&self.state, State::TaskAtModernServer { task, .. } | State::PollingTask { task, .. } if task.is_hidden)
    }

    /// The legacy agent.
    pub(crate) fn legacy_agent(&self) -> Option<Arc<AgentMeta>> {
        match &self.state {
            State::InFlight(call) | State::CollectingInputs { call, .. } => Some(Arc::clone(&call.legacy_agent)),
            State::TaskAtModernServer { task, .. } | State::PollingTask { task, .. } => {
                Some(Arc::clone(&task.legacy_agent))
            }
            State::Forwarded(_) | State::Suspended { .. } | State::TaskAtLegacyServer { .. } => None,
        }
    }

    /// The modern agent.
    pub(crate) fn modern_agent(&self) -> Option<&ModernAgent> {
        match &self.state {
            State::Forwarded(call) | State::Suspended { call, .. } => Some(&call.agent),
            _ => None,
        }
    }

    /// Memory in bytes while its inputs are collected.
    pub(crate) fn collected_bytes(&self) -> usize {
        match &self.state {
            State::CollectingInputs { inputs, .. } => self.request.bytes() + inputs.bytes(),
            _ => 0,
        }
    }

    /// Memory in bytes of the collected requests and, if the call is suspended, of the call and its cached response.
    pub(crate) fn suspended_bytes(&self) -> usize {
        match &self.state {
            State::Forwarded(call) => call.bytes(),
            State::Suspended { call, suspension } => {
                self.request.bytes() + call.bytes() + suspension.response.as_ref().map_or(0, Bytes::len)
            }
            _ => 0,
        }
    }
}

/// Time.
impl BridgedCall {
    /// The next time at which the collected requests are due (`is_presentation_due`), or the agent's connection has to be checked
    /// (`check`).
    pub(crate) fn next_check(&self) -> Option<Instant> {
        match &self.state {
            State::Forwarded(call) => call.present_at(),
            State::Suspended { call, suspension } => call.present_at().or(Some(suspension.check_at)),
            _ => None,
        }
    }

    /// Whether the collected requests of the server have to be presented to the agent by `now`.
    pub(crate) fn is_presentation_due(&self, now: Instant) -> bool {
        match &self.state {
            State::Forwarded(call) | State::Suspended { call, .. } => call.present_at().is_some_and(|at| at <= now),
            _ => false,
        }
    }

    /// Checks the connection of the agent of a suspended call. `true` if the agent is gone for good.
    pub(crate) fn check(&mut self, is_gone: bool, now: Instant) -> bool {
        match &mut self.state {
            State::Suspended { suspension, .. } => suspension.check(is_gone, now),
            _ => false,
        }
    }

    /// When its task is polled next.
    pub(crate) fn next_poll(&self) -> Option<Instant> {
        match &self.state {
            State::PollingTask { next_poll, .. } => Some(*next_poll),
            _ => None,
        }
    }
}

/// Responses of the server.
impl BridgedCall {
    /// The server has answered.
    pub(crate) fn response(&mut self, outcome: Result<&Bytes, &Bytes>, context: &ResponseContext) -> Step {
        let Self { request, state } = self;
        match state {
            State::InFlight(call) => match outcome {
                Ok(raw) => match call.result(raw) {
                    Ok(step) => step,
                    Err(required) => {
                        call.attempts += 1;
                        let (call, inputs) = (call.clone(), CollectedInputs::new(&required));
                        self.state = State::CollectingInputs { call, inputs };
                        Step::CollectInputs(required.inputs)
                    }
                },
                Err(raw) => {
                    let changes = if context.may_create_task { call.retry_as_task(request, raw) } else { None };
                    changes.map_or_else(|| respond_with_error(request.method(), raw), Step::Resend)
                }
            },
            State::TaskAtModernServer { task, is_cancellation } => match outcome {
                Ok(raw) => match task.state(raw, *is_cancellation, context.raw_task_id.as_ref(), context.now) {
                    PollOutcome::Step(step) => step,
                    PollOutcome::Again => {
                        *is_cancellation = false;
                        Step::Task(TaskStep::Poll)
                    }
                    PollOutcome::Later { at, inputs } => {
                        self.state = State::PollingTask { task: task.clone(), next_poll: at };
                        Step::Task(TaskStep::PollLater { at, inputs })
                    }
                },
                Err(raw) => respond_with_error(request.method(), raw),
            },
            State::Forwarded(call) => call.response(request, outcome),
            State::TaskAtLegacyServer { id, phase } => {
                phase.response(id, request.method(), outcome, context.is_unknown_task)
            }
            // The server has no open request in these states, or its response was cached.
            State::CollectingInputs { .. } | State::PollingTask { .. } | State::Suspended { .. } => {
                Step::Fail(BridgeError::Malformed)
            }
        }
    }

    /// The instance has recorded the state of a task. `inputs` has the raw `inputRequests` that the task requires, if any.
    pub(crate) fn task_noted(&mut self, seen: TaskSeen, inputs: Option<&Bytes>) -> Step {
        let raw_id = seen.task.raw_id.clone();
        match legacy_task::answer(seen, inputs) {
            Ok(step) => step,
            Err(state) => {
                if let State::TaskAtLegacyServer { phase, .. } = &mut self.state {
                    *phase = Phase::Result { state };
                }
                Step::Task(TaskStep::RequestResult(raw_id))
            }
        }
    }
}

/// Inputs for a modern server.
impl BridgedCall {
    /// The agent has answered one of the inputs.
    pub(crate) fn set_input(&mut self, index: usize, result: Bytes) {
        if let State::CollectingInputs { inputs, .. } = &mut self.state {
            inputs.set(index, result);
        }
    }

    /// The changes to send the call again, once every input is there.
    pub(crate) fn resend(&mut self) -> Option<Vec<Change>> {
        let State::CollectingInputs { call, inputs } = &self.state else { return None };
        let mut changes = call.changes(self.request.params()).ok().filter(|_| inputs.are_complete())?;
        changes.push(inputs.change(self.request.params()));
        self.state = State::InFlight(call.clone());
        Some(changes)
    }
}

/// Tasks of a modern server.
impl BridgedCall {
    /// The server has made a task of the call, which `result` reports. Returns the time of the next poll; `None` means now.
    pub(crate) fn follow_task(&mut self, result: &Bytes, is_working: bool, now: Instant) -> Option<Instant> {
        let task = TaskRequest { legacy_agent: self.legacy_agent()?, act: TaskAct::Result, is_hidden: true };
        let poll_at = is_working.then(|| now + interval(result));
        self.state = match poll_at {
            Some(next_poll) => State::PollingTask { task, next_poll },
            None => State::TaskAtModernServer { task, is_cancellation: false },
        };
        poll_at
    }

    /// A poll was lost and is repeated at this time. `false` if the call does not wait for the result of a task.
    pub(crate) fn poll_later(&mut self, at: Instant) -> bool {
        match &mut self.state {
            State::TaskAtModernServer { task, .. } | State::PollingTask { task, .. } if task.act == TaskAct::Result => {
                self.state = State::PollingTask { task: task.clone(), next_poll: at };
                true
            }
            _ => false,
        }
    }

    /// Begins a poll. Returns the agent that the request has to name.
    pub(crate) fn poll(&mut self) -> Option<Arc<AgentMeta>> {
        let (State::TaskAtModernServer { task, .. } | State::PollingTask { task, .. }) = &self.state else {
            return None;
        };
        let (legacy_agent, task) = (Arc::clone(&task.legacy_agent), task.clone());
        self.state = State::TaskAtModernServer { task, is_cancellation: false };
        Some(legacy_agent)
    }
}

/// Calls of a modern agent.
impl BridgedCall {
    /// The call has to become a task. Returns the changes that request a task.
    pub(crate) fn create_task(&mut self) -> Option<Vec<Change>> {
        let State::Forwarded(call) = &mut self.state else { return None };
        let changes = request::to_legacy(self.request.params(), true).ok()?;
        call.creates_task = true;
        Some(changes)
    }

    /// The request is about the task that the server knows by this id.
    pub(crate) fn about_legacy_task(&mut self, id: Bytes) {
        let phase = if *self.request.method() == *b"tasks/cancel" { Phase::Cancel } else { Phase::State };
        self.state = State::TaskAtLegacyServer { id, phase };
    }

    /// The server's id of the task that the request is about.
    pub(crate) fn legacy_task(&self) -> Option<&Bytes> {
        match &self.state {
            State::TaskAtLegacyServer { id, .. } => Some(id),
            _ => None,
        }
    }

    /// The server has sent a request for the call. `None` if the agent is not modern, `false` if there are too many requests.
    pub(crate) fn server_request(
        &mut self,
        request: &ServerRequest<'_>,
        max_bytes: usize,
        now: Instant,
    ) -> Option<bool> {
        match &mut self.state {
            State::Forwarded(call) | State::Suspended { call, .. } => Some(call.request(request, max_bytes, now)),
            _ => None,
        }
    }

    /// Answers the waiting agent `input_required` with the collected requests and this `requestState`, and suspends the call. If
    /// `state` is `None`, no agent waits, and only the requests that the agent cannot answer are returned, to be refused.
    pub(crate) fn present(&mut self, state: Option<String>, now: Instant) -> Presentation {
        match &mut self.state {
            State::Forwarded(call) => {
                let (presentation, suspension) = call.present(state, now);
                if let Some(suspension) = suspension {
                    self.state = State::Suspended { call: std::mem::take(call), suspension };
                }
                presentation
            }
            State::Suspended { call, .. } => call.present(None, now).0,
            _ => Presentation::default(),
        }
    }

    /// The server has cancelled its request with this id.
    pub(crate) fn withdraw(&mut self, id: &Bytes) {
        if let State::Forwarded(call) | State::Suspended { call, .. } = &mut self.state {
            call.withdraw(id);
        }
    }

    /// Removes the requests of the server for the call, which nobody will answer. Returns their ids.
    pub(crate) fn take_unanswered(&mut self) -> Vec<Bytes> {
        match &mut self.state {
            State::Forwarded(call) | State::Suspended { call, .. } => call.take_unanswered(),
            _ => Vec::new(),
        }
    }

    /// Caches the response to a suspended call until its agent retries.
    pub(crate) fn cache_response(&mut self, line: &Bytes) {
        if let State::Suspended { suspension, .. } = &mut self.state {
            suspension.response = Some(Bytes::copy_from_slice(line));
        }
    }

    /// Whether it is suspended with this `requestState`, for this profile.
    pub(crate) fn is_suspended_as(&self, state: &[u8], profile: &str) -> bool {
        match &self.state {
            State::Suspended { call, suspension } => *call.agent.profile == *profile && suspension.is_for(state),
            _ => false,
        }
    }

    /// Whether `request` repeats it.
    pub(crate) fn is_repeated_by(&self, request: &BridgedRequest) -> bool {
        self.request.method() == request.method() && request::is_retry(self.request.params(), request.params())
    }

    /// The agent retries a suspended call, and declares these capabilities.
    pub(crate) fn resume(&mut self, capabilities: ClientCapabilities, responses: &[(Bytes, Bytes)]) -> Resumption {
        let State::Suspended { call, suspension } = &mut self.state else { return Resumption::default() };
        let answered = call.resume(capabilities, responses);
        let resumed = Resumption { answered, response: suspension.response.take() };
        self.state = State::Forwarded(std::mem::take(call));
        resumed
    }
}

/// What the retry of a suspended call makes available.
#[derive(Debug, Default)]
pub(crate) struct Resumption {
    /// The server's ids of its requests that are answered, with the response lines for it.
    pub(crate) answered: Vec<(Bytes, Bytes)>,
    /// The response to the call, if it has arrived.
    pub(crate) response: Option<Bytes>,
}
