//! Order, turns and limits of waiting calls.

mod shares;

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// Sessions from 100 on are of another user.
fn payer(session: u64) -> Payer {
    Payer { uid: Some(if session < 100 { 1 } else { 2 }), session }
}

fn entry(session: u64, item: usize, until: Instant) -> Entry<usize> {
    Entry { payer: payer(session), bytes: 1, until, item }
}

fn filled(sessions: impl IntoIterator<Item = u64>) -> FairQueue<usize> {
    let mut queue = FairQueue::default();
    for (item, session) in sessions.into_iter().enumerate() {
        queue.push(entry(session, item, Instant::now()));
    }
    queue
}

#[test]
fn sessions_take_turns_and_each_keeps_its_order() {
    let mut queue = filled([1, 1, 1, 2, 2, 3]);
    let order: Vec<_> = queue.drain().into_iter().map(|entry| (entry.payer.session, entry.item)).collect();
    assert_eq!(order, [(1, 0), (2, 3), (3, 5), (1, 1), (2, 4), (1, 2)]);
    assert!(queue.is_empty() && queue.next_expiry().is_none());
}

#[test]
fn users_take_turns_however_many_sessions_each_has() {
    let mut queue = filled([1, 2, 3, 100, 100, 1, 101]);
    let order: Vec<_> = queue.drain().into_iter().map(|entry| entry.payer.session).collect();
    assert_eq!(order, [1, 100, 2, 101, 3, 100, 1]);
}

#[test]
fn session_that_may_not_go_on_keeps_its_turn() {
    let mut queue = filled([1, 2, 1]);
    assert_eq!(queue.pop(|payer| payer.session == 2).map(|entry| entry.item), Some(1));
    assert!(queue.pop(|payer| payer.session == 2).is_none());
    assert_eq!(queue.pop(|_| true).map(|entry| entry.item), Some(0));
}

#[test]
fn entry_that_has_waited_too_long_is_removed_alone() {
    let (mut queue, now) = (FairQueue::default(), Instant::now());
    for (item, seconds) in [5, 1, 9].into_iter().enumerate() {
        queue.push(entry(item as u64 % 2, item, now + Duration::from_secs(seconds)));
    }
    assert_eq!(queue.next_expiry(), Some(now + Duration::from_secs(1)));
    assert!(queue.expire(now).is_empty());
    let expired: Vec<_> = queue.expire(now + Duration::from_secs(1)).into_iter().map(|entry| entry.item).collect();
    assert_eq!((expired, queue.len()), (vec![1], 2));
    assert_eq!(queue.next_expiry(), Some(now + Duration::from_secs(5)));
}

fn push_until_full(queue: &mut FairQueue<usize>, session: u64) {
    while may_wait(&[queue], (payer(session), 1), usize::MAX) {
        queue.push(entry(session, 0, Instant::now()));
    }
}

#[test]
fn session_has_at_most_its_bound_and_another_still_has_a_share_of_a_full_queue() {
    let mut queue = FairQueue::default();
    for session in 1..=4 {
        push_until_full(&mut queue, session);
    }
    assert_eq!(queue.len(), MAX_WAITING);
    push_until_full(&mut queue, 5);
    assert_eq!(queue.sessions[&5].len(), MAX_WAITING / 5);
    assert!(!may_wait(&[&queue], (payer(1), 1), usize::MAX), "the others have more than their shares");
}

#[test]
fn bytes_are_shared_as_well() {
    let mut queue = FairQueue::default();
    queue.push(Entry { bytes: 900, ..entry(1, 0, Instant::now()) });
    assert!(may_wait(&[&queue], (payer(1), 100), 1000) && !may_wait(&[&queue], (payer(1), 101), 1000));
    assert!(may_wait(&[&queue], (payer(2), 500), 1000) && !may_wait(&[&queue], (payer(2), 501), 1000));
    assert!(may_wait(&[&FairQueue::<usize>::default()], (payer(1), 9999), 1000), "one alone always may");
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nobody_waits_for_more_than_one_turn_of_each_other(
        operations in prop::collection::vec((0..5u8, 0..6u64), 0..300),
    ) {
        let (mut queue, now) = (FairQueue::default(), Instant::now());
        let mut model: Vec<(u64, usize)> = Vec::new();
        // How often each other session went first since the session's first entry became its first.
        let mut passed: HashMap<u64, HashMap<u64, usize>> = HashMap::new();
        for (item, (kind, session)) in operations.into_iter().enumerate() {
            match kind {
                0..=2 => {
                    queue.push(entry(session, item, now));
                    model.push((session, item));
                }
                3 => {
                    let found = model.iter().position(|(of, _)| *of == session).map(|index| model.remove(index));
                    let removed = queue.remove(session, |own| found.is_some_and(|(_, item)| *own == item));
                    prop_assert_eq!(removed.map(|entry| entry.item), found.map(|(_, item)| item));
                    passed.remove(&session);
                }
                _ => {
                    let Some(popped) = queue.pop(|_| true) else { continue };
                    let index = model.iter().position(|(of, _)| *of == popped.payer.session);
                    let (_, first) = model.remove(index.expect("it has one"));
                    prop_assert_eq!(popped.item, first);
                    passed.remove(&popped.payer.session);
                    let waiting: HashSet<u64> = model.iter().map(|(of, _)| *of).collect();
                    for of in waiting.into_iter().filter(|of| *of != popped.payer.session) {
                        let times = passed.entry(of).or_default().entry(popped.payer.session).or_default();
                        *times += 1;
                        prop_assert!(*times <= 1, "{of} has waited for {times} calls of {}", popped.payer.session);
                    }
                }
            }
            prop_assert_eq!(queue.len(), model.len());
        }
    }
}
