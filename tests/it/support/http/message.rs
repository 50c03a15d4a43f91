//! One request as it came, one response as it is to be written.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde_json::Value;

use super::stream::{Pieces, Writer, stream};

/// A request with its body.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The number of its connection, from 0.
    pub(crate) connection: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    query: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The next one on a connection; `None` at its end.
    pub(super) fn read(stream: &mut impl BufRead, connection: usize) -> io::Result<Option<Self>> {
        let Some(first) = line(stream)? else { return Ok(None) };
        let mut words = first.split(' ');
        let (Some(method), Some(target), Some(_)) = (words.next(), words.next(), words.next()) else {
            return Err(io::Error::other(format!("no request: {first}")));
        };
        // A request to a proxy. Source: RFC 9112, 3.2.2, `absolute-form`.
        let whole = target.strip_prefix("http://").and_then(|rest| rest.find('/').map(|at| &rest[at..]));
        let (path, query) = whole.unwrap_or(target).split_once('?').unwrap_or((whole.unwrap_or(target), ""));
        let mut headers = Vec::new();
        while let Some(line) = line(stream)?.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or_else(|| io::Error::other(format!("no header: {line}")))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let (method, path, query) = (method.to_owned(), path.to_owned(), query.to_owned());
        let mut request = Self { connection, method, path, query, headers, body: Vec::new() };
        request.body = request.read_body(stream)?;
        Ok(Some(request))
    }

    fn read_body(&self, stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if self.header("transfer-encoding") == Some("chunked") {
            loop {
                let length = line(stream)?.and_then(|line| usize::from_str_radix(&line, 16).ok());
                let length = length.ok_or_else(|| io::Error::other("no length of a chunk"))?;
                let start = body.len();
                body.resize(start + length, 0);
                stream.read_exact(&mut body[start..])?;
                line(stream)?;
                if length == 0 {
                    return Ok(body);
                }
            }
        }
        let length = self.header("content-length").map_or(0, |length| length.parse().expect("a length"));
        body.resize(length, 0);
        stream.read_exact(&mut body)?;
        Ok(body)
    }

    /// The value of a header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    /// The head as text, for checks of forbidden contents.
    pub(crate) fn head(&self) -> String {
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("{} {}?{}\n{headers}", self.method, self.path, self.query)
    }

    /// The parameters of the query.
    pub(crate) fn query(&self) -> BTreeMap<String, String> {
        pairs(self.query.as_bytes())
    }

    /// The body, if it is a form.
    pub(crate) fn form(&self) -> BTreeMap<String, String> {
        pairs(&self.body)
    }

    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The method of the JSON-RPC message in the body; empty for anything else.
    pub(crate) fn rpc(&self) -> String {
        self.json()["method"].as_str().unwrap_or_default().to_owned()
    }
}

fn line(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let ended = line.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line).to_owned());
    match ended {
        None if !line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
        ended => Ok(ended),
    }
}

fn pairs(text: &[u8]) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(text).into_owned().collect()
}

/// A response of a handler.
pub(crate) struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

enum Body {
    /// With its length.
    Whole(Vec<u8>),
    /// In chunks of this many bytes.
    Chunks(Vec<u8>, usize),
    /// Until the connection ends.
    UntilEnd(Vec<u8>),
    /// In chunks from a [`Writer`].
    Stream(Pieces),
    /// These bytes without a head; then the connection ends.
    Raw(Vec<u8>),
    /// Bytes from a [`Writer`], without a head.
    RawStream(Pieces),
    /// Closes the connection, and fails the test at its end.
    Unexpected,
}

/// The state of the connection after a response.
pub(super) enum After {
    NextRequest,
    End,
    /// The request was unexpected.
    Failed,
}

