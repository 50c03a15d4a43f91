//! The tools.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::value::RawValue;
use serde_json::{Value, from_str, json};

use super::server::{Later, Server};
use super::wire::{error, quoted, response};
use super::{client_requests, helpers, input_rounds, introspect, modern, subscriptions, tasks};

/// The tools listed unless `--bare` is given, in this order.
pub(crate) const BUILT_IN: &[&str] = &[
    "echo",
    "sleep",
    "big",
    "die",
    "raw",
    "dribble",
    "stderr",
    "stop_reading",
    "close_stdout",
    "mutate_tools",
    "burst_list_changed",
    "send_request",
    "duplicate_reply",
    "wrong_id_reply",
    "progress",
    "fail",
    "refuse",
    "invalid_utf8",
    "env",
    "fds",
    "sigmask",
    "cwd",
    "umask",
    "connect",
    "run",
];

/// Further tools in the modern era.
pub(crate) const MODERN: [&str; 4] = ["need_input", "log", "touch", "end_subscriptions"];

/// One `tools/call`, with the raw text it came in.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) params: String,
    /// The leading members of its result, with a trailing comma.
    head: String,
    pub(crate) meta: Value,
    pub(crate) arguments: Value,
}

impl Call {
    pub(crate) fn read(id: &str, params: Option<&RawValue>, head: &str) -> Option<Self> {
        let params = params?.get().to_owned();
        let value: Value = from_str(&params).ok()?;
        Some(Self {
            id: id.to_owned(),
            name: value["name"].as_str()?.to_owned(),
            head: head.to_owned(),
            meta: value["_meta"].clone(),
            arguments: value["arguments"].clone(),
            params,
        })
    }

    pub(crate) fn number(&self, key: &str) -> u64 {
        self.arguments[key].as_u64().unwrap_or_default()
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.arguments[key].as_str().unwrap_or_default()
    }

    pub(crate) fn is_modern(&self) -> bool {
        !self.head.is_empty()
    }

    /// An argument byte for byte.
    pub(crate) fn raw_argument(&self, key: &str) -> Option<String> {
        let params: BTreeMap<String, Box<RawValue>> = from_str(&self.params).ok()?;
        let arguments: BTreeMap<String, Box<RawValue>> = from_str(params.get("arguments")?.get()).ok()?;
        Some(arguments.get(key)?.get().to_owned())
    }

