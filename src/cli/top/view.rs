//! Draws the list of servers of `mcpd top` for a terminal of any size. Pure.

use super::model::{CallRow, CallStats, ServerRow, Sort, ToolRow, TopModel};
use crate::admin::report::StateName;
use crate::calls::report::RunningCallReport;
use crate::cli::calls::format_duration;
use crate::cli::scroll::Scroll;
use crate::cli::style::{Cell, Column, OutputStyle, Tone};
use crate::cli::text::{count, short_duration, wrap};

/// Stands for the server of tools that do not exist.
pub(super) const NO_TOOL: &str = "no such tool";

/// The calls that the last table lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CallTable {
    #[default]
    Slowest,
    Last,
    Running,
}

impl CallTable {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Slowest => Self::Last,
            Self::Last => Self::Running,
            Self::Running => Self::Slowest,
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
    /// Index of the row that the user has chosen.
    pub(super) chosen: Option<usize>,
}

/// Lines for tools and calls, as far as servers leave them no more.
const LINES_BELOW: usize = 6;

pub(super) fn view(model: &TopModel, options: ViewOptions, scroll: &mut Scroll) -> String {
    let ViewOptions { call_table, style, height, .. } = options;
    let head = head(model, style);
    // Each table has a heading, and all but the first a blank line.
    let room = height.saturating_sub(head.lines().count() + 6);
    let all = model.servers.len();
    let servers = all.min((room / 2).max(room.saturating_sub(LINES_BELOW))).max(1);
    let rest = room.saturating_sub(servers);
    let tools = model.tools.len().min(rest / 2);
    let calls = rest - tools;
    let rows = servers - usize::from(servers < all && servers > 1);
    let shown = scroll.fit_with(options.chosen.unwrap_or_default(), all, rows);
    let mut table = server_table(&model.servers[shown.clone()], shown.start, options);
    if all == 0 {
        table += &(style.paint(Tone::Faint, "no server") + "\n");
    }
    if rows < servers {
        table += &(style.paint(Tone::Faint, &scroll.position("servers")) + "\n");
    }
    let mut parts = vec![head, table];
    if tools > 0 {
        parts.push(tool_table(&model.tools[..tools], style));
    }
    parts.extend(calls_of(model, call_table, calls, style));
    parts.join("\n")
}

/// A table of the first calls; `None` if there are none.
pub(super) fn calls_of(model: &TopModel, table: CallTable, most: usize, style: OutputStyle) -> Option<String> {
    let (heading, rows) = match table {
        CallTable::Slowest => ("SLOWEST CALLS", &model.slowest),
        CallTable::Last => ("LAST CALLS", &model.last),
        CallTable::Running => return Some(running_table(&model.running[..model.running.len().min(most)], style)),
    };
    let rows = &rows[..rows.len().min(most)];
    (!rows.is_empty()).then(|| call_table_of(heading, rows, style))
}

fn head(model: &TopModel, style: OutputStyle) -> String {
    let name = format!("mcpd {}", model.version);
    let window = short_duration(model.window_ms);
    let up = short_duration(model.uptime_ms);
    let down = match model.servers.iter().filter(|server| server.is_down).count() {
        0 => String::new(),
        down => count(down, "server") + " down",
    };
    let separator = if down.is_empty() { "" } else { " · " };
    let text = format!("{name} · up {up}{separator}{down} · last {window}: {}", load(model));
    let text = wrap(&text, 0, 2, style.width()).replacen(&name, &style.paint(Tone::Head, &name), 1);
    if down.is_empty() { text + "\n" } else { text.replacen(&down, &style.paint(Tone::Bad, &down), 1) + "\n" }
}

pub(super) fn load(model: &TopModel) -> String {
    let TopModel { calls_per_s, in_flight, missed, stats, .. } = model;
    let errors = if stats.errors == 0 { "no errors".to_owned() } else { count(stats.errors, "error") };
    let missed = if *missed == 0 { String::new() } else { format!(" · {missed} calls not counted") };
    format!("{}, {calls_per_s} a second, {errors} · {in_flight} in flight{missed}", count(stats.calls, "call"))
}

