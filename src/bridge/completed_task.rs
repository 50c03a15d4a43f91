//! Completed tasks for legacy agents whose modern server has created no task.
//!
//! A modern server decides whether a call becomes a task. A legacy agent that has requested a task accepts nothing else. If the server
//! answers at once, the agent gets a task that has already ended, and mcpd caches the result.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use serde_json::json;

use crate::era::task::{result_to_legacy, status_of};
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::splice::applied;

/// How long a result is cached if the agent names no time.
const DEFAULT_TTL: Duration = Duration::from_secs(60);
/// Maximum time that an agent can name.
const MAX_TTL: Duration = Duration::from_secs(5 * 60);

/// A task that had ended before the agent learned of it.
#[derive(Debug)]
pub(crate) struct CompletedTask {
    /// The whole task object.
    pub(crate) task_object: Bytes,
    /// The answer to `tasks/result`.
    pub(crate) result: Bytes,
    pub(crate) until: Instant,
}

impl CompletedTask {
    /// A task that ends now.
    ///
    /// # Errors
    /// If `result` is no object.
    pub(crate) fn ended_now(id: &str, result: &Bytes, ttl: Duration) -> Result<Self, NotAnObject> {
        Self::new(id, result, ttl, Instant::now(), SystemTime::now())
    }

    /// A task with this id that ended at `time` with this raw result of a modern server. It is cached until `now + ttl`.
    ///
    /// # Errors
    /// If `result` is no object.
    pub(crate) fn new(
        id: &str,
        result: &Bytes,
        ttl: Duration,
        now: Instant,
        time: SystemTime,
    ) -> Result<Self, NotAnObject> {
        let raw_id = Bytes::from(json!(id).to_string());
        let legacy = applied(result, &result_to_legacy(result, &raw_id)?);
        let time = humantime::format_rfc3339_millis(time).to_string();
        let ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let task_object = json!({
            "taskId": id, "status": status_of(result), "createdAt": time, "lastUpdatedAt": time, "ttl": ms,
        });
        Ok(Self { task_object: Bytes::from(task_object.to_string()), result: legacy.into(), until: now + ttl })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.task_object.len() + self.result.len()
    }
}

/// How long the result of a call with these raw params is cached: for the `ttl` of the requested task, within bounds.
pub(crate) fn ttl(params: &Bytes) -> Duration {
    let task = members(params, ["task"]).ok().and_then(|[task]| task);
    let ttl = task.and_then(|task| members(&task, ["ttl"]).ok()).and_then(|[ttl]| ttl);
    match ttl.as_deref() {
        None => DEFAULT_TTL,
        // No limit.
        Some(b"null") => MAX_TTL,
        Some(raw) => {
            let ms = serde_json::from_slice::<f64>(raw).ok();
            let requested = ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
            requested.unwrap_or(DEFAULT_TTL).min(MAX_TTL)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::jsonrpc::test_support::bytes;

    #[test]
    fn result_is_cached_for_the_requested_time_within_bounds() {
        for (params, expected) in [
            (r#"{"task":{}}"#, DEFAULT_TTL),
            (r#"{"task":{"ttl":1500}}"#, Duration::from_millis(1500)),
            (r#"{"task":{"ttl":0}}"#, Duration::ZERO),
            (r#"{"task":{"ttl":null}}"#, MAX_TTL),
            (r#"{"task":{"ttl":1e99}}"#, DEFAULT_TTL),
            (r#"{"task":{"ttl":86400000}}"#, MAX_TTL),
            (r#"{"task":{"ttl":-1}}"#, DEFAULT_TTL),
            (r#"{"task":{"ttl":"long"}}"#, DEFAULT_TTL),
            (r#"{"task":7}"#, DEFAULT_TTL),
            ("{}", DEFAULT_TTL),
        ] {
            assert_eq!(ttl(&bytes(params)), expected, "{params}");
        }
    }

    #[test]
    fn completed_task_has_its_result() {
        let (now, time) = (Instant::now(), SystemTime::UNIX_EPOCH);
        for (result, status, cached) in [
            (
                r#"{"resultType":"complete","content":[],"n":1.10}"#,
                "completed",
                r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t\""}},"content":[],"n":1.10}"#,
            ),
            (
                r#"{"isError":true,"_meta":{"a":1}}"#,
                "failed",
                r#"{"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t\""},"a":1}}"#,
            ),
        ] {
            let task = CompletedTask::new("t\"", &bytes(result), Duration::from_secs(2), now, time).expect("an object");
            assert_eq!(&task.result[..], cached.as_bytes());
            let state: Value = serde_json::from_slice(&task.task_object).expect("JSON");
            let began = "1970-01-01T00:00:00.000Z";
            let expected =
                json!({"taskId": "t\"", "status": status, "createdAt": began, "lastUpdatedAt": began, "ttl": 2000});
            assert_eq!((state, task.until), (expected, now + Duration::from_secs(2)));
            assert_eq!(task.bytes(), task.task_object.len() + task.result.len());
        }
        assert!(CompletedTask::new("t", &bytes("[]"), DEFAULT_TTL, now, time).is_err());
    }
}
