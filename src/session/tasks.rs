//! The tasks that servers have created for the agent's calls: the instance of each, its last known state, and the pages of `tasks/list` that
//! the agent has requested. One page is gathered at a time, by polling each task on it. Pure.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;

use crate::account::{Charge, MAX_TASKS};
use crate::server::messages::call::CallKey;
use crate::server::messages::tasks::TaskState;

/// Maximum size in bytes of all last known states together. A new state that does not fit is dropped, and the old one stays.
const MAX_BYTES: usize = 256 << 10;

/// What has created a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskSource<H> {
    /// The configured server.
    pub(super) server: H,
    /// The instance that runs the task.
    pub(super) instance: H,
    /// The server's own name of the tool that was called.
    pub(super) tool: Arc<str>,
}

/// How long a task exists.
#[derive(Debug)]
pub(super) struct Lifetime {
    /// Dead once the instance is.
    pub(super) instance_alive: Weak<()>,
    /// When the server may have forgotten it.
    pub(super) until: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Task<H> {
    /// In the order in which they were made.
    pub(super) number: u64,
    id: Bytes,
    /// As its server spelled it in JSON.
    pub(super) raw_id: Bytes,
    pub(super) source: TaskSource<H>,
    lifetime: Lifetime,
    /// The call that made it.
    key: CallKey,
    ended: bool,
    /// The last known state, a raw object.
    pub(super) state: Option<Bytes>,
}

#[derive(Debug)]
pub(super) struct Tasks<H> {
    all: Vec<Task<H>>,
    last: u64,
    /// Of states.
    bytes: usize,
}

impl<H> Default for Tasks<H> {
    fn default() -> Self {
        Self { all: Vec::new(), last: 0, bytes: 0 }
    }
}

impl<H: Clone> Tasks<H> {
    /// How many tasks are still running `now`.
    pub(super) fn count_running(&mut self, now: Instant) -> usize {
        for task in &mut self.all {
            task.ended |= task.lifetime.until.is_some_and(|until| until <= now);
        }
        self.all.iter().filter(|task| task.is_running()).count()
    }

    /// Adds the task that the call `key` created. A task of the same instance with the same id is replaced. `false` if a task of
    /// another instance (by `is_elsewhere`) has the same id.
    pub(super) fn add(
        &mut self,
        key: CallKey,
        state: TaskState,
        source: TaskSource<H>,
        lifetime: Lifetime,
        is_elsewhere: impl FnOnce(&H) -> bool,
    ) -> bool {
        if let Some(other) = self.find(&state.id) {
            if is_elsewhere(&other.source.instance) {
                return false;
            }
            // The same instance reuses the id, so it has forgotten the old task.
            self.forget(&state.id);
        }
        self.all.retain(|task| task.exists());
        if self.all.len() >= MAX_TASKS
            && let Some(index) = self.all.iter().position(|task| !task.is_running())
        {
            self.all.remove(index);
        }
        self.bytes = self.all.iter().map(Task::bytes).sum();
        self.last += 1;
        let TaskState { id, raw_id, ended, object, .. } = state;
        let state = object.filter(|object| self.bytes + object.len() <= MAX_BYTES);
        self.bytes += state.as_ref().map_or(0, Bytes::len);
        self.all.push(Task { number: self.last, id, raw_id, source, lifetime, key, ended, state });
        true
    }

    /// The task with this id, unless its instance is gone.
    pub(super) fn find(&self, id: &[u8]) -> Option<&Task<H>> {
        self.all.iter().find(|task| task.id == id && task.exists())
    }

    /// The task that the call `key` made, if it may still be running.
    pub(super) fn running_of(&self, key: CallKey) -> Option<&Task<H>> {
        self.all.iter().find(|task| task.key == key && task.is_running())
    }

    /// Updates the state of a task.
    pub(super) fn update(&mut self, state: TaskState) {
        let Some(task) = self.all.iter_mut().find(|task| task.id == state.id) else { return };
        task.ended |= state.ended;
        let rest = self.bytes - task.bytes();
        if let Some(object) = state.object.filter(|object| rest + object.len() <= MAX_BYTES) {
            self.bytes = rest + object.len();
            task.state = Some(object);
        }
    }

