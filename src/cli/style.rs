//! Style of the output: colours and tables that fit on a terminal, plain text elsewhere.
//!
//! The environment variables `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and `TERM` control colours, as in other programs. Words
//! repeat what colours express.
//!
//! No line of a table is wrapped. Where a table is too wide, cells are shortened to the minimum of their column, then columns are dropped, then
//! cells are shortened to a few characters. A table whose rows come one by one widens its columns as needed.

use std::cmp::Reverse;
use std::io::{self, IsTerminal};
use std::mem;
use std::os::fd::AsFd;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use rustix::termios::tcgetwinsize;
use unicode_width::UnicodeWidthStr;

use super::text::shorten;
use crate::printable::one_line;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputStyle {
    has_colour: bool,
    /// Columns of the terminal; `None` if the output is no terminal.
    width: Option<usize>,
    /// Whether long tables and texts are cut.
    is_limited: bool,
}

/// Columns of a terminal that does not report its size.
const DEFAULT_WIDTH: usize = 80;

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Head,
    Good,
    Doubtful,
    Bad,
    /// Less important than the rest.
    Faint,
}

/// A table cell. Text of peers is allowed: invisible characters are escaped.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl OutputStyle {
    pub(super) fn of_stdout() -> Self {
        let stdout = io::stdout();
        Self::of(AutoStream::choice(&stdout), width(&stdout))
    }

    pub(super) fn of_stderr() -> Self {
        let stderr = io::stderr();
        Self::of(AutoStream::choice(&stderr), width(&stderr))
    }

    fn of(colours: ColorChoice, width: Option<usize>) -> Self {
        Self { has_colour: colours != ColorChoice::Never, width, is_limited: width.is_some() }
    }

    /// The style of a view that scrolls, so nothing of it is cut.
    pub(super) fn scrolled(self) -> Self {
        Self { is_limited: false, ..self }
    }

    /// As in a pipe.
    pub(super) const PLAIN: Self = Self { has_colour: false, width: None, is_limited: false };

    /// A terminal without colours.
    #[cfg(test)]
    pub(super) const fn of_width(width: usize) -> Self {
        Self { has_colour: false, width: Some(width), is_limited: true }
    }

    /// Columns of the terminal; `None` if the output is no terminal.
    pub(super) fn width(self) -> Option<usize> {
        self.width
    }

    pub(super) fn has_colour(self) -> bool {
        self.has_colour
    }

    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        let style = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Head => Style::new().bold(),
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Doubtful => AnsiColor::Yellow.on_default(),
            Tone::Bad => AnsiColor::Red.on_default(),
            Tone::Faint => Style::new().dimmed(),
        };
        if self.has_colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// A left-aligned table of any width.
    pub(super) fn table<const N: usize>(
        self,
        header: [&'static str; N],
        rows: impl IntoIterator<Item = [impl Into<Cell>; N]>,
    ) -> String {
        let rows = rows.into_iter().map(|row| row.map(Into::into)).collect();
        Self { width: None, ..self }.fit_table(&header.map(Column::text), rows)
    }

    /// The most of something that a terminal shows. A pipe and a scrolled view get everything.
    pub(super) fn limit(self, on_terminal: usize) -> usize {
        if self.is_limited { on_terminal } else { usize::MAX }
    }
}

fn width(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let columns = |size: u16| if size == 0 { DEFAULT_WIDTH } else { usize::from(size) };
    stream.is_terminal().then(|| tcgetwinsize(stream).map_or(DEFAULT_WIDTH, |size| columns(size.ws_col)))
}

impl Cell {
    pub(super) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: one_line(&text.into()), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(Tone::Plain, text)
    }
}

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

    fn rows() -> [[Cell; 2]; 2] {
        [["git".into(), Cell::new(Tone::Good, "ready")], ["a-longer-name".into(), Cell::new(Tone::Bad, "failed")]]
    }

    #[test]
    fn columns_are_aligned_and_nothing_trails() {
        let table = OutputStyle::PLAIN.table(["SERVER", "STATE"], rows());
        assert_eq!(table, "SERVER         STATE\ngit            ready\na-longer-name  failed\n");
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let coloured = OutputStyle { has_colour: true, ..OutputStyle::PLAIN };
        let table = coloured.table(["SERVER", "STATE"], rows());
        assert!(table.contains("\u{1b}["), "{table:?}");
        let plain: String = anstream::adapter::strip_str(&table).to_string();
        let trimmed: String = plain.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        assert_eq!(trimmed, OutputStyle::PLAIN.table(["SERVER", "STATE"], rows()));
        assert_eq!(coloured.paint(Tone::Bad, "failed"), "\u{1b}[31mfailed\u{1b}[0m");
        assert_eq!(OutputStyle::PLAIN.paint(Tone::Bad, "failed"), "failed");
    }

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
