//! Held against a second reader.

use super::*;
use proptest::prelude::*;
use serde::de::IgnoredAny;

fn accepts(text: &[u8]) -> bool {
    let mut walk = Walk::any(text);
    loop {
        match walk.next() {
            Ok(Some(_)) => {}
            Ok(None) => break walk.end().is_ok(),
            Err(NotJson) => break false,
        }
    }
}

/// As a second reader sees it, but for carriage returns.
fn is_json(text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).ok().filter(|text| !text.contains('\r'));
    text.is_some_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

#[test]
fn every_level_is_closed_by_its_own_bracket() {
    for depth in [1, 63, 64, 65, 128, 129, 1000] {
        let open = "[{\"a\":".repeat(depth);
        assert!(accepts((open.clone() + "1" + &"}]".repeat(depth)).as_bytes()), "{depth}");
        assert!(!accepts((open.clone() + "1" + &"]}".repeat(depth)).as_bytes()), "{depth}");
        let crossed = "}]".repeat(depth - 1) + "]}";
        assert!(!accepts((open + "1" + &crossed).as_bytes()), "{depth}");
    }
}

#[test]
fn a_long_string_ends_where_it_ends() {
    for length in 0..300 {
        for (end, ok) in [("\"", true), ("\\n\"", true), ("é\"", true), ("\\x\"", false), ("\n\"", false), ("", false)]
        {
            let text = format!("\"{}{end}", "x".repeat(length));
            assert_eq!(accepts(text.as_bytes()), ok, "{text}");
        }
        let not_utf8 = [b"\"", "x".repeat(length).as_bytes(), b"\xff\""].concat();
        assert!(!accepts(&not_utf8));
    }
}

/// The keys and values of an array or object.
fn parts(mut walk: Walk<'_>) -> Option<Vec<(&[u8], &[u8])>> {
    let mut parts = Vec::new();
    while let Some(part) = walk.next().ok()? {
        parts.push((part.key, part.value));
    }
    walk.end().ok().map(|()| parts)
}

#[test]
fn accepted_text_that_is_none_ends_the_walk() {
    for text in ["[[", "[[1]", "[{\"a]}", "[\"\\", "[[\"\\", "[", "{\"a\":[}", "", "[[1]}"] {
        assert!(parts(Walk::any(text.as_bytes()).accepted()).is_none(), "{text}");
    }
}

fn json() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,2})?([eE][+-]?[0-9]{1,2})?",
        "\"([ -!#-\\[\\]-~é𝄞]|\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4}){0,80}\"",
        prop::sample::select(vec!["true", "false", "null", "{}", "[]", " [ ] ", "\t{\n}"]).prop_map(String::from),
    ];
    scalar.prop_recursive(5, 40, 4, |inner| {
        let member = ("\"[a-z\\\\\"]{0,4}\" ?: ?", inner.clone()).prop_map(|(key, value)| key + &value);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|values| format!("[{}]", values.join(","))),
            prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(" , "))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn agrees_with_a_second_reader(text in json(), cut in any::<prop::sample::Index>(), with in any::<Option<u8>>()) {
        prop_assert_eq!(accepts(text.as_bytes()), is_json(text.as_bytes()));
        // One byte lost, or another in its place.
        let mut text = text.into_bytes();
        let cut = cut.index(text.len());
        text.splice(cut..=cut, with);
        prop_assert_eq!(accepts(&text), is_json(&text), "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn accepted_text_has_the_same_parts(values in prop::collection::vec(json(), 1..4), count in 0..200usize) {
        // Some have a key with a quote.
        let values = values.into_iter().filter(|value| is_json(value.as_bytes()));
        let values: Vec<_> = values.chain([format!("[{}1]", "1,".repeat(count))]).collect();
        let text = format!("[{}]", values.join(","));
        let (found, again) = (parts(Walk::any(text.as_bytes())), parts(Walk::any(text.as_bytes()).accepted()));
        prop_assert!(found.is_some());
        prop_assert_eq!(found, again);
    }

    #[test]
    fn agrees_on_what_is_hardly_json(text in "[\\[\\]{}:,\"\\\\utrefalsn0-9.eE+ \t\r\n-]{0,12}") {
        prop_assert_eq!(accepts(text.as_bytes()), is_json(text.as_bytes()));
    }
}
