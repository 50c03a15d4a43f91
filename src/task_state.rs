//! Task objects of servers: their state, and the task support that a server declares. Pure.
//!
//! Source: MCP 2025-11-25, `basic/utilities/tasks`; extension `io.modelcontextprotocol/tasks`, 2026-07-28.

use std::time::Duration;

use bytes::Bytes;

use crate::era;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS};

/// Maximum length of a task id in bytes of JSON. A task with a longer id is forwarded but not tracked.
const MAX_ID_LEN: usize = 1 << 10;
/// Maximum size in bytes of a task object that is kept for `tasks/list`. Of a larger one only the end is tracked.
const MAX_OBJECT_LEN: usize = 64 << 10;

/// A request about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskOperation {
    /// `tasks/get`
    Get,
    /// `tasks/cancel`
    Cancel,
    /// `tasks/result`
    Result,
}

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskState {
    /// Its id, as text.
    pub id: Bytes,
    /// The same, raw.
    pub raw_id: Bytes,
    /// The task is completed, failed or cancelled.
    pub ended: bool,
    /// How long the server keeps the task after its creation; `None` for no limit.
    pub ttl: Option<Duration>,
    /// The whole object, raw, unless it is too large.
    pub object: Option<Bytes>,
}

impl TaskState {
    /// Reads a legacy task object. `None` without an id that is a string of bounded length.
    #[must_use]
    pub fn read(raw: &Bytes) -> Option<Self> {
        Self::read_with(raw, "ttl")
    }

    /// Reads a modern task object.
    pub(crate) fn read_modern(raw: &Bytes) -> Option<Self> {
        Self::read_with(raw, "ttlMs")
    }

    fn read_with(raw: &Bytes, ttl: &str) -> Option<Self> {
        let [id, status, ttl] = members(raw, ["taskId", "status", ttl]).ok()?;
        // Copied, because they outlive the line.
        let raw_id = id.filter(|id| id.len() <= MAX_ID_LEN).map(|id| Bytes::copy_from_slice(&id))?;
        let ended = matches!(status.as_deref(), Some(br#""completed""# | br#""failed""# | br#""cancelled""#));
        let ttl = ttl.and_then(|ms| serde_json::from_slice::<f64>(&ms).ok());
        let ttl = ttl.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
        let object = (raw.len() <= MAX_OBJECT_LEN).then(|| Bytes::copy_from_slice(raw));
        Some(Self { id: text(&raw_id)?, raw_id, ended, ttl, object })
    }

    /// The task that a legacy result reports as created.
    #[must_use]
    pub fn created(result: &Bytes) -> Option<Self> {
        let [task] = members(result, ["task"]).ok()?;
        Self::read(&task?)
    }
}

/// The error for an unknown task. It is the same for a task of another agent, a denied task, and a task of an ended instance.
#[must_use]
pub fn unknown_task(id: &[u8]) -> ErrorObject {
    ErrorObject::new(INVALID_PARAMS, format!("Unknown task: {}", String::from_utf8_lossy(id)))
}

/// The task support that a server has declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TaskSupport {
    /// The server creates tasks. Other servers get no requests about tasks.
    pub(crate) declared: bool,
    /// Tasks can be cancelled.
    pub(crate) cancels: bool,
    /// Legacy era: a tool call may request a task.
    pub(crate) of_calls: bool,
}

impl TaskSupport {
    /// Reads the raw `extensions` of a modern server.
    ///
    /// Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Capability Negotiation".
    pub(crate) fn of_extensions(extensions: Option<&Bytes>) -> Self {
        let tasks = extensions.and_then(|raw| members(raw, [era::TASKS]).ok()).and_then(|[raw]| raw);
        let declared = tasks.is_some_and(|raw| raw.starts_with(b"{"));
        Self { declared, cancels: declared, of_calls: false }
    }

