//! Combines the `instructions` of servers into one text (MCP 2025-11-25, `basic/lifecycle`). Pure.
//!
//! Some clients cut instructions, Claude Code at 2 KiB. A text that is longer begins with the first sentence of each server, all within
//! [`MAX_OVERVIEW_LEN`], and continues with the rest of each server under its name.

use std::fmt::Write;

/// Maximum bytes of one server's instructions: a quarter of [`MAX_LEN`], so that no server can take the space of all others. It is about
/// 2,000 tokens.
const MAX_SERVER_LEN: usize = 8 << 10;
/// Maximum bytes of all sections, without the overview and mcpd's notes.
const MAX_LEN: usize = 32 << 10;
/// Maximum bytes of the overview.
const MAX_OVERVIEW_LEN: usize = 2 << 10;
/// With less space left, a text is omitted instead of cut.
const MIN_CUT_LEN: usize = 256;
/// Marks a sentence that was cut.
const ELLIPSIS: &str = "…";

/// The instructions of `each` server (name, text) in order. `None` if there are none.
pub(crate) fn combine<'a>(each: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let each = each.map(|(server, text)| (server, text.trim()));
    let texts: Vec<(&str, &str)> = each.filter(|(_, text)| !text.is_empty()).collect();
    let is_short = sections_len(&texts) <= MAX_OVERVIEW_LEN;
    Some(match &texts[..] {
        [] => return None,
        [_] => sections(&texts),
        _ if is_short => sections(&texts),
        _ => {
            let (overview, rest) = overview(&texts);
            if rest.is_empty() { overview } else { format!("{overview}\n{}", sections(&rest)) }
        }
    })
}

/// One line for each server with its first sentence, and what the lines leave out. Long sentences are cut to the same length.
/// Servers whose names do not fit get no line.
fn overview<'a>(texts: &[(&'a str, &'a str)]) -> (String, Vec<(&'a str, &'a str)>) {
    let sentences: Vec<_> = texts.iter().map(|(_, text)| first_sentence(text)).collect();
    let names: usize = texts.iter().map(|(server, _)| line(server, "").len()).sum();
    let lens: Vec<usize> = sentences.iter().map(|(sentence, _)| sentence.len()).collect();
    let max = fair_limit(&lens, MAX_OVERVIEW_LEN.saturating_sub(names));
    let (mut overview, mut rest) = (String::new(), Vec::new());
    for ((server, text), (sentence, end)) in texts.iter().zip(&sentences) {
        let is_whole = sentence.len() <= max;
        let start = &sentence[..floor_char_boundary(sentence, max.saturating_sub(ELLIPSIS.len()))];
        let shown = if is_whole { line(server, sentence) } else { line(server, &format!("{start}{ELLIPSIS}")) };
        let is_listed = overview.len() + shown.len() <= MAX_OVERVIEW_LEN;
        if is_listed {
            overview += &shown;
        }
        let left = end.filter(|_| is_listed && is_whole).map_or(*text, |end| text[end..].trim_start());
        if !left.is_empty() {
            rest.push((*server, left));
        }
    }
    (overview, rest)
}

fn line(server: &str, sentence: &str) -> String {
    format!("- {server}: {sentence}\n")
}

/// The largest limit such that `lens`, each cut to it, are at most `budget` together.
fn fair_limit(lens: &[usize], budget: usize) -> usize {
    let mut sorted = lens.to_vec();
    sorted.sort_unstable();
    let (mut left, mut others) = (budget, sorted.len());
    for len in sorted {
        let share = left / others;
        if len > share {
            return share;
        }
        (left, others) = (left - len, others - 1);
    }
    usize::MAX
}

