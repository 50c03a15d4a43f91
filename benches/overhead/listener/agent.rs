//! An agent over HTTP, about as cheap as one over lines: it writes prepared headers, and parses only the length of a response.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use memchr::memmem;

use crate::connection::{Era, Request, check_result_of};
use crate::http::bare::read_answer;

/// What every request begins with, besides the first line.
const FIELDS: &str = "Host: localhost\r\nAccept: application/json, text/event-stream\r\nUser-Agent: bench\r\n";
const SESSION_ID: &[u8] = b"mcp-session-id: ";

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// One connection, with its session.
pub(super) struct HttpAgent {
    stream: Box<dyn Stream>,
    era: Era,
    /// The headers of this agent.
    fields: String,
    output: Vec<u8>,
    input: Vec<u8>,
    sent: u64,
}

/// A request with its headers.
pub(super) struct Post {
    head: String,
    request: Request,
}

impl HttpAgent {
    /// Opens a session, with these headers besides [`FIELDS`].
    pub(super) fn open(stream: impl Read + Write + 'static, era: Era, fields: &str) -> io::Result<Self> {
        let (stream, fields) = (Box::new(stream), format!("{FIELDS}{fields}"));
        let mut agent = Self { stream, era, fields, output: Vec::new(), input: Vec::new(), sent: 0 };
        if era == Era::Modern {
            agent.fields.push_str("MCP-Protocol-Version: 2026-07-28\r\n");
            return Ok(agent);
        }
        agent.call(&agent.post("initialize", None, Request::initialize()))?;
        let id = memmem::find(&agent.input, SESSION_ID).map(|at| &agent.input[at + SESSION_ID.len()..]);
        let id = id.and_then(|id| id.split(|byte| *byte == b'\r').next()).map(String::from_utf8_lossy);
        let id = id.ok_or_else(|| io::Error::other("there is no session"))?;
        agent.fields.push_str(&format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n"));
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        agent.write(&head(&agent.fields), initialized)?;
        read_answer(&mut agent.stream, &mut agent.input)?;
        Ok(agent)
    }

    /// A request of this agent.
    pub(super) fn post(&self, method: &str, name: Option<&str>, request: Request) -> Post {
        let mut fields = self.fields.clone();
        if self.era == Era::Modern {
            let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
            fields.push_str(&format!("Mcp-Method: {method}\r\n{name}"));
        }
        Post { head: head(&fields), request }
    }

    fn write(&mut self, head: &str, body: &str) -> io::Result<()> {
        self.output.clear();
        write!(self.output, "{head}{}\r\n\r\n{body}", body.len())?;
        self.stream.write_all(&self.output)
    }

    /// Makes one call and returns its duration.
    pub(super) fn call(&mut self, Post { head, request }: &Post) -> io::Result<Duration> {
        let start = Instant::now();
        self.sent += 1;
        self.write(head, &request.with_id(self.sent))?;
        let body = read_answer(&mut self.stream, &mut self.input)?;
        let duration = start.elapsed();
        check_result_of(&self.input[body], self.sent)?;
        Ok(duration)
    }

    /// Opens the stream of the server's own messages, and waits for its first event.
    pub(super) fn listen(&mut self) -> io::Result<()> {
        if self.era == Era::Modern {
            let request = Request::listen();
            let Post { head, request } = self.post("subscriptions/listen", None, request);
            self.write(&head, &request.with_id(1))?;
        } else {
            self.stream.write_all(format!("GET /mcp HTTP/1.1\r\n{}\r\n", self.fields).as_bytes())?;
        }
        let mut input = [0; 1 << 10];
        let mut filled = 0;
        while !input[..filled].ends_with(b"\n\n\r\n") {
            filled += match self.stream.read(&mut input[filled..])? {
                0 => return Err(io::Error::other(String::from_utf8_lossy(&input[..filled]).into_owned())),
                read => read,
            };
        }
        Ok(())
    }
}

/// Up to the value of the length.
fn head(fields: &str) -> String {
    format!("POST /mcp HTTP/1.1\r\n{fields}Content-Type: application/json\r\nContent-Length: ")
}
