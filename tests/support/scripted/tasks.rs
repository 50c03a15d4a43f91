//! Tasks of the legacy era: created, reported, awaited, cancelled, finished and forgotten as calls request.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::server::{Later, Server};
use super::tools::Call;
use super::wire::{error, response};

/// The tools that a server with tasks has beside the others.
pub(crate) const TOOLS: [&str; 2] = ["finish_task", "forget_task"];

/// All tasks of a server, by JSON id.
#[derive(Default)]
pub(crate) struct Tasks {
    pub(crate) all: BTreeMap<String, Task>,
    made: u64,
}

pub(crate) struct Task {
    status: String,
    ttl: String,
    result: String,
    /// Does not answer `tasks/get`.
    mute: bool,
    /// Refuses cancellation.
    stubborn: bool,
    /// Open `tasks/result` requests.
    waiting: Vec<String>,
}

/// The declared capability.
pub(crate) fn capability(cancels: bool) -> &'static str {
    if cancels {
        r#""tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#
    } else {
        r#""tasks":{"list":{},"requests":{"tools":{"call":{}}}}"#
    }
}

/// Creates a task for a call. Arguments: `id`; `status`; `early` (notify before the response);
/// `ms` (complete after this time);
/// `delay` (answer after this many ms, even if cancelled).
pub(crate) fn create(server: &mut Server, call: &Call, ttl: &Value) {
    server.tasks.made += 1;
    let id = match &call.arguments["id"] {
        Value::Null => format!("\"task-{}\"", server.tasks.made),
        id => id.to_string(),
    };
    let status = call.arguments["status"].as_str().unwrap_or("working").to_owned();
    let task = Task {
        status,
        ttl: ttl.to_string(),
        result: call.echo_content(),
        mute: call.arguments["mute"] == true,
        stubborn: call.arguments["ignore_cancel"] == true,
        waiting: Vec::new(),
    };
    let created = format!(r#"{{"task":{},"x-beside":1.0}}"#, task.object(&id));
    if call.arguments["early"] == true {
        server.output.notify("notifications/tasks/status", &task.object(&id));
    }
    server.tasks.all.insert(id.clone(), task);
    if let Some(ms) = call.arguments["ms"].as_u64() {
        server.after(ms, Later::Finish { task: id });
    }
    let line = response(&call.id, &created);
    match call.arguments["delay"].as_u64() {
        Some(ms) => server.after(ms, Later::Answer { call: call.id.clone(), line, stubborn: true }),
        None => server.output.line(&line),
    }
}

/// Answers one of `tasks/*`.
pub(crate) fn request(server: &mut Server, method: &str, id: &str, params: &Value) {
    let task_id = params["taskId"].to_string();
    let Some(task) = server.tasks.all.get_mut(&task_id) else {
        return server.output.line(&error(id, -32602, "Failed to retrieve task: Task not found", ""));
    };
    match method {
        "tasks/get" if task.mute => {}
        "tasks/get" => server.output.line(&response(id, &task.object(&task_id))),
        "tasks/cancel" if task.has_ended() => server.output.line(&error(id, -32602, "it has ended", "")),
        "tasks/cancel" if task.stubborn => server.output.line(&error(id, -32603, "it goes on", "")),
        "tasks/cancel" => {
            finish(server, &task_id, "cancelled", true);
            let object = server.tasks.all[&task_id].object(&task_id);
            server.output.line(&response(id, &object));
        }
        "tasks/result" if task.has_ended() => server.output.line(&task.answer_to(id, &task_id)),
        "tasks/result" => task.waiting.push(id.to_owned()),
        _ => server.output.line(&error(id, -32601, "Method not found", "")),
    }
}

/// Ends a task: answers open `tasks/result` requests and, unless `quiet`, sends the status.
pub(crate) fn finish(server: &mut Server, id: &str, status: &str, quiet: bool) {
    let Some(task) = server.tasks.all.get_mut(id) else { return };
    status.clone_into(&mut task.status);
    let object = task.object(id);
    let waiting = if task.has_ended() { std::mem::take(&mut task.waiting) } else { Vec::new() };
    let answers: Vec<_> = waiting.iter().map(|request| task.answer_to(request, id)).collect();
    if !quiet {
        server.output.notify("notifications/tasks/status", &object);
    }
    for line in answers {
        server.output.line(&line);
    }
}

/// The tools `finish_task` and `forget_task`.
pub(crate) fn tool(server: &mut Server, call: &Call) {
    let id = call.arguments["id"].to_string();
    if call.name == "forget_task" {
        server.tasks.all.remove(&id);
    } else {
        let status = call.arguments["status"].as_str().unwrap_or("completed").to_owned();
        finish(server, &id, &status, false);
    }
    server.output.line(&call.echo());
}

impl Task {
    pub(crate) fn new(status: &str, result: String) -> Self {
        let (status, ttl) = (status.to_owned(), "null".to_owned());
        Self { status, ttl, result, mute: false, stubborn: false, waiting: Vec::new() }
    }

    pub(crate) fn status(&self) -> &str {
        &self.status
    }

    pub(crate) fn result(&self) -> &str {
        &self.result
    }

    /// Ends the task, with another result if there is one.
    pub(crate) fn end(&mut self, status: &str, result: Option<String>) {
        status.clone_into(&mut self.status);
        if let Some(result) = result {
            self.result = result;
        }
    }

    fn has_ended(&self) -> bool {
        ["completed", "failed", "cancelled"].contains(&self.status.as_str())
    }

    /// The task object, with members that a careless relay would alter.
    fn object(&self, id: &str) -> String {
        let (status, ttl) = (json!(self.status), &self.ttl);
        format!(
            r#"{{"zeta":1.10,"status":{status},"taskId":{id},"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":{ttl},"pollInterval":50,"x-vendor":12345678901234567890123}}"#
        )
    }

    /// The response to `tasks/result`.
    fn answer_to(&self, request: &str, id: &str) -> String {
        let related = format!(r#""_meta":{{"io.modelcontextprotocol/related-task":{{"taskId":{id}}}}}"#);
        response(request, &format!(r#"{{"content":[],"structuredContent":{},{related}}}"#, self.result))
    }
}
