//! The picture drawn for a terminal of any size. Pure.

use super::model::{CallLine, Picture, ServerLine, Sort, Told, ToolLine};
use crate::admin::report::NEEDS_LOGIN;
use crate::cli::calls::took;
use crate::cli::style::{Cell, Column, OutputStyle, Tone};
use crate::cli::text::{count, short_duration, wrap};

/// What the last table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Below {
    #[default]
    Slowest,
    Last,
}

/// The picture in at most `height` lines.
pub(super) fn view(picture: &Picture, (sort, below): (Sort, Below), style: OutputStyle, height: usize) -> String {
    // Each table has a heading, and all but the first a blank line.
    let room = height.saturating_sub(head(picture, style).lines().count() + 6);
    let servers = picture.servers.len().min((room / 2).max(room.saturating_sub(8))).max(1);
    let rest = room.saturating_sub(servers);
    let tools = picture.tools.len().min(rest / 2);
    let calls = rest - tools;
    let (heading, lines) = match below {
        Below::Slowest => ("SLOWEST CALLS", &picture.slowest),
        Below::Last => ("LAST CALLS", &picture.last),
    };
    let mut parts = vec![head(picture, style), of_servers(&picture.servers, servers, sort, style)];
    if tools > 0 {
        parts.push(of_tools(&picture.tools, tools, style));
    }
    if calls > 0 && !lines.is_empty() {
        parts.push(of_calls(heading, &lines[..lines.len().min(calls)], style));
    }
    parts.join("\n")
}

fn head(picture: &Picture, style: OutputStyle) -> String {
    let Picture { version, uptime_ms, window_ms, calls_per_s, in_flight, missed, sums, .. } = picture;
    let errors = if sums.errors == 0 { "no errors".to_owned() } else { count(sums.errors, "error") };
    let unseen = if *missed == 0 { String::new() } else { format!(" · {missed} calls too fast to be seen") };
    let said = format!(
        "mcpd {version} · up {} · last {}: {}, {calls_per_s} a second, {errors} · {in_flight} in flight{unseen}",
        short_duration(*uptime_ms),
        short_duration(*window_ms),
        count(sums.calls, "call")
    );
    let said = wrap(&said, 0, 2, style.width());
    let name = format!("mcpd {version}");
    said.replacen(&name, &style.paint(Tone::Head, &name), 1) + "\n"
}

fn of_servers(all: &[ServerLine], shown: usize, sort: Sort, style: OutputStyle) -> String {
    const COLUMNS: [Column; 10] = [
        Column::text("SERVER").least(12),
        Column::text("STATE").rank(6),
        Column::number("CALLS").rank(1),
        Column::number("CALLS/S"),
        Column::number("IN FLIGHT").rank(4),
        Column::number("ERRORS").rank(2),
        Column::number("P50").rank(3),
        Column::number("P95"),
        Column::number("P99").rank(5),
        Column::number("BYTES").rank(7),
    ];
    let row = |server: &ServerLine| {
        let [p50, p95, p99] = percentiles(&server.sums);
        let errors = server.sums.errors;
        [
            server.name.as_deref().map_or_else(|| "no such tool".into(), Cell::from),
            state(server.state.as_deref()),
            server.sums.calls.to_string().into(),
            server.calls_per_s.to_string().into(),
            server.in_flight.to_string().into(),
            Cell::new(if errors > 0 { Tone::Bad } else { Tone::Plain }, errors.to_string()),
            p50,
            p95,
            p99,
            size(server.sums.bytes).into(),
        ]
    };
    let columns = COLUMNS.map(|column| match (sort, column.name()) {
        (Sort::Calls, "CALLS") => column.named("CALLS▾"),
        (Sort::Latency, "P95") => column.named("P95▾"),
        (Sort::Errors, "ERRORS") => column.named("ERRORS▾"),
        (Sort::Name, "SERVER") => column.named("SERVER▾"),
        _ => column,
    });
    let mut rows: Vec<_> = all.iter().take(shown).map(row).collect();
    if all.len() > shown && rows.pop().is_some() {
        let mut more = [const { String::new() }; 10].map(Cell::from);
        more[0] = Cell::new(Tone::Faint, format!("… {} more", all.len() - rows.len()));
        rows.push(more);
    }
    style.fitted(&columns, rows)
}

fn state(state: Option<&str>) -> Cell {
    match state {
        Some(word @ ("failed" | "backoff" | "unresponsive" | NEEDS_LOGIN)) => Cell::new(Tone::Bad, word),
        Some(word @ "ready") => Cell::new(Tone::Good, word),
        Some(word @ "disabled") => Cell::new(Tone::Faint, word),
        Some(word) => word.into(),
        None => Cell::new(Tone::Faint, "–"),
    }
}

fn of_tools(all: &[ToolLine], shown: usize, style: OutputStyle) -> String {
    const COLUMNS: [Column; 6] = [
        Column::text("TOOL").least(16),
        Column::number("CALLS"),
        Column::number("ERRORS").rank(2),
        Column::number("P50").rank(3),
        Column::number("P95").rank(1),
        Column::number("P99").rank(4),
    ];
    let row = |tool: &ToolLine| {
        let [p50, p95, p99] = percentiles(&tool.sums);
        let (calls, errors) = (tool.sums.calls.to_string(), tool.sums.errors.to_string());
        [name(tool.server.as_deref(), &tool.tool).into(), calls.into(), errors.into(), p50, p95, p99]
    };
    style.fitted(&COLUMNS, all.iter().take(shown).map(row).collect())
}

fn of_calls(heading: &'static str, calls: &[CallLine], style: OutputStyle) -> String {
    let columns = [
        Column::text(heading).least(16),
        Column::number("TOOK"),
        Column::text("OUTCOME").rank(1),
        Column::number("AGO").rank(2),
        Column::text("AGENT").least(12).rank(3),
    ];
    let row = |call: &CallLine| {
        let tone = match &*call.outcome {
            "ok" => Tone::Good,
            "cancelled" => Tone::Plain,
            _ => Tone::Bad,
        };
        [
            name(call.server.as_deref(), &call.tool).into(),
            took(call.duration_ms).into(),
            Cell::new(tone, call.outcome.as_str()),
            if call.ended_ms < 1000 { "now".into() } else { short_duration(call.ended_ms).into() },
            call.client.as_deref().map_or_else(|| Cell::new(Tone::Faint, "–"), Cell::from),
        ]
    };
    style.fitted(&columns, calls.iter().map(row).collect())
}

fn name(server: Option<&str>, tool: &str) -> String {
    server.map_or_else(|| tool.to_owned(), |server| format!("{server}/{tool}"))
}

fn percentiles(sums: &Told) -> [Cell; 3] {
    [sums.p50_ms, sums.p95_ms, sums.p99_ms]
        .map(|ms| ms.map_or_else(|| Cell::new(Tone::Faint, "–"), |ms| took(ms).into()))
}

/// Bytes in three digits or so.
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