    /// Its server does not know it any more.
    pub(super) fn forget(&mut self, id: &[u8]) {
        self.all.retain(|task| task.id != id);
        self.bytes = self.all.iter().map(Task::bytes).sum();
    }

    /// The task with this number, unless its instance is gone.
    pub(super) fn numbered(&self, number: u64) -> Option<&Task<H>> {
        self.all.iter().find(|task| task.number == number && task.exists())
    }

    /// The tasks with a higher number, in order.
    pub(super) fn made_after(&self, after: u64) -> impl Iterator<Item = &Task<H>> {
        self.all.iter().filter(move |task| task.number > after && task.exists())
    }

    /// The number in a cursor of [`cursor`].
    pub(super) fn number_of(&self, cursor: &[u8]) -> Option<u64> {
        let number = std::str::from_utf8(cursor).ok()?.parse().ok()?;
        (number <= self.last && self::cursor(number).as_bytes() == cursor).then_some(number)
    }
}

/// The cursor, as text, of the page after the task with this number.
pub(super) fn cursor(number: u64) -> String {
    number.to_string()
}

impl<H> Task<H> {
    fn exists(&self) -> bool {
        self.lifetime.instance_alive.strong_count() > 0
    }

    fn is_running(&self) -> bool {
        !self.ended && self.exists()
    }

    fn bytes(&self) -> usize {
        self.state.as_ref().map_or(0, Bytes::len)
    }
}

#[derive(Debug, Default)]
pub(super) struct TaskPages {
    current: Option<TaskPage>,
    waiting: VecDeque<PageRequest>,
}

/// A request for the page that begins after the task with number `after`.
#[derive(Debug)]
pub(super) struct PageRequest {
    /// Raw.
    pub(super) id: Bytes,
    pub(super) after: u64,
    pub(super) charge: Charge,
}

#[derive(Debug)]
pub(super) struct TaskPage {
    /// Raw id of the request.
    pub(super) id: Bytes,
    pub(super) items: Vec<PolledTask>,
    /// Where the next one begins.
    pub(super) next: Option<u64>,
    #[expect(dead_code, reason = "it counts the request until it is dropped")]
    pub(super) charge: Charge,
}

#[derive(Debug)]
pub(super) struct PolledTask {
    /// Number of the task.
    pub(super) number: u64,
    /// The call that polls it.
    pub(super) key: CallKey,
    pub(super) polled: PollResult,
}

/// The result of polling a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PollResult {
    /// The response has not arrived.
    Awaited,
    /// The current state, a raw object.
    Fresh(Bytes),
    /// No new state: the list has the last known state.
    Unchanged,
    /// The task does not exist any more.
    Gone,
}

impl TaskPages {
    pub(super) fn len(&self) -> usize {
        usize::from(self.current.is_some()) + self.waiting.len()
    }

    /// Whether the request with this raw id is for a page.
    pub(super) fn contains(&self, id: &Bytes) -> bool {
        self.current.as_ref().is_some_and(|page| page.id == *id) || self.waiting.iter().any(|request| request.id == *id)
    }

    pub(super) fn push(&mut self, id: &Bytes, after: u64, charge: Charge) {
        self.waiting.push_back(PageRequest { id: Bytes::copy_from_slice(id), after, charge });
    }

