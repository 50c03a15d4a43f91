//! The history of calls: one entry for each call that ended, in bounded memory and, if configured, in a file.
//!
//! ```text
//! session ── CompletedCall ─► history ─┬─► queue ─► subscribers
//!                                      └─► queue ─► file thread ─► file, file.1
//! ```
//!
//! The end of a call wakes no task unless there is a subscriber or a file. These take entries in batches.
//!
//! Text of agents is cut to a bounded length. The code that prints it escapes it.

mod file;
mod history;
mod outcome;
pub mod report;
pub(crate) mod running;
pub(crate) mod span;

use std::sync::Arc;
use std::time::SystemTime;

pub use self::history::{CallEvent, Filter, History, Subscription, ToolFilter};
pub use self::outcome::CallOutcome;
pub use crate::clock::Moment;

/// The agent behind a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    /// Number of its connection.
    pub session: u64,
    /// Profile of the socket that it connected to.
    pub profile: Arc<str>,
    /// Process id at connect time, if the kernel reported it.
    pub pid: Option<i32>,
    /// User id at connect time.
    pub uid: u32,
    /// `name version` of its `clientInfo`.
    pub client: Option<String>,
}

/// A call that has ended.
#[derive(Debug)]
pub struct CompletedCall {
    /// When it began.
    pub began: Moment,
    /// When it was answered.
    pub ended: Moment,
    /// The agent that sent it.
    pub caller: Arc<Caller>,
    /// The server it was routed to, if any.
    pub server: Option<Arc<str>>,
    /// The server's own name for the tool. Without a server, the name that the agent sent, cut to a bounded length.
    pub tool: Arc<str>,
    /// How it ended.
    pub outcome: CallOutcome,
    /// Size of the request in bytes.
    pub request_bytes: usize,
    /// Size of the answer in bytes; 0 if there was none.
    pub reply_bytes: usize,
    /// Its raw arguments, cut to a bounded length, if the server has `log_arguments`.
    pub arguments: Option<Box<str>>,
}

/// An entry of the history.
#[derive(Debug)]
pub struct Entry {
    /// Time of day when the call began, by the clock when it ended.
    pub time: SystemTime,
    /// The call.
    pub record: CompletedCall,
}

/// Bytes of a tool name.
const MAX_TOOL_LEN: usize = 128;
/// Bytes of arguments; longer ones are cut.
const MAX_ARGUMENTS_LEN: usize = 4 << 10;
/// Bytes of a request id in the log.
const MAX_ID_LEN: usize = 64;

/// The name of an unknown tool.
pub(crate) fn unknown_tool(name: &[u8]) -> Arc<str> {
    cut(name, MAX_TOOL_LEN).into()
}

pub(crate) fn cut_arguments(raw: &[u8]) -> Box<str> {
    cut(raw, MAX_ARGUMENTS_LEN).into()
}

pub(crate) fn cut_request_id(raw: &[u8]) -> String {
    cut(raw, MAX_ID_LEN)
}

fn cut_tool(name: &str) -> String {
    cut(name.as_bytes(), MAX_TOOL_LEN)
}

/// At most `max_len` bytes of a text, with `…` if it was cut.
fn cut(text: &[u8], max_len: usize) -> String {
    let start = &text[..text.len().min(max_len)];
    let characters = start.utf8_chunks().flat_map(|chunk| chunk.valid().chars());
    let sign = (start.len() < text.len()).then_some('…');
    characters.chain(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        for (text, max_len, expected) in [
            (&b"abc"[..], 3, "abc"),
            (b"abcd", 3, "abc…"),
            (b"", 3, ""),
            ("aé".as_bytes(), 2, "a…"),
            (b"a\x1b[2J\n", 9, "a\u{1b}[2J\n"),
            (b"a\xffb", 9, "ab"),
        ] {
            assert_eq!(cut(text, max_len), expected);
        }
    }
}
