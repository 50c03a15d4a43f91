//! Text laid out for a terminal: made safe by [`crate::printable`], and fitted to a width.

use std::collections::BTreeSet;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub(super) use crate::printable::{lines, one_line};

/// The state of a server, with what a person says of it.
pub(super) fn with_override(state: &str, vouched: Option<&str>) -> String {
    vouched.map_or_else(|| state.to_owned(), |word| format!("{state}, marked {}", one_line(word)))
}

/// `text` in at most `width` places, with `…` for what is left out of its middle: names differ at both ends.
pub(super) fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(1) else { return String::new() };
    let head = taken(text.chars(), room / 2);
    let tail = taken(text.chars().rev(), room - head.width());
    head.chars().chain(['…']).chain(tail.chars().rev()).collect()
}

/// The beginning of `text` in at most `width` places, with `…` behind it if that is not all.
pub(super) fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width { text.to_owned() } else { taken(text.chars(), width.saturating_sub(1)) + "…" }
}

/// The first of `text` that have room in `width` places.
fn taken(text: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or_default();
        used <= width
    };
    text.take_while(fits).collect()
}

/// `text` in lines of at most `width` places, the first behind something of `first` places and the others behind `indent` blanks;
/// as it is without a `width`. A word that is longer than a line is cut.
pub(super) fn wrap(text: &str, first: usize, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width.map(|width| width.max(indent + 1)) else { return text.to_owned() };
    let line_end = format!("\n{}", " ".repeat(indent));
    let (mut lines, mut start, mut used) = (String::new(), first, first);
    for mut word in text.split(' ') {
        if used > start && used + 1 + word.width() <= width {
            lines.push(' ');
            used += 1;
        } else if used > start {
            lines.push_str(&line_end);
            (start, used) = (indent, indent);
        }
        while used + word.width() > width {
            let part = taken(word.chars(), width.saturating_sub(used)).len();
            // A character that has no room in an empty line stands there all the same.
            let least = if start == indent { word.chars().next().map_or(0, char::len_utf8) } else { 0 };
            let (head, rest) = word.split_at(part.max(least));
            lines.push_str(head);
            (word, used) = (rest, used + head.width());
            if word.is_empty() {
                break;
            }
            lines.push_str(&line_end);
            (start, used) = (indent, indent);
        }
        lines.push_str(word);
        used += word.width();
    }
    lines
}

/// A time as a person says it: of days, hours, minutes and seconds the two largest, or milliseconds below a second.
pub(super) fn short_duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let Some(first) = parts.iter().position(|(count, _)| *count > 0) else { return format!("{ms}ms") };
    let shown = parts[first..].iter().take(2).filter(|(count, _)| *count > 0);
    shown.map(|(count, unit)| format!("{count}{unit}")).collect::<Vec<_>>().join(" ")
}

/// The first `most` of `names`, and how many more there are.
pub(super) fn join_limited(names: &[impl AsRef<str>], most: usize) -> String {
    let shown: Vec<_> = names.iter().take(most).map(AsRef::as_ref).collect();
    match names.len().checked_sub(most) {
        Some(more @ 1..) => format!("{} and {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}

/// Why a command is not found, and apart from that the PATH that was searched, which is often the same for many.
pub(super) fn split_searched_path(reason: &str) -> (&str, Option<&str>) {
    match reason.split_once("; PATH searched: ") {
        Some((reason, path)) => (reason, Some(path)),
        None => (reason, None),
    }
}

/// Lines with the PATHs that were searched by `reasons`: each once, however many there are.
pub(super) fn searched_paths<'r>(reasons: impl Iterator<Item = &'r str>) -> Vec<String> {
    let paths: BTreeSet<_> = reasons.filter_map(|reason| split_searched_path(reason).1).collect();
    paths.into_iter().map(|path| one_line(&format!("PATH searched for commands: {path}"))).collect()
}

/// So many of a thing.
pub(super) fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_loses_its_middle() {
        for (text, width, expected) in [
            ("files", 5, "files"),
            ("filesystem", 7, "fil…tem"),
            ("filesystem", 6, "fi…tem"),
            ("filesystem", 1, "…"),
            ("filesystem", 0, ""),
            ("日本語の本", 7, "日…の本"),
            ("日本語の本", 6, "日…本"),
        ] {
            assert_eq!(shorten(text, width), expected, "{text} in {width}");
        }
    }

    #[test]
    fn long_sentences_go_on_behind_an_indent() {
        let text = "exited with code 3 after 12 s";
        assert_eq!(wrap(text, 0, 4, None), text);
        assert_eq!(wrap(text, 0, 4, Some(80)), text);
        assert_eq!(wrap(text, 0, 2, Some(12)), "exited with\n  code 3\n  after 12 s");
        assert_eq!(wrap(text, 6, 2, Some(12)), "exited\n  with code\n  3 after 12\n  s");
        assert_eq!(wrap("a 123456789 b", 0, 2, Some(6)), "a\n  1234\n  5678\n  9 b");
        assert_eq!(wrap("123456789", 4, 2, Some(6)), "12\n  3456\n  789");
        assert_eq!(wrap("日本", 4, 4, Some(1)), "日\n    本");
    }

    #[test]
    fn times_have_two_units() {
        for (ms, expected) in [
            (0, "0ms"),
            (999, "999ms"),
            (12_345, "12s"),
            (61_000, "1m 1s"),
            (3_600_000, "1h"),
            (7_384_000, "2h 3m"),
            (90_000_000, "1d 1h"),
            (86_405_000, "1d"),
        ] {
            assert_eq!(short_duration(ms), expected);
        }
    }
}
