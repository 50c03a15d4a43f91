//! Tasks in the modern era, where they are an extension: the server decides to create a task for a client that supports tasks.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28.

use bytes::Bytes;
use serde_json::json;

use super::{MISSING_CAPABILITY, TASKS};
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::ErrorObject;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::test_support::bytes;

    #[test]
    fn reported_task_depends_on_the_kind_of_report() {
        for (result, report, expected) in [
            (r#"{"resultType":"task","taskId":"t\n"}"#, TaskReport::Created, Some(r#""t\n""#)),
            (r#"{"resultType":"task","taskId":"t"}"#, TaskReport::State, None),
            (r#"{"resultType":"complete","taskId":"t"}"#, TaskReport::State, Some(r#""t""#)),
            (r#"{"resultType":"complete","taskId":"t"}"#, TaskReport::Created, None),
            (r#"{"resultType":"complete"}"#, TaskReport::State, None),
            ("[]", TaskReport::State, None),
        ] {
            assert_eq!(reported_task_id(&bytes(result), report), expected.map(bytes), "{result}");
        }
    }
}
