//! Cost of bridging: each server is called by an agent of its own era, and by one of the other era.
//!
//! Every column includes the time of the same server program.

use std::io;

use crate::connection::Era;
use crate::cost::{Row, cpu, lists, measure_rows, p50};
use crate::sides::Side;
use crate::table::{Marker, Table};
use crate::{Effort, cores};

/// Allowed extra time of a bridged call, in µs.
const MORE: Marker = Marker::MoreAtMost(15.0);

const CALLS: [Row<Side>; 2] =
    [("small call, p50", "µs", MORE, p50), ("small call, CPU of the middle", "µs", Marker::None, cpu)];
/// All on one core, so that wake-ups of another core hide nothing.
const CROWDED: [Row<Side>; 1] = [("small call on one core, p50", "µs", MORE, p50)];
/// mcpd answers a list itself.
const LISTS: [Row<Side>; 1] = [("list of 50 tools, p50", "µs", Marker::None, lists)];

/// A table for servers of each era.
pub(crate) fn measure(effort: &Effort) -> io::Result<[(&'static str, Table); 2]> {
    let legacy = measure_of(Era::Legacy, ["direct", "legacy agent", "modern agent"], effort)?;
    let modern = measure_of(Era::Modern, ["direct", "modern agent", "legacy agent"], effort)?;
    Ok([("A legacy server, agents of both eras", legacy), ("A modern server, agents of both eras", modern)])
}

fn measure_of(server: Era, ways: [&'static str; 3], effort: &Effort) -> io::Result<Table> {
    let mut table = Table::new(ways, 1);
    let effort = Effort { rounds: effort.rounds / 3, ..*effort };
    measure_rows(&CALLS, || Side::eras(server, 3, cores::MIDDLE), &effort, &mut table)?;
    measure_rows(&CROWDED, || Side::eras(server, 3, cores::ENDS), &effort, &mut table)?;
    measure_rows(&LISTS, || Side::eras(server, 50, cores::MIDDLE), &effort, &mut table)?;
    Ok(table)
}
