//! Texts that commands share: layout for terminals, durations, local times, and the defects of items. [`crate::printable`] escapes
//! invisible characters.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::manager::report::{ChangesReport, Defect, MalformedItem};
pub(super) use crate::printable::{lines, one_line};

/// `text` in at most `width` columns. `…` replaces the middle, because names differ at both ends.
pub(super) fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(1) else { return String::new() };
    let head = take_width(text.chars(), room / 2);
    let tail = take_width(text.chars().rev(), room - head.width());
    head.chars().chain(['…']).chain(tail.chars().rev()).collect()
}

/// The beginning of `text` in at most `width` columns, with `…` if the rest is cut.
pub(super) fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width { text.to_owned() } else { take_width(text.chars(), width.saturating_sub(1)) + "…" }
}

/// The first characters of `text` that fit into `width` columns.
fn take_width(text: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or_default();
        used <= width
    };
    text.take_while(fits).collect()
}

/// Wraps `text` at `width` columns; without a width it stays one line. Words longer than a line are split.
///
/// The first line begins at column `first`; the others are indented by `indent` spaces.
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
            let part = take_width(word.chars(), width.saturating_sub(used)).len();
            // A line has at least one character, even if it is too wide.
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

/// The two largest units of a duration, such as `2h 3m`; milliseconds below a second.
pub(super) fn short_duration(ms: u64) -> String {
    let seconds = ms / 1000;
    let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let Some(first) = parts.iter().position(|(count, _)| *count > 0) else { return format!("{ms}ms") };
    let shown = parts[first..].iter().take(2).filter(|(count, _)| *count > 0);
    shown.map(|(count, unit)| format!("{count}{unit}")).collect::<Vec<_>>().join(" ")
}

