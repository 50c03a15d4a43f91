//! Tasks of a modern server. They belong to no session: an agent with the id of a task may use the task.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::era::response::{TaskReport, reported_task_id};
use crate::server::messages::call::{CallKey, LoadToken};
use crate::task_state::TaskState;

/// Maximum number of tasks. One more replaces the task that was reported least recently.
const MAX_TASKS: usize = 1024;
/// A task without a report for this long counts as ended, whatever its time to live.
const TTL_WITHOUT_REPORT: Duration = Duration::from_secs(60 * 60);

/// The modern tasks of one instance, by the server's ids as text.
#[derive(Debug, Default)]
pub(super) struct ModernTasks(HashMap<Bytes, ModernTask>);

/// A task that has not ended.
#[derive(Debug)]
struct ModernTask {
    /// The call that has created the task, or the first that has reported it.
    key: CallKey,
    /// When the server forgets the task.
    ends_at: Option<Instant>,
    noted_at: Instant,
    /// Keeps the instance, if the server has several.
    _load: Option<LoadToken>,
}

impl ModernTask {
    /// When the task counts as ended without a report.
    fn until(&self) -> Instant {
        let silent_at = self.noted_at + TTL_WITHOUT_REPORT;
        self.ends_at.map_or(silent_at, |at| at.min(silent_at))
    }
}

impl ModernTasks {
    /// The response to the call `key`, which holds `load`, reports the state of a task. Returns when the task counts as ended
    /// without another report; `None` if it has ended.
    pub(super) fn note(
        &mut self,
        state: &TaskState,
        key: CallKey,
        load: Option<&LoadToken>,
        now: Instant,
    ) -> Option<Instant> {
        if state.ended {
            self.end(&state.id);
            return None;
        }
        if let Some(task) = self.0.get_mut(&state.id) {
            task.noted_at = now;
            return Some(task.until());
        }
        if self.0.len() == MAX_TASKS {
            let stalest = self.0.iter().min_by_key(|(_, task)| task.noted_at).map(|(id, _)| id.clone());
            stalest.iter().for_each(|id| self.end(id));
        }
        let ends_at = state.ttl.and_then(|ttl| now.checked_add(ttl));
        let task = ModernTask { key, ends_at, noted_at: now, _load: load.cloned() };
        let until = task.until();
        self.0.insert(state.id.clone(), task);
        Some(until)
    }

    /// The task has ended, or the server does not know it.
    pub(super) fn end(&mut self, id: &[u8]) {
        self.0.remove(id);
    }

    /// No agent knows the task that this call has created.
    pub(super) fn forget_created_by(&mut self, key: CallKey) {
        self.0.retain(|_, task| task.key != key);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sessions that the tasks were created for.
    pub(super) fn sessions(&self) -> impl Iterator<Item = u64> {
        self.0.values().map(|task| task.key.session)
    }

    /// When the next task counts as ended.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.0.values().map(ModernTask::until).min()
    }

    /// Forgets tasks that count as ended `now`.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|_, task| task.until() > now);
    }
}

/// The state of the task that a result reports in this way.
pub(super) fn read(result: &Bytes, report: TaskReport) -> Option<TaskState> {
    reported_task_id(result, report)?;
    TaskState::read_modern(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn note(tasks: &mut ModernTasks, id: &str, serial: u64, rest: &str, now: Instant) -> Option<Instant> {
        let state = format!(r#"{{"resultType":"complete","taskId":"{id}",{rest}}}"#);
        let state = read(&Bytes::from(state), TaskReport::State).expect("a state");
        tasks.note(&state, CallKey { session: 1, serial }, None, now)
    }

    const WORKING: &str = r#""status":"working","ttlMs":null"#;

    #[test]
    fn task_is_open_until_its_end_or_a_long_silence() {
        let (mut tasks, now) = (ModernTasks::default(), Instant::now());
        let later = now + TTL_WITHOUT_REPORT / 2;
        assert_eq!(note(&mut tasks, "a", 1, WORKING, now), Some(now + TTL_WITHOUT_REPORT));
        assert_eq!(note(&mut tasks, "a", 2, WORKING, later), Some(later + TTL_WITHOUT_REPORT));
        let short = r#""status":"input_required","ttlMs":5000"#;
        assert_eq!(note(&mut tasks, "b", 3, short, now), Some(now + Duration::from_secs(5)));
        assert_eq!(tasks.next_end(), Some(now + Duration::from_secs(5)));
        assert!(tasks.sessions().eq([1, 1]));
        tasks.expire(now + Duration::from_secs(5));
        assert_eq!(tasks.next_end(), Some(later + TTL_WITHOUT_REPORT));
        assert_eq!(note(&mut tasks, "a", 4, r#""status":"failed","error":{}"#, later), None);
        assert!(tasks.is_empty());
        note(&mut tasks, "c", 5, WORKING, now);
        tasks.forget_created_by(CallKey { session: 1, serial: 5 });
        assert!(tasks.is_empty());
    }

    #[test]
    fn stalest_task_is_replaced() {
        let (mut tasks, now) = (ModernTasks::default(), Instant::now());
        for number in 0..=MAX_TASKS as u64 {
            let at = now + Duration::from_millis(number);
            note(&mut tasks, &format!("t{number}"), number, WORKING, at);
        }
        assert_eq!(tasks.0.len(), MAX_TASKS);
        assert!(!tasks.0.contains_key(&b"t0"[..]) && tasks.0.contains_key(&b"t1"[..]));
    }

    #[test]
    fn result_of_another_kind_reports_no_task() {
        for (result, report) in [
            (r#"{"resultType":"complete"}"#, TaskReport::State),
            (r#"{"resultType":"complete","content":[{"taskId":"a"}]}"#, TaskReport::Created),
            (r#"{"resultType":"complete","taskId":"a"}"#, TaskReport::Created),
            (r#"{"resultType":"task","taskId":7}"#, TaskReport::Created),
        ] {
            assert_eq!(read(&Bytes::from_static(result.as_bytes()), report), None, "{result}");
        }
    }
}
