//! Tasks that a legacy server has created for calls of modern agents. Pure.
//!
//! A modern agent identifies itself with each request, so such a task belongs to its profile and outlives the connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::modern_tasks::Open;
use crate::bridge::{PendingInput, take_answered};
use crate::client_capabilities::ClientCapabilities;
use crate::era::input;
use crate::server::messages::call::{CallKey, LoadGuard};
use crate::server::messages::tasks::TaskState;

/// Tasks that are remembered. For one more the oldest that has ended is forgotten; while all are open, no call is taken that makes
/// another.
const MAX_TASKS: usize = 1024;
/// Questions that one task waits with.
const MAX_INPUTS: usize = 16;

/// One that was made.
pub(super) struct ProfileTask {
    /// The call that made it, by its id at the server.
    request: u64,
    pub(super) key: CallKey,
    /// As the server spelled it in JSON.
    pub(super) raw_id: Bytes,
    profile: Arc<str>,
    /// What its agent can be asked, by what it has said last.
    pub(super) abilities: ClientCapabilities,
    /// Unless it has ended.
    open: Option<Open>,
    /// A request for its result is unanswered, which has the server ask what it wants to know.
    pub(super) asks: bool,
    inputs: Vec<PendingInput>,
    /// How many questions there have been.
    count: u64,
}

/// Those of one instance, by the server's own ids as text.
#[derive(Default)]
pub(super) struct ProfileTasks {
    all: HashMap<Bytes, ProfileTask>,
}

impl ProfileTask {
    /// The one that the call `key` of `profile` has made, which is `request` at the server and holds `load`.
    pub(super) fn new(
        state: &TaskState,
        (request, key): (u64, CallKey),
        profile: Arc<str>,
        abilities: ClientCapabilities,
        load: Option<LoadGuard>,
    ) -> Self {
        let raw_id = state.raw_id.clone();
        let mut made =
            Self { request, key, raw_id, profile, abilities, open: None, asks: false, inputs: Vec::new(), count: 0 };
        made.note(state, Instant::now(), load);
        made
    }

    /// Takes in how it is, unless it has ended; from when on it is over in any case.
    pub(super) fn note(&mut self, state: &TaskState, now: Instant, load: Option<LoadGuard>) -> Option<Instant> {
        if state.ended {
            return None;
        }
        // Its time runs from when it was made.
        let ends_at = match &self.open {
            Some(open) => open.ends_at,
            None => state.ttl.and_then(|ttl| now.checked_add(ttl)),
        };
        let load = self.open.take().and_then(|open| open.load).or(load);
        Some(self.open.insert(Open { ends_at, noted_at: now, load }).until())
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The bytes of its questions.
    pub(super) fn bytes(&self) -> usize {
        self.inputs.iter().map(PendingInput::bytes).sum()
    }

    /// Whether one more may be asked.
    pub(super) fn has_capacity(&self) -> bool {
        self.inputs.len() < MAX_INPUTS
    }

    /// Keeps what the server asks with its request `id`, under a key that no other has had.
    pub(super) fn ask(&mut self, id: &Bytes, method: &Bytes, params: Option<&[u8]>) {
        self.count += 1;
        self.inputs.push(PendingInput::new(self.count, id, method, params));
    }

    /// What is asked, as raw `inputRequests`, if anything is.
    pub(super) fn inputs(&self) -> Option<Bytes> {
        let inputs = self.inputs.iter().map(PendingInput::parts);
        (!self.inputs.is_empty()).then(|| Bytes::from(format!("{{{}}}", input::requests(inputs))))
    }

    /// The server's requests that these are the answers to, by their ids, with lines for it; they are not open any more.
    pub(super) fn take_answered(&mut self, responses: &[(Bytes, Bytes)]) -> Vec<(Bytes, Bytes)> {
        take_answered(&mut self.inputs, responses)
    }
}

impl ProfileTasks {
    /// Whether one more call may make one, while so many others do.
    pub(super) fn have_capacity(&self, making: usize) -> bool {
        self.all.len() + making < MAX_TASKS || self.open().count() + making < MAX_TASKS
    }

    /// Adds one, in whose place an ended one may have to go; `false` if an open one has its id, or all are open.
    pub(super) fn add(&mut self, id: Bytes, task: ProfileTask) -> bool {
        if self.all.get(&id).is_some_and(ProfileTask::is_open) {
            return false;
        }
        if self.all.len() >= MAX_TASKS && !self.all.contains_key(&id) {
            let ended = self.all.iter().filter(|(_, task)| !task.is_open());
            let Some(oldest) = ended.min_by_key(|(_, task)| task.request).map(|(id, _)| id.clone()) else {
                return false;
            };
            self.all.remove(&oldest);
        }
        self.all.insert(id, task);
        true
    }

    /// Whether an open one has this id.
    pub(super) fn has_open(&self, id: &[u8]) -> bool {
        self.all.get(id).is_some_and(ProfileTask::is_open)
    }

    /// The one of that id.
    pub(super) fn find(&mut self, id: &[u8]) -> Option<&mut ProfileTask> {
        self.all.get_mut(id)
    }

    /// The same, if it is this profile's.
    pub(super) fn of(&mut self, profile: &str, id: &[u8]) -> Option<&mut ProfileTask> {
        self.find(id).filter(|task| *task.profile == *profile)
    }

    /// The id of the one that the call `key` has made.
    pub(super) fn made_by(&self, key: CallKey) -> Option<Bytes> {
        self.all.iter().find(|(_, task)| task.key == key).map(|(id, _)| id.clone())
    }

    /// It has ended. The ids of the server's requests that nobody will answer.
    pub(super) fn end(&mut self, id: &[u8]) -> Vec<Bytes> {
        let Some(task) = self.all.get_mut(id) else { return Vec::new() };
        task.open = None;
        task.inputs.drain(..).map(PendingInput::into_id).collect()
    }

    /// Nobody will ask for it. The same.
    pub(super) fn forget(&mut self, id: &[u8]) -> Vec<Bytes> {
        let unanswered = self.end(id);
        self.all.remove(id);
        unanswered
    }

    /// The server does not want to know any more what it has asked with this request.
    pub(super) fn withdraw(&mut self, question: &Bytes) {
        for task in self.all.values_mut() {
            task.inputs.retain(|input| input.id() != question);
        }
    }

    /// Whether it has asked something with this request.
    pub(super) fn has_question(&self, question: &Bytes) -> bool {
        self.all.values().any(|task| task.inputs.iter().any(|input| input.id() == question))
    }

    /// The bytes of all questions.
    pub(super) fn bytes(&self) -> usize {
        self.all.values().map(ProfileTask::bytes).sum()
    }

    /// Those that the server may be at.
    pub(super) fn open(&self) -> impl Iterator<Item = &ProfileTask> {
        self.all.values().filter(|task| task.is_open())
    }

    /// When the next one is over in any case.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.all.values().filter_map(|task| task.open.as_ref().map(Open::until)).min()
    }

    /// Ends those that are over `now` in any case. The ids of the server's requests that nobody will answer.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Bytes> {
        let is_over = |task: &ProfileTask| task.open.as_ref().is_some_and(|open| open.until() <= now);
        let over: Vec<_> = self.all.iter().filter(|(_, task)| is_over(task)).map(|(id, _)| id.clone()).collect();
        over.iter().flat_map(|id| self.end(id)).collect()
    }
}

#[cfg(test)]
mod tests;
