//! Tasks of modern agents at a modern server: known by their ids alone, which tell who may ask for them.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::era::task::{TaskReport, reported_task_id};
use crate::server::messages::call::{CallKey, LoadGuard};
use crate::task_state::TaskState;

/// Tasks that are known. For one more, that of which nothing was heard for longest is forgotten.
const MAX_TASKS: usize = 1024;
/// After so long in which nobody has asked for it and the server has said nothing of it, the server is not taken to be at a task, however
/// long it keeps it.
pub(super) const SILENCE: Duration = Duration::from_secs(60 * 60);

/// Those of one instance, by the server's own ids as text.
#[derive(Debug, Default)]
pub(super) struct ModernTasks(HashMap<Bytes, Work>);

#[derive(Debug)]
struct Work {
    /// The call that made it, or by which it was heard of.
    key: CallKey,
    open: Open,
}

/// That a task has not ended.
#[derive(Debug)]
pub(super) struct Open {
    /// When its server forgets it.
    pub(super) ends_at: Option<Instant>,
    pub(super) noted_at: Instant,
    /// Keeps one of several instances.
    pub(super) load: Option<LoadGuard>,
}

impl Open {
    /// When it is over in any case.
    pub(super) fn until(&self) -> Instant {
        let silent_at = self.noted_at + SILENCE;
        self.ends_at.map_or(silent_at, |at| at.min(silent_at))
    }
}

impl ModernTasks {
    /// The server says how a task is to the call `key`, which holds `load`; when it is over in any case, unless it is.
    pub(super) fn note(
        &mut self,
        state: &TaskState,
        key: CallKey,
        load: Option<&LoadGuard>,
        now: Instant,
    ) -> Option<Instant> {
        if state.ended {
            self.end(&state.id);
            return None;
        }
        if let Some(work) = self.0.get_mut(&state.id) {
            work.open.noted_at = now;
            return Some(work.open.until());
        }
        if self.0.len() == MAX_TASKS {
            let quietest = self.0.iter().min_by_key(|(_, work)| work.open.noted_at).map(|(id, _)| id.clone());
            quietest.iter().for_each(|id| self.end(id));
        }
        let ends_at = state.ttl.and_then(|ttl| now.checked_add(ttl));
        let open = Open { ends_at, noted_at: now, load: load.cloned() };
        let until = open.until();
        self.0.insert(state.id.clone(), Work { key, open });
        Some(until)
    }

    /// It has ended, or its server does not know it.
    pub(super) fn end(&mut self, id: &[u8]) {
        self.0.remove(id);
    }

    /// An agent has cancelled the call that made it while that was answered.
    pub(super) fn forget_made_by(&mut self, key: CallKey) {
        self.0.retain(|_, work| work.key != key);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sessions that they were made for.
    pub(super) fn sessions(&self) -> impl Iterator<Item = u64> {
        self.0.values().map(|work| work.key.session)
    }

    /// When the next one is over in any case.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.0.values().map(|work| work.open.until()).min()
    }

    /// Forgets those that are over `now` in any case.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, work| work.open.until() > now);
    }
}

/// How a task is, if a result tells of one.
pub(super) fn read((result, report): (&Bytes, TaskReport)) -> Option<TaskState> {
    reported_task_id(result, report)?;
    TaskState::read_modern(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn note(
        tasks: &mut ModernTasks,
        (id, serial): (&str, u64),
        rest: &str,
        now: Instant,
    ) -> Option<Instant> {
        let state = format!(r#"{{"resultType":"complete","taskId":"{id}",{rest}}}"#);
        let state = read((&Bytes::from(state), TaskReport::State)).expect("a state");
        tasks.note(&state, CallKey { session: 1, serial }, None, now)
    }

    const WORKING: &str = r#""status":"working","ttlMs":null"#;

    #[test]
    fn a_server_is_at_a_task_until_that_has_ended_or_nothing_is_heard_of_it() {
        let (mut tasks, now) = (ModernTasks::default(), Instant::now());
        let later = now + SILENCE / 2;
        assert_eq!(note(&mut tasks, ("a", 1), WORKING, now), Some(now + SILENCE));
        assert_eq!(note(&mut tasks, ("a", 2), WORKING, later), Some(later + SILENCE));
        let short = r#""status":"input_required","ttlMs":5000"#;
        assert_eq!(note(&mut tasks, ("b", 3), short, now), Some(now + Duration::from_secs(5)));
        assert_eq!(tasks.next_end(), Some(now + Duration::from_secs(5)));
        assert!(tasks.sessions().eq([1, 1]));
        tasks.expire(now + Duration::from_secs(5));
        assert_eq!(tasks.next_end(), Some(later + SILENCE));
        assert_eq!(note(&mut tasks, ("a", 4), r#""status":"failed","error":{}"#, later), None);
        assert!(tasks.is_empty());
        note(&mut tasks, ("c", 5), WORKING, now);
        tasks.forget_made_by(CallKey { session: 1, serial: 5 });
        assert!(tasks.is_empty());
    }

    #[test]
    fn the_quietest_one_makes_room() {
        let (mut tasks, now) = (ModernTasks::default(), Instant::now());
        for number in 0..=MAX_TASKS as u64 {
            let at = now + Duration::from_millis(number);
            note(&mut tasks, (&format!("t{number}"), number), WORKING, at);
        }
        assert_eq!(tasks.0.len(), MAX_TASKS);
        assert!(!tasks.0.contains_key(&b"t0"[..]) && tasks.0.contains_key(&b"t1"[..]));
    }

    #[test]
    fn a_result_that_is_no_state_says_nothing() {
        for (result, report) in [
            (r#"{"resultType":"complete"}"#, TaskReport::State),
            (r#"{"resultType":"complete","content":[{"taskId":"a"}]}"#, TaskReport::Created),
            (r#"{"resultType":"complete","taskId":"a"}"#, TaskReport::Created),
            (r#"{"resultType":"task","taskId":7}"#, TaskReport::Created),
        ] {
            assert_eq!(read((&Bytes::from_static(result.as_bytes()), report)), None, "{result}");
        }
    }
}
