//! Tests of the requests for notifications, of their repetition and of refusals.

use super::*;
use crate::list_kind::PerKind;

fn of(tools: bool, updates: bool) -> ListenState {
    let mut stream = ListenState::default();
    stream.declare(NotificationSupport {
        changes: PerKind::from_fn(|kind| tools && kind == ListKind::Tools),
        updates,
        tasks: updates,
    });
    stream
}

fn add(stream: &mut ListenState, uri: &'static str) {
    stream.add(Topic::Resource(uri.into()), &Bytes::from(format!("\"{uri}\"")));
}

/// The filter of the next request, as text.
fn request(stream: &mut ListenState, id: u64, now: Instant) -> Option<String> {
    let ListenAction::Send(filter) = stream.next_action(now) else { return None };
    let written = filter.to_json();
    stream.sent(id, filter);
    Some(written)
}

#[test]
fn stream_has_what_the_server_declares_and_agents_want() {
    let now = Instant::now();
    for (tools, updates, uri, expected) in [
        (false, false, Some("a"), None),
        (false, true, None, None),
        (true, false, Some("a"), Some(r#"{"toolsListChanged":true}"#)),
        (false, true, Some("a"), Some(r#"{"resourceSubscriptions":["a"]}"#)),
    ] {
        let mut stream = of(tools, updates);
        uri.into_iter().for_each(|uri| add(&mut stream, uri));
        assert_eq!(request(&mut stream, 1, now).as_deref(), expected, "{tools} {updates} {uri:?}");
        assert_eq!(stream.next_action(now), ListenAction::Nothing);
    }
}

#[test]
fn acknowledged_request_replaces_the_open_one() {
    let (mut stream, now) = (of(false, true), Instant::now());
    add(&mut stream, "a");
    assert!(request(&mut stream, 1, now).is_some());
    add(&mut stream, "b");
    assert_eq!(stream.next_action(now), ListenAction::Nothing, "one after another");
    assert_eq!(stream.acknowledged(7, now), None);
    assert_eq!(stream.acknowledged(1, now).map(|begun| begun.replaced), Some(None));
    assert_eq!(request(&mut stream, 2, now).as_deref(), Some(r#"{"resourceSubscriptions":["a","b"]}"#));
    assert!(stream.is_open(1) && !stream.is_open(2) && stream.is_of(2));
    assert_eq!(stream.acknowledged(2, now).map(|begun| begun.replaced), Some(Some(1)));
    assert!(!stream.is_open(1) && stream.is_open(2));
    add(&mut stream, "c");
    stream.remove(&Topic::Resource("c".into()));
    assert_eq!(stream.next_action(now), ListenAction::Nothing, "the same set");
    stream.remove(&Topic::Resource("a".into()));
    stream.remove(&Topic::Resource("b".into()));
    assert_eq!(stream.next_action(now), ListenAction::End(2));
}

#[test]
fn ended_stream_is_requested_again_after_a_growing_delay() {
    let (mut stream, now) = (of(true, false), Instant::now());
    let mut pauses = Vec::new();
    for id in 1..12 {
        let at = stream.retry_at.unwrap_or(now);
        assert!(request(&mut stream, id, at).is_some());
        let missed = stream.acknowledged(id, at).map(|begun| begun.has_missed);
        assert_eq!(missed, Some(id > 1));
        stream.ended(id, at, 0.0);
        let ListenAction::Wait(again) = stream.next_action(at) else { panic!("later") };
        pauses.push(again.duration_since(at));
    }
    assert_eq!(pauses[..3], [FIRST_DELAY, 2 * FIRST_DELAY, 4 * FIRST_DELAY]);
    assert_eq!(pauses.last(), Some(&MAX_DELAY));
}

#[test]
fn stream_is_not_requested_again_from_a_server_that_does_not_know_the_method() {
    let (mut stream, now) = (of(true, true), Instant::now());
    add(&mut stream, "a");
    assert!(request(&mut stream, 1, now).is_some());
    stream.disable();
    assert!(stream.ended(1, now, 0.0));
    assert_eq!(stream.next_action(now + MAX_DELAY), ListenAction::Nothing);
    assert!(!stream.supports_updates());
}

#[test]
fn refused_topic_is_found_and_left_out() {
    let uris = ["a", "b", "c", "d", "e", "f", "g"];
    for bad in [&["c"][..], &["a", "g"], &["d", "e", "f"], &uris, &[]] {
        let (mut stream, now) = (of(true, true), Instant::now());
        uris.into_iter().for_each(|uri| add(&mut stream, uri));
        let (mut refused, mut rounds) = (Vec::new(), 0);
        while let ListenAction::Send(filter) = stream.next_action(now) {
            rounds += 1;
            let has_bad = filter.uris.iter().any(|(uri, _)| bad.iter().any(|bad| uri == *bad));
            stream.sent(rounds, filter);
            if has_bad {
                refused.extend(stream.narrow(rounds).expect("something is new"));
            } else {
                assert!(stream.acknowledged(rounds, now).is_some());
            }
        }
        let bad_topics: Vec<_> = bad.iter().map(|uri| Topic::Resource((*uri).into())).collect();
        assert_eq!(refused, bad_topics, "{bad:?}");
        assert!(rounds <= 20, "{rounds} for {bad:?}");
        let open = stream.open.as_ref().expect("it is listened to");
        let accepted: Vec<_> = open.filter.uris.iter().map(|(uri, _)| uri.clone()).collect();
        let good: Vec<_> = uris.into_iter().filter(|uri| !bad.contains(uri)).collect();
        assert_eq!(accepted, good, "{bad:?}");
        assert_eq!(stream.next_action(now), ListenAction::Nothing);
    }
}

#[test]
fn stream_refused_without_new_topics_is_requested_again_later() {
    let (mut stream, now) = (of(true, true), Instant::now());
    assert!(request(&mut stream, 1, now).is_some());
    assert_eq!(stream.narrow(1), None);
    assert_eq!(stream.narrow(7), None, "another");
    assert!(stream.ended(1, now, 0.0));
    assert!(matches!(stream.next_action(now), ListenAction::Wait(_)));
}

#[test]
fn stream_has_tasks_until_they_have_ended() {
    let (mut stream, now) = (of(false, true), Instant::now());
    let [a, b] = ["a", "b"].map(|id| Topic::Task(id.into()));
    add(&mut stream, "a");
    stream.add(a.clone(), &Bytes::from("\"a\""));
    assert_eq!(request(&mut stream, 1, now).as_deref(), Some(r#"{"resourceSubscriptions":["a"],"taskIds":["a"]}"#));
    assert!(stream.acknowledged(1, now).is_some());
    stream.end_topic(&a);
    assert_eq!(stream.next_action(now), ListenAction::Nothing, "it does no harm to be listened to");
    stream.add(b.clone(), &Bytes::from("\"b\""));
    assert_eq!(request(&mut stream, 2, now).as_deref(), Some(r#"{"resourceSubscriptions":["a"],"taskIds":["b"]}"#));
    assert_eq!(stream.narrow(2), Some(vec![b]));
    assert_eq!(request(&mut stream, 3, now).as_deref(), Some(r#"{"resourceSubscriptions":["a"]}"#), "without either");
    let mut silent = of(true, false);
    silent.add(a, &Bytes::from("\"a\""));
    assert_eq!(request(&mut silent, 1, now).as_deref(), Some(r#"{"toolsListChanged":true}"#));
}
