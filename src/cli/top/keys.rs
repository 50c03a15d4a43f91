//! The keys of `mcpd top`: the text of `?`, the line at the bottom, and the name filter as it is typed. Pure.

use super::model::Sort;
use super::view::CallTable;
use crate::cli::style::{Column, OutputStyle};
use crate::cli::terminal::ScreenEvent;

const KEYS: [(&str, &str); 9] = [
    ("↑ ↓ PgUp PgDn Home End", "choose a server, or scroll its details; also k j Space"),
    ("Enter", "open the chosen server"),
    ("/", "show only servers with a text in their names"),
    ("c l e m p n d", "sort: calls, latency, errors, memory, CPU, name, down"),
    ("Home", "sort again; the order is kept while a server is chosen"),
    ("s", "list the slowest calls, the last, or those in flight"),
    ("w", "count calls of the last minute, or all that are known"),
    ("Esc b Backspace", "back to the list; there, Esc ends the filter or quits"),
    ("q Ctrl-C", "quit"),
];

const SORT_KEYS: [(char, Sort); 7] = [
    ('c', Sort::Calls),
    ('l', Sort::Latency),
    ('e', Sort::Errors),
    ('m', Sort::Memory),
    ('p', Sort::Cpu),
    ('n', Sort::Name),
    ('d', Sort::Down),
];

pub(super) const LIST_LINE: &str = "↑↓ Enter opens · sort c l e m p n d · / filter · s calls · ? keys · q quits";
/// While a server is chosen, so the order is kept.
pub(super) const CHOSEN_LINE: &str = "↑↓ Enter opens · Home sorts again · / filter · s calls · ? keys · q quits";
pub(super) const DETAIL_LINE: &str = "↑↓ scroll · s calls · w 1m/all · Esc back · ? keys · q quits";
pub(super) const HELP_LINE: &str = "↑↓ scroll · any other key: back · q quits";

pub(super) fn sort_of(key: char) -> Option<Sort> {
    SORT_KEYS.iter().find(|(of, _)| *of == key).map(|(_, sort)| *sort)
}

/// What `?` shows.
pub(super) fn help(call_table: CallTable, only_last_minute: bool, style: OutputStyle) -> String {
    let columns = [Column::text("KEY"), Column::text("WHAT IT DOES").min_width(20)];
    let rows = KEYS.iter().map(|(key, meaning)| [(*key).into(), (*meaning).into()]).collect();
    let calls = match call_table {
        CallTable::Slowest => "slowest calls",
        CallTable::Last => "last calls",
        CallTable::Running => "calls in flight",
    };
    let window = if only_last_minute { "of the last minute" } else { "of all the time that is known" };
    format!("{}\nNow: {calls}, figures {window}.\n", style.fit_table(&columns, rows))
}

/// Maximum number of letters of a [`Filter`]. A longer paste is cut off.
const MAX_FILTER: usize = 64;

/// Restricts the list to servers with a text in their names.
#[derive(Debug, Default)]
pub(super) struct Filter {
    text: String,
    is_typed: bool,
}

impl Filter {
    /// The text, in lower case; `None` if all servers are shown.
    pub(super) fn text(&self) -> Option<&str> {
        (!self.text.is_empty()).then_some(&*self.text)
    }

    /// Whether keys are letters of the text.
    pub(super) fn is_typed(&self) -> bool {
        self.is_typed
    }

    pub(super) fn start(&mut self) {
        self.is_typed = true;
    }

    /// Shows all servers. Returns whether there was a filter.
    pub(super) fn clear(&mut self) -> bool {
        let was = std::mem::take(self);
        was.is_typed || !was.text.is_empty()
    }

    /// Takes a key while the text is typed. Returns the event if it is none of the text.
    pub(super) fn press(&mut self, event: ScreenEvent) -> Option<ScreenEvent> {
        match event {
            ScreenEvent::Key(_) if self.text.len() >= MAX_FILTER => {}
            ScreenEvent::Key(key) => self.text.push(key.to_ascii_lowercase()),
            ScreenEvent::Backspace if self.text.is_empty() => self.is_typed = false,
            ScreenEvent::Backspace => drop(self.text.pop()),
            ScreenEvent::Enter => self.is_typed = false,
            ScreenEvent::Escape => drop(self.clear()),
            event => return Some(event),
        }
        None
    }

    /// The line at the bottom, where `line` has the keys.
    pub(super) fn line(&self, line: &str) -> String {
        match (self.is_typed, self.text()) {
            (true, _) => format!("/{}▏ · Enter keeps it · Esc shows all servers", self.text),
            (false, Some(text)) => format!("/{text} · Esc shows all · {line}"),
            (false, None) => line.to_owned(),
        }
    }
}