/// The first `max` names, and the number of the others.
pub(super) fn join_limited(names: &[impl AsRef<str>], max: usize) -> String {
    let shown: Vec<_> = names.iter().take(max).map(AsRef::as_ref).collect();
    match names.len().checked_sub(max) {
        Some(more @ 1..) => format!("{} and {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}

/// Begins the searched PATH at the end of a reason.
pub(super) const SEARCHED: &str = "; PATH searched: ";

/// Splits the reason why a command was not found from the searched PATH, which many servers share.
pub(super) fn split_searched_path(reason: &str) -> (&str, Option<&str>) {
    match reason.split_once(SEARCHED) {
        Some((reason, path)) => (reason, Some(path)),
        None => (reason, None),
    }
}

/// A line for each distinct PATH in `reasons`. `owner`: the process with this PATH.
pub(super) fn searched_paths<'r>(reasons: impl Iterator<Item = &'r str>, owner: &str) -> Vec<String> {
    let paths: BTreeSet<_> = reasons.filter_map(|reason| split_searched_path(reason).1).collect();
    paths.into_iter().map(|path| one_line(&format!("PATH of {owner}, searched for commands: {path}"))).collect()
}

/// A number with its noun.
pub(super) fn count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[derive(Debug, Clone, Copy)]
pub(super) enum TimeFormat {
    /// `2026-01-01`.
    Date,
    /// `11:20:30`.
    Clock,
    /// `11:20:30.456`.
    PreciseClock,
    /// `Jan 01 11:20:30`, for a narrow terminal.
    Short,
    /// `2026-01-01 11:20:30.456`, for a wide terminal.
    Full,
    /// `2026-01-01T11:20:30.456+01:00`, for text that is saved or sent elsewhere.
    Zoned,
    /// `2026-01-01 11:20:30 +01:00`, for sentences.
    Sentence,
}

/// Converts an RFC 3339 time to the local zone. Other text is returned unchanged.
pub(super) fn local_time(time: &str, format: TimeFormat) -> String {
    local_time_in(time, format, TimeZone::system())
}

fn local_time_in(time: &str, format: TimeFormat, zone: TimeZone) -> String {
    let Ok(timestamp) = time.parse::<Timestamp>() else { return time.to_owned() };
    let pattern = match format {
        TimeFormat::Date => "%Y-%m-%d",
        TimeFormat::Clock => "%H:%M:%S",
        TimeFormat::PreciseClock => "%H:%M:%S%.3f",
        TimeFormat::Short => "%b %d %H:%M:%S",
        TimeFormat::Full => "%Y-%m-%d %H:%M:%S%.3f",
        TimeFormat::Zoned => "%Y-%m-%dT%H:%M:%S%.3f%:z",
        TimeFormat::Sentence => "%Y-%m-%d %H:%M:%S %:z",
    };
    timestamp.to_zoned(zone).strftime(pattern).to_string()
}

/// An RFC 3339 time as hours and minutes, with the date unless it is today. Other text is returned unchanged.
pub(super) fn since(time: &str) -> String {
    since_in(time, Timestamp::now(), &TimeZone::system())
}

fn since_in(time: &str, now: Timestamp, zone: &TimeZone) -> String {
    let Ok(timestamp) = time.parse::<Timestamp>() else { return time.to_owned() };
    let [time, now] = [timestamp, now].map(|time| time.to_zoned(zone.clone()));
    let pattern = if time.date() == now.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    time.strftime(pattern).to_string()
}

/// What follows from a pin file that cannot be used or written.
pub(super) fn pin_file_problem(rule: &str, problem: &str, code: Option<&str>) -> String {
    let effect = match (code, rule) {
        (Some("unwritable"), _) => "approved definitions cannot be recorded",
        (_, "hold") => "no definition is approved",
        _ => "changed definitions are not noticed",
    };
    format!("{effect}: {}", one_line(problem))
}

/// How many definitions of a server are not approved, and since when; `None` if all are.
pub(super) fn unapproved(ChangesReport { changed, new, withheld, since: first, .. }: &ChangesReport) -> Option<String> {
    let changed = match *changed {
        0 => None,
        changed => Some(format!("{} changed", count(changed, "definition"))),
    };
    let new = match (*new, &changed) {
        (0, _) => None,
        (new, Some(_)) => Some(format!("{new} new")),
        (new, None) => Some(format!("{} not approved yet", count(new, "definition"))),
    };
    let counts: Vec<_> = changed.into_iter().chain(new).collect();
    let first = first.as_ref().map(|first| format!(" since {}", since(first))).unwrap_or_default();
    let withheld = if *withheld > 0 { format!(", {withheld} withheld") } else { String::new() };
    (!counts.is_empty()).then(|| format!("{}{first}{withheld}", counts.join(" and ")))
}

/// What is wrong with an item: its first defect, and the number of others.
pub(super) fn malformed_item(MalformedItem { kind, item, defects }: &MalformedItem) -> String {
    let name = item.as_ref().map_or_else(|| format!("a {kind}"), |item| format!("{kind} `{}`", one_line(item)));
    format!("{name}: {}", defects_text(defects))
}

/// The first defect, and the number of others.
pub(super) fn defects_text(defects: &[Defect]) -> String {
    let Some(first) = defects.first() else { return String::new() };
    let others = match defects.len() - 1 {
        0 => String::new(),
        others => format!(", and {}", count(others, "other defect")),
    };
    defect(first) + &others
}

fn defect(Defect { member, problem, detail, action, legacy_only }: &Defect) -> String {
    let subject = if member.is_empty() { "the definition".to_owned() } else { format!("`{}`", one_line(member)) };
    let detail = one_line(detail.as_deref().unwrap_or_default());
    let problem = match &**problem {
        "null" => "is null".to_owned(),
        "missing" => "is missing".to_owned(),
        "type" => format!("is not {detail}"),
        "duplicate" => "occurs twice".to_owned(),
        "too_new" => "is not permitted before MCP 2026-07-28".to_owned(),
        "schema" => format!("has a `{detail}` that clients cannot compile"),
        "too_long" => "is too long".to_owned(),
        other => one_line(other),
    };
    let action = match &**action {
        "dropped" => "dropped",
        "replaced" => "replaced",
        _ => "left out",
    };
    let era = if *legacy_only { " for agents up to MCP 2025-11-25" } else { "" };
    format!("{subject} {problem} ({action}{era})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_loses_its_middle() {
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
    fn wrapped_lines_are_indented() {
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
    fn durations_have_two_units() {
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

    #[test]
    fn unapproved_definitions_are_counted() {
        let text = |changed, new, withheld| {
            let (rule, since) = ("warn".to_owned(), Some("some time".to_owned()));
            let (file_problem, file_problem_code) = (None, None);
            unapproved(&ChangesReport { rule, changed, new, withheld, since, file_problem, file_problem_code })
        };
        assert_eq!(text(0, 0, 0), None);
        for (counts, expected) in [
            ((1, 0, 0), "1 definition changed since some time"),
            ((2, 1, 1), "2 definitions changed and 1 new since some time, 1 withheld"),
            ((0, 3, 3), "3 definitions not approved yet since some time, 3 withheld"),
        ] {
            assert_eq!(text(counts.0, counts.1, counts.2).as_deref(), Some(expected));
        }
    }

    #[test]
    fn date_is_left_out_today() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let now = "2026-01-01T10:20:30Z".parse().expect("a time");
        for (time, expected) in [
            ("2026-01-01T09:05:30.456Z", "10:05"),
            ("2025-12-31T23:30:00.000Z", "00:30"),
            ("2025-12-31T22:30:00.000Z", "2025-12-31 23:30"),
            ("some time", "some time"),
        ] {
            assert_eq!(since_in(time, now, &zone), expected);
        }
    }

    #[test]
    fn time_is_in_the_zone_of_its_day() {
        let berlin = || TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        for (time, format, expected) in [
            ("2025-12-31T23:30:00.000Z", TimeFormat::Date, "2026-01-01"),
            ("2026-01-01T10:20:30.456Z", TimeFormat::Clock, "11:20:30"),
            ("2025-12-31T23:30:00.000Z", TimeFormat::Short, "Jan 01 00:30:00"),
            ("2026-01-01T10:20:30.456Z", TimeFormat::Full, "2026-01-01 11:20:30.456"),
            ("2026-07-01T10:20:30.456Z", TimeFormat::Zoned, "2026-07-01T12:20:30.456+02:00"),
            ("2025-12-31T23:30:00.000Z", TimeFormat::Sentence, "2026-01-01 00:30:00 +01:00"),
            ("some time", TimeFormat::Zoned, "some time"),
        ] {
            assert_eq!(local_time_in(time, format, berlin()), expected);
        }
    }
}
