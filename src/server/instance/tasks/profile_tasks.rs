//! Tasks that a legacy server has created for calls of modern agents. Pure.
//!
//! A modern agent identifies itself with each request, so such a task belongs to its profile and outlives the connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::modern_tasks::OpenTask;
use crate::bridge::{PendingInputRequest, take_answered};
use crate::client_capabilities::ClientCapabilities;
use crate::era::input;
use crate::server::messages::call::{CallKey, LoadToken};
use crate::server::messages::tasks::TaskState;

/// Maximum number of tasks. One more replaces the oldest that has ended. While all are open, calls that create a task are refused.
const MAX_TASKS: usize = 1024;
/// Maximum number of unanswered requests of the server for one task.
const MAX_INPUTS: usize = 16;

/// A task of a profile.
pub(super) struct ProfileTask {
    /// The id at the server of the call that has created the task.
    creating_call: u64,
    pub(super) key: CallKey,
    /// The id in the raw JSON of the server.
    pub(super) raw_id: Bytes,
    pub(super) profile: Arc<str>,
    /// The capabilities that the latest request about the task declares.
    pub(super) capabilities: ClientCapabilities,
    /// `None` once the task has ended.
    open: Option<OpenTask>,
    /// The request of mcpd for its result.
    pub(super) result: ResultRequest,
    /// Its subscribers receive reports of its state.
    pub(super) reports: Reports,
    inputs: Vec<PendingInputRequest>,
    /// Number of requests so far, which gives each request its key.
    count: u64,
}

/// A request for the result of a task. While it is unanswered, the server may send requests for the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultRequest {
    NotSent,
    Pending,
    Answered,
}

/// The reports of a task to its subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reports {
    /// No agent is subscribed.
    Off,
    /// The newest report was sent.
    Sent,
    /// A request for the state is unanswered.
    Pending,
    /// The same, and the task has changed since.
    Stale,
}

/// The tasks of one instance, by the server's ids as text.
#[derive(Default)]
pub(super) struct ProfileTasks {
    all: HashMap<Bytes, ProfileTask>,
}

impl ProfileTask {
    /// A task created by the call `key` of `profile`, whose id at the server is `creating_call`. The call holds `load`.
    pub(super) fn new(
        state: &TaskState,
        creating_call: u64,
        key: CallKey,
        profile: Arc<str>,
        capabilities: ClientCapabilities,
        load: Option<LoadToken>,
    ) -> Self {
        let raw_id = state.raw_id.clone();
        let (inputs, count) = (Vec::new(), 0);
        let (result, reports) = (ResultRequest::NotSent, Reports::Off);
        let mut task =
            Self { creating_call, key, raw_id, profile, capabilities, open: None, result, reports, inputs, count };
        task.note(state, Instant::now(), load);
        task
    }

    /// Notes the state of the task. Returns when it counts as ended without another report; `None` if it has ended.
    pub(super) fn note(&mut self, state: &TaskState, now: Instant, load: Option<LoadToken>) -> Option<Instant> {
        if state.ended {
            return None;
        }
        // Its time to live starts when it is created.
        let ends_at = match &self.open {
            Some(open) => open.ends_at,
            None => state.ttl.and_then(|ttl| now.checked_add(ttl)),
        };
        let load = self.open.take().and_then(|open| open.load).or(load);
        Some(self.open.insert(OpenTask { ends_at, noted_at: now, load }).until())
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The size of the unanswered requests.
    pub(super) fn bytes(&self) -> usize {
        self.inputs.iter().map(PendingInputRequest::bytes).sum()
    }

    /// Whether one more request fits.
    pub(super) fn has_capacity(&self) -> bool {
        self.inputs.len() < MAX_INPUTS
    }

    /// Adds the request `id` of the server, under a new key.
    pub(super) fn add_input(&mut self, id: &Bytes, method: &Bytes, params: Option<&[u8]>) {
        self.count += 1;
        self.inputs.push(PendingInputRequest::new(self.count, id, method, params));
    }

    /// The unanswered requests as raw `inputRequests`; `None` if there are none.
    pub(super) fn inputs(&self) -> Option<Bytes> {
        let inputs = self.inputs.iter().map(PendingInputRequest::parts);
        (!self.inputs.is_empty()).then(|| Bytes::from(format!("{{{}}}", input::requests(inputs))))
    }

    /// Removes the requests that these responses answer. Returns their ids with the response lines for the server.
    pub(super) fn take_answered(&mut self, responses: &[(Bytes, Bytes)]) -> Vec<(Bytes, Bytes)> {
        take_answered(&mut self.inputs, responses)
    }
}

impl ProfileTasks {
    /// Whether one more call may create a task, in addition to this many unanswered calls.
    pub(super) fn have_capacity(&self, creating: usize) -> bool {
        self.all.len() + creating < MAX_TASKS || self.open().count() + creating < MAX_TASKS
    }

