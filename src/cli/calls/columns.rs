//! The columns of `mcpd calls`: all of them in a pipe, on a terminal those that fit.
//!
//! Widths are fixed, because with `--follow` later rows are unknown.

use unicode_width::UnicodeWidthStr;

use super::format_duration;
use crate::calls::report::CallReport;
use crate::cli::local_time::{TimeFormat, format};
use crate::cli::text::{one_line, shorten};

/// Heading and width.
type Column = (&'static str, usize);

const ALL: [Column; 11] = [
    ("TIME", 23),
    ("AGENT", 20),
    ("PID", 8),
    ("UID", 6),
    ("PROFILE", 8),
    ("SERVER", 12),
    ("TOOL", 24),
    ("OUTCOME", 12),
    ("TOOK", 8),
    ("REQUEST", 8),
    ("REPLY", 8),
];
/// Columns that a narrow terminal drops, in this order.
const DROP_ORDER: [&str; 5] = ["UID", "PID", "REQUEST", "REPLY", "PROFILE"];
/// For 80 columns.
const NARROW: [Column; 6] = [("TIME", 8), ("AGENT", 13), ("SERVER", 10), ("TOOL", 20), ("OUTCOME", 12), ("TOOK", 7)];
/// Columns that take what is left of a terminal, in this order, and their widest.
const WIDENED: [Column; 3] = [("AGENT", 20), ("TOOL", 40), ("SERVER", 24)];
/// Width of a time with its zone.
const ZONED_WIDTH: usize = 29;
/// Spaces between two columns.
const GAP: usize = 2;

#[derive(Debug)]
pub(super) struct Columns {
    shown: Vec<Column>,
    /// Whether wide cells are shortened. In a pipe they are complete, and shift the rest of the line.
    shortens: bool,
}

impl Columns {
    /// `width` is that of the terminal; `None` in a pipe, where times include the zone.
    pub(super) fn for_width(width: Option<usize>) -> Self {
        let mut shown = ALL.to_vec();
        let Some(width) = width else {
            shown[0].1 = ZONED_WIDTH;
            return Self { shown, shortens: false };
        };
        for name in DROP_ORDER {
            if total_width(&shown) > width {
                shown.retain(|(heading, _)| *heading != name);
            }
        }
        if total_width(&shown) > width {
            shown = NARROW.to_vec();
        }
        for (name, most) in WIDENED {
            let spare = width.saturating_sub(total_width(&shown));
            if let Some((_, own)) = shown.iter_mut().find(|(heading, _)| *heading == name) {
                *own += spare.min(most.saturating_sub(*own));
            }
        }
        Self { shown, shortens: true }
    }

    pub(super) fn header(&self) -> String {
        self.line(|heading, _| heading.to_owned())
    }

    /// A line for the call, and one for its arguments if they are recorded.
    pub(super) fn row(&self, call: &CallReport) -> String {
        let arguments = call.arguments.as_deref().map(|raw| format!("    {}\n", one_line(raw))).unwrap_or_default();
        let time = |width| match (self.shortens, width < ALL[0].1) {
            (false, _) => TimeFormat::Zoned,
            (true, false) => TimeFormat::Full,
            (true, true) => TimeFormat::Clock,
        };
        let cell = |heading: &str, width| match heading {
            "TIME" => format(&call.time, time(width)),
            _ => cell(call, heading),
        };
        self.line(cell) + &arguments
    }

    fn line(&self, cell: impl Fn(&str, usize) -> String) -> String {
        let padded = self.shown.iter().map(|&(heading, width)| {
            let text = cell(heading, width);
            let text = if self.shortens { shorten(&text, width) } else { text };
            let blanks = width.saturating_sub(text.width()) + GAP;
            text + &" ".repeat(blanks)
        });
        padded.collect::<String>().trim_end().to_owned() + "\n"
    }
}

fn total_width(columns: &[Column]) -> usize {
    columns.iter().map(|(_, width)| width + GAP).sum::<usize>().saturating_sub(GAP)
}

fn cell(call: &CallReport, heading: &str) -> String {
    let dash = || "–".to_owned();
    match heading {
        "AGENT" => call.client.as_deref().map_or_else(dash, one_line),
        "PID" => call.pid.map_or_else(dash, |pid| pid.to_string()),
        "UID" => call.uid.to_string(),
        "PROFILE" => call.profile.clone(),
        "SERVER" => call.server.clone().unwrap_or_else(dash),
        "TOOL" => one_line(&call.tool),
        "OUTCOME" => call.code.map_or_else(|| call.outcome.clone(), |code| format!("{} {code}", call.outcome)),
        "TOOK" => format_duration(call.duration_ms),
        "REQUEST" => call.request_bytes.to_string(),
        _ => call.reply_bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(width: Option<usize>) -> [String; 2] {
        let call = serde_json::json!({
            "time": "2026-01-01T10:20:30.456Z", "session": 1, "pid": 4242, "uid": 1000, "client": "claude-code 2.1.0",
            "profile": "default", "server": "files", "tool": "list_directory_with_sizes", "outcome": "error",
            "code": -32602, "duration_ms": 12.3, "request_bytes": 120, "reply_bytes": 160,
        });
        let call: CallReport = serde_json::from_value(call).expect("a call");
        let columns = Columns::for_width(width);
        [columns.header(), columns.row(&call)]
    }

    #[test]
    fn a_pipe_has_every_column() {
        let [header, row] = lines(None);
        assert!(ALL.iter().all(|(heading, _)| header.contains(heading)), "{header}");
        let time = format("2026-01-01T10:20:30.456Z", TimeFormat::Zoned);
        assert!(row.starts_with(&format!("{time}  claude-code 2.1.0     4242 ")), "{row}");
        assert!(row.contains("list_directory_with_sizes  error -32602"), "{row}");
    }

    #[test]
    fn a_terminal_has_the_columns_that_fit() {
        for width in [80, 100, 120, 200] {
            let lines = lines(Some(width));
            assert!(lines.iter().all(|line| line.trim_end().width() <= width), "{lines:?}");
        }
        let clock = format("2026-01-01T10:20:30.456Z", TimeFormat::Clock);
        let expected = [
            "TIME      AGENT          SERVER      TOOL                  OUTCOME       TOOK\n".to_owned(),
            format!("{clock}  claude… 2.1.0  files       list_dire…with_sizes  error -32602  12ms\n"),
        ];
        assert_eq!(lines(Some(80)), expected);
        let [_, row] = lines(Some(100));
        assert!(row.contains("claude-code 2.1.0  ") && row.contains("list_directory_with_sizes  "), "{row}");
        assert!(lines(Some(120))[0].contains("PROFILE") && !lines(Some(120))[0].contains("UID"));
    }
}
