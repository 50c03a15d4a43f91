//! Whose the tasks of an instance are, and when they are over, in tables.

use std::time::Duration;

use super::*;
use crate::server::StopOrder;

fn task(id: &str, session: u64, open: Option<Option<Instant>>) -> Task {
    let raw = Bytes::from(format!(r#"{{"taskId":"{id}"}}"#));
    let state = TaskState::read(&raw).expect("a task");
    let (to, _) = ReplySender::channel(Arc::default(), StopOrder::channel().1);
    let key = CallKey { session, serial: 1 };
    Task::new(&state, key, Some(to), None, open.map(|until| Open::new(until, None)))
}

const FOR_EVER: Option<Option<Instant>> = Some(None);

#[test]
fn a_task_is_its_agents_alone_from_its_making_to_its_end() {
    let mut tasks = Tasks::default();
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
fn the_id_of_an_open_task_is_no_other_tasks() {
    let mut tasks = Tasks::default();
    assert!(tasks.add(1, task("a", 7, FOR_EVER)));
    assert!(!tasks.add(2, task("a", 7, FOR_EVER)) && !tasks.add(3, task("a", 8, FOR_EVER)));
    assert!(tasks.of(7, b"a").is_some_and(|(request, _)| request == 1));
    tasks.end(1);
    assert!(tasks.add(4, task("a", 8, FOR_EVER)));
    assert!(tasks.of(7, b"a").is_none() && tasks.of(8, b"a").is_some() && tasks.of_token(b"1").is_none());
}

#[test]
fn a_disowned_task_is_nobodys_and_counts_until_it_has_ended() {
    let mut tasks = Tasks::default();
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
fn a_task_is_over_when_its_time_is() {
    let (now, second) = (Instant::now(), Duration::from_secs(1));
    let mut tasks = Tasks::default();
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
fn the_oldest_that_has_ended_makes_room_then_the_oldest_of_nobody_and_others_keep_theirs() {
    let mut tasks = Tasks::default();
    let add = |tasks: &mut Tasks, request, id: &str, open| {
        assert!(tasks.have_room());
        let forgotten = tasks.make_room();
        assert!(tasks.add(request, task(id, 7, open)));
        forgotten
    };
    add(&mut tasks, 0, "first", FOR_EVER);
    for request in 1..2 * MOST as u64 {
        assert_eq!(add(&mut tasks, request, &request.to_string(), None), None);
    }
    assert_eq!((tasks.all.len(), tasks.by_id.len()), (MOST, MOST));
    assert!(tasks.find(b"first").is_some() && tasks.find(b"1").is_none() && tasks.find(b"2000").is_some());
    for request in 1..MOST as u64 {
        assert_eq!(add(&mut tasks, 10_000 + request, &format!("open {request}"), FOR_EVER), None);
    }
    assert!(!tasks.have_room() && tasks.all.len() == MOST && tasks.awaited().count() == MOST);
    tasks.disown(10_002);
    assert_eq!(add(&mut tasks, 20_000, "one more", FOR_EVER), Some((10_002, 7)));
    assert!(!tasks.have_room() && tasks.make_room().is_none());
}

#[test]
fn a_call_that_was_given_up_is_known_once() {
    let mut tasks = Tasks::default();
    let key = CallKey { session: 7, serial: 2 };
    for request in 1..=MOST_GIVEN_UP as u64 + 1 {
        tasks.give_up(request, key);
    }
    assert_eq!(tasks.take_given_up(b"1"), None);
    assert_eq!((tasks.take_given_up(b"2"), tasks.take_given_up(b"2")), (Some((2, key)), None));
    assert_eq!(tasks.take_given_up(b"\"3\""), None);
}

#[test]
fn what_is_said_of_a_task_too_early_is_kept_in_bounds() {
    let mut tasks = Tasks::default();
    let early = |id: &str, ended, size| Early {
        id: Bytes::copy_from_slice(id.as_bytes()),
        ended,
        line: vec![b'x'; size].into(),
    };
    assert_eq!(tasks.keep_early(early("a", false, LARGEST_EARLY + 1)), 1);
    for n in 0..MOST_EARLY {
        assert_eq!(tasks.keep_early(early(if n % 2 == 0 { "a" } else { "b" }, n == 5, n)), 0);
    }
    assert_eq!(tasks.keep_early(early("c", false, 1)), 1);
    let (ended, lines) = tasks.take_early(b"a");
    assert!(!ended && lines.iter().map(Bytes::len).eq((2..MOST_EARLY).step_by(2)), "in order, without the oldest");
    assert!(tasks.take_early(b"b").0 && tasks.take_early(b"b").1.is_empty());
    assert_eq!((tasks.drop_early(), tasks.drop_early()), (1, 0));
}

#[test]
fn what_is_kept_makes_room_and_is_over_when_its_time_is() {
    let (mut tasks, now) = (Tasks::default(), Instant::now());
    let kept = |id: &str, session, seconds| {
        let ttl = Duration::from_secs(seconds);
        let kept = Kept::new(id, &Bytes::from("{}"), ttl, (now, std::time::SystemTime::UNIX_EPOCH)).expect("an object");
        Task { kept: Some(Box::new(kept)), ..task(id, session, None) }
    };
    let size = kept("a", 7, 1).kept.expect("it is kept").bytes();
    for (request, id, session) in [(1, "a", 7), (2, "b", 8), (3, "c", 8)] {
        tasks.make_room_to_keep(session, size, 3 * size);
        assert!(tasks.add(request, kept(id, session, request)));
    }
    assert_eq!(tasks.next_end(), Some(now + Duration::from_secs(1)));
    tasks.make_room_to_keep(8, size, 3 * size);
    assert!(tasks.of(7, b"a").is_some() && tasks.of(8, b"b").is_none(), "its own goes first");
    tasks.make_room_to_keep(9, size, 2 * size);
    assert!(tasks.of(7, b"a").is_none() && tasks.of(8, b"c").is_some(), "or else the oldest");
    tasks.expire(now + Duration::from_secs(2));
    assert!(tasks.of(8, b"c").is_some());
    tasks.expire(now + Duration::from_secs(3));
    assert!(tasks.of(8, b"c").is_none() && tasks.next_end().is_none() && tasks.kept_bytes == 0);
    tasks.make_room_to_keep(7, size, 0);
}

#[test]
fn they_live_as_long_as_their_instance() {
    let tasks = Tasks::default();
    let life = tasks.life();
    assert_eq!(life.strong_count(), 1);
    drop(tasks);
    assert_eq!(life.strong_count(), 0);
}
