//! To whom all belongs that a server may be at, with calls that were given up.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn owner(cancelled: &CancelledCalls, unanswered: &[u64]) -> Ownership {
    cancelled.owner(unanswered.iter().copied(), Instant::now())
}

#[test]
fn message_belongs_to_an_agent_if_all_that_the_server_may_work_on_does() {
    let (mut cancelled, now) = (CancelledCalls::default(), Instant::now());
    assert_eq!(owner(&cancelled, &[]), Ownership::Nobody);
    assert_eq!(owner(&cancelled, &[7, 7]), Ownership::One(7));
    assert_eq!(owner(&cancelled, &[7, 8]), Ownership::Several);
    cancelled.add(3, (9, None), None, None, now);
    cancelled.add(1, (7, None), None, None, now);
    assert_eq!(owner(&cancelled, &[7]), Ownership::Several);
    for stray in ["2", "03", "\"3\"", "3.0", ""] {
        cancelled.answered(stray.as_bytes());
    }
    cancelled.answered(b"1");
    assert_eq!((owner(&cancelled, &[9]), owner(&cancelled, &[7])), (Ownership::One(9), Ownership::Several));
    cancelled.answered(b"3");
    assert_eq!(owner(&cancelled, &[7]), Ownership::One(7));
}

#[test]
fn old_cancelled_calls_are_reduced_to_their_sessions() {
    let (mut cancelled, now) = (CancelledCalls::default(), Instant::now());
    let count = 3 * CAPACITY as u64;
    for id in 0..count {
        cancelled.add(id, (7, None), Some(Until { at: now + SECOND, answered_from: count }), None, now);
    }
    assert_eq!(cancelled.known.len(), CAPACITY);
    let owner = |cancelled: &CancelledCalls, unanswered: u64, at| cancelled.owner(std::iter::once(unanswered), at);
    assert_eq!((owner(&cancelled, 7, now), owner(&cancelled, 8, now)), (Ownership::One(7), Ownership::Several));
    cancelled.pending_answered(count.to_string().as_bytes());
    assert_eq!(owner(&cancelled, 8, now), Ownership::Several);
    assert_eq!(owner(&cancelled, 8, now + SECOND), Ownership::One(8));
    assert_eq!(
        cancelled.owner_of_request(std::iter::empty(), now),
        Ownership::Nobody,
        "it has read every cancellation"
    );
    cancelled.add(count, (7, None), None, None, now + SECOND);
    assert_eq!(cancelled.known.len(), 1);
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
        let mut cancelled = CancelledCalls::default();
        cancelled.pending_answered(b"9");
        cancelled.add(3, (7, None), Some(Until { at: now + SECOND, answered_from: 5 }), None, now);
        cancelled.pending_answered(answered.to_string().as_bytes());
        let owner = cancelled.owner(std::iter::once(8), now + later * SECOND);
        assert_eq!(owner, expected, "{later} s after, {answered} is answered");
    }
}

#[test]
fn cancelled_call_without_a_limit_counts_until_its_response() {
    let (mut cancelled, now) = (CancelledCalls::default(), Instant::now());
    for id in 0..=CAPACITY as u64 {
        let until = (id > 0).then_some(Until { at: now, answered_from: 9 });
        cancelled.add(id, (7, None), until, None, now);
    }
    cancelled.pending_answered(b"9");
    assert_eq!(owner(&cancelled, &[8]), Ownership::Several);
}

#[test]
fn request_is_attributed_as_soon_as_the_cancellation_is_read_unless_the_server_has_gone_on_before() {
    let now = Instant::now();
    let owner = |cancelled: &CancelledCalls, at| cancelled.owner_of_request(std::iter::once(8), at);
    let until = |answered_from| Some(Until { at: now + SECOND, answered_from });
    let mut cancelled = CancelledCalls::new(true);
    cancelled.add(3, (7, None), until(5), None, now);
    assert_eq!((owner(&cancelled, now), owner(&cancelled, now + SECOND)), (Ownership::Several, Ownership::Several));
    cancelled.pending_answered(b"5");
    assert_eq!(owner(&cancelled, now), Ownership::One(8));
    cancelled.answered(b"3");
    cancelled.add(6, (7, None), until(7), None, now);
    cancelled.pending_answered(b"7");
    assert_eq!((owner(&cancelled, now), owner(&cancelled, now + SECOND)), (Ownership::Several, Ownership::One(8)));
}

#[test]
fn response_that_crosses_the_cancellation_does_not_count_as_work() {
    let now = Instant::now();
    let mut cancelled = CancelledCalls::new(true);
    for (id, answered_from, is_answered) in [(3, 5, true), (6, 7, false)] {
        cancelled.add(id, (7, None), Some(Until { at: now + SECOND, answered_from }), None, now);
        if is_answered {
            cancelled.answered(id.to_string().as_bytes());
        }
        cancelled.pending_answered(answered_from.to_string().as_bytes());
        assert_eq!(cancelled.owner_of_request(std::iter::once(8), now), Ownership::One(8));
    }
}

#[test]
fn without_message_order_a_call_stops_counting_by_time_only() {
    let now = Instant::now();
    let mut cancelled = CancelledCalls::new(false);
    cancelled.add(3, (7, None), Some(Until { at: now + SECOND, answered_from: 5 }), None, now);
    cancelled.pending_answered(b"5");
    let owner = |at| cancelled.owner_of_request(std::iter::empty(), at);
    assert_eq!((owner(now), owner(now + SECOND)), (Ownership::One(7), Ownership::Nobody));
}

#[test]
fn messages_about_cancelled_calls_of_a_modern_server_arrive_for_a_short_time() {
    let (mut cancelled, now) = (CancelledCalls::default(), Instant::now());
    cancelled.add_modern((7, None), now);
    assert_eq!(cancelled.in_transit_for(now), Ownership::One(7));
    cancelled.add_modern((8, None), now + SECOND);
    assert_eq!(cancelled.in_transit_for(now + IN_TRANSIT), Ownership::Several);
    assert_eq!(cancelled.in_transit_for(now + IN_TRANSIT + SECOND), Ownership::Nobody);
    cancelled.add_modern((8, None), now + 2 * IN_TRANSIT);
    assert_eq!(cancelled.in_transit_for(now + 2 * IN_TRANSIT), Ownership::One(8));
}

#[test]
fn all_cancelled_calls_are_of_a_user_until_none_counts() {
    let (mut cancelled, now) = (CancelledCalls::default(), Instant::now());
    let users = |cancelled: &CancelledCalls| [1000, 1001].map(|uid| cancelled.are_all_of(uid));
    assert_eq!(users(&cancelled), [false, false]);
    for (id, uid, expected) in [
        (1, Some(1000), [true, false]),
        (2, Some(1000), [true, false]),
        (3, Some(1001), [false, false]),
        (4, Some(1000), [false, false]),
    ] {
        cancelled.add(id, (id, uid), None, None, now);
        assert_eq!(users(&cancelled), expected, "{id}");
    }
    [&b"1"[..], b"2", b"3", b"4"].into_iter().for_each(|id| cancelled.answered(id));
    cancelled.add_modern((5, Some(1001)), now);
    assert_eq!(users(&cancelled), [false, true]);
    cancelled.add(6, (6, None), None, None, now);
    assert_eq!(users(&cancelled), [false, false]);
}
