//! An agent on the socket that works with raw lines and accounts for every message.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::thread::set_thread_res_uid;
use serde_json::{Map, Value, json};

use super::daemon::Daemon;
use super::messages::{initialize_params, notification, request, result};
use super::wait::{WAIT_LIMIT, until};

/// A connection to `mcp.sock`. Dropping it fails the test if a message is left that the test did not read.
pub(crate) struct Agent {
    stream: BufReader<UnixStream>,
    /// Messages received before an awaited one.
    unread: VecDeque<Value>,
    next_id: u64,
    accountable: bool,
    /// Members of `_meta` in each request; empty in the legacy era.
    pub(crate) meta: Map<String, Value>,
}

/// Connects as another user to a socket, without access checks on its directory, as through a bind mount. Requires root.
pub(crate) fn connect_as(uid: u32, path: &Path) -> std::io::Result<UnixStream> {
    as_user(uid, path, |socket| UnixStream::connect(socket))
}

/// Runs `connect` as another user, with a path that leads to the socket as in [`connect_as`].
pub(crate) fn as_user<T: Send + 'static>(
    uid: u32,
    path: &Path,
    connect: impl FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    let handed = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let run = move || {
        let uid = rustix::process::Uid::from_raw(uid);
        set_thread_res_uid(uid, uid, uid)?;
        connect(Path::new(&format!("/proc/thread-self/fd/{}", handed.as_raw_fd())))
    };
    thread::spawn(run).join().expect("it does not panic")
}

impl Agent {
    /// Connects and sends nothing.
    pub(crate) fn connect(daemon: &Daemon) -> Self {
        Self::connect_to(&daemon.agent_socket())
    }

    /// Connects to this socket and sends nothing.
    pub(crate) fn connect_to(socket: &Path) -> Self {
        Self::from_stream(until("the socket accepts", || UnixStream::connect(socket).ok()))
    }

