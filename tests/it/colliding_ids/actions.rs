//! The table of requests. A further kind of request is a further row.

use crate::support::notification;
use serde_json::{Value, json};

/// What both agents have, each for itself.
pub(super) const URIS: [&str; 4] = ["x://a", "x://b", "x://c/d", "x://e"];
/// From the least severe on (MCP 2025-11-25, `server/utilities/logging`).
pub(super) const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// What of a request is not the same in every request of its kind.
pub(super) struct Choice {
    /// No other request has it.
    pub(super) mark: String,
    /// The other agent has the same.
    pub(super) token: Value,
    pub(super) uri: &'static str,
    pub(super) random: u64,
}

/// What else a request means to whoever keeps the account.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    /// No server is to see it.
    Refused,
    /// That much progress, which is told with the mark.
    Progress,
    Subscribe,
    Unsubscribe,
    /// The server says that the resource has changed.
    Update,
    Level,
    /// The server logs.
    Log,
}

/// A kind of request.
pub(super) struct Action {
    /// How often it is chosen.
    pub(super) weight: u32,
    pub(super) method: &'static str,
    pub(super) params: fn(&Choice) -> Value,
    /// Whether an answer is the one to this very request.
    pub(super) is_answer: fn(&Choice, &Value) -> bool,
    pub(super) effect: Effect,
}

/// How many notifications of progress there are.
pub(super) fn steps(choice: &Choice) -> u64 {
    1 + choice.random % 3
}

/// The level that is set, or that is logged with.
pub(super) fn level(choice: &Choice) -> usize {
    choice.random as usize % LEVELS.len()
}

const fn call(weight: u32, params: fn(&Choice) -> Value) -> Action {
    Action { weight, method: "tools/call", params, is_answer: is_echo, effect: Effect::Nothing }
}

pub(super) const TABLE: &[Action] = &[
    call(12, |own| json!({"name": "s__echo", "arguments": {"mark": own.mark}})),
    call(3, |own| json!({"name": "s__echo", "arguments": {"mark": own.mark, "pad": own.random % 5000}})),
    call(12, |own| {
        let arguments = json!({"mark": own.mark, "ms": own.random % 12, "ignore_cancel": own.random % 5 == 0});
        json!({"name": "s__sleep", "arguments": arguments, "_meta": {"progressToken": own.token}})
    }),
    Action {
        effect: Effect::Progress,
        ..call(10, |own| {
            let arguments = json!({"mark": own.mark, "message": own.mark, "n": steps(own), "every": own.random % 5});
            json!({"name": "s__progress", "arguments": arguments, "_meta": {"progressToken": own.token}})
        })
    },
    Action {
        // The server asks back, and is told at once that nobody can be asked.
        is_answer: |_, answer| answer["result"]["structuredContent"]["error"]["code"].is_i64(),
        ..call(3, |own| {
            let arguments = json!({"mark": own.mark, "method": "sampling/createMessage"});
            json!({"name": "s__send_request", "arguments": arguments})
        })
    },
    Action {
        is_answer: |own, answer| answer["error"]["message"] == *own.mark && answer["error"]["code"] == -7,
        ..call(6, |own| json!({"name": "s__fail", "arguments": {"mark": own.mark, "message": own.mark, "code": -7}}))
    },
    Action {
        is_answer: |own, answer| answer["error"]["message"] == format!("Unknown tool: {}", own.mark),
        effect: Effect::Refused,
        ..call(3, |own| json!({"name": own.mark, "arguments": {"mark": own.mark}}))
    },
    Action {
        weight: 8,
        method: "prompts/get",
        params: |own| json!({"name": "s__greet", "arguments": {"mark": own.mark}, "_meta": {"progressToken": own.token}}),
        is_answer: |own, answer| answer["result"]["received"]["arguments"]["mark"] == *own.mark,
        effect: Effect::Nothing,
    },
    Action {
        weight: 8,
        method: "resources/read",
        params: |own| json!({"uri": own.uri, "_meta": {"mark": own.mark, "progressToken": own.token}}),
        is_answer: |own, answer| answer["result"]["received"]["uri"] == own.uri && has_own_mark(own, answer),
        effect: Effect::Nothing,
    },
    Action {
        weight: 3,
        method: "resources/read",
        params: |own| json!({"uri": format!("z://{}", own.mark), "_meta": {"mark": own.mark}}),
        is_answer: |own, answer| answer["error"]["data"]["uri"] == format!("z://{}", own.mark),
        effect: Effect::Refused,
    },
    Action {
        weight: 6,
        method: "completion/complete",
        params: |own| {
            let prompt = own.random % 2 == 0;
            let prompt = if prompt { json!({"type": "ref/prompt", "name": "s__greet"}) } else { Value::Null };
            let reference = if prompt.is_null() { json!({"type": "ref/resource", "uri": "x://{+id}"}) } else { prompt };
            json!({"ref": reference, "argument": {"name": "x", "value": "y"}, "_meta": {"mark": own.mark}})
        },
        is_answer: has_own_mark,
        effect: Effect::Nothing,
    },
    Action {
        weight: 6,
        method: "resources/subscribe",
        params: |own| json!({"uri": own.uri, "_meta": {"mark": own.mark}}),
        is_answer: |own, answer| answer["result"] == json!({}) || has_own_mark(own, answer),
        effect: Effect::Subscribe,
    },
    Action {
        weight: 6,
        method: "resources/unsubscribe",
        params: |own| json!({"uri": own.uri, "_meta": {"mark": own.mark}}),
        is_answer: |own, answer| answer["result"] == json!({}) || has_own_mark(own, answer),
        effect: Effect::Unsubscribe,
    },
    Action {
        effect: Effect::Update,
        ..call(8, |own| {
            let params = json!({"uri": own.uri, "mark": own.mark});
            let line = notification("notifications/resources/updated", &params);
            json!({"name": "s__raw", "arguments": {"mark": own.mark, "text": format!("{line}\n")}})
        })
    },
    Action {
        weight: 3,
        method: "logging/setLevel",
        params: |own| json!({"level": LEVELS[level(own)]}),
        is_answer: |_, answer| answer["result"] == json!({}),
        effect: Effect::Level,
    },
    Action {
        effect: Effect::Log,
        ..call(6, |own| {
            let params = json!({"level": LEVELS[level(own)], "data": own.mark});
            let line = notification("notifications/message", &params);
            json!({"name": "log__raw", "arguments": {"mark": own.mark, "text": format!("{line}\n")}})
        })
    },
];

fn is_echo(own: &Choice, answer: &Value) -> bool {
    answer["result"]["structuredContent"]["params"]["arguments"]["mark"] == *own.mark
}

/// The server gave back what it was asked with.
fn has_own_mark(own: &Choice, answer: &Value) -> bool {
    answer["result"]["received"]["_meta"]["mark"] == *own.mark
}
