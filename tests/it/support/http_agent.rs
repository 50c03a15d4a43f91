//! An agent over HTTP, byte by byte: what it sends is written by the test, and responses are parsed strictly.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::daemon::Daemon;
use super::modern::meta;
use super::wait::{WAIT_LIMIT, until};

/// The headers of a POST besides its length.
pub(crate) const POST: &str =
    "Host: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
/// The headers of a GET.
pub(crate) const GET: &str = "Host: localhost\r\nAccept: text/event-stream\r\n";

trait Stream: Read + Write + Debug + Send {}
impl Stream for UnixStream {}
impl Stream for TcpStream {}

/// One connection.
#[derive(Debug)]
pub(crate) struct HttpAgent {
    stream: BufReader<Box<dyn Stream>>,
    /// The rest of the body of an event stream.
    is_chunked: bool,
    events: String,
}

/// A response, without its body if that is an event stream.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    /// By name in lower case.
    pub(crate) headers: Map<String, Value>,
    pub(crate) body: String,
}

/// An event of a stream.
#[derive(Debug, PartialEq)]
pub(crate) struct StreamEvent {
    pub(crate) id: Option<String>,
    /// `Null` if it has no data.
    pub(crate) data: Value,
}

impl HttpReply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(Value::as_str)
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The message of a successful response.
    #[track_caller]
    pub(crate) fn message(&self) -> Value {
        assert_eq!((self.status, self.header("content-type")), (200, Some("application/json")), "{self:?}");
        self.json()
    }

    /// The status, and the code of the error.
    #[track_caller]
    pub(crate) fn error(&self) -> (u16, i64) {
        (self.status, self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {self:?}")))
    }
}

impl HttpAgent {
    pub(crate) fn connect(daemon: &Daemon) -> Self {
        Self::connect_to(&daemon.agent_socket())
    }

    pub(crate) fn connect_to(socket: &Path) -> Self {
        Self::from_stream(until("the socket accepts", || UnixStream::connect(socket).ok()))
    }

