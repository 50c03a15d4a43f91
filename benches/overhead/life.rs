//! Start and stop times of a daemon, of a server at each level of its sandbox, and of one with many pinned tools.

use std::io;
use std::path::Path;

use crate::connection::Era;
use crate::middle::{Middle, new_directory, pause};
use crate::sides::await_tools;
use crate::stats::median;
use crate::table::{Marker, Table};
use crate::{Effort, cores};

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
    sandboxes(effort, table)?;
    pins(effort, table)
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

/// The start of a daemon with one server of 1,000 remembered tools, until they are listed: what their comparison with approved ones adds.
fn pins(effort: &Effort, table: &mut Table) -> io::Result<()> {
    let (program, mode) = (std::env::current_exe()?, Era::Legacy.mode());
    let server = format!("[servers.echo]\ncommand = '{}'\nargs = ['{mode}', '1000']\n", program.display());
    let rules = ["follow", "hold"];
    let directories = [new_directory()?, new_directory()?];
    let start = |directory, rule: &str| {
        let mut daemon = Middle::mcpd_in(directory, &format!("{server}changes = '{rule}'\n"), cores::MIDDLE)?;
        await_tools(&mut daemon.connect()?, 1)?;
        io::Result::Ok(daemon)
    };
    for directory in &directories {
        // The first tools are approved.
        let daemon = start(directory, "warn")?;
        while !is_any_pinned(&directory.path().join("state/mcpd/pins")) {
            pause();
        }
        daemon.stop()?;
    }
    let mut starts = rules.map(|_| Vec::new());
    for _ in 0..effort.lives {
        for ((rule, directory), starts) in rules.iter().zip(&directories).zip(&mut starts) {
            let daemon = start(directory, rule)?;
            starts.push(daemon.age().as_secs_f64() * 1e3);
            daemon.stop()?;
        }
    }
    let [follow, hold] = starts.map(median);
    table.single("start with 1,000 remembered tools", "ms", follow, Marker::None);
    table.single("added by comparing them with approved ones", "ms", hold - follow, Marker::AtMost(5.0));
    Ok(())
}

fn is_any_pinned(pins: &Path) -> bool {
    let directories = std::fs::read_dir(pins).into_iter().flatten().flatten();
    directories.filter_map(|directory| std::fs::read_dir(directory.path()).ok()).flatten().flatten().next().is_some()
}
