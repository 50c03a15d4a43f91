//! The HTTP server: a child process that runs [`super::serve`].

use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use super::bare::Bare;

/// The hidden argument that makes this program the server; a core and how many addresses it listens on follow it.
pub(crate) const MODE: &str = "http-server";

/// The format of responses, selected by the path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    /// A body.
    Whole,
    /// An event of a stream.
    Events,
}

impl Answers {
    pub(crate) const ALL: [Self; 2] = [Self::Whole, Self::Events];

    /// The path without its slash, and the server's name in a configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Events => "events",
        }
    }
}

/// The path that reports the server's connections and open streams.
pub(super) const SEEN: &str = "/seen";

/// A running server, ended when dropped.
pub(crate) struct Server {
    process: Child,
    /// Its address.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Server {
    pub(crate) fn start(core: usize, addresses: usize) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([MODE, &core.to_string(), &addresses.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let stdout = process.stdout.take().ok_or_else(|| io::Error::other("the server has no stdout"))?;
        let lines = io::BufReader::new(stdout).lines().take(addresses);
        let addresses = lines.map(|line| line?.parse().map_err(io::Error::other)).collect::<io::Result<_>>()?;
        Ok(Self { process, addresses })
    }

    /// Its configuration for mcpd.
    pub(crate) fn configured(&self, name: &str, address: SocketAddr, answers: Answers) -> String {
        format!("[servers.{name}]\nurl = 'http://{address}/{}'\n", answers.name())
    }

    /// Accepted connections and open streams, without the one that queries.
    pub(crate) fn seen(&self) -> io::Result<(usize, usize)> {
        let answer = Bare::connect(self.addresses[0], 1)?.get(SEEN)?;
        let (accepted, streams) = serde_json::from_slice::<(usize, usize)>(&answer)?;
        Ok((accepted - 1, streams))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
