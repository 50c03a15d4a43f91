//! The three paths to an echo server.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::connection::{Connection, Era, Request};
use crate::middle::{Middle, pause};
use crate::procfs;

/// Time limit until a server's tools are listed.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One path to an echo server, with an initialised agent.
pub(crate) struct Side {
    pub(crate) connection: Connection,
    /// Further agents, each with its connection.
    pub(crate) agents: Vec<Connection>,
    /// The era of the agents.
    era: Era,
    prefix: &'static str,
    process: Process,
    /// The launched command between connection and daemon.
    launched: Option<Child>,
}

/// The process that must live as long as the connection.
enum Process {
    Server(Child),
    Middle(Middle),
}

impl Side {
    /// Direct, relay, mcpd. The servers have `tools` tools; relay and mcpd run on `core`.
    pub(crate) fn all(tools: usize, core: usize) -> io::Result<[Self; 3]> {
        Ok([
            Self::direct(Era::Legacy, tools)?,
            Self::behind(Middle::relay(tools, core)?, "")?,
            Self::behind(Middle::mcpd(1, tools, core)?, "echo__")?,
        ])
    }

    /// To a server of this era: direct, an agent of the same era behind mcpd, one of the other era behind another mcpd.
    pub(crate) fn eras(server: Era, tools: usize, core: usize) -> io::Result<[Self; 3]> {
        let (same, other) = (server, if server == Era::Legacy { Era::Modern } else { Era::Legacy });
        let behind = |era| Self::behind(Middle::mcpd_of(server, 1, tools, core)?, "echo__")?.speaking(era);
        Ok([Self::direct(server, tools)?, behind(same)?, behind(other)?])
    }

    /// The same through launched commands: `mcpd connect`, or a byte copy for the relay.
    pub(crate) fn all_launched(tools: usize, core: usize) -> io::Result<[Self; 3]> {
        let [direct, relay, mcpd] = Self::all(tools, core)?;
        Ok([direct, relay.launched()?, mcpd.launched()?])
    }

    fn direct(era: Era, tools: usize) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([era.mode(), &tools.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (server, connection) = start(command)?;
        Ok(Self { connection, agents: Vec::new(), era, prefix: "", process: Process::Server(server), launched: None })
    }

    /// With an agent of this era. A modern agent needs no handshake.
    fn speaking(mut self, era: Era) -> io::Result<Self> {
        if let (Era::Modern, Process::Middle(middle)) = (era, &mut self.process) {
            self.connection = middle.connect_when_listening()?;
        }
        self.era = era;
        Ok(self)
    }

    fn launched(mut self) -> io::Result<Self> {
        if let Process::Middle(middle) = &self.process {
            let (launched, mut connection) = start(middle.launched()?)?;
            await_tools(&mut connection, 1)?;
            (self.connection, self.launched) = (connection, Some(launched));
        }
        Ok(self)
    }

    fn behind(mut middle: Middle, prefix: &'static str) -> io::Result<Self> {
        let mut connection = middle.connect()?;
        await_tools(&mut connection, 1)?;
        let (agents, process) = (Vec::new(), Process::Middle(middle));
        Ok(Self { connection, agents, era: Era::Legacy, prefix, process, launched: None })
    }

    /// A call of a tool of the echo server, which has another name behind mcpd.
    pub(crate) fn request(&self, tool: &str, message: &str) -> Request {
        Request::call_of(self.era, &format!("{}{tool}", self.prefix), message)
    }

    /// The request for a list of the tools.
    pub(crate) fn list_request(&self) -> Request {
        Request::list_of(self.era)
    }

    /// CPU time of relay or mcpd, if in the path.
    pub(crate) fn middle_cpu_nanos(&self) -> io::Result<u64> {
        match &self.process {
            Process::Server(_) => Ok(0),
            Process::Middle(middle) => procfs::cpu_nanos(middle.pid()),
        }
    }

    /// Adds agents. A direct server accepts only one.
    pub(crate) fn add_agents(&mut self, count: usize) -> io::Result<()> {
        if let Process::Middle(middle) = &mut self.process {
            for _ in 0..count {
                self.agents.push(middle.connect()?);
            }
        }
        Ok(())
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let server = match &mut self.process {
            Process::Server(server) => Some(server),
            Process::Middle(_) => None,
        };
        for child in server.into_iter().chain(&mut self.launched) {
            // Both fail only if it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a server, or a command that leads to one, and initialises an agent.
fn start(mut command: Command) -> io::Result<(Child, Connection)> {
    let mut child = command.spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the process has no pipes"));
    };
    let mut connection = Connection::to_pipes(stdin, stdout);
    connection.initialize()?;
    Ok((child, connection))
}

/// Waits until `servers` servers have listed, since a daemon serves before its servers are ready.
pub(crate) fn await_tools(connection: &mut Connection, servers: usize) -> io::Result<()> {
    let start = Instant::now();
    loop {
        connection.call(&Request::new("tools/list", "{}"))?;
        if memchr::memmem::find_iter(connection.last(), b"echo\",").count() == servers {
            return Ok(());
        }
        if start.elapsed() > TIMEOUT {
            return Err(io::Error::other("the servers' tools are not listed"));
        }
        pause();
    }
}
