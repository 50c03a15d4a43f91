//! Memory of an idle stream.

use std::io;
use std::os::unix::net::UnixStream;

use super::agent::HttpAgent;
use crate::connection::Era;
use crate::sides::await_tools;
use crate::table::{Marker, Table};
use crate::{cores, procfs};

const STREAMS: usize = 1000;

pub(super) fn measure(era: Era, table: &mut Table) -> io::Result<()> {
    let (mut daemon, _) = super::daemon(cores::MIDDLE)?;
    await_tools(&mut daemon.connect()?, 1)?;
    let open = || {
        let mut agent = HttpAgent::open(UnixStream::connect(daemon.socket())?, era, "")?;
        agent.listen()?;
        Ok(agent)
    };
    // State that the first one sets up is no part of each.
    let _first: HttpAgent = open()?;
    let before = procfs::memory_kib(daemon.pid(), "Rss")?;
    let _streams = (0..STREAMS).map(|_| open()).collect::<io::Result<Vec<_>>>()?;
    let each = (procfs::memory_kib(daemon.pid(), "Rss")? - before) / STREAMS as f64;
    table.single("each of 1,000 idle streams, RSS", "KiB", each, Marker::AtMost(32.0));
    Ok(())
}
