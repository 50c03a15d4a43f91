//! SessionTasks of legacy agents: each belongs to one session, and to the call that created it. Pure.

mod expiry;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;

use crate::bridge::{CompletedTask, TaskInputs};
use crate::era::speaker::Speaker;
use crate::jsonrpc::pending::minted;
use crate::server::messages::call::{CallKey, LoadGuard, ReplySender};
use crate::server::messages::tasks::TaskState;

/// SessionTasks that are remembered. For one more the oldest that has ended is forgotten, else the oldest that is nobody's; while all
/// are open and somebody's, no call is taken that asks for another.
const MAX_TASKS: usize = 1024;
/// Calls that asked for a task and were given up, which the server may still make. Of older ones it is not cancelled.
const MAX_CANCELLED: usize = 1024;
/// Status notifications that are kept until the call is answered that says whose their task is: SDKs send the first one before
/// that. For one more the oldest is dropped.
const MAX_EARLY: usize = 64;
/// Largest of them, in bytes; a larger one is dropped.
const MAX_EARLY_LEN: usize = 4 << 10;

/// One that was made.
#[derive(Debug)]
pub(super) struct SessionTask {
    id: Bytes,
    /// The same as the server spelled it in JSON.
    pub(super) raw_id: Bytes,
    /// The call that made it.
    pub(super) key: CallKey,
    /// The way to its agent; none once it is nobody's.
    pub(super) to: Option<ReplySender>,
    /// The agent's own progress token, raw.
    pub(super) token: Option<Bytes>,
    pub(super) open: Option<Open>,
    /// What it has ended with, if it has ended before it was made.
    pub(super) completed: Option<Box<CompletedTask>>,
    /// What its server wants to know of its agent.
    pub(super) inputs: TaskInputs,
    /// For whom the server is told.
    pub(super) speaker: Option<Arc<Speaker>>,
}

/// That a task has not ended.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// When it is over in any case.
    until: Option<Instant>,
    /// Keeps one of several instances, for as long as the task is somebody's.
    load: Option<LoadGuard>,
}

/// A status notification that came before the answer to the call that makes the task.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) id: Bytes,
    pub(super) ended: bool,
    /// The whole line.
    pub(super) line: Bytes,
}

/// Those of one instance.
#[derive(Debug, Default)]
pub(super) struct SessionTasks {
    /// By the ids that their calls had at the server, which is the order in which they were asked for.
    all: BTreeMap<u64, SessionTask>,
    by_id: HashMap<Bytes, u64>,
    open: usize,
    /// Of results that are kept.
    cached_bytes: usize,
    /// Calls that were given up, with their agents' sessions.
    cancelled: VecDeque<(u64, CallKey)>,
    /// What was said of tasks that are not known yet.
    early: VecDeque<Early>,
    life: Arc<()>,
}

impl Open {
    pub(super) fn new(until: Option<Instant>, load: Option<LoadGuard>) -> Self {
        Self { until, load }
    }
}

impl SessionTask {
    /// As text.
    pub(super) fn id(&self) -> &Bytes {
        &self.id
    }

    /// That `state` was made by the call `key` for the agent behind `to`; `open` unless it has ended.
    pub(super) fn new(
        state: &TaskState,
        key: CallKey,
        to: Option<ReplySender>,
        token: Option<Bytes>,
        open: Option<Open>,
    ) -> Self {
        let (id, raw_id) = (state.id.clone(), state.raw_id.clone());
        Self { id, raw_id, key, to, token, open, completed: None, inputs: TaskInputs::default(), speaker: None }
    }

    /// When what is kept of it is over.
    fn cached_until(&self) -> Option<Instant> {
        self.completed.as_ref().map(|completed| completed.until)
    }
}

impl SessionTasks {
    /// Whether a call may ask for one more.
    pub(super) fn have_capacity(&self) -> bool {
        self.open < MAX_TASKS || self.awaited().count() < MAX_TASKS
    }

    /// Those that somebody has and that have not ended, as far as is known.
    pub(super) fn awaited(&self) -> impl Iterator<Item = &SessionTask> {
        self.all_open().filter(|task| task.to.is_some())
    }

    /// Forgets one, if there are as many as may be. Its call and its session, if the server may still be at it.
    pub(super) fn evict(&mut self) -> Option<(u64, u64)> {
        if self.all.len() < MAX_TASKS {
            return None;
        }
        let oldest = |is_it: &dyn Fn(&SessionTask) -> bool| self.all.iter().find(|(_, task)| is_it(task));
        let ended = oldest(&|task| task.open.is_none());
        let (request, task) = ended.or_else(|| oldest(&|task| task.to.is_none()))?;
        let (request, forgotten) = (*request, task.open.is_some().then_some((*request, task.key.session)));
        self.forget(request);
        forgotten
    }

    /// Dead once these are gone.
    pub(super) fn life(&self) -> Weak<()> {
        Arc::downgrade(&self.life)
    }

