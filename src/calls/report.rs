//! The JSON of an entry: one line of `mcpd calls --json` and of the file. Pure data.
//!
//! Fields are added, never renamed; an older `mcpd calls` reads a newer daemon's entries and the other way round.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Entry;
use crate::calls;

/// One call that has ended.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CallReport {
    /// When it began: RFC 3339, in UTC, to the millisecond.
    pub time: String,
    /// Number of the agent's connection, counted since the daemon started.
    pub session: u64,
    /// Process id of the agent at connect time, if the kernel reported it.
    pub pid: Option<i32>,
    /// User id of the agent at connect time.
    pub uid: u32,
    /// `name version` of the agent's `clientInfo`.
    pub client: Option<String>,
    /// Profile of the socket that the agent connected to.
    pub profile: String,
    /// The server it was routed to; absent if there is no such tool for the agent.
    pub server: Option<String>,
    /// The server's own name for the tool. Without a server, the name that the agent sent.
    pub tool: String,
    /// `ok`, `tool_error`, `error`, `cancelled`, `died`, `timed_out`, `overloaded`, `unavailable`, `shutting_down`,
    /// `too_large`, `malformed` or `unknown_tool`.
    pub outcome: String,
    /// The code of a server's own error.
    pub code: Option<i64>,
    /// From the agent's request to the answer, in milliseconds to the microsecond, waiting included.
    pub duration_ms: f64,
    /// Size of the request.
    pub request_bytes: usize,
    /// Size of the answer; 0 if there was none.
    pub reply_bytes: usize,
    /// Its arguments as the agent spelled them, cut to a bounded length; only if its server has `log_arguments`.
    pub arguments: Option<String>,
}

/// One call that has not ended.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunningCallReport {
    /// Number of the agent's connection, counted since the daemon started.
    pub session: u64,
    /// `name version` of the agent's `clientInfo`.
    pub client: Option<String>,
    /// The server it was routed to; absent while it waits for a server to start.
    pub server: Option<String>,
    /// The server's own name for the tool. Without a server, the name that the agent sent.
    pub tool: String,
    /// Time since the agent's request.
    pub running_ms: u64,
}

impl CallReport {
    /// How long ago it ended, by the clock of this machine; `None` if its time cannot be read.
    #[must_use]
    pub fn ended_ago(&self) -> Option<Duration> {
        let began = humantime::parse_rfc3339(&self.time).ok()?;
        let ended = began.checked_add(Duration::try_from_secs_f64(self.duration_ms / 1e3).ok()?)?;
        Some(SystemTime::now().duration_since(ended).unwrap_or_default())
    }
}

impl From<&Entry> for CallReport {
    fn from(Entry { time, record }: &Entry) -> Self {
        Self {
            time: humantime::format_rfc3339_millis(*time).to_string(),
            session: record.caller.session,
            pid: record.caller.pid,
            uid: record.caller.uid,
            client: record.caller.client.clone(),
            profile: record.caller.profile.to_string(),
            server: record.server.as_deref().map(str::to_owned),
            tool: calls::cut_tool(&record.tool),
            outcome: record.outcome.word().to_owned(),
            code: record.outcome.code(),
            duration_ms: milliseconds(record.ended.since(record.began)),
            request_bytes: record.request_bytes,
            reply_bytes: record.reply_bytes,
            arguments: record.arguments.as_deref().map(str::to_owned),
        }
    }
}

/// To the microsecond, which is as much as a reader can use.
pub(super) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::super::{CallOutcome, Caller, CompletedCall, Moment};
    use super::*;

    #[test]
    fn entry_is_serialized_as_documented() {
        let caller = Caller { session: 3, profile: "default".into(), pid: Some(7), uid: 1000, client: None };
        let record = CompletedCall {
            began: Moment(7),
            ended: Moment(250_001_007),
            caller: Arc::new(caller),
            server: Some(Arc::from("files")),
            tool: Arc::from("read"),
            outcome: CallOutcome::Error { code: Some(-5) },
            request_bytes: 10,
            reply_bytes: 20,
            arguments: None,
        };
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_225_599_999);
        let json = serde_json::to_string(&CallReport::from(&Entry { time, record })).expect("it serializes");
        let expected = r#"{"time":"2025-12-31T23:59:59.999Z","session":3,"pid":7,"uid":1000,"profile":"default","#;
        let rest = r#""server":"files","tool":"read","outcome":"error","code":-5,"duration_ms":250.001,"#;
        assert_eq!(json, format!("{expected}{rest}\"request_bytes\":10,\"reply_bytes\":20}}"));
        let call: CallReport = serde_json::from_str(&json).expect("it is one");
        let ago = SystemTime::now().duration_since(time).expect("long ago") - call.ended_ago().expect("it has a time");
        assert!((200..=251).contains(&ago.as_millis()), "{ago:?}, of which the clock has gone on a little");
    }
}
