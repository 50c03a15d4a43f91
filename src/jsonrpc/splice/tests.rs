//! Lines and objects before and after.

use proptest::prelude::*;
use proptest::sample::subsequence;

use super::super::tests::{bytes, members_of, text};
use super::*;
use crate::jsonrpc::members::entries;

#[test]
fn members_go_with_their_commas() {
    for (object, left) in [
        (r#"{"a":1}"#, "{}"),
        (r#"{ "a" : 1 }"#, "{  }"),
        (r#"{"a":1,"x":2}"#, r#"{"x":2}"#),
        (r#"{"x":2,"a":1}"#, r#"{"x":2}"#),
        (r#"{"x":2, "a":1, "y":3}"#, r#"{"x":2, "y":3}"#),
        (r#"{"a":1, "b":2 ,"x":3}"#, r#"{"x":3}"#),
        (r#"{"x":3 , "a":1,"b":2 }"#, r#"{"x":3 }"#),
        (r#"{"a":1,"b":2}"#, "{}"),
        (r#"{"b":2,"x":{"a":1},"\u0061":1,"y":"a"}"#, r#"{"x":{"a":1},"y":"a"}"#),
        (r#"{"x":1,"y":2}"#, r#"{"x":1,"y":2}"#),
        (" {\t\"a\":[1,\"}\"],\n\"x\" :1.50}", " {\t\n\"x\" :1.50}"),
        ("{}", "{}"),
    ] {
        let object = bytes(object);
        let changes = without(&object, &["a", "b"]).expect("an object");
        assert_eq!(text(&applied(&object, &changes)), left, "{object:?}");
    }
}

#[test]
fn removed_members_are_returned() {
    let object = bytes(r#"{"b":"x","c":1}"#);
    let Cut { values, leaves_any, .. } = cut(&object, ["a", "b"]).expect("an object");
    assert_eq!((values, leaves_any), ([None, Some(bytes(r#""x""#))], true));
    assert!(!cut(&object, ["c", "b"]).expect("an object").leaves_any);
}

#[test]
fn a_nested_member_goes_and_takes_along_what_had_nothing_else() {
    for (object, left) in [
        (r#"{"a":1,"o":{"i":1},"x":2}"#, r#"{"x":2}"#),
        (r#"{"o":{"i":1}}"#, "{}"),
        (r#"{"x":2,"o":{"i":1,"j":2.0}, "a":1}"#, r#"{"x":2,"o":{"j":2.0}}"#),
        (r#"{"o":{"j":{"i":1}},"i":1}"#, r#"{"o":{"j":{"i":1}},"i":1}"#),
        (r#"{"o":{},"a":1}"#, r#"{"o":{}}"#),
        (r#"{"o":null,"a":1}"#, r#"{"o":null}"#),
        (r#"{"o":{"i":1,"i":2},"a":1}"#, r#"{"o":{"i":1,"i":2}}"#),
        (r#"{"x":1}"#, r#"{"x":1}"#),
    ] {
        let object = bytes(object);
        let found = cut_nested(&object, ["a", "b"], ("o", "i")).expect("an object");
        assert_eq!(text(&applied(&object, &found.changes)), left, "{object:?}");
        assert_eq!(found.leaves_any, left != "{}", "{object:?}");
    }
}

#[test]
fn members_are_put_at_either_end() {
    for (object, first) in [("{}", r#"{"n":0}"#), (" { } ", r#" {"n":0 } "#), (r#"{"a":1}"#, r#"{"n":0,"a":1}"#)] {
        let object = bytes(object);
        assert_eq!(text(&applied(&object, &[with_first(&object, r#""n":0"#)])), first);
    }
    let object = bytes(r#"{"a":{"b":1} }"#);
    let both = [with_last(&object, r#""z":9"#), with_first(&object, r#""n":0"#)];
    assert_eq!(text(&applied(&object, &both)), r#"{"n":0,"a":{"b":1} ,"z":9}"#);
    let instead = replace_members(&object, &["a"], r#""n":0"#).expect("an object");
    assert_eq!(text(&applied(&object, &instead)), r#"{"n":0 }"#);
    assert_eq!(replace_members(&object, &["x"], ""), Ok(Vec::new()));
}

#[test]
fn what_two_readers_could_take_for_different_things_is_refused() {
    for object in [
        "",
        "[]",
        "{",
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"A":1}"#,
        r#"{"a":1}{}"#,
        "{\"a\":1,\r\"b\":2}",
    ] {
        assert_eq!(without(&bytes(object), &["a", "b"]), Err(NotAnObject), "{object}");
    }
}

const NAMES: &[&str] = &["a", "b", "c", "d", "e", "f", "g", "h"];

proptest! {
    #[test]
    fn every_other_member_stays_as_it_is(members in members_of(NAMES), names in subsequence(NAMES, 0..4)) {
        let object = bytes(&format!("{{{members}}}"));
        let changes = replace_members(&object, &names, r#""new":0"#).expect("an object");
        let after = Bytes::from(applied(&object, &changes));
        let is_unedited = |key: &Bytes| !names.iter().any(|name| key[..] == *format!("\"{name}\"").as_bytes());
        let before = entries(&object, 99).expect("an object");
        let mut expected = vec![(bytes(r#""new""#), bytes("0"))];
        expected.extend(before.into_iter().filter(|(key, _)| is_unedited(key)));
        prop_assert_eq!(entries(&after, 99), Some(expected));
    }
}

#[test]
fn only_the_parts_change() {
    let line = br#"{"id" : "a", "n": 1.10, "params":{"name":"x"}}"#;
    let (id, name) = (&line[8..11], &line[41..44]);
    let mut edits = [Edit { part: name, replacement: b"\"tool\"" }, Edit { part: id, replacement: b"7" }];
    assert_eq!(&splice(line, &mut edits)[..], b"{\"id\" : 7, \"n\": 1.10, \"params\":{\"name\":\"tool\"}}\n");
}

proptest! {
    #[test]
    fn splicing_back_gives_the_line(line in "[a-z]{1,40}", cut in 0..40usize, with in "[0-9]{0,9}") {
        let cut = cut % line.len();
        let spliced = splice(line.as_bytes(), &mut [Edit { part: &line.as_bytes()[cut..=cut], replacement: with.as_bytes() }]);
        let back = splice(&spliced[..spliced.len() - 1], &mut [
            Edit { part: &spliced[cut..cut + with.len()], replacement: &line.as_bytes()[cut..=cut] },
        ]);
        prop_assert_eq!(&back[..back.len() - 1], line.as_bytes());
    }
}
