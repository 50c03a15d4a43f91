//! The tasks that servers have made of the agent's calls: where each is, and how it was last known to be. Pure.

use std::sync::Weak;
use std::time::Instant;

use bytes::Bytes;

use crate::server::messages::call::CallKey;
use crate::server::messages::tasks::TaskState;

/// Tasks of one agent that are remembered. For one more the oldest that has ended is forgotten; while none has, a call that
/// asks for another is refused with −31003.
const MOST: usize = 256;
/// Bytes of their last known states. While there are so many, a larger one than before is not kept.
const BYTES: usize = 256 << 10;

/// Where a task was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place<H> {
    /// The configured server.
    pub(super) server: H,
    /// The very instance.
    pub(super) instance: H,
    /// The exposed name of the tool that was called.
    pub(super) tool: Bytes,
}

/// How long a task may be there.
#[derive(Debug)]
pub(super) struct Life {
    /// Dead once its instance is.
    pub(super) instance: Weak<()>,
    /// When its server has done with it in any case.
    pub(super) until: Option<Instant>,
}

/// One that was made for the agent.
#[derive(Debug)]
pub(super) struct Task<H> {
    /// In the order in which they were made.
    pub(super) number: u64,
    id: Bytes,
    /// As its server spelled it in JSON.
    pub(super) raw_id: Bytes,
    pub(super) place: Place<H>,
    life: Life,
    /// The call that made it.
    key: CallKey,
    ended: bool,
    /// The object as it was last seen.
    pub(super) state: Option<Bytes>,
}

/// Those of one agent.
#[derive(Debug)]
pub(super) struct Tasks<H> {
    all: Vec<Task<H>>,
    last: u64,
    /// Unanswered calls that ask for one, with the exposed names of their tools.
    asked: Vec<(CallKey, Bytes)>,
    /// Of states.
    bytes: usize,
}

impl<H> Default for Tasks<H> {
    fn default() -> Self {
        Self { all: Vec::new(), last: 0, asked: Vec::new(), bytes: 0 }
    }
}

impl<H: Clone> Tasks<H> {
    /// Whether the agent may ask for one more `now`.
    pub(super) fn have_room(&mut self, now: Instant) -> bool {
        for task in &mut self.all {
            task.ended |= task.life.until.is_some_and(|until| until <= now);
        }
        let open = self.all.iter().filter(|task| task.is_open()).count();
        open + self.asked.len() < MOST
    }

    /// The call `key` of a tool asks for one.
    pub(super) fn ask(&mut self, key: CallKey, tool: &Bytes) {
        // Copied, so that a small name does not keep a large line in memory.
        self.asked.push((key, Bytes::copy_from_slice(tool)));
    }

    /// A call has ended, which may be one of those. Its tool.
    pub(super) fn end_ask(&mut self, key: CallKey) -> Option<Bytes> {
        let index = self.asked.iter().position(|(own, _)| *own == key)?;
        Some(self.asked.swap_remove(index).1)
    }

    /// Adds one that the call `key` has made; `false` if one that is known has its id and `is_elsewhere`.
    pub(super) fn add(
        &mut self,
        key: CallKey,
        state: TaskState,
        (place, life): (Place<H>, Life),
        is_elsewhere: impl FnOnce(&H) -> bool,
    ) -> bool {
        if let Some(other) = self.find(&state.id) {
            if is_elsewhere(&other.place.instance) {
                return false;
            }
            // The instance has forgotten it, or there is another instance.
            self.forget(&state.id);
        }
        self.all.retain(|task| task.is_there());
        if self.all.len() >= MOST
            && let Some(index) = self.all.iter().position(|task| !task.is_open())
        {
            self.all.remove(index);
        }
        self.bytes = self.all.iter().map(Task::bytes).sum();
        self.last += 1;
        let TaskState { id, raw_id, ended, object, .. } = state;
        let state = object.filter(|object| self.bytes + object.len() <= BYTES);
        self.bytes += state.as_ref().map_or(0, Bytes::len);
        self.all.push(Task { number: self.last, id, raw_id, place, life, key, ended, state });
        true
    }

    /// The one of that id, unless it has gone with its instance.
    pub(super) fn find(&self, id: &[u8]) -> Option<&Task<H>> {
        self.all.iter().find(|task| task.id == id && task.is_there())
    }

    /// The one that the call `key` has made, if it may still be at work.
    pub(super) fn open_of(&self, key: CallKey) -> Option<&Task<H>> {
        self.all.iter().find(|task| task.key == key && task.is_open())
    }

    /// It is so now.
    pub(super) fn note(&mut self, state: TaskState) {
        let Some(task) = self.all.iter_mut().find(|task| task.id == state.id) else { return };
        task.ended |= state.ended;
        let rest = self.bytes - task.bytes();
        if let Some(object) = state.object.filter(|object| rest + object.len() <= BYTES) {
            self.bytes = rest + object.len();
            task.state = Some(object);
        }
    }

    /// Its server does not know it any more.
    pub(super) fn forget(&mut self, id: &[u8]) {
        self.all.retain(|task| task.id != id);
        self.bytes = self.all.iter().map(Task::bytes).sum();
    }

    /// The one of that number, unless it has gone with its instance.
    pub(super) fn numbered(&self, number: u64) -> Option<&Task<H>> {
        self.all.iter().find(|task| task.number == number && task.is_there())
    }

