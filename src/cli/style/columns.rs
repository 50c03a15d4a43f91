//! Tables that fit: what a narrow terminal has no room for is shortened, and then left out, before any line is wrapped.

use std::cmp::Reverse;

use unicode_width::UnicodeWidthStr;

use super::{Cell, OutputStyle, Tone};
use crate::cli::text::shorten;

/// Blanks between two columns.
const GAP: usize = 2;

/// What is to know of one column.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Column {
    name: &'static str,
    /// To which side its cells keep.
    side: Side,
    /// Its cells are shortened to no less than this; `usize::MAX` if they are not.
    least: usize,
    /// Of those that are left out, the one with the highest is the first; one with 0 stays.
    rank: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

impl Column {
    /// Words.
    pub(in crate::cli) const fn text(name: &'static str) -> Self {
        Self { name, side: Side::Left, least: usize::MAX, rank: 0 }
    }

    /// Numbers, whose digits are to be below each other.
    pub(in crate::cli) const fn number(name: &'static str) -> Self {
        Self { name, side: Side::Right, least: usize::MAX, rank: 0 }
    }

    /// What stands above it.
    pub(in crate::cli) const fn name(&self) -> &'static str {
        self.name
    }

    /// The same under another name.
    pub(in crate::cli) const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Its cells may be shortened to `least` places.
    pub(in crate::cli) const fn least(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// It may be left out; the higher `rank`, the sooner.
    pub(in crate::cli) const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

impl OutputStyle {
    /// A table that is no wider than what it is shown on, unless not even what must stay fits.
    pub(in crate::cli) fn fitted<const N: usize>(self, columns: &[Column; N], rows: Vec<[Cell; N]>) -> String {
        let natural: [usize; N] = std::array::from_fn(|at| {
            let cells = rows.iter().map(|row| row[at].text.width());
            cells.chain([columns[at].name.width()]).max().unwrap_or_default()
        });
        let kept = widths(columns, natural, self.width.unwrap_or(usize::MAX));
        let header = kept.iter().map(|(at, _)| Cell::new(Tone::Head, columns[*at].name)).collect();
        let rows = rows.into_iter().map(|row| {
            let cell = |(at, width): &(usize, usize)| {
                let Cell { text, tone } = &row[*at];
                Cell::new(*tone, shorten(text, *width))
            };
            kept.iter().map(cell).collect()
        });
        let sides: Vec<_> = kept.iter().map(|(at, _)| columns[*at].side).collect();
        self.drawn(header, rows, &sides)
    }
}

/// Which columns stay, and how wide each of them is.
fn widths<const N: usize>(columns: &[Column; N], natural: [usize; N], room: usize) -> Vec<(usize, usize)> {
    let least = |at: usize| columns[at].least.max(columns[at].name.width()).min(natural[at]);
    let mut kept: Vec<_> = natural.into_iter().enumerate().collect();
    loop {
        let gaps = GAP * kept.len().saturating_sub(1);
        let surplus = (gaps + kept.iter().map(|(_, width)| width).sum::<usize>()).saturating_sub(room);
        let slack: usize = kept.iter().map(|(at, width)| width - least(*at)).sum();
        let first =
            kept.iter().map(|(at, _)| *at).filter(|at| columns[*at].rank > 0).max_by_key(|at| columns[*at].rank);
        match first {
            Some(first) if surplus > slack => kept.retain(|(at, _)| *at != first),
            _ => {
                for _ in 0..surplus.min(slack) {
                    let widest = kept.iter_mut().filter(|(at, width)| *width > least(*at));
                    if let Some((_, width)) = widest.min_by_key(|(_, width)| Reverse(*width)) {
                        *width -= 1;
                    }
                }
                return kept;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::text("NAME").least(8),
        Column::text("STATE"),
        Column::number("PID").rank(1),
        Column::text("VERSION").rank(2),
    ];

    fn drawn(width: usize) -> String {
        let rows = [["a-rather-long-name", "ready", "1", "2025"], ["b", "failed", "23456", "–"]];
        OutputStyle::of_width(width).fitted(&COLUMNS, rows.map(|row| row.map(Cell::from)).to_vec())
    }

    #[test]
    fn a_narrow_terminal_shortens_first_and_leaves_out_then() {
        let whole = "NAME                STATE     PID  VERSION\na-rather-long-name  ready       1  2025\nb                   failed  23456  –\n";
        let shorter =
            "NAME          STATE     PID  VERSION\na-rat…g-name  ready       1  2025\nb             failed  23456  –\n";
        let fewer = "NAME           STATE     PID\na-rath…g-name  ready       1\nb              failed  23456\n";
        let least = "NAME      STATE\na-r…name  ready\nb         failed\n";
        for (width, expected) in [(200, whole), (42, whole), (36, shorter), (28, fewer), (16, least), (1, least)] {
            assert_eq!(drawn(width), expected, "{width}");
        }
    }
}
