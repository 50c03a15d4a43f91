//! Compares JSON texts by value.

use bytes::Bytes;

use super::members::{elements, entries, text};

/// Maximum nesting and members of one value that are compared. Beyond it, only equal bytes are equal.
const MAX_DEPTH: usize = 64;
const MAX_MEMBERS: usize = 10_000;

/// Whether two objects have equal members, except those named in `except`. Order, blanks and escapes do not matter. Numbers must have equal
/// text, because parsers differ in precision. In case of doubt, the objects differ.
#[must_use]
pub fn json_eq_except(a: &Bytes, b: &Bytes, except: &[&str]) -> bool {
    eq_members(a, b, except, MAX_DEPTH)
}

/// Whether two values are equal, compared as by [`json_eq_except`].
#[must_use]
pub fn json_eq(a: &Bytes, b: &Bytes) -> bool {
    eq_within(a, b, MAX_DEPTH)
}

fn eq_within(a: &Bytes, b: &Bytes, depth: usize) -> bool {
    if a == b {
        return true;
    }
    let Some(depth) = depth.checked_sub(1) else { return false };
    match (a.first(), b.first()) {
        (Some(b'{'), Some(b'{')) => eq_members(a, b, &[], depth),
        (Some(b'['), Some(b'[')) => match (elements(a, MAX_MEMBERS), elements(b, MAX_MEMBERS)) {
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| eq_within(a, b, depth)),
            _ => false,
        },
        (Some(b'"'), Some(b'"')) => text(a).is_some_and(|a| Some(a) == text(b)),
        _ => false,
    }
}

fn eq_members(a: &Bytes, b: &Bytes, except: &[&str], depth: usize) -> bool {
    match (sorted(a, except), sorted(b, except)) {
        (Some(a), Some(b)) => {
            let mut pairs = a.iter().zip(&b);
            a.len() == b.len() && pairs.all(|(a, b)| a.0 == b.0 && eq_within(&a.1, &b.1, depth))
        }
        _ => false,
    }
}

/// The members, sorted by decoded key. `None` if `object` is not an object, or has duplicate or too many members.
fn sorted(object: &Bytes, except: &[&str]) -> Option<Vec<(Bytes, Bytes)>> {
    let found = entries(object, MAX_MEMBERS)?;
    let mut members: Vec<(Bytes, Bytes)> =
        found.into_iter().map(|(key, value)| Some((text(&key)?, value))).collect::<Option<_>>()?;
    members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let has_one_twice = members.windows(2).any(|two| two[0].0 == two[1].0);
    members.retain(|(key, _)| !except.iter().any(|name| name.as_bytes() == &key[..]));
    (!has_one_twice).then_some(members)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{bytes, members_of};
    use super::*;

    fn is_eq(a: &Bytes, b: &Bytes) -> bool {
        eq_within(a, b, MAX_DEPTH)
    }

    #[test]
    fn spelling_makes_no_difference_but_of_numbers() {
        for (a, b, expected) in [
            (r#"{"a":1,"b":[true,null]}"#, r#"{ "b": [true, null], "\u0061":1 }"#, true),
            (r#""a\/b""#, r#""a/b""#, true),
            ("1.0", "1.0", true),
            ("{}", "{ }", true),
            ("1.0", "1", false),
            ("12345678901234567890123", "12345678901234567890124", false),
            ("[1,2]", "[2,1]", false),
            ("[1,2]", "[1]", false),
            (r#"{"a":1}"#, r#"{"a":1,"b":1}"#, false),
            (r#"{"a":{"x":1}}"#, r#"{"a":{"x":2}}"#, false),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, false),
            (r#""\ud800""#, r#""\uD800""#, false),
            ("{}", "[]", false),
            ("", "{}", false),
        ] {
            assert_eq!(is_eq(&bytes(a), &bytes(b)), expected, "{a} {b}");
            assert_eq!(is_eq(&bytes(b), &bytes(a)), expected, "{b} {a}");
        }
    }

    #[test]
    fn what_is_too_deep_or_too_long_is_compared_as_it_is_spelled() {
        let deep = |inner: &str| bytes(&format!("{}{inner}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1)));
        assert!(is_eq(&deep("1"), &deep("1")) && !is_eq(&deep("1"), &deep("1 ")));
        let long = |last: &str| bytes(&format!("[{}{last}]", "1,".repeat(MAX_MEMBERS)));
        assert!(is_eq(&long("1"), &long("1")) && !is_eq(&long("1"), &long(" 1")));
    }

    proptest! {
        #[test]
        fn order_and_blanks_make_no_difference(members in members_of(&["a", "b", "c", "d"]), apart in members_of(&["x", "y"])) {
            let object = bytes(&format!("{{{members}}}"));
            let mut parts: Vec<String> = entries(&object, 9).expect("an object").into_iter()
                .map(|(key, value)| format!("{} : {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value))).collect();
            parts.reverse();
            parts.extend((!apart.is_empty()).then_some(apart));
            let other = bytes(&format!("{{{}}}", parts.join(" ,")));
            prop_assert!(json_eq_except(&object, &other, &["x", "y"]));
            prop_assert_eq!(is_eq(&object, &other), entries(&object, 9).map(|a| a.len()) == entries(&other, 9).map(|b| b.len()));
        }
    }
}