impl Response {
    /// With no body.
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::Whole(Vec::new()) }
    }

    /// 200 with a body of this type.
    pub(crate) fn body(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { body: Body::Whole(body.into()), ..Self::status(200) }.header("content-type", content_type)
    }

    /// 200 with JSON.
    pub(crate) fn json(value: &Value) -> Self {
        Self::body("application/json", value.to_string())
    }

    /// 200 with an event stream, and its writer.
    pub(crate) fn events() -> (Writer, Self) {
        Self::stream("text/event-stream")
    }

    /// 200 with a body of this type, and its writer.
    pub(crate) fn stream(content_type: &str) -> (Writer, Self) {
        let (writer, pieces) = stream();
        (writer, Self { body: Body::Stream(pieces), ..Self::body(content_type, "") })
    }

    /// The whole response as bytes with its head; then the connection is closed.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { body: Body::Raw(bytes.into()), ..Self::status(0) }
    }

    /// The whole response, written by the test.
    pub(crate) fn raw_stream() -> (Writer, Self) {
        let (writer, pieces) = stream();
        (writer, Self { body: Body::RawStream(pieces), ..Self::status(0) })
    }

    /// Closes the connection without a response.
    pub(crate) fn disconnect() -> Self {
        Self::raw("")
    }

    /// For requests that must not come: closes the connection and fails the test.
    pub(crate) fn unexpected() -> Self {
        Self { body: Body::Unexpected, ..Self::status(0) }
    }

    pub(crate) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The body in chunks of so many bytes.
    pub(crate) fn chunked(self, size: usize) -> Self {
        Self { body: Body::Chunks(self.whole(), size), ..self }
    }

    /// The body without a length: it ends with the connection.
    pub(crate) fn until_end(self) -> Self {
        Self { body: Body::UntilEnd(self.whole()), ..self }
    }

    fn whole(&self) -> Vec<u8> {
        match &self.body {
            Body::Whole(body) => body.clone(),
            _ => panic!("a body that is not whole"),
        }
    }

    /// Writes it to a connection. `is_there` checks whether the peer is connected.
    pub(super) fn write(mut self, out: &mut impl Write, is_there: impl Fn() -> bool) -> io::Result<After> {
        let closes = self.headers.iter().any(|(name, value)| name == "connection" && value == "close");
        let mut after = if closes { After::End } else { After::NextRequest };
        match std::mem::replace(&mut self.body, Body::Unexpected) {
            Body::Whole(body) => {
                // One write, as servers do. 204 has no length.
                let length =
                    if self.status == 204 { String::new() } else { format!("content-length: {}\r\n", body.len()) };
                out.write_all(&[self.head(&length).as_bytes(), &body].concat())?;
            }
            Body::Chunks(body, size) => {
                out.write_all(self.head("transfer-encoding: chunked\r\n").as_bytes())?;
                body.chunks(size).try_for_each(|chunk| write_chunk(out, chunk))?;
                out.write_all(b"0\r\n\r\n")?;
            }
            Body::UntilEnd(body) => {
                out.write_all(self.head("connection: close\r\n").as_bytes())?;
                out.write_all(&body)?;
                after = After::End;
            }
            Body::Stream(pieces) => {
                out.write_all(self.head("transfer-encoding: chunked\r\n").as_bytes())?;
                if !pieces.write_to(is_there, |bytes| write_chunk(out, bytes))? {
                    return Ok(After::End);
                }
                out.write_all(b"0\r\n\r\n")?;
            }
            Body::Raw(bytes) => {
                out.write_all(&bytes)?;
                after = After::End;
            }
            Body::RawStream(pieces) => {
                pieces.write_to(is_there, |bytes| out.write_all(bytes))?;
                after = After::End;
            }
            Body::Unexpected => after = After::Failed,
        }
        Ok(after)
    }

    fn head(&self, framing: &str) -> String {
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("HTTP/1.1 {} Whatever\r\n{headers}{framing}\r\n", self.status)
    }
}

fn write_chunk(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = format!("{:x}\r\n", bytes.len());
    out.write_all(&[length.as_bytes(), bytes, b"\r\n"].concat())
}
