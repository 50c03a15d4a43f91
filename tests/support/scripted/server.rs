//! The main loop over stdin lines and timers, and the protocol methods.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, from_slice, from_str};

use super::client_requests;
use super::flags::{Era, Flags};
use super::helpers;
use super::library;
use super::modern::{self, Request, RequestEra};
use super::modern_tasks;
use super::subscriptions::{self, Subscriptions};
use super::tasks::{self, Tasks};
use super::tool_list;
use super::tools::{self, Call};
use super::wire::{Message, Output, error, quoted, response};

/// A timed action.
pub(crate) enum Later {
    /// Write a line for a call, unless the call is cancelled and the line does not ignore that.
    Answer { call: String, line: String, stubborn: bool },
    /// Take this action once a file exists.
    AtGate { gate: PathBuf, action: Box<Later> },
    /// Answer this call with the parameters of the latest call.
    MixedUpReply(Call),
    /// Register the tool `late`.
    Register,
    /// Complete a task.
    Finish { task: String },
}

impl Later {
    /// Whether it happens although this call is cancelled.
    fn survives(&self, cancelled: &str) -> bool {
        match self {
            Self::Answer { call, stubborn, .. } => *stubborn || *call != cancelled,
            Self::AtGate { action, .. } => action.survives(cancelled),
            Self::Register | Self::Finish { .. } | Self::MixedUpReply(_) => true,
        }
    }
}

/// The server's whole state, owned by the loop.
pub(crate) struct Server {
    pub(crate) flags: Flags,
    pub(crate) output: Output,
    pub(crate) tools: Vec<String>,
    /// Calls that wait for a response of the client, by the id of the request.
    pub(crate) pending_requests: HashMap<String, client_requests::ClientRequest>,
    pub(crate) tasks: Tasks,
    pub(crate) subscriptions: Subscriptions,
    /// The parameters of the last call of `sleep`.
    pub(crate) last_params: String,
    /// The exit code, once the loop must end.
    pub(crate) leave: Option<ExitCode>,
    /// The client has sent `initialize`.
    initialized: bool,
    /// The era of the first request.
    opened: Option<Era>,
    timers: BTreeMap<(Instant, u64), Later>,
    count: u64,
}

impl Server {
    pub(crate) fn new(flags: Flags, output: Output) -> Self {
        let built_in: &[&str] = if flags.bare { &[] } else { tools::BUILT_IN };
        let more = flags.tools.iter().chain(&flags.task_only).cloned();
        let tools = built_in.iter().map(|name| (*name).to_owned()).chain(more);
        let of_tasks = tasks::TOOLS.into_iter().filter(|_| flags.tasks).map(str::to_owned);
        let is_modern = flags.era != Era::Legacy && !flags.bare;
        let of_era = tools::MODERN.into_iter().filter(|_| is_modern).map(str::to_owned);
        Self {
            tools: tools.chain(of_tasks).chain(of_era).collect(),
            flags,
            output,
            pending_requests: HashMap::new(),
            tasks: Tasks::default(),
            subscriptions: Subscriptions::default(),
            last_params: String::new(),
            leave: None,
            initialized: false,
            opened: None,
            timers: BTreeMap::new(),
            count: 0,
        }
    }

    /// Serves until stdin ends or a call ends it.
    pub(crate) fn serve(mut self, lines: &Receiver<Vec<u8>>) -> ExitCode {
        while self.leave.is_none() {
            let wait = self
                .timers
                .first_key_value()
                .map_or(Duration::MAX, |((at, _), _)| at.saturating_duration_since(Instant::now()));
            match lines.recv_timeout(wait) {
                Ok(line) => self.take(&line),
                Err(RecvTimeoutError::Timeout) => self.fire(),
                Err(RecvTimeoutError::Disconnected) => return self.end(),
            }
        }
        self.leave.unwrap_or(ExitCode::SUCCESS)
    }

