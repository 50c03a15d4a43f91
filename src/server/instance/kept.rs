//! Results that came at once where an agent has asked for a task: the task that such an agent is told of has ended before it was
//! made, and its result is kept here.
//!
//! Whether a call becomes a task a server of the modern era decides by itself; an agent of the legacy one that has asked for a
//! task takes nothing else for an answer. Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Capability Negotiation";
//! MCP 2025-11-25, `basic/utilities/tasks`, "Creating Tasks".

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use serde_json::json;

use super::calls::Unanswered;
use super::crossing::Crossing;
use super::tasks::Task;
use super::{Effect, Instance};
use crate::calls::Outcome;
use crate::chance;
use crate::era::task::{result_to_legacy, status_of};
use crate::jsonrpc::members::{NotAnObject, members};
use crate::jsonrpc::pending::minted;
use crate::jsonrpc::reply::{self, ErrorObject, INVALID_PARAMS};
use crate::jsonrpc::splice::applied;
use crate::server::messages::call::{Call, Failure};
use crate::server::messages::tasks::{MadeTask, TaskAct, TaskNews, TaskState};

/// How long one is kept whose agent does not say.
const USUAL: Duration = Duration::from_secs(60);
/// How long one is kept at most, whatever its agent says.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// One of them.
#[derive(Debug)]
pub(in crate::server) struct Kept {
    /// The whole task object.
    pub(in crate::server) state: Bytes,
    /// What answers `tasks/result`.
    pub(in crate::server) result: Bytes,
    pub(in crate::server) until: Instant,
}

impl Kept {
    /// The raw `result` of a modern server, kept under the text `id` from now on for so long.
    ///
    /// # Errors
    /// If it is no object.
    pub(super) fn new(
        id: &str,
        result: &Bytes,
        ttl: Duration,
        (now, time): (Instant, SystemTime),
    ) -> Result<Self, NotAnObject> {
        let raw_id = Bytes::from(json!(id).to_string());
        let kept = applied(result, &result_to_legacy(result, &raw_id)?);
        let time = humantime::format_rfc3339_millis(time).to_string();
        let ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let state = json!({
            "taskId": id, "status": status_of(result), "createdAt": time, "lastUpdatedAt": time, "ttl": ms,
        });
        Ok(Self { state: Bytes::from(state.to_string()), result: kept.into(), until: now + ttl })
    }

    pub(super) fn bytes(&self) -> usize {
        self.state.len() + self.result.len()
    }
}

impl Instance {
    /// Tells the agent of a task that has ended with the `result` of its call, which the server knew by `id`.
    pub(super) fn keep_result(&mut self, call: Unanswered, crossing: &Crossing, id: &Bytes, result: &Bytes) -> Effect {
        let session = call.reply.key.session;
        let (ttl, times) = (ttl(&crossing.asked.params), (Instant::now(), SystemTime::now()));
        let made = chance::fresh().ok().and_then(|name| Kept::new(&name, result, ttl, times).ok());
        let made = made.and_then(|kept| Some((TaskState::read(&kept.state)?, kept, minted(id)?)));
        let Some((state, kept, request)) = made else { return self.end_failed(call, Failure::AnswerMalformed) };
        self.tasks.make_room_to_keep(session, kept.bytes(), self.wire.max_message());
        self.wire.expire_by(kept.until);
        let answer = [&br#"{"task":"#[..], &kept.state[..], b"}"].concat();
        let mut task = Task::new(&state, call.reply.key, call.reply.to().cloned(), None, None);
        task.kept = Some(Box::new(kept));
        if !self.add_task(request, task) {
            return self.end_failed(call, Failure::TaskIdTaken);
        }
        let instance = call.reply.ticket().map(|ticket| (**ticket).clone());
        let news = TaskNews::Made(MadeTask { state, instance, early: Vec::new(), life: self.tasks.life() });
        let answer = reply::result(call.reply.id(), &answer);
        self.end_answered(call, answer, Outcome::of(Ok(result)), Some(Box::new(news)));
        Effect::Nothing
    }
}

impl Kept {
    /// Answers what is asked of the task.
    pub(super) fn answer(&self, call: Call, act: TaskAct) {
        let id = call.reply.id().clone();
        match act {
            TaskAct::Get => {
                let news = TaskState::read(&self.state).map(|state| Box::new(TaskNews::Seen(state)));
                call.reply.answer_with(reply::result(&id, &self.state), Outcome::Ok, news);
            }
            TaskAct::Result => {
                call.reply.answer(reply::result(&id, &self.result), Outcome::of(Ok(&self.result)));
            }
            TaskAct::Cancel => {
                call.refuse_with(&ErrorObject::new(INVALID_PARAMS, "the task was not cancelled: it has ended"));
            }
        }
    }
}

/// How long the result of a call with these raw params is kept: as long as they want to have its task, within bounds.
pub(super) fn ttl(params: &Bytes) -> Duration {
    let task = members(params, ["task"]).ok().and_then(|[task]| task);
    let ttl = task.and_then(|task| members(&task, ["ttl"]).ok()).and_then(|[ttl]| ttl);
    match ttl.as_deref() {
        None => USUAL,
        // For ever.
        Some(b"null") => LONGEST,
        Some(raw) => {
            let ms = serde_json::from_slice::<f64>(raw).ok();
            let wanted = ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
            wanted.unwrap_or(USUAL).min(LONGEST)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::jsonrpc::made_up::bytes;

    #[test]
    fn a_result_is_kept_as_long_as_its_agent_wants_within_bounds() {
        for (params, expected) in [
            (r#"{"task":{}}"#, USUAL),
            (r#"{"task":{"ttl":1500}}"#, Duration::from_millis(1500)),
            (r#"{"task":{"ttl":0}}"#, Duration::ZERO),
            (r#"{"task":{"ttl":null}}"#, LONGEST),
            (r#"{"task":{"ttl":1e99}}"#, USUAL),
            (r#"{"task":{"ttl":86400000}}"#, LONGEST),
            (r#"{"task":{"ttl":-1}}"#, USUAL),
            (r#"{"task":{"ttl":"long"}}"#, USUAL),
            (r#"{"task":7}"#, USUAL),
            ("{}", USUAL),
        ] {
            assert_eq!(ttl(&bytes(params)), expected, "{params}");
        }
    }

    #[test]
    fn a_task_that_ended_at_once_has_its_result() {
        let (now, time) = (Instant::now(), SystemTime::UNIX_EPOCH);
        for (result, status, kept) in [
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
            let task = Kept::new("t\"", &bytes(result), Duration::from_secs(2), (now, time)).expect("an object");
            assert_eq!(&task.result[..], kept.as_bytes());
            let state: Value = serde_json::from_slice(&task.state).expect("JSON");
            let began = "1970-01-01T00:00:00.000Z";
            let expected =
                json!({"taskId": "t\"", "status": status, "createdAt": began, "lastUpdatedAt": began, "ttl": 2000});
            assert_eq!((state, task.until), (expected, now + Duration::from_secs(2)));
            assert_eq!(task.bytes(), task.state.len() + task.result.len());
        }
        assert!(Kept::new("t", &bytes("[]"), USUAL, (now, time)).is_err());
    }
}
