//! The drawn view for terminals of several sizes.

use serde_json::{Value, json};

use super::*;
use crate::admin::report::Report;

fn report() -> Report {
    let server = |name: &str, state: &str, in_flight: u32| {
        json!({"name": name, "state": state, "tools_exposed": 3, "tools_denied": 0, "calls": 9, "in_flight": in_flight,
               "errors": 0, "restarts": 0, "skipped_lines": 0, "stray_responses": 0})
    };
    let mut servers: Vec<Value> =
        [("files", "ready", 2), ("git", "ready", 0), ("web", "backoff", 0), ("notes", "idle", 0)]
            .map(|(name, state, in_flight)| server(name, state, in_flight))
            .into();
    servers.extend((1..=12).map(|at| server(&format!("spare-{at}"), "ready", 0)));
    let report = json!({"version": "1.2.3", "pid": 1, "uptime_ms": 7_400_000, "settled": true, "servers": servers,
                        "agents": [], "profiles": []});
    serde_json::from_value(report).expect("a report")
}

fn call(server: Option<&str>, tool: &str, took_ms: f64, outcome: &str) -> crate::calls::report::CallReport {
    let call = json!({"time": "", "session": 1, "uid": 0, "profile": "default", "server": server, "tool": tool,
                      "client": "claude-code 2.1.0", "outcome": outcome, "duration_ms": took_ms, "request_bytes": 120,
                      "reply_bytes": 4000});
    serde_json::from_value(call).expect("a call")
}

/// Calls of the last minute and one older call.
fn model(from: i64, sort: Sort) -> TopModel {
    let mut window = CallWindow::new(-7_400_000);
    window.add(-90_000, &call(Some("files"), "read_file", 9000.0, "ok"));
    for at in 0..200_i32 {
        let (server, tool) = if at % 4 == 0 { ("git", "log") } else { ("files", "read_file") };
        window.add(-59_000 + i64::from(at) * 250, &call(Some(server), tool, f64::from(at + 1), "ok"));
    }
    window.add(-5000, &call(Some("web"), "search", 30_000.0, "timed_out"));
    window.add(-4000, &call(Some("old"), "gone", 0.4, "ok"));
    window.add(-300, &call(None, "write_everything_at_once", 0.02, "unknown_tool"));
    window.missed = 7;
    TopModel::new(&window, &report(), TimeRange { from, now: 0 }, sort)
}

#[test]
fn every_table_fits_into_eighty_by_twenty_four() {
    let drawn = view(
        &model(-MINUTE_MS, Sort::Calls),
        ViewOptions { sort: Sort::Calls, call_table: CallTable::Slowest, style: OutputStyle::of_width(80), height: 23 },
    );
    assert_eq!(drawn, include_str!("tests/80x24.txt"), "\n{drawn}");
}

#[test]
fn a_small_terminal_shows_the_main_columns() {
    let drawn = view(
        &model(-MINUTE_MS, Sort::Latency),
        ViewOptions { sort: Sort::Latency, call_table: CallTable::Last, style: OutputStyle::of_width(40), height: 15 },
    );
    assert_eq!(drawn, include_str!("tests/40x16.txt"), "\n{drawn}");
}

#[test]
fn a_pipe_has_every_column_and_row() {
    let drawn = view(
        &model(i64::MIN, Sort::Errors),
        ViewOptions { sort: Sort::Errors, call_table: CallTable::Slowest, style: OutputStyle::PLAIN, height: 60 },
    );
    assert_eq!(drawn, include_str!("tests/piped.txt"), "\n{drawn}");
}

#[test]
fn view_fits_into_any_terminal_size() {
    let model = model(-MINUTE_MS, Sort::Calls);
    for height in 8..60 {
        for width in [30, 60, 80, 200] {
            let drawn = view(
                &model,
                ViewOptions {
                    sort: Sort::Calls,
                    call_table: CallTable::Last,
                    style: OutputStyle::of_width(width),
                    height,
                },
            );
            // The head may take several lines of a narrow one.
            let lines = drawn.lines().count();
            assert!(lines <= height.max(12), "{lines} lines in {width}×{height}:\n{drawn}");
            let widest = drawn.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap_or_default();
            assert!(widest <= width, "{widest} in {width}×{height}:\n{drawn}");
        }
    }
}

#[test]
fn servers_are_sorted_by_the_chosen_column() {
    for (sort, first) in [(Sort::Calls, "files"), (Sort::Latency, "web"), (Sort::Errors, "web"), (Sort::Name, "files")]
    {
        let model = model(-MINUTE_MS, sort);
        // Calls of unknown tools have no server name and sort first.
        let named = model.servers.iter().find_map(|server| server.name.as_deref());
        assert_eq!(named, Some(first), "{sort:?}");
    }
    let minute = model(-MINUTE_MS, Sort::Calls);
    let files = minute.servers.iter().find(|server| server.name.as_deref() == Some("files")).expect("it is there");
    let stats = files.stats;
    assert_eq!((stats.calls, stats.p50_ms, stats.p95_ms, stats.p99_ms), (150, Some(100.0), Some(191.0), Some(199.0)));
    assert_eq!((files.in_flight, files.calls_per_s, minute.window_ms), (2, 2.5, 60_000));
    assert_eq!(minute.slowest[0].duration_ms, 30_000.0);
    assert_eq!(minute.last[0].outcome, "unknown_tool");
}

#[test]
fn operate_md_shows_what_is_printed() {
    let server = |name: &str, state: &str, in_flight: u32| {
        json!({"name": name, "state": state, "tools_exposed": 3, "tools_denied": 0, "calls": 9, "in_flight": in_flight,
               "errors": 0, "restarts": 0, "skipped_lines": 0, "stray_responses": 0})
    };
    let servers = [server("files", "ready", 2), server("git", "ready", 0), server("web", "backoff", 0)];
    let report = json!({"version": "0.2.0", "pid": 1, "uptime_ms": 7_400_000, "settled": true, "servers": servers,
                        "agents": [], "profiles": []});
    let report: Report = serde_json::from_value(report).expect("a report");
    let mut window = CallWindow::new(-7_400_000);
    for at in 0..200_i32 {
        let (server, tool) = if at % 4 == 0 { ("git", "log") } else { ("files", "read_file") };
        window.add(-59_000 + i64::from(at) * 250, &call(Some(server), tool, f64::from(at + 1), "ok"));
    }
    window.add(-5000, &call(Some("web"), "search", 30_000.0, "timed_out"));
    let model = TopModel::new(&window, &report, TimeRange { from: -MINUTE_MS, now: 0 }, Sort::Calls);
    let drawn = view(
        &model,
        ViewOptions { sort: Sort::Calls, call_table: CallTable::Slowest, style: OutputStyle::PLAIN, height: 16 },
    );
    let page = include_str!("../../../docs/operate.md");
    assert!(page.contains(&format!("```text\n{drawn}```\n")), "operate.md does not have\n{drawn}");
}