/// Rows of which the first has the index `first`.
fn server_table(servers: &[ServerRow], first: usize, options: ViewOptions) -> String {
    const COLUMNS: [Column; 12] = [
        Column::text("SERVER").min_width(14),
        Column::text("STATE").drop_rank(5),
        Column::number("CALLS").drop_rank(1),
        Column::number("CALLS/S"),
        Column::number("IN FLIGHT").drop_rank(7),
        Column::number("ERRORS").drop_rank(2),
        Column::number("P50").drop_rank(6),
        Column::number("P95"),
        Column::number("P99").drop_rank(8),
        Column::number("MEMORY").drop_rank(3),
        Column::number("CPU").drop_rank(4),
        Column::number("BYTES").drop_rank(9),
    ];
    let ViewOptions { sort, style, chosen, .. } = options;
    let row = |(index, server): (usize, &ServerRow)| {
        let [p50, p95, p99] = percentiles(&server.stats);
        let errors = server.stats.errors;
        [
            name_cell(server.name.as_deref().unwrap_or(NO_TOOL), chosen.map(|chosen| chosen == index)),
            state(server.state),
            server.stats.calls.to_string().into(),
            server.calls_per_s.to_string().into(),
            server.in_flight.to_string().into(),
            Cell::new(if errors > 0 { Tone::Bad } else { Tone::Plain }, errors.to_string()),
            p50,
            p95,
            p99,
            memory(server.memory_bytes),
            cpu(server.cpu_percent),
            size(server.stats.bytes).into(),
        ]
    };
    let columns = COLUMNS.map(|column| match (sort, column.name()) {
        (Sort::Calls, "CALLS") => column.renamed("CALLS▾"),
        (Sort::Latency, "P95") => column.renamed("P95▾"),
        (Sort::Errors, "ERRORS") => column.renamed("ERRORS▾"),
        (Sort::Memory, "MEMORY") => column.renamed("MEMORY▾"),
        (Sort::Cpu, "CPU") => column.renamed("CPU▾"),
        (Sort::Down, "STATE") => column.renamed("STATE▾"),
        (_, "SERVER") => column.renamed(match (sort, chosen) {
            (Sort::Name, Some(_)) => "  SERVER▾",
            (Sort::Name, None) => "SERVER▾",
            (_, Some(_)) => "  SERVER",
            (_, None) => "SERVER",
        }),
        _ => column,
    });
    style.fit_table(&columns, servers.iter().enumerate().map(|(at, server)| row((first + at, server))).collect())
}

/// The name of a row, with a mark if it is the chosen one. Without rows to choose from, `is_chosen` is `None`.
fn name_cell(name: &str, is_chosen: Option<bool>) -> Cell {
    match is_chosen {
        None => name.into(),
        Some(false) => format!("  {name}").into(),
        Some(true) => Cell::new(Tone::Head, format!("▸ {name}")),
    }
}

pub(super) fn memory(bytes: Option<u64>) -> Cell {
    bytes.map_or_else(dash, |bytes| size(bytes).into())
}

/// A percentage in at least two digits.
pub(super) fn cpu(percent: Option<f64>) -> Cell {
    percent.map_or_else(dash, |percent| percentage(percent).into())
}

pub(super) fn percentage(percent: f64) -> String {
    if percent == 0.0 || percent >= 10.0 { format!("{percent:.0}%") } else { format!("{percent:.1}%") }
}

pub(super) fn dash() -> Cell {
    Cell::new(Tone::Faint, "–")
}

pub(super) fn state(state: Option<StateName>) -> Cell {
    let Some(state) = state else { return dash() };
    let tone = match state {
        _ if state.is_down() => Tone::Bad,
        StateName::Ready => Tone::Good,
        StateName::Disabled => Tone::Faint,
        _ => Tone::Plain,
    };
    Cell::new(tone, state.word())
}

pub(super) fn tool_table(tools: &[ToolRow], style: OutputStyle) -> String {
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
            call.client.as_deref().map_or_else(dash, Cell::from),
        ]
    };
    style.fit_table(&columns, calls.iter().map(row).collect())
}

/// The calls without an answer.
pub(super) fn running_table(calls: &[RunningCallReport], style: OutputStyle) -> String {
    const COLUMNS: [Column; 3] =
        [Column::text("IN FLIGHT").min_width(16), Column::number("SINCE"), Column::text("AGENT").min_width(12)];
    let row = |call: &RunningCallReport| {
        let agent = call.client.as_deref().unwrap_or("unnamed");
        let server = call.server.as_deref().or(Some("waiting"));
        [
            name(server, &call.tool).into(),
            short_duration(call.running_ms).into(),
            format!("{agent} (agent {})", call.session).into(),
        ]
    };
    if calls.is_empty() {
        return format!("{}\n{}\n", style.paint(Tone::Head, "IN FLIGHT"), style.paint(Tone::Faint, "no call"));
    }
    style.fit_table(&COLUMNS, calls.iter().map(row).collect())
}

fn name(server: Option<&str>, tool: &str) -> String {
    server.map_or_else(|| tool.to_owned(), |server| format!("{server}/{tool}"))
}

fn percentiles(stats: &CallStats) -> [Cell; 3] {
    [stats.p50_ms, stats.p95_ms, stats.p99_ms].map(|ms| ms.map_or_else(dash, |ms| format_duration(ms).into()))
}

/// A size with at least two significant digits.
pub(super) fn size(bytes: u64) -> String {
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
