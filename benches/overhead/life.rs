//! Start and stop times of a daemon, and of a server at each level of its sandbox.

use std::io;

use crate::Effort;
use crate::cores;
use crate::middle::Middle;
use crate::sides::await_tools;
use crate::stats::median;
use crate::table::{Marker, Table};

pub(crate) fn measure(effort: &Effort, table: &mut Table) -> io::Result<()> {
    let mut starts = Vec::new();
    let mut stops = Vec::new();
    for _ in 0..effort.lives {
        let mut daemon = Middle::mcpd(1, 3, cores::MIDDLE)?;
        // Measured until the first agent has a response, which is later than the first accept.
        let mut agent = daemon.connect()?;
        starts.push(daemon.age().as_secs_f64() * 1e3);
        // Wait for the server first, since stopping a starting server measures something else.
        await_tools(&mut agent, 1)?;
        stops.push(daemon.stop()?.as_secs_f64() * 1e3);
    }
    table.single("exec to first agent answered", "ms", median(starts), Marker::AtMost(10.0));
    table.single("SIGTERM to no descendant", "ms", median(stops), Marker::AtMost(150.0));
    sandboxes(effort, table)
}

/// The start of a daemon with one server, until its tools are listed: what levels add to it. Alternates, so that load affects all alike.
fn sandboxes(effort: &Effort, table: &mut Table) -> io::Result<()> {
    let levels = ["none", "scope", "files"];
    let mut starts = levels.map(|_| Vec::new());
    for _ in 0..effort.lives {
        for (level, starts) in levels.iter().zip(&mut starts) {
            let mut daemon = Middle::mcpd_sandboxed(level, cores::MIDDLE)?;
            let mut agent = daemon.connect()?;
            await_tools(&mut agent, 1)?;
            starts.push(daemon.age().as_secs_f64() * 1e3);
            daemon.stop()?;
        }
    }
    let [none, scope, files] = starts.map(median);
    table.single("start of a server without a sandbox", "ms", none, Marker::None);
    table.single("added by sandbox level scope", "ms", scope - none, Marker::AtMost(5.0));
    table.single("added by sandbox level files", "ms", files - none, Marker::None);
    Ok(())
}