/// The first sentence after any headings, on one line, and where it ends in `text`. `None` if a heading stands before it, which the
/// rest must not lose.
fn first_sentence(text: &str) -> (String, Option<usize>) {
    let mut start = 0;
    while text[start..].starts_with('#')
        && let Some((_, body)) = text[start..].split_once('\n')
        && !body.trim().is_empty()
    {
        start = text.len() - body.trim_start().len();
    }
    let end = start + sentence_len(&text[start..]);
    let sentence = text[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
    (sentence, (start == 0).then_some(end))
}

/// The length of the first sentence of a text: to a full stop that no lowercase word follows, or to the end of the paragraph.
fn sentence_len(text: &str) -> usize {
    for (at, char) in text.char_indices() {
        let end = at + char.len_utf8();
        let after = &text[end..];
        let is_end = match char {
            '.' | '!' | '?' => {
                let next = after.trim_start();
                next.is_empty() || (next.len() < after.len() && !next.starts_with(char::is_lowercase))
            }
            '。' | '！' | '？' => true,
            '\n' => {
                let next = after.trim_start_matches([' ', '\t', '\r']);
                next.starts_with(['\n', '#', '-', '*'])
            }
            _ => false,
        };
        if is_end {
            return end;
        }
    }
    text.len()
}

fn heading(server: &str) -> String {
    format!("# {server}\n\n")
}

fn sections_len(texts: &[(&str, &str)]) -> usize {
    texts.iter().map(|(server, text)| heading(server).len() + text.len() + 2).sum()
}

/// Each text under a heading with its server's name.
fn sections(texts: &[(&str, &str)]) -> String {
    let (mut all, mut omitted) = (String::new(), 0);
    for (server, text) in texts {
        let text = &cut(text, MAX_SERVER_LEN);
        let heading = format!("{}{}", if all.is_empty() { "" } else { "\n\n" }, heading(server));
        let room = MAX_LEN.saturating_sub(all.len() + heading.len());
        if text.len() > room && room < MIN_CUT_LEN {
            omitted += 1;
        } else {
            all += &(heading + &cut(text, room));
        }
    }
    if omitted > 0 {
        let servers = if omitted == 1 { "server" } else { "servers" };
        let _ = write!(all, "\n\n[mcpd omitted the instructions of {omitted} {servers}: the limit is {MAX_LEN} bytes]");
    }
    all
}

/// At most `max` bytes of `text`, cut between characters, with a note if it was cut.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = floor_char_boundary(text, max);
    format!("{}\n[cut by mcpd after {end} of {} bytes]", &text[..end], text.len())
}

