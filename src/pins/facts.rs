//! What a definition claims, and which characters it hides: enough to judge a change without the approved text.

use std::borrow::Cow;

use bytes::Bytes;

use super::canonical::canonical;
use crate::jsonrpc::members::{Parts, may_be_read_as};
use crate::printable;

/// The hints of a tool's annotations, with the value that each has by default. The other value claims that the tool is harmless.
///
/// Source: MCP 2025-11-25, `schema`, `ToolAnnotations`.
const HINTS: [(&str, &[u8]); 4] = [
    ("readOnlyHint", b"false"),
    ("destructiveHint", b"true"),
    ("idempotentHint", b"false"),
    ("openWorldHint", b"true"),
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Which of [`HINTS`] claim that the tool is harmless.
    claims: [bool; HINTS.len()],
    /// The invisible characters in strings and keys, sorted, each once.
    invisible: Box<[char]>,
}

impl Facts {
    /// The facts of valid JSON.
    pub(super) fn of(json: &[u8]) -> Self {
        Self::of_canonical(canonical(json))
    }

    pub(super) fn of_canonical(json: impl Into<Bytes>) -> Self {
        let json = json.into();
        Self { claims: claims(&json), invisible: invisible(&json) }
    }

    /// Whether this definition claims something harmless that the other one does not.
    pub(super) fn loosens(&self, other: &Self) -> bool {
        self.claims.iter().zip(other.claims).any(|(now, before)| *now && !before)
    }

    /// Whether this definition has an invisible character that no other one has.
    pub(super) fn hides_more_than<'a>(&self, others: impl Iterator<Item = &'a Self> + Clone) -> bool {
        let is_known = |char: &char| others.clone().any(|other| other.invisible.binary_search(char).is_ok());
        !self.invisible.iter().all(is_known)
    }
}

/// Any reading of the hints counts, also that of a lenient parser: a hint in another case, the second of two, and a value that is neither
/// `true` nor `false`.
fn claims(definition: &Bytes) -> [bool; HINTS.len()] {
    let names = HINTS.map(|(name, _)| name);
    let mut claims = [false; HINTS.len()];
    for (_, annotations) in members_read_as(definition, &["annotations"]) {
        for (name, value) in members_read_as(&annotations, &names) {
            for (claim, (hint, default)) in claims.iter_mut().zip(HINTS) {
                *claim |= hint == name && value != default;
            }
        }
    }
    claims
}

/// The members of an object that some parser could take for one of `names`.
fn members_read_as<'n>(object: &Bytes, names: &[&'n str]) -> impl Iterator<Item = (&'n str, Bytes)> {
    let parts = Parts::of_object(object).into_iter().flatten();
    parts.filter_map(|(key, value)| Some((may_be_read_as(&key, names)?, value)))
}

/// The invisible characters of a canonical text, in which only control characters and lone surrogates have escapes.
fn invisible(text: &[u8]) -> Box<[char]> {
    // Most definitions are plain, and looking at each character takes longer than everything else.
    let is_plain = text.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let unplain = if is_plain { Cow::default() } else { String::from_utf8_lossy(text) };
    let blanks = unplain.chars().filter(|c| is_blank(*c));
    let mut found: Vec<char> = printable::hidden(&unplain).chain(blanks).chain(escaped_controls(text)).collect();
    found.sort_unstable();
    found.dedup();
    found.into()
}

