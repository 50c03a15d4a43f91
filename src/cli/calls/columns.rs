//! The columns of the table of calls: all of them where it is piped, on a terminal those that fit.

use unicode_width::UnicodeWidthStr;

use super::took;
use crate::calls::report::CallReport;
use crate::cli::local_time::{TimeFormat, format};
use crate::cli::text::{one_line, shorten};

/// One column: its heading and its width.
type Column = (&'static str, usize);

/// Fixed widths: those who follow see one line at a time.
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
/// Those that a terminal too narrow for all goes without, the first first.
const DISPENSABLE: [&str; 5] = ["UID", "PID", "REQUEST", "REPLY", "PROFILE"];
/// What has room in 80 places.
const NARROW: [Column; 6] = [("TIME", 8), ("AGENT", 13), ("SERVER", 10), ("TOOL", 20), ("OUTCOME", 12), ("TOOK", 7)];
/// Width of a time with its zone.
const ZONED: usize = 29;
/// Blanks between two columns.
const GAP: usize = 2;

/// What is shown of each call.
#[derive(Debug)]
pub(super) struct Columns {
    shown: Vec<Column>,
    /// Whether what is wider than its column is shortened, rather than moving the rest of its line.
    is_cut: bool,
}

impl Columns {
    /// Those for a terminal of `width` places, or for a pipe, where times have their zone.
    pub(super) fn of(width: Option<usize>) -> Self {
        let mut shown = ALL.to_vec();
        let Some(width) = width else {
            shown[0].1 = ZONED;
            return Self { shown, is_cut: false };
        };
        for name in DISPENSABLE {
            if places(&shown) > width {
                shown.retain(|(heading, _)| *heading != name);
            }
        }
        if places(&shown) > width {
            shown = NARROW.to_vec();
        }
        Self { shown, is_cut: true }
    }

    pub(super) fn header(&self) -> String {
        self.line(|heading, _| heading.to_owned())
    }

    /// A call, and below it its arguments, if they are kept.
    pub(super) fn row(&self, call: &CallReport) -> String {
        let arguments = call.arguments.as_deref().map(|raw| format!("    {}\n", one_line(raw))).unwrap_or_default();
        let time = |width| match (self.is_cut, width < ALL[0].1) {
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
            let text = if self.is_cut { shorten(&text, width) } else { text };
            let blanks = width.saturating_sub(text.width()) + GAP;
            text + &" ".repeat(blanks)
        });
        padded.collect::<String>().trim_end().to_owned() + "\n"
    }
}

fn places(columns: &[Column]) -> usize {
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
        "TOOK" => took(call.duration_ms),
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
        let columns = Columns::of(width);
        [columns.header(), columns.row(&call)]
    }

    #[test]
    fn a_pipe_has_all_of_it() {
        let [header, row] = lines(None);
        assert!(ALL.iter().all(|(heading, _)| header.contains(heading)), "{header}");
        let time = format("2026-01-01T10:20:30.456Z", TimeFormat::Zoned);
        assert!(row.starts_with(&format!("{time}  claude-code 2.1.0     4242 ")), "{row}");
        assert!(row.contains("list_directory_with_sizes  error -32602"), "{row}");
    }

    #[test]
    fn a_terminal_has_what_fits_in_a_line() {
        for width in [80, 100, 120, 200] {
            let told = lines(Some(width));
            assert!(told.iter().all(|line| line.trim_end().width() <= width), "{told:?}");
        }
        let clock = format("2026-01-01T10:20:30.456Z", TimeFormat::Clock);
        let expected = [
            "TIME      AGENT          SERVER      TOOL                  OUTCOME       TOOK\n".to_owned(),
            format!("{clock}  claude… 2.1.0  files       list_dire…with_sizes  error -32602  12ms\n"),
        ];
        assert_eq!(lines(Some(80)), expected);
        assert!(lines(Some(120))[0].contains("PROFILE") && !lines(Some(120))[0].contains("UID"));
    }
}
