//! To whom all belongs that a server may be at, with calls that were given up.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn call(id: u64, session: u64, uid: Option<u32>) -> AbandonedCall {
    AbandonedCall { id, key: CallKey { session, serial: id }, uid, creates_task: false, load: None }
}

fn owner(abandoned: &AbandonedCalls, unanswered: &[u64]) -> Ownership {
    abandoned.owner(unanswered.iter().copied(), Instant::now())
}

#[test]
fn message_belongs_to_an_agent_if_all_that_the_server_may_work_on_does() {
    let (mut abandoned, now) = (AbandonedCalls::default(), Instant::now());
    assert_eq!(owner(&abandoned, &[]), Ownership::Nobody);
    assert_eq!(owner(&abandoned, &[7, 7]), Ownership::One(7));
    assert_eq!(owner(&abandoned, &[7, 8]), Ownership::Several);
    abandoned.add(call(3, 9, None), None, now);
    abandoned.add(call(1, 7, None), None, now);
    assert_eq!(owner(&abandoned, &[7]), Ownership::Several);
    for stray in ["2", "03", "\"3\"", "3.0", ""] {
        abandoned.answered(stray.as_bytes());
    }
    abandoned.answered(b"1");
    assert_eq!((owner(&abandoned, &[9]), owner(&abandoned, &[7])), (Ownership::One(9), Ownership::Several));
    abandoned.answered(b"3");
    assert_eq!(owner(&abandoned, &[7]), Ownership::One(7));
}

#[test]
fn old_cancelled_calls_are_reduced_to_their_sessions() {
    let (mut abandoned, now) = (AbandonedCalls::default(), Instant::now());
    let count = 3 * CAPACITY as u64;
    for id in 0..count {
        abandoned.add(call(id, 7, None), Some(Until { at: now + SECOND, answered_from: count }), now);
    }
    assert_eq!(abandoned.known.len(), CAPACITY);
    let owner = |abandoned: &AbandonedCalls, unanswered: u64, at| abandoned.owner(std::iter::once(unanswered), at);
    assert_eq!((owner(&abandoned, 7, now), owner(&abandoned, 8, now)), (Ownership::One(7), Ownership::Several));
    abandoned.pending_answered(count.to_string().as_bytes());
    assert_eq!(owner(&abandoned, 8, now), Ownership::Several);
    assert_eq!(owner(&abandoned, 8, now + SECOND), Ownership::One(8));
    assert_eq!(
        abandoned.owner_of_request(std::iter::empty(), now),
        Ownership::Nobody,
        "it has read every cancellation"
    );
    abandoned.add(call(count, 7, None), None, now + SECOND);
    assert_eq!(abandoned.known.len(), 1);
}

#[test]
fn cancelled_call_stops_counting_after_a_while_if_the_cancellation_was_read() {
    let now = Instant::now();
    for (later, answered, expected) in [
        (0, 5, Ownership::Several),
        (2, 4, Ownership::Several),
        (1, 5, Ownership::One(8)),
        (1, 6, Ownership::One(8)),
        (9, 0, Ownership::Several),
    ] {
        let mut abandoned = AbandonedCalls::default();
        abandoned.pending_answered(b"9");
        abandoned.add(call(3, 7, None), Some(Until { at: now + SECOND, answered_from: 5 }), now);
        abandoned.pending_answered(answered.to_string().as_bytes());
        let owner = abandoned.owner(std::iter::once(8), now + later * SECOND);
        assert_eq!(owner, expected, "{later} s after, {answered} is answered");
    }
}

#[test]
fn cancelled_call_without_a_limit_counts_until_its_response() {
    let (mut abandoned, now) = (AbandonedCalls::default(), Instant::now());
    for id in 0..=CAPACITY as u64 {
        let until = (id > 0).then_some(Until { at: now, answered_from: 9 });
        abandoned.add(call(id, 7, None), until, now);
    }
    abandoned.pending_answered(b"9");
    assert_eq!(owner(&abandoned, &[8]), Ownership::Several);
}