    /// Adds a task, which may replace one that has ended. `false` if an open task has its id, or all are open.
    pub(super) fn add(&mut self, id: Bytes, task: ProfileTask) -> bool {
        if self.all.get(&id).is_some_and(ProfileTask::is_open) {
            return false;
        }
        if self.all.len() >= MAX_TASKS && !self.all.contains_key(&id) {
            let ended = self.all.iter().filter(|(_, task)| !task.is_open());
            let Some(oldest) = ended.min_by_key(|(_, task)| task.creating_call).map(|(id, _)| id.clone()) else {
                return false;
            };
            self.all.remove(&oldest);
        }
        self.all.insert(id, task);
        true
    }

    /// Whether an open task has this id.
    pub(super) fn has_open(&self, id: &[u8]) -> bool {
        self.all.get(id).is_some_and(ProfileTask::is_open)
    }

    /// The task with this id.
    pub(super) fn find(&mut self, id: &[u8]) -> Option<&mut ProfileTask> {
        self.all.get_mut(id)
    }

    /// The task with this id, if it belongs to this profile.
    pub(super) fn of(&mut self, profile: &str, id: &[u8]) -> Option<&mut ProfileTask> {
        self.find(id).filter(|task| *task.profile == *profile)
    }

    /// The id of the task that the call `key` has created.
    pub(super) fn created_by(&self, key: CallKey) -> Option<Bytes> {
        self.all.iter().find(|(_, task)| task.key == key).map(|(id, _)| id.clone())
    }

    /// The task has ended. Returns the ids of requests of the server that nobody will answer.
    pub(super) fn end(&mut self, id: &[u8]) -> Vec<Bytes> {
        let Some(task) = self.all.get_mut(id) else { return Vec::new() };
        task.open = None;
        task.inputs.drain(..).map(PendingInputRequest::into_id).collect()
    }

    /// Removes a task that no agent will request. Returns the same.
    pub(super) fn forget(&mut self, id: &[u8]) -> Vec<Bytes> {
        let unanswered = self.end(id);
        self.all.remove(id);
        unanswered
    }

    /// The server has cancelled its request with this id.
    pub(super) fn withdraw(&mut self, request: &Bytes) {
        for task in self.all.values_mut() {
            task.inputs.retain(|input| input.id() != request);
        }
    }

    /// Whether a request with this id is unanswered.
    pub(super) fn has_request(&self, request: &Bytes) -> bool {
        self.all.values().any(|task| task.inputs.iter().any(|input| input.id() == request))
    }

    /// The size of all unanswered requests.
    pub(super) fn bytes(&self) -> usize {
        self.all.values().map(ProfileTask::bytes).sum()
    }

    /// Tasks that have not ended.
    pub(super) fn open(&self) -> impl Iterator<Item = &ProfileTask> {
        self.all.values().filter(|task| task.is_open())
    }

    /// When the next task counts as ended.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.all.values().filter_map(|task| task.open.as_ref().map(OpenTask::until)).min()
    }

    /// Ends tasks that count as ended `now`. Returns the ids of requests of the server that nobody will answer.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Bytes> {
        let is_over = |task: &ProfileTask| task.open.as_ref().is_some_and(|open| open.until() <= now);
        let over: Vec<_> = self.all.iter().filter(|(_, task)| is_over(task)).map(|(id, _)| id.clone()).collect();
        over.iter().flat_map(|id| self.end(id)).collect()
    }
}

#[cfg(test)]
mod tests;
