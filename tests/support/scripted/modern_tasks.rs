//! Tasks of the modern era, for calls that request one by clients that support them.

use serde_json::{Value, json};

use super::modern::{CAPABILITIES, Request};
use super::server::Server;
use super::tasks::Task;
use super::tools::Call;
use super::wire::{error, response};

/// The capability that a supporting client declares.
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The capability that the server declares.
pub(crate) const CAPABILITY: &str = r#""extensions":{"io.modelcontextprotocol/tasks":{}}"#;

/// Whether a call becomes a task: its argument `as_task` is set, and its client supports tasks.
pub(crate) fn creates_task(call: &Call) -> bool {
    (call.arguments["as_task"] == true || is_one_always(call)) && is_understood(&call.meta)
}

/// Whether a call is refused because its client lacks task support: its argument `as_task` is `always`.
pub(crate) fn is_refused(call: &Call) -> bool {
    is_one_always(call) && !is_understood(&call.meta)
}

fn is_one_always(call: &Call) -> bool {
    call.arguments["as_task"] == "always"
}

/// Whether the client with this `_meta` supports tasks.
pub(crate) fn is_understood(meta: &Value) -> bool {
    meta[CAPABILITIES]["extensions"][EXTENSION].is_object()
}

pub(crate) fn refusal(id: &str) -> String {
    let data = json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}});
    error(id, -32021, "Missing required client capability", &format!(r#","data":{data}"#))
}

/// Sends the status of the task with this JSON id to its subscribers.
pub(crate) fn tell(server: &mut Server, id: &str) {
    let Some(task) = server.tasks.all.get(id) else { return };
    server.subscriptions.task(&mut server.output, id, &members(task, id));
}

/// Creates a task for a call. Arguments: `id`; `ask` (require an input).
pub(crate) fn create(server: &mut Server, call: &Call) {
    let id = call.arguments["id"].to_string();
    let status = if call.arguments["ask"] == true { "input_required" } else { "working" };
    let task = Task::new(status, call.echo_content());
    let members = members(&task, &id);
    server.tasks.all.insert(id, task);
    server.output.line(&response(&call.id, &format!(r#"{{"resultType":"task",{members}}}"#)));
}

/// Answers one of `tasks/*`.
pub(crate) fn request(server: &mut Server, request: &Request, params: &Value) {
    if !is_understood(&params["_meta"]) {
        return server.output.line(&refusal(request.id));
    }
    let id = params["taskId"].to_string();
    let Some(task) = server.tasks.all.get_mut(&id) else {
        return server.output.line(&error(request.id, -32602, "Failed to retrieve task: Task not found", ""));
    };
    let line = match request.method {
        "tasks/get" => request.response(&format!("{{{}}}", members(task, &id))),
        "tasks/cancel" => {
            task.end("cancelled", None);
            request.response("{}")
        }
        "tasks/update" => {
            task.end("completed", Some(params["inputResponses"].to_string()));
            request.response("{}")
        }
        _ => error(request.id, -32601, "Method not found", ""),
    };
    server.output.line(&line);
    if request.method != "tasks/get" {
        tell(server, &id);
    }
}

fn members(task: &Task, id: &str) -> String {
    let more = match task.status() {
        "input_required" => {
            let who = json!({"who": {"method": "elicitation/create", "params": {"message": "Who?"}}});
            format!(r#","inputRequests":{who}"#)
        }
        "completed" => {
            format!(r#","result":{{"content":[],"structuredContent":{}}}"#, task.result())
        }
        "failed" => r#","error":{"code":-32050,"message":"it broke","data":{"n":1.10}}"#.to_owned(),
        _ => String::new(),
    };
    format!(
        r#""zeta":1.10,"taskId":{id},"status":{},"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":50{more}"#,
        json!(task.status())
    )
}
