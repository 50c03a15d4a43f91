//! Cost of a call: time, CPU and throughput, on all three paths in turn.

use std::io;
use std::time::{Duration, Instant};

use crate::Effort;
use crate::connection::{Connection, Request};
use crate::cores;
use crate::echo::LARGE;
use crate::sides::Side;
use crate::stats::quantile;
use crate::table::{Marker, Table};

/// Calls in flight, and agents.
const MANY: usize = 32;

/// A row of the table: name, unit, marker, and the function that measures one value.
pub(crate) type Row<Route> = (&'static str, &'static str, Marker, fn(&mut Route, &Effort) -> io::Result<f64>);

/// With a server of three tools.
const CALLS: [Row<Side>; 7] = [
    ("small call, p50", "µs", Marker::RatioAtMost(1.15), p50),
    ("small call, p99", "µs", Marker::None, p99),
    ("small call, CPU of the middle", "µs", Marker::RatioAtMost(1.3), cpu),
    ("32 in flight, throughput", "1000/s", Marker::RatioAtLeast(0.75), in_flight),
    // The relay starts a server for each agent, so the two paths differ.
    ("32 agents, throughput (relay: 32 servers)", "1000/s", Marker::None, many_agents),
    ("request of 1 MB, p50", "µs", Marker::RatioAtMost(1.3), large_requests),
    ("reply of 1 MB, p50", "µs", Marker::RatioAtMost(1.3), large_replies),
];

/// All on one core: without wake-ups of another core on both sides, the ratio is at its worst.
const CROWDED: [Row<Side>; 2] = [
    ("small call on one core, p50", "µs", Marker::None, p50),
    ("small call on one core, CPU of the middle", "µs", Marker::None, cpu),
];

/// Through a launched command: a byte copy without parsing, and `mcpd connect`.
const LAUNCHED: [Row<Side>; 1] = [("small call by `mcpd connect`, p50", "µs", Marker::RatioAtMost(1.15), p50)];

/// With a server of 1,000 tools. mcpd answers lists itself, so the marker is an absolute time.
const LISTS: [Row<Side>; 1] = [("list of 1,000 tools, p50", "ms", Marker::AtMost(2.0), long_lists)];

pub(crate) fn measure(effort: &Effort, table: &mut Table) -> io::Result<()> {
    measure_rows(&CALLS, || Side::all(3, cores::MIDDLE), effort, table)?;
    measure_rows(&CROWDED, || Side::all(3, cores::ENDS), effort, table)?;
    measure_rows(&LAUNCHED, || Side::all_launched(3, cores::MIDDLE), effort, table)?;
    measure_rows(&LISTS, || Side::all(1000, cores::MIDDLE), effort, table)
}

/// Every round starts new processes, so that memory layout averages out.
pub(crate) fn measure_rows<Route, const N: usize>(
    rows: &[Row<Route>; N],
    start: impl Fn() -> io::Result<[Route; 3]>,
    effort: &Effort,
    table: &mut Table,
) -> io::Result<()> {
    let mut values = [const { [const { Vec::new() }; 3] }; N];
    for round in 0..effort.rounds {
        let mut ways = start()?;
        for ((_, _, _, measure), values) in rows.iter().zip(&mut values) {
            // The order of the three paths rotates.
            for turn in 0..3 {
                let route = (round + turn) % 3;
                values[route].push(measure(&mut ways[route], effort)?);
            }
        }
    }
    for ((what, unit, marker, _), values) in rows.iter().zip(&values) {
        table.compare(what, unit, values, *marker);
    }
    Ok(())
}

pub(crate) fn p50(side: &mut Side, effort: &Effort) -> io::Result<f64> {
    small_calls(side, effort, 0.5)
}

fn p99(side: &mut Side, effort: &Effort) -> io::Result<f64> {
    small_calls(side, effort, 0.99)
}

fn small_calls(side: &mut Side, effort: &Effort, rank: f64) -> io::Result<f64> {
    let request = side.request("echo", "hello");
    Ok(quantile(times(&mut side.connection, &request, effort.calls)?, rank))
}

pub(crate) fn cpu(side: &mut Side, effort: &Effort) -> io::Result<f64> {
    let request = side.request("echo", "hello");
    let before = side.middle_cpu_nanos()?;
    times(&mut side.connection, &request, effort.calls)?;
    Ok((side.middle_cpu_nanos()? - before) as f64 / 1e3 / effort.calls as f64)
}

fn in_flight(side: &mut Side, effort: &Effort) -> io::Result<f64> {
    let request = side.request("echo", "hello");
    let duration = side.connection.pipeline(&request, effort.calls, MANY)?;
    Ok(thousands_a_second(effort.calls, duration))
}

fn many_agents(side: &mut Side, effort: &Effort) -> io::Result<f64> {
    let request = side.request("echo", "hello");
    side.add_agents(MANY)?;
    let start = Instant::now();
    for _ in 0..effort.calls / MANY {
        all_at_once(&mut side.agents, &request)?;
    }
    let calls = effort.calls / MANY * side.agents.len();
    side.agents.clear();
    Ok(thousands_a_second(calls, start.elapsed()))
}

fn all_at_once(agents: &mut [Connection], request: &Request) -> io::Result<()> {
    for agent in agents.iter_mut() {
        agent.send(request)?;
    }
    agents.iter_mut().try_for_each(Connection::receive)
}

fn large_requests(side: &mut Side, effort: &Effort) -> io::Result<f64> {
    let request = side.request("swallow", &"x".repeat(LARGE));
    Ok(quantile(times(&mut side.connection, &request, effort.large_calls)?, 0.5))
}

fn large_replies(side: &mut Side, effort: &Effort) -> io::Result<f64> {
    let request = side.request("large", "");
    Ok(quantile(times(&mut side.connection, &request, effort.large_calls)?, 0.5))
}

fn long_lists(side: &mut Side, effort: &Effort) -> io::Result<f64> {
    Ok(lists(side, effort)? / 1e3)
}

/// Microseconds of a list of tools.
pub(crate) fn lists(side: &mut Side, effort: &Effort) -> io::Result<f64> {
    let request = side.list_request();
    Ok(quantile(times(&mut side.connection, &request, effort.large_calls)?, 0.5))
}

/// Microseconds of each call.
pub(crate) fn times(connection: &mut Connection, request: &Request, calls: usize) -> io::Result<Vec<f64>> {
    (0..calls).map(|_| Ok(connection.call(request)?.as_secs_f64() * 1e6)).collect()
}

pub(crate) fn thousands_a_second(calls: usize, duration: Duration) -> f64 {
    calls as f64 / duration.as_secs_f64() / 1e3
}