    pub(crate) fn names(&self, key: &str) -> Vec<String> {
        let names = self.arguments[key].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The received parameters byte for byte, the pid, and `pad` bytes of filler.
    pub(crate) fn echo(&self) -> String {
        self.structured(&self.echo_content())
    }

    /// A response with this structured content.
    fn structured(&self, content: &str) -> String {
        self.response(&structured_result(content))
    }

    fn response(&self, result: &str) -> String {
        response(&self.id, &modern::with_head(&self.head, result))
    }

    pub(crate) fn echo_content(&self) -> String {
        let pad = match self.number("pad") as usize {
            0 => String::new(),
            bytes => format!(r#","pad":"{}""#, "x".repeat(bytes)),
        };
        format!(r#"{{"params":{},"pid":{}{pad}}}"#, self.params, std::process::id())
    }
}

/// A response with this structured content.
pub(crate) fn structured(id: &str, content: &str) -> String {
    response(id, &structured_result(content))
}

/// A result with this structured content. What is no object, which structured content must be, becomes its member `value`.
fn structured_result(content: &str) -> String {
    match content.starts_with('{') {
        true => format!(r#"{{"content":[],"structuredContent":{content}}}"#),
        false => format!(r#"{{"content":[],"structuredContent":{{"value":{content}}}}}"#),
    }
}

/// Executes a call.
pub(crate) fn call(server: &mut Server, call: &Call) {
    let id = &call.id;
    match call.name.as_str() {
        "sleep" => sleep(server, call),
        "big" => server.output.line(&call.structured(&quoted(&"x".repeat(call.number("bytes") as usize)))),
        "die" => die(server, call),
        "raw" => raw(server, call),
        // Its argument `result`, byte for byte.
        "answer" => {
            server.output.line(&call.response(&call.raw_argument("result").unwrap_or_else(|| "{}".to_owned())));
        }
        "dribble" => server.output.dribble(&call.echo()),
        "stderr" => stderr(server, call),
        "stop_reading" => stop_reading(server, call),
        "close_stdin" => drop(helpers::stay_without_stdin()),
        "close_stdout" => drop(helpers::stay_without_stdout()),
        "mutate_tools" => mutate_tools(server, call),
        "burst_list_changed" => {
            (0..call.number("n")).for_each(|_| server.list_changed());
            server.output.line(&call.echo());
        }
        "send_request" => client_requests::tool(server, call),
        "duplicate_reply" => (0..2).for_each(|_| server.output.line(&call.echo())),
        "wrong_id_reply" => wrong_id_reply(server, call),
        "progress" => progress(server, call),
        "fail" => fail(server, call),
        "refuse" => {
            let text = Some(call.text("text")).filter(|text| !text.is_empty()).unwrap_or("no");
            let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
            server.output.line(&call.response(&result.to_string()));
        }
        "invalid_utf8" => {
            server.output.raw(&[br#"{"jsonrpc":"2.0","id":"#, id.as_bytes(), b",\"result\":\"\xff\xfe\"}\n"].concat());
        }
        "need_input" if call.is_modern() => input_rounds::tool(server, call),
        "log" if call.is_modern() => modern::log(server, call),
        "touch" => subscriptions::touch(server, call),
        "end_subscriptions" => subscriptions::end(server, call),
        "finish_task" | "forget_task" if server.flags.tasks => tasks::tool(server, call),
        name => match introspect::report(name, &call.arguments) {
            Some(report) => server.output.line(&call.structured(&report.to_string())),
            None if server.tools.contains(&call.name) => server.output.line(&call.echo()),
            None => server.output.line(&error(id, -32602, "the scripted server has no such tool", "")),
        },
    }
}

/// Answers after `ms`, or once the file `until` exists.
fn sleep(server: &mut Server, call: &Call) {
    let gate = call.arguments["until"].as_str().map(PathBuf::from);
    if server.flags.one_at_a_time {
        match gate {
            Some(gate) => helpers::stay_until(&gate),
            None => helpers::stay(Duration::from_millis(call.number("ms"))),
        }
        return server.output.line(&call.echo());
    }
    if server.flags.mix_up_replies {
        server.last_params.clone_from(&call.params);
        return server.after(call.number("ms"), Later::MixedUpReply(call.clone()));
    }
    let stubborn = call.arguments["ignore_cancel"] == true;
    let answer = Later::Answer { call: call.id.clone(), line: call.echo(), stubborn };
    match gate {
        Some(gate) => server.after_gate(gate, answer),
        None => server.after(call.number("ms"), answer),
    }
}

/// Stops reading for `ms`, until the file `until` exists, or for ever.
fn stop_reading(server: &mut Server, call: &Call) {
    if let Some(gate) = call.arguments["until"].as_str() {
        helpers::stay_until(Path::new(gate));
        return server.output.line(&call.echo());
    }
    match call.number("ms") {
        0 => server.leave = Some(helpers::stay_alive()),
        ms => {
            helpers::stay(Duration::from_millis(ms));
            server.output.line(&call.echo());
        }
    }
}

/// Exits by SIGKILL, in the middle of the response, with an exit code, or without an error after the response or instead of it.
fn die(server: &mut Server, call: &Call) {
    match call.text("how") {
        "kill" => kill_process(getpid(), Signal::KILL).expect("one may kill oneself"),
        "half" => {
            let answer = call.echo();
            server.output.raw(&answer.as_bytes()[..answer.len() / 2]);
        }
        "finish" => server.output.line(&call.echo()),
        _ => {}
    }
    let is_success = matches!(call.text("how"), "finish" | "leave");
    server.leave = Some(if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE });
}

/// Writes `text` `times` times, with `$ID` replaced by the call's id and `$FILL` by `fill` bytes, then the bytes of `hex`.
fn raw(server: &mut Server, call: &Call) {
    let text = call.text("text").replace("$ID", &call.id).replace("$FILL", &"x".repeat(call.number("fill") as usize));
    let times = call.arguments["times"].as_u64().unwrap_or(1);
    (0..times).for_each(|_| server.output.raw(text.as_bytes()));
    server.output.raw(&unhex(call.text("hex")));
    if call.arguments["answer"] != false {
        server.output.line(&call.echo());
    }
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Writes the line `text` `times` times to stderr, or `bytes` of filler, in `lines` or as one line.
fn stderr(server: &mut Server, call: &Call) {
    if !call.text("text").is_empty() {
        let times = call.arguments["times"].as_u64().unwrap_or(1);
        let line = format!("{}\n", call.text("text"));
        (0..times).for_each(|_| drop(io::stderr().write_all(line.as_bytes())));
        return server.output.line(&call.echo());
    }
    let filler = if call.arguments["lines"] == true { "complaint\n" } else { "complaint " };
    let text = filler.repeat(call.number("bytes") as usize / filler.len());
    let _ = io::stderr().write_all(text.as_bytes());
    server.output.line(&call.echo());
}

fn mutate_tools(server: &mut Server, call: &Call) {
    let removed = call.names("remove");
    server.tools.retain(|tool| !removed.contains(tool));
    server.tools.extend(call.names("add"));
    server.list_changed();
    server.output.line(&call.echo());
}

/// Responses with unknown ids, then the right response.
fn wrong_id_reply(server: &mut Server, call: &Call) {
    for wrong in ["987654", "-1", "1.5", "\"1\"", "null", "18446744073709551615"] {
        server.output.line(&structured(wrong, r#""stray""#));
    }
    server.output.line(&call.echo());
}

/// `n` progress notifications, `every` ms apart, with the caller's token and optional `message`, then the response.
fn progress(server: &mut Server, call: &Call) {
    let (n, every) = (call.number("n"), call.number("every"));
    let message = call.arguments.get("message").map(|message| format!(r#","message":{message}"#)).unwrap_or_default();
    for step in 1..=n {
        let params =
            format!(r#"{{"progressToken":{},"progress":{step},"total":{n}{message}}}"#, call.meta["progressToken"]);
        let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#);
        server.after(every * step, Later::Answer { call: call.id.clone(), line, stubborn: false });
    }
    server.after(every * n, Later::Answer { call: call.id.clone(), line: call.echo(), stubborn: false });
}

/// The error that the arguments define.
fn fail(server: &mut Server, call: &Call) {
    let code = call.arguments["code"].as_i64().unwrap_or(-32000);
    let data = match &call.arguments["data"] {
        Value::Null => r#","data":{"zeta":1.10,"alpha":12345678901234567890123},"x-vendor":true"#.to_owned(),
        data => format!(r#","data":{data}"#),
    };
    server.output.line(&error(&call.id, code, call.text("message"), &data));
}
