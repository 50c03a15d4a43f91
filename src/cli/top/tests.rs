//! The drawn view for terminals of several sizes.

use serde_json::{Value, json};

use unicode_width::UnicodeWidthStr;

use super::*;
use crate::admin::report::{LineReport, Report};

fn report() -> Report {
    report_of(12)
}

/// Four servers that differ, and `spare` ones that do not.
fn report_of(spare: usize) -> Report {
    let server = |name: &str, state: &str, in_flight: u32| {
        json!({"name": name, "state": state, "tools_exposed": 3, "tools_denied": 0, "calls": 9, "in_flight": in_flight,
               "errors": 0, "restarts": 0, "skipped_lines": 0, "stray_responses": 0})
    };
    let mut servers: Vec<Value> =
        [("files", "ready", 2), ("git", "ready", 0), ("web", "backoff", 0), ("notes", "idle", 0)]
            .map(|(name, state, in_flight)| server(name, state, in_flight))
            .into();
    servers.extend((1..=spare).map(|at| server(&format!("spare-{at}"), "ready", 0)));
    for (index, memory, cpu_ms) in [(0, 83_000_000_u64, 61_500), (1, 5_300_000_000, 400)] {
        servers[index]["usage"] = json!({"memory_bytes": memory, "cpu_ms": cpu_ms, "processes": 2 + index});
    }
    let report = json!({"version": "1.2.3", "pid": 1, "uptime_ms": 7_400_000, "settled": true, "usage_age_ms": 0,
                        "servers": servers,
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
fn window() -> CallWindow {
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
    window
}

/// After two measurements, between which `files` used 50 ms in 2 s.
fn meter(report: &Report) -> CpuMeter {
    let (mut meter, mut earlier) = (CpuMeter::default(), report.clone());
    if let Some(usage) = &mut earlier.servers[0].usage {
        usage.cpu_ms -= 50;
    }
    meter.update(-2000, &earlier);
    meter.update(0, report);
    meter
}

fn model_of(report: &Report, from: i64, sort: Sort, rows: Rows<'_>) -> TopModel {
    let source = Source { window: &window(), report, cpu: &meter(report) };
    TopModel::new(source, Selection { from, now: 0, sort, rows })
}

fn model(from: i64, sort: Sort) -> TopModel {
    model_of(&report(), from, sort, Rows::All)
}

fn options(width: Option<usize>, height: usize) -> ViewOptions {
    let style = width.map_or(OutputStyle::PLAIN, OutputStyle::of_width);
    ViewOptions { sort: Sort::Calls, call_table: CallTable::Slowest, style, height, chosen: None }
}

fn drawn(model: &TopModel, options: ViewOptions) -> String {
    view(model, options, &mut Scroll::default())
}

#[track_caller]
fn expect_drawn(drawn: &str, expected: &str, file: &str) {
    if std::env::var_os("UPDATE_TOP_VIEWS").is_some() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/top/tests").join(file);
        std::fs::write(path, drawn).expect("it is written");
    } else {
        assert_eq!(drawn, expected, "\n{drawn}");
    }
}

macro_rules! expect_file {
    ($drawn:expr, $file:literal) => {
        expect_drawn(&$drawn, include_str!(concat!("tests/", $file)), $file)
    };
}

#[test]
fn every_table_fits_into_eighty_by_twenty_four() {
    expect_file!(drawn(&model(-MINUTE_MS, Sort::Calls), options(Some(80), 23)), "80x24.txt");
}

#[test]
fn a_small_terminal_shows_the_main_columns() {
    let options = ViewOptions { sort: Sort::Latency, call_table: CallTable::Last, ..options(Some(40), 15) };
    expect_file!(drawn(&model(-MINUTE_MS, Sort::Latency), options), "40x16.txt");
}

#[test]
fn a_pipe_has_every_column_and_row() {
    let options = ViewOptions { sort: Sort::Errors, ..options(None, 60) };
    expect_file!(drawn(&model(i64::MIN, Sort::Errors), options), "piped.txt");
}

#[test]
fn sixty_servers_are_whole_in_a_small_and_a_large_terminal() {
    let model = model_of(&report_of(56), -MINUTE_MS, Sort::Memory, Rows::All);
    let last = |height| ViewOptions { sort: Sort::Memory, chosen: Some(60), ..options(Some(80), height) };
    expect_file!(drawn(&model, last(23)), "60-servers-80x24.txt");
    let options = ViewOptions { sort: Sort::Memory, chosen: Some(0), ..options(Some(120), 39) };
    expect_file!(drawn(&model, options), "60-servers-120x40.txt");
}

/// Each row can be chosen, and is shown with its mark.
#[test]
fn view_fits_into_any_terminal_size() {
    for spare in [0, 26, 56] {
        let model = model_of(&report_of(spare), -MINUTE_MS, Sort::Calls, Rows::All);
        for height in 8..60 {
            for width in [30, 60, 80, 120, 200] {
                let mut scroll = Scroll::default();
                for chosen in [0, 1, model.servers.len() - 1, model.servers.len() / 2] {
                    let options = ViewOptions { chosen: Some(chosen), ..options(Some(width), height) };
                    let drawn = view(&model, options, &mut scroll);
                    // The head may take several lines of a narrow one.
                    let lines = drawn.lines().count();
                    assert!(lines <= height.max(12), "{lines} lines in {width}×{height}:\n{drawn}");
                    let widest = drawn.lines().map(UnicodeWidthStr::width).max().unwrap_or_default();
                    assert!(widest <= width, "{widest} in {width}×{height}:\n{drawn}");
                    let marked = drawn.lines().find(|line| line.starts_with("▸ ")).expect("a row is marked");
                    let name = model.servers[chosen].name.as_deref().unwrap_or(view::NO_TOOL);
                    assert!(
                        width < 80 || marked.starts_with(&format!("▸ {name} ")),
                        "{name} in {width}×{height}:\n{drawn}"
                    );
                }
            }
        }
    }
}

#[test]
fn servers_are_sorted_by_the_chosen_column() {
    for (sort, first) in [
        (Sort::Calls, "files"),
        (Sort::Latency, "web"),
        (Sort::Errors, "web"),
        (Sort::Name, "files"),
        (Sort::Memory, "git"),
        (Sort::Cpu, "files"),
        (Sort::Down, "web"),
    ] {
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
    assert_eq!((files.memory_bytes, files.cpu_percent), (Some(83_000_000), Some(2.5)));
    assert_eq!(minute.slowest[0].duration_ms, 30_000.0);
    assert_eq!(minute.last[0].outcome, "unknown_tool");
}

#[test]
fn order_is_kept_while_a_server_is_chosen() {
    let mut model = model(-MINUTE_MS, Sort::Calls);
    let names = |model: &TopModel| model.servers.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
    let mut before = names(&model);
    before.reverse();
    let new = before.remove(3);
    model.keep_order(&before);
    before.push(new);
    assert_eq!(names(&model), before);
}

fn line(text: &str) -> LineReport {
    let line = json!({"time": "not a time", "server": "web", "pid": 7, "text": text});
    serde_json::from_value(line).expect("a line")
}

/// A server that is down, with long lines on stderr and with instances.
fn report_with_details() -> Report {
    let mut report = report_of(0);
    let instance = |number: u32, state: &str| {
        json!({"purpose": format!("pool {number}"), "state": state, "pid": 100 + number, "guard_pid": 200 + number,
               "calls": 9, "in_flight": 1, "errors": 0, "restarts": 0, "uptime_ms": 61_000,
               "usage": {"memory_bytes": 3_000_000, "cpu_ms": 90, "processes": 1}})
    };
    let web = json!({"name": "web", "state": "backoff", "reason": "exited with code 3", "code": "exited",
                     "retry_in_ms": 12_000, "protocol": "2025-11-25", "software": "web 1.0", "tools_exposed": 11,
                     "tools_denied": 3, "tokens": 1200, "prompts_exposed": 1, "calls": 512, "in_flight": 2, "errors": 3,
                     "restarts": 2, "restarts_last_hour": 2, "skipped_lines": 0, "stray_responses": 0,
                     "usage": {"memory_bytes": 6_000_000, "cpu_ms": 3900, "processes": 2}, "max_instances": 10,
                     "limits": {"memory_max": 2_147_483_648_u64, "cpu_weight": 100},
                     "sandbox": {"level": "scope", "enforced": ["processes", "signals"]},
                     "instances": [instance(1, "ready"), instance(2, "starting")],
                     "stderr": ["shown below already"]});
    report.servers[2] = serde_json::from_value(web).expect("a server");
    report
}

fn detail_of(name: Option<&str>, lines: &[LineReport], width: usize, height: usize) -> String {
    let (report, key) = (report_with_details(), name.map(str::to_owned));
    let model = model_of(&report, -MINUTE_MS, Sort::Calls, Rows::One(&key));
    let stderr = match lines {
        [] => Stderr::Nothing("it has written nothing".to_owned()),
        lines => Stderr::Lines(lines.iter().collect()),
    };
    let server = report.servers.iter().find(|server| Some(&*server.name) == name);
    let detail = Detail { key: &key, model: &model, server, cpu: &meter(&report), stderr };
    detail.draw(CallTable::Last, OutputStyle::of_width(width).scrolled(), height)
}

#[test]
fn detail_shows_reason_remedy_load_memory_and_the_last_lines() {
    let mut lines: Vec<_> = (1..=30).map(|number| line(&format!("line {number}"))).collect();
    lines.push(line(&format!("\u{1b}[31mError\u{1b}[0m: {}", "cannot open the index ".repeat(6).trim_end())));
    expect_file!(detail_of(Some("web"), &lines, 80, 23), "detail-80x24.txt");
    expect_file!(detail_of(Some("web"), &lines, 120, 39), "detail-120x40.txt");
}

#[test]
fn detail_of_a_healthy_server_begins_with_its_newest_lines_and_last_calls() {
    let lines: Vec<_> = (1..=30).map(|number| line(&format!("line {number}"))).collect();
    for (width, height) in [(80, 23), (120, 39)] {
        let text = detail_of(Some("git"), &lines, width, height);
        let shown: Vec<_> = text.lines().take(height).collect();
        assert!(shown.contains(&"not a time line 30"), "the newest line is on the first page:\n{text}");
        assert!(shown.iter().any(|line| line.starts_with("LAST CALLS")), "{text}");
    }
    let gone = detail_of(Some("old"), &[], 80, 23);
    assert!(
        gone.starts_with("old · not configured any more\n") && gone.contains("old/gone") && !gone.contains("STDERR"),
        "{gone}"
    );
    let no_tool = detail_of(None, &[], 80, 23);
    assert!(no_tool.contains("write_everything_at_once") && !no_tool.contains("old/gone"), "{no_tool}");
}

#[test]
fn keys_fit_into_eighty_columns() {
    for line in [LIST_LINE, CHOSEN_LINE, DETAIL_LINE, HELP_LINE] {
        assert!(line.width() < 80, "{line}");
    }
    let help = keys::help(CallTable::Slowest, true, OutputStyle::of_width(80));
    assert!(help.lines().count() < 24 && help.lines().all(|line| line.width() <= 80 && !line.contains('…')), "{help}");
}

#[test]
fn filter_selects_servers_by_a_part_of_their_names_and_their_calls() {
    let model = model_of(&report(), -MINUTE_MS, Sort::Calls, Rows::Containing("fil"));
    let names: Vec<_> = model.servers.iter().map(|server| server.name.as_deref()).collect();
    assert_eq!((names, model.stats.calls, model.in_flight), (vec![Some("files")], 150, 2));
    assert!(model.tools.iter().all(|tool| tool.server.as_deref() == Some("files")));
    let none = model_of(&report(), -MINUTE_MS, Sort::Calls, Rows::Containing("no such"));
    let text = drawn(&none, ViewOptions { chosen: Some(0), ..options(Some(80), 23) });
    assert!(text.contains("no server\n") && text.contains(" 0 calls"), "{text}");
}

#[test]
fn filter_is_typed_until_enter_and_cleared_by_escape() {
    let mut filter = Filter::default();
    assert!(!filter.clear(), "there is none");
    filter.start();
    for key in ['S', 'q', ' '] {
        assert_eq!(filter.press(ScreenEvent::Key(key)), None);
    }
    assert_eq!(filter.press(ScreenEvent::Backspace), None);
    assert_eq!((filter.text(), filter.is_typed()), (Some("sq"), true));
    let up = ScreenEvent::Move(Motion::Up);
    assert_eq!(filter.press(up), Some(up), "the list is still moved");
    assert_eq!(filter.press(ScreenEvent::Enter), None);
    assert_eq!(
        (filter.text(), filter.is_typed(), filter.line("keys")),
        (Some("sq"), false, "/sq · Esc shows all · keys".to_owned())
    );
    assert!(filter.clear() && filter.text().is_none());
    filter.start();
    for _ in 0..100_000 {
        assert_eq!(filter.press(ScreenEvent::Key('x')), None);
    }
    assert_eq!(filter.text().map(str::len), Some(64));
}

#[test]
fn operate_md_shows_what_is_printed() {
    let server = |name: &str, state: &str, in_flight: u32, usage: Option<(u64, u64)>| {
        let usage = usage.map(|(memory, cpu_ms)| json!({"memory_bytes": memory, "cpu_ms": cpu_ms, "processes": 2}));
        json!({"name": name, "state": state, "tools_exposed": 3, "tools_denied": 0, "calls": 9, "in_flight": in_flight,
               "errors": 0, "restarts": 0, "skipped_lines": 0, "stray_responses": 0, "usage": usage})
    };
    let servers = [
        server("files", "ready", 2, Some((83_000_000, 61_500))),
        server("git", "ready", 0, Some((31_000_000, 400))),
        server("web", "backoff", 0, None),
    ];
    let report = json!({"version": "0.2.0", "pid": 1, "uptime_ms": 7_400_000, "settled": true, "usage_age_ms": 0,
                        "servers": servers, "agents": [], "profiles": []});
    let report: Report = serde_json::from_value(report).expect("a report");
    let mut window = CallWindow::new(-7_400_000);
    for at in 0..200_i32 {
        let (server, tool) = if at % 4 == 0 { ("git", "log") } else { ("files", "read_file") };
        window.add(-59_000 + i64::from(at) * 250, &call(Some(server), tool, f64::from(at + 1), "ok"));
    }
    window.add(-5000, &call(Some("web"), "search", 30_000.0, "timed_out"));
    let source = Source { window: &window, report: &report, cpu: &meter(&report) };
    let model = TopModel::new(source, Selection { from: -MINUTE_MS, now: 0, sort: Sort::Calls, rows: Rows::All });
    let drawn = drawn(&model, options(None, 16));
    let page = include_str!("../../../docs/operate.md");
    assert!(page.contains(&format!("```text\n{drawn}```\n")), "operate.md does not have\n{drawn}");
}
