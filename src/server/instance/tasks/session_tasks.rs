//! Tasks of legacy agents. A task belongs to one session and to the call that has created it. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;

use crate::jsonrpc::pending::parse_own_id;
use crate::server::messages::call::{CallKey, LoadToken, SessionSender};
use crate::server::messages::tasks::TaskState;

/// Maximum number of tasks. One more replaces the oldest that has ended, else the oldest without an owner. While all are open and
/// owned, calls that request a task are refused.
const MAX_TASKS: usize = 1024;
/// Maximum number of cancelled calls whose task may still be created and is then cancelled. The tasks of older ones are not
/// cancelled.
const MAX_CANCELLED: usize = 1024;
/// Maximum number of status notifications that wait for the response which names their task: SDKs send the first notification
/// before the response. One more drops the oldest.
const MAX_EARLY: usize = 64;
/// Maximum size of such a notification in bytes. A larger one is dropped.
const MAX_EARLY_LEN: usize = 4 << 10;

/// A task of a session.
#[derive(Debug)]
pub(super) struct SessionTask {
    id: Bytes,
    /// The id in the raw JSON of the server.
    pub(super) raw_id: Bytes,
    /// The call that has created the task.
    pub(super) key: CallKey,
    /// The channel to its agent; `None` without an owner.
    pub(super) to: Option<SessionSender>,
    /// The agent's progress token, raw.
    pub(super) token: Option<Bytes>,
    open: Option<OpenSessionTask>,
}

/// The state of a task that has not ended.
#[derive(Debug, Default)]
pub(super) struct OpenSessionTask {
    /// When the task counts as ended.
    until: Option<Instant>,
    /// Keeps the instance, if the server has several and the task has an owner.
    load: Option<LoadToken>,
}

/// A status notification that arrived before the response which names its task.
#[derive(Debug)]
pub(super) struct EarlyNotification {
    pub(super) id: Bytes,
    pub(super) ended: bool,
    /// The whole line.
    pub(super) line: Bytes,
}

/// The tasks of one instance.
#[derive(Debug, Default)]
pub(super) struct SessionTasks {
    /// By task key: the id at the server of the call that has created the task. So they are in the order of the calls.
    all: BTreeMap<u64, SessionTask>,
    by_id: HashMap<Bytes, u64>,
    open: usize,
    /// Cancelled calls that may create a task: the key of such a task, and the key of the call.
    cancelled: VecDeque<(u64, CallKey)>,
    /// Notifications about tasks that are not known yet.
    early: VecDeque<EarlyNotification>,
    life: Arc<()>,
}

impl OpenSessionTask {
    pub(super) fn new(until: Option<Instant>, load: Option<LoadToken>) -> Self {
        Self { until, load }
    }
}

impl SessionTask {
    /// As text.
    pub(super) fn id(&self) -> &Bytes {
        &self.id
    }

    /// A task created by the call `key` of the agent at `to`. `open` is `None` if it has ended.
    pub(super) fn new(
        state: &TaskState,
        key: CallKey,
        to: Option<SessionSender>,
        token: Option<Bytes>,
        open: Option<OpenSessionTask>,
    ) -> Self {
        let (id, raw_id) = (state.id.clone(), state.raw_id.clone());
        Self { id, raw_id, key, to, token, open }
    }

    /// When it counts as ended.
    fn until(&self) -> Option<Instant> {
        self.open.as_ref()?.until
    }
}

impl SessionTasks {
    /// Whether a call may request one more task.
    pub(super) fn have_capacity(&self) -> bool {
        self.open < MAX_TASKS || self.awaited().count() < MAX_TASKS
    }

    /// Open tasks with an owner.
    pub(super) fn awaited(&self) -> impl Iterator<Item = &SessionTask> {
        self.all_open().filter(|task| task.to.is_some())
    }

    /// Removes a task if the table is full. Returns its key and that of its call if it is open.
    pub(super) fn evict(&mut self) -> Option<(u64, CallKey)> {
        if self.all.len() < MAX_TASKS {
            return None;
        }
        let oldest = |is_it: &dyn Fn(&SessionTask) -> bool| self.all.iter().find(|(_, task)| is_it(task));
        let ended = oldest(&|task| task.open.is_none());
        let (task_key, task) = ended.or_else(|| oldest(&|task| task.to.is_none()))?;
        let (task_key, forgotten) = (*task_key, task.open.is_some().then_some((*task_key, task.key)));
        self.forget(task_key);
        forgotten
    }

    /// Expires with this table.
    pub(super) fn life(&self) -> Weak<()> {
        Arc::downgrade(&self.life)
    }

    /// Adds a task under its key. `false` if an open task has its id.
    pub(super) fn add(&mut self, task_key: u64, task: SessionTask) -> bool {
        if let Some(other) = self.by_id.get(&task.id).copied() {
            if self.all.get(&other).is_some_and(|other| other.open.is_some()) {
                return false;
            }
            self.forget(other);
        }
        self.open += usize::from(task.open.is_some());
        self.by_id.insert(task.id.clone(), task_key);
        self.all.insert(task_key, task);
        true
    }

