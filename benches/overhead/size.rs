//! How much memory a daemon takes that does nothing, and each thing that is added to it.

use std::io;

use crate::connection::Request;
use crate::middle::Middle;
use crate::sides::await_tools;
use crate::stats::median;
use crate::table::{Marker, Table};
use crate::{cores, procfs};

/// Enough agents for one to weigh something.
const AGENTS: usize = 100;

/// What a person may well have configured.
const SERVERS: usize = 10;

pub(crate) fn measure(table: &mut Table) -> io::Result<()> {
    idle(table)?;
    session(table)?;
    guards(table)
}

fn idle(table: &mut Table) -> io::Result<()> {
    let mut daemon = Middle::mcpd(0, 0, cores::MIDDLE)?;
    // Served once, so that what is set up at the first agent counts as well.
    drop(daemon.connect()?);
    let pid = daemon.pid();
    table.single("idle daemon, RSS", "MiB", procfs::memory_kib(pid, "Rss")? / 1024.0, Marker::AtMost(12.0));
    table.single("idle daemon, PSS", "MiB", procfs::memory_kib(pid, "Pss")? / 1024.0, Marker::None);
    daemon.stop()?;
    Ok(())
}

fn session(table: &mut Table) -> io::Result<()> {
    let mut daemon = Middle::mcpd(1, 3, cores::MIDDLE)?;
    let request = Request::call("echo__echo", "hello");
    let mut first = daemon.connect()?;
    await_tools(&mut first, 1)?;
    first.call(&request)?;
    let before = procfs::memory_kib(daemon.pid(), "Rss")?;
    let mut agents = Vec::new();
    for _ in 0..AGENTS {
        let mut agent = daemon.connect()?;
        agent.call(&request)?;
        agents.push(agent);
    }
    let session = (procfs::memory_kib(daemon.pid(), "Rss")? - before) / AGENTS as f64;
    table.single("each further session, RSS", "KiB", session, Marker::AtMost(64.0));
    drop(agents);
    daemon.stop()?;
    Ok(())
}

/// A guard runs the daemon's executable, whose pages are shared out among all that run it: so the proportional size depends on
/// their number, and what is a guard's own does not.
fn guards(table: &mut Table) -> io::Result<()> {
    let mut daemon = Middle::mcpd(SERVERS, 3, cores::MIDDLE)?;
    await_tools(&mut daemon.connect()?, SERVERS)?;
    let mut guards = procfs::descendants(daemon.pid())?;
    guards.retain(|&pid| procfs::name(pid).is_ok_and(|name| name == "mcpd-guard"));
    let mib = |key| -> io::Result<f64> {
        let sizes: Vec<f64> = guards.iter().map(|&pid| procfs::memory_kib(pid, key)).collect::<Result<_, _>>()?;
        Ok(median(sizes) / 1024.0)
    };
    table.single("guard, one of ten, PSS", "MiB", mib("Pss")?, Marker::AtMost(0.7));
    table.single("guard, memory of its own", "MiB", mib("Private_Dirty")?, Marker::None);
    daemon.stop()?;
    Ok(())
}
