//! The baseline over HTTP: writes a prepared request and reads the response to its end, parsing only its length.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

use memchr::memmem;

use super::server::Answers;
use crate::connection::Request;

/// Time limit of a response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Persistent connections to one server, each with one request at a time.
pub(crate) struct Bare {
    address: SocketAddr,
    connections: Vec<TcpStream>,
    input: Vec<u8>,
}

impl Bare {
    pub(crate) fn connect(address: SocketAddr, connections: usize) -> io::Result<Self> {
        let connections = (0..connections).map(|_| connect(address)).collect::<io::Result<_>>()?;
        Ok(Self { address, connections, input: Vec::with_capacity(1 << 16) })
    }

    /// Microseconds of each call.
    pub(crate) fn times(&mut self, request: &Request, answers: Answers, calls: usize) -> io::Result<Vec<f64>> {
        let post = self.post(request, answers);
        let time = |_| {
            let start = Instant::now();
            self.connections[0].write_all(&post)?;
            read_answer(&mut self.connections[0], &mut self.input)?;
            Ok(start.elapsed().as_secs_f64() * 1e6)
        };
        (0..calls).map(time).collect()
    }

    /// Makes `calls` calls on `window` connections, one in flight on each. Returns the total duration.
    pub(crate) fn in_flight(&mut self, request: &Request, calls: usize, window: usize) -> io::Result<Duration> {
        let post = self.post(request, Answers::Whole);
        while self.connections.len() < window {
            self.connections.push(connect(self.address)?);
        }
        let start = Instant::now();
        for connection in &mut self.connections[..window] {
            connection.write_all(&post)?;
        }
        for call in 0..calls {
            let connection = &mut self.connections[call % window];
            read_answer(connection, &mut self.input)?;
            if call + window < calls {
                connection.write_all(&post)?;
            }
        }
        Ok(start.elapsed())
    }

    /// Reads the body of a path.
    pub(crate) fn get(&mut self, path: &str) -> io::Result<Vec<u8>> {
        let get = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        self.connections[0].write_all(get.as_bytes())?;
        let body = read_answer(&mut self.connections[0], &mut self.input)?;
        Ok(self.input[body].to_vec())
    }

    /// A request with the headers that an MCP client must send.
    fn post(&self, request: &Request, answers: Answers) -> Vec<u8> {
        let body = request.with_id(1);
        let (path, host, length) = (answers.name(), self.address, body.len());
        let mut post = format!("POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n").into_bytes();
        for (name, value) in super::FIELDS {
            post.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        post.extend_from_slice(format!("\r\n{body}").as_bytes());
        post
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Reads a response into the buffer. Returns the range of its body.
pub(crate) fn read_answer(stream: &mut impl Read, input: &mut Vec<u8>) -> io::Result<Range<usize>> {
    let mut filled = 0;
    loop {
        if filled == input.len() {
            input.resize((2 * filled).max(1 << 16), 0);
        }
        filled += match stream.read(&mut input[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => read,
        };
        let Some(head) = memmem::find(&input[..filled.min(1 << 10)], b"\r\n\r\n").map(|at| at + 4) else { continue };
        let is_whole = match super::content_length(&input[..head]) {
            Some(length) => filled == head + length,
            None => input[..filled].ends_with(b"\r\n0\r\n\r\n"),
        };
        if is_whole {
            if !input.starts_with(b"HTTP/1.1 20") {
                return Err(io::Error::other(String::from_utf8_lossy(&input[..head]).into_owned()));
            }
            return Ok(head..filled);
        }
    }
}
