//! What a server is listened to for, when it is asked again, and what it refuses.

use super::*;
use crate::list_kind::PerKind;

fn of(tools: bool, updates: bool) -> Stream {
    let mut stream = Stream::default();
    stream.declare(NotificationSupport {
        changes: PerKind::from_fn(|kind| tools && kind == ListKind::Tools),
        updates,
        tasks: updates,
    });
    stream
}

fn want(stream: &mut Stream, uri: &'static str) {
    stream.want(Topic::Resource(uri.into()), &Bytes::from(format!("\"{uri}\"")));
}

/// What it is asked for, written.
fn request(stream: &mut Stream, id: u64, now: Instant) -> Option<String> {
    let Due::Ask(filter) = stream.due(now) else { return None };
    let written = filter.to_json();
    stream.asked(id, filter);
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
        uri.into_iter().for_each(|uri| want(&mut stream, uri));
        assert_eq!(request(&mut stream, 1, now).as_deref(), expected, "{tools} {updates} {uri:?}");
        assert_eq!(stream.due(now), Due::Nothing);
    }
}

#[test]
fn another_set_takes_the_place_of_the_one_before_when_it_is_acknowledged() {
    let (mut stream, now) = (of(false, true), Instant::now());
    want(&mut stream, "a");
    assert!(request(&mut stream, 1, now).is_some());
    want(&mut stream, "b");
    assert_eq!(stream.due(now), Due::Nothing, "one after another");
    assert_eq!(stream.acknowledged(7, now), None);
    assert_eq!(stream.acknowledged(1, now).map(|begun| begun.before), Some(None));
    assert_eq!(request(&mut stream, 2, now).as_deref(), Some(r#"{"resourceSubscriptions":["a","b"]}"#));
    assert!(stream.hears(1) && !stream.hears(2) && stream.is_of(2));
    assert_eq!(stream.acknowledged(2, now).map(|begun| begun.before), Some(Some(1)));
    assert!(!stream.hears(1) && stream.hears(2));
    want(&mut stream, "c");
    stream.forget(&Topic::Resource("c".into()));
    assert_eq!(stream.due(now), Due::Nothing, "the same set");
    stream.forget(&Topic::Resource("a".into()));
    stream.forget(&Topic::Resource("b".into()));
    assert_eq!(stream.due(now), Due::End(2));
}

#[test]
fn ended_stream_is_requested_again_after_a_growing_delay() {
    let (mut stream, now) = (of(true, false), Instant::now());
    let mut pauses = Vec::new();
    for id in 1..12 {
        let at = stream.again_at.unwrap_or(now);
        assert!(request(&mut stream, id, at).is_some());
        let missed = stream.acknowledged(id, at).map(|begun| begun.has_missed);
        assert_eq!(missed, Some(id > 1));
        stream.ended(id, at, 0.0);
        let Due::At(again) = stream.due(at) else { panic!("later") };
        pauses.push(again.duration_since(at));
    }
    assert_eq!(pauses[..3], [FIRST_DELAY, 2 * FIRST_DELAY, 4 * FIRST_DELAY]);
    assert_eq!(pauses.last(), Some(&MAX_DELAY));
}

#[test]
fn stream_is_not_requested_again_from_a_server_that_does_not_know_the_method() {
    let (mut stream, now) = (of(true, true), Instant::now());
    want(&mut stream, "a");
    assert!(request(&mut stream, 1, now).is_some());
    stream.give_up();
    assert!(stream.ended(1, now, 0.0));
    assert_eq!(stream.due(now + MAX_DELAY), Due::Nothing);
    assert!(!stream.tells_updates());
}

#[test]
fn what_a_server_refuses_everything_for_is_found_and_left_out() {
    let uris = ["a", "b", "c", "d", "e", "f", "g"];
    for bad in [&["c"][..], &["a", "g"], &["d", "e", "f"], &uris, &[]] {
        let (mut stream, now) = (of(true, true), Instant::now());
        uris.into_iter().for_each(|uri| want(&mut stream, uri));
        let (mut refused, mut rounds) = (Vec::new(), 0);
        while let Due::Ask(filter) = stream.due(now) {
            rounds += 1;
            let has_bad = filter.uris.iter().any(|(uri, _)| bad.iter().any(|bad| uri == *bad));
            stream.asked(rounds, filter);
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
        let heard: Vec<_> = open.filter.uris.iter().map(|(uri, _)| uri.clone()).collect();
        let good: Vec<_> = uris.into_iter().filter(|uri| !bad.contains(uri)).collect();
        assert_eq!(heard, good, "{bad:?}");
        assert_eq!(stream.due(now), Due::Nothing);
    }
}

#[test]
fn stream_refused_without_new_topics_is_requested_again_later() {
    let (mut stream, now) = (of(true, true), Instant::now());
    assert!(request(&mut stream, 1, now).is_some());
    assert_eq!(stream.narrow(1), None);
    assert_eq!(stream.narrow(7), None, "another");
    assert!(stream.ended(1, now, 0.0));
    assert!(matches!(stream.due(now), Due::At(_)));
}

#[test]
fn stream_has_tasks_until_they_have_ended() {
    let (mut stream, now) = (of(false, true), Instant::now());
    let [a, b] = ["a", "b"].map(|id| Topic::Task(id.into()));
    want(&mut stream, "a");
    stream.want(a.clone(), &Bytes::from("\"a\""));
    assert_eq!(request(&mut stream, 1, now).as_deref(), Some(r#"{"resourceSubscriptions":["a"],"taskIds":["a"]}"#));
    assert!(stream.acknowledged(1, now).is_some());
    stream.has_ended(&a);
    assert_eq!(stream.due(now), Due::Nothing, "it does no harm to be listened to");
    stream.want(b.clone(), &Bytes::from("\"b\""));
    assert_eq!(request(&mut stream, 2, now).as_deref(), Some(r#"{"resourceSubscriptions":["a"],"taskIds":["b"]}"#));
    assert_eq!(stream.narrow(2), Some(vec![b]));
    assert_eq!(request(&mut stream, 3, now).as_deref(), Some(r#"{"resourceSubscriptions":["a"]}"#), "without either");
    let mut silent = of(true, false);
    silent.want(a, &Bytes::from("\"a\""));
    assert_eq!(request(&mut silent, 1, now).as_deref(), Some(r#"{"toolsListChanged":true}"#));
}
