//! Style of the output: colours and width on a terminal, plain text elsewhere.
//!
//! The environment variables `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and `TERM` control colours, as in other programs. Words
//! repeat what colours express.

mod columns;

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use rustix::termios::tcgetwinsize;

pub(super) use self::columns::{Column, Layout, more_row};
use crate::printable::one_line;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputStyle {
    has_colour: bool,
    /// Columns of the terminal; `None` if the output is no terminal.
    width: Option<usize>,
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
        Self { has_colour: AutoStream::choice(&stdout) != ColorChoice::Never, width: width(&stdout) }
    }

    pub(super) fn of_stderr() -> Self {
        let stderr = io::stderr();
        Self { has_colour: AutoStream::choice(&stderr) != ColorChoice::Never, width: width(&stderr) }
    }

    /// As in a pipe.
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self { has_colour: false, width: None };

    /// A terminal without colours.
    #[cfg(test)]
    pub(super) const fn of_width(width: usize) -> Self {
        Self { has_colour: false, width: Some(width) }
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

    /// The most of something that a terminal shows. A pipe gets everything.
    pub(super) fn limit(self, on_terminal: usize) -> usize {
        if self.width.is_some() { on_terminal } else { usize::MAX }
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
        let coloured = OutputStyle { has_colour: true, width: None };
        let table = coloured.table(["SERVER", "STATE"], rows());
        assert!(table.contains("\u{1b}["), "{table:?}");
        let plain: String = anstream::adapter::strip_str(&table).to_string();
        let trimmed: String = plain.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        assert_eq!(trimmed, OutputStyle::PLAIN.table(["SERVER", "STATE"], rows()));
        assert_eq!(coloured.paint(Tone::Bad, "failed"), "\u{1b}[31mfailed\u{1b}[0m");
        assert_eq!(OutputStyle::PLAIN.paint(Tone::Bad, "failed"), "failed");
    }
}
