//! Text of peers (servers, agents, other programs' files) made safe to show to a person.
//!
//! This is the one place that decides which characters a terminal may receive and which names may be listed. Characters that are
//! invisible, or that move the cursor or change the direction of text, are shown as escapes such as `\u{202e}`. They are never
//! dropped, so two texts that differ also look different.
//!
//! Escaping twice changes nothing. Pure.

use std::borrow::Cow;
use std::fmt::Write;

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Whether a person sees `c` where it stands.
///
/// Not visible: control characters, format characters (bidirectional controls, zero-width characters, tags), line and paragraph
/// separators, and whatever else Unicode calls "default ignorable", such as blank fillers and variation selectors.
pub(crate) fn is_visible(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let category = CodePointMapData::<GeneralCategory>::new().get(c);
    let is_steering = matches!(
        category,
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    );
    !is_steering && !CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

/// `text` on one line: line ends and tabs are escaped, too.
pub(crate) fn one_line(text: &str) -> String {
    escaped(text, &[])
}

/// `text` with its line ends and tabs, and everything else escaped that is not visible.
pub(crate) fn lines(text: &str) -> String {
    escaped(text, &['\n', '\t'])
}

/// The first `length` characters of `text` on one line, with `…` behind them if that is not all.
pub(crate) fn excerpt(text: &str, length: usize) -> String {
    let cut = beginning(text, length);
    let sign = if cut.len() < text.len() { "…" } else { "" };
    one_line(cut) + sign
}

/// The first `length` characters of `text`, as they are.
pub(crate) fn beginning(text: &str, length: usize) -> &str {
    text.char_indices().nth(length).map_or(text, |(end, _)| &text[..end])
}

/// The same JSON value as `text`, with JSON escapes for characters in its strings that are not visible.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    // Control characters below U+0020 stand between the values of a JSON text, never in its strings.
    let is_kept = |c: char| c < ' ' || is_visible(c);
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_kept(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    Cow::Owned(shown)
}

fn escaped(text: &str, kept: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        if is_visible(c) || kept.contains(&c) || styles_symbol(before, c) {
            shown.push(c);
        } else {
            shown.extend(c.escape_default());
        }
        before = c;
    }
    shown
}

/// Whether `c` says whether the symbol `before` is drawn as text or as an emoji, as in many descriptions: it hides nothing.
fn styles_symbol(before: char, c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}') && !before.is_ascii() && !before.is_alphanumeric() && is_visible(before)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of each kind of character that hides or steers at least one.
    const HOSTILE: &str = "\0\u{7}\u{8}\r\u{1b}\u{7f}\u{80}\u{85}\u{9b}\u{9f}\u{ad}\u{34f}\u{600}\u{605}\u{61c}\u{6dd}\u{70f}\u{890}\
         \u{115f}\u{1160}\u{17b4}\u{180b}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\
         \u{202d}\u{202e}\u{2060}\u{2061}\u{2062}\u{2063}\u{2064}\u{2065}\u{2066}\u{2067}\u{2068}\u{2069}\u{206a}\u{206f}\u{3164}\
         \u{fe00}\u{fe0f}\u{feff}\u{ffa0}\u{fff0}\u{fff9}\u{fffb}\u{110bd}\u{13430}\u{1bca0}\u{1d173}\u{e0000}\u{e0001}\u{e0020}\
         \u{e0041}\u{e007f}\u{e0100}\u{e01ef}";

    #[test]
    fn characters_that_hide_or_steer_are_escaped_everywhere() {
        for c in HOSTILE.chars() {
            let (text, escape) = (format!("a{c}b"), c.escape_default().to_string());
            assert!(!is_visible(c), "{escape}");
            assert_eq!(one_line(&text), format!("a{escape}b"));
            assert_eq!(lines(&text), format!("a{escape}b"));
        }
        assert_eq!(one_line("a\n\tb"), "a\\n\\tb");
        assert_eq!(lines("a\n\tb"), "a\n\tb");
    }

    #[test]
    fn text_that_people_read_stays_as_it_is() {
        for text in [
            "",
            "plain ~",
            "Öffnen – „Datei“…",
            "読む 日本語",
            "שלום مرحبا",
            "e\u{301}",
            "⚠\u{fe0f} 🗑\u{fe0f} 👍🏽",
            "\u{e000}",
            "\\u{202e}",
        ] {
            assert_eq!((one_line(text), lines(text)), (text.to_owned(), text.to_owned()));
        }
    }

    #[test]
    fn a_variation_selector_is_kept_behind_a_symbol_only() {
        for text in ["a\u{fe0f}", "1\u{fe0f}", "_\u{fe0f}", "日\u{fe0f}", "⚠\u{fe0f}\u{fe0f}", "\u{fe0f}"] {
            assert!(one_line(text).ends_with("\\u{fe0f}"), "{text:?}");
        }
    }

    #[test]
    fn json_has_escapes_of_its_own_for_them() {
        assert!(matches!(json("{\"ä\":\n\"日\\n\"}"), Cow::Borrowed(_)));
        assert_eq!(json("{\"a\":\n\"\u{202e}\u{7f}\u{e0041}\"}"), "{\"a\":\n\"\\u202e\\u007f\\udb40\\udc41\"}");
    }

    #[test]
    fn a_text_that_is_cut_says_so() {
        for (text, length, expected) in
            [("ab", 2, "ab"), ("abc", 2, "ab…"), ("日本語", 2, "日本…"), ("a\nb", 2, "a\\n…")]
        {
            assert_eq!(excerpt(text, length), expected);
        }
    }

    proptest! {
        #[test]
        fn nothing_invisible_is_left_and_escaping_twice_changes_nothing(text in any::<String>()) {
            let (line, several) = (one_line(&text), lines(&text));
            let is_fine = |c: char| is_visible(c) || matches!(c, '\u{fe0e}' | '\u{fe0f}');
            prop_assert!(line.chars().all(is_fine));
            prop_assert!(several.chars().all(|c| is_fine(c) || c == '\n' || c == '\t'));
            prop_assert_eq!((one_line(&line), lines(&several)), (line.clone(), several.clone()));
        }

        #[test]
        fn json_keeps_its_value_and_hides_nothing(text in any::<String>()) {
            let before = serde_json::to_string(&text).expect("a string");
            let after = json(&before);
            prop_assert!(after.chars().all(is_visible));
            prop_assert_eq!(serde_json::from_str::<String>(&after).expect("JSON"), text);
        }
    }
}
