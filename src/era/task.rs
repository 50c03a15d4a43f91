//! Translation of tasks, which are part of the protocol in 2025-11-25 and an extension in the modern era.
//!
//! In the legacy era the client requests a task, reads its state, and gets its result with another request. In the modern era the
//! server decides to create a task for a client that supports tasks. The state of a modern task includes its result, its error, or
//! the inputs that the server requires.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`; extension `io.modelcontextprotocol/tasks`, 2026-07-28.

use bytes::Bytes;
use serde_json::json;

use super::{MISSING_CAPABILITY, TASKS, meta};
use crate::jsonrpc::members::{NotAnObject, members, text};
use crate::jsonrpc::object_edit::{cut, cut_nested, keys, replace_members, without};
use crate::jsonrpc::reply::ErrorObject;
use crate::jsonrpc::splice::{Change, applied};

/// Names of times in the modern era and in the legacy era.
const TIMES: [(&str, &str); 2] = [("ttlMs", "ttl"), ("pollIntervalMs", "pollInterval")];
/// Members that the state of a task has in the modern era only.
const MODERN_ONLY: [&str; 4] = ["resultType", "result", "error", "inputRequests"];
/// The key in `_meta` that names the task of a legacy message.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// The part of a modern task state that depends on its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail<'a> {
    /// None: the task is working, or was cancelled.
    None,
    /// The raw result. The status becomes `completed`.
    Result(&'a Bytes),
    /// The raw error. The status becomes `failed`.
    Error(&'a Bytes),
    /// The raw `inputRequests`. The status becomes `input_required`.
    Inputs(&'a Bytes),
    /// The server has not sent its requests yet. The status becomes `working`, because the agent cannot answer anything.
    InputsPending,
}

/// Translates a result that reports a new task into its legacy form.
///
/// # Errors
/// If it is no object, or its task has no id.
pub fn creation_to_legacy(result: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    has_id(result)?;
    let found = cut(result, ["resultType", "_meta"])?;
    let mut changes = found.changes;
    changes.extend(renamed_times(result, |(modern, legacy)| (modern, legacy))?);
    let [_, meta] = found.values;
    let meta = meta.and_then(without_server).map_or_else(String::new, |raw| format!(r#","_meta":{raw}"#));
    changes.push(brace(result, memchr::memchr(b'{', result), r#"{"task":{"#));
    changes.push(brace(result, memchr::memrchr(b'}', result), &format!("}}{meta}}}")));
    Ok(changes)
}

/// A raw `_meta` without the name of the server. `None` if nothing else is in it.
fn without_server(meta: Bytes) -> Option<String> {
    let raw = match cut(&meta, [meta::SERVER]) {
        Ok(found) if found.values[0].is_some() && !found.leaves_any => return None,
        Ok(found) => applied(&meta, &found.changes).into(),
        Err(NotAnObject) => meta,
    };
    Some(String::from_utf8_lossy(&raw).into_owned())
}

/// Translates a result that reports a new task into its modern form.
///
/// # Errors
/// If it is no object, or has no task with an id.
pub fn creation_to_modern(result: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    let [task] = members(result, ["task"])?;
    let [Some(key)] = keys(result, ["task"])? else { return Err(NotAnObject) };
    let task = task.ok_or(NotAnObject)?;
    has_id(&task)?;
    let shown =
        ["taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "resultType"];
    let mut changes = replace_members(result, &shown, r#""resultType":"task""#)?;
    changes.extend(without(&task, &["resultType", "_meta"])?);
    changes.extend(renamed_times(&task, |(modern, legacy)| (legacy, modern))?);
    // Moves the members of the task into the result: removes the key `task` and the braces of its value.
    let start = key.as_ptr() as usize - result.as_ptr() as usize;
    let end = task.as_ptr() as usize - result.as_ptr() as usize + 1;
    changes.push(Change { part: result.slice(start..end), replacement: Bytes::new() });
    changes.push(brace(&task, memchr::memrchr(b'}', &task), ""));
    Ok(changes)
}

/// Translates the state of a task into its legacy form. In the legacy era, a task whose tool reports an error is `failed`.
///
/// # Errors
/// If it is no object.
pub fn state_to_legacy(state: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    let mut changes = cut_nested(state, MODERN_ONLY, ("_meta", meta::SERVER))?.changes;
    changes.extend(renamed_times(state, |(modern, legacy)| (modern, legacy))?);
    if let [Some(status), Some(result)] = members(state, ["status", "result"])?
        && text(&status).is_some_and(|status| status[..] == *b"completed")
        && status_of(&result) == "failed"
    {
        changes.push(Change { part: status, replacement: Bytes::from_static(b"\"failed\"") });
    }
    Ok(changes)
}

/// Translates a notification about the status of a task into its legacy form.
///
/// # Errors
/// If its params are no object.
pub fn notification_to_legacy(line: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    let [Some(part), Some(params)] = members(line, ["method", "params"])? else { return Err(NotAnObject) };
    let mut changes = state_to_legacy(&params)?;
    changes.push(Change { part, replacement: Bytes::from_static(br#""notifications/tasks/status""#) });
    Ok(changes)
}

/// The notification of this state of a task, which is the raw result of a modern `tasks/get`.
///
/// # Errors
/// If the state is no object.
pub fn notification_of(state: &Bytes) -> Result<Bytes, NotAnObject> {
    let params = applied(state, &without(state, &["resultType"])?);
    let params = String::from_utf8_lossy(&params);
    Ok(format!(r#"{{"jsonrpc":"2.0","method":"notifications/tasks","params":{params}}}"#).into())
}

/// The legacy status of a task that has ended with this raw tool result.
#[must_use]
pub fn status_of(result: &Bytes) -> &'static str {
    let is_error = members(result, ["isError"]).ok().and_then(|[raw]| raw);
    if is_error.is_some_and(|raw| raw[..] == *b"true") { "failed" } else { "completed" }
}

/// Translates the state of a legacy task into its modern form. `detail` decides the status, because a task whose tool reports an
/// error is `failed` in the legacy era and `completed` in the modern era.
///
/// # Errors
/// If it is no object.
pub fn state_to_modern(state: &Bytes, detail: Detail<'_>) -> Result<Vec<Change>, NotAnObject> {
    let member = |name: &str, raw: &Bytes| format!(r#""{name}":{}"#, String::from_utf8_lossy(raw));
    let (detail, status) = match detail {
        Detail::None => (None, None),
        Detail::Result(raw) => (Some(member("result", raw)), Some("completed")),
        Detail::Error(raw) => (Some(member("error", raw)), Some("failed")),
        Detail::Inputs(raw) => (Some(member("inputRequests", raw)), Some("input_required")),
        Detail::InputsPending => (None, Some("working")),
    };
    let kind = r#""resultType":"complete""#.to_owned();
    let members_first = [kind].into_iter().chain(detail).collect::<Vec<_>>().join(",");
    let mut changes = replace_members(state, &MODERN_ONLY, &members_first)?;
    changes.extend(renamed_times(state, |(modern, legacy)| (legacy, modern))?);
    if let ([Some(part)], Some(status)) = (members(state, ["status"])?, status) {
        changes.push(Change { part, replacement: format!("\"{status}\"").into() });
    }
    Ok(changes)
}

/// The status of a task, with its modern details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// The task is in progress.
    Working,
    /// The task requires inputs: raw `inputRequests` in the modern era.
    InputRequired(Option<Bytes>),
    /// The raw result; in the legacy era it has to be requested.
    Completed(Option<Bytes>),
    /// The raw error; in the legacy era the error or result has to be requested.
    Failed(Option<Bytes>),
    /// The task was cancelled.
    Cancelled,
}

impl Status {
    /// Reads a state of either era. `None` for an unknown status.
    #[must_use]
    pub fn read(state: &Bytes) -> Option<Self> {
        let [status, result, error, inputs] = members(state, ["status", "result", "error", "inputRequests"]).ok()?;
        Some(match &text(&status?)?[..] {
            b"working" => Self::Working,
            b"input_required" => Self::InputRequired(inputs),
            b"completed" => Self::Completed(result),
            b"failed" => Self::Failed(error),
            b"cancelled" => Self::Cancelled,
            _ => return None,
        })
    }
}

/// How a modern result reports a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskReport {
    /// It says that the call has created the task.
    Created,
    /// It is the state of the task.
    State,
}

/// The raw id of the task that this modern result reports in this way.
#[must_use]
pub fn reported_task_id(result: &Bytes, report: TaskReport) -> Option<Bytes> {
    let [kind, id] = members(result, ["resultType", "taskId"]).ok()?;
    let is_made = kind.as_ref().and_then(text).is_some_and(|kind| kind[..] == *b"task");
    id.filter(|_| is_made == (report == TaskReport::Created))
}

/// Translates the result of a modern task into the legacy response to `tasks/result`.
///
/// # Errors
/// If the result or its `_meta` is no object.
pub fn result_to_legacy(result: &Bytes, id: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    related(result, &["resultType", "ttlMs", "cacheScope"], id)
}

/// Adds the raw id of the task to the params of a modern input request.
///
/// # Errors
/// If the params or their `_meta` are no object.
pub fn input_params_to_legacy(params: &Bytes, id: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    related(params, &[], id)
}

/// Adds the task to the `_meta` of `object`, and removes the name of the server and the members `names`.
fn related(object: &Bytes, names: &[&str], id: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    let related = format!(r#""{RELATED}":{{"taskId":{}}}"#, String::from_utf8_lossy(id));
    let [meta] = members(object, ["_meta"])?;
    let Some(meta) = meta.filter(|raw| raw[..] != b"null"[..]) else {
        return replace_members(object, &[names, &["_meta"]].concat(), &format!(r#""_meta":{{{related}}}"#));
    };
    let mut changes = without(object, names)?;
    changes.extend(replace_members(&meta, &[RELATED, meta::SERVER], &related)?);
    Ok(changes)
}

/// The id, as text, of the task that a legacy request with these params belongs to.
#[must_use]
pub fn related_id(params: &Bytes) -> Option<Bytes> {
    memchr::memmem::find(params, b"related-task")?;
    let [meta] = members(params, ["_meta"]).ok()?;
    let [related] = members(&meta?, [RELATED]).ok()?;
    let [id] = members(&related?, ["taskId"]).ok()?;
    text(&id?)
}

/// Removes the task from the params of a legacy request. A modern client knows the task from the state that has the request.
///
/// # Errors
/// If the params, or their `_meta`, are no object.
pub fn input_params_to_modern(params: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    let [meta] = members(params, ["_meta"])?;
    match meta.map(|meta| cut(&meta, [RELATED])).transpose()? {
        Some(meta) if meta.leaves_any => Ok(meta.changes),
        _ => without(params, &["_meta"]),
    }
}

/// The error for a request that does not declare the extension for tasks.
///
/// Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Capability Negotiation".
#[must_use]
pub fn missing_task_support() -> ErrorObject {
    let data = json!({ "requiredCapabilities": { "extensions": { TASKS: {} } } });
    ErrorObject {
        data: Some(data),
        ..ErrorObject::new(MISSING_CAPABILITY, "the request does not declare the extension for tasks")
    }
}

/// Renames the times of `state` for the other era. If a time has both names, both stay.
fn renamed_times(
    state: &Bytes,
    names: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Result<Vec<Change>, NotAnObject> {
    let mut changes = Vec::new();
    for (old, new) in TIMES.map(names) {
        if let [Some(part), None] = keys(state, [old, new])? {
            changes.push(Change { part, replacement: format!("\"{new}\"").into() });
        }
    }
    Ok(changes)
}

fn has_id(task: &Bytes) -> Result<(), NotAnObject> {
    let [id] = members(task, ["taskId"])?;
    id.as_ref().and_then(text).map(drop).ok_or(NotAnObject)
}

/// Replaces the brace of `object` at this position.
fn brace(object: &Bytes, at: Option<usize>, replacement: &str) -> Change {
    let part = at.map_or(0..0, |at| at..at + 1);
    Change { part: object.slice(part), replacement: Bytes::copy_from_slice(replacement.as_bytes()) }
}

#[cfg(test)]
mod tests;