    /// Uses a connected stream and sends nothing.
    pub(crate) fn from_stream(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(WAIT_LIMIT)).expect("not zero");
        stream.set_write_timeout(Some(WAIT_LIMIT)).expect("not zero");
        let (stream, unread) = (BufReader::new(stream), VecDeque::new());
        Self { stream, unread, next_id: 1, accountable: true, meta: Map::new() }
    }

    /// Connects and is ready to call.
    pub(crate) fn ready(daemon: &Daemon) -> Self {
        Self::ready_at(&daemon.agent_socket())
    }

    /// [`Agent::ready`] on another socket.
    pub(crate) fn ready_at(socket: &Path) -> Self {
        let mut agent = Self::connect_to(socket);
        result(&agent.initialize("2025-11-25"));
        agent
    }

    /// [`Agent::ready`] with a declared working directory, as agents in containers declare it.
    pub(crate) fn working_in(daemon: &Daemon, directory: &Path) -> Self {
        let mut agent = Self::connect(daemon);
        result(&agent.initialize_with("2025-11-25", &json!({}), &json!({"mcpd/cwd": directory})));
        agent
    }

    /// [`Agent::ready`] with these client capabilities.
    pub(crate) fn with_capabilities(daemon: &Daemon, capabilities: &Value) -> Self {
        let mut agent = Self::connect(daemon);
        result(&agent.initialize_as("2025-11-25", capabilities));
        agent
    }

    /// Runs the handshake and returns the response to `initialize`.
    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        self.initialize_as(version, &json!({}))
    }

    /// Runs the handshake with these client capabilities and returns the response to `initialize`.
    pub(crate) fn initialize_as(&mut self, version: &str, capabilities: &Value) -> Value {
        self.initialize_with(version, capabilities, &json!({}))
    }

    /// [`Agent::initialize_as`] with these members in `_meta`.
    pub(crate) fn initialize_with(&mut self, version: &str, capabilities: &Value, meta: &Value) -> Value {
        let mut params = initialize_params(version, capabilities);
        params["_meta"] = meta.clone();
        let answer = self.request("initialize", &params);
        if answer["error"].is_null() {
            self.notify("notifications/initialized", &Value::Null);
        }
        answer
    }

    pub(crate) fn send_raw(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).expect("the daemon takes what an agent writes");
    }

    /// [`Agent::send_raw`] while the daemon may close the connection.
    pub(crate) fn try_send_raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// Writes `line` repeatedly until the daemon stops reading. Returns the number of bytes written, at most about `limit`.
    pub(crate) fn send_until_blocked(&mut self, line: &str, limit: usize) -> usize {
        let mut stream = self.stream.get_ref();
        // Far longer than a reading daemon blocks its agents.
        stream.set_write_timeout(Some(Duration::from_millis(500))).expect("not zero");
        let mut taken = 0;
        while taken < limit {
            match stream.write(&line.as_bytes()[taken % line.len()..]) {
                Ok(written) => taken += written,
                Err(_) => break,
            }
        }
        taken
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n"));
    }

    /// Sends a notification, without params if they are null.
    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.send(&notification(method, params));
    }

    /// Cancels a request.
    pub(crate) fn cancel(&mut self, id: &Value) {
        self.notify("notifications/cancelled", &json!({ "requestId": id }));
    }

    /// Sends a request and returns its id.
    pub(crate) fn start_request(&mut self, method: &str, params: &Value) -> Value {
        let id = Value::from(self.next_id);
        self.next_id += 1;
        let params = self.with_meta(params);
        self.send(&request(id.clone(), method, &params));
        id
    }

    /// Sends a request and waits for the response.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.start_request(method, params);
        self.answer(&id)
    }

    /// Sends a call and returns its id.
    pub(crate) fn start_call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.start_request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and waits for the response.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.start_call(tool, arguments);
        self.answer(&id)
    }

    /// The exposed names, in order.
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", &json!({}));
        let tools = result(&answer)["tools"].as_array().expect("an array of tools").clone();
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// The next raw line; `None` at the end of the stream.
    pub(crate) fn next_line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line) {
            Ok(0) => None,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Ok(_) => Some(String::from_utf8(line).expect("nothing but UTF-8 reaches an agent")),
            Err(error) => panic!("no message for {WAIT_LIMIT:?}: {error}; unread: {:?}", self.unread),
        }
    }

    /// The next message, unread ones first.
    pub(crate) fn next(&mut self) -> Value {
        self.unread.pop_front().unwrap_or_else(|| self.receive())
    }

    /// Waits for the response to `id`; other messages stay unread.
    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        let is_answer = |message: &Value| message["id"] == *id && message["method"].is_null();
        let answer = self.find(is_answer);
        let ends = [&answer["result"], &answer["error"]].iter().filter(|end| !end.is_null()).count();
        assert_eq!((ends, &answer["jsonrpc"]), (1, &json!("2.0")), "no well-formed response: {answer}");
        answer
    }

    /// Waits for a notification; other messages stay unread.
    pub(crate) fn expect_notification(&mut self, method: &str) -> Value {
        self.find(|message| message["method"] == method && message["id"].is_null())
    }

    /// Drops the unread notifications of this method.
    pub(crate) fn discard_notifications(&mut self, method: &str) {
        self.unread.retain(|message| message["method"] != method);
    }

    /// Waits for a request; other messages stay unread.
    pub(crate) fn expect_request(&mut self, method: &str) -> Value {
        self.find(|message| message["method"] == method && !message["id"].is_null())
    }

    /// Answers a request.
    pub(crate) fn respond(&mut self, request: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Fails if the test has not read every message. The response to a ping comes after all earlier messages.
    pub(crate) fn expect_quiet(&mut self) {
        let method = if self.meta.is_empty() { "ping" } else { "server/discover" };
        result(&self.request(method, &json!({})));
        assert!(self.unread.is_empty(), "unread: {:?}", self.unread);
    }

    /// Stops writing, and still reads.
    pub(crate) fn shut_down_writing(&mut self) {
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
    }

    /// Waits until data arrives, without reading it.
    pub(crate) fn wait_for_more(&self) {
        use rustix::net::{RecvFlags, recv};
        recv(self.stream.get_ref(), &mut [0_u8], RecvFlags::PEEK).expect("more comes");
    }

    /// Waits for the end of the stream.
    pub(crate) fn expect_end(&mut self) {
        let line = self.next_line();
        assert!(line.is_none() && self.unread.is_empty(), "not the end: {line:?}, unread: {:?}", self.unread);
    }

    /// Disconnects at once, with unread messages.
    pub(crate) fn disconnect(mut self) {
        self.accountable = false;
    }

    fn receive(&mut self) -> Value {
        let line =
            self.next_line().unwrap_or_else(|| panic!("the daemon closed the connection; unread: {:?}", self.unread));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("no JSON ({error}): {line}"))
    }

    pub(super) fn find(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        if let Some(found) = self.unread.iter().position(&matches) {
            return self.unread.remove(found).expect("a position in it");
        }
        loop {
            let message = self.receive();
            if matches(&message) {
                return message;
            }
            self.unread.push_back(message);
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if thread::panicking() || !self.accountable {
            return;
        }
        self.shut_down_writing();
        self.expect_end();
    }
}
