//! Memory of an idle server at a URL.

use std::io;

use super::server::{Answers, Server};
use crate::middle::{Middle, pause};
use crate::table::{Marker, Table};
use crate::{cores, procfs, sides};

/// Enough servers for a measurable size of one.
const SERVERS: usize = 50;

pub(crate) fn measure(table: &mut Table) -> io::Result<()> {
    let [none, one, all] = [0, 1, SERVERS].map(daemon_kib);
    let (none, one, all) = (none?, one?, all?);
    table.single("the first idle server, RSS", "KiB", one - none, Marker::None);
    let further = (all - one) / (SERVERS - 1) as f64;
    // hyper keeps 21 KiB for the connection of an idle stream. Reading its body without hyper saved them and took 500 lines.
    table.single("each further idle server, RSS", "KiB", further, Marker::AtMost(96.0));
    Ok(())
}

/// Memory of a daemon with this many servers at separate addresses, with listed tools and open streams.
fn daemon_kib(servers: usize) -> io::Result<f64> {
    let server = Server::start(cores::ENDS, servers.max(1))?;
    let configured = server.addresses.iter().take(servers).zip(0..);
    let configured: String = configured
        .map(|(&address, number)| server.configured(&format!("server-{number}"), address, Answers::Whole))
        .collect();
    let mut daemon = Middle::mcpd_with(&configured, cores::MIDDLE)?;
    sides::await_tools(&mut daemon.connect()?, servers)?;
    while server.seen()?.1 < servers {
        pause();
    }
    procfs::memory_kib(daemon.pid(), "Rss")
}