    /// The task with this id, and its key.
    pub(super) fn find(&self, id: &[u8]) -> Option<(u64, &SessionTask)> {
        let task_key = *self.by_id.get(id)?;
        Some((task_key, self.all.get(&task_key)?))
    }

    /// The same, if the task belongs to this session.
    pub(super) fn of(&self, session: u64, id: &[u8]) -> Option<(u64, &SessionTask)> {
        self.find(id).filter(|(_, task)| task.to.is_some() && task.key.session == session)
    }

    /// The open task whose progress has this token.
    pub(super) fn of_token(&self, token: &[u8]) -> Option<&SessionTask> {
        self.all.get(&parse_own_id(token)?).filter(|task| task.open.is_some())
    }

    /// The task has ended.
    pub(super) fn end(&mut self, task_key: u64) {
        if let Some(task) = self.all.get_mut(&task_key)
            && task.open.take().is_some()
        {
            self.open -= 1;
        }
    }

    /// Removes a task that no agent will request.
    pub(super) fn forget(&mut self, task_key: u64) {
        self.end(task_key);
        if let Some(task) = self.all.remove(&task_key) {
            self.by_id.remove(&task.id);
        }
    }

    /// Removes the owner of a task. Returns the raw id if the task is open.
    pub(super) fn disown(&mut self, task_key: u64) -> Option<Bytes> {
        let task = self.all.get_mut(&task_key)?;
        task.to = None;
        if let Some(open) = &mut task.open {
            open.load = None;
            return Some(task.raw_id.clone());
        }
        self.forget(task_key);
        None
    }

    /// The key of the task that the call `key` has created.
    pub(super) fn created_by(&self, key: CallKey) -> Option<u64> {
        self.all.iter().find(|(_, task)| task.key == key && task.to.is_some()).map(|(task_key, _)| *task_key)
    }

    /// The keys of the tasks of this session.
    pub(super) fn of_session(&self, session: u64) -> Vec<u64> {
        let is_its = |task: &SessionTask| task.to.is_some() && task.key.session == session;
        self.all.iter().filter(|(_, task)| is_its(task)).map(|(task_key, _)| *task_key).collect()
    }

    /// Tasks that have not ended.
    pub(super) fn all_open(&self) -> impl Iterator<Item = &SessionTask> {
        let any = (self.open > 0).then_some(&self.all);
        any.into_iter().flat_map(BTreeMap::values).filter(|task| task.open.is_some())
    }

    /// When the next task counts as ended.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.all_open().filter_map(SessionTask::until).min()
    }

    /// Ends tasks that have expired `now`.
    pub(super) fn expire(&mut self, now: Instant) {
        let is_over = |task: &SessionTask| task.until().is_some_and(|until| until <= now);
        let over: Vec<_> = self.all.iter().filter(|(_, task)| is_over(task)).map(|(task_key, _)| *task_key).collect();
        over.into_iter().for_each(|task_key| self.end(task_key));
    }

    /// Keeps a notification about an unknown task. Returns how many were dropped.
    pub(super) fn add_early(&mut self, notification: EarlyNotification) -> u64 {
        if notification.line.len() > MAX_EARLY_LEN {
            return 1;
        }
        let dropped = (self.early.len() == MAX_EARLY).then(|| self.early.pop_front());
        self.early.push_back(notification);
        u64::from(dropped.is_some())
    }

    /// Takes the notifications about a task in order. Returns whether it has ended, and their lines.
    pub(super) fn take_early(&mut self, id: &[u8]) -> (bool, Vec<Bytes>) {
        let (found, others) =
            std::mem::take(&mut self.early).into_iter().partition::<VecDeque<_>, _>(|one| one.id == id);
        self.early = others;
        (found.iter().any(|one| one.ended), found.into_iter().map(|one| one.line).collect())
    }

    /// Drops all notifications about unknown tasks. Returns how many.
    pub(super) fn drop_early(&mut self) -> u64 {
        std::mem::take(&mut self.early).len() as u64
    }

    /// The call `key`, which requests a task, was cancelled after it may have reached the server.
    pub(super) fn cancel(&mut self, task_key: u64, key: CallKey) {
        if self.cancelled.len() == MAX_CANCELLED {
            self.cancelled.pop_front();
        }
        self.cancelled.push_back((task_key, key));
    }

    /// Takes the cancelled call with this raw id.
    pub(super) fn take_cancelled(&mut self, id: &[u8]) -> Option<(u64, CallKey)> {
        if self.cancelled.is_empty() {
            return None;
        }
        let id = parse_own_id(id)?;
        let index = self.cancelled.iter().position(|(task_key, _)| *task_key == id)?;
        self.cancelled.remove(index)
    }
}

#[cfg(test)]
mod tests;
