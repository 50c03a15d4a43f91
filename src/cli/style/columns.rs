//! Tables that fit a terminal. No line is wrapped.
//!
//! Where a table is too wide, cells are shortened to the minimum of their column, then columns are dropped, then cells are shortened
//! to a few characters. A table whose rows come one by one widens its columns as needed.

use std::cmp::Reverse;
use std::mem;

use unicode_width::UnicodeWidthStr;

use super::{Cell, OutputStyle, Tone};
use crate::cli::text::shorten;

/// Spaces between two columns.
const GAP: usize = 2;
/// Width to which cells are shortened when no more columns can be dropped.
const SHORTEST: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Column {
    name: &'static str,
    alignment: Alignment,
    /// Width to which cells are shortened before columns are dropped; `usize::MAX` if they are never shortened.
    min_width: usize,
    /// The column with the highest value is dropped first. Columns with 0 stay.
    drop_rank: u8,
}

#[derive(Debug, Clone, Copy)]
enum Alignment {
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

/// The columns that a table shows. They follow the rows that were added.
#[derive(Debug)]
pub(in crate::cli) struct Layout {
    style: OutputStyle,
    columns: Vec<Column>,
    /// Width of the widest cell of each column, or of its name.
    natural: Vec<usize>,
    shown: Vec<ShownColumn>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ShownColumn {
    index: usize,
    width: usize,
}

impl Layout {
    pub(in crate::cli) fn new(columns: Vec<Column>, style: OutputStyle) -> Self {
        let natural: Vec<_> = columns.iter().map(|column| column.name.width()).collect();
        let shown = fit(&columns, &natural, style.width);
        Self { style, columns, natural, shown }
    }

    /// Widens columns for these rows, as far as the terminal permits. Returns whether other columns are shown now.
    pub(in crate::cli) fn widen<R: AsRef<[Cell]>>(&mut self, rows: &[R]) -> bool {
        for row in rows {
            for (natural, cell) in self.natural.iter_mut().zip(row.as_ref()) {
                *natural = (*natural).max(cell.text.width());
            }
        }
        let shown = fit(&self.columns, &self.natural, self.style.width);
        let before = mem::replace(&mut self.shown, shown);
        !before.iter().map(|column| column.index).eq(self.shown.iter().map(|column| column.index))
    }

    pub(in crate::cli) fn header(&self) -> String {
        self.row(&self.columns.iter().map(|column| Cell::new(Tone::Head, column.name)).collect::<Vec<_>>())
    }

    pub(in crate::cli) fn row(&self, cells: &[Cell]) -> String {
        let cell = |&ShownColumn { index, width }: &ShownColumn| {
            let Cell { text, tone } = &cells[index];
            let text = shorten(text, width);
            let blanks = " ".repeat(width.saturating_sub(text.width()));
            let text = self.style.paint(*tone, &text);
            match self.columns[index].alignment {
                Alignment::Left => text + &blanks,
                Alignment::Right => blanks + &text,
            }
        };
        let line = self.shown.iter().map(cell).collect::<Vec<_>>().join(&" ".repeat(GAP));
        line.trim_end().to_owned() + "\n"
    }
}

impl OutputStyle {
    /// A table that is as wide as the terminal at most, unless its permanent columns do not fit.
    pub(in crate::cli) fn fit_table<const N: usize>(self, columns: &[Column; N], rows: Vec<[Cell; N]>) -> String {
        let mut layout = Layout::new(columns.to_vec(), self);
        layout.widen(&rows);
        rows.iter().fold(layout.header(), |table, row| table + &layout.row(row))
    }
}

/// The columns that fit into `width`: permanent ones, and each other one that still fits, by its rank.
fn fit(columns: &[Column], natural: &[usize], width: Option<usize>) -> Vec<ShownColumn> {
    let width = width.unwrap_or(usize::MAX);
    let min_width = |index: usize| columns[index].min_width.max(columns[index].name.width()).min(natural[index]);
    let last_resort = |index: usize| min_width(index).min(SHORTEST.max(columns[index].name.width()));
    let mut by_rank: Vec<_> = (0..columns.len()).collect();
    by_rank.sort_by_key(|index| columns[*index].drop_rank);
    let (mut shown, mut used) = (Vec::new(), 0);
    for index in by_rank {
        let added = min_width(index) + if shown.is_empty() { 0 } else { GAP };
        if columns[index].drop_rank == 0 || used + added <= width {
            used += added;
            shown.push(ShownColumn { index, width: natural[index] });
        }
    }
    shown.sort_unstable();
    let total: usize = shown.iter().map(|column| column.width + GAP).sum();
    let mut surplus = total.saturating_sub(GAP).saturating_sub(width);
    let limits: [&dyn Fn(usize) -> usize; 2] = [&min_width, &last_resort];
    for least in limits {
        while surplus > 0 {
            let shrinkable = shown
                .iter_mut()
                .filter(|one| columns[one.index].min_width < usize::MAX && one.width > least(one.index));
            let Some(widest) = shrinkable.min_by_key(|column| Reverse(column.width)) else { break };
            widest.width -= 1;
            surplus -= 1;
        }
    }
    shown
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
