//! The three ways to an echo server.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::connection::{Connection, Request};
use crate::middle::{Middle, pause};
use crate::{echo, procfs};

/// How long a server may take until its tools are listed.
const PATIENCE: Duration = Duration::from_secs(20);

/// One way to an echo server, with an initialised agent at its end.
pub(crate) struct Side {
    pub(crate) connection: Connection,
    /// Further agents, each with a connection of its own.
    pub(crate) agents: Vec<Connection>,
    prefix: &'static str,
    process: Process,
    /// What joins the connection to it.
    launched: Option<Child>,
}

/// What has to live as long as the connection.
enum Process {
    Server(Child),
    Middle(Middle),
}

impl Side {
    /// Direct, relay, mcpd; the servers have `tools` tools, and what is in the middle runs on `core`.
    pub(crate) fn all(tools: usize, core: usize) -> io::Result<[Self; 3]> {
        Ok([
            Self::direct(tools)?,
            Self::behind(Middle::relay(tools, core)?, "")?,
            Self::behind(Middle::mcpd(1, tools, core)?, "echo__")?,
        ])
    }

    /// The same for agents that can only launch commands: what is in the middle is reached by `mcpd connect`, or by a copy of bytes.
    pub(crate) fn all_launched(tools: usize, core: usize) -> io::Result<[Self; 3]> {
        let [direct, relay, mcpd] = Self::all(tools, core)?;
        Ok([direct, relay.launched()?, mcpd.launched()?])
    }

    fn direct(tools: usize) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([echo::MODE, &tools.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (server, connection) = start(command)?;
        Ok(Self { connection, agents: Vec::new(), prefix: "", process: Process::Server(server), launched: None })
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
        Ok(Self { connection, agents: Vec::new(), prefix, process: Process::Middle(middle), launched: None })
    }

    /// A call of a tool of the echo server, which has another name behind mcpd.
    pub(crate) fn request(&self, tool: &str, message: &str) -> Request {
        Request::call(&format!("{}{tool}", self.prefix), message)
    }

    /// CPU time of what is in the middle, if anything is.
    pub(crate) fn middle_cpu_nanos(&self) -> io::Result<u64> {
        match &self.process {
            Process::Server(_) => Ok(0),
            Process::Middle(middle) => procfs::cpu_nanos(middle.pid()),
        }
    }

    /// More agents; a server of our own has room for one.
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

/// Starts a server, or what leads to one, and introduces an agent.
fn start(mut command: Command) -> io::Result<(Child, Connection)> {
    let mut child = command.spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the process has no pipes"));
    };
    let mut connection = Connection::to_pipes(stdin, stdout);
    connection.initialize()?;
    Ok((child, connection))
}

/// A daemon serves before its servers are up. `servers` of them have the tool `echo`.
pub(crate) fn await_tools(connection: &mut Connection, servers: usize) -> io::Result<()> {
    let start = Instant::now();
    loop {
        connection.call(&Request::new("tools/list", "{}"))?;
        if memchr::memmem::find_iter(connection.last(), b"echo\",").count() == servers {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(io::Error::other("the servers' tools are not listed"));
        }
        pause();
    }
}