    pub(crate) fn from_stream(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(WAIT_LIMIT)).expect("not zero");
        stream.set_write_timeout(Some(WAIT_LIMIT)).expect("not zero");
        Self::of(Box::new(stream))
    }

    pub(crate) fn connect_tcp(address: SocketAddr) -> Self {
        let stream = until("the address accepts", || TcpStream::connect(address).ok());
        stream.set_read_timeout(Some(WAIT_LIMIT)).expect("not zero");
        stream.set_write_timeout(Some(WAIT_LIMIT)).expect("not zero");
        Self::of(Box::new(stream))
    }

    fn of(stream: Box<dyn Stream>) -> Self {
        Self { stream: BufReader::new(stream), is_chunked: false, events: String::new() }
    }

    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).expect("mcpd reads");
    }

    /// [`HttpAgent::write`] while mcpd may close the connection.
    pub(crate) fn try_write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.get_mut().write_all(bytes.as_ref()).is_ok()
    }

    /// Sends a request without a body.
    pub(crate) fn request(&mut self, line: &str, headers: &str) -> HttpReply {
        self.write(format!("{line} HTTP/1.1\r\n{headers}\r\n"));
        self.reply()
    }

    /// Sends this body.
    pub(crate) fn start_post(&mut self, path: &str, headers: &str, body: &str) {
        self.write(format!("POST {path} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()));
    }

    pub(crate) fn post(&mut self, path: &str, headers: &str, body: &Value) -> HttpReply {
        self.start_post(path, headers, &body.to_string());
        self.reply()
    }

    /// Opens a legacy session at `path`. Returns the headers of its requests.
    #[track_caller]
    pub(crate) fn initialize(&mut self, path: &str) -> String {
        let reply = self.post(path, POST, &initialize(1));
        assert_eq!(reply.message()["result"]["protocolVersion"], "2025-11-25", "{reply:?}");
        let session = reply.header("mcp-session-id").expect("a session").to_owned();
        let headers = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let accepted = self.post(path, &format!("{POST}{headers}"), &initialized);
        assert_eq!((accepted.status, &*accepted.body), (202, ""));
        headers
    }

    /// Sends a modern request.
    pub(crate) fn start_modern(&mut self, path: &str, id: u64, method: &str, params: &Value) {
        let body = modern(id, method, params);
        self.start_post(path, &modern_headers(&body), &body.to_string());
    }

    pub(crate) fn modern(&mut self, path: &str, id: u64, method: &str, params: &Value) -> HttpReply {
        self.start_modern(path, id, method, params);
        self.reply()
    }

    /// The next response. Its body is read unless it is an event stream.
    #[track_caller]
    pub(crate) fn reply(&mut self) -> HttpReply {
        self.try_reply().expect("a response")
    }

    /// `None` if mcpd closes the connection instead.
    #[track_caller]
    pub(crate) fn try_reply(&mut self) -> Option<HttpReply> {
        let status = self.line()?;
        let status = ["HTTP/1.1 ", "HTTP/1.0 "].iter().find_map(|version| status.strip_prefix(version)?.get(..3));
        let status = status.expect("a status line").parse().expect("a number");
        let mut headers = Map::new();
        while let Some((name, value)) = self.line().expect("an empty line").split_once(": ") {
            headers.insert(name.to_ascii_lowercase(), value.into());
        }
        let mut reply = HttpReply { status, headers, body: String::new() };
        self.is_chunked = reply.header("transfer-encoding") == Some("chunked");
        if let Some(length) = reply.header("content-length") {
            let mut body = vec![0; length.parse().expect("a length")];
            self.stream.read_exact(&mut body).expect("the whole body");
            reply.body = String::from_utf8(body).expect("text");
        }
        Some(reply)
    }

    /// A line without its end; `None` at the end of the stream.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Ok(_) => Some(line.strip_suffix("\r\n").expect("a whole line").to_owned()),
            Err(error) => panic!("no response: {error}"),
        }
    }

    /// The next event of the stream that the last response has begun, without comments. `None` at its end.
    #[track_caller]
    pub(crate) fn event(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some((event, rest)) = self.events.split_once("\n\n") {
                let event = event.to_owned();
                self.events = rest.to_owned();
                if let Some(event) = parse_event(&event) {
                    return Some(event);
                }
                continue;
            }
            assert!(self.is_chunked, "no event stream");
            let size = usize::from_str_radix(&self.line()?, 16).expect("the size of a chunk");
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk).expect("a whole chunk");
            if size == 0 {
                self.is_chunked = false;
                assert_eq!(self.events, "");
                return None;
            }
            self.events.push_str(str::from_utf8(&chunk[..size]).expect("text"));
        }
    }

    /// The messages of the rest of the stream.
    #[track_caller]
    pub(crate) fn messages(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.event()).map(|event| event.data).filter(|data| !data.is_null()).collect()
    }
}

/// `None` for a comment.
fn parse_event(text: &str) -> Option<StreamEvent> {
    let (mut event, mut has_data) = (StreamEvent { id: None, data: Value::Null }, false);
    for line in text.lines() {
        match line.split_once(':').expect("a field") {
            ("id", value) => event.id = Some(value.trim().to_owned()),
            ("data", "") => has_data = true,
            ("data", data) => (event.data, has_data) = (serde_json::from_str(data).expect("JSON"), true),
            ("" | "event", _) => {}
            other => panic!("{other:?}"),
        }
    }
    has_data.then_some(event)
}

pub(crate) fn initialize(id: u64) -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"sampling": {}},
        "clientInfo": {"name": "http-agent", "version": "7"},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params})
}

pub(crate) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A call of a tool.
pub(crate) fn call(id: u64, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({"name": tool, "arguments": arguments}))
}

/// A modern request.
pub(crate) fn modern(id: u64, method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    let given = params["_meta"].take();
    let mut all = meta(&json!({}));
    all.extend(given.as_object().cloned().unwrap_or_default());
    params["_meta"] = all.into();
    request(id, method, &params)
}

/// The headers of a modern request.
pub(crate) fn modern_headers(body: &Value) -> String {
    let method = body["method"].as_str().expect("a method");
    let name = ["name", "uri"].iter().find_map(|member| body["params"][member].as_str());
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    format!("{POST}MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}")
}
