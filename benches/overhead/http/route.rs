//! The three paths to an HTTP server, each with a separate server.

use std::io;
use std::time::Duration;

use super::bare::Bare;
use super::library::Library;
use super::server::{Answers, Server};
use crate::connection::{Connection, Request};
use crate::middle::Middle;
use crate::{cost, procfs, sides};

pub(crate) enum Route {
    Bare { client: Bare, _server: Server },
    Library { client: Box<Library>, _server: Server },
    Mcpd { agent: Connection, daemon: Middle, server: Server },
}

impl Route {
    /// Bare, library, mcpd. `core` is for mcpd and for the servers of the other two paths. mcpd's server runs on `behind`.
    pub(crate) fn all(core: usize, behind: usize) -> io::Result<[Self; 3]> {
        let (bare, library) = (Server::start(core, 1)?, Server::start(core, 1)?);
        Ok([
            Self::Bare { client: Bare::connect(bare.addresses[0], 1)?, _server: bare },
            Self::Library { client: Box::new(Library::new(library.addresses[0])?), _server: library },
            Self::mcpd(core, behind, &Answers::ALL)?,
        ])
    }

    /// mcpd with the server configured once per response format.
    pub(crate) fn mcpd(core: usize, behind: usize, ways: &[Answers]) -> io::Result<Self> {
        let server = Server::start(behind, 1)?;
        let configured = ways.iter().map(|&answers| server.configured(answers.name(), server.addresses[0], answers));
        let mut daemon = Middle::mcpd_with(&configured.collect::<String>(), core)?;
        let mut agent = daemon.connect()?;
        sides::await_tools(&mut agent, ways.len())?;
        Ok(Self::Mcpd { agent, daemon, server })
    }

    /// Microseconds of each call of a tool with a message, in this response format.
    pub(crate) fn times(
        &mut self,
        answers: Answers,
        (tool, message): (&str, &str),
        calls: usize,
    ) -> io::Result<Vec<f64>> {
        let request = self.request(answers, tool, message);
        match self {
            Self::Bare { client, .. } => client.times(&request, answers, calls),
            Self::Library { client, .. } => client.times(&request, answers, calls),
            Self::Mcpd { agent, .. } => cost::times(agent, &request, calls),
        }
    }

    /// Makes `calls` small calls with `window` in flight and returns the total duration.
    pub(crate) fn in_flight(&mut self, calls: usize, window: usize) -> io::Result<Duration> {
        let request = self.request(Answers::Whole, "echo", "hello");
        match self {
            Self::Bare { client, .. } => client.in_flight(&request, calls, window),
            Self::Library { client, .. } => client.in_flight(&request, calls, window),
            Self::Mcpd { agent, .. } => agent.pipeline(&request, calls, window),
        }
    }

    /// The number of connections of the server, without open streams, after repeated concurrent calls.
    pub(crate) fn connections(&mut self, window: usize) -> io::Result<usize> {
        for _ in 0..10 {
            self.in_flight(10 * window, window)?;
        }
        let Self::Mcpd { server, .. } = self else { return Ok(window) };
        let (accepted, streams) = server.seen()?;
        Ok(accepted - streams)
    }

    /// CPU time of mcpd, if it is in the path.
    pub(crate) fn middle_cpu_nanos(&self) -> io::Result<Option<u64>> {
        match self {
            Self::Mcpd { daemon, .. } => procfs::cpu_nanos(daemon.pid()).map(Some),
            Self::Bare { .. } | Self::Library { .. } => Ok(None),
        }
    }

    fn request(&self, answers: Answers, tool: &str, message: &str) -> Request {
        match self {
            Self::Mcpd { .. } => Request::call(&format!("{}__{tool}", answers.name()), message),
            Self::Bare { .. } | Self::Library { .. } => Request::call(tool, message),
        }
    }
}
