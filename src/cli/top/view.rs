//! Draws the model of `mcpd top` for a terminal of any size. Pure.

use super::model::{CallRow, CallStats, ServerRow, Sort, ToolRow, TopModel};
use crate::admin::report::StateName;
use crate::cli::calls::format_duration;
use crate::cli::style::{Cell, Column, OutputStyle, Tone, more_row};
use crate::cli::text::{count, short_duration, wrap};

/// The calls that the last table lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CallTable {
    #[default]
    Slowest,
    Last,
}

impl CallTable {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Slowest => Self::Last,
            Self::Last => Self::Slowest,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ViewOptions {
    pub(super) sort: Sort,
    pub(super) call_table: CallTable,
    pub(super) style: OutputStyle,
    /// Maximum number of lines.
    pub(super) height: usize,
}

pub(super) fn view(model: &TopModel, ViewOptions { sort, call_table, style, height }: ViewOptions) -> String {
    let head = head(model, style);
    // Each table has a heading, and all but the first a blank line.
    let room = height.saturating_sub(head.lines().count() + 6);
    let servers = model.servers.len().min((room / 2).max(room.saturating_sub(8))).max(1);
    let rest = room.saturating_sub(servers);
    let tools = model.tools.len().min(rest / 2);
    let calls = rest - tools;
    let (heading, rows) = match call_table {
        CallTable::Slowest => ("SLOWEST CALLS", &model.slowest),
        CallTable::Last => ("LAST CALLS", &model.last),
    };
    let mut parts = vec![head, server_table(&model.servers, servers, sort, style)];
    if tools > 0 {
        parts.push(tool_table(&model.tools[..tools], style));
    }
    if calls > 0 && !rows.is_empty() {
        parts.push(call_table_of(heading, &rows[..rows.len().min(calls)], style));
    }
    parts.join("\n")
}

fn head(model: &TopModel, style: OutputStyle) -> String {
    let TopModel { version, uptime_ms, window_ms, calls_per_s, in_flight, missed, stats, .. } = model;
    let errors = if stats.errors == 0 { "no errors".to_owned() } else { count(stats.errors, "error") };
    let missed = if *missed == 0 { String::new() } else { format!(" · {missed} calls not counted") };
    let text = format!(
        "mcpd {version} · up {} · last {}: {}, {calls_per_s} a second, {errors} · {in_flight} in flight{missed}",
        short_duration(*uptime_ms),
        short_duration(*window_ms),
        count(stats.calls, "call")
    );
    let text = wrap(&text, 0, 2, style.width());
    let name = format!("mcpd {version}");
    text.replacen(&name, &style.paint(Tone::Head, &name), 1) + "\n"
}

fn server_table(servers: &[ServerRow], shown: usize, sort: Sort, style: OutputStyle) -> String {
    const COLUMNS: [Column; 10] = [
        Column::text("SERVER").min_width(12),
        Column::text("STATE").drop_rank(6),
        Column::number("CALLS").drop_rank(1),
        Column::number("CALLS/S"),
        Column::number("IN FLIGHT").drop_rank(4),
        Column::number("ERRORS").drop_rank(2),
        Column::number("P50").drop_rank(3),
        Column::number("P95"),
        Column::number("P99").drop_rank(5),
        Column::number("BYTES").drop_rank(7),
    ];
    let row = |server: &ServerRow| {
        let [p50, p95, p99] = percentiles(&server.stats);
        let errors = server.stats.errors;
        [
            server.name.as_deref().map_or_else(|| "no such tool".into(), Cell::from),
            state(server.state),
            server.stats.calls.to_string().into(),
            server.calls_per_s.to_string().into(),
            server.in_flight.to_string().into(),
            Cell::new(if errors > 0 { Tone::Bad } else { Tone::Plain }, errors.to_string()),
            p50,
            p95,
            p99,
            size(server.stats.bytes).into(),
        ]
    };
    let columns = COLUMNS.map(|column| match (sort, column.name()) {
        (Sort::Calls, "CALLS") => column.renamed("CALLS▾"),
        (Sort::Latency, "P95") => column.renamed("P95▾"),
        (Sort::Errors, "ERRORS") => column.renamed("ERRORS▾"),
        (Sort::Name, "SERVER") => column.renamed("SERVER▾"),
        _ => column,
    });
    let mut rows: Vec<_> = servers.iter().take(shown).map(row).collect();
    if servers.len() > shown && rows.pop().is_some() {
        rows.extend(more_row("", servers.len(), rows.len()));
    }
    style.fit_table(&columns, rows)
}

fn state(state: Option<StateName>) -> Cell {
    let Some(state) = state else { return Cell::new(Tone::Faint, "–") };
    let tone = match state {
        _ if state.is_down() => Tone::Bad,
        StateName::Ready => Tone::Good,
        StateName::Disabled => Tone::Faint,
        _ => Tone::Plain,
    };
    Cell::new(tone, state.word())
}

fn tool_table(tools: &[ToolRow], style: OutputStyle) -> String {
    const COLUMNS: [Column; 6] = [
        Column::text("TOOL").min_width(16),
        Column::number("CALLS"),
        Column::number("ERRORS").drop_rank(2),
        Column::number("P50").drop_rank(3),
        Column::number("P95").drop_rank(1),
        Column::number("P99").drop_rank(4),
    ];
    let row = |tool: &ToolRow| {
        let [p50, p95, p99] = percentiles(&tool.stats);
        let (calls, errors) = (tool.stats.calls.to_string(), tool.stats.errors.to_string());
        [name(tool.server.as_deref(), &tool.tool).into(), calls.into(), errors.into(), p50, p95, p99]
    };
    style.fit_table(&COLUMNS, tools.iter().map(row).collect())
}

fn call_table_of(heading: &'static str, calls: &[CallRow], style: OutputStyle) -> String {
    let columns = [
        Column::text(heading).min_width(16),
        Column::number("TOOK"),
        Column::text("OUTCOME").drop_rank(1),
        Column::number("AGO").drop_rank(2),
        Column::text("AGENT").min_width(12).drop_rank(3),
    ];
    let row = |call: &CallRow| {
        let tone = match &*call.outcome {
            "ok" => Tone::Good,
            "cancelled" => Tone::Plain,
            _ => Tone::Bad,
        };
        [
            name(call.server.as_deref(), &call.tool).into(),
            format_duration(call.duration_ms).into(),
            Cell::new(tone, call.outcome.as_str()),
            if call.ended_ms < 1000 { "now".into() } else { short_duration(call.ended_ms).into() },
            call.client.as_deref().map_or_else(|| Cell::new(Tone::Faint, "–"), Cell::from),
        ]
    };
    style.fit_table(&columns, calls.iter().map(row).collect())
}

fn name(server: Option<&str>, tool: &str) -> String {
    server.map_or_else(|| tool.to_owned(), |server| format!("{server}/{tool}"))
}

fn percentiles(stats: &CallStats) -> [Cell; 3] {
    [stats.p50_ms, stats.p95_ms, stats.p99_ms]
        .map(|ms| ms.map_or_else(|| Cell::new(Tone::Faint, "–"), |ms| format_duration(ms).into()))
}

/// A size with at least two significant digits.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = (0..units.len()).rev().find(|step| bytes >> (10 * step) > 0).unwrap_or_default();
    let (whole, tenth) = (bytes >> (10 * step), (bytes >> (10 * step.saturating_sub(1))) % 1024 * 10 / 1024);
    if step == 0 || whole >= 10 {
        format!("{whole} {}", units[step])
    } else {
        format!("{whole}.{tenth} {}", units[step])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (10 << 10, "10 KiB"),
            (5 << 20, "5.0 MiB"),
            (u64::MAX, "15 EiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
