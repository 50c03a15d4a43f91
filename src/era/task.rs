//! Tasks: of the protocol in 2025-11-25, an extension of the modern era.
//!
//! In the first a client asks for a task, looks at its state, and takes its result by another request; in the second the server
//! makes one where it wants to, of clients that understand it, and its state has all of it: the result, the error, or what the
//! server needs to know. Source: MCP 2025-11-25, `basic/utilities/tasks`; extension `io.modelcontextprotocol/tasks`, 2026-07-28.

use bytes::Bytes;
use serde_json::json;

use super::{MISSING_CAPABILITY, TASKS, meta};
use crate::jsonrpc::exchange::{cut, cut_nested, exchange, keys, without};
use crate::jsonrpc::members::{NotAnObject, members, text};
use crate::jsonrpc::reply::ErrorObject;
use crate::jsonrpc::splice::{Change, applied};

/// Times are called so in the modern era, and in the legacy one.
const TIMES: [(&str, &str); 2] = [("ttlMs", "ttl"), ("pollIntervalMs", "pollInterval")];
/// What the state of a task has in the modern era only.
const MODERN_ONLY: [&str; 4] = ["resultType", "result", "error", "inputRequests"];
/// By which a legacy result says of which task it is.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// What a modern state has of how far its task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail<'a> {
    /// Its status says all: it goes on, or was cancelled.
    None,
    /// It has ended with this raw result, which its status then says, too.
    Result(&'a Bytes),
    /// It has ended with this raw error.
    Error(&'a Bytes),
    /// It waits for answers: raw `inputRequests`.
    Inputs(&'a Bytes),
    /// It waits for answers to what nobody can be asked yet: its agent has nothing to do.
    Unasked,
}

/// Turns the result of a call that made a task into the one of a legacy server.
///
/// # Errors
/// If it is no object, or its task has no id.
pub fn made_to_legacy(result: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    has_id(result)?;
    let found = cut(result, ["resultType", "_meta"])?;
    let mut changes = found.changes;
    changes.extend(called(result, |(modern, legacy)| (modern, legacy))?);
    let [_, meta] = found.values;
    let meta = meta.and_then(without_server).map_or_else(String::new, |raw| format!(r#","_meta":{raw}"#));
    changes.push(brace(result, memchr::memchr(b'{', result), r#"{"task":{"#));
    changes.push(brace(result, memchr::memrchr(b'}', result), &format!("}}{meta}}}")));
    Ok(changes)
}

/// A raw `_meta` without the server's name. `None` if it has nothing else.
fn without_server(meta: Bytes) -> Option<String> {
    let raw = match cut(&meta, [meta::SERVER]) {
        Ok(found) if found.values[0].is_some() && !found.leaves_any => return None,
        Ok(found) => applied(&meta, &found.changes).into(),
        Err(NotAnObject) => meta,
    };
    Some(String::from_utf8_lossy(&raw).into_owned())
}

/// Turns the result of a call that made a task into the one of a modern server.
///
/// # Errors
/// If it is no object, or has no task with an id.
pub fn made_to_modern(result: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    let [task] = members(result, ["task"])?;
    let [Some(key)] = keys(result, ["task"])? else { return Err(NotAnObject) };
    let task = task.ok_or(NotAnObject)?;
    has_id(&task)?;
    let shown =
        ["taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "resultType"];
    let mut changes = exchange(result, &shown, r#""resultType":"task""#)?;
    changes.extend(without(&task, &["resultType", "_meta"])?);
    changes.extend(called(&task, |(modern, legacy)| (legacy, modern))?);
    // The task's members become the result's: its key goes, and both of its braces.
    let start = key.as_ptr() as usize - result.as_ptr() as usize;
    let end = task.as_ptr() as usize - result.as_ptr() as usize + 1;
    changes.push(Change { part: result.slice(start..end), replacement: Bytes::new() });
    changes.push(brace(&task, memchr::memrchr(b'}', &task), ""));
    Ok(changes)
}

/// Turns the state of a task into that of a legacy server, where a task whose tool says of itself that it failed has failed.
///
/// # Errors
/// If it is no object.
pub fn state_to_legacy(state: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    let mut changes = cut_nested(state, MODERN_ONLY, ("_meta", meta::SERVER))?.changes;
    changes.extend(called(state, |(modern, legacy)| (modern, legacy))?);
    if let [Some(status), Some(result)] = members(state, ["status", "result"])?
        && text(&status).is_some_and(|status| status[..] == *b"completed")
        && status_of(&result) == "failed"
    {
        changes.push(Change { part: status, replacement: Bytes::from_static(b"\"failed\"") });
    }
    Ok(changes)
}

/// The legacy status of a task that has ended with this raw result of its tool.
#[must_use]
pub fn status_of(result: &Bytes) -> &'static str {
    let said = members(result, ["isError"]).ok().and_then(|[said]| said);
    if said.is_some_and(|said| said[..] == *b"true") { "failed" } else { "completed" }
}

/// Turns the state of a task of a legacy server into that of a modern one.
///
/// A legacy task whose tool says of itself that it failed is `failed` and has a result, a modern one is `completed`; so it is
/// `detail` that decides.
///
/// # Errors
/// If it is no object.
pub fn state_to_modern(state: &Bytes, detail: Detail<'_>) -> Result<Vec<Change>, NotAnObject> {
    let said = |name: &str, raw: &Bytes| format!(r#""{name}":{}"#, String::from_utf8_lossy(raw));
    let (detail, status) = match detail {
        Detail::None => (None, None),
        Detail::Result(raw) => (Some(said("result", raw)), Some("completed")),
        Detail::Error(raw) => (Some(said("error", raw)), Some("failed")),
        Detail::Inputs(raw) => (Some(said("inputRequests", raw)), Some("input_required")),
        Detail::Unasked => (None, Some("working")),
    };
    let kind = r#""resultType":"complete""#.to_owned();
    let members_first = [kind].into_iter().chain(detail).collect::<Vec<_>>().join(",");
    let mut changes = exchange(state, &MODERN_ONLY, &members_first)?;
    changes.extend(called(state, |(modern, legacy)| (legacy, modern))?);
    if let ([Some(part)], Some(status)) = (members(state, ["status"])?, status) {
        changes.push(Change { part, replacement: format!("\"{status}\"").into() });
    }
    Ok(changes)
}

/// What the state of a task says about its end, or the way there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It goes on.
    Working,
    /// It waits for answers: raw `inputRequests`, in the modern era.
    InputRequired(Option<Bytes>),
    /// It has ended with this raw result, or, in the legacy era, with one that is still to be asked for.
    Completed(Option<Bytes>),
    /// It has ended with this raw error, or, in the legacy era, with an error or a result that is still to be asked for.
    Failed(Option<Bytes>),
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// Of a state of either era; `None` if it says nothing that is known.
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

/// What an answer may tell of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// That the call has made it.
    Made,
    /// How it is.
    State,
}

/// The raw id of the task that the result of a modern server tells of, if it does.
#[must_use]
pub fn told_id(result: &Bytes, told: Told) -> Option<Bytes> {
    let [kind, id] = members(result, ["resultType", "taskId"]).ok()?;
    let is_made = kind.as_ref().and_then(text).is_some_and(|kind| kind[..] == *b"task");
    id.filter(|_| is_made == (told == Told::Made))
}

/// Turns the result of a modern task into the answer to a legacy `tasks/result` about the task with this raw id.
///
/// # Errors
/// If it, or its `_meta`, is no object.
pub fn result_to_legacy(result: &Bytes, id: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    related(result, &["resultType", "ttlMs", "cacheScope"], id)
}

/// Says in the params of what a modern task wants to know that it is the task with this raw id that does.
///
/// # Errors
/// If they, or their `_meta`, are no object.
pub fn question_to_legacy(params: &Bytes, id: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    related(params, &[], id)
}

/// Says in the `_meta` of `object` to which task it belongs, and leaves the server's name and the members `names` out.
fn related(object: &Bytes, names: &[&str], id: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    let related = format!(r#""{RELATED}":{{"taskId":{}}}"#, String::from_utf8_lossy(id));
    let [meta] = members(object, ["_meta"])?;
    let Some(meta) = meta.filter(|raw| raw[..] != b"null"[..]) else {
        return exchange(object, &[names, &["_meta"]].concat(), &format!(r#""_meta":{{{related}}}"#));
    };
    let mut changes = without(object, names)?;
    changes.extend(exchange(&meta, &[RELATED, meta::SERVER], &related)?);
    Ok(changes)
}

/// The id, as text, of the task that a legacy request with these params says it belongs to.
#[must_use]
pub fn related_id(params: &Bytes) -> Option<Bytes> {
    memchr::memmem::find(params, b"related-task")?;
    let [meta] = members(params, ["_meta"]).ok()?;
    let [related] = members(&meta?, [RELATED]).ok()?;
    let [id] = members(&related?, ["taskId"]).ok()?;
    text(&id?)
}

/// Leaves that out, which a modern client learns by where it finds the request, and by another id.
///
/// # Errors
/// If the params, or their `_meta`, are no object.
pub fn question_to_modern(params: &Bytes) -> Result<Vec<Change>, NotAnObject> {
    let [meta] = members(params, ["_meta"])?;
    match meta.map(|meta| cut(&meta, [RELATED])).transpose()? {
        Some(meta) if meta.leaves_any => Ok(meta.changes),
        _ => without(params, &["_meta"]),
    }
}

/// The error for a request that has not declared what it takes to follow a task.
///
/// Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Capability Negotiation".
#[must_use]
pub fn not_declared() -> ErrorObject {
    let data = json!({ "requiredCapabilities": { "extensions": { TASKS: {} } } });
    ErrorObject {
        data: Some(data),
        ..ErrorObject::new(MISSING_CAPABILITY, "the request does not declare the extension for tasks")
    }
}

/// Calls the times of `state` what the other era calls them. One that has both names keeps the one that is understood.
fn called(
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

/// A brace of `object`, which is known to be there, with more beside it.
fn brace(object: &Bytes, at: Option<usize>, replacement: &str) -> Change {
    let part = at.map_or(0..0, |at| at..at + 1);
    Change { part: object.slice(part), replacement: Bytes::copy_from_slice(replacement.as_bytes()) }
}

#[cfg(test)]
mod tests;
