//! Escapes text of peers (servers, agents, files of other programs) before it is shown to a person.
//!
//! Only this module decides which characters a terminal may receive and which names may be listed. Characters that are
//! invisible, move the cursor or change the direction of text become escapes such as `\u{202e}`. No character is dropped, so
//! different texts stay different. Escaping is idempotent.
//!
//! Pure.

use std::borrow::Cow;
use std::fmt::Write;

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};

/// What structures a text of several lines.
const LINE_BREAKS: [char; 2] = ['\n', '\t'];

/// `false` for control characters, format characters (bidirectional controls, zero-width characters, tags), line and paragraph
/// separators, and characters that Unicode calls "default ignorable", such as blank fillers and variation selectors.
pub(crate) fn is_visible(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let category = CodePointMapData::<GeneralCategory>::new().get(c);
    let is_control = matches!(
        category,
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    );
    !is_control && !CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

/// Escapes invisible characters, line feeds and tabs.
pub(crate) fn one_line(text: &str) -> String {
    escape(text, &[])
}

/// Escapes invisible characters except line feeds and tabs.
pub(crate) fn lines(text: &str) -> String {
    escape(text, &LINE_BREAKS)
}

/// The first `length` characters on one line, with `…` if the rest is cut.
pub(crate) fn excerpt(text: &str, length: usize) -> String {
    let cut = beginning(text, length);
    let sign = if cut.len() < text.len() { "…" } else { "" };
    one_line(cut) + sign
}

/// The first `length` characters, not escaped.
pub(crate) fn beginning(text: &str, length: usize) -> &str {
    text.char_indices().nth(length).map_or(text, |(end, _)| &text[..end])
}

/// The same JSON value, with JSON escapes for invisible characters in strings.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    // Control characters below U+0020 are white space between JSON values, never part of a string.
    let is_allowed = |c: char| c < ' ' || is_visible(c);
    if text.chars().all(is_allowed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_allowed(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    Cow::Owned(shown)
}

/// The characters that [`lines`] escapes, in order.
pub(crate) fn hidden(text: &str) -> impl Iterator<Item = char> {
    judged(text, &LINE_BREAKS).filter_map(|(c, is_shown)| (!is_shown).then_some(c))
}

fn escape(text: &str, allowed: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    for (c, is_shown) in judged(text, allowed) {
        if is_shown {
            shown.push(c);
        } else {
            shown.extend(c.escape_default());
        }
    }
    shown
}

/// Each character, and whether it is shown as it is.
fn judged(text: &str, allowed: &[char]) -> impl Iterator<Item = (char, bool)> {
    text.chars().scan(' ', move |before, c| {
        let is_shown = is_visible(c) || allowed.contains(&c) || is_style_selector(*before, c);
        *before = c;
        Some((c, is_shown))
    })
}

/// Whether `c` selects the text or emoji style of the symbol `before`. Such a selector hides nothing.
fn is_style_selector(before: char, c: char) -> bool {
    matches!(c, '\u{fe0e}' | '\u{fe0f}') && !before.is_ascii() && !before.is_alphanumeric() && is_visible(before)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// At least one of each kind of invisible or controlling character.
    const HOSTILE: &str = "\0\u{7}\u{8}\r\u{1b}\u{7f}\u{80}\u{85}\u{9b}\u{9f}\u{ad}\u{34f}\u{600}\u{605}\u{61c}\u{6dd}\u{70f}\u{890}\
         \u{115f}\u{1160}\u{17b4}\u{180b}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\
         \u{202d}\u{202e}\u{2060}\u{2061}\u{2062}\u{2063}\u{2064}\u{2065}\u{2066}\u{2067}\u{2068}\u{2069}\u{206a}\u{206f}\u{3164}\
         \u{fe00}\u{fe0f}\u{feff}\u{ffa0}\u{fff0}\u{fff9}\u{fffb}\u{110bd}\u{13430}\u{1bca0}\u{1d173}\u{e0000}\u{e0001}\u{e0020}\
         \u{e0041}\u{e007f}\u{e0100}\u{e01ef}";

    #[test]
    fn invisible_and_control_characters_are_escaped() {
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
    fn visible_text_is_unchanged() {
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
    fn variation_selector_is_allowed_only_after_a_symbol() {
        for text in ["a\u{fe0f}", "1\u{fe0f}", "_\u{fe0f}", "日\u{fe0f}", "⚠\u{fe0f}\u{fe0f}", "\u{fe0f}"] {
            assert!(one_line(text).ends_with("\\u{fe0f}"), "{text:?}");
        }
    }

    #[test]
    fn json_strings_get_json_escapes() {
        assert!(matches!(json("{\"ä\":\n\"日\\n\"}"), Cow::Borrowed(_)));
        assert_eq!(json("{\"a\":\n\"\u{202e}\u{7f}\u{e0041}\"}"), "{\"a\":\n\"\\u202e\\u007f\\udb40\\udc41\"}");
    }

    #[test]
    fn excerpt_marks_cut_text() {
        for (text, length, expected) in
            [("ab", 2, "ab"), ("abc", 2, "ab…"), ("日本語", 2, "日本…"), ("a\nb", 2, "a\\n…")]
        {
            assert_eq!(excerpt(text, length), expected);
        }
    }

    proptest! {
        #[test]
        fn escaped_text_is_visible_and_escaping_is_idempotent(text in any::<String>()) {
            let (line, several) = (one_line(&text), lines(&text));
            let is_fine = |c: char| is_visible(c) || matches!(c, '\u{fe0e}' | '\u{fe0f}');
            prop_assert!(line.chars().all(is_fine));
            prop_assert!(several.chars().all(|c| is_fine(c) || c == '\n' || c == '\t'));
            prop_assert_eq!((one_line(&line), lines(&several)), (line.clone(), several.clone()));
        }

        #[test]
        fn escaped_json_keeps_its_value_and_is_visible(text in any::<String>()) {
            let before = serde_json::to_string(&text).expect("a string");
            let after = json(&before);
            prop_assert!(after.chars().all(is_visible));
            prop_assert_eq!(serde_json::from_str::<String>(&after).expect("JSON"), text);
        }
    }
}