    /// Those made after number `after`, in order.
    pub(super) fn made_after(&self, after: u64) -> impl Iterator<Item = &Task<H>> {
        self.all.iter().filter(move |task| task.number > after && task.is_there())
    }

    /// The number in a cursor of [`cursor`]'s.
    pub(super) fn number_of(&self, cursor: &[u8]) -> Option<u64> {
        let number = std::str::from_utf8(cursor).ok()?.parse().ok()?;
        (number <= self.last && self::cursor(number).as_bytes() == cursor).then_some(number)
    }
}

/// The cursor, as text, of what comes after the task of this number.
pub(super) fn cursor(number: u64) -> String {
    number.to_string()
}

impl<H> Task<H> {
    fn is_there(&self) -> bool {
        self.life.instance.strong_count() > 0
    }

    fn is_open(&self) -> bool {
        !self.ended && self.is_there()
    }

    fn bytes(&self) -> usize {
        self.state.as_ref().map_or(0, Bytes::len)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn key(serial: u64) -> CallKey {
        CallKey { session: 1, serial }
    }

    fn state(id: &str, status: &str, rest: usize) -> TaskState {
        let rest = "x".repeat(rest);
        let raw = format!(r#"{{"taskId":"{id}","status":"{status}","statusMessage":"{rest}"}}"#);
        TaskState::read(&Bytes::from(raw)).expect("a task")
    }

    fn place(instance: u8) -> Place<u8> {
        Place { server: instance, instance, tool: Bytes::from_static(b"s__t") }
    }

    fn add(tasks: &mut Tasks<u8>, (serial, id, status): (u64, &str, &str), instance: u8, life: &Arc<()>) -> bool {
        let at = (place(instance), Life { instance: Arc::downgrade(life), until: None });
        tasks.add(key(serial), state(id, status, 0), at, |other| *other != instance)
    }

    fn ids(tasks: &Tasks<u8>, after: u64) -> Vec<&str> {
        tasks.made_after(after).map(|task| std::str::from_utf8(&task.id).expect("text")).collect()
    }

    #[test]
    fn tasks_are_known_in_the_order_of_their_making_until_their_instance_is_gone() {
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
        assert!(tasks.find(b"b").is_none() && tasks.open_of(key(1)).is_none() && tasks.open_of(key(2)).is_some());
        tasks.forget(b"a");
        assert!(ids(&tasks, 0).is_empty() && tasks.bytes > 0, "gone ones are counted until they are cleared away");
    }

    #[test]
    fn of_two_tasks_with_one_id_at_two_instances_the_first_is_known() {
        let (mut tasks, [one, other]) = (Tasks::default(), [(); 2].map(Arc::new));
        assert!(add(&mut tasks, (1, "a", "working"), 1, &one) && !add(&mut tasks, (2, "a", "working"), 2, &other));
        assert_eq!(tasks.find(b"a").map(|task| task.place.instance), Some(1));
        assert!(add(&mut tasks, (3, "a", "working"), 1, &one), "an instance may use it again");
        assert_eq!(tasks.open_of(key(3)).map(|task| task.number), Some(2));
        drop(one);
        assert!(add(&mut tasks, (4, "a", "working"), 2, &other), "so may another when that is gone");
        assert_eq!(tasks.all.len(), 1);
    }

    #[test]
    fn the_last_state_is_kept_and_an_end_is_the_end() {
        let (mut tasks, life) = (Tasks::default(), Arc::new(()));
        add(&mut tasks, (1, "a", "working"), 1, &life);
        let ended = state("a", "completed", 3);
        tasks.note(ended.clone());
        assert_eq!(tasks.find(b"a").and_then(|task| task.state.clone()), ended.object);
        tasks.note(TaskState { object: None, ..state("a", "working", 0) });
        assert_eq!(tasks.find(b"a").and_then(|task| task.state.clone()), ended.object);
        assert!(tasks.open_of(key(1)).is_none());
        tasks.note(state("b", "working", 0));
        assert_eq!(ids(&tasks, 0), ["a"]);
    }

    #[test]
    fn no_more_than_so_many_are_kept_nor_more_of_their_states() {
        let (mut tasks, life, now) = (Tasks::default(), Arc::new(()), Instant::now());
        for serial in 0..2 * MOST as u64 {
            assert!(tasks.have_room(now));
            tasks.ask(key(serial), &Bytes::from_static(b"s__t"));
            assert_eq!(tasks.end_ask(key(serial)).as_deref(), Some(&b"s__t"[..]));
            add(&mut tasks, (serial, &serial.to_string(), "completed"), 1, &life);
        }
        assert_eq!((tasks.all.len(), tasks.end_ask(key(3))), (MOST, None));
        for id in 0..MOST {
            tasks.note(state(&(id + MOST).to_string(), "completed", 2 << 10));
        }
        assert!(tasks.bytes <= BYTES && tasks.bytes > BYTES / 2);
        assert_eq!(tasks.bytes, tasks.all.iter().map(Task::bytes).sum::<usize>());
        for serial in 0..MOST as u64 {
            assert!(tasks.have_room(now));
            add(&mut tasks, (1000 + serial, &format!("open {serial}"), "working"), 1, &life);
        }
        assert!(!tasks.have_room(now));
        tasks.all[7].life.until = Some(now);
        assert!(tasks.have_room(now) && tasks.find(b"open 7").is_some(), "its server may keep it longer");
    }
}
