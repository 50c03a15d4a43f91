//! Memory of an idle daemon, and of each agent, server and tool.

use std::io;

use crate::connection::Request;
use crate::middle::{Middle, server_names};
use crate::sides::await_tools;
use crate::stats::median;
use crate::table::{Marker, Table};
use crate::{cores, procfs};

/// Enough agents for a measurable size of one.
const AGENTS: usize = 100;

/// A plausible number of servers.
const SERVERS: usize = 10;

/// Servers whose faces are in use, each by one agent.
const FACES: usize = 50;

pub(crate) fn measure(table: &mut Table) -> io::Result<()> {
    idle(table)?;
    session(table)?;
    faces(table)?;
    guards(table)
}

fn idle(table: &mut Table) -> io::Result<()> {
    let mut daemon = Middle::mcpd(0, 0, cores::MIDDLE)?;
    // Served once, so that state set up by the first agent is included.
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

/// The first agent of each face, beside one of the aggregate. All use the same instances.
fn faces(table: &mut Table) -> io::Result<()> {
    let mut daemon = Middle::mcpd(FACES, 3, cores::MIDDLE)?;
    let mut aggregate = daemon.connect()?;
    await_tools(&mut aggregate, FACES)?;
    let processes = procfs::descendants(daemon.pid())?.len();
    let before = procfs::memory_kib(daemon.pid(), "Rss")?;
    let mut agents = Vec::new();
    for server in server_names(FACES) {
        let mut agent = daemon.connect_to_face(&server)?;
        await_tools(&mut agent, 1)?;
        agent.call(&Request::call("echo", "hello"))?;
        agents.push(agent);
    }
    let session = (procfs::memory_kib(daemon.pid(), "Rss")? - before) / FACES as f64;
    table.single("idle session at a face, RSS", "KiB", session, Marker::AtMost(64.0));
    if procfs::descendants(daemon.pid())?.len() != processes {
        return Err(io::Error::other("a face has started another instance of its server"));
    }
    drop(agents);
    daemon.stop()?;
    Ok(())
}

/// Guards run the daemon's executable and share its pages, so their proportional size depends on their number. The private
/// size does not.
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
