//! Cost of a call at a URL: bare (persistent connection, no parsing), with the HTTP library that mcpd uses, and through mcpd.

pub(crate) mod bare;
mod library;
mod route;
pub(crate) mod serve;
pub(crate) mod server;
mod size;

use std::io;

use self::route::Route;
use self::server::Answers;
use crate::cost::{Row, measure_rows, thousands_a_second};
use crate::echo::LARGE;
use crate::stats::quantile;
use crate::table::{Marker, Table};
use crate::{Effort, cores};

/// Headers of an MCP client, besides target and length.
const FIELDS: [(&str, &str); 5] = [
    ("Accept", "application/json, text/event-stream"),
    ("Content-Type", "application/json"),
    ("Mcp-Session-Id", "0123456789abcdef"),
    ("MCP-Protocol-Version", "2025-11-25"),
    ("User-Agent", "bench"),
];

/// The client has one core, server and mcpd the other. A call wakes another core twice, bare and through mcpd.
const NEAR: [Row<Route>; 2] = [
    ("small call, mcpd on the server's core, p50", "µs", Marker::AddedAtMost(1.3), p50),
    ("the same answered by an event, p50", "µs", Marker::AddedAtMost(1.3), event),
];

/// mcpd has its own core. A call wakes another core twice when bare, four times through mcpd.
const CALLS: [Row<Route>; 8] = [
    ("small call, p50", "µs", Marker::AddedAtMost(1.3), p50),
    ("small call, p99", "µs", Marker::None, p99),
    ("small call, CPU of the middle", "µs", Marker::None, cpu),
    ("small call answered by an event, p50", "µs", Marker::AddedAtMost(1.3), event),
    ("32 in flight, throughput", "1000/s", Marker::None, in_flight_32),
    ("100 in flight, throughput", "1000/s", Marker::None, in_flight_100),
    ("request of 1 MB, p50", "µs", Marker::None, large_requests),
    ("reply of 1 MB, p50", "µs", Marker::None, large_replies),
];

/// All on one core, without wake-ups.
const CROWDED: [Row<Route>; 3] = [
    ("small call on one core, p50", "µs", Marker::None, p50),
    ("small call on one core, CPU of the middle", "µs", Marker::None, cpu),
    ("100 in flight on one core, throughput", "1000/s", Marker::None, in_flight_100),
];

pub(crate) fn measure(effort: &Effort) -> io::Result<Table> {
    let mut table = Table::new(["bare", "hyper", "mcpd"], 0);
    // A third of the rounds is enough, since the differences are large.
    let effort = Effort { rounds: effort.rounds / 3, ..*effort };
    let (ends, middle) = (cores::ENDS, cores::MIDDLE);
    measure_rows(&NEAR, || Route::all(middle, middle), &effort, &mut table)?;
    measure_rows(&CALLS, || Route::all(middle, ends), &effort, &mut table)?;
    measure_rows(&CROWDED, || Route::all(ends, ends), &effort, &mut table)?;
    for window in [32, 100] {
        let connections = Route::mcpd(middle, ends, &[Answers::Whole])?.connections(window)? as f64;
        let what = format!("connections of {window} in flight");
        table.single(&what, "connections", connections, Marker::AtMost(window as f64));
    }
    size::measure(&mut table)?;
    Ok(table)
}

fn p50(route: &mut Route, effort: &Effort) -> io::Result<f64> {
    Ok(quantile(route.times(Answers::Whole, ("echo", "hello"), effort.calls)?, 0.5))
}

fn p99(route: &mut Route, effort: &Effort) -> io::Result<f64> {
    Ok(quantile(route.times(Answers::Whole, ("echo", "hello"), effort.calls)?, 0.99))
}

fn event(route: &mut Route, effort: &Effort) -> io::Result<f64> {
    Ok(quantile(route.times(Answers::Events, ("echo", "hello"), effort.calls)?, 0.5))
}

fn cpu(route: &mut Route, effort: &Effort) -> io::Result<f64> {
    let Some(before) = route.middle_cpu_nanos()? else { return Ok(f64::NAN) };
    route.times(Answers::Whole, ("echo", "hello"), effort.calls)?;
    let after = route.middle_cpu_nanos()?.unwrap_or(before);
    Ok((after - before) as f64 / 1e3 / effort.calls as f64)
}

fn in_flight_32(route: &mut Route, effort: &Effort) -> io::Result<f64> {
    Ok(thousands_a_second(effort.calls, route.in_flight(effort.calls, 32)?))
}

fn in_flight_100(route: &mut Route, effort: &Effort) -> io::Result<f64> {
    Ok(thousands_a_second(effort.calls, route.in_flight(effort.calls, 100)?))
}

fn large_requests(route: &mut Route, effort: &Effort) -> io::Result<f64> {
    Ok(quantile(route.times(Answers::Whole, ("swallow", &"x".repeat(LARGE)), effort.large_calls)?, 0.5))
}

fn large_replies(route: &mut Route, effort: &Effort) -> io::Result<f64> {
    Ok(quantile(route.times(Answers::Whole, ("large", ""), effort.large_calls)?, 0.5))
}

/// The `Content-Length` of a head.
fn content_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let mut lines = head.split(|&byte| byte == b'\n');
    let line = lines.find(|line| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)))?;
    std::str::from_utf8(&line[NAME.len()..]).ok()?.trim().parse().ok()
}