    /// A unique number.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub(crate) fn after(&mut self, ms: u64, what: Later) {
        let key = (Instant::now() + Duration::from_millis(ms), self.fresh());
        self.timers.insert(key, what);
    }

    /// Takes an action once this file exists.
    pub(crate) fn after_gate(&mut self, gate: PathBuf, action: Later) {
        let wait = if gate.exists() { Duration::ZERO } else { helpers::LOOK_AGAIN };
        let key = (Instant::now() + wait, self.fresh());
        self.timers.insert(key, Later::AtGate { gate, action: Box::new(action) });
    }

    pub(crate) fn list_changed(&mut self) {
        if self.flags.era == Era::Legacy || self.initialized {
            self.output.notify("notifications/tools/list_changed", "{}");
        }
        self.subscriptions.list_changed(&mut self.output, "tools");
    }

    fn end(mut self) -> ExitCode {
        self.output.note("eof");
        if let Some(ms) = self.flags.leave_delay {
            helpers::stay(Duration::from_millis(ms));
            self.output.note("left");
        }
        if self.flags.ignore_eof { helpers::stay_alive() } else { ExitCode::SUCCESS }
    }

    fn fire(&mut self) {
        if let Some((_, action)) = self.timers.pop_first() {
            self.act(action);
        }
    }

    fn act(&mut self, action: Later) {
        match action {
            Later::Answer { line, .. } => self.output.line(&line),
            Later::AtGate { gate, action } if gate.exists() => self.act(*action),
            Later::AtGate { gate, action } => self.after_gate(gate, *action),
            Later::MixedUpReply(mut call) => {
                call.params.clone_from(&self.last_params);
                self.output.line(&call.echo());
            }
            Later::Finish { task } => tasks::finish(self, &task, "completed", false),
            Later::Register => {
                self.tools.push("late".into());
                self.list_changed();
            }
        }
    }

    fn take(&mut self, line: &[u8]) {
        self.output.received(line);
        let Ok(message) = from_slice::<Message>(line) else {
            return;
        };
        let id = message.id.map(RawValue::get);
        match (message.method.as_deref(), id) {
            (Some(method), Some(id)) => self.request(method, id, message.params),
            (Some(method), None) => self.notification(method, message.params),
            (None, Some(id)) => self.answered(id, line),
            (None, None) => {}
        }
    }

    fn request(&mut self, method: &str, id: &str, params: Option<&RawValue>) {
        if self.flags.json_log {
            self.output.line(&format!(r#"{{"level":30,"id":{id},"msg":"request"}}"#));
        }
        let read_params = value(params);
        if method == "initialize" && (self.refuses_version(id, &read_params) || self.refuses_initialize(id)) {
            return;
        }
        let request_era = self.request_era(method, &read_params);
        if method == "server/discover" {
            modern::discover(self, id, &request_era);
            return self.register_later();
        }
        let head = match request_era {
            RequestEra::Refused(refusal) => return self.output.line(&refusal.line(id)),
            RequestEra::Legacy => String::new(),
            RequestEra::Modern => modern::head(&self.flags, method),
        };
        self.serve_request(&Request { id, method, params, head }, &read_params);
    }

    fn refuses_version(&mut self, id: &str, params: &Value) -> bool {
        let Some(only) = self.flags.only_version.as_ref().filter(|only| params["protocolVersion"] != **only) else {
            return false;
        };
        let data = format!(r#","data":{{"supported":["{only}"]}}"#);
        self.output.line(&error(id, -32602, "Unsupported protocol version", &data));
        true
    }

    /// Leaves `initialize` without a result if the flags say so.
    fn refuses_initialize(&mut self, id: &str) -> bool {
        if let Some(code) = self.flags.init_error {
            self.output.line(&error(id, code, "not like that", ""));
        }
        if self.flags.init_fatal {
            self.leave = Some(ExitCode::FAILURE);
        }
        self.flags.init_never || self.flags.init_fatal || self.flags.init_error.is_some()
    }

    /// The era of a request, which the first request may have decided.
    fn request_era(&mut self, method: &str, params: &Value) -> RequestEra {
        let era = match self.flags.era {
            Era::Dual => *self.opened.get_or_insert_with(|| modern::era_of(params)),
            era => era,
        };
        if self.flags.era == Era::Dual && era == Era::Legacy && modern::era_of(params) == Era::Modern {
            let message = "this connection serves the handshake protocol era";
            return RequestEra::Refused(modern::Refusal { code: -32600, message, data: Value::Null });
        }
        modern::request_era(&self.flags, era, method, params)
    }

    fn serve_request(&mut self, request: &Request, params: &Value) {
        let (id, legacy) = (request.id, !request.is_modern());
        match request.method {
            "initialize" if legacy => self.initialize(id, params),
            "ping" if self.flags.no_pings => {}
            "ping" if legacy => self.output.line(&response(id, "{}")),
            "tools/list" if self.flags.list_errors > 0 => {
                self.flags.list_errors -= 1;
                self.output.line(&error(id, -32603, "not yet", ""));
            }
            "tools/list" if self.refuses_page(params) => self.output.line(&error(id, -32603, "no such page", "")),
            "tools/list" if !self.flags.no_tools_capability => {
                if self.flags.announce_on_list {
                    self.list_changed();
                }
                let page = tool_list::page(self, params);
                self.output.line(&request.response(&page));
            }
            "tools/call" => match Call::read(id, request.params, &request.head) {
                Some(call) if self.flags.tasks && !legacy && modern_tasks::creates_task(&call) => {
                    modern_tasks::create(self, &call);
                }
                Some(call) if self.flags.tasks && !legacy && modern_tasks::is_refused(&call) => {
                    self.output.line(&modern_tasks::refusal(id));
                }
                Some(call) => match &params["task"] {
                    Value::Null if legacy && self.flags.task_only.contains(&call.name) => {
                        self.output.line(&error(id, -32601, "it runs as a task only", ""));
                    }
                    Value::Null => tools::call(self, &call),
                    task if self.flags.tasks && legacy => tasks::create(self, &call, &task["ttl"]),
                    _ => tools::call(self, &call),
                },
                None => self.output.line(&error(id, -32602, "params without a name", "")),
            },
            "tasks/get" | "tasks/cancel" | "tasks/result" if self.flags.tasks && legacy => {
                tasks::request(self, request.method, id, params);
            }
            "tasks/get" | "tasks/cancel" | "tasks/update" if self.flags.tasks && !legacy => {
                modern_tasks::request(self, request, params);
            }
            "subscriptions/listen" if !legacy && !self.flags.no_subscriptions => subscriptions::open(self, id, params),
            _ => library::serve(self, request, params),
        }
    }

    fn register_later(&mut self) {
        if let Some(ms) = self.flags.late_tools {
            self.after(ms, Later::Register);
        }
    }

    /// The members of the declared capabilities in this era.
    pub(crate) fn capabilities(&self, era: Era) -> String {
        let mut capabilities = self.flags.library.as_deref().map(library::capabilities).unwrap_or_default();
        if !self.flags.no_tools_capability {
            capabilities.push(r#""tools":{"listChanged":true}"#.to_owned());
        }
        if self.flags.tasks && era == Era::Legacy {
            capabilities.push(tasks::capability(!self.flags.no_task_cancel).to_owned());
        }
        if self.flags.tasks && era == Era::Modern {
            capabilities.push(modern_tasks::CAPABILITY.to_owned());
        }
        capabilities.join(",")
    }

    fn initialize(&mut self, id: &str, params: &Value) {
        self.initialized = true;
        let requested = params["protocolVersion"].as_str().unwrap_or_default().to_owned();
        let version = quoted(self.flags.protocol.as_ref().unwrap_or(&requested));
        let capabilities = self.capabilities(Era::Legacy);
        let server_name = quoted(&self.flags.server_name);
        let instructions = self.flags.instructions.as_deref();
        let instructions = instructions.map(|text| format!(r#","instructions":{}"#, quoted(text))).unwrap_or_default();
        let result = format!(
            r#"{{"protocolVersion":{version},"capabilities":{{{capabilities}}},"serverInfo":{{"name":{server_name},"version":"1.0"}}{instructions}}}"#
        );
        let result = if self.flags.init_garbage { "7" } else { &result };
        let answer = Later::Answer { call: id.to_owned(), line: response(id, result), stubborn: true };
        match self.flags.init_until.clone() {
            Some(gate) => self.after_gate(gate, answer),
            None => self.after(self.flags.init_delay, answer),
        }
    }

    fn refuses_page(&self, params: &Value) -> bool {
        let file = self.flags.one_page_unless.as_ref();
        params["cursor"].is_string() && file.is_some_and(|file| !file.exists())
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/initialized" => {
                if let Some(method) = &self.flags.ask_at_start {
                    let line = format!(r#"{{"jsonrpc":"2.0","id":"at start","method":{}}}"#, quoted(method));
                    self.output.line(&line);
                }
                self.register_later();
            }
            "notifications/cancelled" => {
                let cancelled = value(params)["requestId"].to_string();
                self.subscriptions.cancel(&cancelled);
                self.timers.retain(|_, later| later.survives(&cancelled));
            }
            _ => {}
        }
    }

    fn answered(&mut self, id: &str, line: &[u8]) {
        if let Some(request) = self.pending_requests.remove(id)
            && !self.pending_requests.values().any(|other| other.call == request.call)
        {
            let answer: Value = from_slice(line).expect("it was read before");
            client_requests::answered(self, request, &answer);
        }
    }
}

fn value(params: Option<&RawValue>) -> Value {
    params.and_then(|params| from_str(params.get()).ok()).unwrap_or_default()
}
