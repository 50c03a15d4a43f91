//! Calls of the agents: mostly ordinary ones, and every fault that the scripted server can commit.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::servers::{CALM, Servers};
use crate::support::{Era, meta};

/// Maximum size of an ordinary large message. mcpd disconnects an agent with four unread messages of the largest size,
/// so all open responses together must stay below that.
fn large(max_message: usize) -> usize {
    (max_message / 16).min(64 << 10)
}

/// More bytes than a response has around its pad. With this margin it stays under the message cap.
const ENVELOPE: usize = 4 << 10;

/// One call.
pub(crate) struct ToolCall {
    pub(crate) server: &'static str,
    pub(crate) tool: &'static str,
    /// Without the token.
    arguments: Value,
    /// Requests progress.
    pub(crate) progress: bool,
}

/// Junk for a server to write. None of it answers another call.
const JUNK: [&str; 6] = [
    "npm warn deprecated\n\n\r\n",
    "{\"level\":30,\"id\":$ID,\"msg\":\"x\"}\n",
    "[]\n42\nnull\n\u{feff}\n",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":999999,\"progress\":1}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n",
    // Half a message, which makes the following line invalid.
    "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"con",
];

impl ToolCall {
    /// A random call; with `no_faults` an ordinary one.
    pub(crate) fn choose(rng: &mut Rng, no_faults: bool, max_message: usize) -> Self {
        let server = *rng.choice(Servers::names().as_slice()).expect("some");
        // The calm server receives more than its share of calls, and never a fault.
        let server = if rng.u32(..5) == 0 { CALM } else { server };
        // Rare, so that servers run for seconds. Otherwise most calls would only wait for restarts.
        let fault = !no_faults && server != CALM && rng.u32(..50) == 0;
        let kind = rng.u32(if fault { 80..100 } else { 0..80 });
        let (tool, arguments) = match kind {
            0..40 => ("echo", json!({"n": kind})),
            40..60 => ("sleep", json!({"ms": rng.u32(..60)})),
            60..66 => ("sleep", json!({"ms": rng.u32(..1500), "ignore_cancel": rng.bool()})),
            66..72 => ("progress", json!({"n": rng.u32(1..6), "every": rng.u32(..30)})),
            72..76 => ("echo", json!({"pad": rng.usize(..large(max_message))})),
            76..78 => ("echo", json!({"filler": "x".repeat(rng.usize(..large(max_message)))})),
            78 if rng.u32(..10) == 0 => ("echo", json!({"pad": rng.usize(..max_message - ENVELOPE)})),
            78 | 79 => ("dribble", json!({})),
            80 => ("echo", json!({"pad": max_message + 1})),
            81 => ("stderr", json!({"bytes": rng.usize(..2 << 20), "lines": rng.bool()})),
            82..85 => ("raw", json!({"text": *rng.choice(JUNK.as_slice()).expect("some")})),
            85 => ("raw", json!({"hex": "fffe80220a"})),
            86 => ("raw", json!({"text": "junk $FILL\n", "fill": max_message + max_message / 4})),
            87 => ("raw", json!({"text": "{}\n", "times": rng.u32(..20_000)})),
            88 => ("burst_list_changed", json!({"n": rng.u32(..500)})),
            89 => ("mutate_tools", json!({"add": [format!("more_{}", rng.u8(..))]})),
            90..92 => ("duplicate_reply", json!({})),
            92 => ("wrong_id_reply", json!({})),
            93..95 => ("fail", json!({"code": -5})),
            // Sometimes longer than `call_timeout`.
            95 => ("stop_reading", json!({"ms": rng.u32(1..4000)})),
            96 => ("close_stdout", json!({})),
            97 => ("die", json!({"how": "half"})),
            98 => ("die", json!({"how": "kill"})),
            _ => ("die", json!({})),
        };
        Self { server, tool, arguments, progress: tool == "progress" || rng.u32(..8) == 0 }
    }

    /// A large request with a small response.
    pub(crate) fn large(rng: &mut Rng) -> Self {
        let server = *rng.choice(Servers::names().as_slice()).expect("some");
        let arguments = json!({"code": -5, "filler": "x".repeat(rng.usize(..64 << 10))});
        Self { server, tool: "fail", arguments, progress: false }
    }

    /// The line of the call in this era, without a newline. The token comes first.
    pub(crate) fn line(&self, era: Era, id: &str, token: &str) -> String {
        let rest = self.arguments.to_string();
        let comma = if rest == "{}" { "" } else { "," };
        let mut meta = match era {
            Era::Legacy => serde_json::Map::new(),
            Era::Modern => meta(&json!({})),
        };
        if self.progress {
            meta.insert("progressToken".into(), serde_json::from_str(id).expect("JSON"));
        }
        let meta = if meta.is_empty() { String::new() } else { format!(r#","_meta":{}"#, Value::Object(meta)) };
        let (server, tool) = (self.server, self.tool);
        // `fail` returns its message, the other tools return their arguments.
        let message = if tool == "fail" { format!(r#""message":"{token}","#) } else { String::new() };
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{server}__{tool}","arguments":{{{message}"token":"{token}"{comma}{}{meta}}}}}"#,
            &rest[1..]
        )
    }
}
