//! Whose the tasks of an instance are, and when they are over, in tables.

use std::time::Duration;

use super::*;
use crate::server::StopReceiver;

fn task(id: &str, session: u64, open: Option<Option<Instant>>) -> SessionTask {
    let raw = Bytes::from(format!(r#"{{"taskId":"{id}"}}"#));
    let state = TaskState::read(&raw).expect("a task");
    let (to, _) = SessionSender::channel(None, Arc::default(), StopReceiver::channel().1);
    let key = CallKey { session, serial: 1 };
    SessionTask::new(&state, key, Some(to), None, open.map(|until| OpenSessionTask::new(until, None)))
}

const FOR_EVER: Option<Option<Instant>> = Some(None);

#[test]
fn task_belongs_to_one_session_from_its_creation_to_its_end() {
    let mut tasks = SessionTasks::default();
    assert!(tasks.add(3, task("a", 7, FOR_EVER)) && tasks.add(4, task("b", 8, FOR_EVER)));
    assert!(tasks.of(7, b"a").is_some() && tasks.of(8, b"a").is_none() && tasks.of(7, b"c").is_none());
    assert!(tasks.of_token(b"3").is_some() && tasks.of_token(b"03").is_none() && tasks.of_token(b"\"3\"").is_none());
    tasks.end(3);
    assert!(tasks.of(7, b"a").is_some() && tasks.of_token(b"3").is_none(), "an ended one can be asked for");
    assert!(tasks.all_open().map(|task| task.key.session).eq([8]));
    tasks.end(3);
    tasks.forget(4);
    assert!(tasks.all_open().next().is_none() && tasks.find(b"b").is_none());
}

#[test]
fn open_task_keeps_its_id() {
    let mut tasks = SessionTasks::default();
    assert!(tasks.add(1, task("a", 7, FOR_EVER)));
    assert!(!tasks.add(2, task("a", 7, FOR_EVER)) && !tasks.add(3, task("a", 8, FOR_EVER)));
    assert!(tasks.of(7, b"a").is_some_and(|(task_key, _)| task_key == 1));
    tasks.end(1);
    assert!(tasks.add(4, task("a", 8, FOR_EVER)));
    assert!(tasks.of(7, b"a").is_none() && tasks.of(8, b"a").is_some() && tasks.of_token(b"1").is_none());
}

#[test]
fn disowned_task_counts_until_it_has_ended() {
    let mut tasks = SessionTasks::default();
    tasks.add(1, task("a", 7, FOR_EVER));
    tasks.add(2, task("b", 7, None));
    assert_eq!(tasks.of_session(7), [1, 2]);
    assert_eq!(tasks.disown(1).as_deref(), Some(&b"\"a\""[..]));
    assert_eq!(tasks.disown(2), None);
    assert!(tasks.of(7, b"a").is_none() && tasks.find(b"b").is_none() && tasks.of_session(7).is_empty());
    assert!(tasks.all_open().count() == 1 && tasks.awaited().next().is_none());
    tasks.end(1);
    assert!(tasks.all_open().next().is_none());
}

#[test]
fn task_ends_when_its_time_to_live_is_over() {
    let (now, second) = (Instant::now(), Duration::from_secs(1));
    let mut tasks = SessionTasks::default();
    tasks.add(1, task("a", 7, FOR_EVER));
    tasks.add(2, task("b", 7, Some(Some(now + 2 * second))));
    tasks.add(3, task("c", 7, Some(Some(now + second))));
    assert_eq!(tasks.next_end(), Some(now + second));
    tasks.expire(now + second);
    assert_eq!((tasks.next_end(), tasks.all_open().count()), (Some(now + 2 * second), 2));
    tasks.expire(now + 9 * second);
    assert!(tasks.all_open().map(|task| &task.id[..]).eq([b"a"]) && tasks.next_end().is_none());
    assert!(tasks.of(7, b"b").is_some(), "the server may still have it");
}

#[test]
fn oldest_ended_task_is_replaced_first_then_the_oldest_without_owner() {
    let mut tasks = SessionTasks::default();
    let add = |tasks: &mut SessionTasks, task_key, id: &str, open| {
        assert!(tasks.have_capacity());
        let forgotten = tasks.evict();
        assert!(tasks.add(task_key, task(id, 7, open)));
        forgotten
    };
    add(&mut tasks, 0, "first", FOR_EVER);
    for task_key in 1..2 * MAX_TASKS as u64 {
        assert_eq!(add(&mut tasks, task_key, &task_key.to_string(), None), None);
    }
    assert_eq!((tasks.all.len(), tasks.by_id.len()), (MAX_TASKS, MAX_TASKS));
    assert!(tasks.find(b"first").is_some() && tasks.find(b"1").is_none() && tasks.find(b"2000").is_some());
    for task_key in 1..MAX_TASKS as u64 {
        assert_eq!(add(&mut tasks, 10_000 + task_key, &format!("open {task_key}"), FOR_EVER), None);
    }
    assert!(!tasks.have_capacity() && tasks.all.len() == MAX_TASKS && tasks.awaited().count() == MAX_TASKS);
    tasks.disown(10_002);
    assert_eq!(add(&mut tasks, 20_000, "one more", FOR_EVER), Some((10_002, CallKey { session: 7, serial: 1 })));
    assert!(!tasks.have_capacity() && tasks.evict().is_none());
}

#[test]
fn cancelled_call_is_taken_once() {
    let mut tasks = SessionTasks::default();
    let key = CallKey { session: 7, serial: 2 };
    for task_key in 1..=MAX_CANCELLED as u64 + 1 {
        tasks.cancel(task_key, key);
    }
    assert_eq!(tasks.take_cancelled(b"1"), None);
    assert_eq!((tasks.take_cancelled(b"2"), tasks.take_cancelled(b"2")), (Some((2, key)), None));
    assert_eq!(tasks.take_cancelled(b"\"3\""), None);
}

#[test]
fn early_notifications_are_limited() {
    let mut tasks = SessionTasks::default();
    let early = |id: &str, ended, size| EarlyNotification {
        id: Bytes::copy_from_slice(id.as_bytes()),
        ended,
        line: vec![b'x'; size].into(),
    };
    assert_eq!(tasks.add_early(early("a", false, MAX_EARLY_LEN + 1)), 1);
    for n in 0..MAX_EARLY {
        assert_eq!(tasks.add_early(early(if n % 2 == 0 { "a" } else { "b" }, n == 5, n)), 0);
    }
    assert_eq!(tasks.add_early(early("c", false, 1)), 1);
    let (ended, lines) = tasks.take_early(b"a");
    assert!(!ended && lines.iter().map(Bytes::len).eq((2..MAX_EARLY).step_by(2)), "in order, without the oldest");
    assert!(tasks.take_early(b"b").0 && tasks.take_early(b"b").1.is_empty());
    assert_eq!((tasks.drop_early(), tasks.drop_early()), (1, 0));
}

#[test]
fn tasks_live_as_long_as_their_instance() {
    let tasks = SessionTasks::default();
    let life = tasks.life();
    assert_eq!(life.strong_count(), 1);
    drop(tasks);
    assert_eq!(life.strong_count(), 0);
}