#[test]
fn request_is_attributed_as_soon_as_the_cancellation_is_read_unless_the_server_has_gone_on_before() {
    let now = Instant::now();
    let owner = |abandoned: &AbandonedCalls, at| abandoned.owner_of_request(std::iter::once(8), at);
    let until = |answered_from| Some(Until { at: now + SECOND, answered_from });
    let mut abandoned = AbandonedCalls::new(true);
    abandoned.add(call(3, 7, None), until(5), now);
    assert_eq!((owner(&abandoned, now), owner(&abandoned, now + SECOND)), (Ownership::Several, Ownership::Several));
    abandoned.pending_answered(b"5");
    assert_eq!(owner(&abandoned, now), Ownership::One(8));
    abandoned.answered(b"3");
    abandoned.add(call(6, 7, None), until(7), now);
    abandoned.pending_answered(b"7");
    assert_eq!((owner(&abandoned, now), owner(&abandoned, now + SECOND)), (Ownership::Several, Ownership::One(8)));
}

#[test]
fn response_that_crosses_the_cancellation_does_not_count_as_work() {
    let now = Instant::now();
    let mut abandoned = AbandonedCalls::new(true);
    for (id, answered_from, is_answered) in [(3, 5, true), (6, 7, false)] {
        abandoned.add(call(id, 7, None), Some(Until { at: now + SECOND, answered_from }), now);
        if is_answered {
            abandoned.answered(id.to_string().as_bytes());
        }
        abandoned.pending_answered(answered_from.to_string().as_bytes());
        assert_eq!(abandoned.owner_of_request(std::iter::once(8), now), Ownership::One(8));
    }
}

#[test]
fn without_message_order_a_call_stops_counting_by_time_only() {
    let now = Instant::now();
    let mut abandoned = AbandonedCalls::new(false);
    abandoned.add(call(3, 7, None), Some(Until { at: now + SECOND, answered_from: 5 }), now);
    abandoned.pending_answered(b"5");
    let owner = |at| abandoned.owner_of_request(std::iter::empty(), at);
    assert_eq!((owner(now), owner(now + SECOND)), (Ownership::One(7), Ownership::Nobody));
}

#[test]
fn messages_about_cancelled_calls_of_a_modern_server_arrive_for_a_short_time() {
    let (mut abandoned, now) = (AbandonedCalls::default(), Instant::now());
    abandoned.add_modern(&call(0, 7, None), now);
    assert_eq!(abandoned.in_transit_for(now), Ownership::One(7));
    abandoned.add_modern(&call(0, 8, None), now + SECOND);
    assert_eq!(abandoned.in_transit_for(now + IN_TRANSIT), Ownership::Several);
    assert_eq!(abandoned.in_transit_for(now + IN_TRANSIT + SECOND), Ownership::Nobody);
    abandoned.add_modern(&call(0, 8, None), now + 2 * IN_TRANSIT);
    assert_eq!(abandoned.in_transit_for(now + 2 * IN_TRANSIT), Ownership::One(8));
}

#[test]
fn all_cancelled_calls_are_of_a_user_until_none_counts() {
    let (mut abandoned, now) = (AbandonedCalls::default(), Instant::now());
    let users = |abandoned: &AbandonedCalls| [1000, 1001].map(|uid| abandoned.are_all_of(uid));
    assert_eq!(users(&abandoned), [false, false]);
    for (id, uid, expected) in [
        (1, Some(1000), [true, false]),
        (2, Some(1000), [true, false]),
        (3, Some(1001), [false, false]),
        (4, Some(1000), [false, false]),
    ] {
        abandoned.add(call(id, id, uid), None, now);
        assert_eq!(users(&abandoned), expected, "{id}");
    }
    [&b"1"[..], b"2", b"3", b"4"].into_iter().for_each(|id| abandoned.answered(id));
    abandoned.add_modern(&call(0, 5, Some(1001)), now);
    assert_eq!(users(&abandoned), [false, true]);
    abandoned.add(call(6, 6, None), None, now);
    assert_eq!(users(&abandoned), [false, false]);
}
