//! The table of `mcpd calls`: all columns in a pipe, on a terminal those that fit.

use super::format_duration;
use crate::calls::report::CallReport;
use crate::cli::local_time::{TimeFormat, format};
use crate::cli::style::{Cell, Column, Layout, OutputStyle};
use crate::cli::text::one_line;

/// A column, and its cell for a call.
type CallColumn = (Column, fn(&CallReport) -> Cell);

const TIME_ON_TERMINAL: [CallColumn; 2] = [
    (Column::text("DATE").drop_rank(1), |call| format(&call.time, TimeFormat::Date).into()),
    (Column::text("TIME"), |call| format(&call.time, TimeFormat::Clock).into()),
];
const TIME_IN_PIPE: [CallColumn; 1] = [(Column::text("TIME"), |call| format(&call.time, TimeFormat::Zoned).into())];
const COLUMNS: [CallColumn; 10] = [
    (Column::text("AGENT").min_width(20), |call| call.client.as_deref().map_or_else(dash, Cell::from)),
    (Column::number("PID").drop_rank(5), |call| call.pid.map_or_else(dash, |pid| pid.to_string().into())),
    (Column::number("UID").drop_rank(6), |call| call.uid.to_string().into()),
    (Column::text("PROFILE").min_width(12).drop_rank(2), |call| call.profile.as_str().into()),
    (Column::text("SERVER").min_width(32), |call| call.server.as_deref().map_or_else(dash, Cell::from)),
    (Column::text("TOOL").min_width(40), |call| call.tool.as_str().into()),
    (Column::text("OUTCOME"), |call| match call.code {
        Some(code) => format!("{} {code}", call.outcome).into(),
        None => call.outcome.as_str().into(),
    }),
    (Column::number("TOOK"), |call| format_duration(call.duration_ms).into()),
    (Column::number("REQUEST").drop_rank(4), |call| call.request_bytes.to_string().into()),
    (Column::number("REPLY").drop_rank(3), |call| call.reply_bytes.to_string().into()),
];

#[derive(Debug)]
pub(super) struct CallTable {
    columns: Vec<CallColumn>,
    layout: Layout,
    has_header: bool,
}

impl CallTable {
    pub(super) fn new(style: OutputStyle) -> Self {
        let time = if style.width().is_some() { &TIME_ON_TERMINAL[..] } else { &TIME_IN_PIPE[..] };
        let columns: Vec<_> = time.iter().chain(&COLUMNS).copied().collect();
        let layout = Layout::new(columns.iter().map(|(column, _)| *column).collect(), style);
        Self { columns, layout, has_header: false }
    }

    /// Lines for calls below those that were added before. The header comes first, and again when other columns are shown.
    pub(super) fn add(&mut self, calls: &[CallReport]) -> String {
        let rows: Vec<Vec<_>> =
            calls.iter().map(|call| self.columns.iter().map(|(_, cell)| cell(call)).collect()).collect();
        let has_changed = self.layout.widen(&rows);
        let header = if has_changed || !self.has_header { self.layout.header() } else { String::new() };
        self.has_header = true;
        let lines = calls.iter().zip(&rows).map(|(call, row)| {
            // The arguments, if they are recorded.
            let arguments = call.arguments.as_deref().map(|raw| format!("    {}\n", one_line(raw)));
            self.layout.row(row) + &arguments.unwrap_or_default()
        });
        header + &lines.collect::<String>()
    }
}

fn dash() -> Cell {
    "–".into()
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn call(server: &str, tool: &str) -> CallReport {
        let call = serde_json::json!({
            "time": "2026-01-01T10:20:30.456Z", "session": 1, "pid": 4242, "uid": 1000, "client": "claude-code 2.1.0",
            "profile": "default", "server": server, "tool": tool, "outcome": "error",
            "code": -32602, "duration_ms": 12.3, "request_bytes": 120, "reply_bytes": 160,
        });
        serde_json::from_value(call).expect("a call")
    }

    fn time(of: TimeFormat) -> String {
        format("2026-01-01T10:20:30.456Z", of)
    }

    #[test]
    fn a_pipe_has_every_column_and_cuts_nothing() {
        let (server, tool) = ("s".repeat(60), "t".repeat(120));
        let drawn = CallTable::new(OutputStyle::PLAIN).add(&[call(&server, &tool)]);
        let names = ["TIME", "AGENT", "PID", "UID", "PROFILE", "SERVER", "TOOL", "OUTCOME", "TOOK", "REQUEST", "REPLY"];
        let mut lines = drawn.lines();
        assert!(lines.next().is_some_and(|header| header.split_whitespace().eq(names)), "{drawn}");
        let time = time(TimeFormat::Zoned);
        let expected = format!(
            "{time}  claude-code 2.1.0  4242  1000  default  {server}  {tool}  error -32602  12ms      120    160"
        );
        assert_eq!(lines.next(), Some(&*expected));
    }

    #[test]
    fn a_terminal_drops_columns_before_it_cuts_names() {
        let (date, clock) = (time(TimeFormat::Date), time(TimeFormat::Clock));
        for (width, server, tool, expected) in [
            (
                120,
                "files",
                "list",
                format!(
                    "{date}  {clock}  claude-code 2.1.0  4242  1000  default  files   list  error -32602  12ms      120    160"
                ),
            ),
            (
                100,
                "files",
                "list",
                format!(
                    "{date}  {clock}  claude-code 2.1.0  default  files   list  error -32602  12ms      120    160"
                ),
            ),
            (
                80,
                "files",
                "list",
                format!("{date}  {clock}  claude-code 2.1.0  files   list  error -32602  12ms    160"),
            ),
            (
                80,
                "files",
                "list_allowed_and_more",
                format!("{clock}  claude-code 2.1.0  files   list_allowed_and_more  error -32602  12ms"),
            ),
            (
                80,
                "files",
                "list_directory_with_sizes",
                format!("{clock}  claude-code 2.1.0  files   list_direct…_with_sizes  error -32602  12ms"),
            ),
            (
                60,
                "files",
                "list_directory_with_sizes",
                format!("{clock}  clau…2.1.0  files   list…sizes  error -32602  12ms"),
            ),
        ] {
            let drawn = CallTable::new(OutputStyle::of_width(width)).add(&[call(server, tool)]);
            assert_eq!(drawn.lines().nth(1), Some(&*expected), "at {width}\n{drawn}");
            assert!(drawn.lines().all(|line| line.width() <= width), "at {width}\n{drawn}");
        }
    }

    #[test]
    fn later_calls_widen_columns_while_space_is_left() {
        let mut table = CallTable::new(OutputStyle::of_width(90));
        let (date, clock) = (time(TimeFormat::Date), time(TimeFormat::Clock));
        assert!(table.add(&[call("s", "echo")]).starts_with("DATE        TIME      AGENT"));
        let wider = table.add(&[call("s", "fetch")]);
        assert!(wider.contains("  fetch  ") && !wider.contains("AGENT"), "{wider}");
        let header =
            format!("DATE        TIME      AGENT              SERVER  TOOL{}  OUTCOME       TOOK\n", " ".repeat(17));
        let row = format!("{date}  {clock}  claude-code 2.1.0  s       list_allowed_and_more  error -32602  12ms\n");
        assert_eq!(table.add(&[call("s", "list_allowed_and_more")]), header + &row);
        let narrower = table.add(&[call("s", "echo")]);
        assert_eq!(narrower, row.replace("list_allowed_and_more", &format!("echo{}", " ".repeat(17))));
    }
}
