//! How output looks where it goes: colours and the width of a terminal, plain text everywhere else.
//!
//! Whether there are colours is asked as other programs ask it: `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE`, `TERM`. What is told in
//! colour is told in words as well.

mod columns;

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use comfy_table::{Attribute, CellAlignment, Color, ContentArrangement, Table, TableStyle};
use rustix::termios::tcgetwinsize;

pub(super) use self::columns::Column;
use self::columns::Side;
use crate::printable::one_line;

/// What a stream shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputStyle {
    colour: bool,
    /// Columns, if it is a terminal.
    width: Option<usize>,
}

/// Columns of a terminal that does not say how many it has.
const COLUMNS: usize = 80;

/// What a word tells at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Nothing.
    Plain,
    /// A heading.
    Head,
    /// All is as it should be.
    Good,
    /// It may be, or will be.
    Doubtful,
    /// It is not.
    Bad,
    /// Of less interest than the rest.
    Faint,
}

/// One place in a table. Its text may be a peer's: what is not visible in it is escaped.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

impl OutputStyle {
    /// As standard output has it.
    pub(super) fn of_stdout() -> Self {
        let colour = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        Self { colour, width: width(&io::stdout()) }
    }

    /// As standard error has it.
    pub(super) fn of_stderr() -> Self {
        let colour = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
        Self { colour, width: width(&io::stderr()) }
    }

    /// Text alone.
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self { colour: false, width: None };

    /// Text alone, on a terminal of `width` columns.
    #[cfg(test)]
    pub(super) const fn of_width(width: usize) -> Self {
        Self { colour: false, width: Some(width) }
    }

    /// Columns, if it is a terminal.
    pub(super) fn width(self) -> Option<usize> {
        self.width
    }

    /// Whether there are colours.
    pub(super) fn has_colour(self) -> bool {
        self.colour
    }

    /// `text` in the colour of `tone`.
    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        let style = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Head => Style::new().bold(),
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Doubtful => AnsiColor::Yellow.on_default(),
            Tone::Bad => AnsiColor::Red.on_default(),
            Tone::Faint => Style::new().dimmed(),
        };
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Columns aligned by spaces.
    pub(super) fn table<const N: usize>(
        self,
        header: [&str; N],
        rows: impl IntoIterator<Item = [impl Into<Cell>; N]>,
    ) -> String {
        let header = header.into_iter().map(|name| Cell::new(Tone::Head, name)).collect();
        let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into).collect());
        self.drawn(header, rows, &[Side::Left; N])
    }

    fn drawn(self, header: Vec<Cell>, rows: impl Iterator<Item = Vec<Cell>>, sides: &[Side]) -> String {
        let mut table = Table::new();
        table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
        if self.colour {
            table.enforce_styling().style_text_only();
        } else {
            table.force_no_tty();
        }
        table.set_header(header.into_iter().map(Cell::shown));
        table.add_rows(rows.map(|row| row.into_iter().map(Cell::shown)));
        for (column, side) in table.column_iter_mut().zip(sides) {
            column.set_padding((0, 2));
            if *side == Side::Right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

/// Columns of `stream`, if it is a terminal.
fn width(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let told = |size: u16| if size == 0 { COLUMNS } else { usize::from(size) };
    stream.is_terminal().then(|| tcgetwinsize(stream).map_or(COLUMNS, |size| told(size.ws_col)))
}

impl Cell {
    pub(super) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: one_line(&text.into()), tone }
    }

    fn shown(self) -> comfy_table::Cell {
        let cell = comfy_table::Cell::new_owned(self.text);
        match self.tone {
            Tone::Plain => cell,
            Tone::Head => cell.add_attribute(Attribute::Bold),
            Tone::Good => cell.fg(Color::DarkGreen),
            Tone::Doubtful => cell.fg(Color::DarkYellow),
            Tone::Bad => cell.fg(Color::DarkRed),
            Tone::Faint => cell.add_attribute(Attribute::Dim),
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(Tone::Plain, text)
    }
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
        let coloured = OutputStyle { colour: true, width: None };
        let table = coloured.table(["SERVER", "STATE"], rows());
        assert!(table.contains("\u{1b}["), "{table:?}");
        let plain: String = anstream::adapter::strip_str(&table).to_string();
        let trimmed: String = plain.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        assert_eq!(trimmed, OutputStyle::PLAIN.table(["SERVER", "STATE"], rows()));
        assert_eq!(coloured.paint(Tone::Bad, "failed"), "\u{1b}[31mfailed\u{1b}[0m");
        assert_eq!(OutputStyle::PLAIN.paint(Tone::Bad, "failed"), "failed");
    }
}
