//! The difference of two texts, word by word. Pure, but for the time limit.

use std::time::Instant;

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// A part of the difference of two texts. The old parts make up the old text, the new ones the new text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    Same(&'t str),
    Changed { old: &'t str, new: &'t str },
}

/// Texts whose common part is a smaller share of the shorter one, in percent, are shown one after the other.
const LEAST_COMMON: usize = 40;

/// The difference from `old` to `new`. After the `deadline` it is still right, but may be larger than needed.
pub(super) fn difference<'t>(old: &'t str, new: &'t str, deadline: Instant) -> Vec<Piece<'t>> {
    let (olds, news) = (words(old), words(new));
    let operations = capture_diff_slices_deadline(Algorithm::Myers, &olds, &news, Some(deadline));
    let mut pieces = Vec::new();
    let (mut old_rest, mut new_rest) = (old, new);
    for operation in &operations {
        let old_part = take(&mut old_rest, &olds[operation.old_range()]);
        let new_part = take(&mut new_rest, &news[operation.new_range()]);
        pieces.push(match operation {
            DiffOp::Equal { .. } => Piece::Same(new_part),
            _ => Piece::Changed { old: old_part, new: new_part },
        });
    }
    let pieces = joined(old, new, &pieces);
    let common: usize = pieces.iter().map(|piece| if let Piece::Same(text) = piece { text.len() } else { 0 }).sum();
    if common * 100 < old.len().min(new.len()) * LEAST_COMMON {
        return vec![Piece::Changed { old, new }];
    }
    pieces
}

/// Splits the text of these words off.
fn take<'t>(rest: &mut &'t str, words: &[&str]) -> &'t str {
    let (taken, left) = rest.split_at(words.iter().map(|word| word.len()).sum());
    *rest = left;
    taken
}

/// Joins neighbouring changes, and changes with nothing but blanks between them.
fn joined<'t>(old: &'t str, new: &'t str, pieces: &[Piece<'t>]) -> Vec<Piece<'t>> {
    let mut all: Vec<Piece<'t>> = Vec::new();
    let (mut old_end, mut new_end) = (0, 0);
    for (index, piece) in pieces.iter().enumerate() {
        let (old_part, new_part) = match piece {
            Piece::Same(text) => (*text, *text),
            Piece::Changed { old, new } => (*old, *new),
        };
        old_end += old_part.len();
        new_end += new_part.len();
        let is_blank = |text: &str| text.chars().all(|c| c == ' ');
        let joins = match piece {
            Piece::Changed { .. } => true,
            Piece::Same(text) => is_blank(text) && matches!(pieces.get(index + 1), Some(Piece::Changed { .. })),
        };
        match all.last_mut() {
            Some(Piece::Changed { old: before_old, new: before_new }) if joins => {
                *before_old = &old[old_end - old_part.len() - before_old.len()..old_end];
                *before_new = &new[new_end - new_part.len() - before_new.len()..new_end];
            }
            _ => all.push(*piece),
        }
    }
    all
}

/// The words, runs of blanks, and other single characters of a text.
fn words(text: &str) -> Vec<&str> {
    let class = |c: char| match c {
        _ if c.is_alphanumeric() || c == '_' => 1,
        ' ' => 2,
        _ => 0,
    };
    let (mut words, mut start) = (Vec::new(), 0);
    let mut before = None;
    for (at, c) in text.char_indices() {
        if before.is_some_and(|before| before == 0 || before != class(c)) {
            words.push(&text[start..at]);
            start = at;
        }
        before = Some(class(c));
    }
    if start < text.len() {
        words.push(&text[start..]);
    }
    words
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn shown(old: &str, new: &str) -> String {
        let shown = |piece: &Piece<'_>| match piece {
            Piece::Same(text) => (*text).to_owned(),
            Piece::Changed { old, new } => format!("<{old}|{new}>"),
        };
        difference(old, new, soon()).iter().map(shown).collect()
    }

    #[test]
    fn only_changed_words_differ() {
        for (old, new, expected) in [
            ("", "", ""),
            ("", "a b", "<|a b>"),
            ("a b", "", "<a b|>"),
            ("reads a file", "reads a file", "reads a file"),
            ("reads a file", "reads any file", "reads <a|any> file"),
            ("reads a file", "reads a file. Sends it", "reads a file<|. Sends it>"),
            ("it reads one big file", "it reads two small file", "it reads <one big|two small> file"),
            ("read", "read\u{200b}", "read<|\u{200b}>"),
            ("read_file", "read_files", "<read_file|read_files>"),
            ("a, b, c, d", "a, c, d", "a, <b, |>c, d"),
            ("all is new here", "nothing was kept of it", "<all is new here|nothing was kept of it>"),
        ] {
            assert_eq!(shown(old, new), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn large_texts_are_compared_in_limited_time() {
        let text = |step: usize| (0..200_000).map(|at| format!("{} ", at * step % 7919)).collect::<String>();
        let (old, new) = (text(3), text(5));
        let pieces = difference(&old, &new, Instant::now());
        assert!(!pieces.is_empty());
    }

    proptest! {
        #[test]
        fn pieces_make_up_both_texts(old in "[ab \u{200b}\n]{0,20}", new in "[ab \u{200b}\n]{0,20}") {
            let pieces = difference(&old, &new, soon());
            let side = |of: fn(&Piece<'_>) -> String| pieces.iter().map(of).collect::<String>();
            let olds = side(|piece| match piece { Piece::Same(text) | Piece::Changed { old: text, .. } => (*text).to_owned() });
            let news = side(|piece| match piece { Piece::Same(text) | Piece::Changed { new: text, .. } => (*text).to_owned() });
            prop_assert_eq!(olds, old);
            prop_assert_eq!(news, new);
        }
    }
}
