//! To whom all belongs that a server may be at, with calls that were given up.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn whose(given_up: &GivenUp, unanswered: &[u64]) -> Whose {
    given_up.whose(unanswered.iter().copied(), Instant::now())
}

#[test]
fn what_is_said_is_an_agents_if_all_that_the_server_may_be_at_is() {
    let (mut given_up, now) = (GivenUp::default(), Instant::now());
    assert_eq!(whose(&given_up, &[]), Whose::Nobody);
    assert_eq!(whose(&given_up, &[7, 7]), Whose::One(7));
    assert_eq!(whose(&given_up, &[7, 8]), Whose::Several);
    given_up.add((3, 9), None, None, now);
    given_up.add((1, 7), None, None, now);
    assert_eq!(whose(&given_up, &[7]), Whose::Several);
    for stray in ["2", "03", "\"3\"", "3.0", ""] {
        given_up.answered(stray.as_bytes());
    }
    given_up.answered(b"1");
    assert_eq!((whose(&given_up, &[9]), whose(&given_up, &[7])), (Whose::One(9), Whose::Several));
    given_up.answered(b"3");
    assert_eq!(whose(&given_up, &[7]), Whose::One(7));
}

#[test]
fn of_calls_that_are_never_answered_no_more_is_kept_than_whose_they_were_until_the_last_is_over() {
    let (mut given_up, now) = (GivenUp::default(), Instant::now());
    let count = 3 * MOST as u64;
    for id in 0..count {
        given_up.add((id, 7), Some(Until { at: now + SECOND, answered: count }), None, now);
    }
    assert_eq!(given_up.known.len(), MOST);
    let whose = |given_up: &GivenUp, unanswered: u64, at| given_up.whose(std::iter::once(unanswered), at);
    assert_eq!((whose(&given_up, 7, now), whose(&given_up, 8, now)), (Whose::One(7), Whose::Several));
    given_up.heard(count.to_string().as_bytes());
    assert_eq!(whose(&given_up, 8, now), Whose::Several);
    assert_eq!(whose(&given_up, 8, now + SECOND), Whose::One(8));
    assert!(!given_up.may_ask(now), "it has read every cancellation");
    given_up.add((count, 7), None, None, now + SECOND);
    assert_eq!(given_up.known.len(), 1);
}

#[test]
fn a_call_is_over_after_a_while_if_the_server_has_read_that_nobody_wants_it() {
    let now = Instant::now();
    for (later, heard, expected) in [
        (0, 5, Whose::Several),
        (2, 4, Whose::Several),
        (1, 5, Whose::One(8)),
        (1, 6, Whose::One(8)),
        (9, 0, Whose::Several),
    ] {
        let mut given_up = GivenUp::default();
        given_up.heard(b"9");
        given_up.add((3, 7), Some(Until { at: now + SECOND, answered: 5 }), None, now);
        given_up.heard(heard.to_string().as_bytes());
        let whose = given_up.whose(std::iter::once(8), now + later * SECOND);
        assert_eq!(whose, expected, "{later} s after, {heard} is answered");
    }
}

#[test]
fn where_nothing_tells_that_it_is_over_it_never_is() {
    let (mut given_up, now) = (GivenUp::default(), Instant::now());
    for id in 0..=MOST as u64 {
        let until = (id > 0).then_some(Until { at: now, answered: 9 });
        given_up.add((id, 7), until, None, now);
    }
    given_up.heard(b"9");
    assert_eq!(whose(&given_up, &[8]), Whose::Several);
}

#[test]
fn request_is_attributed_as_soon_as_the_cancellation_is_read_unless_the_server_has_gone_on_before() {
    let now = Instant::now();
    let whose = |given_up: &GivenUp, at| given_up.whose_request(std::iter::once(8), at);
    let until = |answered| Some(Until { at: now + SECOND, answered });
    let mut given_up = GivenUp::new(true);
    given_up.add((3, 7), until(5), None, now);
    assert_eq!((whose(&given_up, now), whose(&given_up, now + SECOND)), (Whose::Several, Whose::Several));
    given_up.heard(b"5");
    assert_eq!(whose(&given_up, now), Whose::One(8));
    given_up.answered(b"3");
    given_up.add((6, 7), until(7), None, now);
    given_up.heard(b"7");
    assert_eq!((whose(&given_up, now), whose(&given_up, now + SECOND)), (Whose::Several, Whose::One(8)));
}

#[test]
fn answer_that_crosses_the_cancellation_is_no_sign_that_a_server_goes_on() {
    let now = Instant::now();
    let mut given_up = GivenUp::new(true);
    for (id, answered, is_answered) in [(3, 5, true), (6, 7, false)] {
        given_up.add((id, 7), Some(Until { at: now + SECOND, answered }), None, now);
        if is_answered {
            given_up.answered(id.to_string().as_bytes());
        }
        given_up.heard(answered.to_string().as_bytes());
        assert_eq!(given_up.whose_request(std::iter::once(8), now), Whose::One(8));
    }
}

#[test]
fn where_messages_may_overtake_each_other_only_time_shows_that_a_call_has_stopped() {
    let now = Instant::now();
    let mut given_up = GivenUp::new(false);
    given_up.add((3, 7), Some(Until { at: now + SECOND, answered: 5 }), None, now);
    given_up.heard(b"5");
    assert!(given_up.may_ask(now) && !given_up.may_ask(now + SECOND));
}
