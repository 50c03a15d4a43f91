//! Tables that fit a terminal: cells are shortened first, then columns are dropped. No line is wrapped.

use std::cmp::Reverse;

use unicode_width::UnicodeWidthStr;

use super::{Cell, OutputStyle, Tone};
use crate::cli::text::shorten;

/// Spaces between two columns.
const GAP: usize = 2;

#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Column {
    name: &'static str,
    alignment: Alignment,
    /// Width to which cells may be shortened; `usize::MAX` if they are never shortened.
    min_width: usize,
    /// The column with the highest value is dropped first. Columns with 0 stay.
    drop_rank: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alignment {
    Left,
    Right,
}

impl Column {
    /// Left-aligned.
    pub(in crate::cli) const fn text(name: &'static str) -> Self {
        Self { name, alignment: Alignment::Left, min_width: usize::MAX, drop_rank: 0 }
    }

    /// Right-aligned.
    pub(in crate::cli) const fn number(name: &'static str) -> Self {
        Self { alignment: Alignment::Right, ..Self::text(name) }
    }

    pub(in crate::cli) const fn name(&self) -> &'static str {
        self.name
    }

    pub(in crate::cli) const fn renamed(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub(in crate::cli) const fn min_width(self, min_width: usize) -> Self {
        Self { min_width, ..self }
    }

    pub(in crate::cli) const fn drop_rank(self, drop_rank: u8) -> Self {
        Self { drop_rank, ..self }
    }
}

/// A row that counts the rows of a table that are not shown; `None` if all are.
pub(in crate::cli) fn more_row<const N: usize>(indent: &str, all: usize, shown: usize) -> Option<[Cell; N]> {
    let more = all.checked_sub(shown).filter(|more| *more > 0)?;
    let mut row = [const { String::new() }; N].map(Cell::from);
    row[0] = Cell::new(Tone::Faint, format!("{indent}… {more} more"));
    Some(row)
}

impl OutputStyle {
    /// A table that is as wide as the terminal at most, unless its permanent columns do not fit.
    pub(in crate::cli) fn fit_table<const N: usize>(self, columns: &[Column; N], rows: Vec<[Cell; N]>) -> String {
        let natural: [usize; N] = std::array::from_fn(|at| {
            let cells = rows.iter().map(|row| row[at].text.width());
            cells.chain([columns[at].name.width()]).max().unwrap_or_default()
        });
        let shown = fit_columns(columns, natural, self.width.unwrap_or(usize::MAX));
        let header = shown.iter().map(|(at, _)| Cell::new(Tone::Head, columns[*at].name)).collect();
        let rows = rows.into_iter().map(|row| {
            let cell = |(at, width): &(usize, usize)| {
                let Cell { text, tone } = &row[*at];
                Cell::new(*tone, shorten(text, *width))
            };
            shown.iter().map(cell).collect()
        });
        let alignments: Vec<_> = shown.iter().map(|(at, _)| columns[*at].alignment).collect();
        self.render_table(header, rows, &alignments)
    }
}

/// The columns that fit into `width`: index and width of each.
fn fit_columns<const N: usize>(columns: &[Column; N], natural: [usize; N], width: usize) -> Vec<(usize, usize)> {
    let min_width = |at: usize| columns[at].min_width.max(columns[at].name.width()).min(natural[at]);
    let mut shown: Vec<_> = natural.into_iter().enumerate().collect();
    loop {
        let gaps = GAP * shown.len().saturating_sub(1);
        let surplus = (gaps + shown.iter().map(|(_, width)| width).sum::<usize>()).saturating_sub(width);
        let slack: usize = shown.iter().map(|(at, width)| width - min_width(*at)).sum();
        let droppable = shown.iter().map(|(at, _)| *at).filter(|at| columns[*at].drop_rank > 0);
        match droppable.max_by_key(|at| columns[*at].drop_rank) {
            Some(first) if surplus > slack => shown.retain(|(at, _)| *at != first),
            _ => {
                for _ in 0..surplus.min(slack) {
                    let shrinkable = shown.iter_mut().filter(|(at, width)| *width > min_width(*at));
                    if let Some((_, width)) = shrinkable.min_by_key(|(_, width)| Reverse(*width)) {
                        *width -= 1;
                    }
                }
                return shown;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::text("NAME").min_width(8),
        Column::text("STATE"),
        Column::number("PID").drop_rank(1),
        Column::text("VERSION").drop_rank(2),
    ];

    fn drawn(width: usize) -> String {
        let rows = [["a-rather-long-name", "ready", "1", "2025"], ["b", "failed", "23456", "–"]];
        OutputStyle::of_width(width).fit_table(&COLUMNS, rows.map(|row| row.map(Cell::from)).to_vec())
    }

    #[test]
    fn a_narrow_terminal_shortens_cells_then_drops_columns() {
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