/// Whether many fonts show nothing for a character that is visible by its category: the braille blank, the sign of an object, private use.
fn is_blank(c: char) -> bool {
    matches!(c, '\u{2800}' | '\u{fffc}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}

/// The control characters that have escapes, except for those that end lines and for tabs.
fn escaped_controls(text: &[u8]) -> impl Iterator<Item = char> {
    let mut rest = text;
    let escapes = std::iter::from_fn(move || {
        let at = memchr::memchr(b'\\', rest)?;
        let (escape, after) = rest[at + 1..].split_first()?;
        rest = after;
        Some((*escape, after))
    });
    escapes.filter_map(|(escape, after)| match escape {
        b'b' => Some('\u{8}'),
        b'f' => Some('\u{c}'),
        b'u' => char::from_u32(u32::from_str_radix(std::str::from_utf8(after.get(..4)?).ok()?, 16).ok()?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(annotations: &str) -> Facts {
        Facts::of(format!(r#"{{"name":"a","annotations":{annotations}}}"#).as_bytes())
    }

    #[test]
    fn only_a_claim_that_was_not_made_loosens() {
        for (before, after, loosens) in [
            ("{}", "{}", false),
            ("{}", r#"{"readOnlyHint":true}"#, true),
            (
                "{}",
                r#"{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}"#,
                false,
            ),
            (r#"{"readOnlyHint":false}"#, r#"{"readOnlyHint":true}"#, true),
            (r#"{"readOnlyHint":true}"#, r#"{"readOnlyHint":true}"#, false),
            (r#"{"readOnlyHint":true}"#, "{}", false),
            ("{}", r#"{"destructiveHint":false}"#, true),
            (r#"{"destructiveHint":false}"#, r#"{"destructiveHint":true}"#, false),
            ("{}", r#"{"idempotentHint":true}"#, true),
            ("{}", r#"{"openWorldHint":false}"#, true),
            (r#"{"openWorldHint":false}"#, r#"{"openWorldHint":false,"destructiveHint":false}"#, true),
            ("{}", r#"{"title":"harmless","otherHint":true}"#, false),
        ] {
            assert_eq!(facts(after).loosens(&facts(before)), loosens, "{before} {after}");
        }
        assert!(facts(r#"{"readOnlyHint":true}"#).loosens(&Facts::of(b"{}")), "without annotations");
        assert!(!Facts::of(br#""text""#).loosens(&Facts::of(br#""other""#)), "instructions");
    }

    #[test]
    fn a_claim_counts_in_the_reading_of_any_parser() {
        for annotations in [
            r#"{"readonlyhint":true}"#,
            r#"{"readOnlyHint":true,"readOnlyHint":false}"#,
            r#"{"readOnlyHint":false,"readOnlyHint":true}"#,
            r#"{"readOnlyHint":false},"annotations":{"readOnlyHint":true}"#,
            r#"{"readOnlyHint":true},"Annotations":{}"#,
            r#"{"readOnly\u0048int":true}"#,
            r#"{"readOnlyHint":"true"}"#,
            r#"{"destructiveHint":null}"#,
        ] {
            assert!(facts(annotations).loosens(&facts("{}")), "{annotations}");
        }
    }

    #[test]
    fn invisible_characters_are_found_in_each_spelling_and_place() {
        for (json, expected) in [
            (r#"{"name":"a","description":"plain \n\t\r\" \\ \/ é 日本 👍🏽"}"#, ""),
            ("\"⚠\u{fe0f}\"", ""),
            (r#"{"description":"a\u200bb"}"#, "\u{200b}"),
            ("{\"description\":\"a\u{200b}b\"}", "\u{200b}"),
            (r#"{"inputSchema":{"properties":{"a\u202e":{}}}}"#, "\u{202e}"),
            (r#"{"_meta":[{"x":["\ud83d\ude00\udb40\udc41"]}]}"#, "\u{e0041}"),
            (r#""\u0007\b\f\u001b""#, "\u{7}\u{8}\u{c}\u{1b}"),
            ("\"\u{7f}\u{9b}\"", "\u{7f}\u{9b}"),
            (r#""\\u200b\\b \\\\f""#, ""),
            (r#""\ud800 \udfff""#, ""),
            ("\"a\u{fe0f}\"", "\u{fe0f}"),
            ("\"⠿\u{2800}\u{e000}\u{fffc}\u{fffd}\u{f0001}\"", "\u{2800}\u{e000}\u{fffc}\u{f0001}"),
        ] {
            let found: String = Facts::of(json.as_bytes()).invisible.iter().collect();
            assert_eq!(found.escape_unicode().to_string(), expected.escape_unicode().to_string(), "{json}");
        }
    }

    #[test]
    fn a_character_that_some_other_definition_has_hides_no_more() {
        let facts = |text: &str| Facts::of(format!("\"{text}\"").as_bytes());
        let [one, other, both] = ["\u{200b}", "\u{200d}", "\u{200d}\u{200b}"].map(facts);
        assert!(!both.hides_more_than([&one, &other].into_iter()));
        assert!(both.hides_more_than([&one].into_iter()) && one.hides_more_than([].into_iter()));
        assert!(!Facts::default().hides_more_than([].into_iter()));
    }
}