    /// Adds the one that the call with this id at the server has made; `false` if an open one has its id.
    pub(super) fn add(&mut self, request: u64, task: SessionTask) -> bool {
        if let Some(other) = self.by_id.get(&task.id).copied() {
            if self.all.get(&other).is_some_and(|other| other.open.is_some()) {
                return false;
            }
            self.forget(other);
        }
        self.open += usize::from(task.open.is_some());
        self.cached_bytes += task.completed.as_ref().map_or(0, |completed| completed.bytes());
        self.by_id.insert(task.id.clone(), request);
        self.all.insert(request, task);
        true
    }

    /// The one of that id, with the id of its call.
    pub(super) fn find(&self, id: &[u8]) -> Option<(u64, &SessionTask)> {
        let request = *self.by_id.get(id)?;
        Some((request, self.all.get(&request)?))
    }

    /// The same, if it is this session's.
    pub(super) fn of(&self, session: u64, id: &[u8]) -> Option<(u64, &SessionTask)> {
        self.find(id).filter(|(_, task)| task.to.is_some() && task.key.session == session)
    }

    /// The open one whose progress has this token.
    pub(super) fn of_token(&self, token: &[u8]) -> Option<&SessionTask> {
        self.all.get(&minted(token)?).filter(|task| task.open.is_some())
    }

    /// It has ended.
    pub(super) fn end(&mut self, request: u64) {
        if let Some(task) = self.all.get_mut(&request)
            && task.open.take().is_some()
        {
            self.open -= 1;
        }
    }

    /// Nobody will ask for it.
    pub(super) fn forget(&mut self, request: u64) {
        self.end(request);
        if let Some(task) = self.all.remove(&request) {
            self.by_id.remove(&task.id);
            self.cached_bytes -= task.completed.map_or(0, |completed| completed.bytes());
        }
    }

    /// To be changed.
    pub(super) fn get_mut(&mut self, request: u64) -> Option<&mut SessionTask> {
        self.all.get_mut(&request)
    }

    /// The bytes of what agents have answered and servers were not told yet.
    pub(super) fn answer_bytes(&self) -> usize {
        self.all_open().map(|task| task.inputs.bytes()).sum()
    }

    /// It is nobody's any more. Its raw id, if the server may still be at it.
    pub(super) fn disown(&mut self, request: u64) -> Option<Bytes> {
        let task = self.all.get_mut(&request)?;
        task.to = None;
        if let Some(open) = &mut task.open {
            open.load = None;
            return Some(task.raw_id.clone());
        }
        self.forget(request);
        None
    }

    /// The id at the server of the call `key`, if that has made one.
    pub(super) fn made_by(&self, key: CallKey) -> Option<u64> {
        self.all.iter().find(|(_, task)| task.key == key && task.to.is_some()).map(|(request, _)| *request)
    }

    /// The ids of the calls that have made those of one session.
    pub(super) fn of_session(&self, session: u64) -> Vec<u64> {
        let is_its = |task: &SessionTask| task.to.is_some() && task.key.session == session;
        self.all.iter().filter(|(_, task)| is_its(task)).map(|(request, _)| *request).collect()
    }

    /// Those that the server may be at.
    pub(super) fn all_open(&self) -> impl Iterator<Item = &SessionTask> {
        let any = (self.open > 0).then_some(&self.all);
        any.into_iter().flat_map(BTreeMap::values).filter(|task| task.open.is_some())
    }

    /// Keeps what was said of a task that is not known yet. How many such lines were dropped.
    pub(super) fn add_early(&mut self, early: Early) -> u64 {
        if early.line.len() > MAX_EARLY_LEN {
            return 1;
        }
        let dropped = (self.early.len() == MAX_EARLY).then(|| self.early.pop_front());
        self.early.push_back(early);
        u64::from(dropped.is_some())
    }

    /// Takes out what was said of a task that is known now, in order: whether it has ended, and the lines.
    pub(super) fn take_early(&mut self, id: &[u8]) -> (bool, Vec<Bytes>) {
        let (own, others) = std::mem::take(&mut self.early).into_iter().partition::<VecDeque<_>, _>(|one| one.id == id);
        self.early = others;
        (own.iter().any(|one| one.ended), own.into_iter().map(|one| one.line).collect())
    }

    /// No call is left that could say whose the rest is. How many lines that were.
    pub(super) fn drop_early(&mut self) -> u64 {
        std::mem::take(&mut self.early).len() as u64
    }

    /// The call that asked for one was given up after it may have reached the server.
    pub(super) fn cancel(&mut self, request: u64, key: CallKey) {
        if self.cancelled.len() == MAX_CANCELLED {
            self.cancelled.pop_front();
        }
        self.cancelled.push_back((request, key));
    }

    /// Whether the call of this raw id was, and whose it was.
    pub(super) fn take_cancelled(&mut self, id: &[u8]) -> Option<(u64, CallKey)> {
        if self.cancelled.is_empty() {
            return None;
        }
        let id = minted(id)?;
        let index = self.cancelled.iter().position(|(request, _)| *request == id)?;
        self.cancelled.remove(index)
    }
}

#[cfg(test)]
mod tests;