    /// The next page to gather, if none is being gathered.
    pub(super) fn next(&mut self) -> Option<PageRequest> {
        if self.current.is_some() {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Begins to gather a page.
    pub(super) fn gather(&mut self, page: TaskPage) {
        self.current = Some(page);
    }

    /// The call `key` was answered. It may be the poll of a task on the page. Returns the page if it is complete.
    pub(super) fn record_poll(&mut self, key: CallKey, polled: PollResult) -> Option<TaskPage> {
        let item = self.current.as_mut()?.items.iter_mut().find(|item| item.key == key)?;
        item.polled = polled;
        self.take_complete()
    }

    /// The page, if every task on it was polled.
    pub(super) fn take_complete(&mut self) -> Option<TaskPage> {
        self.current.take_if(|page| page.items.iter().all(|item| item.polled != PollResult::Awaited))
    }

    /// The agent cancels the request. Returns the items of the page, if it is being gathered.
    pub(super) fn cancel(&mut self, id: &Bytes) -> Vec<PolledTask> {
        self.waiting.retain(|request| request.id != *id);
        self.current.take_if(|page| page.id == *id).map_or_else(Vec::new, |page| page.items)
    }

    /// Drops all pages. Returns the raw ids of the requests.
    pub(super) fn clear(&mut self) -> Vec<Bytes> {
        let current = self.current.take().map(|page| page.id);
        current.into_iter().chain(self.waiting.drain(..).map(|request| request.id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::tests::a_charge;

    fn key(serial: u64) -> CallKey {
        CallKey { session: 1, serial }
    }

    fn state(id: &str, status: &str, rest: usize) -> TaskState {
        let rest = "x".repeat(rest);
        let raw = format!(r#"{{"taskId":"{id}","status":"{status}","statusMessage":"{rest}"}}"#);
        TaskState::read(&Bytes::from(raw)).expect("a task")
    }

    fn source(instance: u8) -> TaskSource<u8> {
        TaskSource { server: instance, instance, tool: "t".into() }
    }

    fn add(tasks: &mut Tasks<u8>, (serial, id, status): (u64, &str, &str), instance: u8, life: &Arc<()>) -> bool {
        let lifetime = Lifetime { instance_alive: Arc::downgrade(life), until: None };
        tasks.add(key(serial), state(id, status, 0), source(instance), lifetime, |other| *other != instance)
    }

    fn ids(tasks: &Tasks<u8>, after: u64) -> Vec<&str> {
        tasks.made_after(after).map(|task| std::str::from_utf8(&task.id).expect("text")).collect()
    }

    #[test]
    fn tasks_are_listed_in_order_until_their_instance_is_gone() {
        let (mut tasks, [one, other]) = (Tasks::default(), [(); 2].map(Arc::new));
        for (serial, id, instance, life) in [(1, "b", 1, &one), (2, "a", 2, &other), (3, "c", 1, &one)] {
            assert!(add(&mut tasks, (serial, id, "working"), instance, life));
        }
        assert_eq!(ids(&tasks, 0), ["b", "a", "c"]);
        let second = tasks.find(b"a").map(|task| task.number).expect("known");
        assert_eq!((ids(&tasks, second), tasks.number_of(cursor(second).as_bytes())), (vec!["c"], Some(second)));
        for wrong in ["", "4", "-1", "01", "+1", "x", "1 "] {
            assert_eq!(tasks.number_of(wrong.as_bytes()), None, "{wrong}");
        }
        drop(one);
        assert_eq!(ids(&tasks, 0), ["a"]);
        assert!(tasks.find(b"b").is_none() && tasks.running_of(key(1)).is_none() && tasks.running_of(key(2)).is_some());
        tasks.forget(b"a");
        assert!(ids(&tasks, 0).is_empty() && tasks.bytes > 0, "gone ones are counted until they are cleared away");
    }

    #[test]
    fn of_two_tasks_with_the_same_id_at_two_instances_the_first_is_known() {
        let (mut tasks, [one, other]) = (Tasks::default(), [(); 2].map(Arc::new));
        assert!(add(&mut tasks, (1, "a", "working"), 1, &one) && !add(&mut tasks, (2, "a", "working"), 2, &other));
        assert_eq!(tasks.find(b"a").map(|task| task.source.instance), Some(1));
        assert!(add(&mut tasks, (3, "a", "working"), 1, &one), "an instance may use it again");
        assert_eq!(tasks.running_of(key(3)).map(|task| task.number), Some(2));
        drop(one);
        assert!(add(&mut tasks, (4, "a", "working"), 2, &other), "so may another when that is gone");
        assert_eq!(tasks.all.len(), 1);
    }

    #[test]
    fn last_state_stays_and_a_task_ends_once() {
        let (mut tasks, life) = (Tasks::default(), Arc::new(()));
        add(&mut tasks, (1, "a", "working"), 1, &life);
        let ended = state("a", "completed", 3);
        tasks.update(ended.clone());
        assert_eq!(tasks.find(b"a").and_then(|task| task.state.clone()), ended.object);
        tasks.update(TaskState { object: None, ..state("a", "working", 0) });
        assert_eq!(tasks.find(b"a").and_then(|task| task.state.clone()), ended.object);
        assert!(tasks.running_of(key(1)).is_none());
        tasks.update(state("b", "working", 0));
        assert_eq!(ids(&tasks, 0), ["a"]);
    }

    #[test]
    fn the_number_of_tasks_and_the_bytes_of_their_states_are_limited() {
        let (mut tasks, life, now) = (Tasks::default(), Arc::new(()), Instant::now());
        for serial in 0..2 * MAX_TASKS as u64 {
            assert_eq!(tasks.count_running(now), 0);
            add(&mut tasks, (serial, &serial.to_string(), "completed"), 1, &life);
        }
        assert_eq!(tasks.all.len(), MAX_TASKS);
        for id in 0..MAX_TASKS {
            tasks.update(state(&(id + MAX_TASKS).to_string(), "completed", 2 << 10));
        }
        assert!(tasks.bytes <= MAX_BYTES && tasks.bytes > MAX_BYTES / 2);
        assert_eq!(tasks.bytes, tasks.all.iter().map(Task::bytes).sum::<usize>());
        for serial in 0..MAX_TASKS as u64 {
            assert!(tasks.count_running(now) < MAX_TASKS);
            add(&mut tasks, (1000 + serial, &format!("open {serial}"), "working"), 1, &life);
        }
        assert_eq!(tasks.count_running(now), MAX_TASKS);
        tasks.all[7].lifetime.until = Some(now);
        assert!(
            tasks.count_running(now) < MAX_TASKS && tasks.find(b"open 7").is_some(),
            "its server may keep it longer"
        );
    }

    fn page(id: &'static str, serials: &[u64]) -> TaskPage {
        let item = |serial: &u64| PolledTask { number: *serial, key: key(*serial), polled: PollResult::Awaited };
        TaskPage { id: Bytes::from(id), items: serials.iter().map(item).collect(), next: None, charge: a_charge() }
    }

    fn next(pages: &mut TaskPages) -> Option<(Bytes, u64)> {
        pages.next().map(|request| (request.id, request.after))
    }

    #[test]
    fn pages_are_gathered_one_after_another_each_until_its_last_answer() {
        let (mut pages, [one, other]) = (TaskPages::default(), ["1", "2"].map(Bytes::from));
        pages.push(&one, 0, a_charge());
        pages.push(&other, 5, a_charge());
        assert_eq!(next(&mut pages), Some((one.clone(), 0)));
        pages.gather(page("1", &[7, 8]));
        assert!(pages.next().is_none() && pages.contains(&one) && pages.contains(&other) && pages.len() == 2);
        assert!(
            pages.record_poll(key(9), PollResult::Gone).is_none()
                && pages.record_poll(key(8), PollResult::Gone).is_none()
        );
        let polled = |page: TaskPage| page.items.into_iter().map(|item| item.polled).collect::<Vec<_>>();
        let fresh = PollResult::Fresh(Bytes::from("x"));
        assert_eq!(pages.record_poll(key(7), fresh.clone()).map(polled), Some(vec![fresh, PollResult::Gone]));
        assert_eq!(next(&mut pages), Some((other, 5)));
        pages.gather(page("2", &[]));
        assert!(pages.take_complete().is_some_and(|page| page.id == "2") && pages.len() == 0);
    }

    #[test]
    fn a_cancelled_page_is_not_gathered() {
        let (mut pages, ids) = (TaskPages::default(), ["1", "2", "3"].map(Bytes::from));
        ids.iter().for_each(|id| pages.push(id, 0, a_charge()));
        pages.next();
        pages.gather(page("1", &[7]));
        assert!(pages.cancel(&ids[1]).is_empty() && !pages.contains(&ids[1]));
        assert_eq!(pages.cancel(&ids[0]).iter().map(|item| item.key).collect::<Vec<_>>(), [key(7)]);
        assert!(pages.record_poll(key(7), PollResult::Gone).is_none() && pages.clear() == ["3"] && pages.len() == 0);
    }
}
