//! The load client: one blocking connection that checks every response, but outside the measured time.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// Time limit of a response, so that a hanging daemon ends the run.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The era of a peer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    /// The `_meta` member of a request in this era, with a trailing comma.
    fn meta_members(self) -> &'static str {
        match self {
            Self::Legacy => "",
            Self::Modern => {
                r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"#
            }
        }
    }
}

/// A request without its id.
pub(crate) struct Request(String);

impl Request {
    pub(crate) fn new(method: &str, params: &str) -> Self {
        Self(format!(r#","method":"{method}","params":{params}}}{}"#, '\n'))
    }

    pub(crate) fn call(tool: &str, message: &str) -> Self {
        Self::call_of(Era::Legacy, tool, message)
    }

    /// The same in this era.
    pub(crate) fn call_of(era: Era, tool: &str, message: &str) -> Self {
        let meta_members = era.meta_members();
        Self::new("tools/call", &format!(r#"{{{meta_members}"name":"{tool}","arguments":{{"message":"{message}"}}}}"#))
    }

    pub(crate) fn list_of(era: Era) -> Self {
        Self::new("tools/list", &format!("{{{}}}", era.meta_members().trim_end_matches(',')))
    }

    pub(crate) fn initialize() -> Self {
        let params =
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#;
        Self::new("initialize", params)
    }

    /// A modern request for changes of the list of tools.
    pub(crate) fn listen() -> Self {
        let meta_members = Era::Modern.meta_members();
        let params = format!(r#"{{{meta_members}"notifications":{{"toolsListChanged":true}}}}"#);
        Self::new("subscriptions/listen", &params)
    }

    /// The whole message, with its newline.
    pub(crate) fn with_id(&self, id: u64) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id}{}"#, self.0)
    }
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    result: Option<IgnoredAny>,
}

/// Fails unless this is the result of the request `id`.
pub(crate) fn check_result_of(message: &[u8], id: u64) -> io::Result<()> {
    let reply: Reply<'_> = serde_json::from_slice(message)?;
    match reply.id {
        Some(found) if reply.result.is_some() && found.get() == id.to_string() => Ok(()),
        _ => Err(io::Error::other(format!("{:.300} is no result of {id}", String::from_utf8_lossy(message)))),
    }
}

pub(crate) struct Connection {
    reader: BufReader<Box<dyn Read + Send>>,
    writer: Box<dyn Write + Send>,
    sent: u64,
    /// Ids of unanswered requests, oldest first.
    unanswered: VecDeque<u64>,
    line: Vec<u8>,
}

impl Connection {
    pub(crate) fn to_socket(path: &Path) -> io::Result<Self> {
        let writer = UnixStream::connect(path)?;
        let reader = writer.try_clone()?;
        reader.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self::new(Box::new(reader), Box::new(writer)))
    }

    pub(crate) fn to_pipes(stdin: ChildStdin, stdout: ChildStdout) -> Self {
        Self::new(Box::new(stdout), Box::new(stdin))
    }

    fn new(reader: Box<dyn Read + Send>, writer: Box<dyn Write + Send>) -> Self {
        let reader = BufReader::with_capacity(1 << 16, reader);
        Self { reader, writer, sent: 0, unanswered: VecDeque::new(), line: Vec::new() }
    }

    pub(crate) fn initialize(&mut self) -> io::Result<()> {
        self.call(&Request::initialize())?;
        self.writer.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
    }

    /// Makes one call and returns its duration.
    pub(crate) fn call(&mut self, request: &Request) -> io::Result<Duration> {
        let start = Instant::now();
        self.send(request)?;
        loop {
            self.read_line()?;
            let duration = start.elapsed();
            if self.is_answer()? {
                return Ok(duration);
            }
        }
    }

    /// Makes `calls` calls with `window` in flight and returns the total duration.
    pub(crate) fn pipeline(&mut self, request: &Request, calls: usize, window: usize) -> io::Result<Duration> {
        let start = Instant::now();
        for _ in 0..window {
            self.send(request)?;
        }
        for _ in window..calls {
            self.receive()?;
            self.send(request)?;
        }
        for _ in 0..window {
            self.receive()?;
        }
        Ok(start.elapsed())
    }

    /// Whether a call is answered with a result.
    pub(crate) fn succeeds(&mut self, request: &Request) -> io::Result<bool> {
        self.send(request)?;
        self.read_line()?;
        let reply: Reply<'_> = serde_json::from_slice(&self.line)?;
        self.unanswered.clear();
        Ok(reply.result.is_some())
    }

    pub(crate) fn send(&mut self, request: &Request) -> io::Result<()> {
        self.sent += 1;
        self.unanswered.push_back(self.sent);
        self.writer.write_all(request.with_id(self.sent).as_bytes())
    }

    pub(crate) fn receive(&mut self) -> io::Result<()> {
        loop {
            self.read_line()?;
            if self.is_answer()? {
                return Ok(());
            }
        }
    }

    /// The stream of responses, for another thread.
    pub(crate) fn take_answers(&mut self) -> impl Read + Send + use<> {
        std::mem::replace(&mut self.reader, BufReader::new(Box::new(io::empty())))
    }

    /// Writes these bytes, by one system call if the socket has room for them.
    pub(crate) fn write_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)
    }

    /// The last line that was read.
    pub(crate) fn last(&self) -> &[u8] {
        &self.line
    }

    /// Reads the next line.
    pub(crate) fn read_line(&mut self) -> io::Result<()> {
        self.line.clear();
        match self.reader.read_until(b'\n', &mut self.line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Notifications have no id. Responses may come in any order.
    fn is_answer(&mut self) -> io::Result<bool> {
        let reply: Reply<'_> = serde_json::from_slice(&self.line)?;
        let Some(id) = reply.id else { return Ok(false) };
        let id: u64 = serde_json::from_str(id.get())?;
        let place = self.unanswered.iter().position(|&unanswered| unanswered == id);
        if let Some(place) = place.filter(|_| reply.result.is_some()) {
            self.unanswered.remove(place);
            return Ok(true);
        }
        let line = String::from_utf8_lossy(&self.line);
        Err(io::Error::other(format!("{line:.300} is no answer to any of {:?}", self.unanswered)))
    }
}