/// The last place between two characters that is at most `at`.
fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn combined(each: &[(&str, &str)]) -> Option<String> {
        combine(each.iter().copied())
    }

    #[test]
    fn short_instructions_stand_under_the_names_of_their_servers_in_order() {
        assert_eq!(combined(&[("b", "one"), ("a", "two")]).as_deref(), Some("# b\n\none\n\n# a\n\ntwo"));
        assert_eq!(combined(&[]), None);
        assert_eq!(combined(&[("a", " \n"), ("b", " x\n")]).as_deref(), Some("# b\n\nx"));
    }

    #[test]
    fn first_sentence_ends_at_a_full_stop_or_with_its_paragraph() {
        for (text, sentence, rest) in [
            ("One. Two.", "One.", " Two."),
            ("One", "One", ""),
            ("Use e.g. this file. Then that.", "Use e.g. this file.", " Then that."),
            ("Version 1.2 is\nused! Now.", "Version 1.2 is used!", " Now."),
            ("Read notes\n\nThen write.", "Read notes", "\nThen write."),
            ("Tools:\n- one\n- two", "Tools:", "- one\n- two"),
            ("読む。書く。", "読む。", "書く。"),
            ("x.", "x.", ""),
        ] {
            let (found, end) = first_sentence(text);
            assert_eq!((&*found, &text[end.expect("no heading")..]), (sentence, rest), "{text:?}");
        }
        assert_eq!(first_sentence("# Notes\n\n## Use\nOne. Two."), ("One.".to_owned(), None));
        assert_eq!(first_sentence("# Notes"), ("# Notes".to_owned(), Some(7)));
    }

    #[test]
    fn long_instructions_begin_with_the_first_sentence_of_each_server() {
        let long = "X ".repeat(2000);
        let [a, b, c] = [format!("Reads notes. {long}"), "Writes.".to_owned(), format!("# C\n\nFinds. {long}")];
        let all = combined(&[("a", &a), ("b", &b), ("c", &c)]).expect("a text");
        let long = long.trim_end();
        let expected =
            format!("- a: Reads notes.\n- b: Writes.\n- c: Finds.\n\n# a\n\n{long}\n\n# c\n\n# C\n\nFinds. {long}");
        assert_eq!(all, expected);
        let one = combined(&[("a", &a)]).expect("a text");
        assert!(one.starts_with("# a\n\nReads notes. X X"), "{one:.40}");
    }

    #[test]
    fn long_sentences_share_the_overview_and_come_whole_later() {
        let long = "é".repeat(3000);
        let all = combined(&[("a", &long), ("b", "Short."), ("c", &long)]).expect("a text");
        let (overview, rest) = all.split_once("\n\n").expect("two parts");
        let lines: Vec<_> = overview.lines().collect();
        assert_eq!((lines.len(), lines[1]), (3, "- b: Short."));
        assert!(lines[0].starts_with("- a: éé") && lines[0].ends_with("é…"), "{overview}");
        assert!(lines[0].len() > 1000 && lines[0].len() == lines[2].len() && overview.len() < MAX_OVERVIEW_LEN);
        assert_eq!(rest, format!("# a\n\n{long}\n\n# c\n\n{long}"));
    }

    #[test]
    fn long_text_of_one_server_is_cut_between_characters_with_a_note() {
        let text = cut(&format!("x{}", "é".repeat(MAX_SERVER_LEN)), MAX_SERVER_LEN);
        let (cut, note) = text.split_once('\n').expect("two lines");
        assert_eq!((cut.len(), cut.chars().skip(1).all(|c| c == 'é')), (MAX_SERVER_LEN - 1, true));
        assert_eq!(note, format!("[cut by mcpd after {} of {} bytes]", MAX_SERVER_LEN - 1, 2 * MAX_SERVER_LEN + 1));
    }

    #[test]
    fn all_together_are_bounded_whatever_their_number() {
        let long = "x".repeat(MAX_SERVER_LEN);
        let each: Vec<_> = (0..1000).map(|n| format!("s{n}")).collect();
        let all = combine(each.iter().map(|name| (&**name, &*long))).expect("a text");
        assert!(all.len() < MAX_LEN + MAX_OVERVIEW_LEN + 300, "{}", all.len());
        assert!(
            all.contains("# s3\n") && all.ends_with("instructions of 996 servers: the limit is 32768 bytes]"),
            "{}",
            &all[MAX_LEN - 100..]
        );
    }

    proptest! {
        /// A client that keeps the first 2 KiB has a line of every server, and the first sentence of each if there are few servers.
        #[test]
        fn start_has_every_server(texts in prop::collection::vec("[a-zé。.#\n -]{1,1500}", 1..20)) {
            let names: Vec<_> = (0..texts.len()).map(|number| format!("server-{number}")).collect();
            let each: Vec<_> = names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
            let known: Vec<_> = each.iter().filter(|(_, text)| !text.trim().is_empty()).collect();
            let all = combined(&each);
            prop_assert_eq!(all.is_none(), known.is_empty());
            let all = all.unwrap_or_default();
            let start = &all[..floor_char_boundary(&all, MAX_OVERVIEW_LEN)];
            for (server, text) in &known {
                let (sentence, _) = first_sentence(text.trim());
                let [line, heading] = [format!("- {server}: "), format!("# {server}\n")];
                prop_assert!(start.contains(&line) || start.contains(&heading), "{}", start);
                let is_listed = start.contains(&format!("- {server}: {sentence}\n"));
                prop_assert!(is_listed || all.contains(text.trim()) || all.contains(" by mcpd after ") || all.contains("[mcpd omitted"), "{server}: {all}");
            }
            prop_assert!(all.len() <= MAX_LEN + MAX_OVERVIEW_LEN + 200 + 60 * known.len());
        }

        #[test]
        fn fair_limit_is_the_largest_that_fits(lens in prop::collection::vec(0_usize..500, 1..20), budget in 0_usize..3000) {
            let limit = fair_limit(&lens, budget);
            let sum = |limit: usize| lens.iter().map(|len| (*len).min(limit)).sum::<usize>();
            prop_assert!(sum(limit) <= budget);
            prop_assert!(limit == usize::MAX || sum(limit + 1) > budget);
        }
    }
}
