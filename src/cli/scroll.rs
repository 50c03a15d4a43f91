//! The part of a list or of a text that a full-screen view shows. Pure.

use std::ops::Range;

use anstream::adapter::strip_str;

/// What a key does to the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Motion {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
}

impl Motion {
    /// The index that it leads to from `index`. A page has `page` items.
    pub(super) fn target(self, index: usize, len: usize, page: usize) -> usize {
        let index = match self {
            Self::Up => index.saturating_sub(1),
            Self::Down => index.saturating_add(1),
            Self::PageUp => index.saturating_sub(page),
            Self::PageDown => index.saturating_add(page),
            Self::First => 0,
            Self::Last => usize::MAX,
        };
        index.min(len.saturating_sub(1))
    }
}

/// The shown part. It stays where it is as long as the list is long enough.
#[derive(Debug, Default)]
pub(super) struct Scroll {
    shown: Range<usize>,
    len: usize,
}

impl Scroll {
    pub(super) fn press(&mut self, motion: Motion) {
        let room = self.shown.len();
        self.shown.start = motion.target(self.shown.start, self.len, room.saturating_sub(1).max(1));
        self.fit(self.len, room);
    }

    /// The part that is shown of `len` items where `room` fit.
    pub(super) fn fit(&mut self, len: usize, room: usize) -> Range<usize> {
        let start = self.shown.start.min(len.saturating_sub(room));
        (self.shown, self.len) = (start..len.min(start + room), len);
        self.shown.clone()
    }

    /// As [`Self::fit`], and moves as far as needed to show `index`.
    pub(super) fn fit_with(&mut self, index: usize, len: usize, room: usize) -> Range<usize> {
        self.shown.start = self.shown.start.clamp((index + 1).saturating_sub(room), index);
        self.fit(len, room)
    }

    /// The number of shown items.
    pub(super) fn page(&self) -> usize {
        self.shown.len()
    }

    /// The shown lines of `text`, and their position if they are not all. If a table begins above them, the first line is its heading.
    pub(super) fn lines(&mut self, text: &str, room: usize) -> (String, Option<String>) {
        let lines: Vec<_> = text.lines().collect();
        let shown = self.fit(lines.len(), room);
        let position = (shown.len() < lines.len()).then(|| self.position("lines"));
        let mut shown_lines = lines[shown.clone()].to_vec();
        if let (Some(heading), Some(first)) = (heading_above(&lines, shown.start), shown_lines.first_mut()) {
            *first = heading;
        }
        (shown_lines.iter().flat_map(|line| [line, "\n"]).collect(), position)
    }

    /// Such as `lines 10–31 of 75`.
    pub(super) fn position(&self, what: &str) -> String {
        format!("{what} {}–{} of {}", self.shown.start + 1, self.shown.end, self.len)
    }
}

/// The heading of the table that line `index` is a row of. A table follows an empty line, and its heading has no small letters.
fn heading_above<'t>(lines: &[&'t str], index: usize) -> Option<&'t str> {
    let above = lines.get(..=index)?;
    let start = above.iter().rposition(|line| line.is_empty())? + 1;
    let heading = above.get(start)?;
    (!strip_str(heading).to_string().contains(char::is_lowercase)).then_some(*heading)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(len: usize) -> String {
        (1..=len).map(|line| format!("line {line}\n")).collect()
    }

    #[test]
    fn every_item_can_be_reached_and_none_beyond() {
        use Motion::{Down, First, Last, PageDown, PageUp, Up};
        for (len, room, motions, expected) in [
            (3, 22, &[Down, PageDown, Last][..], 0..3),
            (30, 10, &[], 0..10),
            (30, 10, &[Down, Down, Up], 1..11),
            (30, 10, &[PageDown], 9..19),
            (30, 10, &[PageDown, PageDown, PageDown, PageDown], 20..30),
            (30, 10, &[Last, Down, PageUp], 11..21),
            (30, 10, &[Last, Up, First, Up], 0..10),
            (30, 1, &[PageDown, Down], 2..3),
            (0, 10, &[Down, Last], 0..0),
            (5, 0, &[], 0..0),
        ] {
            let mut scroll = Scroll::default();
            scroll.fit(len, room);
            for motion in motions {
                scroll.press(*motion);
            }
            assert_eq!(scroll.fit(len, room), expected, "{len} in {room}: {motions:?}");
        }
    }

    #[test]
    fn a_shrinking_list_or_a_larger_terminal_leaves_no_empty_lines() {
        let mut scroll = Scroll::default();
        scroll.fit(30, 10);
        scroll.press(Motion::Last);
        assert_eq!(scroll.fit(25, 10), 15..25);
        assert_eq!(scroll.fit(25, 20), 5..25);
        assert_eq!(scroll.fit(25, 40), 0..25);
    }

    #[test]
    fn a_chosen_item_is_shown_with_the_least_movement() {
        let mut scroll = Scroll::default();
        for (index, expected) in [(0, 0..10), (9, 0..10), (10, 1..11), (29, 20..30), (22, 20..30), (3, 3..13)] {
            assert_eq!(scroll.fit_with(index, 30, 10), expected, "{index}");
        }
    }

    #[test]
    fn text_that_fits_is_whole_and_other_text_has_a_position() {
        let mut scroll = Scroll::default();
        assert_eq!(scroll.lines(&numbered(3), 3), (numbered(3), None));
        assert_eq!(scroll.lines(&numbered(4), 3), (numbered(3), Some("lines 1–3 of 4".to_owned())));
    }

    #[test]
    fn the_heading_of_a_table_stays_while_its_rows_are_shown() {
        let text = "mcpd 1\n\nSERVER  UP\na  1s\nb  2s\nc  3s\n\nb: a note\nc: a note\n";
        let shown_from = |start: usize| {
            let mut scroll = Scroll::default();
            scroll.fit(9, 3);
            (0..start).for_each(|_| scroll.press(Motion::Down));
            scroll.lines(text, 3).0
        };
        for (start, expected) in [
            (1, "\nSERVER  UP\na  1s\n"),
            (2, "SERVER  UP\na  1s\nb  2s\n"),
            (3, "SERVER  UP\nb  2s\nc  3s\n"),
            (4, "SERVER  UP\nc  3s\n\n"),
            (6, "\nb: a note\nc: a note\n"),
        ] {
            assert_eq!(shown_from(start), expected, "{start}");
        }
    }
}