    /// Reads the raw `tasks` capability of a legacy server.
    pub(crate) fn read(capability: Option<&Bytes>) -> Self {
        let found = capability.map(|raw| members(raw, ["cancel", "requests"]));
        let Some(Ok([cancel, requests])) = found else { return Self::default() };
        let tools = requests.and_then(|raw| members(&raw, ["tools"]).ok()).and_then(|[raw]| raw);
        let calls = tools.and_then(|raw| members(&raw, ["call"]).ok()).and_then(|[raw]| raw);
        let is_present = |raw: Option<Bytes>| raw.is_some_and(|raw| raw[..] != b"null"[..]);
        Self { declared: true, cancels: is_present(cancel), of_calls: is_present(calls) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(result: &'static str) -> Option<(String, bool, Option<u64>)> {
        let state = TaskState::created(&Bytes::from_static(result.as_bytes()))?;
        let ttl = state.ttl.map(|ttl| u64::try_from(ttl.as_millis()).expect("small"));
        Some((String::from_utf8(state.id.to_vec()).expect("text"), state.ended, ttl))
    }

    #[test]
    fn a_task_is_an_object_with_an_id_that_is_a_string() {
        let task = |id: &str, ended, ttl| Some((id.to_owned(), ended, ttl));
        assert_eq!(created(r#"{"task":{"taskId":"a","status":"working","ttl":5}}"#), task("a", false, Some(5)));
        assert_eq!(
            created(r#"{"task":{"ttl":null,"taskId":"\u0061\"","status":"input_required"}}"#),
            task("a\"", false, None)
        );
        for status in ["completed", "failed", "cancelled"] {
            let result = format!(r#"{{"task":{{"taskId":"","status":"{status}","ttl":1e999}}}}"#);
            assert_eq!(TaskState::created(&Bytes::from(result)).map(|state| state.ended), Some(true), "{status}");
        }
        assert_eq!(created(r#"{"task":{"taskId":"a","ttl":-1}}"#), task("a", false, None));
        assert_eq!(created(r#"{"task":{"taskId":"a","ttl":1500.5}}"#), task("a", false, Some(1500)));
        for none in [
            r#"{"content":[]}"#,
            r#"{"task":7}"#,
            r#"{"task":{"taskId":7}}"#,
            r#"{"task":{"taskId":null}}"#,
            r#"{"task":{"status":"working"}}"#,
            r#"{"task":{"taskId":"a","taskId":"b"}}"#,
            r#"{"task":{"taskId":"a","TaskId":"b"}}"#,
            "[]",
        ] {
            assert_eq!(created(none), None, "{none}");
        }
    }

    #[test]
    fn large_task_object_is_dropped() {
        let task = |id: usize, rest: usize| {
            let (id, rest) = ("i".repeat(id), "r".repeat(rest));
            TaskState::read(&Bytes::from(format!(r#"{{"taskId":"{id}","statusMessage":"{rest}"}}"#)))
        };
        assert!(task(1, 1).is_some_and(|state| state.object.is_some()));
        assert!(task(1, MAX_OBJECT_LEN).is_some_and(|state| state.object.is_none()));
        assert!(task(MAX_ID_LEN, 1).is_none());
    }

    #[test]
    fn a_server_says_what_it_does_with_tasks() {
        let read = |raw: &'static str| {
            let support = TaskSupport::read(Some(&Bytes::from_static(raw.as_bytes())));
            (support.declared, support.cancels)
        };
        assert_eq!(read(r#"{"cancel":{}}"#), (true, true));
        assert_eq!((read(r#"{"list":{}}"#), read(r#"{"cancel":null}"#)), ((true, false), (true, false)));
        assert_eq!((read("null"), read("7")), ((false, false), (false, false)));
        assert_eq!(TaskSupport::read(None), TaskSupport::default());
        for (extensions, declared) in [
            (r#"{"io.modelcontextprotocol/tasks":{}}"#, true),
            (r#"{"a/b":{},"io.modelcontextprotocol/tasks":{"x":1}}"#, true),
            (r#"{"io.modelcontextprotocol/tasks":null}"#, false),
            (r#"{"a/b":{}}"#, false),
        ] {
            let support = TaskSupport::of_extensions(Some(&Bytes::from_static(extensions.as_bytes())));
            assert_eq!(support, TaskSupport { declared, cancels: declared, of_calls: false }, "{extensions}");
        }
        assert_eq!(TaskSupport::of_extensions(None), TaskSupport::default());
        for (raw, expected) in [
            (r#"{"requests":{"tools":{"call":{}}}}"#, true),
            (r#"{"requests":{"tools":{"call":null}}}"#, false),
            (r#"{"requests":{"tools":{}}}"#, false),
            (r#"{"requests":7}"#, false),
            ("{}", false),
        ] {
            assert_eq!(TaskSupport::read(Some(&Bytes::from_static(raw.as_bytes()))).of_calls, expected, "{raw}");
        }
    }
}
